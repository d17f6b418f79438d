//! The catalog: every metric of loopwatch, in the order of the output, each with the function that
//! writes its samples. `docs/metrics.md` is generated from the catalog.

use super::metric::Metric;
use super::metric::MetricType::{Counter, Gauge, Histogram, Info};
use super::metric::Stability::{Alpha, Stable};
use super::series::WriteSamples::{self, Finding, Kind, Object, Unhealthy, Whole};
use super::series::{
    deletion, every_object, findings, leases, objects, operator, ownership, references, sources,
    trends,
};
use crate::telemetry::{REVISION, VERSION};

/// One row of [`CATALOG`].
#[derive(Debug)]
pub struct CatalogRow {
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
            "Number of objects in each state; a state that has never occurred in a namespace has no series."
            => Kind(objects::objects);
        "loopwatch_object_seconds_total" Counter Stable ["group", "kind", "target_namespace", "state"]
            "Total time that objects have spent in each state (the time integral of loopwatch_objects)."
            => Kind(objects::object_seconds);
        "loopwatch_obligations_total" Counter Stable ["group", "kind", "target_namespace", "operator_revision", "outcome"]
            "Obligations that have ended, by outcome; each spec change opens one, and it counts as late when its SLO deadline passes. operator_revision is the revision in charge at the end; sum over it before you merge replicas."
            => Kind(objects::obligations);
        "loopwatch_deadline_seconds" Gauge Stable ["group", "kind", "source"]
            "Time that objects of this kind may take to converge after a spec change; source is configured, default or learned."
            => Kind(objects::deadline);
        "loopwatch_acknowledge_seconds" Histogram Stable ["group", "kind", "operator_revision"]
            "Time from a spec change until the operator acknowledges it (observedGeneration)."
            => Kind(objects::acknowledge);
        "loopwatch_convergence_seconds" Histogram Stable ["group", "kind", "operator_revision"]
            "Time from a spec change until the object converges."
            => Kind(objects::convergence);
        "loopwatch_namespace_convergence_samples_total" Counter Alpha ["group", "kind", "target_namespace", "operator_revision"]
            "Number of spec changes in loopwatch_namespace_convergence_seconds_total."
            => Kind(objects::namespace_convergence_samples);
        "loopwatch_namespace_convergence_seconds_total" Counter Alpha ["group", "kind", "target_namespace", "operator_revision"]
            "Total time from spec changes until objects of a namespace converged: the sum of loopwatch_convergence_seconds by namespace, without its buckets; target_namespace is _other beyond the limit namespaces."
            => Kind(objects::namespace_convergence_seconds);
        "loopwatch_unconverged_oldest_seconds" Gauge Stable ["group", "kind"]
            "Age of the oldest unconverged object; absent if none."
            => Kind(objects::unconverged_oldest);
        "loopwatch_object_unconverged_timestamp_seconds" Gauge Stable ["group", "kind", "target_namespace", "name", "reason"]
            "Unix time at which an unhealthy object became unconverged; reason is the rule that decided its state."
            => Unhealthy(objects::object_unconverged);
        "loopwatch_condition_objects" Gauge Stable ["group", "kind", "type", "status"]
            "Number of objects per condition type and status (true, false, unknown, absent)."
            => Kind(objects::condition_objects);
        "loopwatch_condition_flaps_total" Counter Stable ["group", "kind", "type"]
            "Changes of a condition's status without a spec change."
            => Kind(objects::condition_flaps);
        "loopwatch_writes_total" Counter Alpha ["group", "kind", "manager"]
            "Versions of objects that loopwatch has watched, by the field manager that wrote them: at most 16 names per kind, then _other; _unknown if several wrote in the same second. A write that changes nothing at all makes no version."
            => Kind(objects::writes);
        "loopwatch_wasted_writes_total" Counter Alpha ["group", "kind", "manager"]
            "Those of loopwatch_writes_total that changed nothing but times in the status, or metadata such as annotations. Only for primary kinds."
            => Kind(objects::wasted_writes);
        "loopwatch_phase_objects" Gauge Stable ["group", "kind", "phase"]
            "Number of objects per phase."
            => Kind(objects::phase_objects);
        "loopwatch_control_loop_health" Gauge Stable ["target_namespace"]
            "Health of a namespace: 0 healthy, 1 degraded (a warning or an overdue object), 2 failing (a critical finding, also one about the operator, which serves all namespaces)."
            => Whole(objects::control_loop_health);
        "loopwatch_namespace_info" Info Alpha ["target_namespace", "team"]
            "Team of a namespace with objects, from the label that --team-label names; absent without such a label."
            => Whole(objects::namespace_info);
    }
    "Deletion" {
        "loopwatch_terminating_objects" Gauge Stable ["group", "kind"]
            "Number of objects that are being deleted."
            => Kind(deletion::terminating_objects);
        "loopwatch_finalizer_objects" Gauge Stable ["group", "kind", "finalizer", "verdict"]
            "Number of objects whose deletion waits for a finalizer, by verdict (progressing, slow, stuck, blocked_by_dependent, owner_absent)."
            => Kind(deletion::finalizer_objects);
        "loopwatch_finalizer_oldest_seconds" Gauge Stable ["group", "kind", "finalizer"]
            "Age of the oldest deletion that waits for a finalizer; absent if none."
            => Kind(deletion::finalizer_oldest);
        "loopwatch_finalizer_removal_seconds" Histogram Stable ["group", "kind", "finalizer"]
            "Time from the deletion request for an object until a finalizer is removed."
            => Kind(deletion::finalizer_removal);
        "loopwatch_finalizer_outcomes_total" Counter Stable ["group", "kind", "finalizer", "outcome"]
            "Waits for a finalizer that ended in time or late (removed, removed_late), deletions that got stuck (timed_out), and finalizers that other writers removed (lost) or that come and go (flapping)."
            => Kind(deletion::finalizer_outcomes);
    }
    "Ownership" {
        "loopwatch_owner_references" Gauge Alpha ["group", "kind", "reason"]
            "Number of owner references; reason is ok, unknown (loopwatch does not know the owner) or why the reference is bad (missing, replaced, cross_namespace, kind_unknown, mismatch, namespaced_owner, cycle)."
            => Kind(ownership::owner_references);
        "loopwatch_owner_hazards_total" Counter Alpha ["group", "kind", "reason"]
            "Bad owner references seen, by reason; the garbage collector deletes most of these children within seconds."
            => Kind(ownership::owner_hazards);
        "loopwatch_orphans" Gauge Alpha ["group", "kind", "target_namespace"]
            "Number of objects of the operator without an owner that loopwatch has confirmed as orphans; absent if none."
            => Whole(ownership::orphans);
    }
    "References" {
        "loopwatch_references_dangling" Gauge Stable ["group", "kind", "reference"]
            "Number of references in objects of this kind whose target does not exist; reference is the kind of the target; absent if there are none."
            => Kind(references::dangling);
        "loopwatch_cross_namespace_references" Gauge Stable ["group", "kind"]
            "Number of references in objects of this kind to objects in other namespaces."
            => Kind(references::crossing);
        "loopwatch_cross_namespace_reference_changes_total" Counter Stable ["group", "kind", "change"]
            "References to objects in other namespaces that have appeared or disappeared, by change (appeared, disappeared)."
            => Kind(references::crossing_changes);
        "loopwatch_soft_deleted_objects" Gauge Stable ["group", "kind", "phase"]
            "Number of soft-deleted objects, by the phase in which soft deletion is rolled out to them (canary, stable, off, other); absent if there are none."
            => Kind(references::soft_deleted);
        "loopwatch_soft_deleted_oldest_seconds" Gauge Stable ["group", "kind", "phase"]
            "Time since the first of the soft-deleted objects was deleted; absent if there are none."
            => Kind(references::soft_deleted_oldest);
        "loopwatch_stale_configuration_objects" Gauge Stable ["group", "kind"]
            "Number of workloads with Pods that are older than the data of a ConfigMap or Secret that they read only at their start; absent if there are none."
            => Kind(references::stale_configuration);
    }
    "Kubernetes Events" {
        "loopwatch_events_total" Counter Alpha ["group", "kind", "type", "reason"]
            "Kubernetes Events about objects of a kind since loopwatch watches them, by the counts that the Events themselves state; type is Normal, Warning or _other, reason is _other beyond the limit event_reasons."
            => Kind(objects::events);
    }
    "Findings" {
        "loopwatch_findings" Gauge Stable ["group", "kind", "target_namespace", "finding", "severity", "confidence", "explained"]
            "Number of open findings; alerts use only those with confidence=confirmed and explained=false, or explained=unknown if no replica says true: another replica leads, and only the loopwatch beside it may see the cause."
            => Whole(findings::findings);
        "loopwatch_finding_since_timestamp_seconds" Gauge Stable ["group", "kind", "target_namespace", "name", "finding", "severity"]
            "Unix time at which the problem of an open finding began."
            => Finding(findings::finding_since);
        "loopwatch_finding_info" Info Alpha ["group", "kind", "target_namespace", "name", "finding", "finalizer", "actor", "blocker_kind", "blocker_name", "root", "operator_pod"]
            "Details of an open finding for alert annotations; blocker is the object that must be deleted first, root the finding that explains it, operator_pod the Pod of a controller or a process; labels without a value are empty."
            => Whole(findings::finding_info);
        "loopwatch_finding_detection_seconds" Histogram Alpha ["finding"]
            "Time from the beginning of a problem to its finding, which includes the threshold of the finding; absent for findings that have not opened since the start."
            => Whole(findings::finding_detection);
        "loopwatch_finding_duration_seconds" Histogram Alpha ["finding"]
            "Time from the beginning of a problem to its end, for findings that have closed; absent for findings that have not opened since the start."
            => Whole(findings::finding_duration);
    }
    "The operator" {
        "loopwatch_operator_info" Info Alpha ["framework", "revision", "version", "image"]
            "The operator: the framework whose metrics it offers, and the revision in charge, as in operator_revision; labels without a value are empty; absent if loopwatch does not know the operator."
            => Whole(operator::info);
        "loopwatch_lease_holder" Gauge Stable ["target_namespace", "lease", "holder"]
            "Always 1, for the current holder of a leader election lease; absent if there is no holder."
            => Whole(leases::lease_holder);
        "loopwatch_lease_renew_age_seconds" Gauge Stable ["target_namespace", "lease"]
            "Time since loopwatch saw the last renewal of the lease."
            => Whole(leases::lease_renew_age);
        "loopwatch_lease_renew_timestamp_seconds" Gauge Stable ["target_namespace", "lease"]
            "Unix time at which loopwatch saw the last renewal of the lease."
            => Whole(leases::lease_renew);
        "loopwatch_leader_transitions_total" Counter Stable ["target_namespace", "lease"]
            "Number of times that the holder of the lease has changed, from leaseTransitions."
            => Whole(leases::leader_transitions);
        "loopwatch_operator_up" Gauge Alpha []
            "1 if something shows that the operator is there, 0 if OperatorDown is open; absent if nothing shows either."
            => Whole(operator::up);
        "loopwatch_operator_down_info" Info Alpha ["sign"]
            "The signs that the operator is gone, for alert annotations: no_pod, no_pod_runs, lease_not_renewed, metrics_endpoint_refuses_connections, process_ended; absent unless OperatorDown is open."
            => Whole(operator::down_info);
        "loopwatch_operator_restarts_total" Counter Alpha ["operator_pod", "container"]
            "Restarts of the operator's containers, as the kubelet counts them; absent if loopwatch cannot read its Pods."
            => Whole(operator::restarts);
        "loopwatch_operator_recovery_seconds" Gauge Alpha []
            "Time from the end of the last fault of the API server until the operator's queues were drained and its objects had converged; absent if there was none."
            => Whole(operator::recovery);
        "loopwatch_operator_signal_available" Gauge Alpha ["operator_pod", "signal"]
            "1 if loopwatch gets a signal from the operator, 0 if it does not, so that the detectors that need it say nothing."
            => Whole(operator::signals);
        "loopwatch_operator_metrics_withheld" Gauge Alpha ["operator_pod"]
            "1 if this exposition leaves out the numbers in the operator's metrics, because the operator shows them only to authenticated clients or on loopback (--export-protected-metrics includes them), 0 if not; absent if loopwatch has not read them."
            => Whole(operator::withheld);
        "loopwatch_operator_scrape_duration_seconds" Gauge Alpha ["operator_pod"]
            "Duration of the last scrape of the operator's metrics; absent if it failed."
            => Whole(operator::scrape_seconds);
        "loopwatch_operator_scrape_series" Gauge Alpha ["operator_pod"]
            "Number of series in the last scrape of the operator's metrics; absent if it failed."
            => Whole(operator::scrape_series);
        "loopwatch_operator_requests_total" Counter Alpha ["operator_pod", "code"]
            "Requests of the operator to the API server, by HTTP status code; code is <error> if there was no response."
            => Whole(operator::requests);
        "loopwatch_operator_writes_total" Counter Alpha ["operator_pod", "method"]
            "Requests of the operator that the API server has accepted and that write, by HTTP method; absent if its metrics do not tell."
            => Whole(operator::writes);
    }
    "The operator's loop" {
        "loopwatch_reconciles_total" Counter Alpha ["operator_pod", "controller", "result"]
            "Reconciles of a controller, by result (success, error, panic); absent results are not available."
            => Whole(operator::reconciles);
        "loopwatch_reconcile_requeues_total" Counter Alpha ["operator_pod", "controller"]
            "Successful reconciles that asked for another one, at once or later."
            => Whole(operator::requeues);
        "loopwatch_reconcile_duration_seconds" Histogram Alpha ["operator_pod", "controller"]
            "Durations of reconciles that have ended, with those buckets of the framework that loopwatch keeps (docs/operator.md); only +Inf if it has none."
            => Whole(operator::reconcile_seconds);
        "loopwatch_reconcile_longest_running_seconds" Gauge Alpha ["operator_pod", "controller"]
            "Age of the reconcile that has been running longest; 0 if none is running."
            => Whole(operator::longest_running);
        "loopwatch_queue_depth" Gauge Alpha ["operator_pod", "controller"]
            "Number of objects that wait in the queue of a controller."
            => Whole(operator::queue_depth);
        "loopwatch_queue_adds_total" Counter Alpha ["operator_pod", "controller"]
            "Objects added to the queue of a controller."
            => Whole(operator::queue_adds);
        "loopwatch_queue_retries_total" Counter Alpha ["operator_pod", "controller"]
            "Additions to the queue of a controller that first waited for a time: retries with their backoff, and reconciles that the controller has scheduled."
            => Whole(operator::queue_retries);
        "loopwatch_queue_wait_seconds_total" Counter Alpha ["operator_pod", "controller"]
            "Total time that objects have waited in the queue of a controller."
            => Whole(operator::queue_seconds);
        "loopwatch_queue_unfinished_seconds" Gauge Alpha ["operator_pod", "controller"]
            "Sum of the ages of all reconciles that are running."
            => Whole(operator::unfinished);
        "loopwatch_workers_busy" Gauge Alpha ["operator_pod", "controller"]
            "Number of workers of a controller that are reconciling."
            => Whole(operator::workers_busy);
        "loopwatch_workers_max" Gauge Alpha ["operator_pod", "controller"]
            "Maximum number of workers of a controller."
            => Whole(operator::workers_max);
    }
    "The operator's process" {
        "loopwatch_operator_memory_bytes" Gauge Alpha ["operator_pod", "type"]
            "Memory of the operator, by type (resident, anonymous, working_set, live_heap, heap_goal)."
            => Whole(operator::memory);
        "loopwatch_operator_memory_limit_bytes" Gauge Alpha ["operator_pod", "type"]
            "Memory limit of the operator, by type (container, or runtime such as GOMEMLIMIT); absent without a limit."
            => Whole(operator::memory_limit);
        "loopwatch_operator_memory_pressure_ratio" Gauge Alpha ["operator_pod"]
            "Share of the last minute in which at least one task of the operator's container waited for memory."
            => Whole(operator::memory_pressure);
        "loopwatch_operator_oom_kills_total" Counter Alpha ["operator_pod"]
            "Processes of the operator's container that the kernel has killed because of its memory limit."
            => Whole(operator::oom_kills);
        "loopwatch_operator_tasks" Gauge Alpha ["operator_pod", "type"]
            "Number of goroutines or threads of the operator, by type (goroutines, threads)."
            => Whole(operator::tasks);
        "loopwatch_operator_open_fds" Gauge Alpha ["operator_pod"]
            "Number of open file descriptors of the operator."
            => Whole(operator::open_fds);
        "loopwatch_operator_max_fds" Gauge Alpha ["operator_pod"]
            "Maximum number of open file descriptors of the operator."
            => Whole(operator::max_fds);
        "loopwatch_operator_cpu_seconds_total" Counter Alpha ["operator_pod"]
            "CPU time of the operator."
            => Whole(operator::cpu_seconds);
        "loopwatch_operator_cpu_limit_cores" Gauge Alpha ["operator_pod"]
            "CPU limit of the operator's container, in CPUs; absent without a limit."
            => Whole(operator::cpu_limit);
        "loopwatch_operator_cpu_periods_total" Counter Alpha ["operator_pod"]
            "Periods of the CPU limit in which the operator's container wanted to run."
            => Whole(operator::cpu_periods);
        "loopwatch_operator_cpu_throttled_periods_total" Counter Alpha ["operator_pod"]
            "Periods of the CPU limit in which the kernel throttled the operator's container."
            => Whole(operator::cpu_throttled_periods);
        "loopwatch_operator_cpu_throttled_seconds_total" Counter Alpha ["operator_pod"]
            "Time for which the kernel throttled the CPUs of the operator's container."
            => Whole(operator::cpu_throttled_seconds);
        "loopwatch_operator_gc_cycles_total" Counter Alpha ["operator_pod"]
            "Garbage collections of the operator's runtime."
            => Whole(operator::gc_cycles);
        "loopwatch_operator_start_timestamp_seconds" Gauge Alpha ["operator_pod"]
            "Unix time at which the operator's process started."
            => Whole(operator::start);
    }
    "The operator's trends" {
        "loopwatch_trend_slope" Gauge Alpha ["operator_pod", "signal"]
            "Change of a signal of the operator's process per hour, without the share of new objects; signal is live_heap (bytes), memory (bytes, without a live heap), tasks or descriptors; absent while unknown."
            => Whole(trends::slope);
        "loopwatch_trend_verdict" Gauge Alpha ["operator_pod", "signal", "verdict"]
            "Always 1, for the verdict on the trend of a signal (unknown, steady, growth_explained, suspected, confirmed)."
            => Whole(trends::verdict);
        "loopwatch_time_to_exhaustion_seconds" Gauge Alpha ["operator_pod", "resource"]
            "Time until the operator exhausts a resource (memory, descriptors) if it goes on as now; absent if that is not in sight."
            => Whole(trends::time_to_exhaustion);
        "loopwatch_profile_top_growth_bytes" Gauge Alpha ["operator_pod", "rank"]
            "Growth of the stacks that grew most between the last two heap profiles, by rank; the findings and the page name the functions."
            => Whole(trends::top_growth);
    }
    "Every object" {
        "loopwatch_object_state" Gauge Alpha ["group", "kind", "target_namespace", "name", "state"]
            "Always 1, for the current state of an object."
            => Object(every_object::state);
        "loopwatch_object_state_since_timestamp_seconds" Gauge Alpha ["group", "kind", "target_namespace", "name"]
            "Unix time at which an object entered its current state."
            => Object(every_object::state_since);
        "loopwatch_object_created_timestamp_seconds" Gauge Alpha ["group", "kind", "target_namespace", "name"]
            "Unix time at which an object was created."
            => Object(every_object::created);
        "loopwatch_object_deletion_timestamp_seconds" Gauge Alpha ["group", "kind", "target_namespace", "name"]
            "Unix time of the deletion timestamp of an object; absent if the object is not being deleted."
            => Object(every_object::deletion);
        "loopwatch_object_generation" Gauge Alpha ["group", "kind", "target_namespace", "name"]
            "Generation of an object, which the API server increments on every spec change."
            => Object(every_object::generation);
        "loopwatch_object_observed_generation" Gauge Alpha ["group", "kind", "target_namespace", "name"]
            "Latest generation that the operator reports as observed; absent if it reports none."
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
            "1 if a source is up, 0 if it fails and its objects are therefore unknown."
            => Whole(sources::source_up);
        "loopwatch_source_last_success_timestamp_seconds" Gauge Stable ["source"]
            "Unix time of the last observation from a source; absent if there was none."
            => Whole(sources::source_last_success);
        "loopwatch_source_failures_total" Counter Stable ["source", "cause"]
            "Failures of a source, by cause."
            => Whole(sources::source_failures);
        "loopwatch_permission_missing" Gauge Stable ["group", "target_namespace", "verb", "resource"]
            "Always 1, for a permission that loopwatch needs and its account lacks; target_namespace is empty for the whole cluster."
            => Whole(sources::permission_missing);
        "loopwatch_watch_lag_seconds" Histogram Stable ["group", "kind", "target_namespace"]
            "Delivery lag of a watch, measured by audits; target_namespace is the namespace of the watch, empty for the whole cluster."
            => Kind(sources::watch_lag);
        "loopwatch_state_audit_difference" Gauge Stable ["group", "kind", "target_namespace"]
            "Objects in loopwatch minus objects in the API server, at the same resource version, in the last audit; expected to be 0."
            => Kind(sources::audit_difference);
        "loopwatch_observations_total" Counter Stable ["source"]
            "Observations processed, by kind of source."
            => Whole(sources::observations);
        "loopwatch_dropped_total" Counter Stable ["limit"]
            "Items that loopwatch did not judge or export because a limit was reached, by limit."
            => Whole(sources::dropped);
    }
    "loopwatch itself" {
        "loopwatch_build_info" Info Stable ["version", "revision"]
            "Version and revision of loopwatch."
            => Whole(|_, samples| samples.put(&[VERSION, REVISION], 1_u64));
        "loopwatch_links_info" Info Stable ["page_url", "grafana_url", "runbook_url"]
            "URLs of the web page (--external-url), of Grafana (--grafana-url) and of your own runbooks (--runbook-url), for links in alerts; absent if none is set."
            => Whole(sources::links);
        "loopwatch_http_requests_total" Counter Alpha ["path", "code"]
            "HTTP requests, by path and status code; path is other for all paths that are not documented."
            => Whole(|shown, samples| samples.registry_metric(&shown.metrics.requests));
        "loopwatch_render_seconds" Histogram Alpha []
            "Time from the start of a scrape until the last byte is handed to the connection."
            => Whole(|shown, samples| samples.registry_metric(&shown.metrics.render_seconds));
        "loopwatch_channel_depth" Gauge Alpha []
            "Number of observations that wait for the model."
            => Whole(|shown, samples| samples.registry_metric(&shown.metrics.channel_depth));
        "loopwatch_config_last_reload_successful" Gauge Stable []
            "1 if all of the configuration was valid when loopwatch last read it, 0 if a part was not; absent without `run`."
            => Whole(|shown, samples| samples.put_some(&[], shown.metrics.config.successful().map(u64::from)));
        "loopwatch_config_last_reload_success_timestamp_seconds" Gauge Stable []
            "Unix time at which loopwatch last read a configuration that was valid; absent if none was."
            => Whole(|shown, samples| samples.put_some(&[], shown.metrics.config.last_success()));
        "loopwatch_certificate_expiry_timestamp_seconds" Gauge Alpha []
            "Unix time at which the certificate of the port expires (cert_file of --web-config-file); absent without TLS."
            => Whole(|shown, samples| samples.put_some(&[], shown.certificate_expires));
        "loopwatch_recording_unread" Gauge Alpha ["part"]
            "Number of parts of the replayed recording that have no effect, by part (skipped_line, undiscovered_line, field, header_field); absent without a recording."
            => Whole(|shown, samples| samples.registry_metric(&shown.metrics.recording_unread));
        "loopwatch_rebuilds_total" Counter Stable ["part"]
            "Rebuilds of a part of loopwatch after a panic, by part (model, sources)."
            => Whole(|shown, samples| samples.registry_metric(&shown.metrics.rebuilds));
        "loopwatch_notify_requests_total" Counter Alpha ["result"]
            "Events for the webhook of --notify, by result: ok, rejected (not repeated), failed (one attempt), dropped (given up, or no room), not_leader (another replica sends them)."
            => Whole(|shown, samples| samples.registry_metric(&shown.metrics.notify_requests));
        "loopwatch_alertmanager_requests_total" Counter Alpha ["alertmanager", "result"]
            "Requests with alerts to each URL of --alertmanager, by result: ok, rejected (not repeated), failed (repeated)."
            => Whole(|shown, samples| samples.registry_metric(&shown.metrics.alerting.requests));
        "loopwatch_alertmanager_alerts" Gauge Alpha []
            "Alerts that loopwatch posts to Alertmanager itself and that fire now, without the one that always fires."
            => Whole(|shown, samples| samples.registry_metric(&shown.metrics.alerting.firing));
        "loopwatch_alertmanager_alerts_dropped_total" Counter Alpha []
            "Evaluations of alerts that did not fire because 1000 others did."
            => Whole(|shown, samples| samples.registry_metric(&shown.metrics.alerting.dropped));
        "loopwatch_spans_total" Counter Alpha ["result"]
            "Spans for the collector of --otlp, by result: ok, rejected (the collector refuses them), dropped (given up, or no room), sampled_out, not_leader (another replica sends them)."
            => Whole(|shown, samples| samples.registry_metric(&shown.metrics.spans));
        "loopwatch_trace_requests_total" Counter Alpha ["result"]
            "Requests to the collector of --otlp, by result: ok, rejected (not repeated), failed (one attempt)."
            => Whole(|shown, samples| samples.registry_metric(&shown.metrics.trace_requests));
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
            "Address space that the allocator retains after it has returned the memory to the system."
            => Whole(|shown, samples| samples.put_some(&[], shown.readings.allocator.retained));
        "loopwatch_runtime_workers" Gauge Alpha []
            "Number of worker threads of the asynchronous runtime."
            => Whole(|shown, samples| samples.put_some(&[], shown.readings.runtime.workers));
        "loopwatch_runtime_tasks" Gauge Alpha []
            "Number of live tasks of the asynchronous runtime."
            => Whole(|shown, samples| samples.put_some(&[], shown.readings.runtime.tasks));
        "loopwatch_runtime_queue_depth" Gauge Alpha []
            "Number of tasks that are ready to run and wait for a worker."
            => Whole(|shown, samples| samples.put_some(&[], shown.readings.runtime.queue));
        "loopwatch_runtime_busy_seconds_total" Counter Alpha []
            "Total time that the workers of the asynchronous runtime were busy."
            => Whole(|shown, samples| samples.put_some(&[], shown.readings.runtime.busy_seconds));
        "process_cpu_seconds_total" Counter Stable []
            "User and system CPU time of loopwatch."
            => Whole(|shown, samples| samples.put_some(&[], shown.readings.process.cpu_seconds));
        "process_resident_memory_bytes" Gauge Stable []
            "Resident memory size of loopwatch."
            => Whole(|shown, samples| samples.put_some(&[], shown.readings.process.resident_bytes));
        "process_virtual_memory_bytes" Gauge Stable []
            "Virtual memory size of loopwatch."
            => Whole(|shown, samples| samples.put_some(&[], shown.readings.process.virtual_bytes));
        "process_open_fds" Gauge Stable []
            "Number of open file descriptors of loopwatch."
            => Whole(|shown, samples| samples.put_some(&[], shown.readings.process.open_fds));
        "process_max_fds" Gauge Stable []
            "Maximum number of file descriptors that loopwatch may open."
            => Whole(|shown, samples| samples.put_some(&[], shown.readings.process.max_fds));
        "process_start_time_seconds" Gauge Stable []
            "Unix time at which loopwatch started."
            => Whole(|shown, samples| samples.put_some(&[], shown.readings.process.start_seconds));
    }
}
