//! Audits: how many objects the API server has.

use loopwatch_model::observation::*;
use loopwatch_model::settings::Settings;
use loopwatch_model::time::Span;

use crate::lab::{Lab, START, kind, watch};

#[test]
fn two_audits_with_the_same_difference_open_a_finding() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    let mut audit = |lab: &mut Lab, objects| {
        lab.advance(Span::mins(1));
        let probes = lab.model.probes();

        assert_eq!(probes, [Probe::Count(watch())]);

        let version = 1_000_000 + lab.now.0 - START.0;
        let answer =
            loopwatch_model::observation::Answer::Counted { objects, version: version.to_string() };
        lab.observe(Observation::Answered { probe: Probe::Count(watch()), answer });
        lab.observe(Observation::Progressed { watch: watch(), version: version.to_string() });
        widget.touch_status();
    };

    audit(&mut lab, 1);
    lab.assert_no_findings();
    audit(&mut lab, 2);
    lab.assert_no_findings();
    audit(&mut lab, 2);

    assert_eq!(lab.findings(), ["StateInconsistent source watch/widgets.example.io"]);

    audit(&mut lab, 1);
    lab.assert_no_findings();
}

#[test]
fn audits_continue_after_a_restored_backup() {
    let mut lab = Lab::new();
    let widget = lab.converged("web");
    lab.version = 10; // the versions of the backup
    lab.list(&[widget]);

    for _ in 0..2 {
        lab.advance(Span::mins(1));
        assert_eq!(lab.model.probes(), [Probe::Count(watch())]);

        let version = lab.version.to_string();
        let answer = loopwatch_model::observation::Answer::Counted { objects: 7, version };
        lab.observe(Observation::Answered { probe: Probe::Count(watch()), answer });
    }

    assert_eq!(lab.findings(), ["StateInconsistent source watch/widgets.example.io"]);
}

#[test]
fn audits_at_every_instant_do_not_hang() {
    let mut lab = Lab::with(Settings { audit_every: Span::ZERO, ..Settings::default() });
    let mut filtered = kind();
    filtered.filtered = true;
    lab.discover(&[filtered]);
    lab.list(&[]);
    lab.advance(Span::secs(1));
}

#[test]
fn a_watch_that_has_ended_has_no_audits() {
    let mut lab = Lab::new();
    lab.advance(Span::mins(2));
    lab.discover(&[]);
    lab.model.probes();

    assert_eq!(lab.model.next_due(), None);
}

/// Answers audits for an hour; returns the minutes between them.
fn minutes_between_audits(lab: &mut Lab, objects: u64, minutes: i64) -> Vec<i64> {
    let (mut between, mut since) = (Vec::new(), 0);
    for _ in 0..minutes {
        lab.advance(Span::mins(1));
        since += 1;
        for probe in lab.model.probes() {
            let version = (1_000_000 + lab.now.0 - START.0).to_string();
            let answer = Answer::Counted { objects, version: version.clone() };
            lab.observe(Observation::Answered { probe, answer });
            lab.observe(Observation::Progressed { watch: watch(), version });
            between.push(since);
            since = 0;
        }
    }

    between
}

#[test]
fn audits_become_rare_while_they_agree_and_frequent_after_a_difference() {
    let mut lab = Lab::new();
    let _ = lab.converged("web");
    let between = minutes_between_audits(&mut lab, 1, 120);

    assert_eq!(between[..5], [1; 5]);
    assert_eq!(between[5..], [2, 4, 8, 16, 16, 16, 16, 16, 16], "at most 16 times as long");

    // Another object, whose event is lost.
    let between = minutes_between_audits(&mut lab, 2, 30);
    assert!(between[0] <= 16 && between.len() > 10, "{between:?}");
    assert_eq!(between[1..4], [1; 3], "a difference counts at once");
    assert_eq!(lab.findings(), ["StateInconsistent source watch/widgets.example.io"]);

    let between = minutes_between_audits(&mut lab, 1, 10);
    assert_eq!(between, [1, 1, 1, 1, 1, 2], "again rarer after three in a row");
    lab.assert_no_findings();
}
