//! What the owned objects of a kind have in common: how the operator marks its objects.

use std::collections::BTreeMap;

use crate::model::world::owner_graph::Owner;

/// Counts of the owned objects of a kind, which show how the operator marks its objects.
#[derive(Debug, Default)]
pub(crate) struct Siblings {
    /// Objects with an owner now.
    pub(crate) owned: u64,
    /// Their owner references.
    pub(crate) references: u64,
    /// Objects with an owner and labels that loopwatch has seen.
    labelled: u64,
    /// By label: how many of these had the name of their owner as its value. At most
    /// [`MAX_LABELS`].
    naming: BTreeMap<String, u64>,
}

const MAX_LABELS: usize = 16;

/// Once this many owned objects have the name of their owner in a label, the label counts as one
/// that names owners.
const NAMING_FROM: u64 = 5;

impl Siblings {
    /// Counts an object whose owners change from `old` to `new`.
    pub(crate) fn count(&mut self, old: &[Owner], new: &[Owner]) {
        let change =
            |count: u64, old: usize, new: usize| (count + new as u64).saturating_sub(old as u64);
        self.owned = change(self.owned, usize::from(!old.is_empty()), usize::from(!new.is_empty()));
        self.references = change(self.references, old.len(), new.len());
    }

    /// Learns from an owned object. Returns whether one of its labels now names owners, and did
    /// not before.
    pub(crate) fn learn(&mut self, labels: &BTreeMap<String, String>, owner: &str) -> bool {
        if labels.is_empty() {
            return false;
        }

        let known: Vec<&String> = labels.keys().filter(|key| self.names_owners(key)).collect();
        self.labelled = self.labelled.saturating_add(1);
        for (key, _) in labels.iter().filter(|(_, value)| *value == owner) {
            if self.naming.len() < MAX_LABELS || self.naming.contains_key(key) {
                *self.naming.entry(key.clone()).or_default() += 1;
            }
        }

        labels.keys().any(|key| self.names_owners(key) && !known.contains(&key))
    }

    /// Returns whether the label has the name of the owner as its value on nearly all owned objects.
    fn names_owners(&self, key: &str) -> bool {
        let count = self.naming.get(key).copied().unwrap_or_default();
        count >= NAMING_FROM && count * 100 >= self.labelled * 80
    }

    /// Returns the name of the owner according to the labels of an object, if nearly all owned
    /// objects of the kind have it in the same label.
    pub(crate) fn named_owner<'a>(&self, labels: &'a BTreeMap<String, String>) -> Option<&'a str> {
        let mut names = labels.iter().filter(|(key, _)| self.names_owners(key));
        names.next().map(|(_, value)| value.as_str())
    }
}
