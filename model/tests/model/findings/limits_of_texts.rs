//! Limits of texts: phases, conditions and finalizers.

use loopwatch_model::observation::ConditionStatus::{False, True};
use loopwatch_model::observation::*;
use loopwatch_model::settings::{Limits, Settings};
use loopwatch_model::time::Span;

use crate::lab::{Lab, Widget, kind, other_kind};

/// The number of texts, condition sets and finalizer sets that a model holds at most.
const MANY: u64 = 50_010;

#[test]
fn a_kind_with_free_text_in_its_phase_does_not_blind_other_kinds() {
    let mut lab = Lab::new();
    let sync = other_kind("Sync");
    lab.discover(&[kind(), sync.clone()]);

    let mut widget = Widget::new("sync", lab.now);
    for rows in 0..MANY {
        let view = lab.view(widget.phase(&format!("synced {rows} rows")));
        lab.apply_to(&sync.watch, view);
    }

    lab.advance(Span::hours(1));
    let mut widget = Widget::new("web", lab.now);
    lab.apply(&widget);
    lab.apply(widget.observe().phase("Provisioning"));
    lab.advance(Span::hours(2));

    let found = lab.findings();
    assert!(
        found.contains(&"PhaseStuck Widget team-a/web".to_owned()),
        "{found:?}, {:?}",
        lab.snapshot().dropped
    );
}

#[test]
fn condition_types_with_free_text_do_not_hide_a_flapping_condition() {
    let mut lab = Lab::new();
    let check = other_kind("Check");
    lab.discover(&[kind(), check.clone()]);

    for number in 0..MANY {
        let mut widget = Widget::new("check", lab.now);
        let view = lab.view(widget.condition(
            &format!("Node{number}Healthy"),
            ConditionStatus::True,
            "Ok",
        ));

        lab.apply_to(&check.watch, view);
    }

    let mut widget = lab.converged("web");
    for round in 0..7 {
        let status = if round % 2 == 0 { ConditionStatus::True } else { ConditionStatus::False };
        lab.apply(widget.condition("Synced", status, "Checked"));
        lab.advance(Span::secs(20));
    }

    assert!(lab.has("ConditionFlapping"), "{:?}, {:?}", lab.findings(), lab.snapshot().dropped);
}

#[test]
fn a_phase_beyond_the_limit_is_counted_correctly_once_there_is_room() {
    let mut lab = Lab::with(Settings {
        limits: Limits { phases: 1, ..Limits::default() },
        ..Settings::default()
    });
    let mut widgets: Vec<Widget> = ["a", "b", "c"].map(|name| lab.converged(name)).into();

    lab.apply(widgets[0].phase("P1"));
    lab.apply(widgets[1].phase("P2")); // does not fit
    lab.delete(&widgets[0]); // makes room
    lab.apply(widgets[2].phase("P2"));
    lab.delete(&widgets[1]); // was never counted

    assert_eq!(lab.kind().totals.phases.get("P2"), Some(&1), "c is in P2");
}

#[test]
fn conditions_beyond_the_limit_are_judged_and_counted_as_dropped() {
    let mut lab = Lab::limited(Limits { condition_types: 0, ..Limits::default() });
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.apply(widget.waiting());
    lab.advance(Span::mins(10));

    assert!(lab.has("Overdue"), "{:?}", lab.findings());
    assert!(lab.snapshot().dropped["condition_types"] > 0);

    lab.apply(widget.ready());
    lab.delete(&widget);

    assert!(lab.kind().totals.conditions.is_empty(), "{:?}", lab.kind().totals.conditions);
}

#[test]
fn many_finalizer_sets_do_not_hide_a_stuck_finalizer() {
    let mut lab = Lab::new();
    for number in 0..MANY {
        let mut widget = Widget::new("x", lab.now);
        widget.finalizers = vec![format!("example.io/lock-{number}")];
        lab.apply(&widget);
    }

    let mut widget = Widget::new("web", lab.now);
    widget.finalizers = vec!["example.io/cleanup".into()];
    widget.deleted = Some(lab.now);
    lab.apply(&widget);
    lab.advance(Span::mins(20));

    let found = lab.findings();
    assert!(
        found.contains(&"FinalizerStuck Widget team-a/web".to_owned()),
        "{found:?}, {:?}",
        lab.snapshot().dropped
    );
}

#[test]
fn finalizer_sets_that_live_at_once_hide_no_stuck_finalizer_either() {
    let mut lab = Lab::new();
    for number in 0..MANY {
        let mut widget = Widget::new(&format!("x{number}"), lab.now);
        widget.finalizers = vec![format!("example.io/lock-{number}")];
        lab.apply(&widget);
    }

    let mut widget = lab.converged("web");
    widget.finalizers = vec!["example.io/cleanup".into()];
    widget.deleted = Some(lab.now);
    lab.apply(&widget);
    lab.advance(Span::mins(20));

    assert!(lab.has("FinalizerStuck"), "{:?}", lab.findings());
    assert!(lab.snapshot().dropped["finalizer_sets"] > 0);
    assert!(lab.finding("FinalizerStuck").summary().contains("example.io/cleanup"));
}

#[test]
fn finalizers_without_totals_of_their_own_are_counted_as_dropped_and_found_stuck() {
    let mut lab = Lab::new();
    for number in 0..60 {
        let mut widget = Widget::new(&format!("x{number}"), lab.now);
        widget.finalizers = vec![format!("example.io/lock-{number}")];
        widget.deleted = Some(lab.now);
        lab.apply(&widget);
    }

    let tracked = lab.kind().finalizers.len();
    assert!(lab.snapshot().dropped.contains_key("finalizers"), "{tracked} of 60 tracked");

    lab.advance(Span::mins(16));
    assert_eq!(
        lab.findings().iter().filter(|found| found.starts_with("FinalizerStuck")).count(),
        60
    );
}

#[test]
fn finalizers_beyond_the_limit_are_counted() {
    let limits = Limits { finalizers: 0, ..Limits::default() };
    let mut lab = Lab::with(Settings { limits, ..Settings::default() });
    let mut widget = lab.converged("web");
    widget.finalizers = vec!["example.io/cleanup".into()];
    lab.apply(&widget);
    widget.deleted = Some(lab.now);
    lab.apply(&widget);

    assert_eq!(lab.snapshot().dropped["finalizers"], 1);
    assert_eq!(lab.findings(), ["LimitReached limit finalizers"]);
    assert!(lab.evidence().contains("bound 0"), "{}", lab.evidence());
}

#[test]
fn the_seventeenth_condition_flaps_and_is_found_or_counted_as_dropped() {
    let mut lab = Lab::new();
    let mut vmi = Widget::new("vmi", lab.now);
    for part in 0..18 {
        vmi.condition(&format!("Disk{part}Ready"), True, "Ok");
    }

    lab.apply(vmi.ready());
    lab.advance(Span::hours(1));
    for _ in 0..10 {
        lab.apply(vmi.waiting());
        lab.advance(Span::mins(1));
        lab.apply(vmi.ready());
        lab.advance(Span::mins(1));
    }

    let dropped = lab.snapshot().dropped;
    assert!(
        lab.has("ConditionFlapping") || !dropped.is_empty(),
        "20 transitions: {:?} {dropped:?}",
        lab.findings()
    );
}

#[test]
fn eight_conditions_that_changed_once_do_not_hide_the_one_that_flaps_now() {
    let mut lab = Lab::new();
    let mut ceph = lab.converged("ceph");
    for part in 0..8 {
        lab.apply(ceph.condition(&format!("Mon{part}Ready"), True, "Ok"));
    }

    lab.advance(Span::hours(1));
    for part in 0..8 {
        lab.apply(ceph.condition(&format!("Mon{part}Ready"), False, "Restarting"));
        lab.advance(Span::mins(1));
        lab.apply(ceph.condition(&format!("Mon{part}Ready"), True, "Ok"));
        lab.advance(Span::mins(2));
    }

    for _ in 0..10 {
        lab.apply(ceph.waiting());
        lab.advance(Span::mins(1));
        lab.apply(ceph.ready());
        lab.advance(Span::mins(1));
    }

    let dropped = lab.snapshot().dropped;
    assert!(
        lab.has("ConditionFlapping") || !dropped.is_empty(),
        "20 transitions: {:?} {dropped:?}",
        lab.findings()
    );
}

#[test]
fn both_finalizers_of_an_object_are_found_stuck_although_only_one_has_totals_of_its_own() {
    let mut lab = Lab::limited(Limits { finalizers: 1, ..Limits::default() });
    lab.terminating("mesh", &["istio.io/gateway", "dns.example.com/records"]);
    lab.advance(Span::mins(15));

    let finding = lab.finding("FinalizerStuck");
    assert!(
        finding.summary().contains("istio.io/gateway, dns.example.com/records"),
        "{}",
        finding.summary()
    );
    assert!(lab.snapshot().dropped.contains_key("finalizers"));
}

#[test]
fn finalizers_that_do_not_fit_never_read_as_none() {
    let mut lab = Lab::new();
    for i in 0..50_000 {
        let mut w = Widget::new(&format!("w{i}"), lab.now);
        w.finalizers = vec![format!("example.io/f{i}")];
        lab.apply(w.ready());
    }

    for i in 0..3 {
        let mut over = Widget::new(&format!("over{i}"), lab.now);
        over.finalizers = vec![format!("example.io/over{i}")];
        lab.apply(over.ready());
        lab.delete(&over);
    }

    let (rows, _) = lab.model.rows(Default::default(), usize::MAX);
    let without: Vec<&str> =
        rows.iter().filter(|r| r.finalizers.is_empty()).map(|r| r.name.as_str()).collect();

    assert!(without.is_empty(), "{without:?}");
}
