//! Operators that send writes that change nothing: the fault, its healthy twins, and near misses.

use loopwatch_model::finding::{Confidence, Finding, FindingCode};
use loopwatch_model::observation::{
    Framework, MetricsView, Observation, Permission, PermissionsView,
};
use loopwatch_model::settings::Settings;
use loopwatch_model::time::{Span, Timestamp};

use crate::lab::pods::INSTANCE;
use crate::lab::{GROUP, Lab, Widget, namespaced, unlearned};

/// An operator of one object, which has converged.
struct Operator {
    lab: Lab,
    widget: Widget,
    puts: u64,
    posts: u64,
    started: Option<Timestamp>,
    counts_writes: bool,
}

impl Operator {
    /// Returns an operator that may update `widgets` and these resources.
    fn new(others: &[(&str, &str)]) -> Self {
        Self::with(others, unlearned())
    }

    fn with(others: &[(&str, &str)], settings: Settings) -> Self {
        let mut lab = Lab::with(settings);
        let widget = lab.converged("web");
        let permission = |verb: &str, group: &str, resource: &str| Permission {
            verb: verb.into(),
            group: group.into(),
            resource: resource.into(),
        };
        let own = [("update", GROUP, "widgets/status"), ("patch", "coordination.k8s.io", "leases")];
        let others = others.iter().map(|(group, resource)| ("update", *group, *resource));
        let granted = own.into_iter().chain(others).map(|(v, g, r)| permission(v, g, r)).collect();
        lab.observe(Observation::PermissionsReviewed(PermissionsView {
            granted,
            ..Default::default()
        }));

        let mut new = Self { lab, widget, puts: 500, posts: 9, started: None, counts_writes: true };
        new.run(8, 0);
        new
    }

    /// Runs for some scrapes, which are fifteen seconds apart, with as many writes before each.
    fn run(&mut self, scrapes: u32, puts: u64) {
        self.run_and(scrapes, puts, 0);
    }

    /// The same, with changes of the object between the scrapes.
    fn run_and(&mut self, scrapes: u32, puts: u64, changes: u32) {
        for _ in 0..scrapes {
            self.lab.advance(Span::secs(15));
            for _ in 0..changes {
                let view = self.lab.view(self.widget.touch_status());
                self.lab.apply_view(view);
            }
            self.puts += puts;
            self.scrape();
        }
    }

    fn scrape(&mut self) {
        let writes = vec![("POST".to_owned(), self.posts), ("PUT".to_owned(), self.puts)];
        let mut view = MetricsView {
            instance: INSTANCE.into(),
            framework: Framework::ControllerRuntime,
            requests: vec![("200".to_owned(), self.puts + self.posts)],
            writes: if self.counts_writes { writes } else { Vec::new() },
            ..MetricsView::default()
        };
        view.process.started = self.started;
        self.lab.scraped(view);
    }

    fn found(&self) -> Option<Finding> {
        let findings = self.lab.snapshot().findings;
        findings.into_iter().find(|finding| finding.code == FindingCode::UnchangedWrites)
    }
}

/// Ten writes per second.
const MANY: u64 = 150;

#[test]
fn an_operator_whose_writes_change_nothing_is_found() {
    let mut operator = Operator::new(&[]);
    let began = operator.lab.now;
    operator.run(20, MANY);
    assert_eq!(operator.found(), None, "five minutes have not passed");
    operator.run(8, MANY);

    let found = operator.found().expect("a finding");
    assert_eq!(found.confidence, Confidence::Confirmed);
    assert!(found.since.since(began) <= Span::mins(2), "{}", found.since);
    let summary = found.summary();
    assert!(summary.contains("writes per second 8"), "{summary}");
    assert!(!summary.contains("unwatched"), "{summary}");

    operator.run(12, 0);
    assert_eq!(operator.found(), None);
}

#[test]
fn writes_that_may_concern_other_kinds_are_only_suspected() {
    for others in [[("", "configmaps")], [("*", "*")]] {
        let mut operator = Operator::new(&others);
        operator.run(30, MANY);

        let found = operator.found().expect("a finding");
        assert_eq!(found.confidence, Confidence::Suspected, "{others:?}");
        assert!(found.summary().contains("unwatched"), "{}", found.summary());
    }

    let mut unknown = Operator::new(&[]);
    unknown.lab.observe(Observation::PermissionsReviewed(PermissionsView {
        incomplete: true,
        ..Default::default()
    }));
    unknown.run(30, MANY);
    assert_eq!(unknown.found().map(|it| it.confidence), Some(Confidence::Suspected));
}

#[test]
fn writes_that_may_concern_other_namespaces_are_only_suspected() {
    let mut operator = Operator::new(&[]);
    operator.lab.discover(&[namespaced("team-a")]);
    let mut view = vec![operator.lab.view(&operator.widget)];
    operator.lab.list_in(&namespaced("team-a").watch, std::mem::take(&mut view));
    operator.run(40, MANY);
    assert_eq!(operator.found().map(|it| it.confidence), Some(Confidence::Suspected));
}

#[test]
fn writes_that_change_objects_and_those_of_leases_are_no_fault() {
    let mut busy = Operator::new(&[]);
    busy.run_and(40, MANY, 150);
    assert_eq!(busy.found(), None, "each write changes the object");

    let mut leader = Operator::new(&[]);
    leader.run(40, 75);
    assert_eq!(leader.found(), None, "five writes per second, two of them for leases");

    let mut burst = Operator::new(&[]);
    for _ in 0..4 {
        burst.run(8, MANY);
        burst.run(12, 0);
    }
    assert!(!burst.lab.changes().iter().any(|change| change.contains("UnchangedWrites")));
}

#[test]
fn without_counts_by_method_nothing_is_known() {
    let mut operator = Operator::new(&[]);
    operator.counts_writes = false;
    operator.run(40, MANY);
    assert_eq!(operator.found(), None);
}

#[test]
fn a_new_process_counts_anew_and_a_blind_watch_changes_nothing() {
    let mut operator = Operator::new(&[]);
    operator.run(16, MANY);
    operator.started = Some(operator.lab.now);
    operator.run(2, 40_000);
    operator.run(20, 0);
    assert_eq!(operator.found(), None);

    operator.lab.fail();
    operator.run(40, MANY);
    assert_eq!(operator.found(), None, "changes are invisible");
    operator.lab.recover();
    operator.run(30, MANY);
    assert!(operator.found().is_some());
    operator.lab.fail();
    operator.run(20, 0);
    assert!(operator.found().is_some());
}

#[test]
fn the_finding_follows_steps_of_the_clock() {
    let mut operator = Operator::new(&[]);
    operator.run(30, MANY);
    operator.lab.changes();
    operator.lab.step_clock(Span::hours(2));
    operator.run(4, MANY);
    assert!(!operator.lab.changes().iter().any(|change| change.contains("UnchangedWrites")));
    assert!(operator.found().is_some());
}

#[test]
fn the_thresholds_are_settings() {
    let mut operator = Operator::with(&[], Settings { silent_loop_rate: 20, ..unlearned() });
    operator.run(60, MANY);
    assert_eq!(operator.found(), None);
}
