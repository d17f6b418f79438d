//! Permissions that the account had at an earlier poll and has no longer. They are the first
//! suspects when the API server denies requests of the operator.

use std::collections::{BTreeMap, BTreeSet};

use loopwatch_model::observation::Permission;

use super::permissions::Rules;
use super::reviews::Reviews;

/// What the account may do in one namespace, and could do before.
#[derive(Clone, Debug, Default)]
struct InNamespace {
    /// The rules of the last poll.
    rules: Rules,
    /// The latest withdrawal comes last.
    withdrawn: Vec<Permission>,
}

/// The permissions of all polls so far, by namespace. An empty namespace means the whole cluster.
#[derive(Clone, Debug, Default)]
pub(super) struct Withdrawn {
    namespaces: BTreeMap<String, InNamespace>,
}

/// Maximum number of withdrawn permissions per namespace. A role that loses more than these at once
/// was replaced as a whole, and some of them say so.
const MOST_WITHDRAWN: usize = 50;
/// Maximum number of namespaces whose rules are compared.
const MOST_NAMESPACES: usize = 100;

impl Withdrawn {
    /// Begins with the permissions that an earlier process knew, by namespace.
    pub(super) fn after(known: &BTreeMap<String, Vec<Permission>>) -> Self {
        let namespaces = known.iter().take(MOST_NAMESPACES).map(|(namespace, permissions)| {
            let rules = Rules::granting(permissions);
            (namespace.clone(), InNamespace { rules, withdrawn: Vec::new() })
        });
        Self { namespaces: namespaces.collect() }
    }

    /// Compares the rules of this poll with those of the previous one. `exists` tells whether a
    /// namespace has been reviewed at all: one without rules of its own has those of the cluster.
    pub(super) fn update(&mut self, reviews: &Reviews, exists: impl Fn(&str) -> bool) {
        let namespaces = reviews.namespaces().map(|(namespace, rules, _)| (namespace, rules));
        let all: BTreeMap<&str, &Rules> =
            std::iter::once(("", &reviews.everywhere)).chain(namespaces).collect();
        self.namespaces.retain(|name, _| all.contains_key(name.as_str()) || exists(name));
        for (name, known) in &mut self.namespaces {
            known.update(all.get(name.as_str()).copied().unwrap_or(&reviews.everywhere));
        }

        for (namespace, rules) in all {
            if self.namespaces.len() < MOST_NAMESPACES && !self.namespaces.contains_key(namespace) {
                let known = InNamespace { rules: rules.clone(), withdrawn: Vec::new() };
                self.namespaces.insert(namespace.to_owned(), known);
            }
        }
    }

    /// The namespaces and the permissions that their rules no longer list, the oldest withdrawal
    /// first. Where the rules are incomplete, an access review has to confirm each.
    pub(super) fn suspects(&self) -> impl Iterator<Item = (&str, &Permission)> {
        self.namespaces.iter().flat_map(|(namespace, known)| {
            known.withdrawn.iter().map(|permission| (namespace.as_str(), permission))
        })
    }
}

impl InNamespace {
    fn update(&mut self, rules: &Rules) {
        if *rules == self.rules {
            return;
        }

        let is_allowed = |p: &Permission| rules.allow(&p.verb, &p.group, &p.resource);
        self.withdrawn.retain(|permission| !is_allowed(permission));
        let lost: BTreeSet<Permission> =
            self.rules.named().filter(|permission| !is_allowed(permission)).collect();
        let new = lost.into_iter().take(MOST_WITHDRAWN);
        let new: Vec<Permission> = new.filter(|lost| !self.withdrawn.contains(lost)).collect();
        self.withdrawn.extend(new);

        let over = self.withdrawn.len().saturating_sub(MOST_WITHDRAWN);
        self.withdrawn.drain(..over);
        self.rules = rules.clone();
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::authorization::v1::ResourceRule;

    use super::*;

    fn rules(granted: &[(&str, &str)]) -> Rules {
        let rule = |(verb, resource): &(&str, &str)| ResourceRule {
            verbs: vec![(*verb).to_owned()],
            api_groups: Some(vec!["example.io".to_owned()]),
            resources: Some(vec![(*resource).to_owned()]),
            resource_names: None,
        };
        Rules::new(granted.iter().map(rule).collect(), false)
    }

    fn withdrawn(steps: &[Rules]) -> Vec<String> {
        let mut known = InNamespace { rules: steps[0].clone(), withdrawn: Vec::new() };
        steps.iter().for_each(|rules| known.update(rules));
        known.withdrawn.iter().map(Permission::to_string).collect()
    }

    #[test]
    fn a_permission_of_an_earlier_poll_is_withdrawn_until_it_is_granted_again() {
        let (all, fewer) = (
            rules(&[("update", "widgets/status"), ("list", "widgets")]),
            rules(&[("list", "widgets")]),
        );

        assert_eq!(withdrawn(&[all.clone(), fewer.clone()]), ["update widgets.example.io/status"]);
        assert_eq!(withdrawn(&[all.clone(), fewer.clone(), all]), [""; 0]);
        assert_eq!(withdrawn(&[fewer.clone(), fewer]), [""; 0]);
    }

    #[test]
    fn a_wildcard_that_becomes_a_list_of_verbs_withdraws_only_the_other_verbs() {
        let (all, some) = (
            rules(&[("*", "widgets")]),
            rules(&["get", "list", "watch", "create", "update", "patch"].map(|v| (v, "widgets"))),
        );

        assert_eq!(withdrawn(&[all, some]), ["delete widgets.example.io"]);
    }

    #[test]
    fn nothing_is_withdrawn_by_name_when_a_rule_for_all_kinds_goes() {
        assert_eq!(withdrawn(&[rules(&[("update", "*")]), rules(&[])]), [""; 0]);
    }

    #[test]
    fn what_an_earlier_process_knew_is_withdrawn_if_the_first_poll_lacks_it() {
        let permission = |verb: &str| Permission {
            verb: verb.to_owned(),
            group: "example.io".to_owned(),
            resource: "widgets".to_owned(),
        };
        let known =
            BTreeMap::from([(String::new(), ["get", "update", "*"].map(permission).into())]);
        let mut first = Withdrawn::after(&known);
        let mut none = Withdrawn::default();
        let mut reviews = Reviews::default();
        reviews.everywhere = rules(&[("get", "widgets")]);
        for withdrawn in [&mut first, &mut none] {
            withdrawn.update(&reviews, |_| true);
        }

        let lost: Vec<String> = first.suspects().map(|(_, lost)| lost.to_string()).collect();
        assert!(lost.contains(&"update widgets.example.io".to_owned()), "{lost:?}");
        assert!(!lost.contains(&"get widgets.example.io".to_owned()), "{lost:?}");
        assert_eq!(none.suspects().count(), 0, "without a checkpoint, nothing is known");
    }

    #[test]
    fn withdrawn_permissions_are_limited() {
        let names: Vec<String> = (0..MOST_WITHDRAWN + 5).map(|n| format!("kind{n:03}s")).collect();
        let all: Vec<(&str, &str)> = names.iter().map(|name| ("list", name.as_str())).collect();
        let found = withdrawn(&[rules(&all), rules(&[])]);

        assert_eq!(found.len(), MOST_WITHDRAWN);
    }

    #[test]
    fn a_namespace_that_loses_its_rules_has_those_of_the_cluster_and_a_deleted_one_is_forgotten() {
        let own = rules(&[("create", "widgets")]);
        let of = |namespaces: Vec<(String, Rules)>| {
            let mut reviews = Reviews::default();
            reviews.extend(namespaces);
            reviews
        };
        let mut known = Withdrawn::default();
        known.update(&of(vec![("a".to_owned(), own)]), |_| true);
        assert_eq!(known.suspects().count(), 0);

        known.update(&of(Vec::new()), |namespace| namespace == "a");
        let suspects: Vec<String> =
            known.suspects().map(|(namespace, lost)| format!("{lost} in {namespace}")).collect();
        assert_eq!(suspects, ["create widgets.example.io in a"]);

        known.update(&of(Vec::new()), |_| false);
        assert_eq!(known.suspects().count(), 0);
    }
}
