//! Tests of the kinds that an account shows: children by samples, permissions elsewhere, wildcards,
//! and rare reviews.

use loopwatch_model::observation::{LeftOut, Observation, Role, WatchedKind};
use loopwatch_testbed::standin::{
    CONFIG_MAP, GADGET, LEASE, NAMESPACE, POD, REPLICA_SET, ServedKind, THING, WIDGET, World,
    object,
};
use serde_json::{Value, json};

use super::Run;
use crate::sources::api_server::{ChildSelection, SecretAccess};
use crate::sources::testing::say;

/// The kinds that were reported last.
fn last_kinds(seen: &[Observation]) -> Vec<WatchedKind> {
    let kinds = |observation: &Observation| match observation {
        Observation::KindsDiscovered(kinds) => Some(kinds.clone()),
        _ => None,
    };

    seen.iter().rev().find_map(kinds).unwrap_or_default()
}

/// What the last view of the cluster leaves out.
fn left_out(seen: &[Observation]) -> Vec<LeftOut> {
    let view = |observation: &Observation| match observation {
        Observation::PermissionsReviewed(view) if view.namespace.is_empty() => {
            Some(view.left_out.clone())
        }
        _ => None,
    };
    seen.iter().rev().find_map(view).unwrap_or_default()
}

/// An operator that owns widgets and may create Pods in all namespaces.
fn pod_operator(pods: Vec<Value>) -> World {
    let world = World::new(&[WIDGET, POD, REPLICA_SET])
        .allow("", &["list", "watch"], "example.io", &["widgets"])
        .allow("", &["update"], "example.io", &["widgets/status"])
        .allow("", &["*"], "", &["pods"]);

    world.change(|state| {
        state.objects.insert("widgets", vec![object("team", "owner", None)]);
        state.objects.insert("pods", pods);
    });

    world
}

fn foreign(namespace: &str, number: usize) -> Vec<Value> {
    (0..number)
        .map(|index| object(namespace, &format!("foreign-{index:05}"), Some(REPLICA_SET)))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_child_kind_without_children_is_not_watched_and_rarely_sampled() {
    let world = pod_operator(foreign("team", 10_000));
    let mut run = Run::start(&world, |_| {});

    assert_eq!(run.kinds_within(600).await.as_deref(), Some("kinds [widgets.example.io@v1]"));

    let pages = world.change(|state| {
        state.lists.iter().filter(|list| list.contains("/pods")).cloned().collect::<Vec<_>>()
    });

    assert!((4..=12).contains(&pages.len()), "{pages:#?}");
    assert!(pages.iter().all(|page| page.contains("limit=20")), "{pages:#?}");

    // Samples continue where the last one stopped.
    assert!(pages.iter().any(|page| page.contains("continue=40")), "{pages:#?}");
}

#[tokio::test(start_paused = true)]
async fn children_are_watched_without_the_foreign_objects_beside_them() {
    let mut pods = foreign("other", 30);
    pods.push(object("team", "own", Some(WIDGET)));

    let mut run = Run::start(&pod_operator(pods), |_| {});
    let seen = run.within(1).await;

    assert_eq!(
        last_kinds(&seen).iter().map(|kind| kind.watch.to_string()).collect::<Vec<_>>(),
        ["widgets.example.io", "pods"]
    );
    assert!(last_kinds(&seen).iter().all(|kind| kind.filtered == (kind.role == Role::Child)));

    let listed: Vec<String> =
        seen.iter().map(say).filter(|said| said.starts_with("listed")).collect();

    assert_eq!(listed, ["listed owner@4", "listed own@4"]);
}

#[tokio::test(start_paused = true)]
async fn the_objects_of_child_kinds_are_read_whole_only_if_they_are_workloads() {
    let own = || vec![object("team", "own", Some(WIDGET))];
    let world = World::new(&[WIDGET, POD, REPLICA_SET, CONFIG_MAP])
        .allow("", &["list", "watch"], "example.io", &["widgets"])
        .allow("", &["update"], "example.io", &["widgets/status"])
        .allow("", &["*"], "", &["pods", "configmaps"])
        .allow("", &["*"], "apps", &["replicasets"]);

    world.change(|state| {
        state.objects.insert("widgets", vec![object("team", "owner", None)]);
        state.objects.extend(["pods", "configmaps", "replicasets"].map(|kind| (kind, own())));
    });
    let mut run = Run::start(&world, |_| {});
    let seen = run.within(1).await;

    assert_eq!(last_kinds(&seen).len(), 4);

    let mut whole = world.change(|state| state.whole.clone());
    whole.sort();

    assert_eq!(whole, ["pods", "replicasets", "widgets"]);
}

#[tokio::test(start_paused = true)]
async fn among_some_foreign_objects_only_the_metadata_of_workloads_is_read() {
    for (number, whole) in [(150, true), (500, false)] {
        let mut pods = foreign("other", number);
        pods.insert(0, object("team", "own", Some(WIDGET)));

        let world = pod_operator(pods);
        let mut run = Run::start(&world, |_| {});
        let seen = run.within(60).await;

        assert!(
            last_kinds(&seen)
                .iter()
                .any(|kind| &*kind.watch.0 == "pods" && kind.metadata_only != whole)
        );
        assert_eq!(
            world.change(|state| state.whole.contains(&"pods".to_owned())),
            whole,
            "{number} foreign Pods"
        );

        let left_out: Vec<String> = left_out(&seen).into_iter().map(|part| part.what).collect();
        assert_eq!(left_out, if whole { vec![] } else { vec!["the status of Pod children"] });
    }
}

#[tokio::test(start_paused = true)]
async fn among_many_foreign_objects_only_the_namespaces_with_children_are_watched() {
    let mut pods = foreign("other", 10_000);
    pods.push(object("team", "own", Some(WIDGET)));

    let mut run = Run::start(&pod_operator(pods), |_| {});
    assert_eq!(
        run.kinds_within(60).await.as_deref(),
        Some("kinds [widgets.example.io@v1, pods/team@v1]")
    );
}

#[tokio::test(start_paused = true)]
async fn children_that_cost_too_much_are_reported() {
    let mut pods = foreign("team", 10_000);
    pods.insert(0, object("team", "a-child", Some(WIDGET)));

    let mut run = Run::start(&pod_operator(pods), |_| {});
    let seen = run.within(60).await;

    assert_eq!(last_kinds(&seen).len(), 1);
    assert_eq!(
        left_out(&seen).iter().map(|part| part.what.as_str()).collect::<Vec<_>>(),
        ["Pod children"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_first_child_that_appears_later_is_found() {
    let world = pod_operator(foreign("team", 3));
    let mut run = Run::start(&world, |_| {});

    assert_eq!(run.kinds_within(120).await.as_deref(), Some("kinds [widgets.example.io@v1]"));

    world.change(|state| state.objects.insert("pods", vec![object("team", "own", Some(WIDGET))]));
    assert_eq!(
        run.kinds_within(240).await.as_deref(),
        Some("kinds [widgets.example.io@v1, pods@v1]")
    );
}

#[tokio::test(start_paused = true)]
async fn children_of_objects_without_namespace_are_found_in_the_namespaces_that_the_account_may_read()
 {
    let world = World::new(&[THING, CONFIG_MAP])
        .allow("", &["list", "watch"], "other.io", &["things"])
        .allow("", &["update"], "other.io", &["things/status"])
        .allow("op", &["*"], "", &["configmaps"]);

    world.change(|state| {
        state.objects.insert("things", vec![object("", "owner", None)]);
        state.objects.insert(
            "configmaps",
            vec![object("op", "own", Some(THING)), object("op", "foreign", None)],
        );
    });
    let mut run = Run::start(&world, |_| {});

    assert_eq!(
        run.kinds_within(1).await.as_deref(),
        Some("kinds [things.other.io@v1, configmaps/op@v1]")
    );
}

#[tokio::test(start_paused = true)]
async fn child_kinds_that_the_account_may_no_longer_read_wait_for_the_permission() {
    let world = pod_operator(vec![object("team", "own", Some(WIDGET))]);
    let mut run = Run::start(&world, |_| {});

    assert_eq!(
        run.kinds_within(120).await.as_deref(),
        Some("kinds [widgets.example.io@v1, pods@v1]")
    );

    let rule = world
        .change(|state| state.rules.get_mut("").and_then(Vec::pop))
        .expect("the rule for Pods");
    world.change(|state| {
        state.rules.entry(String::new()).or_default().push(json!({
        "verbs": ["create"], "apiGroups": [""], "resources": ["pods"] }))
    });
    world.cut();

    let lost = Some("kinds [widgets.example.io@v1, pods@v1 -list-watch]");
    assert_eq!(run.kinds_within(1_200).await.as_deref(), lost);

    world.change(|state| state.rules.entry(String::new()).or_default().push(rule));
    assert_eq!(
        run.kinds_within(600).await.as_deref(),
        Some("kinds [widgets.example.io@v1, pods@v1]")
    );
}

#[tokio::test(start_paused = true)]
async fn child_kinds_can_be_turned_off() {
    let world = pod_operator(vec![object("team", "own", Some(WIDGET))]);
    let mut run = Run::start(&world, |options| options.discovery.children = ChildSelection::None);

    assert_eq!(run.kinds_within(60).await.as_deref(), Some("kinds [widgets.example.io@v1]"));
    assert!(world.change(|state| state.lists.iter().all(|list| !list.contains("/pods"))));
}

#[tokio::test(start_paused = true)]
async fn permissions_at_home_do_not_hide_those_elsewhere() {
    let mut world =
        World::new(&[WIDGET, THING, NAMESPACE]).allow("", &["list"], "", &["namespaces"]);
    for namespace in ["op", "ns-0700"] {
        world = world.allow(namespace, &["list", "watch"], "example.io", &["widgets"]).allow(
            namespace,
            &["update"],
            "example.io",
            &["widgets/status"],
        );
    }

    let names: Vec<&'static str> =
        (0..1000).map(|number| &*Box::leak(format!("ns-{number:04}").into_boxed_str())).collect();
    world.change(|state| state.namespaces = names);

    let mut run = Run::start(&world, |_| {});
    let seen = run.within(1).await;

    assert_eq!(
        say(&Observation::KindsDiscovered(last_kinds(&seen))),
        "kinds [widgets.example.io/op@v1]"
    );
    assert_eq!(left_out(&seen)[0].what, "1000 namespaces", "what is not reviewed yet is reported");

    let seen = run.within(1_200).await;
    let expected = "kinds [widgets.example.io/op@v1, widgets.example.io/ns-0700@v1]";

    assert_eq!(say(&Observation::KindsDiscovered(last_kinds(&seen))), expected);
    assert_eq!(left_out(&seen), []);
    assert!(world.change(|state| state.refused.is_empty()));
}

/// A ClusterRoleBinding appears in the rules of each namespace, so reviews there show nothing new.
#[tokio::test(start_paused = true)]
async fn namespaces_are_not_reviewed_if_the_account_may_watch_its_kinds_everywhere() {
    let names: Vec<&'static str> =
        (0..1000).map(|number| &*Box::leak(format!("ns-{number:04}").into_boxed_str())).collect();
    let world = |scope: &'static str| {
        let world = World::new(&[WIDGET, CONFIG_MAP, NAMESPACE])
            .allow("", &["list"], "", &["namespaces"])
            .allow("", &["update"], "example.io", &["widgets/status"])
            .allow(scope, &["list", "watch"], "example.io", &["widgets"])
            .allow("ns-0700", &["*"], "", &["configmaps"]);
        world.change(|state| state.namespaces.clone_from(&names));
        world
    };
    let reviewed = |world: &World| {
        let all = world.change(|state| state.reviewed.clone());
        all.iter().filter(|line| line.contains(" ns-")).count()
    };

    let everywhere = world("");
    let mut run = Run::start(&everywhere, |_| {});
    let seen = run.within(1_000).await;

    assert_eq!(
        say(&Observation::KindsDiscovered(last_kinds(&seen))),
        "kinds [widgets.example.io@v1]"
    );
    assert_eq!((reviewed(&everywhere), left_out(&seen)), (0, vec![]));

    // The account may write the status everywhere, but not list everywhere.
    let single = world("ns-0700");
    let mut run = Run::start(&single, |_| {});
    run.within(100).await;
    assert!((80..=200).contains(&reviewed(&single)), "{}", reviewed(&single));
}

#[tokio::test(start_paused = true)]
async fn a_single_poll_reviews_all_namespaces_and_samples_children() {
    let world = World::new(&[WIDGET, CONFIG_MAP, NAMESPACE])
        .allow("", &["list"], "", &["namespaces"])
        .allow("ns-0700", &["list", "watch"], "example.io", &["widgets"])
        .allow("ns-0700", &["update"], "example.io", &["widgets/status"])
        .allow("ns-0700", &["*"], "", &["configmaps"]);
    let names: Vec<&'static str> =
        (0..1000).map(|number| &*Box::leak(format!("ns-{number:04}").into_boxed_str())).collect();

    world.change(|state| {
        state.namespaces = names;
        state.objects.insert("widgets", vec![object("ns-0700", "owner", None)]);
        state.objects.insert("configmaps", vec![object("ns-0700", "own", Some(WIDGET))]);
    });
    let mut run = Run::start(&world, |options| options.discovery.once = true);
    let progress = run.handle.initial_sync().done().await;

    assert_eq!((progress.watches, progress.listed, progress.failed), (2, 2, 0));

    let expected = "kinds [widgets.example.io/ns-0700@v1, configmaps/ns-0700@v1]";
    assert_eq!(run.kinds_within(1).await.as_deref(), Some(expected));
}

#[tokio::test(start_paused = true)]
async fn namespaces_beyond_the_limit_are_reported() {
    let world = World::new(&[WIDGET, NAMESPACE]).allow("", &["list"], "", &["namespaces"]);
    let names: Vec<&'static str> =
        (0..5_600).map(|number| &*Box::leak(format!("ns-{number:04}").into_boxed_str())).collect();
    world.change(|state| state.namespaces = names);

    let mut run = Run::start(&world, |_| {});
    let seen = run.within(6_000).await;

    assert_eq!(
        left_out(&seen).iter().map(|part| part.what.as_str()).collect::<Vec<_>>(),
        ["600 namespaces"]
    );
}

#[tokio::test(start_paused = true)]
async fn incomplete_rules_are_used_for_what_they_list() {
    let world = World::new(&[WIDGET, GADGET, THING])
        .allow("", &["list", "watch"], "example.io", &["widgets", "gadgets"])
        .allow("", &["update"], "example.io", &["widgets/status"]);
    world.change(|state| state.incomplete = true);

    let mut run = Run::start(&world, |_| {});
    assert_eq!(run.kinds_within(1).await.as_deref(), Some("kinds [widgets.example.io@v1]"));
}

#[tokio::test(start_paused = true)]
async fn permissions_that_no_rule_lists_are_found_by_access_reviews() {
    let world = World::new(&[WIDGET, GADGET, THING])
        .allow("", &["list", "watch"], "example.io", &["widgets"])
        .allow("", &["update"], "example.io", &["widgets/status"]);
    world.change(|state| {
        state.incomplete = true;
        state.unlisted = true;
    });

    let mut run = Run::start(&world, |_| {});
    assert_eq!(run.kinds_within(1).await.as_deref(), Some("kinds [widgets.example.io@v1]"));
}

fn wildcard(kinds: &[ServedKind]) -> World {
    World::new(kinds).allow("", &["*"], "*", &["*"])
}

/// An object whose status a manager has written.
fn with_status_of(manager: &str) -> Value {
    let mut object = object("team", "one", None);
    object["metadata"]["managedFields"] = json!([{ "manager": manager, "operation": "Update", "subresource": "status", "fieldsV1": { "f:status": {} } }]);
    object
}

fn lease(name: &str, manager: &str) -> Value {
    let mut lease = object("op", name, None);
    lease["metadata"]["managedFields"] = json!([{ "manager": manager, "operation": "Update" }]);
    lease["spec"] = json!({ "holderIdentity": "pod_1" });
    lease
}

#[tokio::test(start_paused = true)]
async fn an_account_with_all_permissions_watches_custom_resources_and_suspects_those_without_a_trace()
 {
    let world = wildcard(&[WIDGET, GADGET, THING, CONFIG_MAP, LEASE]);
    world.change(|state| {
        state.objects.insert("leases", vec![lease("lock", "thing-operator")]);
        state.objects.insert("things", vec![with_status_of("thing-operator")]);
        state.objects.insert("widgets", vec![with_status_of("widget-operator")]);
    });

    let mut run = Run::start(&world, |_| {});
    let seen = run.within(1).await;
    let said = |kinds: &[WatchedKind]| {
        kinds.iter().map(|kind| format!("{} {}", kind.resource, kind.suspected)).collect::<Vec<_>>()
    };

    // The served kind first, then those with a status.
    assert_eq!(said(&last_kinds(&seen)), ["things false", "widgets true", "gadgets true"]);
    assert!(!seen.iter().any(|o| matches!(o, Observation::SourceFailed { .. })), "nothing fails");

    let excess = |o: &Observation| matches!(o, Observation::PermissionsReviewed(view) if !view.excess.is_empty());
    assert!(seen.iter().any(excess));

    // The operator writes the first status of another kind.
    world.change(|state| state.objects.insert("gadgets", vec![with_status_of("thing-operator")]));
    assert_eq!(
        said(&last_kinds(&run.within(400).await)),
        ["things false", "gadgets false", "widgets true"]
    );

    let mut run = Run::start(&world, |options| {
        options.discovery.watch = vec!["other.io/thing".parse().expect("a kind")]
    });

    assert_eq!(run.kinds_within(1).await.as_deref(), Some("kinds [things.other.io@v1]"));
}

#[tokio::test(start_paused = true)]
async fn a_common_manager_name_is_no_trace_but_the_domain_of_the_lease_is() {
    let world = wildcard(&[WIDGET, THING, LEASE]);
    world.change(|state| {
        state.objects.insert("leases", vec![lease("1a2b.example.io", "manager")]);
        state.objects.insert("things", vec![with_status_of("manager")]);
        state.objects.insert("widgets", vec![with_status_of("manager")]);
    });

    let mut run = Run::start(&world, |_| {});
    let suspected: Vec<bool> =
        last_kinds(&run.within(1).await).iter().map(|kind| kind.suspected).collect();

    assert_eq!(suspected, [false, true], "widgets.example.io, things.other.io");
}

#[tokio::test(start_paused = true)]
async fn an_account_with_all_permissions_opens_no_more_watches_than_it_may() {
    let kinds: Vec<ServedKind> = (0..100)
        .map(|number| {
            let resource: &'static str = Box::leak(format!("kind{number:03}s").into_boxed_str());
            ("example.io", "v1", "Kind", resource, true, number % 2 == 0)
        })
        .collect();

    let mut run = Run::start(&wildcard(&kinds), |options| options.discovery.max_watches = 13);
    let seen = run.within(1).await;
    let kinds = last_kinds(&seen);

    assert_eq!(kinds.len(), 10);
    assert!(
        kinds.iter().all(|kind| kind.resource.as_bytes()[6] % 2 == 0),
        "those with a status first"
    );
    assert_eq!(left_out(&seen)[0].what, "90 of 100 custom resources");
    assert!(!seen.iter().any(|o| matches!(o, Observation::SourceFailed { .. })));
}

#[tokio::test(start_paused = true)]
async fn reviews_by_an_idle_account_back_off() {
    let world = World::new(&[WIDGET]);
    let mut run = Run::start(&world, |_| {});
    let reviews = |world: &World| world.change(|state| std::mem::take(&mut state.reviewed).len());
    let _ = run.within(1).await;

    assert!(reviews(&world) > 0);

    let _ = run.within(600).await;
    let at_first = reviews(&world);
    let _ = run.within(3_600).await;
    let per_ten_minutes = reviews(&world) / 6;

    assert!(
        per_ten_minutes * 2 < at_first,
        "{at_first}, then {per_ten_minutes} reviews in ten minutes"
    );
}

#[tokio::test(start_paused = true)]
async fn secrets_are_a_child_kind_only_if_the_user_says_so() {
    let secret = ("", "v1", "Secret", "secrets", true, false);
    for (secrets, expected) in [
        (SecretAccess::Metadata, "kinds [widgets.example.io@v1, secrets@v1]"),
        (SecretAccess::default(), "kinds [widgets.example.io@v1]"),
        (SecretAccess::Off, "kinds [widgets.example.io@v1]"),
    ] {
        let world = World::new(&[WIDGET, secret])
            .allow("", &["list", "watch"], "example.io", &["widgets"])
            .allow("", &["update"], "example.io", &["widgets/status"])
            .allow("", &["*"], "", &["secrets"]);

        world.change(|state| {
            state.objects.insert("secrets", vec![object("team", "child", Some(WIDGET))])
        });
        let mut run = Run::start(&world, |options| options.discovery.secrets = secrets);

        let seen = run.within(5).await;
        assert_eq!(say(&Observation::KindsDiscovered(last_kinds(&seen))), expected);

        let says_so = left_out(&seen).iter().any(|part| part.what == "Secrets as children");
        assert_eq!(says_so, secrets == SecretAccess::Named, "the user has not asked for it");

        let asked =
            world.change(|state| state.requests.iter().any(|request| request.contains("secrets")));

        assert_eq!(asked, secrets == SecretAccess::Metadata);
    }
}
