//! The connection to one cluster: found in a Pod or in a kubeconfig, optionally as somebody else.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use loopwatch_model::observation::Cause;

use super::failure::Failure;

mod proxy;
mod requests;
mod workload;

use self::workload::{PodTemplate, Workload};

pub(crate) use self::requests::{JSON, LIST_METADATA, METADATA, chunk_at_hand, encode, next_chunk};

/// How to reach a cluster. All empty: as a Pod does, or as `kubectl` would.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// A kubeconfig file; else `KUBECONFIG`, else `~/.kube/config`, else the Pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig.
    pub context: Option<String>,
    /// Ask as the service account of this operator, which needs the right to impersonate it.
    pub operator: Option<OperatorName>,
}

/// An operator by its Deployment (or StatefulSet).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorName {
    /// Its namespace.
    pub namespace: String,
    /// The name of the Deployment or StatefulSet.
    pub name: String,
}

/// One API server, and as whom we talk to it.
#[derive(Clone)]
pub struct Cluster {
    pub(crate) client: Client,
    url: String,
    namespace: String,
    acting_as: Option<String>,
    targets: Vec<String>,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// There is nothing to connect with.
    #[error(
        "no cluster to look at: there is no kubeconfig ({looked}) and this is not a Pod; name one with --kubeconfig FILE"
    )]
    NothingFound {
        /// Where a kubeconfig was looked for.
        looked: String,
    },
    /// The kubeconfig cannot be used.
    #[error("cannot use the kubeconfig {file}: {reason}")]
    Kubeconfig {
        /// Which file or files.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// This is a Pod, but its service account cannot be used.
    #[error(
        "cannot use the service account of this Pod: {0}; is automountServiceAccountToken false? (name a kubeconfig with --kubeconfig FILE)"
    )]
    InCluster(kube::config::InClusterError),
    /// The client cannot be built from the configuration.
    #[error("cannot connect to {url}: {reason}")]
    Client {
        /// The API server.
        url: String,
        /// What is wrong.
        reason: String,
    },
    /// The API server does not answer, or not as hoped.
    #[error("cannot look at {url}: {failure}{}", advice(failure.cause))]
    Unreachable {
        /// The API server.
        url: String,
        /// What went wrong.
        failure: Failure,
    },
    /// The operator that was named does not exist or may not be read.
    #[error("cannot act as the operator {namespace}/{name}: {failure}; --operator takes NAMESPACE/DEPLOYMENT")]
    Operator {
        /// Namespace asked for.
        namespace: String,
        /// Name asked for.
        name: String,
        /// What went wrong.
        failure: Failure,
    },
}

/// A parser shows the lines around an error, and those of a kubeconfig hold tokens: only the first line is told.
fn first_line(error: &impl std::fmt::Display) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

/// A connection that is not there after this long will not come.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Set by the kubelet in every container; its absence means that we are not in a Pod.
const IN_CLUSTER_HOST: &str = "KUBERNETES_SERVICE_HOST";

// === impl Cluster ===

impl Cluster {
    /// Builds the connection. Nothing is sent yet, except to find the operator that is to be impersonated: a
    /// sidecar starts while the API server is away. See [`Cluster::reach`].
    ///
    /// # Errors
    /// Says what is wrong with the configuration, where, and what to do.
    pub async fn connect(access: &Access) -> Result<Self, ConnectError> {
        // Two providers in one program make rustls refuse to choose. An error here means that one is installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let config = load(access).await?;
        let cluster = Self::from_config(config.clone())?;
        match &access.operator {
            Some(operator) => cluster.impersonate(config, operator).await,
            None => Ok(cluster),
        }
    }

    /// Wraps a client that exists already, for tests and for those who embed loopwatch.
    #[must_use]
    pub fn from_client(client: Client, url: impl Into<String>) -> Self {
        let namespace = client.default_namespace().to_owned();
        Self { client, url: url.into(), namespace, acting_as: None, targets: Vec::new() }
    }

    fn from_config(mut config: Config) -> Result<Self, ConnectError> {
        // The client's own retries would hide a failing API server for minutes; every source has its own.
        config.default_retry = false;
        config.connect_timeout = Some(CONNECT_WITHIN);
        let url = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let namespace = config.default_namespace.trim().to_owned();
        let client = Client::try_from(config).map_err(|error| {
            let reason = Failure::client(&error).detail;
            ConnectError::Client { url: url.clone(), reason }
        })?;
        Ok(Self { client, url, namespace, acting_as: None, targets: Vec::new() })
    }

    /// Asks whether the API server is there and knows us.
    ///
    /// # Errors
    /// Says which API server and why not.
    pub async fn reach(&self) -> Result<(), ConnectError> {
        self.server_version().await.map(drop).map_err(|failure| self.unreachable(failure))
    }

    /// The version that the API server says it has, for example `v1.34.2`.
    ///
    /// # Errors
    /// The failure of the request.
    pub async fn server_version(&self) -> Result<String, Failure> {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Version {
            git_version: String,
        }
        self.get_json::<Version>("/version", JSON).await.map(|version| version.git_version)
    }

    /// Where the API server is.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The namespace that is meant when none is named: the Pod's own, the context's, or the operator's.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The service account that is impersonated.
    #[must_use]
    pub fn acting_as(&self) -> Option<&str> {
        self.acting_as.as_deref()
    }

    /// The namespaces that the operator is told to watch, as far as its Deployment says so.
    pub(crate) fn targets(&self) -> &[String] {
        &self.targets
    }

    async fn impersonate(&self, mut config: Config, operator: &OperatorName) -> Result<Self, ConnectError> {
        let OperatorName { namespace, name } = operator;
        let pods = self.pod_template(operator).await.map_err(|failure| ConnectError::Operator {
            namespace: namespace.clone(),
            name: name.clone(),
            failure,
        })?;
        let (account, targets) = (pods.account().to_owned(), pods.targets());
        let user = format!("system:serviceaccount:{namespace}:{account}");
        config.auth_info.impersonate = Some(user.clone());
        config.auth_info.impersonate_groups = Some(vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated".to_owned(),
        ]);
        config.default_namespace.clone_from(namespace);
        Ok(Self { acting_as: Some(user), targets, ..Self::from_config(config)? })
    }

    /// What the operator's Pods are made from.
    async fn pod_template(&self, operator: &OperatorName) -> Result<PodTemplate, Failure> {
        let OperatorName { namespace, name } = operator;
        let path =
            |resource: &str| format!("/apis/apps/v1/namespaces/{}/{resource}/{}", encode(namespace), encode(name));
        match self.get_json::<Workload>(&path("deployments"), JSON).await {
            Ok(deployment) => Ok(deployment.spec.template),
            Err(failure) if failure.status == Some(404) => {
                // The Deployment's 404 is the better message when neither exists.
                let set: Result<Workload, Failure> = self.get_json(&path("statefulsets"), JSON).await;
                set.map(|set| set.spec.template).map_err(|_| failure)
            }
            Err(failure) => Err(failure),
        }
    }

    fn unreachable(&self, failure: Failure) -> ConnectError {
        ConnectError::Unreachable { url: self.url.clone(), failure }
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { client: _, url, namespace, acting_as, targets: _ } = self;
        f.debug_struct("Cluster")
            .field("url", url)
            .field("namespace", namespace)
            .field("acting_as", acting_as)
            .finish_non_exhaustive()
    }
}

/// What to do when the API server cannot be looked at.
fn advice(cause: Cause) -> &'static str {
    match cause {
        Cause::Unauthorized => "; has the login of this context expired?",
        Cause::Tls => "; does the kubeconfig name the authority that signed this API server's certificate?",
        Cause::Connection | Cause::Timeout => "; is it running, and is this the right context?",
        _ => "",
    }
}

/// Finds the configuration: what was named, else a kubeconfig, else the Pod. A kubeconfig that is there but broken is
/// an error, not a reason to look elsewhere.
async fn load(access: &Access) -> Result<Config, ConnectError> {
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
        if std::env::var_os(IN_CLUSTER_HOST).is_none() {
            return Err(ConnectError::NothingFound { looked: file });
        }
        return Config::incluster().map_err(ConnectError::InCluster);
    }
    let options = KubeConfigOptions { context: access.context.clone(), ..KubeConfigOptions::default() };
    let read = match &named {
        Some(file) => Kubeconfig::read_from(file),
        None => Kubeconfig::read(),
    };
    let wrong = |error: KubeconfigError| {
        let reason = match error {
            // Its own text names the file once more.
            KubeconfigError::ReadConfig(error, _) => first_line(&error),
            error => first_line(&error),
        };
        ConnectError::Kubeconfig { file: file.clone(), reason }
    };
    let mut config = Config::from_custom_kubeconfig(read.map_err(wrong)?, &options).await.map_err(wrong)?;
    proxy::apply_no_proxy(&mut config);
    Ok(config)
}
