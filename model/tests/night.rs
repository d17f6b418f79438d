//! Alarms at night: neither a second page for one cause, nor a problem that stays silent.

mod lab;

use lab::{Lab, Widget};
use loopwatch_model::time::Span;

/// Returns whether a finding alerts.
fn alerts(lab: &Lab, code: &str) -> bool {
    lab.snapshot().findings.iter().any(|f| f.code.name() == code && f.alerts_at(lab.now))
}

#[test]
fn a_kind_that_fails_now_and_then_does_not_hide_objects_that_fail_for_long() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = ["a", "b", "c", "d", "e"].iter().map(|name| lab.converged(name)).collect();
    lab.advance(Span::hours(1));
    for widget in &mut widgets[..2] {
        lab.apply(widget.failed("Lost"));
    }
    // The finding about the kind is open for a minute out of four, which is too short for its alert.
    let mut alerted = Vec::new();
    for minute in 0..40 {
        let flapping = &mut widgets[2];
        lab.apply(if minute % 4 == 0 { flapping.failed("Lost") } else { flapping.ready() });
        lab.advance(Span::mins(1));
        if alerts(&lab, "Regressed") {
            alerted.push(minute);
        }
    }
    // After their threshold of five minutes, and the time to catch up.
    assert_eq!(alerted, (14..40).collect::<Vec<_>>(), "{:?}", lab.findings());
}
