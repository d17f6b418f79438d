//! Snapshots of the model. A snapshot is a copy, so an exporter does not block the model while it
//! writes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::finding::{Finding, FindingCode, Severity, Subject};
use crate::model::Model;
use crate::model::deletion::finalizers;
use crate::model::status::reading;
use crate::model::world::kinds::{FinalizerWaits, Kind, Watch};
use crate::model::world::store::{HotRecord, Record, Slot, uid_text};
use crate::snapshot::{
    Cursor, DeletionRow, DeletionVerdict, FinalizerSummary, Health, KindSummary, MAX_DELETIONS,
    ObjectRef, ObjectRow, ObjectState, OwnerReferenceCounts, Snapshot, WatchSummary,
};
use crate::time::Timestamp;

impl Model {
    /// Returns the current output of the model. The cost is proportional to the number of unhealthy
    /// objects, findings, kinds and namespaces, not to the number of objects.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let findings = self.shown_findings();
        let health = self.health(&findings);
        let limit = self.world.settings.limits.object_series;
        let mut slots: Vec<Slot> = self.world.unhealthy.iter().copied().collect();

        slots.sort_by_key(|slot| {
            self.world.store.get(*slot).map(|record| (badness(record), record.since, *slot))
        });
        Snapshot {
            at: self.world.now,
            kinds: self.shown_kinds(),
            teams: self.world.namespaces.shown_teams(&health),
            health,
            findings,
            unhealthy: slots
                .iter()
                .take(limit)
                .filter_map(|slot| self.world.store.get(*slot))
                .map(|r| self.row(r))
                .collect(),
            unhealthy_dropped: slots.len().saturating_sub(limit) as u64,
            deletions: self.shown_deletions(),
            sources: self.world.sources.summaries(),
            permissions_missing: self.world.permissions_missing(),
            left_out: self
                .world
                .permissions
                .values()
                .flat_map(|view| view.left_out.iter().cloned())
                .chain(self.parts.terminating_scopes.unseen_blockers(&self.world, &self.findings))
                .collect(),
            unused_deadlines: self.unused_deadlines(),
            mistaken_rules: self.mistaken_rules(),
            leases: self.operator.leases.rows(),
            operator: self.operator.shown_operator(&self.world),
            trends: self.operator.trends.summaries(),
            profiles: self.operator.shown_profiles(),
            finding_times: self.findings.times().clone(),
            dropped: self.world.dropped.by_name(),
            observations: self.observations.clone(),
        }
    }

    /// Calls `show` with at most `limit` objects, starting at `cursor`. Returns the cursor of the
    /// next object, or `None` if there are no more.
    pub fn visit(
        &self,
        cursor: Cursor,
        limit: usize,
        show: &mut dyn FnMut(ObjectRef<'_>),
    ) -> Option<Cursor> {
        self.walk(cursor, limit, &mut |record| {
            show(self.shown(record));
            true
        })
    }

    /// Like [`Model::visit`], but returns a copy of each object with all its fields.
    #[must_use]
    pub fn rows(&self, cursor: Cursor, limit: usize) -> (Vec<ObjectRow>, Option<Cursor>) {
        let mut rows = Vec::new();
        let next = self.walk(cursor, limit, &mut |record| {
            rows.push(self.row(record));
            true
        });

        (rows, next)
    }

    /// Visits at most `visits` objects, starting at `cursor`, until it has found `room` wanted
    /// ones. Returns copies of these, and the cursor of the next object to visit.
    #[must_use]
    pub fn select(
        &self,
        cursor: Cursor,
        visits: usize,
        room: usize,
        is_wanted: &dyn Fn(&ObjectRef<'_>) -> bool,
    ) -> (Vec<ObjectRow>, Option<Cursor>) {
        let mut rows = Vec::new();
        let next = self.walk(cursor, visits, &mut |record| {
            if is_wanted(&self.shown(record)) {
                rows.push(self.row(record));
            }
            rows.len() < room
        });

        (rows, next)
    }

    /// Returns the number of objects in the model.
    #[must_use]
    pub fn objects(&self) -> usize {
        self.world.store.len()
    }

    /// Calls `show` with at most `limit` objects, until it returns false.
    fn walk(
        &self,
        cursor: Cursor,
        limit: usize,
        show: &mut dyn FnMut(&Record) -> bool,
    ) -> Option<Cursor> {
        let (mut slot, mut shown, mut goes_on) = (cursor.0, 0, true);
        while slot < self.world.store.end() && shown < limit && goes_on {
            if let Some(record) = self.world.store.get(slot) {
                goes_on = show(record);
                shown += 1;
            }
            slot += 1;
        }

        (slot < self.world.store.end()).then_some(Cursor(slot))
    }

    fn shown_findings(&self) -> Vec<Finding> {
        let mut findings: Vec<Finding> = self.findings.iter().cloned().collect();
        for finding in &mut findings {
            finding.evidence = std::mem::take(&mut finding.evidence).at(self.world.now);
        }

        findings.sort_by(|a, b| {
            let key = |f: &Finding| (f.severity, f.since, f.code);
            key(a).cmp(&key(b)).then_with(|| a.subject.cmp(&b.subject))
        });

        findings
    }

    /// Returns the names in the settings that have a deadline but are of no kind.
    fn unused_deadlines(&self) -> Vec<String> {
        let is_unused =
            |name: &&String| !self.world.kinds.iter().any(|kind| kind.has_deadline(name));
        let names = self.world.settings.deadlines.keys().filter(is_unused);

        names.filter(|_| !self.world.kinds.is_empty()).cloned().collect()
    }

    /// Returns the names of kinds in rules about findings that lack the right group. A rule may be about a
    /// subject that is no watched kind, such as a namespace, so other names are no mistakes.
    fn mistaken_rules(&self) -> Vec<String> {
        let own_name = |name: &str| name.rsplit_once('/').map_or(name, |(_, own)| own).to_owned();
        let is_mistaken = |name: &&String| {
            let (mut kinds, own) = (self.world.kinds.iter(), own_name(name));
            !name.contains('*')
                && !self.world.kinds.iter().any(|kind| kind.has_deadline(name))
                && kinds.any(|kind| kind.kind.eq_ignore_ascii_case(&own))
        };

        let rules = self.world.settings.findings.values().flatten();
        let names = rules.flat_map(|rule| rule.kinds.include.iter().chain(&rule.kinds.exclude));
        names.filter(is_mistaken).cloned().collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn shown_kinds(&self) -> Vec<KindSummary> {
        let mut kinds: Vec<KindSummary> = Vec::new();
        let (mut dangling, mut soft_deleted) = (
            self.parts.references.dangling_references(&self.world),
            self.parts.soft_deletions.soft_deletions(&self.world),
        );
        let stale = self.parts.configuration.stale_configurations(&self.world);

        for (number, kind) in self.world.kinds.iter().enumerate() {
            let of_kind = |watch: &&Watch| usize::from(watch.kind) == number && watch.active;
            let watches: Vec<&Watch> = self.world.watches.iter().filter(of_kind).collect();
            if !watches.is_empty() {
                let mut summary = self.kind_summary(number, kind, &watches);
                let number = u16::try_from(number).unwrap_or(u16::MAX);
                summary.dangling = dangling.remove(&number).unwrap_or_default();
                summary.stale_configuration = stale.get(&number).copied().unwrap_or_default();
                summary.soft_deleted = soft_deleted.remove(&number).unwrap_or_default();
                kinds.push(summary);
            }
        }

        kinds.sort_by(|a, b| (&a.group, &a.kind).cmp(&(&b.group, &b.kind)));
        kinds
    }

    fn kind_summary(&self, number: usize, kind: &Kind, watches: &[&Watch]) -> KindSummary {
        let (deadline, deadline_source) = kind.longest_deadline(&self.world.settings);
        KindSummary {
            group: kind.group.to_string(),
            kind: kind.kind.to_string(),
            resource: kind.resource.clone(),
            version: kind.version.clone(),
            role: kind.role,
            suspected: kind.suspected,
            watches: watches.iter().map(|watch| watch_summary(watch)).collect(),
            deadline,
            deadline_source,
            oldest_unconverged: self.oldest_unconverged(kind),
            totals: kind.totals.clone(),
            earlier: kind.earlier.clone(),
            owner_references: self.owner_references(number, kind),
            namespaces: self.world.totals_of_namespaces(number, kind),
            finalizers: kind
                .deletions
                .finalizers
                .iter()
                .map(|(name, waits)| (name.clone(), self.finalizer(waits)))
                .collect(),
            dangling: BTreeMap::new(),
            soft_deleted: BTreeMap::new(),
            stale_configuration: 0,
        }
    }

    /// Returns the number of a kind's owner references: all, the unverified ones, and the bad ones
    /// by reason.
    fn owner_references(&self, number: usize, kind: &Kind) -> OwnerReferenceCounts {
        let of_kind = |slot: &Slot| {
            let record = self.world.store.get(*slot);
            record.is_some_and(|record| {
                usize::from(self.world.watches[record.watch as usize].kind) == number
            })
        };

        let mut counts = OwnerReferenceCounts {
            all: kind.siblings.references,
            ..OwnerReferenceCounts::default()
        };

        counts.unknown = self.parts.ownership.unverified.children().filter(of_kind).count() as u64;
        for reason in self
            .parts
            .ownership
            .current_bad_owners()
            .filter(|(slot, _)| of_kind(slot))
            .map(|(_, reason)| reason)
        {
            counts.bad[reason as usize] += 1;
        }

        counts
    }

    /// Returns when the object that has been unconverged for longest became so. Failed objects do
    /// not count, because the operator has reported their failure.
    fn oldest_unconverged(&self, kind: &Kind) -> Option<Timestamp> {
        let waits = |state| matches!(state, ObjectState::Progressing | ObjectState::Overdue);
        let mut oldest_first = kind.unconverged.iter();
        oldest_first
            .find(|(_, slot)| self.world.store.get(*slot).is_some_and(|r| waits(r.state)))
            .map(|(since, _)| *since)
    }

    fn finalizer(&self, waits: &FinalizerWaits) -> FinalizerSummary {
        let mut summary = FinalizerSummary {
            waiting: Default::default(),
            oldest: waits.waiting.first().map(|(since, _)| *since),
            totals: waits.totals.clone(),
        };
        for (_, slot) in &waits.waiting {
            let hot = self.world.store.get(*slot).and_then(|record| record.hot.as_deref());
            let verdict = hot.map(deletion_verdict).unwrap_or_default();
            summary.waiting[verdict as usize] += 1;
        }

        summary
    }

    /// Returns the objects whose deletions have waited for finalizers for longest.
    fn shown_deletions(&self) -> Vec<DeletionRow> {
        let waits = self.world.kinds.iter().flat_map(|kind| kind.deletions.finalizers.values());

        // An object waits for each of its finalizers, so the oldest objects are among the first of
        // each finalizer.
        let oldest: BTreeSet<(Timestamp, Slot)> =
            waits.flat_map(|waits| waits.waiting.iter().take(MAX_DELETIONS).copied()).collect();
        let rows = oldest.into_iter().take(MAX_DELETIONS).filter_map(|(_, slot)| {
            let (record, deletion) = self.world.terminating(slot)?;
            let kind = self.world.kind_of(record.watch);
            Some(DeletionRow {
                group: kind.group.to_string(),
                kind: kind.kind.to_string(),
                namespace: record.namespace.to_string(),
                name: record.name.to_string(),
                since: deletion.since,
                verdict: record.hot.as_deref().map(deletion_verdict).unwrap_or_default(),
                finalizers: deletion
                    .actors
                    .iter()
                    .map(|(name, actor)| (name.clone(), actor.to_string()))
                    .collect(),
            })
        });

        rows.collect()
    }

    /// Returns the health of each namespace with objects or findings. Only problems of its own
    /// objects and of the operator count: one user's problems say nothing about another's objects.
    fn health(&self, findings: &[Finding]) -> BTreeMap<String, Health> {
        let mut health: BTreeMap<String, Health> = BTreeMap::new();
        for watch in self.world.watches.iter().filter(|watch| watch.active) {
            for namespace in &watch.namespaces {
                let states = &namespace.totals.states;
                if states.iter().all(|objects| *objects == 0) {
                    continue;
                }

                let overdue = states[ObjectState::Overdue as usize] > 0;
                let word = if overdue { Health::Degraded } else { Health::Healthy };
                let entry = health.entry(namespace.name.to_string()).or_insert(Health::Healthy);
                *entry = word.max(*entry);
            }
        }

        for (namespace, word) in self.failing_namespaces() {
            let entry = health.entry(namespace.to_string()).or_insert(Health::Healthy);
            *entry = word.max(*entry);
        }

        for finding in
            findings.iter().filter(|finding| matches!(finding.subject, Subject::Object { .. }))
        {
            let entry =
                health.entry(finding.subject.namespace().to_owned()).or_insert(Health::Healthy);
            *entry = Health::of(finding.severity).max(*entry);
        }

        // Objects stay Ready when their operator dies.
        let is_of_operator = |finding: &&Finding| {
            matches!(finding.subject, Subject::Operator { .. } | Subject::Controller { .. })
        };
        if findings
            .iter()
            .filter(is_of_operator)
            .any(|finding| finding.severity == Severity::Critical)
        {
            health.values_mut().for_each(|health| *health = Health::Failing);
        }

        health
    }

    /// Returns the namespaces that the findings `Failing` are about: those with objects that fail for
    /// the reason of the finding or, if the kind fails in every namespace, for any.
    fn failing_namespaces(&self) -> Vec<(&Arc<str>, Health)> {
        let mut failing = Vec::new();
        for (number, kind) in (0..).zip(&self.world.kinds) {
            let subject = self.world.kind_subject(number);
            let open = self.findings.of_kind(FindingCode::Failing, &subject);
            let Some((finding, reach)) = open else { continue };

            let word = Health::of(finding.severity);
            match (&reach.only_in, finding.severity) {
                (None, _) => {
                    let names = kind.failures.namespaces_of(&reach.reason, reach.sort);
                    failing.extend(names.map(|name| (name, word)));
                }
                (Some(_), Severity::Critical) => {
                    let names = kind.failures.regressed.namespaces();
                    failing.extend(names.map(|name| (name, word)));
                }
                (Some(only), _) => failing.push((only, word)),
            }
        }

        failing
    }

    fn shown<'a>(&'a self, record: &'a Record) -> ObjectRef<'a> {
        let kind = self.world.kind_of(record.watch);
        ObjectRef {
            role: kind.role,
            group: &kind.group,
            kind: &kind.kind,
            namespace: &record.namespace,
            name: &record.name,
            state: self.world.state_of(record),
            since: record.since,
            generation: record.generation.number(),
            observed_generation: record.observed.some(),
            created: record.created(),
            terminating_since: deleted(record),
            phase: self.world.shared.texts.get(record.phase),
            conditions: self.world.shared.condition_sets.get(record.conditions),
            finalizers: self.world.shared.finalizer_sets.get(record.finalizers),
        }
    }

    fn row(&self, record: &Record) -> ObjectRow {
        let kind = self.world.kind_of(record.watch);
        let owners = record.owners().iter();
        let owner_text =
            |owner| format!("{}/{}", self.world.owner_kind(owner).1, self.world.owner_name(owner));
        let waits = matches!(
            record.state,
            ObjectState::Progressing | ObjectState::Overdue | ObjectState::Failed
        );

        ObjectRow {
            group: kind.group.to_string(),
            kind: kind.kind.to_string(),
            namespace: record.namespace.to_string(),
            name: record.name.to_string(),
            uid: uid_text(record.uid),
            state: self.world.state_of(record),
            reason: record.reason.as_str(),
            signal: self.signal_of(record),
            since: record.since,
            unconverged_since: record
                .unconverged()
                .filter(|_| waits)
                .map(|unconverged| unconverged.since),
            rejected: record.state == ObjectState::Failed
                && record.obligation().is_some_and(|obligation| !obligation.unasked),
            generation: record.generation.number(),
            observed_generation: record.observed.some(),
            created: record.created(),
            terminating_since: deleted(record),
            owners: owners.map(owner_text).collect(),
            phase: self.world.shared.texts.get(record.phase).to_string(),
            conditions: self.world.shared.condition_sets.get(record.conditions).clone(),
            finalizers: self.world.shared.finalizer_sets.get(record.finalizers).clone(),
            actors: finalizers::actors_of(&self.world, record),
        }
    }

    /// Returns the part of the status that decided the verdict, as text for people.
    pub(crate) fn signal_of(&self, record: &Record) -> String {
        match record.hot.as_ref() {
            Some(hot) if !hot.signal.is_empty() => hot.signal.clone(),
            // The status of an object that is not visible may have changed.
            _ if self.world.state_of(record) != record.state => String::new(),
            _ => {
                let conditions = self.world.shared.condition_sets.get(record.conditions);
                reading::remembered_signal(
                    record.reason,
                    conditions,
                    self.world.shared.texts.get(record.phase),
                )
            }
        }
    }
}

fn watch_summary(watch: &Watch) -> WatchSummary {
    WatchSummary {
        watch: watch.id.clone(),
        scope: watch.scope.clone(),
        synced: watch.lists.synced,
        missing: watch.missing.clone(),
        totals: watch.totals.clone(),
    }
}

/// Returns the verdict about the deletion of an object.
pub(crate) fn deletion_verdict(hot: &HotRecord) -> DeletionVerdict {
    let verdicts = [
        (FindingCode::FinalizerOwnerAbsent, DeletionVerdict::OwnerAbsent),
        (FindingCode::DeletionBlockedByDependent, DeletionVerdict::BlockedByDependent),
        (FindingCode::FinalizerStuck, DeletionVerdict::Stuck),
        (FindingCode::CleanupSlow, DeletionVerdict::Slow),
    ];

    let found = verdicts.into_iter().find(|(code, _)| hot.findings.contains(code));
    found.map(|(_, verdict)| verdict).unwrap_or_default()
}

fn deleted(record: &Record) -> Option<Timestamp> {
    record.deletion().map(|deletion| deletion.since)
}

/// Returns the rank of an unhealthy object in listings, 0 for the worst.
fn badness(record: &Record) -> u8 {
    match record.state {
        ObjectState::Overdue => 0,
        ObjectState::Terminating => 1,
        ObjectState::Failed => 2,
        _ => 3,
    }
}
