//! What one observation does, from its arrival to the end of the step. This is the only way to
//! change the model.

use crate::model::Model;
use crate::model::world::timers::Timer;
use crate::observation::{Answer, Observation, Probe, SourceId, WatchId};
use crate::time::Timestamp;

// === impl Model ===

impl Model {
    /// Handles one observation. Timers that are due at or before `at` fire first, each at its due
    /// time. The model's time never goes back: an `at` before the current time counts as the
    /// current time.
    pub fn apply(&mut self, at: Timestamp, observation: Observation) {
        if let Observation::ClockStepped { by_ms } = observation {
            // By the old setting, the step happened at `before`.
            let before = at.shifted(by_ms.saturating_neg());
            self.fire_timers(before);
            self.time_passes(before);
            self.now = self.now.max(before);
            self.clock_stepped(by_ms);
        }

        self.fire_timers(at);
        self.time_passes(at);
        self.now = self.now.max(at);

        if let Some(label) = source_label(&observation) {
            *self.observations.entry(label).or_default() += 1;
        }

        self.handle(observation);
        self.finish_step();
    }

    /// Fires the timers that are due at or before `at`, each as if its due time were now.
    fn fire_timers(&mut self, at: Timestamp) {
        while let Some((due, timer)) = self.timers.pop(at) {
            self.time_passes(due);
            self.now = self.now.max(due);
            match timer {
                Timer::Object(slot) => self.object_due(slot),
                Timer::Kind(number) => {
                    self.kinds[number as usize].due = None;
                    self.review_kind(number);
                }
                Timer::Source(number) => self.source_due(number),
                Timer::Audit(number) => self.audit_due(number),
                Timer::Links => self.links_due(),
                Timer::Hazards => self.hazards_due(),
                Timer::Reads => self.reads_due(),
                Timer::References => self.references_due(),
                Timer::Containers => self.containers_due(),
                Timer::Configurations => self.configurations_due(),
                Timer::Operator => self.operator_due(),
                Timer::Findings => {
                    self.findings_due = None;
                    self.hold_limits();
                    self.findings_due();
                }
            }

            self.finish_step();
        }
    }

    /// Passes an observation to the part of the model that knows what it means.
    fn handle(&mut self, observation: Observation) {
        match observation {
            // Kinds, and the objects of their watches.
            Observation::KindsDiscovered(list) => self.kinds_discovered(&list),
            Observation::ListBegan { watch, epoch } => {
                self.with_watch(&watch, |model, n| model.list_began(n, epoch))
            }
            Observation::Listed { watch, object } => {
                self.with_watch(&watch, |model, n| model.object_seen(n, *object, false));
            }
            Observation::ListEnded { watch, epoch, version } => {
                self.with_watch(&watch, |model, n| model.list_ended(n, epoch, &version));
            }
            Observation::Applied { watch, object } => {
                self.with_watch(&watch, |model, n| model.object_seen(n, *object, true));
            }
            Observation::Deleted { watch, key, version } => {
                self.with_watch(&watch, |model, n| model.object_deleted(n, &key, &version));
            }
            Observation::Progressed { watch, version } => {
                self.with_watch(&watch, |model, n| model.version_reached(n, &version, false));
            }
            Observation::Skipped { source, cause } => self.object_skipped(&source, cause),
            Observation::EventSeen { watch, event } => self.event_seen(&watch, *event),

            // What surrounds them.
            Observation::DefinitionSeen(definition) => self.definition_seen(definition),
            Observation::DefinitionGone(name) => self.definition_gone(name),
            Observation::DefinitionsListed(names) => self.definitions_listed(&names),
            Observation::NamespacesListed(namespaces) => self.namespaces_listed(namespaces),
            Observation::NamespaceSeen(namespace) => self.namespace_seen(namespace),
            Observation::NamespaceGone(name) => self.namespace_gone(&name),

            // The operator itself.
            Observation::PermissionsReviewed(view) => self.permissions_reviewed(view),
            Observation::LeaseSeen(lease) => self.lease_seen(lease),
            Observation::LeaseGone { namespace, name } => self.lease_gone(namespace, name),
            Observation::LeasesListed { namespace, names } => {
                self.leases_listed(&namespace, &names)
            }
            Observation::OperatorSeen(view) => self.operator_seen(*view),
            Observation::MetricsScraped(view) => self.metrics_scraped(*view),
            Observation::ScrapeFailed { instance, cause, detail } => {
                self.scrape_failed(&instance, cause, &detail)
            }
            Observation::ProcessSeen(view) => self.process_seen(*view),
            Observation::ProcessGone { instance } => self.process_gone(&instance),

            // Answers to the model's probes.
            Observation::Answered { probe, answer } => self.answered(&probe, answer),

            // Sources that fail or recover, and loopwatch itself.
            Observation::SourceFailed { source, .. }
            | Observation::SourceOff { source, .. }
            | Observation::SourceRestricted { source, .. }
            | Observation::SourceRecovered { source }
                if self.has_ended(&source) => {}
            Observation::SourceFailed { source, cause, detail } => {
                self.source_failed(&source, cause, &detail)
            }
            Observation::SourceOff { source, reason } => self.source_off(&source, reason),
            Observation::SourceRecovered { source } => self.source_recovered(&source),
            Observation::SourceRestricted { source, reason } => {
                self.source_restricted(&source, reason)
            }
            Observation::Restored(checkpoint) => self.restore(*checkpoint),
            Observation::SettingsChanged(settings) => self.settings_changed(*settings),
            // `apply` has handled the step.
            Observation::ClockStepped { .. } | Observation::Tick => {}
        }
    }

    fn answered(&mut self, probe: &Probe, answer: Answer) {
        match probe {
            Probe::Profile { instance, kind } => self.profiled(instance, *kind, answer),
            Probe::Count(watch) => self.count_answered(watch, &answer),
            Probe::Read(_) | Probe::Dependents { .. } => self.read_answered(probe, &answer),
        }
    }

    /// Handles an observation of a watch. Ignores it if the watch is not in the latest list of
    /// discovered watches.
    fn with_watch(&mut self, id: &WatchId, handle: impl FnOnce(&mut Self, u16)) {
        let Some(number) =
            self.find_watch(id).filter(|number| self.watches[*number as usize].active)
        else {
            return;
        };

        self.sources.note_success(&SourceId::Watch(id.clone()), self.now);
        handle(self, number);
    }
}

/// Returns the `source` label of `loopwatch_observations_total`, or `None` for ticks, which are not
/// counted.
const fn source_label(observation: &Observation) -> Option<&'static str> {
    Some(match observation {
        Observation::Restored(_) => "checkpoint",
        Observation::KindsDiscovered(_) | Observation::PermissionsReviewed(_) => "discovery",
        Observation::ListBegan { .. }
        | Observation::Listed { .. }
        | Observation::ListEnded { .. } => "list",
        Observation::Applied { .. }
        | Observation::Deleted { .. }
        | Observation::Progressed { .. } => "watch",
        Observation::DefinitionSeen(_)
        | Observation::DefinitionGone(_)
        | Observation::DefinitionsListed(_) => "definitions",
        Observation::LeaseSeen(_)
        | Observation::LeaseGone { .. }
        | Observation::LeasesListed { .. } => "lease",
        Observation::NamespacesListed(_)
        | Observation::NamespaceSeen(_)
        | Observation::NamespaceGone(_) => "namespaces",
        Observation::EventSeen { .. } => "events",
        Observation::OperatorSeen(_) => "pods",
        Observation::MetricsScraped(_) | Observation::ScrapeFailed { .. } => "metrics",
        Observation::ProcessSeen(_) | Observation::ProcessGone { .. } => "process",
        Observation::SettingsChanged(_) => "config",
        Observation::Answered { probe: Probe::Profile { .. }, .. } => "profiles",
        Observation::Answered { probe: Probe::Count(_), .. } => "audit",
        Observation::Answered { probe: Probe::Read(_) | Probe::Dependents { .. }, .. } => "reads",
        Observation::SourceFailed { .. }
        | Observation::SourceRecovered { .. }
        | Observation::SourceOff { .. }
        | Observation::SourceRestricted { .. }
        | Observation::Skipped { .. } => "source",
        Observation::ClockStepped { .. } => "clock",
        Observation::Tick => return None,
    })
}
