//! Handles one observation, from its arrival to the end of the step. Nothing else changes the
//! model.

use crate::model::Model;
use crate::model::steps::kinds;
use crate::model::visibility::{lists, scrapes, sources, unreadable};
use crate::model::world::store;
use crate::model::world::timers::Timer;
use crate::observation::{Answer, Observation, Probe, SourceId, WatchId};
use crate::time::{Span, Timestamp};

/// The longest gap between two observations in which each timer fires at its due time. Only a
/// recording with a wrong time has a longer one, and timers that repeat every minute would fire
/// millions of times in it.
const LONGEST_GAP: Span = Span::hours(30 * 24);

impl Model {
    /// Handles one observation. Timers that are due at or before `at` fire first, each at its due
    /// time. The model's time never goes back: an `at` before the current time counts as the
    /// current time.
    pub fn apply(&mut self, at: Timestamp, observation: Observation) {
        if let Observation::ClockStepped { by_ms } = observation {
            // Under the old setting, the clock stepped at `before`.
            let before = at.shifted(by_ms.saturating_neg());
            self.fire_timers(before);
            self.recent_past.time_passes(&self.world, &self.findings, before);
            self.world.now = self.world.now.max(before);
            self.clock_stepped(by_ms);
        }

        self.fire_timers(at);
        self.recent_past.time_passes(&self.world, &self.findings, at);
        self.world.now = self.world.now.max(at);

        if let Some(label) = source_label(&observation) {
            *self.observations.entry(label).or_default() += 1;
        }

        self.handle(observation);
        self.finish_step();
    }

    /// Fires the timers that are due at or before `at`, each as if its due time were now. Those that
    /// are due after [`LONGEST_GAP`] fire once, at `at`.
    fn fire_timers(&mut self, at: Timestamp) {
        let gap_ends = self.world.now.after(LONGEST_GAP);
        while let Some((due, timer)) = self.world.agenda.timers.pop(at) {
            let due = if due > gap_ends { at } else { due };
            self.recent_past.time_passes(&self.world, &self.findings, due);
            self.world.now = self.world.now.max(due);
            match timer {
                Timer::Object(slot) => self.object_due(slot),
                Timer::Kind(number) => {
                    self.world.kinds[number as usize].due = None;
                    kinds::review_kind(&mut self.world, &mut self.findings, number);
                }
                Timer::Source(number) => {
                    sources::source_due(&mut self.world, &mut self.findings, number)
                }
                Timer::Audit(number) => lists::audit_due(&mut self.world, number),
                Timer::Lookups => self.world.reads_due(),
                Timer::Part(part) => {
                    let (parts, mut step) = self.parts();
                    parts.due(&mut step, part);
                }
                Timer::Operator => self.operator.operator_due(&mut self.world),
                Timer::Findings => {
                    self.findings.due = None;
                    self.findings.hold_limits(&self.world);
                    self.findings.close_held(&mut self.world);
                }
            }

            self.finish_step();
        }
    }

    /// Dispatches an observation to the part of the model that handles it.
    fn handle(&mut self, observation: Observation) {
        match observation {
            // Kinds, and the objects of their watches.
            Observation::KindsDiscovered(list) => self.kinds_discovered(&list),
            Observation::ListBegan { watch, epoch } => {
                self.with_watch(&watch, |model, n| lists::list_began(&mut model.world, n, epoch))
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
                self.with_watch(&watch, |model, n| {
                    lists::version_reached(
                        &mut model.world,
                        &mut model.findings,
                        n,
                        store::version_number(&version),
                        false,
                    )
                });
            }
            Observation::Skipped { source, cause } => {
                unreadable::object_skipped(&mut self.world, &source, cause)
            }
            Observation::EventSeen { watch, event } => self.event_seen(&watch, *event),

            // Definitions, webhooks and namespaces.
            Observation::DefinitionSeen(definition) => self.definition_seen(definition),
            Observation::DefinitionGone(name) => self.definition_gone(name),
            Observation::DefinitionsListed(names) => self.definitions_listed(&names),
            Observation::WebhooksListed { kind, webhooks } => self.webhooks_listed(kind, webhooks),
            Observation::EndpointsListed(endpoints) => self.endpoints_listed(endpoints),
            Observation::NamespacesListed(namespaces) => self.namespaces_listed(namespaces),
            Observation::NamespaceSeen(namespace) => self.namespace_seen(namespace),
            Observation::NamespaceGone(name) => self.namespace_gone(&name),

            // The operator itself.
            Observation::PermissionsReviewed(view) => {
                sources::permissions_reviewed(&mut self.world, &mut self.findings, view)
            }
            Observation::LeaseSeen(lease) => self.operator.lease_seen(
                &mut self.world,
                &mut self.findings,
                &mut self.traces,
                lease,
            ),
            Observation::LeaseGone { namespace, name } => {
                self.operator.lease_gone(&mut self.world, namespace, name)
            }
            Observation::LeasesListed { namespace, names } => {
                self.operator.leases_listed(&mut self.world, &namespace, &names)
            }
            Observation::OperatorSeen(view) => self.operator.operator_seen(
                &mut self.world,
                &mut self.findings,
                &mut self.traces,
                *view,
            ),
            Observation::MetricsScraped(view) => {
                let (parts, mut step) = self.parts();
                parts.webhooks.scraped(&mut step, &view);
                self.operator.metrics_scraped(&mut self.world, &mut self.findings, *view)
            }
            Observation::ScrapeFailed { instance, cause, detail } => {
                self.operator.scrape_failed(&mut self.world, &instance, cause, &detail)
            }
            Observation::ProcessSeen(view) => {
                self.operator.process_seen(&mut self.world, &mut self.findings, *view)
            }
            Observation::ProcessGone { instance } => {
                self.operator.process_gone(&mut self.world, &mut self.findings, &instance)
            }

            // Answers to the model's probes.
            Observation::Answered { probe, answer } => self.answered(&probe, answer),

            // Sources that fail or recover, and loopwatch itself.
            Observation::SourceFailed { source, .. }
            | Observation::SourceOff { source, .. }
            | Observation::SourceRestricted { source, .. }
            | Observation::SourceRecovered { source }
                if self.world.has_ended(&source) => {}
            Observation::SourceFailed { source, cause, detail } => {
                self.source_failed(&source, cause, &detail)
            }
            Observation::SourceOff { source, reason } => self.source_off(&source, reason),
            Observation::SourceRecovered { source } => self.source_recovered(&source),
            Observation::SourceRestricted { source, reason } => {
                self.source_restricted(&source, reason)
            }
            Observation::ScrapesMissed { since } => {
                scrapes::missed(&mut self.world, &mut self.findings, since)
            }
            Observation::ScrapesSeen => scrapes::seen(&mut self.world, &mut self.findings),
            Observation::Restored(checkpoint) => self.restore(*checkpoint),
            Observation::SettingsChanged(settings) => self.settings_changed(*settings),
            // `apply` has handled the step.
            Observation::ClockStepped { .. } | Observation::Tick => {}
        }
    }

    fn answered(&mut self, probe: &Probe, answer: Answer) {
        match probe {
            Probe::Profile { instance, kind } => {
                self.operator.profiled(&mut self.world, &mut self.findings, instance, *kind, answer)
            }
            Probe::Count(watch) => {
                lists::count_answered(&mut self.world, &mut self.findings, watch, &answer)
            }
            Probe::Fields { watch, object } => {
                if let Answer::Fields(fields) = answer {
                    let (parts, mut step) = self.parts();
                    parts.writes.fields_told(&mut step, watch, object, fields);
                }
            }
            Probe::Read(_) | Probe::Dependents { .. } => self.world.read_answered(probe, &answer),
        }
    }

    /// Handles an observation of a watch. Ignores it if the watch is not in the latest list of
    /// discovered watches.
    fn with_watch(&mut self, id: &WatchId, handle: impl FnOnce(&mut Self, u16)) {
        let Some(number) =
            self.world.find_watch(id).filter(|number| self.world.watches[*number as usize].active)
        else {
            return;
        };

        self.world.sources.note_success(&SourceId::Watch(id.clone()), self.world.now);
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
        Observation::WebhooksListed { .. } | Observation::EndpointsListed(_) => "webhooks",
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
        Observation::Answered {
            probe: Probe::Read(_) | Probe::Dependents { .. } | Probe::Fields { .. },
            ..
        } => "reads",
        Observation::ScrapesMissed { .. } | Observation::ScrapesSeen => "scrapes",
        Observation::SourceFailed { .. }
        | Observation::SourceRecovered { .. }
        | Observation::SourceOff { .. }
        | Observation::SourceRestricted { .. }
        | Observation::Skipped { .. } => "source",
        Observation::ClockStepped { .. } => "clock",
        Observation::Tick => return None,
    })
}
