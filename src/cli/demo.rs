//! `loopwatch demo`: a recorded incident, without a cluster.

use std::io::Cursor;

use clap::Args;
use loopwatch_model::model::Model;

use super::{FINE, replay};
use crate::config::{ClusterFlags, Config, JudgeFlags, ServeFlags};
use crate::export::report::{self, OutputFormat};
use crate::recording::Recording;

/// A real incident: an operator of the zoo on a real cluster, one of the scenarios that the tests replay.
const INCIDENT: &[u8] = include_bytes!("../../tests/scenarios/incident.jsonl");

/// Flags of `demo`.
#[derive(Args, Debug)]
pub(super) struct DemoArgs {
    #[command(flatten)]
    serve: ServeFlags,
    /// Print the report and exit, instead of serving page and metrics until interrupted
    #[arg(long)]
    once: bool,
}

pub(super) fn demo(args: DemoArgs) -> anyhow::Result<u8> {
    let config = Config::new(ClusterFlags::default(), JudgeFlags::default(), args.serve)?;
    let recording = Recording::read(Cursor::new(INCIDENT), "the embedded incident".to_owned())?;
    let model = Model::new(recording.header().settings.clone());
    let (model, timeline, unreadable) = replay::play(recording, model);
    super::say(&timeline.text());
    super::say(&report::text(&model.snapshot(), None, report::style(OutputFormat::Table)));
    replay::tell(&unreadable);
    if args.once { Ok(FINE) } else { replay::serve_end(model, &config) }
}
