//! `loopwatch explain`: shows one object on one screen.

mod cluster; // one look at a cluster
mod file; // a recording or a dump

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use loopwatch_model::settings::Settings;
use loopwatch_model::snapshot::Explanation;
use loopwatch_model::time::Timestamp;

use super::connection::ConnectionFlags;
use super::object::{self, ObjectArgs};
use super::server::{self, ServerUrl};
use super::{SUCCESS, check};
use crate::app;
use crate::config::JudgeFlags;
use crate::export::presentation::json::{self, Explained};
use crate::export::presentation::report::{OutputFormat, Style, explain_report};
use crate::export::view::{BlindSpot, ObjectQuestion};
use crate::net::percent_encode;

/// Flags of `explain`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct ExplainArgs {
    #[command(flatten)]
    object: ObjectArgs,
    /// Namespace of the object [default: that of the context; with --server and --from, any]
    #[arg(long, short, value_name = "NAMESPACE", value_parser = NonEmptyStringValueParser::new())]
    namespace: Option<String>,
    /// Ask a running loopwatch, which also knows the history of the object [default without a URL:
    /// http://127.0.0.1:9917, as after `kubectl port-forward`]
    #[arg(long, value_name = "URL", num_args = 0..=1, default_missing_value = server::FORWARDED, conflicts_with_all = ["from", "kubeconfig", "context"])]
    server: Option<ServerUrl>,
    /// Explain from a dump (a file or folder from `kubectl get -o json|yaml`) or a recording,
    /// instead of a cluster
    #[arg(long, alias = "snapshot", value_name = "FILE|DIR")]
    from: Option<PathBuf>,
    /// Time to report on [default: the newest time in the dump, or the end of the recording]
    #[arg(long, alias = "until", value_name = "RFC3339", requires = "from", value_parser = check::instant)]
    at: Option<Timestamp>,
    /// Output format: table, json, yaml or markdown
    #[arg(long, short, value_name = "FORMAT", default_value = "table", value_parser = check::format)]
    output: OutputFormat,
    #[command(flatten)]
    connection: ConnectionFlags,
    #[command(flatten)]
    judge: JudgeFlags,
}

const EXAMPLES: &str = "\
Examples:
  loopwatch explain widget web -n team-a              Why is it not ready, or not gone?
  loopwatch explain widget web --server               From a running loopwatch, with its history
  loopwatch explain widget web --from incident.jsonl  From a recording; --at selects the instant
  loopwatch explain deploy/web -o json                For scripts

explain sends only get and list requests. It shows generations and ages, conditions, owners and
children as a tree, finalizers with the actor that should remove each, and the open findings:
  - By default, explain looks at the cluster once. It reads the object, and the metadata of all
    objects in its namespace to find its children. It reads the status of at most 200 of them, and
    no contents of Secrets. It cannot know how long finalizers usually take, or whether a controller
    was alive before.
  - A running loopwatch (--server) knows that for the kinds that it watches. To reach a sidecar, run
    `kubectl port-forward POD 9917:9918` first. Plain http:// is only for this host.
The report names the kinds that the account may not read.";

pub(super) fn explain(args: ExplainArgs, mut settings: Settings) -> anyhow::Result<u8> {
    args.judge.apply(&mut settings);
    let Some(question) = args.question() else {
        return Ok(object::refuse_without_name("explain"));
    };
    let text = match (&args.server, &args.from) {
        (Some(server), _) => app::runtime()?.block_on(server::ask(server, &path(&question)))?,
        (None, Some(path)) => {
            let read = file::read(path, args.at, &args.judge, settings, &question);
            let (explanation, not_visible) =
                read.map_err(|error| args.object.with_advice(error))?;
            json_of(&explanation, &not_visible)?
        }
        (None, None) => {
            let look = cluster::look(args.connection.access(None), settings, &question);
            let looked = app::runtime()?.block_on(look);
            let (explanation, not_visible) =
                looked.map_err(|error| args.object.with_advice(error))?;
            json_of(&explanation, &not_visible)?
        }
    };

    let explained: Explained =
        serde_json::from_str(&text).context("the response does not explain an object")?;
    super::print(&match args.output {
        format if format.is_for_programs() => format.convert(&text)?,
        format => explain_report(&explained, Style::of_stdout(format)),
    })?;

    Ok(SUCCESS)
}

/// The path of the explanation in the API.
fn path(question: &ObjectQuestion) -> String {
    let ObjectQuestion { group, kind, namespace, name } = question;
    let mut path = format!(
        "/api/v1/explain?kind={}&name={}&group={}",
        percent_encode(kind),
        percent_encode(name),
        percent_encode(group)
    );

    if let Some(namespace) = namespace {
        path.push_str(&format!("&namespace={}", percent_encode(namespace)));
    }

    path
}

fn json_of(explanation: &Explanation, not_visible: &[BlindSpot]) -> anyhow::Result<String> {
    Ok(serde_json::to_string(&json::explain(explanation, String::new(), not_visible))?)
}

impl ExplainArgs {
    /// The object that the user asks about; `None` without a name.
    fn question(&self) -> Option<ObjectQuestion> {
        let (kind, name) = self.object.kind_and_name()?;
        let namespace = self.namespace.clone();
        Some(ObjectQuestion {
            group: String::new(),
            kind: kind.to_owned(),
            namespace,
            name: name.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded() {
        let question = ObjectQuestion {
            kind: "a&b".to_owned(),
            name: "x/../y z".to_owned(),
            ..ObjectQuestion::default()
        };

        assert_eq!(path(&question), "/api/v1/explain?kind=a%26b&name=x%2F..%2Fy%20z&group=");
    }
}
