//! Reads conditions in every form that operators write: a list of maps, a map keyed by type, flags.

use loopwatch_model::observation::{Condition, ConditionStatus, FailedCall};
use loopwatch_model::time::Timestamp;
use serde::de::{MapAccess, SeqAccess};

use super::hash::{FingerprintSum, Fingerprints, Hasher};
use super::limits::{MAX_ITEMS, MAX_MESSAGE, MAX_NAME, MAX_REASON};
use super::lint::{Lint, Lints};
use super::opaque::Opaque;
use super::shape::{AnyShape, MapKey, Scalar, Visit};
use super::walk::Walk;
use super::words::{self, cut};

/// Maximum number of conditions below the top level, so that there is room for those at the top.
const MAX_NESTED: usize = 48;

/// The status that Gardener writes while it waits for a part that may soon be healthy again, whatever the
/// reason says. It counts as `Unknown` with the severity `Info`.
const IN_PROGRESS: &str = "Progressing";

/// The status that the Prometheus Operator writes while some of the Pods are not ready
/// (prometheus-operator: pkg/apis/monitoring/v1/types.go). It counts as absent.
const DEGRADED: &str = "Degraded";

/// The value under a key that ends in `conditions`. The walk's path ends with that key.
pub(super) struct ConditionsValue<'a, 'w> {
    pub(super) walk: &'a mut Walk<'w>,
    /// Length of the path before the key.
    pub(super) parent: usize,
}

/// One condition: an item of a list, or the value of a map keyed by type.
struct ConditionEntry<'h> {
    hasher: &'h Hasher,
    lints: &'h mut Lints,
    /// Whether the entry is in `.status.conditions`, where anything but a condition is malformed.
    /// Elsewhere, the key may mean something else, so only an entry with a type and a status
    /// counts.
    own: bool,
    /// The type, if it is the key of a map.
    keyed: Option<String>,
}

/// The fields of a condition.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum ConditionField {
    Changed,
    Generation,
    Message,
    Error,
    #[default]
    Other,
    Reason,
    Severity,
    /// The severity as Forklift writes it.
    Category,
    Status,
    Type,
    Updated,
}

impl ConditionsValue<'_, '_> {
    /// The value of [`Condition::at`] for these conditions: empty for `.status.conditions`.
    fn place(&self) -> String {
        let path = self.walk.path.as_str();
        let key = path.get(self.parent + 1..).unwrap_or_default();
        let place =
            if key == "conditions" { path.get(..self.parent).unwrap_or_default() } else { path };
        let place = place.strip_prefix("status").unwrap_or(place);

        cut(place.strip_prefix('.').unwrap_or(place), MAX_NAME).to_owned()
    }
}

/// Keeps the number of conditions if it is zero: the operator writes conditions, but has not
/// written one yet.
fn keep_none(walk: &mut Walk<'_>, place: &str) {
    if place.is_empty() {
        walk.keep(false, Scalar::Whole(0));
    }
}

fn keep(walk: &mut Walk<'_>, place: &str, condition: Option<Condition>) {
    let Some(condition) = condition else { return };
    let kept = &mut walk.view.conditions;
    let nested = || kept.iter().filter(|condition| !condition.at.is_empty()).count();

    if kept.len() >= MAX_ITEMS || (!place.is_empty() && nested() >= MAX_NESTED) {
        walk.lints.add(Lint::ManyConditions);
        return;
    }

    walk.view.conditions.push(Condition { at: place.to_owned(), ..condition });
}

impl<'de> AnyShape<'de> for ConditionsValue<'_, '_> {
    type Out = Fingerprints;

    fn scalar(self, scalar: Scalar<'_>) -> Fingerprints {
        let (place, walk) = (self.place(), self.walk);
        if matches!(scalar, Scalar::Null) {
            keep_none(walk, &place);
        } else if place.is_empty() {
            walk.lints.add(Lint::Conditions);
        }

        scalar.hash(&walk.hasher, false)
    }

    fn list<A: SeqAccess<'de>>(self, mut items: A) -> Result<Fingerprints, A::Error> {
        let (place, walk) = (self.place(), self.walk);
        let (hasher, own, mut sum) = (walk.hasher, place.is_empty(), FingerprintSum::default());
        let mut empty = true;

        loop {
            let entry =
                ConditionEntry { hasher: &hasher, lints: &mut *walk.lints, own, keyed: None };
            let Some((pair, condition)) = items.next_element_seed(Visit(entry))? else { break };
            empty = false;

            // The order of conditions has no meaning.
            sum.item(&hasher, pair, false);
            keep(walk, &place, condition);
        }

        if empty {
            keep_none(walk, &place);
        }

        Ok(sum.list(&hasher))
    }

    fn map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Fingerprints, A::Error> {
        let (place, walk) = (self.place(), self.walk);
        let (hasher, own, mut sum) = (walk.hasher, place.is_empty(), FingerprintSum::default());

        // Some operators write a single condition instead of a list.
        let mut single = Condition::default();
        let seed = |key: &str| (hasher.text(key), cut(key, MAX_NAME).to_owned());
        while let Some((hash, key)) = entries.next_key_seed(MapKey(seed))? {
            let pair = match key.as_str() {
                "type" => entries.next_value_seed(Opaque::new(&hasher, 3, false, |value| {
                    single.r#type = name(value);
                }))?,
                "status" => entries.next_value_seed(Opaque::new(&hasher, 3, false, |value| {
                    single.status = status(value).unwrap_or_default();
                }))?,
                _ => {
                    let entry = ConditionEntry {
                        hasher: &hasher,
                        lints: &mut *walk.lints,
                        own,
                        keyed: Some(key),
                    };

                    let (pair, condition) = entries.next_value_seed(Visit(entry))?;
                    keep(walk, &place, condition);
                    pair
                }
            };
            sum.entry(&hasher, hash, pair);
        }

        if !single.r#type.is_empty() {
            keep(walk, &place, Some(single));
        }

        Ok(sum.map(&hasher))
    }
}

impl ConditionField {
    fn of(key: &str) -> Self {
        match key {
            "type" => Self::Type,
            "status" => Self::Status,
            "reason" => Self::Reason,
            "message" => Self::Message,
            "error" => Self::Error,
            "severity" => Self::Severity,
            "category" => Self::Category,
            "observedGeneration" => Self::Generation,
            "lastTransitionTime" => Self::Changed,
            "lastUpdateTime" => Self::Updated,
            _ => Self::Other,
        }
    }
}

impl<'de> AnyShape<'de> for ConditionEntry<'_> {
    type Out = (Fingerprints, Option<Condition>);

    /// A scalar is the status in a map keyed by type, and malformed in a list.
    fn scalar(self, scalar: Scalar<'_>) -> Self::Out {
        let pair = scalar.hash(self.hasher, false);
        match (self.keyed, status(scalar)) {
            (Some(r#type), Some(status)) => {
                (pair, Some(Condition { r#type, status, ..Condition::default() }))
            }
            _ => {
                if self.own {
                    self.lints.add(Lint::Condition);
                }
                (pair, None)
            }
        }
    }

    fn list<A: SeqAccess<'de>>(self, items: A) -> Result<Self::Out, A::Error> {
        if self.own {
            self.lints.add(Lint::Condition);
        }
        Ok((Opaque::status(self.hasher, 3, false).0.list(items)?, None))
    }

    fn map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Out, A::Error> {
        let Self { hasher, lints, own, keyed } = self;
        let (mut sum, mut condition) = (FingerprintSum::default(), Condition::default());
        let (mut found, mut has_status) = (Lints::default(), false);
        let seed = |key: &str| (hasher.text(key), ConditionField::of(key), words::is_volatile(key));

        while let Some((hash, name, volatile)) = entries.next_key_seed(MapKey(seed))? {
            has_status |= name == ConditionField::Status;
            let see = |value: Scalar<'_>| fill(&mut condition, &mut found, name, value);
            let pair = entries.next_value_seed(Opaque::new(hasher, 4, volatile, see))?;
            sum.entry(hasher, hash, pair);
        }

        if let Some(keyed) = keyed.filter(|_| condition.r#type.is_empty()) {
            condition.r#type = keyed;
        }

        let typed = !condition.r#type.is_empty();
        if !typed {
            found.add(Lint::ConditionType);
        }

        if own || (typed && has_status) {
            lints.merge(found);
        }

        Ok((sum.map(hasher), Some(condition).filter(|_| typed)))
    }
}

/// Fills in one field. A value of a wrong type counts as absent and adds a lint.
fn fill(condition: &mut Condition, lints: &mut Lints, field: ConditionField, value: Scalar<'_>) {
    if matches!(value, Scalar::Null) {
        return;
    }
    match field {
        ConditionField::Type => condition.r#type = name(value),
        ConditionField::Status => match status(value) {
            Some(status) => {
                condition.status = status;
                if matches!(value, Scalar::Text(IN_PROGRESS)) {
                    "Info".clone_into(&mut condition.severity);
                }
            }
            // Deliberate and documented, and the reason says more.
            None if matches!(value, Scalar::Text(DEGRADED)) => {}
            None => lints.add(Lint::ConditionStatus),
        },
        ConditionField::Reason => condition.reason = text(value, MAX_REASON, lints),
        ConditionField::Message => {
            // The cause stands at the end of a long message.
            if let Scalar::Text(message) = value {
                condition.failed_call = FailedCall::read(message).map(Box::new);
            }

            condition.message = text(value, MAX_MESSAGE, lints);
        }
        // As in the `ComponentCondition` of Kubernetes.
        ConditionField::Error if condition.message.is_empty() => {
            if let Scalar::Text(_) = value {
                condition.message = text(value, MAX_MESSAGE, lints);
            }
        }
        ConditionField::Error => {}
        ConditionField::Severity => condition.severity = text(value, MAX_REASON, lints),
        ConditionField::Category => {
            let severity = match value {
                Scalar::Text("Critical" | "Error") => "Error",
                Scalar::Text("Warn") => "Warning",
                Scalar::Text("Advisory") => "Info",
                _ => return,
            };
            severity.clone_into(&mut condition.severity);
        }
        ConditionField::Generation => {
            let number = match value {
                Scalar::Whole(number) => Some(number),
                Scalar::Text(text) => text.trim().parse().ok(),
                _ => None,
            };
            if number.is_none() {
                lints.add(Lint::Condition);
            }

            condition.observed_generation = number.filter(|number| *number > 0);
        }
        ConditionField::Changed | ConditionField::Updated => match value {
            Scalar::Text("") => {}
            Scalar::Text(text) => match Timestamp::parse(text) {
                Some(time) if field == ConditionField::Changed || condition.changed.is_none() => {
                    condition.changed = Some(time)
                }
                Some(_) => {}
                None => lints.add(Lint::ConditionTime),
            },
            _ => lints.add(Lint::ConditionTime),
        },
        ConditionField::Other => {}
    }
}

fn name(value: Scalar<'_>) -> String {
    if let Scalar::Text(text) = value { cut(text, MAX_NAME).to_owned() } else { String::new() }
}

fn text(value: Scalar<'_>, max: usize, lints: &mut Lints) -> String {
    match value {
        Scalar::Text(text) => cut(text, max).to_owned(),
        _ => {
            lints.add(Lint::Condition);
            String::new()
        }
    }
}

fn status(value: Scalar<'_>) -> Option<ConditionStatus> {
    match value {
        Scalar::Flag(true) => Some(ConditionStatus::True),
        Scalar::Flag(false) => Some(ConditionStatus::False),
        Scalar::Text(text) if text.eq_ignore_ascii_case("true") => Some(ConditionStatus::True),
        Scalar::Text(text) if text.eq_ignore_ascii_case("false") => Some(ConditionStatus::False),
        Scalar::Text(text) if text.eq_ignore_ascii_case("unknown") || text == IN_PROGRESS => {
            Some(ConditionStatus::Unknown)
        }
        _ => None,
    }
}
