//! Finds the finalizers that an operator leaves behind.

use std::collections::BTreeMap;

use super::{Graph, NodeId, Operator};
use crate::model::world::controller_names::is_within;
use crate::model::world::finalizer_actors::built_in;

/// A finalizer that no controller will remove once the operator is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stranded {
    /// The finalizer.
    pub finalizer: String,
    /// How certain it is that the operator removes this finalizer.
    pub claim: Claim,
    /// The objects with this finalizer.
    pub nodes: Vec<NodeId>,
}

/// The relation of an operator to a finalizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Claim {
    /// The domain of the finalizer is that of the operator's kinds.
    Domain,
    /// The finalizer is on objects whose status the operator writes, but names another domain.
    Possible,
}

/// Domains that many projects share. A finalizer under one of them belongs to a group only if the
/// rest of the domain matches, too.
const SHARED: &[&str] = &["k8s.io", "x-k8s.io", "kubernetes.io", "github.com", "github.io"];

/// The relation of an operator to a finalizer of this object. `None` if another controller removes
/// it.
pub(super) fn claim(
    graph: &Graph,
    operator: &Operator,
    id: NodeId,
    finalizer: &str,
) -> Option<Claim> {
    if built_in(finalizer).is_some() {
        return None;
    }

    // Old finalizers have no domain, or one before a dot instead of a slash:
    // `finalizers.fluxcd.io`.
    let domain = finalizer.split_once('/').map_or(finalizer, |(domain, _)| domain);
    if operator.primaries.iter().any(|(group, _)| is_related(domain, group)) {
        return Some(Claim::Domain);
    }

    let node = graph.node(id);
    let primary =
        operator.primaries.iter().any(|(group, kind)| *group == node.group && *kind == node.kind);
    primary.then_some(Claim::Possible)
}

/// All finalizers that the operator leaves behind, the most certain first.
pub(super) fn stranded(graph: &Graph, operator: &Operator) -> Vec<Stranded> {
    let mut found: BTreeMap<(Claim, &str), Vec<NodeId>> = BTreeMap::new();
    for id in graph.ids() {
        for finalizer in graph.own_finalizers(id.0) {
            if let Some(claim) = claim(graph, operator, id, finalizer) {
                found.entry((claim, finalizer)).or_default().push(id);
            }
        }
    }

    let stranded = |((claim, finalizer), nodes): ((Claim, &str), _)| Stranded {
        finalizer: finalizer.to_owned(),
        claim,
        nodes,
    };

    found.into_iter().map(stranded).collect()
}

/// Whether a finalizer's domain and a group belong to one project: one contains the other, or both
/// share a registered domain, such as `finalizers.fluxcd.io` and `kustomize.toolkit.fluxcd.io`.
fn is_related(domain: &str, group: &str) -> bool {
    if group.is_empty() || SHARED.contains(&domain) || SHARED.contains(&group) {
        return domain == group && !group.is_empty();
    }

    let registered = |name: &str| {
        let dots: Vec<usize> =
            name.rmatch_indices('.').map(|(position, _)| position).take(2).collect();
        match dots[..] {
            [] => None,
            [_] => Some(name.to_owned()),
            [_, second, ..] => name.get(second + 1..).map(str::to_owned),
        }
    };

    let shares = registered(domain).is_some_and(|mine| {
        registered(group).as_ref() == Some(&mine) && !SHARED.contains(&mine.as_str())
    });
    shares || (domain.contains('.') && (is_within(domain, group) || is_within(group, domain)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finalizer_belongs_to_the_kinds_of_its_domain() {
        for (domain, group, related) in [
            ("zoo.loopwatch.dev", "zoo.loopwatch.dev", true),
            ("finalizers.fluxcd.io", "kustomize.toolkit.fluxcd.io", true),
            ("example.io", "db.example.io", true),
            ("cleanup", "example.io", false),
            ("io", "example.io", false),
            ("ample.io", "example.io", false),
            ("gateway.networking.k8s.io", "cluster.x-k8s.io", false),
            ("snapshot.storage.k8s.io", "policy.networking.k8s.io", false),
            ("machine.cluster.x-k8s.io", "cluster.x-k8s.io", true),
            ("k8s.io", "cluster.x-k8s.io", false),
            ("", "", false),
        ] {
            assert_eq!(is_related(domain, group), related, "{domain} {group}");
        }
    }
}
