use std::sync::Mutex as StdMutex;

use loopwatch_model::settings::Settings;
use loopwatch_model::snapshot::{Snapshot, SourceSummary};
use tokio::sync::Semaphore;

use super::attempts::LASTING;
use super::connection::Connect;
use super::*;
use crate::app::injected::PANICS;
use crate::config::{File, Flags, keys, with_file};
use crate::export::server::ExportOptions;
use crate::sources::decoding::HashKey;
use crate::sources::supervisor::{LeaseSelection, SourceOptions};
use crate::sources::testing::InProcess as _;
use crate::telemetry::SelfMetrics;
use clap::FromArgMatches as _;
use loopwatch_testbed::standin::{WIDGET, World};

/// A running core in front of a small cluster.
struct Run {
    world: World,
    model: SharedModel,
    exporter: Arc<Exporter>,
    feed: Feed,
    effective: watch::Sender<Effective>,
    /// Each connection takes one permit.
    connections: Arc<Semaphore>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

fn flags() -> Flags {
    let command = clap::Command::new("loopwatch").subcommand(keys().name("run"));
    let matches = with_file(command, &File::default())
        .try_get_matches_from(["loopwatch", "run"])
        .expect("valid");

    Flags::from_arg_matches(matches.subcommand().expect("run").1).expect("valid")
}

impl Run {
    /// Starts everything, and waits until the first lists are complete and a checkpoint is taken.
    async fn start() -> Self {
        let world = World::new(&[WIDGET])
            .allow("", &["list", "watch"], "example.io", &["widgets"])
            .allow("", &["update"], "example.io", &["widgets/status"]);
        let model: SharedModel = Arc::new(StdMutex::new(Model::new(Settings::default())));
        let exporter = Arc::new(Exporter::new(
            model.clone(),
            Arc::new(SelfMetrics::new()),
            ExportOptions::default(),
        ));

        let (connections, stop) = (Arc::new(Semaphore::new(100)), CancellationToken::new());
        let (permits, cluster) = (connections.clone(), world.clone());
        let connect: Connect = Arc::new(move |_| {
            let (permits, cluster) = (permits.clone(), cluster.cluster());
            Box::pin(async move {
                permits.acquire().await.expect("it is never closed").forget();
                Ok(cluster)
            })
        });

        let options =
            SourceOptions { lease: LeaseSelection::Off, ..SourceOptions::new(HashKey([0; 16])) };
        let (problems, Flags { cluster, profiles, .. }) = (vec!["a problem".to_owned()], flags());
        let (effective, receiver) = watch::channel(Effective {
            cluster,
            profiles,
            settings: Settings::default(),
            problems,
            web_problems: Vec::new(),
        });

        let core = Core::new(
            model.clone(),
            exporter.clone(),
            Box::new(Connection { connect, options }),
            receiver,
            None,
            ServerClock::new(),
        );

        let feed = core.feed().clone();
        let task = tokio::spawn(keep_running(core, stop.clone()));
        let run = Self { world, model, exporter, feed, effective, connections, stop, task };
        sleep(CHECKPOINT_EVERY + Duration::from_secs(5)).await;
        run.assert_works();

        run
    }

    fn snapshot(&self) -> Snapshot {
        lock(&self.model).snapshot()
    }

    fn source(&self, name: &str) -> SourceSummary {
        let sources = self.snapshot().sources;
        sources
            .iter()
            .find(|source| source.source == name)
            .cloned()
            .unwrap_or_else(|| panic!("{name}: {sources:?}"))
    }

    fn assert_works(&self) {
        let snapshot = self.snapshot();
        let synced: Vec<bool> = snapshot
            .kinds
            .iter()
            .flat_map(|kind| &kind.watches)
            .map(|watch| watch.synced)
            .collect();

        assert_eq!(synced, [true]);
        assert!(self.source("discovery").up && self.source("watch/widgets.example.io").up);
        assert!(!self.source("config").up, "the invalid configuration is still reported");
    }

    fn rebuilds(&self, part: RebuiltPart) -> u64 {
        self.exporter.metrics().rebuilds.get_or_create_owned(&RebuildLabels { part }).get()
    }

    async fn end(self) {
        self.stop.cancel();
        drop(self.feed);
        self.task.await.expect("without a panic");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panicked_model_is_rebuilt_from_the_checkpoint_and_lists_anew() {
    let run = Run::start().await;
    run.connections.forget_permits(100);
    PANICS.set(1);
    sleep(Duration::from_secs(2)).await;

    // The pump works again, but the sources have no connection yet.
    assert_eq!((run.rebuilds(RebuiltPart::Model), run.rebuilds(RebuiltPart::Sources)), (1, 0));
    assert!(!run.model.is_poisoned());
    assert_eq!(run.snapshot().observations.get("checkpoint"), Some(&1), "it is restored");

    let discovery = run.source("discovery");
    assert!(!discovery.up);
    assert!(
        discovery.latest.as_ref().is_some_and(|(_, detail)| detail.contains("injected")),
        "{discovery:?}"
    );

    run.connections.add_permits(1);
    sleep(Duration::from_secs(2)).await;
    run.assert_works();

    assert!(run.exporter.is_alive());

    run.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_panicked_supervisor_is_rebuilt_and_the_model_stays() {
    let run = Run::start().await;
    run.connections.forget_permits(100);
    run.world.change(|state| state.poisoned = Some("selfsubjectrulesreviews".to_owned()));
    sleep(Duration::from_secs(400)).await; // until the next poll

    assert_eq!((run.rebuilds(RebuiltPart::Model), run.rebuilds(RebuiltPart::Sources)), (0, 1));
    assert!(!run.source("discovery").up && !run.source("watch/widgets.example.io").up);
    assert_eq!(run.snapshot().kinds.len(), 1, "the model stays");

    run.world.change(|state| state.poisoned = None);
    run.connections.add_permits(1);
    sleep(Duration::from_secs(2)).await;
    run.assert_works();

    assert_eq!(run.snapshot().observations.get("checkpoint"), None, "there is nothing to restore");

    run.end().await;
}

#[tokio::test(start_paused = true)]
async fn three_failed_rebuilds_fail_the_liveness_probe_until_one_lasts() {
    let run = Run::start().await;
    PANICS.set(3);
    sleep(Duration::from_secs(30)).await;

    assert_eq!((run.rebuilds(RebuiltPart::Model), run.exporter.is_alive()), (3, true));

    run.assert_works();
    PANICS.set(1);
    sleep(Duration::from_secs(30)).await;

    assert_eq!((run.rebuilds(RebuiltPart::Model), run.exporter.is_alive()), (4, false));

    sleep(LASTING).await;
    run.assert_works();

    assert!(run.exporter.is_alive());

    // The next failure is not one of many.
    PANICS.set(1);
    sleep(Duration::from_secs(2)).await;

    assert_eq!((run.rebuilds(RebuiltPart::Model), run.exporter.is_alive()), (5, true));

    run.end().await;
}

#[tokio::test(start_paused = true)]
async fn sources_that_panic_again_and_again_fail_the_liveness_probe() {
    let run = Run::start().await;
    run.world.change(|state| state.poisoned = Some("selfsubjectrulesreviews".to_owned()));
    sleep(Duration::from_secs(400)).await;

    assert!(run.rebuilds(RebuiltPart::Sources) >= 4);
    assert!(!run.exporter.is_alive());

    run.end().await;
}

#[tokio::test(start_paused = true)]
async fn everything_stops_while_a_rebuild_waits() {
    let run = Run::start().await;
    PANICS.set(100);
    sleep(Duration::from_secs(20)).await;
    run.end().await;
    PANICS.set(0);
}

#[tokio::test(start_paused = true)]
async fn sources_that_end_at_once_when_loopwatch_stops_are_not_rebuilt() {
    for _ in 0..20 {
        let run = Run::start().await;
        run.connections.forget_permits(100);
        PANICS.set(1);
        sleep(Duration::from_secs(2)).await;

        // The sources wait for a connection, which they give up together with the task that
        // supervises them.
        let metrics = run.exporter.clone();
        run.end().await;

        let rebuilds = metrics
            .metrics()
            .rebuilds
            .get_or_create_owned(&RebuildLabels { part: RebuiltPart::Sources })
            .get();

        assert_eq!(rebuilds, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn settings_that_a_panicked_model_has_not_seen_are_in_effect_after_its_rebuild() {
    let run = Run::start().await;
    let changed = Settings { learn_after: 77, ..Settings::default() };
    PANICS.set(1);
    run.effective.send_if_modified(|effective| {
        effective.settings.clone_from(&changed);
        false
    });

    let observation = Observation::SettingsChanged(Box::new(changed));
    run.feed.send(observation).await.expect("the pump runs");
    sleep(Duration::from_secs(5)).await;

    assert_eq!(
        (run.rebuilds(RebuiltPart::Model), lock(&run.model).settings().learn_after),
        (1, 77)
    );

    run.assert_works();
    run.end().await;
}

#[tokio::test(start_paused = true)]
async fn watches_that_a_changed_configuration_ends_are_blind_until_they_list_again() {
    let run = Run::start().await;
    run.effective
        .send_modify(|effective| effective.cluster.kubeconfig = Some("/does/not/exist".into()));
    sleep(Duration::from_secs(5)).await;

    assert!(!run.source("discovery").up, "there is no connection");
    assert!(!run.source("watch/widgets.example.io").up);

    run.end().await;
}
