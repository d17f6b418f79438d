//! The requests that loopwatch sends to the API server, and why. It sends none without a row in this
//! table. The tables of permissions in the documents are generated from it, and a test compares
//! the roles in `deploy/` with it.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// A permission that a feature needs.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    /// The feature, for people.
    pub feature: &'static str,
    /// The setting or the command that turns it on; `None` for what `loopwatch run` does by default.
    pub setting: Option<&'static str>,
    /// The resources or paths that the requests name.
    pub asks: Asks,
    pub verbs: &'static [Verb],
    /// Where the permission must hold.
    pub scope: Scope,
    /// What the responses contain.
    pub contents: Contents,
    /// The purpose.
    pub why: &'static str,
    /// The loss without the permission.
    pub without: &'static str,
    /// The roles that contain the permission.
    pub granted_by: &'static [Grant],
}

/// What a request is about.
#[derive(Clone, Copy, Debug)]
pub enum Asks {
    /// Resources of one API group.
    Of(&'static str, &'static [&'static str]),
    /// Any resource except Secrets.
    AnyResource,
    /// Paths of the API server outside its resources.
    Paths(&'static [&'static str]),
    /// The path of the operator's metrics. The operator asks the API server whether the account may
    /// read it; loopwatch sends no such request to the API server.
    OperatorPath(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    /// Two headers of a request, rather than a request.
    Impersonate,
}

/// Where a permission must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In the whole cluster.
    Cluster,
    /// In the namespaces of the operator's objects: all, or those in `LOOPWATCH_NAMESPACE`.
    Watched,
    /// In the namespace of the operator's Pods.
    Operator,
}

/// What the response to a request contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    Whole,
    Metadata,
    /// Answers about the permissions of an account.
    Review,
}

/// A role with permissions for loopwatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grant {
    /// The roles `system:basic-user`, `system:discovery` and `system:public-info-viewer`, which every
    /// authenticated account has.
    Everybody,
    /// `deploy/base`.
    Base,
    /// `deploy/components/reader-rights`.
    ReaderRights,
    /// `deploy/components/reader-rights-namespaced`.
    NamespacedReaderRights,
    /// `deploy/components/web-auth`.
    WebAuth,
    /// `deploy/cluster`.
    Cluster,
}

/// A request, as the API server authorizes it.
#[derive(Debug, PartialEq, Eq)]
pub struct Request<'a> {
    pub verb: Verb,
    pub target: Target<'a>,
    /// Whether the response contains only metadata.
    pub metadata_only: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// The group and the plural name of a resource.
    Resource(&'a str, &'a str),
    Path(&'a str),
}

use self::Contents::{Metadata, Review, Whole};
use self::Grant::{Base, Cluster, Everybody, NamespacedReaderRights, ReaderRights, WebAuth};
use self::Verb::{Create, Get, Impersonate, List, Watch};

/// Read, but do not change.
const READS: &[Verb] = &[Get, List, Watch];
/// Roles with the permissions to read the operator's surroundings.
const READERS: &[Grant] = &[ReaderRights, NamespacedReaderRights, Cluster];

/// All permissions that loopwatch can use.
pub const NEEDS: &[Need] = &[
    Need {
        feature: "APIs",
        setting: None,
        asks: Asks::Paths(&["/version", "/api", "/apis", "/api/*", "/apis/*"]),
        verbs: &[Get],
        scope: Scope::Cluster,
        contents: Whole,
        why: "to learn the version of the API server and the kinds that it serves",
        without: "loopwatch sees no kinds",
        granted_by: &[Everybody],
    },
    Need {
        feature: "own permissions",
        setting: None,
        asks: Asks::Of(
            "authorization.k8s.io",
            &["selfsubjectrulesreviews", "selfsubjectaccessreviews"],
        ),
        verbs: &[Create],
        scope: Scope::Cluster,
        contents: Review,
        why: "to ask the API server what the account may do. A review changes nothing",
        without: "loopwatch does not know which kinds the operator owns: name them in `LOOPWATCH_WATCH`",
        granted_by: &[Everybody],
    },
    Need {
        feature: "name of the account",
        setting: None,
        asks: Asks::Of("authentication.k8s.io", &["selfsubjectreviews"]),
        verbs: &[Create],
        scope: Scope::Cluster,
        contents: Review,
        why: "to find the objects that the account writes, if its permissions have wildcards",
        without: "loopwatch looks only for the name of the workload and for that of the writers of its leases",
        granted_by: &[Everybody],
    },
    Need {
        feature: "the operator's kinds",
        setting: None,
        asks: Asks::AnyResource,
        verbs: READS,
        scope: Scope::Watched,
        contents: Whole,
        why: "to judge their objects. The operator's account has the permission; for `base`, you grant it: patch `loopwatch-kinds` of `base/kinds.yaml`, as in `examples/standalone`. For `cluster`, see [above](#all-operators-of-a-cluster)",
        without: "loopwatch does not see the kind and reports the missing permission",
        granted_by: &[],
    },
    Need {
        feature: "definitions",
        setting: None,
        asks: Asks::Of("apiextensions.k8s.io", &["customresourcedefinitions"]),
        verbs: READS,
        scope: Scope::Cluster,
        contents: Whole,
        why: "to check for status subresources, and to notice new and removed kinds. `get` shows whether a definition that owns an object still exists",
        without: "loopwatch notices new and removed kinds late, and no missing status subresource",
        granted_by: &[Base, ReaderRights, Cluster],
    },
    Need {
        feature: "webhooks",
        setting: None,
        asks: Asks::Of(
            "admissionregistration.k8s.io",
            &["validatingwebhookconfigurations", "mutatingwebhookconfigurations"],
        ),
        verbs: &[List, Watch],
        scope: Scope::Cluster,
        contents: Whole,
        why: "to find the webhooks of the operator that cannot answer: loopwatch keeps those whose Service is in the operator's namespace",
        without: "loopwatch notices a webhook that is down only by the statuses of objects and by Events, and neither its certificate nor its delay",
        granted_by: &[Base, ReaderRights, Cluster],
    },
    Need {
        feature: "webhooks",
        setting: None,
        asks: Asks::Of("discovery.k8s.io", &["endpointslices"]),
        verbs: &[List, Watch],
        scope: Scope::Operator,
        contents: Whole,
        why: "to see whether an endpoint of these Services is ready: only their EndpointSlices, by a label selector",
        without: "loopwatch notices a webhook that is down only by the statuses of objects and by Events",
        granted_by: &[Base, ReaderRights, NamespacedReaderRights, Cluster],
    },
    Need {
        feature: "leader",
        setting: None,
        asks: Asks::Of("coordination.k8s.io", &["leases"]),
        verbs: &[List, Watch],
        scope: Scope::Operator,
        contents: Whole,
        why: "to find the leader, and to check that it renews its lease. With `--all-operators`, also to tell which operator owns a kind, by the domain and the field manager of its lease",
        without: "loopwatch does not see the leader",
        granted_by: &[Base, ReaderRights, NamespacedReaderRights, Cluster],
    },
    Need {
        feature: "the operator's Pods",
        setting: None,
        asks: Asks::Of("", &["pods"]),
        verbs: READS,
        scope: Scope::Operator,
        contents: Whole,
        why: "restarts of the operator and how its containers ended, rollouts, the revision in charge, and the addresses of its metrics. `get` shows only the own Pod. Not for `base` without `--operator`",
        without: "loopwatch knows the operator's name and revision from its environment, but not its restarts and its other Pods",
        granted_by: READERS,
    },
    Need {
        feature: "the operator's workload",
        setting: None,
        asks: Asks::Of("apps", &["deployments", "statefulsets", "daemonsets"]),
        verbs: &[Get],
        scope: Scope::Operator,
        contents: Whole,
        why: "to see whether a rollout is under way, and how many replicas there should be. Not for `base` without `--operator`",
        without: "loopwatch cannot tell a rollout or an operator that is scaled to zero from a failure",
        granted_by: READERS,
    },
    Need {
        feature: "namespaces",
        setting: None,
        asks: Asks::Of("", &["namespaces"]),
        verbs: READS,
        scope: Scope::Cluster,
        contents: Whole,
        why: "to find more namespaces in which the account has permissions, to read [annotations of namespaces](../docs/tuning.md#annotations) and, with `LOOPWATCH_TEAM_LABEL`, [their team](../docs/alerts.md#alerts-for-tenants): **metadata only**. `get` shows what blocks the deletion of a namespace",
        without: "annotations of namespaces have no effect, teams are unknown, and loopwatch does not see what blocks the deletion of a namespace",
        granted_by: &[Base, ReaderRights, Cluster],
    },
    Need {
        feature: "children and dependents",
        setting: None,
        asks: Asks::Of(
            "apps",
            &["deployments", "statefulsets", "daemonsets", "replicasets", "controllerrevisions"],
        ),
        verbs: READS,
        scope: Scope::Watched,
        contents: Whole,
        why: "to count the objects that belong to the operator's objects (`ownerReferences`), and to find stuck deletions and what they wait for: **metadata only**, except for workloads (Deployments, StatefulSets, DaemonSets, ReplicaSets, Jobs, Pods and PersistentVolumeClaims), whose status shows what an object waits for, unless more than 200 foreign objects are beside them. loopwatch samples 20 objects of each kind now and then, and watches a kind once it finds a child; `--children=none` turns this off",
        without: "loopwatch does not see these children, and what their deletion waits for",
        granted_by: READERS,
    },
    Need {
        feature: "children and dependents",
        setting: None,
        asks: Asks::Of("batch", &["jobs", "cronjobs"]),
        verbs: READS,
        scope: Scope::Watched,
        contents: Whole,
        why: "as above",
        without: "as above",
        granted_by: READERS,
    },
    Need {
        feature: "children and dependents",
        setting: None,
        asks: Asks::Of("", &["pods", "services", "persistentvolumeclaims"]),
        verbs: READS,
        scope: Scope::Watched,
        contents: Whole,
        why: "as above",
        without: "as above",
        granted_by: READERS,
    },
    Need {
        feature: "children and dependents",
        setting: None,
        asks: Asks::Of("discovery.k8s.io", &["endpointslices"]),
        verbs: READS,
        scope: Scope::Watched,
        contents: Metadata,
        why: "as above",
        without: "as above",
        granted_by: READERS,
    },
    Need {
        feature: "children and dependents",
        setting: Some("`--all-operators`"),
        asks: Asks::Of("networking.k8s.io", &["ingresses", "networkpolicies"]),
        verbs: READS,
        scope: Scope::Watched,
        contents: Metadata,
        why: "as above. Other forms use the permission of the operator's account",
        without: "as above",
        granted_by: &[Cluster],
    },
    Need {
        feature: "children and dependents",
        setting: Some("`--all-operators`"),
        asks: Asks::Of("policy", &["poddisruptionbudgets"]),
        verbs: READS,
        scope: Scope::Watched,
        contents: Metadata,
        why: "as above. Other forms use the permission of the operator's account",
        without: "as above",
        granted_by: &[Cluster],
    },
    Need {
        feature: "children and dependents",
        setting: Some("`--all-operators`"),
        asks: Asks::Of("autoscaling", &["horizontalpodautoscalers"]),
        verbs: READS,
        scope: Scope::Watched,
        contents: Metadata,
        why: "as above. Other forms use the permission of the operator's account",
        without: "as above",
        granted_by: &[Cluster],
    },
    Need {
        feature: "other children",
        setting: None,
        asks: Asks::AnyResource,
        verbs: READS,
        scope: Scope::Watched,
        contents: Metadata,
        why: "the same for every other kind that the operator may create, list and watch, such as ConfigMaps",
        without: "as above",
        granted_by: &[],
    },
    Need {
        feature: "owners and referenced objects",
        setting: None,
        asks: Asks::AnyResource,
        verbs: &[Get],
        scope: Scope::Watched,
        contents: Metadata,
        why: "to find out whether an owner or a referenced object exists before a finding accuses somebody; at most ten reads per second, and usually none",
        without: "loopwatch accuses nobody",
        granted_by: &[],
    },
    Need {
        feature: "single Secrets",
        setting: Some("`--secrets=named`, the default"),
        asks: Asks::Of("", &["secrets"]),
        verbs: &[Get],
        scope: Scope::Watched,
        contents: Metadata,
        why: "to find out whether a Secret that an object names exists, and when it changed",
        without: "loopwatch does not see references to missing Secrets",
        granted_by: &[],
    },
    Need {
        feature: "all Secrets",
        setting: Some("`--secrets=metadata`"),
        asks: Asks::Of("", &["secrets"]),
        verbs: READS,
        scope: Scope::Watched,
        contents: Metadata,
        why: "Secrets as children, like ConfigMaps",
        without: "loopwatch does not see the Secrets among the children",
        granted_by: &[],
    },
    Need {
        feature: "Kubernetes Events",
        setting: None,
        asks: Asks::Of("events.k8s.io", &["events"]),
        verbs: &[List, Watch],
        scope: Scope::Watched,
        contents: Whole,
        why: "to count Kubernetes Events by reason (`loopwatch_events_total`), and to show the latest ones of an object in its timeline: **only those about the operator's kinds**, by a field selector; at most 20 watches, after those of objects ([docs/operator.md](../docs/operator.md#kubernetes-events))",
        without: "the source `events` is off, and loopwatch has no suspicion of a webhook that only Events report",
        granted_by: &[Base, ReaderRights, NamespacedReaderRights, Cluster],
    },
    Need {
        feature: "Kubernetes Events",
        setting: None,
        asks: Asks::Of("", &["events"]),
        verbs: &[List, Watch],
        scope: Scope::Watched,
        contents: Whole,
        why: "the same, for an account that may read only the Events of the core group",
        without: "as above",
        granted_by: &[Cluster],
    },
    Need {
        feature: "tokens of clients",
        setting: Some("`--web-auth=kubernetes`"),
        asks: Asks::Of("authentication.k8s.io", &["tokenreviews"]),
        verbs: &[Create],
        scope: Scope::Cluster,
        contents: Review,
        why: "to ask the API server whose token a client of `/metrics` presents. A review changes nothing",
        without: "no client with a token may scrape",
        granted_by: &[WebAuth],
    },
    Need {
        feature: "tokens of clients",
        setting: Some("`--web-auth=kubernetes`"),
        asks: Asks::Of("authorization.k8s.io", &["subjectaccessreviews"]),
        verbs: &[Create],
        scope: Scope::Cluster,
        contents: Review,
        why: "to ask whether this account may read metrics",
        without: "as above",
        granted_by: &[WebAuth],
    },
    Need {
        feature: "protected metrics",
        setting: None,
        asks: Asks::OperatorPath("/metrics"),
        verbs: &[Get],
        scope: Scope::Cluster,
        contents: Whole,
        why: "to read the operator's own metrics, if it serves them only to accounts with this permission, as operators built with Kubebuilder do. The permission also covers the metrics of the API server, which loopwatch does not read ([docs/operator.md](../docs/operator.md#find-the-metrics)). `/metrics` of loopwatch leaves out these numbers unless `--export-protected-metrics` is set. Not for `base` and `cluster`: loopwatch sends no token to other Pods",
        without: "the source `metrics` fails with the missing rule",
        granted_by: &[ReaderRights],
    },
    Need {
        feature: "all operators",
        setting: Some("`--all-operators`"),
        asks: Asks::Of("apps", &["deployments", "statefulsets", "daemonsets"]),
        verbs: &[List, Watch],
        scope: Scope::Cluster,
        contents: Whole,
        why: "to find the operators and the service accounts of their Pods",
        without: "loopwatch finds no operators",
        granted_by: &[Cluster],
    },
    Need {
        feature: "all operators",
        setting: Some("`--all-operators`"),
        asks: Asks::Of("batch", &["cronjobs"]),
        verbs: &[List, Watch],
        scope: Scope::Cluster,
        contents: Whole,
        why: "to say of an operator in a CronJob that loopwatch does not judge it",
        without: "loopwatch does not show such operators",
        granted_by: &[Cluster],
    },
    Need {
        feature: "all operators",
        setting: Some("`--all-operators`"),
        asks: Asks::Of(
            "rbac.authorization.k8s.io",
            &["roles", "rolebindings", "clusterroles", "clusterrolebindings"],
        ),
        verbs: &[List, Watch],
        scope: Scope::Cluster,
        contents: Whole,
        why: "to learn which kinds each operator may own, from the permissions of its service account",
        without: "loopwatch does not find the operators whose permissions come from these objects",
        granted_by: &[Cluster],
    },
    Need {
        feature: "all operators",
        setting: Some("`--all-operators`"),
        asks: Asks::Of("operators.coreos.com", &["clusterserviceversions"]),
        verbs: &[List],
        scope: Scope::Cluster,
        contents: Whole,
        why: "to learn which kinds an operator owns if OLM has installed it, and others may write them, too",
        without: "only the objects show the owner of such a kind",
        granted_by: &[Cluster],
    },
    Need {
        feature: "another account",
        setting: Some("`--operator`"),
        asks: Asks::Of("", &["serviceaccounts"]),
        verbs: &[Impersonate],
        scope: Scope::Operator,
        contents: Review,
        why: "to use the permissions of the operator's account, which the Pod template of its Deployment or StatefulSet names (`get`)",
        without: "the command ends with the refusal",
        granted_by: &[],
    },
    Need {
        feature: "another account",
        setting: Some("`--operator`"),
        asks: Asks::Of("", &["groups"]),
        verbs: &[Impersonate],
        scope: Scope::Cluster,
        contents: Review,
        why: "the groups of this account: `system:serviceaccounts`, `system:serviceaccounts:NAMESPACE` and `system:authenticated`",
        without: "as above",
        granted_by: &[],
    },
    Need {
        feature: "an installation",
        setting: Some("`loopwatch what-if`"),
        asks: Asks::Of("rbac.authorization.k8s.io", &["clusterrolebindings", "rolebindings"]),
        verbs: &[List],
        scope: Scope::Cluster,
        contents: Whole,
        why: "to find the roles of the operator that an uninstallation would delete, with the account of the person who runs the command",
        without: "the report says what it leaves out",
        granted_by: &[],
    },
    Need {
        feature: "an installation",
        setting: Some("`loopwatch what-if`"),
        asks: Asks::Of("rbac.authorization.k8s.io", &["clusterroles", "roles"]),
        verbs: &[Get],
        scope: Scope::Cluster,
        contents: Whole,
        why: "to read their rules",
        without: "as above",
        granted_by: &[],
    },
    Need {
        feature: "an installation of loopwatch",
        setting: Some("`loopwatch doctor`"),
        asks: Asks::Of("apps", &["deployments", "statefulsets", "daemonsets"]),
        verbs: &[List],
        scope: Scope::Cluster,
        contents: Whole,
        why: "to find the workloads with a loopwatch container, with the account of the person who runs the command",
        without: "the report says what it does not know",
        granted_by: &[],
    },
    Need {
        feature: "an installation of loopwatch",
        setting: Some("`loopwatch doctor`"),
        asks: Asks::Of("", &["pods", "services", "namespaces"]),
        verbs: &[List],
        scope: Scope::Cluster,
        contents: Whole,
        why: "to see whether the container runs, and which labels the selectors below have to match",
        without: "as above",
        granted_by: &[],
    },
    Need {
        feature: "an installation of loopwatch",
        setting: Some("`loopwatch doctor`"),
        asks: Asks::Of(
            "monitoring.coreos.com",
            &[
                "podmonitors",
                "servicemonitors",
                "prometheusrules",
                "prometheuses",
                "prometheusagents",
            ],
        ),
        verbs: &[List],
        scope: Scope::Cluster,
        contents: Whole,
        why: "to find out whether a Prometheus selects the PodMonitor and the rules, and the PodMonitor the Pods",
        without: "as above",
        granted_by: &[],
    },
];

/// Segments after the version with which an old API server begins another kind of request.
const PREFIXES: [&str; 3] = ["watch", "proxy", "redirect"];
/// Subresources of a namespace. Their paths look like those of collections.
const OF_NAMESPACES: [&str; 2] = ["status", "finalize"];

impl Verb {
    /// The verb, as RBAC spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Get => "get",
            List => "list",
            Watch => "watch",
            Create => "create",
            Impersonate => "impersonate",
        }
    }
}

impl Need {
    /// Whether a request belongs to this row.
    #[must_use]
    pub fn covers(&self, request: &Request<'_>) -> bool {
        let is_asked = match (self.asks, &request.target) {
            (Asks::Of(group, resources), Target::Resource(of, resource)) => {
                *of == group && resources.contains(resource)
            }
            (Asks::AnyResource, Target::Resource(group, resource)) => {
                !(group.is_empty() && *resource == "secrets")
            }
            (Asks::Paths(paths), Target::Path(path)) => {
                paths.iter().any(|pattern| match pattern.strip_suffix('*') {
                    Some(prefix) => path.starts_with(prefix),
                    None => path == pattern,
                })
            }
            _ => false,
        };

        is_asked
            && self.verbs.contains(&request.verb)
            && (request.metadata_only || self.contents != Metadata)
    }
}

impl<'a> Request<'a> {
    /// Parses a request as the API server does. `None` for requests that loopwatch never sends:
    /// other methods, subresources, and paths with another meaning after decoding.
    #[must_use]
    pub fn parse(method: &str, path_and_query: &'a str, metadata_only: bool) -> Option<Self> {
        let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
        let segments: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
        if !segments.iter().all(|segment| is_one_segment(segment)) {
            return None;
        }

        let (group, rest) = match segments[..] {
            ["version" | "api" | "apis"] | ["api", _] | ["apis", _] | ["apis", _, _] => {
                let target = Target::Path(path);
                return (method == "GET").then_some(Self { verb: Get, target, metadata_only });
            }
            ["api", _, ref rest @ ..] => ("", rest),
            ["apis", group, _, ref rest @ ..] => (group, rest),
            _ => return None,
        };

        let (resource, name) = match *rest {
            [first, ..] if PREFIXES.contains(&first) => return None,
            ["namespaces", _, resource] if OF_NAMESPACES.contains(&resource) => return None,
            ["namespaces", _, resource] | [resource] => (resource, false),
            ["namespaces", _, resource, _] | [resource, _] => (resource, true),
            _ => return None,
        };

        let watches = query.split('&').any(|pair| pair.split('=').next() == Some("watch"));
        let verb = match (method, name) {
            ("GET", true) if !watches => Get,
            ("GET", false) if watches => Watch,
            ("GET", false) => List,
            ("POST", false) => Create,
            _ => return None,
        };

        let target = Target::Resource(group, resource);
        (is_plain(group) && is_plain(resource)).then_some(Self { verb, target, metadata_only })
    }
}

/// Whether a feature needs this request. loopwatch sends no other.
#[must_use]
pub fn is_needed(method: &str, path_and_query: &str, metadata_only: bool) -> bool {
    Request::parse(method, path_and_query, metadata_only)
        .is_some_and(|request| NEEDS.iter().any(|need| need.covers(&request)))
}

/// Whether a segment of a path is one segment even after decoding.
fn is_one_segment(segment: &str) -> bool {
    let decoded: Cow<'_, [u8]> = percent_decode_str(segment).into();
    !matches!(&*decoded, b"" | b"." | b"..") && !decoded.contains(&b'/')
}

/// Whether a text means the same after decoding.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_the_api_server_reads_them() {
        let resource = |verb, group, resource| {
            Some(Request { verb, target: Target::Resource(group, resource), metadata_only: false })
        };
        for (path, expected) in [
            ("/api/v1/namespaces", resource(List, "", "namespaces")),
            ("/api/v1/namespaces/team", resource(Get, "", "namespaces")),
            ("/api/v1/namespaces/team/pods", resource(List, "", "pods")),
            ("/api/v1/namespaces/team/pods/a?watches=1", resource(Get, "", "pods")),
            ("/apis/a.io/v1/widgets?limit=1&watch=true", resource(Watch, "a.io", "widgets")),
            ("/apis/a.io/v1/widgets/system%3Aa", resource(Get, "a.io", "widgets")),
        ] {
            assert_eq!(Request::parse("GET", path, false), expected, "{path}");
        }

        let review = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
        let created = resource(Create, "authorization.k8s.io", "selfsubjectrulesreviews");
        assert_eq!(Request::parse("POST", review, false), created);
    }

    #[test]
    fn nothing_is_needed_that_changes_the_cluster_or_reads_secrets() {
        for (method, path) in [
            ("POST", "/api/v1/namespaces/team/pods"),
            ("POST", "/api/v1/namespaces/team/serviceaccounts/a/token"),
            ("POST", "/apis/authorization.k8s.io/v1/namespaces/team/localsubjectaccessreviews"),
            ("PUT", "/apis/a.io/v1/namespaces/team/widgets/a"),
            ("PATCH", "/apis/a.io/v1/namespaces/team/widgets/a"),
            ("DELETE", "/apis/a.io/v1/namespaces/team/widgets/a"),
            ("DELETE", "/apis/a.io/v1/namespaces/team/widgets"),
            ("GET", "/api/v1/namespaces/team/secrets"),
            ("GET", "/api/v1/namespaces/team/secrets/a"),
            ("GET", "/api/v1/secrets?watch=true"),
            ("GET", "/api/v1/secret%73"),
            ("GET", "/api/v1/namespaces/team/secret%73/a"),
            ("GET", "/api/v1/namespaces/team/pods/a/log"),
            ("GET", "/api/v1/namespaces/team/pods/a%2Fexec"),
            ("GET", "/api/v1/namespaces/team/pods/../secrets"),
            ("GET", "/api/v1/namespaces/team/pods/%2e%2e/secrets"),
            ("GET", "/api/v1/namespaces/team//secrets"),
            ("GET", "/api/v1/watch/secrets"),
            ("GET", "/api/v1/proxy/namespaces/team"),
            ("GET", "/api/v1/namespaces/team/finalize"),
            ("GET", "/api/v1/nodes/a/proxy/metrics"),
            ("GET", "/metrics"),
            ("GET", "/logs/kube-apiserver.log"),
            ("GET", "/openapi/v2"),
            ("GET", ""),
        ] {
            assert!(!is_needed(method, path, false), "{method} {path}");
        }

        for path in ["/api/v1/namespaces/team/secrets/a", "/api/v1/secrets?watch=true"] {
            assert!(is_needed("GET", path, true), "the metadata: {path}");
        }

        assert!(!is_needed("POST", "/api/v1/namespaces/team/secrets", true));
    }

    #[test]
    fn no_need_has_a_verb_that_changes_the_cluster() {
        for need in NEEDS {
            let is_review = need.contents == Review;
            for verb in need.verbs {
                let allowed = match verb {
                    Get | List | Watch => !is_review,
                    Create => is_review && is_about_reviews(need),
                    Impersonate => need.setting == Some("`--operator`"),
                };

                assert!(allowed, "{verb:?} {:?}", need.asks);
            }
        }
    }

    /// Whether a row is about reviews of the own account, or about the two reviews of clients.
    fn is_about_reviews(need: &Need) -> bool {
        let Asks::Of(_, resources) = need.asks else { return false };
        let of_clients = need.setting == Some("`--web-auth=kubernetes`");

        resources.iter().all(|resource| match *resource {
            "selfsubjectrulesreviews" | "selfsubjectaccessreviews" | "selfsubjectreviews" => {
                need.setting.is_none()
            }
            "tokenreviews" | "subjectaccessreviews" => of_clients,
            _ => false,
        })
    }
}
