//! What the accounts of a cluster may do, according to its roles and bindings: the rules that the API
//! server's RBAC authorizer would find for each account. Other authorizers may grant more.

use std::collections::BTreeMap;

use k8s_openapi::api::authorization::v1::ResourceRule;

use super::permissions::Rules;

/// The permissions of all accounts that a binding names.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Grants {
    by_account: BTreeMap<Account, ByNamespace>,
    /// By the groups of service accounts, which hold for many accounts.
    by_group: BTreeMap<String, ByNamespace>,
}

/// The rules that bindings in a namespace grant. Those of the cluster have no namespace.
type ByNamespace = BTreeMap<String, Vec<ResourceRule>>;

/// The namespace and the name of a service account.
pub(crate) type Account = (String, String);

/// Who gets permissions by a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Account(Account),
    /// A group of service accounts.
    Group(String),
}

/// The groups of every service account, and the prefix of the group of those in one namespace.
const GROUPS: [&str; 2] = ["system:authenticated", "system:serviceaccounts"];
const OF_NAMESPACE: &str = "system:serviceaccounts:";

/// The prefix of the user name of a service account.
const USER: &str = "system:serviceaccount:";

impl Subject {
    /// Returns the subject of a binding; `None` if it concerns no service account.
    pub(crate) fn new(kind: &str, namespace: String, name: String) -> Option<Self> {
        match kind {
            "ServiceAccount" => Some(Self::Account((namespace, name))),
            "User" => {
                let (namespace, name) = name.strip_prefix(USER)?.split_once(':')?;
                Some(Self::Account((namespace.to_owned(), name.to_owned())))
            }
            "Group" if GROUPS.contains(&name.as_str()) || name.starts_with(OF_NAMESPACE) => {
                Some(Self::Group(name))
            }
            _ => None,
        }
    }
}

impl Grants {
    /// Adds the rules of a binding. `namespace` is that of the binding; empty for the whole cluster.
    pub(crate) fn add(&mut self, subject: &Subject, namespace: &str, rules: &[ResourceRule]) {
        let of_subject = match subject {
            Subject::Account(account) => self.by_account.entry(account.clone()).or_default(),
            Subject::Group(group) => self.by_group.entry(group.clone()).or_default(),
        };
        of_subject.entry(namespace.to_owned()).or_default().extend_from_slice(rules);
    }

    /// The rules in force for an account in a namespace, with those in force everywhere.
    pub(crate) fn rules(&self, account: &Account, namespace: &str) -> Rules {
        let groups = GROUPS.map(str::to_owned).into_iter().chain([of_namespace(account)]);
        let of_groups = groups.filter_map(|group| self.by_group.get(&group));
        let all = self.by_account.get(account).into_iter().chain(of_groups);

        let mut rules = Vec::new();
        for granted in all {
            let here = (!namespace.is_empty()).then(|| granted.get(namespace)).flatten();
            granted.get("").into_iter().chain(here).for_each(|it| rules.extend_from_slice(it));
        }

        Rules::new(rules, false)
    }

    /// The rules of all bindings that name the account itself, or the accounts of its namespace. Rules
    /// for all accounts show no ownership.
    pub(crate) fn own_rules(&self, account: &Account) -> Rules {
        let of_group = self.by_group.get(&of_namespace(account));
        let all = self.by_account.get(account).into_iter().chain(of_group);
        Rules::new(all.flat_map(BTreeMap::values).flatten().cloned().collect(), false)
    }

    /// Whether an account has the same permissions according to `other`.
    pub(super) fn are_alike(&self, other: &Self, account: &Account) -> bool {
        let groups = GROUPS.map(str::to_owned).into_iter().chain([of_namespace(account)]);
        self.by_account.get(account) == other.by_account.get(account)
            && groups.into_iter().all(|it| self.by_group.get(&it) == other.by_group.get(&it))
    }

    /// The namespaces with bindings of their own for the account.
    pub(crate) fn namespaces(&self, account: &Account) -> impl Iterator<Item = &str> {
        let granted = self.by_account.get(account).into_iter().flatten();
        granted.map(|(namespace, _)| namespace.as_str()).filter(|namespace| !namespace.is_empty())
    }
}

/// The group of the accounts in the namespace of an account.
fn of_namespace((namespace, _): &Account) -> String {
    format!("{OF_NAMESPACE}{namespace}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(verb: &str, resource: &str) -> ResourceRule {
        ResourceRule {
            verbs: vec![verb.to_owned()],
            api_groups: Some(vec!["example.io".to_owned()]),
            resources: Some(vec![resource.to_owned()]),
            resource_names: None,
        }
    }

    fn account(namespace: &str, name: &str) -> Account {
        (namespace.to_owned(), name.to_owned())
    }

    #[test]
    fn subjects_are_service_accounts_by_any_name() {
        let subject = |kind: &str, name: &str| Subject::new(kind, "ns".to_owned(), name.to_owned());
        let of = |namespace: &str, name: &str| Some(Subject::Account(account(namespace, name)));

        assert_eq!(subject("ServiceAccount", "op"), of("ns", "op"));
        assert_eq!(subject("User", "system:serviceaccount:a:b"), of("a", "b"));
        assert_eq!(subject("User", "jane"), None);
        assert_eq!(subject("Group", "system:masters"), None);
        for group in ["system:authenticated", "system:serviceaccounts:ns"] {
            assert_eq!(subject("Group", group), Some(Subject::Group(group.to_owned())));
        }
    }

    #[test]
    fn rules_hold_where_their_binding_is() {
        let mut grants = Grants::default();
        let op = account("ops", "op");
        let subject = Subject::Account(op.clone());
        grants.add(&subject, "", &[rule("update", "widgets/status")]);
        grants.add(&subject, "team", &[rule("list", "widgets")]);
        grants.add(
            &Subject::Group("system:serviceaccounts:ops".to_owned()),
            "",
            &[rule("get", "gadgets")],
        );
        grants.add(&Subject::Group("system:serviceaccounts".to_owned()), "", &[rule("get", "all")]);

        let may = |namespace: &str, verb: &str, resource: &str| {
            grants.rules(&op, namespace).allow(verb, "example.io", resource)
        };
        assert!(may("", "update", "widgets/status") && may("team", "update", "widgets/status"));
        assert!(may("team", "list", "widgets") && !may("", "list", "widgets"));
        assert!(may("", "get", "gadgets") && may("", "get", "all"));
        assert_eq!(grants.namespaces(&op).collect::<Vec<_>>(), ["team"]);

        let own = grants.own_rules(&op);
        assert!(
            own.allow("get", "example.io", "gadgets") && !own.allow("get", "example.io", "all")
        );
        let other = account("elsewhere", "op");
        assert!(!grants.rules(&other, "").allow("get", "example.io", "gadgets"));
    }
}
