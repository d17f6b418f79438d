//! `loopwatch replay`: what a recording shows, under virtual time.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::Args;
use loopwatch_model::finding::Severity;
use loopwatch_model::model::Model;
use loopwatch_model::observation::Observation;
use loopwatch_model::time::Span;

use super::timeline::{self, Timeline};
use super::{FINE, FOUND};
use crate::app;
use crate::config::{ClusterFlags, Config, JudgeFlags, ServeFlags};
use crate::export::prometheus::TextFormat;
use crate::export::report::{self, OutputFormat};
use crate::recording::{Recording, UnreadableLines};

/// Flags of `replay`.
#[derive(Args, Debug)]
pub(super) struct ReplayArgs {
    /// The recording, plain or gzip
    file: PathBuf,
    #[command(flatten)]
    judge: JudgeFlags,
    #[command(flatten)]
    serve_flags: ServeFlags,
    /// Then serve page, metrics and API as they are at the end of the recording, until interrupted
    #[arg(long, help_heading = "Serving")]
    serve: bool,
    /// With --serve: play this many times as fast as it happened, instead of at once
    #[arg(long, value_name = "N", requires = "serve", help_heading = "Serving")]
    speed: Option<f64>,
    /// Write table, json, markdown, or metrics (what /metrics would say at the end)
    #[arg(long, short, value_name = "FORMAT", default_value = "table")]
    output: Output,
}

/// What to write.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Output {
    Table,
    Json,
    Markdown,
    Metrics,
}

pub(super) fn replay(args: ReplayArgs) -> anyhow::Result<u8> {
    let recording = Recording::open(&args.file)?;
    let settings = recording.header().settings.clone();
    let config = Config::new(ClusterFlags::default(), args.judge.clone(), args.serve_flags)?;
    // The recorder's settings hold unless somebody says otherwise here: "would it have paged with another deadline?"
    let overridden = args.judge.config.is_some() || !args.judge.deadline.is_empty();
    let model = Model::new(if overridden { config.settings.clone() } else { settings });
    if args.serve && args.speed.is_some() {
        return app::runtime()?.block_on(serve_playing(recording, model, &config, args.speed.unwrap_or(1.0)));
    }
    let (model, timeline, unreadable) = play(recording, model);
    let snapshot = model.snapshot();
    let found = snapshot.findings.iter().any(|f| f.info().severity <= Severity::Warning);
    match args.output {
        Output::Metrics => {
            let exporter = app::exporter(Arc::new(Mutex::new(model)), config.object_series, false);
            super::say(&exporter.render(TextFormat::Text004).into_text());
        }
        Output::Json => super::say(&report::json(&snapshot, None)),
        Output::Table | Output::Markdown => {
            let format =
                if matches!(args.output, Output::Markdown) { OutputFormat::Markdown } else { OutputFormat::Table };
            super::say(&timeline.text());
            super::say(&report::text(&snapshot, None, report::style(format)));
            tell(&unreadable);
            if args.serve {
                return serve_end(model, &config);
            }
        }
    }
    Ok(if found { FOUND } else { FINE })
}

/// Takes the whole recording into the model.
pub(super) fn play(mut recording: Recording, mut model: Model) -> (Model, Timeline, UnreadableLines) {
    let mut timeline = Timeline::default();
    for line in recording.by_ref() {
        model.apply(line.at, line.saw);
        timeline.add(model.finding_events());
        model.probes(); // the answers stand in the recording
    }
    timeline.add(model.finding_events());
    let unreadable = recording.unreadable().clone();
    (model, timeline, unreadable)
}

/// Says which lines could not be read.
pub(super) fn tell(unreadable: &UnreadableLines) {
    for (number, reason) in &unreadable.first {
        super::complain(&format!("line {number} was skipped: {reason}"));
    }
    if unreadable.count > unreadable.first.len() as u64 {
        super::complain(&format!("{} lines were skipped in all", unreadable.count));
    }
}

/// Serves the model as it is until interrupted.
pub(super) fn serve_end(model: Model, config: &Config) -> anyhow::Result<u8> {
    app::runtime()?.block_on(async {
        let model = Arc::new(Mutex::new(model));
        let exporter = app::exporter(model, config.object_series, config.expose_ui);
        timeline::serve_and_tell(config.listen, exporter, app::stop_signal()).await
    })?;
    Ok(FINE)
}

async fn serve_playing(recording: Recording, model: Model, config: &Config, speed: f64) -> anyhow::Result<u8> {
    let model = Arc::new(Mutex::new(model));
    let stop = app::stop_signal();
    let exporter = app::exporter(model.clone(), config.object_series, config.expose_ui);
    let playing = tokio::spawn(play_slowly(recording, model, speed.clamp(0.01, 1e6)));
    timeline::serve_and_tell(config.listen, exporter, stop).await?;
    playing.abort();
    Ok(FINE)
}

/// Lets time pass between the lines as it did, so many times as fast, in steps of a tenth of a second, so that ages
/// grow on the page also while nothing happens.
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
