//! Decodes `.metadata`: identity, times, owners, finalizers, managers, pause switches, and some
//! annotations and labels.

use std::collections::BTreeMap;

use loopwatch_model::observation::{HandlerAttempts, ObjectView, OwnerReference};
use loopwatch_model::time::Span;
use serde::de::{IgnoredAny, MapAccess, SeqAccess};

use super::fields::{flag, name_text, skip_rest, text, time, whole};
use super::hash::{FingerprintSum, Fingerprints, Hasher};
use super::limits::{MAX_ITEMS, MAX_MARK, MAX_NAME};
use super::lint::{Lint, Lints};
use super::managers::ManagedFields;
use super::marks::Marks;
use super::shape::{AnyShape, FieldValue, MapKey, Scalar, TextField, Visit};
use super::switches::Switches;
use super::words::cut;
use super::{attempts, pause};

/// `.metadata`.
pub(super) struct MetadataBody<'w> {
    pub(super) view: &'w mut ObjectView,
    pub(super) lints: &'w mut Lints,
    pub(super) switches: &'w mut Switches,
    /// Further annotations that the view keeps.
    pub(super) annotations: &'w [String],
    /// Receives the fingerprints of all annotations and labels.
    pub(super) marks: Option<MarkSum<'w>>,
}

/// The fingerprints of annotations and labels.
type MarkSum<'w> = (&'w Hasher, &'w mut FingerprintSum);

/// The annotation in which `kubectl apply` keeps a copy of the object, which changes with the data.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The fields of `.metadata`.
#[derive(Clone, Copy, Default)]
enum MetadataField {
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

impl MetadataField {
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

impl<'de> AnyShape<'de> for MetadataBody<'_> {
    type Out = ();

    fn scalar(self, scalar: Scalar<'_>) {
        self.lints.add_unless_null(Lint::Metadata, scalar);
    }

    fn map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<(), A::Error> {
        while let Some(name) = entries.next_key_seed(MapKey(MetadataField::of))? {
            self.field(name, &mut entries)?;
        }
        Ok(())
    }
}

impl MetadataBody<'_> {
    fn field<'de, A: MapAccess<'de>>(
        &mut self,
        name: MetadataField,
        entries: &mut A,
    ) -> Result<(), A::Error> {
        let (view, lints) = (&mut *self.view, &mut *self.lints);
        match name {
            MetadataField::Name => view.key.name = text(entries, lints, Lint::Name)?,
            MetadataField::Namespace => view.key.namespace = text(entries, lints, Lint::Name)?,
            MetadataField::Uid => view.uid = text(entries, lints, Lint::Uid)?,
            MetadataField::Version => view.version = text(entries, lints, Lint::Version)?,
            MetadataField::Generation => {
                view.generation = whole(entries, lints, Lint::Generation)?.unwrap_or(0).max(0)
            }
            MetadataField::Grace => {
                let seconds = whole(entries, lints, Lint::Grace)?;
                view.grace = seconds.map(|seconds| Span(seconds.max(0).saturating_mul(1000)));
            }
            MetadataField::Created => view.created = time(entries, lints, Lint::Created)?,
            MetadataField::Deleted => view.deleted = time(entries, lints, Lint::Deleted)?,
            MetadataField::Finalizers => {
                entries.next_value_seed(Visit(Finalizers { view, lints }))?
            }
            MetadataField::Owners => {
                entries.next_value_seed(Visit(OwnerReferences { view, lints }))?
            }
            MetadataField::Managers => {
                entries.next_value_seed(Visit(ManagedFields { view, lints }))?
            }
            MetadataField::Annotations => {
                let (marks, kept, more) =
                    (Marks::Annotations, &mut view.annotations, self.annotations);
                let sum = self.marks.as_mut().map(|(hasher, sum)| (*hasher, &mut **sum));
                let mut noted = Vec::new();
                entries.next_value_seed(Visit(MarkMap {
                    marks,
                    kept,
                    more,
                    lints,
                    switches: self.switches,
                    sum,
                    noted: &mut noted,
                }))?;

                noted.into_iter().for_each(|record| attempts::keep(view, record));
            }
            MetadataField::Labels => {
                let (marks, kept, more) = (Marks::Labels, &mut view.labels, &[][..]);
                let sum = self.marks.as_mut().map(|(hasher, sum)| (*hasher, &mut **sum));
                entries.next_value_seed(Visit(MarkMap {
                    marks,
                    kept,
                    more,
                    lints,
                    switches: self.switches,
                    sum,
                    noted: &mut Vec::new(),
                }))?;
            }
            MetadataField::Other => drop(entries.next_value::<IgnoredAny>()?),
        }

        Ok(())
    }
}

/// Annotations or labels. Each may be one that the view keeps, or a switch that pauses the object.
struct MarkMap<'w> {
    marks: Marks,
    kept: &'w mut BTreeMap<String, String>,
    /// Further keys that the view keeps.
    more: &'w [String],
    lints: &'w mut Lints,
    switches: &'w mut Switches,
    /// Receives the fingerprints of all entries.
    sum: Option<MarkSum<'w>>,
    /// Receives the attempts that annotations note.
    noted: &'w mut Vec<HandlerAttempts>,
}

impl<'de> AnyShape<'de> for MarkMap<'_> {
    type Out = ();

    fn scalar(self, scalar: Scalar<'_>) {
        self.lints.add_unless_null(self.marks.lint(), scalar);
    }

    fn map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let Self { marks, kept, more, lints, switches, mut sum, noted } = self;
        let hasher = sum.as_ref().map(|(hasher, _)| *hasher).copied();
        let seed = |key: &str| {
            let keeps = marks.keeps(key) || more.iter().any(|further| further == key);
            let may_pause = pause::may_pause(key);
            let may_note = marks == Marks::Annotations && attempts::may_be_record(key);
            let hash = hasher
                .filter(|_| key != LAST_APPLIED)
                .map(|hasher| hasher.mix(marks as u64, hasher.text(key)));

            let is_read = keeps || may_pause || may_note;
            (is_read.then(|| (cut(key, MAX_NAME).to_owned(), keeps, may_pause, may_note)), hash)
        };

        while let Some((key, hash)) = entries.next_key_seed(MapKey(seed))? {
            // Skips other values unread, unless they are fingerprinted: the last applied
            // configuration can be large.
            let Some((key, keeps, may_pause, may_note)) = key else {
                if let (Some(key), Some((hasher, sum))) = (hash, &mut sum) {
                    let read = TextField::new(|value: &str| hasher.text(value));
                    if let FieldValue::Is(value) = entries.next_value_seed(read)? {
                        sum.entry(hasher, key, Fingerprints::stable(value));
                    }
                } else {
                    entries.next_value::<IgnoredAny>()?;
                }

                continue;
            };

            let read = |value: &str| {
                if let (Some(key), Some((hasher, sum))) = (hash, &mut sum) {
                    sum.entry(hasher, key, Fingerprints::stable(hasher.text(value)));
                }
                if may_note {
                    noted.extend(attempts::of_annotation(&key, value));
                }
                (
                    may_pause && pause::mark_pauses(&key, value),
                    keeps.then(|| cut(value, MAX_MARK).to_owned()),
                )
            };

            let (pauses, value) = match entries.next_value_seed(TextField::new(read))? {
                FieldValue::Is(read) => read,
                FieldValue::Absent => continue,
                FieldValue::Wrong if !keeps && !may_pause => continue,
                FieldValue::Wrong => {
                    lints.add(marks.lint());
                    continue;
                }
            };

            if pauses {
                switches.add(marks.switch_source(), &key);
            }

            match value {
                Some(_) if kept.len() >= MAX_ITEMS => lints.add(marks.lint()),
                Some(value) => drop(kept.insert(key, value)),
                None => {}
            }
        }

        Ok(())
    }
}

/// Adds the fingerprints of the owners and finalizers, which a writer can change, too.
pub(super) fn add_owners_and_finalizers(
    view: &ObjectView,
    hasher: &Hasher,
    sum: &mut FingerprintSum,
) {
    for owner in &view.owners {
        sum.entry(
            hasher,
            hasher.text("owner"),
            Fingerprints::stable(hasher.text(&format!("{owner:?}"))),
        );
    }

    for finalizer in &view.finalizers {
        sum.entry(hasher, hasher.text("finalizer"), Fingerprints::stable(hasher.text(finalizer)));
    }
}

/// `.metadata.finalizers`.
struct Finalizers<'w> {
    view: &'w mut ObjectView,
    lints: &'w mut Lints,
}

impl<'de> AnyShape<'de> for Finalizers<'_> {
    type Out = ();

    fn scalar(self, scalar: Scalar<'_>) {
        self.lints.add_unless_null(Lint::Finalizers, scalar);
    }

    fn list<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self { view, lints } = self;
        while view.finalizers.len() < MAX_ITEMS {
            match items.next_element_seed(TextField::new(|text: &str| name_text(text, lints)))? {
                None => return Ok(()),
                Some(FieldValue::Is(text)) => view.finalizers.push(text),
                Some(FieldValue::Absent | FieldValue::Wrong) => lints.add(Lint::Finalizers),
            }
        }

        skip_rest(&mut items, lints, Lint::ManyFinalizers)
    }
}

/// `.metadata.ownerReferences`.
struct OwnerReferences<'w> {
    view: &'w mut ObjectView,
    lints: &'w mut Lints,
}

impl<'de> AnyShape<'de> for OwnerReferences<'_> {
    type Out = ();

    fn scalar(self, scalar: Scalar<'_>) {
        self.lints.add_unless_null(Lint::Owners, scalar);
    }

    fn list<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self { view, lints } = self;
        while view.owners.len() < MAX_ITEMS {
            match items.next_element_seed(Visit(OwnerEntry { lints }))? {
                None => return Ok(()),
                Some(owner) => view.owners.extend(owner),
            }
        }

        skip_rest(&mut items, lints, Lint::ManyOwners)
    }
}

struct OwnerEntry<'w> {
    lints: &'w mut Lints,
}

impl<'de> AnyShape<'de> for OwnerEntry<'_> {
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

        while let Some(key) = entries.next_key_seed(MapKey(seed))? {
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
