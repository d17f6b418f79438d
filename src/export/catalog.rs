//! The catalog: every metric of loopwatch, in the order of the output, each with the function that writes its samples.
//! `docs/metrics.md` is generated from it.

pub mod docs; // docs/metrics.md

use super::metric::Metric;
use super::metric::MetricType::{Counter, Gauge, Histogram, Info};
use super::metric::Stability::{Alpha, Stable};
use super::prometheus::series::WriteSamples::{self, Kind, Object, Whole};
use super::prometheus::series::{deletion, every_object, findings, leases, objects, sources};
use crate::telemetry::{REVISION, VERSION};

/// One row of [`CATALOG`].
#[derive(Debug)]
pub struct CatalogRow {
    /// The metric.
    pub metric: Metric,
    /// The function that writes its samples.
    pub(super) write: WriteSamples,
}

macro_rules! catalog {
    ($( $section:literal { $(
        $name:literal $kind:ident $stability:ident [$($label:literal),*] $help:literal
            => $source:ident($write:expr);
    )* } )*) => {
        /// Every metric of loopwatch.
        pub static CATALOG: &[CatalogRow] = &[ $($( CatalogRow {
            metric: Metric {
                name: $name,
                kind: $kind,
                labels: &[$($label),*],
                help: $help,
                stability: $stability,
                section: $section,
            },
            write: $source($write),
        }, )*)* ];
    };
}

catalog! {
    "Objects and obligations" {
        "loopwatch_objects" Gauge Stable ["group", "kind", "target_namespace", "state"]
            "Objects in each state; a state that never occurred in a namespace has no series."
            => Kind(objects::objects);
        "loopwatch_object_seconds_total" Counter Stable ["group", "kind", "target_namespace", "state"]
            "Time that objects spent in each state, summed over objects (the time integral of loopwatch_objects)."
            => Kind(objects::object_seconds);
        "loopwatch_obligations_total" Counter Stable ["group", "kind", "target_namespace", "outcome"]
            "Closed obligations (each spec change opens one), by outcome; late is counted when the SLO deadline passes."
            => Kind(objects::obligations);
        "loopwatch_deadline_seconds" Gauge Stable ["group", "kind", "source"]
            "Time that an object of this kind may take from a spec change to converged, and the source of that deadline."
            => Kind(objects::deadline);
        "loopwatch_acknowledge_seconds" Histogram Stable ["group", "kind"]
            "Time from a spec change until the operator acknowledges it (observedGeneration)."
            => Kind(objects::acknowledge);
        "loopwatch_convergence_seconds" Histogram Stable ["group", "kind"]
            "Time from a spec change until the object has converged."
            => Kind(objects::convergence);
        "loopwatch_unconverged_oldest_seconds" Gauge Stable ["group", "kind"]
            "Age of the oldest unconverged object; absent if none."
            => Kind(objects::unconverged_oldest);
        "loopwatch_object_unconverged_timestamp_seconds" Gauge Stable ["group", "kind", "target_namespace", "name", "reason"]
            "Unix time since which an unhealthy object has been unconverged; reason is the rule that decided its state."
            => Whole(objects::object_unconverged);
        "loopwatch_condition_objects" Gauge Stable ["group", "kind", "type", "status"]
            "Objects per condition type and status (true, false, unknown, absent)."
            => Kind(objects::condition_objects);
        "loopwatch_condition_flaps_total" Counter Stable ["group", "kind", "type"]
            "Changes of a condition's status without a spec change."
            => Kind(objects::condition_flaps);
        "loopwatch_phase_objects" Gauge Stable ["group", "kind", "phase"]
            "Objects per phase."
            => Kind(objects::phase_objects);
        "loopwatch_control_loop_health" Gauge Stable ["target_namespace"]
            "Health of a namespace: 0 healthy (no finding, no overdue object), 1 degraded (a warning or an overdue object), 2 failing (a critical finding)."
            => Whole(objects::control_loop_health);
    }
    "Deletion" {
        "loopwatch_terminating_objects" Gauge Stable ["group", "kind"]
            "Objects that are being deleted."
            => Kind(deletion::terminating_objects);
        "loopwatch_finalizer_objects" Gauge Stable ["group", "kind", "finalizer", "verdict"]
            "Objects being deleted that wait for a finalizer, by verdict (progressing, stuck)."
            => Kind(deletion::finalizer_objects);
        "loopwatch_finalizer_oldest_seconds" Gauge Stable ["group", "kind", "finalizer"]
            "Age of the oldest deletion that waits for a finalizer; absent if none."
            => Kind(deletion::finalizer_oldest);
        "loopwatch_finalizer_removal_seconds" Histogram Stable ["group", "kind", "finalizer"]
            "Time from the deletion of an object until a finalizer was removed."
            => Kind(deletion::finalizer_removal);
        "loopwatch_finalizer_outcomes_total" Counter Stable ["group", "kind", "finalizer", "outcome"]
            "Ended waits for a finalizer, by outcome: removed in time, or removed late."
            => Kind(deletion::finalizer_outcomes);
    }
    "Findings" {
        "loopwatch_findings" Gauge Stable ["group", "kind", "target_namespace", "finding", "severity", "confidence", "explained"]
            "Open findings; alerts use those with confidence confirmed and explained false."
            => Whole(findings::findings);
        "loopwatch_finding_since_timestamp_seconds" Gauge Stable ["group", "kind", "target_namespace", "name", "finding", "severity"]
            "Unix time since which a finding has held."
            => Whole(findings::finding_since);
        "loopwatch_finding_info" Info Alpha ["group", "kind", "target_namespace", "name", "finding", "finalizer", "actor", "root"]
            "Details of a finding for alert annotations; root is the finding that explains it, empty if none."
            => Whole(findings::finding_info);
    }
    "The operator" {
        "loopwatch_lease_holder" Gauge Stable ["target_namespace", "lease", "holder"]
            "Always 1, for the holder of a leader election lease; absent if nobody holds it."
            => Whole(leases::lease_holder);
        "loopwatch_lease_renew_age_seconds" Gauge Stable ["target_namespace", "lease"]
            "Time since the lease was last renewed."
            => Whole(leases::lease_renew_age);
        "loopwatch_lease_renew_timestamp_seconds" Gauge Stable ["target_namespace", "lease"]
            "Unix time of the last renewal of the lease."
            => Whole(leases::lease_renew);
        "loopwatch_leader_transitions_total" Counter Stable ["target_namespace", "lease"]
            "Changes of the lease's holder, as the lease itself counts them."
            => Whole(leases::leader_transitions);
    }
    "Every object" {
        "loopwatch_object_state" Gauge Alpha ["group", "kind", "target_namespace", "name", "state"]
            "Always 1, for the current state of an object."
            => Object(every_object::state);
        "loopwatch_object_state_since_timestamp_seconds" Gauge Alpha ["group", "kind", "target_namespace", "name"]
            "Unix time since which an object has been in its state."
            => Object(every_object::state_since);
        "loopwatch_object_created_timestamp_seconds" Gauge Alpha ["group", "kind", "target_namespace", "name"]
            "Unix time at which an object was created."
            => Object(every_object::created);
        "loopwatch_object_deletion_timestamp_seconds" Gauge Alpha ["group", "kind", "target_namespace", "name"]
            "Unix time at which the deletion of an object was requested; absent if it was not."
            => Object(every_object::deletion);
        "loopwatch_object_generation" Gauge Alpha ["group", "kind", "target_namespace", "name"]
            "Generation of an object, which grows with every spec change."
            => Object(every_object::generation);
        "loopwatch_object_observed_generation" Gauge Alpha ["group", "kind", "target_namespace", "name"]
            "Newest generation that the operator reports as observed; absent if it reports none."
            => Object(every_object::observed_generation);
        "loopwatch_object_condition" Gauge Alpha ["group", "kind", "target_namespace", "name", "type", "status"]
            "Always 1, for the current status of a condition of an object."
            => Object(every_object::conditions);
        "loopwatch_object_phase" Gauge Alpha ["group", "kind", "target_namespace", "name", "phase"]
            "Always 1, for the current phase of an object."
            => Object(every_object::phase);
        "loopwatch_object_finalizers" Gauge Alpha ["group", "kind", "target_namespace", "name"]
            "Number of finalizers of an object; absent if it has none."
            => Object(every_object::finalizers);
    }
    "Sources and limits" {
        "loopwatch_source_up" Gauge Stable ["source"]
            "Whether a source is up: 1 if it is, 0 if it fails and its objects are unknown."
            => Whole(sources::source_up);
        "loopwatch_source_last_success_timestamp_seconds" Gauge Stable ["source"]
            "Unix time of the last observation from a source; absent if there was none."
            => Whole(sources::source_last_success);
        "loopwatch_source_failures_total" Counter Stable ["source", "cause"]
            "Failures of a source, by cause."
            => Whole(sources::source_failures);
        "loopwatch_permission_missing" Gauge Stable ["group", "target_namespace", "verb", "resource"]
            "Always 1, for a permission that a source needs and the account lacks; target_namespace is empty for the whole cluster."
            => Whole(sources::permission_missing);
        "loopwatch_watch_lag_seconds" Histogram Stable ["group", "kind", "target_namespace"]
            "Delivery lag of the watches of loopwatch, measured by audits; target_namespace is the scope of the watch, empty for the whole cluster."
            => Kind(sources::watch_lag);
        "loopwatch_state_audit_difference" Gauge Stable ["group", "kind", "target_namespace"]
            "Objects that loopwatch holds minus objects that the API server counts, at the last audit with both at the same version; 0 is correct."
            => Kind(sources::audit_difference);
        "loopwatch_observations_total" Counter Stable ["source"]
            "Observations taken in, by kind of source."
            => Whole(sources::observations);
        "loopwatch_dropped_total" Counter Stable ["limit"]
            "Items dropped because a limit was exceeded, by limit; they are not judged or not shown."
            => Whole(sources::dropped);
    }
    "loopwatch itself" {
        "loopwatch_build_info" Info Stable ["version", "revision"]
            "Version and revision of loopwatch."
            => Whole(|_, samples| samples.put(&[VERSION, REVISION], 1_u64));
        "loopwatch_http_requests_total" Counter Alpha ["path", "code"]
            "Answered HTTP requests; path is other for paths that loopwatch does not serve."
            => Whole(|shown, samples| samples.own(&shown.metrics.requests));
        "loopwatch_render_seconds" Histogram Alpha []
            "Time from the start of a scrape until its last byte was handed over."
            => Whole(|shown, samples| samples.own(&shown.metrics.render_seconds));
        "loopwatch_channel_depth" Gauge Alpha []
            "Observations that wait for the model."
            => Whole(|shown, samples| samples.own(&shown.metrics.channel_depth));
        "loopwatch_allocator_allocated_bytes" Gauge Alpha []
            "Memory that loopwatch has allocated and not freed."
            => Whole(|shown, samples| samples.put_some(&[], shown.readings.allocator.allocated));
        "loopwatch_allocator_active_bytes" Gauge Alpha []
            "Memory in pages that hold at least one allocation."
            => Whole(|shown, samples| samples.put_some(&[], shown.readings.allocator.active));
        "loopwatch_allocator_resident_bytes" Gauge Alpha []
            "Memory that the allocator keeps resident, including its metadata."
            => Whole(|shown, samples| samples.put_some(&[], shown.readings.allocator.resident));
        "loopwatch_allocator_retained_bytes" Gauge Alpha []
            "Address space that the allocator keeps after it returned the memory behind it."
            => Whole(|shown, samples| samples.put_some(&[], shown.readings.allocator.retained));
        "loopwatch_runtime_workers" Gauge Alpha []
            "Worker threads of the asynchronous runtime."
            => Whole(|shown, samples| samples.put_some(&[], shown.readings.runtime.workers));
        "loopwatch_runtime_tasks" Gauge Alpha []
            "Live tasks of the asynchronous runtime."
            => Whole(|shown, samples| samples.put_some(&[], shown.readings.runtime.tasks));
        "loopwatch_runtime_queue_depth" Gauge Alpha []
            "Tasks that are ready and wait for a worker."
            => Whole(|shown, samples| samples.put_some(&[], shown.readings.runtime.queue));
        "loopwatch_runtime_busy_seconds_total" Counter Alpha []
            "Time that workers of the asynchronous runtime were busy, summed over workers."
            => Whole(|shown, samples| samples.put_some(&[], shown.readings.runtime.busy_seconds));
        "process_cpu_seconds_total" Counter Stable []
            "Processor time of loopwatch, in user and system mode."
            => Whole(|shown, samples| samples.put_some(&[], shown.readings.process.cpu_seconds));
        "process_resident_memory_bytes" Gauge Stable []
            "Resident memory of loopwatch."
            => Whole(|shown, samples| samples.put_some(&[], shown.readings.process.resident_bytes));
        "process_virtual_memory_bytes" Gauge Stable []
            "Address space of loopwatch."
            => Whole(|shown, samples| samples.put_some(&[], shown.readings.process.virtual_bytes));
        "process_open_fds" Gauge Stable []
            "Open file descriptors of loopwatch."
            => Whole(|shown, samples| samples.put_some(&[], shown.readings.process.open_fds));
        "process_max_fds" Gauge Stable []
            "Maximum number of file descriptors that loopwatch may open."
            => Whole(|shown, samples| samples.put_some(&[], shown.readings.process.max_fds));
        "process_start_time_seconds" Gauge Stable []
            "Unix time at which loopwatch started."
            => Whole(|shown, samples| samples.put_some(&[], shown.readings.process.start_seconds));
    }
}
