//! A small cluster for tests: kinds, definitions, permissions and objects that a test changes
//! during a watch.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::Request;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{Piece, Reply, answer, cluster};
use crate::sources::api_server::Cluster;

/// The cluster, shared between the test and its API server.
#[derive(Clone, Default)]
pub(crate) struct World {
    state: Arc<Mutex<WorldState>>,
    /// Notified to cut all streams.
    cut: Arc<Notify>,
}

#[derive(Default)]
pub(crate) struct WorldState {
    /// `(group, version, kind, resource, namespaced, has status)`.
    pub(crate) kinds: Vec<FakeKind>,
    /// Rules by namespace; those of the empty namespace apply everywhere.
    pub(crate) rules: BTreeMap<String, Vec<Value>>,
    pub(crate) incomplete: bool,
    /// Whether reviews of rules list none.
    pub(crate) unlisted: bool,
    /// Whether discovery is aggregated.
    pub(crate) aggregated: bool,
    /// Namespaces in a streamed list, as JSON.
    pub(crate) annotated: Vec<Value>,
    /// Names of namespaces.
    pub(crate) namespaces: Vec<&'static str>,
    /// Custom resource definitions.
    pub(crate) definitions: Vec<Value>,
    /// All requests for objects, with their parameters.
    pub(crate) requests: Vec<String>,
    /// The last words of the paths of watches that asked for whole objects, not only for their
    /// metadata.
    pub(crate) whole: Vec<String>,
    /// All refused requests.
    pub(crate) refused: Vec<String>,
    /// All reviews: the last part of the path, and the namespace.
    pub(crate) reviewed: Vec<String>,
    /// Namespaces whose reviews fail.
    pub(crate) unreviewable: Vec<&'static str>,
    /// Resources that another authorizer than that of the rules denies.
    pub(crate) denied: Vec<String>,
    /// The objects of a resource. A resource without an entry has 42 objects, of which only one can
    /// be read.
    pub(crate) objects: BTreeMap<&'static str, Vec<Value>>,
    /// All lists, as path and query.
    pub(crate) lists: Vec<String>,
    /// Requests whose path ends with this word panic in the task that sends them.
    pub(crate) poisoned: Option<String>,
}

pub(crate) type FakeKind = (&'static str, &'static str, &'static str, &'static str, bool, bool);

pub(crate) const WIDGET: FakeKind = ("example.io", "v1", "Widget", "widgets", true, true);
pub(crate) const GADGET: FakeKind = ("example.io", "v1", "Gadget", "gadgets", true, false);
pub(crate) const THING: FakeKind = ("other.io", "v1", "Thing", "things", false, true);
pub(crate) const CONFIG_MAP: FakeKind = ("", "v1", "ConfigMap", "configmaps", true, false);
pub(crate) const POD: FakeKind = ("", "v1", "Pod", "pods", true, true);
pub(crate) const REPLICA_SET: FakeKind = ("apps", "v1", "ReplicaSet", "replicasets", true, true);
pub(crate) const DEPLOYMENT: FakeKind = ("apps", "v1", "Deployment", "deployments", true, true);
pub(crate) const LEASE: FakeKind = ("coordination.k8s.io", "v1", "Lease", "leases", true, false);
pub(crate) const EVENT: FakeKind = ("", "v1", "Event", "events", true, false);
pub(crate) const NEW_EVENT: FakeKind = ("events.k8s.io", "v1", "Event", "events", true, false);
pub(crate) const NAMESPACE: FakeKind = ("", "v1", "Namespace", "namespaces", false, true);
pub(crate) const INGRESS: FakeKind =
    ("networking.k8s.io", "v1", "Ingress", "ingresses", true, true);

const DEFINITIONS: &str = "customresourcedefinitions";

/// The definition of a kind: with a status in its schema, and with or without the subresource.
pub(crate) fn definition(kind: FakeKind, in_schema: bool) -> Value {
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

// === impl World ===

impl World {
    /// A cluster that serves these kinds to an account without permissions.
    pub(crate) fn new(kinds: &[FakeKind]) -> Self {
        let world = Self::default();
        world.change(|state| {
            state.kinds = kinds.to_vec();
            state.aggregated = true;
        });

        world
    }

    /// Grants a permission, in one namespace or everywhere.
    pub(crate) fn allow(
        self,
        namespace: &str,
        verbs: &[&str],
        group: &str,
        resources: &[&str],
    ) -> Self {
        self.change(|state| {
            let rule = json!({ "verbs": verbs, "apiGroups": [group], "resources": resources });
            state.rules.entry(namespace.to_owned()).or_default().push(rule);
        });

        self
    }

    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut WorldState) -> T) -> T {
        change(&mut self.lock())
    }

    /// Cuts all connections.
    pub(crate) fn cut(&self) {
        self.cut.notify_waiters();
    }

    pub(crate) fn cluster(&self) -> Cluster {
        let world = self.clone();
        cluster(move |request| {
            let world = world.clone();
            async move { answer(world.serve(request).await).await }
        })
    }

    async fn serve(&self, request: Request<Body>) -> Reply {
        let (path, query) =
            (request.uri().path().to_owned(), request.uri().query().unwrap_or_default().to_owned());
        self.change(|state| {
            let poisoned = state.poisoned.as_ref().is_some_and(|word| path.ends_with(word));
            // Samples of discovery are requests of the supervisor itself, and not of the task to
            // panic.
            assert!(!poisoned || query.contains("limit=20"), "poisoned");
        });

        if path.ends_with("reviews") {
            let body =
                request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
            let review: Value = serde_json::from_slice(&body).unwrap_or_default();
            let namespace = review["spec"]["namespace"].as_str().unwrap_or_default();

            if self.change(|state| state.unreviewable.contains(&namespace)) {
                return Reply::Response(
                    500,
                    vec![],
                    json!({ "kind": "Status", "code": 500 }).to_string(),
                );
            }

            return respond(&self.change(|state| state.review(&path, &review["spec"])));
        }

        let discovered = self.change(|state| state.discover(&path));
        if let Some(document) = discovered {
            return respond(&document);
        }

        let accept = request
            .headers()
            .get("accept")
            .and_then(|accept| accept.to_str().ok())
            .unwrap_or_default();
        if query.contains("watch=true") && !accept.contains("Partial") {
            let resource = path.rsplit('/').next().unwrap_or_default().to_owned();
            self.change(|state| state.whole.push(resource));
        }

        self.objects(&path, &query)
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
                |kind: &FakeKind| kind.0 == group && kind.1 == version && kind.3 == resource;
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

// === impl WorldState ===

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
            "/api" | "/apis" if self.aggregated => {
                let version = |(_, version, kind, resource, namespaced, status): &FakeKind| {
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
    let number = |name: &str| {
        query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
    };
    let (limit, from) = (number("limit").unwrap_or(usize::MAX), number("continue").unwrap_or(0));
    let items: Vec<&Value> = objects.iter().skip(from).take(limit).collect();
    let rest = objects.len().saturating_sub(from + items.len());
    let token = if rest > 0 { (from + items.len()).to_string() } else { String::new() };

    json!({ "metadata": { "resourceVersion": "7", "continue": token, "remainingItemCount": rest }, "items": items })
}

/// An object in a namespace, which an object of a kind may own.
pub(crate) fn object(namespace: &str, name: &str, owner: Option<FakeKind>) -> Value {
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
