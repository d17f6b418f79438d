//! Children in traces, and links between traces.

use loopwatch_model::observation::{
    Fact, FactValue, Hashes, ObjectKey, ObjectView, OwnerReference, Role, Scope, StatusShape,
    WatchId, WatchedKind,
};
use loopwatch_model::time::{Span, Timestamp};
use loopwatch_model::trace::{StepKind, TraceLink};

use super::{ended, lab};
use crate::lab::{Lab, START, Widget, config_maps, kind};

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
    lab.apply_to(&config.watch, *again);

    assert!(began.elapsed() < std::time::Duration::from_secs(1), "{:?}", began.elapsed());
}
