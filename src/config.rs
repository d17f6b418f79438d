//! The configuration. Each flag here has an environment variable (`LOOPWATCH_…`) and, except
//! `--config`, a key in the configuration file. In a Pod, only few flags are keys ([`Author`]).
//!
//! A flag overrides its variable, a variable overrides the file, and the file overrides the
//! default. clap parses and checks all of them: [`with_variables`] names the variables, and
//! [`with_file`] makes the values in the file the flags' defaults. To add a flag, add a field to
//! one of these structs.

mod file;
mod findings;
pub(crate) mod fuzzing;
mod profiles;
mod spelling;
mod traces;
mod values;
mod web;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Arg, Args, Command, Id};
use loopwatch_model::settings::Settings;
use loopwatch_model::settings::bounds::Bounds;
use loopwatch_model::time::Span;

pub(crate) use self::file::{Author, File};
pub(crate) use self::findings::{OrphanAllow, misspelt_kinds};
pub(crate) use self::profiles::ProfileFlags;
pub(crate) use self::traces::TraceFlags;
use self::values::{
    address, children, label_key, namespace, object_series, process, scrape_interval, secrets,
    whole_number,
};
pub(crate) use self::values::{one_of, operator_name};
pub(crate) use self::web::{WebAuth, WebFlags, closing, decides_access, may_mean_access};
use crate::export::delivery::alertmanager::{AlertLabel, AlertmanagerOptions, alertmanager_url};
use crate::export::delivery::notify::{FindingChoice, Webhook, webhook_url};
use crate::export::metrics::ObjectSeries;
use crate::export::view::{ExternalUrl, Links, RunbookUrl};
use crate::net::HttpUrl;
use crate::sources::api_server::{
    Access, ChildSelection, DEFAULT_MAX_WATCHES, DiscoveryOptions, KindSelector, OperatorName,
    SecretAccess, WantedNamespaces,
};
use crate::sources::decoding::HashKey;
use crate::sources::operator::{
    DEFAULT_INTERVAL, MIN_INTERVAL, ProcessSelection, ScrapeFlag, ScrapeOptions, ScrapeTarget,
};
use crate::sources::supervisor::SourceOptions;

/// The port that loopwatch listens on by default. It is unassigned at IANA, and no exporter on the
/// Prometheus wiki's list uses it.
pub(crate) const DEFAULT_PORT: u16 = 9917;

/// The port on loopback for the page, the API and the profiles in a Pod. It is the next one.
pub(crate) const DEFAULT_UI_PORT: u16 = 9918;

/// The configuration file of `run` unless the user names one. It need not exist.
pub(crate) const DEFAULT_FILE: &str = "/etc/loopwatch/config.yaml";

/// The heading of the flags about a cluster and what to watch in it. With `--from`, a dump or a
/// recording replaces the cluster, so these flags have no effect, except [`ON_FILES`].
const OF_CLUSTER: &str = "Cluster";

/// The flags of the cluster that also divide a dump. Only as arguments: a variable or a file may
/// have them for the cluster.
const ON_FILES: [&str; 2] = ["namespace", "exclude-namespace"];

/// The flag that replaces the cluster by a file.
pub(crate) const FROM: &str = "from";

/// All flags that have a variable and a key of the file. `run` takes all of them, other commands
/// some.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flags {
    /// Which cluster, and what to watch in it.
    #[command(flatten)]
    pub cluster: ClusterFlags,
    /// How to judge objects.
    #[command(flatten)]
    pub judge: JudgeFlags,
    /// How to serve the results.
    #[command(flatten)]
    pub serve: ServeFlags,
    /// Access over HTTP.
    #[command(flatten)]
    pub web: WebFlags,
    /// Where to send events.
    #[command(flatten)]
    pub notify: NotifyFlags,
    /// Where to post alerts.
    #[command(flatten)]
    pub alerting: AlertFlags,
    /// Where to send traces.
    #[command(flatten)]
    pub traces: TraceFlags,
    /// How to take profiles of the operator.
    #[command(flatten)]
    pub profiles: ProfileFlags,
    /// Directory for the checkpoint, which keeps learned deadlines and the age of findings across
    /// restarts
    #[arg(long, value_name = "DIR", help_heading = "Judging")]
    pub state_dir: Option<PathBuf>,
}

/// Which cluster, and what to watch in it.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[command(next_help_heading = OF_CLUSTER)]
pub(crate) struct ClusterFlags {
    /// Kubeconfig file [default: KUBECONFIG, ~/.kube/config, or the Pod's service account]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub context: Option<String>,
    /// Namespaces to watch [default: all that the account may read]
    #[arg(long, short, value_name = "NAMESPACE", value_delimiter = ',', value_parser = namespace)]
    pub namespace: Vec<String>,
    /// Namespaces not to watch, even if --namespace names them
    #[arg(long, value_name = "NAMESPACE", value_delimiter = ',', value_parser = namespace)]
    pub exclude_namespace: Vec<String>,
    /// Label of namespaces that names their team: alerts about objects in a namespace can then get
    /// the label `team`; requires the permission to list and watch namespaces
    #[arg(long, value_name = "KEY", value_parser = label_key)]
    pub team_label: Option<String>,
    /// Kinds that the operator owns, as GROUP/KIND; KIND alone is one of the core group [default:
    /// derived from the permissions of the operator's account]
    #[arg(long, short, value_name = "GROUP/KIND", value_delimiter = ',')]
    pub watch: Vec<KindSelector>,
    /// Act as the service account of this operator; requires the permission to impersonate it
    #[arg(long, value_name = "NAMESPACE/DEPLOYMENT", value_parser = operator_name)]
    pub operator: Option<OperatorName>,
    /// Find all operators of the cluster, and judge each with a model of its own and with loopwatch's own
    /// account; those whose Pods have a loopwatch container are left to it
    #[arg(long, conflicts_with_all = ["operator", "watch", "scrape", "pid"])]
    pub all_operators: bool,
    /// Maximum number of open watches; loopwatch reports kinds beyond it as not visible
    #[arg(long, value_name = "N", default_value_t = DEFAULT_MAX_WATCHES, value_parser = whole_number)]
    pub max_watches: usize,
    /// Child kinds to watch: those of which the operator's objects own some (auto), or none
    #[arg(long, value_name = "auto|none", default_value = "auto", value_parser = children)]
    pub children: ChildSelection,
    /// Secrets: read the metadata of single ones that other objects name (named), list and watch the
    /// metadata of all as a child kind (metadata), or leave them alone (off)
    #[arg(long, value_name = "named|metadata|off", default_value = "named", value_parser = secrets)]
    pub secrets: SecretAccess,
    /// Address of the operator's own metrics, or off [default: found in the operator's Pod]
    #[arg(long, value_name = "URL|off", value_delimiter = ',')]
    pub scrape: Vec<ScrapeFlag>,
    /// Time between two scrapes of the operator's metrics; longer if a scrape would cost the
    /// operator more than 1 % of a core
    #[arg(long, value_name = "DURATION", value_parser = scrape_interval, help = format!(
        "Time between two scrapes of the operator's metrics, at least {} s. loopwatch waits longer if scrapes would cost \
         the operator more than 1 % of a core [default: {}s]", MIN_INTERVAL.as_secs(), DEFAULT_INTERVAL.as_secs()
    ))]
    pub scrape_interval: Option<Duration>,
    /// Process of the operator [default: found if the containers of loopwatch's own Pod share their
    /// processes]
    #[arg(long, value_name = "PID", value_parser = process)]
    pub pid: Option<ProcessSelection>,
}

/// How to judge objects.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
#[command(next_help_heading = "Judging")]
pub(crate) struct JudgeFlags {
    /// Configuration file in YAML; its keys are `settings`, `findings` and the names of flags, in a Pod
    /// only of those that neither connect nor listen nor write
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Time that an object may take to converge, for all kinds (10m) or for one kind
    /// (example.io/Widget=30m).
    #[arg(long, value_name = "[GROUP/KIND=]DURATION", value_delimiter = ',', help = format!(
        "Time that an object may take to converge, for all kinds (10m) or for one kind (example.io/Widget=30m) [default: {}]",
        Settings::default().deadline
    ))]
    pub deadline: Vec<Deadline>,
    /// Objects that may be without an owner: they are no orphans. In both parts, `*` stands for any
    /// text
    #[arg(long, value_name = "NAMESPACE:KIND", value_delimiter = ',')]
    pub orphan_allow: Vec<OrphanAllow>,
}

/// How to serve the results over HTTP.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[command(next_help_heading = "Serving")]
pub(crate) struct ServeFlags {
    /// Address to serve metrics, health checks, page and API on; the default depends on the
    /// command.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address, help = format!(
        "Address to serve metrics, health checks, page and API on [default: 127.0.0.1:{DEFAULT_PORT}, or any free port]"
    ))]
    pub listen: Option<SocketAddr>,
    /// Serve the page and the API to other hosts, too; both show the names of tenants' objects and the
    /// operator's numbers
    #[arg(long)]
    pub expose_ui: bool,
    /// Put the numbers that the operator shows only to authenticated clients or on loopback into
    /// /metrics, although everybody who reaches this port can read it; not needed if the port
    /// authenticates its clients
    #[arg(long)]
    pub export_protected_metrics: bool,
    /// Objects that get series of their own: only unhealthy objects, or all
    #[arg(long, value_name = "unhealthy|all", default_value = "unhealthy", value_parser = object_series)]
    pub object_series: ObjectSeries,
    /// Maximum number of per-object series in each metric family; the default is in the settings.
    #[arg(long, value_name = "N", value_parser = whole_number, help = format!(
        "Maximum number of per-object series in each metric family; the worst objects come first [default: {}]",
        Settings::default().limits.object_series
    ))]
    pub max_object_series: Option<usize>,
    /// URL under which people reach the page, for example through an Ingress; alerts link to it
    #[arg(long, value_name = "URL")]
    pub external_url: Option<ExternalUrl>,
    /// URL under which people reach Grafana with the dashboards of loopwatch; alerts link to them
    #[arg(long, value_name = "URL")]
    pub grafana_url: Option<ExternalUrl>,
    /// URL of your own runbooks, with NAME for the name of a finding; alerts link to them [default:
    /// the runbooks on the page, with --external-url]
    #[arg(long, value_name = "URL")]
    pub runbook_url: Option<RunbookUrl>,
}

/// Where to send events.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[command(next_help_heading = "Notifying")]
pub(crate) struct NotifyFlags {
    /// Webhook for events about references between namespaces, and about the findings that
    /// --notify-findings names; the path defaults to /health/crossns
    #[arg(long, value_name = "URL", value_parser = webhook_url)]
    pub notify: Option<HttpUrl>,
    /// Findings whose changes the webhook gets, too: all, critical, warning, info or names of
    /// findings
    #[arg(long, value_name = "SEVERITY|NAME", value_delimiter = ',')]
    pub notify_findings: Vec<FindingChoice>,
    /// File with the bearer token for the webhook
    #[arg(long, value_name = "FILE")]
    pub notify_token_file: Option<PathBuf>,
    /// File with the certificate authorities of the webhook, in PEM [default: those of the system]
    #[arg(long, value_name = "FILE")]
    pub notify_ca_file: Option<PathBuf>,
}

/// Where to post alerts.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[command(next_help_heading = "Alerting")]
pub(crate) struct AlertFlags {
    /// Alertmanager to post alerts to, for clusters without Prometheus; every address of the host
    /// gets them. With the rules of loopwatch in Prometheus, too, each problem would page twice
    #[arg(long, value_name = "URL", value_delimiter = ',', value_parser = alertmanager_url)]
    pub alertmanager: Vec<HttpUrl>,
    /// File with the bearer token for Alertmanager
    #[arg(long, value_name = "FILE")]
    pub alertmanager_token_file: Option<PathBuf>,
    /// File with the certificate authorities of Alertmanager, in PEM [default: those of the system]
    #[arg(long, value_name = "FILE")]
    pub alertmanager_ca_file: Option<PathBuf>,
    /// Label to add to all alerts, such as cluster=production
    #[arg(long, value_name = "NAME=VALUE", value_delimiter = ',')]
    pub alert_label: Vec<AlertLabel>,
}

/// A deadline for one kind, or for all kinds without their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deadline {
    kind: Option<KindSelector>,
    span: Span,
}

/// Returns a command with only the flags that are also keys of the file.
#[must_use]
pub(crate) fn keys() -> Command {
    Flags::augment_args(Command::new("keys").no_binary_name(true).disable_help_flag(true))
}

/// Lets the environment set the flags of `command` that `named` also has, except the `ignored`
/// ones.
#[must_use]
pub(crate) fn with_variables(command: Command, named: &Command, ignored: &[String]) -> Command {
    let names: Vec<&str> = named.get_arguments().filter_map(Arg::get_long).collect();
    let name = |arg: Arg| match arg.get_long() {
        Some(long) if names.contains(&long) && !ignored.iter().any(|flag| flag == long) => {
            let variable = variable(long);
            arg.env(variable)
        }
        _ => arg,
    };

    command.mut_args(name).mut_subcommands(|subcommand| subcommand.mut_args(name))
}

/// Refuses the flags that have no effect on a file together with `--from`.
#[must_use]
pub(crate) fn with_conflicts(command: Command) -> Command {
    let idle = idle_on_files(&command);
    command.mut_subcommands(|subcommand| {
        // Flags of the command count, too, because they are also flags of its subcommands.
        let idle: Vec<Id> = idle.iter().cloned().chain(idle_on_files(&subcommand)).collect();
        let conflicts = |arg: Arg| match arg.get_id() == FROM {
            true => arg.conflicts_with_all(&idle),
            false => arg,
        };
        with_conflicts(subcommand.mut_args(conflicts))
    })
}

/// The flags of a command that have no effect on a file.
fn idle_on_files(command: &Command) -> Vec<Id> {
    let flags = command.get_arguments().filter(|arg| arg.get_help_heading() == Some(OF_CLUSTER));
    let idle = flags.filter(|arg| arg.get_long().is_none_or(|long| !ON_FILES.contains(&long)));
    idle.map(|arg| arg.get_id().clone()).collect()
}

/// The flags whose variables and keys of the file have no effect on a dump or a recording.
pub(crate) fn not_for_files() -> Vec<String> {
    let command = keys();
    let flags = command.get_arguments().filter(|arg| arg.get_help_heading() == Some(OF_CLUSTER));
    flags.filter_map(Arg::get_long).map(str::to_owned).collect()
}

/// Adds what holds only for `run` to the help of its flags.
#[must_use]
pub(crate) fn with_help_of_run(command: Command) -> Command {
    let config = |arg: Arg| {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        arg.help(format!(
            "{help}. loopwatch reads it again when it changes [default: {DEFAULT_FILE}, if it exists]"
        ))
    };
    let listen = |arg: Arg| {
        arg.help(format!(
            "Address to serve metrics, health checks, page and API on [default: [::]:{DEFAULT_PORT}, which includes IPv4]"
        ))
    };

    command.mut_subcommand("run", |run| run.mut_arg("config", config).mut_arg("listen", listen))
}

/// The environment variable of a flag.
#[must_use]
pub(crate) fn variable(long: &str) -> String {
    format!("LOOPWATCH_{}", long.replace('-', "_").to_uppercase())
}

/// Makes the values of `file` the defaults of the flags of the same names.
#[must_use]
pub(crate) fn with_file(command: Command, file: &File) -> Command {
    command.mut_subcommands(|subcommand| {
        subcommand.mut_args(|arg| match arg.get_long().and_then(|long| file.values.get(long)) {
            Some(values) => arg.default_values(values),
            None => arg,
        })
    })
}

impl Flags {
    /// Applies these flags to `settings`.
    pub(crate) fn apply(&self, settings: &mut Settings) {
        self.judge.apply(settings);
        self.serve.apply(settings);
    }
}

impl ClusterFlags {
    #[must_use]
    pub(crate) fn access(&self) -> Access {
        let Self { kubeconfig, context, operator, .. } = self.clone();
        Access { kubeconfig, context, operator }
    }

    /// The part of these flags that loopwatch leaves out, if any.
    #[must_use]
    pub(crate) fn problem(&self) -> Option<String> {
        ScrapeTarget::of(&self.scrape).problem()
    }

    /// Which namespaces the user wants.
    pub(crate) fn wanted_namespaces(&self) -> WantedNamespaces {
        let (namespaces, excluded) = (self.namespace.clone(), self.exclude_namespace.clone());
        WantedNamespaces { namespaces, excluded }
    }

    /// The options of the sources; `hash_key` is the key of the fingerprints.
    #[must_use]
    pub(crate) fn source_options(&self, hash_key: HashKey, settings: &Settings) -> SourceOptions {
        SourceOptions {
            annotations: settings.annotations().into(),
            discovery: DiscoveryOptions {
                watch: self.watch.clone(),
                namespaces: self.namespace.clone(),
                exclude_namespaces: self.exclude_namespace.clone(),
                max_watches: self.max_watches,
                children: self.children,
                secrets: self.secrets,
                ..DiscoveryOptions::new(hash_key)
            },
            team_label: self.team_label.clone(),
            scrape: ScrapeOptions {
                target: ScrapeTarget::of(&self.scrape),
                interval: self.scrape_interval.unwrap_or(DEFAULT_INTERVAL),
                standalone: self.operator.is_some(),
                ..ScrapeOptions::default()
            },
            process: self.pid.unwrap_or_default(),
            ..SourceOptions::new(hash_key)
        }
    }
}

impl JudgeFlags {
    /// Applies these flags to `settings`, which may already contain them.
    pub(crate) fn apply(&self, settings: &mut Settings) {
        self.orphan_allow.iter().for_each(|allow| allow.apply(settings));
        for Deadline { kind, span } in &self.deadline {
            match kind {
                None => settings.deadline = *span,
                Some(kind) => _ = settings.deadlines.insert(kind.to_string(), *span),
            }
        }
    }
}

impl ServeFlags {
    /// Applies the limits of these flags to `settings`.
    pub(crate) fn apply(&self, settings: &mut Settings) {
        if let Some(limit) = self.max_object_series {
            settings.limits.object_series = limit;
        }
    }

    /// Where alerts link.
    #[must_use]
    pub(crate) fn links(&self) -> Links {
        Links {
            page: self.external_url.clone(),
            grafana: self.grafana_url.clone(),
            runbooks: self.runbook_url.clone(),
        }
    }
}

impl NotifyFlags {
    #[must_use]
    pub(crate) fn webhook(&self) -> Option<Webhook> {
        let Self {
            notify,
            notify_findings: findings,
            notify_token_file: token_file,
            notify_ca_file: ca_file,
        } = self.clone();
        notify.map(|url| Webhook { url, token_file, ca_file, findings })
    }
}

impl AlertFlags {
    /// Where to post alerts, if the user wants any.
    #[must_use]
    pub(crate) fn options(&self, links: Links) -> Option<AlertmanagerOptions> {
        let Self { alertmanager, alertmanager_token_file, alertmanager_ca_file, alert_label } =
            self.clone();
        (!alertmanager.is_empty()).then_some(AlertmanagerOptions {
            urls: alertmanager,
            token_file: alertmanager_token_file,
            ca_file: alertmanager_ca_file,
            labels: alert_label,
            operator: None,
            links,
        })
    }
}

impl Deadline {
    /// Parses the time, which has the bounds of the setting.
    fn span(text: &str) -> Result<Span, String> {
        let (span, bounds) = (Span::parse(text)?, Bounds::of_duration("deadline"));
        let is_valid = u64::try_from(span.0).is_ok_and(|number| bounds.contains(number));
        if is_valid { Ok(span) } else { Err(format!("expected {bounds}, not {text:?}")) }
    }
}

impl FromStr for Deadline {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.rsplit_once('=') {
            None => Ok(Self { kind: None, span: Self::span(text)? }),
            // `--watch` accepts kubectl's plural, but here no API server can resolve it to a kind.
            Some((kind, _)) if kind.contains('.') && !kind.contains('/') => {
                Err(format!("expected GROUP/KIND, for example example.io/Widget=30m, not {kind:?}"))
            }
            Some((kind, span)) => {
                let kind = kind.parse().map_err(|error| format!("{error}"))?;
                Ok(Self { kind: Some(kind), span: Self::span(span)? })
            }
        }
    }
}

#[cfg(test)]
mod tests;
