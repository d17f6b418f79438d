//! The fields that the writes to a suspect change. The watch does not keep the contents of objects, so the
//! sources find the fields out on request: they follow the single object for a while.

use crate::model::world::World;
use crate::model::world::store::Slot;
use crate::observation::{MAX_FIELD_BYTES, MAX_FIELDS, ObjectKey, Probe};
use crate::time::{Span, Timestamp};

/// What is known about the fields.
#[derive(Debug, Default)]
pub(super) struct Fields {
    /// The fields, the most frequent first; empty if nobody knows them.
    known: Vec<String>,
    /// When the model asked for them last, and how often it has.
    asked: Option<(Timestamp, u32)>,
}

/// How long to wait before the model asks again. After each question, it waits twice as long.
const ASKED_AFTER: Span = Span::mins(1);

/// The longest wait, as a power of two.
const PATIENCE: u32 = 4;

impl Fields {
    /// All fields.
    pub(super) fn all(&self) -> Vec<String> {
        self.known.clone()
    }

    /// The fields of a part: `spec` or `status`.
    pub(super) fn of(&self, part: &str) -> Vec<String> {
        let is_of_part = |field: &&String| {
            let rest = field.strip_prefix(part);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        self.known.iter().filter(is_of_part).cloned().collect()
    }

    /// Asks for the fields, unless they are known or the last question is too recent.
    pub(super) fn ask(&mut self, world: &mut World, slot: Slot) {
        let wait = |times: u32| Span(ASKED_AFTER.0 << (times - 1).min(PATIENCE));
        let is_early = self.asked.is_some_and(|(at, times)| world.now.since(at) < wait(times));
        let Some(record) = world.store.get(slot).filter(|_| self.known.is_empty() && !is_early)
        else {
            return;
        };

        let watch = world.watches[usize::from(record.watch)].id.clone();
        let object =
            ObjectKey { namespace: record.namespace.to_string(), name: record.name.to_string() };
        self.asked = Some((world.now, self.asked.map_or(1, |(_, times)| times.saturating_add(1))));
        world.agenda.probes.insert(Probe::Fields { watch, object });
    }

    /// Takes an answer.
    pub(super) fn note(&mut self, mut fields: Vec<String>) {
        fields.retain(|field| field.len() <= MAX_FIELD_BYTES);
        fields.truncate(MAX_FIELDS);
        self.known = fields;
    }

    pub(super) fn clock_stepped(&mut self, by_ms: i64) {
        self.asked = self.asked.map(|(at, times)| (at.shifted(by_ms), times));
    }
}
