//! The symbols of one version of an object: for its phase, its conditions and its finalizers.

use std::sync::Arc;

use crate::model::status::reading;
use crate::model::world::World;
use crate::model::world::intern::{ConditionSet, Symbol};
use crate::model::world::kinds::OTHER;
use crate::model::world::limits::Limit;
use crate::model::world::store::{Record, Slot};
use crate::observation::{Condition, ObjectView};
use crate::snapshot::ConditionState;

pub(crate) use crate::model::world::limits::MAX_CONDITIONS;

/// The symbols of one version of an object.
#[derive(Clone, Copy)]
pub(crate) struct Symbols {
    pub(crate) phase: Symbol,
    pub(crate) conditions: Symbol,
    pub(crate) finalizers: Symbol,
}

impl Symbols {
    pub(crate) fn of(record: &Record) -> Self {
        Self { phase: record.phase, conditions: record.conditions, finalizers: record.finalizers }
    }
}

/// Returns the types and statuses of the top-level conditions, each type once.
fn condition_set(conditions: &[Condition]) -> Vec<ConditionState> {
    let mut set: Vec<ConditionState> = Vec::new();
    for condition in conditions.iter().filter(|c| c.at.is_empty() && !c.r#type.is_empty()) {
        if !set.iter().any(|known| *known.r#type == *condition.r#type) {
            set.push(ConditionState {
                r#type: condition.r#type.as_str().into(),
                status: condition.status.as_str(),
            });
        }
    }

    set
}

impl World {
    /// Acquires the symbols of a version. The second value is `false` if the version has more than
    /// [`MAX_CONDITIONS`].
    pub(crate) fn acquire_symbols(
        &mut self,
        view: &ObjectView,
        finalizers: &[Arc<str>],
    ) -> (Symbols, bool) {
        let phase = self.acquire_text(reading::phase(view));
        let mut conditions = condition_set(&view.conditions);
        let fits = conditions.len() <= MAX_CONDITIONS;
        conditions.truncate(MAX_CONDITIONS);

        let conditions = self.acquire_conditions(&conditions);
        (Symbols { phase, conditions, finalizers: self.acquire_finalizers(finalizers) }, fits)
    }

    /// Drops the references that [`Self::acquire_symbols`] has added.
    pub(crate) fn release_symbols(&mut self, symbols: Symbols) {
        self.shared.texts.release(symbols.phase);
        self.shared.condition_sets.release(symbols.conditions);
        self.shared.finalizer_sets.release(symbols.finalizers);
    }

    pub(crate) fn acquire_text(&mut self, text: &str) -> Symbol {
        self.shared.texts.acquire(text).unwrap_or_else(|empty| {
            self.count_dropped(Limit::Texts);
            empty
        })
    }

    fn acquire_conditions(&mut self, conditions: &ConditionSet) -> Symbol {
        self.shared.condition_sets.acquire(conditions).unwrap_or_else(|empty| {
            self.count_dropped(Limit::ConditionSets);
            empty
        })
    }

    /// Returns the symbol of a finalizer set. A set that does not fit must not read as empty.
    fn acquire_finalizers(&mut self, finalizers: &[Arc<str>]) -> Symbol {
        self.shared.finalizer_sets.acquire(finalizers).unwrap_or_else(|_| {
            self.count_dropped(Limit::FinalizerSets);
            self.shared
                .finalizer_sets
                .acquire(&[Arc::from(OTHER)])
                .unwrap_or(self.shared.other_finalizers)
        })
    }

    /// Returns the finalizers of an object as far as the model knows them.
    pub(crate) fn finalizers_of(&self, slot: Slot) -> Vec<Arc<str>> {
        let Some(record) = self.store.get(slot) else { return Vec::new() };
        match record.hot.as_ref().and_then(|hot| hot.deletion.as_ref()) {
            Some(deletion) => {
                deletion.actors.iter().map(|(finalizer, _)| finalizer.clone()).collect()
            }
            None if record.finalizers == self.shared.other_finalizers => Vec::new(),
            None => self.shared.finalizer_sets.get(record.finalizers).to_vec(),
        }
    }
}
