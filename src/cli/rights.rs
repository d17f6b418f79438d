//! `loopwatch rights`: the permissions of the operator's account, and which of them it uses.

use std::path::PathBuf;

use clap::Args;
use loopwatch_model::settings::Settings;
use loopwatch_model::time::{Span, Timestamp};

use super::{SUCCESS, check};
use crate::app;
use crate::config::{ClusterFlags, JudgeFlags};
use crate::export::presentation::json;
use crate::export::presentation::report::{OutputFormat, Style, rights_report};
use crate::sources::api_server::Selection;

/// Flags of `rights`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct RightsArgs {
    /// Report on the end of a recording, instead of a cluster
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Time to report on [default: the end of the recording]
    #[arg(long, alias = "until", value_name = "RFC3339", requires = "from", value_parser = check::instant)]
    at: Option<Timestamp>,
    /// Output format: table, json, yaml or markdown
    #[arg(long, short, value_name = "FORMAT", default_value = "table", value_parser = check::format)]
    output: OutputFormat,
    /// Time after which to print the report even if some lists are incomplete
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = Span::parse, help_heading = "Cluster")]
    timeout: Span,
    #[command(flatten)]
    pub(super) cluster: ClusterFlags,
    #[command(flatten)]
    judge: JudgeFlags,
}

const EXAMPLES: &str = "\
Examples:
  loopwatch rights --operator ops/widget-operator    As an administrator who may impersonate it
  kubectl exec POD -c loopwatch -- loopwatch rights  In the operator's Pod, with its account
  loopwatch rights --from incident.jsonl.gz          From a recording, with deleted objects
  loopwatch rights -o json                           For scripts

The permissions come from a review of the account's own rules, which every account may request.
Their use comes from the managed fields of the objects that loopwatch watches, and from the
operator's leases. It needs no permission that `loopwatch run` does not need. Each permission is
one of:
  used         An object records a write of the operator. Unless the write is a server-side apply,
               it counts as update and as patch, because the API server does not record which it
               was.
  not_seen     loopwatch watches the objects and finds no such write. The permission may still be in
               use: deleted objects leave no trace, and a rare task may need it.
  wildcard     It has a `*`. The report lists the uses of it that loopwatch has observed.
  not_visible  A read, a deletion, another verb, or objects that loopwatch does not watch. Neither
               objects nor the operator's metrics show these; the audit log of the API server does.
The report leaves out rules for single named objects, and rules for URLs. A part of it:
  Not seen in use
    RESOURCE                   VERBS          WHERE
    widgets.example.io         create         all namespaces
  In use
    RESOURCE                   VERBS          WHERE           LAST
    widgets.example.io/status  update, patch  all namespaces  2026-01-31T12:00:00.000Z";

pub(super) fn rights(args: RightsArgs, mut settings: Settings) -> anyhow::Result<u8> {
    args.judge.apply(&mut settings);
    let model = match &args.from {
        Some(path) => {
            let namespaces = args.cluster.wanted_namespaces();
            check::judge_file(path, args.at, &args.judge, &namespaces, settings)?.0
        }
        None => {
            let select = Selection::OperatorPermissions;
            let looked = check::judge_cluster(&args.cluster, args.timeout, select, settings);
            app::runtime()?.block_on(looked)?.0
        }
    };

    let rights = model.rights();
    if let Some(path) = args.from.as_ref().filter(|_| rights.granted.is_empty()) {
        super::print_error(&format!(
            "{} contains no review of permissions, so the report cannot list any. Dumps have none; a recording has them if \
             this version of `loopwatch record` wrote it and the account could review its rules",
            path.display()
        ));
    }

    super::print(&match args.output {
        format if format.is_for_programs() => {
            format.convert(&serde_json::to_string(&json::rights(&rights))?)?
        }
        format => rights_report(&rights, Style::of_stdout(format)),
    })?;

    Ok(SUCCESS)
}
