//! A blocking client of the API server. Objects are plain JSON.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use ::kube::config::{KubeConfigOptions, Kubeconfig};
use ::kube::{Client, Config};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::repository;

/// The API version of the zoo's kinds.
pub const ZOO: &str = "zoo.loopwatch.dev/v1";

/// The zoo's kinds.
pub const ZOO_KINDS: [&str; 10] = [
    "Widget",
    "PhaseOnly",
    "NoObserved",
    "ForeverProgressing",
    "NumericString",
    "MapConditions",
    "Statusless",
    "NoSubresource",
    "JobLike",
    "Autoscaled",
];

/// The field manager of the test bed.
const FIELD_MANAGER: &str = "testbed";

/// The runtime of all connections of the test bed.
pub static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().expect("a runtime")
});

/// A client with the identity of one user.
#[derive(Clone)]
pub struct Kube {
    client: Client,
    /// Its kubeconfig.
    pub kubeconfig: Arc<Path>,
}

impl Kube {
    /// Creates a client from a kubeconfig.
    pub fn new(kubeconfig: &Path) -> Self {
        Self { client: client(kubeconfig), kubeconfig: kubeconfig.into() }
    }

    /// Sends one request. An answer without success is an error.
    pub fn call(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: Option<&Value>,
    ) -> Result<Value, String> {
        let bytes = body.map(Value::to_string).unwrap_or_default().into_bytes();
        let request =
            http::Request::builder().method(method).uri(path).header("Content-Type", content_type);
        let request = request.body(bytes).map_err(|error| error.to_string())?;
        let answer = RUNTIME.block_on(self.client.request::<Value>(request));

        answer.map_err(|error| format!("{method} {path}: {error}"))
    }

    /// Gets JSON from any path.
    pub fn get(&self, path: &str) -> Result<Value, String> {
        self.call("GET", path, "application/json", None)
    }

    /// Gets text from any path.
    pub fn text(&self, path: &str) -> Result<String, String> {
        let request =
            http::Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
        RUNTIME
            .block_on(self.client.request_text(request))
            .map_err(|error| format!("GET {path}: {error}"))
    }

    /// Gets one object, or `None` if it does not exist.
    pub fn find(&self, api: &str, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        match self.get(&path(api, kind, namespace, name)) {
            Ok(object) => Some(object),
            Err(error) if error.contains("NotFound") || error.contains("not found") => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Lists a kind in one namespace, or in all if `namespace` is empty. The API server may be
    /// down.
    pub fn try_list(&self, api: &str, kind: &str, namespace: &str) -> Result<Vec<Value>, String> {
        let mut list = self.get(&path(api, kind, namespace, ""))?;
        Ok(list["items"].as_array_mut().map(std::mem::take).unwrap_or_default())
    }

    /// Applies an object (server-side apply).
    pub fn apply(&self, object: &Value) -> Value {
        self.try_apply(object).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Like [`Kube::apply`], but returns errors.
    pub fn try_apply(&self, object: &Value) -> Result<Value, String> {
        self.apply_with("", object)
    }

    fn apply_with(&self, parameters: &str, object: &Value) -> Result<Value, String> {
        let text =
            |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (api, kind) = (text("/apiVersion"), text("/kind"));
        let path = path(api, kind, text("/metadata/namespace"), text("/metadata/name"));
        let path = format!("{path}?fieldManager={FIELD_MANAGER}&force=true{parameters}");

        self.call("PATCH", &path, "application/apply-patch+yaml", Some(object))
    }

    /// Like [`Kube::try_apply`], but the API server also rejects fields that it does not know.
    pub fn try_apply_strictly(&self, object: &Value) -> Result<Value, String> {
        self.apply_with("&fieldValidation=Strict", object)
    }

    /// Applies every document of a YAML file in this repository. Namespaced objects without a
    /// namespace get `namespace`.
    pub fn apply_file(&self, file: &str, namespace: &str) {
        let text = std::fs::read_to_string(repository(file))
            .unwrap_or_else(|error| panic!("{file}: {error}"));
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
        for mut document in documents.into_iter().filter(|document| document["kind"].is_string()) {
            let kind = document["kind"].as_str().unwrap_or_default();
            if !namespace.is_empty()
                && !is_cluster_scoped(kind)
                && document["metadata"]["namespace"].is_null()
            {
                document["metadata"]["namespace"] = json!(namespace);
            }

            self.apply(&document);
        }
    }

    /// Creates an object as another field manager, in the way of a controller (no server-side
    /// apply).
    pub fn create_as(&self, manager: &str, object: &Value) -> Value {
        let text =
            |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let collection = path(text("/apiVersion"), text("/kind"), text("/metadata/namespace"), "");
        let path = format!("{collection}?fieldManager={manager}");
        let answer = self.call("POST", &path, "application/json", Some(object));

        answer.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Patches an object (merge patch).
    pub fn patch(
        &self,
        api: &str,
        kind: &str,
        namespace: &str,
        name: &str,
        change: &Value,
    ) -> Value {
        self.patch_as(FIELD_MANAGER, api, kind, namespace, name, change)
    }

    /// Patches an object (merge patch) as another field manager.
    pub fn patch_as(
        &self,
        manager: &str,
        api: &str,
        kind: &str,
        namespace: &str,
        name: &str,
        change: &Value,
    ) -> Value {
        let path = format!("{}?fieldManager={manager}", path(api, kind, namespace, name));
        let answer = self.call("PATCH", &path, "application/merge-patch+json", Some(change));
        answer.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Deletes an object, which may be gone already.
    pub fn delete(&self, api: &str, kind: &str, namespace: &str, name: &str) {
        self.delete_at(&path(api, kind, namespace, name));
    }

    /// Like [`Kube::delete`], with a policy for the objects that it owns: `Background`,
    /// `Foreground` or `Orphan`.
    pub fn delete_with(&self, policy: &str, api: &str, kind: &str, namespace: &str, name: &str) {
        self.delete_at(&format!("{}?propagationPolicy={policy}", path(api, kind, namespace, name)));
    }

    fn delete_at(&self, path: &str) {
        match self.call("DELETE", path, "application/json", None) {
            Err(error) if !error.contains("not found") => panic!("{error}"),
            _ => {}
        }
    }

    /// Creates a namespace.
    pub fn namespace(&self, name: &str) {
        self.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
    }

    /// Requests a token of a service account.
    pub fn token(&self, namespace: &str, account: &str) -> String {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
        let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"expirationSeconds": 24 * 3600}});
        let answer = self
            .call("POST", &path, "application/json", Some(&body))
            .unwrap_or_else(|error| panic!("{error}"));

        answer["status"]["token"].as_str().expect("a token").to_owned()
    }

    /// Creates an object of the zoo with the default spec and the fields of `more`.
    pub fn zoo(&self, kind: &str, namespace: &str, name: &str, more: Value) -> Value {
        let mut spec = json!({"size": 1, "image": "registry.k8s.io/pause:3.10"});
        for (key, value) in more.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }

        self.apply(&json!({"apiVersion": ZOO, "kind": kind, "metadata": {"namespace": namespace, "name": name},
            "spec": spec}))
    }

    /// Changes the spec of an object of the zoo.
    pub fn change(&self, kind: &str, namespace: &str, name: &str, spec: Value) -> Value {
        self.patch(ZOO, kind, namespace, name, &json!({"spec": spec}))
    }

    /// Returns the status of an object of the zoo, or null.
    pub fn status(&self, kind: &str, namespace: &str, name: &str) -> Value {
        self.find(ZOO, kind, namespace, name).map_or(Value::Null, |object| object["status"].clone())
    }
}

/// Parses the objects of a YAML text.
pub fn documents(text: &str) -> Vec<Value> {
    let all: Vec<Value> =
        serde_saphyr::from_multiple(text).unwrap_or_else(|error| panic!("{error} in:\n{text}"));
    all.into_iter().filter(|document| document["kind"].is_string()).collect()
}

/// Returns the API path of an object, or of its collection if `name` is empty.
pub fn path(api: &str, kind: &str, namespace: &str, name: &str) -> String {
    let base = if api.contains('/') { format!("/apis/{api}") } else { format!("/api/{api}") };
    let within =
        if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
    let one = if name.is_empty() { String::new() } else { format!("/{name}") };

    format!("{base}{within}/{}{one}", plural(kind))
}

/// Returns the plural resource name of a kind. The rules suffice for the kinds of the tests.
pub fn plural(kind: &str) -> String {
    let word = kind.to_ascii_lowercase();
    match word.as_bytes() {
        [.., b's' | b'u', b's'] => word + "es",
        [.., b's'] => word,
        [stem @ .., b'y'] => format!("{}ies", String::from_utf8_lossy(stem)),
        _ => word + "s",
    }
}

fn is_cluster_scoped(kind: &str) -> bool {
    matches!(
        kind,
        "Namespace" | "Node" | "CustomResourceDefinition" | "ClusterRole" | "ClusterRoleBinding"
    )
}

/// Writes a kubeconfig for a bearer token. `server` may be a proxy in front of the API server.
pub fn write_kubeconfig(
    file: PathBuf,
    server: &str,
    authority: &Path,
    token: &str,
    namespace: &str,
) -> PathBuf {
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "testbed",
        "clusters": [{"name": "testbed", "cluster": {"server": server, "certificate-authority": authority}}],
        "users": [{"name": "user", "user": {"token": token}}],
        "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": "user", "namespace": namespace}}],
    });

    std::fs::write(&file, config.to_string())
        .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    file
}

/// Creates a client without retries from a kubeconfig.
fn client(kubeconfig: &Path) -> Client {
    // Only the first call succeeds.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let read = Kubeconfig::read_from(kubeconfig)
        .unwrap_or_else(|error| panic!("{}: {error}", kubeconfig.display()));
    RUNTIME.block_on(async {
        let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
        let mut config = config.expect("a kubeconfig that we wrote");
        config.default_retry = false;
        Client::try_from(config).expect("a client")
    })
}
