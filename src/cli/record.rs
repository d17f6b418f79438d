//! `loopwatch record`: records the observations of a cluster for `replay`.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use loopwatch_model::model::Model;
use loopwatch_model::settings::Settings;
use loopwatch_model::time::Span;
use tokio_util::sync::CancellationToken;

use super::SUCCESS;
use crate::app::{self, Ended, Outlets, SharedModel};
use crate::config::{ClusterFlags, JudgeFlags, ProfileFlags};
use crate::recording::Segments;
use crate::sources::api_server::{Cluster, Selection};
use crate::sources::feed::ServerClock;
use crate::sources::supervisor::{SourceOptions, Supervisor};
use crate::telemetry::GaugeShare;

/// Flags of `record`.
#[derive(Args, Debug)]
pub(super) struct RecordArgs {
    /// File to create; gzip if its name ends in .gz
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Time after which to stop [default: when interrupted]
    #[arg(long = "for", value_name = "DURATION", value_parser = Span::parse)]
    duration: Option<Span>,
    /// Size, before compression, at which to start a new file; loopwatch keeps one previous file,
    /// such as NAME.1.jsonl. Each file begins with the state of the cluster, and loopwatch does not
    /// start a new one before it is twice as large as this state
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    max_size: u64,
    /// Replace names, UIDs and texts with pseudonyms; the names of kinds, finalizers and field
    /// managers stay
    #[arg(long)]
    anonymize: bool,
    /// Record all custom resources that have a status, not only those that the operator owns
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    pub(super) cluster: ClusterFlags,
    #[command(flatten)]
    judge: JudgeFlags,
    #[command(flatten)]
    profiles: ProfileFlags,
}

pub(super) fn record(args: RecordArgs, settings: Settings) -> anyhow::Result<u8> {
    app::runtime()?.block_on(run(args, settings))
}

async fn run(args: RecordArgs, mut settings: Settings) -> anyhow::Result<u8> {
    let RecordArgs { cluster, judge, profiles, output, duration, max_size, anonymize, all } = args;
    judge.apply(&mut settings);

    let server = app::connect(&cluster.access()).await?;
    let stop = app::stop_signal();
    if let Some(duration) = duration {
        let stop = stop.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(duration.0.unsigned_abs())).await;
            stop.cancel();
        });
    }

    let mut options = cluster.source_options(app::hash_key(), &settings);
    options.profiles = profiles.options();
    if all {
        options.discovery.select = Selection::EveryKindWithStatus;
    }

    let key = anonymize.then(app::random_key);
    let max_bytes = max_size.max(1).saturating_mul(1024 * 1024);
    let (model, clock) = (Model::new(settings), server.clock().clone());

    let segments = Segments::create(&output, max_bytes, key, &model, clock.now())
        .with_context(|| format!("cannot create {}", output.display()))?;
    let (recorded, ended) = observe(server, options, model, segments, &stop).await?;
    complete(recorded, ended, &output, &clock, &stop)?;

    Ok(SUCCESS)
}

/// Completes the recording.
///
/// # Errors
/// If it cannot be written, or if the sources ended without a stop signal.
fn complete(
    recorded: Option<Segments>,
    ended: Ended,
    output: &Path,
    clock: &ServerClock,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let shown = output.display();
    if let Ended::Unwritable(error) = ended {
        return Err(error).with_context(|| format!("cannot write {shown}"));
    }

    if let Some(segments) = recorded {
        let lines =
            segments.finish(clock.now()).with_context(|| format!("cannot write {shown}"))?;
        tracing::info!(file = %shown, observations = lines, "recorded");
    }

    anyhow::ensure!(
        stop.is_cancelled(),
        "a bug in loopwatch stopped the sources, and {shown} ends at that moment"
    );

    Ok(())
}

/// Records until a stop signal arrives or the recording cannot be written.
async fn observe(
    server: Cluster,
    options: SourceOptions,
    model: Model,
    segments: Segments,
    stop: &CancellationToken,
) -> anyhow::Result<(Option<Segments>, Ended)> {
    let model: SharedModel = Arc::new(Mutex::new(model));
    let (feed, observations) = app::channel(&server);
    let handle = Supervisor::start(server, options, feed);
    let (sender, mut probes) = tokio::sync::mpsc::channel(64);
    let ask = move |probe| sender.try_send(probe).is_ok();
    let mut pump = tokio::spawn(app::pump(
        observations,
        model,
        Some(segments),
        GaugeShare::default(),
        ask,
        Outlets::default(),
    ));

    let ended = loop {
        tokio::select! {
            ended = &mut pump => break Some(ended),
            Some(probe) = probes.recv() => if !handle.ask(probe) {
                tracing::debug!("the queue of probes is full; the model asks again");
            },
            () = stop.cancelled() => break None,
        }
    };

    handle.shutdown().await;
    let ended = match ended {
        Some(ended) => ended,
        None => pump.await, // the pump first writes the rest of the channel
    };

    Ok(ended?)
}

#[cfg(test)]
mod tests {
    use loopwatch_testbed::standin::{WIDGET, World};

    use super::*;
    use crate::recording::Recording;
    use crate::sources::decoding::HashKey;
    use crate::sources::testing::InProcess as _;

    #[tokio::test]
    async fn a_recording_whose_sources_panic_is_complete_but_not_a_success() {
        let folder = tempfile::tempdir().expect("a folder");
        let output = folder.path().join("a.jsonl");
        let world = World::new(&[WIDGET]);
        world.change(|state| state.poisoned = Some("selfsubjectrulesreviews".to_owned()));

        let (server, stop) = (world.cluster(), CancellationToken::new());
        let (model, clock) = (Model::new(Settings::default()), server.clock().clone());
        let segments =
            Segments::create(&output, 1 << 20, None, &model, clock.now()).expect("created");
        let options = SourceOptions::new(HashKey([0; 16]));
        let (recorded, ended) =
            observe(server, options, model, segments, &stop).await.expect("observed");
        let error =
            complete(recorded, ended, &output, &clock, &stop).expect_err("the sources panicked");

        assert!(error.to_string().contains("a bug in loopwatch"), "{error}");
        assert!(Recording::open(&output).expect("a recording").count() > 0);
    }
}
