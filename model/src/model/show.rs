//! Makes a snapshot: copies what is to be shown, so that nobody holds up the model while writing it out.

use std::collections::BTreeMap;

use super::Model;
use super::kinds::{Kind, Watch};
use super::store::{Record, Slot, uid_text};
use crate::finding::{Explainer, Finding, FindingId, Severity, Subject};
use crate::snapshot::{
    Cursor, DeletionVerdict, FinalizerSummary, Health, KindSummary, LeaseSummary, NamespaceSummary, ObjectRef,
    ObjectRow, ObjectState, Snapshot, WatchSummary,
};

// === impl Model ===

impl Model {
    /// What the model shows now. It costs what is unhealthy, not what exists.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let findings = self.shown_findings();
        let bound = self.settings.limits.object_series;
        let mut slots: Vec<Slot> = self.unhealthy.iter().copied().collect();
        slots.sort_by_key(|slot| self.store.get(*slot).map(|record| (badness(record), record.since, *slot)));
        Snapshot {
            at: self.now,
            kinds: self.shown_kinds(),
            health: self.health(&findings),
            findings,
            unhealthy: slots.iter().take(bound).filter_map(|slot| self.store.get(*slot)).map(|r| self.row(r)).collect(),
            unhealthy_dropped: slots.len().saturating_sub(bound) as u64,
            sources: self.sources.summaries(),
            permissions_missing: self.permissions_missing(),
            leases: self.leases.values().map(lease_summary).collect(),
            dropped: self.dropped.iter().map(|(limit, (count, _))| (*limit, *count)).collect(),
            observations: self.observations.clone(),
        }
    }

    /// Shows `limit` objects from `cursor` on; `None` when there are no more.
    pub fn visit(&self, cursor: Cursor, limit: usize, show: &mut dyn FnMut(ObjectRef<'_>)) -> Option<Cursor> {
        self.walk(cursor, limit, &mut |record| show(self.shown(record)))
    }

    /// As [`Model::visit`], with everything that is known of each object.
    #[must_use]
    pub fn rows(&self, cursor: Cursor, limit: usize) -> (Vec<ObjectRow>, Option<Cursor>) {
        let mut rows = Vec::new();
        let next = self.walk(cursor, limit, &mut |record| rows.push(self.row(record)));
        (rows, next)
    }

    /// How many objects are held.
    #[must_use]
    pub fn objects(&self) -> usize {
        self.store.len()
    }

    fn walk(&self, cursor: Cursor, limit: usize, show: &mut dyn FnMut(&Record)) -> Option<Cursor> {
        let (mut slot, mut shown) = (cursor.0, 0);
        while slot < self.store.end() && shown < limit {
            if let Some(record) = self.store.get(slot) {
                show(record);
                shown += 1;
            }
            slot += 1;
        }
        (slot < self.store.end()).then_some(Cursor(slot))
    }

    fn shown_findings(&self) -> Vec<Finding> {
        let mut findings: Vec<Finding> = self.open_findings.iter().cloned().collect();
        for finding in &mut findings {
            finding.explained_by = self.explanation(finding);
            finding.evidence = std::mem::take(&mut finding.evidence).at(self.now);
        }
        findings.sort_by(|a, b| {
            let key = |f: &Finding| (f.info().severity, f.since, f.code);
            key(a).cmp(&key(b)).then_with(|| a.subject.cmp(&b.subject))
        });
        findings
    }

    /// The first open finding of those that account for `finding`.
    fn explanation(&self, finding: &Finding) -> Option<FindingId> {
        finding.info().explained_by.iter().find_map(|explainer| match explainer {
            Explainer::Subject(code) => self.open_findings.open_id(*code, &finding.subject),
            Explainer::Kind(code) => self.open_findings.open_id(*code, &finding.subject.whole_kind()?),
        })
    }

    fn shown_kinds(&self) -> Vec<KindSummary> {
        let mut kinds: Vec<KindSummary> = Vec::new();
        for (number, kind) in self.kinds.iter().enumerate() {
            let of_kind = |watch: &&Watch| usize::from(watch.kind) == number && watch.active;
            let watches: Vec<&Watch> = self.watches.iter().filter(of_kind).collect();
            if !watches.is_empty() {
                kinds.push(self.kind_summary(kind, &watches));
            }
        }
        kinds.sort_by(|a, b| (&a.group, &a.kind).cmp(&(&b.group, &b.kind)));
        kinds
    }

    fn kind_summary(&self, kind: &Kind, watches: &[&Watch]) -> KindSummary {
        let (deadline, deadline_source) = kind.deadline(&self.settings);
        KindSummary {
            group: kind.group.to_string(),
            kind: kind.kind.to_string(),
            resource: kind.resource.clone(),
            version: kind.version.clone(),
            role: kind.role,
            watches: watches.iter().map(|watch| watch_summary(watch)).collect(),
            deadline,
            deadline_source,
            namespaces: self.namespaces(watches),
            acknowledge: kind.acknowledge.clone(),
            convergence: kind.convergence.clone(),
            oldest_unconverged: self.oldest_unconverged(kind),
            conditions: kind.conditions.iter().map(|((name, status), n)| ((name.to_string(), *status), *n)).collect(),
            flaps: kind.flaps.iter().map(|(name, n)| (name.to_string(), *n)).collect(),
            phases: kind.phases.iter().map(|(name, n)| (name.to_string(), *n)).collect(),
            finalizers: kind.finalizers.iter().map(|(name, waits)| (name.to_string(), self.finalizer(waits))).collect(),
        }
    }

    fn namespaces(&self, watches: &[&Watch]) -> BTreeMap<String, NamespaceSummary> {
        let mut namespaces: BTreeMap<String, NamespaceSummary> = BTreeMap::new();
        for watch in watches {
            let blind = watch.blind.is_some();
            for totals in &watch.namespaces {
                let summary = namespaces.entry(totals.namespace.to_string()).or_default();
                for (state, count) in totals.states.iter().enumerate() {
                    let shown = if blind { ObjectState::Unknown as usize } else { state };
                    summary.states[shown] += count;
                }
                for (sum, seconds) in summary.state_seconds.iter_mut().zip(totals.state_seconds(self.now, blind)) {
                    *sum += seconds;
                }
                for (sum, count) in summary.obligations.iter_mut().zip(totals.obligations) {
                    *sum += count;
                }
            }
        }
        namespaces
    }

    /// An object that its operator answered with a refusal is not waiting.
    fn oldest_unconverged(&self, kind: &Kind) -> Option<crate::time::Timestamp> {
        let waits = |state| matches!(state, ObjectState::Progressing | ObjectState::Overdue);
        let mut oldest_first = kind.unconverged.iter();
        oldest_first.find(|(_, slot)| self.store.get(*slot).is_some_and(|r| waits(r.state))).map(|(since, _)| *since)
    }

    fn finalizer(&self, waits: &super::kinds::FinalizerTotals) -> FinalizerSummary {
        let mut summary = FinalizerSummary {
            waiting: Default::default(),
            oldest: waits.waiting.first().map(|(since, _)| *since),
            removal: waits.removal.clone(),
            outcomes: waits.outcomes,
        };
        for (_, slot) in &waits.waiting {
            let hot = self.store.get(*slot).and_then(|record| record.hot.as_ref());
            let stuck = hot.and_then(|hot| hot.deletion.as_ref()).is_some_and(|deletion| deletion.stuck);
            let verdict = if stuck { DeletionVerdict::Stuck } else { DeletionVerdict::Progressing };
            summary.waiting[verdict as usize] += 1;
        }
        summary
    }

    fn health(&self, findings: &[Finding]) -> BTreeMap<String, Health> {
        let mut health: BTreeMap<String, Health> = BTreeMap::new();
        for watch in self.watches.iter().filter(|watch| watch.active) {
            let failing = self.kinds[watch.kind as usize].failing_since.is_some();
            for totals in watch.namespaces.iter().filter(|totals| totals.states.iter().sum::<u64>() > 0) {
                let overdue = totals.states[ObjectState::Overdue as usize] > 0;
                let failed = failing && totals.states[ObjectState::Failed as usize] > 0;
                let word = match (failed, overdue) {
                    (true, _) => Health::Failing,
                    (false, true) => Health::Degraded,
                    (false, false) => Health::Healthy,
                };
                let entry = health.entry(totals.namespace.to_string()).or_insert(Health::Healthy);
                *entry = word.max(*entry);
            }
        }
        for finding in findings.iter().filter(|finding| matches!(finding.subject, Subject::Object { .. })) {
            let word = match finding.info().severity {
                Severity::Critical => Health::Failing,
                Severity::Warning => Health::Degraded,
                Severity::Info => Health::Healthy,
            };
            let entry = health.entry(finding.subject.namespace().to_owned()).or_insert(Health::Healthy);
            *entry = word.max(*entry);
        }
        health
    }

    fn shown<'a>(&'a self, record: &'a Record) -> ObjectRef<'a> {
        let kind = self.kind_of(record.watch);
        ObjectRef {
            group: &kind.group,
            kind: &kind.kind,
            namespace: &record.namespace,
            name: &record.name,
            state: self.state_of(record),
            reason: record.reason.as_str(),
            since: record.since,
            generation: record.generation,
            observed_generation: (record.observed > 0).then_some(record.observed),
            created: record.created(),
            terminating_since: deleted(record),
            phase: self.texts.get(record.phase),
            conditions: self.condition_sets.get(record.conditions),
            finalizers: self.finalizer_sets.get(record.finalizers).len(),
        }
    }

    fn row(&self, record: &Record) -> ObjectRow {
        let kind = self.kind_of(record.watch);
        let hot = record.hot.as_ref();
        let owners = record.owners.iter().flatten();
        let waits = matches!(record.state, ObjectState::Progressing | ObjectState::Overdue | ObjectState::Failed);
        ObjectRow {
            group: kind.group.to_string(),
            kind: kind.kind.to_string(),
            namespace: record.namespace.to_string(),
            name: record.name.to_string(),
            uid: uid_text(record.uid),
            state: self.state_of(record),
            reason: record.reason.as_str(),
            signal: hot.map(|hot| hot.signal.clone()).unwrap_or_default(),
            since: record.since,
            unconverged_since: record.unconverged().filter(|_| waits).map(|unconverged| unconverged.since),
            generation: record.generation,
            observed_generation: (record.observed > 0).then_some(record.observed),
            created: record.created(),
            terminating_since: deleted(record),
            finalizers: self.finalizer_sets.get(record.finalizers).iter().map(ToString::to_string).collect(),
            owners: owners.map(|owner| format!("{}/{}", self.texts.get(owner.kind), owner.name)).collect(),
            phase: self.texts.get(record.phase).to_string(),
            conditions: self
                .condition_sets
                .get(record.conditions)
                .iter()
                .map(|(name, s)| (name.to_string(), *s))
                .collect(),
        }
    }

    /// What a blind watch last saw may long be otherwise.
    fn state_of(&self, record: &Record) -> ObjectState {
        if self.watches[record.watch as usize].blind.is_some() { ObjectState::Unknown } else { record.state }
    }
}

fn watch_summary(watch: &Watch) -> WatchSummary {
    WatchSummary {
        watch: watch.id.clone(),
        scope: watch.scope.clone(),
        objects: watch.objects,
        synced: watch.synced,
        missing: watch.missing.clone(),
        audit_difference: watch.audit.difference,
        lag: watch.audit.lag.clone(),
    }
}

fn lease_summary(lease: &crate::observation::LeaseView) -> LeaseSummary {
    LeaseSummary {
        namespace: lease.namespace.clone(),
        name: lease.name.clone(),
        holder: lease.holder.clone(),
        renewed: lease.renewed,
        transitions: lease.transitions,
    }
}

fn deleted(record: &Record) -> Option<crate::time::Timestamp> {
    record.hot.as_ref()?.deletion.as_ref().map(|deletion| deletion.since)
}

/// Worst first in listings.
fn badness(record: &Record) -> u8 {
    match record.state {
        ObjectState::Overdue => 0,
        ObjectState::Terminating => 1,
        ObjectState::Failed => 2,
        _ => 3,
    }
}
