//! Single objects that make the operator crash, or that it neglects.

use loopwatch_model::finding::Confidence;
use loopwatch_model::time::Span;

use crate::lab::loops::{Loop, add};
use crate::lab::pods::{Op, POD};
use crate::lab::{Lab, Widget};

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
    assert_eq!(
        lab.finding("PoisonObject").confidence,
        Confidence::Suspected,
        "it acknowledges nothing at all"
    );

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

const PANIC: &str = "thread 'main' panicked at src/controller.rs:212: called `Option::unwrap()`";

/// The operator crashes `times` times with these last words, `after` the spec change of an object.
/// It has run for `lived` before.
fn dies(lived: Span, after: Span, times: u32, message: &str) -> (Lab, Op, Widget) {
    let mut lab = Lab::new();
    let mut op = Op::running(&lab);
    op.container().running_since = Some(lab.ago(lived));
    op.seen(&mut lab);
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.advance(after);
    for _ in 0..times {
        op.says = message.into();
        crash(&mut lab, &mut op, "Error");
        lab.advance(Span::secs(40));
    }

    (lab, op, widget)
}

#[test]
fn panics_that_end_a_quiet_life_at_once_after_a_change_are_certain() {
    let (day, two) = (Span::hours(25), Span::secs(2));
    let (mut lab, mut op, _) = dies(day, two, 4, PANIC);
    assert_eq!(lab.finding("PoisonObject").confidence, Confidence::Suspected, "four");

    crash(&mut lab, &mut op, "Error");
    assert_eq!(lab.finding("PoisonObject").confidence, Confidence::Confirmed);

    let go = "panic: runtime error: invalid memory address or nil pointer dereference";
    let (lab, ..) = dies(day, two, 5, go);
    assert_eq!(lab.finding("PoisonObject").confidence, Confidence::Confirmed);

    for (what, lived, after, message) in [
        ("a timeout", day, two, "failed to get API group resources: i/o timeout"),
        ("a panic at a timeout", day, two, "panic: dial tcp 10.96.0.1:443: i/o timeout"),
        ("a short life", Span::hours(1), two, PANIC),
        ("a late crash", day, Span::secs(20), PANIC),
    ] {
        let (lab, ..) = dies(lived, after, 12, message);
        assert_eq!(lab.finding("PoisonObject").confidence, Confidence::Suspected, "{what}");
    }
}

#[test]
fn panics_with_two_suspects_or_during_a_rollout_are_not_certain() {
    // Somebody changes two objects at once.
    let mut lab = Lab::new();
    let mut op = Op::running(&lab);
    op.container().running_since = Some(lab.ago(Span::hours(25)));
    op.seen(&mut lab);
    for name in ["web", "db"] {
        let mut widget = lab.converged(name);
        lab.apply(widget.spec(2, lab.now));
    }

    op.says = PANIC.into();
    for _ in 0..8 {
        crash(&mut lab, &mut op, "Error");
        lab.advance(Span::secs(40));
    }

    assert_eq!(lab.finding("PoisonObject").confidence, Confidence::Suspected);

    // Another revision takes over.
    let (mut lab, mut op, _) = dies(Span::hours(25), Span::secs(2), 3, PANIC);
    op.view.pods[0].revision.hash = "6c6b5d9f8".into();
    for _ in 0..8 {
        crash(&mut lab, &mut op, "Error");
        lab.advance(Span::secs(40));
    }

    assert_eq!(lab.finding("PoisonObject").confidence, Confidence::Suspected);
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

/// Returns a lab with converged objects. The spec of the first one changes, and the operator
/// acknowledges `others` changes of the rest in the next four minutes.
fn hungry(others: usize) -> (Lab, Widget) {
    let mut lab = Lab::new();
    let mut rest: Vec<Widget> =
        (0..others).map(|number| lab.converged(&format!("w{number}"))).collect();
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
fn an_object_that_waited_during_an_outage_is_starved_only_if_others_are_served_for_long_afterwards()
{
    let mut lab = Lab::new();
    let mut late = lab.converged("late");
    let mut rest: Vec<_> = (0..20).map(|number| lab.converged(&format!("w{number}"))).collect();
    lab.advance(Span::hours(1));

    // The operator does nothing for longer than `starved_after`, and then serves the others first.
    lab.apply(late.spec(2, lab.now));
    lab.advance(Span::mins(7));
    for widget in &mut rest {
        lab.apply(widget.spec(2, lab.now));
        lab.advance(Span::secs(1));
        lab.apply(widget.ready());
    }

    assert!(!lab.has("Starved"), "{:?}", lab.findings());

    lab.advance(Span::mins(5));
    assert!(lab.has("Starved"), "{:?}", lab.findings());

    // A later standstill does not close the finding.
    lab.advance(Span::mins(20));
    lab.apply(rest[0].spec(3, lab.now));
    lab.advance(Span::secs(1));
    lab.apply(rest[0].ready());
    assert!(lab.has("Starved"), "{:?}", lab.findings());

    lab.apply(late.ready());
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

    // Another object that changes again and again counts as one object.
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

/// Returns a lab in which a pipeline creates many objects within seconds, beside others that have
/// converged.
fn pipeline() -> (Lab, Vec<Widget>) {
    let mut lab = Lab::new();
    (0..40).for_each(|number| drop(lab.converged(&format!("w{number}"))));
    lab.advance(Span::hours(1));

    let mut batch: Vec<Widget> = Vec::new();
    for number in 0..120 {
        let widget = Widget::new(&format!("b{number}"), lab.now);
        lab.apply(&widget);
        lab.advance(Span(100));
        batch.push(widget);
    }

    (lab, batch)
}

#[test]
fn objects_that_are_served_in_the_order_of_their_changes_are_not_starved() {
    let (mut lab, mut batch) = pipeline();
    for widget in &mut batch {
        lab.advance(Span::secs(4));
        lab.apply(widget.ready());
        assert!(!lab.has("Starved"), "{:?}", lab.findings());
    }
}

#[test]
fn one_object_of_a_batch_that_later_ones_overtake_is_starved() {
    let (mut lab, mut batch) = pipeline();
    for widget in &mut batch[1..] {
        lab.advance(Span::secs(4));
        lab.apply(widget.ready());
    }

    assert_eq!(lab.findings(), ["Starved Widget team-a/b0"]);
}
