//! `.metadata`: who the object is, who holds it, who wrote it.

use loopwatch_model::observation::{Manager, ManagerOperation, ObjectView, Owned, OwnerReference};
use loopwatch_model::time::{Span, Timestamp};
use serde::de::{IgnoredAny, MapAccess, SeqAccess};

use super::lint::{Lint, Lints};
use super::pause;
use super::shape::{Field, Flag, Key, Shape, Take, Text, Whole};
use super::switches::{Place, Switches};
use super::words::cut;
use super::{MAX_ITEMS, MAX_NAME};

/// `.metadata`.
pub(super) struct Metadata<'w> {
    pub(super) view: &'w mut ObjectView,
    pub(super) lints: &'w mut Lints,
    pub(super) switches: &'w mut Switches,
    pub(super) bookmark: &'w mut bool,
}

/// The fields of `.metadata` that matter.
#[derive(Clone, Copy, Default)]
enum Name {
    Annotations,
    Created,
    Deleted,
    Finalizers,
    Generation,
    Grace,
    Labels,
    Managers,
    Name,
    Namespace,
    #[default]
    Other,
    Owners,
    Uid,
    Version,
}

impl Name {
    fn of(key: &str) -> Self {
        match key {
            "annotations" => Self::Annotations,
            "creationTimestamp" => Self::Created,
            "deletionTimestamp" => Self::Deleted,
            "deletionGracePeriodSeconds" => Self::Grace,
            "finalizers" => Self::Finalizers,
            "generation" => Self::Generation,
            "labels" => Self::Labels,
            "managedFields" => Self::Managers,
            "name" => Self::Name,
            "namespace" => Self::Namespace,
            "ownerReferences" => Self::Owners,
            "resourceVersion" => Self::Version,
            "uid" => Self::Uid,
            _ => Self::Other,
        }
    }
}

impl<'de> Shape<'de> for Metadata<'_> {
    type Out = ();

    fn other(self) {
        self.lints.add(Lint::Metadata);
    }

    fn null(self) {}

    fn map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<(), A::Error> {
        while let Some(name) = entries.next_key_seed(Key(Name::of))? {
            self.field(name, &mut entries)?;
        }
        Ok(())
    }
}

impl Metadata<'_> {
    fn field<'de, A: MapAccess<'de>>(&mut self, name: Name, entries: &mut A) -> Result<(), A::Error> {
        let (view, lints) = (&mut *self.view, &mut *self.lints);
        match name {
            Name::Name => view.key.name = text(entries, lints, Lint::Name)?,
            Name::Namespace => view.key.namespace = text(entries, lints, Lint::Name)?,
            Name::Uid => view.uid = text(entries, lints, Lint::Uid)?,
            Name::Version => view.version = text(entries, lints, Lint::Version)?,
            Name::Generation => view.generation = whole(entries, lints, Lint::Generation)?.unwrap_or(0).max(0),
            Name::Grace => {
                let seconds = whole(entries, lints, Lint::Grace)?;
                view.grace = seconds.map(|seconds| Span(seconds.max(0).saturating_mul(1000)));
            }
            Name::Created => view.created = time(entries, lints, Lint::Created)?,
            Name::Deleted => view.deleted = time(entries, lints, Lint::Deleted)?,
            Name::Finalizers => entries.next_value_seed(Take(Finalizers { view, lints }))?,
            Name::Owners => entries.next_value_seed(Take(Owners { view, lints }))?,
            Name::Managers => entries.next_value_seed(Take(Managers { view, lints }))?,
            Name::Annotations => {
                let marks = Marks { place: Place::Annotation, lint: Lint::Annotations, lints, switches: self.switches };
                *self.bookmark |= entries.next_value_seed(Take(marks))?;
            }
            Name::Labels => {
                let marks = Marks { place: Place::Label, lint: Lint::Labels, lints, switches: self.switches };
                entries.next_value_seed(Take(marks))?;
            }
            Name::Other => drop(entries.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }
}

fn name_text(text: &str, lints: &mut Lints) -> String {
    let kept = cut(text, MAX_NAME);
    if kept.len() < text.len() {
        lints.add(Lint::LongName);
    }
    kept.to_owned()
}

fn text<'de, A: MapAccess<'de>>(entries: &mut A, lints: &mut Lints, lint: Lint) -> Result<String, A::Error> {
    Ok(match entries.next_value_seed(Text::new(|text: &str| name_text(text, lints)))? {
        Field::Is(text) => text,
        Field::Absent => String::new(),
        Field::Wrong => {
            lints.add(lint);
            String::new()
        }
    })
}

fn whole<'de, A: MapAccess<'de>>(entries: &mut A, lints: &mut Lints, lint: Lint) -> Result<Option<i64>, A::Error> {
    Ok(match entries.next_value_seed(Take(Whole))? {
        Field::Is(value) => Some(value),
        Field::Absent => None,
        Field::Wrong => {
            lints.add(lint);
            None
        }
    })
}

fn time<'de, A: MapAccess<'de>>(entries: &mut A, lints: &mut Lints, lint: Lint) -> Result<Option<Timestamp>, A::Error> {
    Ok(match entries.next_value_seed(Text::new(Timestamp::parse))? {
        Field::Is(Some(time)) => Some(time),
        Field::Absent => None,
        Field::Is(None) | Field::Wrong => {
            lints.add(lint);
            None
        }
    })
}

fn flag<'de, A: MapAccess<'de>>(entries: &mut A, lints: &mut Lints, lint: Lint) -> Result<bool, A::Error> {
    Ok(match entries.next_value_seed(Take(Flag))? {
        Field::Is(value) => value,
        Field::Absent => false,
        Field::Wrong => {
            lints.add(lint);
            false
        }
    })
}

/// Annotations or labels; says whether they mark the end of the initial list of a watch.
struct Marks<'w> {
    place: Place,
    lint: Lint,
    lints: &'w mut Lints,
    switches: &'w mut Switches,
}

impl<'de> Shape<'de> for Marks<'_> {
    type Out = bool;

    fn other(self) -> bool {
        self.lints.add(self.lint);
        false
    }

    fn null(self) -> bool {
        false
    }

    fn map<A: MapAccess<'de>>(self, mut entries: A) -> Result<bool, A::Error> {
        const END: &str = "k8s.io/initial-events-end";
        let mut ended = false;
        let seed = |key: &str| (pause::may_pause(key) || key == END).then(|| cut(key, MAX_NAME).to_owned());
        while let Some(key) = entries.next_key_seed(Key(seed))? {
            // Values of other annotations are not even read: the last applied configuration can be large.
            let Some(key) = key else {
                entries.next_value::<IgnoredAny>()?;
                continue;
            };
            let pauses = |value: &str| (pause::by_mark(&key, value), key == END && value == "true");
            match entries.next_value_seed(Text::new(pauses))? {
                Field::Is((pauses, ends)) => {
                    ended |= ends;
                    if pauses {
                        self.switches.add(self.place, &key);
                    }
                }
                Field::Absent => {}
                Field::Wrong => self.lints.add(self.lint),
            }
        }
        Ok(ended)
    }
}

/// `.metadata.finalizers`.
struct Finalizers<'w> {
    view: &'w mut ObjectView,
    lints: &'w mut Lints,
}

impl<'de> Shape<'de> for Finalizers<'_> {
    type Out = ();

    fn other(self) {
        self.lints.add(Lint::Finalizers);
    }

    fn null(self) {}

    fn list<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self { view, lints } = self;
        while view.finalizers.len() < MAX_ITEMS {
            match items.next_element_seed(Text::new(|text: &str| name_text(text, lints)))? {
                None => return Ok(()),
                Some(Field::Is(text)) => view.finalizers.push(text),
                Some(Field::Absent | Field::Wrong) => lints.add(Lint::Finalizers),
            }
        }
        rest(&mut items, lints, Lint::ManyFinalizers)
    }
}

/// Skips what is too much of a list, and notes it.
fn rest<'de, A: SeqAccess<'de>>(items: &mut A, lints: &mut Lints, lint: Lint) -> Result<(), A::Error> {
    while items.next_element::<IgnoredAny>()?.is_some() {
        lints.add(lint);
    }
    Ok(())
}

/// `.metadata.ownerReferences`.
struct Owners<'w> {
    view: &'w mut ObjectView,
    lints: &'w mut Lints,
}

impl<'de> Shape<'de> for Owners<'_> {
    type Out = ();

    fn other(self) {
        self.lints.add(Lint::Owners);
    }

    fn null(self) {}

    fn list<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self { view, lints } = self;
        while view.owners.len() < MAX_ITEMS {
            match items.next_element_seed(Take(Owner { lints }))? {
                None => return Ok(()),
                Some(owner) => view.owners.extend(owner),
            }
        }
        rest(&mut items, lints, Lint::ManyOwners)
    }
}

struct Owner<'w> {
    lints: &'w mut Lints,
}

impl<'de> Shape<'de> for Owner<'_> {
    type Out = Option<OwnerReference>;

    fn other(self) -> Self::Out {
        self.lints.add(Lint::Owners);
        None
    }

    fn map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Out, A::Error> {
        let (lints, lint) = (self.lints, Lint::Owners);
        let mut owner = OwnerReference::default();
        let seed = |key: &str| match key {
            "apiVersion" => 1,
            "kind" => 2,
            "name" => 3,
            "uid" => 4,
            "controller" => 5,
            "blockOwnerDeletion" => 6,
            _ => 0,
        };
        while let Some(key) = entries.next_key_seed(Key(seed))? {
            match key {
                1 => owner.api_version = text(&mut entries, lints, lint)?,
                2 => owner.kind = text(&mut entries, lints, lint)?,
                3 => owner.name = text(&mut entries, lints, lint)?,
                4 => owner.uid = text(&mut entries, lints, lint)?,
                5 => owner.controller = flag(&mut entries, lints, lint)?,
                6 => owner.blocks_deletion = flag(&mut entries, lints, lint)?,
                _ => drop(entries.next_value::<IgnoredAny>()?),
            }
        }
        Ok(Some(owner))
    }
}

/// `.metadata.managedFields`.
struct Managers<'w> {
    view: &'w mut ObjectView,
    lints: &'w mut Lints,
}

impl<'de> Shape<'de> for Managers<'_> {
    type Out = ();

    fn other(self) {
        self.lints.add(Lint::Managers);
    }

    fn null(self) {}

    fn list<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self { view, lints } = self;
        while view.managers.len() < MAX_ITEMS {
            match items.next_element_seed(Take(ManagerEntry { lints }))? {
                None => return Ok(()),
                Some(manager) => view.managers.extend(manager),
            }
        }
        rest(&mut items, lints, Lint::ManyManagers)
    }
}

struct ManagerEntry<'w> {
    lints: &'w mut Lints,
}

impl<'de> Shape<'de> for ManagerEntry<'_> {
    type Out = Option<Manager>;

    fn other(self) -> Self::Out {
        self.lints.add(Lint::Managers);
        None
    }

    fn map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Out, A::Error> {
        let (lints, lint) = (self.lints, Lint::Managers);
        let mut manager = Manager::default();
        let seed = |key: &str| match key {
            "manager" => 1,
            "operation" => 2,
            "subresource" => 3,
            "time" => 4,
            "fieldsV1" => 5,
            _ => 0,
        };
        while let Some(key) = entries.next_key_seed(Key(seed))? {
            match key {
                1 => manager.name = text(&mut entries, lints, lint)?,
                2 => match entries.next_value_seed(Text::new(|text: &str| text == "Apply"))? {
                    Field::Is(true) => manager.operation = ManagerOperation::Apply,
                    Field::Is(false) | Field::Absent => {}
                    Field::Wrong => lints.add(lint),
                },
                3 => manager.subresource = text(&mut entries, lints, lint)?,
                4 => manager.time = time(&mut entries, lints, lint)?,
                5 => {
                    let (owns, finalizers) = (&mut manager.owns, &mut manager.finalizers);
                    entries.next_value_seed(Take(Fields { at: Level::Top, owns, finalizers, lints }))?;
                }
                _ => drop(entries.next_value::<IgnoredAny>()?),
            }
        }
        Ok(Some(manager))
    }
}

/// How deep in a field tree.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Top,
    Metadata,
    Finalizers,
}

/// A field tree, of which only the outline is read: `f:spec`, `f:status`, `f:metadata.f:finalizers.v:"x"`.
struct Fields<'w> {
    at: Level,
    owns: &'w mut Owned,
    finalizers: &'w mut Vec<String>,
    lints: &'w mut Lints,
}

impl<'de> Shape<'de> for Fields<'_> {
    type Out = ();

    fn other(self) {
        self.lints.add(Lint::Managers);
    }

    fn null(self) {}

    fn map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let Self { at, owns, finalizers, lints } = self;
        loop {
            let down = |key: &str| match (at, key) {
                (Level::Top, "f:metadata") => Some(Level::Metadata),
                (Level::Metadata, "f:finalizers") => Some(Level::Finalizers),
                (Level::Top, "f:status") => {
                    owns.status = true;
                    None
                }
                (Level::Top, other) => {
                    owns.spec |= other.starts_with("f:") && !matches!(other, "f:apiVersion" | "f:kind");
                    None
                }
                (Level::Finalizers, key) => {
                    // The rest of the key is the finalizer as a JSON text; `.` is the list itself.
                    if let Some(name) = key.strip_prefix("v:").map(|json| json.trim_matches('"')) {
                        owns.finalizers = true;
                        if finalizers.len() < MAX_ITEMS {
                            finalizers.push(cut(name, MAX_NAME).to_owned());
                        }
                    }
                    None
                }
                (Level::Metadata, _) => None,
            };
            match entries.next_key_seed(Key(down))? {
                None => return Ok(()),
                Some(None) => drop(entries.next_value::<IgnoredAny>()?),
                Some(Some(at)) => {
                    entries.next_value_seed(Take(Fields {
                        at,
                        owns: &mut *owns,
                        finalizers: &mut *finalizers,
                        lints: &mut *lints,
                    }))?;
                }
            }
        }
    }
}
