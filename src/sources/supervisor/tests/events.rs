//! Kubernetes Events: what the supervisor watches, and what it says about the source.

use loopwatch_testbed::standin::{CONFIG_MAP, NEW_EVENT, POD, ServedKind, object};

use super::*;

fn widgets() -> World {
    World::new(&[WIDGET, NEW_EVENT, EVENT])
        .allow("", &["list", "watch"], "example.io", &["widgets"])
        .allow("", &["update"], "example.io", &["widgets/status"])
}

/// What was said about the source, in order.
fn said(seen: &[Observation]) -> Vec<String> {
    let about = |observation: &Observation| match observation {
        Observation::SourceOff { source: SourceId::Events, .. } => Some("off".to_owned()),
        Observation::SourceFailed { source: SourceId::Events, .. } => Some("failed".to_owned()),
        Observation::SourceRecovered { source: SourceId::Events } => Some("works".to_owned()),
        Observation::SourceRestricted { source: SourceId::Events, reason } => Some(reason.clone()),
        _ => None,
    };
    seen.iter().filter_map(about).collect()
}

/// The watches of Events so far, with their selectors.
fn watches(world: &World) -> Vec<String> {
    let requests = world.change(|state| std::mem::take(&mut state.requests));
    requests.into_iter().filter(|request| request.starts_with("watch events ")).collect()
}

#[tokio::test(start_paused = true)]
async fn without_permission_the_source_is_off_until_it_is_granted_and_off_again_when_it_is_gone() {
    let world = widgets().allow("", &["create", "patch"], "events.k8s.io", &["events"]);
    let mut run = Run::start(&world, |_| {});

    assert_eq!(said(&run.within(10).await), ["off"]);
    assert_eq!(said(&run.within(700).await), Vec::<String>::new(), "said once");
    assert!(watches(&world).is_empty() && world.change(|state| state.refused.is_empty()));

    let before = world.change(|state| state.rules.clone());
    let world = world.allow("", &["list", "watch"], "events.k8s.io", &["events"]);
    let since = said(&run.within(1_300).await);

    assert!(
        since.starts_with(&["works".to_owned()]) && !since.contains(&"off".to_owned()),
        "{since:?}"
    );

    let watched = watches(&world);
    assert!(watched[0].contains("fieldSelector=regarding.kind%3DWidget"), "{watched:?}");

    world.change(|state| state.rules = before);
    world.cut();

    let since = said(&run.within(60).await);
    assert_eq!(
        since.last().map(String::as_str),
        Some("off"),
        "a refusal is not its last word: {since:?}"
    );

    run.handle.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_older_form_serves_as_well() {
    let world = widgets().allow("", &["list", "watch"], "", &["events"]);
    let mut run =
        Run::start(&world, |options| options.discovery.exclude_namespaces = vec!["ci".to_owned()]);

    assert_eq!(said(&run.within(10).await), ["works"]);

    let watched = watches(&world);
    let selector = "fieldSelector=metadata.namespace%21%3Dci,involvedObject.kind%3DWidget";

    assert!(watched[0].contains(selector), "{watched:?}");
    assert!(
        !watched.iter().any(|watch| watch.contains("sendInitialEvents")),
        "no version streams all lists of Events"
    );

    run.handle.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_permission_in_one_of_two_namespaces_restricts_the_source() {
    let world = widgets().allow("a", &["list", "watch"], "events.k8s.io", &["events"]);
    let mut run = Run::start(&world, |options| {
        options.discovery.namespaces = vec!["a".to_owned(), "b".to_owned()]
    });
    let expected = "the account may list and watch the events about only 1 of 2 watched kinds";

    assert!(said(&run.within(10).await).iter().all(|said| said == expected));

    world.cut();
    assert_eq!(
        said(&run.within(60).await).last().map(String::as_str),
        Some(expected),
        "it stays restricted"
    );

    let world = world.allow("b", &["list", "watch"], "events.k8s.io", &["events"]);

    // The fake API server sends nothing, so its watches fail and recover now and then.
    let since = said(&run.within(1_300).await);
    assert!(
        since.iter().any(|said| said == "works") && since.iter().all(|said| said != expected),
        "{since:?}"
    );

    drop(world);
    run.handle.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_number_of_watches_is_bounded_and_those_of_objects_come_first() {
    let kinds: Vec<ServedKind> = (0..30)
        .map(|number| {
            let resource: &'static str = Box::leak(format!("kind{number:03}s").into_boxed_str());
            let kind: &'static str = Box::leak(format!("Kind{number:03}").into_boxed_str());
            ("example.io", "v1", kind, resource, true, true)
        })
        .chain([NEW_EVENT])
        .collect();
    for (most, expected) in [(64, 20), (35, 5), (30, 0)] {
        let world = World::new(&kinds)
            .allow("", &["list", "watch", "update"], "example.io", &["*", "*/status"])
            .allow("", &["list", "watch"], "events.k8s.io", &["events"]);
        let mut run = Run::start(&world, |options| options.discovery.max_watches = most);
        let seen = run.within(10).await;
        let watched: std::collections::BTreeSet<String> = watches(&world).into_iter().collect();
        let kinds: std::collections::BTreeSet<&str> =
            watched.iter().filter_map(|w| w.split("Kind").nth(1)).collect();

        assert_eq!(kinds.len(), expected, "{watched:?}");

        let left = format!("no room to watch the events about {} kinds", 30 - expected);
        assert!(
            said(&seen).iter().all(|said| said.contains(&left)) && !said(&seen).is_empty(),
            "{:?}",
            said(&seen)
        );

        run.handle.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_command_that_looks_once_reads_no_events() {
    let world = widgets().allow("", &["list", "watch"], "events.k8s.io", &["events"]);
    let mut run = Run::start(&world, |options| options.discovery.once = true);

    assert_eq!(said(&run.within(10).await), Vec::<String>::new());
    assert!(watches(&world).is_empty());

    run.handle.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn events_about_workloads_are_watched_too_but_not_those_about_other_children() {
    let own = || vec![object("team", "own", Some(WIDGET))];
    let world = World::new(&[WIDGET, POD, CONFIG_MAP, NEW_EVENT, EVENT])
        .allow("", &["list", "watch"], "example.io", &["widgets"])
        .allow("", &["update"], "example.io", &["widgets/status"])
        .allow("", &["*"], "", &["pods", "configmaps"])
        .allow("", &["list", "watch"], "events.k8s.io", &["events"]);

    world.change(|state| {
        state.objects.insert("widgets", vec![object("team", "owner", None)]);
        state.objects.extend(["pods", "configmaps"].map(|kind| (kind, own())));
    });
    let mut run = Run::start(&world, |_| {});
    run.within(60).await;

    let watched = watches(&world).join("\n");
    for (kind, is_watched) in [("Widget", true), ("Pod", true), ("ConfigMap", false)] {
        let selector = format!("fieldSelector=regarding.kind%3D{kind}");
        assert_eq!(watched.contains(&selector), is_watched, "{kind}: {watched}");
    }

    run.handle.shutdown().await;
}
