//! The state of a walk through the spec and the status.

use loopwatch_model::observation::{Fact, FactValue, ObjectView};

use super::hash::Hasher;
use super::limits::{MAX_FACT, MAX_ITEMS};
use super::lint::{Lint, Lints};
use super::shape::Scalar;
use super::switches::Switches;
use super::words;

/// Maximum number of facts below the fields of the status, so that there is room for the fields
/// themselves.
const MAX_NESTED_FACTS: usize = 40;

/// Longest path of a fact, in bytes.
pub(super) const MAX_PATH: usize = 192;

/// The state of a walk.
pub(super) struct Walk<'w> {
    pub(super) hasher: Hasher,
    pub(super) view: &'w mut ObjectView,
    pub(super) lints: &'w mut Lints,
    pub(super) switches: &'w mut Switches,
    /// The path of the current value.
    pub(super) path: String,
    /// Number of facts below the fields of the status.
    pub(super) nested: usize,
    /// Whether the status has a value that is not the zero value of its type, or is too deep for
    /// the walk.
    pub(super) nonzero: bool,
}

impl Walk<'_> {
    /// Keeps a fact at the current path.
    pub(super) fn keep(&mut self, nested: bool, scalar: Scalar<'_>) {
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

    /// Appends a key to the path.
    pub(super) fn push_key(&mut self, key: &str) {
        self.path.push('.');
        // A key may be as long as the document. `keep` drops facts with longer paths anyway.
        self.path.push_str(words::cut(key, MAX_PATH));
    }
}
