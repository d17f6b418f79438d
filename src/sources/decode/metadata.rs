//! `.metadata`: who the object is, who holds it, who wrote it.

use loopwatch_model::observation::{ObjectView, OwnerReference};
use loopwatch_model::time::{Span, Timestamp};
use serde::de::{IgnoredAny, MapAccess, SeqAccess};

use super::lint::{Lint, Lints};
use super::managers::Managers;
use super::pause;
use super::shape::{Field, Flag, Key, Scalar, Shape, Take, Text, Whole};
use super::switches::{SwitchSource, Switches};
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
enum Part {
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

impl Part {
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

    fn scalar(self, scalar: Scalar<'_>) {
        self.lints.add_unless_null(Lint::Metadata, scalar);
    }

    fn map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<(), A::Error> {
        while let Some(name) = entries.next_key_seed(Key(Part::of))? {
            self.field(name, &mut entries)?;
        }
        Ok(())
    }
}

impl Metadata<'_> {
    fn field<'de, A: MapAccess<'de>>(&mut self, name: Part, entries: &mut A) -> Result<(), A::Error> {
        let (view, lints) = (&mut *self.view, &mut *self.lints);
        match name {
            Part::Name => view.key.name = text(entries, lints, Lint::Name)?,
            Part::Namespace => view.key.namespace = text(entries, lints, Lint::Name)?,
            Part::Uid => view.uid = text(entries, lints, Lint::Uid)?,
            Part::Version => view.version = text(entries, lints, Lint::Version)?,
            Part::Generation => view.generation = whole(entries, lints, Lint::Generation)?.unwrap_or(0).max(0),
            Part::Grace => {
                let seconds = whole(entries, lints, Lint::Grace)?;
                view.grace = seconds.map(|seconds| Span(seconds.max(0).saturating_mul(1000)));
            }
            Part::Created => view.created = time(entries, lints, Lint::Created)?,
            Part::Deleted => view.deleted = time(entries, lints, Lint::Deleted)?,
            Part::Finalizers => entries.next_value_seed(Take(Finalizers { view, lints }))?,
            Part::Owners => entries.next_value_seed(Take(Owners { view, lints }))?,
            Part::Managers => entries.next_value_seed(Take(Managers { view, lints }))?,
            Part::Annotations => {
                let marks =
                    Marks { source: SwitchSource::Annotation, lint: Lint::Annotations, lints, switches: self.switches };
                *self.bookmark |= entries.next_value_seed(Take(marks))?;
            }
            Part::Labels => {
                let marks = Marks { source: SwitchSource::Label, lint: Lint::Labels, lints, switches: self.switches };
                entries.next_value_seed(Take(marks))?;
            }
            Part::Other => drop(entries.next_value::<IgnoredAny>()?),
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

pub(super) fn text<'de, A: MapAccess<'de>>(entries: &mut A, lints: &mut Lints, lint: Lint) -> Result<String, A::Error> {
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

pub(super) fn time<'de, A: MapAccess<'de>>(
    entries: &mut A,
    lints: &mut Lints,
    lint: Lint,
) -> Result<Option<Timestamp>, A::Error> {
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
    source: SwitchSource,
    lint: Lint,
    lints: &'w mut Lints,
    switches: &'w mut Switches,
}

impl<'de> Shape<'de> for Marks<'_> {
    type Out = bool;

    fn scalar(self, scalar: Scalar<'_>) -> bool {
        self.lints.add_unless_null(self.lint, scalar);
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
                        self.switches.add(self.source, &key);
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

    fn scalar(self, scalar: Scalar<'_>) {
        self.lints.add_unless_null(Lint::Finalizers, scalar);
    }

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
pub(super) fn rest<'de, A: SeqAccess<'de>>(items: &mut A, lints: &mut Lints, lint: Lint) -> Result<(), A::Error> {
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

    fn scalar(self, scalar: Scalar<'_>) {
        self.lints.add_unless_null(Lint::Owners, scalar);
    }

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

    fn scalar(self, _: Scalar<'_>) -> Self::Out {
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
