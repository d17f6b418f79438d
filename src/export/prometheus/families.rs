//! Which part of a snapshot feeds which family. The match in [`feed`] is over all families, so that a row added to the
//! catalog does not compile until it says where its numbers come from.

mod every;

use loopwatch_model::finding::{Evidence, Value};
use loopwatch_model::observation::Role;
use loopwatch_model::snapshot::{
    DeletionVerdict, FinalizerOutcome, KindSummary, ObjectRef, ObjectState, Outcome, Snapshot, WatchSummary,
};

use super::encode::Samples;
use crate::export::catalog::Family;
use crate::export::summary::Findings;

/// Where a family's numbers come from.
#[derive(Clone, Copy)]
pub(super) enum Feed {
    /// The snapshot as a whole.
    Whole(fn(&Scene, &mut Samples<'_>)),
    /// Each kind of the snapshot.
    Kind(fn(&Scene, &KindSummary, &mut Samples<'_>)),
    /// Each object there is.
    Object(fn(&ObjectRef<'_>, &mut Samples<'_>)),
    /// The registry of loopwatch's own metrics.
    Registry,
}

/// What is shown: a snapshot, and how much of it.
pub(super) struct Scene {
    /// The snapshot.
    pub(super) snapshot: Snapshot,
    /// How many series of single objects a family may have.
    pub(super) object_series: usize,
    /// Series that did not fit so far, those of this exposition included.
    pub(super) series_dropped: u64,
}

/// Where the numbers of `family` come from.
pub(super) const fn feed(family: Family) -> Feed {
    use Family as F;
    match family {
        F::Objects => Feed::Kind(objects),
        F::ObjectSeconds => Feed::Kind(object_seconds),
        F::Obligations => Feed::Kind(obligations),
        F::Deadline => Feed::Kind(deadline),
        F::Acknowledge => Feed::Kind(acknowledge),
        F::Convergence => Feed::Kind(convergence),
        F::UnconvergedOldest => Feed::Kind(unconverged_oldest),
        F::ObjectUnconverged => Feed::Whole(object_unconverged),
        F::ConditionObjects => Feed::Kind(condition_objects),
        F::ConditionFlaps => Feed::Kind(condition_flaps),
        F::PhaseObjects => Feed::Kind(phase_objects),
        F::ControlLoopHealth => Feed::Whole(control_loop_health),
        F::TerminatingObjects => Feed::Kind(terminating_objects),
        F::FinalizerObjects => Feed::Kind(finalizer_objects),
        F::FinalizerOldest => Feed::Kind(finalizer_oldest),
        F::FinalizerRemoval => Feed::Kind(finalizer_removal),
        F::FinalizerOutcomes => Feed::Kind(finalizer_outcomes),
        F::Findings => Feed::Whole(findings),
        F::FindingSince => Feed::Whole(finding_since),
        F::FindingInfo => Feed::Whole(finding_info),
        F::LeaseHolder => Feed::Whole(lease_holder),
        F::LeaseRenewAge => Feed::Whole(lease_renew_age),
        F::LeaseRenew => Feed::Whole(lease_renew),
        F::LeaderTransitions => Feed::Whole(leader_transitions),
        F::ObjectState => Feed::Object(every::object_state),
        F::ObjectStateSince => Feed::Object(every::object_state_since),
        F::ObjectCreated => Feed::Object(every::object_created),
        F::ObjectDeletion => Feed::Object(every::object_deletion),
        F::ObjectGeneration => Feed::Object(every::object_generation),
        F::ObjectObservedGeneration => Feed::Object(every::object_observed_generation),
        F::ObjectCondition => Feed::Object(every::object_condition),
        F::ObjectPhase => Feed::Object(every::object_phase),
        F::ObjectFinalizers => Feed::Object(every::object_finalizers),
        F::SourceUp => Feed::Whole(source_up),
        F::SourceLastSuccess => Feed::Whole(source_last_success),
        F::SourceFailures => Feed::Whole(source_failures),
        F::PermissionMissing => Feed::Whole(permission_missing),
        F::WatchLag => Feed::Kind(watch_lag),
        F::AuditDifference => Feed::Kind(audit_difference),
        F::Observations => Feed::Whole(observations),
        F::Dropped => Feed::Whole(dropped),
        F::BuildInfo => Feed::Whole(build_info),
        F::HttpRequests
        | F::RenderSeconds
        | F::ChannelDepth
        | F::AllocatorAllocated
        | F::AllocatorActive
        | F::AllocatorResident
        | F::AllocatorRetained
        | F::RuntimeWorkers
        | F::RuntimeTasks
        | F::RuntimeQueue
        | F::RuntimeBusy
        | F::ProcessCpu
        | F::ProcessResident
        | F::ProcessVirtual
        | F::ProcessOpenFds
        | F::ProcessMaxFds
        | F::ProcessStart => Feed::Registry,
    }
}

// === objects and their promises ===

/// A state that never occurred is left out; one that did stays, so that its return to zero can be seen.
fn objects(_: &Scene, kind: &KindSummary, samples: &mut Samples<'_>) {
    for (namespace, numbers) in &kind.namespaces {
        for (index, state) in ObjectState::ALL.iter().enumerate() {
            let (count, seconds) = (numbers.states[index], numbers.state_seconds[index]);
            if count > 0 || seconds > 0.0 || *state == ObjectState::Converged {
                samples.put(&[&kind.group, &kind.kind, namespace, state.as_str()], count);
            }
        }
    }
}

fn object_seconds(_: &Scene, kind: &KindSummary, samples: &mut Samples<'_>) {
    for (namespace, numbers) in &kind.namespaces {
        for (state, seconds) in ObjectState::ALL.iter().zip(numbers.state_seconds) {
            if seconds > 0.0 || *state == ObjectState::Converged {
                samples.put(&[&kind.group, &kind.kind, namespace, state.as_str()], seconds);
            }
        }
    }
}

fn obligations(_: &Scene, kind: &KindSummary, samples: &mut Samples<'_>) {
    if !owes(kind) {
        return;
    }
    for (namespace, numbers) in &kind.namespaces {
        for (outcome, count) in Outcome::ALL.iter().zip(numbers.obligations) {
            samples.put(&[&kind.group, &kind.kind, namespace, outcome.as_str()], count);
        }
    }
}

fn deadline(_: &Scene, kind: &KindSummary, samples: &mut Samples<'_>) {
    if owes(kind) {
        samples.put(&[&kind.group, &kind.kind, kind.deadline_source.as_str()], kind.deadline);
    }
}

fn acknowledge(_: &Scene, kind: &KindSummary, samples: &mut Samples<'_>) {
    if owes(kind) {
        samples.histogram(&[&kind.group, &kind.kind], &kind.acknowledge);
    }
}

fn convergence(_: &Scene, kind: &KindSummary, samples: &mut Samples<'_>) {
    if owes(kind) {
        samples.histogram(&[&kind.group, &kind.kind], &kind.convergence);
    }
}

/// Children are watched to explain their owners; nobody owes them anything.
fn owes(kind: &KindSummary) -> bool {
    kind.role == Role::Primary
}

fn unconverged_oldest(scene: &Scene, kind: &KindSummary, samples: &mut Samples<'_>) {
    if let Some(since) = kind.oldest_unconverged {
        samples.put(&[&kind.group, &kind.kind], scene.snapshot.at.since(since));
    }
}

fn object_unconverged(scene: &Scene, samples: &mut Samples<'_>) {
    for row in scene.snapshot.unhealthy.iter().take(scene.object_series) {
        if let Some(since) = row.unconverged_since {
            samples.put(&[&row.group, &row.kind, &row.namespace, &row.name, row.reason], since);
        }
    }
}

fn condition_objects(_: &Scene, kind: &KindSummary, samples: &mut Samples<'_>) {
    for ((condition, status), count) in &kind.conditions {
        samples.put(&[&kind.group, &kind.kind, condition, status], *count);
    }
}

fn condition_flaps(_: &Scene, kind: &KindSummary, samples: &mut Samples<'_>) {
    for (condition, count) in &kind.flaps {
        samples.put(&[&kind.group, &kind.kind, condition], *count);
    }
}

fn phase_objects(_: &Scene, kind: &KindSummary, samples: &mut Samples<'_>) {
    for (phase, count) in &kind.phases {
        samples.put(&[&kind.group, &kind.kind, phase], *count);
    }
}

fn control_loop_health(scene: &Scene, samples: &mut Samples<'_>) {
    for (namespace, health) in &scene.snapshot.health {
        samples.put(&[namespace], *health as u64);
    }
}

// === deletion ===

fn terminating_objects(_: &Scene, kind: &KindSummary, samples: &mut Samples<'_>) {
    samples.put(&[&kind.group, &kind.kind], kind.states()[ObjectState::Terminating as usize]);
}

fn finalizer_objects(_: &Scene, kind: &KindSummary, samples: &mut Samples<'_>) {
    for (finalizer, numbers) in &kind.finalizers {
        for (verdict, count) in DeletionVerdict::ALL.iter().zip(numbers.waiting) {
            samples.put(&[&kind.group, &kind.kind, finalizer, verdict.as_str()], count);
        }
    }
}

fn finalizer_oldest(scene: &Scene, kind: &KindSummary, samples: &mut Samples<'_>) {
    for (finalizer, numbers) in &kind.finalizers {
        if let Some(since) = numbers.oldest {
            samples.put(&[&kind.group, &kind.kind, finalizer], scene.snapshot.at.since(since));
        }
    }
}

fn finalizer_removal(_: &Scene, kind: &KindSummary, samples: &mut Samples<'_>) {
    for (finalizer, numbers) in &kind.finalizers {
        samples.histogram(&[&kind.group, &kind.kind, finalizer], &numbers.removal);
    }
}

fn finalizer_outcomes(_: &Scene, kind: &KindSummary, samples: &mut Samples<'_>) {
    for (finalizer, numbers) in &kind.finalizers {
        for (outcome, count) in FinalizerOutcome::ALL.iter().zip(numbers.outcomes) {
            samples.put(&[&kind.group, &kind.kind, finalizer, outcome.as_str()], count);
        }
    }
}

// === findings ===

fn findings(scene: &Scene, samples: &mut Samples<'_>) {
    let tree = Findings::of(&scene.snapshot);
    let mut counts = std::collections::BTreeMap::<_, u64>::new();
    for finding in &scene.snapshot.findings {
        let subject = &finding.subject;
        let explained = tree.root_of(finding).is_some();
        let key = (finding.code, subject.group(), subject.kind(), subject.namespace(), finding.confidence, explained);
        *counts.entry(key).or_default() += 1;
    }
    for ((code, group, kind, namespace, confidence, explained), count) in counts {
        let explained = if explained { "true" } else { "false" };
        let severity = code.info().severity.as_str();
        samples.put(&[group, kind, namespace, code.name(), severity, confidence.as_str(), explained], count);
    }
}

fn finding_since(scene: &Scene, samples: &mut Samples<'_>) {
    for finding in scene.snapshot.findings.iter().take(scene.object_series) {
        let (subject, info) = (&finding.subject, finding.info());
        samples.put(
            &[subject.group(), subject.kind(), subject.namespace(), subject.name(), info.name, info.severity.as_str()],
            finding.since,
        );
    }
}

fn finding_info(scene: &Scene, samples: &mut Samples<'_>) {
    let tree = Findings::of(&scene.snapshot);
    for finding in scene.snapshot.findings.iter().take(scene.object_series) {
        let subject = &finding.subject;
        let name = |key| first_name(&finding.evidence, key);
        samples.put(
            &[
                subject.group(),
                subject.kind(),
                subject.namespace(),
                subject.name(),
                finding.code.name(),
                name("finalizers"),
                name("actor"),
                name("blocker_kind"),
                name("blocker_name"),
                tree.root_of(finding).map_or("", |root| root.code.name()),
            ],
            1_u64,
        );
    }
}

/// The name, or the first of the names, under `key`.
fn first_name<'a>(evidence: &'a Evidence, key: &str) -> &'a str {
    match evidence.0.get(key) {
        Some(Value::Text(text)) => text,
        Some(Value::Names(names)) => names.first().map_or("", String::as_str),
        _ => "",
    }
}

// === the operator ===

fn lease_holder(scene: &Scene, samples: &mut Samples<'_>) {
    for lease in scene.snapshot.leases.iter().filter(|lease| !lease.holder.is_empty()) {
        samples.put(&[&lease.namespace, &lease.name, &lease.holder], 1_u64);
    }
}

fn lease_renew_age(scene: &Scene, samples: &mut Samples<'_>) {
    for lease in &scene.snapshot.leases {
        if let Some(renewed) = lease.renewed {
            samples.put(&[&lease.namespace, &lease.name], scene.snapshot.at.since(renewed));
        }
    }
}

fn lease_renew(scene: &Scene, samples: &mut Samples<'_>) {
    for lease in &scene.snapshot.leases {
        if let Some(renewed) = lease.renewed {
            samples.put(&[&lease.namespace, &lease.name], renewed);
        }
    }
}

fn leader_transitions(scene: &Scene, samples: &mut Samples<'_>) {
    for lease in &scene.snapshot.leases {
        samples.put(&[&lease.namespace, &lease.name], lease.transitions.max(0));
    }
}

// === what loopwatch sees ===

fn source_up(scene: &Scene, samples: &mut Samples<'_>) {
    for source in &scene.snapshot.sources {
        samples.put(&[&source.source], u64::from(source.up));
    }
}

fn source_last_success(scene: &Scene, samples: &mut Samples<'_>) {
    for source in &scene.snapshot.sources {
        if let Some(last) = source.last_success {
            samples.put(&[&source.source], last);
        }
    }
}

fn source_failures(scene: &Scene, samples: &mut Samples<'_>) {
    for source in &scene.snapshot.sources {
        for (cause, count) in &source.failures {
            samples.put(&[&source.source, cause], *count);
        }
    }
}

fn permission_missing(scene: &Scene, samples: &mut Samples<'_>) {
    let missing: std::collections::BTreeSet<_> = scene.snapshot.permissions_missing.iter().collect();
    for (namespace, permission) in missing {
        samples.put(&[&permission.group, namespace, &permission.verb, &permission.resource], 1_u64);
    }
}

fn watch_lag(_: &Scene, kind: &KindSummary, samples: &mut Samples<'_>) {
    for watch in kind.watches.iter().filter(|watch| watch.lag.count() > 0) {
        samples.histogram(&[&kind.group, &kind.kind, scope(watch)], &watch.lag);
    }
}

fn audit_difference(_: &Scene, kind: &KindSummary, samples: &mut Samples<'_>) {
    for watch in &kind.watches {
        if let Some(difference) = watch.audit_difference {
            samples.put(&[&kind.group, &kind.kind, scope(watch)], difference);
        }
    }
}

fn scope(watch: &WatchSummary) -> &str {
    watch.scope.namespace().unwrap_or("")
}

fn observations(scene: &Scene, samples: &mut Samples<'_>) {
    for (source, count) in &scene.snapshot.observations {
        samples.put(&[source], *count);
    }
}

/// The limit that the exporter itself keeps.
pub(super) const OBJECT_SERIES: &str = "object_series";

fn dropped(scene: &Scene, samples: &mut Samples<'_>) {
    let mut dropped = scene.snapshot.dropped.clone();
    *dropped.entry(OBJECT_SERIES).or_default() += scene.series_dropped;
    for (limit, count) in dropped {
        samples.put(&[limit], count);
    }
}

// === loopwatch itself ===

fn build_info(_: &Scene, samples: &mut Samples<'_>) {
    samples.put(&[crate::telemetry::VERSION, crate::telemetry::REVISION], 1_u64);
}
