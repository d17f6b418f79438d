//! Walks the spec and the status once, for fingerprints, switches, references, conditions and
//! facts.

use std::fmt::Write as _;

use loopwatch_model::observation::StatusShape;
use serde::de::{MapAccess, SeqAccess};

use super::attempts::KopfNotes;
use super::conditions::ConditionsValue;
use super::hash::{FingerprintSum, Fingerprints};
use super::lint::Lint;
use super::opaque::Opaque;
use super::pause::{self, SwitchValue};
use super::references::{self, ReferenceKey, SpecTree};
use super::shape::{AnyShape, MapKey, Scalar, Visit};
use super::switches::SwitchSource;
use super::walk::{MAX_PATH, Walk};
use super::words::{self, SpecKey};

/// Depth in the status, and position in a list, at and beyond which the walk keeps no facts.
const FACT_DEPTH: u8 = 6;
const FACT_POSITIONS: usize = 16;

/// `.spec` and the maps in it that hold switches.
pub(super) struct SpecBody<'a, 'w> {
    pub(super) walk: &'a mut Walk<'w>,
    /// The path below the spec, if this is a map inside it.
    pub(super) parent: Option<&'a str>,
}

/// `.status`.
pub(super) struct StatusBody<'a, 'w>(pub(super) &'a mut Walk<'w>);

/// A value in the status.
struct StatusValue<'a, 'w> {
    walk: &'a mut Walk<'w>,
    depth: u8,
    key: StatusKey,
}

/// The meaning of a key of the status.
#[derive(Clone, Copy, Default)]
struct StatusKey {
    hash: u64,
    reports_state: bool,
    lists_errors: bool,
    volatile: bool,
    /// Whether a text matters outside of lists: a time, or a revision.
    unlisted_text: bool,
    /// Whether a text grades a message of a list, or describes an error.
    grades: bool,
    describes: bool,
    conditions: bool,
    /// Whether kopf keeps its notes there.
    kopf: bool,
    generation: bool,
    /// Whether the number of items of a list matters.
    counted: bool,
}

/// A value in the spec.
struct SpecValue<'a, 'w> {
    walk: &'a mut Walk<'w>,
    parent: Option<&'a str>,
    key: &'a str,
    spec_key: SpecKey,
    may_pause: bool,
    slot: Option<ReferenceKey>,
}

impl<'de> AnyShape<'de> for SpecBody<'_, '_> {
    type Out = Fingerprints;

    fn scalar(self, scalar: Scalar<'_>) -> Fingerprints {
        scalar.hash(&self.walk.hasher, false)
    }

    fn list<A: SeqAccess<'de>>(self, items: A) -> Result<Fingerprints, A::Error> {
        Opaque::spec(&self.walk.hasher, 1).0.list(items)
    }

    fn map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Fingerprints, A::Error> {
        let Self { walk, parent } = self;
        let (hasher, mut sum, mut key) = (walk.hasher, FingerprintSum::default(), String::new());
        let (end, mut is_remote) = (walk.path.len(), false);

        loop {
            let seed = |text: &str| {
                key.clear();
                key.push_str(words::cut(text, MAX_PATH));
                is_remote |= parent.is_none() && references::reaches_cluster(text);
                (
                    hasher.text(text),
                    SpecKey::of(text),
                    pause::may_pause(text),
                    ReferenceKey::of(text),
                )
            };
            let Some((hash, spec_key, may_pause, slot)) = entries.next_key_seed(MapKey(seed))?
            else {
                break;
            };

            walk.push_key(&key);
            let value = entries.next_value_seed(Visit(SpecValue {
                walk: &mut *walk,
                parent,
                key: &key,
                spec_key,
                may_pause,
                slot,
            }))?;

            walk.path.truncate(end);
            sum.entry(&hasher, hash, value);
        }

        if is_remote {
            references::drop_remote(walk);
        }
        Ok(sum.map(&hasher))
    }
}

impl<'de> AnyShape<'de> for SpecValue<'_, '_> {
    type Out = Fingerprints;

    fn scalar(self, scalar: Scalar<'_>) -> Fingerprints {
        let Self { walk, parent, key, spec_key, may_pause, slot } = self;
        let value = match scalar {
            Scalar::Flag(value) => Some(SwitchValue::Flag(value)),
            Scalar::Text(value) => Some(SwitchValue::Text(value)),
            _ => None,
        };
        if let Some(value) = value.filter(|_| may_pause || spec_key.names_wanted_state)
            && pause::field_pauses(parent, key, value)
        {
            walk.switches.add(SwitchSource::Field, &walk.path);
        }

        let kept = match scalar {
            Scalar::Whole(_) => spec_key.names_count,
            Scalar::Flag(_) => spec_key.names_wanted_state || may_pause,
            // Keeps only single words, such as a desired state: other texts in the spec may be
            // secret.
            Scalar::Text(text) => {
                (spec_key.names_wanted_state || may_pause)
                    && text.len() <= 32
                    && text.bytes().all(|b| b.is_ascii_alphabetic())
            }
            _ => false,
        };

        if kept {
            walk.keep(parent.is_some(), scalar);
        }

        if let (Some(slot), Scalar::Text(name)) = (slot, scalar) {
            references::keep_name(walk, slot, name);
        }

        scalar.hash(&walk.hasher, false)
    }

    fn list<A: SeqAccess<'de>>(self, mut items: A) -> Result<Fingerprints, A::Error> {
        let (hasher, end) = (self.walk.hasher, self.walk.path.len());
        let (mut sum, mut empty) = (FingerprintSum::default(), true);
        self.walk.path.push_str("[]");

        loop {
            let item = SpecTree { walk: &mut *self.walk, depth: 2, slot: self.slot };
            let Some(item) = items.next_element_seed(Visit(item))? else { break };
            sum.item(&hasher, item, true);
            empty = false;
        }

        self.walk.path.truncate(end);
        if empty && self.may_pause && pause::field_pauses(self.parent, self.key, SwitchValue::Empty)
        {
            self.walk.switches.add(SwitchSource::Field, &self.walk.path);
        }

        Ok(sum.list(&hasher))
    }

    fn map<A: MapAccess<'de>>(self, entries: A) -> Result<Fingerprints, A::Error> {
        match self.parent {
            None if self.slot.is_none() && pause::holds_switches(self.key) => {
                SpecBody { walk: self.walk, parent: Some(self.key) }.map(entries)
            }
            // No known switch is deeper than `updateStrategy.rollingUpdate.paused`.
            Some(parent)
                if self.slot.is_none()
                    && !parent.contains('.')
                    && pause::holds_switches(parent) =>
            {
                let parent = format!("{parent}.{}", self.key);
                SpecBody { walk: self.walk, parent: Some(&parent) }.map(entries)
            }
            _ => SpecTree { walk: self.walk, depth: 2, slot: self.slot }.map(entries),
        }
    }
}

impl<'de> AnyShape<'de> for StatusBody<'_, '_> {
    type Out = Fingerprints;

    fn scalar(self, scalar: Scalar<'_>) -> Fingerprints {
        if matches!(scalar, Scalar::Null) {
            return Fingerprints::default();
        }

        self.0.view.status = StatusShape::Malformed;
        self.0.lints.add(Lint::Status);
        scalar.hash(&self.0.hasher, false)
    }

    fn list<A: SeqAccess<'de>>(self, items: A) -> Result<Fingerprints, A::Error> {
        self.0.view.status = StatusShape::Malformed;
        self.0.lints.add(Lint::Status);
        Opaque::status(&self.0.hasher, 1, false).0.list(items)
    }

    fn map<A: MapAccess<'de>>(self, entries: A) -> Result<Fingerprints, A::Error> {
        let walk = self.0;
        walk.view.status = StatusShape::Empty;

        let value =
            StatusValue { walk: &mut *walk, depth: 0, key: StatusKey::default() }.map(entries)?;

        // A zero may be a fact: no replica is wanted, or a flag is not set.
        let is_fact = || walk.view.facts.iter().any(|fact| fact.path.starts_with("status"));
        if !walk.nonzero
            && walk.view.conditions.is_empty()
            && walk.view.observed_generation.is_none()
            && !is_fact()
        {
            walk.view.status = StatusShape::Empty;
        }

        Ok(value)
    }
}

impl StatusKey {
    fn of(key: &str, hash: u64, depth: u8) -> Self {
        let conditions =
            key.len() >= 10 && key.as_bytes()[key.len() - 10..].eq_ignore_ascii_case(b"conditions");
        Self {
            hash,
            reports_state: words::reports_state(key),
            lists_errors: words::lists_errors(key),
            volatile: words::is_volatile(key),
            unlisted_text: (depth == 0 && words::is_milestone_time(key))
                || (depth <= 1 && words::is_transition_time(key))
                || words::is_revision(key, depth),
            grades: matches!(key, "level" | "severity"),
            describes: key == "description",
            conditions,
            kopf: depth == 0 && key == "kopf",
            generation: depth == 0 && words::is_observed_generation(key),
            counted: depth == 0 && words::is_counted_list(key),
        }
    }
}

/// Whether a path of the status ends in a map with the health of parts: `status.extendedHealth.etcd`.
fn is_in_health(path: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(parent, _)| parent.ends_with("ealth"))
}

impl<'de> AnyShape<'de> for StatusValue<'_, '_> {
    type Out = Fingerprints;

    fn scalar(self, scalar: Scalar<'_>) -> Fingerprints {
        let Self { walk, depth, key } = self;
        walk.nonzero |= !matches!(
            scalar,
            Scalar::Null | Scalar::Flag(false) | Scalar::Whole(0) | Scalar::Text("")
        );
        if (key.reports_state && !key.volatile)
            || (key.grades && walk.path.contains("essages["))
            || (key.describes && walk.path.contains("rror."))
            || (depth == 2 && is_in_health(&walk.path) && matches!(scalar, Scalar::Text(_)))
            || (key.unlisted_text && matches!(scalar, Scalar::Text(_)) && !walk.path.contains('['))
        {
            walk.keep(depth > 1, scalar);
        }

        if key.generation {
            let number = match scalar {
                Scalar::Whole(number) => Some(number),
                Scalar::Text(text) => text.trim().parse().ok(),
                Scalar::Null => return scalar.hash(&walk.hasher, false),
                _ => None,
            };

            if number.is_none() {
                walk.lints.add(Lint::ObservedGeneration);
            }

            // The default of an API that the operator replaces after its first success (Flux).
            if number.is_some_and(|number| number < 0) {
                walk.keep(false, Scalar::Whole(-1));
            }

            // Zero or less means that the operator never set the field. Of two fields, the one with
            // the usual name wins.
            if walk.view.observed_generation.is_none() || walk.path == "status.observedGeneration" {
                walk.view.observed_generation = number.filter(|number| *number > 0);
            }
        }

        scalar.hash(&walk.hasher, key.volatile)
    }

    fn list<A: SeqAccess<'de>>(self, mut items: A) -> Result<Fingerprints, A::Error> {
        let Self { walk, depth, key } = self;
        if key.generation {
            walk.lints.add(Lint::ObservedGeneration);
        }

        let (hasher, mut sum, end) = (walk.hasher, FingerprintSum::default(), walk.path.len());
        let mut count = 0;
        for position in 0.. {
            let item = if depth < FACT_DEPTH && position < FACT_POSITIONS {
                let _ = write!(walk.path, "[{position}]"); // writing to a String cannot fail
                let reports_state = key.lists_errors;
                let key =
                    StatusKey { volatile: key.volatile, reports_state, ..StatusKey::default() };

                items.next_element_seed(Visit(StatusValue {
                    walk: &mut *walk,
                    depth: depth + 1,
                    key,
                }))?
            } else {
                walk.nonzero = true;
                items.next_element_seed(Opaque::status(&hasher, depth + 1, key.volatile))?
            };

            walk.path.truncate(end);
            let Some(item) = item else { break };
            sum.item(&hasher, item, true);
            count += 1;
        }

        if key.counted {
            walk.keep(false, Scalar::Whole(count));
        }

        Ok(sum.list(&hasher))
    }

    fn map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Fingerprints, A::Error> {
        let Self { walk, depth, key } = self;
        let (hasher, mut sum, end) = (walk.hasher, FingerprintSum::default(), walk.path.len());
        if depth >= FACT_DEPTH {
            walk.nonzero = true;
            return Opaque::status(&hasher, depth, key.volatile).0.map(entries);
        }

        if key.generation {
            walk.lints.add(Lint::ObservedGeneration);
        }

        loop {
            let seed = |text: &str| {
                walk.push_key(text);
                StatusKey::of(text, hasher.text(text), depth)
            };
            let Some(key) = entries.next_key_seed(MapKey(seed))? else { break };
            let value = if key.kopf {
                entries.next_value_seed(Visit(KopfNotes { view: &mut *walk.view }))?;
                walk.path.truncate(end);
                continue; // the notes are no part of what the status says
            } else if key.conditions {
                entries.next_value_seed(Visit(ConditionsValue { walk: &mut *walk, parent: end }))?
            } else {
                entries.next_value_seed(Visit(StatusValue {
                    walk: &mut *walk,
                    depth: depth + 1,
                    key,
                }))?
            };

            walk.path.truncate(end);
            sum.entry(&hasher, key.hash, value);
            if depth == 0 {
                walk.view.status = StatusShape::Filled;
            }
        }

        Ok(sum.map(&hasher))
    }
}
