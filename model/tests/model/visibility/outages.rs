//! Outages of the API server, and the verdict that an engineer on call expects during and after
//! them.

use loopwatch_model::observation::{Cause, LeaseView, Observation, SourceId};
use loopwatch_model::settings::Settings;
use loopwatch_model::snapshot::Outcome;
use loopwatch_model::time::Span;

use crate::lab::{Lab, Widget, namespaced, unlearned};

#[test]
fn cnpg_is_dead_while_two_watches_of_the_kind_break_in_turns() {
    let (mine, theirs) = (namespaced("team-a"), namespaced("team-b"));
    let mut lab = Lab::unsynced(unlearned());
    lab.discover(&[mine.clone(), theirs.clone()]);

    let mut pg = Widget::new("pg-main", lab.ago(Span::hours(50)));
    let view = lab.view(pg.ready());
    lab.list_in(&mine.watch, vec![view]);
    lab.list_in(&theirs.watch, Vec::new());
    lab.advance(Span::mins(5));

    let changed = lab.now;
    let view = lab.view(pg.spec(2, changed));
    lab.apply_to(&mine.watch, view);

    for _ in 0..40 {
        for broken in [&mine.watch, &theirs.watch] {
            lab.fail_watch(broken);
            lab.advance(Span::secs(13));
            lab.recover_watch(broken);
            lab.advance(Span::secs(9));
        }
    }

    assert_eq!(lab.findings(), ["Unacknowledged Widget team-a/pg-main"]);
    assert_eq!(lab.since("Unacknowledged"), changed);
}

#[test]
fn a_crossplane_bucket_deleted_in_an_outage_is_stuck_since_its_deletion_timestamp() {
    let mut lab = Lab::new();
    let mut bucket = lab.converged("logs");
    lab.advance(Span::hours(3));
    lab.fail();
    lab.advance(Span::mins(2));

    let deleted = lab.now;
    bucket.finalizers = vec!["finalizer.managedresource.crossplane.io".into()];
    bucket.deleted = Some(deleted);
    lab.advance(Span::mins(25));
    lab.list(std::slice::from_ref(&bucket));
    lab.recover();

    assert!(!lab.has("FinalizerStuck"), "the provider had no connection either");

    lab.advance(Span::mins(1));
    assert_eq!(lab.findings(), ["FinalizerStuck Widget team-a/logs"]);
    assert_eq!(lab.since("FinalizerStuck"), deleted);
}

#[test]
fn a_finalizer_removed_in_an_outage_is_not_removed_late_if_the_watch_resumes() {
    let mut lab = Lab::new();
    let volume = lab.terminating("pvc-7", &["external-attacher/csi"]);
    lab.advance(Span::mins(1));
    lab.fail();
    lab.advance(Span::mins(30));
    lab.recover(); // the watch goes on from its version, and the event of the outage follows
    lab.delete(&volume);

    let outcomes = lab.kind().finalizers["external-attacher/csi"].totals.outcomes;
    assert_eq!(outcomes[1], 0, "nobody knows when it was removed: {outcomes:?}");
}

#[test]
fn an_outage_of_leases_namespaces_and_discovery_freezes_no_object() {
    let mut lab = Lab::new();
    let mut gateway = lab.converged("gateway");
    lab.observe(Observation::LeaseSeen(LeaseView {
        namespace: "istio-system".into(),
        name: "istio-leader".into(),
        renewed: Some(lab.now),
        ..LeaseView::default()
    }));

    for source in [SourceId::Lease, SourceId::Namespaces, SourceId::Discovery, SourceId::Audit] {
        lab.fail_source(&source, Cause::Forbidden);
    }

    let changed = lab.now;
    lab.apply(gateway.spec(2, changed));
    lab.advance(Span::mins(10));

    assert!(lab.has("Unacknowledged"), "{:?}", lab.findings());
    assert_eq!(lab.since("Unacknowledged"), changed);
    assert_eq!((lab.outcomes(Outcome::Late), lab.outcomes(Outcome::Unknown)), (1, 0));
}

#[test]
fn a_finding_that_opened_a_second_before_an_outage_stays_open_through_three_outages() {
    let mut lab = Lab::new();
    let mut issuer = lab.converged("letsencrypt");
    lab.apply(issuer.spec(2, lab.now));
    lab.apply(issuer.waiting());
    lab.advance(Span::secs(601));

    assert_eq!(lab.object_changes(), ["Opened Overdue Widget team-a/letsencrypt"]);

    for minutes in [1, 20, 3] {
        lab.blind_for(Span::mins(minutes));
        lab.advance(Span::secs(5));
    }

    assert!(lab.object_changes().is_empty());

    lab.apply(issuer.ready());
    lab.advance(Span::mins(1));

    assert_eq!(lab.object_changes(), ["Closed Overdue Widget team-a/letsencrypt"]);
    assert_eq!((lab.outcomes(Outcome::Late), lab.outcomes(Outcome::Unknown)), (1, 0));
}

#[test]
fn a_deadline_in_an_outage_is_unknown_and_one_right_after_it_is_late() {
    let mut lab = Lab::new();
    let mut soon = lab.converged("soon");
    let mut later = lab.converged("later");
    lab.apply(soon.spec(2, lab.now));
    lab.advance(Span::mins(3));
    lab.apply(later.spec(2, lab.now));
    lab.advance(Span::mins(6));
    lab.blind_for(Span::mins(2)); // the first deadline passes here

    lab.advance(Span::mins(5)); // the second one here
    assert_eq!((lab.outcomes(Outcome::Unknown), lab.outcomes(Outcome::Late)), (1, 1));
    assert_eq!(lab.findings().len(), 2, "{:?}", lab.findings());
}

#[test]
fn a_flapping_condition_stays_found_in_an_outage_that_is_longer_than_its_window() {
    let mut lab = Lab::new();
    let mut store = lab.converged("vault");
    lab.advance(Span::hours(1));

    for _ in 0..4 {
        lab.apply(store.waiting());
        lab.advance(Span::mins(1));
        lab.apply(store.ready());
        lab.advance(Span::mins(1));
    }

    assert!(lab.has("ConditionFlapping"), "{:?}", lab.findings());

    lab.object_changes();
    lab.fail();
    lab.advance(Span::mins(50));

    assert!(lab.object_changes().is_empty(), "frozen");

    lab.recover();
    lab.advance(Span::mins(2));

    assert_eq!(lab.object_changes(), ["Closed ConditionFlapping Widget team-a/vault"]);
}

#[test]
fn a_phase_gets_stuck_in_an_outage_and_is_found_after_the_grace() {
    let mut lab = Lab::with(Settings { deadline: Span::hours(2), ..unlearned() });
    let mut vm = lab.converged("vm");
    lab.apply(vm.spec(2, lab.now));
    lab.advance(Span::mins(1));
    lab.apply(vm.waiting());

    let entered = lab.now;
    lab.apply(vm.phase("Migrating"));
    lab.advance(Span::mins(118));
    lab.fail();
    lab.advance(Span::mins(3));

    assert!(lab.object_changes().is_empty(), "{:?}", lab.findings());

    lab.recover();
    lab.advance(Span::mins(1));

    assert!(lab.has("PhaseStuck") && lab.has("Overdue"), "{:?}", lab.findings());
    assert_eq!(lab.since("PhaseStuck"), entered);
}

#[test]
fn an_object_mended_in_an_outage_opens_nothing_when_the_watch_resumes() {
    let mut lab = Lab::new();
    let mut cluster = lab.converged("rook");
    lab.advance(Span::hours(1));
    lab.apply(cluster.waiting());
    lab.advance(Span::mins(2));
    lab.changes();
    lab.fail();
    lab.advance(Span::mins(10));

    lab.recover();
    lab.apply(cluster.ready()); // the event of the outage
    lab.advance(Span::hours(1));

    assert!(lab.object_changes().is_empty());
}

#[test]
fn a_kind_fails_in_one_namespace_while_the_watch_of_another_is_blind() {
    let (mine, theirs) = (namespaced("team-a"), namespaced("team-b"));
    let mut lab = Lab::unsynced(unlearned());
    lab.discover(&[mine.clone(), theirs.clone()]);

    let old = lab.ago(Span::hours(100));
    let mut widgets: Vec<Widget> = ["a", "b", "c", "d"].map(|name| Widget::new(name, old)).into();
    let views = widgets.iter_mut().map(|widget| lab.view(widget.ready())).collect();
    lab.list_in(&mine.watch, views);
    lab.list_in(&theirs.watch, Vec::new());
    lab.advance(Span::mins(5));
    lab.fail_watch(&theirs.watch);

    for widget in &mut widgets {
        let view = lab.view(widget.failed("CertificateAuthorityGone"));
        lab.apply_to(&mine.watch, view);
    }

    lab.advance(Span::mins(1));
    assert_eq!(lab.findings(), ["Failing Widget (all)"]);
}

#[test]
fn a_rolling_update_with_an_outage_in_the_middle_is_not_flapping() {
    let mut lab = Lab::new();
    let mut kafka = lab.converged("kafka");
    lab.advance(Span::hours(1));
    lab.apply(kafka.spec(2, lab.now));
    lab.roll(&mut kafka, 2, "Ready");
    lab.blind_for(Span::secs(30));
    lab.roll(&mut kafka, 2, "Ready");
    lab.fail();

    lab.advance(Span::secs(20));
    lab.list(std::slice::from_ref(&kafka));
    lab.recover();
    lab.roll(&mut kafka, 1, "Ready");
    lab.advance(Span::mins(30));
    lab.assert_no_findings();
}

#[test]
fn an_object_that_was_ready_for_most_of_an_outage_has_not_been_lost_since_before_it() {
    let mut lab = Lab::new();
    let mut web = lab.converged("web");
    lab.advance(Span::hours(1));
    web.changed = Some(lab.now);
    lab.apply(web.waiting());
    lab.advance(Span::mins(2));
    lab.fail();
    lab.advance(Span::hours(1));

    let lost = lab.ago(Span::mins(1)); // mended early in the outage, and lost again a minute ago
    web.changed = Some(lost);
    lab.list(&[web.touch_status().clone()]);
    lab.recover();
    lab.advance(Span::mins(3));

    assert!(!lab.has("Regressed"), "four minutes: {:?}", lab.findings());

    lab.advance(Span::mins(2));
    assert_eq!(lab.since("Regressed"), lost);
}

#[test]
fn a_regression_among_the_events_of_an_outage_began_when_its_condition_says() {
    let mut lab = Lab::new();
    let mut web = lab.converged("web");
    lab.advance(Span::hours(1));
    web.changed = Some(lab.now);
    lab.apply(web.waiting());
    lab.advance(Span::mins(1));
    lab.fail();
    lab.advance(Span::mins(10));

    web.changed = Some(lab.now);
    let mended = lab.view(web.ready());
    lab.advance(Span::mins(10));

    let lost = lab.now;
    web.changed = Some(lost);

    let broken = lab.view(web.waiting());
    lab.advance(Span::mins(10));
    lab.recover(); // the watch goes on from its version, and delivers both events at once
    lab.apply_view(mended);
    lab.apply_view(broken);
    lab.advance(Span::mins(6));

    assert_eq!(lab.since("Regressed"), lost);
}

#[test]
fn a_regression_that_was_mended_before_a_spec_change_in_an_outage_is_over() {
    let mut lab = Lab::new();
    let mut web = lab.converged("web");
    lab.advance(Span::hours(1));
    web.changed = Some(lab.now);
    lab.apply(web.failed("DiskFull"));
    lab.advance(Span::mins(10));

    assert!(lab.has("Regressed"));

    lab.fail();
    lab.advance(Span::mins(5));
    web.changed = Some(lab.now);
    web.ready();
    lab.advance(Span::mins(5));
    web.spec(2, lab.now); // the status is Ready=True, about the spec before
    lab.advance(Span::mins(1));
    lab.list(std::slice::from_ref(&web));

    lab.recover();
    lab.advance(Span::mins(2));
    lab.assert_no_findings();
}
