//! Which workloads claim which kinds: those whose account may write the status, or at least the finalizers,
//! of a custom resource by a rule that names its group.
//!
//! Where a binding is decides how far a claim reaches. One in a single namespace counts only if the
//! workload is there, or watches it: anybody may bind somebody else's account in a namespace of their own.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::Census;
use super::table::Name;
use super::workloads::Workload;
use crate::sources::api_server::{
    Account, ApiKind, ApiResources, Grants, Kind, OperatorName, Reach, Rules, WantedNamespaces,
};

/// A workload whose account may write the status of custom resources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FoundOperator {
    pub(crate) name: OperatorName,
    /// The service account of its Pods.
    pub(crate) account: Account,
    /// The namespaces that it watches, according to its environment; empty for all.
    pub(crate) watched_namespaces: Vec<String>,
}

/// The claim of an operator to a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) operator: OperatorName,
    pub(crate) reach: Reach,
    pub(crate) strength: Strength,
    /// Whether a rule names the resource, and not only its group.
    pub(crate) is_named: bool,
}

/// The strongest permission of an account for a custom resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Strength {
    Finalizers,
    Status,
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
    /// Other operators own the kinds that its account may write.
    Overruled,
    /// Another workload of the same account counts as the operator.
    SharesAccount,
    /// A workload of another kind has the same name.
    SharesName,
    /// It is a CronJob: its Pods run only at times, so the loops of an operator cannot be theirs.
    RunsAtTimes,
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
    /// The claims to each kind, without those that others overrule.
    pub(crate) claims: BTreeMap<Kind, Vec<Claim>>,
    /// Workloads that were not considered, because their namespace has too many that claim kinds.
    pub(crate) crowd: usize,
}

/// Limit on accounts in a namespace that claim kinds only in single namespaces. Anybody may create them in a
/// namespace of their own. Few of them get a place.
const MAX_PER_NAMESPACE: usize = 50;

/// The claims to the status of a kind, which overrule others.
#[derive(Default)]
struct Rivals<'a> {
    wide: Vec<&'a Claim>,
    /// Those in single namespaces, by namespace.
    narrow: BTreeMap<&'a String, Vec<&'a Claim>>,
}

/// Limit on names of workloads that are not considered. Beyond it, they only count.
const MAX_NAMED: usize = 1_000;

/// What a search considers.
struct Search<'a> {
    grants: &'a Grants,
    /// The custom resources that the API server serves.
    kinds: Vec<&'a ApiKind>,
    wanted: &'a WantedNamespaces,
}

/// A workload, as the census sees it.
struct Candidate {
    operator: FoundOperator,
    has_sidecar: bool,
    is_cron_job: bool,
}

impl NotJudged {
    /// The reason, for people.
    pub(crate) const fn in_words(self) -> &'static str {
        match self {
            Self::HasSidecar => "a loopwatch in its Pods watches it",
            Self::MayWriteAll => {
                "its account may write every kind, and none shows a sign of it; if it is an operator, run loopwatch beside it"
            }
            Self::Overruled => "other operators own the kinds whose status its account may write",
            Self::SharesAccount => "another workload of the same account counts as the operator",
            Self::SharesName => "a workload of another kind has the same name",
            Self::RunsAtTimes => {
                "it is a CronJob: loopwatch judges only operators that run all the time"
            }
            Self::TooMany => {
                "loopwatch has no room for more operators; run another loopwatch beside this one"
            }
        }
    }
}

impl Found {
    /// All workloads that loopwatch judges, or says why it does not.
    pub(crate) fn names(&self) -> BTreeSet<OperatorName> {
        let operators = self.operators.iter().chain(&self.unrestricted).map(|it| &it.name);
        operators.chain(self.skipped.iter().map(|it| &it.name)).cloned().collect()
    }

    pub(crate) fn skip(&mut self, name: OperatorName, why: NotJudged) {
        self.skipped.push(Skipped { name, why });
    }

    /// Drops the claims that others overrule.
    fn overrule(&mut self) {
        for claims in self.claims.values_mut() {
            let all = claims.clone();
            let rivals = Rivals::among(&all);
            claims.retain(|claim| !rivals.overrule(claim));
        }
        self.claims.retain(|_, claims| !claims.is_empty());
    }
}

impl<'a> Rivals<'a> {
    fn among(claims: &'a [Claim]) -> Self {
        let mut rivals = Self::default();
        for claim in claims.iter().filter(|claim| claim.strength == Strength::Status) {
            if claim.reach == Reach::Everywhere {
                rivals.wide.push(claim);
            }
            for namespace in claim.reach.namespaces() {
                rivals.narrow.entry(namespace).or_default().push(claim);
            }
        }

        rivals
    }

    /// Whether another operator overrules a claim: one to finalizers where somebody may write the status, and
    /// one in single namespaces if somebody has one in the whole cluster.
    fn overrule(&self, claim: &Claim) -> bool {
        let is_narrow = claim.reach != Reach::Everywhere;
        let is_weak = claim.strength == Strength::Finalizers;
        let is_another = |rival: &&Claim| rival.operator != claim.operator;
        if (is_narrow || is_weak) && self.wide.iter().any(is_another) {
            return true;
        }

        let first = claim.reach.namespaces().next();
        let here = first.and_then(|namespace| self.narrow.get(namespace));
        let mut others = here.into_iter().flatten().filter(|rival| is_another(rival));
        is_weak && others.any(|rival| rival.reach.covers(&claim.reach))
    }
}

impl Census {
    /// Finds the workloads that claim kinds. Those that are `known` as operators come first where there are too
    /// many.
    pub(crate) fn find_operators(
        &self,
        grants: &Grants,
        served: &ApiResources,
        wanted: &WantedNamespaces,
        known: &BTreeSet<OperatorName>,
    ) -> Found {
        let is_custom = |kind: &&ApiKind| kind.watchable && !kind.is_built_in();
        let search = Search { grants, kinds: served.kinds().filter(is_custom).collect(), wanted };
        let mut found = Found::default();
        let mut by_account: BTreeMap<Account, Vec<Candidate>> = BTreeMap::new();
        let mut names = BTreeSet::new();
        let mut see = |(namespace, name): &Name, workload: &Workload| {
            let name = OperatorName { namespace: namespace.clone(), name: name.clone() };
            let account = (namespace.clone(), workload.account.clone());
            let candidate = Candidate {
                operator: FoundOperator {
                    name: name.clone(),
                    account: account.clone(),
                    watched_namespaces: workload.watched_namespaces.clone(),
                },
                has_sidecar: workload.has_sidecar,
                is_cron_job: workload.is_cron_job,
            };
            match names.insert(name.clone()) {
                true => by_account.entry(account).or_default().push(candidate),
                false => found.skip(name, NotJudged::SharesName),
            }
        };
        self.workloads().into_iter().for_each(|table| table.each(&mut see));

        let mut crowds: BTreeMap<String, usize> = BTreeMap::new();
        let is_new = |(_, all): &(Account, Vec<Candidate>)| {
            !all.iter().any(|it| known.contains(&it.operator.name))
        };
        let (new, old): (Vec<_>, Vec<_>) = by_account.into_iter().partition(is_new);
        for (account, candidates) in old.into_iter().chain(new) {
            let crowd = crowds.entry(account.0.clone()).or_default();
            self.find_of_account(&search, &account, candidates, crowd, &mut found);
        }
        found.overrule();
        found.skipped.retain(|it| {
            it.why != NotJudged::SharesName || found.operators.iter().any(|of| of.name == it.name)
        });

        found
    }

    /// Adds the claims of the workload that speaks for an account. `crowd` counts the accounts of its namespace
    /// that claim kinds only in single namespaces.
    fn find_of_account(
        &self,
        search: &Search<'_>,
        account: &Account,
        candidates: Vec<Candidate>,
        crowd: &mut usize,
        found: &mut Found,
    ) {
        let Search { grants, kinds, wanted } = search;
        let everywhere = grants.own_rules(account, "");
        let is_crowded = *crowd >= MAX_PER_NAMESPACE;
        let watched = candidates.iter().flat_map(|it| &it.operator.watched_namespaces);
        let namespaces: BTreeSet<&String> = watched.chain([&account.0]).collect();
        let here = namespaces.into_iter().filter(|namespace| wanted.allows(namespace));
        let here = here.map(|namespace| (namespace, grants.own_rules(account, namespace)));
        let here: Vec<(&String, Rules)> = here.filter(|(_, rules)| !rules.is_empty()).collect();
        if is_crowded && !here.is_empty() && everywhere.is_empty() {
            found.crowd += candidates.len();
            let room = MAX_NAMED.saturating_sub(found.skipped.len());
            let named = candidates.into_iter().take(room);
            named.for_each(|it| found.skip(it.operator.name, NotJudged::TooMany));
            return;
        }

        let claims = claims(&everywhere, &here, kinds);
        let may_write_all = claims.is_empty() && writes_all(&everywhere);
        if claims.is_empty() && !may_write_all {
            return;
        }
        *crowd += usize::from(everywhere.is_empty());

        let (cron_jobs, mut candidates): (Vec<_>, Vec<_>) =
            candidates.into_iter().partition(|it| it.is_cron_job);
        if !claims.is_empty() {
            cron_jobs
                .into_iter()
                .for_each(|it| found.skip(it.operator.name, NotJudged::RunsAtTimes));
        }

        candidates
            .iter_mut()
            .for_each(|it| it.has_sidecar |= self.has_scraped_pod(&it.operator.name));
        let has_sidecar = candidates.iter().any(|it| it.has_sidecar);
        candidates.sort_by_key(|it| {
            let name = &it.operator.name.name;
            (!it.has_sidecar, *name != account.1, name.len(), name.clone())
        });

        let mut candidates = candidates.into_iter();
        let Some(Candidate { operator: speaker, .. }) = candidates.next() else { return };
        if !may_write_all || has_sidecar {
            candidates.for_each(|it| found.skip(it.operator.name, NotJudged::SharesAccount));
        } else {
            found.unrestricted.extend(candidates.map(|it| it.operator));
        }

        for (kind, (reach, strength, is_named)) in claims {
            let operator = speaker.name.clone();
            let claim = Claim { operator, reach, strength, is_named };
            found.claims.entry(kind).or_default().push(claim);
        }
        match (has_sidecar, may_write_all) {
            (true, _) => found.skip(speaker.name, NotJudged::HasSidecar),
            (_, true) => found.unrestricted.push(speaker),
            _ => found.operators.push(speaker),
        }
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

/// The kinds that rules show to be an operator's, and how far each claim reaches.
fn claims(
    everywhere: &Rules,
    here: &[(&String, Rules)],
    kinds: &[&ApiKind],
) -> BTreeMap<Kind, (Reach, Strength, bool)> {
    let claim = |kind: &&ApiKind| {
        let name = kind.id();
        if let Some((strength, is_named)) = strength(everywhere, kind) {
            return Some((name, (Reach::Everywhere, strength, is_named)));
        }

        let of = |(namespace, rules): &(&String, Rules)| {
            strength(rules, kind).map(|it| ((*namespace).clone(), it))
        };
        let in_namespaces: BTreeMap<String, (Strength, bool)> =
            here.iter().filter(|_| kind.namespaced).filter_map(of).collect();
        let (strength, is_named) = in_namespaces.values().copied().max()?;
        Some((name, (Reach::In(in_namespaces.into_keys().collect()), strength, is_named)))
    };

    kinds.iter().filter_map(claim).collect()
}

/// The strongest permission for a kind that rules name, and whether they name its resource.
fn strength(rules: &Rules, kind: &ApiKind) -> Option<(Strength, bool)> {
    let may_write = |subresource: &str| {
        let resource = format!("{}/{subresource}", kind.resource);
        let named = |verb: &&str| rules.allow_by_name(verb, &kind.group, &resource);
        ["update", "patch"].iter().any(named).then(|| rules.name_resource(&kind.group, &resource))
    };
    let status = may_write("status").map(|is_named| (Strength::Status, is_named));
    status.or_else(|| may_write("finalizers").map(|is_named| (Strength::Finalizers, is_named)))
}

/// Whether rules allow to write the status of every kind.
fn writes_all(rules: &Rules) -> bool {
    ["update", "patch"]
        .iter()
        .any(|verb| rules.allow(verb, "*", "*/status") || rules.allow(verb, "*", "*"))
}

#[cfg(test)]
mod tests;
