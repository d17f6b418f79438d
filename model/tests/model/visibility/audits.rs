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
