//! What survives a restart of loopwatch.

use crate::checkpoint::Checkpoint;
use crate::finding::FindingId;
use crate::model::Model;
use crate::model::world::kinds::durations::Learned;

// === impl Model ===

impl Model {
    /// Returns the state that should survive a restart.
    #[must_use]
    pub fn checkpoint(&self) -> Checkpoint {
        let mut learned = self.restored_learning.clone();
        let kinds = self.kinds.iter().filter(|kind| !kind.learned.is_empty());
        learned.extend(kinds.map(|kind| (kind.name(), kind.learned.to_numbers())));

        let findings = self.open_findings.start_times();
        let silent = self.open_findings.silent(self.now);
        Checkpoint {
            learned,
            findings: findings.into_iter().map(|(id, since)| (id.to_string(), since)).collect(),
            of_controllers: self.open_findings.of_controllers().map(|id| id.to_string()).collect(),
            silent: silent.into_iter().map(|(id, until)| (id.to_string(), until)).collect(),
            outputs: self.references.outputs().cloned().collect(),
            leases: self.controllers.remembered(),
            finalizers: self.finalizer_memories(),
        }
    }

    /// Takes over what an earlier process knew.
    pub(crate) fn restore(&mut self, checkpoint: Checkpoint) {
        for kind in &mut self.kinds {
            if let Some(numbers) = checkpoint.learned.get(&kind.name()) {
                kind.learned = Learned::from_numbers(numbers);
            }
        }

        self.restored_learning = checkpoint.learned;
        self.references.restore_outputs(checkpoint.outputs);
        self.controllers.restore(checkpoint.leases);
        self.restore_finalizers(checkpoint.finalizers);

        let id = |id: &String| Some(FindingId(u64::from_str_radix(id, 16).ok()?));
        let findings =
            checkpoint.findings.iter().filter_map(|(finding, since)| Some((id(finding)?, *since)));

        // It takes a while to find the explanations again.
        let found_until = self.now.after(self.settings.deadline);
        let silent = checkpoint.silent.iter();
        let silent = silent
            .filter_map(|(finding, until)| Some((id(finding)?, until.unwrap_or(found_until))));

        self.open_findings.restore(findings.collect(), silent.collect());
        let of_controllers = checkpoint.of_controllers.iter().filter_map(id);
        of_controllers.for_each(|id| self.open_findings.keep_until(id, found_until));
    }
}
