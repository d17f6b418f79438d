//! References to objects that do not exist: the fault, its healthy twin and near misses.

use loopwatch_model::finding::Confidence;
use loopwatch_model::observation::{
    Cause, ObjectView, Observation, Reference, WatchId, WatchedKind, Why,
};
use loopwatch_model::settings::{Limits, Settings};
use loopwatch_model::time::Span;

use super::{WEB, secret, secret_at};
use crate::lab::{Lab, Widget, World, kind, logged, reference, unlearned, watch};

#[test]
fn a_reference_to_a_missing_secret_is_dangling_and_explains_that_the_object_is_not_ready() {
    let mut world = World::answering(Lab::new());
    world.create_secret("twin");

    let began = world.lab.now;
    let mut web = world.waiting("web", &[secret("db")]);
    world.waiting("twin", &[secret("twin")]);
    world.advance(Span::secs(115));
    world.lab.assert_no_findings();
    world.advance(Span::secs(75));

    assert_eq!(world.lab.findings(), [WEB]);

    let finding = world.lab.finding("DanglingReference");
    assert_eq!((finding.confidence, finding.since), (Confidence::Confirmed, began));

    let evidence = world.lab.evidence();
    assert!(
        evidence.contains("reference spec.secretName")
            && evidence.contains("target Secret team-a/db"),
        "{evidence}"
    );

    world.advance(Span::mins(10));
    assert_eq!(
        world.lab.roots(),
        [WEB, "Overdue Widget team-a/twin"],
        "explains that web is overdue"
    );

    // The Secret is created, and the object becomes ready.
    world.create_secret("db");
    world.advance(Span::secs(70));

    assert_eq!(world.dangling(), [""; 0]);

    world.refer(web.ready(), &[secret("db")]);
    world.lab.changes();
    world.advance(Span::hours(1));

    assert!(world.dangling().is_empty());
}

/// Each place of a reference is a text that all objects share, and texts have a limit of their own.
#[test]
fn references_of_one_namespace_do_not_use_up_the_texts_of_others() {
    let limits = Limits { objects: 1_000, ..Limits::default() };
    let mut world = World::answering(Lab::with(Settings { limits, ..Settings::default() }));
    for number in 0..200 {
        let mut flood = Widget::new(&format!("flood-{number}"), world.lab.now);
        flood.namespace = "tenant-b".into();
        let place = |index| format!("spec.items{number}.part{index}.secretRef");
        let references =
            (0..10).map(|index| Reference { slot: place(index), ..secret("x") }).collect();
        let view = ObjectView { references, ..world.lab.view(&flood) };
        world.lab.apply_view(view);
    }
    assert!(world.lab.dropped("texts") > 0);

    world.waiting("web", &[secret("db")]);
    world.advance(Span::mins(5));
    let found = world.lab.findings();
    assert!(found.contains(&WEB.to_owned()), "{found:?}");
}

#[test]
fn a_secret_that_is_created_20_seconds_later_is_not_missing() {
    let mut world = World::answering(Lab::new());
    world.waiting("web", &[secret("db")]);
    world.advance(Span::secs(20));
    world.create_secret("db");
    world.advance(Span::mins(9));
    world.lab.assert_no_findings();
}

#[test]
fn a_secret_that_is_created_just_before_the_end_of_the_grace_is_not_missing() {
    for seconds in 100..=125 {
        let mut world = World::answering(Lab::new());
        world.waiting("web", &[secret("db")]);
        world.advance(Span::secs(seconds));

        if !world.lab.findings().is_empty() {
            assert!(seconds > 119, "{seconds}");

            continue;
        }

        world.create_secret("db");
        world.advance(Span::secs(200));
        world.lab.assert_no_findings();
    }
}

#[test]
fn optional_references_and_references_without_a_name_are_not_judged() {
    let mut world = World::answering(Lab::new());
    let optional = Reference { optional: true, ..secret("db") };
    let unnamed = Reference { name: String::new(), ..secret("db") };
    let of_any_kind = reference("", "", "spec.issuerRef", "issuer");
    let of_unknown_group = reference("", "Gizmo", "spec.gizmoRef", "gizmo");

    world.waiting("web", &[optional, unnamed, of_any_kind, of_unknown_group]);
    world.advance(Span::mins(9));
    world.lab.assert_no_findings();

    assert!(world.reads.is_empty(), "{:?}", world.reads);
}

#[test]
fn a_target_that_disappears_is_dangling_since_then() {
    let mut world = World::answering(Lab::new());
    world.create_secret("db");

    let mut web = world.ready("web", &[secret("db")]);
    world.advance(Span::mins(30));
    world.objects.clear();

    let gone = world.lab.now;
    world.refer(
        web.condition("Ready", loopwatch_model::observation::ConditionStatus::False, "Error"),
        &[secret("db")],
    );
    world.advance(Span::mins(15));

    let finding = world.lab.finding("DanglingReference");
    assert!(
        finding.since >= gone && finding.since < gone.after(Span::mins(11)),
        "{}",
        finding.since
    );
    assert_eq!(world.lab.roots(), [WEB], "explains the regression");
}

#[test]
fn the_removal_of_the_reference_or_of_the_object_ends_the_finding() {
    let mut world = World::answering(Lab::new());
    let mut web = world.waiting("web", &[secret("db")]);
    world.advance(Span::mins(4));

    assert_eq!(world.dangling(), [WEB]);

    web.spec(2, world.lab.now);
    world.refer(&web, &[]);

    assert!(world.dangling().is_empty());

    let mut web = world.waiting("api", &[secret("db")]);
    world.advance(Span::mins(4));

    assert_eq!(world.dangling().len(), 1);

    web.deleted = Some(world.lab.now);
    web.finalizers = vec!["example.io/cleanup".into()];
    world.refer(&web, &[secret("db")]);

    assert!(world.dangling().is_empty(), "an object that is being deleted needs nothing");

    world.lab.delete(&web);
    world.advance(Span::mins(1));

    assert!(world.dangling().is_empty());
}

#[test]
fn the_finding_keeps_its_start_over_a_restart() {
    let mut world = World::answering(Lab::new());
    let web = world.waiting("web", &[secret("db")]);
    world.advance(Span::mins(4));

    let since = world.lab.since("DanglingReference");
    let mut again = World::answering(world.lab.restart());
    let view = ObjectView { references: vec![secret("db")], ..again.lab.view(&web) };
    again.lab.list_views(vec![view]);
    again.advance(Span::secs(3));

    assert_eq!(again.dangling(), [WEB]);
    assert_eq!(again.lab.since("DanglingReference"), since);

    // The Secret was created meanwhile.
    let mut again = World::answering(world.lab.restart());
    again.create_secret("db");

    let view = ObjectView { references: vec![secret("db")], ..again.lab.view(&web) };
    again.lab.list_views(vec![view]);
    again.advance(Span::mins(3));

    assert!(again.dangling().is_empty());
}

#[test]
fn nothing_opens_or_closes_while_the_watch_of_the_object_is_blind() {
    let mut world = World::answering(Lab::new());
    world.waiting("web", &[secret("db")]);
    world.waiting("api", &[secret("api")]);
    world.advance(Span::mins(1));
    world.lab.fail();
    world.advance(Span::mins(5));

    assert!(world.dangling().is_empty());

    world.create_secret("api");
    world.lab.recover();
    world.advance(Span::secs(125));

    assert_eq!(world.dangling(), [WEB]);

    world.lab.fail();
    world.reads_fail = Some(Cause::Connection);
    world.advance(Span::mins(20));

    assert_eq!(world.dangling(), [WEB]);
}

#[test]
fn a_step_of_the_clock_is_no_grace_and_no_delay() {
    let mut world = World::answering(Lab::new());
    world.waiting("web", &[secret("db")]);
    world.advance(Span::mins(1));
    world.lab.step_clock(Span::hours(1));
    world.advance(Span::secs(30));
    world.lab.assert_no_findings();
    world.lab.step_clock(Span(-7_200_000));
    world.advance(Span::secs(100));

    assert_eq!(world.dangling(), [WEB]);
}

#[test]
fn a_dump_is_judged_at_once_and_lacks_what_it_does_not_show() {
    let mut world =
        World::answering(Lab::unsynced(Settings { dangling_after: Span::ZERO, ..unlearned() }));
    let secrets = WatchedKind {
        watch: WatchId("secrets".into()),
        group: String::new(),
        kind: "Secret".into(),
        resource: "secrets".into(),
        why: Why::InDump,
        ..kind()
    };

    world.lab.discover(&[WatchedKind { why: Why::InDump, ..kind() }, secrets.clone()]);
    let start = world.lab.now;
    let web = ObjectView {
        references: vec![secret("db")],
        ..Widget::new("web", start).waiting().view(1)
    };
    let api = ObjectView {
        references: vec![secret("here")],
        ..Widget::new("api", start).waiting().view(2)
    };

    world.lab.list_in(&watch(), vec![web, api]);
    let here = Widget::new("here", start).view(3);
    world.lab.list_in(&secrets.watch, vec![here]);
    world.lab.model.look_up_all_references();

    assert!(world.dangling().is_empty(), "the dump may lack the Secret");

    world.answer();
    assert_eq!((world.dangling(), world.lab.now), (vec![WEB.to_owned()], start));
    assert_eq!(world.reads.len(), 1, "only what the dump does not show");
}

#[test]
fn a_replay_of_the_observations_without_ticks_gives_the_same_findings() {
    let mut world = World::answering(Lab::new());
    let log = logged(|| {
        for number in 0..5 {
            let name = format!("w{number}");
            world.create_secret(&name);
            world.waiting(&name, &[secret(&name), secret("shared")]);
        }

        world.advance(Span::mins(4));
        world.create_secret("shared");
        world.advance(Span::mins(3));
        world.objects.remove(&secret_at("w3"));
        world.advance(Span::mins(20));
    });

    let (events, at) = (world.lab.model.finding_events(), world.lab.now);
    assert!(
        events.iter().filter(|event| event.finding.code.name() == "DanglingReference").count()
            >= 11,
        "{events:#?}"
    );

    let mut again = Lab::new();
    for (at, observation) in log.into_iter().filter(|(_, what)| *what != Observation::Tick) {
        again.model.apply(at, observation);
        again.model.probes(); // the log contains the answers
    }

    again.model.apply(at, Observation::Tick);
    assert_eq!(again.model.finding_events(), events);
}

#[test]
fn an_annotation_silences_the_finding_also_of_a_converged_object() {
    let mut world = World::answering(Lab::new());
    world.create_secret("db");

    let mut web = world.ready("web", &[secret("db")]);
    let annotations = [("loopwatch.dev/ignore".to_owned(), "DanglingReference".to_owned())];
    let view = |world: &mut World, web: &Widget| ObjectView {
        references: vec![secret("db")],
        annotations: annotations.clone().into(),
        ..world.lab.view(web)
    };
    let annotated = view(&mut world, &web);

    world.lab.apply_view(annotated);
    world.advance(Span::mins(2));
    world.objects.clear();
    world.advance(Span::mins(20));
    world.lab.assert_no_findings();

    let annotated = view(&mut world, web.waiting());
    world.lab.apply_view(annotated);
    world.advance(Span::mins(2));

    assert!(world.dangling().is_empty());

    world.refer(&web, &[secret("db")]);
    assert_eq!(world.dangling(), [WEB]);
}

#[test]
fn references_between_namespaces_are_counted_as_they_come_and_go() {
    let mut world = World::answering(Lab::new());
    let elsewhere = |name: &str| Reference { namespace: "shared".into(), ..secret(name) };
    let counts = |world: &World| {
        let totals = world.lab.kind().totals;
        (totals.cross_references, totals.cross_reference_changes)
    };
    let mut web = world.waiting("web", &[secret("own"), elsewhere("a"), elsewhere("b")]);

    assert_eq!(counts(&world), (2, [2, 0]));
    assert_eq!(world.lab.model.reference_events()[0].target.name, "a");

    web.spec(2, world.lab.now);
    world.refer(&web, &[elsewhere("b"), elsewhere("c")]);

    assert_eq!(counts(&world), (2, [3, 1]));

    // A reference that a list shows is not new.
    let listed = Widget::new("old", world.lab.ago(Span::hours(1)));
    let old = ObjectView { references: vec![elsewhere("d")], ..world.lab.view(&listed) };
    let web =
        ObjectView { references: vec![elsewhere("b"), elsewhere("c")], ..world.lab.view(&web) };

    world.lab.list_views(vec![old, web]);
    assert_eq!(counts(&world), (3, [3, 1]));

    world.lab.list_views(vec![]);
    assert_eq!(counts(&world), (0, [3, 4]));
}
