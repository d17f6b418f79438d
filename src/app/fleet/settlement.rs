//! Who owns which kind, if several operators may write its status: the one whose claim reaches furthest,
//! and among equals the one that its objects show. Exactly one owns a kind in a namespace, so that no
//! problem is found twice. Without a clear sign, the ownership is not certain.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use tracing::debug;

use crate::sources::api_server::{
    ApiResources, Cluster, Contender, Kind, OperatorName, Owner, Reach, Scout, Sign,
};
use crate::sources::census::{Claim, Found, FoundOperator, Strength};
use crate::sources::decoding::HashKey;

/// What has been settled so far.
#[derive(Debug, Default)]
pub(super) struct Settlement {
    scout: Scout,
    settled: BTreeMap<(Kind, Vec<String>), Settled>,
}

/// The outcome for the operators that may own a kind.
#[derive(Debug)]
struct Settled {
    owner: Option<String>,
    is_certain: bool,
    /// When to look again, unless it is certain.
    due: Instant,
}

/// The owners of all kinds that have one.
pub(super) type OwnedKinds = BTreeMap<Kind, Vec<Owner>>;

/// The time between two searches for signs.
const LOOK_EVERY: Duration = Duration::from_secs(300);

/// The same, for the first minutes of a contest: its operators may just have started.
const LOOK_SOON: Duration = Duration::from_secs(60);

impl Settlement {
    /// Settles who owns which kind.
    pub(super) async fn settle(
        &mut self,
        found: &Found,
        served: &ApiResources,
        cluster: &Cluster,
        key: &HashKey,
    ) -> OwnedKinds {
        let mut owned = OwnedKinds::new();
        let mut contests = Vec::new();
        for kind in served.kinds().filter(|kind| kind.watchable && !kind.is_built_in()) {
            let name = (kind.group.clone(), kind.resource.clone());
            let claims = found.claims.get(&name).map(Vec::as_slice).unwrap_or_default();

            // Who may write everything owns a kind only by its signs, and nobody's in the whole cluster.
            let is_open = !claims.iter().any(|claim| claim.reach == Reach::Everywhere);
            let unrestricted = if is_open { found.unrestricted.as_slice() } else { &[] };
            for group in overlapping(claims) {
                contests.push((kind, name.clone(), group, unrestricted));
            }
            if claims.is_empty() && !unrestricted.is_empty() {
                contests.push((kind, name, Vec::new(), unrestricted));
            }
        }

        let mut settled = BTreeMap::new();
        for (kind, name, claims, unrestricted) in contests {
            if let ([claim], []) = (&claims[..], unrestricted) {
                owned.entry(name).or_default().push(owner(claim, true));
                continue;
            }

            let operators = claims.iter().map(|claim| claim.operator.to_string());
            let others = unrestricted.iter().map(|it| it.name.to_string());
            let contest = (name.clone(), operators.chain(others).collect::<Vec<_>>());
            let known = self.settled.remove(&contest);
            let outcome = match known {
                Some(known) if known.is_certain || known.due > Instant::now() => known,
                known => {
                    let contenders = contenders(found, &claims, unrestricted, cluster);
                    let signs = self.scout.look(&contenders, key, kind).await;
                    let signs = signs.unwrap_or_else(|error| {
                        debug!(%error, kind = %kind, "cannot look who writes this kind");
                        vec![Sign::None; contenders.len()]
                    });
                    let soon = if known.is_some() { LOOK_EVERY } else { LOOK_SOON };
                    decide(&claims, unrestricted, &signs, soon)
                }
            };

            if let Some(winner) = &outcome.owner {
                let reach = claims.iter().find(|claim| claim.operator.to_string() == *winner);
                let reach = reach.map_or(Reach::Everywhere, |claim| claim.reach.clone());
                let is_certain = outcome.is_certain;
                let owner = Owner { operator: winner.clone(), reach, is_certain };
                owned.entry(name).or_default().push(owner);
            }
            settled.insert(contest, outcome);
        }

        self.settled = settled;
        self.scout.retain(|operator| {
            found
                .operators
                .iter()
                .chain(&found.unrestricted)
                .any(|it| it.name.to_string() == operator)
        });
        owned
    }
}

fn owner(claim: &Claim, is_certain: bool) -> Owner {
    Owner { operator: claim.operator.to_string(), reach: claim.reach.clone(), is_certain }
}

/// The claims in groups, such that no two claims of different groups overlap.
fn overlapping(claims: &[Claim]) -> Vec<Vec<Claim>> {
    let mut groups: Vec<Vec<Claim>> = Vec::new();
    for claim in claims {
        let overlaps =
            |group: &Vec<Claim>| group.iter().any(|other| other.reach.overlaps(&claim.reach));
        let (mut with, without): (Vec<_>, Vec<_>) = groups.into_iter().partition(overlaps);
        let mut merged: Vec<Claim> = with.drain(..).flatten().collect();
        merged.push(claim.clone());
        groups = without;
        groups.push(merged);
    }

    groups
}

/// The operators of a contest: those with a claim, and those that may write everything.
fn contenders(
    found: &Found,
    claims: &[Claim],
    unrestricted: &[FoundOperator],
    cluster: &Cluster,
) -> Vec<Contender> {
    let all = || found.operators.iter().chain(&found.unrestricted);
    let contender = |name: &OperatorName| {
        let account = all().find(|it| it.name == *name).map(|it| it.account.1.clone());
        let in_namespace = all().filter(|it| it.name.namespace == name.namespace);
        let siblings = in_namespace.filter(|it| it.name != *name).map(|it| it.name.name.clone());
        Contender {
            operator: name.to_string(),
            cluster: cluster.observing(name, Vec::new()),
            names: account.into_iter().chain([name.name.clone()]).collect(),
            siblings: siblings.collect(),
        }
    };

    let names = claims.iter().map(|claim| &claim.operator);
    names.chain(unrestricted.iter().map(|it| &it.name)).map(contender).collect()
}

/// Decides a contest. `signs` has those of all claims and then those of all who may write everything, who
/// take part only with a sign of their own.
fn decide(
    claims: &[Claim],
    unrestricted: &[FoundOperator],
    signs: &[Sign],
    again: Duration,
) -> Settled {
    let (of_claims, of_others) = signs.split_at(claims.len().min(signs.len()));
    let claimed = claims.iter().zip(of_claims).map(|(claim, sign)| {
        let is_wide = claim.reach == Reach::Everywhere;
        let rest = (claim.is_named, claim.strength);
        ((is_wide, *sign), rest, claim.operator.to_string())
    });
    let strongest = claims.iter().map(|claim| claim.strength).max();
    let others = unrestricted.iter().zip(of_others).filter(|(_, sign)| **sign == Sign::Own);
    let others = others.map(|(it, sign)| {
        let strength = strongest.unwrap_or(Strength::Finalizers);
        ((true, *sign), (false, strength), it.name.to_string())
    });

    let mut all: Vec<_> = claimed.chain(others).collect();
    all.sort_by_key(|(rank, rest, name)| {
        (Reverse(*rank), Reverse(*rest), name.len(), name.clone())
    });
    let second = all.get(1).map(|(rank, ..)| *rank);
    let first = all.first();

    Settled {
        owner: first.map(|(.., name)| name.clone()),
        is_certain: first.is_some_and(|(rank, ..)| second.is_none_or(|second| *rank > second)),
        due: Instant::now() + again,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(name: &str, reach: Reach) -> Claim {
        Claim {
            operator: OperatorName { namespace: "ops".to_owned(), name: name.to_owned() },
            reach,
            strength: Strength::Status,
            is_named: false,
        }
    }

    fn within(namespaces: &[&str]) -> Reach {
        Reach::In(namespaces.iter().map(|name| (*name).to_owned()).collect())
    }

    fn decided(claims: &[Claim], signs: &[Sign]) -> (String, bool) {
        let settled = decide(claims, &[], signs, LOOK_EVERY);
        (settled.owner.unwrap_or_default(), settled.is_certain)
    }

    #[test]
    fn the_clearest_sign_decides() {
        let all = ["ops/a", "ops/b", "ops/c"].map(|it| claim(&it[4..], Reach::Everywhere));
        for (signs, owner, is_certain) in [
            ([Sign::None, Sign::Own, Sign::None], "ops/b", true),
            ([Sign::Similar(4), Sign::None, Sign::Similar(9)], "ops/c", true),
            ([Sign::Similar(9), Sign::None, Sign::Own], "ops/c", true),
            ([Sign::Own, Sign::Own, Sign::None], "ops/a", false),
            ([Sign::None, Sign::None, Sign::None], "ops/a", false),
        ] {
            assert_eq!(decided(&all, &signs), (owner.to_owned(), is_certain), "{signs:?}");
        }
    }

    #[test]
    fn a_sign_does_not_make_up_for_a_claim_in_one_namespace() {
        let all = [claim("tenant", within(&["aaa"])), claim("guard", Reach::Everywhere)];
        assert_eq!(decided(&all, &[Sign::Own, Sign::None]), ("ops/guard".to_owned(), true));
    }

    #[test]
    fn who_names_the_resource_comes_before_who_names_the_group() {
        let named = Claim { is_named: true, ..claim("zoo", Reach::Everywhere) };
        let all = [claim("sloppy", Reach::Everywhere), named];
        assert_eq!(decided(&all, &[Sign::None, Sign::None]), ("ops/zoo".to_owned(), false));
    }

    #[test]
    fn claims_in_different_namespaces_are_no_contest() {
        let all = [
            claim("a", within(&["one"])),
            claim("b", within(&["two"])),
            claim("c", within(&["two", "three"])),
        ];
        let groups = overlapping(&all);
        assert_eq!(groups.iter().map(Vec::len).collect::<Vec<_>>(), [1, 2]);
    }
}
