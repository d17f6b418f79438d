//! Which workloads are operators: those whose account may write the status, or at least the finalizers,
//! of a custom resource by a rule that names its group.

use std::collections::{BTreeMap, BTreeSet};

use super::Census;
use super::table::Name;
use super::workloads::Workload;
use crate::sources::api_server::{Account, ApiKind, ApiResources, Grants, OperatorName, Rules};

/// A workload whose account may write the status of custom resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundOperator {
    pub(crate) name: OperatorName,
    /// The service account of its Pods.
    pub(crate) account: Account,
    /// The namespaces that it watches, according to its environment; empty for all.
    pub(crate) watched_namespaces: Vec<String>,
}

/// A workload that loopwatch does not judge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Skipped {
    pub(crate) name: OperatorName,
    pub(crate) why: NotJudged,
}

/// Why loopwatch does not judge a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotJudged {
    /// A loopwatch in its Pods does, and its alerts would page twice.
    HasSidecar,
    /// Its account may write everything, so nothing shows which kinds it owns.
    MayWriteAll,
    /// There is no room for its model.
    TooMany,
}

/// The result of a census.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) operators: Vec<FoundOperator>,
    /// Workloads whose accounts may write every kind. Only signs in objects show which of them are
    /// operators.
    pub(crate) unrestricted: Vec<FoundOperator>,
    pub(crate) skipped: Vec<Skipped>,
    /// The operators that may write the status of each kind, as `NAMESPACE/NAME`, also of those that
    /// have a sidecar.
    pub(crate) claims: BTreeMap<(String, String), BTreeSet<String>>,
}

/// The strongest permission of an account for a custom resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    Finalizers,
    Status,
}

impl Found {
    /// Whether a workload of this name has been found already.
    fn names(&self, name: &OperatorName) -> bool {
        let judged = self.operators.iter().chain(&self.unrestricted);
        judged.map(|it| &it.name).chain(self.skipped.iter().map(|it| &it.name)).any(|it| it == name)
    }

    pub(crate) fn skip(&mut self, name: OperatorName, why: NotJudged) {
        self.skipped.push(Skipped { name, why });
    }

    /// Adds an operator that serves these kinds.
    pub(crate) fn add(&mut self, operator: FoundOperator, kinds: Vec<(String, String)>) {
        for kind in kinds {
            self.claims.entry(kind).or_default().insert(operator.name.to_string());
        }
        self.operators.push(operator);
    }

    /// Adds an operator of an earlier census, with its claims.
    pub(crate) fn keep(&mut self, operator: &FoundOperator, earlier: &Self) {
        let name = operator.name.to_string();
        for (kind, claimants) in &earlier.claims {
            if claimants.contains(&name) {
                self.claims.entry(kind.clone()).or_default().insert(name.clone());
            }
        }
        self.operators.push(operator.clone());
    }
}

impl NotJudged {
    /// The reason, for people.
    pub(crate) const fn in_words(self) -> &'static str {
        match self {
            Self::TooMany => "loopwatch has no room for more operators; run another loopwatch beside this one",
            Self::HasSidecar => "a loopwatch in its Pods watches it",
            Self::MayWriteAll => {
                "its account may write every kind, and none shows a sign of it; if it is an operator, run loopwatch beside it"
            }
        }
    }
}

impl Census {
    /// Finds the operators of the cluster.
    pub(crate) fn find_operators(&self, grants: &Grants, served: &ApiResources) -> Found {
        let kinds: Vec<&ApiKind> =
            served.kinds().filter(|kind| kind.watchable && !kind.is_built_in()).collect();
        let mut found = Found::default();
        let mut claimed: BTreeMap<Account, BTreeMap<(String, String), Claim>> = BTreeMap::new();
        let mut strongest: BTreeMap<(String, String), Claim> = BTreeMap::new();
        let mut candidates = Vec::new();

        let mut see = |(namespace, name): &Name, workload: &Workload| {
            let account = (namespace.clone(), workload.account.clone());
            let claims = claimed
                .entry(account.clone())
                .or_insert_with(|| claims(&grants.own_rules(&account), &kinds));
            for (kind, claim) in claims.iter() {
                let best = strongest.entry(kind.clone()).or_insert(*claim);
                *best = (*best).max(*claim);
            }
            candidates.push((
                OperatorName { namespace: namespace.clone(), name: name.clone() },
                account,
                workload.clone(),
            ));
        };
        self.workloads().into_iter().for_each(|table| table.each(&mut see));

        for (name, account, workload) in candidates {
            if found.names(&name) {
                continue; // a Deployment and a StatefulSet may have the same name
            }

            // An operator that only blocks the deletion of a kind does not own it if another one writes
            // its status.
            let own: Vec<_> = claimed[&account]
                .iter()
                .filter(|(kind, claim)| strongest.get(*kind) == Some(claim))
                .map(|(kind, _)| kind.clone())
                .collect();
            let may_write_all = own.is_empty() && writes_all(&grants.own_rules(&account));
            if own.is_empty() && !may_write_all {
                continue;
            }

            let has_sidecar = workload.has_sidecar || self.has_scraped_pod(&name);
            for kind in own.iter().cloned() {
                found.claims.entry(kind).or_default().insert(name.to_string());
            }

            let watched_namespaces = workload.watched_namespaces;
            let operator = FoundOperator { name, account, watched_namespaces };
            match (has_sidecar, may_write_all) {
                (true, _) => found.skip(operator.name, NotJudged::HasSidecar),
                (_, true) => found.unrestricted.push(operator),
                _ => found.operators.push(operator),
            }
        }

        found
    }

    /// Whether a Pod of the workload has a loopwatch container.
    fn has_scraped_pod(&self, operator: &OperatorName) -> bool {
        let mut has = false;
        self.scraped_pods.each(|(namespace, _), pod| {
            has |= *namespace == operator.namespace && pod.is_of(&operator.name);
        });
        has
    }
}

/// The kinds that rules show to be an operator's.
fn claims(rules: &Rules, kinds: &[&ApiKind]) -> BTreeMap<(String, String), Claim> {
    let may_write = |kind: &ApiKind, subresource: &str| {
        let resource = format!("{}/{subresource}", kind.resource);
        ["update", "patch"].iter().any(|verb| rules.allow_by_name(verb, &kind.group, &resource))
    };
    let claim = |kind: &&ApiKind| {
        let claim = match (may_write(kind, "status"), may_write(kind, "finalizers")) {
            (true, _) => Claim::Status,
            (false, true) => Claim::Finalizers,
            (false, false) => return None,
        };
        Some(((kind.group.clone(), kind.resource.clone()), claim))
    };

    kinds.iter().filter_map(claim).collect()
}

/// Whether rules allow to write the status of every kind.
fn writes_all(rules: &Rules) -> bool {
    ["update", "patch"]
        .iter()
        .any(|verb| rules.allow(verb, "*", "*/status") || rules.allow(verb, "*", "*"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::api_server::Subject;
    use crate::sources::census::workloads::ScrapedPod;

    const GROUP: &str = "example.io";

    const NAMESPACE: &str = "ops";

    fn served(kinds: &[(&str, &str)]) -> ApiResources {
        let kind = |(group, resource): &(&str, &str)| ApiKind {
            group: (*group).to_owned(),
            version: "v1".to_owned(),
            kind: (*resource).to_owned(),
            resource: (*resource).to_owned(),
            watchable: true,
            ..ApiKind::default()
        };
        kinds.iter().map(kind).collect()
    }

    /// A census of Deployments in one namespace, each with an account of its name and these permissions:
    /// a group and a resource.
    struct Cluster {
        census: Census,
        grants: Grants,
    }

    impl Cluster {
        fn new() -> Self {
            Self { census: Census::default(), grants: Grants::default() }
        }

        fn with(mut self, name: &str, may_write: &[(&str, &str)]) -> Self {
            self.deploy(name, name, false);
            for (group, resource) in may_write {
                self.grant(name, group, resource);
            }
            self
        }

        fn deploy(&mut self, name: &str, account: &str, has_sidecar: bool) {
            let workload = Workload {
                account: account.to_owned(),
                watched_namespaces: Vec::new(),
                has_sidecar,
            };
            self.census.deployments.put((NAMESPACE.to_owned(), name.to_owned()), workload);
        }

        fn grant(&mut self, account: &str, group: &str, resource: &str) {
            let subject = Subject::Account((NAMESPACE.to_owned(), account.to_owned()));
            let rule = k8s_openapi::api::authorization::v1::ResourceRule {
                verbs: vec!["update".to_owned()],
                api_groups: Some(vec![group.to_owned()]),
                resources: Some(vec![resource.to_owned()]),
                resource_names: None,
            };
            self.grants.add(&subject, "", &[rule]);
        }

        fn find(&self) -> Found {
            let kinds = [(GROUP, "widgets"), (GROUP, "gadgets"), ("apps", "deployments")];
            self.census.find_operators(&self.grants, &served(&kinds))
        }
    }

    fn names(found: &Found) -> Vec<&str> {
        found.operators.iter().map(|it| it.name.name.as_str()).collect()
    }

    fn claimants<'a>(found: &'a Found, resource: &str) -> Vec<&'a str> {
        let claims = found.claims.get(&(GROUP.to_owned(), resource.to_owned()));
        claims.into_iter().flatten().filter_map(|it| it.split_once('/')).map(|it| it.1).collect()
    }

    #[test]
    fn an_operator_may_write_the_status_of_a_custom_resource() {
        let found = Cluster::new()
            .with("op", &[(GROUP, "widgets/status")])
            .with("wide", &[(GROUP, "*")])
            .with("shop", &[])
            .with("client", &[(GROUP, "widgets")])
            .with("scaler", &[("apps", "deployments/status")])
            .find();

        assert_eq!(names(&found), ["op", "wide"]);
        assert_eq!(claimants(&found, "widgets"), ["op", "wide"]);
        assert_eq!(claimants(&found, "gadgets"), ["wide"]);
        assert_eq!(found.skipped, []);
    }

    #[test]
    fn finalizers_alone_are_a_claim_only_if_nobody_writes_the_status() {
        let owner = Cluster::new().with("guard", &[(GROUP, "widgets/finalizers")]).find();
        assert_eq!(claimants(&owner, "widgets"), ["guard"]);

        let other = Cluster::new()
            .with("guard", &[(GROUP, "widgets/finalizers")])
            .with("op", &[(GROUP, "widgets/status")])
            .find();
        assert_eq!((names(&other), claimants(&other, "widgets")), (vec!["op"], vec!["op"]));
    }

    #[test]
    fn who_may_write_everything_is_no_operator_without_signs() {
        let mut found = Cluster::new().with("all", &[("*", "*")]).find();
        assert_eq!(names(&found), Vec::<&str>::new());
        assert_eq!(found.unrestricted.len(), 1);

        let all = found.unrestricted.remove(0);
        found.add(all, vec![(GROUP.to_owned(), "widgets".to_owned())]);
        assert_eq!((names(&found), claimants(&found, "widgets")), (vec!["all"], vec!["all"]));
    }

    #[test]
    fn an_operator_with_a_loopwatch_of_its_own_is_left_to_it() {
        let mut cluster = Cluster::new().with("op", &[(GROUP, "widgets/status")]);
        cluster.deploy("beside", "op", true);
        cluster.deploy("injected", "op", false);
        let pod = ScrapedPod { controller: "injected-5f".to_owned(), hash: "5f".to_owned() };
        cluster.census.scraped_pods.put((NAMESPACE.to_owned(), "injected-5f-x".to_owned()), pod);

        let found = cluster.find();
        assert_eq!(names(&found), ["op"]);
        let skipped: Vec<&str> = found.skipped.iter().map(|it| it.name.name.as_str()).collect();
        assert_eq!(skipped, ["beside", "injected"]);
        assert!(found.skipped.iter().all(|it| it.why == NotJudged::HasSidecar));
    }

    #[test]
    fn an_operator_that_has_just_gone_keeps_its_kinds() {
        let earlier = Cluster::new().with("op", &[(GROUP, "widgets/status")]).find();
        let mut now = Cluster::new().find();
        now.keep(&earlier.operators[0], &earlier);

        assert_eq!((names(&now), claimants(&now, "widgets")), (vec!["op"], vec!["op"]));
    }

    /// A Deployment and a StatefulSet of one name would have one page.
    #[test]
    fn two_workloads_of_one_name_are_one_operator() {
        let mut cluster = Cluster::new().with("op", &[(GROUP, "widgets/status")]);
        cluster.deploy("op", "op", false);
        let workload = Workload {
            account: "op".to_owned(),
            watched_namespaces: Vec::new(),
            has_sidecar: false,
        };
        cluster.census.stateful_sets.put((NAMESPACE.to_owned(), "op".to_owned()), workload);

        assert_eq!(names(&cluster.find()), ["op"]);
    }
}
