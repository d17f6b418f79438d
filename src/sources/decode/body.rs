//! The spec and the status: fingerprints, switches, conditions and facts in one walk.

use std::fmt::Write as _;

use loopwatch_model::observation::{Fact, FactValue, ObjectView, StatusShape};
use serde::de::{MapAccess, SeqAccess};

use super::conditions::Conditions;
use super::hash::{Hasher, Pair, Sum};
use super::leaf::Leaf;
use super::lint::{Lint, Lints};
use super::pause::{self, Value};
use super::shape::{Key, Scalar, Shape, Take};
use super::switches::{SwitchSource, Switches};
use super::words::{self, Hint};
use super::{MAX_FACT, MAX_ITEMS};

/// Facts deeper in the status than its own fields may not take the room of those.
const MAX_NESTED_FACTS: usize = 40;

/// Below this depth of the status, and from this position of a list on, there are no facts.
const FACT_DEPTH: u8 = 6;
const FACT_POSITIONS: usize = 16;

/// Longest path of a fact.
const MAX_PATH: usize = 192;

/// What a walk carries along.
pub(super) struct Walk<'w> {
    pub(super) hasher: Hasher,
    pub(super) view: &'w mut ObjectView,
    pub(super) lints: &'w mut Lints,
    pub(super) switches: &'w mut Switches,
    /// Where the walk is.
    pub(super) path: String,
    /// Facts found below the fields of the status.
    pub(super) nested: usize,
}

/// `.spec` and the maps in it that hold switches.
pub(super) struct Spec<'a, 'w> {
    pub(super) walk: &'a mut Walk<'w>,
    /// The path below the spec, when this is a map in it.
    pub(super) parent: Option<&'a str>,
}

/// `.status`.
pub(super) struct Status<'a, 'w>(pub(super) &'a mut Walk<'w>);

/// Something in the status.
struct Part<'a, 'w> {
    walk: &'a mut Walk<'w>,
    depth: u8,
    key: StatusKey,
}

/// What a key of the status says about its value.
#[derive(Clone, Copy, Default)]
struct StatusKey {
    hash: u64,
    tells: bool,
    passes: bool,
    /// Holds the time of a milestone.
    marks: bool,
    conditions: bool,
    generation: bool,
}

/// A value in the spec.
struct Field<'a, 'w> {
    walk: &'a mut Walk<'w>,
    parent: Option<&'a str>,
    key: &'a str,
    hint: Hint,
    switches: bool,
}

// === impl Walk ===

impl Walk<'_> {
    /// Keeps a fact at the current path.
    fn keep(&mut self, nested: bool, scalar: Scalar<'_>) {
        let value = match scalar {
            Scalar::Flag(value) => FactValue::Flag(value),
            Scalar::Whole(value) => FactValue::Number(value),
            Scalar::Text(value) => FactValue::Text(words::cut(value, MAX_FACT).to_owned()),
            Scalar::Null | Scalar::Float(_) | Scalar::Tree => return,
        };
        if self.view.facts.len() >= MAX_ITEMS || (nested && self.nested >= MAX_NESTED_FACTS) {
            self.lints.add(Lint::ManyFacts);
            return;
        }
        if self.path.len() > MAX_PATH {
            return;
        }
        self.nested += usize::from(nested);
        self.view.facts.push(Fact { path: self.path.clone(), value });
    }

    fn push_key(&mut self, key: &str) {
        self.path.push('.');
        // A key may be as long as the document; what is too long for a fact is not kept anyway.
        self.path.push_str(words::cut(key, MAX_PATH));
    }
}

// === impl Spec ===

impl<'de> Shape<'de> for Spec<'_, '_> {
    type Out = Pair;

    fn scalar(self, scalar: Scalar<'_>) -> Pair {
        scalar.hash(&self.walk.hasher, false)
    }

    fn list<A: SeqAccess<'de>>(self, items: A) -> Result<Pair, A::Error> {
        Leaf::plain(&self.walk.hasher, 1).0.list(items)
    }

    fn map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Pair, A::Error> {
        let Self { walk, parent } = self;
        let (hasher, mut sum, mut key) = (walk.hasher, Sum::default(), String::new());
        let end = walk.path.len();
        loop {
            let seed = |text: &str| {
                key.clear();
                key.push_str(words::cut(text, MAX_PATH));
                (hasher.text(text), words::hint(text), pause::may_pause(text))
            };
            let Some((hash, hint, switches)) = entries.next_key_seed(Key(seed))? else { break };
            walk.push_key(&key);
            let value = entries.next_value_seed(Take(Field { walk: &mut *walk, parent, key: &key, hint, switches }))?;
            walk.path.truncate(end);
            sum.entry(&hasher, hash, value);
        }
        Ok(sum.map(&hasher))
    }
}

// === impl Field ===

impl<'de> Shape<'de> for Field<'_, '_> {
    type Out = Pair;

    fn scalar(self, scalar: Scalar<'_>) -> Pair {
        let Self { walk, parent, key, hint, switches } = self;
        let value = match scalar {
            Scalar::Flag(value) => Some(Value::Flag(value)),
            Scalar::Text(value) => Some(Value::Text(value)),
            _ => None,
        };
        if let Some(value) = value.filter(|_| switches || hint.wishes)
            && pause::by_field(parent, key, value)
        {
            walk.switches.add(SwitchSource::Field, &walk.path);
        }
        let kept = match scalar {
            Scalar::Whole(_) => hint.sizes,
            Scalar::Flag(_) => hint.wishes || switches,
            // Of the spec only single words, such as a wanted state, are ever kept.
            Scalar::Text(text) => {
                (hint.wishes || switches) && text.len() <= 32 && text.bytes().all(|b| b.is_ascii_alphabetic())
            }
            _ => false,
        };
        if kept {
            walk.keep(parent.is_some(), scalar);
        }
        scalar.hash(&walk.hasher, false)
    }

    fn list<A: SeqAccess<'de>>(self, mut items: A) -> Result<Pair, A::Error> {
        let hasher = self.walk.hasher;
        let (mut sum, mut empty) = (Sum::default(), true);
        while let Some(item) = items.next_element_seed(Leaf::plain(&hasher, 2))? {
            sum.item(&hasher, item, true);
            empty = false;
        }
        if empty && self.switches && pause::by_field(self.parent, self.key, Value::Empty) {
            self.walk.switches.add(SwitchSource::Field, &self.walk.path);
        }
        Ok(sum.list(&hasher))
    }

    fn map<A: MapAccess<'de>>(self, entries: A) -> Result<Pair, A::Error> {
        match self.parent {
            None if pause::holds_switches(self.key) => Spec { walk: self.walk, parent: Some(self.key) }.map(entries),
            // `updateStrategy.rollingUpdate.paused` is as deep as switches go.
            Some(parent) if !parent.contains('.') && pause::holds_switches(parent) => {
                let parent = format!("{parent}.{}", self.key);
                Spec { walk: self.walk, parent: Some(&parent) }.map(entries)
            }
            _ => Leaf::plain(&self.walk.hasher, 2).0.map(entries),
        }
    }
}

// === impl Status ===

impl<'de> Shape<'de> for Status<'_, '_> {
    type Out = Pair;

    fn scalar(self, scalar: Scalar<'_>) -> Pair {
        if matches!(scalar, Scalar::Null) {
            return Pair::default();
        }
        self.0.view.status = StatusShape::Malformed;
        self.0.lints.add(Lint::Status);
        scalar.hash(&self.0.hasher, false)
    }

    fn list<A: SeqAccess<'de>>(self, items: A) -> Result<Pair, A::Error> {
        self.0.view.status = StatusShape::Malformed;
        self.0.lints.add(Lint::Status);
        Leaf::unseen(&self.0.hasher, 1, false).0.list(items)
    }

    fn map<A: MapAccess<'de>>(self, entries: A) -> Result<Pair, A::Error> {
        self.0.view.status = StatusShape::Empty;
        Part { walk: self.0, depth: 0, key: StatusKey::default() }.map(entries)
    }
}

// === impl StatusKey ===

impl StatusKey {
    fn of(key: &str, hash: u64, depth: u8) -> Self {
        let conditions = key.len() >= 10 && key.as_bytes()[key.len() - 10..].eq_ignore_ascii_case(b"conditions");
        Self {
            hash,
            tells: words::tells(key),
            passes: words::passes(key),
            marks: depth == 0 && words::marks(key),
            conditions,
            generation: depth == 0 && words::observes(key),
        }
    }
}

// === impl Part ===

impl<'de> Shape<'de> for Part<'_, '_> {
    type Out = Pair;

    fn scalar(self, scalar: Scalar<'_>) -> Pair {
        let Self { walk, depth, key } = self;
        if (key.tells && !key.passes) || (key.marks && matches!(scalar, Scalar::Text(_))) {
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
            // Zero and below are what a field holds that was never set. Where there are two, the usual name counts.
            if walk.view.observed_generation.is_none() || walk.path == "status.observedGeneration" {
                walk.view.observed_generation = number.filter(|number| *number > 0);
            }
        }
        scalar.hash(&walk.hasher, key.passes)
    }

    fn list<A: SeqAccess<'de>>(self, mut items: A) -> Result<Pair, A::Error> {
        let Self { walk, depth, key } = self;
        if key.generation {
            walk.lints.add(Lint::ObservedGeneration);
        }
        let (hasher, mut sum, end) = (walk.hasher, Sum::default(), walk.path.len());
        for position in 0.. {
            let item = if depth < FACT_DEPTH && position < FACT_POSITIONS {
                let _ = write!(walk.path, "[{position}]"); // writing to a String cannot fail
                let key = StatusKey { passes: key.passes, ..StatusKey::default() };
                items.next_element_seed(Take(Part { walk: &mut *walk, depth: depth + 1, key }))?
            } else {
                items.next_element_seed(Leaf::unseen(&hasher, depth + 1, key.passes))?
            };
            walk.path.truncate(end);
            let Some(item) = item else { break };
            sum.item(&hasher, item, true);
        }
        Ok(sum.list(&hasher))
    }

    fn map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Pair, A::Error> {
        let Self { walk, depth, key } = self;
        let (hasher, mut sum, end) = (walk.hasher, Sum::default(), walk.path.len());
        if depth >= FACT_DEPTH {
            return Leaf::unseen(&hasher, depth, key.passes).0.map(entries);
        }
        if key.generation {
            walk.lints.add(Lint::ObservedGeneration);
        }
        loop {
            let seed = |text: &str| {
                walk.push_key(text);
                StatusKey::of(text, hasher.text(text), depth)
            };
            let Some(key) = entries.next_key_seed(Key(seed))? else { break };
            let value = if key.conditions {
                entries.next_value_seed(Take(Conditions { walk: &mut *walk, parent: end }))?
            } else {
                entries.next_value_seed(Take(Part { walk: &mut *walk, depth: depth + 1, key }))?
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
