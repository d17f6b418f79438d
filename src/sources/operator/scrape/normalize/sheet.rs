//! The values of signals while a scrape is in progress.

use super::rules::{Rule, Signal, Take};

/// The signals of a controller, or of the process.
#[derive(Clone, Debug, Default)]
pub(super) struct Sheet([Slot; Signal::NUMBERS]);

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
        let slot = &mut self.0[rule.signal.index()];
        let value = value * rule.factor;
        let is_right = value.is_finite() && value >= 0.0;
        let before = match *slot {
            Slot::Value(rank, _) | Slot::Wrong(rank) if rank < rule.rank => return,
            Slot::Wrong(rank) if rank == rule.rank => return,
            Slot::Value(rank, before) if rank == rule.rank => Some(before),
            _ => None,
        };

        let after = match rule.take {
            Take::Zero => before.unwrap_or_default(),
            Take::Sum | Take::Less if !is_right => {
                *slot = Slot::Wrong(rule.rank);
                return;
            }
            Take::SumOfKnown | Take::Largest if !is_right => return,
            Take::Sum | Take::SumOfKnown => before.unwrap_or_default() + value,
            Take::Less => before.unwrap_or_default() - value,
            Take::Largest => before.map_or(value, |before| before.max(value)),
        };

        *slot = Slot::Value(rule.rank, after);
    }

    /// Returns the value of a signal.
    pub(super) fn get(&self, signal: Signal) -> Option<f64> {
        match self.0[signal.index()] {
            Slot::Value(_, value) => Some(value),
            Slot::Empty | Slot::Wrong(_) => None,
        }
    }

    /// Takes the signals that are absent here from another sheet.
    pub(super) fn complete(&mut self, other: &Self) {
        for (slot, other) in self.0.iter_mut().zip(other.0) {
            if matches!(slot, Slot::Empty) {
                *slot = other;
            }
        }
    }
}
