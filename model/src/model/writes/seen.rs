//! One version of an object, as far as the rules compare versions.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher as _};

use crate::model::writes::author::Author;
use crate::model::writes::change::Change;
use crate::observation::ObjectView;
use crate::time::Timestamp;

/// The maximum number of conditions whose times are compared.
const MAX_CONDITIONS: usize = 16;

/// One version.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) at: Timestamp,
    pub(super) change: Change,
    pub(super) author: Option<Author>,
    /// Fingerprint of the status without times.
    pub(super) settled: u64,
    /// Fingerprint of the whole status.
    pub(super) status: u64,
    /// Fingerprint of what the model reads in the status: conditions, phases, counts.
    pub(super) said: u64,
    /// The times of the conditions, by the fingerprints of their types; at most [`MAX_CONDITIONS`].
    pub(super) times: Box<[(u64, Timestamp)]>,
}

// The memory budget of a suspect: less than two kilobytes.
const _: () = assert!(size_of::<Seen>() <= 88, "a version has grown past its budget");

impl Seen {
    pub(super) fn new(
        at: Timestamp,
        change: Change,
        author: Option<Author>,
        view: &ObjectView,
    ) -> Self {
        let times =
            view.conditions.iter().filter_map(|it| Some((fingerprint(&it.r#type), it.changed?)));
        Self {
            at,
            change,
            author,
            settled: view.hashes.settled,
            status: view.hashes.status,
            said: said(view),
            times: times.take(MAX_CONDITIONS).collect(),
        }
    }

    /// Whether a later version has an earlier time of a condition.
    pub(super) fn is_set_back_by(&self, later: &Self) -> bool {
        let before = |(kind, at): &(u64, Timestamp)| {
            later.times.iter().any(|(other, then)| other == kind && then < at)
        };
        self.times.iter().any(before)
    }

    /// Whether the version differs from the one before in the status, but in nothing that the model
    /// reads there.
    pub(super) fn is_unsaid(&self, before: &Self) -> bool {
        self.change.status && !self.change.spec && self.said == before.said
    }
}

/// Adds an item to a queue, whose first item leaves if it has `limit` of them.
pub(super) fn push<T>(queue: &mut VecDeque<T>, item: T, limit: usize) {
    if queue.len() == limit {
        queue.pop_front();
    }
    queue.push_back(item);
}

/// Returns a fingerprint of what the model reads in a status: conditions without times and messages,
/// phases, counts.
fn said(view: &ObjectView) -> u64 {
    let conditions = view.conditions.iter();
    let conditions: Vec<_> =
        conditions.map(|it| (&it.at, &it.r#type, it.status, &it.reason)).collect();
    fingerprint(&(conditions, &view.facts))
}

fn fingerprint(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
