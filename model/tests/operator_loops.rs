//! The control loops of the operator, as its metrics show them: its reconciles, queues, requests and leaders.

mod lab;

use lab::pods::{Op, POD, pod};
use lab::{Lab, Widget};
use loopwatch_model::finding::{Confidence, Severity};
use loopwatch_model::observation::{
    ControllerView, Durations, LeaseView, MetricsView, Observation, Permission, PermissionsView, ProcessView, SourceId,
};
use loopwatch_model::settings::Settings;
use loopwatch_model::time::{Span, Timestamp};

const INSTANCE: &str = "ops/widget-operator-7d9f8c6b5-x2x4v";
const OTHER: &str = "ops/widget-operator-7d9f8c6b5-zzzzz";
const OTHER_POD: &str = "widget-operator-7d9f8c6b5-zzzzz";

/// A controller that changes between scrapes every ten seconds.
struct Loop {
    lab: Lab,
    view: ControllerView,
}

impl Loop {
    /// Returns a healthy controller that has been scraped twice.
    fn new() -> Self {
        Self::with(Settings { learn_after: 0, ..Settings::default() })
    }

    fn with(settings: Settings) -> Self {
        let view = ControllerView {
            name: "widget".into(),
            succeeded: Some(1_000),
            failed: Some(5),
            requeued: Some(0),
            panicked: Some(0),
            reconcile_seconds: Some(Durations { count: 1_005, sum: 100.0 }),
            workers_busy: Some(0),
            workers_max: Some(1),
            queue_depth: Some(0),
            longest_running_seconds: Some(0.0),
            ..ControllerView::default()
        };
        let mut new = Self { lab: Lab::with(settings), view };
        new.run(20, |_| {});
        new.lab.assert_no_findings();
        new
    }

    /// Advances by seconds, with a change before each scrape.
    fn run(&mut self, seconds: i64, mut change: impl FnMut(&mut ControllerView)) {
        for _ in 0..seconds / 10 {
            self.lab.advance(Span::secs(10));
            change(&mut self.view);
            self.lab.scrape(INSTANCE, self.view.clone());
        }
    }

    fn assert_found(&self, code: &str) {
        assert_eq!(self.lab.findings(), [format!("{code} controller widget")]);
    }
}

fn add(counter: &mut Option<u64>, by: u64) {
    *counter = Some(counter.unwrap_or(0) + by);
}

#[test]
fn a_controller_that_only_fails_is_found_and_one_success_ends_it() {
    let mut own = Loop::new();
    own.run(300, |view| add(&mut view.failed, 1));
    assert_eq!(own.lab.roots(), ["ReconcileErrors controller widget"], "not long enough");
    own.run(10, |view| add(&mut view.failed, 1));
    assert_eq!(own.lab.roots(), ["ReconcileFailing controller widget"]);
    let summary = own.lab.finding("ReconcileFailing").summary();
    assert!(summary.contains("errors 31") && summary.contains("conflicts 0"), "{summary}");
    own.run(10, |view| add(&mut view.succeeded, 1));
    assert_eq!(own.lab.findings(), ["ReconcileErrors controller widget"]);
    own.run(300, |view| add(&mut view.succeeded, 1));
    own.lab.assert_no_findings();
}

#[test]
fn three_errors_in_a_row_are_enough_however_slowly_they_come() {
    let mut own = Loop::new();
    for _ in 0..3 {
        own.run(10, |view| add(&mut view.failed, 1));
        own.run(200, |_| {});
    }
    own.assert_found("ReconcileFailing");
    own.run(20 * 60, |_| {});
    own.lab.assert_no_findings();
}

#[test]
fn errors_beside_successes_are_only_information() {
    let mut own = Loop::new();
    own.run(1_200, |view| {
        add(&mut view.failed, 1);
        add(&mut view.succeeded, 5);
    });
    own.assert_found("ReconcileErrors");
    assert_eq!(own.lab.finding("ReconcileErrors").severity, Severity::Info);
}

#[test]
fn two_errors_or_unknown_successes_show_nothing() {
    let mut own = Loop::new();
    own.run(10, |view| add(&mut view.failed, 2));
    own.run(1_200, |_| {});
    own.lab.assert_no_findings();
    let mut own = Loop::new();
    own.view.succeeded = None;
    own.run(1_200, |view| add(&mut view.failed, 1));
    assert!(!own.lab.has("ReconcileFailing"), "nothing shows whether others succeed");
}

#[test]
fn conflicts_are_counted_apart_and_raise_no_alert_alone() {
    let mut own = Loop::new();
    let mut conflicts = 7;
    for _ in 0..40 {
        own.lab.advance(Span::secs(10));
        add(&mut own.view.failed, 1);
        conflicts += 1;
        own.lab.scraped(MetricsView {
            instance: INSTANCE.into(),
            controllers: vec![own.view.clone()],
            requests: vec![("200".into(), 10_000 + conflicts * 10), ("409".into(), conflicts)],
            ..MetricsView::default()
        });
    }
    let finding = own.lab.finding("ReconcileFailing");
    assert_eq!(finding.confidence, Confidence::Suspected, "{}", finding.summary());
}

#[test]
fn suspended_objects_are_named_beside_the_errors() {
    let mut own = Loop::new();
    let mut widget = Widget::new("web", own.lab.now);
    widget.paused = true;
    own.lab.apply(&widget);
    own.run(400, |view| add(&mut view.failed, 1));
    let summary = own.lab.finding("ReconcileFailing").summary();
    assert!(summary.contains("skipped objects 1"), "{summary}");
}

#[test]
fn a_reset_of_the_counters_is_no_burst_of_errors() {
    let mut own = Loop::new();
    own.run(10, |view| (view.failed, view.succeeded) = (Some(0), Some(0)));
    own.run(1_200, |_| {});
    own.lab.assert_no_findings();
    // Errors that a new process counts are new ones.
    own.run(10, |view| (view.failed, view.succeeded) = (Some(3), Some(0)));
    own.run(310, |_| {});
    own.assert_found("ReconcileFailing");
}

#[test]
fn a_reconcile_that_runs_for_too_long_is_stuck() {
    let mut own = Loop::new();
    let mut running = 0.0;
    own.run(600, |view| {
        running += 10.0;
        view.longest_running_seconds = Some(running);
    });
    own.lab.assert_no_findings();
    let began = own.lab.ago(Span::mins(10));
    own.run(10, |view| view.longest_running_seconds = Some(610.0));
    own.assert_found("ReconcileStuck");
    assert_eq!(own.lab.since("ReconcileStuck"), began);
    own.run(10, |view| view.longest_running_seconds = Some(0.0));
    own.lab.assert_no_findings();
}

/// Frameworks such as the Java Operator SDK do not say how long a reconcile has been running.
fn silent_about_running() -> Loop {
    let mut own = Loop::new();
    (own.view.longest_running_seconds, own.view.workers_max) = (None, None);
    own.run(20, |_| {});
    own
}

#[test]
fn workers_that_are_busy_while_no_reconcile_ends_are_stuck() {
    let mut own = silent_about_running();
    own.run(610, |view| view.workers_busy = Some(1));
    own.lab.assert_no_findings();
    let began = own.lab.ago(Span::mins(10));
    own.run(10, |view| view.workers_busy = Some(2)); // further ones begin
    own.assert_found("ReconcileStuck");
    assert_eq!(own.lab.since("ReconcileStuck"), began);
    // The reconcile ends, and is much longer than the others.
    own.run(10, |view| view.reconcile_seconds = Some(Durations { count: 1_006, sum: 730.0 }));
    own.lab.assert_no_findings();
}

#[test]
fn busy_workers_whose_reconciles_end_are_not_stuck() {
    let mut own = silent_about_running();
    own.run(3_000, |view| {
        view.workers_busy = Some(1);
        view.reconcile_seconds.iter_mut().for_each(|all| (all.count, all.sum) = (all.count + 1, all.sum + 9.0));
    });
    own.lab.assert_no_findings();
    // At one scrape, no worker was busy.
    own.run(300, |view| view.workers_busy = Some(1));
    own.run(10, |view| view.workers_busy = Some(0));
    own.run(580, |view| view.workers_busy = Some(1));
    own.lab.assert_no_findings();
    // Nothing shows whether reconciles end.
    own.view.reconcile_seconds = None;
    own.run(1_800, |view| view.workers_busy = Some(1));
    own.lab.assert_no_findings();
}

#[test]
fn a_controller_with_long_reconciles_has_more_time() {
    let mut own = Loop::new();
    own.view.reconcile_seconds = Some(Durations { count: 10, sum: 6_000.0 });
    own.run(10, |view| view.longest_running_seconds = Some(2_900.0));
    own.lab.assert_no_findings();
    own.run(10, |view| view.longest_running_seconds = Some(3_010.0));
    own.assert_found("ReconcileStuck");
}

#[test]
fn busy_workers_are_saturated_only_while_objects_wait() {
    let busy = |view: &mut ControllerView| (view.workers_busy, view.queue_depth) = (Some(1), Some(3));
    let mut own = Loop::new();
    own.run(900, busy);
    own.lab.assert_no_findings();
    own.run(10, busy);
    own.assert_found("WorkersSaturated");
    own.run(10, |view| view.queue_depth = Some(0));
    own.lab.assert_no_findings();
    let mut near = Loop::new();
    near.run(3_600, |view| (view.workers_busy, view.queue_depth) = (Some(1), Some(0)));
    near.lab.assert_no_findings();
    let mut turn = 0;
    near.run(3_600, |view| {
        turn += 1;
        (view.workers_busy, view.queue_depth) = (Some(u64::from(turn % 30 != 0)), Some(1));
    });
    near.lab.assert_no_findings();
}

#[test]
fn a_long_queue_is_a_backlog_unless_it_shrinks() {
    let mut own = Loop::new();
    own.run(120, |view| view.queue_depth = Some(501));
    own.lab.assert_no_findings();
    own.run(10, |view| view.queue_depth = Some(501));
    own.assert_found("QueueBacklog");
    own.run(10, |view| view.queue_depth = Some(500));
    own.lab.assert_no_findings();
    let mut start = Loop::new();
    let mut depth = 50_000;
    start.run(600, |view| {
        depth = depth * 9 / 10;
        view.queue_depth = Some(depth);
    });
    start.lab.assert_no_findings();
}

#[test]
fn a_queue_that_grows_for_an_hour_is_a_backlog_although_it_is_short() {
    let mut own = Loop::new();
    let mut turn = 0;
    own.run(4_200, |view| {
        turn += 1;
        view.queue_depth = Some(turn / 3);
    });
    own.assert_found("QueueBacklog");
    let mut wave = Loop::new();
    let mut turn = 0;
    wave.run(10_000, |view| {
        turn += 1;
        view.queue_depth = Some(if turn % 200 < 100 { turn % 200 } else { 200 - turn % 200 });
    });
    wave.lab.assert_no_findings();
}

#[test]
fn panics_are_found_at_once_and_forgotten_after_the_window() {
    let mut own = Loop::new();
    own.run(10, |view| add(&mut view.panicked, 1));
    own.assert_found("ReconcilePanicking");
    own.run(3_600, |view| add(&mut view.succeeded, 1));
    own.lab.assert_no_findings();
}

#[test]
fn short_and_long_windows_forget_little_at_once() {
    let settings = Settings { reconcile_failing_after: Span::mins(1), reconcile_errors: 5, ..Settings::default() };
    let mut own = Loop::with(settings);
    own.run(600, |view| {
        add(&mut view.failed, 1);
        add(&mut view.succeeded, 1);
    });
    own.assert_found("ReconcileErrors");
    assert_eq!(own.lab.changes().len(), 1, "it does not close and open again");

    let mut own = Loop::with(Settings { restart_window: Span::hours(24), ..Settings::default() });
    for _ in 0..200 {
        own.run(10, |view| add(&mut view.panicked, 1));
        own.run(590, |view| add(&mut view.succeeded, 1));
    }
    let summary = own.lab.finding("ReconcilePanicking").summary();
    assert!(summary.contains("panics 144") || summary.contains("panics 143"), "{summary}");
}

#[test]
fn one_stuck_worker_is_one_alert() {
    let mut own = Loop::new();
    let mut running = 0.0;
    own.run(1_000, |view| {
        running += 10.0;
        view.longest_running_seconds = Some(running);
        (view.workers_busy, view.queue_depth) = (Some(1), Some(600));
    });
    assert_eq!(own.lab.roots(), ["ReconcileStuck controller widget"]);
    assert_eq!(own.lab.findings().len(), 3, "{:?}", own.lab.findings());
}

#[test]
fn objects_that_wait_while_no_reconcile_has_begun_show_an_informer_that_does_not_sync() {
    let scrape = |lab: &mut Lab, started: Timestamp, succeeded: u64, depth: u64| {
        let controller = ControllerView {
            name: "widget".into(),
            succeeded: Some(succeeded),
            failed: Some(0),
            workers_busy: Some(0),
            queue_depth: Some(depth),
            ..ControllerView::default()
        };
        lab.scraped(MetricsView {
            instance: INSTANCE.into(),
            controllers: vec![controller],
            process: ProcessView { started: Some(started), ..ProcessView::default() },
            ..MetricsView::default()
        });
    };
    for (succeeded, depth, found) in [(0, 3, true), (0, 0, false), (1, 3, false)] {
        let mut lab = Lab::new();
        let started = lab.now;
        for _ in 0..35 {
            lab.advance(Span::secs(10));
            scrape(&mut lab, started, succeeded, depth);
        }
        lab.assert_no_findings();
        for _ in 0..2 {
            lab.advance(Span::secs(10));
            scrape(&mut lab, started, succeeded, depth);
        }
        assert_eq!(lab.has("InformerNotSynced"), found, "{succeeded} {depth}");
    }
}

#[test]
fn only_the_leader_is_judged() {
    let scrape = |lab: &mut Lab, instance: &str, leading: Option<bool>, depth: u64| {
        let controller =
            ControllerView { name: "widget".into(), queue_depth: Some(depth), ..ControllerView::default() };
        let controllers = vec![controller];
        lab.scraped(MetricsView { instance: instance.into(), controllers, leading, ..MetricsView::default() });
    };
    // (what the first and the second instance say, the holder of the lease, whether the first one counts)
    let cases = [
        (Some(true), Some(false), None, true),
        (Some(false), Some(true), None, false),
        (Some(false), Some(false), None, false),
        (None, None, Some(POD), true),
        (None, None, Some(OTHER_POD), false),
        (None, None, None, true),
    ];
    for (first, second, holder, counts) in cases {
        let mut lab = Lab::new();
        let mut op = Op::running(&lab);
        op.view.pods.push(pod(OTHER_POD, lab.ago(Span::hours(1))));
        op.seen(&mut lab);
        for _ in 0..30 {
            lab.advance(Span::secs(10));
            holder.into_iter().for_each(|holder| lab.renew(holder));
            scrape(&mut lab, INSTANCE, first, 600);
            scrape(&mut lab, OTHER, second, 0);
        }
        assert_eq!(lab.has("QueueBacklog"), counts, "{first:?} {second:?} {holder:?}: {:?}", lab.findings());
    }
}

#[test]
fn metrics_that_stop_show_nothing_any_more() {
    let mut own = Loop::new();
    own.run(200, |view| view.queue_depth = Some(600));
    own.assert_found("QueueBacklog");
    own.lab.advance(Span::mins(5));
    own.lab.assert_no_findings();
    // A state is not continued over a gap.
    own.lab.advance(Span::mins(5));
    own.run(60, |view| view.queue_depth = Some(600));
    own.lab.assert_no_findings();
}

#[test]
fn nothing_is_known_about_a_framework_without_signals() {
    let mut lab = Lab::new();
    for _ in 0..400 {
        lab.advance(Span::secs(30));
        lab.scrape(INSTANCE, ControllerView { name: "widget".into(), ..ControllerView::default() });
        lab.scraped(MetricsView { instance: OTHER.into(), ..MetricsView::default() });
    }
    lab.assert_no_findings();
}

#[test]
fn a_step_of_the_clock_changes_no_duration() {
    for by in [Span::hours(2), Span::hours(-2)] {
        let mut own = Loop::new();
        own.run(110, |view| view.queue_depth = Some(600));
        own.lab.step_clock(by);
        own.run(10, |view| view.queue_depth = Some(600));
        own.lab.assert_no_findings();
        own.run(10, |view| view.queue_depth = Some(600));
        own.assert_found("QueueBacklog");
        own.run(10, |view| add(&mut view.panicked, 1));
        own.lab.step_clock(by);
        own.run(600, |view| view.queue_depth = Some(0));
        own.assert_found("ReconcilePanicking");
    }
}

/// Scrapes requests to the API server, by status code, every ten seconds; returns the lab.
fn requests(lab: &mut Lab, seconds: i64, counts: &mut Vec<(String, u64)>, per_scrape: &[(&str, u64)]) {
    for _ in 0..seconds / 10 {
        lab.advance(Span::secs(10));
        for (code, by) in per_scrape {
            match counts.iter_mut().find(|(known, _)| known == code) {
                Some((_, count)) => *count += by,
                None => counts.push(((*code).to_owned(), *by)),
            }
        }
        let requests = counts.clone();
        lab.scraped(MetricsView { instance: INSTANCE.into(), requests, ..MetricsView::default() });
    }
}

#[test]
fn requests_that_fail_are_found_and_explain_what_began_with_them() {
    let mut lab = Lab::new();
    let mut counts = Vec::new();
    let mut old = lab.converged("old");
    let mut late = lab.converged("late");
    lab.apply(old.spec(2, lab.now));
    requests(&mut lab, 300, &mut counts, &[("200", 50), ("409", 20), ("404", 30)]);
    lab.assert_no_findings();
    requests(&mut lab, 10, &mut counts, &[("200", 10), ("<error>", 20), ("503", 20)]);
    lab.apply(late.spec(2, lab.now));
    requests(&mut lab, 600, &mut counts, &[("200", 10), ("<error>", 20), ("503", 20)]);
    assert_eq!(lab.finding("ApiErrors").severity, Severity::Critical);
    let unacknowledged = "Unacknowledged Widget team-a/old".to_owned();
    assert!(lab.findings().contains(&"Unacknowledged Widget team-a/late".to_owned()));
    assert_eq!(lab.roots(), [unacknowledged, "ApiErrors operator ops/widget-operator-7d9f8c6b5-x2x4v".to_owned()]);
    requests(&mut lab, 300, &mut counts, &[("200", 50)]);
    assert!(!lab.has("ApiErrors"));
}

#[test]
fn some_errors_are_a_warning_and_few_are_nothing() {
    let mut lab = Lab::new();
    let mut counts = Vec::new();
    requests(&mut lab, 600, &mut counts, &[("200", 60), ("429", 20), ("500", 10)]);
    assert_eq!(lab.finding("ApiErrors").severity, Severity::Warning);
    let mut lab = Lab::new();
    let mut counts = Vec::new();
    requests(&mut lab, 600, &mut counts, &[("200", 60), ("500", 5)]);
    requests(&mut lab, 10, &mut counts, &[("200", 60), ("<error>", 9)]);
    lab.assert_no_findings();
}

#[test]
fn denied_requests_are_found_with_the_permission_that_is_missing() {
    let mut lab = Lab::new();
    let missing = Permission { verb: "list".into(), group: String::new(), resource: "secrets".into() };
    lab.observe(Observation::PermissionsReviewed(PermissionsView {
        missing: vec![missing],
        ..PermissionsView::default()
    }));
    let mut counts = Vec::new();
    requests(&mut lab, 20, &mut counts, &[("200", 60)]);
    requests(&mut lab, 10, &mut counts, &[("200", 60), ("403", 30)]);
    assert!(!lab.has("ApiForbidden"), "a test of the permissions");
    requests(&mut lab, 40, &mut counts, &[("200", 60), ("403", 1)]);
    let summary = lab.finding("ApiForbidden").summary();
    assert!(summary.contains("missing list secrets"), "{summary}");
    requests(&mut lab, 310, &mut counts, &[("200", 60)]);
    assert!(!lab.has("ApiForbidden"));
}

/// Returns a lab with two Pods of the operator, of which the first leads.
fn with_leader() -> (Lab, Op) {
    let mut lab = Lab::new();
    let mut op = Op::running(&lab);
    op.view.pods.push(pod(OTHER_POD, lab.ago(Span::hours(1))));
    op.workload().replicas = 2;
    op.seen(&mut lab);
    lab.run_with_lease(POD, 10);
    lab.assert_no_findings();
    (lab, op)
}

#[test]
fn nobody_leads_although_pods_run() {
    let (mut lab, op) = with_leader();
    let renewed = lab.now;
    lab.advance(Span(299_000));
    lab.assert_no_findings();
    lab.advance(Span::secs(1));
    assert_eq!(lab.findings(), ["LeaderAbsent operator ops/widget-operator"]);
    assert_eq!(lab.since("LeaderAbsent"), renewed);
    lab.renew(OTHER_POD);
    op.seen(&mut lab);
    lab.assert_no_findings();
}

#[test]
fn a_leader_that_says_so_a_pod_that_just_started_or_an_unknown_lease_is_no_absence() {
    let (mut lab, _op) = with_leader();
    for _ in 0..60 {
        lab.advance(Span::secs(10));
        lab.scraped(MetricsView { instance: INSTANCE.into(), leading: Some(true), ..MetricsView::default() });
    }
    lab.assert_no_findings();
    let (mut lab, mut op) = with_leader();
    lab.advance(Span::mins(4));
    op.view.pods = vec![pod("widget-operator-7d9f8c6b5-new", lab.now)];
    op.seen(&mut lab);
    lab.advance(Span::mins(4));
    lab.assert_no_findings();
    let mut lab = Lab::new();
    Op::running(&lab).seen(&mut lab);
    lab.advance(Span::hours(2));
    lab.assert_no_findings();
    let (mut lab, _op) = with_leader();
    lab.observe(Observation::SourceOff { source: SourceId::Lease, reason: String::new() });
    lab.advance(Span::hours(2));
    lab.assert_no_findings();
}

#[test]
fn an_upgrade_that_gives_up_its_lease_is_only_suspected_of_having_no_leader() {
    let (mut lab, mut op) = with_leader();
    op.view.pods = vec![pod("widget-operator-6c6b5d9f8-new", lab.now)];
    op.seen(&mut lab);
    lab.advance(Span::hours(1));
    assert_eq!(lab.finding("LeaderAbsent").confidence, Confidence::Suspected);
    lab.observe(Observation::LeaseGone { namespace: "ops".into(), name: "6ab5f5a3.example.io".into() });
    lab.assert_no_findings();
}

#[test]
fn a_leader_that_keeps_changing_is_found() {
    let (mut lab, _op) = with_leader();
    for (turn, holder) in [OTHER_POD, POD, OTHER_POD].into_iter().enumerate() {
        assert!(!lab.has("LeaderFlapping"), "{turn}");
        lab.run_with_lease(holder, 5);
    }
    assert_eq!(lab.findings(), ["LeaderFlapping operator ops/widget-operator"]);
    lab.run_with_lease(OTHER_POD, 55);
    lab.assert_no_findings();
}

#[test]
fn a_leader_that_changes_by_rollouts_or_evictions_does_not_flap() {
    let (mut lab, mut op) = with_leader();
    for hash in ["a1", "b2", "c3", "d4", "e5"] {
        let name = format!("widget-operator-{hash}-xyz");
        op.view.pods.push(pod(&name, lab.now));
        op.seen(&mut lab);
        lab.run_with_lease(&name, 5);
    }
    lab.assert_no_findings();
    let (mut lab, mut op) = with_leader();
    for name in ["a", "b", "c", "d"] {
        let name = format!("widget-operator-7d9f8c6b5-{name}");
        op.view.pods = vec![pod(&name, lab.now)];
        op.seen(&mut lab);
        lab.run_with_lease(&name, 5);
    }
    lab.assert_no_findings();
    // A sidecar sees only its own Pod: it cannot tell, unless a Pod leads again.
    let (mut lab, mut op) = with_leader();
    op.view.complete = false;
    op.view.pods.truncate(1);
    op.seen(&mut lab);
    for name in ["a", "b", "c"] {
        lab.run_with_lease(&format!("widget-operator-7d9f8c6b5-{name}"), 5);
    }
    assert_eq!(lab.finding("LeaderFlapping").confidence, Confidence::Suspected);
    lab.run_with_lease("widget-operator-7d9f8c6b5-a", 5);
    assert_eq!(lab.finding("LeaderFlapping").confidence, Confidence::Confirmed);
}

#[test]
fn leases_of_other_operators_show_nothing() {
    let (mut lab, _op) = with_leader();
    for turn in 0..10 {
        let lease = LeaseView {
            namespace: "ops".into(),
            name: "other.io".into(),
            holder: format!("widget-operator-webhook-7d9f8c6b5-x{turn}_1"),
            renewed: Some(lab.now),
            written: Some(lab.now),
            ..LeaseView::default()
        };
        lab.observe(Observation::LeaseSeen(lease));
        lab.run_with_lease(POD, 2);
    }
    lab.assert_no_findings();
}

/// Returns a lab with a healthy operator, its Pod and an object.
fn with_pod() -> (Lab, Op, Widget) {
    let mut lab = Lab::new();
    let op = Op::running(&lab);
    op.seen(&mut lab);
    let widget = lab.converged("web");
    lab.converged("other");
    lab.run_with_lease(POD, 5);
    (lab, op, widget)
}

/// The container crashes, and the kubelet restarts it at once.
fn crash(lab: &mut Lab, op: &mut Op, reason: &str) {
    op.crash(lab, reason);
    op.restart(lab);
}

#[test]
fn an_object_whose_spec_change_crashes_the_operator_twice_is_named() {
    let (mut lab, mut op, mut widget) = with_pod();
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::secs(2));
    crash(&mut lab, &mut op, "Error");
    lab.advance(Span::secs(30));
    lab.assert_no_findings();
    // Others change, too, while the operator starts again.
    let mut other = Widget::new("other", lab.now);
    other.uid = 77;
    lab.apply(other.spec(2, lab.now));
    crash(&mut lab, &mut op, "Error");
    assert_eq!(lab.findings(), ["PoisonObject Widget team-a/web"]);
    assert_eq!(lab.finding("PoisonObject").confidence, Confidence::Suspected, "it acknowledges nothing at all");
    lab.advance(Span::secs(10));
    lab.apply(other.ready());
    crash(&mut lab, &mut op, "Error");
    assert_eq!(lab.finding("PoisonObject").confidence, Confidence::Confirmed);
    lab.apply(widget.ready());
    assert!(!lab.has("PoisonObject"));
}

#[test]
fn an_object_that_is_acknowledged_or_changed_is_no_suspect() {
    for acknowledged in [true, false] {
        let (mut lab, mut op, mut widget) = with_pod();
        lab.apply(widget.spec(2, lab.now));
        crash(&mut lab, &mut op, "Error");
        lab.advance(Span::secs(10));
        if acknowledged {
            lab.apply(widget.ready());
        } else {
            lab.apply(widget.spec(3, lab.now));
        }
        crash(&mut lab, &mut op, "Error");
        assert!(!lab.has("PoisonObject"), "{acknowledged}");
    }
}

#[test]
fn crashes_for_another_reason_accuse_no_object() {
    for case in ["late", "memory", "regular", "blind"] {
        let (mut lab, mut op, mut widget) = with_pod();
        lab.apply(widget.spec(2, lab.now));
        lab.advance(Span::secs(if case == "late" { 130 } else { 1 }));
        if case == "blind" {
            lab.fail();
        }
        for _ in 0..3 {
            let reason = if case == "memory" { "OOMKilled" } else { "Error" };
            op.exit_code = if case == "regular" { 0 } else { 2 };
            crash(&mut lab, &mut op, reason);
            lab.advance(Span::secs(1));
        }
        assert!(!lab.has("PoisonObject"), "{case}");
    }
}

#[test]
fn panics_after_the_change_of_one_object_name_it() {
    let mut own = Loop::new();
    let mut widget = own.lab.converged("web");
    own.run(20, |_| {});
    own.lab.apply(widget.spec(2, own.lab.now));
    own.run(10, |view| add(&mut view.panicked, 1));
    assert!(!own.lab.has("PoisonObject"));
    own.run(20, |view| add(&mut view.panicked, 1));
    let finding = own.lab.finding("PoisonObject");
    assert_eq!(finding.confidence, Confidence::Confirmed);
    assert!(finding.summary().contains("panics 3"), "{}", finding.summary());
    own.lab.delete(&widget);
    assert!(!own.lab.has("PoisonObject"));
}

/// Returns a lab with converged objects, of which the spec of the first one changes; the operator acknowledges `others`
/// changes of the rest in the next four minutes.
fn hungry(others: usize) -> (Lab, Widget) {
    let mut lab = Lab::new();
    let mut rest: Vec<Widget> = (0..others).map(|number| lab.converged(&format!("w{number}"))).collect();
    let mut hungry = lab.converged("hungry");
    lab.apply(hungry.spec(2, lab.now));
    for widget in &mut rest {
        lab.advance(Span::secs(5));
        lab.apply(widget.spec(2, lab.now));
        lab.advance(Span::secs(5));
        lab.apply(widget.ready());
    }
    (lab, hungry)
}

#[test]
fn an_object_that_waits_while_many_others_are_served_is_starved() {
    let (mut lab, mut widget) = hungry(20);
    let waited = lab.now.since(widget.spec_written);
    lab.advance(Span(Span::mins(5).0 - waited.0 - 1));
    lab.assert_no_findings();
    lab.advance(Span(1));
    assert_eq!(lab.findings(), ["Starved Widget team-a/hungry"]);
    lab.advance(Span::mins(5));
    assert_eq!(lab.roots(), ["Unacknowledged Widget team-a/hungry"], "one alert");
    lab.apply(widget.ready());
    assert!(!lab.has("Starved"));
}

#[test]
fn an_object_is_not_starved_while_few_others_are_served_or_the_operator_has_written_its_status() {
    let (mut lab, _) = hungry(19);
    lab.advance(Span::mins(6));
    assert!(!lab.has("Starved"));
    let (mut lab, mut widget) = hungry(20);
    lab.apply(widget.touch_status());
    lab.advance(Span::mins(6));
    assert!(!lab.has("Starved"));
    // One other object that changes again and again is one.
    let (mut lab, _) = hungry(0);
    let mut busy = lab.converged("busy");
    for spec in 2..40 {
        lab.apply(busy.spec(spec, lab.now));
        lab.advance(Span::secs(6));
        lab.apply(busy.ready());
    }
    lab.advance(Span::mins(3));
    assert!(!lab.has("Starved"), "{:?}", lab.findings());
}

#[test]
fn the_recovery_after_an_outage_lasts_until_the_queue_is_drained_and_objects_have_converged() {
    let mut own = Loop::new();
    let mut widget = own.lab.converged("web");
    own.run(20, |_| {});
    assert_eq!(own.lab.snapshot().operator.health.recovery, None);
    own.lab.fail();
    own.run(60, |_| {});
    own.lab.recover();
    own.lab.apply(widget.spec(2, own.lab.ago(Span::secs(30))));
    let ended = own.lab.now;
    own.run(30, |view| view.queue_depth = Some(40));
    let health = own.lab.snapshot().operator.health;
    assert_eq!((health.recovery, health.recovering_since), (None, Some(ended)));
    own.lab.apply(widget.ready());
    own.run(20, |view| view.queue_depth = Some(7));
    assert_eq!(own.lab.snapshot().operator.health.recovery, None);
    own.run(20, |view| view.queue_depth = Some(0));
    let health = own.lab.snapshot().operator.health;
    assert_eq!((health.recovery, health.recovering_since), (Some(Span::secs(60)), None));
    assert_eq!(health.up, Some(true));
    // A connection that breaks is no outage.
    own.lab.fail();
    own.lab.advance(Span::secs(5));
    own.lab.recover();
    own.run(60, |view| view.queue_depth = Some(9));
    assert_eq!(own.lab.snapshot().operator.health.recovering_since, None);
}

#[test]
fn requests_that_fail_begin_a_recovery_when_they_end() {
    let mut lab = Lab::new();
    let mut counts = Vec::new();
    requests(&mut lab, 60, &mut counts, &[("200", 50)]);
    requests(&mut lab, 120, &mut counts, &[("<error>", 20)]);
    requests(&mut lab, 60, &mut counts, &[("200", 50)]);
    let health = lab.snapshot().operator.health;
    // The operator recovers at once. `ApiErrors` is still open, because it counts within a window.
    assert!(lab.has("ApiErrors"), "{:?}", lab.findings());
    assert!(health.recovery.is_some_and(|took| took <= Span::secs(20)), "{health:?}");
    requests(&mut lab, 600, &mut counts, &[("200", 50)]);
    assert_eq!(lab.snapshot().operator.health, health, "the same fault is measured once");
}
