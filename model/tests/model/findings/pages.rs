//! A finding about one object is a ticket. It pages if many objects have it, if it lasts, or if the
//! object is critical.

use loopwatch_model::finding::Severity::{self, Critical, Warning};
use loopwatch_model::observation::Observation;
use loopwatch_model::settings::{FindingRule, Settings};
use loopwatch_model::time::Span;

use crate::lab::loops::{Loop, fails};
use crate::lab::{Lab, Widget, namespaced, unlearned};

/// Returns settings without learning, with the usual thresholds for pages.
fn usual() -> Settings {
    let Settings { page_objects, .. } = Settings::default();
    Settings { page_objects, ..unlearned() }
}

/// Returns a lab with converged widgets, `objects` in each of the namespaces.
fn converged(namespaces: &[&str], objects: usize) -> (Lab, Vec<Widget>) {
    let mut lab = Lab::with(usual());
    let mut widgets = Vec::new();
    for namespace in namespaces {
        let names = (0..objects).map(|number| format!("{namespace}-{number}"));
        widgets.extend(names.map(|name| lab.converged_in(namespace, &name)));
    }

    lab.advance(Span::hours(1));
    (lab, widgets)
}

/// The operator ignores a change of each of these widgets, for longer than the deadline.
fn ignore<'a>(lab: &mut Lab, widgets: impl IntoIterator<Item = &'a mut Widget>) {
    for widget in widgets {
        widget.spec(2, lab.now);
        lab.apply(widget);
    }

    lab.advance(Span::mins(11));
}

/// Returns the severities of the open findings of this code.
fn severities(lab: &Lab, code: &str) -> Vec<Severity> {
    let findings = lab.snapshot().findings;
    let of_code = findings.iter().filter(|finding| finding.info().name == code);
    of_code.map(|finding| finding.severity).collect()
}

#[test]
fn one_ignored_object_is_a_ticket_and_three_in_two_namespaces_page() {
    let (mut lab, mut widgets) = converged(&["team-a", "team-b"], 10);
    ignore(&mut lab, &mut widgets[8..10]);
    assert_eq!(severities(&lab, "Unacknowledged"), [Warning; 2]);

    ignore(&mut lab, &mut widgets[10..11]);
    assert_eq!(severities(&lab, "Unacknowledged"), [Critical; 3]);
}

#[test]
fn objects_of_one_user_page_only_if_nobody_else_has_any() {
    let (mut lab, mut widgets) = converged(&["team-a", "team-b"], 10);
    ignore(&mut lab, &mut widgets[..9]);
    assert_eq!(severities(&lab, "Unacknowledged"), [Warning; 9], "of twenty");

    let (mut lab, mut widgets) = converged(&["team-a"], 20);
    ignore(&mut lab, &mut widgets[..3]);
    assert_eq!(severities(&lab, "Unacknowledged"), [Critical; 3]);
}

#[test]
fn half_of_a_kind_pages_but_not_its_only_object() {
    let (mut lab, mut widgets) = converged(&["team-a", "team-b"], 2);
    ignore(&mut lab, &mut widgets[..2]);
    assert_eq!(severities(&lab, "Unacknowledged"), [Critical; 2]);

    let (mut lab, mut widgets) = converged(&["team-a"], 1);
    ignore(&mut lab, &mut widgets);
    assert_eq!(severities(&lab, "Unacknowledged"), [Warning]);
}

#[test]
fn one_object_pages_once_the_operator_has_ignored_it_for_an_hour_after_the_deadline() {
    let (mut lab, mut widgets) = converged(&["team-a"], 10);
    ignore(&mut lab, &mut widgets[..1]);

    lab.advance(Span::mins(58));
    assert_eq!(severities(&lab, "Unacknowledged"), [Warning]);

    lab.advance(Span::mins(2));
    assert_eq!(severities(&lab, "Unacknowledged"), [Critical]);
}

#[test]
fn the_hour_goes_on_over_a_restart_of_loopwatch_and_a_step_of_the_clock() {
    let (mut lab, mut widgets) = converged(&["team-a"], 10);
    ignore(&mut lab, &mut widgets[..1]);
    lab.advance(Span::mins(30));

    let mut again = lab.restart();
    again.list(&widgets);
    again.advance(Span::mins(28));
    assert_eq!(severities(&again, "Unacknowledged"), [Warning]);

    again.advance(Span::mins(2));
    assert_eq!(severities(&again, "Unacknowledged"), [Critical]);

    lab.step_clock(Span::hours(5));
    lab.advance(Span::mins(28));
    assert_eq!(severities(&lab, "Unacknowledged"), [Warning], "the clock was set, no time passed");

    lab.advance(Span::mins(2));
    assert_eq!(severities(&lab, "Unacknowledged"), [Critical]);
}

#[test]
fn a_finding_that_pages_keeps_its_severity_until_it_closes() {
    let (mut lab, mut widgets) = converged(&["team-a"], 10);
    ignore(&mut lab, &mut widgets[..3]);
    widgets[..2].iter_mut().for_each(|widget| lab.apply(widget.ready()));
    assert_eq!(severities(&lab, "Unacknowledged"), [Critical], "its alert must not flap");

    ignore(&mut lab, &mut widgets[5..6]);
    assert_eq!(severities(&lab, "Unacknowledged"), [Critical, Warning], "a new one");
}

#[test]
fn an_object_that_is_marked_as_critical_pages_alone() {
    let (mut lab, mut widgets) = converged(&["team-a"], 10);
    widgets[0].spec(2, lab.now);
    let mut view = widgets[0].view(10_000);
    view.annotations.insert("loopwatch.dev/critical".to_owned(), "true".to_owned());
    lab.apply_view(view);
    ignore(&mut lab, &mut widgets[1..2]);

    assert_eq!(severities(&lab, "Unacknowledged"), [Critical, Warning]);
}

#[test]
fn so_do_the_objects_of_a_namespace_that_is_marked_as_critical_as_long_as_it_is() {
    for (value, expected) in [("true", Critical), ("false", Warning), ("maybe", Warning)] {
        let (mut lab, mut widgets) = converged(&["team-a", "team-b"], 10);
        lab.annotate_namespace("team-a", "critical", value);
        ignore(&mut lab, &mut widgets[..1]);
        assert_eq!(severities(&lab, "Unacknowledged"), [expected], "{value}");
        assert_eq!(lab.has("ConfigInvalid"), value == "maybe");

        lab.annotate_namespace("team-a", "critical", "true");
        assert_eq!(severities(&lab, "Unacknowledged"), [Critical], "{value}, then true");
    }
}

#[test]
fn a_rule_that_sets_the_severity_decides_alone() {
    for (severity, objects) in [(Critical, 1), (Warning, 10)] {
        let rule = FindingRule { severity: Some(severity), ..FindingRule::default() };
        let findings = [("Unacknowledged".to_owned(), vec![rule])].into();
        let (mut lab, mut widgets) = converged(&["team-a"], 10);
        lab.observe(Observation::SettingsChanged(Box::new(Settings { findings, ..usual() })));
        ignore(&mut lab, &mut widgets[..objects]);

        assert!(severities(&lab, "Unacknowledged").iter().all(|of_one| *of_one == severity));
    }
}

/// The operator acknowledges a change of each of these widgets, but does not finish it.
fn start<'a>(lab: &mut Lab, widgets: impl IntoIterator<Item = &'a mut Widget>) {
    for widget in widgets {
        lab.apply(widget.spec(2, lab.now));
        lab.apply(widget.waiting());
    }

    lab.advance(Span::mins(11));
}

#[test]
fn overdue_objects_page_only_if_most_of_the_kind_are_for_an_hour() {
    let (mut lab, mut widgets) = converged(&["team-a", "team-b"], 10);
    start(&mut lab, &mut widgets[5..14]);
    lab.advance(Span::mins(30));
    start(&mut lab, &mut widgets[14..15]);
    lab.advance(Span::mins(58));
    assert_eq!(severities(&lab, "Overdue"), [Warning; 10], "nine have lasted");

    lab.advance(Span::mins(2));
    assert_eq!(severities(&lab, "Overdue"), [Critical; 10], "ten of twenty");

    start(&mut lab, &mut widgets[15..16]);
    assert_eq!(severities(&lab, "Overdue").iter().filter(|one| **one == Critical).count(), 10);

    widgets[5..14].iter_mut().for_each(|widget| lab.apply(widget.ready()));
    lab.advance(Span::mins(60));
    assert_eq!(
        severities(&lab, "Overdue"),
        [Critical, Warning],
        "the page goes on until it closes"
    );
}

#[test]
fn overdue_objects_of_one_user_and_a_few_new_ones_page_nobody() {
    let (mut lab, mut widgets) = converged(&["team-a", "team-b"], 10);
    lab.advance(Span::mins(1));
    start(&mut lab, &mut widgets[..10]);
    lab.advance(Span::hours(5));
    assert_eq!(severities(&lab, "Overdue"), [Warning; 10], "another user has objects, too");

    let (mut lab, mut widgets) = converged(&["team-a"], 2);
    start(&mut lab, &mut widgets);
    lab.advance(Span::hours(5));
    assert_eq!(severities(&lab, "Overdue"), [Warning; 2], "fewer than three");
}

#[test]
fn a_rule_keeps_overdue_objects_from_paging() {
    let rule = FindingRule { severity: Some(Warning), ..FindingRule::default() };
    let findings = [("Overdue".to_owned(), vec![rule])].into();
    let (mut lab, mut widgets) = converged(&["team-a"], 4);
    lab.observe(Observation::SettingsChanged(Box::new(Settings { findings, ..usual() })));
    start(&mut lab, &mut widgets);
    lab.advance(Span::hours(5));
    assert_eq!(severities(&lab, "Overdue"), [Warning; 4]);
}

#[test]
fn many_objects_that_one_cause_explains_let_the_cause_page_and_one_object_does_not() {
    for (objects, expected) in [(1, Warning), (3, Critical)] {
        let mut own = Loop::with(usual());
        let names = (0..10).map(|number| format!("web-{number}"));
        let mut widgets: Vec<Widget> = names.map(|name| own.lab.converged(&name)).collect();
        own.run(360, fails);
        for widget in &mut widgets[..objects] {
            let now = own.lab.now;
            own.lab.apply(widget.spec(2, now));
        }

        own.run(1_000, fails);
        assert_eq!(own.lab.alerting(), [("ReconcileFailing".to_owned(), expected)], "{objects}");
    }
}

#[test]
fn tickets_of_one_user_stay_tickets_while_the_other_namespaces_are_not_listed_again() {
    // A watch for each namespace, as an operator without permissions for the cluster has them.
    let kinds = ["team-a", "team-b"].map(namespaced);
    let watches = kinds.clone().map(|kind| kind.watch);
    let mut lab = Lab::unsynced(usual());
    lab.discover(&kinds);
    watches.iter().for_each(|watch| lab.list_in(watch, Vec::new()));

    let mut widgets: [Vec<Widget>; 2] = [Vec::new(), Vec::new()];
    for (n, namespace) in ["team-a", "team-b"].into_iter().enumerate() {
        for number in 0..10 {
            let mut widget = Widget::new(&format!("{namespace}-{number}"), lab.now);
            widget.namespace = namespace.to_owned();
            let (new, ready) = (lab.view(&widget), lab.view(widget.ready()));
            lab.apply_to(&watches[n], new);
            lab.apply_to(&watches[n], ready);
            widgets[n].push(widget);
        }
    }

    lab.advance(Span::hours(1));
    for widget in &mut widgets[0][..3] {
        let view = lab.view(widget.spec(2, lab.now));
        lab.apply_to(&watches[0], view);
    }
    lab.advance(Span::mins(11));
    assert_eq!(severities(&lab, "Unacknowledged"), [Warning; 3], "of one of two users");

    let mut again = lab.restart();
    again.discover(&kinds);
    for (watch, widgets) in watches.iter().zip(&widgets) {
        let views = widgets.iter().map(|widget| again.view(widget)).collect();
        again.list_in(watch, views);
        again.advance(Span::secs(20));
    }
    assert_eq!(severities(&again, "Unacknowledged"), [Warning; 3], "a restart changes nothing");
}

#[test]
fn no_ticket_becomes_a_page_while_loopwatch_does_not_see_its_object() {
    let (mut lab, mut widgets) = converged(&["team-a"], 10);
    ignore(&mut lab, &mut widgets[..1]);
    lab.advance(Span::mins(9));
    lab.fail();
    lab.advance_by_minutes(60);

    // The operator acknowledged the change while the watch was down.
    assert_eq!(severities(&lab, "Unacknowledged"), [Warning], "nobody can know that it lasts");

    lab.recover();
    lab.apply(widgets[0].ready());
    assert_eq!(severities(&lab, "Unacknowledged"), []);
}

#[test]
fn each_object_pages_alone_if_one_is_enough() {
    let (mut lab, mut widgets) = converged(&["team-a", "team-b"], 10);
    lab.configure(Settings { page_objects: 1, ..usual() });
    ignore(&mut lab, &mut widgets[..1]);
    assert_eq!(severities(&lab, "Unacknowledged"), [Critical]);
}

#[test]
fn objects_that_are_marked_as_critical_count_among_the_many() {
    let (mut lab, mut widgets) = converged(&["team-a", "team-b"], 10);
    lab.annotate_namespace("team-b", "critical", "true");
    ignore(&mut lab, &mut widgets[8..12]);
    assert_eq!(severities(&lab, "Unacknowledged"), [Critical; 4], "four, in two namespaces");
}
