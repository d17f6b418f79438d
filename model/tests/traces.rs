//! Traces: each obligation and each deletion gives one, with its steps; nothing is kept if nobody
//! wants them.

mod lab;

use lab::cluster::config_maps;
use lab::pods::{OPERATOR, Op, POD};
use lab::steps::unlearned;
use lab::{Lab, START, Widget, kind};
use loopwatch_model::observation::ConditionStatus::{False, True};
use loopwatch_model::observation::{
    EventView, Fact, FactValue, Hashes, ObjectAddress, ObjectKey, ObjectView, Observation,
    OwnerReference, Role, Scope, StatusShape, WatchId, WatchedKind,
};
use loopwatch_model::settings::{Limits, Settings};
use loopwatch_model::snapshot::Outcome;
use loopwatch_model::time::{Span, Timestamp};
use loopwatch_model::trace::{Measured, OperatorChange, StepKind, Trace, TraceCause, TraceLink};

/// Returns a lab that gathers traces.
fn lab() -> Lab {
    gathering(unlearned())
}

fn gathering(settings: Settings) -> Lab {
    let mut lab = Lab::with(settings);
    lab.model.gather_traces();
    lab
}

/// Returns the traces that have ended, each as lines that a person can compare.
fn ended(lab: &mut Lab) -> Vec<String> {
    lab.model.traces().iter().flat_map(lines).collect()
}

fn lines(trace: &Trace) -> Vec<String> {
    let seconds = |at: Timestamp| at.since(trace.start).seconds();
    let rest = if trace.key.late { "rest " } else { "" };
    let (cause, outcome) = (trace.cause.as_str(), trace.outcome.as_str());
    let mut lines = vec![format!(
        "{rest}{} {cause} {outcome} after {}s",
        trace.object.name,
        trace.took().seconds()
    )];

    lines.extend(trace.steps.iter().map(|step| {
        let what = match &step.kind {
            StepKind::Acknowledge => "acknowledge".to_owned(),
            StepKind::Condition { r#type, status, reason } => format!("{type}={status:?} {reason}"),
            StepKind::Child(name) => format!("{} {}", name.kind, name.name),
            StepKind::Finalizer(name) => format!("finalizer {name}"),
            StepKind::Event { r#type, reason, reporter, count } => {
                format!("{type} {reason} by {reporter} ×{count}")
            }
        };

        let end =
            if step.unfinished { "…".to_owned() } else { format!("{}s", seconds(step.end)) };
        format!("  {what}: {}s to {end}", seconds(step.start))
    }));

    lines
}

#[test]
fn a_spec_change_that_converges_gives_one_trace() {
    let mut lab = lab();
    let mut web = lab.converged("web");

    assert_eq!(
        ended(&mut lab),
        [
            "web created converged after 1s",
            "  acknowledge: 0s to 1s",
            "  Ready=True AsExpected: 1s to 1s"
        ]
        .map(|line| line
            .replace("Ready=True AsExpected: 1s to 1s", "Ready=True AsExpected: 1s to …"))
    );

    lab.apply(web.spec(2, lab.now));
    lab.advance(Span::secs(2));
    lab.apply(web.waiting());
    lab.advance(Span::secs(5));
    lab.apply(web.ready());
    lab.advance(Span::secs(5));

    assert!(lab.model.traces().is_empty(), "it may yet stop being ready");

    lab.advance(Span::secs(10));
    let traces = lab.model.traces();

    assert_eq!(
        lines(&traces[0]),
        [
            "web spec_changed converged after 7s",
            "  acknowledge: 0s to 2s",
            "  Ready=True AsExpected: 0s to 2s",
            "  Ready=False Progressing: 2s to 7s",
            "  Ready=True AsExpected: 7s to …",
        ]
    );

    let measured = Measured {
        acknowledged: Some(Span::secs(2)),
        converged: Some(Span::secs(7)),
        counted: true,
    };

    assert_eq!(traces[0].measured, measured);
    assert_eq!((traces[0].generation, traces[0].deadline), (2, Span::mins(10)));
    assert!(!traces[0].is_failure());
    assert_eq!(traces.len(), 1);
}

#[test]
fn the_root_ends_at_the_deadline_and_another_trace_shows_the_rest() {
    let mut lab = lab();
    let mut web = lab.converged("web");
    ended(&mut lab);
    lab.apply(web.spec(2, lab.now));
    lab.advance(Span::secs(3));
    lab.apply(web.waiting());
    lab.advance(Span::mins(20));

    let late = lab.model.traces();
    assert_eq!(
        lines(&late[0]),
        [
            "web spec_changed late after 600s",
            "  acknowledge: 0s to 3s",
            "  Ready=True AsExpected: 0s to 3s",
            "  Ready=False Progressing: 3s to …",
        ]
    );

    assert!(late[0].is_failure() && late[0].signal.contains("Ready=False"), "{:?}", late[0].signal);
    assert!(late[0].measured.counted);

    lab.apply(web.ready());
    lab.advance(Span::mins(1));

    let rest = lab.model.traces();
    assert_eq!(
        lines(&rest[0]),
        [
            "rest web spec_changed converged after 603s",
            "  Ready=False Progressing: 0s to 603s",
            "  Ready=True AsExpected: 603s to …",
        ]
    );

    assert_eq!(rest[0].links, [TraceLink::Continues(late[0].key.clone())]);
    assert_eq!(rest[0].key.to_string(), format!("{}|late", late[0].key));
    assert!(rest[0].is_failure(), "kept by every sampler");

    lab.advance(Span::hours(1));
    assert!(lab.model.traces().is_empty(), "each root ends once");
}

#[test]
fn a_newer_spec_ends_the_trace_and_the_rest_of_one() {
    let mut lab = lab();
    let mut web = lab.converged("web");
    ended(&mut lab);
    lab.apply(web.spec(2, lab.now));
    lab.advance(Span::secs(30));
    lab.apply(web.spec(3, lab.now));

    let traces = lab.model.traces();
    assert_eq!(lines(&traces[0])[0], "web spec_changed superseded after 30s");
    assert!(!traces[0].is_failure());

    lab.advance(Span::mins(11));
    assert_eq!(lab.model.traces()[0].outcome, Outcome::Late);

    lab.apply(web.spec(4, lab.now));
    let rest = lab.model.traces();

    assert_eq!(lines(&rest[0])[0], "rest web spec_changed superseded after 60s");

    lab.advance(Span::secs(1));
    lab.apply(web.ready());
    lab.advance(Span::mins(1));

    let last = lab.model.traces();
    assert_eq!(lines(&last[0])[0], "web spec_changed converged after 1s");

    let previous = TraceLink::Previous(traces[0].key.clone());
    let TraceLink::Previous(key) = &last[0].links[0] else { panic!("{:?}", last[0].links) };

    assert!(TraceLink::Previous(key.clone()) != previous, "of generation 3");
    assert!(key.to_string().ends_with("|3"), "{key}");
}

/// An object whose second generation the operator has rejected after 4 s.
fn rejected() -> (Lab, Widget) {
    let mut lab = lab();
    let mut web = lab.converged("web");
    ended(&mut lab);
    lab.apply(web.spec(2, lab.now));
    lab.advance(Span::secs(4));
    lab.apply(web.failed("InvalidSpec"));
    lab.advance(Span::mins(30));

    (lab, web)
}

#[test]
fn a_rejection_ends_the_trace_when_the_status_said_so() {
    let (mut lab, _) = rejected();
    let traces = lab.model.traces();

    assert_eq!(lines(&traces[0])[0], "web spec_changed rejected after 4s");
    assert!(
        traces[0].is_failure() && traces[0].signal.contains("Stalled"),
        "{:?}",
        traces[0].signal
    );
    assert_eq!(traces.len(), 1);
}

#[test]
fn a_pause_ends_the_trace_and_the_resumption_gives_another_one() {
    let mut lab = lab();
    let mut web = lab.converged("web");
    ended(&mut lab);
    lab.apply(web.spec(2, lab.now));
    lab.advance(Span::secs(4));
    web.paused = true;
    lab.apply(&web);

    let paused = lab.model.traces();
    assert_eq!(lines(&paused[0])[0], "web spec_changed suspended after 4s");

    lab.advance(Span::hours(1));
    web.paused = false;
    lab.apply(&web);
    lab.advance(Span::secs(2));
    lab.apply(web.ready());
    lab.advance(Span::mins(1));

    let resumed = lab.model.traces();
    assert_eq!(
        (lines(&resumed[0])[0].as_str(), resumed.len()),
        ("web resumed converged after 2s", 1)
    );
    assert_ne!(resumed[0].key, paused[0].key, "the generation is the same");
    assert_eq!(resumed[0].links, [TraceLink::Previous(paused[0].key.clone())]);
    assert!(!resumed[0].measured.counted && resumed[0].measured.converged.is_none());
}

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

#[test]
fn conditions_that_turn_again_and_again_are_limited() {
    let mut lab = lab();
    let mut web = lab.converged("web");
    ended(&mut lab);
    lab.apply(web.spec(2, lab.now));

    for round in 0..200 {
        lab.advance(Span::secs(1));
        let status = if round % 2 == 0 { False } else { True };
        lab.apply(web.observe().condition("Reconciling", status, "Retry"));
        lab.apply(web.condition("Ready", False, "Progressing"));
    }

    lab.advance(Span::mins(11));
    let traces = lab.model.traces();

    assert_eq!(traces[0].steps.len(), 128);
    assert!(traces[0].dropped > 50, "{}", traces[0].dropped);
    assert!(lab.snapshot().dropped["trace_steps"] > 50);
}

#[test]
fn traces_that_do_not_fit_are_dropped_and_counted() {
    let limits = Limits { trace_bytes: 10_000, ..Limits::default() };
    let mut lab = gathering(Settings { limits, ..unlearned() });
    let mut widgets: Vec<Widget> =
        (0..100).map(|number| Widget::new(&format!("web-{number}"), lab.now)).collect();

    widgets.iter().for_each(|widget| lab.apply(widget));
    assert!(
        lab.findings().contains(&"LimitReached limit traces".to_owned()),
        "{:?}",
        lab.findings()
    );

    let dropped = lab.snapshot().dropped["traces"];
    assert!((50..100).contains(&dropped), "{dropped}");

    lab.advance(Span::secs(1));
    widgets.iter_mut().for_each(|widget| lab.apply(widget.ready()));
    lab.advance(Span::mins(1));

    assert_eq!(lab.model.traces().len() as u64, 100 - dropped);

    // Once they are gone, there is room again.
    lab.converged("another");
    assert_eq!(lab.model.traces().len(), 1);
}

#[test]
fn without_gathering_nothing_is_kept() {
    let mut lab = Lab::new();
    let mut web = lab.converged("web");
    lab.apply(web.spec(2, lab.now));
    lab.advance(Span::mins(11));

    assert!(lab.model.traces().is_empty());

    // Gathering that begins later knows nothing about obligations that are open.
    lab.model.gather_traces();
    lab.apply(web.ready());
    lab.advance(Span::mins(1));

    assert!(lab.model.traces().is_empty());
}

#[test]
fn after_a_restart_the_keys_are_the_same() {
    let mut lab = lab();
    let mut web = Widget::new("web", START);
    lab.apply(web.waiting());
    lab.advance(Span::mins(11));

    let before: Vec<_> = lab.model.traces().into_iter().map(|trace| trace.key).collect();
    let mut again = Lab::unsynced(unlearned());
    again.model.gather_traces();
    again.now = lab.now;
    again.list(&[web.clone()]);
    again.advance(Span::secs(5));
    again.apply(web.ready());
    again.advance(Span::mins(1));

    let rest = again.model.traces();
    assert_eq!(rest.len(), 1, "an earlier process has sent the trace up to the deadline");
    assert_eq!(rest[0].links, [TraceLink::Continues(before[0].clone())]);
    assert!(rest[0].key.late);
}

/// A child kind with a status.
fn deployments() -> WatchedKind {
    let resource = "deployments".to_owned();
    let watch = WatchId::new("apps", &resource, &Scope::AllNamespaces);
    WatchedKind {
        watch,
        group: "apps".into(),
        kind: "Deployment".into(),
        resource,
        role: Role::Child,
        ..kind()
    }
}

/// A child of a widget, with a status that says how many of its two replicas are available; none
/// for a `ConfigMap`.
fn child(lab: &mut Lab, name: &str, created: Timestamp, available: Option<i64>) -> ObjectView {
    lab.version += 1;
    let count = |path: &str, number| Fact { path: path.into(), value: FactValue::Number(number) };
    let counts = |available| {
        let all = ["spec.replicas", "status.replicas", "status.updatedReplicas"];
        let all = all.into_iter().map(|path| count(path, 2));
        all.chain([
            count("status.readyReplicas", available),
            count("status.availableReplicas", available),
        ])
        .collect()
    };

    let owner = OwnerReference {
        api_version: "example.io/v1".into(),
        kind: "Widget".into(),
        name: "web".into(),
        uid: Widget::new("web", START).view(1).uid,
        ..OwnerReference::default()
    };

    ObjectView {
        key: ObjectKey { namespace: "team-a".into(), name: name.into() },
        uid: format!("uid-{name}"),
        version: lab.version.to_string(),
        generation: 1,
        created: Some(created),
        observed_generation: available.map(|_| 1),
        owners: vec![owner],
        status: if available.is_some() { StatusShape::Filled } else { StatusShape::Absent },
        facts: available.map(counts).unwrap_or_default(),
        hashes: Hashes {
            spec: 1,
            settled: available.unwrap_or(0).unsigned_abs(),
            ..Hashes::default()
        },
        ..ObjectView::default()
    }
}

#[test]
fn children_show_how_they_get_ready() {
    let mut lab = lab();
    let (apps, config) = (deployments(), config_maps());
    lab.discover(&[kind(), apps.clone(), config.clone()]);

    let old = child(&mut lab, "old", START, Some(2));
    lab.list_in(&apps.watch, vec![old]);
    lab.list_in(&config.watch, Vec::new());
    lab.advance(Span::mins(10));

    let created = lab.now;
    let mut web = Widget::new("web", created);
    lab.apply(&web);
    lab.advance(Span::secs(1));

    let now = lab.now;
    let view = child(&mut lab, "settings", now, None);
    lab.apply_to(&config.watch, view);

    for (name, new, available, after) in [
        ("web", Some(1), 0, 2),
        ("old", None, 1, 3),
        ("web", Some(1), 2, 4),
        ("old", None, 2, 1),
        ("web", Some(1), 2, 1), // says the same again
    ] {
        let created = new.map_or(START, |after| created.after(Span::secs(after)));
        let view = child(&mut lab, name, created, Some(available));
        lab.apply_to(&apps.watch, view);
        lab.advance(Span::secs(after));
    }

    lab.apply(web.ready());
    lab.advance(Span::mins(1));

    assert_eq!(
        ended(&mut lab),
        [
            "web created converged after 12s",
            "  acknowledge: 0s to 12s",
            "  ConfigMap settings: 1s to 1s",
            "  Deployment web: 1s to 6s",
            "  Deployment old: 3s to 10s",
            "  Ready=True AsExpected: 12s to …",
        ]
    );

    let view = child(&mut lab, "web", created, Some(0));
    lab.apply_to(&apps.watch, view);

    assert!(lab.model.traces().is_empty(), "nothing is rolled out");
}

#[test]
fn links_lead_to_the_owner_and_to_the_trace_of_the_change() {
    let mut lab = lab();
    let web = Widget::new("web", lab.now);
    lab.apply(&web);

    let mut part = Widget::new("part", lab.now);
    let mut view = lab.view(&part);
    view.owners = child(&mut lab, "any", START, None).owners;

    let context = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    view.annotations.insert("tracing.k8s.io/traceparent".into(), context.into());
    view.annotations.insert(
        "traceparent".into(),
        "00-11111111111111111111111111111111-1111111111111111-01".into(),
    );
    lab.apply_view(view);
    lab.advance(Span::secs(1));

    let mut view = lab.view(part.ready());
    view.owners = child(&mut lab, "any", START, None).owners;
    lab.apply_view(view);
    lab.advance(Span::mins(1));

    let traces = lab.model.traces();
    let [TraceLink::Owner(owner), TraceLink::Context(named)] = traces[0].links.as_slice() else {
        panic!("{:?}", traces[0].links)
    };

    assert_eq!((owner.uid.as_str(), named.as_str()), (web.view(1).uid.as_str(), context));

    lab.advance(Span::mins(11));
    let traces = lab.model.traces();
    let steps: Vec<_> = traces[0].steps.iter().map(|step| &step.kind).collect();

    assert!(matches!(steps[1], StepKind::Child(name) if name.name == "part"), "{steps:?}");
}

#[test]
fn a_step_of_the_clock_changes_no_duration() {
    let mut lab = lab();
    let mut web = lab.converged("web");
    ended(&mut lab);
    lab.apply(web.spec(2, lab.now));
    lab.advance(Span::secs(2));
    lab.apply(web.waiting());
    lab.step_clock(Span::hours(-2));
    lab.advance(Span::secs(5));

    lab.apply(web.ready());
    lab.advance(Span::mins(1));

    let traces = lab.model.traces();
    assert_eq!(
        lines(&traces[0])[..2],
        ["web spec_changed converged after 7s", "  acknowledge: 0s to 2s"]
    );
}

/// Tenants write owner references, also circular ones.
#[test]
fn objects_that_all_own_each_other_cost_no_more_than_their_number() {
    let mut lab = lab();
    let config = config_maps();
    lab.discover(&[kind(), config.clone()]);

    let names: Vec<String> = (0..64).map(|number| format!("m{number}")).collect();
    let owner = |name: &String| OwnerReference {
        api_version: "v1".into(),
        kind: "ConfigMap".into(),
        name: name.clone(),
        uid: format!("uid-{name}"),
        ..OwnerReference::default()
    };

    let mesh = |lab: &mut Lab, name: &String| {
        let owners = names.iter().filter(|other| *other != name).map(owner).collect();
        ObjectView { owners, ..child(lab, name, START, None) }
    };
    let all = names.iter().map(|name| mesh(&mut lab, name)).collect();

    lab.list_in(&config.watch, all);
    lab.apply(&Widget::new("web", lab.now)); // its trace is open

    let again = Box::new(mesh(&mut lab, &names[0]));
    let began = std::time::Instant::now();
    lab.observe(Observation::Applied { watch: config.watch, object: again });

    assert!(began.elapsed() < std::time::Duration::from_secs(1), "{:?}", began.elapsed());
}

/// An Event about an object that the operator has just written.
fn event(name: &str, reason: &str) -> EventView {
    EventView {
        uid: format!("uid-{name}-{reason}"),
        about: ObjectKey { namespace: "team-a".into(), name: name.into() },
        r#type: "Warning".into(),
        reason: reason.into(),
        reporter: "operator".into(),
        count: 1,
        added: 1,
        ..EventView::default()
    }
}

fn see(lab: &mut Lab, event: EventView) {
    lab.observe(Observation::EventSeen { watch: lab::watch(), event: Box::new(event) });
}

fn lines_of_events(trace: &Trace) -> Vec<String> {
    lines(trace)
        .into_iter()
        .filter(|line| line.contains(" by "))
        .map(|line| line.trim().to_owned())
        .collect()
}

#[test]
fn events_of_one_reason_are_one_step_from_the_first_to_the_last() {
    let mut lab = lab();
    let mut web = lab.converged("web");
    lab.converged("db");
    ended(&mut lab);
    lab.apply(web.spec(2, lab.now));

    let start = lab.now;
    for second in 1..=3 {
        lab.advance(Span::secs(1));
        // Of the older form, exact to a second.
        see(
            &mut lab,
            EventView { at: Some(start.after(Span::secs(second))), ..event("web", "SyncFailed") },
        );
    }

    // From before the watch.
    see(&mut lab, EventView { count: 40, added: 0, ..event("web", "Old") });
    // From before the change.
    see(&mut lab, EventView { at: Some(start.before(Span::secs(2))), ..event("web", "Stale") });
    see(
        &mut lab,
        EventView { at: Some(start.after(Span(2_500))), added: 4, ..event("web", "Later") },
    );
    see(&mut lab, event("db", "OfAnother"));
    see(
        &mut lab,
        EventView { r#type: "Normal".into(), reason: "free text".into(), ..event("web", "") },
    );

    lab.advance(Span::secs(1));
    lab.apply(web.ready());
    lab.advance(Span::secs(1));
    see(&mut lab, EventView { r#type: "Normal".into(), ..event("web", "Synced") });
    lab.advance(Span(1));
    see(&mut lab, event("web", "Afterwards"));
    lab.advance(Span::mins(1));

    let traces = lab.model.traces();
    assert_eq!(
        lines_of_events(&traces[0]),
        [
            "Warning SyncFailed by operator ×3: 1s to 3s",
            "Warning Later by operator ×4: 2.5s to 2.5s",
            "Normal _other by operator ×1: 3s to 3s",
            "Normal Synced by operator ×1: 4s to 4s",
        ]
    );
    assert_eq!((traces.len(), traces[0].dropped), (1, 0));
}

#[test]
fn an_event_that_arrives_just_before_its_change_belongs_to_it() {
    let mut lab = lab();
    let mut web = lab.converged("web");
    ended(&mut lab);
    see(&mut lab, event("web", "Before"));
    lab.advance(Span(600));
    see(&mut lab, event("web", "Reconciling"));
    see(&mut lab, event("db", "OfAnother"));
    lab.advance(Span(200));

    lab.apply(web.spec(2, lab.now));
    lab.advance(Span::secs(2));
    lab.apply(web.ready());
    lab.advance(Span::mins(1));

    assert_eq!(
        lines_of_events(&lab.model.traces()[0]),
        ["Warning Reconciling by operator ×1: 0s to 0s"]
    );

    lab.apply(web.spec(3, lab.now));
    lab.apply(web.ready());
    lab.advance(Span::mins(1));

    assert!(lines_of_events(&lab.model.traces()[0]).is_empty(), "it counts once");
}

#[test]
fn events_are_limited_and_leave_room_for_other_steps() {
    let mut lab = lab();
    let mut web = lab.converged("web");
    ended(&mut lab);
    lab.apply(web.spec(2, lab.now));

    for number in 0..100 {
        see(&mut lab, event("web", &format!("Reason{}", number % 20)));
    }

    lab.advance(Span::secs(2));
    lab.apply(web.ready());
    lab.advance(Span::mins(1));

    let traces = lab.model.traces();
    assert_eq!((lines_of_events(&traces[0]).len(), traces[0].dropped), (16, 20));
    assert!(
        lines(&traces[0]).iter().any(|line| line.contains("Ready=True")),
        "{:#?}",
        lines(&traces[0])
    );
    assert_eq!(lab.snapshot().dropped["trace_steps"], 20);

    // Events about objects without a trace cost a bounded amount of memory.
    (0..1_000).for_each(|number| see(&mut lab, event(&format!("other-{number}"), "Synced")));
}

#[test]
fn events_after_the_deadline_belong_to_the_rest_and_a_deletion_has_its_own() {
    let mut lab = lab();
    let mut web = lab.converged("web");
    web.finalizers = vec!["example.io/disk".into()];
    ended(&mut lab);
    lab.apply(web.spec(2, lab.now));
    see(&mut lab, event("web", "SyncFailed"));
    lab.advance(Span::mins(11));
    see(&mut lab, event("web", "SyncFailed"));

    lab.advance(Span::mins(1));
    web.deleted = Some(lab.now);
    lab.apply(&web);
    lab.advance(Span::secs(1));
    see(&mut lab, event("web", "CleanupFailed"));
    lab.delete(&web);

    let traces = lab.model.traces();
    let events: Vec<_> = traces.iter().map(lines_of_events).collect();
    let line = |text: &str| vec![format!("Warning {text}")];

    assert_eq!(
        events,
        [
            line("SyncFailed by operator ×1: 0s to 0s"),
            line("SyncFailed by operator ×1: 60s to 60s"),
            line("CleanupFailed by operator ×1: 1s to 1s"),
        ]
    );
}

#[test]
fn a_step_of_the_clock_moves_events_with_their_trace() {
    for hours in [-2, 3] {
        let mut lab = lab();
        let mut web = lab.converged("web");
        ended(&mut lab);
        lab.apply(web.spec(2, lab.now));
        lab.advance(Span::secs(2));
        see(&mut lab, event("web", "SyncFailed"));
        lab.step_clock(Span::hours(hours));
        lab.advance(Span::secs(3));

        see(&mut lab, event("web", "SyncFailed"));
        lab.apply(web.ready());
        lab.advance(Span::mins(1));

        let traces = lab.model.traces();
        assert_eq!(lines(&traces[0])[0], "web spec_changed converged after 5s", "{hours}");
        assert_eq!(
            lines_of_events(&traces[0]),
            ["Warning SyncFailed by operator ×2: 2s to 5s"],
            "{hours}"
        );
    }
}

#[test]
fn the_generation_after_a_rejection_links_to_it() {
    let (mut lab, mut web) = rejected();
    let rejected = lab.model.traces();

    assert_eq!((rejected.len(), rejected[0].outcome), (1, Outcome::Rejected));

    lab.apply(web.spec(3, lab.now));
    lab.advance(Span::secs(2));
    lab.apply(web.ready());
    lab.advance(Span::mins(1));

    let mended = lab.model.traces();
    assert_eq!(
        (mended.len(), lines(&mended[0])[0].as_str()),
        (1, "web spec_changed converged after 2s")
    );
    assert_eq!(mended[0].links, [TraceLink::Previous(rejected[0].key.clone())]);
}

#[test]
fn an_explanation_names_the_trace_that_is_open_or_was_last() {
    let key = |lab: &Lab| {
        let [group, kind, namespace, name] =
            ["example.io", "Widget", "team-a", "web"].map(str::to_owned);
        let explanation =
            lab.model.explain(&ObjectAddress { group, kind, namespace, name }).expect("the object");

        explanation.trace.map(|key| key.to_string())
    };

    let mut plain = Lab::new();
    plain.converged("web");

    assert_eq!(key(&plain), None, "traces are off");

    let mut lab = lab();
    let mut web = lab.converged("web");
    let last = lab.model.traces().pop().map(|trace| trace.key.to_string());

    assert!(last.is_some() && key(&lab) == last, "{last:?}");

    lab.apply(web.spec(2, lab.now));
    assert!(key(&lab).is_some_and(|key| key.ends_with("|2")));

    lab.advance(Span::mins(11));
    assert!(key(&lab).is_some_and(|key| key.ends_with("|2|late")), "the rest of it");

    web.finalizers = vec!["example.io/disk".into()];
    web.deleted = Some(lab.now);
    lab.apply(&web);

    assert!(key(&lab).is_some_and(|key| key.ends_with("|deletion")));
}
