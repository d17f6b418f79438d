//! Checkpoints: what survives a restart of loopwatch.

use std::collections::BTreeMap;

use crate::checkpoint::Checkpoint;
use crate::finding::FindingId;
use crate::model::Model;
use crate::model::deletion::finalizers;
use crate::model::world::kinds::durations::Learned;
use crate::observation::{MAX_GRANTED, Permission};

/// The maximum number of namespaces whose permissions a checkpoint keeps.
const MAX_NAMESPACES: usize = 100;

impl Model {
    /// Returns the state that should survive a restart.
    #[must_use]
    pub fn checkpoint(&self) -> Checkpoint {
        let mut learned = self.world.restored.learning.clone();
        let kinds = self.world.kinds.iter().filter(|kind| !kind.learned.is_empty());
        learned.extend(kinds.map(|kind| (kind.name(), kind.learned.to_numbers())));

        let mut phases = self.world.restored.phases.clone();
        let kinds = self.world.kinds.iter().filter(|kind| !kind.phases.is_empty());
        phases.extend(kinds.map(|kind| (kind.name(), kind.phases.to_numbers())));

        let findings = self.findings.start_times();
        let silent = self.findings.silent(self.world.now);
        Checkpoint {
            learned,
            phases,
            findings: ids(findings),
            opened: ids(self.findings.opened()),
            of_controllers: self.findings.collected_anew().map(|id| id.to_string()).collect(),
            silent: ids(silent),
            outputs: self.parts.references.outputs().cloned().collect(),
            leases: self.operator.controllers.remembered(),
            finalizers: finalizers::finalizer_memories(&self.world),
            levels: self.operator.trends.levels(),
            permissions: self.remembered_permissions(),
            reconciles: self.operator.remembered_reconciles(),
        }
    }

    /// Returns the permissions that the account has or had, by namespace: those of the latest review
    /// or, before the first one, those that an earlier process knew.
    #[must_use]
    pub fn remembered_permissions(&self) -> BTreeMap<String, Vec<Permission>> {
        let mut known = self.world.restored.permissions.clone();
        for (namespace, view) in &self.world.permissions {
            if !view.granted.is_empty() {
                let lost = view.withdrawn.iter().filter(|lost| !view.granted.contains(lost));
                let all = lost.chain(&view.granted).take(MAX_GRANTED).cloned();
                known.insert(namespace.clone(), all.collect());
            }
        }

        // The cluster comes first, then the namespaces in their order.
        while known.len() > MAX_NAMESPACES {
            known.pop_last();
        }
        known
    }

    /// Restores what an earlier process knew.
    pub(crate) fn restore(&mut self, checkpoint: Checkpoint) {
        for kind in &mut self.world.kinds {
            if let Some(numbers) = checkpoint.learned.get(&kind.name()) {
                kind.learned = Learned::from_numbers(numbers);
            }

            if let Some(phases) = checkpoint.phases.get(&kind.name()) {
                kind.phases.restore(phases);
            }
        }

        self.world.restored.learning = checkpoint.learned;
        self.world.restored.phases = checkpoint.phases;
        self.world.restored.permissions = checkpoint.permissions;
        self.parts.references.restore_outputs(checkpoint.outputs);
        self.operator.controllers.restore(checkpoint.leases);
        self.operator.trends.restore_levels(self.world.now, checkpoint.levels);
        self.operator.restore_reconciles(self.world.now, checkpoint.reconciles);
        finalizers::restore_finalizers(&mut self.world, checkpoint.finalizers);

        let id = |id: &String| Some(FindingId(u64::from_str_radix(id, 16).ok()?));
        let findings =
            checkpoint.findings.iter().filter_map(|(finding, since)| Some((id(finding)?, *since)));

        // Finding the explanations again takes a while.
        let found_until = self.world.now.after(self.world.settings.deadline);
        let silent = checkpoint.silent.iter();
        let silent = silent
            .filter_map(|(finding, until)| Some((id(finding)?, until.unwrap_or(found_until))));

        let opened = checkpoint.opened.iter().filter_map(|(finding, at)| Some((id(finding)?, *at)));
        self.findings.restore(findings.collect(), silent.collect(), opened.collect());
        let of_controllers = checkpoint.of_controllers.iter().filter_map(id);
        of_controllers.for_each(|id| self.findings.keep_until(id, found_until));
    }
}

/// Returns values by the texts of the IDs of findings.
fn ids<V>(of: BTreeMap<FindingId, V>) -> BTreeMap<String, V> {
    of.into_iter().map(|(id, value)| (id.to_string(), value)).collect()
}
