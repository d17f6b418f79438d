//! The state of sources, permissions and limits: everything that restricts what loopwatch can see.
//!
//! Once a watch has failed for `source_failing_after`, it is blind: its objects count as `unknown`
//! until it recovers.

use std::collections::BTreeSet;

use crate::finding::{Evidence, FindingCode, Subject, Value};
use crate::model::configuration::consumers::MAX_CONSUMERS;
use crate::model::deletion::soft_deletion::MAX_SOFT_DELETED;
use crate::model::deletion::terminating_scopes::MAX_CONTAINERS;
use crate::model::findings::detection::Detection;
use crate::model::findings::open_findings::OpenFindings;
use crate::model::operator::leases::MAX_LEASES;
use crate::model::ownership::bad_owners::MAX_HAZARDS;
use crate::model::ownership::orphans::MAX_CANDIDATES;
use crate::model::ownership::unverified_owners::MAX_DOUBTS;
use crate::model::references::cross_namespace::{MAX_CROSSINGS, MAX_REFERENCE_EVENTS};
pub(crate) use crate::model::references::lookups::{MAX_OUTPUTS, MAX_REFERENCES};
use crate::model::traces::MAX_STEPS;
use crate::model::visibility::unreadable::{OBJECT_BYTES, UNREADABLE_OBJECTS};
use crate::model::world::kinds::{Watch, WatchNamespace};
use crate::model::world::lookups::MAX_READS;
use crate::model::world::shared_values::MAX_CONDITIONS;
use crate::model::world::timers::{Timer, Timers};
use crate::model::{MAX_INTERNED, Model};
use crate::observation::{
    Cause, MAX_EVENTS, MAX_OBJECT_BYTES, MAX_PODS, Permission, PermissionsView, SourceId,
};
use crate::snapshot::SourceSummary;
use crate::time::{Span, Timestamp};

/// How long the finding about a limit stays open after the last drop.
const LIMIT_REACHED_FOR: Span = Span::mins(10);

/// The number of sources from which on inactive ones make room for new ones.
const MAX_SOURCES: usize = 2_000;

/// All sources since the start, by number.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    list: Vec<Source>,
}

/// One source.
#[derive(Debug)]
struct Source {
    id: SourceId,
    /// Whether the source is still in use.
    active: bool,
    summary: SourceSummary,
    /// When the failure becomes a finding.
    due: Option<Timestamp>,
}

// === impl Sources ===

impl Sources {
    /// Returns the number of a source, which it adds if necessary.
    fn number_of(&mut self, id: &SourceId, now: Timestamp) -> u16 {
        let position = self.list.iter().position(|source| source.id == *id).unwrap_or_else(|| {
            let summary = SourceSummary {
                source: id.to_string(),
                up: true,
                since: now,
                ..SourceSummary::default()
            };

            let new = Source { id: id.clone(), active: true, summary, due: None };
            let full = self.list.len() >= MAX_SOURCES;
            match self.list.iter().position(|source| full && !source.active) {
                Some(inactive) => {
                    self.list[inactive] = new;
                    inactive
                }
                None => {
                    self.list.push(new);
                    self.list.len() - 1
                }
            }
        });

        self.list[position].active = true;
        self.list[position].summary.off = None;
        u16::try_from(position).unwrap_or(u16::MAX)
    }

    /// Records that an observation came from the source.
    pub(crate) fn note_success(&mut self, id: &SourceId, now: Timestamp) {
        let number = self.number_of(id, now);
        self.list[number as usize].summary.last_success = Some(now);
    }

    /// Records the time between two observations of a source.
    pub(crate) fn set_interval(&mut self, id: &SourceId, now: Timestamp, interval: Option<Span>) {
        let number = self.number_of(id, now);
        self.list[number as usize].summary.interval = interval;
    }

    /// Deactivates a source: removes it from summaries and closes its finding.
    pub(crate) fn deactivate(
        &mut self,
        now: Timestamp,
        id: &SourceId,
        timers: &mut Timers,
        open_findings: &mut OpenFindings,
    ) {
        let Some(position) = self.list.iter().position(|source| source.id == *id) else { return };
        let source = &mut self.list[position];
        source.active = false;
        source.summary.up = true;

        let due = source.due.take();
        timers.set(Timer::Source(u16::try_from(position).unwrap_or(u16::MAX)), due, None);
        open_findings.clear(now, source_finding_code(id), &source_subject(id));
    }

    /// Moves all instants by `by_ms` milliseconds.
    pub(crate) fn rebase(&mut self, by_ms: i64) {
        for source in &mut self.list {
            source.summary.since = source.summary.since.shifted(by_ms);
            source.summary.last_success = source.summary.last_success.map(|at| at.shifted(by_ms));
            source.due = source.due.map(|at| at.shifted(by_ms));
        }
    }

    /// Returns whether anything is known about the source.
    pub(crate) fn is_known(&self, id: &SourceId) -> bool {
        self.list.iter().any(|source| source.active && source.id == *id)
    }

    /// Returns whether the source does not fail, as far as is known.
    pub(crate) fn is_up(&self, id: &SourceId) -> bool {
        !self.list.iter().any(|source| source.active && source.id == *id && !source.summary.up)
    }

    /// Returns whether the source fails because the API server answers with a server error.
    pub(crate) fn is_refused(&self, id: &SourceId) -> bool {
        let failing =
            self.list.iter().find(|source| source.active && source.id == *id && !source.summary.up);
        let latest = failing.and_then(|source| source.summary.latest.as_ref());
        latest.is_some_and(|(cause, _)| *cause == Cause::ServerError.as_str())
    }

    /// Returns since when the source has not failed: since the beginning if it never has; `None`
    /// while it fails.
    pub(crate) fn up_since(&self, id: &SourceId) -> Option<Timestamp> {
        match self.list.iter().find(|source| source.active && source.id == *id) {
            Some(source) => source.summary.up.then_some(source.summary.since),
            None => Some(Timestamp(0)),
        }
    }

    pub(crate) fn summaries(&self) -> Vec<SourceSummary> {
        let active = self.list.iter().filter(|source| source.active);
        let mut summaries: Vec<_> = active.map(|source| source.summary.clone()).collect();
        summaries.sort_by(|a, b| a.source.cmp(&b.source));
        summaries
    }
}

// === impl Model ===

impl Model {
    /// Returns whether the source is a watch that is no longer discovered: what it has sent before
    /// it ended does not matter any more.
    pub(crate) fn has_ended(&self, id: &SourceId) -> bool {
        let SourceId::Watch(watch) = id else { return false };
        self.find_watch(watch).is_some_and(|number| !self.watches[number as usize].active)
    }

    pub(crate) fn source_failed(&mut self, id: &SourceId, cause: Cause, detail: &str) {
        let now = self.now;
        let number = self.sources.number_of(id, now);
        let source = &mut self.sources.list[number as usize].summary;
        source.restricted = None;
        *source.failures.entry(cause.as_str()).or_default() += 1;
        source.latest = Some((cause.as_str(), detail.to_owned()));

        if source.up {
            source.up = false;
            source.since = now;
        }

        self.set_failing(id, true);
        if *id == SourceId::Lease {
            self.set_leases_visible(false);
        }

        self.reviews.operator = true;
        self.source_due(number);
    }

    /// Records whether the source of a watch fails.
    fn set_failing(&mut self, id: &SourceId, failing: bool) {
        let SourceId::Watch(watch) = id else { return };
        let Some(number) = self.find_watch(watch) else { return };
        let watch = &mut self.watches[number as usize];
        watch.failing = failing;
        watch.failed_before |= failing;

        if failing {
            self.stop_waiting(number);
        }

        self.update_sight(number);
    }

    pub(crate) fn source_recovered(&mut self, id: &SourceId) {
        let now = self.now;
        let number = self.sources.number_of(id, now);
        let source = &mut self.sources.list[number as usize];
        source.summary.last_success = Some(now);
        source.summary.restricted = None;

        if !source.summary.up {
            source.summary.up = true;
            source.summary.since = now;
        }

        let due = source.due.take();
        self.timers.set(Timer::Source(number), due, None);
        self.open_findings.clear(self.now, source_finding_code(id), &source_subject(id));
        self.clear_blind(id);
        self.set_failing(id, false);

        if *id == SourceId::Lease {
            self.set_leases_visible(true);
        }

        self.reviews.operator = true;
    }

    /// Notes that a source is off.
    pub(crate) fn source_off(&mut self, id: &SourceId, reason: String) {
        self.source_recovered(id);
        let number = self.sources.number_of(id, self.now);
        let summary = &mut self.sources.list[number as usize].summary;
        summary.last_success = None;
        summary.off = Some(reason);

        if *id == SourceId::Lease {
            self.set_leases_visible(false);
        }
    }

    /// Notes that a source works, but cannot read everything.
    pub(crate) fn source_restricted(&mut self, id: &SourceId, reason: String) {
        self.source_recovered(id);
        let number = self.sources.number_of(id, self.now);
        self.sources.list[number as usize].summary.restricted = Some(reason);
    }

    /// Opens the finding about a failing source if it has failed for long enough; otherwise sets
    /// its timer.
    pub(crate) fn source_due(&mut self, number: u16) {
        let (now, after) = (self.now, self.settings.source_failing_after);
        let Some(source) =
            self.sources.list.get_mut(number as usize).filter(|source| !source.summary.up)
        else {
            return;
        };

        // An invalid configuration does not recover by itself, so there is nothing to wait for.
        let wait = if source.id == SourceId::Config { Span::ZERO } else { after };
        let finding_due = source.summary.since.after(wait);
        let due = (finding_due > now).then_some(finding_due);
        let old = std::mem::replace(&mut source.due, due);

        self.timers.set(Timer::Source(number), old, due);
        if due.is_some() {
            return;
        }

        let SourceSummary { since, last_success, latest, .. } = source.summary.clone();
        let (cause, detail) = latest.unwrap_or(("other", String::new()));
        let id = source.id.clone();
        let evidence = match (source_finding_code(&id), last_success) {
            (FindingCode::ConfigInvalid, _) => Evidence::new().text("problem", detail),
            (_, Some(last)) => Evidence::new()
                .text("cause", cause)
                .text("detail", detail)
                .with("last_success", Value::Time(last)),
            (_, None) => Evidence::new().text("cause", cause).text("detail", detail),
        };

        let evidence = evidence.with("failing_for", Value::Age(since));
        let detection = Detection::new(now, source_finding_code(&id), since, now, || evidence);
        self.raise(source_subject(&id), detection);
        self.mark_blind(&id, since);
    }

    /// Opens and closes the findings about sources again, because the settings changed.
    pub(crate) fn review_sources(&mut self) {
        for number in 0..self.sources.list.len() {
            self.source_due(u16::try_from(number).unwrap_or(u16::MAX));
        }
    }

    fn mark_blind(&mut self, id: &SourceId, since: Timestamp) {
        let SourceId::Watch(watch) = id else { return };
        let Some(number) = self.find_watch(watch) else { return };
        let now = self.now;
        let watch = &mut self.watches[number as usize];

        if watch.blind.is_none() {
            watch.namespaces.iter_mut().for_each(|namespace| namespace.count_to(now, false));
            watch.blind = Some(since);
        }
    }

    pub(crate) fn clear_blind(&mut self, id: &SourceId) {
        let SourceId::Watch(watch) = id else { return };
        let Some(number) = self.find_watch(watch) else { return };
        let now = self.now;
        let watch = &mut self.watches[number as usize];

        if watch.blind.take().is_some() {
            watch.namespaces.iter_mut().for_each(|namespace| namespace.count_to(now, true));
        }
    }

    /// Handles a review of the account's permissions in one scope.
    pub(crate) fn permissions_reviewed(&mut self, view: PermissionsView) {
        self.permissions.insert(view.namespace.clone(), view);
        self.review_permissions();
    }

    /// Returns the missing permissions with their namespaces (empty for the whole cluster).
    pub(crate) fn permissions_missing(&self) -> Vec<(String, Permission)> {
        let mut missing = BTreeSet::new();
        for view in self.permissions.values() {
            missing.extend(
                view.missing.iter().map(|permission| (view.namespace.clone(), permission.clone())),
            );
        }

        for watch in self.watches.iter().filter(|watch| watch.active) {
            let kind = &self.kinds[watch.kind as usize];
            let namespace = watch.scope.namespace().unwrap_or_default().to_owned();
            missing.extend(watch.missing.iter().map(|verb| {
                let permission = Permission {
                    verb: verb.clone(),
                    group: kind.group.to_string(),
                    resource: kind.resource.clone(),
                };

                (namespace.clone(), permission)
            }));
        }

        missing.into_iter().collect()
    }

    /// Opens and closes the findings about missing and excessive permissions.
    pub(crate) fn review_permissions(&mut self) {
        let now = self.now;
        let missing = self.permissions_missing();
        let subjects: BTreeSet<Subject> = missing
            .iter()
            .map(|(namespace, permission)| permission_subject(namespace, permission.to_string()))
            .collect();

        self.open_findings
            .retain(self.now, FindingCode::PermissionMissing, |subject| subjects.contains(subject));
        for (namespace, permission) in missing {
            let subject = permission_subject(&namespace, permission.to_string());
            let resource = Permission { verb: String::new(), ..permission.clone() }.to_string();
            let evidence =
                Evidence::new().text("verb", permission.verb).text("resource", resource.trim());
            let detection =
                Detection::new(now, FindingCode::PermissionMissing, now, now, || evidence);

            self.raise(subject, detection);
        }

        let excess: Vec<(Subject, Vec<String>)> = self
            .permissions
            .values()
            .filter(|view| !view.excess.is_empty())
            .map(|view| {
                (
                    permission_subject(&view.namespace, "*".to_owned()),
                    view.excess.iter().map(Permission::to_string).collect(),
                )
            })
            .collect();

        self.open_findings.retain(self.now, FindingCode::PermissionExcess, |subject| {
            excess.iter().any(|(s, _)| s == subject)
        });
        for (subject, permissions) in excess {
            let evidence = || Evidence::new().with("rights", Value::Names(permissions));
            self.raise(
                subject,
                Detection::new(now, FindingCode::PermissionExcess, now, now, evidence),
            );
        }
    }

    /// Counts an item that was dropped because of a limit, and opens the finding about the limit.
    pub(crate) fn count_dropped(&mut self, limit: &'static str) {
        let (now, settings) = (self.now, &self.settings.limits);
        let entry = self.dropped.entry(limit).or_default();
        entry.0 += 1;
        entry.1 = now;

        let count = i64::try_from(entry.0).unwrap_or(i64::MAX);
        let configured = match limit {
            "objects" => settings.objects,
            "histories" => settings.histories,
            "findings" => settings.findings,
            "watches" => settings.watches,
            "phases" => settings.phases,
            "condition_types" => settings.condition_types,
            "conditions" => MAX_CONDITIONS,
            "finalizers" => settings.finalizers,
            "namespaces" => settings.namespaces,
            "leases" => MAX_LEASES,
            "operator_pods" => MAX_PODS,
            "events" => MAX_EVENTS,
            "event_reasons" => settings.event_reasons,
            "cross_references" => MAX_CROSSINGS,
            "references" => MAX_REFERENCES,
            "outputs" => MAX_OUTPUTS,
            "soft_deleted" => MAX_SOFT_DELETED,
            "configurations" => MAX_CONSUMERS,
            "reference_events" => MAX_REFERENCE_EVENTS,
            "containers" => MAX_CONTAINERS,
            "owner_hazards" => MAX_HAZARDS,
            "owner_doubts" => MAX_DOUBTS,
            "orphan_candidates" => MAX_CANDIDATES,
            "reads" => MAX_READS,
            "traces" => settings.trace_bytes,
            "trace_steps" => MAX_STEPS,
            OBJECT_BYTES => MAX_OBJECT_BYTES,
            UNREADABLE_OBJECTS => 0,
            _ => MAX_INTERNED, // texts, condition sets and finalizer sets
        };

        let evidence = Evidence::new()
            .with("dropped", Value::Count(count))
            .with("bound", Value::count(configured));
        let subject = Subject::Limit { name: limit.to_owned() };

        self.raise(
            subject.clone(),
            Detection::new(now, FindingCode::LimitReached, now, now, || evidence),
        );
        self.open_findings.hold(FindingCode::LimitReached, &subject, now.after(LIMIT_REACHED_FOR));
        self.findings_due();
    }

    /// Keeps the findings about limits open while anything is left out because of them.
    pub(crate) fn hold_limits(&mut self) {
        let namespaces = |watch: &Watch| watch.namespaces.iter().any(WatchNamespace::is_shared);
        let active = || self.watches.iter().filter(|watch| watch.active);
        let left_out = [
            ("objects", active().any(|watch| !watch.excluded.is_empty())),
            ("namespaces", active().any(namespaces)),
            ("watches", self.watches_left_out),
            ("findings", self.open_findings.has_waiting()),
        ];

        for (limit, _) in left_out.into_iter().filter(|(_, left_out)| *left_out) {
            let subject = Subject::Limit { name: limit.to_owned() };
            self.open_findings.hold(
                FindingCode::LimitReached,
                &subject,
                self.now.after(LIMIT_REACHED_FOR),
            );
        }
    }
}

fn source_finding_code(id: &SourceId) -> FindingCode {
    if *id == SourceId::Config { FindingCode::ConfigInvalid } else { FindingCode::SourceFailing }
}

pub(crate) fn source_subject(id: &SourceId) -> Subject {
    Subject::Source { name: id.to_string() }
}

fn permission_subject(namespace: &str, permission: String) -> Subject {
    Subject::Permission { namespace: namespace.to_owned(), permission }
}
