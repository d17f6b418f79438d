//! Children in traces, and links between traces.

use loopwatch_model::observation::ObjectView;
use loopwatch_model::time::Span;
use loopwatch_model::trace::{StepKind, TraceLink};

use super::{ended, lab};
use crate::lab::{
    Lab, START, Widget, child_of, config_maps, deployment, deployments, kind, map, owned_by, owner,
};

#[test]
fn children_show_how_they_get_ready() {
    let mut lab = lab();
    let (apps, config) = (deployments(), config_maps());
    lab.discover(&[kind(), apps.clone(), config.clone()]);

    let old = ObjectView { created: Some(START), ..deployment("web", "old", 2, 2) };
    lab.list_in(&apps.watch, vec![old]);
    lab.list_in(&config.watch, Vec::new());
    lab.advance(Span::mins(10));

    let created = lab.now;
    let mut web = Widget::new("web", created);
    lab.apply(&web);
    lab.advance(Span::secs(1));

    let view = ObjectView { created: Some(lab.now), ..child_of("web", "settings") };
    lab.apply_to(&config.watch, view);

    for (name, new, available, after) in [
        ("web", Some(1), 0, 2),
        ("old", None, 1, 3),
        ("web", Some(1), 2, 4),
        ("old", None, 2, 1),
        ("web", Some(1), 2, 1), // says the same again
    ] {
        let created = new.map_or(START, |after| created.after(Span::secs(after)));
        let view = lab.versioned(deployment("web", name, 2, available));
        lab.apply_to(&apps.watch, ObjectView { created: Some(created), ..view });
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

    let view = lab.versioned(deployment("web", "web", 2, 0));
    lab.apply_to(&apps.watch, ObjectView { created: Some(created), ..view });

    assert!(lab.model.traces().is_empty(), "nothing is rolled out");
}

#[test]
fn links_lead_to_the_owner_and_to_the_trace_of_the_change() {
    let mut lab = lab();
    let web = Widget::new("web", lab.now);
    lab.apply(&web);

    let mut part = Widget::new("part", lab.now);
    let mut view = lab.view(&part);
    view.owners = vec![owned_by("web")];

    let context = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    view.annotations.insert("tracing.k8s.io/traceparent".into(), context.into());
    view.annotations.insert(
        "traceparent".into(),
        "00-11111111111111111111111111111111-1111111111111111-01".into(),
    );
    lab.apply_view(view);
    lab.advance(Span::secs(1));

    let mut view = lab.view(part.ready());
    view.owners = vec![owned_by("web")];
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

/// Tenants write owner references, even circular ones.
#[test]
fn objects_that_all_own_each_other_cost_no_more_than_their_number() {
    let mut lab = lab();
    let config = config_maps();
    lab.discover(&[kind(), config.clone()]);

    let names: Vec<String> = (0..64).map(|number| format!("m{number}")).collect();
    let owner = |name: &String| owner(&map(name), &format!("uid-{name}"));

    let mesh = |lab: &mut Lab, name: &String| {
        let owners = names.iter().filter(|other| *other != name).map(owner).collect();
        lab.versioned(ObjectView { owners, created: Some(START), ..child_of("web", name) })
    };
    let all = names.iter().map(|name| mesh(&mut lab, name)).collect();

    lab.list_in(&config.watch, all);
    lab.apply(&Widget::new("web", lab.now)); // its trace is open

    let again = mesh(&mut lab, &names[0]);
    let began = std::time::Instant::now();
    lab.apply_to(&config.watch, again);

    assert!(began.elapsed() < std::time::Duration::from_secs(1), "{:?}", began.elapsed());
}
