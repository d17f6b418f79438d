//! `loopwatch demo`: plays a recorded incident, without a cluster.

use std::io::Cursor;

use clap::Args;
use loopwatch_model::settings::Settings;

use super::play::paced::{OnEvent, Paced, speed};
use super::play::{self, Played, Shown};
use super::{SUCCESS, timeline};
use crate::config::ServeFlags;
use crate::export::presentation::report::OutputFormat;
use crate::recording::Recording;

/// A real incident: the zoo operator on a real cluster. It is one of the scenarios that the tests
/// replay.
const INCIDENT: &[u8] = include_bytes!("../../tests/scenarios/incident.jsonl");

/// The default speed, at which most of the incident fits into half a minute.
const SPEED: f64 = 10.0;

/// Flags of `demo`.
#[derive(Args, Debug)]
pub(super) struct DemoArgs {
    /// Print the report and exit, instead of playing the incident on the page
    #[arg(long)]
    once: bool,
    /// Play the incident at N times its original speed; it lasts seven minutes
    #[arg(long, value_name = "N", default_value_t = SPEED, value_parser = speed, conflicts_with = "once")]
    speed: f64,
    #[command(flatten)]
    serve: ServeFlags,
}

pub(super) fn demo(args: DemoArgs) -> anyhow::Result<u8> {
    let recording = Recording::read(Cursor::new(INCIDENT), "the embedded incident".to_owned())?;
    let mut settings = recording.header().settings.clone();
    args.serve.apply(&mut settings);
    super::print(&introduction(&settings));

    if !args.once {
        Paced {
            recording,
            settings,
            judge: None,
            speed: args.speed,
            until: None,
            serve: &args.serve,
        }
        .serve(printer())?;
        return Ok(SUCCESS);
    }

    let played = play::play("the embedded incident", recording, settings, None, None)?;
    super::print(&timeline::text(&played.timeline));

    let Played { model, input, .. } = &played;
    Shown { model, input, timeline: None, all: false, offers_all: false }
        .print(OutputFormat::Table)?;
    Ok(SUCCESS)
}

/// Says how the recorded settings differ from those of a cluster.
fn introduction(recorded: &Settings) -> String {
    format!(
        "This incident was recorded with shorter thresholds than the defaults, for example a deadline of {} instead of {}, \
         so that findings open within minutes.\n\n",
        recorded.deadline,
        Settings::default().deadline
    )
}

/// Prints each finding event as it happens.
fn printer() -> OnEvent {
    let mut first = None;
    Box::new(move |event| super::print(&timeline::line(event, *first.get_or_insert(event.at))))
}
