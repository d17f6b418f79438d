//! Flags, environment and file, parsed once into something that cannot be wrong.
//!
//! A flag wins over its environment variable (`LOOPWATCH_…`), which wins over the file, which wins over the default.
//! All three have the same names and meanings. A bad value is one clear line; `run` goes on without it.

mod file;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use loopwatch_model::settings::Settings;
use loopwatch_model::time::Span;

pub use self::file::File;
use crate::export::prometheus::ObjectSeries;
use crate::sources::cluster::{Access, OperatorName};
use crate::sources::options::KindSelector;

/// Where loopwatch listens when nobody says otherwise. Unassigned at IANA, and not among the ports of the Prometheus
/// wiki's list of exporters.
pub const DEFAULT_LISTEN: &str = "0.0.0.0:9917";

/// Which cluster, and what in it.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterFlags {
    /// Kubeconfig file [default: KUBECONFIG, ~/.kube/config, or the Pod's service account]
    #[arg(long, value_name = "FILE", env = "LOOPWATCH_KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME", env = "LOOPWATCH_CONTEXT")]
    pub context: Option<String>,
    /// Look only at these namespaces [default: all that the rights allow]
    #[arg(long, short, value_name = "NAMESPACE", value_delimiter = ',', env = "LOOPWATCH_NAMESPACE")]
    pub namespace: Vec<String>,
    /// Kinds that the operator owns, as GROUP/KIND [default: found from its rights]
    #[arg(long, short, value_name = "GROUP/KIND", value_delimiter = ',', env = "LOOPWATCH_WATCH")]
    pub watch: Vec<KindSelector>,
    /// Ask as the service account of this operator's Deployment; needs the right to impersonate it
    #[arg(long, value_name = "NAMESPACE/DEPLOYMENT", env = "LOOPWATCH_OPERATOR", value_parser = operator_name)]
    pub operator: Option<OperatorName>,
    /// Connections for watches that may be open at once; kinds beyond it are reported as not seen [default: 64]
    #[arg(long, value_name = "N", env = "LOOPWATCH_MAX_WATCHES")]
    pub max_watches: Option<usize>,
}

/// How to judge.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Judging")]
pub struct JudgeFlags {
    /// Configuration file in YAML; its keys are the names of the flags, and `settings:` holds every threshold
    #[arg(long, value_name = "FILE", env = "LOOPWATCH_CONFIG")]
    pub config: Option<PathBuf>,
    /// How long an object may take to converge: for all kinds (10m) or one (example.io/Widget=30m) [default: 10m]
    #[arg(long, value_name = "[GROUP/KIND=]DURATION", value_delimiter = ',', env = "LOOPWATCH_DEADLINE")]
    pub deadline: Vec<String>,
}

/// How to show what was found over HTTP.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Serving")]
pub struct ServeFlags {
    /// Address for metrics, health, page and API [default: 0.0.0.0:9917; demo and replay: 127.0.0.1:9917]
    #[arg(long, value_name = "ADDRESS:PORT", env = "LOOPWATCH_LISTEN")]
    pub listen: Option<SocketAddr>,
    /// Let other hosts see the page and the API too: they show names of tenants' objects
    #[arg(long, env = "LOOPWATCH_EXPOSE_UI")]
    pub expose_ui: bool,
    /// Series of single objects: only those with something wrong, or one set for each [default: unhealthy]
    #[arg(long, value_name = "unhealthy|all", env = "LOOPWATCH_OBJECT_SERIES", value_parser = object_series)]
    pub object_series: Option<ObjectSeries>,
    /// Most series of single objects per metric family, worst first [default: 500]
    #[arg(long, value_name = "N", env = "LOOPWATCH_MAX_OBJECT_SERIES")]
    pub max_object_series: Option<usize>,
}

/// Everything a command needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// How to reach the cluster.
    pub access: Access,
    /// Namespaces to look at; empty for all.
    pub namespaces: Vec<String>,
    /// Kinds that are named.
    pub watch: Vec<KindSelector>,
    /// Connections for watches.
    pub max_watches: usize,
    /// Thresholds and bounds.
    pub settings: Settings,
    /// Where to listen, when that was said.
    pub listen: Option<SocketAddr>,
    /// Whether other hosts see the page.
    pub expose_ui: bool,
    /// Which objects get series.
    pub object_series: ObjectSeries,
    /// Where what was learnt is kept across restarts.
    pub state_dir: Option<PathBuf>,
}

/// Something in the configuration that cannot be used: what, where, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Problem(pub String);

// === impl Config ===

impl Config {
    /// Brings flags, environment and file together.
    ///
    /// # Errors
    /// The first thing that cannot be used.
    pub fn new(cluster: ClusterFlags, judge: JudgeFlags, serve: ServeFlags) -> Result<Self, Problem> {
        let file = judge.config.as_deref().map(File::read).transpose()?.unwrap_or_default();
        let mut settings = file.settings.unwrap_or_default();
        for deadline in file.deadline.iter().chain(&judge.deadline) {
            set_deadline(&mut settings, deadline)?;
        }
        if let Some(limit) = serve.max_object_series.or(file.max_object_series) {
            settings.limits.object_series = limit;
        }
        Ok(Self {
            access: Access {
                kubeconfig: cluster.kubeconfig.or(file.kubeconfig),
                context: cluster.context.or(file.context),
                operator: match (cluster.operator, file.operator) {
                    (Some(operator), _) => Some(operator),
                    (None, Some(text)) => Some(operator_name(&text).map_err(Problem)?),
                    (None, None) => None,
                },
            },
            namespaces: if cluster.namespace.is_empty() { file.namespace } else { cluster.namespace },
            watch: if cluster.watch.is_empty() { selectors(&file.watch)? } else { cluster.watch },
            max_watches: cluster.max_watches.or(file.max_watches).unwrap_or(64),
            settings,
            listen: match (serve.listen, file.listen) {
                (Some(listen), _) => Some(listen),
                (None, Some(text)) => Some(address(&text)?),
                (None, None) => None,
            },
            expose_ui: serve.expose_ui || file.expose_ui.unwrap_or_default(),
            object_series: match (serve.object_series, file.object_series) {
                (Some(series), _) => series,
                (None, Some(text)) => object_series(&text).map_err(Problem)?,
                (None, None) => ObjectSeries::default(),
            },
            state_dir: file.state_dir,
        })
    }

    /// As [`Config::new`], but what cannot be used is left out and told: first the file, then everything.
    #[must_use]
    pub fn at_any_price(cluster: ClusterFlags, judge: JudgeFlags, serve: ServeFlags) -> (Self, Vec<Problem>) {
        let mut problems = Vec::new();
        let no_file = JudgeFlags { config: None, ..judge.clone() };
        for judge in [judge, no_file, JudgeFlags::default()] {
            match Self::new(cluster.clone(), judge, serve.clone()) {
                Ok(config) => return (config, problems),
                Err(problem) if problems.contains(&problem) => {}
                Err(problem) => problems.push(problem),
            }
        }
        (Self::fallback(), problems)
    }

    /// The configuration without any flag, variable or file.
    #[must_use]
    pub fn fallback() -> Self {
        Self {
            access: Access::default(),
            namespaces: Vec::new(),
            watch: Vec::new(),
            max_watches: 64,
            settings: Settings::default(),
            listen: None,
            expose_ui: false,
            object_series: ObjectSeries::default(),
            state_dir: None,
        }
    }
}

fn set_deadline(settings: &mut Settings, text: &str) -> Result<(), Problem> {
    let wrong = |reason: String| Problem(format!("deadline {text:?}: {reason}"));
    match text.rsplit_once('=') {
        None => settings.deadline = Span::parse(text).map_err(wrong)?,
        Some((kind, span)) => {
            let span = Span::parse(span).map_err(wrong)?;
            let kind: KindSelector = kind.parse().map_err(|error| wrong(format!("{error}")))?;
            settings.deadlines.insert(kind.to_string(), span);
        }
    }
    Ok(())
}

fn selectors(texts: &[String]) -> Result<Vec<KindSelector>, Problem> {
    let parse = |text: &String| text.parse().map_err(|error| Problem(format!("watch: {error}")));
    texts.iter().map(parse).collect()
}

fn address(text: &str) -> Result<SocketAddr, Problem> {
    text.parse().map_err(|_| Problem(format!("listen {text:?} is not ADDRESS:PORT, for example 0.0.0.0:9917")))
}

fn operator_name(text: &str) -> Result<OperatorName, String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok(OperatorName { namespace: namespace.to_owned(), name: name.to_owned() })
        }
        _ => Err(format!("{text:?} does not name an operator; write NAMESPACE/DEPLOYMENT")),
    }
}

fn object_series(text: &str) -> Result<ObjectSeries, String> {
    match text {
        "unhealthy" => Ok(ObjectSeries::Unhealthy),
        "all" => Ok(ObjectSeries::All),
        _ => Err(format!("{text:?} is neither unhealthy nor all")),
    }
}

/// Shows a path in messages.
pub(crate) fn shown(path: &Path) -> String {
    path.display().to_string()
}
