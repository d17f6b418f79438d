//! What the account may do, as the API server's own reviews say.

use loopwatch_model::observation::{Cause, Permission};
use serde::{Deserialize, Serialize};

use crate::sources::cluster::Cluster;
use crate::sources::failure::Failure;

/// The rules that hold in one namespace: those of the cluster and those of the namespace, merged by the API server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    rules: Vec<Rule>,
    /// What is not listed may still be allowed.
    pub(crate) incomplete: bool,
}

/// One rule. Rules for single named objects say nothing about a kind and are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Rule {
    pub(crate) verbs: Vec<String>,
    pub(crate) api_groups: Vec<String>,
    pub(crate) resources: Vec<String>,
    pub(crate) resource_names: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Review<S> {
    api_version: &'static str,
    kind: &'static str,
    spec: S,
}

#[derive(Serialize)]
struct RulesSpec<'a> {
    namespace: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AccessSpec<'a> {
    resource_attributes: Attributes<'a>,
}

#[derive(Serialize)]
struct Attributes<'a> {
    namespace: &'a str,
    verb: &'a str,
    group: &'a str,
    resource: &'a str,
    subresource: &'a str,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Answer<S> {
    status: S,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RulesStatus {
    resource_rules: Vec<Rule>,
    incomplete: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AccessStatus {
    allowed: bool,
}

const AUTHORIZATION: &str = "/apis/authorization.k8s.io/v1";
/// Wildcards are listed to be seen, not to be complete.
const MOST_EXCESS: usize = 50;

// === impl Rules ===

impl Rules {
    pub(crate) fn new(rules: Vec<Rule>, incomplete: bool) -> Self {
        Self { rules: rules.into_iter().filter(|rule| rule.resource_names.is_empty()).collect(), incomplete }
    }

    /// The rules that hold for this account in a namespace.
    pub(crate) async fn review(cluster: &Cluster, namespace: &str) -> Result<Self, Failure> {
        let review = Review {
            api_version: "authorization.k8s.io/v1",
            kind: "SelfSubjectRulesReview",
            spec: RulesSpec { namespace },
        };
        let path = format!("{AUTHORIZATION}/selfsubjectrulesreviews");
        match cluster.review::<Answer<RulesStatus>>(&path, &review).await {
            Ok(answer) => Ok(Self::new(answer.status.resource_rules, answer.status.incomplete)),
            // Some clusters let nobody ask. Then nothing is known, and what is named is tried.
            Err(failure) if failure.cause == Cause::Forbidden => Ok(Self::new(Vec::new(), true)),
            Err(failure) => Err(failure),
        }
    }

    /// Whether some rule allows this. `resource` may have a `/subresource`.
    pub(crate) fn allow(&self, verb: &str, group: &str, resource: &str) -> bool {
        self.rules.iter().any(|rule| rule.allows(verb, group, resource))
    }

    /// Whether some rule allows this, or one that is not listed could.
    pub(crate) fn may_allow(&self, verb: &str, group: &str, resource: &str) -> bool {
        self.incomplete || self.allow(verb, group, resource)
    }

    /// Whether some rule that names the group allows this: a rule for all groups says nothing about ownership.
    pub(crate) fn allow_by_name(&self, verb: &str, group: &str, resource: &str) -> bool {
        self.rules.iter().any(|rule| rule.names(group) && rule.allows(verb, group, resource))
    }

    /// Whether all rules are known and none lets the account write anything but reviews, which change nothing.
    pub(crate) fn is_read_only(&self) -> bool {
        let reviews = ["authorization.k8s.io", "authentication.k8s.io"];
        let writes = |rule: &Rule| {
            rule.verbs.iter().any(|verb| !["get", "list", "watch"].contains(&verb.as_str()))
                && rule.api_groups.iter().any(|group| !reviews.contains(&group.as_str()))
        };
        !self.incomplete && !self.rules.iter().any(writes)
    }

    /// Rights to write anything anywhere, which nobody should need.
    pub(crate) fn excess(&self) -> Vec<Permission> {
        let writes = ["*", "create", "update", "patch", "delete", "deletecollection"];
        let mut excess = Vec::new();
        for rule in self.rules.iter().filter(|rule| rule.api_groups.iter().any(|group| group == "*")) {
            for verb in rule.verbs.iter().filter(|verb| writes.contains(&verb.as_str())) {
                excess.extend(rule.resources.iter().map(|resource| Permission {
                    verb: verb.clone(),
                    group: "*".to_owned(),
                    resource: resource.clone(),
                }));
            }
        }
        excess.sort();
        excess.dedup();
        excess.truncate(MOST_EXCESS);
        excess
    }
}

// === impl Rule ===

impl Rule {
    fn names(&self, group: &str) -> bool {
        self.api_groups.iter().any(|allowed| allowed == group)
    }

    fn allows(&self, verb: &str, group: &str, resource: &str) -> bool {
        let any = |allowed: &[String], asked: &str| allowed.iter().any(|a| a == "*" || a == asked);
        any(&self.verbs, verb)
            && any(&self.api_groups, group)
            && (any(&self.resources, resource) || self.allows_subresource(resource))
    }

    /// `*/status` stands for the status of every resource.
    fn allows_subresource(&self, resource: &str) -> bool {
        resource
            .split_once('/')
            .is_some_and(|(_, sub)| self.resources.iter().any(|allowed| allowed.strip_prefix("*/") == Some(sub)))
    }
}

/// Whether the account may do this; `None` when it may not even ask. The empty namespace means everywhere.
pub(crate) async fn is_allowed(cluster: &Cluster, permission: &Permission, namespace: &str) -> Result<Option<bool>, Failure> {
    let Permission { verb, group, resource } = permission;
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let review = Review {
        api_version: "authorization.k8s.io/v1",
        kind: "SelfSubjectAccessReview",
        spec: AccessSpec { resource_attributes: Attributes { namespace, verb, group, resource, subresource } },
    };
    match cluster.review::<Answer<AccessStatus>>(&format!("{AUTHORIZATION}/selfsubjectaccessreviews"), &review).await {
        Ok(answer) => Ok(Some(answer.status.allowed)),
        Err(failure) if failure.cause == Cause::Forbidden => Ok(None),
        Err(failure) => Err(failure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(verbs: &[&str], groups: &[&str], resources: &[&str]) -> Rule {
        let own = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect();
        Rule { verbs: own(verbs), api_groups: own(groups), resources: own(resources), resource_names: vec![] }
    }

    #[test]
    fn rules_match_as_rbac_does() {
        let rules = Rules::new(
            vec![
                rule(&["update"], &["example.io"], &["widgets/status", "*/finalizers"]),
                rule(&["get"], &["*"], &["*"]),
            ],
            false,
        );
        assert!(rules.allow("update", "example.io", "widgets/status"));
        assert!(rules.allow("update", "example.io", "gadgets/finalizers"));
        assert!(!rules.allow("update", "example.io", "widgets"), "a subresource is not the resource");
        assert!(!rules.allow("patch", "example.io", "widgets/status"));
        assert!(rules.allow("get", "apps", "deployments/scale"));
        assert!(!rules.allow_by_name("get", "apps", "deployments"));
    }

    #[test]
    fn rules_for_named_objects_say_nothing_about_the_kind() {
        let named = Rule { resource_names: vec!["one".to_owned()], ..rule(&["*"], &["example.io"], &["*"]) };
        assert!(!Rules::new(vec![named], false).allow("list", "example.io", "widgets"));
    }

    #[test]
    fn only_the_right_to_write_in_all_groups_is_excess() {
        let rules = Rules::new(
            vec![
                rule(&["*"], &["*"], &["*"]),
                rule(&["*"], &["example.io"], &["*"]),
                rule(&["get"], &["*"], &["pods"]),
            ],
            false,
        );
        assert_eq!(rules.excess().iter().map(ToString::to_string).collect::<Vec<_>>(), ["* *.*"]);
    }
}
