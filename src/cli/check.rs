//! `loopwatch check`: one look at a cluster, or at a dump of one.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::Args;
use loopwatch_model::finding::Severity;
use loopwatch_model::model::Model;
use loopwatch_model::observation::Observation;
use loopwatch_model::snapshot::{Cursor, ObjectRow};
use loopwatch_model::time::Timestamp;
use prometheus_client::metrics::gauge::Gauge;

use super::{CANNOT_LOOK, FINE, FOUND};
use crate::app;
use crate::config::{ClusterFlags, Config, JudgeFlags, ServeFlags};
use crate::export::report::{self, OutputFormat};
use crate::sources::clock::{Clock, SystemClock};
use crate::sources::dump::Dump;
use crate::sources::{Handle, LeaseSelection, Selection, SourceOptions, Supervisor};

/// Flags of `check`.
#[derive(Args, Debug)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    cluster: ClusterFlags,
    #[command(flatten)]
    judge: JudgeFlags,
    /// Judge a dump instead of a cluster: a file or folder of `kubectl get -o json|yaml`
    #[arg(long, value_name = "FILE|DIR", conflicts_with_all = ["kubeconfig", "context", "operator"])]
    snapshot: Option<PathBuf>,
    /// When the dump was taken [default: the newest time in it]
    #[arg(long, value_name = "RFC3339", requires = "snapshot", value_parser = instant)]
    at: Option<Timestamp>,
    /// List every object with its state
    #[arg(long)]
    all: bool,
    /// Write table, json or markdown
    #[arg(long, short, value_name = "FORMAT", default_value = "table", value_parser = format)]
    output: OutputFormat,
    /// Exit with 1 when there are findings at least this severe: critical, warning or info
    #[arg(long, value_name = "SEVERITY", default_value = "warning", value_parser = severity)]
    fail_on: Severity,
    /// Give up after this time
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = loopwatch_model::time::Span::parse)]
    timeout: loopwatch_model::time::Span,
}

pub(super) fn check(args: CheckArgs) -> anyhow::Result<u8> {
    let CheckArgs { cluster, judge, snapshot, at, all, output, fail_on, timeout } = args;
    let config = Config::new(cluster, judge, ServeFlags::default())?;
    let model = match snapshot {
        Some(path) => judge_dump(&path, at, config)?,
        None => app::runtime()?.block_on(judge_cluster(config, Duration::from_millis(timeout.0.unsigned_abs())))?,
    };
    let shown = model.snapshot();
    let rows = all.then(|| every_row(&model));
    match output {
        OutputFormat::Json => super::say(&report::json(&shown, rows.as_deref())),
        OutputFormat::Table | OutputFormat::Markdown => {
            super::say(&report::text(&shown, rows.as_deref(), report::style(output)));
        }
    }
    if shown.kinds.iter().all(|kind| kind.watches.iter().all(|watch| !watch.synced)) && !shown.kinds.is_empty() {
        return Ok(CANNOT_LOOK); // the report says what was in the way
    }
    let found = shown.findings.iter().any(|finding| finding.info().severity <= fail_on);
    Ok(if found { FOUND } else { FINE })
}

fn judge_dump(path: &Path, at: Option<Timestamp>, config: Config) -> anyhow::Result<Model> {
    let dump = Dump::read(path, &app::hash_key())?;
    let now = SystemClock::new().wall();
    // A dump is often looked at long after it was taken: by its own clock nothing has become overdue since.
    let at = at.or(dump.newest()).unwrap_or(now).min(now);
    for problem in &dump.problems {
        super::complain(problem);
    }
    let mut model = Model::new(config.settings);
    for observation in dump.observations() {
        model.apply(at, observation);
    }
    model.apply(at, Observation::Tick);
    Ok(model)
}

async fn judge_cluster(config: Config, timeout: Duration) -> anyhow::Result<Model> {
    let Config { access, namespaces, watch, max_watches, settings, .. } = config;
    let cluster = app::connect(&access).await?;
    // An operator's own account tells what it owns; anyone else wants to see everything.
    let select = if access.operator.is_some() { Selection::OperatorRights } else { Selection::EveryKindWithStatus };
    let options = SourceOptions {
        watch,
        namespaces,
        max_watches,
        select,
        lease: LeaseSelection::Off,
        once: true,
        ..SourceOptions::new(app::hash_key())
    };
    let model = Arc::new(Mutex::new(Model::new(settings)));
    let (feed, observations) = app::channel();
    let handle = Supervisor::start(cluster, options, feed);
    let pump = tokio::spawn(app::pump(observations, model.clone(), None, Gauge::default(), |_| false));
    if tokio::time::timeout(timeout, wait_and_tell(&handle)).await.is_err() {
        super::complain(&format!(
            "gave up after {timeout:?}; what was not listed by then is missing (--timeout, --watch)"
        ));
    }
    handle.shutdown().await;
    pump.await?;
    app::lock(&model).apply(SystemClock::new().wall(), Observation::Tick);
    let model = Arc::into_inner(model).ok_or_else(|| anyhow::anyhow!("the model is still in use"))?;
    Ok(model.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}

/// Waits for all first lists and says how far they are: on a terminal in one line, else not at all.
async fn wait_and_tell(handle: &Handle) {
    let sync = handle.initial_sync();
    let terminal = std::io::stderr().is_terminal();
    let done = sync.done();
    tokio::pin!(done);
    loop {
        tokio::select! {
            _ = &mut done => break,
            () = tokio::time::sleep(Duration::from_millis(200)) => if terminal {
                let progress = sync.progress();
                let (listed, watches, objects) = (progress.listed + progress.failed, progress.watches, progress.objects);
                progress_line(&format!("looking: {listed} of {watches} kinds, {objects} objects"));
            },
        }
    }
    if terminal {
        progress_line("");
    }
}

#[expect(clippy::print_stderr, reason = "progress is for people who wait, not a result")]
fn progress_line(text: &str) {
    eprint!("\r\x1b[K{text}");
}

fn every_row(model: &Model) -> Vec<ObjectRow> {
    let (rows, _) = model.rows(Cursor::default(), usize::MAX);
    rows
}

fn instant(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse(text)
        .ok_or_else(|| format!("{text:?} is not a time as in RFC 3339, for example 2026-01-31T12:00:00Z"))
}

fn severity(text: &str) -> Result<Severity, String> {
    match text {
        "critical" => Ok(Severity::Critical),
        "warning" => Ok(Severity::Warning),
        "info" => Ok(Severity::Info),
        _ => Err(format!("{text:?} is none of critical, warning, info")),
    }
}

fn format(text: &str) -> Result<OutputFormat, String> {
    match text {
        "table" => Ok(OutputFormat::Table),
        "json" => Ok(OutputFormat::Json),
        "markdown" => Ok(OutputFormat::Markdown),
        _ => Err(format!("{text:?} is none of table, json, markdown")),
    }
}
