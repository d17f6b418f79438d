//! A model of objects and an operator that the input describes, and its outputs.

use std::cell::RefCell;

use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use loopwatch::fuzzing::Server;
use loopwatch_model::model::Model;
use loopwatch_model::observation::{ObjectView, Observation, WatchId, WatchedKind};
use loopwatch_model::settings::Settings;
use loopwatch_model::time::{Span, Timestamp};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

/// The time of the observations.
pub(crate) const NOW: Timestamp = Timestamp(1_767_225_600_000);

thread_local! {
    static RUNTIME: RefCell<Runtime> =
        RefCell::new(Builder::new_current_thread().enable_time().build().expect("a runtime"));
}

/// The number of objects whose pages are opened.
const MOST_PAGES: usize = 2;

/// The watch of [`model`].
pub(crate) fn watch() -> WatchId {
    WatchId("widgets.example.io".into())
}

/// The kind of its objects.
pub(crate) fn kind() -> WatchedKind {
    let kind = json!({"watch": watch(), "group": "example.io", "version": "v1", "kind": "Widget",
        "resource": "widgets", "scope": "all_namespaces", "role": "primary", "why": "configured"});
    serde_json::from_value(kind).expect("a kind")
}

/// A model that has listed this watch, after these observations.
pub(crate) fn model(seen: impl IntoIterator<Item = Observation>) -> Model {
    let (watch, mut model) = (watch(), Model::new(Settings::default()));

    model.apply(NOW, Observation::KindsDiscovered(vec![kind()]));
    model.apply(NOW, Observation::ListBegan { watch: watch.clone(), epoch: 1 });
    model.apply(NOW, Observation::ListEnded { watch, epoch: 1, version: "1".into() });
    for observation in seen {
        model.apply(NOW, observation);
    }

    model.apply(NOW.after(Span::hours(1)), Observation::Tick);
    model
}

/// What happens to an object after its first version: nothing for a while, the same content as another
/// version, and its removal.
pub(crate) fn life(object: ObjectView) -> Model {
    let (key, watch) = (object.key.clone(), watch());
    let later = |number: u8| format!("{}{number}", object.version);
    let (again, version) = (ObjectView { version: later(1), ..object.clone() }, later(2));
    let applied = [object, again]
        .map(|object| Observation::Applied { watch: watch.clone(), object: Box::new(object) });
    let mut model = model(applied);

    let removed = NOW.after(Span::hours(2));
    model.apply(removed, Observation::Deleted { watch, key, version });
    model.apply(removed.after(Span::hours(1)), Observation::Tick);
    model
}

/// Sends a request to a server.
pub(crate) fn respond(server: &Server, request: Request<Body>) -> (StatusCode, Vec<u8>) {
    let response = RUNTIME.with_borrow(|runtime| runtime.block_on(server.respond(request)));
    let (head, body) = response.expect("a whole body").into_parts();
    (head.status, body.to_vec())
}

/// Everything that the model's server writes about its objects parses again.
pub(crate) fn check_outputs(model: Model) {
    let server = Server::new(model);
    let get = |path: &str, accept: &str| {
        let request = Request::get(path).header(header::HOST, "localhost");
        let request = request.header(header::ACCEPT, accept).body(Body::empty());
        let (status, body) = respond(&server, request.expect("a request"));
        assert_eq!(status, StatusCode::OK, "{path}");
        String::from_utf8(body).expect("text")
    };

    let metrics = get("/metrics", "application/openmetrics-text");
    // The parser knows no histogram with a unit, and no control character in a label, which
    // OpenMetrics allows.
    let has_unit = |line: &&str| line.starts_with("# UNIT");
    let metrics: String = metrics.split_inclusive('\n').filter(|line| !has_unit(line)).collect();
    let metrics = metrics.replace(|c: char| c.is_control() && c != '\n', " ");
    let parsed = openmetrics_parser::openmetrics::parse_openmetrics(&metrics);
    assert!(parsed.is_ok(), "not OpenMetrics: {:?}\n{metrics}", parsed.err());
    get("/metrics", "text/plain");

    let json = |path: &str| -> Value { serde_json::from_str(&get(path, "*/*")).expect("JSON") };
    for path in ["/api/v1/findings", "/api/v1/operator", "/api/v1/timeline"] {
        json(path);
    }

    let page = |path: &str| {
        let page = get(path, "text/html");
        assert!(!page.contains("<x-fuzz"), "{path} contains an element of the input");
    };
    page("/");
    page("/objects");
    let objects = json("/api/v1/objects");
    for object in objects["objects"].as_array().into_iter().flatten().take(MOST_PAGES) {
        if let Some(query) = query_of(object) {
            json(&format!("/api/v1/explain?{query}"));
            page(&format!("/object?{query}"));
        }
    }
}

/// The parameters that select an object; `None` if it has no name.
fn query_of(object: &Value) -> Option<String> {
    let text = |name: &str| object[name].as_str().unwrap_or_default();
    let encoded = |name: &str| match (name, text(name)) {
        ("group", "") => "core".to_owned(), // an empty group means any
        (_, text) => text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>(),
    };
    let parameters = ["group", "kind", "namespace", "name"];
    let query = parameters.map(|name| format!("{name}={}", encoded(name))).join("&");

    (!text("name").is_empty()).then_some(query)
}
