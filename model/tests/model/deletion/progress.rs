//! Deletions whose status changes: progress, or only another error text.

use loopwatch_model::observation::ConditionStatus::False;
use loopwatch_model::settings::Settings;
use loopwatch_model::time::Span;

use crate::deletion::STUCK;
use crate::lab::{Lab, Widget, texts};

/// Begins the deletion of a widget, and shows one message after the other, each after a minute.
/// Returns whether its finalizer was found stuck.
fn is_stuck(messages: impl Iterator<Item = String>) -> bool {
    let mut lab = Lab::new();
    let mut widget = lab.terminating("web", &["example.io/cleanup"]);
    for message in messages {
        lab.advance(Span::mins(1));
        say(&mut lab, &mut widget, &message);
    }

    lab.has("FinalizerStuck")
}

fn say(lab: &mut Lab, widget: &mut Widget, message: &str) {
    widget.condition("Ready", False, "CleanupFailed");
    let mut view = lab.view(widget);
    view.conditions[0].message = message.to_owned();
    lab.apply_view(view);
}

#[test]
fn an_error_whose_text_differs_at_each_attempt_in_numbers_and_identifiers_is_no_progress() {
    assert!(is_stuck((0..17).map(|n| format!("AccessDenied: request id 8f{n}c-{n}d"))));
    assert!(is_stuck((0..17).map(|n| format!("cannot delete bucket logs: attempt {n}"))));
    assert!(is_stuck(
        (0..17).map(|n| format!("timeout at 2026-01-01T00:{n:02}:00Z, retry in 30s"))
    ));
}

#[test]
fn an_attempt_that_starts_over_is_no_progress() {
    assert!(is_stuck((0..30).map(|n| format!("{}: step {}", ["drain", "detach"][n % 2], n % 4))));
    assert!(is_stuck((0..30).map(|n| format!("uploaded {}%", n % 3 * 10))));
}

#[test]
fn a_drain_that_counts_down_and_a_share_that_rises_are_progress() {
    assert!(!is_stuck((0..100).map(|n| format!("draining, {} Pods remaining", 100 - n))));
    assert!(!is_stuck((0..100).map(|n| format!("moved {n}% of the data"))));
    assert!(!is_stuck((0..100).map(|n| format!("deleted {n}/100 volumes"))));
}

#[test]
fn a_drain_that_no_longer_counts_down_is_stuck() {
    let left = |n: i64| format!("draining, {} Pods remaining (try {n})", (20 - n).max(3));
    assert!(!is_stuck((0..30).map(left)));
    assert!(is_stuck((0..36).map(left)));
}

/// Returns widgets that somebody deleted at the same time.
fn scaled_down(lab: &mut Lab, size: usize) -> Vec<Widget> {
    let names = (0..size).map(|number| format!("m{number}"));
    let mut widgets: Vec<Widget> =
        names.map(|name| lab.finalized(&name, &["example.io/cleanup"])).collect();
    widgets.iter_mut().for_each(|widget| lab.begin_deletion(widget));
    widgets
}

#[test]
fn deletions_that_a_controller_works_off_one_by_one_are_not_stuck() {
    let mut lab = Lab::new();
    for widget in scaled_down(&mut lab, 40) {
        lab.advance(Span::mins(1));
        assert!(!lab.has("FinalizerStuck"), "{}", widget.name);
        lab.delete(&widget);
    }

    lab.assert_no_findings();
}

#[test]
fn a_queue_of_deletions_that_stops_is_stuck() {
    let mut lab = Lab::new();
    let widgets = scaled_down(&mut lab, 40);
    for widget in &widgets[..20] {
        lab.advance(Span::mins(1));
        lab.delete(widget);
    }

    lab.advance(Span::mins(14));
    assert!(!lab.has("FinalizerStuck"));
    lab.advance(Span::mins(1));
    assert_eq!(lab.findings().iter().filter(|found| found.starts_with("Final")).count(), 20);
}

#[test]
fn a_deletion_that_later_ones_pass_is_stuck() {
    let mut lab = Lab::new();
    let mut web = lab.finalized("web", &["example.io/cleanup"]);
    let names = (0..20).map(|number| format!("m{number}"));
    let others: Vec<Widget> =
        names.map(|name| lab.finalized(&name, &["example.io/cleanup"])).collect();
    lab.begin_deletion(&mut web);
    for mut other in others {
        lab.advance(Span::secs(40));
        lab.begin_deletion(&mut other);
        lab.advance(Span::secs(20));
        lab.delete(&other);
    }

    assert_eq!(lab.findings(), [STUCK]);
}

#[test]
fn a_queue_of_another_finalizer_explains_no_wait() {
    let mut lab = Lab::new();
    let mut web = lab.finalized("web", &["example.io/cleanup", "other.io/backup"]);
    let mut widgets = scaled_down(&mut lab, 30);
    lab.begin_deletion(&mut web);
    for widget in &mut widgets {
        lab.advance(Span::mins(1));
        lab.delete(widget);
    }

    assert!(lab.findings().contains(&STUCK.to_owned()), "{:?}", lab.findings());
    web.finalizers = texts(&[]);
}

#[test]
fn finalizers_that_go_one_by_one_below_the_threshold_are_progress() {
    let mut lab = Lab::new();
    let names = ["example.io/a", "example.io/b", "example.io/c"];
    let mut widget = lab.finalized("web", &names);
    lab.begin_deletion(&mut widget);

    for _ in names {
        lab.advance(Span::mins(13));
        assert!(!lab.has("FinalizerStuck"), "{:?}", lab.findings());
        widget.finalizers.pop();
        lab.apply(&widget);
    }
}

#[test]
fn one_slow_removal_in_a_queue_leaves_the_others_their_time() {
    let mut lab = Lab::new();
    for (number, widget) in scaled_down(&mut lab, 60).into_iter().enumerate() {
        lab.advance(Span::mins(if number == 15 { 13 } else { 1 }));
        assert!(!lab.has("FinalizerStuck"), "{number}");
        lab.delete(&widget);
    }
}

#[test]
fn the_time_in_a_queue_does_not_count_as_that_of_the_cleanup() {
    let mut lab = Lab::with(Settings::default());
    let widgets = scaled_down(&mut lab, 200);
    for widget in &widgets[1..] {
        lab.advance(Span::secs(18));
        lab.delete(widget);
    }

    assert!(!lab.has("FinalizerStuck"), "the queue has just ended");
    lab.advance(Span::mins(16));
    assert!(lab.findings().contains(&"FinalizerStuck Widget team-a/m0".to_owned()));
}

/// Deletes an object every 15 minutes, whose cleanup takes `cleanup`. Returns how many were stuck
/// among the last ten of them.
fn overlapping(count: i64, cleanup: impl Fn(i64) -> Span) -> usize {
    let mut lab = Lab::with(Settings::default());
    let mut waiting: Vec<(i64, Widget, i64)> = Vec::new();
    let mut stuck = std::collections::BTreeSet::new();

    for minute in 0..15 * count {
        if minute % 15 == 0 {
            let number = minute / 15;
            let mut widget = lab.finalized(&format!("m{number}"), &["example.io/cleanup"]);
            lab.begin_deletion(&mut widget);
            waiting.push((minute + cleanup(number).0 / 60_000, widget, number));
        }

        lab.advance(Span::mins(1));
        let is_over = |(ends, ..): &(i64, Widget, i64)| *ends <= minute;
        waiting.iter().filter(|waits| is_over(waits)).for_each(|(_, widget, _)| lab.delete(widget));
        waiting.retain(|waits| !is_over(waits));

        let found = lab.findings();
        let of = |number: &i64| found.contains(&format!("FinalizerStuck Widget team-a/m{number}"));
        stuck.extend(waiting.iter().map(|(.., number)| *number).filter(of));
    }

    stuck.into_iter().filter(|number| *number >= count - 10).count()
}

#[test]
fn cleanups_that_overlap_are_learned_and_an_outage_is_not() {
    assert_eq!(overlapping(60, |_| Span::mins(30)), 0, "as usual");

    // Removals usually take a minute. In an outage, some take three hours.
    let outage = |number: i64| Span::mins(if (30..42).contains(&number) { 180 } else { 1 });
    let again = |number: i64| if number == 75 { Span::mins(60) } else { outage(number) };
    assert_eq!(overlapping(80, again), 1);
}

#[test]
fn a_stuck_deletion_shows_what_the_status_says() {
    let mut lab = Lab::new();
    let mut widget = lab.finalized("web", &["example.io/cleanup"]);
    lab.begin_deletion(&mut widget);
    say(&mut lab, &mut widget, "the bucket is not empty");
    lab.advance(Span::mins(40));

    assert!(lab.finding("FinalizerStuck").summary().contains("the bucket is not empty"));
}
