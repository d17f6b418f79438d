//! What the accounts of a cluster may do, according to its roles and bindings: the rules that the API
//! server's RBAC authorizer would find for each account. Other authorizers may grant more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::authorization::v1::ResourceRule;

use super::permissions::Rules;

/// The permissions of some accounts.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Grants {
    /// The accounts in question. A binding may name thousands of others.
    accounts: BTreeSet<Account>,
    by_account: BTreeMap<Account, ByNamespace>,
    /// By the groups of service accounts, which hold for many accounts.
    by_group: BTreeMap<String, ByNamespace>,
    /// The roles without room.
    left_out: u64,
}

/// What bindings in a namespace grant. Those of the cluster have no namespace.
type ByNamespace = BTreeMap<String, GrantedHere>;

/// The roles that bindings in one place grant, each once.
#[derive(Debug, Default, PartialEq)]
struct GrantedHere {
    roles: Vec<Granted>,
    /// The bytes of their rules.
    weight: usize,
}

/// The rules of a role, as a binding grants them. Many bindings share them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Granted {
    pub(crate) rules: Arc<[ResourceRule]>,
    /// Approximately the bytes of the rules.
    pub(crate) weight: usize,
    /// Whether the role is one for people, such as `edit`. It shows no ownership, although other roles
    /// that operators ship become a part of it.
    pub(crate) is_for_people: bool,
}

/// The namespace and the name of a service account.
pub(crate) type Account = (String, String);

/// Who gets permissions by a binding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    Account(Account),
    /// A group of service accounts.
    Group(String),
}

/// Limit on the bytes of the rules that one subject gets in a namespace, and in the whole cluster. Anybody
/// may bind the account of an operator in a namespace of their own, and each model copies its rules. The
/// largest roles of operators have a tenth.
const MAX_IN_NAMESPACE: usize = 64 << 10;
const MAX_EVERYWHERE: usize = 1 << 20;

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
    /// No permissions of these accounts yet.
    pub(crate) fn of_accounts(accounts: BTreeSet<Account>) -> Self {
        Self { accounts, ..Self::default() }
    }

    /// The permissions of one account, as an earlier process has seen them.
    pub(crate) fn restored(account: &Account, rules: BTreeMap<String, Vec<ResourceRule>>) -> Self {
        let here = |rules: Vec<ResourceRule>| GrantedHere {
            roles: vec![Granted { rules: rules.into(), weight: 0, is_for_people: false }],
            weight: 0,
        };
        let by_namespace = rules.into_iter().map(|(namespace, rules)| (namespace, here(rules)));
        let by_account = [(account.clone(), by_namespace.collect())].into();
        Self { accounts: [account.clone()].into(), by_account, ..Self::default() }
    }

    /// The rules of an account in the whole cluster and in these namespaces, for [`Grants::restored`], without
    /// those that hold for all accounts. Those for the whole cluster have no namespace.
    pub(crate) fn of_account(
        &self,
        account: &Account,
        namespaces: &BTreeSet<String>,
    ) -> BTreeMap<String, Vec<ResourceRule>> {
        let of_group = self.by_group.get(&of_namespace(account));
        let all: Vec<&ByNamespace> =
            self.by_account.get(account).into_iter().chain(of_group).collect();
        let everywhere = String::new();

        let rules = namespaces.iter().chain([&everywhere]).map(|namespace| {
            let here = all.iter().filter_map(|granted| granted.get(namespace));
            let rules = here.flat_map(|it| &it.roles).flat_map(|it| it.rules.iter().cloned());
            (namespace.clone(), rules.collect())
        });
        rules.filter(|(_, rules): &(String, Vec<ResourceRule>)| !rules.is_empty()).collect()
    }

    /// Adds what a binding grants. `namespace` is that of the binding; empty for the whole cluster.
    pub(crate) fn add(&mut self, subject: &Subject, namespace: &str, granted: &Granted) {
        let of_subject = match subject {
            Subject::Account(account) if !self.accounts.contains(account) => return,
            Subject::Account(account) => self.by_account.entry(account.clone()).or_default(),
            Subject::Group(group) => self.by_group.entry(group.clone()).or_default(),
        };

        let most = if namespace.is_empty() { MAX_EVERYWHERE } else { MAX_IN_NAMESPACE };
        let has_room = of_subject.entry(namespace.to_owned()).or_default().add(granted, most);
        self.left_out += u64::from(!has_room);
    }

    /// How often a role had no room among those of a subject.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// The rules in force for an account in a namespace, with those in force everywhere.
    pub(crate) fn rules(&self, account: &Account, namespace: &str) -> Rules {
        let everywhere = self.granted(account, "");
        let here = (!namespace.is_empty()).then(|| self.granted(account, namespace));
        rules(everywhere.chain(here.into_iter().flatten()))
    }

    /// What bindings in a namespace, or in the whole cluster, grant to an account and to its groups.
    fn granted<'a>(
        &'a self,
        account: &Account,
        namespace: &'a str,
    ) -> impl Iterator<Item = &'a Granted> + use<'a> {
        let groups = GROUPS.map(str::to_owned).into_iter().chain([of_namespace(account)]);
        let of_groups = groups.filter_map(|group| self.by_group.get(&group));
        let all = self.by_account.get(account).into_iter().chain(of_groups);
        all.filter_map(move |granted| granted.get(namespace)).flat_map(|it| &it.roles)
    }

    /// The rules that bindings in a namespace grant to the account itself, or to the accounts of its
    /// namespace; an empty namespace stands for the whole cluster. Rules for all accounts and those of
    /// roles for people show no ownership. Neither does a binding elsewhere for all accounts of a
    /// namespace: somebody else has made it.
    pub(crate) fn own_rules(&self, account: &Account, namespace: &str) -> Rules {
        let is_own = namespace.is_empty() || namespace == account.0;
        let of_group = is_own.then(|| self.by_group.get(&of_namespace(account))).flatten();
        let all = self.by_account.get(account).into_iter().chain(of_group);
        let granted = all.filter_map(|granted| granted.get(namespace)).flat_map(|it| &it.roles);
        rules(granted.filter(|granted| !granted.is_for_people))
    }

    /// Whether an account has the same permissions according to `other`, in the whole cluster, in its own
    /// namespace and in those that its workload watches. Anybody may make bindings in a namespace of their
    /// own, and change them all the time.
    pub(super) fn are_alike(&self, other: &Self, account: &Account, watched: &[String]) -> bool {
        let namespaces = watched.iter().map(String::as_str).chain(["", account.0.as_str()]);
        let is_alike =
            |namespace| self.granted(account, namespace).eq(other.granted(account, namespace));

        namespaces.into_iter().all(is_alike)
    }

    /// The namespaces with bindings of their own for the account.
    pub(crate) fn namespaces(&self, account: &Account) -> impl Iterator<Item = &str> {
        let granted = self.by_account.get(account).into_iter().flatten();
        granted.map(|(namespace, _)| namespace.as_str()).filter(|namespace| !namespace.is_empty())
    }
}

impl GrantedHere {
    /// Adds a role; returns false if there is no room for it. Several bindings may grant the same one.
    fn add(&mut self, granted: &Granted, most: usize) -> bool {
        let is_same = |it: &Granted| {
            Arc::ptr_eq(&it.rules, &granted.rules) && it.is_for_people == granted.is_for_people
        };
        if self.roles.iter().any(is_same) {
            return true;
        }
        if self.weight + granted.weight > most {
            return false;
        }

        self.weight += granted.weight;
        self.roles.push(granted.clone());
        true
    }
}

/// The group of the accounts in the namespace of an account.
fn of_namespace((namespace, _): &Account) -> String {
    format!("{OF_NAMESPACE}{namespace}")
}

/// All rules of what is granted.
fn rules<'a>(granted: impl Iterator<Item = &'a Granted>) -> Rules {
    Rules::new(granted.flat_map(|granted| granted.rules.iter().cloned()).collect(), false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(verb: &str, resource: &str) -> Granted {
        let rule = ResourceRule {
            verbs: vec![verb.to_owned()],
            api_groups: Some(vec!["example.io".to_owned()]),
            resources: Some(vec![resource.to_owned()]),
            resource_names: None,
        };
        Granted { rules: Arc::from([rule]), weight: 100, is_for_people: false }
    }

    fn account(namespace: &str, name: &str) -> Account {
        (namespace.to_owned(), name.to_owned())
    }

    fn group(name: &str) -> Subject {
        Subject::Group(name.to_owned())
    }

    #[test]
    fn subjects_are_service_accounts_by_any_name() {
        let subject = |kind: &str, name: &str| Subject::new(kind, "ns".to_owned(), name.to_owned());
        let of = |namespace: &str, name: &str| Some(Subject::Account(account(namespace, name)));

        assert_eq!(subject("ServiceAccount", "op"), of("ns", "op"));
        assert_eq!(subject("User", "system:serviceaccount:a:b"), of("a", "b"));
        assert_eq!(subject("User", "jane"), None);
        assert_eq!(subject("Group", "system:masters"), None);
        for name in ["system:authenticated", "system:serviceaccounts:ns"] {
            assert_eq!(subject("Group", name), Some(group(name)));
        }
    }

    #[test]
    fn rules_hold_where_their_binding_is() {
        let op = account("ops", "op");
        let mut grants = Grants::of_accounts([op.clone()].into());
        let subject = Subject::Account(op.clone());
        grants.add(&subject, "", &granted("update", "widgets/status"));
        grants.add(&subject, "team", &granted("list", "widgets"));
        grants.add(&group("system:serviceaccounts:ops"), "", &granted("get", "gadgets"));
        grants.add(&group("system:serviceaccounts"), "", &granted("get", "all"));
        let other = account("elsewhere", "op");
        grants.add(&Subject::Account(other.clone()), "", &granted("get", "secrets"));

        let may = |namespace: &str, verb: &str, resource: &str| {
            grants.rules(&op, namespace).allow(verb, "example.io", resource)
        };
        assert!(may("", "update", "widgets/status") && may("team", "update", "widgets/status"));
        assert!(may("team", "list", "widgets") && !may("", "list", "widgets"));
        assert!(may("", "get", "gadgets") && may("", "get", "all"));
        assert_eq!(grants.namespaces(&op).collect::<Vec<_>>(), ["team"]);
        assert!(!grants.rules(&other, "").allow("get", "example.io", "secrets"), "not in question");
    }

    #[test]
    fn the_permissions_of_an_account_survive_a_restart() {
        let op = account("ops", "op");
        let mut grants = Grants::of_accounts([op.clone(), account("ops", "other")].into());
        grants.add(&Subject::Account(op.clone()), "team", &granted("update", "widgets/status"));
        grants.add(&group("system:serviceaccounts:ops"), "", &granted("get", "gadgets"));

        let namespaces = ["team".to_owned()].into();
        let restored = Grants::restored(&op, grants.of_account(&op, &namespaces));
        let may = |namespace: &str, verb: &str, resource: &str| {
            restored.rules(&op, namespace).allow(verb, "example.io", resource)
        };
        assert!(may("team", "update", "widgets/status") && may("", "get", "gadgets"));
        assert!(!may("", "update", "widgets/status"));
        assert_eq!(restored.of_account(&op, &namespaces), grants.of_account(&op, &namespaces));
        assert!(!grants.of_account(&op, &BTreeSet::new()).contains_key("team"), "somebody else's");
    }

    /// Anybody may repeat an account in a binding, and bind it to many roles in a namespace of their own.
    #[test]
    fn repeated_and_large_roles_take_no_memory() {
        let op = account("ops", "op");
        let mut grants = Grants::of_accounts([op.clone()].into());
        let subject = Subject::Account(op.clone());
        let role = granted("update", "widgets/status");
        (0..2_000).for_each(|_| grants.add(&subject, "evil", &role));
        let of = |grants: &Grants| grants.by_account[&op]["evil"].roles.len();
        assert_eq!((of(&grants), grants.left_out()), (1, 0));

        (0..2_000).for_each(|_| grants.add(&subject, "evil", &granted("get", "widgets")));
        assert_eq!(of(&grants), MAX_IN_NAMESPACE / 100);
        assert_eq!(grants.left_out(), 2_001 - MAX_IN_NAMESPACE as u64 / 100);
        grants.add(&subject, "", &role);
        assert!(grants.rules(&op, "").allow("update", "example.io", "widgets/status"));
    }

    /// Anybody may bind a role to any account in a namespace of their own, again and again.
    #[test]
    fn what_somebody_grants_elsewhere_changes_nothing() {
        let op = account("ops", "op");
        let grants = |namespace: &str| {
            let mut grants = Grants::of_accounts([op.clone()].into());
            grants.add(&group("system:authenticated"), namespace, &granted("get", "gadgets"));
            grants.add(&Subject::Account(op.clone()), namespace, &granted("get", "widgets"));
            grants
        };

        let (none, watched) = (grants("elsewhere"), ["team".to_owned()]);
        assert!(none.are_alike(&grants("aaa"), &op, &watched));
        for matters in ["", "ops", "team"] {
            assert!(!none.are_alike(&grants(matters), &op, &watched), "{matters}");
        }
    }

    #[test]
    fn only_bindings_for_the_account_show_ownership() {
        let op = account("ops", "op");
        let mut grants = Grants::of_accounts([op.clone()].into());
        let subject = Subject::Account(op.clone());
        let edit = Granted { is_for_people: true, ..granted("update", "certificates/status") };
        grants.add(&subject, "", &granted("update", "widgets/status"));
        grants.add(&subject, "", &edit);
        grants.add(&subject, "team", &granted("update", "gadgets/status"));
        grants.add(&group("system:serviceaccounts"), "", &granted("update", "all/status"));
        grants.add(&group("system:serviceaccounts:ops"), "ops", &granted("update", "own/status"));
        grants.add(&group("system:serviceaccounts:ops"), "evil", &granted("update", "evil/status"));

        let shows = |namespace: &str, resource: &str| {
            grants.own_rules(&op, namespace).allow("update", "example.io", resource)
        };
        assert!(shows("", "widgets/status") && shows("team", "gadgets/status"));
        assert!(shows("ops", "own/status"));
        assert!(!shows("", "certificates/status"), "a role for people");
        assert!(!shows("", "gadgets/status") && !shows("", "all/status"));
        assert!(!shows("evil", "evil/status"), "somebody else's binding");
    }
}
