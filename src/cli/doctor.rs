//! `loopwatch doctor`: looks at an installation of loopwatch, and says what does not work.

mod installed; // whether loopwatch runs beside the operators
mod monitors; // whether a monitor selects its Pods
mod prometheuses; // whether a Prometheus selects monitors and rules
mod rights; // what the account may not read
mod running; // what a running loopwatch says about itself
#[cfg(test)]
mod tests;

use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use loopwatch_model::time::Span;
use tokio::time::timeout;

use super::connection::ConnectionFlags;
use super::server::{self, ServerUrl};
use super::{FAILURE, FINDINGS, SUCCESS, check};
use crate::app;
use crate::config::{DEFAULT_UI_PORT, operator_name};
use crate::export::presentation::json;
use crate::export::presentation::report::{OutputFormat, Style, doctor_report};
use crate::export::view::{Check, CheckState, Topic};
use crate::sources::api_server::{Cluster, OperatorName};
use crate::sources::survey::{Part, Surroundings};
use crate::system::own_pod;

/// Flags of `doctor`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct DoctorArgs {
    /// Look only at operators in this namespace [default: all namespaces; in a Pod, that of the Pod]
    #[arg(long, short, value_name = "NAMESPACE", value_parser = NonEmptyStringValueParser::new())]
    namespace: Option<String>,
    /// Also ask a running loopwatch [default without a URL: http://127.0.0.1:9917, as after `kubectl
    /// port-forward`; in a Pod: http://127.0.0.1:9918, even without the flag]
    #[arg(long, value_name = "URL", num_args = 0..=1, default_missing_value = server::FORWARDED)]
    server: Option<ServerUrl>,
    /// Also check the permissions of this operator's account, by impersonating it. In a Pod, doctor checks
    /// those of the Pod's account
    #[arg(long, value_name = "NAMESPACE/DEPLOYMENT", value_parser = operator_name)]
    operator: Option<OperatorName>,
    /// How long to wait for all answers of the API server
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = Span::parse)]
    timeout: Span,
    /// Output format: table, json, yaml or markdown
    #[arg(long, short, value_name = "FORMAT", default_value = "table", value_parser = check::format)]
    output: OutputFormat,
    #[command(flatten)]
    connection: ConnectionFlags,
}

const EXAMPLES: &str = "\
Examples:
  loopwatch doctor                            Does it run, and does anybody scrape it?
  loopwatch doctor -n ops --server            Also ask it, behind `kubectl port-forward`
  loopwatch doctor --operator ops/my-manager  Also check what the operator's account may read
  kubectl exec POD -c loopwatch -- loopwatch doctor  In the Pod, with the account of the Pod

doctor sends only get and list requests and reviews, and changes nothing. It checks:
  sidecar     Which workloads have a loopwatch container, whether it runs, and which operators
              beside them have none, by the labels that deploy/components/operator looks for.
  kinds       Which kinds loopwatch watches, or why it watches none. Needs --server.
  rights      Which permissions loopwatch lacks. Needs --server, --operator or a Pod.
  monitor     Whether a PodMonitor or ServiceMonitor selects the Pods: the namespace, the
              labels, the name of the port.
  prometheus  Whether a Prometheus selects this monitor, by its labels and those of its namespace.
  rules       Whether a Prometheus selects the alert rules.
  scrapes     Whether anybody has read /metrics lately (scrape_expected_within). Needs
              --server.
Without a cluster, doctor --server makes only the checks of the running loopwatch, and names the
others.
The result of a check is in order, a problem, limited (it works, but loopwatch sees less),
unknown (the account lacks the permission to look), or not in use. Without the Prometheus
Operator, monitor, prometheus and rules are not in use.";

pub(super) fn doctor(args: DoctorArgs) -> anyhow::Result<u8> {
    let (checks, facts) = app::runtime()?.block_on(async {
        let within = Duration::from_millis(args.timeout.0.unsigned_abs());
        timeout(within, look(&args)).await.unwrap_or_else(|_| {
            anyhow::bail!(
                "the API server has not answered everything within {}; see --timeout and --namespace",
                args.timeout
            )
        })
    })?;
    super::print(&match args.output {
        format if format.is_for_programs() => {
            format.convert(&serde_json::to_string(&json::doctor(&checks))?)?
        }
        format => doctor_report(&checks, facts, Style::of_stdout(format)),
    })?;

    let has = |state| checks.iter().any(|check| check.state == state);
    Ok(match has(CheckState::Problem) {
        true => FINDINGS,
        // Nothing but refusals is no diagnosis.
        false
            if !has(CheckState::Well) && !has(CheckState::Limited) && has(CheckState::Unknown) =>
        {
            FAILURE
        }
        false => SUCCESS,
    })
}

/// Makes all checks, and says where it has looked. A server that the user names needs no cluster.
async fn look(args: &DoctorArgs) -> anyhow::Result<(Vec<Check>, Vec<String>)> {
    let of_cluster = look_at_cluster(args).await;
    let Some(server) = &args.server else { return of_cluster };

    let (mut checks, mut facts) =
        of_cluster.unwrap_or_else(|error| (vec![skipped(args, &error)], Vec::new()));
    facts.push(format!("Asked loopwatch at {server}"));
    checks.extend(running::checks(&server::ask(server, running::PATH).await?)?);
    Ok((checks, facts))
}

/// Makes the checks that need the API server.
async fn look_at_cluster(args: &DoctorArgs) -> anyhow::Result<(Vec<Check>, Vec<String>)> {
    let cluster = app::connect(&args.connection.access(None)).await?;
    let in_pod = own_pod::in_pod();
    let home = in_pod.then(|| cluster.namespace().to_owned());
    let namespace = args.namespace.clone().or(home);
    let surroundings = Surroundings::read(&cluster, namespace.as_deref()).await;

    let place = namespace
        .map_or_else(|| "all namespaces".to_owned(), |name| format!("the namespace {name}"));
    let mut facts = vec![format!("Looked at {place} of {}", cluster.url())];
    let mut checks = of_surroundings(&surroundings, &place);

    checks.extend(match &args.operator {
        Some(operator) => {
            let acting = app::connect(&args.connection.access(Some(operator.clone()))).await?;
            facts.push(format!(
                "Checked the permissions of the operator {}/{}",
                operator.namespace, operator.name
            ));
            Some(rights::check(&acting, &operator.namespace).await)
        }
        None if in_pod => Some(rights::check(&cluster, cluster.namespace()).await),
        None => None,
    });

    match (&args.server, in_pod) {
        (Some(_), _) => {}
        (None, true) => checks.extend(of_own_pod(&cluster).await),
        (None, false) => checks.push(not_asked(&surroundings)),
    }

    Ok((checks, facts))
}

/// Names the checks that need a cluster, and why doctor has not made them.
fn skipped(args: &DoctorArgs, error: &anyhow::Error) -> Check {
    let rights = if args.operator.is_some() { ", rights" } else { "" };
    let text =
        format!("Skipped the checks sidecar{rights}, monitor, prometheus and rules: {error:#}.");
    Check::new(Topic::Sidecar, CheckState::Unknown, text)
        .advise("Run doctor again with a kubeconfig to make them.")
}

/// The checks of what the API server shows.
fn of_surroundings(surroundings: &Surroundings, place: &str) -> Vec<Check> {
    let mut checks = installed::checks(surroundings, place);
    let (of_monitors, covering) = monitors::checks(surroundings);
    checks.extend(of_monitors);
    checks.extend(prometheuses::of_monitors(surroundings, &covering));
    checks.extend(prometheuses::of_rules(surroundings));
    checks
}

/// Asks the loopwatch in the same Pod.
async fn of_own_pod(cluster: &Cluster) -> Vec<Check> {
    let asked = match format!("http://127.0.0.1:{DEFAULT_UI_PORT}").parse::<ServerUrl>() {
        Ok(own) => server::ask(&own, running::PATH).await,
        Err(error) => Err(anyhow::anyhow!(error)),
    };
    match asked.and_then(|status| running::checks(&status)) {
        Ok(checks) => checks,
        Err(error) => vec![
            Check::new(Topic::Kinds, CheckState::Unknown, format!("{error:#}."))
                .advise("If loopwatch serves its API at another address, name it with --server.")
                .next(format!("kubectl -n {} logs POD -c loopwatch", cluster.namespace())),
        ],
    }
}

/// Says that nobody has asked a running loopwatch, and how to.
fn not_asked(surroundings: &Surroundings) -> Check {
    let text =
        "No running loopwatch was asked about its kinds, its permissions and its last scrape.";
    let check = Check::new(Topic::Scrapes, CheckState::Off, text);
    let with = surroundings.workloads.items.iter().find(|workload| workload.loopwatch().is_some());
    match with {
        Some(workload) => {
            let (kind, metadata) = (workload.kind.to_lowercase(), &workload.metadata);
            check
                .advise("Forward its port in another terminal, and add --server:")
                .next(format!(
                    "kubectl -n {} port-forward {kind}/{} 9917:9918",
                    metadata.namespace, metadata.name
                ))
                .next("loopwatch doctor --server")
        }
        None => check,
    }
}

/// A check that says why a kind could not be read completely, unless it could.
fn unknown<T>(part: &Part<T>, topic: Topic) -> Option<Check> {
    let why = &part.left_out;
    (!why.is_empty()).then(|| {
        Check::new(topic, CheckState::Unknown, format!("Cannot see everything: {why}."))
            .advise("Run doctor with an account that may list them.")
    })
}
