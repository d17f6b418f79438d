use std::fs;
use std::path::Path;

use loopwatch_model::observation::{
    ControllerView, Durations, Framework, MAX_CODES, MAX_CONTROLLERS, MetricsView, ProcessView,
    RECONCILE_BOUNDS, Runtime,
};
use loopwatch_model::time::Timestamp;

use super::Normalizer;
use crate::sources::operator::scrape::text::{LIMITS, TextParser};

fn view(text: &str) -> MetricsView {
    let (mut parser, mut normalizer) = (TextParser::new(LIMITS, false), Normalizer::new());
    parser.push(text.as_bytes(), &mut normalizer).expect("metrics");
    parser.finish(&mut normalizer).expect("metrics");
    normalizer.view()
}

/// Reads a file of `tests/scrapes`.
fn scraped(name: &str) -> MetricsView {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scrapes").join(name);
    let text = fs::read_to_string(path).expect("a scrape");
    let (mut parser, mut normalizer) =
        (TextParser::new(LIMITS, name.ends_with(".om")), Normalizer::new());

    parser.push(text.as_bytes(), &mut normalizer).expect("metrics");
    let report = parser.finish(&mut normalizer).expect("metrics");

    assert_eq!((report.skipped, report.problem), (0, None), "{name}");

    normalizer.view()
}

fn names(view: &MetricsView) -> Vec<&str> {
    view.controllers.iter().map(|controller| controller.name.as_str()).collect()
}

fn controller<'a>(view: &'a MetricsView, name: &str) -> &'a ControllerView {
    view.controllers.iter().find(|controller| controller.name == name).expect("a controller")
}

fn durations(count: u64, sum: f64) -> Option<Durations> {
    Some(Durations { count, sum })
}

/// All bounds, each with this number.
fn all_within(count: u64) -> Vec<(f64, u64)> {
    RECONCILE_BOUNDS.iter().map(|bound| (*bound, count)).collect()
}

fn code(code: &str, count: u64) -> (String, u64) {
    (code.to_owned(), count)
}

#[test]
fn controller_runtime_with_priorities() {
    let view = scraped("controller-runtime-0.23.prom");
    assert_eq!(view.framework, Framework::ControllerRuntime);
    assert_eq!(names(&view), ["gadget", "widget"]);

    let widget = ControllerView {
        name: "widget".into(),
        succeeded: Some(4),
        failed: Some(19),
        requeued: Some(1),
        panicked: Some(9),
        reconcile_seconds: durations(23, 0.011_133_796_999_999_999),
        reconcile_buckets: all_within(23),
        workers_busy: Some(0),
        workers_max: Some(2),
        queue_depth: Some(0),
        queue_adds: Some(23),
        queue_retries: Some(19),
        queue_seconds: durations(23, 0.010_009_296),
        unfinished_seconds: Some(0.0),
        longest_running_seconds: Some(0.0),
    };

    assert_eq!(*controller(&view, "widget"), widget);

    let gadget = controller(&view, "gadget");
    assert_eq!(
        (gadget.succeeded, gadget.requeued, gadget.workers_busy),
        (Some(10), Some(9), Some(1))
    );
    assert_eq!(gadget.longest_running_seconds, Some(2.500_352_268));
    assert_eq!(
        view.requests,
        [code("200", 3), code("404", 1), code("409", 1), code("500", 1), code("<error>", 1)]
    );

    assert_eq!(view.leading, Some(true));

    let process = ProcessView {
        started: Some(Timestamp(1_795_340_980_450)),
        runtime: Runtime::Go,
        cpu_seconds: Some(0.01),
        resident: Some(36_020_224),
        live_heap: Some(2_501_672),
        heap_goal: Some(5_356_434),
        gc_percent: Some(100),
        gc_cycles: Some(2),
        gc_limited_cycle: Some(0),
        goroutines: view.process.goroutines,
        threads: view.process.threads,
        open_fds: Some(15),
        max_fds: Some(20_000),
        ..ProcessView::default()
    };

    assert_eq!(view.process, process, "no GOMEMLIMIT is the largest integer, which is no limit");
    assert!(process.goroutines > Some(10) && process.threads > Some(2));
}

#[test]
fn controller_runtime_without_the_label_controller() {
    let view = scraped("controller-runtime-0.17.prom");
    assert_eq!(view.framework, Framework::ControllerRuntime);
    assert_eq!(names(&view), ["gadget", "widget"]);

    let widget = controller(&view, "widget");
    assert_eq!((widget.succeeded, widget.failed, widget.queue_adds), (Some(4), Some(19), Some(23)));
    assert_eq!(widget.panicked, None, "this version does not count panics");
    assert_eq!(view.process.live_heap, None, "this version does not export the live heap");
    assert_eq!(view.process.heap_goal, Some(5_816_770));
    assert_eq!(view.process.gc_cycles, Some(1));
}

#[test]
fn ansible_has_the_controllers_of_controller_runtime() {
    let view = scraped("ansible.prom");
    assert_eq!(view.framework, Framework::Ansible);
    assert_eq!(names(&view), ["gadget-controller", "widget-controller"]);

    let widget = controller(&view, "widget-controller");
    assert!(
        widget.succeeded > Some(0) && widget.failed > Some(0) && widget.queue_adds > Some(0),
        "{widget:?}"
    );
}

#[test]
fn client_go_without_controller_runtime() {
    let view = scraped("client-go.prom");
    assert_eq!(view.framework, Framework::ClientGo);

    let widgets = ControllerView {
        name: "widgets".into(),
        reconcile_seconds: durations(3, 0.030_643_881_999_999_997),
        reconcile_buckets: vec![(0.01, 0), (0.1, 3), (1.0, 3), (10.0, 3)],
        queue_depth: Some(1),
        queue_adds: Some(5),
        queue_retries: Some(0),
        queue_seconds: durations(4, 0.064_507_365_000_000_01),
        unfinished_seconds: Some(1.969_450_729),
        longest_running_seconds: Some(1.969_450_729),
        ..ControllerView::default()
    };

    assert_eq!(view.controllers, [widgets], "a work queue does not know results");
    assert_eq!((view.requests, view.leading), (vec![code("403", 1)], None));
}

#[test]
fn knative_with_open_census() {
    let view = scraped("knative-2024.prom");
    assert_eq!(view.framework, Framework::Knative);

    let widgets = ControllerView {
        name: "widgets".into(),
        succeeded: Some(3),
        failed: Some(10),
        reconcile_seconds: durations(13, 0.001 * 207.999_999_999_999_97 + 0.001 * 64.0),
        reconcile_buckets: vec![
            (0.01, 0),
            (0.1, 13),
            (1.0, 13),
            (10.0, 13),
            (30.0, 13),
            (60.0, 13),
        ],
        queue_depth: Some(0),
        queue_adds: Some(14),
        queue_seconds: durations(14, 0.087_430_411_999_999_99),
        ..ControllerView::default()
    };

    assert_eq!(
        view.controllers,
        [widgets],
        "a histogram of unfinished seconds has no current value"
    );
    assert_eq!((view.process.runtime, view.process.gc_cycles), (Runtime::Go, Some(2)));
    assert_eq!(view.process.heap_goal, Some(5_833_346));
}

#[test]
fn knative_with_open_telemetry() {
    let view = scraped("knative-2026.prom");
    assert_eq!(view.framework, Framework::Knative);

    let [widgets] = &view.controllers[..] else { panic!("{:?}", view.controllers) };
    assert_eq!((widgets.succeeded, widgets.failed), (None, None), "it counts no results");
    assert_eq!((widgets.queue_adds, widgets.queue_depth), (Some(14), Some(0)));
    assert_eq!(widgets.reconcile_seconds, durations(13, 0.433_550_684));
    assert_eq!(widgets.unfinished_seconds, Some(3.954_465_308));
}

#[test]
fn java_operator_sdk() {
    let view = scraped("java-operator-sdk-v2.prom");
    assert_eq!(view.framework, Framework::JavaOperatorSdk);

    let configmaps = ControllerView {
        name: "configmaps".into(),
        succeeded: Some(3),
        failed: Some(3),
        reconcile_seconds: durations(6, 0.063_959_806),
        reconcile_buckets: vec![
            (0.01, 3),
            (0.05, 6),
            (0.1, 6),
            (0.25, 6),
            (0.5, 6),
            (1.0, 6),
            (5.0, 6),
            (10.0, 6),
            (30.0, 6),
        ],
        workers_busy: Some(1),
        queue_depth: Some(0),
        queue_adds: Some(7),
        ..ControllerView::default()
    };

    assert_eq!(view.controllers, [configmaps]);

    let process = ProcessView {
        started: Some(Timestamp(1_795_341_216_016)),
        runtime: Runtime::Jvm,
        cpu_seconds: Some(2.04),
        runtime_limit: Some(268_435_456),
        gc_cycles: Some(8),
        threads: Some(31),
        open_fds: Some(116),
        max_fds: Some(20_000),
        ..ProcessView::default()
    };

    assert_eq!(
        view.process, process,
        "a live heap of 0 is unknown, and so is a pool whose maximum is -1"
    );
}

/// The gear-operator of the zoo, in OpenMetrics, as loopwatch asks for it.
#[test]
fn java_operator_sdk_beside_a_real_api_server() {
    let view = scraped("java-operator-sdk-live.om");
    assert_eq!(view.framework, Framework::JavaOperatorSdk);

    let gear = ControllerView {
        name: "gear".into(),
        succeeded: Some(293),
        failed: Some(28),
        reconcile_seconds: durations(301, 57.131_587_689),
        reconcile_buckets: vec![
            (0.01, 259),
            (0.05, 259),
            (0.1, 259),
            (0.25, 299),
            (0.5, 299),
            (1.0, 299),
            (5.0, 299),
            (10.0, 299),
            (30.0, 301),
        ],
        workers_busy: Some(0),
        queue_depth: Some(0),
        queue_adds: Some(321),
        ..ControllerView::default()
    };

    assert_eq!(view.controllers, [gear]);
    assert_eq!((view.process.runtime, view.process.threads), (Runtime::Jvm, Some(24)));
    assert_eq!((view.process.runtime_limit, view.process.gc_cycles), (Some(268_435_456), Some(13)));
    assert_eq!((view.process.open_fds, view.process.max_fds), (Some(98), Some(20_000)));
}

/// The gizmo-operator of the zoo: names with a prefix of its own, and nothing about the process.
#[test]
fn the_template_of_kube_rs_has_a_prefix_of_its_own() {
    let view = scraped("kube-rs-live.om");
    let gizmo = ControllerView {
        name: "gizmo_ctrl".into(),
        succeeded: Some(268),
        failed: Some(73),
        reconcile_seconds: durations(341, 57.604_520_770_000_02),
        reconcile_buckets: vec![
            (0.01, 292),
            (0.1, 299),
            (0.25, 339),
            (0.5, 339),
            (1.0, 339),
            (5.0, 339),
            (60.0, 341),
        ],
        ..ControllerView::default()
    };

    assert_eq!((view.framework, &view.controllers), (Framework::KubeRs, &vec![gizmo]));
    assert_eq!(view.process, ProcessView::default());
}

#[test]
fn the_older_template_of_kube_rs_counts_errors_only_after_the_first_one() {
    let text = "doc_controller_reconciliations_total 7\n\
                doc_controller_reconcile_duration_seconds_sum 3.5\n\
                doc_controller_reconcile_duration_seconds_count 7\n";
    let healthy = view(text);
    let failing =
        view(&format!("{text}doc_controller_reconciliation_errors_total{{error=\"kube\"}} 2\n"));

    let counts = |view: &MetricsView| {
        let controller = view.controllers.first().expect("a controller");
        (controller.name.clone(), controller.succeeded, controller.failed)
    };
    assert_eq!(counts(&healthy), ("doc_controller".into(), Some(7), Some(0)));
    assert_eq!(counts(&failing), ("doc_controller".into(), Some(5), Some(2)));
}

/// Other languages have operators that name their own metrics alike.
#[test]
fn an_operator_in_python_is_no_operator_of_kube_rs() {
    let view = view(
        "shop_reconcile_duration_seconds_sum 3.5\n\
         shop_reconcile_duration_seconds_count 7\n\
         shop_reconciliations_total 7\n\
         python_info{implementation=\"CPython\",version=\"3.12\"} 1\n",
    );

    assert_eq!((view.framework, view.controllers.len()), (Framework::Unknown, 1));
}

#[test]
fn java_operator_sdk_with_metrics_per_resource() {
    let view = scraped("java-operator-sdk-v1.om");
    assert_eq!(view.framework, Framework::JavaOperatorSdk);

    let [configmaps] = &view.controllers[..] else { panic!("{:?}", view.controllers) };
    assert_eq!((configmaps.succeeded, configmaps.failed), (Some(3), Some(2)));
    assert_eq!(configmaps.reconcile_seconds.map(|durations| durations.count), Some(5));
    assert_eq!(configmaps.workers_busy, Some(1));
    assert_eq!(configmaps.queue_depth, Some(0), "its queue includes the object that it reconciles");
}

#[test]
fn a_controller_in_the_name_of_a_metric_is_the_one_in_labels() {
    let view = view(
        "operator_sdk_controllers_execution_reconcile_seconds_count{controller=\"my-widgets\"} 5\n\
         operator_sdk_reconciliations_queue_size_my_widgets{kind=\"Widget\"} 3.0\n\
         operator_sdk_reconciliations_executions_my_widgets{kind=\"Widget\"} 1.0\n",
    );

    assert_eq!(names(&view), ["my-widgets"]);
    assert_eq!(
        (view.controllers[0].queue_depth, view.controllers[0].workers_busy),
        (Some(2), Some(1))
    );
    assert_eq!(
        view.controllers[0].failed,
        Some(0),
        "the framework creates the counter at the first failure"
    );
}

#[test]
fn strimzi() {
    let view = scraped("strimzi.prom");
    assert_eq!(view.framework, Framework::Strimzi);
    assert_eq!(names(&view), ["Kafka", "KafkaConnect"]);

    let [kafka, connect] = &view.controllers[..] else { panic!("{:?}", view.controllers) };
    assert_eq!((kafka.succeeded, kafka.failed), (Some(10), Some(1)), "the sum of all namespaces");
    assert_eq!(kafka.reconcile_seconds, durations(2, 3.0));
    assert_eq!(kafka.reconcile_buckets, [(0.5, 0), (10.0, 2)], "the sum of all namespaces");
    assert_eq!(
        (connect.succeeded, connect.failed),
        (Some(2), Some(0)),
        "the counter of failures does not exist yet"
    );
    assert_eq!(connect.queue_depth, None);
}

#[test]
fn bare_processes() {
    let jvm = |name| {
        let process = scraped(name).process;
        assert_eq!(
            (process.runtime, process.runtime_limit),
            (Runtime::Jvm, Some(268_435_456)),
            "{name}"
        );
        assert_eq!((process.gc_cycles, process.threads), (Some(1), Some(6)), "{name}");

        process
    };

    assert_eq!(jvm("jvm-client-1.prom").live_heap, Some(5_484_168));
    assert_eq!(jvm("jvm-client-0.prom").live_heap, Some(4_938_056));

    let python = scraped("python.prom");
    assert_eq!((python.framework, python.process.runtime), (Framework::Unknown, Runtime::Python));
    assert_eq!((python.process.resident, python.process.gc_cycles), (Some(23_457_792), Some(42)));
    assert_eq!((python.process.goroutines, python.process.live_heap), (None, None));
    assert_eq!(scraped("python.om").process, python.process);

    let rust = scraped("rust.prom");
    assert_eq!((rust.framework, rust.process.runtime), (Framework::KubeRs, Runtime::Unknown));
    assert_eq!((rust.process.threads, rust.process.resident), (Some(1), Some(2_949_120)));

    // The metrics of the template of kube-rs stand beside those of the process.
    let widget = ControllerView {
        name: "widget_controller".into(),
        succeeded: Some(1),
        failed: Some(0),
        reconcile_seconds: durations(1, 0.3),
        reconcile_buckets: vec![
            (0.01, 0),
            (0.05, 0),
            (0.1, 0),
            (0.25, 0),
            (0.5, 1),
            (1.0, 1),
            (2.5, 1),
            (5.0, 1),
            (10.0, 1),
        ],
        ..ControllerView::default()
    };
    assert_eq!(rust.controllers, [widget]);
}

#[test]
fn queues_with_both_labels_count_once() {
    let text = "controller_runtime_active_workers{controller=\"widget\"} 1\n\
                workqueue_adds_total{name=\"widget\"} 7\n\
                workqueue_depth{name=\"widget\"} 7\n\
                workqueue_depth{controller=\"widget\",name=\"widget\",priority=\"0\"} 3\n\
                workqueue_depth{controller=\"widget\",name=\"widget\",priority=\"-100\"} 4\n";
    let view = view(text);

    assert_eq!(names(&view), ["widget"]);
    assert_eq!(
        (view.controllers[0].queue_depth, view.controllers[0].queue_adds),
        (Some(7), Some(7))
    );
}

#[test]
fn buckets_come_from_the_metric_that_has_the_number_and_never_fall() {
    // The operator counts while it writes. The work queue has buckets of its own.
    let within = view(
        "controller_runtime_reconcile_total{controller=\"a\",result=\"success\"} 9\n\
         controller_runtime_reconcile_time_seconds_bucket{controller=\"a\",le=\"0.1\"} 5\n\
         controller_runtime_reconcile_time_seconds_bucket{controller=\"a\",le=\"0.15\"} 5\n\
         controller_runtime_reconcile_time_seconds_bucket{controller=\"a\",le=\"1\"} 4\n\
         controller_runtime_reconcile_time_seconds_bucket{controller=\"a\",le=\"5\"} NaN\n\
         controller_runtime_reconcile_time_seconds_bucket{controller=\"a\",le=\"60\"} 11\n\
         controller_runtime_reconcile_time_seconds_bucket{controller=\"a\",le=\"+Inf\"} 11\n\
         controller_runtime_reconcile_time_seconds_bucket{controller=\"a\",le=\"lots\"} 11\n\
         controller_runtime_reconcile_time_seconds_sum{controller=\"a\"} 20\n\
         controller_runtime_reconcile_time_seconds_count{controller=\"a\"} 9\n\
         workqueue_work_duration_seconds_bucket{name=\"a\",le=\"10\"} 900\n\
         workqueue_work_duration_seconds_sum{name=\"a\"} 20\n\
         workqueue_work_duration_seconds_count{name=\"a\"} 900\n",
    );

    let a = controller(&within, "a");
    assert_eq!(a.reconcile_seconds, durations(9, 20.0));
    assert_eq!(a.reconcile_buckets, [(0.1, 5), (1.0, 5), (60.0, 9)]);
}

#[test]
fn buckets_in_milliseconds_have_bounds_in_seconds() {
    let metric = "reconciliations_execution_duration_milliseconds";
    let view = view(&format!(
        "{metric}_bucket{{controller_name=\"a\",le=\"250\"}} 1\n\
         {metric}_bucket{{controller_name=\"a\",le=\"2500.0\"}} 2\n\
         {metric}_sum{{controller_name=\"a\"}} 900\n\
         {metric}_count{{controller_name=\"a\"}} 3\n"
    ));

    let a = controller(&view, "a");
    assert_eq!(a.reconcile_seconds, durations(3, 0.9));
    assert_eq!(a.reconcile_buckets, [(0.25, 1), (2.5, 2)]);
}

#[test]
fn values_that_cannot_be_right_are_absent() {
    let view = view(
        "controller_runtime_reconcile_total{controller=\"a\",result=\"success\"} 5\n\
         controller_runtime_reconcile_total{controller=\"a\",result=\"requeue\"} -1\n\
         controller_runtime_reconcile_total{controller=\"a\",result=\"error\"} NaN\n\
         controller_runtime_active_workers{controller=\"a\"} +Inf\n\
         workqueue_depth{name=\"a\"} -3\n\
         workqueue_unfinished_work_seconds{name=\"a\"} NaN\n\
         rest_client_requests_total{code=\"200\"} -1\n\
         rest_client_requests_total{code=\"500\"} 1e300\n\
         rest_client_requests_total{code=\"404\"} 2\n\
         rest_client_requests_total{code=\"anything\"} 2\n\
         process_start_time_seconds 1e300\n\
         go_goroutines -1\n\
         go_gc_gogc_percent 18446744073709551615\n\
         process_open_fds 3\n",
    );

    assert_eq!(
        view.controllers,
        [ControllerView { name: "a".into(), requeued: None, ..ControllerView::default() }]
    );
    assert_eq!(view.requests, [code("404", 2)]);

    let process = ProcessView { runtime: Runtime::Go, open_fds: Some(3), ..ProcessView::default() };
    assert_eq!(view.process, process);
}

#[test]
fn an_unrelated_metric_is_no_controller() {
    let view = view(
        "shop_reconcile_count{reconciler=\"orders\"} 5\n\
         shop_workqueue_adds_total{name=\"orders\"} 5\n\
         process_open_fds 3\n",
    );

    assert_eq!((view.framework, view.controllers.len()), (Framework::Unknown, 0));
}

#[test]
fn too_many_controllers_and_codes_are_left_out() {
    let mut lines: Vec<_> = (0..MAX_CONTROLLERS + 50)
        .map(|n| format!("workqueue_adds_total{{name=\"queue-{n:03}\"}} 1\n"))
        .collect();
    lines.extend(
        (0..200).map(|n| format!("rest_client_requests_total{{code=\"{}\"}} 1\n", 100 + n)),
    );

    let forward = view(&lines.concat());
    assert_eq!((forward.controllers.len(), forward.controllers_left_out), (MAX_CONTROLLERS, 50));
    assert_eq!(forward.requests.len(), MAX_CODES);

    lines.reverse();
    let backward = view(&lines.concat());

    assert_eq!(
        forward.controllers, backward.controllers,
        "the choice does not depend on the order"
    );
    assert_eq!(backward.controllers_left_out, 50);
}

#[test]
fn accepted_requests_that_write_are_counted_by_method() {
    let of = |code: &str, method: &str, host: &str, count: u32| {
        format!(
            "rest_client_requests_total{{code=\"{code}\",host=\"{host}\",method=\"{method}\"}} {count}\n"
        )
    };
    let text = of("200", "GET", "10.96.0.1:443", 50)
        + &of("200", "PUT", "10.96.0.1:443", 4)
        + &of("409", "PUT", "10.96.0.1:443", 3)
        + &of("201", "POST", "10.96.0.1:443", 2)
        + &of("200", "PUT", "far.example.com:6443", 8)
        + &of("200", "BREW", "10.96.0.1:443", 1)
        + "rest_client_requests_total{code=\"200\",method=\"PATCH\"} -3\n";
    let writes = |home| {
        let (mut parser, mut normalizer) =
            (TextParser::new(LIMITS, false), Normalizer { home, ..Normalizer::new() });
        parser.push(text.as_bytes(), &mut normalizer).expect("metrics");
        parser.finish(&mut normalizer).expect("metrics");

        normalizer.view().writes
    };

    assert_eq!(writes(Some("10.96.0.1:443")), [code("POST", 2), code("PUT", 4)]);
    assert_eq!(writes(None), [code("POST", 2), code("PUT", 12)]);
}

#[test]
fn requests_to_other_clusters_do_not_count() {
    let text = "rest_client_requests_total{code=\"200\",host=\"10.96.0.1:443\",method=\"GET\"} 5\n\
         rest_client_requests_total{code=\"200\",host=\"10.96.0.1:443\",method=\"PUT\"} 2\n\
         rest_client_requests_total{code=\"<error>\",host=\"far.example.com:6443\",method=\"GET\"} 9\n";
    let requests = |home| {
        let (mut parser, mut normalizer) =
            (TextParser::new(LIMITS, false), Normalizer { home, ..Normalizer::new() });
        parser.push(text.as_bytes(), &mut normalizer).expect("metrics");
        parser.finish(&mut normalizer).expect("metrics");

        normalizer.view().requests
    };

    assert_eq!(requests(Some("10.96.0.1:443")), [code("200", 7)]);

    // An operator may know its API server under another name, and loopwatch may run elsewhere.
    for home in [Some("10.0.0.1:443"), None] {
        assert_eq!(requests(home), [code("200", 7), code("<error>", 9)]);
    }
}
