//! The port with TLS, certificates, passwords and tokens, over real connections.

use std::net::SocketAddr;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use loopwatch_testbed::tls;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::*;
use crate::export::metrics::TextFormat;
use crate::export::server::policy::Policy;
use crate::export::server::routes::ROUTES;
use crate::export::server::{ServerLimits, WebFile, bind, serve_with};
use crate::net::Failure;
use crate::sources::api_server::{Review, TokenReviewer};

/// A server on a free port.
struct Server {
    address: SocketAddr,
    exporter: Arc<Exporter>,
    folder: TempDir,
}

/// Knows the token of Prometheus, which may read metrics, and that of an administrator.
struct Accounts;

#[async_trait]
impl TokenReviewer for Accounts {
    async fn review(&self, token: &str, path: &str) -> Result<Review, Failure> {
        Ok(match (token, path) {
            ("prometheus", "/metrics") | ("admin", "/metrics" | "/loopwatch") => Review::Allowed,
            ("prometheus", _) => Review::Forbidden,
            _ => Review::Unauthenticated,
        })
    }
}

/// The same, and counts the reviews.
#[derive(Default)]
struct CountingAccounts(std::sync::atomic::AtomicUsize);

#[async_trait]
impl TokenReviewer for CountingAccounts {
    async fn review(&self, token: &str, path: &str) -> Result<Review, Failure> {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Accounts.review(token, path).await
    }
}

impl Server {
    /// A server with this web configuration file, if there is one.
    async fn start(port: Port, expose_ui: bool, web: Option<&str>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).expect("written");
        };
        write("tls.crt", &tls::pem(tls::CERTIFICATE));
        write("tls.key", &tls::pem(tls::KEY));
        write("clients.crt", &tls::pem(tls::OTHER_AUTHORITY));

        let exporter = exporter(sample(), ExportOptions { expose_ui, ..ExportOptions::default() });
        let listener = bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
        let address = listener.local_addr().expect("an address");
        let serving = serve_with(
            listener,
            port,
            exporter.clone(),
            ServerLimits::default(),
            std::future::pending(),
        );
        tokio::spawn(serving);

        let server = Self { address, exporter, folder };
        if let Some(text) = web {
            server.load(text);
        }
        server
    }

    /// Puts a web configuration file into effect.
    fn load(&self, text: &str) {
        let path = self.folder.path().join("web.yml");
        std::fs::write(&path, text).expect("written");
        let web = WebFile::read(&path).web.expect("valid");
        self.exporter.access().set_web(Arc::new(web));
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("a connection")
    }

    /// The status of a request without TLS.
    async fn plain(&self, path: &str, header: &str) -> (u16, String) {
        request(&mut self.connect().await, path, header).await
    }

    /// The status of a request over TLS, from a client that trusts this authority.
    async fn tls(
        &self,
        client: &TlsClient,
        path: &str,
        header: &str,
    ) -> std::io::Result<(u16, String)> {
        let mut stream = client.connect(self.connect().await).await?;
        Ok(request(&mut stream, path, header).await)
    }
}

/// A TLS client.
struct TlsClient(TlsConnector);

impl TlsClient {
    fn trusting(authority: &str, certificate: bool) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(tls::der(authority))).expect("a certificate");

        let builder = ClientConfig::builder().with_root_certificates(roots);
        let config = match certificate {
            false => builder.with_no_client_auth(),
            true => builder
                .with_client_auth_cert(
                    vec![CertificateDer::from(tls::der(tls::CLIENT_CERTIFICATE))],
                    PrivateKeyDer::try_from(tls::der(tls::CLIENT_KEY)).expect("a key"),
                )
                .expect("valid"),
        };
        Self(TlsConnector::from(Arc::new(config)))
    }

    async fn connect(
        &self,
        stream: TcpStream,
    ) -> std::io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
        let name = ServerName::try_from("127.0.0.1").expect("a name");
        self.0.connect(name, stream).await
    }
}

/// Sends a request and reads the head of the response: its status, and all of it.
async fn request(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    path: &str,
    header: &str,
) -> (u16, String) {
    let text = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{header}\r\n");
    if stream.write_all(text.as_bytes()).await.is_err() {
        return (0, String::new());
    }

    let mut response = Vec::new();
    let mut part = [0; 4096];
    while !response.windows(4).any(|window| window == b"\r\n\r\n") {
        match stream.read(&mut part).await {
            Ok(0) | Err(_) => break,
            Ok(length) => response.extend_from_slice(&part[..length]),
        }
    }
    let text = String::from_utf8_lossy(&response).into_owned();
    (text.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0), text.to_lowercase())
}

fn basic(user: &str, password: &str) -> String {
    format!("Authorization: Basic {}\r\n", STANDARD.encode(format!("{user}:{password}")))
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

fn users() -> String {
    let hash = bcrypt::hash("secret", 4).expect("a hash");
    format!("basic_auth_users: {{prometheus: '{hash}'}}\n")
}

const TLS: &str = "tls_server_config: {cert_file: tls.crt, key_file: tls.key}\n";
const MUTUAL: &str = "tls_server_config: {cert_file: tls.crt, key_file: tls.key, \
    client_auth_type: RequireAndVerifyClientCert, client_ca_file: clients.crt}\n";

/// The path of a route.
fn path_of(route: &crate::export::server::routes::Route) -> String {
    route.path.replace("{name}", "heap.pb.gz")
}

#[tokio::test]
async fn metrics_travel_over_tls_and_probes_work_without() {
    let server = Server::start(Port::Metrics, true, Some(TLS)).await;
    let client = TlsClient::trusting(tls::AUTHORITY, false);

    assert_eq!(server.tls(&client, "/metrics", "").await.expect("TLS").0, 200);
    assert_eq!(server.tls(&client, "/livez", "").await.expect("TLS").0, 200);
    assert_eq!(server.plain("/livez", "").await.0, 200, "the probe of the kubelet");

    for route in ROUTES.iter().filter(|route| route.policy != Policy::Public) {
        let (status, text) = server.plain(&path_of(route), "").await;
        let expected = if route.policy == Policy::Profiles { 403 } else { 400 };
        assert_eq!(status, expected, "{}: {text}", route.path);
    }
}

#[tokio::test]
async fn an_older_version_of_tls_is_refused_if_the_file_says_so() {
    let versions = |text: &str| TLS.replace("tls.key}", &format!("tls.key{text}}}"));
    for (text, expected) in [("", true), (", min_version: TLS13", false)] {
        let server = Server::start(Port::Metrics, false, Some(&versions(text))).await;
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(tls::der(tls::AUTHORITY))).expect("a certificate");
        let old = ClientConfig::builder_with_protocol_versions(&[&rustls::version::TLS12]);
        let config = old.with_root_certificates(roots).with_no_client_auth();

        let client = TlsClient(TlsConnector::from(Arc::new(config)));
        assert_eq!(server.tls(&client, "/livez", "").await.is_ok(), expected, "{text}");
    }
}

#[tokio::test]
async fn a_new_certificate_serves_new_connections_and_old_ones_go_on() {
    let server = Server::start(Port::Metrics, false, Some(TLS)).await;
    let (old, new) = (
        TlsClient::trusting(tls::AUTHORITY, false),
        TlsClient::trusting(tls::OTHER_AUTHORITY, false),
    );
    let mut open = old.connect(server.connect().await).await.expect("TLS");
    assert_eq!(request(&mut open, "/livez", "").await.0, 200);
    assert!(server.tls(&new, "/livez", "").await.is_err(), "from the other authority");

    for (name, text) in [("tls.crt", tls::OTHER_CERTIFICATE), ("tls.key", tls::OTHER_KEY)] {
        std::fs::write(server.folder.path().join(name), tls::pem(text)).expect("written");
    }
    server.load(TLS);

    assert_eq!(server.tls(&new, "/metrics", "").await.expect("TLS").0, 200);
    assert!(server.tls(&old, "/livez", "").await.is_err(), "the old certificate is gone");
    assert_eq!(request(&mut open, "/livez", "").await.0, 200, "the connection is still open");
}

#[tokio::test]
async fn until_there_is_a_valid_file_only_probes_are_served() {
    let server = Server::start(Port::Both, true, None).await;
    server.exporter.access().expect_web();

    for route in ROUTES.iter() {
        let (status, text) = server.plain(&path_of(route), "").await;
        match route.policy {
            Policy::Public => assert_ne!(status, 403, "{}", route.path),
            _ => assert!(
                status == 503 && text.contains("web configuration file"),
                "{}: {text}",
                route.path
            ),
        }
    }

    let client = TlsClient::trusting(tls::AUTHORITY, false);
    assert!(server.tls(&client, "/metrics", "").await.is_err(), "there is no certificate");
}

#[tokio::test]
async fn each_path_requires_a_password_if_there_are_users() {
    for (port, expose_ui) in [(Port::Metrics, true), (Port::Both, false), (Port::Metrics, false)] {
        let server = Server::start(port, expose_ui, Some(&users())).await;
        for route in ROUTES {
            let path = path_of(route);
            let status = async |header: &str| server.plain(&path, header).await.0;
            let (none, wrong) = (status("").await, status(&basic("prometheus", "wrong")).await);
            let right = status(&basic("prometheus", "secret")).await;

            let is_reachable = match route.policy {
                Policy::Public | Policy::Metrics => true,
                Policy::Page => expose_ui || port == Port::Both,
                Policy::Profiles => port == Port::Both,
            };
            match (route.policy, is_reachable) {
                (Policy::Public, _) => assert_ne!(none, 401, "{path}"),
                (_, true) => assert_eq!([none, wrong], [401, 401], "{path} at {port:?}"),
                (_, false) => {
                    assert_eq!([none, wrong, right], [403, 403, 403], "{path} at {port:?}")
                }
            }
            assert!(!is_reachable || ![401, 403].contains(&right), "{path}: {right}");
        }

        let (_, text) = server.plain("/metrics", "").await;
        assert!(text.contains("www-authenticate: basic realm"), "{text}");
    }
}

#[tokio::test]
async fn a_removed_user_and_a_changed_password_count_at_once() {
    let hash = |password: &str| bcrypt::hash(password, 4).expect("a hash");
    let file = |user: &str, hash: &str| format!("basic_auth_users: {{{user}: '{hash}'}}\n");
    let first = hash("secret");
    let server = Server::start(Port::Metrics, false, Some(&file("prometheus", &first))).await;
    let status =
        async |password: &str| server.plain("/metrics", &basic("prometheus", password)).await.0;
    assert_eq!(status("secret").await, 200);

    server.load(&file("prometheus", &hash("other")));
    assert_eq!([status("secret").await, status("other").await], [401, 200]);

    server.load(&file("grafana", &first));
    assert_eq!([status("secret").await, status("other").await], [401, 401]);
}

#[tokio::test]
async fn a_reload_of_the_file_forgets_no_verdict_on_a_token() {
    let server = Server::start(Port::Metrics, false, Some("{}\n")).await;
    let accounts = Arc::new(CountingAccounts::default());
    server.exporter.access().require_tokens(accounts.clone());

    for text in ["{}\n", TLS] {
        assert_eq!(server.plain("/metrics", &bearer("prometheus")).await.0, 200);
        server.load(text);
    }
    let client = TlsClient::trusting(tls::AUTHORITY, false);
    let answer = server.tls(&client, "/metrics", &bearer("prometheus")).await;
    assert_eq!(answer.expect("TLS").0, 200);
    assert_eq!(accounts.0.load(std::sync::atomic::Ordering::Relaxed), 1);
}

#[tokio::test]
async fn protected_numbers_are_shown_once_the_port_has_clients_that_it_knows() {
    let mut view = sample();
    let instance = &mut view.snapshot.operator.instances[0];
    let (_, metrics) = instance.metrics.as_mut().expect("metrics");
    Arc::make_mut(metrics).protected = true;
    let exporter = exporter(view, ExportOptions::default());
    let shows_numbers = || {
        let text = exporter.render(TextFormat::Text004).into_text();
        text.lines().any(|line| line.starts_with("loopwatch_reconciles_total"))
    };
    assert!(!shows_numbers(), "anybody may read the port");

    exporter.access().require_tokens(Arc::new(Accounts));
    assert!(shows_numbers());
}

#[tokio::test]
async fn each_path_requires_a_token_of_an_account_that_may_open_it() {
    let server = Server::start(Port::Metrics, true, None).await;
    server.exporter.access().require_tokens(Arc::new(Accounts));

    for route in ROUTES {
        let path = path_of(route);
        let status = async |header: &str| server.plain(&path, header).await.0;
        let all = [
            status("").await,
            status(&bearer("stolen")).await,
            status(&bearer("prometheus")).await,
            status(&bearer("admin")).await,
        ];
        match route.policy {
            Policy::Public => {
                assert!(!all.contains(&401) && !all.contains(&403), "{path}: {all:?}")
            }
            Policy::Metrics => assert_eq!(all, [401, 401, 200, 200], "{path}"),
            Policy::Page => {
                assert_eq!(all[..3], [401, 401, 403], "{path}");
                assert!(![401, 403].contains(&all[3]), "{path}: {all:?}");
            }
            Policy::Profiles => assert_eq!(all, [403; 4], "{path}"),
        }
    }

    let twice = format!("{}{}", bearer("prometheus"), bearer("stolen"));
    assert_eq!(server.plain("/metrics", &twice).await.0, 401, "two headers");
}

#[tokio::test]
async fn the_port_for_people_needs_no_credentials() {
    let server = Server::start(Port::Ui, false, Some(&format!("{TLS}{}", users()))).await;
    server.exporter.access().require_tokens(Arc::new(Accounts));

    for path in ["/", "/api/v1/findings", "/api/v1/profiles", "/metrics"] {
        assert_eq!(server.plain(path, "").await.0, 200, "{path}");
    }
    assert_eq!(server.plain("/", "X-Forwarded-For: 10.1.2.3\r\n").await.0, 403);
}

#[tokio::test]
async fn a_client_certificate_is_required_except_for_probes() {
    let server = Server::start(Port::Metrics, true, Some(MUTUAL)).await;
    let (stranger, prometheus) =
        (TlsClient::trusting(tls::AUTHORITY, false), TlsClient::trusting(tls::AUTHORITY, true));

    for (path, without) in [("/metrics", 403), ("/", 403), ("/livez", 200)] {
        assert_eq!(server.tls(&stranger, path, "").await.expect("TLS").0, without, "{path}");
        assert_eq!(server.tls(&prometheus, path, "").await.expect("TLS").0, 200, "{path}");
    }

    // A certificate of an authority that the file no longer names.
    std::fs::write(server.folder.path().join("clients.crt"), tls::pem(tls::AUTHORITY))
        .expect("written");
    server.load(MUTUAL);
    let refused = server.tls(&prometheus, "/metrics", "").await;
    assert!(!matches!(refused, Ok((200, _))), "{refused:?}");
}

#[tokio::test]
async fn the_file_adds_headers_but_does_not_weaken_those_of_the_page() {
    let headers = "http_server_config: {headers: {Strict-Transport-Security: max-age=60, Content-Security-Policy: 'default-src *'}}";
    let server = Server::start(Port::Both, false, Some(headers)).await;

    let (_, text) = server.plain("/", "").await;
    assert!(text.contains("strict-transport-security: max-age=60"), "{text}");
    assert!(!text.contains("default-src *"), "{text}");
}
