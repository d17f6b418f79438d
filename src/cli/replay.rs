//! `loopwatch replay`: shows the findings of a recording over time, and the state at its end or at
//! any time.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use clap::Args;
use loopwatch_model::settings::Settings;
use loopwatch_model::time::Timestamp;

use super::play::paced::{Paced, speed};
use super::play::{self, Played, Shown};
use super::{SUCCESS, check, timeline};
use crate::app;
use crate::config::{JudgeFlags, ServeFlags};
use crate::export::metrics::TextFormat;
use crate::export::presentation::report::{FailOn, OutputFormat};
use crate::export::server::Exporter;
use crate::export::view::{BlindSpot, Input};
use crate::recording::Recording;

/// Flags of `replay`.
#[derive(Args, Debug)]
pub(super) struct ReplayArgs {
    /// Recording, plain or compressed with gzip
    file: PathBuf,
    /// Stop the replay at this time and report on it, as --at of `check` does [default: the end of
    /// the recording]
    #[arg(long, visible_alias = "at", value_name = "RFC3339", value_parser = check::instant)]
    until: Option<Timestamp>,
    /// List all kinds, and all objects with their states
    #[arg(long)]
    all: bool,
    /// Output format; `metrics` prints the output of /metrics at the end of the recording
    #[arg(long, short, value_name = "FORMAT", default_value = "table")]
    output: Output,
    #[command(flatten)]
    judge: JudgeFlags,
    /// Serve the page, metrics and API for the end of the recording, until interrupted
    #[arg(long, help_heading = "Serving")]
    serve: bool,
    /// With --serve: play the recording at N times its original speed, instead of showing only its
    /// end
    #[arg(long, value_name = "N", value_parser = speed, requires = "serve", help_heading = "Serving")]
    speed: Option<f64>,
    #[command(flatten)]
    serve_flags: ServeFlags,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Output {
    Table,
    Json,
    Yaml,
    Markdown,
    Metrics,
}

pub(super) fn replay(args: ReplayArgs, settings: Settings) -> anyhow::Result<u8> {
    anyhow::ensure!(
        !args.serve || matches!(args.output, Output::Table | Output::Markdown),
        "--serve shows the recording on the page, which offers JSON and metrics; leave out -o, or leave out --serve"
    );

    let recording = Recording::open(&args.file)?;
    let mut settings = play::settings(&recording, &args.judge, settings);
    args.serve_flags.apply(&mut settings);

    if let Some(speed) = args.speed {
        let (judge, until, serve) = (Some(args.judge), args.until, &args.serve_flags);
        Paced { recording, settings, judge, speed, until, serve }.serve(Box::new(|_| {}))?;
        return Ok(SUCCESS);
    }

    let played = play::play(
        &args.file.display().to_string(),
        recording,
        settings,
        Some(&args.judge),
        args.until,
    )?;

    let Played { model, input, timeline } = &played;
    let shown = Shown { model, input, timeline: Some(timeline), all: args.all, offers_all: true };
    let format = match args.output {
        Output::Metrics => return print_metrics(played, &args.serve_flags),
        Output::Json => OutputFormat::Json,
        Output::Yaml => OutputFormat::Yaml,
        Output::Table => OutputFormat::Table,
        Output::Markdown => OutputFormat::Markdown,
    };

    if format.is_for_programs() {
        report_blind_spots(input);
    } else {
        super::print(&timeline::text(timeline, input.is_whole()))?;
    }

    let snapshot = shown.print(format)?;
    if args.serve && !format.is_for_programs() {
        return serve_end(played, &args.serve_flags);
    }

    Ok(play::exit_code(&snapshot, input, &FailOn::default()))
}

fn print_metrics(played: Played, flags: &ServeFlags) -> anyhow::Result<u8> {
    let code = play::exit_code(&played.model.snapshot(), &played.input, &FailOn::default());
    report_blind_spots(&played.input);
    super::print(&exporter(played, flags).render(TextFormat::Text004).into_text())?;
    Ok(code)
}

/// Reports the parts of the recording that the replay ignores, for machine-readable formats.
fn report_blind_spots(input: &Input) {
    for BlindSpot { what, why } in input.blind_spots() {
        super::print_error(&format!("{what}: {why}"));
    }
}

fn exporter(played: Played, flags: &ServeFlags) -> Arc<Exporter> {
    let exporter = app::exporter(Arc::new(Mutex::new(played.model)), flags);
    exporter.set_input(played.input);
    exporter
}

/// Serves the final model until interrupted.
pub(super) fn serve_end(played: Played, flags: &ServeFlags) -> anyhow::Result<u8> {
    app::runtime()?.block_on(async {
        timeline::serve(flags.listen, exporter(played, flags), app::stop_signal()).await
    })?;
    Ok(SUCCESS)
}
