//! Thresholds and limits of the model, with their defaults and reasons.
//!
//! The header of a recording contains them, so that a replay reaches the same conclusions. The
//! configuration file sets them under `settings:` by their field names, within their
//! [bounds](bounds::Bounds).

pub mod bounds;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::finding::Severity;
use crate::time::Span;

/// Thresholds and limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// The default time that an object may take from a spec change to converged. A kind may have a
    /// configured or a learned deadline instead. Ten minutes is the progress deadline of a
    /// Deployment (`progressDeadlineSeconds: 600`).
    pub deadline: Span,
    /// Deadlines by `group/Kind` (`Kind` alone for the core group).
    pub deadlines: BTreeMap<String, Span>,
    /// The shortest time before the finding `Unacknowledged` opens as a ticket, ahead of its
    /// deadline, if the operator has always acknowledged spec changes of the kind far more quickly.
    /// A restart of the operator usually takes at most two minutes, and the longest usual lease
    /// 137 s.
    pub unacknowledged_early_after: Span,
    /// How long an object must stay converged before its obligation ends as converged, and how long
    /// a kind must be failing before the finding `Failing` opens. States that last for less are
    /// often transient.
    pub settle: Span,
    /// How long the status must say failed before the obligation ends as rejected.
    pub reject_after: Span,
    /// How long loopwatch waits after a spec change for a write of a status that says converged but
    /// has no `observedGeneration`. Without a write, the status may still describe the old spec, so
    /// the obligation then ends as unknown.
    pub unsaid_after: Span,
    /// How long an object may be unconverged without a spec change before the finding `Regressed`
    /// opens. Five minutes is longer than a Pod usually takes to restart. The kind's deadline
    /// applies instead if it is configured or learned, and longer.
    pub regressed_after: Span,
    /// How long a workload must be without a Pod that works, and its owner say Ready nevertheless, before
    /// the finding `ReadyButBroken` opens. A Pod that moves to another node is back sooner.
    pub broken_after: Span,
    /// The number of objects of a kind that must fail at once before the kind counts as failing.
    /// `failing_percent` must be reached, too. Also the number of changes that must be rejected for
    /// one reason in several namespaces.
    pub failing_objects: u32,
    /// The percentage of the objects of a kind that must fail at once before the kind counts as
    /// failing.
    pub failing_percent: u32,
    /// The number of objects of a kind that must have a finding at once before the finding pages,
    /// instead of opening a ticket. If the kind has objects in several namespaces, they must be in at
    /// least two. Also the smallest number of overdue objects that pages.
    pub page_objects: u32,
    /// The percentage of the objects of a kind that must have a finding at once before the finding
    /// pages. At least two objects must have it. Overdue objects page only if they reach it.
    pub page_percent: u32,
    /// How long a finding about fewer objects must be open before it pages, and how long an object
    /// must be overdue to count towards a page. An hour is enough to look at a ticket first.
    pub page_after: Span,
    /// The sliding window in which transitions of a condition are counted.
    pub flap_window: Span,
    /// The number of transitions within the window, without a spec change, that counts as flapping.
    /// Six transitions are three round trips.
    pub flap_transitions: u32,
    /// The sliding window in which returns to an earlier phase are counted.
    pub cycle_window: Span,
    /// The number of returns to an earlier phase within the window, without a spec change, that
    /// counts as cycling.
    pub cycle_returns: u32,
    /// How long a transitional phase may last before the finding `PhaseStuck` opens. Three times the
    /// usual stay in the phase, or else the kind's deadline, applies instead if it is longer.
    pub phase_stuck_after: Span,
    /// How long finalizers may block a deletion since its last step. A cleanup that calls a cloud
    /// provider takes minutes, so after fifteen minutes it has probably failed.
    pub finalizer_stuck_after: Span,
    /// How long an owner may be missing before its children count as left behind. The garbage
    /// collector normally deletes them within seconds, or within minutes under load.
    pub owner_missing_after: Span,
    /// The minimum time for which a finding about a bad owner reference stays open, because the
    /// garbage collector usually deletes the child within seconds. A quarter of an hour is enough
    /// for several scrapes and for the `for` of an alert.
    pub hazard_kept_for: Span,
    /// How long an object must have been without an owner before it counts as an orphan, and how
    /// long the owner that its annotations name must have been gone. A cascading deletion takes
    /// seconds to minutes.
    pub orphan_after: Span,
    /// How old an object without an owner must be before it counts as an orphan although loopwatch
    /// has never seen the owner that its labels name. A restore from a backup brings children
    /// before their owners, and large volumes take long.
    pub orphan_unseen_after: Span,
    /// The annotation with the kind of an owner that owner references cannot name, in addition to
    /// those that loopwatch knows; empty for none. The annotation with its name is necessary, too.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub owner_kind_annotation: String,
    /// The annotation with the namespace of this owner. It defaults to the object's own namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub owner_namespace_annotation: String,
    /// The annotation with the name of this owner.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub owner_name_annotation: String,
    /// The number of owned objects that a kind must have before an object without an owner is
    /// suspicious.
    pub orphan_siblings: u32,
    /// How long the target of a reference may be absent before the finding `DanglingReference`
    /// opens. People often create an object before the Secret that it refers to.
    pub dangling_after: Span,
    /// The annotation that switches soft deletion on for an object. It does not mark the object as
    /// deleted.
    pub soft_delete_enable: String,
    /// The annotation that says how far soft deletion is rolled out: `canary`, `stable` or `off`.
    pub soft_delete_phase: String,
    /// The annotation with the time at which an object was soft-deleted, in RFC 3339, or in seconds
    /// or milliseconds since the Unix epoch.
    pub soft_delete_time: String,
    /// A part of the name of the finalizers that keep soft-deleted objects. Upper and lower case,
    /// `-` and `_` do not matter.
    pub soft_delete_finalizer: String,
    /// How long an object may be soft-deleted before the finding `SoftDeleteLingering` opens.
    /// Operators that keep deleted objects for a while usually remove them within a day.
    pub soft_deleted_after: Span,
    /// The number of times that a finalizer must be added again within `flap_window` before the
    /// finding `FinalizerFlapping` opens. Once or twice may be a feature that somebody switched off
    /// and on.
    pub finalizer_returns: u32,
    /// The number of writes without a change within `hot_loop_window` before the finding `HotLoop`
    /// opens. Config Sync calls more than five per minute a fight.
    pub hot_loop_writes: u32,
    /// The sliding window in which such writes are counted.
    pub hot_loop_window: Span,
    /// The number of writes of a kind without a change within `redundant_window`, by programs, before the
    /// finding `RedundantStatusWrites` opens. On average, each object must be written every two minutes.
    pub redundant_writes: u32,
    /// The sliding window in which the writes of a kind are counted.
    pub redundant_window: Span,
    /// The number of writes within `fight_window` that two writers must have undone before the finding
    /// `WriteFight` opens.
    pub fight_writes: u32,
    /// The sliding window in which such writes are counted. A tool that applies manifests every three
    /// minutes undoes two within it, and the operator two.
    pub fight_window: Span,
    /// The number of times within `revert_window` that an older status must have been written back
    /// before the finding `StatusReverted` opens. One or two may follow a change of the leader.
    pub status_reverts: u32,
    /// The sliding window in which these are counted.
    pub revert_window: Span,
    /// The number of times within `recreate_window` that a child must have come back after its deletion
    /// before the finding `RecreateLoop` opens.
    pub recreations: u32,
    /// The sliding window in which these returns are counted.
    pub recreate_window: Span,
    /// How long the data of a ConfigMap or a Secret must have been newer than a Pod that read it
    /// only when it started, before the finding `StaleConfiguration` opens. Operators and tools
    /// that watch configuration restart the Pods within minutes.
    pub stale_after: Span,
    /// How long the controller of a finalizer must have been absent before the finding
    /// `FinalizerOwnerAbsent` opens. Five minutes is longer than a rollout with the strategy
    /// Recreate, or a change of the leader, usually takes.
    pub owner_absent_after: Span,
    /// How long a cleanup may take before the finding `CleanupSlow` opens. If a finalizer's
    /// removals usually take longer, three times their learned 99th percentile applies instead.
    pub cleanup_slow_after: Span,
    /// How long an object whose spec was reverted to one that had converged may take, as a multiple
    /// of that convergence time. After that, the finding `NeverRecovered` opens, but not before
    /// `recover_at_least`.
    pub recover_factor: u32,
    /// The shortest time before the finding `NeverRecovered` opens.
    pub recover_at_least: Span,
    /// How long the operator must be absent before the finding `OperatorDown` opens. Two minutes is
    /// longer than the restart of a container or a change of the leader usually takes. A single
    /// sign other than its Pods needs `owner_absent_after`. Half of it is enough if the Pods show
    /// that the operator is not about to run again: see [`Settings::operator_gone_after`].
    pub operator_down_after: Span,
    /// How long a new Pod of the operator, or a rollout that ends the old Pods first, may take
    /// until the operator's container starts for the first time. Ten minutes is the progress
    /// deadline of a Deployment; slow image pulls take minutes.
    pub operator_start_within: Span,
    /// How long some of the operator's Pods, or one of several managers in a Pod, may be down while
    /// the others run before the finding `OperatorDown` opens as a ticket. An hour is longer than
    /// the replacement of a node takes.
    pub partly_down_after: Span,
    /// How long changes may wait for an operator that is scaled to zero or deleted before the
    /// finding `OperatorDown` opens as a ticket. A day is longer than a night in which nobody needs
    /// the operator. Four times as long applies to an operator that has been scaled to zero and
    /// back before: a long weekend.
    pub stopped_after: Span,
    /// The sliding window in which restarts of the operator's container are counted.
    pub restart_window: Span,
    /// The number of restarts of one Pod within the window that counts as a restart loop. One
    /// restart may be an accident, and two may be that accident and the restart of a node.
    pub restarts: u32,
    /// How soon after its start the operator must be killed for its memory to count as killed at
    /// its start. The first lists fill its cache within minutes.
    pub startup_within: Span,
    /// The number of such kills within `restart_window` before the finding `StartupOutOfMemory`
    /// opens.
    pub startup_kills: u32,
    /// How long reconciles must fail without a single success before the finding `ReconcileFailing`
    /// opens, and the window in which the finding `ReconcileErrors` counts errors.
    pub reconcile_failing_after: Span,
    /// The number of errors that either finding needs. One or two are part of normal work, such as
    /// conflicts.
    pub reconcile_errors: u32,
    /// How long a reconcile may run before the finding `ReconcileStuck` opens, if
    /// `reconcile_stuck_factor` is reached, too. A reconcile should wait for nothing, so it takes
    /// seconds.
    pub reconcile_stuck_after: Span,
    /// The multiple of the mean duration of a controller's reconciles that one may take before it
    /// counts as stuck. It may also take twice as long as the longest one that has succeeded.
    pub reconcile_stuck_factor: u32,
    /// How long all workers of a controller must be busy while objects wait before the finding
    /// `WorkersSaturated` opens. The lists at the start of an operator keep its workers busy for
    /// minutes.
    pub workers_saturated_after: Span,
    /// The number of objects in the queue of a controller beyond which it counts as a backlog.
    pub queue_backlog: u32,
    /// How long a backlog must last without shrinking before the finding `QueueBacklog` opens.
    pub queue_backlog_after: Span,
    /// The window over which a queue must have grown before the finding `QueueBacklog` opens,
    /// however short it is.
    pub queue_growth_window: Span,
    /// How long objects may wait in the queue of a controller that has not begun any reconcile
    /// before the finding `InformerNotSynced` opens a minute later. controller-runtime gives up
    /// after two minutes; large caches take minutes.
    pub informer_sync_within: Span,
    /// The number of reconciles per second, of objects at rest and without a change, that the finding
    /// `SilentHotLoop` needs, and of writes that change nothing, for `UnchangedWrites`. An operator that
    /// asks for an external system every few seconds has fewer.
    pub silent_loop_rate: u32,
    /// How long that must go on. The start of an operator and the way out of a backlog are shorter.
    pub silent_loop_after: Span,
    /// How long nobody may renew the operator's lease while its Pods run before the finding
    /// `LeaderAbsent` opens. The longest usual lease duration is 137 s, and the next leader needs
    /// time to start.
    pub leader_absent_after: Span,
    /// The sliding window in which changes of the leader are counted.
    pub leader_window: Span,
    /// The number of changes within the window, other than by rollouts, that counts as flapping.
    pub leader_transitions: u32,
    /// The window in which requests of the operator to the API server are counted.
    pub api_window: Span,
    /// The number of conflicts within the window that the finding `ConflictStorm` needs. The retries of one
    /// object wait longer and longer, so it has fewer.
    pub conflicts: u32,
    /// The number of failed requests within the window that the finding `ApiErrors` needs.
    pub api_errors: u32,
    /// The percentage of requests within the window that must have failed. A restart of an API
    /// server is shorter.
    pub api_error_percent: u32,
    /// The number of denied requests within the window before the finding `ApiForbidden` opens. One
    /// may be a test.
    pub forbidden_requests: u32,
    /// How long the operator may leave a spec change unacknowledged before the finding `Starved`
    /// opens, counted from the end of an outage through which the change waited, if it has acknowledged
    /// `starved_others` other objects of the kind since. Ten times the learned median applies instead if
    /// it is longer.
    pub starved_after: Span,
    /// The number of other objects that must have been acknowledged since.
    pub starved_others: u32,
    /// The number of crashes that must follow the spec change of one object before the finding
    /// `PoisonObject` opens.
    pub poison_crashes: u32,
    /// How long a source may fail before the finding `SourceFailing` opens, and how long requests
    /// of the operator must fail before the finding `ApiErrors` pages. Two minutes is longer than
    /// the restart of an API server.
    pub source_failing_after: Span,
    /// How long the calls of a webhook must fail before the finding `WebhookUnavailable` or
    /// `ConversionFailing` opens, if several objects report it; three times as long applies if only one
    /// does. A replica that leaves a Service is replaced within seconds.
    pub webhook_down_after: Span,
    /// How long nobody may scrape `/metrics` of loopwatch before the finding `NotScraped` opens; 0
    /// disables it. Ten minutes are ten scrapes at the longest usual interval. loopwatch expects no
    /// scrapes at all if it posts alerts or sends traces, until a Prometheus has scraped it once.
    pub scrape_expected_within: Span,
    /// The interval between audits of a watch, which compare its object count with the API
    /// server's. It grows up to 16 times as long while they agree.
    pub audit_every: Span,
    /// The number of measured creations, updates or acknowledgements of a kind after which
    /// loopwatch learns the deadline for these; 0 disables learning.
    pub learn_after: u32,
    /// The finding `MemoryExhaustionPredicted` opens if a confirmed trend exhausts the operator's
    /// memory within this time. A day leaves time to act in working hours.
    pub exhaustion_within: Span,
    /// The percentage by which the operator's memory must exceed that of its previous process at
    /// the same uptime before the finding `MemoryJump` opens, and by which it must exceed its
    /// baseline before `MemoryExhaustionPredicted` may page.
    pub memory_jump_percent: u32,
    /// Amounts of memory of the operator, in bytes. Beyond each, the finding `MemoryLarge` names
    /// it. Operators quote these two for their caches.
    pub memory_levels: Vec<u64>,
    /// Numbers of goroutines of the operator. Beyond each, the finding `TaskLimit` names it.
    /// Operators quote these three.
    pub goroutine_levels: Vec<u64>,
    /// The percentage of the limit on file descriptors beyond which the finding
    /// `FileDescriptorLeak` opens without a trend.
    pub descriptors_percent: u32,
    /// How long the process must spend nearly all its time in garbage collection before the finding
    /// `GarbageCollectionThrash` opens.
    pub thrash_after: Span,
    /// The percentage of the periods of the CPU limit within five minutes in which the operator must
    /// be throttled before the finding `CpuThrottled` opens: a quarter, as in the alert
    /// `CPUThrottlingHigh` of the kubernetes-mixin. An open finding needs half as many.
    pub throttled_percent: u32,
    /// How long that must last. The lists at the start of an operator, or a change of many objects,
    /// use all its CPU time for minutes.
    pub throttled_after: Span,
    /// How long objects must wait in the operator's queues on average before the finding
    /// `CpuThrottled` is a warning. If no finding says that the operator works late either, it is
    /// information only. A healthy operator takes an object from its queue within milliseconds.
    pub throttled_wait: Span,
    /// The shortest interval between two profiles of the same kind of one process.
    pub profile_every: Span,
    /// Limits on the size of collections.
    pub limits: Limits,
    /// Rules by the name of the finding. The rules under [`ALL_FINDINGS`] apply to every finding,
    /// after its own rules.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub findings: BTreeMap<String, Vec<FindingRule>>,
}

/// The name that stands for every finding, in rules and in annotations.
pub const ALL_FINDINGS: &str = "all";

/// Whether a finding opens about the selected subjects, and with which severity. For both, the
/// first rule that selects the subject and has a value decides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FindingRule {
    /// The kinds of the subjects, as `group/Kind` (`Kind` alone for the core group).
    #[serde(skip_serializing_if = "Selector::selects_all")]
    pub kinds: Selector,
    /// The namespaces of the subjects. A subject without a namespace is in none.
    #[serde(skip_serializing_if = "Selector::selects_all")]
    pub namespaces: Selector,
    /// Whether the finding opens; `None` leaves the decision to the next rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// The severity of the finding; `None` leaves the decision to the next rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
}

/// Selects names: those in `include`, or all if it is empty, except those in `exclude`. In both,
/// `*` stands for any text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Selector {
    /// The names to select; empty for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    /// Names that are not selected although `include` contains them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
}

/// Limits on the size of the model's collections. Items beyond a limit are dropped and counted in
/// `loopwatch_dropped_total{limit}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Objects. `run` derives this limit from its memory limit. All objects together may take
    /// [`OBJECT_BYTES`] times as much memory.
    pub objects: usize,
    /// Objects with a history of condition transitions and phase changes.
    pub histories: usize,
    /// Open findings.
    pub findings: usize,
    /// Watches: kinds times scopes.
    pub watches: usize,
    /// Distinct phases per kind. A kind that exceeds this limit probably writes free text there.
    pub phases: usize,
    /// Distinct reasons of Kubernetes Events per kind with counts of their own, in addition to
    /// those of Kubernetes itself. Operators use approximately ten; one that uses far more probably
    /// writes names or free text there.
    pub event_reasons: usize,
    /// Distinct condition types per kind.
    pub condition_types: usize,
    /// Distinct finalizers per kind with totals of their own. Further ones are left out of the
    /// totals.
    pub finalizers: usize,
    /// Namespaces per watch with totals and label values of their own; all further ones share
    /// `_other`.
    pub namespaces: usize,
    /// Series about single objects per metric family, and unhealthy objects in a snapshot.
    pub object_series: usize,
    /// Approximate bytes of unfinished traces. A trace of an obligation needs one or two kilobytes,
    /// so this is enough for two thousand obligations at once.
    pub trace_bytes: usize,
}

/// The memory of one object with its history while many objects change, in bytes: three times that
/// of an idle object (measured).
pub const OBJECT_BYTES: usize = 900;

/// The memory that the objects may take at least, in bytes, however low the limit on their number
/// is.
const MIN_OBJECT_MEMORY: usize = 1024 * 1024;

impl Limits {
    /// Returns the memory that all objects may take together, in bytes, with the texts and lists
    /// that they share.
    #[must_use]
    pub const fn object_memory(&self) -> usize {
        let memory = self.objects.saturating_mul(OBJECT_BYTES);
        if memory < MIN_OBJECT_MEMORY { MIN_OBJECT_MEMORY } else { memory }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            deadline: Span::mins(10),
            deadlines: BTreeMap::new(),
            unacknowledged_early_after: Span::secs(140),
            settle: Span::secs(10),
            reject_after: Span::secs(10),
            unsaid_after: Span::secs(30),
            regressed_after: Span::mins(5),
            broken_after: Span::mins(5),
            failing_objects: 3,
            failing_percent: 50,
            page_objects: 3,
            page_percent: 50,
            page_after: Span::hours(1),
            flap_window: Span::mins(30),
            flap_transitions: 6,
            cycle_window: Span::mins(30),
            cycle_returns: 6,
            phase_stuck_after: Span::mins(30),
            finalizer_stuck_after: Span::mins(15),
            owner_missing_after: Span::mins(5),
            hazard_kept_for: Span::mins(15),
            orphan_after: Span::mins(5),
            orphan_unseen_after: Span::hours(1),
            owner_kind_annotation: String::new(),
            owner_namespace_annotation: String::new(),
            owner_name_annotation: String::new(),
            orphan_siblings: 20,
            dangling_after: Span::mins(2),
            soft_delete_enable: "soft-delete/enable".to_owned(),
            soft_delete_phase: "soft-delete/phase".to_owned(),
            soft_delete_time: "deleted_at".to_owned(),
            soft_delete_finalizer: "softdelete".to_owned(),
            soft_deleted_after: Span::hours(24),
            finalizer_returns: 3,
            hot_loop_writes: 10,
            hot_loop_window: Span::mins(2),
            redundant_writes: 300,
            redundant_window: Span::mins(30),
            fight_writes: 6,
            fight_window: Span::mins(4),
            status_reverts: 3,
            revert_window: Span::mins(10),
            recreations: 3,
            recreate_window: Span::mins(10),
            stale_after: Span::mins(10),
            owner_absent_after: Span::mins(5),
            cleanup_slow_after: Span::mins(5),
            recover_factor: 10,
            recover_at_least: Span::mins(2),
            operator_down_after: Span::mins(2),
            operator_start_within: Span::mins(10),
            partly_down_after: Span::hours(1),
            stopped_after: Span::hours(24),
            restart_window: Span::hours(1),
            restarts: 3,
            startup_within: Span::mins(10),
            startup_kills: 2,
            reconcile_failing_after: Span::mins(5),
            reconcile_errors: 3,
            reconcile_stuck_after: Span::mins(10),
            reconcile_stuck_factor: 5,
            workers_saturated_after: Span::mins(15),
            queue_backlog: 500,
            queue_backlog_after: Span::mins(2),
            queue_growth_window: Span::hours(1),
            informer_sync_within: Span::mins(5),
            silent_loop_rate: 5,
            silent_loop_after: Span::mins(5),
            leader_absent_after: Span::mins(5),
            leader_window: Span::hours(1),
            leader_transitions: 3,
            api_window: Span::mins(5),
            conflicts: 20,
            api_errors: 10,
            api_error_percent: 20,
            forbidden_requests: 5,
            starved_after: Span::mins(5),
            starved_others: 20,
            poison_crashes: 2,
            source_failing_after: Span::mins(2),
            webhook_down_after: Span::secs(20),
            scrape_expected_within: Span::mins(10),
            audit_every: Span::mins(1),
            learn_after: 20,
            exhaustion_within: Span::hours(24),
            memory_jump_percent: 40,
            memory_levels: vec![500_000_000, 1_200_000_000],
            goroutine_levels: vec![800, 1500, 2500],
            descriptors_percent: 80,
            thrash_after: Span::mins(5),
            throttled_percent: 25,
            throttled_after: Span::mins(15),
            throttled_wait: Span::secs(5),
            profile_every: Span::mins(30),
            limits: Limits::default(),
            findings: BTreeMap::new(),
        }
    }
}

impl Settings {
    /// Returns the annotations that the model reads because the settings name them.
    #[must_use]
    pub fn annotations(&self) -> Vec<String> {
        let soft_deletion =
            [&self.soft_delete_enable, &self.soft_delete_phase, &self.soft_delete_time];
        let owner = [
            &self.owner_kind_annotation,
            &self.owner_namespace_annotation,
            &self.owner_name_annotation,
        ];

        soft_deletion.into_iter().chain(owner).filter(|name| !name.is_empty()).cloned().collect()
    }

    /// Returns how long the operator must be absent if its Pods show that it is not about to run
    /// again: half of `operator_down_after`. A controller manager takes over and creates the next
    /// Pod in less than a minute.
    #[must_use]
    pub const fn operator_gone_after(&self) -> Span {
        Span(self.operator_down_after.0 / 2)
    }
}

impl Selector {
    /// Returns whether the selector selects every name.
    #[must_use]
    pub fn selects_all(&self) -> bool {
        self.include.is_empty() && self.exclude.is_empty()
    }

    /// Returns whether the selector selects a name, according to `matches`, which compares a
    /// pattern with the name.
    #[must_use]
    pub fn selects(&self, matches: impl Fn(&str) -> bool) -> bool {
        let any = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern));
        (self.include.is_empty() || any(&self.include)) && !any(&self.exclude)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            objects: 1_000_000,
            histories: 20_000,
            findings: 10_000,
            watches: 512,
            phases: 20,
            event_reasons: 30,
            condition_types: 50,
            finalizers: 50,
            namespaces: 2_000,
            object_series: 500,
            trace_bytes: 4 << 20,
        }
    }
}
