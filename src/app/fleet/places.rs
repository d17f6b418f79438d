//! Which operators have a place. Each needs a model of its own, and anybody who may create workloads could
//! fill all places: those that own kinds in the whole cluster come first, and those of one namespace get
//! only some.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::settlement::OwnedKinds;
use crate::sources::api_server::{Kind, OperatorName, Owner, Reach};
use crate::sources::census::{Found, FoundOperator, NotJudged};

/// An operator with a place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Judged {
    pub(super) operator: FoundOperator,
    pub(super) owned: Vec<(Kind, Owner)>,
    /// Whether the census no longer shows it.
    pub(super) is_gone: bool,
}

/// Limit on those of one namespace that own kinds only in single namespaces.
const MAX_PER_NAMESPACE: usize = 10;

impl Judged {
    /// The namespaces in which permissions matter.
    pub(super) fn namespaces(&self) -> BTreeSet<String> {
        let FoundOperator { name, watched_namespaces, .. } = &self.operator;
        let owned = self.owned.iter().flat_map(|(_, owner)| owner.reach.namespaces());
        [&name.namespace].into_iter().chain(watched_namespaces).chain(owned).cloned().collect()
    }

    /// Whether it owns a kind in the whole cluster.
    pub(super) fn is_wide(&self) -> bool {
        self.owned.iter().any(|(_, owner)| owner.reach == Reach::Everywhere)
    }
}

/// Chooses among the operators that own kinds, and those that are `kept` although they are gone. `most` limits
/// all of them, and those that own kinds only in single namespaces.
/// Returns them, and the number of those without a place; notes why loopwatch does not judge the others.
pub(super) fn choose(
    found: &mut Found,
    kept: Vec<Judged>,
    owned: &OwnedKinds,
    known: &BTreeSet<OperatorName>,
    most: (usize, usize),
) -> (Vec<Judged>, usize) {
    let mut judged = kept;
    let mut by_operator = by_operator(owned);
    for (all, why) in [
        (std::mem::take(&mut found.operators), NotJudged::Overruled),
        (std::mem::take(&mut found.unrestricted), NotJudged::MayWriteAll),
    ] {
        for operator in all {
            match by_operator.remove(&operator.name.to_string()) {
                None => found.skip(operator.name, why),
                Some(owned) => judged.push(Judged { operator, owned, is_gone: false }),
            }
        }
    }

    judged.sort_by_key(|it| {
        let name = &it.operator.name;
        (Reverse(it.is_wide()), Reverse(known.contains(name)), name.clone())
    });
    let mut by_namespace: BTreeMap<String, usize> = BTreeMap::new();
    let (mut places, mut narrow) = (0, 0);
    let (with, without): (Vec<_>, Vec<_>) = judged.into_iter().partition(|it| {
        let in_namespace = by_namespace.entry(it.operator.name.namespace.clone()).or_default();
        let is_within = narrow < most.1 && *in_namespace < MAX_PER_NAMESPACE;
        let has_place = places < most.0 && (it.is_wide() || is_within);
        let is_narrow = has_place && !it.is_wide();
        places += usize::from(has_place);
        narrow += usize::from(is_narrow);
        *in_namespace += usize::from(is_narrow);
        has_place
    });

    let number = without.len();
    without.into_iter().for_each(|it| found.skip(it.operator.name, NotJudged::TooMany));
    (with, number)
}

/// The kinds that each operator owns.
fn by_operator(owned: &OwnedKinds) -> BTreeMap<String, Vec<(Kind, Owner)>> {
    let mut by_operator = BTreeMap::<String, Vec<(Kind, Owner)>>::new();
    for (kind, owners) in owned {
        for owner in owners {
            let of = by_operator.entry(owner.operator.clone()).or_default();
            of.push((kind.clone(), owner.clone()));
        }
    }

    by_operator
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(operators: &[(&str, &str)]) -> Found {
        let operator = |(namespace, name): &(&str, &str)| FoundOperator {
            name: OperatorName { namespace: (*namespace).to_owned(), name: (*name).to_owned() },
            account: ((*namespace).to_owned(), (*name).to_owned()),
            watched_namespaces: Vec::new(),
        };
        Found { operators: operators.iter().map(operator).collect(), ..Found::default() }
    }

    fn owns(owned: &mut OwnedKinds, operator: &str, reach: Reach) {
        let kind = ("example.io".to_owned(), operator.to_owned());
        let owner = Owner { operator: operator.to_owned(), reach, is_certain: true };
        owned.entry(kind).or_default().push(owner);
    }

    fn names(judged: &[Judged]) -> Vec<String> {
        judged.iter().map(|it| it.operator.name.to_string()).collect()
    }

    #[test]
    fn a_namespace_full_of_operators_leaves_places_for_others() {
        let many: Vec<String> = (0..250).map(|number| format!("op-{number:03}")).collect();
        let mut all: Vec<(&str, &str)> = many.iter().map(|name| ("aaa", name.as_str())).collect();
        all.extend([("zzz", "cluster-wide"), ("zzz", "own")]);
        let mut owned = OwnedKinds::new();
        for (namespace, name) in &all {
            let reach = match *name {
                "cluster-wide" => Reach::Everywhere,
                _ => Reach::In([(*namespace).to_owned()].into()),
            };
            owns(&mut owned, &format!("{namespace}/{name}"), reach);
        }

        let mut found = found(&all);
        let (judged, without) = choose(&mut found, Vec::new(), &owned, &BTreeSet::new(), (200, 50));
        let names = names(&judged);
        assert_eq!((names.len(), without), (12, 240));
        assert_eq!(names[0], "zzz/cluster-wide");
        assert!(names.contains(&"zzz/own".to_owned()));
        assert_eq!(found.skipped.len(), 240);
        assert!(found.skipped.iter().all(|it| it.why == NotJudged::TooMany));
    }

    #[test]
    fn who_owns_nothing_has_no_place() {
        let mut found = found(&[("ops", "op"), ("ops", "loser")]);
        let mut owned = OwnedKinds::new();
        owns(&mut owned, "ops/op", Reach::Everywhere);

        let (judged, without) = choose(&mut found, Vec::new(), &owned, &BTreeSet::new(), (200, 50));
        assert_eq!((names(&judged), without), (vec!["ops/op".to_owned()], 0));
        assert_eq!(found.skipped[0].why, NotJudged::Overruled);
    }
}
