//! Requests to the server, and URLs and refusals of other servers.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Method, Request, StatusCode, header};
use loopwatch::fuzzing::{self, Server};
use loopwatch::recording::Recording;
use loopwatch_model::model::Model;
use serde_json::Value;

use crate::limits::{bounded, is_plain};
use crate::world::respond;

/// A recording of many objects and findings.
const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/scenarios/objects.jsonl.gz");
/// The largest `limit` of a request.
const MAX_LIMIT: usize = 1000;

thread_local! {
    static SERVER: Server = Server::new(recorded());
}

fn recorded() -> Model {
    let recording = Recording::open(RECORDED.as_ref()).expect("a recording");
    let mut model = Model::new(recording.header().settings.clone());
    recording.for_each(|seen| model.apply(seen.at, seen.saw));
    model
}

/// The input is the target of a request, and its headers on further lines.
pub(crate) fn request(input: &[u8]) {
    let Some(request) = parsed(input) else { return };
    let (path, is_local) = (request.uri().path().to_owned(), request.uri().authority().is_none());
    let (status, body) =
        SERVER.with(|server| bounded(input, 16 << 20, 1 << 12, || respond(server, request)));

    assert!(!status.is_server_error() || path == "/readyz", "{status} {path}");
    // A client may ask for gzip.
    let Ok(text) = String::from_utf8(body) else { return assert_eq!(path, "/metrics") };
    if path.starts_with("/api/")
        && !matches!(
            status,
            StatusCode::NOT_FOUND | StatusCode::FORBIDDEN | StatusCode::METHOD_NOT_ALLOWED
        )
        && is_local
    {
        check_json(&path, &text);
    }
    assert!(!text.contains("<x-fuzz") || path.starts_with("/api/"), "an element of the input");
}

fn check_json(path: &str, text: &str) {
    let document = serde_json::from_str::<Value>(text).unwrap_or_default();
    assert!(document.is_object(), "{path}: {text}");
    let listed = document["objects"].as_array().or(document["findings"].as_array());
    assert!(listed.is_none_or(|listed| listed.len() <= MAX_LIMIT), "{path}");
}

fn parsed(input: &[u8]) -> Option<Request<Body>> {
    let mut lines = input.split(|byte| *byte == b'\n');
    let target = std::str::from_utf8(lines.next()?).ok()?;
    let mut request =
        Request::builder().method(Method::GET).uri(target).body(Body::empty()).ok()?;
    request.headers_mut().insert(header::HOST, HeaderValue::from_static("localhost"));

    for line in lines {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let name = HeaderName::from_bytes(&line[..colon]).ok()?;
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?;
        request.headers_mut().insert(name, value);
    }

    Some(request)
}

/// The input is a URL.
pub(crate) fn url(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match bounded(input, 4 << 10, 64, || fuzzing::url(text, "/metrics")) {
        Ok(url) => {
            assert_eq!(fuzzing::url(&url.uri, "/other"), Ok(url.clone()), "{text:?}");
            assert!(is_plain(&url.uri) && !url.shown.contains('@') && url.port > 0, "{url:?}");
            assert!(!url.host.is_empty() && url.shown.matches('/').count() == 2, "{url:?}");
            assert!(url.address.is_none_or(|address| address.port() == url.port));
        }
        Err(problem) => assert!(is_plain(&problem) && !problem.contains("S3CRET"), "{problem:?}"),
    }
}

/// The input is a status, a line with the wait, and the body.
pub(crate) fn refusal(input: &[u8]) {
    let [high, low, rest @ ..] = input else { return };
    let status = u16::from_be_bytes([*high, *low]);
    let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    let (wait, body) = (&rest[..end], rest.get(end + 1..).unwrap_or_default());
    let read = || fuzzing::refusal(status, wait, body);
    let Some(refusal) = bounded(input, 64 << 10, 64, read) else { return };

    let [of_api_server, of_others] = refusal.waits;
    assert!(of_api_server.is_none_or(|wait| wait <= Duration::from_secs(120)));
    assert!(of_others.is_none_or(|wait| wait <= Duration::from_secs(60)));
    assert!(!refusal.detail.is_empty());
    assert!(refusal.absent_object.is_empty() || status == 404);
}
