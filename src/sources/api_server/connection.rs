//! The connection to one cluster, from a Pod or a kubeconfig, optionally impersonating an operator.

use std::time::Duration;

#[cfg(test)]
use kube::Client;
use kube::Config;

use crate::net::{Failure, percent_encode};
use crate::sources::feed::ServerClock;
use crate::system::own_pod::OwnPod;

mod access;
mod client;
mod batched_reads;
mod kubeconfig_files;
mod proxy;
mod renewal;
mod requests;
mod workload;

use self::renewal::RenewedClient;
use self::workload::Workload;

pub(crate) use self::access::{Access, ConnectError, OperatorName};
pub(crate) use self::batched_reads::BatchTime;
pub(crate) use self::requests::{JSON, LIST_METADATA, METADATA, chunk, next_chunk, review_path};
pub(crate) use self::workload::PodTemplate;

/// One API server and the account to use with it.
#[derive(Clone)]
pub(crate) struct Cluster {
    client: RenewedClient,
    clock: ServerClock,
    url: String,
    namespace: String,
    /// The account to impersonate.
    acting_as: Option<ServiceAccount>,
    watched_namespaces: Vec<String>,
    /// The name of the operator's Deployment or StatefulSet, if it is known.
    workload: Option<String>,
    /// The Pod of this process; `None` outside a cluster.
    own: Option<OwnPod>,
    /// The operator to observe, if it is known.
    operator: Option<OperatorIdentity>,
}

/// The operator that loopwatch observes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OperatorIdentity {
    /// loopwatch runs in a Pod of this operator.
    Beside(OwnPod),
    /// The user names the operator.
    Named(OperatorName),
    /// loopwatch has found the operator's workload. If that is not there, somebody has deleted it.
    Found(OperatorName),
}

/// A service account to impersonate.
#[derive(Clone, Debug)]
struct ServiceAccount {
    namespace: String,
    name: String,
}

/// Time to wait for a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

impl OperatorIdentity {
    pub(crate) fn namespace(&self) -> &str {
        match self {
            Self::Beside(pod) => &pod.namespace,
            Self::Named(operator) | Self::Found(operator) => &operator.namespace,
        }
    }
}

impl Cluster {
    /// Builds the connection. A sidecar may start before the API server, so this sends no request,
    /// except to find the operator to impersonate; [`Cluster::reach`] does. Later responses correct
    /// `clock`.
    ///
    /// # Errors
    /// Names the problem, its place, and the solution.
    pub(crate) async fn connect(
        access: &Access,
        clock: &ServerClock,
    ) -> Result<Self, ConnectError> {
        // rustls does not choose between two linked providers. An error means that one is already
        // installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (config, in_pod) = access::load(access).await?;

        // A login plugin runs while the client is built, so there is only one client, with or
        // without impersonation.
        let mut cluster = Self::from_config(config, access, clock).await?;
        let own = OwnPod::of_environment(&cluster.namespace);
        if in_pod {
            cluster.workload = own.as_ref().and_then(OwnPod::workload);
        }

        // `POD_NAME` names the Pod even if a kubeconfig leads to the API server.
        cluster.operator =
            own.clone().filter(|pod| in_pod || pod.is_told).map(OperatorIdentity::Beside);
        cluster.own = own.filter(|pod| pod.in_cluster);
        match &access.operator {
            Some(operator) => cluster.impersonate(operator).await,
            None => Ok(cluster),
        }
    }

    /// Wraps a client whose API server is part of a test.
    #[cfg(test)]
    pub(crate) fn from_client(client: Client, url: impl Into<String>) -> Self {
        let namespace = client.default_namespace().to_owned();
        Self::new(RenewedClient::fixed(client), ServerClock::new(), url.into(), namespace)
    }

    /// Sets the operator to observe.
    #[cfg(test)]
    pub(crate) fn beside(self, operator: OperatorIdentity) -> Self {
        Self { operator: Some(operator), ..self }
    }

    async fn from_config(
        mut config: Config,
        access: &Access,
        clock: &ServerClock,
    ) -> Result<Self, ConnectError> {
        // Disables the client's retries, which would hide a failing API server for minutes. Each
        // source retries by itself.
        config.default_retry = false;
        config.connect_timeout = Some(CONNECT_WITHIN);

        let url = without_credentials(&config.cluster_url);
        let namespace = config.default_namespace.trim().to_owned();

        let client = RenewedClient::connect(config, access.clone()).await;
        let client = client.map_err(|reason| ConnectError::Client { url: url.clone(), reason })?;
        Ok(Self::new(client, clock.clone(), url, namespace))
    }

    /// A connection without an operator.
    fn new(client: RenewedClient, clock: ServerClock, url: String, namespace: String) -> Self {
        let (acting_as, watched_namespaces) = (None, Vec::new());
        let (workload, own, operator) = (None, None, None);
        Self {
            client,
            clock,
            url,
            namespace,
            acting_as,
            watched_namespaces,
            workload,
            own,
            operator,
        }
    }

    /// Checks that the API server responds and accepts the account.
    ///
    /// # Errors
    /// Names the API server and the failure.
    pub(crate) async fn reach(&self) -> Result<(), ConnectError> {
        self.server_version().await.map(drop).map_err(|failure| self.unreachable(failure))
    }

    /// The version of the API server, for example `v1.34.2`.
    ///
    /// # Errors
    /// The failure of the request.
    pub(crate) async fn server_version(&self) -> Result<String, Failure> {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Version {
            git_version: String,
        }

        self.get_json::<Version>("/version", JSON).await.map(|version| version.git_version)
    }

    #[must_use]
    pub(crate) fn clock(&self) -> &ServerClock {
        &self.clock
    }

    #[must_use]
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The default namespace: that of the Pod, the context, or the operator.
    #[must_use]
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The namespaces that the operator watches according to its Deployment.
    pub(crate) fn watched_namespaces(&self) -> &[String] {
        &self.watched_namespaces
    }

    pub(crate) fn workload(&self) -> Option<&str> {
        self.workload.as_deref()
    }

    pub(crate) fn own_pod(&self) -> Option<&OwnPod> {
        self.own.as_ref()
    }

    pub(crate) fn operator(&self) -> Option<&OperatorIdentity> {
        self.operator.as_ref()
    }

    /// The same connection, to observe one of many operators with loopwatch's own account.
    #[must_use]
    pub(crate) fn observing(
        &self,
        operator: &OperatorName,
        watched_namespaces: Vec<String>,
    ) -> Self {
        let OperatorName { namespace, name } = operator.clone();
        let identity = OperatorIdentity::Found(operator.clone());
        Self {
            namespace,
            watched_namespaces,
            workload: Some(name),
            own: None,
            operator: Some(identity),
            ..self.clone()
        }
    }

    async fn impersonate(self, operator: &OperatorName) -> Result<Self, ConnectError> {
        let OperatorName { namespace, name } = operator.clone();
        let (_, pods) = self.pod_template(operator).await.map_err(|failure| {
            ConnectError::Operator { namespace: namespace.clone(), name: name.clone(), failure }
        })?;
        let account =
            ServiceAccount { namespace: namespace.clone(), name: pods.account().to_owned() };
        let watched_namespaces = pods.watched_namespaces();
        let operator = Some(OperatorIdentity::Named(operator.clone()));

        Ok(Self {
            namespace,
            acting_as: Some(account),
            watched_namespaces,
            workload: Some(name),
            operator,
            ..self
        })
    }

    /// The kind of the operator's workload, `Deployment` or `StatefulSet`, and the service account
    /// of its Pods.
    pub(crate) async fn account_of(
        &self,
        operator: &OperatorName,
    ) -> Result<(&'static str, String), Failure> {
        let (kind, pods) = self.pod_template(operator).await?;
        Ok((kind, pods.account().to_owned()))
    }

    /// The kind of the operator's workload, and its Pod template.
    async fn pod_template(
        &self,
        operator: &OperatorName,
    ) -> Result<(&'static str, PodTemplate), Failure> {
        let OperatorName { namespace, name } = operator;
        let path = |resource: &str| {
            format!(
                "/apis/apps/v1/namespaces/{}/{resource}/{}",
                percent_encode(namespace),
                percent_encode(name)
            )
        };
        match self.get_json::<Workload>(&path("deployments"), JSON).await {
            Ok(deployment) => Ok(("Deployment", deployment.spec.template)),
            Err(failure) if failure.status == Some(404) => {
                // If neither exists, the 404 for the Deployment is the clearer message.
                let set: Result<Workload, Failure> =
                    self.get_json(&path("statefulsets"), JSON).await;
                set.map(|set| ("StatefulSet", set.spec.template)).map_err(|_| failure)
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
        let Self { url, namespace, acting_as, .. } = self;
        f.debug_struct("Cluster")
            .field("url", url)
            .field("namespace", namespace)
            .field("acting_as", acting_as)
            .finish_non_exhaustive()
    }
}

/// The URL for display, without the user and password that it may contain.
fn without_credentials(url: &http::Uri) -> String {
    let text = url.to_string();
    let shown = match url.authority().and_then(|authority| authority.as_str().rsplit_once('@')) {
        Some((credentials, _)) => text.replacen(&format!("{credentials}@"), "", 1),
        None => text,
    };

    shown.trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use loopwatch_testbed::standin::{Reply, Script};

    use super::*;
    use crate::sources::testing::InProcess as _;

    /// Connects with a kubeconfig whose user has these fields.
    async fn connect(user: &str) -> Result<Cluster, ConnectError> {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("config");
        let text = format!(
            "{{current-context: a, contexts: [{{name: a, context: {{cluster: a, user: a}}}}], \
             clusters: [{{name: a, cluster: {{server: 'https://a'}}}}], users: [{{name: a, user: {user}}}]}}"
        );

        std::fs::write(&file, text).expect("written");
        Cluster::connect(
            &Access { kubeconfig: Some(file), ..Access::default() },
            &ServerClock::new(),
        )
        .await
    }

    #[tokio::test]
    async fn errors_do_not_quote_the_kubeconfig() {
        for user in [
            "S3CRET",
            "{token: [S3CRET]}",
            "{token: {S3CRET: 1}}",
            "{token: S3CRET, token: S3CRET}",
            "{token: *S3CRET}",
            r#"{token: "S3CRET\n"}"#,
            "{client-certificate-data: S3CRET!, client-key-data: S3CRET!}",
            "{client-certificate-data: UzNDUkVU, client-key-data: UzNDUkVU}",
            "{exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, args: [-c, 'echo $KEY; exit 1'], env: [{name: KEY, value: S3CRET}]}}",
            "{exec: {apiVersion: client.authentication.k8s.io/v1, command: echo, args: [S3CRET]}}",
        ] {
            let error = connect(user).await.expect_err(user).to_string();
            assert!(!error.contains("S3CRET"), "{error}");
        }
    }

    #[test]
    fn the_url_for_people_has_no_password() {
        for (url, shown) in [
            ("https://user:S3CRET@10.0.0.1:6443/", "https://10.0.0.1:6443"),
            ("https://S3CRET@[fd00::1]:6443/prefix", "https://[fd00::1]:6443/prefix"),
            ("https://10.0.0.1:6443/a@b", "https://10.0.0.1:6443/a@b"),
        ] {
            assert_eq!(without_credentials(&http::Uri::from_static(url)), shown);
        }
    }

    /// Serves the Deployment of an operator, and returns the heads of the requests.
    async fn serve(listener: tokio::net::TcpListener) -> Vec<String> {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

        let body = r#"{"gitVersion":"v1","spec":{"template":{"spec":{"serviceAccountName":"worker","containers":[]}}}}"#;
        let mut heads = Vec::new();
        while heads.len() < 2 {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut head = vec![0; 4096];
            let length = stream.read(&mut head).await.expect("a request");
            heads.push(String::from_utf8_lossy(&head[..length]).to_lowercase());

            let length = body.len();
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );

            stream.write_all(answer.as_bytes()).await.expect("an answer");
        }

        heads
    }

    #[tokio::test]
    async fn an_operator_is_impersonated_without_a_second_login() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let serving = tokio::spawn(serve(listener));
        let folder = tempfile::tempdir().expect("a folder");
        let (file, logins) = (folder.path().join("config"), folder.path().join("logins"));
        let credential = r#"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"t"}}"#;
        let user = format!(
            "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: sh, args: [-c, 'echo x >> \"$LOG\"; echo \"$OUT\"'], \
             env: [{{name: LOG, value: '{}'}}, {{name: OUT, value: '{credential}'}}]}}}}",
            logins.display()
        );

        let text = format!(
            "{{current-context: a, contexts: [{{name: a, context: {{cluster: a, user: a}}}}], \
             clusters: [{{name: a, cluster: {{server: 'http://127.0.0.1:{port}'}}}}], users: [{{name: a, user: {user}}}]}}"
        );

        std::fs::write(&file, text).expect("written");
        let runs = || std::fs::read_to_string(&logins).expect("a login").len();
        let access = Access { kubeconfig: Some(file), ..Access::default() };
        Cluster::connect(&access, &ServerClock::new()).await.expect("connected");

        let without = runs(); // the client runs the plugin several times by itself
        let operator = Some(OperatorName { namespace: "ns".to_owned(), name: "op".to_owned() });
        let access = Access { operator, ..access };
        let cluster = Cluster::connect(&access, &ServerClock::new()).await.expect("connected");

        cluster.server_version().await.expect("an answer");
        let heads = serving.await.expect("two requests");

        assert!(!heads[0].contains("impersonate"), "{}", heads[0]);
        assert!(
            heads[1].contains("impersonate-user: system:serviceaccount:ns:worker"),
            "{}",
            heads[1]
        );

        for group in
            ["system:serviceaccounts\r", "system:serviceaccounts:ns\r", "system:authenticated\r"]
        {
            assert!(heads[1].contains(&format!("impersonate-group: {group}")), "{}", heads[1]);
        }

        assert_eq!(runs(), without * 2, "one client without and one with an operator");
        assert_eq!((cluster.namespace(), cluster.workload()), ("ns", Some("op")));
    }

    #[tokio::test]
    async fn files_that_could_block_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("pipe");

        assert!(
            std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success()
        );

        let access = Access { kubeconfig: Some(pipe.clone()), ..Access::default() };
        let pipe = pipe.display();
        let mut errors = vec![
            Cluster::connect(&access, &ServerClock::new()).await.expect_err("a pipe").to_string(),
        ];

        for user in [
            format!("{{tokenFile: {pipe}}}"),
            format!("{{client-certificate: {pipe}, client-key: /dev/zero}}"),
            "{tokenFile: /dev/zero}".to_owned(),
        ] {
            errors.push(connect(&user).await.expect_err(&user).to_string());
        }

        for error in errors {
            assert!(error.contains("is not a regular file"), "{error}");
        }
    }

    #[tokio::test]
    async fn a_slow_login_plugin_holds_nothing_up() {
        let user =
            "{exec: {apiVersion: client.authentication.k8s.io/v1, command: sleep, args: ['0.5']}}";
        tokio::select! {
            biased;
            _ = connect(user) => panic!("the plugin held the thread"),
            () = tokio::time::sleep(Duration::from_millis(50)) => {}
        }
    }

    #[tokio::test]
    async fn responses_set_the_clock_even_refusals() {
        let date = || vec![("date", "Sun, 06 Nov 1994 08:49:37 GMT".to_owned())];
        for (status, body) in [(200, r#"{"gitVersion": "v1.34.2"}"#), (403, "{}")] {
            let cluster = Script::new([Reply::Response(status, date(), body.to_owned())]).cluster();
            assert_eq!(cluster.server_version().await.is_ok(), status == 200);
            assert_eq!(cluster.clock().now().0 / 1000, 784_111_777, "{status}");
        }
    }
}
