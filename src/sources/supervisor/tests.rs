use std::collections::BTreeMap;
use std::time::Duration;

use loopwatch_model::observation::{Answer, ObjectAddress, Observation, Probe, ProfileKind, SourceId, WatchId};
use tokio::time::sleep;

use super::Supervisor;
use crate::sources::decode::HashKey;
use crate::sources::fake::VirtualClock;
use crate::sources::fake::say;
use crate::sources::fake::world::{
    CONFIG_MAP, EVENT, GADGET, INGRESS, LEASE, NAMESPACE, THING, WIDGET, World, definition, object,
};
use crate::sources::feed::{Feed, Observations};
use crate::sources::options::{LeaseSelection, ScrapeTarget, Selection, SourceOptions};
use crate::sources::supervisor::Handle;

mod events;
mod kinds;
mod pods;
mod process;

/// A running supervisor and its observations.
struct Run {
    handle: Handle,
    observations: Observations,
}

impl Run {
    fn start(world: &World, change: impl FnOnce(&mut SourceOptions)) -> Self {
        let (feed, observations) = Feed::new(10_000, VirtualClock::server());
        let mut options = SourceOptions { lease: LeaseSelection::Off, ..SourceOptions::new(HashKey([0; 16])) };
        change(&mut options);
        Self { handle: Supervisor::start(world.cluster(), options, feed), observations }
    }

    /// Waits for `seconds`, and returns the observations in the channel.
    async fn within(&mut self, seconds: u64) -> Vec<Observation> {
        sleep(Duration::from_secs(seconds)).await;
        let mut seen = Vec::new();
        while let Some((_, observation)) = self.observations.try_recv() {
            seen.push(observation);
        }
        seen
    }

    /// Waits for `seconds`, and returns the kinds that were reported last, if any.
    async fn kinds_within(&mut self, seconds: u64) -> Option<String> {
        let seen = self.within(seconds).await;
        let kinds = |observation: &&Observation| matches!(observation, Observation::KindsDiscovered(_));
        seen.iter().rev().find(kinds).map(say)
    }
}

/// A cluster with an operator that owns widgets, creates ConfigMaps and writes Events.
fn widget_operator() -> World {
    let world = World::new(&[WIDGET, GADGET, THING, CONFIG_MAP, EVENT, INGRESS]);
    world.change(|state| state.objects.insert("configmaps", vec![object("team", "child", Some(WIDGET))]));
    world
        .allow("", &["list", "watch"], "example.io", &["widgets", "gadgets"])
        .allow("", &["update"], "example.io", &["widgets/status"])
        .allow("", &["patch"], "example.io", &["gadgets/finalizers"])
        .allow("", &["*"], "", &["configmaps"])
        .allow("", &["*"], "", &["events"])
        .allow("", &["*"], "networking.k8s.io", &["ingresses/status", "ingresses/finalizers"])
}

const ALL: &str = "kinds [gadgets.example.io@v1, widgets.example.io@v1, configmaps@v1]";

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
    let world = World::new(&[WIDGET, CONFIG_MAP]).allow("op", &["list", "watch"], "example.io", &["widgets"]).allow(
        "op",
        &["update"],
        "example.io",
        &["widgets/status"],
    );
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
    let expected = "kinds [widgets.example.io/a@v1, widgets.example.io/b@v1 -list-watch, configmaps/a@v1]";
    assert_eq!(run.kinds_within(1).await.as_deref(), Some(expected));
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_the_account_may_only_write_has_missing_verbs() {
    for (bound, expected) in
        [("", "kinds [widgets.example.io@v1 -list-watch]"), ("op", "kinds [widgets.example.io/op@v1 -list-watch]")]
    {
        let world = World::new(&[WIDGET]).allow(bound, &["update"], "example.io", &["widgets/status"]);
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
    let mut run = Run::start(&world, |options| options.namespaces = vec!["a".to_owned(), "b".to_owned()]);
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
        .flat_map(|view| view.missing.iter().map(|permission| (view.namespace.clone(), permission.to_string())))
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
async fn a_named_kind_that_is_not_served_is_reported_and_found_later() {
    let world = World::new(&[WIDGET]).allow("", &["*"], "*", &["*"]);
    let mut run = Run::start(&world, |options| {
        options.watch = vec!["example.io/Widget".parse().expect("a kind"), "other.io/Thing".parse().expect("a kind")];
    });
    let seen = run.within(1).await;
    assert!(
        seen.iter().any(|o| matches!(o, Observation::SourceFailed { detail, .. } if detail.contains("other.io/Thing")))
    );
    world.change(|state| state.kinds.push(THING));
    assert_eq!(run.kinds_within(80).await.as_deref(), Some("kinds [widgets.example.io@v1, things.other.io@v1]"));
}

#[tokio::test(start_paused = true)]
async fn an_administrator_sees_every_custom_resource_that_has_a_status() {
    let world = World::new(&[WIDGET, GADGET, THING, CONFIG_MAP, INGRESS]).allow("", &["*"], "*", &["*"]);
    let mut run = Run::start(&world, |options| {
        options.select = Selection::EveryKindWithStatus;
        options.once = true;
    });
    let progress = run.handle.initial_sync().done().await;
    assert_eq!((progress.watches, progress.listed, progress.failed), (2, 2, 0));
    assert_eq!(run.kinds_within(1).await.as_deref(), Some("kinds [widgets.example.io@v1, things.other.io@v1]"));
}

#[tokio::test(start_paused = true)]
async fn readable_definitions_determine_how_a_kind_reports_status() {
    let world = World::new(&[WIDGET, GADGET, THING]).allow("", &["list", "watch"], "*", &["*"]);
    let bare = ("example.io", "v1", "Bare", "bares", true, false);
    world.change(|state| {
        state.kinds.push(bare);
        state.definitions = vec![definition(WIDGET, true), definition(GADGET, true), definition(bare, false)];
    });
    let mut run = Run::start(&world, |options| options.select = Selection::EveryKindWithStatus);
    let seen = run.within(1).await;
    let kinds = seen.iter().find_map(|observation| match observation {
        Observation::KindsDiscovered(kinds) => Some(kinds),
        _ => None,
    });
    let kinds: Vec<String> = kinds.into_iter().flatten().map(|k| format!("{} {:?}", k.watch, k.status)).collect();
    assert_eq!(kinds, ["gadgets.example.io InBody", "widgets.example.io Subresource", "things.other.io Subresource"]);
    assert_eq!(seen.iter().filter(|o| matches!(o, Observation::DefinitionSeen(_))).count(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_source_that_panics_is_restarted_and_affects_no_other_source() {
    let world = widget_operator();
    world.change(|state| state.poisoned = Some("widgets".to_owned()));
    let mut run = Run::start(&world, |_| {});
    let said: Vec<String> = run.within(1).await.iter().map(say).collect();
    assert!(said.contains(&"failed: other".to_owned()), "{said:?}");
    assert_eq!(said.iter().filter(|said| said.starts_with("ended")).count(), 2, "{said:?}");
    world.change(|state| state.poisoned = None);
    let said: Vec<String> = run.within(60).await.iter().map(say).collect();
    assert!(said.iter().any(|said| said.starts_with("ended")), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn revoked_permissions_are_reported_as_missing_until_they_return() {
    let world = widget_operator();
    let mut run = Run::start(&world, |_| {});
    assert_eq!(run.kinds_within(1).await.as_deref(), Some(ALL));
    let taken = world.change(|state| state.rules.get_mut("").map(|rules| rules.remove(0))).expect("a rule");
    world.cut();
    assert_eq!(
        run.kinds_within(20).await.as_deref(),
        Some("kinds [gadgets.example.io@v1 -list-watch, widgets.example.io@v1 -list-watch, configmaps@v1]")
    );
    assert_eq!(run.within(30).await.len(), 0, "no request for forbidden watches");
    world.change(|state| state.rules.entry(String::new()).or_default().push(taken));
    assert_eq!(run.kinds_within(80).await.as_deref(), Some(ALL));
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
    assert_eq!(said.iter().filter(|said| *said == "works").count(), 4, "three kinds, and Events: {said:?}");
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
async fn deleted_new_and_changed_kinds_are_noticed() {
    let world = widget_operator();
    let mut run = Run::start(&world, |_| {});
    assert_eq!(run.kinds_within(1).await.as_deref(), Some(ALL));
    world.change(|state| state.kinds.retain(|kind| kind.2 != "Widget"));
    world.cut();
    assert_eq!(run.kinds_within(20).await.as_deref(), Some("kinds [gadgets.example.io@v1, configmaps@v1]"));
    world.change(|state| state.kinds.insert(0, ("example.io", "v2", "Widget", "widgets", true, true)));
    assert_eq!(
        run.kinds_within(80).await.as_deref(),
        Some("kinds [gadgets.example.io@v1, widgets.example.io@v2, configmaps@v1]")
    );
}

#[tokio::test(start_paused = true)]
async fn kinds_over_the_limit_are_reported_and_primary_kinds_come_first() {
    let world = widget_operator();
    let mut run = Run::start(&world, |options| options.max_watches = 2);
    let seen = run.within(1).await;
    let over: Vec<String> = seen
        .iter()
        .filter_map(|observation| match observation {
            Observation::SourceFailed { source, .. } => Some(source.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(over, ["watch/configmaps"]);
}

#[tokio::test(start_paused = true)]
async fn a_count_probe_is_answered() {
    let world = widget_operator();
    let mut run = Run::start(&world, |_| {});
    let _ = run.within(1).await;
    let count = |name: &str| Probe::Count(WatchId(name.into()));
    assert!(run.handle.ask(count("widgets.example.io")));
    assert!(run.handle.ask(count("unknown.example.io")));
    let answers: Vec<Answer> = run
        .within(2)
        .await
        .into_iter()
        .filter_map(|observation| match observation {
            Observation::Answered { answer, .. } => Some(answer),
            _ => None,
        })
        .collect();
    let counted = Answer::Counted { objects: 42, version: "7".to_owned() };
    assert_eq!(answers, [counted, Answer::Failed(loopwatch_model::observation::Cause::NotFound)]);
}

#[tokio::test(start_paused = true)]
async fn an_audit_that_panics_is_restarted_and_reports_that_it_works() {
    let world = widget_operator();
    let mut run = Run::start(&world, |_| {});
    let _ = run.within(1).await;
    let count = || Probe::Count(WatchId("widgets.example.io".into()));
    world.change(|state| state.poisoned = Some("widgets".to_owned()));
    assert!(run.handle.ask(count()));
    let said: Vec<String> = run.within(1).await.iter().map(say).collect();
    assert_eq!(said, ["failed: other"]);
    world.change(|state| state.poisoned = None);
    assert!(run.handle.ask(count()));
    let seen = run.within(5).await;
    assert!(matches!(seen[0], Observation::Answered { answer: Answer::Counted { objects: 42, .. }, .. }), "{seen:?}");
    assert_eq!(seen[1..], [Observation::SourceRecovered { source: SourceId::Audit }]);
}

#[tokio::test(start_paused = true)]
async fn all_tasks_end_on_shutdown_without_an_owner_and_when_the_receiver_is_gone() {
    let world = widget_operator();
    let run = Run::start(&world, |_| {});
    run.handle.shutdown().await;
    let Run { handle, mut observations } = Run::start(&world, |_| {});
    sleep(Duration::from_secs(1)).await;
    drop(handle);
    let mut batch = Vec::new();
    while observations.recv_many(&mut batch, 100).await > 0 {} // until no task holds the sender
    let mut run = Run::start(&world, |_| {});
    let _ = run.within(1).await;
    let Run { mut handle, observations } = run;
    drop(observations);
    world.cut();
    tokio::time::timeout(Duration::from_secs(120), &mut handle.task).await.expect("it ends").expect("without a panic");
}

#[tokio::test(start_paused = true)]
async fn annotations_of_namespaces_are_read_if_the_account_may_and_else_the_source_is_off() {
    let world = World::new(&[WIDGET, NAMESPACE]).allow("", &["list", "watch"], "example.io", &["widgets"]).allow(
        "",
        &["update"],
        "example.io",
        &["widgets/status"],
    );
    let namespace = |name: &str, annotations: serde_json::Value| serde_json::json!({ "metadata": { "name": name, "resourceVersion": "3", "annotations": annotations } });
    world.change(|state| {
        let ignore = serde_json::json!({ "loopwatch.dev/ignore": "all", "example.io/owner": "team" });
        state.annotated = vec![namespace("ci", ignore), namespace("prod", serde_json::json!({}))];
    });
    let mut run = Run::start(&world, |_| {});
    let seen = run.within(5).await;
    let is_off = |o: &&Observation| matches!(o, Observation::SourceOff { source: SourceId::Namespaces, .. });
    assert!(seen.iter().find(is_off).is_some() && world.change(|state| state.refused.is_empty()), "no permission");
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
async fn annotations_of_namespaces_are_known_before_the_first_object() {
    let world = widget_operator().allow("", &["list", "watch"], "", &["namespaces"]);
    let mut run = Run::start(&world, |_| {});
    let seen = run.within(10).await;
    let position = |wanted: fn(&Observation) -> bool| seen.iter().position(wanted).expect("an observation");
    let listed = position(|o| matches!(o, Observation::NamespacesListed(_)));
    assert!(listed < position(|o| matches!(o, Observation::KindsDiscovered(_))), "{seen:?}");
    run.handle.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_api_server_leaves_out_excluded_namespaces() {
    let world = widget_operator();
    let mut run = Run::start(&world, |options| options.exclude_namespaces = vec!["ci".to_owned(), "tmp".to_owned()]);
    assert_eq!(run.kinds_within(1).await.as_deref(), Some(ALL));
    let requests = world.change(|state| state.requests.clone());
    let excluded = "fieldSelector=metadata.namespace%21%3Dci,metadata.namespace%21%3Dtmp";
    let of_widgets: Vec<_> = requests.iter().filter(|request| request.starts_with("watch widgets ")).collect();
    assert!(!of_widgets.is_empty() && of_widgets.iter().all(|request| request.contains(excluded)), "{requests:?}");
    run.handle.shutdown().await;

    let mut run = Run::start(&world, |options| {
        options.namespaces = vec!["prod".to_owned(), "ci".to_owned()];
        options.exclude_namespaces = vec!["ci".to_owned()];
    });
    let kinds = run.kinds_within(1).await.expect("kinds");
    assert!(kinds.contains("widgets.example.io/prod") && !kinds.contains("/ci"), "{kinds}");
    run.handle.shutdown().await;
}

/// What the sources said last about each source: failed, works, or off.
fn last_words(seen: &[Observation]) -> BTreeMap<String, &'static str> {
    let word = |observation: &Observation| match observation {
        Observation::SourceFailed { source, .. } => Some((source.to_string(), "failed")),
        Observation::SourceRecovered { source } => Some((source.to_string(), "works")),
        Observation::SourceOff { source, .. } => Some((source.to_string(), "off")),
        _ => None,
    };
    seen.iter().filter_map(word).collect()
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
    assert_eq!((said.get(definitions), said.get("lease")), (Some(&"works"), Some(&"works")), "{said:?}");
    world.change(|state| state.rules.get_mut("").map(|rules| rules.drain(..2).count()));
    world.cut();
    seen.extend(run.within(700).await);
    let said = last_words(&seen);
    assert_eq!((said.get(definitions), said.get("lease")), (Some(&"off"), Some(&"off")), "{said:?}");
    let leases = seen.iter().rev().find_map(|observation| match observation {
        Observation::LeasesListed { names, .. } => Some(names.len()),
        _ => None,
    });
    assert_eq!(leases, Some(0), "a lease that nobody watches does not grow old");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_makes_room_for_another_source_is_reported() {
    let world = widget_operator();
    let mut run = Run::start(&world, |options| options.max_watches = 3);
    assert_eq!(run.kinds_within(5).await.as_deref(), Some(ALL));
    // Later the account may watch namespaces, whose watch counts.
    let _ = world.clone().allow("", &["list", "watch"], "", &["namespaces"]);
    let seen = run.within(700).await;
    let said = last_words(&seen);
    assert_eq!(said.get("watch/configmaps"), Some(&"failed"), "{:?}", seen.iter().map(say).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn the_first_report_of_kinds_contains_child_kinds() {
    // After a restart of the sources, a model that knew the child kinds must not forget their objects and findings.
    let mut run = Run::start(&widget_operator(), |_| {});
    let seen = run.within(5).await;
    let kinds: Vec<String> = seen.iter().filter(|o| matches!(o, Observation::KindsDiscovered(_))).map(say).collect();
    assert_eq!(kinds, [ALL]);
}

#[tokio::test(start_paused = true)]
async fn metrics_of_an_operator_elsewhere_are_not_searched() {
    let world = widget_operator();
    for (target, expected) in
        [(ScrapeTarget::Find, "does not run in the operator's Pod"), (ScrapeTarget::Off, "--scrape is off")]
    {
        let mut run = Run::start(&world, |options| options.scrape.target = target.clone());
        let seen = run.within(1).await;
        let is_off = |observation: &Observation| matches!(observation, Observation::SourceOff { source: SourceId::Metrics, reason } if reason.contains(expected));
        assert!(seen.iter().any(is_off), "{seen:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_is_answered_and_a_reader_that_panics_is_restarted() {
    let world = widget_operator().allow("", &["get"], "example.io", &["widgets"]);
    world.change(|state| state.objects.insert("widgets", vec![object("team", "a", None)]));
    let mut run = Run::start(&world, |_| {});
    let _ = run.within(1).await;
    let address = |name: &str| ObjectAddress {
        group: "example.io".to_owned(),
        kind: "Widget".to_owned(),
        namespace: "team".to_owned(),
        name: name.to_owned(),
    };
    assert!(run.handle.ask(Probe::Read(address("b"))));
    let seen = run.within(1).await;
    assert_eq!(seen, [Observation::Answered { probe: Probe::Read(address("b")), answer: Answer::Absent }]);
    world.change(|state| state.poisoned = Some("widgets/a".to_owned()));
    assert!(run.handle.ask(Probe::Read(address("a"))));
    let seen = run.within(1).await;
    assert!(matches!(&seen[..], [Observation::SourceFailed { source: SourceId::Reads, .. }]), "{seen:?}");
    world.change(|state| state.poisoned = None);
    assert!(run.handle.ask(Probe::Read(address("a"))));
    let seen = run.within(5).await;
    assert!(matches!(seen[0], Observation::Answered { answer: Answer::Found(_), .. }), "{seen:?}");
    assert_eq!(seen[1..], [Observation::SourceRecovered { source: SourceId::Reads }]);
}

#[tokio::test(start_paused = true)]
async fn a_probe_of_profiles_is_answered() {
    let mut run = Run::start(&widget_operator(), |options| options.profiles.off = true);
    let said = last_words(&run.within(1).await);
    assert_eq!(said.get("profiles"), Some(&"off"), "{said:?}");
    let probe = Probe::Profile { instance: "op/operator-7f9c".to_owned(), kind: ProfileKind::Heap };
    assert!(run.handle.ask(probe.clone()));
    let answered = run.within(1).await.into_iter().find(|o| matches!(o, Observation::Answered { .. }));
    assert_eq!(answered, Some(Observation::Answered { probe, answer: Answer::Absent }));
    let mut run = Run::start(&widget_operator(), |_| {});
    let said = last_words(&run.within(1).await);
    assert_eq!(said.get("profiles"), None, "nothing before the first probe");
    run.handle.shutdown().await;
}
