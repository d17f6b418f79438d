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
