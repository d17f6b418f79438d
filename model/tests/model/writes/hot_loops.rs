//! Loops that the watch shows: a fault, its healthy twin, and near misses.

use loopwatch_model::finding::{Confidence, Finding, FindingCode};
use loopwatch_model::observation::{Answer, ConditionStatus, Observation, Probe};
use loopwatch_model::settings::Settings;
use loopwatch_model::time::Span;

use super::{Written, found};
use crate::lab::dice::Dice;
use crate::lab::{Lab, Widget, spec_by, status_by, unlearned, watch};

/// Lets the operator write the present time into the status of an object, `count` times.
fn rewrite(lab: &mut Lab, widget: &mut Widget, count: u32, pause: Span) {
    for _ in 0..count {
        lab.advance(pause);
        let now = lab.now;
        lab.apply(widget.touch_times(now));
    }
}

fn hot_loop(lab: &Lab) -> Option<Finding> {
    found(lab, FindingCode::HotLoop)
}

#[test]
fn an_operator_that_writes_the_time_on_every_pass_is_in_a_hot_loop() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.advance(Span::mins(30));
    let began = lab.now;

    rewrite(&mut lab, &mut widget, 9, Span::secs(1));
    assert_eq!(hot_loop(&lab), None, "nine writes in two minutes may be a busy hour");

    rewrite(&mut lab, &mut widget, 20, Span::secs(1));
    let found = hot_loop(&lab).expect("a finding");
    assert_eq!(found.confidence, Confidence::Confirmed);
    assert_eq!(found.subject.to_string(), "Widget team-a/web");
    assert!(found.since.since(began) < Span::secs(10), "{}", found.since);
    let summary = found.summary();
    assert!(summary.contains("manager widget-operator"), "{summary}");
    assert!(summary.contains("writes per minute 60"), "{summary}");

    lab.advance(Span::mins(3));
    assert_eq!(hot_loop(&lab), None, "the loop has ended");
}

#[test]
fn the_fields_that_change_are_asked_for_less_and_less_often_until_they_are_known() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.advance(Span::mins(30));
    let asked = |lab: &mut Lab| -> Vec<Probe> {
        let probes = lab.model.probes().into_iter();
        probes.filter(|probe| matches!(probe, Probe::Fields { .. })).collect()
    };

    rewrite(&mut lab, &mut widget, 9, Span::secs(1));
    assert_eq!(asked(&mut lab), [], "nothing to explain");
    rewrite(&mut lab, &mut widget, 30, Span::secs(1));
    let probe = Probe::Fields { watch: watch(), object: widget.key() };
    assert_eq!(asked(&mut lab), std::slice::from_ref(&probe));
    rewrite(&mut lab, &mut widget, 60, Span::secs(1));
    assert_eq!(asked(&mut lab), std::slice::from_ref(&probe), "nobody has answered");
    rewrite(&mut lab, &mut widget, 60, Span::secs(1));
    assert_eq!(asked(&mut lab), [], "two minutes pass before the third question");

    let long = "x".repeat(200);
    let fields = [vec!["status.at".to_owned(), long], vec!["status.more".to_owned(); 9]].concat();
    lab.observe(Observation::Answered { probe, answer: Answer::Fields(fields) });
    rewrite(&mut lab, &mut widget, 120, Span::secs(1));
    assert_eq!(asked(&mut lab), [], "the fields are known");
    let summary = hot_loop(&lab).expect("a finding").summary();
    let expected = "fields status.at, status.more, status.more, status.more, status.more,";
    assert!(summary.contains(expected), "{summary}");
}

#[test]
fn a_slow_loop_with_irregular_pauses_is_found_within_two_minutes() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    for pause in [3, 14, 6, 11, 4, 13, 5, 12, 3, 14, 6, 11, 4, 13, 5, 12] {
        rewrite(&mut lab, &mut widget, 1, Span::secs(pause));
    }

    assert!(hot_loop(&lab).is_some());
}

#[test]
fn a_loop_with_random_pauses_is_one_finding() {
    for (least, most) in [(3, 9), (2, 12), (1, 5)] {
        let mut dice = Dice(7);
        let mut lab = Lab::new();
        let mut widget = lab.converged("web");
        let until = lab.now.after(Span::mins(30));
        while lab.now < until {
            let pause = least * 1_000 + dice.roll((most - least) * 1_000);
            rewrite(&mut lab, &mut widget, 1, Span(pause as i64));
        }

        let opened = lab.changes();
        assert_eq!(opened, ["Opened HotLoop Widget team-a/web"], "{least} to {most} seconds");
    }
}

#[test]
fn rare_writes_are_no_loop_however_many_came_before() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    for pause in [17, 9, 26, 14, 21, 11, 24, 15, 19, 13, 27, 10, 22, 16, 18] {
        rewrite(&mut lab, &mut widget, 1, Span::secs(pause));
        assert_eq!(hot_loop(&lab), None, "seven writes in two minutes");
    }
}

#[test]
fn a_heartbeat_is_no_loop() {
    for (period, name) in [(5, "five seconds"), (10, "ten seconds"), (60, "a minute")] {
        let mut lab = Lab::new();
        let mut widget = lab.converged("web");
        rewrite(&mut lab, &mut widget, 60, Span::secs(period));
        assert_eq!(hot_loop(&lab), None, "a heartbeat every {name}");
    }
}

#[test]
fn work_that_changes_the_status_is_no_loop() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    for _ in 0..120 {
        lab.advance(Span::secs(1));
        let now = lab.now;
        lab.apply(widget.touch_status());
        lab.apply(widget.touch_times(now));
        lab.apply(widget.touch_status());
    }

    assert_eq!(hot_loop(&lab), None);
}

#[test]
fn writes_of_a_person_or_a_tool_are_no_loop_of_the_operator() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    for _ in 0..60 {
        lab.advance(Span::secs(1));
        widget.touch_times(lab.now);
        let mut view = widget.view(lab.next_version());
        view.managers = vec![spec_by("kubectl-annotate", lab.now)];
        lab.observe(Observation::Applied { watch: watch(), object: Box::new(view) });
    }

    assert_eq!(hot_loop(&lab), None);
}

#[test]
fn versions_without_fingerprints_show_nothing() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    for _ in 0..60 {
        lab.advance(Span::secs(1));
        widget.touch_times(lab.now);
        let mut view = widget.view(lab.next_version());
        view.hashes = Default::default();
        lab.observe(Observation::Applied { watch: watch(), object: Box::new(view) });
    }

    assert_eq!(hot_loop(&lab), None);
}

#[test]
fn the_rollout_of_many_objects_is_no_loop() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> =
        (0..200).map(|number| lab.converged(&format!("web-{number}"))).collect();
    for widget in &mut widgets {
        lab.advance(Span(100));
        let now = lab.now;
        lab.apply(widget.spec(2, now));
        lab.apply(widget.waiting());
        lab.apply(widget.touch_times(now));
        lab.apply(widget.condition("Ready", ConditionStatus::True, "AsExpected"));
        lab.apply(widget.touch_times(now));
    }

    assert_eq!(hot_loop(&lab), None);
}

#[test]
fn an_author_that_nobody_knows_makes_the_loop_only_suspected() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    for _ in 0..30 {
        lab.advance(Span::secs(1));
        widget.touch_times(lab.now);
        let mut view = widget.view(lab.next_version());
        view.managers.clear();
        lab.observe(Observation::Applied { watch: watch(), object: Box::new(view) });
    }

    assert_eq!(hot_loop(&lab).map(|found| found.confidence), Some(Confidence::Suspected));
}

#[test]
fn the_threshold_is_a_setting_and_a_relist_or_a_step_of_the_clock_interrupts() {
    let mut lab = Lab::with(Settings { hot_loop_writes: 1_000, ..unlearned() });
    let mut widget = lab.converged("web");
    rewrite(&mut lab, &mut widget, 300, Span::secs(1));
    assert_eq!(hot_loop(&lab), None, "sixteen versions are kept");

    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    rewrite(&mut lab, &mut widget, 12, Span::secs(1));
    assert!(hot_loop(&lab).is_some());
    lab.step_clock(Span::hours(-2));
    rewrite(&mut lab, &mut widget, 3, Span::secs(1));
    assert!(hot_loop(&lab).is_some(), "the loop goes on");
    lab.advance(Span::mins(3));
    assert_eq!(hot_loop(&lab), None);
}

#[test]
fn a_list_in_the_order_of_a_map_is_a_loop() {
    let mut lab = Lab::new();
    let mut object = Written::widget(&mut lab, "web");
    for turn in 0..40 {
        lab.advance(Span(400));
        let order = [5, 9, 5, 7, 9, 7, 5][turn % 7];
        object.status(&mut lab, "widget-operator", order, order);
    }

    let found = hot_loop(&lab).expect("a finding");
    assert!(found.summary().contains("changes order"), "{}", found.summary());
    assert_eq!(found.confidence, Confidence::Confirmed);
}

#[test]
fn a_counter_in_the_status_is_a_loop_if_no_work_is_that_fast() {
    for (pause, is_loop) in [(Span(100), true), (Span(500), false), (Span::secs(15), false)] {
        let mut lab = Lab::new();
        let mut object = Written::widget(&mut lab, "web");
        for turn in 0..1_000 {
            lab.advance(pause);
            object.status(&mut lab, "widget-operator", 1_000 + turn, 1_000 + turn);
        }

        assert_eq!(hot_loop(&lab).is_some(), is_loop, "a write every {pause}");
    }
}

#[test]
fn a_counter_of_an_object_that_is_not_ready_is_progress() {
    let mut lab = Lab::new();
    let mut object = Written::widget(&mut lab, "web");
    object.view.conditions[0].status = ConditionStatus::False;
    object.view.conditions[0].reason = "Progressing".into();
    for turn in 0..1_000 {
        lab.advance(Span(100));
        object.status(&mut lab, "widget-operator", 1_000 + turn, 1_000 + turn);
    }

    assert_eq!(hot_loop(&lab), None);
}

#[test]
fn a_pod_that_becomes_ready_and_unready_is_no_loop() {
    let mut lab = Lab::new();
    let mut object = Written::widget(&mut lab, "web");
    for turn in 0..60 {
        lab.advance(Span::secs(10));
        object.status(&mut lab, "widget-operator", 2 + turn % 2, 2 + turn % 2);
    }

    assert_eq!(hot_loop(&lab), None);
}

#[test]
fn a_loop_takes_its_share_of_all_versions() {
    let mut lab = Lab::new();
    let mut others: Vec<Widget> =
        (0..10).map(|number| lab.converged(&format!("other-{number}"))).collect();
    let mut widget = lab.converged("web");
    for turn in 0..180_u32 {
        lab.advance(Span::secs(1));
        let now = lab.now;
        lab.apply(widget.touch_times(now));
        let other = &mut others[turn as usize % 10];
        lab.apply(other.touch_status());
    }

    let found = hot_loop(&lab).expect("a finding");
    assert!(found.summary().contains("share percent 5"), "{}", found.summary());
}

#[test]
fn the_versions_of_a_kind_are_counted_by_manager() {
    let mut lab = Lab::new();
    let mut object = Written::widget(&mut lab, "web");
    let before = lab.kind().totals.writes["kubectl"].versions;
    for turn in 0..5 {
        lab.advance(Span::secs(3));
        object.status(&mut lab, "widget-operator", 7, 100 + turn);
        lab.advance(Span::secs(3));
        object.spec(&mut lab, "kubectl", 10 + turn);
    }
    for client in 0..30 {
        lab.advance(Span::secs(1));
        object.spec(&mut lab, &format!("client-{client}"), 100 + client);
    }

    let totals = lab.kind().totals.writes;
    let of = |manager: &str| (totals[manager].versions, totals[manager].wasted);
    assert_eq!(of("kubectl"), (before + 5, 0));
    assert_eq!(of("widget-operator").1, 4, "the first status differs");
    assert!(totals.len() <= 17 && totals["_other"].versions > 10, "{totals:?}");
}

#[test]
fn attempts_that_fail_with_a_growing_pause_are_no_loop() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    let now = lab.now;
    lab.apply(widget.failed("BackendLost"));
    for attempt in 0..16 {
        let pause = Span(5 << attempt);
        rewrite(&mut lab, &mut widget, 1, pause);
        assert_eq!(hot_loop(&lab), None, "after {}", lab.now.since(now));
    }

    rewrite(&mut lab, &mut widget, 90, Span::secs(1));
    assert!(hot_loop(&lab).is_some(), "it no longer waits");
}

#[test]
fn attempts_that_the_operator_notes_in_an_annotation_are_no_loop_until_the_object_has_converged() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    let now = lab.now;
    lab.apply(widget.spec(2, now));
    for _ in 0..40 {
        lab.advance(Span::secs(1));
        let mut view = lab.view(&widget);
        view.managers = vec![status_by("widget-operator", lab.now)];
        lab.apply_view(view);
    }
    assert_eq!(hot_loop(&lab), None);

    lab.apply(widget.ready());
    assert_eq!(hot_loop(&lab), None, "it converges now, and was not at rest before");
    lab.advance(Span::secs(30));
    assert_eq!(hot_loop(&lab), None, "it has converged, and rests");
}
