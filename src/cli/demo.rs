//! `loopwatch demo`: a recorded incident, without a cluster.

use std::io::Cursor;

use clap::Args;
use loopwatch_model::model::Model;

use super::{SUCCESS, replay};
use crate::config::ServeFlags;
use crate::export::report::{self, OutputFormat};
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
    let (model, timeline, unreadable) = replay::play(recording, Model::new(settings));
    super::print(&timeline.text());
    super::print(&report::text(&model.snapshot(), None, report::style(OutputFormat::Table)));
    replay::report_unreadable(&unreadable);
    if args.once { Ok(SUCCESS) } else { replay::serve_end(model, &args.serve) }
}
