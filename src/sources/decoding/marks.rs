//! The annotations and labels that the view keeps.
//!
//! The view knows most of them by the last part of their name, because every operator has its own
//! prefix. It drops all other values, which may be large or secret.

use super::lint::Lint;
use super::switches::SwitchSource;

/// Annotations or labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marks {
    Annotations,
    Labels,
}

/// Names of annotations that the view keeps with any prefix. The words are separated by `-` here,
/// and also match `_` and CamelCase.
const ANNOTATIONS: [&str; 11] = [
    // owners outside of owner references
    "owner",
    "owner-kind",
    "owner-gvk",
    "owner-name",
    "owner-namespace",
    "owner-ns",
    "owner-uid",
    // soft deletion
    "deleted-at",
    // traces
    "traceparent",
    // requests to reconcile or restart
    "requested-at",
    "restarted-at",
];

/// Labels that name an object's owner outside of owner references. The view keeps them with any
/// prefix.
pub(crate) const OWNERSHIP: [&str; 17] = [
    "owner",
    "owner-kind",
    "owner-name",
    "owner-namespace",
    "owner-ns",
    "owner-uid",
    "owned-by",
    "managed-by",
    "created-by",
    "part-of",
    "instance",
    "instance-name",
    "cluster",
    "cluster-name",
    "composite",
    "claim-name",
    "claim-namespace",
];

/// Names of labels with revisions, which the view also keeps with any prefix.
const REVISIONS: [&str; 3] = ["controller-uid", "controller-revision-hash", "pod-template-hash"];

impl Marks {
    /// Whether the view keeps the value under this key.
    pub(super) fn keeps(self, key: &str) -> bool {
        let (prefix, name) = key.rsplit_once('/').unwrap_or(("", key));
        let names: [&[&str]; 2] = match self {
            Self::Annotations => [&ANNOTATIONS, &[]],
            Self::Labels => [&OWNERSHIP, &REVISIONS],
        };

        self.keeps_with_prefix(prefix, name)
            || names.into_iter().flatten().any(|known| same_words(name, known))
    }

    /// Whether the name means an owner, a trace or a switch only with this prefix.
    fn keeps_with_prefix(self, prefix: &str, name: &str) -> bool {
        match (self, prefix) {
            (Self::Annotations, "loopwatch.dev" | "soft-delete") => true,
            (Self::Annotations, "operator-sdk") => {
                matches!(name, "primary-resource" | "primary-resource-type")
            }
            (Self::Annotations, "meta.helm.sh") => {
                matches!(name, "release-name" | "release-namespace")
            }
            (Self::Annotations, "argocd.argoproj.io") => name == "tracking-id",
            (Self::Annotations, "config.k8s.io") => name == "owning-inventory",
            (Self::Annotations, "deployment.kubernetes.io") => name == "revision",
            (Self::Annotations, "tekton.dev") => name.ends_with("SpanContext"),
            (Self::Labels, "app.kubernetes.io") => matches!(name, "name" | "component"),
            (Self::Labels, "kustomize.toolkit.fluxcd.io" | "helm.toolkit.fluxcd.io") => {
                matches!(name, "name" | "namespace")
            }
            (Self::Labels, "") => {
                matches!(name, "olm.owner" | "olm.owner.kind" | "olm.owner.namespace")
            }
            _ => false,
        }
    }

    /// The lint for a value of the wrong type.
    pub(super) const fn lint(self) -> Lint {
        match self {
            Self::Annotations => Lint::Annotations,
            Self::Labels => Lint::Labels,
        }
    }

    /// Where a switch among these marks was found.
    pub(super) const fn switch_source(self) -> SwitchSource {
        match self {
            Self::Annotations => SwitchSource::Annotation,
            Self::Labels => SwitchSource::Label,
        }
    }
}

/// Whether a name consists of the words of `known`, which are in lower case and separated by `-`.
/// Does not allocate.
pub(crate) fn same_words(name: &str, known: &str) -> bool {
    let (mut rest, mut last_lower) = (name.bytes().peekable(), false);
    for expected in known.bytes() {
        let next = rest.peek().copied();
        let matches = match (expected, next) {
            (b'-', Some(b'-' | b'_')) => true,
            // A boundary in CamelCase takes no byte.
            (b'-', Some(byte)) if last_lower && byte.is_ascii_uppercase() => continue,
            (_, Some(byte)) => byte.eq_ignore_ascii_case(&expected),
            (_, None) => false,
        };

        if !matches {
            return false;
        }

        last_lower = next.is_some_and(|byte| byte.is_ascii_lowercase());
        rest.next();
    }

    rest.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_kept_by_name() {
        for key in [
            "loopwatch.dev/ignore",
            "loopwatch.dev/deadline",
            "owner-ns",
            "example.org/owner_name",
            "example.org/ownerKind",
            "objectset.rio.cattle.io/owner-gvk",
            "operator-sdk/primary-resource",
            "soft-delete/phase",
            "deleted_at",
            "tracing.k8s.io/traceparent",
            "tekton.dev/pipelinerunSpanContext",
            "reconcile.fluxcd.io/requestedAt",
        ] {
            assert!(Marks::Annotations.keeps(key), "{key}");
        }

        for key in [
            "kubectl.kubernetes.io/last-applied-configuration",
            "example.org/owner-team-mail",
            "example.org/password",
            "primary-resource",
            "ownership",
            "checksum/config",
        ] {
            assert!(!Marks::Annotations.keeps(key), "{key}");
        }

        for key in [
            "app.kubernetes.io/instance",
            "app.kubernetes.io/managed-by",
            "strimzi.io/cluster",
            "cluster.x-k8s.io/cluster-name",
            "crossplane.io/claim-namespace",
            "kustomize.toolkit.fluxcd.io/name",
            "olm.owner",
            "pod-template-hash",
        ] {
            assert!(Marks::Labels.keeps(key), "{key}");
        }

        for key in
            ["name", "team", "example.org/name", "app.kubernetes.io/version", "helm.sh/chart"]
        {
            assert!(!Marks::Labels.keeps(key), "{key}");
        }
    }
}
