//! A proxy in front of the API server that can refuse and delay requests, and counts them and their
//! answers. It serves plain HTTP, so that it can write answers itself.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::kube::client::Body;
use ::kube::{Client, Config};
use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::controlplane::ControlPlane;
use super::kube::RUNTIME;

type AnyBody = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// An answer that the gate gives in place of the API server.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The status code.
    pub status: u16,
    /// Seconds in `Retry-After`.
    pub retry_after: Option<u32>,
    /// The gate refuses only requests whose path contains this text.
    pub path: &'static str,
}

/// What has passed a gate.
#[derive(Debug, Default)]
pub struct Traffic {
    requests: AtomicUsize,
    reviews: AtomicUsize,
    bytes: AtomicUsize,
}

/// A gate in front of one API server.
pub struct Gate {
    port: u16,
    refusal: Arc<Mutex<Option<Refusal>>>,
    withheld: Arc<Mutex<Option<&'static str>>>,
    refused: Arc<AtomicUsize>,
    traffic: Arc<Traffic>,
    /// The path and query of every request.
    requests: Arc<Mutex<Vec<String>>>,
    /// Closes all open connections when its value changes.
    cut: watch::Sender<u64>,
}

impl Gate {
    /// Starts a gate that lets everything through.
    pub fn before(plane: &ControlPlane) -> Self {
        Self::delayed(plane, Duration::ZERO)
    }

    /// Starts a gate that adds a token to requests without credentials: client-go sends none over
    /// plain HTTP.
    pub fn with_token(plane: &ControlPlane, token: &str) -> Self {
        Self::start(forwarder(plane), Duration::ZERO, Some(token))
    }

    /// Starts a gate that delays each request, as a distant API server would.
    pub fn delayed(plane: &ControlPlane, latency: Duration) -> Self {
        Self::start(forwarder(plane), latency, None)
    }

    fn start(client: Client, latency: Duration, token: Option<&str>) -> Self {
        let credentials = token
            .map(|token| format!("Bearer {token}").parse().expect("a token is a header value"));
        let listener = RUNTIME.block_on(TcpListener::bind(("127.0.0.1", 0))).expect("a free port");
        let port = listener.local_addr().expect("our own port").port();
        let refusal = Arc::new(Mutex::new(None));
        let withheld = Arc::new(Mutex::new(None));
        let refused = Arc::new(AtomicUsize::new(0));
        let (traffic, requests) = (Arc::new(Traffic::default()), Arc::new(Mutex::new(Vec::new())));
        let (rules, count, passing, log) =
            (refusal.clone(), refused.clone(), traffic.clone(), requests.clone());
        let events = withheld.clone();

        let (cut, cuts) = watch::channel(0);
        RUNTIME.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (client, rules, count, log) =
                    (client.clone(), rules.clone(), count.clone(), log.clone());
                let (passing, credentials): (_, Option<HeaderValue>) =
                    (passing.clone(), credentials.clone());
                let events = events.clone();
                let service = service_fn(move |mut request: Request<Incoming>| {
                    if let Some(credentials) = &credentials {
                        request
                            .headers_mut()
                            .entry(header::AUTHORIZATION)
                            .or_insert_with(|| credentials.clone());
                    }

                    lock(&log).push(request.uri().to_string());
                    let rule = lock(&rules).clone();
                    let (client, count, passing) = (client.clone(), count.clone(), passing.clone());
                    let events = is_watch(&request).then(|| events.clone());
                    async move {
                        tokio::time::sleep(latency).await;
                        let answer = pass(client, request, rule, &count, &passing).await;
                        let answer = answer.map(|body| passing.count(body));
                        Ok::<_, Infallible>(answer.map(|body| match events {
                            Some(text) => withhold(body, text),
                            None => body,
                        }))
                    }
                });

                let mut cuts = cuts.clone();
                cuts.mark_unchanged();
                RUNTIME.spawn(async move {
                    let http = hyper::server::conn::http1::Builder::new();
                    tokio::select! {
                        _ = http.serve_connection(TokioIo::new(stream), service) => {}
                        _ = cuts.changed() => {}
                    }
                });
            }
        });

        Self { port, refusal, withheld, refused, traffic, requests, cut }
    }

    /// Returns the address of the API server through this gate.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Closes every connection, including those with a request in progress.
    pub fn end_streams(&self) {
        self.cut.send_modify(|count| *count += 1);
    }

    /// Refuses new requests; those in progress continue.
    pub fn refuse(&self, refusal: Refusal) {
        *lock(&self.refusal) = Some(refusal);
    }

    /// Lets everything through.
    pub fn open(&self) {
        *lock(&self.refusal) = None;
    }

    /// Withholds all watch events that contain this text, as a broken proxy would. The API server
    /// sends each event in a frame of its own if nothing else happens at the time.
    pub fn withhold(&self, text: Option<&'static str>) {
        *lock(&self.withheld) = text;
    }

    /// Returns what has passed.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Returns the path and query of every request so far.
    pub fn requests(&self) -> Vec<String> {
        lock(&self.requests).clone()
    }

    /// Returns the number of refused requests.
    pub fn refused(&self) -> usize {
        self.refused.load(Ordering::Relaxed)
    }
}

impl Traffic {
    /// Returns the number of requests.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    /// Returns the number of requests for reviews of permissions.
    pub fn reviews(&self) -> usize {
        self.reviews.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes in the bodies of answers, as far as they have passed.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn count(self: Arc<Self>, body: AnyBody) -> AnyBody {
        body.map_frame(move |frame| {
            self.bytes.fetch_add(frame.data_ref().map_or(0, Bytes::len), Ordering::Relaxed);
            frame
        })
        .boxed_unsync()
    }
}

fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Creates a client that adds only the address and TLS to a request.
fn forwarder(plane: &ControlPlane) -> Client {
    let authority = std::fs::read(plane.directory().join("certs/apiserver.crt"))
        .expect("the API server's certificate");
    RUNTIME.block_on(async {
        let mut config = Config::new(plane.url.parse().expect("our own address"));
        config.root_cert = Some(pem(&authority));
        config.default_retry = false;
        Client::try_from(config).expect("a client")
    })
}

/// Parses the certificates of a PEM file.
fn pem(text: &[u8]) -> Vec<Vec<u8>> {
    use rustls::pki_types::CertificateDer;

    use rustls::pki_types::pem::PemObject;

    CertificateDer::pem_slice_iter(text).filter_map(Result::ok).map(|der| der.to_vec()).collect()
}

fn is_watch(request: &Request<Incoming>) -> bool {
    request.uri().query().is_some_and(|query| query.contains("watch="))
}

/// Empties the frames of a body that contain the text to withhold.
fn withhold(body: AnyBody, text: Arc<Mutex<Option<&'static str>>>) -> AnyBody {
    let has = move |data: &Bytes| {
        let part = lock(&text).map(str::as_bytes);
        part.is_some_and(|part| data.windows(part.len()).any(|window| window == part))
    };
    let pass = move |frame: Frame<Bytes>| match frame.data_ref().is_some_and(&has) {
        true => Frame::data(Bytes::new()),
        false => frame,
    };

    body.map_frame(pass).boxed_unsync()
}

async fn pass(
    client: Client,
    request: Request<Incoming>,
    refusal: Option<Refusal>,
    refused: &AtomicUsize,
    traffic: &Traffic,
) -> Response<AnyBody> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
    traffic.requests.fetch_add(1, Ordering::Relaxed);
    traffic.reviews.fetch_add(usize::from(path.contains("reviews")), Ordering::Relaxed);

    if let Some(refusal) = refusal.filter(|refusal| path.contains(refusal.path)) {
        refused.fetch_add(1, Ordering::Relaxed);
        return answer(refusal.status, refusal.retry_after, "refused by the gate");
    }

    let (mut parts, body) = request.into_parts();
    parts.headers.remove(header::HOST);
    parts.uri = path.parse().unwrap_or_default();

    let body = body.collect().await.map(|body| body.to_bytes().to_vec()).unwrap_or_default();
    match client.send(Request::from_parts(parts, Body::from(body))).await {
        Ok(response) => response.map(|body| body.map_err(|error| error.into()).boxed_unsync()),
        Err(error) => answer(502, None, &error.to_string()),
    }
}

fn answer(status: u16, retry_after: Option<u32>, message: &str) -> Response<AnyBody> {
    let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        "code": status});
    let mut response = Response::builder()
        .status(StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY))
        .header(header::CONTENT_TYPE, "application/json");
    if let Some(seconds) = retry_after {
        response = response.header(header::RETRY_AFTER, seconds);
    }

    let body =
        Full::new(Bytes::from(body.to_string())).map_err(|never| match never {}).boxed_unsync();
    response.body(body).expect("a response of constants")
}
