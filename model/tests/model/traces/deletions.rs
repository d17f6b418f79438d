//! Traces of deletions, and the change of a leader in them.

use loopwatch_model::observation::Observation;
use loopwatch_model::snapshot::Outcome;
use loopwatch_model::time::Span;
use loopwatch_model::trace::{OperatorChange, TraceCause, TraceLink};

use super::{ended, gathering, lab};
use crate::lab::pods::{OPERATOR, Op, POD};
use crate::lab::{kind, unlearned};

#[test]
fn a_deletion_waits_for_finalizers() {
    let mut lab = lab();
    let mut web = lab.converged("web");
    web.finalizers = vec!["a.example.io/dns".into(), "b.example.io/disk".into()];
    lab.apply(web.spec(2, lab.now));
    ended(&mut lab);
    lab.advance(Span::secs(1));
    web.deleted = Some(lab.now);
    lab.apply(&web);

    assert_eq!(ended(&mut lab)[0], "web spec_changed deleted after 1s");

    lab.advance(Span::secs(20));
    web.finalizers.remove(0);
    lab.apply(&web);
    lab.advance(Span::secs(10));
    lab.delete(&web);

    assert_eq!(
        ended(&mut lab),
        [
            "web deletion_requested deleted after 30s",
            "  finalizer a.example.io/dns: 0s to 20s",
            "  finalizer b.example.io/disk: 0s to 30s",
            "  Ready=True AsExpected: 0s to …",
        ]
        .map(|line| line.replace("disk: 0s to 30s", "disk: 0s to …"))
    );
}

#[test]
fn a_stuck_deletion_ends_its_trace_and_the_rest_follows() {
    let mut lab = lab();
    let mut web = lab.converged("web");
    ended(&mut lab);
    web.finalizers = vec!["example.io/disk".into()];
    web.deleted = Some(lab.now);
    lab.apply(&web);
    lab.advance(Span::mins(40));

    let stuck = lab.model.traces();
    assert_eq!(
        (stuck.len(), stuck[0].outcome, stuck[0].cause),
        (1, Outcome::Late, TraceCause::DeletionRequested)
    );
    assert!(stuck[0].is_failure());

    lab.delete(&web);
    let rest = lab.model.traces();

    assert_eq!((rest[0].outcome, rest[0].key.late), (Outcome::Deleted, true));
    assert_eq!(rest[0].links, [TraceLink::Continues(stuck[0].key.clone())]);
}

#[test]
fn a_deletion_that_becomes_visible_again_ends_no_trace_twice() {
    let mut settings = unlearned();
    settings.finalizer_stuck_after = Span::mins(10);
    let mut lab = gathering(settings.clone());
    let mut web = lab.converged("web");
    ended(&mut lab);
    web.finalizers = vec!["example.io/disk".into()];
    web.deleted = Some(lab.now);
    lab.apply(&web);
    lab.advance(Span::mins(15));

    assert_eq!(ended(&mut lab)[0], "web deletion_requested late after 600s");

    // The permission to list is withdrawn and granted again, while the threshold changes.
    lab.observe(Observation::KindsDiscovered(vec![]));
    settings.finalizer_stuck_after = Span::mins(60);
    lab.observe(Observation::SettingsChanged(Box::new(settings)));
    lab.observe(Observation::KindsDiscovered(vec![kind()]));
    lab.list(&[web.clone()]);
    lab.delete(&web);

    assert_eq!(ended(&mut lab), [""; 0]);
}

#[test]
fn the_change_of_a_leader_is_an_event_of_the_traces_that_it_falls_into() {
    let mut lab = lab();
    Op::running(&lab).seen(&mut lab);
    lab.renew(POD);

    let mut web = lab.converged("web");
    lab.apply(web.spec(2, lab.now));
    lab.model.traces();
    lab.advance(Span::secs(5));
    lab.renew(&format!("{OPERATOR}-7d9f8c6b5-bbbbb"));
    lab.advance(Span::secs(5));
    lab.apply(web.ready());
    lab.advance(Span::mins(1));

    let traces = lab.model.traces();
    let events: Vec<_> = traces[0]
        .events
        .iter()
        .map(|event| (event.at.since(traces[0].start), event.what))
        .collect();

    assert_eq!(events, [(Span::secs(5), OperatorChange::LeaderChanged)]);

    lab.apply(web.spec(3, lab.now));
    lab.apply(web.ready());
    lab.advance(Span::mins(1));

    assert!(lab.model.traces()[0].events.is_empty(), "it was before");
}
