//! Which finding explains which.

use loopwatch_model::finding::{Change, Severity};
use loopwatch_model::settings::FindingRule;
use loopwatch_model::time::Span;

use crate::lab::{Lab, Widget, kind, ruled, unlearned};

#[test]
fn objects_that_regressed_with_their_kind_are_explained_until_the_kind_recovers() {
    let mut lab = Lab::new();
    let mut fleet = lab.fleet(&["a", "b", "c", "d"]);
    fleet.iter_mut().for_each(|widget| lab.apply(widget.failed("DnsDown")));
    lab.advance(Span::mins(6));

    assert_eq!(lab.roots(), ["Failing Widget (all)"]);

    lab.model.finding_events();
    fleet[1..].iter_mut().for_each(|widget| lab.apply(widget.ready()));
    lab.advance(Span::mins(1));

    assert_eq!(lab.roots(), ["Regressed Widget team-a/a"]);

    let events = lab.model.finding_events();
    let told = events
        .iter()
        .any(|event| event.change == Change::Explained && event.finding.explained_by.is_none());

    assert!(told, "nobody explains it any more");
}

#[test]
fn a_failure_of_the_kind_that_is_only_information_does_not_explain_tickets_away() {
    let mut lab = Lab::with(ruled(
        "Failing",
        FindingRule { severity: Some(Severity::Info), ..FindingRule::default() },
    ));
    let mut caches = lab.fleet(&["a", "b", "c", "d"]);

    caches.iter_mut().for_each(|cache| lab.apply(cache.failed("OutOfMemory")));
    lab.advance(Span::mins(10));

    assert!(lab.has("Failing") && lab.has("Regressed"), "{:?}", lab.findings());

    let tickets = lab.roots().into_iter().filter(|root| root.starts_with("Regressed")).count();
    assert_eq!(
        tickets,
        4,
        "an information raises no alert, so nobody would hear of it: {:?}",
        lab.roots()
    );
}

#[test]
fn a_suspected_finding_does_not_explain_one_that_is_confirmed_now() {
    let mut lab = Lab::unsynced(unlearned());
    let mut suspected = kind();
    suspected.suspected = true;
    lab.discover(&[suspected]);
    lab.list(&[]);

    let mut widgets: Vec<Widget> = (0..4).map(|i| lab.converged(&format!("w{i}"))).collect();
    lab.advance(Span::hours(1));
    for w in &mut widgets {
        lab.apply(w.failed("Broken"));
    }

    lab.advance(Span::mins(10));
    lab.discover(&[kind()]);

    let snapshot = lab.snapshot();
    for f in &snapshot.findings {
        let root =
            f.explained_by.and_then(|id| snapshot.findings.iter().find(|other| other.id == id));

        assert!(root.is_none_or(|root| root.confidence >= f.confidence), "{f:?} by {root:?}");
        assert_eq!(f.confidence, loopwatch_model::finding::Confidence::Confirmed);
    }
}
