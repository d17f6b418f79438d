//! What a stand-in knows: kinds, definitions, permissions, and objects that a test changes during a
//! watch.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::Request;
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::script::{Piece, Reply, answer, client};

/// The cluster, shared between the test and its API server.
#[derive(Clone, Default)]
pub struct World {
    state: Arc<Mutex<WorldState>>,
    /// Notified to cut all streams.
    cut: Arc<Notify>,
}

/// What the cluster has, and what was asked of it.
#[derive(Default)]
pub struct WorldState {
    /// The served kinds.
    pub kinds: Vec<ServedKind>,
    /// Rules by namespace; those of the empty namespace apply everywhere.
    pub rules: BTreeMap<String, Vec<Value>>,
    /// Whether reviews of rules say that they are incomplete.
    pub incomplete: bool,
    /// Whether reviews of rules list no rules.
    pub unlisted: bool,
    /// Whether discovery is aggregated.
    pub aggregated: bool,
    /// Namespaces in a streamed list, as JSON.
    pub annotated: Vec<Value>,
    /// Names of namespaces.
    pub namespaces: Vec<&'static str>,
    /// Custom resource definitions.
    pub definitions: Vec<Value>,
    /// All requests for objects, with their parameters.
    pub requests: Vec<String>,
    /// The last words of the paths of watches that asked for whole objects, not only for their
    /// metadata.
    pub whole: Vec<String>,
    /// All refused requests.
    pub refused: Vec<String>,
    /// All reviews: the last part of the path, and the namespace.
    pub reviewed: Vec<String>,
    /// Namespaces whose reviews fail.
    pub unreviewable: Vec<&'static str>,
    /// Resources that another authorizer denies, whatever the rules say.
    pub denied: Vec<String>,
    /// The objects of a resource. A resource without an entry has 42 objects, but only one of them
    /// can be read.
    pub objects: BTreeMap<&'static str, Vec<Value>>,
    /// All lists, as path and query.
    pub lists: Vec<String>,
    /// Requests whose path ends with this word panic in the task that sends them.
    pub poisoned: Option<String>,
}

/// Group, version, kind, resource, whether it is namespaced, and whether it has a status.
pub type ServedKind = (&'static str, &'static str, &'static str, &'static str, bool, bool);

/// A primary kind with a status.
pub const WIDGET: ServedKind = ("example.io", "v1", "Widget", "widgets", true, true);
/// A kind without a status.
pub const GADGET: ServedKind = ("example.io", "v1", "Gadget", "gadgets", true, false);
/// A cluster-scoped kind.
pub const THING: ServedKind = ("other.io", "v1", "Thing", "things", false, true);
/// A ConfigMap.
pub const CONFIG_MAP: ServedKind = ("", "v1", "ConfigMap", "configmaps", true, false);
/// A Pod.
pub const POD: ServedKind = ("", "v1", "Pod", "pods", true, true);
/// A ReplicaSet.
pub const REPLICA_SET: ServedKind = ("apps", "v1", "ReplicaSet", "replicasets", true, true);
/// A Deployment.
pub const DEPLOYMENT: ServedKind = ("apps", "v1", "Deployment", "deployments", true, true);
/// A Lease.
pub const LEASE: ServedKind = ("coordination.k8s.io", "v1", "Lease", "leases", true, false);
/// An Event of the core group.
pub const EVENT: ServedKind = ("", "v1", "Event", "events", true, false);
/// An Event of its newer group.
pub const NEW_EVENT: ServedKind = ("events.k8s.io", "v1", "Event", "events", true, false);
/// A Namespace.
pub const NAMESPACE: ServedKind = ("", "v1", "Namespace", "namespaces", false, true);
/// An Ingress.
pub const INGRESS: ServedKind = ("networking.k8s.io", "v1", "Ingress", "ingresses", true, true);

const DEFINITIONS: &str = "customresourcedefinitions";

/// The definition of a kind: with a status in its schema, and with or without the subresource.
pub fn definition(kind: ServedKind, in_schema: bool) -> Value {
    let (group, version, name, resource, _, subresource) = kind;
    let properties =
        if in_schema { json!({ "status": { "type": "object" } }) } else { json!({ "spec": {} }) };
    let subresources = if subresource { json!({ "status": {} }) } else { json!({}) };

    json!({
        "metadata": { "name": format!("{resource}.{group}"), "resourceVersion": "4" },
        "spec": { "group": group, "names": { "kind": name, "plural": resource }, "versions": [{
            "name": version, "served": true, "storage": true, "subresources": subresources,
            "schema": { "openAPIV3Schema": { "type": "object", "properties": properties } } }] },
        "status": { "storedVersions": [version], "conditions": [{ "type": "Established", "status": "True" }] },
    })
}

impl World {
    /// A cluster that serves these kinds to an account without permissions.
    pub fn new(kinds: &[ServedKind]) -> Self {
        let world = Self::default();
        world.change(|state| {
            state.kinds = kinds.to_vec();
            state.aggregated = true;
        });

        world
    }

    /// Grants a permission, in one namespace or everywhere.
    pub fn allow(self, namespace: &str, verbs: &[&str], group: &str, resources: &[&str]) -> Self {
        self.change(|state| {
            let rule = json!({ "verbs": verbs, "apiGroups": [group], "resources": resources });
            state.rules.entry(namespace.to_owned()).or_default().push(rule);
        });

        self
    }

    /// Changes the cluster, or looks at it.
    pub fn change<T>(&self, change: impl FnOnce(&mut WorldState) -> T) -> T {
        change(&mut self.lock())
    }

    /// Cuts all connections.
    pub fn cut(&self) {
        self.cut.notify_waiters();
    }

    /// A client of the account.
    pub fn client(&self) -> Client {
        let world = self.clone();
        client(move |request| {
            let world = world.clone();
            async move { answer(world.serve(request).await).await }
        })
    }

    async fn serve(&self, request: Request<Body>) -> Reply {
        let (path, query) =
            (request.uri().path().to_owned(), request.uri().query().unwrap_or_default().to_owned());
        self.change(|state| {
            let poisoned = state.poisoned.as_ref().is_some_and(|word| path.ends_with(word));
            // The samples of discovery are requests of the supervisor itself, not of the task that
            // should panic.
            assert!(!poisoned || query.contains("limit=20"), "poisoned");
        });

        let accept = request.headers().get("accept").and_then(|accept| accept.to_str().ok());
        let accept = accept.unwrap_or_default().to_owned();
        let body = request.into_body().collect().await;
        let body = body.map(|body| body.to_bytes()).unwrap_or_default();
        let body = serde_json::from_slice(&body).unwrap_or_default();

        if let Some((status, document)) = self.document(&path, &body) {
            return Reply::Response(status, vec![], document.to_string());
        }

        if query.contains("watch=true") && !accept.contains("Partial") {
            let resource = path.rsplit('/').next().unwrap_or_default().to_owned();
            self.change(|state| state.whole.push(resource));
        }

        self.objects(&path, &query)
    }

    /// Reviews, and lists of kinds: everything except objects.
    pub(super) fn document(&self, path: &str, body: &Value) -> Option<(u16, Value)> {
        let mut state = self.lock();
        if !path.ends_with("reviews") {
            return state.discover(path).map(|document| (200, document));
        }

        let namespace = body["spec"]["namespace"].as_str().unwrap_or_default();
        if state.unreviewable.contains(&namespace) {
            return Some((500, json!({ "kind": "Status", "code": 500 })));
        }

        Some((200, state.review(path, &body["spec"])))
    }

    /// A list, or a watch that is open until it is cut.
    fn objects(&self, path: &str, query: &str) -> Reply {
        let words: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, rest) =
            if words[0] == "api" { ("", &words[2..]) } else { (words[1], &words[3..]) };
        let version = if words[0] == "api" { words[1] } else { words[2] };
        let (namespace, resource, name) = match rest {
            ["namespaces", namespace, resource] => (*namespace, *resource, None),
            ["namespaces", namespace, resource, name] => (*namespace, *resource, Some(*name)),
            [resource, name] => ("", *resource, Some(*name)),
            [resource, ..] => ("", *resource, None),
            [] => ("", "", None),
        };

        let verb = match name {
            Some(_) => "get",
            None if query.contains("watch=true") => "watch",
            None => "list",
        };
        let refusal = self.change(|state| {
            state.requests.push(format!("{verb} {resource} {query}"));
            let is_served =
                |kind: &ServedKind| kind.0 == group && kind.1 == version && kind.3 == resource;
            if ![DEFINITIONS, "namespaces"].contains(&resource)
                && !state.kinds.iter().any(is_served)
            {
                return Some(404);
            }

            (!state.allows(namespace, verb, group, resource)).then(|| {
                state.refused.push(format!("{verb} {resource}"));
                403
            })
        });

        if let Some(code) = refusal {
            return Reply::Response(
                code,
                vec![],
                json!({ "kind": "Status", "code": code }).to_string(),
            );
        }

        let objects = self.change(|state| state.objects_in(resource, namespace));
        if let Some(name) = name {
            let found =
                objects.into_iter().flatten().find(|object| object["metadata"]["name"] == name);
            return found.as_ref().map_or_else(|| absent(name), respond);
        }

        if verb == "list" {
            self.change(|state| state.lists.push(format!("{path}?{query}")));
            let one = json!({ "metadata": { "name": "one" } });
            let metadata = json!({ "resourceVersion": "7", "remainingItemCount": 41 });
            return match objects {
                Some(objects) => respond(&page(&objects, query)),
                None => respond(&json!({ "metadata": metadata, "items": [one] })),
            };
        }

        let end = json!({ "type": "BOOKMARK", "object": { "metadata": {
            "resourceVersion": "5", "annotations": { "k8s.io/initial-events-end": "true" } } } });
        let cut = Arc::clone(&self.cut);
        let mut pieces =
            vec![Piece::Until(Box::pin(async move { cut.notified().await })), Piece::Cut];

        if query.contains("sendInitialEvents") {
            pieces.insert(0, Piece::Line(end.to_string()));
            let annotated =
                (resource == "namespaces").then(|| self.change(|state| state.annotated.clone()));
            for object in annotated.or(objects).unwrap_or_default() {
                pieces.insert(
                    0,
                    Piece::Line(json!({ "type": "ADDED", "object": object }).to_string()),
                );
            }
        }

        Reply::Streamed(pieces)
    }

    fn lock(&self) -> MutexGuard<'_, WorldState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WorldState {
    fn allows(&self, namespace: &str, verb: &str, group: &str, resource: &str) -> bool {
        let has = |list: &Value, word: &str| {
            list.as_array()
                .is_some_and(|list| list.iter().any(|allowed| allowed == "*" || allowed == word))
        };
        if self.denied.iter().any(|denied| denied == resource) {
            return false;
        }

        let namespaces = if namespace.is_empty() { vec![""] } else { vec!["", namespace] };
        namespaces.iter().filter_map(|namespace| self.rules.get(*namespace)).flatten().any(|rule| {
            has(&rule["verbs"], verb)
                && has(&rule["apiGroups"], group)
                && has(&rule["resources"], resource)
        })
    }

    /// The objects of a resource, if a test has set them. An empty namespace means all.
    fn objects_in(&self, resource: &str, namespace: &str) -> Option<Vec<Value>> {
        let named = |name: &&str| json!({ "metadata": { "name": name } });
        let objects: Vec<Value> = match resource {
            DEFINITIONS => self.definitions.clone(),
            "namespaces" => self.namespaces.iter().map(named).collect(),
            _ => self.objects.get(resource)?.clone(),
        };
        let is_in =
            |object: &Value| namespace.is_empty() || object["metadata"]["namespace"] == namespace;

        Some(objects.into_iter().filter(is_in).collect())
    }

    fn review(&mut self, path: &str, spec: &Value) -> Value {
        let namespace =
            spec["namespace"].as_str().or_else(|| spec["resourceAttributes"]["namespace"].as_str());
        let last = path.rsplit('/').next().unwrap_or_default();
        self.reviewed.push(format!("{last} {}", namespace.unwrap_or_default()));

        if path.ends_with("selfsubjectrulesreviews") {
            let namespace = spec["namespace"].as_str().unwrap_or_default();
            let rules: Vec<&Value> = ["", namespace]
                .iter()
                .filter_map(|namespace| self.rules.get(*namespace))
                .flatten()
                .collect();
            let rules = if self.unlisted { Vec::new() } else { rules };

            return json!({ "status": { "resourceRules": rules, "incomplete": self.incomplete } });
        }

        let text =
            |name: &str| spec["resourceAttributes"][name].as_str().unwrap_or_default().to_owned();
        let (resource, subresource) = (text("resource"), text("subresource"));
        let slash = if subresource.is_empty() { "" } else { "/" };
        let resource = format!("{resource}{slash}{subresource}");
        let allowed = self.allows(&text("namespace"), &text("verb"), &text("group"), &resource);

        json!({ "status": { "allowed": allowed } })
    }

    fn discover(&self, path: &str) -> Option<Value> {
        let verbs = json!(["get", "list", "watch", "create", "delete"]);
        let groups: std::collections::BTreeSet<&str> =
            self.kinds.iter().map(|kind| kind.0).collect();
        let core = path == "/api";
        let mine = groups.into_iter().filter(|group| group.is_empty() == core);

        match path {
            "/version" => Some(json!({ "gitVersion": "v1.99.0" })),
            "/api" | "/apis" if self.aggregated => {
                let version = |(_, version, kind, resource, namespaced, status): &ServedKind| {
                    let subresources =
                        if *status { json!([{ "subresource": "status" }]) } else { json!([]) };
                    let scope = if *namespaced { "Namespaced" } else { "Cluster" };
                    json!({ "version": version, "freshness": "Current", "resources": [{ "resource": resource,
                        "responseKind": { "kind": kind }, "scope": scope, "verbs": verbs, "subresources": subresources }] })
                };

                let items: Vec<Value> = mine
                    .map(|group| {
                        let versions: Vec<Value> =
                            self.kinds.iter().filter(|k| k.0 == group).map(version).collect();
                        json!({ "metadata": { "name": group }, "versions": versions })
                    })
                    .collect();

                Some(json!({ "kind": "APIGroupDiscoveryList", "items": items }))
            }
            "/api" => Some(json!({ "kind": "APIVersions", "versions": ["v1"] })),
            "/apis" => {
                let groups: Vec<Value> = mine
                    .map(|group| {
                        let versions: Vec<Value> =
                            self.kinds.iter().filter(|k| k.0 == group).map(|k| json!({ "version": k.1 })).collect();
                        json!({ "name": group, "versions": versions, "preferredVersion": versions[0] })
                    })
                    .collect();
                Some(json!({ "kind": "APIGroupList", "groups": groups }))
            }
            _ => {
                let words: Vec<&str> = path.trim_matches('/').split('/').collect();
                let (group, version) = match words[..] {
                    ["api", version] => ("", version),
                    ["apis", group, version] => (group, version),
                    _ => return None,
                };
                let mut resources = Vec::new();

                for (_, _, kind, resource, namespaced, status) in
                    self.kinds.iter().filter(|kind| kind.0 == group && kind.1 == version)
                {
                    resources.push(json!({ "name": resource, "kind": kind, "namespaced": namespaced, "verbs": verbs }));
                    if *status {
                        resources.push(json!({ "name": format!("{resource}/status"), "kind": kind, "verbs": ["get"] }));
                    }
                }

                Some(json!({ "kind": "APIResourceList", "resources": resources }))
            }
        }
    }
}

/// The page of a list that a query asks for.
fn page(objects: &[Value], query: &str) -> Value {
    let (range, metadata) = page_of(objects.len(), query, 7);
    json!({ "metadata": metadata, "items": objects[range] })
}

/// Returns which of the `objects` objects are on the page that a query asks for, and the metadata
/// of that page.
pub(super) fn page_of(objects: usize, query: &str, version: u64) -> (Range<usize>, Value) {
    let number = |name: &str| {
        query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
    };
    let from = number("continue").unwrap_or(0).min(objects);
    let end = from.saturating_add(number("limit").unwrap_or(usize::MAX)).min(objects);
    let token = if end < objects { end.to_string() } else { String::new() };
    let metadata = json!({ "resourceVersion": version.to_string(), "continue": token,
        "remainingItemCount": objects - end });

    (from..end, metadata)
}

/// An object in a namespace. If `owner` names a kind, an object of that kind owns it.
pub fn object(namespace: &str, name: &str, owner: Option<ServedKind>) -> Value {
    let owners: Vec<Value> = owner
        .into_iter()
        .map(|(group, version, kind, ..)| {
            json!({ "apiVersion": format!("{group}/{version}"), "kind": kind, "name": "owner", "uid": "u" })
        })
        .collect();
    json!({ "metadata": { "namespace": namespace, "name": name, "resourceVersion": "4", "ownerReferences": owners } })
}

/// The response to a request for an object that does not exist.
fn absent(name: &str) -> Reply {
    let status =
        json!({ "kind": "Status", "code": 404, "reason": "NotFound", "details": { "name": name } });
    Reply::Response(404, vec![], status.to_string())
}

fn respond(document: &Value) -> Reply {
    Reply::Response(200, vec![], document.to_string())
}
