//! What callers take from the model: changes of findings, ended traces, and probes to answer.

use crate::finding::FindingEvent;
use crate::model::Model;
use crate::model::operator::leases::LeaderElection;
use crate::model::visibility::lists;
use crate::observation::Probe;
use crate::reference::ReferenceEvent;
use crate::settings::Settings;
use crate::time::Timestamp;
use crate::trace::Trace;

impl Model {
    /// Starts to gather traces. [`Model::traces`] returns those that have ended.
    pub fn gather_traces(&mut self) {
        self.traces.gather(self.world.settings.limits.trace_bytes);
    }

    /// Removes and returns the traces that have ended since the last call.
    pub fn traces(&mut self) -> Vec<Trace> {
        self.traces.take_ended(&self.operator.revision_label())
    }

    /// Returns the state of leader election.
    #[must_use]
    pub fn leader_election(&self) -> LeaderElection {
        self.operator.leader_election(self.world.now)
    }

    /// Removes and returns all probes without a rate limit, for sources that can answer at no cost,
    /// such as a dump.
    pub fn all_probes(&mut self) -> Vec<Probe> {
        let mut probes = self.probes();
        probes.extend(self.world.lookups.take_all());
        self.world.set_reads_timer();
        probes
    }

    /// Returns the number of urgent reads that have no answer yet.
    #[must_use]
    pub fn urgent_reads(&self) -> usize {
        self.world.lookups.urgent()
    }

    /// Returns the settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.world.settings
    }

    /// Returns when the next timer is due. Until then only observations change the model.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        self.world.agenda.timers.next_due()
    }

    /// Removes and returns the probes that the sources should answer, at most one per watch and a
    /// few reads of objects.
    pub fn probes(&mut self) -> Vec<Probe> {
        let probes = std::mem::take(&mut self.world.agenda.probes);
        for probe in &probes {
            let Probe::Count(watch) = probe else { continue };
            let number = self.world.find_watch(watch);
            if let Some(number) = number.filter(|n| self.world.watches[*n as usize].active) {
                lists::schedule_audit(&mut self.world, number);
            }
        }

        probes.into_iter().chain(self.world.take_reads()).collect()
    }

    /// Removes and returns the finding events since the last call. Only the newest 10,000 are kept.
    pub fn finding_events(&mut self) -> Vec<FindingEvent> {
        self.findings.take_events()
    }

    /// Removes and returns the reference events since the last call. Only the newest 10,000 are
    /// kept.
    pub fn reference_events(&mut self) -> Vec<ReferenceEvent> {
        self.world.reference_events.take()
    }
}
