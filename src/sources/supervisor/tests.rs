use std::collections::BTreeMap;
use std::time::Duration;

use loopwatch_model::observation::{
    Answer, ObjectAddress, Observation, Probe, ProfileKind, SourceId, WatchId,
};
use loopwatch_testbed::standin::{
    CONFIG_MAP, EVENT, GADGET, INGRESS, LEASE, NAMESPACE, THING, WIDGET, World, definition, object,
};
use tokio::time::sleep;

use super::Supervisor;
use super::options::{LeaseSelection, SourceOptions};
use crate::sources::api_server::Selection;
use crate::sources::decoding::HashKey;
use crate::sources::feed::{Feed, Observations};
use crate::sources::operator::ScrapeTarget;
use crate::sources::supervisor::Handle;
use crate::sources::testing::{InProcess as _, VirtualClock, say};

mod events;
mod kinds;
mod observed;
mod permissions;
mod pods;
mod probes;
mod process;

/// A running supervisor and its observations.
struct Run {
    handle: Handle,
    observations: Observations,
}

impl Run {
    fn start(world: &World, change: impl FnOnce(&mut SourceOptions)) -> Self {
        let (feed, observations) = Feed::new(10_000, VirtualClock::server());
        let mut options =
            SourceOptions { lease: LeaseSelection::Off, ..SourceOptions::new(HashKey([0; 16])) };
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
        let kinds =
            |observation: &&Observation| matches!(observation, Observation::KindsDiscovered(_));
        seen.iter().rev().find(kinds).map(say)
    }
}

/// A cluster with an operator that owns widgets, creates ConfigMaps and writes Events.
fn widget_operator() -> World {
    let world = World::new(&[WIDGET, GADGET, THING, CONFIG_MAP, EVENT, INGRESS]);
    world.change(|state| {
        state.objects.insert("configmaps", vec![object("team", "child", Some(WIDGET))])
    });

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
async fn a_named_kind_that_is_not_served_is_reported_and_found_later() {
    let world = World::new(&[WIDGET]).allow("", &["*"], "*", &["*"]);
    let mut run = Run::start(&world, |options| {
        options.discovery.watch = vec![
            "example.io/Widget".parse().expect("a kind"),
            "other.io/Thing".parse().expect("a kind"),
        ];
    });

    let seen = run.within(1).await;
    assert!(
        seen.iter().any(|o| matches!(o, Observation::SourceFailed { detail, .. } if detail.contains("other.io/Thing")))
    );

    world.change(|state| state.kinds.push(THING));
    assert_eq!(
        run.kinds_within(80).await.as_deref(),
        Some("kinds [widgets.example.io@v1, things.other.io@v1]")
    );
}

#[tokio::test(start_paused = true)]
async fn a_named_kind_without_its_group_is_reported_with_the_group() {
    let world = World::new(&[WIDGET]).allow("", &["*"], "*", &["*"]);
    let mut run = Run::start(&world, |options| {
        options.discovery.watch =
            ["Widget", "Wigdet"].map(|kind| kind.parse().expect("a kind")).to_vec();
    });

    let seen = run.within(1).await;
    let detail = seen.iter().find_map(|observation| match observation {
        Observation::SourceFailed { detail, .. } => Some(detail.as_str()),
        _ => None,
    });
    assert_eq!(
        detail,
        Some(
            "the API server does not serve Widget (did you mean example.io/Widget?), Wigdet of the core group (for others, \
             name GROUP/KIND), which --watch selects; custom resources that it serves: example.io/Widget"
        )
    );
}

#[tokio::test(start_paused = true)]
async fn named_secrets_are_watched_by_their_metadata_only() {
    let secret = ("", "v1", "Secret", "secrets", true, false);
    let world = World::new(&[secret]).allow("", &["*"], "*", &["*"]);
    world.change(|state| state.objects.insert("secrets", vec![object("team", "a", None)]));
    let mut run = Run::start(&world, |options| {
        options.discovery.watch = vec!["Secret".parse().expect("a kind")];
    });

    let seen = run.within(5).await;
    let is_seen = |o: &Observation| match o {
        Observation::Listed { object, .. } | Observation::Applied { object, .. } => {
            object.key.name == "a"
        }
        _ => false,
    };
    let said: Vec<String> = seen.iter().map(say).collect();
    assert!(seen.iter().any(is_seen), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn readable_definitions_determine_how_a_kind_reports_status() {
    let world = World::new(&[WIDGET, GADGET, THING]).allow("", &["list", "watch"], "*", &["*"]);
    let bare = ("example.io", "v1", "Bare", "bares", true, false);
    world.change(|state| {
        state.kinds.push(bare);
        state.definitions =
            vec![definition(WIDGET, true), definition(GADGET, true), definition(bare, false)];
    });

    let mut run =
        Run::start(&world, |options| options.discovery.select = Selection::EveryKindWithStatus);
    let seen = run.within(1).await;
    let kinds = seen.iter().find_map(|observation| match observation {
        Observation::KindsDiscovered(kinds) => Some(kinds),
        _ => None,
    });
    let kinds: Vec<String> =
        kinds.into_iter().flatten().map(|k| format!("{} {:?}", k.watch, k.status)).collect();

    assert_eq!(
        kinds,
        [
            "gadgets.example.io InBody",
            "widgets.example.io Subresource",
            "things.other.io Subresource"
        ]
    );
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
async fn deleted_new_and_changed_kinds_are_noticed() {
    let world = widget_operator();
    let mut run = Run::start(&world, |_| {});

    assert_eq!(run.kinds_within(1).await.as_deref(), Some(ALL));

    world.change(|state| state.kinds.retain(|kind| kind.2 != "Widget"));
    world.cut();

    assert_eq!(
        run.kinds_within(20).await.as_deref(),
        Some("kinds [gadgets.example.io@v1, configmaps@v1]")
    );

    world.change(|state| {
        state.kinds.insert(0, ("example.io", "v2", "Widget", "widgets", true, true))
    });

    assert_eq!(
        run.kinds_within(80).await.as_deref(),
        Some("kinds [gadgets.example.io@v1, widgets.example.io@v2, configmaps@v1]")
    );
}

#[tokio::test(start_paused = true)]
async fn kinds_over_the_limit_are_reported_and_primary_kinds_come_first() {
    let world = widget_operator();
    let mut run = Run::start(&world, |options| options.discovery.max_watches = 2);
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
    tokio::time::timeout(Duration::from_secs(120), &mut handle.task)
        .await
        .expect("it ends")
        .expect("without a panic");
}

#[tokio::test(start_paused = true)]
async fn annotations_of_namespaces_are_known_before_the_first_object() {
    let world = widget_operator().allow("", &["list", "watch"], "", &["namespaces"]);
    let mut run = Run::start(&world, |_| {});
    let seen = run.within(10).await;
    let position =
        |wanted: fn(&Observation) -> bool| seen.iter().position(wanted).expect("an observation");
    let listed = position(|o| matches!(o, Observation::NamespacesListed(_)));

    assert!(listed < position(|o| matches!(o, Observation::KindsDiscovered(_))), "{seen:?}");

    run.handle.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_api_server_leaves_out_excluded_namespaces() {
    let world = widget_operator();
    let mut run = Run::start(&world, |options| {
        options.discovery.exclude_namespaces = vec!["ci".to_owned(), "tmp".to_owned()]
    });

    assert_eq!(run.kinds_within(1).await.as_deref(), Some(ALL));

    let requests = world.change(|state| state.requests.clone());
    let excluded = "fieldSelector=metadata.namespace%21%3Dci,metadata.namespace%21%3Dtmp";
    let of_widgets: Vec<_> =
        requests.iter().filter(|request| request.starts_with("watch widgets ")).collect();

    assert!(
        !of_widgets.is_empty() && of_widgets.iter().all(|request| request.contains(excluded)),
        "{requests:?}"
    );

    run.handle.shutdown().await;

    let mut run = Run::start(&world, |options| {
        options.discovery.namespaces = vec!["prod".to_owned(), "ci".to_owned()];
        options.discovery.exclude_namespaces = vec!["ci".to_owned()];
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
async fn the_first_report_of_kinds_contains_child_kinds() {
    // After a restart of the sources, a model that knew the child kinds must not forget their
    // objects and findings.
    let mut run = Run::start(&widget_operator(), |_| {});
    let seen = run.within(5).await;
    let kinds: Vec<String> =
        seen.iter().filter(|o| matches!(o, Observation::KindsDiscovered(_))).map(say).collect();

    assert_eq!(kinds, [ALL]);
}

#[tokio::test(start_paused = true)]
async fn metrics_of_an_operator_elsewhere_are_not_searched() {
    let world = widget_operator();
    for (target, expected) in [
        (ScrapeTarget::Find, "does not run in the operator's Pod"),
        (ScrapeTarget::Off, "--scrape is off"),
    ] {
        let mut run = Run::start(&world, |options| options.scrape.target = target.clone());
        let seen = run.within(1).await;
        let is_off = |observation: &Observation| matches!(observation, Observation::SourceOff { source: SourceId::Metrics, reason } if reason.contains(expected));

        assert!(seen.iter().any(is_off), "{seen:?}");
    }
}
