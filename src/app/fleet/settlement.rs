//! Who owns which kind, if several operators may write its status: the one that its objects show. One of
//! those that may write it in the whole cluster owns it there, and one of those that may do so only in a
//! namespace owns it in that one, so that no problem is found twice. Without a clear sign, the ownership
//! is not certain.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use tracing::debug;

use crate::sources::api_server::{
    ApiKind, ApiResources, CLUSTER_SERVICE_VERSIONS, Clarity, Cluster, Contender, Contested, Kind,
    OperatorName, Owner, Reach, Scout, Sign,
};
use crate::sources::census::{Claim, Found, FoundOperator, Strength};
use crate::sources::decoding::HashKey;

/// What has been settled so far.
#[derive(Debug, Default)]
pub(super) struct Settlement {
    scout: Scout,
    settled: BTreeMap<Place, Settled>,
}

/// A kind in a namespace, or in the whole cluster.
type Place = (Kind, Option<String>);

/// The claims to a kind in one place.
struct Contest<'a> {
    kind: &'a ApiKind,
    /// The kind of ClusterServiceVersions, if the API server serves it.
    versions: Option<&'a ApiKind>,
    /// The whole cluster, or one namespace.
    reach: Reach,
    claims: Vec<Claim>,
    /// Who may write everything.
    unrestricted: &'a [FoundOperator],
}

/// The outcome for the operators that may own a kind.
#[derive(Debug)]
struct Settled {
    /// Those with claims, and those that may write everything. For others, it does not count.
    claims: Vec<Claim>,
    unrestricted: Vec<OperatorName>,
    owner: Option<String>,
    is_certain: bool,
    /// When to look again.
    due: Instant,
}

/// The owners of all kinds that have one.
pub(super) type OwnedKinds = BTreeMap<Kind, Vec<Owner>>;

/// Limit on the claims in a contest: each takes a request for the leases of its operator. Anybody may make
/// claims in a namespace of their own.
const MAX_CLAIMS: usize = 16;

/// The time between two searches for signs.
const LOOK_EVERY: Duration = Duration::from_secs(300);

/// The same, if a sign was clear.
const LOOK_RARELY: Duration = Duration::from_secs(3_600);

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
        let mut settled = BTreeMap::new();
        for contest in contests(found, served) {
            let name = contest.kind.id();
            if let ([claim], []) = (&contest.claims[..], contest.unrestricted) {
                own(&mut owned, name, claim.operator.to_string(), &contest.reach, true);
                continue;
            }

            let place = (name.clone(), contest.namespace().map(str::to_owned));
            let known = self.settled.remove(&place).filter(|known| contest.is_of(known));
            let outcome = match known {
                Some(known) if known.due > Instant::now() => known,
                known => {
                    let soon = if known.is_some() { LOOK_EVERY } else { LOOK_SOON };
                    let outcome = self.decide(&contest, found, cluster, key, soon).await;
                    outcome.or_earlier(known)
                }
            };

            if let Some(winner) = &outcome.owner {
                own(&mut owned, name, winner.clone(), &contest.reach, outcome.is_certain);
            }
            settled.insert(place, outcome);
        }

        self.settled = settled;
        let all = || found.operators.iter().chain(&found.unrestricted);
        self.scout.retain(|operator| all().any(|it| it.name.to_string() == operator));
        owned
    }

    async fn decide(
        &mut self,
        contest: &Contest<'_>,
        found: &Found,
        cluster: &Cluster,
        key: &HashKey,
        soon: Duration,
    ) -> Settled {
        let Contest { kind, versions, claims, unrestricted, .. } = contest;
        let contenders = contenders(found, claims, unrestricted, cluster);
        let contested = Contested { kind, namespace: contest.namespace(), versions: *versions };
        let signs = self.scout.look(&contenders, key, contested).await;
        let signs = signs.unwrap_or_else(|error| {
            debug!(%error, kind = %kind, "cannot look who writes this kind");
            vec![Sign::default(); contenders.len()]
        });

        decide(claims, unrestricted, &signs, soon)
    }
}

impl Settled {
    /// The owner according to an earlier look, if that was certain and this one is not: a sample may fail, new
    /// objects of an operator that is down bear no sign of it, and somebody may have made the first objects
    /// of the list only for this.
    fn or_earlier(self, earlier: Option<Self>) -> Self {
        match earlier {
            Some(earlier) if earlier.is_certain && !self.is_certain => {
                Self { due: self.due, ..earlier }
            }
            _ => self,
        }
    }
}

impl Contest<'_> {
    /// The namespace of the contest; `None` for the whole cluster.
    fn namespace(&self) -> Option<&str> {
        self.reach.namespaces().next().map(String::as_str)
    }

    /// Whether an outcome is one of the same operators.
    fn is_of(&self, known: &Settled) -> bool {
        self.claims == known.claims
            && self.unrestricted.iter().map(|it| &it.name).eq(&known.unrestricted)
    }
}

/// Who may own which kind, and where: in the whole cluster, and in each namespace that claims name.
fn contests<'a>(found: &'a Found, served: &'a ApiResources) -> Vec<Contest<'a>> {
    let (group, resource) = CLUSTER_SERVICE_VERSIONS;
    let versions = served.get(group, resource);
    let mut contests = Vec::new();
    for kind in served.kinds().filter(|kind| kind.watchable && !kind.is_built_in()) {
        let claims = found.claims.get(&kind.id()).map(Vec::as_slice).unwrap_or_default();
        let (wide, narrow): (Vec<Claim>, Vec<Claim>) =
            claims.iter().cloned().partition(|claim| claim.reach == Reach::Everywhere);

        // Who may write everything owns a kind only by signs, and nobody's in the whole cluster.
        let unrestricted = if wide.is_empty() { found.unrestricted.as_slice() } else { &[] };
        if !wide.is_empty() || !unrestricted.is_empty() {
            let claims = strongest(wide);
            contests.push(Contest {
                kind,
                versions,
                reach: Reach::Everywhere,
                claims,
                unrestricted,
            });
        }
        for (namespace, claims) in by_namespace(narrow) {
            let (reach, claims) = (Reach::In([namespace].into()), strongest(claims));
            contests.push(Contest { kind, versions, claims, reach, unrestricted: &[] });
        }
    }

    contests
}

/// The claims that take part in a contest.
fn strongest(mut claims: Vec<Claim>) -> Vec<Claim> {
    claims.sort_by_key(|claim| Reverse((claim.strength, claim.is_named)));
    claims.truncate(MAX_CLAIMS);
    claims
}

/// The claims in each namespace.
fn by_namespace(claims: Vec<Claim>) -> BTreeMap<String, Vec<Claim>> {
    let mut by_namespace = BTreeMap::<String, Vec<Claim>>::new();
    for claim in claims {
        for namespace in claim.reach.namespaces() {
            by_namespace.entry(namespace.clone()).or_default().push(claim.clone());
        }
    }

    by_namespace
}

/// Adds what an operator owns to what it owns already.
fn own(owned: &mut OwnedKinds, kind: Kind, operator: String, reach: &Reach, is_certain: bool) {
    let owners = owned.entry(kind).or_default();
    let known = owners.iter_mut().find(|owner| owner.operator == operator);
    match (known, reach) {
        (Some(Owner { reach: Reach::In(known), is_certain: so_far, .. }), Reach::In(more)) => {
            known.extend(more.iter().cloned());
            *so_far &= is_certain;
        }
        _ => owners.push(Owner { operator, reach: reach.clone(), is_certain }),
    }
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
/// take part only with a sign of their own, or if a ClusterServiceVersion declares the kind to be theirs.
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
    let others =
        unrestricted.iter().zip(of_others).filter(|(_, sign)| sign.clarity >= Clarity::Declared);
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

    let is_certain = first.is_some_and(|(rank, ..)| second.is_none_or(|second| *rank > second));
    let wait = if is_certain { LOOK_RARELY } else { again };

    Settled {
        claims: claims.to_vec(),
        unrestricted: unrestricted.iter().map(|it| it.name.clone()).collect(),
        owner: first.map(|(.., name)| name.clone()),
        is_certain,
        due: Instant::now() + wait,
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
        let sign = |(namespaces, clarity)| Sign { namespaces, clarity };
        let (none, own, declared) = ((0, Clarity::None), (1, Clarity::Own), (0, Clarity::Declared));
        let similar = |namespaces, length| (namespaces, Clarity::Similar(length));
        for (signs, owner, is_certain) in [
            ([none, own, none], "ops/b", true),
            ([similar(1, 4), none, similar(1, 9)], "ops/c", true),
            ([similar(1, 9), none, own], "ops/c", true),
            ([similar(2, 4), none, own], "ops/a", true), // somebody may have forged that of one namespace
            ([none, declared, none], "ops/b", true),
            ([declared, own, none], "ops/b", true),
            ([own, own, none], "ops/a", false),
            ([none, none, none], "ops/a", false),
        ] {
            let signs = signs.map(sign);
            assert_eq!(decided(&all, &signs), (owner.to_owned(), is_certain), "{signs:?}");
        }
    }

    #[test]
    fn a_crowd_of_claims_leaves_the_strongest() {
        let weak = |number: usize| Claim {
            strength: Strength::Finalizers,
            ..claim(&format!("weak-{number}"), Reach::Everywhere)
        };
        let mut claims: Vec<Claim> = (0..100).map(weak).collect();
        claims.push(claim("strong", Reach::Everywhere));
        let strongest = strongest(claims);
        assert_eq!((strongest.len(), strongest[0].operator.name.as_str()), (MAX_CLAIMS, "strong"));
    }

    /// A sample may fail, or show new objects that a dead operator has not touched.
    #[test]
    fn an_owner_stays_while_nothing_shows_another() {
        let by = |clarity: Clarity| {
            decide(&[], &[admin()], &[Sign { namespaces: 1, clarity }], LOOK_SOON)
        };
        let known = by(Clarity::Own);
        assert_eq!((known.owner.as_deref(), known.is_certain), (Some("ops/admin"), true));

        let kept = by(Clarity::None).or_earlier(Some(known));
        assert_eq!((kept.owner.as_deref(), kept.is_certain), (Some("ops/admin"), true));
        assert!(kept.due <= Instant::now() + LOOK_SOON, "it looks again soon");
        assert_eq!(by(Clarity::None).or_earlier(None).owner, None);
        assert_eq!(by(Clarity::Similar(9)).owner, None);
        assert_eq!(by(Clarity::Declared).owner.as_deref(), Some("ops/admin"));
    }

    fn admin() -> FoundOperator {
        FoundOperator {
            name: OperatorName { namespace: "ops".to_owned(), name: "admin".to_owned() },
            account: ("ops".to_owned(), "admin".to_owned()),
            watched_namespaces: Vec::new(),
        }
    }

    #[test]
    fn who_names_the_resource_comes_before_who_names_the_group() {
        let named = Claim { is_named: true, ..claim("zoo", Reach::Everywhere) };
        let all = [claim("sloppy", Reach::Everywhere), named];
        assert_eq!(decided(&all, &[Sign::default(); 2]), ("ops/zoo".to_owned(), false));
    }

    #[test]
    fn each_namespace_has_a_contest_of_its_own() {
        let kind = ApiKind {
            group: "example.io".to_owned(),
            resource: "widgets".to_owned(),
            watchable: true,
            ..ApiKind::default()
        };
        let claims = vec![
            claim("guard", Reach::Everywhere),
            claim("a", within(&["one", "both"])),
            claim("b", within(&["both"])),
        ];
        let name = kind.id();
        let found = Found { claims: [(name.clone(), claims)].into(), ..Found::default() };
        let served: ApiResources = [kind].into_iter().collect();

        let contests = contests(&found, &served);
        let places: Vec<_> = contests.iter().map(|it| (it.namespace(), it.claims.len())).collect();
        assert_eq!(places, [(None, 1), (Some("both"), 2), (Some("one"), 1)]);

        let mut owned = OwnedKinds::new();
        for (namespace, is_certain) in [("one", true), ("both", false)] {
            own(&mut owned, name.clone(), "ops/a".to_owned(), &within(&[namespace]), is_certain);
        }
        let [owner] = &owned[&name][..] else { panic!("{owned:?}") };
        assert_eq!((&owner.reach, owner.is_certain), (&within(&["both", "one"]), false));
    }
}
