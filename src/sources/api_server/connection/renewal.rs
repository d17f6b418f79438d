//! The client of a cluster. If the certificate of the API server has another authority from now on, a new
//! client reads the authorities again.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::{Client, Config};
use tokio::time::Instant;
use tracing::{info, warn};

use super::access::{self, Access};
use super::client;
use crate::lock::lock;
use crate::net::Failure;

/// The client. Clones share it.
#[derive(Clone)]
pub(super) struct RenewedClient(Arc<Shared>);

struct Shared {
    client: Mutex<Client>,
    /// `None` if the client cannot be renewed.
    renewal: Option<Renewal>,
}

/// How to build another client.
struct Renewal {
    access: Access,
    /// The configuration of the first client. Only its authorities change: a file that somebody can write must
    /// not lead loopwatch elsewhere.
    config: Mutex<Config>,
    /// The earliest time of the next attempt.
    next: Mutex<Instant>,
}

/// The shortest time between two attempts: many watches fail at the same time.
const RENEW_EVERY: Duration = Duration::from_secs(10);

impl RenewedClient {
    /// The client of a test, which stays as it is.
    #[cfg(test)]
    pub(super) fn fixed(client: Client) -> Self {
        Self(Arc::new(Shared { client: Mutex::new(client), renewal: None }))
    }

    /// Builds the client of a configuration, which comes from `access`.
    pub(super) async fn connect(config: Config, access: Access) -> Result<Self, String> {
        let client = build(config.clone()).await?;
        let (config, next) = (Mutex::new(config), Mutex::new(Instant::now()));
        let renewal = Some(Renewal { access, config, next });
        Ok(Self(Arc::new(Shared { client: Mutex::new(client), renewal })))
    }

    pub(super) fn get(&self) -> Client {
        lock(&self.0.client).clone()
    }

    /// Builds another client if the authorities of the API server have changed.
    pub(super) async fn renew(&self) {
        let Some(renewal) = self.0.renewal.as_ref().filter(|renewal| renewal.is_due()) else {
            return;
        };

        match renewal.client().await {
            Ok(Some(client)) => {
                info!("the authorities of the API server have changed");
                *lock(&self.0.client) = client;
            }
            Ok(None) => {}
            Err(reason) => warn!(%reason, "cannot read the authorities of the API server again"),
        }
    }
}

impl Renewal {
    fn is_due(&self) -> bool {
        let (now, mut next) = (Instant::now(), lock(&self.next));
        let is_due = *next <= now;
        if is_due {
            *next = now + RENEW_EVERY;
        }
        is_due
    }

    /// A client with the present authorities; `None` if they have not changed.
    async fn client(&self) -> Result<Option<Client>, String> {
        let (read, _) = access::load(&self.access).await.map_err(|error| error.to_string())?;
        let mut config = lock(&self.config).clone();
        if config.root_cert == read.root_cert {
            return Ok(None);
        }

        config.root_cert = read.root_cert;
        let client = build(config.clone()).await?;
        *lock(&self.config) = config;
        Ok(Some(client))
    }
}

/// Builds a client. A login plugin may take long, so it then happens on another thread. Without a plugin,
/// it happens on this thread, because every thread costs memory. kube panics if a token is not a valid
/// header; the task contains the panic.
async fn build(config: Config) -> Result<Client, String> {
    let plugin = config.auth_info.exec.is_some() || config.auth_info.auth_provider.is_some();
    let connect = || client::build(config);
    let connecting = if plugin {
        tokio::task::spawn_blocking(connect)
    } else {
        tokio::spawn(async { connect() })
    };

    match connecting.await {
        Ok(client) => client.map_err(|error| Failure::client(&error).detail),
        Err(_) => {
            Err("the token of the account contains characters that no token may contain".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use loopwatch_testbed::tls;

    use super::*;

    #[tokio::test]
    async fn a_client_follows_the_authorities_and_nothing_else() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().expect("a folder");
        let (kubeconfig, authority) = (folder.path().join("config"), folder.path().join("ca.crt"));
        let write = |server: &str, pem: &str| {
            std::fs::write(&authority, tls::pem(pem)).expect("written");
            let cluster = format!("{{server: '{server}', certificate-authority: ca.crt}}");
            let text = format!(
                "{{current-context: a, contexts: [{{name: a, context: {{cluster: a, user: a}}}}], \
                 clusters: [{{name: a, cluster: {cluster}}}], users: [{{name: a, user: {{token: own}}}}]}}"
            );
            std::fs::write(&kubeconfig, text).expect("written");
        };

        write("https://192.0.2.1:6443", tls::AUTHORITY);
        let access = Access { kubeconfig: Some(kubeconfig.clone()), ..Access::default() };
        let (config, _) = access::load(&access).await.expect("valid");
        let client = RenewedClient::connect(config, access).await.expect("a client");
        let renewal = client.0.renewal.as_ref().expect("it can be renewed");
        assert!(renewal.client().await.expect("readable").is_none(), "nothing has changed");

        write("https://192.0.2.2:6443", tls::OTHER_AUTHORITY);
        assert!(renewal.client().await.expect("readable").is_some());
        let host = lock(&renewal.config).cluster_url.host().map(str::to_owned);
        assert_eq!(host.as_deref(), Some("192.0.2.1"), "the server stays");
        assert!(renewal.client().await.expect("readable").is_none());

        assert!(renewal.is_due() && !renewal.is_due(), "the watches fail together");
    }
}
