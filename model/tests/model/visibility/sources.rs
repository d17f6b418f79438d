//! Sources and watches that fail, and objects that they cannot read.

use loopwatch_model::observation::{Cause, Observation, SourceId};
use loopwatch_model::settings::Settings;
use loopwatch_model::snapshot::{ObjectState, Outcome};
use loopwatch_model::time::Span;

use crate::lab::{Lab, kind, unlearned, watch};

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

    let source = SourceId::Watch(watch());
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

    lab.recover_source(&source);
    lab.assert_no_findings();

    assert_eq!(lab.state("web"), ObjectState::Converged);
}

#[test]
fn a_deadline_that_passes_while_the_watch_is_blind_is_unknown_not_late() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));

    let source = SourceId::Watch(watch());
    lab.fail_source(&source, Cause::Timeout);
    lab.advance(Span::mins(20));

    assert_eq!((lab.outcomes(Outcome::Late), lab.outcomes(Outcome::Unknown)), (0, 1));

    lab.recover_source(&source);
    lab.list(&[widget.ready().clone()]);
    lab.advance(Span::secs(10));
    lab.assert_no_findings();
}

#[test]
fn an_invalid_configuration_opens_a_finding_immediately() {
    let mut lab = Lab::new();
    let _detail = "unknown key \"deadlin\"; did you mean \"deadline\"?".to_owned();
    lab.fail_source(&SourceId::Config, Cause::Invalid);

    assert_eq!(lab.findings(), ["ConfigInvalid source config"]);
    assert!(lab.evidence().contains("did you mean"), "{}", lab.evidence());
}

#[test]
fn watches_are_pending_until_their_first_list_or_their_first_failure() {
    let mut lab = Lab::unsynced(Settings::default());
    assert_eq!(loopwatch_model::model::Model::new(Settings::default()).pending(), ["discovery"]);
    assert_eq!(lab.model.pending(), ["widgets.example.io"]);

    let source = SourceId::Watch(watch());
    lab.fail_source(&source, Cause::Timeout);

    assert!(lab.model.pending().is_empty(), "it fails");

    lab.recover_source(&source);
    assert_eq!(lab.model.pending(), ["widgets.example.io"]);

    lab.list(&[]);
    assert!(lab.model.pending().is_empty(), "it is listed");

    let denied =
        loopwatch_model::observation::WatchedKind { missing: vec!["list".into()], ..kind() };
    lab.discover(&[denied]);

    assert!(lab.model.pending().is_empty(), "the account may not list it");
}

#[test]
fn an_object_that_a_list_had_to_skip_keeps_its_findings() {
    let mut lab = Lab::with(unlearned());
    let mut large = lab.converged("large");
    let (small, gone) = (lab.converged("small"), lab.converged("gone"));
    lab.apply(large.waiting());
    lab.advance(Span::mins(20));

    assert_eq!(lab.findings(), ["Regressed Widget team-a/large"]);

    lab.begin_list(&watch());
    let view = lab.view(&small);
    lab.listed(&watch(), view);

    let view = lab.view(&gone);
    lab.listed(&watch(), view);
    lab.observe(Observation::Skipped { source: SourceId::Watch(watch()), cause: Cause::TooLarge });
    lab.end_list(&watch());
    lab.advance(Span::mins(1));

    assert_eq!(
        lab.findings(),
        ["Regressed Widget team-a/large", "LimitReached limit object_bytes"]
    );

    lab.list(&[small]);
    lab.advance(Span::mins(1));

    assert_eq!(
        lab.findings(),
        ["LimitReached limit object_bytes"],
        "the complete list shows that it was removed"
    );
}
