//! `loopwatch demo`: plays a recorded incident, without a cluster.

use std::io::{Cursor, Read as _};

use clap::Args;
use flate2::read::MultiGzDecoder;
use loopwatch_model::finding::FindingEvent;

use super::play::paced::{OnEvents, Paced, speed};
use super::play::{self, Played, Shown};
use super::{SUCCESS, check, timeline};
use crate::config::ServeFlags;
use crate::export::presentation::report::OutputFormat;
use crate::recording::{Recording, ending_at};
use crate::sources::feed::{Clock as _, SystemClock};

/// A real incident: the zoo operator on a real cluster, with the times stretched, so that minutes
/// became hours. It is one of the scenarios that the tests replay; `tests/live/demo.rs` records it.
const INCIDENT: &[u8] = include_bytes!("../../tests/scenarios/demo.jsonl.gz");

/// The default speed, at which the incident takes half a minute.
const SPEED: f64 = 300.0;

/// Flags of `demo`.
#[derive(Args, Debug)]
pub(super) struct DemoArgs {
    /// Print the report and exit, instead of playing the incident on the page
    #[arg(long, conflicts_with = "listen")]
    once: bool,
    /// With --once: output format: table, json, yaml or markdown
    #[arg(long, short, value_name = "FORMAT", default_value = "table", requires = "once", value_parser = check::format)]
    output: OutputFormat,
    /// Play the incident at N times its original speed, at which it takes three hours
    #[arg(long, value_name = "N", default_value_t = SPEED, value_parser = speed, conflicts_with = "once")]
    speed: f64,
    #[command(flatten)]
    serve: ServeFlags,
}

pub(super) fn demo(args: DemoArgs) -> anyhow::Result<u8> {
    let mut text = String::new();
    MultiGzDecoder::new(INCIDENT).read_to_string(&mut text)?;
    text = ending_at(&text, SystemClock::new().wall()); // as if it had just happened
    let recording = Recording::read(Cursor::new(text), "the embedded incident".to_owned())?;
    let mut settings = recording.header().settings.clone();
    args.serve.apply(&mut settings);

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
    if !args.output.is_for_programs() {
        super::print(&timeline::text(&played.timeline, true))?;
    }

    let Played { model, input, timeline } = &played;
    Shown { model, input, timeline: Some(timeline), all: false, offers_all: false }
        .print(args.output)?;
    Ok(SUCCESS)
}

/// Prints the finding events as they happen. The page shows the same, so a failure to print ends nothing.
fn printer() -> OnEvents {
    let mut events: Vec<FindingEvent> = Vec::new();
    Box::new(move |new| {
        // One of them may explain another one before it.
        events.extend_from_slice(new);
        for event in new {
            let _ = super::print(&timeline::line(event, events[0].at, &events));
        }
    })
}
