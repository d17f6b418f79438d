//! `loopwatch replay`: the findings of a recording over time, and the state at its end.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::Args;
use loopwatch_model::finding::Severity;
use loopwatch_model::model::Model;
use loopwatch_model::observation::Observation;
use loopwatch_model::settings::Settings;
use loopwatch_model::time::Span;

use super::timeline::{self, Timeline};
use super::{FINDINGS, SUCCESS};
use crate::app;
use crate::config::{JudgeFlags, ServeFlags};
use crate::export::prometheus::TextFormat;
use crate::export::report::{self, OutputFormat};
use crate::recording::{Recording, UnreadableLines};

/// Flags of `replay`.
#[derive(Args, Debug)]
pub(super) struct ReplayArgs {
    /// Recording, plain or compressed with gzip
    file: PathBuf,
    /// Output format; `metrics` prints the output of /metrics at the end of the recording
    #[arg(long, short, value_name = "FORMAT", default_value = "table")]
    output: Output,
    #[command(flatten)]
    judge: JudgeFlags,
    /// Serve the page, metrics and API for the end of the recording, until interrupted
    #[arg(long, help_heading = "Serving")]
    serve: bool,
    /// With --serve: replay the recording at N times its original speed, instead of going to its end
    #[arg(long, value_name = "N", requires = "serve", help_heading = "Serving")]
    speed: Option<f64>,
    #[command(flatten)]
    serve_flags: ServeFlags,
}

/// The output format.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Output {
    Table,
    Json,
    Markdown,
    Metrics,
}

pub(super) fn replay(args: ReplayArgs, mut settings: Settings) -> anyhow::Result<u8> {
    args.judge.apply(&mut settings);
    let recording = Recording::open(&args.file)?;
    let mut settings = choose_settings(&recording, &args.judge, settings);
    args.serve_flags.apply(&mut settings);
    let model = Model::new(settings);
    if args.serve && args.speed.is_some() {
        let speed = args.speed.unwrap_or(1.0);
        return app::runtime()?.block_on(serve_playing(recording, model, &args.serve_flags, speed));
    }
    let (model, timeline, unreadable) = play(recording, model);
    let snapshot = model.snapshot();
    let found = snapshot.findings.iter().any(|f| f.severity <= Severity::Warning);
    match args.output {
        Output::Metrics => {
            let exporter = app::exporter(Arc::new(Mutex::new(model)), &args.serve_flags);
            super::print(&exporter.render(TextFormat::Text004).into_text());
        }
        Output::Json => super::print(&report::json(&snapshot, None)),
        Output::Table | Output::Markdown => {
            let format =
                if matches!(args.output, Output::Markdown) { OutputFormat::Markdown } else { OutputFormat::Table };
            super::print(&timeline.text());
            super::print(&report::text(&snapshot, None, report::style(format)));
            report_unreadable(&unreadable);
            if args.serve {
                return serve_end(model, &args.serve_flags);
            }
        }
    }
    Ok(if found { FINDINGS } else { SUCCESS })
}

/// Returns the recorder's settings, or `settings` if the user named a configuration file or a deadline, for example to
/// find out whether another deadline would have raised an alert.
pub(super) fn choose_settings(recording: &Recording, judge: &JudgeFlags, settings: Settings) -> Settings {
    let chosen = judge.config.is_some() || !judge.deadline.is_empty();
    if chosen { settings } else { recording.header().settings.clone() }
}

/// Applies the whole recording to the model.
pub(super) fn play(mut recording: Recording, mut model: Model) -> (Model, Timeline, UnreadableLines) {
    let mut timeline = Timeline::default();
    for line in recording.by_ref() {
        model.apply(line.at, line.saw);
        timeline.add(model.finding_events());
        model.probes(); // the recording contains the answers
    }
    timeline.add(model.finding_events());
    let unreadable = recording.unreadable().clone();
    (model, timeline, unreadable)
}

/// Reports the lines that loopwatch could not read.
pub(super) fn report_unreadable(unreadable: &UnreadableLines) {
    for (number, reason) in &unreadable.first {
        super::print_error(&format!("skipped line {number}: {reason}"));
    }
    if unreadable.count > unreadable.first.len() as u64 {
        super::print_error(&format!("skipped {} lines in total", unreadable.count));
    }
}

/// Serves the model unchanged until interrupted.
pub(super) fn serve_end(model: Model, flags: &ServeFlags) -> anyhow::Result<u8> {
    app::runtime()?.block_on(async {
        let exporter = app::exporter(Arc::new(Mutex::new(model)), flags);
        timeline::serve(flags.listen, exporter, app::stop_signal()).await
    })?;
    Ok(SUCCESS)
}

async fn serve_playing(recording: Recording, model: Model, flags: &ServeFlags, speed: f64) -> anyhow::Result<u8> {
    let model = Arc::new(Mutex::new(model));
    let stop = app::stop_signal();
    let exporter = app::exporter(model.clone(), flags);
    let playing = tokio::spawn(play_slowly(recording, model, speed.clamp(0.01, 1e6)));
    timeline::serve(flags.listen, exporter, stop).await?;
    playing.abort();
    Ok(SUCCESS)
}

/// Applies the recording `speed` times as fast as it happened. Time advances in steps of a tenth of a second, so that
/// the ages on the page also grow between observations.
async fn play_slowly(recording: Recording, model: app::SharedModel, speed: f64) {
    const STEP: Duration = Duration::from_millis(100);
    let step = Span((100.0 * speed) as i64).max(Span(1));
    let mut now = None;
    for line in recording {
        let mut at = now.unwrap_or(line.at);
        while at < line.at {
            tokio::time::sleep(STEP).await;
            at = at.after(step).min(line.at);
            app::lock(&model).apply(at, Observation::Tick);
        }
        app::lock(&model).apply(line.at, line.saw);
        now = Some(line.at);
    }
}
