//! The one table of metrics. Order here is order everywhere.

use super::Metric;
use super::MetricType::{Counter, Gauge, Histogram, Info};
use super::Stability::{Alpha, Stable};

macro_rules! catalog {
    ($( $section:literal { $(
        $family:ident $name:literal $kind:ident $stability:ident [$($label:literal),*] $help:literal
    )* } )*) => {
        /// The metric families, in the order in which they are written.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Family {
            $($( #[doc = $help] $family, )*)*
        }

        /// Every metric there is.
        pub const CATALOG: &[Metric] = &[ $($( Metric {
            family: Family::$family,
            name: $name,
            kind: $kind,
            labels: &[$($label),*],
            help: $help,
            stability: $stability,
            section: $section,
        }, )*)* ];
    };
}

impl Family {
    /// The row of this family.
    #[must_use]
    pub fn metric(self) -> &'static Metric {
        &CATALOG[self as usize] // made by the same macro, in the same order
    }
}

catalog! {
    "Objects and their promises" {
        Objects "loopwatch_objects" Gauge Stable ["group", "kind", "target_namespace", "state"]
            "Objects in each state now; a state that never occurred in a namespace is left out."
        ObjectSeconds "loopwatch_object_seconds_total" Counter Stable ["group", "kind", "target_namespace", "state"]
            "Time that objects spent in each state, summed over objects: the time-integral of loopwatch_objects."
        Obligations "loopwatch_obligations_total" Counter Stable ["group", "kind", "target_namespace", "outcome"]
            "Closed obligations: a change of a spec that the operator had to answer, by how it ended (late counts when the deadline passes)."
        Deadline "loopwatch_deadline_seconds" Gauge Stable ["group", "kind", "source"]
            "How long an object of this kind may take from a change of its spec to converged, and where that number comes from."
        Acknowledge "loopwatch_acknowledge_seconds" Histogram Stable ["group", "kind"]
            "Time from a change of the spec until the operator reports that it has seen it (observedGeneration)."
        Convergence "loopwatch_convergence_seconds" Histogram Stable ["group", "kind"]
            "Time from a change of the spec until the object has converged."
        UnconvergedOldest "loopwatch_unconverged_oldest_seconds" Gauge Stable ["group", "kind"]
            "How long the object has been waiting that has been waiting longest to converge; absent when none waits."
        ObjectUnconverged "loopwatch_object_unconverged_timestamp_seconds" Gauge Stable ["group", "kind", "target_namespace", "name", "reason"]
            "Since when an object that has something wrong has not been converged, as Unix time, with the rule that says so."
        ConditionObjects "loopwatch_condition_objects" Gauge Stable ["group", "kind", "type", "status"]
            "Objects per condition type and status (true, false, unknown, absent)."
        ConditionFlaps "loopwatch_condition_flaps_total" Counter Stable ["group", "kind", "type"]
            "Changes of a condition's status that no change of the spec explains."
        PhaseObjects "loopwatch_phase_objects" Gauge Stable ["group", "kind", "phase"]
            "Objects per phase."
        ControlLoopHealth "loopwatch_control_loop_health" Gauge Stable ["target_namespace"]
            "One number per namespace: 0 healthy (no finding, nothing overdue), 1 degraded (a warning, or something overdue), 2 failing (a critical finding)."
    }
    "Deletion" {
        TerminatingObjects "loopwatch_terminating_objects" Gauge Stable ["group", "kind"]
            "Objects that are being deleted now."
        FinalizerObjects "loopwatch_finalizer_objects" Gauge Stable ["group", "kind", "finalizer", "verdict"]
            "Objects being deleted that wait for a finalizer, by how that stands: progressing or stuck."
        FinalizerOldest "loopwatch_finalizer_oldest_seconds" Gauge Stable ["group", "kind", "finalizer"]
            "Age of the earliest deletion that still waits for a finalizer; absent when none waits."
        FinalizerRemoval "loopwatch_finalizer_removal_seconds" Histogram Stable ["group", "kind", "finalizer"]
            "Time from the deletion of an object until a finalizer was removed."
        FinalizerOutcomes "loopwatch_finalizer_outcomes_total" Counter Stable ["group", "kind", "finalizer", "outcome"]
            "Ended waits for a finalizer: removed in time, or removed late."
    }
    "Findings" {
        Findings "loopwatch_findings" Gauge Stable ["group", "kind", "target_namespace", "finding", "severity", "confidence", "explained"]
            "Open findings; those with confidence confirmed and explained false are what alerts are for."
        FindingSince "loopwatch_finding_since_timestamp_seconds" Gauge Stable ["group", "kind", "target_namespace", "name", "finding", "severity"]
            "Since when a finding has held, as Unix time."
        FindingInfo "loopwatch_finding_info" Info Alpha ["group", "kind", "target_namespace", "name", "finding", "finalizer", "actor", "blocker_kind", "blocker_name", "root"]
            "Who and what a finding is about, for annotations of alerts; root is the finding that explains it, empty when none does."
    }
    "The operator" {
        LeaseHolder "loopwatch_lease_holder" Gauge Stable ["target_namespace", "lease", "holder"]
            "Always 1, for the holder of a leader election lease; absent when nobody holds it."
        LeaseRenewAge "loopwatch_lease_renew_age_seconds" Gauge Stable ["target_namespace", "lease"]
            "Time since the lease was last renewed."
        LeaseRenew "loopwatch_lease_renew_timestamp_seconds" Gauge Stable ["target_namespace", "lease"]
            "When the lease was last renewed, as Unix time."
        LeaderTransitions "loopwatch_leader_transitions_total" Counter Stable ["target_namespace", "lease"]
            "How often the holder of the lease changed, as the lease itself says."
    }
    "Every object" {
        ObjectState "loopwatch_object_state" Gauge Alpha ["group", "kind", "target_namespace", "name", "state"]
            "Always 1, for the state that an object is in now."
        ObjectStateSince "loopwatch_object_state_since_timestamp_seconds" Gauge Alpha ["group", "kind", "target_namespace", "name"]
            "Since when an object has been in its state, as Unix time."
        ObjectCreated "loopwatch_object_created_timestamp_seconds" Gauge Alpha ["group", "kind", "target_namespace", "name"]
            "When an object was created, as Unix time."
        ObjectDeletion "loopwatch_object_deletion_timestamp_seconds" Gauge Alpha ["group", "kind", "target_namespace", "name"]
            "When the deletion of an object was asked for, as Unix time; absent while nobody did."
        ObjectGeneration "loopwatch_object_generation" Gauge Alpha ["group", "kind", "target_namespace", "name"]
            "The generation of an object: it grows with every change of its spec."
        ObjectObservedGeneration "loopwatch_object_observed_generation" Gauge Alpha ["group", "kind", "target_namespace", "name"]
            "The newest generation that the operator reports to have seen; absent when it reports none."
        ObjectCondition "loopwatch_object_condition" Gauge Alpha ["group", "kind", "target_namespace", "name", "type", "status"]
            "Always 1, for the status that a condition of an object has now."
        ObjectPhase "loopwatch_object_phase" Gauge Alpha ["group", "kind", "target_namespace", "name", "phase"]
            "Always 1, for the phase that an object is in now."
        ObjectFinalizers "loopwatch_object_finalizers" Gauge Alpha ["group", "kind", "target_namespace", "name"]
            "How many finalizers an object has."
    }
    "What loopwatch sees" {
        SourceUp "loopwatch_source_up" Gauge Stable ["source"]
            "Whether a source of observations works: 1 when it does, 0 when what it would show is unknown."
        SourceLastSuccess "loopwatch_source_last_success_timestamp_seconds" Gauge Stable ["source"]
            "When something last came from a source, as Unix time; absent when nothing ever did."
        SourceFailures "loopwatch_source_failures_total" Counter Stable ["source", "cause"]
            "Failures of a source, by cause."
        PermissionMissing "loopwatch_permission_missing" Gauge Stable ["group", "target_namespace", "verb", "resource"]
            "Always 1, for a right that a source needs and the account does not have; target_namespace is empty for the whole cluster."
        WatchLag "loopwatch_watch_lag_seconds" Histogram Stable ["group", "kind", "target_namespace"]
            "Delivery lag of loopwatch's own watches, found by audits; target_namespace is the scope of the watch, empty for the whole cluster."
        AuditDifference "loopwatch_state_audit_difference" Gauge Stable ["group", "kind", "target_namespace"]
            "Objects that loopwatch holds less those that the API server counts, at the last audit at which both were at the same version; 0 is right."
        Observations "loopwatch_observations_total" Counter Stable ["source"]
            "Observations taken in, by kind of source."
        Dropped "loopwatch_dropped_total" Counter Stable ["limit"]
            "What did not fit into a bound and was not judged or not shown, by bound."
    }
    "loopwatch itself" {
        BuildInfo "loopwatch_build_info" Info Stable ["version", "revision"]
            "Which loopwatch this is."
        HttpRequests "loopwatch_http_requests_total" Counter Alpha ["path", "code"]
            "Answered HTTP requests; path is other when it is none that loopwatch serves."
        RenderSeconds "loopwatch_render_seconds" Histogram Alpha []
            "Time from the beginning of a scrape until the last byte of it was handed over."
        ChannelDepth "loopwatch_channel_depth" Gauge Alpha []
            "Observations that wait for the model."
        AllocatorAllocated "loopwatch_allocator_allocated_bytes" Gauge Alpha []
            "Memory that loopwatch asked for and did not give back."
        AllocatorActive "loopwatch_allocator_active_bytes" Gauge Alpha []
            "Memory in pages that hold at least one allocation."
        AllocatorResident "loopwatch_allocator_resident_bytes" Gauge Alpha []
            "Memory that the allocator keeps resident, its own data included."
        AllocatorRetained "loopwatch_allocator_retained_bytes" Gauge Alpha []
            "Address space that the allocator keeps although the memory behind it is given back."
        RuntimeWorkers "loopwatch_runtime_workers" Gauge Alpha []
            "Worker threads of the asynchronous runtime."
        RuntimeTasks "loopwatch_runtime_tasks" Gauge Alpha []
            "Tasks that live in the asynchronous runtime."
        RuntimeQueue "loopwatch_runtime_queue_depth" Gauge Alpha []
            "Tasks that are ready and wait for a worker."
        RuntimeBusy "loopwatch_runtime_busy_seconds_total" Counter Alpha []
            "Time that workers of the asynchronous runtime were busy, summed over workers."
        ProcessCpu "process_cpu_seconds_total" Counter Stable []
            "Processor time that loopwatch used, in user and system mode."
        ProcessResident "process_resident_memory_bytes" Gauge Stable []
            "Resident memory of loopwatch."
        ProcessVirtual "process_virtual_memory_bytes" Gauge Stable []
            "Address space of loopwatch."
        ProcessOpenFds "process_open_fds" Gauge Stable []
            "Open file descriptors of loopwatch."
        ProcessMaxFds "process_max_fds" Gauge Stable []
            "How many file descriptors loopwatch may open."
        ProcessStart "process_start_time_seconds" Gauge Stable []
            "When loopwatch was started, as Unix time."
    }
}
