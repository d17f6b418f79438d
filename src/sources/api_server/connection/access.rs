//! How to reach a cluster: finds the kubeconfig or the service account of the Pod, and names what
//! is wrong with it.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use kube::Config;
use kube::config::{ExecInteractiveMode, KubeConfigOptions, Kubeconfig, KubeconfigError};
use loopwatch_model::observation::Cause;
use serde::{Deserialize, Serialize};

use super::{kubeconfig_files, proxy};
use crate::net::{Failure, first_line};
use crate::system::own_pod::in_pod;

/// How to reach a cluster. By default, loopwatch finds it as `kubectl` does, or as any program in a
/// Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Access {
    /// A kubeconfig file. Default: `KUBECONFIG`, `~/.kube/config`, or the Pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig.
    pub context: Option<String>,
    /// The operator whose service account to impersonate. The account in use needs the permission
    /// to do so.
    pub operator: Option<OperatorName>,
}

/// An operator, named by its workload: a Deployment, StatefulSet or DaemonSet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct OperatorName {
    pub namespace: String,
    pub name: String,
}

impl std::fmt::Display for OperatorName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The reason why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    /// There is no kubeconfig, and this is not a Pod.
    #[error(
        "cannot find a cluster: there is no kubeconfig ({looked}), and loopwatch does not run in a Pod; set --kubeconfig FILE"
    )]
    NothingFound {
        /// Where loopwatch looked for a kubeconfig.
        looked: String,
    },
    /// The kubeconfig cannot be used.
    #[error("cannot use the kubeconfig {file}: {reason}")]
    Kubeconfig { file: String, reason: String },
    /// This is a Pod, but its service account cannot be used.
    #[error(
        "cannot use the service account of this Pod: {0}; check automountServiceAccountToken, or set --kubeconfig FILE"
    )]
    InCluster(kube::config::InClusterError),
    /// The client cannot be built from the configuration.
    #[error("cannot connect to {url}: {reason}")]
    Client { url: String, reason: String },
    /// The API server does not respond, or refuses the request.
    #[error("cannot read from {url}: {failure}{}", advice(failure.cause))]
    Unreachable { url: String, failure: Failure },
    /// The named operator does not exist, or the account may not read it.
    #[error(
        "cannot act as the operator {namespace}/{name}: {failure}; --operator expects NAMESPACE/DEPLOYMENT"
    )]
    Operator { namespace: String, name: String, failure: Failure },
}

/// Finds the configuration: the named kubeconfig, a default one, or the Pod's. Also returns whether
/// it is the Pod's. A broken kubeconfig is an error, even in a Pod.
pub(super) async fn load(access: &Access) -> Result<(Config, bool), ConnectError> {
    let named = access.kubeconfig.clone();
    let from_env = std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty());
    let home = std::env::home_dir().map(|home| home.join(".kube/config"));
    let in_home = home.as_deref().is_some_and(Path::exists);
    let file = match (&named, &from_env, &home) {
        (Some(file), ..) => file.display().to_string(),
        (None, Some(files), _) => PathBuf::from(files).display().to_string(),
        (None, None, Some(file)) => file.display().to_string(),
        (None, None, None) => "~/.kube/config".to_owned(),
    };

    if named.is_none() && from_env.is_none() && !in_home && access.context.is_none() {
        if !in_pod() {
            return Err(ConnectError::NothingFound { looked: file });
        }
        return Config::incluster().map(|config| (config, true)).map_err(ConnectError::InCluster);
    }

    let options =
        KubeConfigOptions { context: access.context.clone(), ..KubeConfigOptions::default() };
    let refuse = |files: &[PathBuf]| match kubeconfig_files::problem(files) {
        Some(reason) => Err(ConnectError::Kubeconfig { file: file.clone(), reason }),
        None => Ok(()),
    };

    refuse(&kubeconfig_files::kubeconfigs(named.as_deref(), from_env.as_deref(), home.as_deref()))?;
    let read = match &named {
        Some(file) => Kubeconfig::read_from(file),
        None => Kubeconfig::read(),
    };
    let wrong = |error: KubeconfigError| {
        let reason = match error {
            // The text of the outer error would repeat the name of the file.
            KubeconfigError::ReadConfig(error, _) => first_line(&error),
            error => first_line(&error),
        };

        ConnectError::Kubeconfig { file: file.clone(), reason }
    };

    let kubeconfig = read.map_err(wrong)?;
    refuse(&kubeconfig_files::named_by(&kubeconfig, options.context.as_deref()))?;

    let proxy = proxy::of_kubeconfig(&kubeconfig, options.context.as_deref());
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(wrong)?;
    proxy::set(&mut config, proxy.as_deref());

    // As with kubectl, a login plugin is interactive only at a terminal. Otherwise its error
    // output, which may contain credentials, would become part of the log.
    if let Some(plugin) = config.auth_info.exec.as_mut().filter(|_| !std::io::stdin().is_terminal())
    {
        plugin.interactive_mode = Some(ExecInteractiveMode::Never);
    }

    Ok((config, false))
}

/// Advice for a failing connection.
fn advice(cause: Cause) -> &'static str {
    match cause {
        Cause::Unauthorized => "; have the credentials of this context expired?",
        Cause::Tls => "; does the kubeconfig contain the certificate authority of this API server?",
        Cause::Connection | Cause::Timeout => "; is it running, and is this the right context?",
        _ => "",
    }
}
