//! The subjects of findings.

use std::fmt;

/// The subject of a finding. The order of the variants is the order of listings.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// One object.
    Object {
        /// API group.
        group: String,
        /// Kind.
        kind: String,
        /// Empty for cluster-scoped objects.
        namespace: String,
        /// Name.
        name: String,
    },
    /// All objects of a kind.
    Kind {
        /// API group.
        group: String,
        /// Kind.
        kind: String,
    },
    /// A custom resource definition.
    Definition {
        /// Its name: `plural.group`.
        name: String,
    },
    /// The operator, with all of its instances.
    Operator {
        /// Its namespace.
        namespace: String,
        /// The name of its workload.
        name: String,
    },
    /// A controller of the operator.
    Controller {
        /// Its name.
        name: String,
    },
    /// A source of observations.
    Source {
        /// Its name: the value of the `source` label.
        name: String,
    },
    /// A permission of the account.
    Permission {
        /// The namespace; empty for the whole cluster.
        namespace: String,
        /// The permission, as `verb resource.group`.
        permission: String,
    },
    /// An admission webhook.
    Webhook {
        /// Its name, which several configurations may share.
        name: String,
    },
    /// An admission policy.
    Policy {
        /// Whether it is a `MutatingAdmissionPolicy`, not a `ValidatingAdmissionPolicy`.
        mutating: bool,
        /// Its name.
        name: String,
    },
    /// A configured limit.
    Limit {
        /// Its name: the value of the `limit` label.
        name: String,
    },
}

/// The API groups and kinds of the subjects that are no objects of the operator: they have no page of their
/// own, and no labels of an object.
pub const NO_OBJECTS: [(&str, &str); 10] = [
    ("", "Operator"),
    ("", "Controller"),
    ("", "Source"),
    ("", "Permission"),
    ("", "Limit"),
    ("", "Namespace"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("admissionregistration.k8s.io", "Webhook"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"),
];

impl Subject {
    /// The namespace of the subject, empty when it has none.
    #[must_use]
    pub fn namespace(&self) -> &str {
        match self {
            Self::Object { namespace, .. }
            | Self::Operator { namespace, .. }
            | Self::Permission { namespace, .. } => namespace,
            Self::Kind { .. }
            | Self::Definition { .. }
            | Self::Controller { .. }
            | Self::Source { .. }
            | Self::Webhook { .. }
            | Self::Policy { .. }
            | Self::Limit { .. } => "",
        }
    }

    /// The API group, empty when it has none.
    #[must_use]
    pub fn group(&self) -> &str {
        match self {
            Self::Object { group, .. } | Self::Kind { group, .. } => group,
            Self::Definition { .. } => "apiextensions.k8s.io",
            Self::Webhook { .. } | Self::Policy { .. } => "admissionregistration.k8s.io",
            Self::Operator { .. }
            | Self::Controller { .. }
            | Self::Source { .. }
            | Self::Permission { .. }
            | Self::Limit { .. } => "",
        }
    }

    /// The kind of the subject.
    #[must_use]
    pub fn kind(&self) -> &str {
        match self {
            Self::Object { kind, .. } | Self::Kind { kind, .. } => kind,
            Self::Definition { .. } => "CustomResourceDefinition",
            Self::Operator { .. } => "Operator",
            Self::Controller { .. } => "Controller",
            Self::Source { .. } => "Source",
            Self::Permission { .. } => "Permission",
            Self::Webhook { .. } => "Webhook",
            Self::Policy { mutating: true, .. } => "MutatingAdmissionPolicy",
            Self::Policy { mutating: false, .. } => "ValidatingAdmissionPolicy",
            Self::Limit { .. } => "Limit",
        }
    }

    /// Its name; empty for a whole kind.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Object { name, .. }
            | Self::Definition { name }
            | Self::Operator { name, .. }
            | Self::Controller { name }
            | Self::Source { name }
            | Self::Webhook { name }
            | Self::Policy { name, .. }
            | Self::Limit { name }
            | Self::Permission { permission: name, .. } => name,
            Self::Kind { .. } => "",
        }
    }

    /// Returns the subject that stands for all objects of this object's kind; `None` unless this
    /// subject is an object.
    #[must_use]
    pub fn whole_kind(&self) -> Option<Self> {
        match self {
            Self::Object { group, kind, .. } => {
                Some(Self::Kind { group: group.clone(), kind: kind.clone() })
            }
            _ => None,
        }
    }

    pub(super) fn parts(&self) -> [&str; 4] {
        [self.group(), self.kind(), self.namespace(), self.name()]
    }
}

impl fmt::Display for Subject {
    /// `Widget team-a/web`, `Widget (all)`, `source watch/widgets.example.io`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object { kind, namespace, name, .. } if namespace.is_empty() => {
                write!(f, "{kind} {name}")
            }
            Self::Object { kind, namespace, name, .. } => write!(f, "{kind} {namespace}/{name}"),
            Self::Kind { kind, .. } => write!(f, "{kind} (all)"),
            Self::Definition { name } => write!(f, "definition {name}"),
            Self::Operator { namespace, name } if namespace.is_empty() => {
                write!(f, "operator {name}")
            }
            Self::Operator { namespace, name } => write!(f, "operator {namespace}/{name}"),
            Self::Controller { name } => write!(f, "controller {name}"),
            Self::Source { name } => write!(f, "source {name}"),
            Self::Permission { namespace, permission } if namespace.is_empty() => {
                write!(f, "permission to {permission}")
            }
            Self::Permission { namespace, permission } => {
                write!(f, "permission to {permission} in {namespace}")
            }
            Self::Webhook { name } => write!(f, "webhook {name}"),
            Self::Policy { name, .. } => write!(f, "admission policy {name}"),
            Self::Limit { name } => write!(f, "limit {name}"),
        }
    }
}
