//! The values of signals while a scrape is in progress.

use loopwatch_model::observation::RECONCILE_BOUNDS;

use super::rules::{Rule, Signal, Take};

/// The signals of a controller, or of the process.
#[derive(Clone, Debug, Default)]
pub(super) struct Sheet {
    numbers: [Slot; Signal::NUMBERS],
    /// The reconciles within each of [`RECONCILE_BOUNDS`].
    within: [Slot; RECONCILE_BOUNDS.len()],
}

#[derive(Clone, Copy, Debug, Default)]
enum Slot {
    #[default]
    Empty,
    /// A value from rules of this rank.
    Value(u8, f64),
    /// A series with an impossible value, from a rule of this rank.
    Wrong(u8),
}

impl Sheet {
    /// Adds a sample to the signal of a rule.
    pub(super) fn add(&mut self, rule: &Rule, value: f64) {
        self.numbers[rule.signal.index()].add(rule, value * rule.factor);
    }

    /// Adds a bucket of the histogram of a rule. `bound` is the position of its bound.
    pub(super) fn add_bucket(&mut self, rule: &Rule, bound: usize, value: f64) {
        self.within.iter_mut().skip(bound).take(1).for_each(|slot| slot.add(rule, value));
    }

    /// Returns the value of a signal.
    pub(super) fn get(&self, signal: Signal) -> Option<f64> {
        self.numbers[signal.index()].get()
    }

    /// Returns each known bound, and the value of its bucket.
    pub(super) fn buckets(&self) -> impl Iterator<Item = (f64, f64)> {
        let slots = RECONCILE_BOUNDS.iter().zip(self.within);
        slots.filter_map(|(bound, slot)| Some((*bound, slot.get()?)))
    }

    /// Takes the signals that are absent here from another sheet.
    pub(super) fn complete(&mut self, other: &Self) {
        // The buckets have to come from the same metric as the number of reconciles.
        if matches!(self.numbers[Signal::Reconciles.index()], Slot::Empty) {
            self.within = other.within;
        }

        for (slot, other) in self.numbers.iter_mut().zip(other.numbers) {
            if matches!(slot, Slot::Empty) {
                *slot = other;
            }
        }
    }
}

impl Slot {
    fn add(&mut self, rule: &Rule, value: f64) {
        let is_right = value.is_finite() && value >= 0.0;
        let before = match *self {
            Self::Value(rank, _) | Self::Wrong(rank) if rank < rule.rank => return,
            Self::Wrong(rank) if rank == rule.rank => return,
            Self::Value(rank, before) if rank == rule.rank => Some(before),
            _ => None,
        };

        let after = match rule.take {
            Take::Zero => before.unwrap_or_default(),
            Take::Sum | Take::Less if !is_right => {
                *self = Self::Wrong(rule.rank);
                return;
            }
            Take::SumOfKnown | Take::Largest if !is_right => return,
            Take::Sum | Take::SumOfKnown => before.unwrap_or_default() + value,
            Take::Less => before.unwrap_or_default() - value,
            Take::Largest => before.map_or(value, |before| before.max(value)),
        };

        *self = Self::Value(rule.rank, after);
    }

    fn get(self) -> Option<f64> {
        match self {
            Self::Value(_, value) => Some(value),
            Self::Empty | Self::Wrong(_) => None,
        }
    }
}
