//! The state of sources, permissions and limits: everything that restricts what loopwatch can see.
//!
//! Once a watch has failed for `source_failing_after`, it is blind: its objects count as `unknown` until it recovers.

use std::collections::BTreeSet;

use super::open_findings::OpenFindings;
use super::skipped::{OBJECT_BYTES, UNREADABLE_OBJECTS};
use super::timers::{Timer, Timers};
use super::{MAX_INTERNED, MAX_LEASES, Model};
use crate::finding::{Evidence, FindingCode, Subject, Value};
use crate::observation::{Cause, MAX_OBJECT_BYTES, Permission, PermissionsView, SourceId};
use crate::snapshot::SourceSummary;
use crate::time::{Span, Timestamp};

/// How long the finding about a limit stays open after the last drop.
const LIMIT_REACHED_FOR: Span = Span::mins(10);

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
            self.list.push(Source {
                id: id.clone(),
                active: true,
                summary: SourceSummary { source: id.to_string(), up: true, since: now, ..SourceSummary::default() },
                due: None,
            });
            self.list.len() - 1
        });
        self.list[position].active = true;
        u16::try_from(position).unwrap_or(u16::MAX)
    }

    /// Records that an observation came from the source.
    pub(crate) fn note_success(&mut self, id: &SourceId, now: Timestamp) {
        let number = self.number_of(id, now);
        self.list[number as usize].summary.last_success = Some(now);
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

    pub(crate) fn summaries(&self) -> Vec<SourceSummary> {
        let active = self.list.iter().filter(|source| source.active);
        let mut summaries: Vec<_> = active.map(|source| source.summary.clone()).collect();
        summaries.sort_by(|a, b| a.source.cmp(&b.source));
        summaries
    }
}

// === impl Model ===

impl Model {
    pub(crate) fn source_failed(&mut self, id: &SourceId, cause: Cause, detail: &str) {
        let now = self.now;
        let number = self.sources.number_of(id, now);
        let source = &mut self.sources.list[number as usize].summary;
        *source.failures.entry(cause.as_str()).or_default() += 1;
        source.latest = Some((cause.as_str(), detail.to_owned()));
        if source.up {
            source.up = false;
            source.since = now;
        }
        self.source_due(number);
    }

    pub(crate) fn source_recovered(&mut self, id: &SourceId) {
        let now = self.now;
        let number = self.sources.number_of(id, now);
        let source = &mut self.sources.list[number as usize];
        source.summary.last_success = Some(now);
        if !source.summary.up {
            source.summary.up = true;
            source.summary.since = now;
        }
        let due = source.due.take();
        self.timers.set(Timer::Source(number), due, None);
        self.open_findings.clear(self.now, source_finding_code(id), &source_subject(id));
        self.clear_blind(id);
    }

    /// Opens the finding about a failing source if it has failed for long enough; otherwise sets its timer.
    pub(crate) fn source_due(&mut self, number: u16) {
        let (now, after) = (self.now, self.settings.source_failing_after);
        let Some(source) = self.sources.list.get_mut(number as usize).filter(|source| !source.summary.up) else {
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
            (_, Some(last)) => {
                Evidence::new().text("cause", cause).text("detail", detail).with("last_success", Value::Time(last))
            }
            (_, None) => Evidence::new().text("cause", cause).text("detail", detail),
        };
        let evidence = evidence.with("failing_for", Value::Age(since));
        self.raise(since, source_finding_code(&id), source_subject(&id), evidence);
        self.mark_blind(&id, since);
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

    fn clear_blind(&mut self, id: &SourceId) {
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
            missing.extend(view.missing.iter().map(|permission| (view.namespace.clone(), permission.clone())));
        }
        for watch in self.watches.iter().filter(|watch| watch.active) {
            let kind = &self.kinds[watch.kind as usize];
            let namespace = watch.scope.namespace().unwrap_or_default().to_owned();
            missing.extend(watch.missing.iter().map(|verb| {
                let permission =
                    Permission { verb: verb.clone(), group: kind.group.to_string(), resource: kind.resource.clone() };
                (namespace.clone(), permission)
            }));
        }
        missing.into_iter().collect()
    }

    /// Opens and closes the findings about missing and excessive permissions.
    pub(crate) fn review_permissions(&mut self) {
        let missing = self.permissions_missing();
        let subjects: Vec<Subject> = missing
            .iter()
            .map(|(namespace, permission)| permission_subject(namespace, permission.to_string()))
            .collect();
        self.open_findings.retain(self.now, FindingCode::PermissionMissing, |subject| subjects.contains(subject));
        for ((_, permission), subject) in missing.into_iter().zip(subjects) {
            let resource = Permission { verb: String::new(), ..permission.clone() }.to_string();
            let evidence = Evidence::new().text("verb", permission.verb).text("resource", resource.trim());
            self.raise(self.now, FindingCode::PermissionMissing, subject, evidence);
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
        self.open_findings
            .retain(self.now, FindingCode::PermissionExcess, |subject| excess.iter().any(|(s, _)| s == subject));
        for (subject, permissions) in excess {
            self.raise(
                self.now,
                FindingCode::PermissionExcess,
                subject,
                Evidence::new().with("rights", Value::Names(permissions)),
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
            "finalizers" => settings.finalizers,
            "namespaces" => settings.namespaces,
            "leases" => MAX_LEASES,
            OBJECT_BYTES => MAX_OBJECT_BYTES,
            UNREADABLE_OBJECTS => 0,
            _ => MAX_INTERNED, // texts, condition sets and finalizer sets
        };
        let evidence = Evidence::new()
            .with("dropped", Value::Count(count))
            .with("bound", Value::Count(i64::try_from(configured).unwrap_or(i64::MAX)));
        // `Model::raise` calls this function if the limit of findings is reached; calling it here could recurse
        // forever.
        let subject = Subject::Limit { name: limit.to_owned() };
        self.open_findings.raise(now, now, FindingCode::LimitReached, subject, evidence, usize::MAX);
        let due = Some(now.after(LIMIT_REACHED_FOR));
        let old = std::mem::replace(&mut self.limits_due, due);
        self.timers.set(Timer::Limits, old, due);
    }

    /// Closes the findings about limits that have not been reached recently.
    pub(crate) fn limits_due(&mut self) {
        self.limits_due = None;
        let (now, dropped) = (self.now, &self.dropped);
        self.open_findings.retain(self.now, FindingCode::LimitReached, |subject| {
            dropped.get(subject.name()).is_some_and(|(_, last)| last.after(LIMIT_REACHED_FOR) > now)
        });
        let next = dropped.values().map(|(_, last)| last.after(LIMIT_REACHED_FOR)).filter(|at| *at > now).max();
        self.limits_due = next;
        self.timers.set(Timer::Limits, None, next);
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
