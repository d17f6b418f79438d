//! Tests of findings about sources, permissions, configuration, audits and limits, and of lists,
//! restarts and finding events.

mod lab;

use lab::{Lab, START, Widget};
use loopwatch_model::observation::{
    Cause, Observation, Permission, PermissionsView, Probe, SourceId,
};
use loopwatch_model::settings::{Limits, Settings};
use loopwatch_model::snapshot::{ObjectState, Outcome};
use loopwatch_model::time::Span;

#[test]
fn a_source_that_works_but_cannot_read_everything_is_no_problem() {
    let mut lab = Lab::new();
    let source = SourceId::Process;
    let state = |lab: &Lab| {
        let snapshot = lab.snapshot();
        let source = snapshot.sources.iter().find(|source| source.source == "process").cloned();
        source.map(|source| (source.up, source.restricted, source.off)).expect("the source")
    };
    let restricted = |reason: &str| Observation::SourceRestricted {
        source: SourceId::Process,
        reason: reason.to_owned(),
    };

    lab.observe(restricted("cgroup: permission denied"));
    lab.advance(Span::hours(1));

    assert_eq!(state(&lab), (true, Some("cgroup: permission denied".to_owned()), None));

    lab.assert_no_findings();
    lab.observe(Observation::ProcessSeen(Box::default()));

    assert!(state(&lab).1.is_some(), "a sample changes nothing");

    for (observation, expected) in [
        (Observation::SourceRecovered { source: source.clone() }, (true, None, None)),
        (
            Observation::SourceFailed {
                source: source.clone(),
                cause: Cause::NotFound,
                detail: String::new(),
            },
            (false, None, None),
        ),
        (
            Observation::SourceOff { source, reason: "no".to_owned() },
            (true, None, Some("no".to_owned())),
        ),
    ] {
        lab.observe(restricted("again"));
        assert_eq!(state(&lab).1.as_deref(), Some("again"));

        lab.observe(observation);
        assert_eq!(state(&lab), expected);
    }
}

#[test]
fn a_watch_that_keeps_failing_opens_a_finding_and_its_objects_are_unknown() {
    let mut lab = Lab::new();
    lab.converged("web");

    let source = SourceId::Watch(lab::watch());
    let fails = Observation::SourceFailed {
        source: source.clone(),
        cause: Cause::Connection,
        detail: "refused".into(),
    };

    lab.observe(fails.clone());
    lab.advance(Span::secs(119));
    lab.observe(fails);
    lab.assert_no_findings();
    lab.advance(Span::secs(1));

    assert_eq!(lab.findings(), ["SourceFailing source watch/widgets.example.io"]);
    assert_eq!(
        lab.state("web"),
        ObjectState::Unknown,
        "the state that the watch saw last may be out of date"
    );
    assert_eq!(lab.snapshot().kinds[0].states()[ObjectState::Unknown as usize], 1);

    lab.observe(Observation::SourceRecovered { source });
    lab.assert_no_findings();

    assert_eq!(lab.state("web"), ObjectState::Converged);
}

#[test]
fn a_deadline_that_passes_while_the_watch_is_blind_is_unknown_not_late() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));

    let source = SourceId::Watch(lab::watch());
    lab.observe(Observation::SourceFailed {
        source: source.clone(),
        cause: Cause::Timeout,
        detail: String::new(),
    });
    lab.advance(Span::mins(20));

    assert_eq!((lab.outcomes(Outcome::Late), lab.outcomes(Outcome::Unknown)), (0, 1));

    lab.observe(Observation::SourceRecovered { source });
    lab.list(&[widget.ready().clone()]);
    lab.advance(Span::secs(10));
    lab.assert_no_findings();
}

#[test]
fn missing_and_excess_permissions_open_findings_until_they_change() {
    let mut lab = Lab::new();
    let permission = |verb: &str, resource: &str| Permission {
        verb: verb.into(),
        group: "example.io".into(),
        resource: resource.into(),
    };
    let view = PermissionsView {
        missing: vec![permission("list", "gadgets")],
        excess: vec![permission("*", "*")],
        ..Default::default()
    };

    lab.observe(Observation::PermissionsReviewed(view));
    let mut found = lab.findings();
    found.sort();

    assert_eq!(
        found,
        [
            "PermissionExcess permission to *",
            "PermissionMissing permission to list gadgets.example.io"
        ]
    );

    lab.observe(Observation::PermissionsReviewed(PermissionsView::default()));
    lab.assert_no_findings();
}

#[test]
fn a_withdrawn_permission_hides_a_kind_until_it_is_granted_again() {
    let mut lab = Lab::new();
    let widget = lab.converged("web");
    let mut hidden = lab::kind();
    hidden.missing = vec!["watch".into()];
    lab.observe(Observation::KindsDiscovered(vec![hidden]));

    assert_eq!(lab.findings(), ["PermissionMissing permission to watch widgets.example.io"]);
    assert_eq!(lab.model.objects(), 0);

    lab.observe(Observation::KindsDiscovered(vec![lab::kind()]));
    lab.list(&[widget]);
    lab.advance(Span::mins(1));
    lab.assert_no_findings();

    assert_eq!(lab.state("web"), ObjectState::Converged);
}

#[test]
fn an_invalid_configuration_opens_a_finding_immediately() {
    let mut lab = Lab::new();
    let detail = "unknown key \"deadlin\"; did you mean \"deadline\"?".to_owned();
    lab.observe(Observation::SourceFailed {
        source: SourceId::Config,
        cause: Cause::Invalid,
        detail,
    });

    assert_eq!(lab.findings(), ["ConfigInvalid source config"]);
    assert!(lab.evidence().contains("did you mean"), "{}", lab.evidence());
}

#[test]
fn two_audits_with_the_same_difference_open_a_finding() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    let mut audit = |lab: &mut Lab, objects| {
        lab.advance(Span::mins(1));
        let probes = lab.model.probes();

        assert_eq!(probes, [Probe::Count(lab::watch())]);

        let version = 1_000_000 + lab.now.0 - START.0;
        let answer =
            loopwatch_model::observation::Answer::Counted { objects, version: version.to_string() };
        lab.observe(Observation::Answered { probe: Probe::Count(lab::watch()), answer });
        lab.observe(Observation::Progressed { watch: lab::watch(), version: version.to_string() });
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
        assert_eq!(lab.model.probes(), [Probe::Count(lab::watch())]);

        let version = lab.version.to_string();
        let answer = loopwatch_model::observation::Answer::Counted { objects: 7, version };
        lab.observe(Observation::Answered { probe: Probe::Count(lab::watch()), answer });
    }

    assert_eq!(lab.findings(), ["StateInconsistent source watch/widgets.example.io"]);
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
fn objects_beyond_the_limit_are_dropped_and_counted() {
    let limits = Limits { objects: 2, ..Limits::default() };
    let mut lab = Lab::with(Settings { limits, ..Settings::default() });
    for name in ["a", "b", "c"] {
        lab.apply(Widget::new(name, lab.now).ready());
    }

    assert_eq!(lab.model.objects(), 2);
    assert_eq!(lab.snapshot().dropped["objects"], 1);

    lab.advance(Span::mins(11));
    assert_eq!(
        lab.findings(),
        ["LimitReached limit objects"],
        "the third object is still left out"
    );

    lab.delete(&Widget::new("c", lab.now));
    lab.advance(Span::mins(11));
    lab.assert_no_findings();
}

#[test]
fn histories_are_limited_and_deleted_objects_free_theirs() {
    let limits = Limits { histories: 1, ..Limits::default() };
    let mut lab = Lab::with(Settings { limits, ..Settings::default() });
    let mut widgets: Vec<Widget> = ["a", "b"].map(|name| lab.converged(name)).into();
    widgets.iter_mut().for_each(|widget| lab.apply(widget.phase("Running").phase("Busy")));

    assert_eq!(lab.snapshot().dropped["histories"], 1);

    lab.delete(&widgets[0]);
    lab.apply(widgets[1].phase("Running"));

    assert_eq!(
        lab.snapshot().dropped["histories"],
        1,
        "the deletion made room for another history"
    );
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
fn a_restart_keeps_findings_and_counts_nothing_twice() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = ["a", "b", "c"].map(|name| lab.converged(name)).into();
    lab.apply(widgets[0].spec(2, lab.now)); // late before the restart
    lab.advance(Span::mins(11));
    lab.apply(widgets[1].spec(2, lab.now)); // late after the restart
    lab.advance(Span::mins(2));

    assert_eq!((lab.findings().len(), lab.outcomes(Outcome::Late)), (1, 1));

    let (before, checkpoint) = (lab.snapshot().findings[0].clone(), lab.model.checkpoint());

    let mut again = Lab::unsynced(Settings { learn_after: 0, ..Settings::default() });
    again.now = lab.now;
    again.observe(Observation::Restored(Box::new(checkpoint)));
    again.list(&widgets);

    assert_eq!(again.findings(), ["Unacknowledged Widget team-a/a"]);

    let after = again.snapshot().findings[0].clone();
    assert_eq!((after.id, after.since), (before.id, before.since), "the same alert as before");
    assert_eq!(again.outcomes(Outcome::Late), 0, "already counted");

    again.advance(Span::mins(8));
    assert_eq!((again.findings().len(), again.outcomes(Outcome::Late)), (2, 1));

    widgets.iter_mut().for_each(|widget| again.apply(widget.ready()));
    again.advance(Span::mins(1));
    again.assert_no_findings();

    assert_eq!(
        again.snapshot().kinds[0].totals.convergence.count(),
        0,
        "backfilled obligations stay out of histograms"
    );
}

#[test]
fn a_finding_makes_one_event_when_it_opens_and_one_when_it_closes() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.model.finding_events();
    lab.apply(widget.waiting());
    lab.advance(Span::mins(6));
    lab.apply(widget.ready());
    lab.advance(Span::mins(6));

    let events = lab.model.finding_events();
    let changes: Vec<_> =
        events.iter().map(|event| (event.finding.code.name(), event.change)).collect();
    use loopwatch_model::finding::Change::{Closed, Opened};

    assert_eq!(changes, [("Regressed", Opened), ("Regressed", Closed)]);
    assert!(events[1].finding.summary().contains("lost for 6m"), "{}", events[1].finding.summary());
    assert!(lab.model.finding_events().is_empty());
}

#[test]
fn watches_are_pending_until_their_first_list_or_their_first_failure() {
    let mut lab = Lab::unsynced(Settings::default());
    assert_eq!(loopwatch_model::model::Model::new(Settings::default()).pending(), ["discovery"]);
    assert_eq!(lab.model.pending(), ["widgets.example.io"]);

    let source = SourceId::Watch(lab::watch());
    lab.observe(Observation::SourceFailed {
        source: source.clone(),
        cause: Cause::Timeout,
        detail: String::new(),
    });

    assert!(lab.model.pending().is_empty(), "it fails");

    lab.observe(Observation::SourceRecovered { source });
    assert_eq!(lab.model.pending(), ["widgets.example.io"]);

    lab.list(&[]);
    assert!(lab.model.pending().is_empty(), "it is listed");

    let denied =
        loopwatch_model::observation::WatchedKind { missing: vec!["list".into()], ..lab::kind() };
    lab.observe(Observation::KindsDiscovered(vec![denied]));

    assert!(lab.model.pending().is_empty(), "the account may not list it");
}

#[test]
fn a_list_in_any_order_shows_which_object_has_no_status_yet() {
    for silent_first in [true, false] {
        let mut lab = Lab::unsynced(Settings::default());
        let mut widgets: Vec<Widget> = ["web", "api"]
            .map(|name| Widget::new(name, START).ready().clone())
            .into_iter()
            .collect();

        widgets.insert(if silent_first { 0 } else { 2 }, Widget::new("new", START));
        lab.list(&widgets);

        assert_eq!(lab.state("new"), ObjectState::Progressing, "most others have a status");
    }

    let mut lab = Lab::unsynced(Settings::default());
    lab.list(&[Widget::new("new", START), Widget::new("other", START)]);

    assert_eq!(lab.state("new"), ObjectState::Unknown, "no other has a status");
}
