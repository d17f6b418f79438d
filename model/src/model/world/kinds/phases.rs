//! How long the objects of a kind usually stay in each of their phases.
//!
//! A phase is a part of the whole work. If the objects of a kind wait for hours in a queue and then
//! take minutes, an object that works for an hour is stuck, although its whole time is as usual.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::world::kinds::durations::Durations;
use crate::model::world::kinds::pace::Wait;
use crate::time::Span;

/// The maximum number of phases of a kind whose stays are learned.
const MAX_PHASES: usize = 32;

/// A phase, and whether the object goes through it after its creation or later.
type Passage = (Arc<str>, bool);

/// The learned stays in the phases of one kind.
#[derive(Debug, Default)]
pub(crate) struct Phases {
    stays: BTreeMap<Passage, Stays>,
}

/// The stays in one phase.
#[derive(Debug, Default)]
struct Stays {
    durations: Durations,
    /// The latest stay that was longer than usual and counts.
    longer: Option<Wait>,
}

impl Phases {
    /// Records a stay that has just ended. One that took longer than usual counts as late work, and
    /// only if the end of an outage cannot have ended it together with others.
    pub(crate) fn left(&mut self, phase: &Arc<str>, creation: bool, stay: Wait, usual: bool) {
        let passage = (phase.clone(), creation);
        if self.stays.len() >= MAX_PHASES && !self.stays.contains_key(&passage) {
            return;
        }

        let stays = self.stays.entry(passage).or_default();
        let took = stay.to.since(stay.from);
        if usual {
            stays.durations.add(took);
        } else if stays.longer.is_none_or(|longer| stay.is_independent_of(longer)) {
            stays.longer = Some(stay);
            stays.durations.add_censored(took);
            stays.durations.add_late(took);
        }
    }

    /// Returns how long nearly all objects stay in a phase; `None` with fewer than `learn_after`
    /// stays.
    pub(crate) fn usual(&self, phase: &Arc<str>, creation: bool, learn_after: u32) -> Option<Span> {
        self.stays.get(&(phase.clone(), creation))?.durations.usual(learn_after)
    }

    /// Returns the form that checkpoints store: the counts of each phase by its name, which begins
    /// with `+` for the passage after a creation.
    pub(crate) fn to_numbers(&self) -> BTreeMap<String, Vec<u64>> {
        let numbers = self.stays.iter().map(|((phase, creation), stays)| {
            let sign = if *creation { "+" } else { "" };
            (format!("{sign}{phase}"), stays.durations.to_numbers())
        });

        numbers.collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.stays.is_empty()
    }

    /// Replaces the stays by those in the form that checkpoints store.
    pub(crate) fn restore(&mut self, phases: &BTreeMap<String, Vec<u64>>) {
        let stays = phases.iter().take(MAX_PHASES).map(|(name, numbers)| {
            let created = name.strip_prefix('+');
            let passage = (created.unwrap_or(name).into(), created.is_some());
            let durations = Durations::from_numbers(numbers);
            (passage, Stays { durations, longer: None })
        });

        self.stays = stays.collect();
    }

    /// Moves all instants by `by_ms` milliseconds.
    pub(crate) fn rebase(&mut self, by_ms: i64) {
        let longer = self.stays.values_mut().filter_map(|stays| stays.longer.as_mut());
        longer.for_each(|wait| wait.rebase(by_ms));
    }
}
