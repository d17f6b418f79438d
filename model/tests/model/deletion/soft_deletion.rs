//! Soft deletion: objects that somebody has deleted, and that their operator keeps.

use loopwatch_model::observation::ObjectView;
use loopwatch_model::settings::Settings;
use loopwatch_model::snapshot::SoftDeletePhase;
use loopwatch_model::time::{Span, Timestamp};

use crate::lab::{Lab, START, Widget, kind, other_kind, unlearned};

const WEB: &str = "SoftDeleteLingering Widget team-a/web";

/// Applies a widget with these annotations, as `key=value`.
fn mark(lab: &mut Lab, widget: &Widget, annotations: &[&str]) {
    let view = marked(lab, widget, annotations);
    lab.apply_view(view);
}

fn marked(lab: &mut Lab, widget: &Widget, annotations: &[&str]) -> ObjectView {
    let pairs = annotations.iter().filter_map(|annotation| annotation.split_once('='));
    let annotations = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    ObjectView { annotations, ..lab.view(widget) }
}

fn deleted_at(at: Timestamp) -> String {
    format!("deleted_at={at}")
}

fn phases(lab: &Lab) -> Vec<(SoftDeletePhase, u64)> {
    lab.kind().soft_deleted.into_iter().map(|(phase, summary)| (phase, summary.objects)).collect()
}

#[test]
fn soft_deleted_objects_of_one_namespace_make_room_for_those_of_others() {
    let mut lab = Lab::new();
    let at = deleted_at(lab.now);
    for number in 0..20_010 {
        let mut widget = Widget::new(&format!("soft-{number}"), lab.now);
        widget.namespace = "tenant-b".into();
        mark(&mut lab, widget.ready(), &[&at]);
    }
    assert_eq!(lab.dropped("soft_deleted"), 10);

    let web = lab.converged("web");
    let at = deleted_at(lab.ago(Span::hours(25)));
    mark(&mut lab, &web, &[&at]);
    assert!(lab.findings().contains(&WEB.to_owned()), "{:?}", lab.findings());
}

#[test]
fn an_object_that_was_marked_a_day_ago_lingers() {
    let mut lab = Lab::new();
    let web = lab.converged("web");
    let near = lab.converged("near");
    let at = deleted_at(lab.ago(Span::hours(23)));

    mark(&mut lab, &web, &["soft-delete/enable=true", "soft-delete/phase=canary", &at]);
    let at = deleted_at(lab.ago(Span::hours(1)));
    mark(&mut lab, &near, &["soft-delete/enable=true", "soft-delete/phase=stable", &at]);

    assert_eq!(phases(&lab), [(SoftDeletePhase::Canary, 1), (SoftDeletePhase::Stable, 1)]);

    let oldest = lab.kind().soft_deleted[&SoftDeletePhase::Canary].oldest;
    assert_eq!(oldest, Some(lab.ago(Span::hours(23))));

    lab.advance(Span::mins(59));
    lab.assert_no_findings();
    lab.advance(Span::mins(1));

    assert_eq!(lab.findings(), [WEB]);

    let evidence = lab.evidence();
    assert!(evidence.contains("phase canary") && evidence.contains("marked for 1d"), "{evidence}");
    assert!(
        evidence.contains("deleted at 2025-12-31T01:02:") && !evidence.contains("problem"),
        "{evidence}"
    );

    // Somebody deletes the object for good.
    lab.delete(&web);
    lab.assert_no_findings();

    assert_eq!(phases(&lab), [(SoftDeletePhase::Stable, 1)]);
}

#[test]
fn an_annotation_that_only_switches_soft_deletion_on_marks_nothing() {
    let mut lab = Lab::new();
    let web = lab.converged("web");
    for phase in ["canary", "stable", "off"] {
        let phase = format!("soft-delete/phase={phase}");
        mark(&mut lab, &web, &["soft-delete/enable=true", &phase]);
        lab.advance(Span::hours(100));
        lab.assert_no_findings();
        assert_eq!(phases(&lab), []);
    }
}

#[test]
fn a_mark_that_is_removed_means_nothing() {
    let mut lab = Lab::new();
    let web = lab.converged("web");
    let old = deleted_at(lab.ago(Span::hours(100)));
    mark(&mut lab, &web, &[&old]);
    assert_eq!(lab.findings(), [WEB]);

    mark(&mut lab, &web, &["deleted_at="]);
    lab.assert_no_findings();
    mark(&mut lab, &web, &[&old]);
    mark(&mut lab, &web, &["soft-delete/enable=true"]);
    lab.assert_no_findings();
    assert_eq!(phases(&lab), []);
}

/// Deletes a widget that has a finalizer.
fn held(lab: &mut Lab, name: &str, finalizer: &str) -> Widget {
    let mut widget = lab.converged(name);
    widget.finalizers = vec![finalizer.into()];
    mark(lab, &widget, &["soft-delete/enable=true", "soft-delete/phase=stable"]);
    widget.deleted = Some(lab.now);
    mark(lab, &widget, &["soft-delete/enable=true", "soft-delete/phase=stable"]);
    widget
}

#[test]
fn an_object_that_a_finalizer_for_soft_deletion_holds_is_not_stuck() {
    for finalizer in ["example.io/soft-delete", "SoftDelete.example.io/keep", "soft_delete"] {
        let mut lab = Lab::new();
        let deleted = held(&mut lab, "web", finalizer).deleted;
        assert_eq!(phases(&lab), [(SoftDeletePhase::Stable, 1)], "{finalizer}");

        lab.advance(Span::hours(23));
        lab.assert_no_findings();
        assert_eq!(lab.kind().soft_deleted[&SoftDeletePhase::Stable].oldest, deleted);

        lab.advance(Span::hours(2));
        assert_eq!(lab.findings(), [WEB]);
        assert!(lab.evidence().contains(&format!("finalizer {finalizer}")), "{}", lab.evidence());
    }

    // Another finalizer holds the twin for no such reason.
    let mut lab = Lab::new();
    held(&mut lab, "web", "example.io/cleanup");
    lab.advance(Span::hours(1));
    assert!(lab.has("FinalizerStuck"), "{:?}", lab.findings());
    assert_eq!(phases(&lab), []);
}

#[test]
fn a_phase_marks_an_object_as_deleted() {
    let mut lab = Lab::new();
    let mut web = lab.converged("web");
    web.phase = "SoftDeleted".into();
    mark(&mut lab, &web, &[]);
    assert_eq!(phases(&lab), [(SoftDeletePhase::Other, 1)]);

    lab.advance(Span::hours(25));
    assert!(lab.has("SoftDeleteLingering"));

    web.phase = "Running".into();
    mark(&mut lab, &web, &[]);
    assert!(!lab.has("SoftDeleteLingering"));
}

#[test]
fn a_finalizer_that_remains_although_soft_deletion_is_off_is_a_contradiction() {
    for off in ["soft-delete/phase=off", "soft-delete/enable=false"] {
        for deleted in [false, true] {
            let mut lab = Lab::new();
            let mut web = lab.converged("web");
            web.finalizers = vec!["example.io/soft-delete".into()];
            mark(&mut lab, &web, &["soft-delete/phase=stable"]);
            web.deleted = Some(lab.now).filter(|_| deleted);
            mark(&mut lab, &web, &[off]);
            lab.advance(Span::mins(14));
            lab.assert_no_findings();

            lab.advance(Span::mins(2));
            assert_eq!(lab.findings(), [WEB]);
            assert!(lab.evidence().contains("problem soft deletion is off"), "{}", lab.evidence());

            // The operator removes the finalizer.
            web.finalizers.clear();
            web.deleted = None;
            mark(&mut lab, &web, &[off]);
            lab.assert_no_findings();
        }
    }
}

#[test]
fn the_time_may_be_a_number_and_a_malformed_one_counts_from_first_sight() {
    for text in ["1767139200", "1767139200000", "2025-12-31T00:00:00Z", "2025-12-31T01:00:00+01:00"]
    {
        let mut lab = Lab::new();
        let web = lab.converged("web");
        mark(&mut lab, &web, &["soft-delete/enable=true", &format!("deleted_at={text}")]);

        assert_eq!(lab.since("SoftDeleteLingering"), START.after(Span::hours(-24)), "{text}");
    }

    for text in ["yesterday", "-5", "0", "1e9", "2999-01-01T00:00:00Z", "99999999999999999999", "ü"]
    {
        let mut lab = Lab::new();
        let web = lab.converged("web");
        let seen = lab.now;
        mark(&mut lab, &web, &["soft-delete/enable=true", &format!("deleted_at={text}")]);
        lab.advance(Span::hours(12));
        mark(
            &mut lab,
            &web,
            &["soft-delete/enable=true", "soft-delete/phase=off", &format!("deleted_at={text}")],
        );

        lab.advance(Span(Span::hours(12).0 - 1));
        lab.assert_no_findings();
        lab.advance(Span(1));

        assert_eq!(
            (lab.findings(), lab.since("SoftDeleteLingering")),
            (vec![WEB.to_owned()], seen),
            "{text}"
        );
        assert!(
            lab.evidence().contains("problem deleted_at is not a past time"),
            "{}",
            lab.evidence()
        );
    }
}

#[test]
fn phases_are_a_closed_set() {
    let mut lab = Lab::new();
    for (name, phase) in
        [("a", "canary"), ("b", "Stable"), ("c", "off"), ("d", "retained"), ("e", "")]
    {
        let widget = lab.converged(name);
        mark(&mut lab, &widget, &["deleted_at=soon", &format!("soft-delete/phase={phase}")]);
    }

    let expected = [
        (SoftDeletePhase::Canary, 1),
        (SoftDeletePhase::Stable, 1),
        (SoftDeletePhase::Off, 1),
        (SoftDeletePhase::Other, 2),
    ];

    assert_eq!(phases(&lab), expected);
}

#[test]
fn other_annotations_and_another_threshold_can_be_configured() {
    let settings = Settings {
        soft_delete_finalizer: "example.io/trash".into(),
        soft_delete_phase: "example.io/stage".into(),
        soft_delete_time: "example.io/trashed".into(),
        soft_deleted_after: Span::hours(1),
        ..unlearned()
    };

    let mut lab = Lab::with(settings);
    let web = lab.converged("web");
    let old = lab.ago(Span::hours(100));
    mark(&mut lab, &web, &["soft-delete/enable=true", &deleted_at(old)]);
    lab.assert_no_findings();
    mark(&mut lab, &web, &["example.io/stage=off", &format!("example.io/trashed={old}")]);

    assert_eq!(
        (lab.findings(), phases(&lab)),
        (vec![WEB.to_owned()], vec![(SoftDeletePhase::Off, 1)])
    );

    // The setting names another finalizer, too.
    held(&mut lab, "kept", "example.io/Trash-can");
    lab.advance(Span::mins(59));
    assert_eq!(lab.findings(), [WEB]);
    lab.advance(Span::mins(1));
    assert_eq!(lab.findings(), [WEB, "SoftDeleteLingering Widget team-a/kept"]);

    // From now on, loopwatch reads other annotations. The sources list all objects again.
    lab.configure(unlearned());
    let view = ObjectView { version: (lab.version - 1).to_string(), ..marked(&mut lab, &web, &[]) };
    lab.list_views(vec![view]);
    lab.assert_no_findings();
}

#[test]
fn the_finding_survives_a_restart_and_blindness() {
    let mut lab = Lab::new();
    let web = lab.converged("web");
    let marks = ["deleted_at=soon"];
    mark(&mut lab, &web, &marks);
    lab.advance(Span::hours(25));

    let since = lab.since("SoftDeleteLingering");
    lab.changes();
    lab.blind_for(Span::mins(30));

    assert_eq!(lab.findings(), [WEB]);
    assert!(lab.changes().iter().all(|change| !change.contains("SoftDelete")));

    let mut again = lab.restart();
    let view = marked(&mut again, &web, &marks);
    again.list_views(vec![view]);

    assert_eq!(
        (again.findings(), again.since("SoftDeleteLingering")),
        (vec![WEB.to_owned()], since)
    );

    // While loopwatch was down, somebody removed the mark.
    let mut again = lab.restart();
    let view = again.view(&web);
    again.list_views(vec![view]);
    again.assert_no_findings();
}

#[test]
fn an_object_that_is_being_deleted_for_good_does_not_linger() {
    let mut lab = Lab::new();
    let mut web = lab.converged("web");
    let old = deleted_at(lab.ago(Span::hours(100)));
    web.finalizers = vec!["example.io/cleanup".into()];
    web.deleted = Some(lab.now);
    mark(&mut lab, &web, &["soft-delete/enable=true", &old]);
    lab.assert_no_findings();
}

#[test]
fn marks_beyond_the_limit_are_dropped_and_counted() {
    let mut lab = Lab::with(unlearned());
    let views: Vec<ObjectView> = (0..20_003)
        .map(|number| {
            let widget = Widget::new(&format!("w{number}"), lab.now);
            marked(&mut lab, &widget, &["deleted_at=soon"])
        })
        .collect();

    lab.list_views(views);
    assert_eq!(lab.dropped("soft_deleted"), 3);
    assert_eq!(phases(&lab), [(SoftDeletePhase::Other, 20_000)]);
}

#[test]
fn a_step_of_the_clock_makes_no_mark_older() {
    let mut lab = Lab::new();
    let web = lab.converged("web");
    mark(&mut lab, &web, &["deleted_at=soon"]);
    lab.step_clock(Span::hours(48));
    lab.advance(Span::hours(23));
    lab.assert_no_findings();
    lab.advance(Span::hours(1));

    assert_eq!(lab.findings(), [WEB]);
}

#[test]
fn kinds_are_counted_apart() {
    let mut lab = Lab::new();
    lab.discover(&[kind(), other_kind("Gadget")]);
    lab.list_in(&other_kind("Gadget").watch, vec![]);

    let web = lab.converged("web");
    mark(&mut lab, &web, &["deleted_at=soon"]);

    let kinds = lab.snapshot().kinds;
    let counts: Vec<usize> = kinds.iter().map(|kind| kind.soft_deleted.len()).collect();

    assert_eq!(counts, [0, 1], "{:?}", kinds.iter().map(|kind| &kind.kind).collect::<Vec<_>>());
}

#[test]
fn an_annotation_silences_the_finding() {
    let mut lab = Lab::new();
    let web = lab.converged("web");
    let old = deleted_at(lab.ago(Span::hours(100)));
    let ignore = "loopwatch.dev/ignore=SoftDeleteLingering";

    mark(&mut lab, &web, &["soft-delete/enable=true", &old, ignore]);
    lab.advance(Span::hours(1));
    lab.assert_no_findings();
    mark(&mut lab, &web, &["soft-delete/enable=true", &old]);

    assert_eq!(lab.findings(), [WEB]);
}
