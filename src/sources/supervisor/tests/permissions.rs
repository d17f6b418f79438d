//! Tests of what the account may do: which kinds follow from it, and what happens when permissions
//! come and go.

use std::sync::Arc;

use loopwatch_model::model::Model;
use loopwatch_model::observation::PermissionsView;
use loopwatch_model::settings::Settings;
use loopwatch_model::time::Timestamp;

use super::*;

/// Seconds after which the permissions have been reviewed again, even if nothing had changed for
/// long.
const REVIEWED: u64 = 1_300;

#[tokio::test(start_paused = true)]
async fn permissions_determine_primary_and_child_kinds() {
    for aggregated in [true, false] {
        let world = widget_operator();
        world.change(|state| state.aggregated = aggregated);

        let mut run = Run::start(&world, |_| {});
        assert_eq!(run.kinds_within(1).await.as_deref(), Some(ALL));

        let progress = run.handle.initial_sync().progress();
        assert_eq!((progress.watches, progress.listed, progress.failed), (3, 3, 0));
        assert!(world.change(|state| state.refused.is_empty()), "no request lacks a permission");

        run.handle.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_sandboxed_operator_is_watched_in_its_own_namespace() {
    let world = World::new(&[WIDGET, CONFIG_MAP])
        .allow("op", &["list", "watch"], "example.io", &["widgets"])
        .allow("op", &["update"], "example.io", &["widgets/status"]);
    let mut run = Run::start(&world, |_| {});

    assert_eq!(run.kinds_within(1).await.as_deref(), Some("kinds [widgets.example.io/op@v1]"));
    assert!(world.change(|state| state.refused.is_empty()));
}

#[tokio::test(start_paused = true)]
async fn permissions_in_other_namespaces_are_found_if_the_account_may_list_namespaces() {
    let world = World::new(&[WIDGET, CONFIG_MAP, NAMESPACE])
        .allow("", &["list"], "", &["namespaces"])
        .allow("a", &["list", "watch"], "example.io", &["widgets"])
        .allow("a", &["update"], "example.io", &["widgets/status"])
        .allow("a", &["*"], "", &["configmaps"])
        .allow("b", &["update"], "example.io", &["widgets/status"]);

    world.change(|state| {
        state.namespaces = vec!["op", "a", "b", "c"];
        state.objects.insert("widgets", vec![object("a", "owner", None)]);
        state.objects.insert("configmaps", vec![object("a", "child", Some(WIDGET))]);
    });
    let mut run = Run::start(&world, |_| {});
    let expected =
        "kinds [widgets.example.io/a@v1, widgets.example.io/b@v1 -list-watch, configmaps/a@v1]";

    assert_eq!(run.kinds_within(1).await.as_deref(), Some(expected));
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_the_account_may_only_write_has_missing_verbs() {
    for (bound, expected) in [
        ("", "kinds [widgets.example.io@v1 -list-watch]"),
        ("op", "kinds [widgets.example.io/op@v1 -list-watch]"),
    ] {
        let world =
            World::new(&[WIDGET]).allow(bound, &["update"], "example.io", &["widgets/status"]);
        let mut run = Run::start(&world, |_| {});

        assert_eq!(run.kinds_within(1).await.as_deref(), Some(expected));
    }
}

#[tokio::test(start_paused = true)]
async fn configured_namespaces_are_watched_one_by_one_and_a_missing_permission_is_reported() {
    let world = World::new(&[WIDGET])
        .allow("", &["update"], "example.io", &["widgets/status"])
        .allow("a", &["list", "watch"], "example.io", &["widgets"])
        .allow("b", &["list"], "example.io", &["widgets"]);
    let mut run = Run::start(&world, |options| {
        options.discovery.namespaces = vec!["a".to_owned(), "b".to_owned()]
    });
    let seen = run.within(1).await;
    let said: Vec<String> = seen.iter().map(say).collect();

    let kinds = "kinds [widgets.example.io/a@v1, widgets.example.io/b@v1 -watch]".to_owned();
    assert!(said.contains(&kinds), "{said:?}");

    let missing: Vec<(String, String)> = seen
        .iter()
        .filter_map(|observation| match observation {
            Observation::PermissionsReviewed(view) => Some(view),
            _ => None,
        })
        .flat_map(|view| {
            view.missing.iter().map(|permission| (view.namespace.clone(), permission.to_string()))
        })
        .collect();

    assert_eq!(missing, [("b".to_owned(), "watch widgets.example.io".to_owned())]);

    let progress = run.handle.initial_sync().done().await;
    assert_eq!((progress.watches, progress.listed, progress.failed), (2, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_read_only_account_watches_the_custom_resources_that_its_rules_name() {
    let world = World::new(&[WIDGET, GADGET, THING, CONFIG_MAP])
        .allow("", &["create"], "authorization.k8s.io", &["selfsubjectrulesreviews"])
        .allow("", &["get", "list", "watch"], "example.io", &["widgets"])
        .allow("", &["get", "list", "watch"], "", &["configmaps"]);
    let mut run = Run::start(&world, |_| {});

    assert_eq!(run.kinds_within(1).await.as_deref(), Some("kinds [widgets.example.io@v1]"));

    let mut run = Run::start(&world.allow("", &["delete"], "", &["configmaps"]), |_| {});
    assert_eq!(run.kinds_within(1).await.as_deref(), Some("kinds []"));
}

#[tokio::test(start_paused = true)]
async fn an_administrator_sees_every_custom_resource_that_has_a_status() {
    let world =
        World::new(&[WIDGET, GADGET, THING, CONFIG_MAP, INGRESS]).allow("", &["*"], "*", &["*"]);
    let mut run = Run::start(&world, |options| {
        options.discovery.select = Selection::EveryKindWithStatus;
        options.discovery.once = true;
    });
    let progress = run.handle.initial_sync().done().await;

    assert_eq!((progress.watches, progress.listed, progress.failed), (2, 2, 0));
    assert_eq!(
        run.kinds_within(1).await.as_deref(),
        Some("kinds [widgets.example.io@v1, things.other.io@v1]")
    );
}

#[tokio::test(start_paused = true)]
async fn revoked_permissions_are_reported_as_missing_until_they_return() {
    let world = widget_operator();
    let mut run = Run::start(&world, |_| {});

    assert_eq!(run.kinds_within(1).await.as_deref(), Some(ALL));

    let taken =
        world.change(|state| state.rules.get_mut("").map(|rules| rules.remove(0))).expect("a rule");
    world.cut();

    assert_eq!(
        run.kinds_within(20).await.as_deref(),
        Some(
            "kinds [gadgets.example.io@v1 -list-watch, widgets.example.io@v1 -list-watch, configmaps@v1]"
        )
    );
    assert_eq!(run.within(30).await.len(), 0, "no request for forbidden watches");

    world.change(|state| state.rules.entry(String::new()).or_default().push(taken));
    assert_eq!(run.kinds_within(80).await.as_deref(), Some(ALL));
}

#[tokio::test(start_paused = true)]
async fn a_permission_to_write_that_is_withdrawn_is_named_until_it_returns() {
    for incomplete in [false, true] {
        let world = World::new(&[WIDGET])
            .allow("", &["list", "watch"], "example.io", &["widgets"])
            .allow("", &["update"], "example.io", &["widgets/finalizers"])
            .allow("", &["update"], "example.io", &["widgets/status"]);
        world.change(|state| state.incomplete = incomplete);
        let mut run = Run::start(&world, |_| {});

        assert_eq!(lacking(&run.within(1).await), Some(Vec::new()));

        let taken = world.change(|state| state.rules.get_mut("").and_then(Vec::pop));
        world.cut();
        let expected = ["update widgets.example.io/status"; 2].map(str::to_owned).to_vec();
        assert_eq!(
            lacking(&run.within(REVIEWED).await),
            Some(expected),
            "incomplete: {incomplete}"
        );

        world.change(|state| state.rules.entry(String::new()).or_default().extend(taken));
        world.cut();
        assert_eq!(
            lacking(&run.within(REVIEWED).await),
            Some(Vec::new()),
            "incomplete: {incomplete}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_permission_that_is_withdrawn_while_nobody_watches_is_named_by_the_next_process() {
    for incomplete in [false, true] {
        let world = World::new(&[WIDGET])
            .allow("", &["list", "watch"], "example.io", &["widgets"])
            .allow("", &["update"], "example.io", &["widgets/status"]);
        world.change(|state| state.incomplete = incomplete);

        let mut model = Model::new(Settings::default());
        let mut run = Run::start(&world, |_| {});
        for seen in run.within(1).await {
            model.apply(Timestamp(1_000), seen);
        }

        run.handle.shutdown().await;
        world.change(|state| state.rules.get_mut("").and_then(Vec::pop));

        let known = Arc::new(model.checkpoint().permissions);
        let mut run = Run::start(&world, |options| {
            options.discovery.known_permissions = known.clone();
        });
        let lost = lacking(&run.within(1).await).unwrap_or_default();
        assert!(
            lost.contains(&"update widgets.example.io/status".to_owned()),
            "incomplete {incomplete}: {lost:?} of {known:?}"
        );
        run.handle.shutdown().await;
    }
}

/// The permissions in the last view of the cluster that were withdrawn, and then the usual writes
/// that the account may not do.
fn lacking(seen: &[Observation]) -> Option<Vec<String>> {
    let mut views = seen.iter().filter_map(|observation| match observation {
        Observation::PermissionsReviewed(view) if view.namespace.is_empty() => Some(view),
        _ => None,
    });
    let named = |view: &PermissionsView| {
        view.withdrawn.iter().chain(&view.unwritable).map(ToString::to_string).collect()
    };

    views.next_back().map(named)
}

#[tokio::test(start_paused = true)]
async fn a_short_loss_of_permissions_changes_nothing() {
    let world = widget_operator();
    let mut run = Run::start(&world, |_| {});

    assert_eq!(run.kinds_within(1).await.as_deref(), Some(ALL));

    // An API server that has just started may not have read the rules yet.
    let rules = world.change(|state| std::mem::take(&mut state.rules));
    world.cut();

    assert_eq!(run.kinds_within(3).await, None);

    world.change(|state| state.rules = rules);
    let said: Vec<String> = run.within(60).await.iter().map(say).collect();

    assert!(!said.iter().any(|said| said.starts_with("kinds")), "{said:?}");
    assert_eq!(
        said.iter().filter(|said| *said == "works").count(),
        4,
        "three kinds, and Events: {said:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn incomplete_rules_remove_no_kind() {
    let world = widget_operator();
    let mut run = Run::start(&world, |_| {});

    assert_eq!(run.kinds_within(1).await.as_deref(), Some(ALL));

    world.change(|state| {
        state.incomplete = true;
        // The API server no longer lists the rules for writing. The account may still read.
        state.rules.insert(String::new(), vec![]);
    });
    let world = world.allow("", &["list", "watch"], "example.io", &["widgets", "gadgets"]).allow(
        "",
        &["list", "watch"],
        "",
        &["configmaps"],
    );

    world.cut();
    let kinds = run.kinds_within(400).await;

    assert!(kinds.is_none_or(|kinds| kinds == ALL));
}

#[tokio::test(start_paused = true)]
async fn annotations_of_namespaces_are_read_if_the_account_may_and_else_the_source_is_off() {
    let world = World::new(&[WIDGET, NAMESPACE])
        .allow("", &["list", "watch"], "example.io", &["widgets"])
        .allow("", &["update"], "example.io", &["widgets/status"]);
    let namespace = |name: &str, annotations: serde_json::Value| serde_json::json!({ "metadata": { "name": name, "resourceVersion": "3", "annotations": annotations } });

    world.change(|state| {
        let ignore =
            serde_json::json!({ "loopwatch.dev/ignore": "all", "example.io/owner": "team" });
        state.annotated = vec![namespace("ci", ignore), namespace("prod", serde_json::json!({}))];
    });
    let mut run = Run::start(&world, |_| {});
    let seen = run.within(5).await;
    let is_off =
        |o: &&Observation| matches!(o, Observation::SourceOff { source: SourceId::Namespaces, .. });

    assert!(
        seen.iter().find(is_off).is_some() && world.change(|state| state.refused.is_empty()),
        "no permission"
    );

    run.within(120).await;
    let _ = world.clone().allow("", &["list", "watch"], "", &["namespaces"]);
    let seen = run.within(120).await;

    assert!(!seen.iter().any(|o| is_off(&o)), "{seen:?}");

    let listed = seen.iter().find_map(|observation| match observation {
        Observation::NamespacesListed(namespaces) => Some(namespaces.clone()),
        _ => None,
    });
    let listed = listed.expect("a list of namespaces");

    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!((listed[0].name.as_str(), listed[0].annotations.len()), ("ci", 1));

    run.handle.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_source_that_stops_for_lack_of_permission_does_not_fail_forever() {
    let world = World::new(&[WIDGET, LEASE])
        .allow("", &["list", "watch"], "apiextensions.k8s.io", &["customresourcedefinitions"])
        .allow("", &["list", "watch"], "coordination.k8s.io", &["leases"])
        .allow("", &["list", "watch"], "example.io", &["widgets"])
        .allow("", &["update"], "example.io", &["widgets/status"]);

    world.change(|state| state.objects.insert("leases", vec![object("op", "lock", None)]));
    let mut run = Run::start(&world, |options| options.lease = LeaseSelection::OwnNamespace);
    let definitions = "watch/customresourcedefinitions.apiextensions.k8s.io";
    let mut seen = run.within(5).await;
    let said = last_words(&seen);

    assert_eq!(
        (said.get(definitions), said.get("lease")),
        (Some(&"works"), Some(&"works")),
        "{said:?}"
    );

    world.change(|state| state.rules.get_mut("").map(|rules| rules.drain(..2).count()));
    world.cut();
    seen.extend(run.within(700).await);

    let said = last_words(&seen);
    assert_eq!(
        (said.get(definitions), said.get("lease")),
        (Some(&"off"), Some(&"off")),
        "{said:?}"
    );

    let leases = seen.iter().rev().find_map(|observation| match observation {
        Observation::LeasesListed { names, .. } => Some(names.len()),
        _ => None,
    });

    assert_eq!(leases, Some(0), "a lease that nobody watches does not grow old");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_makes_room_for_another_source_is_reported() {
    let world = widget_operator();
    let mut run = Run::start(&world, |options| options.discovery.max_watches = 3);

    assert_eq!(run.kinds_within(5).await.as_deref(), Some(ALL));

    // Later the account may watch namespaces, whose watch counts.
    let _ = world.clone().allow("", &["list", "watch"], "", &["namespaces"]);
    let seen = run.within(700).await;
    let said = last_words(&seen);

    assert_eq!(
        said.get("watch/configmaps"),
        Some(&"failed"),
        "{:?}",
        seen.iter().map(say).collect::<Vec<_>>()
    );
}
