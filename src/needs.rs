//! The requests that loopwatch sends to the API server, and why. It sends none without a row in this
//! table. The tables of permissions in the documents are generated from it, and a test compares
//! the roles in `deploy/` with it.

mod request;
mod table;

pub use self::request::{Request, Target};
pub use self::table::NEEDS;

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

impl Verb {
    /// The verb, as RBAC spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Impersonate => "impersonate",
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
            && (request.metadata_only || self.contents != Contents::Metadata)
    }
}

/// Whether a feature needs this request. loopwatch sends no other.
#[must_use]
pub fn is_needed(method: &str, path_and_query: &str, metadata_only: bool) -> bool {
    Request::parse(method, path_and_query, metadata_only)
        .is_some_and(|request| NEEDS.iter().any(|need| need.covers(&request)))
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let is_review = need.contents == Contents::Review;
            for verb in need.verbs {
                let allowed = match verb {
                    Verb::Get | Verb::List | Verb::Watch => !is_review,
                    Verb::Create => is_review && is_about_reviews(need),
                    Verb::Impersonate => need.setting == Some("`--operator`"),
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
