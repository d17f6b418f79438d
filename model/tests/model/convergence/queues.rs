//! Objects that wait for their turn in a queue that the operator works off in order.

use loopwatch_model::settings::Settings;
use loopwatch_model::time::Span;

use crate::lab::{Lab, Widget};

/// Returns widgets whose specs changed at the same time.
fn batch(lab: &mut Lab, size: usize) -> Vec<Widget> {
    let mut widgets: Vec<Widget> =
        (0..size).map(|number| lab.converged(&format!("w{number}"))).collect();
    lab.advance(Span::hours(1));
    widgets.iter_mut().for_each(|widget| lab.apply(widget.spec(2, lab.now)));
    widgets
}

#[test]
fn a_batch_that_is_worked_off_in_order_opens_no_finding() {
    let mut lab = Lab::new();
    let mut widgets = batch(&mut lab, 60);
    for widget in &mut widgets {
        lab.advance(Span::secs(30));
        lab.assert_no_findings();
        lab.apply(widget.ready());
    }

    lab.advance(Span::mins(30));
    lab.assert_no_findings();
}

#[test]
fn a_batch_whose_queue_stops_is_found_soon_after() {
    let mut lab = Lab::new();
    let mut widgets = batch(&mut lab, 60);
    for widget in widgets.iter_mut().take(30) {
        lab.advance(Span::secs(30));
        lab.apply(widget.ready());
    }

    lab.advance(Span::mins(4));
    lab.assert_no_findings();
    lab.advance(Span::mins(2));
    assert_eq!(lab.findings().len(), 30, "{:?}", lab.findings());
}

#[test]
fn an_object_that_later_ones_pass_in_a_busy_queue_is_found_in_time() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> =
        (0..60).map(|number| lab.converged(&format!("w{number}"))).collect();
    let mut missed = lab.converged("missed");
    lab.advance(Span::hours(1));

    // Every change waits for six minutes.
    for round in 0..60 {
        if round == 30 {
            lab.apply(missed.spec(2, lab.now));
        }

        lab.apply(widgets[round].spec(2, lab.now));
        lab.advance(Span::secs(30));
        if round >= 12 {
            lab.apply(widgets[round - 12].ready());
        }
    }

    assert!(lab.has("Unacknowledged"), "{:?}", lab.findings());
}

#[test]
fn an_operator_that_catches_up_after_an_outage_in_any_order_pages_nobody_again() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> =
        (0..40).map(|number| lab.converged(&format!("w{number}"))).collect();
    lab.advance(Span::hours(1));
    for widget in &mut widgets {
        lab.apply(widget.spec(2, lab.now)); // the operator is down
        lab.advance(Span::secs(45));
    }

    assert!(lab.has("Unacknowledged"));

    widgets.sort_by_key(|widget| widget.uid % 7);
    lab.apply(widgets[0].ready());
    lab.advance(Span::secs(1));
    lab.changes();
    for widget in &mut widgets[1..] {
        lab.apply(widget.ready());
        lab.advance(Span::secs(40));
    }

    let opened: Vec<String> =
        lab.changes().into_iter().filter(|change| change.contains("opened")).collect();
    assert!(opened.is_empty(), "{opened:?}");
    lab.assert_no_findings();
}

/// Lets an evening pass in which the operator acknowledges the changes of ten objects after one to
/// three hours, and meanwhile those of `quick` at once. `forgets` are the objects at the end of `slow`
/// that it does not acknowledge.
fn evening(
    lab: &mut Lab,
    spec: u64,
    (slow, quick): (&mut [Widget], &mut [Widget]),
    forgets: usize,
) {
    slow.iter_mut().for_each(|widget| lab.apply(widget.spec(spec, lab.now)));
    let (mut next, last) = (0, slow.len() - forgets);
    for minute in 0..200 {
        let widget = &mut quick[minute % 30];
        lab.apply(widget.spec(spec * 1_000 + minute as u64, lab.now));
        lab.advance(Span::secs(2));
        lab.apply(widget.ready());
        if minute >= 60 && minute % 13 == 0 && next < last {
            lab.apply(slow[next].ready());
            next += 1;
        }
        lab.advance(Span::secs(58));
    }
}

#[test]
fn objects_of_a_low_priority_that_always_wait_for_others_are_not_starved() {
    let mut lab = Lab::with(Settings::default());
    let create = |lab: &mut Lab, name: &str, count: usize| -> Vec<Widget> {
        (0..count).map(|number| lab.converged(&format!("{name}-{number}"))).collect()
    };
    let (mut low, mut high) = (create(&mut lab, "low", 10), create(&mut lab, "high", 30));
    for spec in 2..5 {
        evening(&mut lab, spec, (&mut low, &mut high), 0);
        lab.advance(Span::hours(20));
    }

    lab.changes();
    evening(&mut lab, 5, (&mut low, &mut high), 0);
    let changes = lab.changes();
    assert!(changes.is_empty(), "as on every evening: {changes:?}");

    lab.advance(Span::hours(20));
    evening(&mut lab, 6, (&mut low, &mut high), 1);
    evening(&mut lab, 7, (&mut low[..9], &mut high), 0);
    assert_eq!(lab.findings(), ["Starved Widget team-a/low-9"]);
    assert!(lab.evidence().contains("threshold 4h"), "{}", lab.evidence());
}
