//! Watches that come and go as the scope of loopwatch changes.

use loopwatch_model::observation::*;
use loopwatch_model::settings::{Limits, Settings};
use loopwatch_model::snapshot::{ObjectState, Outcome};
use loopwatch_model::time::Span;

use crate::lab::{Lab, Widget, forbidden, kind, namespaced, other_kind, unlearned, watch};

fn child() -> WatchedKind {
    WatchedKind { role: Role::Child, ..kind() }
}

#[test]
fn counters_do_not_go_back_when_the_scope_changes() {
    let narrow = namespaced("team-a");
    let mut lab = Lab::new();
    for number in 0..5 {
        let mut widget = lab.converged(&format!("w{number}"));
        lab.apply(widget.spec(2, lab.now));
    }

    lab.advance(Span::mins(11));
    let mut seen = vec![lab.outcomes(Outcome::Late)];
    lab.discover(&[narrow]); // the ClusterRole is edited: only one namespace for an hour
    lab.advance(Span::hours(1));
    seen.push(lab.outcomes(Outcome::Late));
    lab.discover(&[kind()]);
    seen.push(lab.outcomes(Outcome::Late));

    assert!(seen.is_sorted(), "late at three scrapes: {seen:?}");
    assert_eq!(seen, [5, 5, 5]);
}

#[test]
fn no_counter_of_a_kind_goes_back_when_scopes_permissions_and_namespaces_change() {
    let mut lab = Lab::new();
    let mut last: Vec<u64> = Vec::new();
    for round in 0..12_u32 {
        let mut widget = lab.converged(&format!("w{round}"));
        lab.apply(widget.condition("Synced", ConditionStatus::True, "x"));
        lab.apply(widget.condition("Synced", ConditionStatus::False, "x"));
        lab.apply(widget.spec(2, lab.now));
        lab.advance(Span::mins(11));
        widget.finalizers = vec!["example.io/f".into()];
        widget.deleted = Some(lab.now);
        lab.apply(&widget);

        lab.delete(&widget);
        let elsewhere = namespaced("team-b");
        match round % 4 {
            0 => lab.discover(&[forbidden(kind())]),
            1 => lab.discover(std::slice::from_ref(&elsewhere)),
            2 => lab.discover(&[child()]),
            _ => lab.blind_for(Span::mins(5)),
        }

        lab.advance(Span::mins(5));
        lab.discover(&[kind()]);
        lab.list(&[]);
        lab.recover();

        let kind = lab.kind();
        let mut seen: Vec<u64> =
            kind.namespaces.values().flat_map(|totals| totals.obligations).collect();
        seen.extend(kind.finalizers.values().flat_map(|finalizer| finalizer.totals.outcomes));
        seen.extend([kind.totals.convergence.count(), kind.totals.acknowledge.count()]);
        seen.extend(kind.totals.flaps.values());
        seen.extend(lab.snapshot().sources[0].failures.values());

        assert!(
            last.len() <= seen.len() && last.iter().zip(&seen).all(|(old, new)| old <= new),
            "{last:?} {seen:?}"
        );

        last = seen;
    }
}

#[test]
fn a_regression_has_the_same_start_although_the_scope_changes_before_it_is_a_finding() {
    let narrow = namespaced("team-a");
    let mut lab = Lab::new();
    let mut web = lab.converged("web");
    lab.advance(Span::hours(30));

    let lost = lab.now;
    lab.apply(web.failed("Crashed"));
    lab.advance(Span::mins(1));
    lab.discover(std::slice::from_ref(&narrow));

    let view = lab.view(&web);
    lab.list_in(&narrow.watch, vec![view]);
    lab.advance(Span::mins(10));

    assert_eq!(lab.findings(), ["Regressed Widget team-a/web"]);
    assert_eq!(lab.since("Regressed"), lost);
}

#[test]
fn a_finding_has_the_same_identity_and_start_after_a_change_of_scope() {
    let narrow = namespaced("team-a");
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::mins(15));

    let before = lab.snapshot().findings;
    let view = lab.view(&widget);
    lab.discover(std::slice::from_ref(&narrow));
    lab.list_in(&narrow.watch, vec![view]);
    lab.recover_watch(&narrow.watch);

    let after = lab.snapshot().findings;
    assert_eq!((after[0].id, after[0].since), (before[0].id, before[0].since));
    assert_eq!(lab.outcomes(Outcome::Late), 1, "counted once");
}

#[test]
fn a_watch_that_failed_when_it_ended_is_judged_when_it_returns() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.fail();
    lab.advance(Span::mins(5));
    lab.discover(&[namespaced("team-b")]);
    lab.assert_no_findings();
    lab.discover(&[kind()]);

    lab.list(&[widget]);
    lab.recover();
    lab.advance(Span::mins(10));

    assert_eq!(lab.findings(), ["Unacknowledged Widget team-a/web"]);
}

#[test]
fn an_object_that_was_created_anew_without_a_delete_event_has_no_findings_of_the_old_one() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::mins(11));

    assert!(lab.has("Unacknowledged"));

    let mut anew = Widget::new("web", lab.now);
    anew.uid += 1;
    lab.apply(anew.ready());
    lab.advance(Span::mins(1));
    lab.assert_no_findings();

    assert_eq!(
        (lab.outcomes(Outcome::Late), lab.outcomes(Outcome::Deleted)),
        (1, 0),
        "it was late already"
    );
}

#[test]
fn a_failed_object_stays_found_when_its_namespace_leaves_the_scope_and_returns() {
    let (mine, theirs) = (namespaced("team-a"), namespaced("team-b"));
    let mut lab = Lab::unsynced(unlearned());
    lab.discover(&[mine.clone(), theirs.clone()]);
    lab.list_in(&theirs.watch, Vec::new());

    let mut redis = Widget::new("redis", lab.ago(Span::hours(100)));
    let view = lab.view(redis.ready());
    lab.list_in(&mine.watch, vec![view]);
    lab.advance(Span::hours(1));

    let view = lab.view(redis.failed("AofCorrupt"));
    lab.apply_to(&mine.watch, view);
    lab.advance(Span::mins(10));

    let before = lab.finding("Regressed");
    lab.discover(std::slice::from_ref(&theirs));
    lab.advance(Span::mins(5));
    lab.discover(&[mine.clone(), theirs]);

    let view = lab.view(&redis);
    lab.list_in(&mine.watch, vec![view]);
    lab.advance(Span::mins(2));

    assert!(
        lab.has("Regressed"),
        "still down: {:?}, state {:?}",
        lab.findings(),
        lab.state("redis")
    );
    assert_eq!(lab.since("Regressed"), before.since);
}

#[test]
fn a_healthy_object_that_moves_when_the_scope_changes_is_not_overdue_since_its_creation() {
    let narrow = namespaced("team-a");
    let mut lab = Lab::new();
    let mut pool = lab.converged("pool");
    lab.advance(Span::hours(30));
    lab.discover(std::slice::from_ref(&narrow));

    let view = lab.view(pool.waiting()); // a node has just been drained
    lab.list_in(&narrow.watch, vec![view]);
    lab.advance(Span::mins(2));
    lab.assert_no_findings();

    let view = lab.view(pool.ready());
    lab.apply_to(&narrow.watch, view);
    lab.advance(Span::hours(1));
    lab.assert_no_findings();
}

#[test]
fn a_stuck_deletion_has_the_same_start_after_its_namespace_was_out_of_scope() {
    let (mine, theirs) = (namespaced("team-a"), namespaced("team-b"));
    let mut lab = Lab::unsynced(unlearned());
    lab.discover(&[mine.clone(), theirs.clone()]);
    lab.list_in(&theirs.watch, Vec::new());

    let mut restore = Widget::new("restore-1", lab.ago(Span::hours(2)));
    restore.ready().finalizers = vec!["restores.velero.io/external-resources-finalizer".into()];
    restore.deleted = Some(lab.ago(Span::mins(20)));

    let view = lab.view(&restore);
    lab.list_in(&mine.watch, vec![view.clone()]);
    lab.advance(Span::mins(1));

    let before = lab.finding("FinalizerStuck");
    lab.discover(std::slice::from_ref(&theirs));
    lab.advance(Span::hours(1));
    lab.assert_no_findings();
    lab.discover(&[mine.clone(), theirs]);
    lab.list_in(&mine.watch, vec![view]);
    lab.advance(Span::mins(1));

    let after = lab.finding("FinalizerStuck");
    assert_eq!((after.id, after.since), (before.id, before.since));
}

#[test]
fn outcomes_do_not_go_back_when_a_namespace_leaves_returns_and_loses_its_place() {
    let mut lab = Lab::with(Settings {
        limits: Limits { namespaces: 2, ..Limits::default() },
        ..unlearned()
    });
    let mut last = 0;
    for round in 0..12 {
        let mut view = lab.view(Widget::new("preview", lab.now).ready());
        view.key.namespace = format!("pr-{}", round % 5);
        view.uid = format!("uid-{round}");
        lab.apply_view(view.clone());
        lab.advance(Span::mins(1));

        let converged = lab.outcomes(Outcome::Converged);
        assert!(converged > last, "round {round}: {converged} after {last}");

        last = converged;
        lab.version += 1;

        let version = lab.version.to_string();
        lab.observe(Observation::Deleted { watch: watch(), key: view.key, version });
    }
}

#[test]
fn the_failure_of_a_watch_that_ended_is_not_a_finding() {
    let mut lab = Lab::new();
    lab.discover(&[other_kind("Thing")]);
    lab.fail(); // sent before the watch was aborted
    lab.advance(Span::mins(10));

    assert!(!lab.has("SourceFailing"), "{:?}", lab.findings());
}

#[test]
fn a_watch_that_returns_after_it_failed_is_not_blind() {
    let mut lab = Lab::new();
    lab.fail();
    lab.advance(Span::mins(10));
    lab.discover(&[other_kind("Thing")]);
    lab.discover(&[kind(), other_kind("Thing")]);

    let mut w = Widget::new("web", lab.now);
    w.ready();
    lab.list(&[w.clone()]);

    assert_eq!(lab.state("web"), ObjectState::Converged);
}

#[test]
fn a_full_set_of_watches_can_be_exchanged() {
    let limits = Limits { watches: 1, ..Limits::default() };
    let mut lab = Lab::with(Settings { limits, ..unlearned() });
    lab.discover(&[other_kind("Thing")]);

    let snapshot = lab.snapshot();
    assert_eq!(
        snapshot.kinds.iter().map(|k| k.kind.as_str()).collect::<Vec<_>>(),
        ["Thing"],
        "{:?}",
        snapshot.dropped
    );
}
