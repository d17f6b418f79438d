//! The control loops of the operator, which loopwatch judges by the metrics that the operator
//! serves. Each fault opens its finding on the right controller, and the metrics of loopwatch
//! repeat those of the operator.

use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::bed::{bed, test, test_where};
use crate::case::{Case, SLACK, TWIN};
use crate::exposition::expect_repeated;
use loopwatch_testbed::accounts::{RBAC, reader_account};
use loopwatch_testbed::kube::{ZOO, ZOO_KINDS};
use loopwatch_testbed::operator::ACCOUNT;
use loopwatch_testbed::replicas::Replicas;
use loopwatch_testbed::sidecar::{ShownFinding, Sidecar, can_be_in_pod, quick_but};
use loopwatch_testbed::wait::{eventually, pause};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        test("loops::failing", failing),
        test("loops::conflicts", conflicts),
        test("loops::silent", silent),
        test("loops::unchanged", unchanged),
        test("loops::panicking", panicking),
        test("loops::stuck", stuck),
        test("loops::backlog", backlog),
        test("loops::starved", starved),
        test("loops::busy", busy),
        test_where("loops::secure", "this machine does not allow mounts", can_be_in_pod, secure),
    ]
}

/// The threshold of each verdict.
const THRESHOLD: Duration = Duration::from_secs(5);

/// The time in which a verdict must come: its threshold, the scrapes, and time for a busy machine.
const FOUND: Duration = THRESHOLD.saturating_add(SLACK);

/// The kind of the subject of these findings.
const CONTROLLER: &str = "Controller";

/// Thresholds of a few seconds for findings about control loops; those about objects are too long
/// to be reached. A burst of 40 objects counts as a backlog if it lasts.
fn settings() -> Value {
    quick_but(json!({
        "deadline": "5m",
        "phase_stuck_after": "5m",
        "reconcile_failing_after": "5s",
        "reconcile_stuck_after": "5s",
        "workers_saturated_after": "5s",
        "queue_backlog": 10,
        "queue_backlog_after": "5s",
        "restart_window": "10s",
    }))
}

/// The confidence that `ReconcileFailing` must have. Refused writes of any controller of the operator, such as
/// those of a twin whose cache is old, may explain as many errors.
fn confidence(failing: &ShownFinding) -> &'static str {
    let count = |key| failing.evidence(key).as_u64().unwrap_or_default();
    if count("conflicts") * 10 >= count("errors") * 9 { "suspected" } else { "confirmed" }
}

/// All reconciles of a controller fail. Near miss: three fail, and the next one succeeds.
fn failing() {
    let case = Case::scraping("loop-failing", &settings(), 2);
    for (kind, name) in [("Widget", "one"), ("Widget", "two"), ("PhaseOnly", TWIN)] {
        case.make(kind, name);
    }

    case.kube.zoo("Widget", &case.namespace, "asleep", json!({"suspend": true}));

    case.operator.fault("ReconcileFailing?kind=Widget&name=one&attempts=3");
    let (errors, _) = case.sidecar.expect_finding(FOUND, "ReconcileErrors", CONTROLLER, "widget");

    assert_eq!((errors.severity(), &errors.0["explained_by"]), ("info", &Value::Null), "{errors}");
    // A write of an old version may be refused in between, of any controller.
    assert!(errors.evidence("errors").as_u64() >= Some(3), "{errors}");
    assert!(errors.evidence("conflicts").is_u64(), "{errors}");

    case.sidecar.expect_cleared(FOUND, "ReconcileErrors", CONTROLLER, "widget");
    expect_opened(&case, &[("ReconcileErrors", "controller widget")]);

    case.operator.fault("ReconcileFailing?kind=Widget");
    let (failing, _) = expect_while_twin_works(&case, "ReconcileFailing", "widget");

    assert_eq!(failing.severity(), "warning", "{failing}");
    assert_eq!(failing.0["confidence"], confidence(&failing), "{failing}");
    assert!(failing.evidence("errors").as_u64() >= Some(3), "{failing}");
    assert!(failing.evidence("failing_for").as_f64() >= Some(THRESHOLD.as_secs_f64()), "{failing}");
    assert_eq!(failing.evidence("skipped_objects"), 1, "{failing}");
    assert_eq!(*failing.evidence("instance"), instance(&case), "{failing}");

    expect_errors_explained(&case);

    case.operator.cure("ReconcileFailing");
    case.sidecar.expect_cleared(SLACK, "ReconcileFailing", CONTROLLER, "widget");
    case.sidecar.expect_cleared(FOUND, "ReconcileErrors", CONTROLLER, "widget");
    expect_opened(
        &case,
        &[("ReconcileErrors", "controller widget"), ("ReconcileFailing", "controller widget")],
    );
    expect_repeated(&case.sidecar, &case.operator);
}

/// The API server refuses all writes of a controller, which works from old copies. Near miss: the other
/// controller of the same process works.
fn conflicts() {
    let mut settings = settings();
    settings["api_window"] = json!("10s");
    let case = Case::scraping("loop-conflicts", &settings, 2);
    let names: Vec<String> = (0..8).map(|number| format!("one-{number}")).collect();
    names.iter().for_each(|name| case.make("Widget", name));
    case.make("PhaseOnly", TWIN);
    pause(Duration::from_secs(12)); // the successes leave the window

    case.operator.fault("ConflictStorm?kind=Widget");
    names.iter().for_each(|name| case.resize("Widget", name, 7));
    let (storm, _) = expect_while_twin_works(&case, "ConflictStorm", "widget");

    assert_eq!(
        (storm.severity(), &storm.0["confidence"]),
        ("warning", &json!("confirmed")),
        "{storm}"
    );
    assert!(storm.evidence("conflicts").as_u64() >= Some(20), "{storm}");
    assert_eq!(*storm.evidence("instance"), instance(&case), "{storm}");

    case.operator.cure("ConflictStorm");
    names.iter().for_each(|name| case.resize("Widget", name, 3));
    case.sidecar.expect_cleared(SLACK + SLACK, "ConflictStorm", CONTROLLER, "widget");
    let opened = case.sidecar.opened();
    assert!(opened.iter().all(|(_, subject)| !subject.contains(TWIN)), "{opened:?}");
}

/// A controller reconciles an object at rest ten times per second, and writes nothing. Near miss: the other
/// controller of the same process works.
fn silent() {
    let mut settings = settings();
    settings["silent_loop_after"] = json!("5s");
    let case = Case::scraping("loop-silent", &settings, 2);
    case.make("Widget", "one");
    case.make("PhaseOnly", TWIN);

    case.operator.fault("SilentHotLoop?kind=Widget");
    case.resize("Widget", "one", 7);
    // The window of twenty seconds fills first.
    pause(Duration::from_secs(15));
    let (found, _) = expect_while_twin_works(&case, "SilentHotLoop", "widget");

    // loopwatch watches one namespace of many, and does not know what the operator may do in the others.
    assert_eq!(
        (found.severity(), &found.0["confidence"]),
        ("warning", &json!("suspected")),
        "{found}"
    );
    assert!(found.evidence("reconciles_per_second").as_u64() >= Some(5), "{found}");
    assert!(found.evidence("requeued_percent").as_u64() >= Some(50), "{found}");
    assert_eq!(*found.evidence("instance"), instance(&case), "{found}");

    case.operator.cure("SilentHotLoop");
    case.sidecar.expect_cleared(SLACK + SLACK, "SilentHotLoop", CONTROLLER, "widget");
    expect_opened(&case, &[("SilentHotLoop", "controller widget")]);
}

/// The operator writes the status of an object back as it is, so that no version of it appears. Healthy twin: a
/// controller that writes changes all the time.
fn unchanged() {
    let mut settings = settings();
    settings["silent_loop_after"] = json!("5s");
    // On a busy machine, the operator manages only a few writes per second, and not many more than the
    // changes of its twin.
    settings["silent_loop_rate"] = json!(1);
    let case = Case::scraping("loop-unchanged", &settings, 2);
    case.make("Widget", "one");
    case.make("PhaseOnly", TWIN);
    case.operator.fault("UnchangedWrites?kind=Widget&period=100ms");
    case.resize("Widget", "one", 7);

    let (mut size, mut tries) = (10, 0);
    let found = case.sidecar.expect(FOUND * 4, "UnchangedWrites is found", || {
        tries += 1;
        if tries % 5 == 1 {
            size += 1;
            case.resize("PhaseOnly", TWIN, size);
        }
        pause(Duration::from_secs(1));

        let findings = case.sidecar.findings()?;
        let found = findings.iter().find(|it| it.code() == "UnchangedWrites").cloned();
        found.ok_or_else(|| format!("{findings:?}"))
    });

    assert_eq!(found.severity(), "warning", "{found}");
    assert!(found.evidence("writes_per_second").as_u64() >= Some(1), "{found}");
    assert!(found.evidence("unchanged_percent").as_u64() >= Some(50), "{found}");
    let pod = case.operator.metrics;
    let written =
        format!("loopwatch_operator_writes_total{{operator_pod=\"{pod}\",method=\"PUT\"}}");
    let written = case.sidecar.metric(&written).unwrap_or_else(|error| panic!("{error}"));
    assert!(written >= 20.0, "{written}");

    case.operator.cure("UnchangedWrites");
    case.sidecar.expect(SLACK * 4, "the finding closes", || {
        let findings = case.sidecar.findings()?;
        let open = findings.iter().any(|it| it.code() == "UnchangedWrites");
        if open { Err(format!("{findings:?}")) } else { Ok(()) }
    });
}

/// Waits until `ReconcileFailing` explains the errors. It does not while it is only suspected.
fn expect_errors_explained(case: &Case) {
    case.sidecar.expect(FOUND, "ReconcileFailing explains ReconcileErrors", || {
        let findings = case.sidecar.findings()?;
        let of = |code| findings.iter().find(|finding| finding.is(code, CONTROLLER, "widget"));
        let (failing, errors) =
            of("ReconcileFailing").zip(of("ReconcileErrors")).ok_or("one is missing")?;

        let is_confirmed = failing.0["confidence"] == "confirmed";
        let cause = if is_confirmed { &failing.0["id"] } else { &Value::Null };
        let fits = errors.0["explained_by"] == *cause;
        fits.then_some(()).ok_or_else(|| format!("{failing}; {errors}"))
    });
}

/// The reconcile of one object panics since its spec changed, while others work. Near miss: a
/// reconcile that returns errors.
fn panicking() {
    let case = Case::scraping("loop-panicking", &settings(), 2);
    for (kind, name) in [("Widget", "poison"), ("Widget", "other"), ("PhaseOnly", TWIN)] {
        case.make(kind, name);
    }

    case.operator.fault("ReconcileFailing?kind=PhaseOnly&attempts=3");
    case.operator.fault("ReconcilePanicking?kind=Widget&name=poison");
    case.resize("Widget", "poison", 7);

    let (panicking, _) =
        case.sidecar.expect_finding(FOUND, "ReconcilePanicking", CONTROLLER, "widget");

    assert_eq!(
        (panicking.severity(), panicking.evidence("instance")),
        ("warning", &instance(&case)),
        "{panicking}"
    );
    assert!(panicking.evidence("panics").as_u64() >= Some(1), "{panicking}");

    let (poison, _) = case.sidecar.expect_finding(FOUND, "PoisonObject", "Widget", "poison");
    assert!(poison.evidence("panics").as_u64() >= Some(2), "{poison}");
    assert_eq!(poison.evidence("restarts"), 0, "{poison}");

    case.resize("Widget", "other", 7);
    case.wait_settled("Widget", "other");

    // The operator counts a panic as an error, too.
    let (errors, _) = case.sidecar.expect_finding(FOUND, "ReconcileErrors", CONTROLLER, "widget");
    assert_eq!(errors.0["explained_by"], panicking.0["id"], "{errors}");

    case.operator.cure("ReconcilePanicking");
    case.sidecar.expect_cleared(SLACK, "PoisonObject", "Widget", "poison");
    case.sidecar.expect_cleared(
        Duration::from_secs(10) + SLACK,
        "ReconcilePanicking",
        CONTROLLER,
        "widget",
    );

    let expected = [
        ("ReconcilePanicking", "controller widget"),
        ("PoisonObject", "Widget loop-panicking/poison"),
        ("Unacknowledged", "Widget loop-panicking/poison"),
        ("Overdue", "Widget loop-panicking/poison"),
        ("ReconcileErrors", "controller widget"),
        ("ReconcileFailing", "controller widget"),
        ("ReconcileErrors", "controller phaseonly"),
    ];

    expect_opened(&case, &expected);
    expect_repeated(&case.sidecar, &case.operator);
}

/// One worker hangs without a timeout, and a profile shows where. Near miss: the other one still
/// does all the work. Then that one hangs, too.
fn stuck() {
    let case = Case::profiling("loop-stuck", &settings(), 2);
    for (kind, name) in
        [("Widget", "first"), ("Widget", "second"), ("Widget", "third"), ("PhaseOnly", TWIN)]
    {
        case.make(kind, name);
    }

    case.operator.fault("ReconcileStuck?kind=Widget&name=first");
    let (stuck, _) = expect_while_twin_works(&case, "ReconcileStuck", "widget");

    assert_eq!(
        (stuck.severity(), stuck.evidence("instance")),
        ("warning", &instance(&case)),
        "{stuck}"
    );
    assert!(stuck.evidence("running_for").as_f64() >= Some(THRESHOLD.as_secs_f64()), "{stuck}");
    assert!(stuck.evidence("usual").as_f64() < Some(1.0), "{stuck}");

    let running = series(&case, "reconcile_longest_running_seconds", "widget", "");
    assert!(running >= THRESHOLD.as_secs_f64(), "{running} s");

    case.resize("Widget", "third", 7);
    case.wait_settled("Widget", "third");
    pause(THRESHOLD);
    expect_opened(&case, &[("ReconcileStuck", "controller widget")]);

    let waits_in = case.sidecar.expect(SLACK, "the functions in which the worker waits", || {
        let findings = case.sidecar.findings()?;
        let stuck = findings.iter().find(|f| f.is("ReconcileStuck", CONTROLLER, "widget"));
        let names = stuck.and_then(|stuck| stuck.evidence("waits_in").as_array().cloned());
        names.ok_or_else(|| format!("{stuck:?}"))
    });
    let named = |part: &str| waits_in.iter().any(|f| f.as_str().is_some_and(|f| f.contains(part)));
    assert!(named("waitWhile") && named(".Reconcile"), "{waits_in:?}");

    // Changes wait for both of them.
    case.operator.fault("ReconcileStuck?kind=Widget&name=second");
    case.resize("Widget", "third", 8);

    let (saturated, _) =
        case.sidecar.expect_finding(FOUND, "WorkersSaturated", CONTROLLER, "widget");

    assert_eq!(saturated.0["explained_by"], stuck.0["id"], "{saturated}");
    assert_eq!(
        (saturated.evidence("workers"), saturated.evidence("queue_depth")),
        (&json!(2), &json!(1)),
        "{saturated}"
    );
    assert!(
        saturated.evidence("saturated_for").as_f64() >= Some(THRESHOLD.as_secs_f64()),
        "{saturated}"
    );

    assert_eq!(series(&case, "workers_busy", "widget", ""), 2.0);
    assert_eq!(series(&case, "queue_depth", "widget", ""), 1.0);

    case.operator.cure("ReconcileStuck");
    for code in ["ReconcileStuck", "WorkersSaturated"] {
        case.sidecar.expect_cleared(SLACK, code, CONTROLLER, "widget");
    }

    case.wait_settled("Widget", "third");
    let expected = [
        ("ReconcileStuck", "controller widget"),
        ("WorkersSaturated", "controller widget"),
        ("Unacknowledged", "Widget loop-stuck/third"),
        ("Overdue", "Widget loop-stuck/third"),
    ];

    expect_opened(&case, &expected);
    expect_repeated(&case.sidecar, &case.operator);
}

/// A handler that blocks lets many objects wait. Near miss: a burst of many changes, which the
/// operator works off.
fn backlog() {
    let mut settings = settings();
    for threshold in ["queue_backlog_after", "workers_saturated_after"] {
        settings[threshold] = json!("8s"); // the burst takes about three
    }

    settings["reconcile_stuck_after"] = json!("5m");
    let case = Case::scraping("loop-backlog", &settings, 1);
    let names: Vec<String> = (0..40).map(|number| format!("w-{number:02}")).collect();

    // One after the other: on a busy machine, even a few at once keep the worker busy for long.
    for name in &names {
        case.kube.zoo("Widget", &case.namespace, name, json!({}));
        case.wait_settled("Widget", name);
    }

    case.make("PhaseOnly", TWIN);

    // The switch lets the operator reconcile all objects at once.
    case.operator.fault("QueueBacklog?kind=Widget&delay=80ms");
    let deepest = eventually(FOUND * 2, "the queue is long", || {
        match series(&case, "queue_depth", "widget", "") {
            depth if depth > 10.0 => Ok(depth),
            depth => Err(depth.to_string()),
        }
    });

    case.sidecar.expect(FOUND * 2, "the queue is empty", || {
        match series(&case, "queue_depth", "widget", "") {
            0.0 => Ok(()),
            depth => Err(format!("{depth} after {deepest}")),
        }
    });
    expect_opened(&case, &[]);

    case.operator.fault("QueueBacklog?kind=Widget&delay=60s");
    let (backlog, _) = expect_while_twin_works(&case, "QueueBacklog", "widget");

    assert_eq!(
        (backlog.severity(), backlog.evidence("instance")),
        ("warning", &instance(&case)),
        "{backlog}"
    );
    assert_eq!(backlog.evidence("threshold"), 10, "{backlog}");
    assert!(backlog.evidence("queue_depth").as_u64() >= Some(30), "{backlog}");
    assert!(backlog.evidence("backlog_for").as_f64() >= Some(THRESHOLD.as_secs_f64()), "{backlog}");

    let (saturated, _) =
        case.sidecar.expect_finding(FOUND, "WorkersSaturated", CONTROLLER, "widget");
    let explained = case.sidecar.expect(SLACK, "the backlog is explained", || {
        let findings = case.sidecar.findings()?;
        let backlog = findings
            .into_iter()
            .find(|finding| finding.code() == "QueueBacklog")
            .ok_or("it is gone")?;
        let by = backlog.0["explained_by"].clone();
        if by.is_null() { Err(backlog.to_string()) } else { Ok(by) }
    });

    assert_eq!(explained, saturated.0["id"]);

    case.operator.cure("QueueBacklog");
    for code in ["QueueBacklog", "WorkersSaturated"] {
        case.sidecar.expect_cleared(FOUND * 2, code, CONTROLLER, "widget");
    }

    let expected = ["QueueBacklog", "WorkersSaturated"].map(|code| (code, "controller widget"));
    expect_opened(&case, &expected);
    expect_repeated(&case.sidecar, &case.operator);
}

/// A busy operator without a fault: no finding, and loopwatch shows the true numbers.
fn busy() {
    let case = Case::scraping("loop-busy", &settings(), 4);
    for kind in ZOO_KINDS {
        for name in [TWIN, "one", "two"] {
            case.kube.zoo(kind, &case.namespace, name, json!({}));
        }
    }

    // A rate needs two points, which are half a minute apart.
    let mut size = 3;
    case.sidecar.expect(
        Duration::from_secs(45) + SLACK,
        "the recent past shows reconciles",
        || {
            size += 1;
            for kind in ZOO_KINDS {
                for name in [TWIN, "one"] {
                    case.resize(kind, name, size);
                }
            }

            for kind in ZOO_KINDS {
                case.wait_settled(kind, "one");
            }

            let recent = case.sidecar.operator()?["instances"][0]["recent"].take();
            let points = recent.as_array().into_iter().flatten();
            let busy = points.filter(|point| point["reconciles"].as_f64() > Some(0.0)).count();
            if busy > 0 { Ok(()) } else { Err(recent.to_string()) }
        },
    );

    for kind in ZOO_KINDS {
        case.kube.delete(ZOO, kind, &case.namespace, "two");
    }

    pause(THRESHOLD);
    expect_opened(&case, &[]);
    expect_repeated(&case.sidecar, &case.operator);

    let source = case.sidecar.source("metrics").expect("the source");
    assert!(source["up"] == true && source["off"].is_null(), "{source}");
    assert!(
        source["interval_seconds"].as_f64().is_some_and(|interval| (1.0..60.0).contains(&interval)),
        "{source}"
    );

    expect_shown(&case);
}

/// loopwatch finds secure metrics by the ports of its own Pod. As long as its account may not read
/// them, it names the missing rule, and reports nothing else.
fn secure() {
    let (plane, namespace) = (bed(), "loop-secure");
    let kube = &plane.kube;
    kube.namespace(namespace);
    reader_account(kube, namespace);

    let flags =
        ["--metrics-secure", "--ready-after=200ms", "--wait-for-pods=false", "--autoscale-every=0"];
    let zoo = Replicas::start(plane, namespace, 1, &flags);
    let replica = &zoo.all[0];
    let account = plane.kubeconfig_of("loop-secure.kubeconfig", &plane.url, namespace, ACCOUNT);
    let (scope, pod) = (format!("--namespace={namespace}"), (namespace, replica.pod.name.as_str()));
    let flags = [scope.as_str(), "--scrape-interval=1s", "--export-protected-metrics"];
    let sidecar =
        Sidecar::start_in_pod(plane, "loop-secure.loopwatch", &account, &settings(), &flags, pod);

    sidecar.wait_synced(ZOO_KINDS.len());
    let (failing, _) = sidecar.expect_finding(SLACK * 3, "SourceFailing", "Source", "metrics");

    assert!(failing.0.to_string().contains("nonResourceURLs"), "{failing}");
    assert!(failing.0.to_string().contains("reader-rights"), "{failing}");

    kube.apply(&json!({"apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": "loop-secure-reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "widget-operator-metrics-reader"},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}]}));
    kube.zoo("Widget", namespace, TWIN, json!({}));

    // The operator remembers its refusals for 30 s, and loopwatch asks less and less often.
    sidecar.expect_cleared(Duration::from_secs(80), "SourceFailing", "Source", "metrics");
    let series = format!(
        "loopwatch_reconciles_total{{operator_pod=\"{}\",controller=\"widget\",result=\"success\"}}",
        replica.pod.name
    );

    sidecar.expect(SLACK, "the reconciles are counted", || match sidecar.metric(&series)? {
        0.0 => Err("none".to_owned()),
        count => Ok(count),
    });
    let instance = sidecar.operator().expect("the operator")["instances"][0].take();

    assert_eq!(instance["name"], format!("{namespace}/{}", replica.pod.name), "{instance}");
    assert_eq!(instance["leading"], true, "{instance}");

    // This account may read definitions, one of which lacks its status subresource.
    let opened: Vec<_> = sidecar.opened().into_iter().map(|(code, _)| code).collect();
    let expected = ["SourceFailing", "StatusSubresourceMissing"];

    assert!(opened.iter().all(|code| expected.contains(&code.as_str())), "{}", sidecar.account());
}

/// `/api/v1/operator` and the page show each controller, with the numbers of `/metrics`.
fn expect_shown(case: &Case) {
    let shown = case.sidecar.operator().expect("the operator");
    let instances = shown["instances"].as_array().expect("instances");
    let [one] = &instances[..] else { panic!("{shown}") };

    assert_eq!(
        (&one["name"], &one["framework"]),
        (&instance(case), &json!("controller_runtime")),
        "{shown}"
    );
    assert!(one["scrape_failing"].is_null() && one["controllers_left_out"] == 0, "{shown}");

    let controllers = one["controllers"].as_array().expect("controllers");
    let names: Vec<&str> =
        controllers.iter().filter_map(|controller| controller["name"].as_str()).collect();
    let mut expected = ZOO_KINDS.map(str::to_ascii_lowercase);

    expected.sort();
    assert_eq!(names, expected, "{shown}");

    for (controller, name) in controllers.iter().zip(names) {
        assert_eq!(
            controller["succeeded"].as_f64(),
            Some(series(case, "reconciles_total", name, "success")),
            "{name}"
        );
        assert_eq!(
            controller["queue_adds"].as_f64(),
            Some(series(case, "queue_adds_total", name, "")),
            "{name}"
        );
        assert_eq!(
            (&controller["failed"], &controller["workers_max"]),
            (&json!(0), &json!(4)),
            "{controller}"
        );
    }

    let recent = one["recent"].as_array().expect("points");
    assert!(recent.iter().all(|point| point["queue_depth"].is_u64()), "{recent:?}");

    let page = case.sidecar.page().expect("the page");
    let section =
        page.split("<h2 id=\"operator\">").nth(1).and_then(|rest| rest.split("</section>").next());
    let section = section.unwrap_or_else(|| panic!("no operator in {page}"));

    for text in [
        "controller-runtime",
        "aria-label=\"Reconciles in the last ",
        "aria-label=\"Queue in the last ",
        "aria-label=\"Goroutines in the last ",
    ] {
        assert!(section.contains(text), "no {text} in {section}");
    }

    for name in expected {
        assert!(
            section.contains(&format!("<tr><td><bdi>{name}</bdi></td>")),
            "no {name} in {section}"
        );
    }
}

/// Waits for a finding about a controller, while the healthy twin of another controller changes all
/// the time.
fn expect_while_twin_works(case: &Case, code: &str, controller: &str) -> (ShownFinding, Duration) {
    let mut size = 10;
    let found = case.sidecar.expect(FOUND * 2, &format!("{code} is found on {controller}"), || {
        size += 1;
        case.resize("PhaseOnly", TWIN, size);
        pause(Duration::from_millis(300));

        let findings = case.sidecar.findings()?;
        let found =
            findings.iter().find(|finding| finding.is(code, CONTROLLER, controller)).cloned();
        found.ok_or_else(|| format!("{findings:?}"))
    });

    case.wait_settled("PhaseOnly", TWIN);
    (found, THRESHOLD)
}

/// The operator forgets the change of one object, while it acknowledges later changes of others.
/// Near miss: it acknowledges none.
fn starved() {
    const OTHERS: [&str; 4] = ["a", "b", "c", "d"];

    let settings = quick_but(json!({
        "deadline": "5m",
        "phase_stuck_after": "5m",
        "starved_after": "5s",
        "starved_others": 3,
    }));
    let case = Case::empty("loop-starved", &settings);
    for name in OTHERS.into_iter().chain(["behind"]) {
        case.make("Widget", name);
    }

    case.operator.fault("Unacknowledged?kind=Widget");
    for name in ["behind"].into_iter().chain(OTHERS) {
        case.resize("Widget", name, 7);
    }
    pause(FOUND);
    case.operator.cure("Unacknowledged");
    for name in OTHERS.into_iter().chain(["behind"]) {
        case.resize("Widget", name, 8);
        case.wait_settled("Widget", name);
    }
    expect_opened(&case, &[]);

    case.operator.fault("Unacknowledged?kind=Widget&name=behind");
    case.resize("Widget", "behind", 9);
    pause(Duration::from_secs(2)); // managed fields show whole seconds
    for name in OTHERS {
        case.resize("Widget", name, 9);
    }

    // If the others are slower than the threshold, loopwatch counts them again after a minute.
    let within = FOUND + Duration::from_secs(60);
    let (starved, _) = case.sidecar.expect_finding(within, "Starved", "Widget", "behind");
    assert_eq!(
        (starved.severity(), &starved.0["explained_by"]),
        ("warning", &Value::Null),
        "{starved}"
    );
    assert!(starved.evidence("acknowledged_others").as_u64() >= Some(3), "{starved}");

    case.operator.cure("Unacknowledged");
    case.resize("Widget", "behind", 10);
    case.sidecar.expect_cleared(SLACK, "Starved", "Widget", "behind");
    expect_opened(&case, &[("Starved", "Widget loop-starved/behind")]);
}

/// Fails if loopwatch ever reported a finding other than these.
fn expect_opened(case: &Case, expected: &[(&str, &str)]) {
    let opened = case.sidecar.opened();
    let others: Vec<_> = opened
        .into_iter()
        .filter(|(code, on)| !expected.contains(&(code.as_str(), on.as_str())))
        .collect();

    assert_eq!(others, [], "{}", case.sidecar.account());
}

/// The name of the instance: without a Pod, the address of its metrics.
fn instance(case: &Case) -> Value {
    json!(case.operator.metrics.to_string())
}

/// The value of a series of loopwatch about a controller.
fn series(case: &Case, family: &str, controller: &str, result: &str) -> f64 {
    let pod = case.operator.metrics;
    let result = if result.is_empty() { String::new() } else { format!(",result=\"{result}\"") };
    let series =
        format!("loopwatch_{family}{{operator_pod=\"{pod}\",controller=\"{controller}\"{result}}}");

    case.sidecar.metric(&series).unwrap_or_else(|error| panic!("{error}"))
}
