//! `loopwatch explain`: one object on one screen.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use loopwatch_model::model::Model;
use loopwatch_model::settings::Settings;
use loopwatch_model::time::Timestamp;

use super::{SUCCESS, USAGE, check};
use crate::app;
use crate::config::JudgeFlags;
use crate::export::explain::{self, ObjectQuestion};
use crate::export::input::Input;
use crate::export::json::{self, Explained};
use crate::export::report::{self, OutputFormat};
use crate::export::summary::BlindSpot;
use crate::export::view::View;

/// Flags of `explain`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct ExplainArgs {
    /// Kind as kubectl takes it: widgets, widget, Widget, a short name, widgets.example.io; or KIND/NAME
    #[arg(value_name = "KIND", value_parser = NonEmptyStringValueParser::new())]
    kind: String,
    /// Name of the object
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    name: Option<String>,
    /// Namespace of the object [default: that of the context; with --snapshot, any]
    #[arg(long, short, value_name = "NAMESPACE", value_parser = NonEmptyStringValueParser::new())]
    namespace: Option<String>,
    /// Explain from a dump (a file or folder from `kubectl get -o json|yaml`) or a recording, instead of a cluster
    #[arg(long, value_name = "FILE|DIR")]
    snapshot: Option<PathBuf>,
    /// Time to report on [default: the newest time in the dump, or the end of the recording]
    #[arg(long, value_name = "RFC3339", requires = "snapshot", value_parser = check::instant)]
    at: Option<Timestamp>,
    /// Output format: table, json or markdown
    #[arg(long, short, value_name = "FORMAT", default_value = "table", value_parser = check::format)]
    output: OutputFormat,
    #[command(flatten)]
    judge: JudgeFlags,
}

const EXAMPLES: &str = "\
Examples:
  loopwatch explain widget web --snapshot dump.yaml   From `kubectl get … -o yaml`

Exit codes: 0 if the object was found, 2 if loopwatch cannot read the object, 64 if the command line
is invalid.";

pub(super) fn explain(args: ExplainArgs, mut settings: Settings) -> anyhow::Result<u8> {
    args.judge.apply(&mut settings);
    let Some(question) = args.question() else {
        super::print_error(
            "explain needs the name of the object: KIND NAME, or KIND/NAME; see `loopwatch explain --help`",
        );
        return Ok(USAGE);
    };
    let text = match &args.snapshot {
        Some(path) => from_file(path, &args, settings, &question)?,
        None => anyhow::bail!("not yet"),
    };
    super::print(&match args.output {
        OutputFormat::Json => text + "\n",
        format => report::explain::text(&serde_json::from_str::<Explained>(&text)?, report::style(format)),
    });
    Ok(SUCCESS)
}

/// Explains from a dump or a recording.
fn from_file(path: &Path, args: &ExplainArgs, settings: Settings, question: &ObjectQuestion) -> anyhow::Result<String> {
    let (model, input) = check::judge_file(path, args.at, &args.judge, &[], settings)?;
    from_model(model, &input, question)
}

fn from_model(model: Model, input: &Input, question: &ObjectQuestion) -> anyhow::Result<String> {
    let not_visible = input.all_blind_spots(&model.snapshot());
    let model = std::sync::Mutex::new(model);
    let address = app::runtime()?.block_on(explain::find(&model, question))?;
    let explanation = model.explain(&address).unwrap_or_default();
    json_of(&explanation, &not_visible)
}

fn json_of(explanation: &loopwatch_model::snapshot::Explanation, not_visible: &[BlindSpot]) -> anyhow::Result<String> {
    Ok(serde_json::to_string(&json::explain(explanation, not_visible))?)
}

// === impl ExplainArgs ===

impl ExplainArgs {
    /// The object; `None` without a name.
    fn question(&self) -> Option<ObjectQuestion> {
        let (kind, name) = match (&self.name, self.kind.split_once('/')) {
            (Some(name), _) => (self.kind.as_str(), name.as_str()),
            (None, Some((kind, name))) if !kind.is_empty() && !name.is_empty() => (kind, name),
            (None, _) => return None,
        };
        let namespace = self.namespace.clone();
        Some(ObjectQuestion { group: String::new(), kind: kind.to_owned(), namespace, name: name.to_owned() })
    }
}
