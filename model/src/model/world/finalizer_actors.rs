//! The actors that remove finalizers, and the field managers that add and remove them.

use std::fmt;
use std::sync::Arc;

use crate::model::world::controller_names::{self, ControllerName};

/// The finalizer of a foreground deletion.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

/// The finalizer of a deletion that orphans the dependents.
pub(crate) const ORPHAN: &str = "orphan";

/// The finalizers of Kubernetes itself and the actors that remove them (kubernetes/api
/// `core/v1/types.go`, apimachinery `meta/v1/types.go`, kubernetes `pkg/volume/util/finalizer.go`,
/// cloud-provider `service/helpers/helper.go`).
const BUILT_IN: &[(&str, &str)] = &[
    (FOREGROUND, "garbage collector, once all blocking dependents are gone"),
    (ORPHAN, "garbage collector"),
    ("kubernetes", "namespace controller, once the namespace is empty"),
    (PVC_PROTECTION, "kube-controller-manager, once no Pod uses the claim"),
    (PV_PROTECTION, "kube-controller-manager, once no claim binds the volume"),
    (INSTANCES, "API server, once all instances are gone"),
    ("batch.kubernetes.io/job-tracking", "Job controller"),
    ("service.kubernetes.io/load-balancer-cleanup", "cloud service controller"),
    (DELETE_PROTECTION, "resource claim controller, once no Pod uses the claim"),
];

/// The finalizers of Kubernetes that stay while other objects use theirs.
const OF_USERS: &[&str] = &[PVC_PROTECTION, PV_PROTECTION, DELETE_PROTECTION];

const PVC_PROTECTION: &str = "kubernetes.io/pvc-protection";
const PV_PROTECTION: &str = "kubernetes.io/pv-protection";
const DELETE_PROTECTION: &str = "resource.kubernetes.io/delete-protection";
/// Of a definition.
const INSTANCES: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The actor that should remove a finalizer, and how that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Actor {
    /// A component of Kubernetes.
    BuiltIn(&'static str),
    /// This field manager has removed the finalizer from other objects.
    Remover(Arc<str>),
    /// The operator that serves this group, with its field manager if it is known.
    Operator { group: Arc<str>, manager: Option<Arc<str>> },
    /// This field manager has added the finalizer and behaves like a controller. The same generic
    /// name in another group means another program.
    Adder { manager: Arc<str>, group: Arc<str> },
    /// Nothing but the domain of the finalizer is known.
    Domain(Arc<str>),
    /// Nothing is known.
    Unknown,
}

/// The field managers that loopwatch has seen add and remove one finalizer of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FinalizerWriters {
    /// At most [`MAX_WRITERS`].
    pub(crate) added: Vec<Arc<str>>,
    /// With the number of removals; at most [`MAX_WRITERS`].
    pub(crate) removed: Vec<(Arc<str>, u32)>,
}

/// The maximum number of field managers that are remembered per finalizer, and per kind.
pub(crate) const MAX_WRITERS: usize = 8;

/// The number of removals after which a field manager counts as the actor of a finalizer.
const ENOUGH_REMOVALS: u32 = 2;

impl Actor {
    /// Returns how the actor is known, as a word.
    pub(crate) const fn known_by(&self) -> &'static str {
        match self {
            Self::BuiltIn(_) => "built_in",
            Self::Remover(_) => "removed_before",
            Self::Operator { .. } => "operator",
            Self::Adder { .. } => "added",
            Self::Domain(_) => "domain",
            Self::Unknown => "unknown",
        }
    }

    /// Returns the actor as a controller whose life can be watched, if it is one.
    pub(crate) fn controller(&self) -> Option<ControllerName<'_>> {
        Some(match self {
            Self::BuiltIn(_) | Self::Unknown => return None,
            Self::Remover(manager) => ControllerName { manager: Some(manager), domain: None },
            Self::Operator { group, manager } => {
                ControllerName { manager: manager.as_deref(), domain: Some(group) }
            }
            Self::Adder { manager, .. } => ControllerName { manager: Some(manager), domain: None },
            Self::Domain(domain) => ControllerName { manager: None, domain: Some(domain) },
        })
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn(actor) => f.write_str(actor),
            Self::Remover(manager) => {
                write!(f, "field manager {manager} (removed it from other objects)")
            }
            Self::Operator { group, manager: Some(manager) } => {
                write!(f, "field manager {manager} (operator of {group})")
            }
            Self::Operator { group, manager: None } => write!(f, "the operator of {group}"),
            Self::Adder { manager, group }
                if controller_names::is_generic(manager) && !group.is_empty() =>
            {
                write!(f, "field manager {manager} of {group} (added it)")
            }
            Self::Adder { manager, .. } => write!(f, "field manager {manager} (added it)"),
            Self::Domain(domain) => write!(f, "the controller of {domain}"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}

/// Returns the component of Kubernetes that removes a finalizer, if there is one.
pub(crate) fn built_in(finalizer: &str) -> Option<&'static str> {
    BUILT_IN.iter().find(|(name, _)| *name == finalizer).map(|(_, actor)| *actor)
}

/// Returns whether Kubernetes removes a finalizer only when no other object uses its object any more.
pub(crate) fn waits_for_users(finalizer: &str) -> bool {
    OF_USERS.contains(&finalizer)
}

/// Returns whether Kubernetes removes a finalizer from every object in deletion, whatever it contains and
/// whatever depends on it.
pub(crate) fn is_unrelated(finalizer: &str) -> bool {
    finalizer != INSTANCES && !is_of_garbage_collector(finalizer)
}

/// Returns whether the garbage collector removes a finalizer. Such a finalizer is not a fault: it
/// waits for other objects.
pub(crate) fn is_of_garbage_collector(finalizer: &str) -> bool {
    matches!(finalizer, FOREGROUND | ORPHAN)
}

impl FinalizerWriters {
    /// Returns the field manager that removes the finalizer.
    pub(crate) fn remover(&self) -> Option<&Arc<str>> {
        let total: u64 = self.removed.iter().map(|(_, count)| u64::from(*count)).sum();
        let most = self.removed.iter().max_by_key(|(_, count)| *count);
        most.filter(|(_, count)| *count >= ENOUGH_REMOVALS && u64::from(*count) * 2 > total)
            .map(|(name, _)| name)
    }

    pub(crate) fn note_removal(&mut self, manager: &str) {
        if let Some((_, count)) = self.removed.iter_mut().find(|(name, _)| **name == *manager) {
            *count = count.saturating_add(1);
        } else if self.removed.len() < MAX_WRITERS {
            self.removed.push((manager.into(), 1));
        }
    }

    pub(crate) fn note_adder(&mut self, manager: &str) {
        if self.added.len() < MAX_WRITERS && !self.added.iter().any(|name| **name == *manager) {
            self.added.push(manager.into());
        }
    }
}
