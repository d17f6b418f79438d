//! HTTP clients for peers other than the API server: a webhook, and the operator's own metrics and
//! profiles.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderMap, HeaderValue, Request, Response, Uri, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::Config;
use kube::client::ConfigExt as _;
use loopwatch_model::observation::Cause;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tower::util::BoxService;
use tower::{BoxError, Service as _, ServiceExt as _};

use super::failure::{Failure, layers};
use super::name_lookup::Lookups;
use crate::system::files::open_regular;

/// A client that keeps one connection open for a while.
pub(crate) type PeerClient = BoxService<Request<Full<Bytes>>, Response<Incoming>, BoxError>;

/// Which peers a client trusts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// It uses no TLS.
    Plain,
    /// Those with a certificate of the authorities of the system.
    System,
    /// Those with a certificate of these authorities.
    Authorities {
        /// The file with the authorities.
        file: PathBuf,
        /// Its content.
        pem: Vec<u8>,
    },
    /// All: the certificate does not matter.
    Anyone,
}

/// A peer, and the client that talks to it.
pub(crate) struct Peer {
    /// The scheme of its URL is HTTPS.
    is_https: bool,
    /// A file with the certificate authorities to trust instead of those of the system.
    ca_file: Option<PathBuf>,
    /// The name in its certificate if the URLs of the requests have an address instead.
    server_name: Option<String>,
    client: Option<(Trust, PeerClient)>,
}

/// How long a connection stays open without a request.
const IDLE: Duration = Duration::from_secs(30);
/// The largest token or certificate file, in bytes.
const MAX_FILE: u64 = 1 << 20;
/// The longest wait that a peer can ask for.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(60);
/// The largest head of a response, and the largest piece of a body, in bytes.
const MAX_BUFFER: usize = 64 << 10;

// === impl Peer ===

impl Peer {
    pub(crate) fn new(url: &Uri, ca_file: Option<PathBuf>) -> Self {
        Self {
            is_https: url.scheme() == Some(&Scheme::HTTPS),
            ca_file,
            server_name: None,
            client: None,
        }
    }

    /// Sets the name in its certificate if the URLs of the requests have an address instead.
    pub(crate) fn named(self, server_name: Option<String>) -> Self {
        Self { server_name, ..self }
    }

    /// Returns the client: a new one if the file of the certificate authorities has changed.
    ///
    /// # Errors
    /// Names the file if it cannot be used.
    pub(crate) async fn client(&mut self) -> Result<&mut PeerClient, String> {
        let trust = match &self.ca_file {
            _ if !self.is_https => Trust::Plain,
            Some(file) => Trust::Authorities { file: file.clone(), pem: read(file).await? },
            None => Trust::System,
        };
        let same = self.client.take().filter(|(known, _)| *known == trust);
        let client = match same {
            Some((_, client)) => client,
            None => trust.clone().client(None, self.server_name.clone()).await?,
        };

        Ok(&mut self.client.insert((trust, client)).1)
    }

    /// Forgets the connection, which may be half open.
    pub(crate) fn disconnect(&mut self) {
        self.client = None;
    }
}

/// The wait that a response asks for, at most a minute.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds =
        headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    seconds.map(|seconds| Duration::from_secs(seconds).min(LONGEST_RETRY_AFTER))
}

// === impl Trust ===

impl Trust {
    /// Builds a client. Loading the certificates of the system takes some milliseconds, so another
    /// thread does it. `server_name` is the name in the certificate if the URLs of the requests
    /// have an address instead.
    ///
    /// # Errors
    /// Names the file of the authorities if it cannot be used.
    pub(crate) async fn client(
        self,
        connect_within: Option<Duration>,
        server_name: Option<String>,
    ) -> Result<PeerClient, String> {
        let mut connector = HttpConnector::new_with_resolver(Lookups::of_system());
        connector.enforce_http(false); // TLS is the next layer
        connector.set_connect_timeout(connect_within);

        let mut builder = legacy::Client::builder(TokioExecutor::new());
        builder.pool_max_idle_per_host(1).pool_idle_timeout(IDLE).pool_timer(TokioTimer::new());
        builder.http1_max_buf_size(MAX_BUFFER);

        let connector = match self {
            Self::Plain => {
                return Ok(BoxService::new(builder.build(connector).map_err(BoxError::from)));
            }
            Self::Anyone => self.secure(connector, server_name)?,
            Self::System | Self::Authorities { .. } => {
                spawn_blocking(|| self.secure(connector, server_name))
                    .await
                    .map_err(|error| error.to_string())??
            }
        };

        Ok(BoxService::new(builder.build(connector).map_err(BoxError::from)))
    }

    /// Adds TLS to a connector.
    fn secure(
        self,
        connector: HttpConnector<Lookups>,
        server_name: Option<String>,
    ) -> Result<impl Connect + Clone + Send + Sync + 'static, String> {
        // rustls does not choose between two linked providers. An error means that one is already
        // installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut config = Config::new(Uri::from_static("https://peer"));
        config.tls_server_name = server_name;

        match self {
            Self::Plain | Self::System => {}
            Self::Authorities { file, pem } => config.root_cert = Some(certificates(&file, &pem)?),
            Self::Anyone => {
                (config.accept_invalid_certs, config.root_cert) = (true, Some(Vec::new()))
            }
        }

        config.rustls_https_connector_with_connector(connector).map_err(|error| layers(&error))
    }
}

/// Sends a request, and waits for the head of the response.
pub(crate) async fn send(
    client: &mut PeerClient,
    request: Request<Full<Bytes>>,
    within: Duration,
) -> Result<Response<Incoming>, Failure> {
    let sending = async { client.ready().await?.call(request).await };
    match timeout(within, sending).await {
        Ok(response) => response.map_err(|error| Failure::peer(&*error)),
        Err(_) => Err(Failure::new(
            Cause::Timeout,
            format!("no response within {} s", within.as_secs_f32()),
        )),
    }
}

/// The certificates of a PEM file.
fn certificates(file: &Path, pem: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let read: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(pem).map(|c| c.map(|c| c.to_vec())).collect();
    match read {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(format!("{} contains no valid certificate in PEM", file.display())),
    }
}

/// The header with the token of a file. The errors do not quote the token.
pub(crate) async fn authorization(file: &Path) -> Result<HeaderValue, String> {
    let invalid = || format!("{} contains no valid token", file.display());
    let token = read(file).await.map_err(|problem| match file.to_string_lossy() {
        path if path.contains('/') => problem,
        // Somebody may have set the token itself instead of the name of its file.
        token => problem.replacen(
            &*token,
            "the token file (not shown, because its name has no / and may be the token)",
            1,
        ),
    })?;

    let token = String::from_utf8(token).map_err(|_| invalid())?;
    let token = token.trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(invalid());
    }

    let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| invalid())?;
    value.set_sensitive(true);
    Ok(value)
}

/// Reads a small file. A named pipe would block, and a device may have no end.
pub(crate) async fn read(file: &Path) -> Result<Vec<u8>, String> {
    let path: PathBuf = file.to_owned();
    let reading = spawn_blocking(move || {
        use std::io::Read as _;

        let mut content = Vec::new();
        open_regular(&path)?.take(MAX_FILE + 1).read_to_end(&mut content)?;
        match content.len() as u64 > MAX_FILE {
            false => Ok(content),
            true => Err(std::io::Error::other("it is larger than 1 MiB")),
        }
    });

    let content = reading.await.map_err(|error| error.to_string())?;
    content.map_err(|error| format!("cannot read {}: {error}", file.display()))
}

/// The warning that a secret would cross a network in the clear, if requests with it go to this
/// URL. `from` says where the secret comes from.
pub(crate) fn in_the_clear(url: &Uri, from: &str) -> Option<String> {
    let (scheme, authority) = (url.scheme()?, url.authority()?);
    (*scheme == Scheme::HTTP && !is_loopback(authority.host())).then(|| {
        format!("{from}: requests to http://{authority} are not encrypted, so others may read it on the network; use https://")
    })
}

/// Whether the host of a URL is this one.
pub(crate) fn is_loopback(host: &str) -> bool {
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost")
        || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Reads the URL of a peer. `advice` says where credentials belong instead. The error does not
/// quote the URL, which may hold a secret.
///
/// # Errors
/// If it is not a URL of HTTP with a host.
pub(crate) fn http_url(text: &str, default_path: &str, advice: &str) -> Result<Uri, String> {
    let expected =
        || "expected http:// or https:// with a host, for example http://127.0.0.1:8080".to_owned();
    let mut parts = text.parse::<Uri>().map_err(|_| expected())?.into_parts();
    let is_http =
        parts.scheme.as_ref().is_some_and(|scheme| [Scheme::HTTP, Scheme::HTTPS].contains(scheme));
    let authority =
        parts.authority.as_ref().filter(|authority| is_http && !authority.host().is_empty());
    let authority = authority.ok_or_else(expected)?;

    if authority.as_str().contains('@') {
        return Err(format!("a URL must not contain a user or a password{advice}"));
    }

    // The text behind the host is a port, and only a valid one is a number.
    if authority.as_str() != authority.host() && authority.port_u16().is_none_or(|port| port == 0) {
        return Err("the port must be a number from 1 to 65535".to_owned());
    }

    let path = parts.path_and_query.as_ref().map_or("/", PathAndQuery::as_str);
    let query = path.strip_prefix('/').unwrap_or(path);
    if query.is_empty() || query.starts_with('?') {
        parts.path_and_query =
            Some(format!("{default_path}{query}").parse().map_err(|_| expected())?);
    }

    Uri::from_parts(parts).map_err(|_| expected())
}
