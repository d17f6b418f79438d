use std::time::Duration;

use loopwatch_model::observation::{
    CallFailure, Consulted, MAX_EVENT_MESSAGE, Role, Scope, StatusSchema, Why,
};
use serde_json::{Value, json};

use super::*;
use crate::sources::feed::Clock;

/// A node on which it is noon; the test sets its steady clock.
#[derive(Default)]
struct Node(std::sync::atomic::AtomicU64);

impl Clock for Node {
    fn wall(&self) -> Timestamp {
        time("2026-11-22T12:00:00.700Z")
    }
    fn steady(&self) -> Duration {
        Duration::from_secs(self.0.load(std::sync::atomic::Ordering::Relaxed))
    }
}

fn time(text: &str) -> Timestamp {
    Timestamp::parse(text).expect("a time")
}

fn widgets() -> WatchedKind {
    WatchedKind {
        watch: WatchId("widgets.example.io".into()),
        group: "example.io".to_owned(),
        version: "v1".to_owned(),
        kind: "Widget".to_owned(),
        resource: "widgets".to_owned(),
        scope: Scope::AllNamespaces,
        role: Role::Primary,
        status: StatusSchema::Unknown,
        why: Why::Configured,
        missing: Vec::new(),
        suspected: false,
        filtered: false,
        metadata_only: false,
        versions: Vec::new(),
    }
}

fn sink(tally: &EventTally) -> EventSink {
    EventSink::new(&widgets(), tally.clone(), ServerClock::of(Arc::new(Node::default())))
}

const BEFORE: &str = "2026-11-22T11:59:59Z";
const AFTER: &str = "2026-11-22T12:00:00Z";

/// An Event in the older form.
fn event(uid: &str, created: &str, count: Value) -> Vec<u8> {
    json!({
        "metadata": { "uid": uid, "name": uid, "namespace": "team-a", "resourceVersion": "7", "creationTimestamp": created },
        "involvedObject": { "apiVersion": "example.io/v1alpha1", "kind": "Widget", "namespace": "team-a", "name": "web" },
        "type": "Warning", "reason": "SyncFailed", "message": "no bucket", "count": count, "lastTimestamp": created,
        "eventTime": null, "source": { "component": "widget-operator" }, "reportingComponent": "",
    })
    .to_string()
    .into_bytes()
}

fn series(uid: &str, created: &str, series: Value) -> Vec<u8> {
    json!({
        "metadata": { "uid": uid, "resourceVersion": "8", "creationTimestamp": created },
        "regarding": { "apiVersion": "example.io/v1", "kind": "Widget", "namespace": "team-a", "name": "web" },
        "type": "Normal", "reason": "Synced", "note": "fine", "series": series, "eventTime": created,
        "reportingController": "example.io/widgets",
    })
    .to_string()
    .into_bytes()
}

/// How often each Event has happened since it was last seen.
fn added(out: &mut Vec<Observation>) -> Vec<u64> {
    let added = |observation| match observation {
        Observation::EventSeen { event, .. } => event.added,
        other => panic!("{other:?}"),
    };

    std::mem::take(out).into_iter().map(added).collect()
}

/// A list of these Events.
fn list(sink: &mut EventSink, epoch: u64, events: &[Vec<u8>]) -> Vec<u64> {
    let mut out = Vec::new();
    sink.began(epoch, &mut out);
    for event in events {
        sink.listed(event, &mut out).expect("an Event");
    }

    sink.ended(epoch, "9", &mut out);
    added(&mut out)
}

fn apply(sink: &mut EventSink, event: &[u8]) -> u64 {
    let mut out = Vec::new();
    sink.applied(event, &mut out).expect("an Event");
    added(&mut out)[0]
}

#[test]
fn only_what_happens_after_the_beginning_counts_and_only_once() {
    let tally = EventTally::default();
    let mut sink_now = sink(&tally);
    let old = event("old", BEFORE, json!(40));

    assert_eq!(
        list(&mut sink_now, 1, &[old.clone(), event("new", AFTER, json!(2))]),
        [0, 2],
        "the first list"
    );
    assert_eq!(
        apply(&mut sink_now, &event("old", BEFORE, json!(43))),
        3,
        "an old Event happens again"
    );

    assert_eq!(apply(&mut sink_now, &event("new", AFTER, json!(3))), 1);
    assert_eq!(
        apply(&mut sink_now, &event("new", AFTER, json!(3))),
        0,
        "only its message has changed"
    );
    assert_eq!(apply(&mut sink_now, &event("one", AFTER, json!(null))), 1);

    // A new list, after an outage in which two Events happened, and another watch.
    let both = [
        event("old", BEFORE, json!(43)),
        event("new", AFTER, json!(3)),
        event("one", AFTER, json!(null)),
    ];

    assert_eq!(
        list(&mut sink_now, 2, &both),
        [0_u64; 0],
        "a new list counts nothing twice, and says nothing"
    );

    let mut sink_now = sink(&tally);
    assert_eq!(
        list(&mut sink_now, 3, &[both.as_slice(), &[event("two", AFTER, json!(5))]].concat()),
        [5]
    );
    assert_eq!(
        list(&mut sink_now, 3, &both[..1]),
        [0_u64; 0],
        "an Event that is gone is forgotten"
    );

    assert_eq!(
        list(&mut sink_now, 3, &[event("two", AFTER, json!(5))]),
        [5],
        "and would be another one"
    );
    assert_eq!(list(&mut sink_now, 4, &[event("two", AFTER, json!(6))]), [1]);
    assert_eq!(tally.lock().events, 1, "the list replaces the Events");
}

#[test]
fn a_series_counts_its_growth_and_a_smaller_count_begins_again() {
    let mut sink = sink(&EventTally::default());
    assert!(list(&mut sink, 1, &[]).is_empty());
    assert_eq!(apply(&mut sink, &series("a", AFTER, json!(null))), 1);
    assert_eq!(
        apply(&mut sink, &series("a", AFTER, json!({ "count": 2, "lastObservedTime": AFTER }))),
        1
    );
    assert_eq!(apply(&mut sink, &series("a", AFTER, json!({ "count": 12 }))), 10);

    assert_eq!(apply(&mut sink, &series("a", AFTER, json!(null))), 0, "the series has ended");
    assert_eq!(apply(&mut sink, &series("a", AFTER, json!({ "count": 3 }))), 2);

    for (hostile, expected) in [(-7, 0), (i64::MIN, 0), (i64::MAX, u64::from(u32::MAX) - 1), (0, 0)]
    {
        assert_eq!(
            apply(&mut sink, &series("a", AFTER, json!({ "count": hostile }))),
            expected,
            "{hostile}"
        );
    }
}

#[test]
fn a_deleted_event_is_forgotten_and_a_list_that_skips_one_forgets_none() {
    let tally = EventTally::default();
    let (mut sink, mut out) = (sink(&tally), Vec::new());

    assert_eq!(
        list(&mut sink, 1, &[event("a", AFTER, json!(2)), event("b", AFTER, json!(2))]),
        [2, 2]
    );
    assert_eq!(sink.deleted(&event("a", AFTER, json!(2)), &mut out).expect("an Event"), "7");
    assert_eq!(
        sink.deleted(&event("a", AFTER, json!(2)), &mut out).expect("an Event"),
        "7",
        "twice"
    );

    assert!(out.is_empty() && tally.lock().events == 1);

    sink.began(2, &mut out);
    sink.skipped();
    sink.ended(2, "9", &mut out);

    assert_eq!(apply(&mut sink, &event("b", AFTER, json!(3))), 1);

    tally.retain(|_| false);
    assert_eq!(tally.lock().events, 0);
}

#[test]
fn events_beyond_the_limit_are_reported_and_count_nothing() {
    let tally = EventTally::default();
    let (mut sink, mut out) = (sink(&tally), Vec::new());
    sink.began(1, &mut out);

    for number in 0..=MAX_EVENTS {
        sink.listed(&event(&number.to_string(), AFTER, json!(1)), &mut out).expect("an Event");
        let Some(Observation::EventSeen { event, .. }) = out.pop() else { panic!("{out:?}") };

        assert_eq!(
            (event.uncounted, event.added),
            if number < MAX_EVENTS { (false, 1) } else { (true, 0) }
        );
    }

    assert_eq!(tally.lock().events, MAX_EVENTS);

    sink.deleted(&event("7", AFTER, json!(1)), &mut out).expect("an Event");
    assert_eq!(apply(&mut sink, &event("new", AFTER, json!(1))), 1, "there is room again");
}

#[test]
fn both_forms_are_read() {
    let read = |object: &[u8]| EventDocument::parse(object).expect("an Event").view();
    let old = read(&event("a", AFTER, json!(4)));

    assert_eq!((old.about.namespace.as_str(), old.about.name.as_str()), ("team-a", "web"));
    assert_eq!(
        (old.r#type.as_str(), old.reason.as_str(), old.message.as_str()),
        ("Warning", "SyncFailed", "no bucket")
    );
    assert_eq!(
        (old.reporter.as_str(), old.count, old.at),
        ("widget-operator", 4, Some(time(AFTER)))
    );

    let later = "2026-11-22T12:30:00.000001Z";
    let new = read(&series("a", AFTER, json!({ "count": 9, "lastObservedTime": later })));

    assert_eq!(
        (new.reporter.as_str(), new.count, new.at),
        ("example.io/widgets", 9, Some(time(later)))
    );
    assert_eq!((new.message.as_str(), new.reason.as_str()), ("fine", "Synced"));
}

#[test]
fn hostile_events_are_bounded_or_skipped() {
    let tally = EventTally::default();
    let mut sink = sink(&tally);
    let text = "ü\u{1b}[31m\n".repeat(100_000);
    let huge = json!({
        "metadata": { "uid": text, "creationTimestamp": "tomorrow" },
        "regarding": { "apiVersion": "example.io/v1", "kind": "Widget", "name": "web" },
        "reason": text, "type": text, "note": text, "reportingController": text, "series": {}, "deprecatedCount": null,
    });

    let mut out = Vec::new();
    sink.applied(huge.to_string().as_bytes(), &mut out).expect("an Event");

    let Some(Observation::EventSeen { event, .. }) = out.pop() else { panic!("{out:?}") };
    for text in [&event.uid, &event.reason, &event.r#type, &event.message, &event.reporter] {
        assert!(text.len() <= MAX_EVENT_MESSAGE && !text.contains(char::is_control), "{text:?}");
    }

    assert_eq!(
        (event.added, event.count, event.at),
        (0, 1, None),
        "an Event of unknown age may be old"
    );

    // Other kinds, and Events about nothing.
    for other in [
        json!({}),
        json!({ "regarding": null }),
        json!({ "regarding": { "apiVersion": "example.io/v1", "kind": "Widget" } }),
        json!({ "regarding": { "apiVersion": "other.io/v1", "kind": "Widget", "name": "web" } }),
        json!({ "regarding": { "apiVersion": "v1", "kind": "Widget", "name": "web" } }),
        json!({ "regarding": { "apiVersion": "example.io/v1", "kind": "Gadget", "name": "web" } }),
    ] {
        assert!(
            sink.applied(other.to_string().as_bytes(), &mut out).is_ok() && out.is_empty(),
            "{other}"
        );
    }

    for broken in
        ["", "[]x", "7", r#"{"regarding":7}"#, r#"{"count":1e99}"#, r#"{"series":{"count":"1"}}"#]
    {
        assert!(sink.applied(broken.as_bytes(), &mut out).is_err() && out.is_empty(), "{broken}");
    }
}

#[test]
fn the_api_server_selects_the_kind() {
    let without = || vec!["ci".to_owned()];
    assert_eq!(
        EventSink::target("events.k8s.io", None, "Widget", without()).request("watch=1"),
        "/apis/events.k8s.io/v1/events?fieldSelector=metadata.namespace%21%3Dci,regarding.kind%3DWidget&watch=1"
    );
    assert_eq!(
        EventSink::target("", Some("team-a"), "Widget", without()).request(""),
        "/api/v1/namespaces/team-a/events?fieldSelector=involvedObject.kind%3DWidget"
    );
}

#[test]
fn the_source_works_only_if_all_of_its_watches_do() {
    let tally = EventTally::default();
    let other = WatchedKind { watch: WatchId("gadgets.example.io".into()), ..widgets() };
    let clock = ServerClock::of(Arc::new(Node::default()));
    let (mut one, mut two) = (sink(&tally), EventSink::new(&other, tally.clone(), clock));

    one.failed();
    two.failed();

    assert_eq!(one.recovered(), None);
    assert_eq!(two.recovered(), Some(Observation::SourceRecovered { source: SourceId::Events }));

    one.failed();
    let reason = "not all".to_owned();
    let restricted =
        Some(Observation::SourceRestricted { source: SourceId::Events, reason: reason.clone() });

    assert_eq!(tally.restrict(reason.clone(), |_| true), None, "it fails");
    assert_eq!(
        tally.restrict(reason.clone(), |watch| *watch == other.watch),
        restricted,
        "the failing watch has ended"
    );
    assert_eq!(tally.restrict(reason, |_| true), None, "nothing new");
    assert_eq!(two.recovered(), restricted);
}

/// The API server limits neither the name nor the number of the objects that Events are about.
#[test]
fn an_event_about_a_name_that_no_object_can_have_is_not_kept() {
    let tally = EventTally::default();
    let mut sink = sink(&tally);
    list(&mut sink, 1, &[]);

    let about = |name: &str, namespace: &str| {
        let mut event: Value = serde_json::from_slice(&event("u", AFTER, json!(1))).expect("JSON");
        event["involvedObject"]["name"] = name.into();
        event["involvedObject"]["namespace"] = namespace.into();
        event.to_string().into_bytes()
    };

    for (name, namespace, expected) in [
        ("x".repeat(1 << 20), "team-a".to_owned(), 0),
        ("x".to_owned(), "x".repeat(1 << 20), 0),
        ("x".repeat(253), "x".repeat(63), 1),
    ] {
        let mut out = Vec::new();
        let version = sink.applied(&about(&name, &namespace), &mut out).expect("an Event");

        assert_eq!((version.as_str(), out.len()), ("7", expected));
    }
}

#[test]
fn a_failed_call_is_read_from_the_whole_message() {
    let mut sink = sink(&EventTally::default());
    let padding = "x".repeat(MAX_EVENT_MESSAGE);
    let mut json: Value = serde_json::from_slice(&event("a", AFTER, json!(1))).expect("an Event");
    json["message"] = json!(format!(
        r#"{padding} failed calling webhook "v.example.io": context deadline exceeded"#
    ));
    let mut out = Vec::new();
    sink.applied(json.to_string().as_bytes(), &mut out).expect("an Event");

    let Some(Observation::EventSeen { event, .. }) = out.pop() else { panic!("{out:?}") };
    let call = event.failed_call.as_deref().expect("a failed call");
    assert_eq!(call.consulted, Consulted::Admission("v.example.io".to_owned()));
    assert_eq!(call.cause, CallFailure::Timeout);
}
