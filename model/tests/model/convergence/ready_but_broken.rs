//! Objects that say Ready although a workload that they own has no Pod that works: the fault, its
//! healthy twins, and near misses.

use loopwatch_model::finding::{Confidence, Finding};
use loopwatch_model::observation::ConditionStatus::{False, True};
use loopwatch_model::observation::{
    Condition, ObjectKey, ObjectView, Pause, Role, WatchId, WatchedKind,
};
use loopwatch_model::settings::Settings;
use loopwatch_model::time::{Span, Timestamp};

use crate::lab::pods::Op;
use crate::lab::{
    Lab, START, Widget, child, child_of, condition, count, deployment, deployments, kind, spec_by,
    status_by, text, unlearned,
};

const CODE: &str = "ReadyButBroken";

/// A widget that says Ready, and its workloads.
struct Shop {
    lab: Lab,
    widget: Widget,
}

fn stateful_sets() -> WatchedKind {
    child("apps", "StatefulSet")
}

fn daemon_sets() -> WatchedKind {
    child("apps", "DaemonSet")
}

fn pods() -> WatchedKind {
    child("", "Pod")
}

fn kinds() -> [WatchedKind; 5] {
    [kind(), deployments(), stateful_sets(), daemon_sets(), pods()]
}

/// A lab with empty lists of all workloads.
fn lab() -> Lab {
    let mut lab = Lab::new();
    lab.discover(&kinds());
    for kind in &kinds()[1..] {
        lab.list_in(&kind.watch, Vec::new());
    }

    lab
}

impl Shop {
    /// Returns a shop that has been open for an hour.
    fn open() -> Self {
        let mut lab = lab();
        let widget = lab.converged("shop");
        let mut shop = Self { lab, widget };
        shop.see(web(3));
        shop.lab.advance(Span::hours(1));
        shop.lab.assert_no_findings();

        shop
    }

    /// Returns a shop whose only workload has just been created.
    fn new() -> Self {
        let mut lab = lab();
        let widget = lab.converged("shop");
        Self { lab, widget }
    }

    fn see(&mut self, view: ObjectView) {
        self.see_in(&deployments().watch, view);
    }

    fn see_in(&mut self, watch: &WatchId, view: ObjectView) {
        let view = self.lab.versioned(view);
        self.lab.apply_to(watch, view);
    }

    fn wait(&mut self, span: Span) {
        self.lab.advance(span);
    }

    fn found(&self) -> Option<Finding> {
        self.lab.snapshot().findings.into_iter().find(|finding| finding.code.name() == CODE)
    }

    fn confidence(&self) -> Option<Confidence> {
        self.found().map(|finding| finding.confidence)
    }
}

/// The Deployment of the shop, created at the start, with this many of three replicas available.
fn web(available: i64) -> ObjectView {
    named("web", available)
}

fn named(name: &str, available: i64) -> ObjectView {
    ObjectView { created: Some(START), ..deployment("shop", name, 3, available) }
}

/// The next spec of a Deployment.
fn changed(view: ObjectView, at: Timestamp) -> ObjectView {
    let mut view = ObjectView { generation: 2, observed_generation: Some(2), ..view };
    view.hashes.spec = 2;
    view.managers = vec![spec_by("widget-operator", at)];
    view
}

/// A StatefulSet whose controller wrote its status at this time.
fn stateful_set(ready: i64, written: Timestamp) -> ObjectView {
    ObjectView {
        conditions: Vec::new(),
        managers: vec![status_by("kube-controller-manager", written)],
        ..named("db", ready)
    }
}

/// A Pod with a container that waits, or one that is ready.
fn pod(name: &str, waits: Option<&str>) -> ObjectView {
    let ready = if waits.is_some() { False } else { True };
    let path = "status.containerStatuses[0].state.waiting.reason";
    let waiting = waits.map(|reason| text(path, reason));
    ObjectView {
        facts: [text("status.phase", "Running")].into_iter().chain(waiting).collect(),
        conditions: vec![condition("Ready", ready, "")],
        ..named(name, 0)
    }
}

#[test]
fn an_object_that_says_ready_without_a_ready_pod_is_found() {
    let mut shop = Shop::open();
    let broke = shop.lab.now;
    shop.see(web(0));
    shop.wait(Span::secs(299));
    assert_eq!(shop.found(), None, "the Pods may be moving to other nodes");

    shop.wait(Span::secs(1));
    let found = shop.found().expect("a finding");
    assert_eq!((found.confidence, found.since), (Confidence::Confirmed, broke));
    assert_eq!(found.subject.to_string(), "Widget team-a/shop");
    assert!(shop.lab.alerts(CODE));
    let summary = found.summary();
    let names = "Deployment team-a/web: status.readyReplicas=0 of spec.replicas=3";
    assert!(summary.contains(names) && summary.contains("says Ready=True"), "{summary}");

    shop.see(web(1));
    shop.wait(Span::secs(59));
    assert!(shop.found().is_some(), "it may crash again");
    shop.wait(Span::secs(1));
    shop.lab.assert_no_findings();
}

#[test]
fn a_workload_that_never_had_a_ready_pod_is_found_as_soon() {
    let mut shop = Shop::new();
    let mut view = ObjectView { created: Some(shop.lab.now), ..web(0) };
    view.observed_generation = None;
    view.status = Default::default();
    shop.see(view.clone());
    shop.wait(Span::hours(1));
    shop.lab.assert_no_findings(); // its controller has not written a status

    shop.see(ObjectView { created: view.created, ..web(0) });
    shop.wait(Span::mins(5));
    assert_eq!(shop.confidence(), Some(Confidence::Confirmed));
}

#[test]
fn a_failed_rollout_is_found_although_old_pods_work() {
    let mut shop = Shop::open();
    let now = shop.lab.now;
    let mut view = changed(web(3), now);
    view.conditions = vec![condition("Progressing", False, "ProgressDeadlineExceeded")];
    shop.see(view);
    shop.wait(Span::mins(10));
    let found = shop.found().expect("a finding");
    assert!(found.summary().contains("ProgressDeadlineExceeded"), "{}", found.summary());
}

#[test]
fn stateful_sets_daemon_sets_and_single_pods_are_found_too() {
    let daemons = |ready| ObjectView {
        facts: vec![
            count("status.desiredNumberScheduled", 4),
            count("status.currentNumberScheduled", 4),
            count("status.numberReady", ready),
        ],
        conditions: Vec::new(),
        ..named("agent", 0)
    };
    let broken = [
        (stateful_sets(), stateful_set(0, START)),
        (daemon_sets(), daemons(0)),
        (pods(), pod("one", Some("ImagePullBackOff"))),
    ];
    for (kind, view) in broken {
        let mut shop = Shop::new();
        shop.see_in(&kind.watch, view.clone());
        shop.wait(Span::mins(5));
        assert_eq!(shop.confidence(), Some(Confidence::Confirmed), "{}", kind.kind);
    }

    let works = [
        (stateful_sets(), stateful_set(1, START)),
        (daemon_sets(), daemons(1)),
        (pods(), pod("one", None)),
        (pods(), pod("one", Some("ContainerCreating"))),
    ];
    for (kind, view) in works {
        let mut shop = Shop::new();
        shop.see_in(&kind.watch, view.clone());
        shop.wait(Span::hours(1));
        assert_eq!(shop.found(), None, "{}", kind.kind);
    }

    let mut shop = Shop::new();
    shop.see_in(&pods().watch, pod("one", Some("CrashLoopBackOff")));
    shop.see_in(&pods().watch, pod("two", None));
    shop.wait(Span::hours(1));
    assert_eq!(shop.found(), None, "another Pod works");
}

#[test]
fn a_crash_loop_that_is_ready_for_moments_is_one_problem() {
    let mut shop = Shop::open();
    let broke = shop.lab.now;
    for _ in 0..12 {
        shop.see(web(0));
        shop.wait(Span::secs(40));
        shop.see(web(1));
        shop.wait(Span::secs(20));
    }

    shop.see(web(0));
    assert_eq!(shop.found().map(|found| found.since), Some(broke));
}

#[test]
fn a_finding_does_not_open_in_the_moment_in_which_the_workload_serves_again() {
    let mut shop = Shop::open();
    shop.see(web(0));
    shop.wait(Span::secs(280));
    shop.see(web(3));
    shop.wait(Span::hours(1));
    assert!(!shop.lab.changes().iter().any(|change| change.contains(CODE)));
}

#[test]
fn workloads_that_are_short_idle_paused_or_on_their_way_are_no_problem() {
    let scaled = ObjectView { created: Some(START), ..deployment("shop", "web", 0, 0) };
    let mut paused = web(0);
    paused.paused = Some(Pause { by: "spec.paused".into() });
    let deleted = ObjectView { deleted: Some(START.after(Span::hours(2))), ..web(0) };
    let unseen = ObjectView { generation: 2, ..web(0) };
    let metadata = ObjectView { created: Some(START), generation: 3, ..child_of("shop", "web") };
    let orphan = ObjectView { owners: Vec::new(), ..web(0) };
    let uncounted = ObjectView { facts: Vec::new(), ..web(0) };
    let mut of_another = web(0);
    of_another.owners[0].uid = "somebody else".into();

    for view in [web(1), scaled, paused, deleted, unseen, metadata, uncounted, orphan, of_another] {
        let mut shop = Shop::open();
        shop.see(view.clone());
        shop.wait(Span::hours(3));
        assert_eq!(shop.found(), None, "{view:?}");
    }
}

#[test]
fn a_rollout_has_the_deadline_and_no_more_than_three() {
    let mut shop = Shop::open();
    let now = shop.lab.now;
    shop.see(changed(web(0), now));
    shop.wait(Span::secs(599));
    assert_eq!(shop.found(), None, "the rollout goes on");
    shop.wait(Span::secs(1));
    assert!(shop.found().is_some());

    let mut shop = Shop::open();
    for minute in 0..30 {
        assert_eq!(shop.found(), None, "after {minute} minutes");
        let now = shop.lab.now;
        let mut view = changed(web(0), now);
        view.hashes.spec = 100 + minute;
        view.hashes.settled = 100 + minute;
        shop.see(view);
        shop.wait(Span::mins(1));
    }
    assert!(shop.found().is_some(), "somebody changes the spec again and again");
}

#[test]
fn objects_that_do_not_claim_that_something_runs_are_no_problem() {
    let says = |change: &dyn Fn(&mut Widget)| {
        let mut shop = Shop::open();
        shop.widget.conditions.clear();
        change(&mut shop.widget);
        let widget = shop.widget.clone();
        shop.lab.apply(&widget);
        shop.wait(Span::hours(1));
        shop.see(web(0));
        shop.wait(Span::hours(1));
        shop.found().is_some()
    };

    assert!(says(&|widget| _ = widget.condition("Available", True, "")));
    assert!(says(&|widget| _ = widget.phase("Running")));
    for condition in ["Accepted", "Synced", "Programmed"] {
        assert!(!says(&|widget| _ = widget.condition(condition, True, "")), "{condition}");
    }
    assert!(!says(&|widget| _ = widget.phase("Deployed")));
    assert!(!says(&|widget| _ = widget.waiting()), "Regressed speaks");
    assert!(!says(&|widget| {
        widget.ready();
        widget.paused = true;
    }));
    assert!(!says(&|widget| {
        widget.ready();
        widget.deleted = Some(START);
    }));
}

#[test]
fn the_finding_waits_while_the_spec_is_new_and_closes_when_the_status_changes() {
    let mut shop = Shop::open();
    shop.see(web(0));
    shop.wait(Span::mins(4));
    let now = shop.lab.now;
    shop.lab.apply(shop.widget.spec(2, now));
    shop.lab.apply(shop.widget.ready());
    shop.wait(Span::mins(4));
    assert_eq!(shop.found(), None, "the operator may be at work on the new spec");
    shop.wait(Span::mins(1));
    assert!(shop.found().is_some());

    shop.lab.apply(shop.widget.waiting());
    assert_eq!(shop.found(), None, "the operator has noticed");
}

#[test]
fn a_workload_that_its_users_may_tolerate_is_only_suspected() {
    let suspected = |play: &dyn Fn(&mut Shop)| {
        let mut shop = Shop::open();
        play(&mut shop);
        shop.wait(Span::hours(1));
        shop.confidence()
    };
    let later = Some(START.after(Span::mins(30)));

    // An optional part, or a preview, that never worked beside one that does.
    let optional =
        suspected(&|shop| shop.see(ObjectView { created: later, ..named("exporter", 0) }));
    assert_eq!(optional, Some(Confidence::Suspected));

    // An old version that is left behind.
    let left = suspected(&|shop| {
        shop.see(ObjectView { created: later, ..named("web-2", 3) });
        shop.see(web(0));
    });
    assert_eq!(left, Some(Confidence::Suspected));

    // An owner that is not the managing controller.
    let unmanaged = suspected(&|shop| {
        let mut view = web(0);
        view.owners[0].controller = false;
        shop.see(view);
    });
    assert_eq!(unmanaged, Some(Confidence::Suspected));

    // One of two owners, of which none manages the workload.
    let mut shop = Shop::open();
    let mut view = web(0);
    view.owners[0].controller = false;
    view.owners.push(view.owners[0].clone());
    view.owners[1].uid = "another".into();
    shop.see(view);
    shop.wait(Span::hours(1));
    assert_eq!(shop.found(), None);
}

#[test]
fn a_part_that_worked_and_broke_is_confirmed_beside_others_that_work() {
    let mut shop = Shop::open();
    shop.see(named("api", 3));
    shop.wait(Span::mins(1));
    for available in [2, 1, 0] {
        shop.see(named("api", available));
    }
    shop.wait(Span::mins(5));
    assert_eq!(shop.confidence(), Some(Confidence::Confirmed));
}

/// Returns a shop that loopwatch lists `after` its start.
fn listed(after: Span, of: &WatchedKind, view: ObjectView) -> Shop {
    let mut lab = Lab::unsynced(unlearned());
    lab.now = START.after(after);
    lab.discover(&kinds());
    let mut widget = Widget::new("shop", START);
    widget.ready();
    widget.changed = Some(START);
    widget.status_written = Some(START);
    for kind in &kinds()[1..] {
        let views = if kind.watch == of.watch { vec![view.clone()] } else { Vec::new() };
        lab.list_in(&kind.watch, views);
    }
    lab.list(&[widget.clone()]);

    Shop { lab, widget }
}

#[test]
fn a_list_shows_for_how_long_a_workload_has_been_broken() {
    let broke = START.after(Span::mins(30));
    let unavailable = Condition {
        changed: Some(broke),
        ..condition("Available", False, "MinimumReplicasUnavailable")
    };
    let view = ObjectView { conditions: vec![unavailable], ..web(0) };
    let shop = listed(Span::hours(1), &deployments(), view.clone());
    assert_eq!(shop.found().map(|found| found.since), Some(broke));
    assert_eq!(shop.confidence(), Some(Confidence::Confirmed));

    let shop = listed(Span::hours(1), &stateful_sets(), stateful_set(0, broke));
    assert_eq!(shop.found().map(|found| found.since), Some(broke));

    // Nothing shows since when, so the time counts from now.
    let mut shop = listed(Span::hours(1), &deployments(), web(0));
    assert_eq!(shop.found(), None);
    shop.wait(Span::mins(5));
    assert!(shop.found().is_some());

    // It has been like that for days.
    let shop = listed(Span::hours(72), &deployments(), view);
    assert_eq!(shop.confidence(), Some(Confidence::Suspected));
}

#[test]
fn while_the_watch_of_the_workload_is_blind_the_finding_neither_opens_nor_closes() {
    let mut shop = Shop::open();
    shop.see(web(0));
    shop.wait(Span::mins(4));
    shop.lab.fail_watch(&deployments().watch);
    shop.wait(Span::mins(20));
    assert_eq!(shop.found(), None);
    shop.lab.recover_watch(&deployments().watch);
    shop.wait(Span::mins(2));
    assert!(shop.found().is_some());

    shop.lab.fail_watch(&deployments().watch);
    shop.wait(Span::mins(20));
    assert!(shop.found().is_some());
    shop.lab.recover_watch(&deployments().watch);
    shop.lab.list_in(&deployments().watch, vec![]);
    assert_eq!(shop.found(), None, "the Deployment is gone");
}

#[test]
fn a_restart_finds_the_problem_again_with_the_same_start() {
    let mut shop = Shop::open();
    let broke = shop.lab.now;
    let unavailable = Condition { changed: Some(broke), ..condition("Available", False, "") };
    let view = ObjectView { conditions: vec![unavailable], ..web(0) };
    shop.see(view.clone());
    shop.wait(Span::mins(30));
    assert_eq!(shop.lab.since(CODE), broke);

    for order in [[0, 1], [1, 0]] {
        let mut again = shop.lab.restart();
        again.discover(&kinds());
        for place in order {
            match place {
                0 => again.list(std::slice::from_ref(&shop.widget)),
                _ => again.list_in(&deployments().watch, vec![view.clone()]),
            }
        }
        assert_eq!(again.since(CODE), broke);
    }
}

#[test]
fn a_step_of_the_clock_changes_nothing() {
    for step in [Span::hours(3), Span::hours(-3)] {
        let mut shop = Shop::open();
        shop.see(web(0));
        shop.wait(Span::mins(4));
        shop.lab.step_clock(step);
        assert_eq!(shop.found(), None);
        shop.wait(Span::mins(1));
        assert!(shop.found().is_some());
        shop.see(web(3));
        shop.lab.step_clock(step);
        shop.wait(Span::mins(1));
        assert_eq!(shop.found(), None);
    }
}

#[test]
fn while_the_operator_is_gone_nothing_opens() {
    let (mut lab, mut op) = Op::with_lab();
    lab.discover(&kinds());
    for kind in &kinds()[1..] {
        lab.list_in(&kind.watch, Vec::new());
    }
    let mut view = lab.versioned(deployment("web", "web", 3, 3));
    lab.apply_to(&deployments().watch, view.clone());
    op.crash_loop(&mut lab, 6, "Error");
    view = ObjectView { facts: deployment("web", "web", 3, 0).facts, ..lab.versioned(view) };
    view.hashes.settled = 99;
    lab.apply_to(&deployments().watch, view);
    lab.advance(Span::mins(20));
    assert!(lab.roots().iter().all(|finding| !finding.contains(CODE)), "{:?}", lab.findings());
}

#[test]
fn the_owner_may_appear_after_its_workload() {
    let mut lab = lab();
    let view = lab.versioned(web(0));
    lab.apply_to(&deployments().watch, view);
    lab.advance(Span::mins(20));
    lab.assert_no_findings();
    lab.converged("shop");
    lab.advance(Span::mins(5));
    assert!(lab.has(CODE));
}

#[test]
fn the_threshold_is_a_setting() {
    let mut shop = Shop::open();
    shop.lab.configure(Settings { broken_after: Span::mins(1), ..unlearned() });
    shop.see(web(0));
    shop.wait(Span::mins(1));
    assert!(shop.found().is_some());
}

#[test]
fn one_namespace_with_many_broken_workloads_hides_no_other() {
    let mut shop = Shop::open();
    shop.see(web(0));
    for number in 0..2_100 {
        let mut view = named(&format!("web-{number}"), 0);
        view.key = ObjectKey { namespace: "noisy".into(), ..view.key };
        view.owners[0].uid = "another".into();
        shop.see(view);
    }
    shop.wait(Span::mins(5));
    assert!(shop.found().is_some());
    assert!(shop.lab.dropped("broken_workloads") > 0);
}

#[test]
fn an_object_of_kubernetes_itself_is_no_owner() {
    // In a dump, every kind is a primary kind.
    let nodes = WatchedKind { role: Role::Primary, filtered: false, ..child("", "Node") };
    let mut lab = lab();
    lab.discover(&[kind(), nodes.clone(), pods()]);
    let mut node = Widget::new("shop", START);
    let view = lab.view(node.ready());
    lab.list_in(&nodes.watch, vec![view]);
    lab.list_in(&pods().watch, vec![pod("kube-proxy", Some("CrashLoopBackOff"))]);
    lab.advance(Span::hours(1));
    assert!(!lab.has(CODE));
}
