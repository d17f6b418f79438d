//! Kinds that are watched in part, and what the sources leave out.

use loopwatch_model::observation::{LeftOut, Observation, PermissionsView, WatchedKind};
use loopwatch_model::time::Span;

use crate::lab::{Lab, kind};

#[test]
fn a_filtered_watch_is_not_audited() {
    let mut lab = Lab::new();
    lab.discover(&[WatchedKind { filtered: true, ..kind() }]);
    lab.advance(Span::mins(10));

    assert_eq!(lab.model.probes(), []);
}

#[test]
fn what_the_sources_leave_out_is_shown() {
    let mut lab = Lab::new();
    let left_out = LeftOut { what: "3 namespaces".to_owned(), why: "a limit".to_owned() };
    let view = PermissionsView { left_out: vec![left_out.clone()], ..PermissionsView::default() };
    lab.observe(Observation::PermissionsReviewed(view));

    assert_eq!(lab.snapshot().left_out, [left_out]);

    lab.observe(Observation::PermissionsReviewed(PermissionsView::default()));
    assert_eq!(lab.snapshot().left_out, []);
}

#[test]
fn new_facts_about_kinds_and_permissions_are_absent_from_a_recording_unless_they_hold() {
    let plain = serde_json::to_string(&kind()).expect("JSON");
    let view = serde_json::to_string(&PermissionsView::default()).expect("JSON");
    for name in ["suspected", "filtered", "metadata_only", "left_out"] {
        assert!(!plain.contains(name) && !view.contains(name), "{plain} {view}");
    }

    let suspected = WatchedKind { suspected: true, filtered: true, metadata_only: true, ..kind() };
    let read: WatchedKind =
        serde_json::from_str(&serde_json::to_string(&suspected).expect("JSON")).expect("a kind");

    assert_eq!(read, suspected);
}

#[test]
fn findings_in_a_suspected_kind_are_suspected_until_the_operator_shows_itself() {
    let mut lab = Lab::new();
    lab.discover(&[WatchedKind { suspected: true, ..kind() }]);

    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::mins(11));

    let confidence = |lab: &Lab| {
        lab.snapshot().findings.iter().map(|f| f.confidence.as_str()).collect::<Vec<_>>()
    };

    assert_eq!(confidence(&lab), ["suspected"]);

    lab.discover(&[kind()]);
    lab.list(&[widget]);

    assert_eq!(confidence(&lab), ["confirmed"]);
}
