//! `loopwatch record`: records the observations of a cluster for `replay`.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use loopwatch_model::model::Model;
use loopwatch_model::observation::Observation;
use loopwatch_model::settings::Settings;
use loopwatch_model::time::Span;
use prometheus_client::metrics::gauge::Gauge;
use tokio_util::sync::CancellationToken;

use super::SUCCESS;
use crate::app::{self, Ended, RecordingSink, SharedModel};
use crate::config::{ClusterFlags, JudgeFlags};
use crate::recording::Writer;
use crate::sources::{Cluster, Selection, SourceOptions, Supervisor};

/// Flags of `record`.
#[derive(Args, Debug)]
pub(super) struct RecordArgs {
    /// File to create; gzip if its name ends in .gz
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Time after which to stop [default: when interrupted]
    #[arg(long = "for", value_name = "DURATION", value_parser = Span::parse)]
    duration: Option<Span>,
    /// Size, before compression, at which to start a new file; loopwatch keeps one previous file, such as NAME.1.jsonl
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    max_size: u64,
    /// Replace the names of namespaces and objects with pseudonyms, and omit messages
    #[arg(long)]
    anonymize: bool,
    /// Record all custom resources that have a status, not only those that the operator owns
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    cluster: ClusterFlags,
    #[command(flatten)]
    judge: JudgeFlags,
}

pub(super) fn record(args: RecordArgs, settings: Settings) -> anyhow::Result<u8> {
    app::runtime()?.block_on(run(args, settings))
}

async fn run(args: RecordArgs, mut settings: Settings) -> anyhow::Result<u8> {
    let RecordArgs { cluster, judge, output, duration, max_size, anonymize, all } = args;
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
    let options = SourceOptions {
        select: if all { Selection::EveryKindWithStatus } else { Selection::OperatorPermissions },
        ..cluster.source_options(app::hash_key())
    };
    let key = anonymize.then(app::random_key);
    let model: SharedModel = Arc::new(Mutex::new(Model::new(settings)));
    loop {
        let segment = Segment { output: &output, max_bytes: max_size.max(1) * 1024 * 1024, key };
        match record_segment(&server, options.clone(), &model, &segment, &stop).await? {
            Ended::Full => rotate(&output)?,
            Ended::SendersGone | Ended::Unwritable(_) => return Ok(SUCCESS),
        }
    }
}

/// One file of a recording, which may span several files.
struct Segment<'a> {
    output: &'a Path,
    max_bytes: u64,
    key: Option<[u8; 16]>,
}

/// Records one file. It begins with a checkpoint and complete lists, so that it replays without the earlier files.
async fn record_segment(
    server: &Cluster,
    options: SourceOptions,
    model: &SharedModel,
    segment: &Segment<'_>,
    stop: &CancellationToken,
) -> anyhow::Result<Ended> {
    let shown = segment.output.display();
    let create = || -> std::io::Result<Writer> {
        let model = app::lock(model);
        let mut writer = Writer::create(segment.output, model.settings(), segment.key)?;
        writer.write(server.clock().now(), &Observation::Restored(Box::new(model.checkpoint())))?;
        Ok(writer)
    };
    let writer = create().with_context(|| format!("cannot create {shown}"))?;
    let (feed, observations) = app::channel(server);
    let handle = Supervisor::start(server.clone(), options, feed);
    let sink = RecordingSink { writer, max_bytes: segment.max_bytes };
    let (sender, mut probes) = tokio::sync::mpsc::channel(64);
    let mut pump = tokio::spawn(app::pump(observations, model.clone(), Some(sink), Gauge::default(), move |probe| {
        sender.try_send(probe).is_ok()
    }));
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
    let (sink, ended) = match ended {
        Some(ended) => ended,
        None => pump.await, // the pump first writes the observations left in the channel
    }?;
    if let Ended::Unwritable(error) = ended {
        return Err(error).with_context(|| format!("cannot write {shown}"));
    }
    if let Some(mut sink) = sink {
        let lines = sink.writer.lines();
        sink.writer
            .write_end(server.clock().now())
            .and_then(|()| sink.writer.finish())
            .with_context(|| format!("cannot write {shown}"))?;
        tracing::info!(file = %shown, observations = lines, "recorded");
    }
    Ok(ended)
}

fn rotate(output: &Path) -> anyhow::Result<()> {
    // `incident.jsonl.gz` becomes `incident.1.jsonl.gz`, because the extension marks the file as gzip.
    let name = output.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let kept = match name.split_once('.') {
        Some((stem, extensions)) => format!("{stem}.1.{extensions}"),
        None => format!("{name}.1"),
    };
    let kept = output.with_file_name(kept);
    std::fs::rename(output, &kept).with_context(|| format!("cannot rename {} to {}", output.display(), kept.display()))
}
