//! The account's permissions, according to the API server's reviews.

pub(crate) mod fuzzing;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, ResourceRule, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
    SelfSubjectRulesReview, SelfSubjectRulesReviewSpec,
};
use loopwatch_model::observation::{Cause, Permission};

use crate::net::Failure;
use crate::sources::api_server::connection::{Cluster, review_path};

/// The rules in force in one namespace: those of the cluster and those of the namespace, merged by
/// the API server.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Rules {
    /// All rules except those for single named objects, which grant nothing for a whole kind.
    rules: Vec<ResourceRule>,
    /// Whether the account may have more permissions than these rules list.
    pub(crate) incomplete: bool,
}

/// The verbs that a rule for all verbs stands for, as far as operators use them.
const USUAL_VERBS: [&str; 7] = ["get", "list", "watch", "create", "update", "patch", "delete"];

/// Maximum number of permissions that the rules of a namespace may list. A rule lists one for each
/// combination of its verbs, groups and resources, so a role of a megabyte could list more than fit
/// into memory. The largest roles of operators list a tenth.
const MOST_LISTED: usize = 20_000;

/// Maximum number of excess permissions to report: enough to show the problem.
const MOST_EXCESS: usize = 50;

impl Rules {
    pub(crate) fn new(mut rules: Vec<ResourceRule>, incomplete: bool) -> Self {
        rules.retain(|rule| names(&rule.resource_names).is_empty());
        let fits = keep_small(&mut rules);

        // The API server lists rules in any order, and repeats those that several roles grant.
        let content = |rule: &ResourceRule| {
            (rule.api_groups.clone(), rule.resources.clone(), rule.verbs.clone())
        };
        rules.sort_by_key(content);
        rules.dedup_by_key(|rule| content(rule));

        Self { rules, incomplete: incomplete || !fits }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether these rules grant anything beyond those of `other`.
    pub(crate) fn exceed(&self, other: &Self) -> bool {
        self.rules.iter().any(|rule| !other.rules.contains(rule))
    }

    /// Rules that grant these permissions, which access reviews have confirmed.
    pub(crate) fn granting<'a>(permissions: impl IntoIterator<Item = &'a Permission>) -> Self {
        let rule = |Permission { verb, group, resource }: &Permission| ResourceRule {
            verbs: vec![verb.clone()],
            api_groups: Some(vec![group.clone()]),
            resources: Some(vec![resource.clone()]),
            resource_names: None,
        };
        Self::new(permissions.into_iter().map(rule).collect(), false)
    }

    /// Requests the rules of this account in a namespace.
    pub(crate) async fn review(cluster: &Cluster, namespace: &str) -> Result<Self, Failure> {
        let spec = SelfSubjectRulesReviewSpec { namespace: Some(namespace.to_owned()) };
        let review = SelfSubjectRulesReview { spec, ..SelfSubjectRulesReview::default() };
        match cluster.review(&review_path::<SelfSubjectRulesReview>(), &review).await {
            Ok(review) => Self::of(review),
            // Some clusters forbid this review. The sources then try the kinds that the user named.
            Err(failure) if failure.cause == Cause::Forbidden => Ok(Self::new(Vec::new(), true)),
            Err(failure) => Err(failure),
        }
    }

    /// The rules in a review.
    fn of(review: SelfSubjectRulesReview) -> Result<Self, Failure> {
        let status = review.status.ok_or_else(no_status)?;
        Ok(Self::new(status.resource_rules, status.incomplete))
    }

    /// The permissions that the rules grant by name. A rule for all groups or all resources names
    /// none; one for all verbs names the usual ones.
    pub(super) fn named(&self) -> impl Iterator<Item = Permission> {
        let by_name = |list: &[String]| {
            list.iter().filter(|name| !name.contains('*')).cloned().collect::<Vec<_>>()
        };
        self.rules.iter().flat_map(move |rule| {
            let (groups, resources) =
                (by_name(names(&rule.api_groups)), by_name(names(&rule.resources)));
            let verbs = match rule.verbs.iter().any(|verb| verb == "*") {
                true => USUAL_VERBS.map(str::to_owned).to_vec(),
                false => rule.verbs.clone(),
            };

            verbs.into_iter().flat_map(move |verb| each_permission(verb, &groups, &resources))
        })
    }

    /// All permissions that the rules list, with `*` as they have it, sorted.
    pub(super) fn listed(&self) -> Vec<Permission> {
        let of_rule = |rule: &ResourceRule| -> Vec<Permission> {
            let (groups, resources) = (names(&rule.api_groups), names(&rule.resources));
            let verbs = rule.verbs.iter().cloned();
            verbs.flat_map(|verb| each_permission(verb, groups, resources)).collect()
        };
        let mut all: Vec<Permission> = self.rules.iter().flat_map(of_rule).collect();
        all.sort();
        all.dedup();
        all
    }

    /// The rules that `other` does not have.
    pub(super) fn beyond(&self, other: &Self) -> Self {
        let own = self.rules.iter().filter(|rule| !other.rules.contains(rule));
        Self { rules: own.cloned().collect(), incomplete: self.incomplete }
    }

    /// Whether a rule allows the verb. `resource` may have a `/subresource`.
    pub(crate) fn allow(&self, verb: &str, group: &str, resource: &str) -> bool {
        self.rules.iter().any(|rule| allows(rule, verb, group, resource))
    }

    /// Whether a rule that names the group allows the verb. A rule for all groups does not show
    /// ownership.
    pub(crate) fn allow_by_name(&self, verb: &str, group: &str, resource: &str) -> bool {
        self.rules.iter().any(|rule| {
            names(&rule.api_groups).iter().any(|named| named == group)
                && allows(rule, verb, group, resource)
        })
    }

    /// Whether a rule names the resource of a group, and not only all of them.
    pub(crate) fn name_resource(&self, group: &str, resource: &str) -> bool {
        self.rules.iter().any(|rule| {
            names(&rule.api_groups).iter().any(|named| named == group)
                && names(&rule.resources).iter().any(|named| named == resource)
        })
    }

    /// Whether no listed rule allows writing, except reviews, which change nothing.
    pub(crate) fn is_read_only(&self) -> bool {
        let reviews = ["authorization.k8s.io", "authentication.k8s.io"];
        let writes = |rule: &ResourceRule| {
            rule.verbs.iter().any(|verb| !["get", "list", "watch"].contains(&verb.as_str()))
                && names(&rule.api_groups).iter().any(|group| !reviews.contains(&group.as_str()))
        };

        !self.rules.iter().any(writes)
    }

    /// Permissions to write in all groups, which no operator needs.
    pub(crate) fn excess(&self) -> Vec<Permission> {
        let writes = ["*", "create", "update", "patch", "delete", "deletecollection"];
        let mut excess = Vec::new();
        for rule in self
            .rules
            .iter()
            .filter(|rule| names(&rule.api_groups).iter().any(|group| group == "*"))
        {
            for verb in rule.verbs.iter().filter(|verb| writes.contains(&verb.as_str())) {
                excess.extend(names(&rule.resources).iter().map(|resource| Permission {
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

/// Drops the largest rules if all of them list more than [`MOST_LISTED`] permissions. Returns whether
/// all remain.
fn keep_small(rules: &mut Vec<ResourceRule>) -> bool {
    let listed = |rule: &ResourceRule| {
        let scope = names(&rule.api_groups).len().saturating_mul(names(&rule.resources).len());
        scope.saturating_mul(rule.verbs.len())
    };
    let (all, mut room) = (rules.len(), MOST_LISTED);

    rules.sort_by_key(listed);
    rules.retain(|rule| match room.checked_sub(listed(rule)) {
        Some(rest) => {
            room = rest;
            true
        }
        None => false,
    });

    rules.len() == all
}

/// A permission with this verb for each of the resources in each of the groups.
fn each_permission(verb: String, groups: &[String], resources: &[String]) -> Vec<Permission> {
    let mut permissions = Vec::new();
    for group in groups {
        permissions.extend(resources.iter().map(|resource| Permission {
            verb: verb.clone(),
            group: group.clone(),
            resource: resource.clone(),
        }));
    }

    permissions
}

/// The entries of an optional list.
fn names(list: &Option<Vec<String>>) -> &[String] {
    list.as_deref().unwrap_or_default()
}

fn allows(rule: &ResourceRule, verb: &str, group: &str, resource: &str) -> bool {
    let any = |allowed: &[String], asked: &str| allowed.iter().any(|a| a == "*" || a == asked);
    any(&rule.verbs, verb)
        && any(names(&rule.api_groups), group)
        && (any(names(&rule.resources), resource) || allows_subresource(rule, resource))
}

/// Whether a rule allows the subresource of every resource, as `*/status` does.
fn allows_subresource(rule: &ResourceRule, resource: &str) -> bool {
    resource.split_once('/').is_some_and(|(_, sub)| {
        names(&rule.resources).iter().any(|allowed| allowed.strip_prefix("*/") == Some(sub))
    })
}

/// Whether the account has the permission; `None` if the cluster forbids the review. An empty
/// namespace means all.
pub(crate) async fn is_allowed(
    cluster: &Cluster,
    permission: &Permission,
    namespace: &str,
) -> Result<Option<bool>, Failure> {
    let Permission { verb, group, resource } = permission;
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let attributes = ResourceAttributes {
        namespace: Some(namespace.to_owned()),
        verb: Some(verb.clone()),
        group: Some(group.clone()),
        resource: Some(resource.to_owned()),
        subresource: Some(subresource.to_owned()),
        ..ResourceAttributes::default()
    };

    let spec = SelfSubjectAccessReviewSpec {
        resource_attributes: Some(attributes),
        ..SelfSubjectAccessReviewSpec::default()
    };
    let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
    match cluster.review(&review_path::<SelfSubjectAccessReview>(), &review).await {
        Ok(review) => access(review).map(Some),
        Err(failure) if failure.cause == Cause::Forbidden => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// The answer of a review.
fn access(review: SelfSubjectAccessReview) -> Result<bool, Failure> {
    Ok(review.status.ok_or_else(no_status)?.allowed)
}

/// A review without a status neither confirms nor denies a permission.
fn no_status() -> Failure {
    Failure::new(Cause::Undecodable, "a review without status")
}

#[cfg(test)]
mod tests {
    use loopwatch_testbed::standin::{Reply, Script};

    use super::*;
    use crate::sources::testing::InProcess as _;

    #[tokio::test]
    async fn rules_are_read_from_any_authorizer() {
        for (body, expected) in [
            (
                r#"{"status":{"resourceRules":[{"verbs":["get"]}],"incomplete":true}}"#,
                Ok((1, true)),
            ),
            (
                r#"{"status":{"resourceRules":null,"nonResourceRules":null,"incomplete":null}}"#,
                Ok((0, false)),
            ),
            (
                r#"{"status":{"resourceRules":[{"verbs":null,"apiGroups":null,"resourceNames":null}]}}"#,
                Ok((1, false)),
            ),
            (
                r#"{"metadata":null,"spec":null,"status":{"evaluationError":"oops","new":[1]},"more":1}"#,
                Ok((0, false)),
            ),
            (r#"{"status":{"resourceRules":[{"verbs":"get"}]}}"#, Err(Cause::Undecodable)),
            (r#"{"status":{"resourceRules":{}}}"#, Err(Cause::Undecodable)),
            (r#"{"status":"Failure","kind":"Status","apiVersion":"v1"}"#, Err(Cause::Undecodable)),
            (r#"{"status":null}"#, Err(Cause::Undecodable)),
            ("{}", Err(Cause::Undecodable)),
            ("", Err(Cause::Undecodable)),
        ] {
            let script = Script::new([Reply::Response(201, vec![], body.to_owned())]);
            let rules = Rules::review(&script.cluster(), "ns").await;
            let rules = rules
                .map(|rules| (rules.rules.len(), rules.incomplete))
                .map_err(|failure| failure.cause);

            assert_eq!(rules, expected, "{body}");
        }
    }

    #[tokio::test]
    async fn access_is_allowed_only_by_an_answer() {
        let permission = Permission {
            verb: "list".to_owned(),
            resource: "pods".to_owned(),
            ..Permission::default()
        };
        for (code, body, expected) in [
            (201, r#"{"status":{"allowed":true,"denied":null,"reason":"RBAC"}}"#, Ok(Some(true))),
            (201, r#"{"status":{}}"#, Ok(Some(false))),
            (201, r#"{"status":{"allowed":null,"evaluationError":"oops"}}"#, Ok(Some(false))),
            (403, "", Ok(None)),
            (201, r#"{"status":{"allowed":"true"}}"#, Err(Cause::Undecodable)),
            (201, "{}", Err(Cause::Undecodable)),
        ] {
            let script = Script::new([Reply::Response(code, vec![], body.to_owned())]);
            let allowed = is_allowed(&script.cluster(), &permission, "").await;

            assert_eq!(allowed.map_err(|failure| failure.cause), expected, "{body}");
        }
    }

    fn rule(verbs: &[&str], groups: &[&str], resources: &[&str]) -> ResourceRule {
        let own = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect();
        let (api_groups, resources) = (Some(own(groups)), Some(own(resources)));
        ResourceRule { verbs: own(verbs), api_groups, resources, resource_names: None }
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
        assert!(
            !rules.allow("update", "example.io", "widgets"),
            "a subresource is not the resource"
        );
        assert!(!rules.allow("patch", "example.io", "widgets/status"));
        assert!(rules.allow("get", "apps", "deployments/scale"));
        assert!(!rules.allow_by_name("get", "apps", "deployments"));
    }

    #[test]
    fn rules_for_named_objects_do_not_apply_to_the_kind() {
        let named = ResourceRule {
            resource_names: Some(vec!["one".to_owned()]),
            ..rule(&["*"], &["example.io"], &["*"])
        };

        assert!(!Rules::new(vec![named], false).allow("list", "example.io", "widgets"));
    }

    #[test]
    fn a_rule_with_too_many_combinations_leaves_the_others() {
        let names: Vec<String> = (0..40).map(|number| format!("x{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let small = rule(&["update"], &["example.io"], &["widgets"]);
        let rules = Rules::new(vec![rule(&names, &names, &names), small], false);

        assert!(rules.incomplete, "an access review may allow more");
        assert!(rules.allow("update", "example.io", "widgets"));
        assert_eq!(rules.listed().len(), 1);
    }

    #[test]
    fn only_permissions_to_write_in_all_groups_are_excess() {
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
