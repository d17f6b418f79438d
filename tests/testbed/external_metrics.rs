//! The smallest adapter for external metrics: it answers the API `external.metrics.k8s.io` from the
//! `/metrics` of a loopwatch, behind the API server's aggregation. It serves what a
//! HorizontalPodAutoscaler asks for, and nothing else.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

use super::controlplane::ControlPlane;
use super::http;
use super::kube::Kube;
use super::wait::eventually;

/// A running adapter.
pub struct ExternalMetrics {
    _registration: Registration,
}

/// The registration of an adapter at the API server. Removed when dropped: an API group that nobody
/// serves would disturb discovery.
pub(crate) struct Registration {
    kube: Kube,
}

const GROUP_VERSION: &str = "external.metrics.k8s.io/v1beta1";
const REGISTRATION: &str = "apiregistration.k8s.io/v1";
const NAME: &str = "v1beta1.external.metrics.k8s.io";
/// The Service, which leads to this machine: the API server has no other way to an address on
/// loopback.
const SERVICE: &str = "external-metrics";

impl ExternalMetrics {
    /// Serves the metrics of the loopwatch at a port, and registers them at the API server.
    pub fn serve(plane: &ControlPlane, loopwatch: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("our own port").port();
        let config = server_config(plane);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let config = Arc::clone(&config);
                // If a connection breaks, the API server opens another one.
                std::thread::spawn(move || answer(stream, config, loopwatch));
            }
        });

        Self { _registration: Registration::at(plane, port) }
    }
}

impl Registration {
    /// Registers the adapter at a port, and waits until the API server reaches it.
    pub(crate) fn at(plane: &ControlPlane, port: u16) -> Self {
        let kube = plane.kube.clone();
        kube.apply(
            &json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": SERVICE, "namespace": "default"},
            "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}}),
        );
        kube.apply(&json!({"apiVersion": REGISTRATION, "kind": "APIService", "metadata": {"name": NAME}, "spec": {
            "group": "external.metrics.k8s.io", "version": "v1beta1", "insecureSkipTLSVerify": true,
            "groupPriorityMinimum": 100, "versionPriority": 100,
            "service": {"name": SERVICE, "namespace": "default", "port": port}}}));

        let registration = Self { kube };
        eventually(Duration::from_secs(60), "the adapter is available", || {
            registration.kube.get(&format!("/apis/{GROUP_VERSION}"))
        });

        registration
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.kube.delete(REGISTRATION, "APIService", "", NAME);
        self.kube.delete("v1", "Service", "default", SERVICE);
    }
}

/// A server with the certificate of the API server.
fn server_config(plane: &ControlPlane) -> Arc<ServerConfig> {
    // Another test may have installed a provider already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let file = |name: &str| plane.directory().join("certs").join(name);
    let certificates = CertificateDer::pem_file_iter(file("apiserver.crt")).expect("a certificate");
    let certificates = certificates.collect::<Result<Vec<_>, _>>().expect("certificates");
    let key = PrivateKeyDer::from_pem_file(file("apiserver.key")).expect("a key");

    Arc::new(
        ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(certificates, key)
            .expect("valid"),
    )
}

/// Answers one request.
fn answer(stream: TcpStream, config: Arc<ServerConfig>, loopwatch: u16) -> Option<()> {
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    let mut stream = BufReader::new(StreamOwned::new(ServerConnection::new(config).ok()?, stream));
    let mut first = String::new();
    stream.read_line(&mut first).ok()?;

    let mut line = String::from(" ");
    while !line.trim().is_empty() {
        line.clear();
        stream.read_line(&mut line).ok()?;
    }

    let path = first.split(' ').nth(1)?;
    let (status, body) = match respond(path, loopwatch) {
        Ok(body) => ("200 OK", body),
        Err(message) => (
            "404 Not Found",
            json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
            "reason": "NotFound", "code": 404, "message": message}),
        ),
    };

    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let mut stream = stream.into_inner();

    stream.write_all(format!("{head}{body}").as_bytes()).ok()?;
    stream.conn.send_close_notify();
    stream.flush().ok()
}

fn respond(path: &str, loopwatch: u16) -> Result<Value, String> {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let rest = path.strip_prefix(&format!("/apis/{GROUP_VERSION}")).ok_or("not here")?;
    let words: Vec<&str> = rest.split('/').filter(|word| !word.is_empty()).collect();

    match words[..] {
        [] => Ok(
            json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": GROUP_VERSION, "resources": [
            {"name": "*", "singularName": "", "namespaced": true, "kind": "ExternalMetricValueList", "verbs": ["get"]}]}),
        ),
        ["namespaces", _, metric] => {
            let value = sum(&http::get(loopwatch, "/metrics")?, metric, &wanted(query))?;
            let now = jiff::Timestamp::now().to_string();
            Ok(
                json!({"kind": "ExternalMetricValueList", "apiVersion": GROUP_VERSION, "metadata": {}, "items": [
                {"metricName": metric, "metricLabels": {}, "timestamp": now, "value": format!("{}m", (value * 1e3).round())}]}),
            )
        }
        _ => Err("not here".to_owned()),
    }
}

/// The labels of a selector, as they are written in the exposition.
fn wanted(query: &str) -> Vec<String> {
    let selector =
        query.split('&').find_map(|pair| pair.strip_prefix("labelSelector=")).unwrap_or_default();
    let selector = selector.replace("%3D", "=").replace("%2C", ",");
    selector
        .split(',')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| format!("{name}=\"{value}\""))
        .collect()
}

/// The sum of the series with these labels. The absence of a series does not mean 0: the autoscaler
/// must not scale down because of it.
fn sum(metrics: &str, metric: &str, wanted: &[String]) -> Result<f64, String> {
    let series = metrics
        .lines()
        .filter_map(|line| line.strip_prefix(metric)?.strip_prefix('{')?.split_once("} "));
    let chosen = series.filter(|(labels, _)| {
        wanted.iter().all(|label| {
            labels.split("\",").any(|one| label.trim_end_matches('"') == one.trim_end_matches('"'))
        })
    });

    let values: Vec<f64> = chosen.filter_map(|(_, value)| value.parse().ok()).collect();
    if values.is_empty() {
        Err(format!("no series {metric} {wanted:?}"))
    } else {
        Ok(values.iter().sum())
    }
}
