//! `loopwatch demo`: a recorded incident, without a cluster.

use std::io::Cursor;

use clap::Args;

use super::play::{self, Played, Shown};
use super::{SUCCESS, replay, timeline};
use crate::config::ServeFlags;
use crate::export::report::OutputFormat;
use crate::recording::Recording;

/// A real incident: an operator of the zoo on a real cluster, one of the scenarios that the tests replay.
const INCIDENT: &[u8] = include_bytes!("../../tests/scenarios/incident.jsonl");

/// Flags of `demo`.
#[derive(Args, Debug)]
pub(super) struct DemoArgs {
    /// Print the report and exit, instead of serving the page and metrics until interrupted
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    serve: ServeFlags,
}

pub(super) fn demo(args: DemoArgs) -> anyhow::Result<u8> {
    let recording = Recording::read(Cursor::new(INCIDENT), "the embedded incident".to_owned())?;
    let mut settings = recording.header().settings.clone();
    args.serve.apply(&mut settings);
    let played = play::play("the embedded incident", recording, settings, None, None)?;
    super::print(&timeline::text(&played.timeline));
    let Played { model, input, .. } = &played;
    Shown { model, input, timeline: None, all: false, offers_all: false }.print(OutputFormat::Table);
    if args.once { Ok(SUCCESS) } else { replay::serve_end(played, &args.serve) }
}
