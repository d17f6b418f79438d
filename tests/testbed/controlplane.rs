//! The control plane: etcd, API server, controllers, scheduler, and a fake kubelet with one node.
//!
//! The command lines are those of `controlplane/README.md`.

use std::fs::Permissions;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::binaries::Binaries;
use super::guard::{Process, Program};
use super::kube::{Kube, write_kubeconfig};
use super::wait::eventually;
use super::{http, ports, repository};

/// Users of the control plane: file name, user name, and whether they are administrators.
const USERS: [(&str, &str, bool); 4] = [
    ("admin", "admin", true),
    ("kcm", "system:kube-controller-manager", false),
    ("scheduler", "system:kube-scheduler", false),
    ("kwok", "kwok", true),
];

/// A running control plane. Everything stops when it is dropped.
pub struct ControlPlane {
    /// The API server, as administrator.
    pub kube: Kube,
    /// The address of the API server.
    pub url: String,
    /// Its port.
    pub port: u16,
    /// Programs of the zoo.
    pub binaries: Binaries,
    nodes: Nodes,
    etcd_port: u16,
    apiserver: Mutex<Process>,
    others: Mutex<Vec<Process>>,
    etcd: Mutex<Process>,
    /// The folder with kubeconfigs, logs and data, which is removed last.
    directory: Mutex<Option<TempDir>>,
    path: PathBuf,
}

/// The nodes of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nodes {
    /// One node whose Pods only exist in the API.
    Fake,
    /// Kubelets on this machine. Their Pods reach the API server at the address of its Service.
    Real,
}

/// The address of the Service `kubernetes`, the first one of the range.
pub(crate) const SERVICE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

impl ControlPlane {
    /// Starts everything and waits until the node is ready.
    pub fn start(binaries: Binaries) -> Self {
        let plane = Self::start_for(binaries, Nodes::Fake);
        plane.kube.apply_file("tests/testbed/controlplane/kwok/node.yaml", "");
        plane.wait_node_ready("fake-0");

        plane
    }

    /// Starts everything except a kubelet of a real node.
    pub(crate) fn start_for(binaries: Binaries, nodes: Nodes) -> Self {
        let directory = tempfile::Builder::new()
            .prefix("loopwatch-testbed-")
            .tempdir()
            .expect("a temporary folder");
        let path = directory.path().to_owned();
        let [etcd_port, peer] = [(); 2].map(|()| ports::free());
        let (address, port) = match nodes {
            Nodes::Fake => (Ipv4Addr::LOCALHOST, ports::free()),
            Nodes::Real => (SERVICE, 443),
        };
        let url = format!("https://{address}:{port}");

        write_keys(&path);
        let tokens = write_tokens(&path.join("tokens.csv"));
        let authority = path.join("certs/apiserver.crt");

        for (user, token) in &tokens {
            write_kubeconfig(
                path.join(format!("{user}.kubeconfig")),
                &url,
                &authority,
                token,
                "default",
            );
        }

        let etcd = etcd(&binaries.etcd, &path, etcd_port, peer).start();
        let mut apiserver = apiserver(&binaries, &path, etcd_port, port, nodes)
            .arg("--authorization-mode=RBAC")
            .start();
        eventually(Duration::from_secs(60), "the API server writes its certificate", || {
            apiserver.assert_running();
            authority.exists().then_some(()).ok_or_else(|| "it is not there".to_owned())
        });

        let kube = Kube::new(&path.join("admin.kubeconfig"));
        let controllers = controllers(&binaries, &path, nodes);
        let plane = Self {
            kube,
            url,
            port,
            binaries,
            nodes,
            etcd_port,
            apiserver: Mutex::new(apiserver),
            others: Mutex::new(Vec::new()),
            etcd: Mutex::new(etcd),
            directory: Mutex::new(Some(directory)),
            path,
        };

        plane.wait_ready(Duration::from_secs(60));

        // While it starts, the API server creates the roles that these programs need.
        lock(&plane.others).extend(controllers.iter().map(Program::start));

        plane
    }

    /// Waits until a node is ready.
    pub(crate) fn wait_node_ready(&self, name: &str) {
        eventually(Duration::from_secs(60), "the node is ready", || {
            self.wait_ready(Duration::from_secs(60));
            let node = self.kube.find("v1", "Node", "", name).unwrap_or_default();
            let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let ready = conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True");

            ready.then_some(()).ok_or_else(|| node["status"]["conditions"].to_string())
        });
    }

    /// Returns the folder for all files of this cluster.
    pub fn directory(&self) -> &Path {
        &self.path
    }

    /// Waits until the API server is ready.
    pub fn wait_ready(&self, within: Duration) {
        eventually(within, "the API server is ready", || {
            self.apiserver().assert_running();
            lock(&self.etcd).assert_running();
            lock(&self.others).iter_mut().for_each(Process::assert_running);
            self.kube.text("/readyz")
        });
    }

    /// Returns the process of the API server, for tests that stop, pause or restart it.
    pub fn apiserver(&self) -> MutexGuard<'_, Process> {
        lock(&self.apiserver)
    }

    /// Kills the API server, calls `meanwhile`, and starts it again. Other users of the process
    /// wait for the lock.
    pub fn restart_apiserver(&self, meanwhile: impl FnOnce()) {
        {
            let mut apiserver = self.apiserver();
            apiserver.kill();
            meanwhile();

            let again = apiserver.program.start();
            *apiserver = again;
        }

        self.wait_ready(Duration::from_secs(60));
    }

    /// Starts another API server of this cluster, which also asks a webhook for authorization, like
    /// those of managed clusters. Returns it with its address.
    pub fn apiserver_with_authorizer(&self, webhook: u16) -> (Process, String) {
        let config = self.path.join("authorizer.json");
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "webhook",
            "clusters": [{"name": "webhook", "cluster": {"server": format!("http://127.0.0.1:{webhook}/authorize")}}],
            "users": [{"name": "apiserver", "user": {}}],
            "contexts": [{"name": "webhook", "context": {"cluster": "webhook", "user": "apiserver"}}],
        });

        std::fs::write(&config, text.to_string()).expect("our own folder");
        let port = ports::free();
        let process = apiserver(&self.binaries, &self.path, self.etcd_port, port, self.nodes)
            .arg("--authorization-mode=RBAC,Webhook")
            .arg(format!("--authorization-webhook-config-file={}", config.display()))
            .arg("--authorization-webhook-version=v1")
            .start();

        (process, format!("https://127.0.0.1:{port}"))
    }

    /// Starts another API server of this cluster, which writes each request of an account to an audit
    /// log. Returns it with its address and the log: one event in JSON per line.
    pub fn apiserver_with_audit_log(&self, user: &str) -> (Process, String, PathBuf) {
        let (policy, log) = (self.path.join("audit.json"), self.path.join("audit.log"));
        let text = json!({
            "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
            "rules": [{"level": "Metadata", "users": [user]}, {"level": "None"}],
        });

        std::fs::write(&policy, text.to_string()).expect("our own folder");
        let port = ports::free();
        let process = apiserver(&self.binaries, &self.path, self.etcd_port, port, self.nodes)
            .arg("--authorization-mode=RBAC")
            .arg(format!("--audit-policy-file={}", policy.display()))
            .arg(format!("--audit-log-path={}", log.display()))
            .arg("--audit-log-mode=blocking")
            .start();

        (process, format!("https://127.0.0.1:{port}"), log)
    }

    /// Restarts the fake kubelet, so that it can also run commands in the Pods of these namespaces.
    /// Every shell command does nothing and succeeds, because the containers do not exist.
    pub fn pretend_exec(&self, namespaces: &[&str]) {
        let programs = self.path.join("containers");
        std::fs::create_dir_all(&programs).expect("our own folder");
        for shell in ["sh", "bash"] {
            let file = programs.join(shell);
            std::fs::write(&file, "#!/bin/sh\nexit 0\n").expect("our own folder");
            std::fs::set_permissions(&file, Permissions::from_mode(0o755)).expect("our own file");
        }

        let config = self.path.join("exec.json");
        let text = json!({"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "ClusterExec", "metadata": {"name": "nothing"},
            "spec": {"selector": {"matchNamespaces": namespaces}, "execs": [{"local": {}}]}});
        std::fs::write(&config, text.to_string()).expect("our own folder");

        let port = ports::free();
        {
            let mut others = lock(&self.others);
            let kubelet = others.last_mut().expect("the fake kubelet is the last program");
            kubelet.kill();

            // Otherwise the next one would wait until the lease of this one has expired.
            self.kube.delete("coordination.k8s.io/v1", "Lease", "kube-node-lease", "fake-0");
            let program = kubelet.program.clone();
            *kubelet = program
                .arg(format!("--config={}", config.display()))
                .arg(format!("--server-address=127.0.0.1:{port}"))
                .arg(format!("--tls-cert-file={}", self.path.join("certs/apiserver.crt").display()))
                .arg(format!(
                    "--tls-private-key-file={}",
                    self.path.join("certs/apiserver.key").display()
                ))
                .env("PATH", &programs)
                .start();
        }

        let status = json!({"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}});
        let node = "/api/v1/nodes/fake-0/status";
        let patched = self.kube.call(
            "PATCH",
            node,
            "application/merge-patch+json",
            Some(&json!({"status": status})),
        );

        patched.unwrap_or_else(|error| panic!("{error}"));
        self.wait_ready(Duration::from_secs(20));
    }

    /// Compacts all history in etcd, so that a watch from an older version fails with 410.
    pub fn compact(&self) {
        let now = self.etcd("/v3/kv/range", &json!({"key": "AA=="}));
        let revision = now["header"]["revision"].clone();
        self.etcd("/v3/kv/compaction", &json!({"revision": revision, "physical": true}));
    }

    /// Sends a request to etcd through its JSON gateway.
    pub fn etcd(&self, path: &str, body: &Value) -> Value {
        let answer = http::request("POST", self.etcd_port, path, &[], &body.to_string());
        let answer = answer.unwrap_or_else(|error| panic!("{error}"));

        assert_eq!(answer.status, 200, "{path}: {}", answer.body);

        serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Writes a kubeconfig with the token of a service account, for this API server or a proxy in
    /// front of it.
    pub fn kubeconfig_of(
        &self,
        file: &str,
        server: &str,
        namespace: &str,
        account: &str,
    ) -> PathBuf {
        let token = self.kube.token(namespace, account);
        let authority = self.path.join("certs/apiserver.crt");
        write_kubeconfig(self.path.join(file), server, &authority, &token, namespace)
    }

    /// Prevents the removal of the folder with all logs, and returns it.
    pub fn keep_logs(&self) -> &Path {
        if let Some(directory) = lock(&self.directory).take() {
            let _ = directory.keep();
        }
        &self.path
    }

    /// Kills all processes, because no data needs to survive. etcd is last: without it, the API
    /// server would hang.
    pub fn stop(&self) {
        for process in lock(&self.others).iter_mut() {
            process.kill();
        }

        self.apiserver().kill();
        lock(&self.etcd).kill();
        drop(lock(&self.directory).take());
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("logs of this cluster: {}", self.keep_logs().display());
        }

        self.stop();
    }
}

/// Locks a mutex even if a test panicked while it held it: that test has failed already, and others
/// continue.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn etcd(binary: &Path, directory: &Path, port: u16, peer: u16) -> Program {
    let (client, peer) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer}"));
    Program::new("etcd", binary, directory)
        .arg(format!("--data-dir={}", directory.join("etcd").display()))
        .arg("--unsafe-no-fsync")
        // As kubeadm sets it. Without it, idle kinds have no bookmarks for minutes.
        .arg("--watch-progress-notify-interval=5s")
        .arg("--log-level=warn")
        .arg(format!("--listen-client-urls={client}"))
        .arg(format!("--advertise-client-urls={client}"))
        .arg(format!("--listen-peer-urls={peer}"))
        .arg(format!("--initial-advertise-peer-urls={peer}"))
        .arg(format!("--initial-cluster=default={peer}"))
}

/// An API server, apart from its authorization. All API servers have the same certificate.
fn apiserver(binaries: &Binaries, directory: &Path, etcd: u16, port: u16, nodes: Nodes) -> Program {
    let at = |file: &str| directory.join(file).display().to_string();
    let program = Program::new("kube-apiserver", &binaries.apiserver, directory)
        .arg(format!("--etcd-servers=http://127.0.0.1:{etcd}"))
        .arg(format!("--secure-port={port}"))
        .arg(format!("--cert-dir={}", at("certs")))
        .arg("--service-account-issuer=https://kubernetes.default.svc")
        .arg(format!("--service-account-key-file={}", at("sa.pub")))
        .arg(format!("--service-account-signing-key-file={}", at("sa.key")))
        .arg(format!("--token-auth-file={}", at("tokens.csv")))
        .arg("--service-cluster-ip-range=10.0.0.0/24");

    match nodes {
        Nodes::Fake => program
            .arg("--bind-address=127.0.0.1")
            .arg("--disable-admission-plugins=ServiceAccount"),
        Nodes::Real => program
            .arg(format!("--bind-address={SERVICE}"))
            .arg(format!("--advertise-address={SERVICE}"))
            .arg("--endpoint-reconciler-type=none")
            .arg("--allow-privileged=true"),
    }
}

fn controllers(binaries: &Binaries, directory: &Path, nodes: Nodes) -> Vec<Program> {
    let at = |file: &str| directory.join(file).display().to_string();
    let component = |name: &str, binary: &Path, user: &str| {
        let kubeconfig = at(&format!("{user}.kubeconfig"));
        Program::new(name, binary, directory)
            .arg(format!("--kubeconfig={kubeconfig}"))
            .arg(format!("--authentication-kubeconfig={kubeconfig}"))
            .arg(format!("--authorization-kubeconfig={kubeconfig}"))
            .arg("--bind-address=127.0.0.1")
            .arg(format!("--secure-port={}", ports::free()))
            .arg(format!("--cert-dir={}", at(&format!("{user}-certs"))))
            .arg("--leader-elect=false")
            // The default limits protect large clusters, and would slow down busy tests.
            .args(["--kube-api-qps=300", "--kube-api-burst=600"])
    };

    let controller_manager =
        component("kube-controller-manager", &binaries.controller_manager, "kcm")
            .arg(format!("--service-account-private-key-file={}", at("sa.key")))
            .arg("--use-service-account-credentials=true")
            .arg(format!("--root-ca-file={}", at("certs/apiserver.crt")));
    let kwok = Program::new("kwok", &binaries.kwok, directory)
        .arg(format!("--kubeconfig={}", at("kwok.kubeconfig")))
        .arg(format!(
            "--config={}",
            repository("tests/testbed/controlplane/kwok/stages.yaml").display()
        ))
        .arg("--manage-all-nodes=true")
        .arg("--node-lease-duration-seconds=40")
        .arg(format!("--server-address=127.0.0.1:{}", ports::free()));

    let mut controllers =
        vec![controller_manager, component("kube-scheduler", &binaries.scheduler, "scheduler")];
    if nodes == Nodes::Fake {
        controllers.push(kwok);
    }

    controllers
}

/// The X.509 encoding of a public P-256 key, up to the point on the curve.
const P256_HEAD: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// Creates the keys for tokens of service accounts: `sa.key` signs them, `sa.pub` verifies them.
fn write_keys(directory: &Path) {
    let random = SystemRandom::new();
    let secret =
        EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).expect("a key");
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, secret.as_ref(), &random)
        .expect("our key");
    let public = [&P256_HEAD, pair.public_key().as_ref()].concat();

    for (file, label, der) in
        [("sa.key", "PRIVATE", secret.as_ref()), ("sa.pub", "PUBLIC", &public)]
    {
        let pem =
            format!("-----BEGIN {label} KEY-----\n{}\n-----END {label} KEY-----\n", base64(der));
        std::fs::write(directory.join(file), pem).expect("our own folder");
    }
}

/// Writes the tokens of the control plane's users, and returns them.
fn write_tokens(file: &Path) -> Vec<(&'static str, String)> {
    let mut lines = String::new();
    let tokens = USERS.map(|(user, name, all)| {
        let mut random = [0; 24];
        ring::rand::SecureRandom::fill(&SystemRandom::new(), &mut random).expect("random bytes");

        let token = base64(&random).replace(['+', '/'], "x");
        let groups = if all { ",\"system:masters\"" } else { "" };
        lines.push_str(&format!("{token},{name},{user}{groups}\n"));
        (user, token)
    });

    std::fs::write(file, lines).expect("our own folder");
    tokens.into()
}

fn base64(bytes: &[u8]) -> String {
    use ::base64::Engine;

    ::base64::engine::general_purpose::STANDARD.encode(bytes)
}
