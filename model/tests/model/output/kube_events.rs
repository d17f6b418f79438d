//! Kubernetes Events: counted by type and reason, and shown with the object. No verdict depends on
//! them.

use loopwatch_model::observation::{
    EventView, ObjectAddress, ObjectKey, Observation, SourceId, WatchId, WatchedKind,
};
use loopwatch_model::settings::Settings;
use loopwatch_model::snapshot::{EventReason, ExplainedEvent};
use loopwatch_model::time::{Span, Timestamp};

use crate::lab::{Lab, Widget, kind, watch};

fn event(uid: &str, reason: &str, count: u64, added: u64) -> EventView {
    EventView {
        uid: uid.into(),
        about: ObjectKey { namespace: "team-a".into(), name: "web".into() },
        r#type: "Warning".into(),
        reason: reason.into(),
        message: "no bucket".into(),
        reporter: "widget-operator".into(),
        count,
        added,
        ..EventView::default()
    }
}

fn counts(lab: &Lab) -> Vec<String> {
    let kinds = lab.snapshot().kinds;
    let counts = kinds.iter().flat_map(|kind| &kind.totals.events);
    counts
        .map(|(EventReason { r#type, reason }, count)| format!("{type} {reason} {count}"))
        .collect()
}

fn timeline(lab: &Lab, name: &str) -> Vec<ExplainedEvent> {
    let address = ObjectAddress {
        group: "example.io".into(),
        kind: "Widget".into(),
        namespace: "team-a".into(),
        name: name.into(),
    };
    lab.model.explain(&address).expect("the object").timeline
}

/// The reasons of the Events in the timeline of an object, each with its count.
fn shown(lab: &Lab, name: &str) -> Vec<String> {
    let events = timeline(lab, name).into_iter().filter(|event| event.change == "event");
    events.map(|event| format!("{} {}", event.code, event.count)).collect()
}

#[test]
fn what_an_event_adds_is_counted_and_what_it_had_before_is_not() {
    let mut lab = Lab::new();
    lab.see_event(event("old", "SyncFailed", 40, 0));

    assert!(counts(&lab).is_empty(), "an Event from before the start");

    lab.see_event(event("old", "SyncFailed", 43, 3));
    lab.see_event(event("old", "SyncFailed", 43, 0)); // a new list
    lab.see_event(event("new", "SyncFailed", 1, 1));
    lab.see_event(EventView { r#type: "Normal".into(), ..event("fine", "Synced", 2, 2) });
    lab.see_event(EventView { r#type: "normal ".into(), ..event("odd", "Synced", 1, 1) });

    assert_eq!(counts(&lab), ["Normal Synced 2", "Warning SyncFailed 4", "_other Synced 1"]);

    lab.see_event(event("huge", "SyncFailed", u64::MAX, u64::MAX));
    lab.see_event(event("huge", "SyncFailed", u64::MAX, u64::MAX));

    assert!(
        counts(&lab).contains(&format!("Warning SyncFailed {}", u64::MAX)),
        "{:?}",
        counts(&lab)
    );
    assert_eq!(lab.snapshot().observations["events"], 8);

    lab.assert_no_findings();
}

#[test]
fn reasons_are_bounded_and_those_of_kubernetes_always_count_by_name() {
    let mut settings = Settings::default();
    settings.limits.event_reasons = 2;

    let mut lab = Lab::with(settings);
    for reason in ["Synced", "Failed", "SyncFailed", "BackOff"] {
        lab.see_event(event(reason, reason, 1, 1));
    }

    assert_eq!(lab.dropped("event_reasons"), 0, "a near miss");

    lab.assert_no_findings();

    // Free text does not count as a reason, and does not exceed the limit.
    for reason in ["", "no bucket for web", "a\u{1b}[31m", "ü", &"x".repeat(200)] {
        lab.see_event(event(reason, reason, 1, 1));
    }

    assert_eq!(lab.dropped("event_reasons"), 0);

    for number in 0..1_000 {
        lab.see_event(event("one", &format!("Reason{number}"), number, 1));
    }

    lab.see_event(event("late", "Evicted", 1, 1));
    let expected =
        ["BackOff 1", "Evicted 1", "Failed 1", "SyncFailed 1", "Synced 1", "_other 1005"]
            .map(|c| format!("Warning {c}"));

    assert_eq!(counts(&lab), expected);
    assert_eq!(lab.dropped("event_reasons"), 1_000);
    assert_eq!(lab.findings(), ["LimitReached limit event_reasons"]);
}

#[test]
fn the_latest_events_are_part_of_the_timeline_of_their_object_only() {
    let mut lab = Lab::new();
    let mut web = lab.converged("web");
    lab.converged("db");

    let at = lab.now;
    lab.see_event(EventView {
        at: Some(at.before(Span::mins(5))),
        ..event("a", "SyncFailed", 40, 0)
    });
    lab.see_event(EventView { at: Some(Timestamp(i64::MAX)), ..event("b", "Evicted", 1, 1) });
    lab.see_event(event("a", "SyncFailed", 41, 1));

    assert_eq!(shown(&lab, "web"), ["Evicted 1", "SyncFailed 41"]);

    let last = timeline(&lab, "web").pop().expect("an Event");
    assert_eq!(
        (last.at, last.severity.as_str(), last.message.as_str()),
        (at, "warning", "no bucket"),
        "not in the future"
    );
    assert_eq!(last.reporter, "widget-operator");
    assert!(shown(&lab, "db").is_empty());

    // The timeline shows them together with the findings, in order.
    lab.advance(Span::mins(1));
    web.generation += 1;
    lab.apply(&web);
    lab.advance(Span::hours(1));
    lab.see_event(event("c", "SyncFailed", 1, 1));

    let words: Vec<String> = timeline(&lab, "web").into_iter().map(|event| event.change).collect();
    assert_eq!(words.first().map(String::as_str), Some("event"));
    assert_eq!(words.last().map(String::as_str), Some("event"));
    assert!(words.contains(&"opened".to_owned()), "{words:?}");
}

#[test]
fn the_memory_of_events_is_bounded() {
    let mut lab = Lab::new();
    lab.converged("web");
    for number in 0..20 {
        lab.see_event(event(&number.to_string(), &format!("Reason{number}"), 1, 1));
        lab.advance(Span::secs(1));
    }

    let latest: Vec<String> = (12..20).map(|number| format!("Reason{number} 1")).collect();
    assert_eq!(shown(&lab, "web"), latest, "the latest eight");

    // Events about hundreds of other objects, even of objects that do not exist.
    let other = |number: usize, uid: &str| EventView {
        about: ObjectKey { namespace: "team-a".into(), name: format!("other-{number}") },
        ..event(uid, "Synced", 1, 1)
    };
    for number in 0..499 {
        lab.see_event(other(number, &number.to_string()));
    }

    assert_eq!(shown(&lab, "web").len(), 8, "a near miss");

    lab.see_event(event("again", "Again", 1, 1));
    for number in 500..999 {
        lab.see_event(other(number, &number.to_string()));
    }

    assert!(shown(&lab, "web").contains(&"Again 1".to_owned()), "it had an Event after the others");

    lab.see_event(other(1_000, "last"));
    assert!(shown(&lab, "web").is_empty(), "its last Event is the oldest of 501 objects");
}

#[test]
fn events_for_which_the_source_has_no_room_count_as_dropped() {
    let mut lab = Lab::new();
    lab.converged("web");
    lab.see_event(EventView { uncounted: true, ..event("a", "SyncFailed", 7, 0) });

    assert!(counts(&lab).is_empty());
    assert_eq!(lab.dropped("events"), 1);
    assert_eq!(lab.findings(), ["LimitReached limit events"]);
    assert_eq!(shown(&lab, "web"), ["SyncFailed 7"], "still shown");
}

#[test]
fn events_change_no_state_and_those_of_an_ended_watch_are_ignored() {
    let mut lab = Lab::new();
    lab.converged("web");

    let before = lab.model.next_due();
    for number in 0..500 {
        lab.see_event(event(&number.to_string(), "SyncFailed", 1_000, 1_000));
    }

    assert_eq!(lab.model.next_due(), before, "no timer");

    lab.advance(Span::hours(3));
    lab.assert_no_findings();

    let event = |uid| Box::new(event(uid, "SyncFailed", 1, 1));
    lab.observe(Observation::EventSeen {
        watch: WatchId("gadgets.example.io".into()),
        event: event("x"),
    });
    lab.discover(&[WatchedKind { watch: WatchId("other".into()), ..kind() }]);

    lab.see_event(*event("y"));
    assert_eq!(counts(&lab), ["Warning SyncFailed 500000"]);
}

#[test]
fn a_source_of_events_that_is_off_is_up_and_one_that_fails_accuses_nobody() {
    let mut lab = Lab::new();
    lab.converged("web");

    let source = || SourceId::Events;
    lab.observe(Observation::SourceOff { source: source(), reason: "no permission".into() });
    lab.advance(Span::hours(1));
    lab.assert_no_findings();

    let (cause, _detail) = (loopwatch_model::observation::Cause::Forbidden, String::new());
    lab.fail_source(&source(), cause);
    lab.advance(Span::mins(5));

    assert_eq!(lab.findings(), ["SourceFailing source events"]);

    lab.recover_source(&source());
    lab.assert_no_findings();
}

#[test]
fn recordings_of_events_are_read_again_and_absent_fields_have_defaults() {
    let full =
        Observation::EventSeen { watch: watch(), event: Box::new(event("a", "SyncFailed", 7, 2)) };
    let text = serde_json::to_string(&full).expect("JSON");

    assert!(
        text.starts_with(
            r#"{"event_seen":{"watch":"widgets.example.io","event":{"uid":"a","namespace":"team-a""#
        ),
        "{text}"
    );
    assert_eq!(serde_json::from_str::<Observation>(&text).expect("the same"), full);

    let bare = r#"{"event_seen":{"watch":"widgets.example.io","event":{"name":"web"}}}"#;
    let Ok(Observation::EventSeen { event, .. }) = serde_json::from_str(bare) else {
        panic!("{bare}")
    };

    assert_eq!(
        (event.about.name.as_str(), event.count, event.added, event.uncounted),
        ("web", 0, 0, false)
    );
}

#[test]
fn a_finding_shows_the_latest_warning_since_its_problem_began() {
    let mut lab = Lab::new();
    let mut web = lab.converged("web");
    lab.see_event(event("old", "SyncFailed", 1, 1));
    lab.advance(Span::hours(1));

    lab.apply(web.spec(2, lab.now));
    lab.see_event(EventView { r#type: "Normal".into(), ..event("fine", "Synced", 2, 2) });
    lab.advance(Span::mins(11));
    assert!(!lab.evidence().contains("last warning"), "{}", lab.evidence());

    // A Warning that arrives later appears without a change of the object.
    lab.see_event(event("new", "BucketMissing", 1, 1));
    assert!(lab.evidence().contains("last warning BucketMissing: no bucket"), "{}", lab.evidence());

    lab.advance(Span::mins(1));
    lab.see_event(EventView { message: "denied".into(), ..event("newer", "Forbidden", 1, 1) });
    assert!(lab.evidence().contains("last warning Forbidden: denied"), "{}", lab.evidence());
    assert_eq!(lab.findings(), ["Unacknowledged Widget team-a/web"]);
}

#[test]
fn one_namespace_cannot_use_up_the_reasons_of_all() {
    let mut lab = Lab::new();
    for namespace in ["tenant", "team-b"] {
        let mut view = lab.view(Widget::new("web", lab.now).ready());
        namespace.clone_into(&mut view.key.namespace);
        namespace.clone_into(&mut view.uid);
        lab.apply_view(view);
    }

    let reason_of = |namespace: &str, reason: &str| EventView {
        about: ObjectKey { namespace: namespace.into(), name: "web".into() },
        ..event(&format!("{namespace}/{reason}"), reason, 1, 1)
    };
    for number in 0..40 {
        let letter = char::from(b'A' + number % 26);
        lab.see_event(reason_of("tenant", &format!("Junk{letter}{}", "x".repeat(number.into()))));
    }
    for reason in ["SyncFailed", "BackupFailed", "Promoted"] {
        lab.see_event(reason_of("team-b", reason));
    }

    let counts = counts(&lab);
    let of = |text: &str| counts.iter().filter(|count| count.contains(text)).count();
    assert_eq!((of("Junk"), of("_other 25")), (15, 1), "{counts:?}");
    assert_eq!([of("SyncFailed 1"), of("BackupFailed 1"), of("Promoted 1")], [1; 3], "{counts:?}");
}
