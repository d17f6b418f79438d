//! The findings about single objects: the fault that opens each, the recovery that closes it, and
//! near misses that must not open it.

use loopwatch_model::settings::{FindingRule, Selector, Settings};
use loopwatch_model::snapshot::{ObjectState, Outcome};
use loopwatch_model::time::Span;

use crate::lab::{Lab, Widget, unlearned};

#[test]
fn a_spec_change_that_the_operator_ignores_is_unacknowledged() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    let changed = lab.now;
    lab.apply(widget.spec(2, changed));
    lab.advance(Span(599_000));
    lab.assert_no_findings();
    lab.advance(Span::secs(1));

    assert_eq!(lab.findings(), ["Unacknowledged Widget team-a/web"]);
    assert!(lab.evidence().contains("observed generation 1"), "{}", lab.evidence());
    assert_eq!(lab.snapshot().findings[0].since, changed);

    lab.apply(widget.ready());
    lab.advance(Span::secs(30));
    lab.assert_no_findings();

    assert_eq!(lab.outcomes(Outcome::Late), 1);
    assert_eq!(
        lab.outcomes(Outcome::Converged),
        1,
        "only the creation: an obligation that is late is not counted again when it converges"
    );
}

#[test]
fn a_generation_that_only_conditions_report_shows_that_the_operator_works_through_the_changes() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    let apply = |lab: &mut Lab, widget: &Widget| {
        let mut view = widget.view(widget.spec * 10);
        view.observed_generation = None;
        view.conditions[0].observed_generation = widget.observed;
        lab.apply_view(view);
    };

    for spec in 2..12 {
        // The operator sees each spec only after the next one was written.
        widget.waiting().spec(spec, lab.now);
        apply(&mut lab, &widget);
        lab.advance(Span::mins(2));
        lab.assert_no_findings();
    }

    lab.advance(Span::mins(8));
    assert_eq!(lab.findings(), ["Unacknowledged Widget team-a/web"]);
    assert!(lab.evidence().contains("observed generation 10"), "{}", lab.evidence());
}

#[test]
fn an_acknowledged_object_that_is_never_ready_is_overdue_and_the_evidence_names_the_condition() {
    let mut lab = Lab::new();
    let mut widget = Widget::new("web", lab.now);
    lab.apply(&widget);
    lab.advance(Span::secs(2));
    lab.apply(widget.waiting());

    assert_eq!(lab.state("web"), ObjectState::Progressing);

    lab.advance(Span::mins(10));
    assert_eq!(lab.findings(), ["Overdue Widget team-a/web"]);
    assert_eq!(lab.state("web"), ObjectState::Overdue);
    assert!(lab.evidence().contains("Ready"), "{}", lab.evidence());

    lab.apply(widget.ready());
    lab.assert_no_findings();

    assert_eq!(lab.state("web"), ObjectState::Converged);
}

#[test]
fn a_deadline_for_a_kind_that_nobody_watches_is_reported() {
    let names = ["Widget", "example.io/Widget", "other.io/Widget"];
    let deadlines = names.map(|name| (name.to_owned(), Span::hours(1))).into();
    let lab = Lab::with(Settings { deadlines, ..Settings::default() });

    assert_eq!(lab.snapshot().unused_deadlines, ["Widget", "other.io/Widget"]);
}

#[test]
fn a_rule_for_a_kind_without_its_group_is_reported() {
    let names = ["Widget", "example.io/Widget", "example.io/W*", "Namespace"];
    let kinds = Selector { include: names.map(str::to_owned).to_vec(), ..Selector::default() };
    let rule = FindingRule { kinds, ..FindingRule::default() };
    let findings = [("Overdue".to_owned(), vec![rule])].into();
    let lab = Lab::with(Settings { findings, ..Settings::default() });

    assert_eq!(lab.snapshot().mistaken_rules, ["Widget"]);
}

#[test]
fn a_slow_object_is_not_overdue_before_the_configured_deadline_of_its_kind() {
    for name in ["example.io/Widget", "example.io/widget", "example.io/widgets"] {
        let deadlines =
            [(name.to_owned(), Span::hours(1)), ("other.io/Widget".to_owned(), Span::hours(9))]
                .into();
        let mut lab = Lab::with(Settings { deadlines, ..Settings::default() });
        let mut widget = Widget::new("slow", lab.now);

        lab.apply(&widget);
        lab.apply(widget.waiting());
        lab.advance(Span::mins(59));

        assert!(
            !lab.findings().iter().any(|f| f.starts_with("Overdue")),
            "{name}: {:?}",
            lab.findings()
        );

        lab.advance(Span::mins(1));
        assert!(
            lab.findings().iter().any(|f| f.starts_with("Overdue")),
            "{name}: {:?}",
            lab.findings()
        );
    }
}

#[test]
fn a_status_that_is_written_without_the_new_generation_is_status_lag() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::secs(5));
    lab.apply(widget.touch_status());
    lab.advance(Span::mins(10));

    assert_eq!(lab.findings(), ["StatusLag Widget team-a/web"]);

    lab.apply(widget.ready());
    lab.assert_no_findings();
}

#[test]
fn rejected_specs_open_no_findings() {
    let mut lab = Lab::new();
    for name in ["a", "b", "c", "d"] {
        let mut widget = Widget::new(name, lab.now);
        lab.apply(&widget);
        lab.advance(Span::secs(1));
        lab.apply(widget.failed("InvalidSpec"));
    }

    lab.advance(Span::hours(2));
    lab.assert_no_findings();

    assert_eq!(lab.state("a"), ObjectState::Failed);
    assert_eq!((lab.outcomes(Outcome::Rejected), lab.outcomes(Outcome::Late)), (4, 0));
}

#[test]
fn an_object_that_stays_unready_without_a_spec_change_has_regressed() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.waiting());
    lab.advance(Span::mins(4));
    lab.apply(widget.ready()); // a Pod restarted
    lab.advance(Span::hours(1));
    lab.assert_no_findings();

    let lost = lab.now;
    lab.apply(widget.waiting());
    lab.advance(Span::mins(5));

    assert_eq!(lab.findings(), ["Regressed Widget team-a/web"]);
    assert_eq!(lab.snapshot().findings[0].since, lost);
    assert_eq!(lab.outcomes(Outcome::Late), 0, "without a spec change there is no obligation");

    lab.apply(widget.ready());
    lab.assert_no_findings();
}

#[test]
fn an_object_that_fails_with_a_spec_that_converged_before_has_not_recovered() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(666, lab.now));
    lab.apply(widget.failed("InvalidSpec"));
    lab.advance(Span::mins(3));
    lab.assert_no_findings();
    lab.apply(widget.spec(1, lab.now)); // the user restores the old spec
    lab.apply(widget.failed("StillBroken"));

    lab.advance(Span::mins(2));
    assert_eq!(lab.findings(), ["NeverRecovered Widget team-a/web"]);

    lab.apply(widget.ready());
    lab.assert_no_findings();
}

#[test]
fn an_obligation_from_a_list_opens_when_the_spec_was_written_and_stays_out_of_histograms() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    let measured = lab.snapshot().kinds[0].totals.convergence.count();
    let written = lab.now;

    widget.spec(2, written);
    lab.advance(Span::mins(4)); // the watch was interrupted
    lab.list(&[widget.clone()]);
    lab.advance(Span::mins(6));

    assert_eq!(lab.findings(), ["Unacknowledged Widget team-a/web"]);
    assert_eq!(lab.snapshot().findings[0].since, written);

    lab.apply(widget.ready());
    lab.advance(Span::mins(1));
    lab.assert_no_findings();

    assert_eq!(lab.snapshot().kinds[0].totals.convergence.count(), measured);
}

#[test]
fn an_operator_that_writes_the_spec_does_not_end_a_regression() {
    let mut lab = Lab::new();
    let mut w = lab.converged("web");
    lab.advance(Span::hours(1));
    lab.apply(w.waiting());

    let lost = lab.now;
    lab.advance(Span::mins(6));

    assert_eq!(lab.since("Regressed"), lost);

    w.spec(2, lab.now);
    w.status_written = Some(lab.now);
    w.waiting();

    let mut view = w.view(7000);
    for m in &mut view.managers {
        m.time = Some(lab.now);
        m.name = "widget-operator".into();
    }

    lab.apply_view(view);
    lab.advance(Span::mins(1));

    assert_eq!(lab.since("Regressed"), lost, "{:?}", lab.findings());
}

#[test]
fn the_state_of_an_object_whose_status_is_about_an_earlier_spec_began_with_the_new_spec() {
    let mut lab = Lab::unsynced(unlearned());
    let mut widget = Widget::new("web", lab.ago(Span::hours(24 * 40)));
    widget.changed = Some(lab.ago(Span::hours(24 * 30)));

    let changed = lab.ago(Span::mins(5));
    widget.ready().spec(2, changed);

    let view = lab.view(&widget);
    lab.list_views(vec![view]);

    assert_eq!((lab.state("web"), lab.row("web").since), (ObjectState::Progressing, changed));
}
