//! Decodes `.metadata.managedFields`: the managers, and an outline of the fields of each.

use loopwatch_model::observation::{Manager, ManagerOperation, ObjectView, Owned};
use serde::de::{IgnoredAny, MapAccess, SeqAccess};

use super::fields::{skip_rest, text, time};
use super::limits::{MAX_ITEMS, MAX_NAME};
use super::lint::{Lint, Lints};
use super::shape::{AnyShape, FieldValue, MapKey, Scalar, TextField, Visit};
use super::words::cut;

/// `.metadata.managedFields`.
pub(super) struct ManagedFields<'w> {
    pub(super) view: &'w mut ObjectView,
    pub(super) lints: &'w mut Lints,
}

impl<'de> AnyShape<'de> for ManagedFields<'_> {
    type Out = ();

    fn scalar(self, scalar: Scalar<'_>) {
        self.lints.add_unless_null(Lint::Managers, scalar);
    }

    fn list<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self { view, lints } = self;
        while view.managers.len() < MAX_ITEMS {
            match items.next_element_seed(Visit(ManagerEntry { lints }))? {
                None => return Ok(()),
                Some(manager) => view.managers.extend(manager),
            }
        }

        skip_rest(&mut items, lints, Lint::ManyManagers)
    }
}

struct ManagerEntry<'w> {
    lints: &'w mut Lints,
}

impl<'de> AnyShape<'de> for ManagerEntry<'_> {
    type Out = Option<Manager>;

    fn scalar(self, _: Scalar<'_>) -> Self::Out {
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

        while let Some(key) = entries.next_key_seed(MapKey(seed))? {
            match key {
                1 => manager.name = text(&mut entries, lints, lint)?,
                2 => match entries.next_value_seed(TextField::new(|text: &str| text == "Apply"))? {
                    FieldValue::Is(true) => manager.operation = ManagerOperation::Apply,
                    FieldValue::Is(false) | FieldValue::Absent => {}
                    FieldValue::Wrong => lints.add(lint),
                },
                3 => manager.subresource = text(&mut entries, lints, lint)?,
                4 => manager.time = time(&mut entries, lints, lint)?,
                5 => {
                    let (owns, finalizers) = (&mut manager.owns, &mut manager.finalizers);
                    entries.next_value_seed(Visit(FieldTree {
                        at: FieldTreeLevel::Top,
                        owns,
                        finalizers,
                        lints,
                    }))?;
                }
                _ => drop(entries.next_value::<IgnoredAny>()?),
            }
        }

        Ok(Some(manager))
    }
}

/// The position in a field tree.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FieldTreeLevel {
    Top,
    Metadata,
    Finalizers,
}

/// A field tree. Reads only its outline: `f:spec`, `f:status`, `f:metadata.f:finalizers.v:"x"`.
struct FieldTree<'w> {
    at: FieldTreeLevel,
    owns: &'w mut Owned,
    finalizers: &'w mut Vec<String>,
    lints: &'w mut Lints,
}

impl<'de> AnyShape<'de> for FieldTree<'_> {
    type Out = ();

    fn scalar(self, scalar: Scalar<'_>) {
        self.lints.add_unless_null(Lint::Managers, scalar);
    }

    fn map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let Self { at, owns, finalizers, lints } = self;
        let (mut data, mut others) = (false, false);
        loop {
            let down = |key: &str| match (at, key) {
                (FieldTreeLevel::Top, "f:metadata") => Some(FieldTreeLevel::Metadata),
                (FieldTreeLevel::Metadata, "f:finalizers") => Some(FieldTreeLevel::Finalizers),
                (FieldTreeLevel::Top, "f:status") => {
                    (owns.status, others) = (true, true);
                    None
                }
                (FieldTreeLevel::Top, other) => {
                    owns.spec |= other.starts_with("f:")
                        && !matches!(other, "f:apiVersion" | "f:immutable" | "f:kind");
                    let is_data = matches!(other, "f:data" | "f:binaryData");
                    (data, others) = (data || is_data, others || !is_data);

                    None
                }
                (FieldTreeLevel::Finalizers, key) => {
                    // The rest of the key is the finalizer as a JSON text; `.` is the list itself.
                    if let Some(name) = key.strip_prefix("v:").map(|json| json.trim_matches('"')) {
                        owns.finalizers = true;
                        if finalizers.len() < MAX_ITEMS {
                            finalizers.push(cut(name, MAX_NAME).to_owned());
                        }
                    }

                    None
                }
                (FieldTreeLevel::Metadata, _) => None,
            };
            match entries.next_key_seed(MapKey(down))? {
                None => {
                    owns.only_data |= data && !others;
                    return Ok(());
                }
                Some(None) => drop(entries.next_value::<IgnoredAny>()?),
                Some(Some(at)) => {
                    others = true;
                    entries.next_value_seed(Visit(FieldTree {
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
