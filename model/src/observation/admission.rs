//! Webhooks as their configurations and definitions register them, and the endpoints of their Services.

use serde::{Deserialize, Serialize};

use super::omission::is_default;
use crate::time::{Span, Timestamp};

/// The kind of configuration that registers a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WebhookKind {
    /// A `ValidatingWebhookConfiguration`.
    Validating,
    /// A `MutatingWebhookConfiguration`.
    Mutating,
}

/// A webhook with a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WebhookView {
    /// The configuration that registers it.
    pub configuration: String,
    /// Its name, unique within the configuration.
    pub name: String,
    /// Its Service, as `namespace/name`.
    pub service: String,
    /// The path that the API server calls.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// How the API server verifies its certificate.
    pub ca: CaBundle,
    /// Whether the API server refuses a write if the call fails.
    #[serde(skip_serializing_if = "is_default")]
    pub fails_closed: bool,
    /// How long the API server waits for an answer.
    pub timeout: Span,
    /// The writes that it covers, at most [`MAX_RULES`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<WebhookRule>,
    /// The namespaces that it covers.
    #[serde(skip_serializing_if = "is_default")]
    pub namespaces: CoveredNamespaces,
    /// Whether it covers only some objects: it has an object selector or match conditions.
    #[serde(skip_serializing_if = "is_default")]
    pub some_objects: bool,
}

/// A rule of a webhook. `*` stands for all groups or all resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WebhookRule {
    /// API groups; empty for the core group.
    pub groups: Vec<String>,
    /// Resources without their subresources.
    pub resources: Vec<String>,
    /// Whether the rule covers creations.
    #[serde(skip_serializing_if = "is_default")]
    pub creations: bool,
    /// Whether the rule covers only objects without a namespace.
    #[serde(skip_serializing_if = "is_default")]
    pub cluster_scoped: bool,
}

/// The authorities whose certificates the API server accepts from a webhook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaBundle {
    /// The configuration names none.
    #[default]
    Absent,
    /// It holds no certificate that can be read.
    Unreadable,
    /// The validity of the certificate that expires last.
    Valid {
        /// `notBefore`.
        from: Timestamp,
        /// `notAfter`.
        until: Timestamp,
    },
}

/// A conversion webhook with a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConversionView {
    /// Its Service, as `namespace/name`.
    pub service: String,
    /// How the API server verifies its certificate.
    pub ca: CaBundle,
}

/// The namespaces that a webhook covers, as far as the namespaces' names tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoveredNamespaces {
    /// All namespaces.
    #[default]
    All,
    /// Only these.
    Only(Vec<String>),
    /// All but these.
    Except(Vec<String>),
    /// Labels decide that loopwatch does not read.
    Unknown,
}

/// The endpoints of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EndpointsView {
    /// The Service, as `namespace/name`.
    pub service: String,
    /// The number of endpoints that are ready.
    pub ready: u32,
    /// Whether the Service does not exist.
    #[serde(skip_serializing_if = "is_default")]
    pub absent: bool,
}

/// The maximum number of webhooks of one kind that the model keeps.
pub const MAX_WEBHOOKS: usize = 2_000;

/// The maximum number of rules of a webhook, and of groups and resources of a rule.
pub const MAX_RULES: usize = 64;

/// The timeout of a webhook that names none.
const DEFAULT_TIMEOUT: Span = Span::secs(10);

impl WebhookKind {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::Validating, Self::Mutating];

    /// Returns the plural name of the resource.
    #[must_use]
    pub const fn resource(self) -> &'static str {
        match self {
            Self::Validating => "validatingwebhookconfigurations",
            Self::Mutating => "mutatingwebhookconfigurations",
        }
    }
}

impl WebhookRule {
    /// Returns whether the rule covers a resource of a group.
    #[must_use]
    pub fn covers(&self, group: &str, resource: &str) -> bool {
        let has = |names: &[String], name: &str| names.iter().any(|it| it == "*" || it == name);
        has(&self.groups, group) && has(&self.resources, resource)
    }

    /// Returns whether the rule covers Pods.
    #[must_use]
    pub fn covers_pods(&self) -> bool {
        !self.cluster_scoped && self.covers("", "pods")
    }
}

impl WebhookView {
    /// Returns how long the API server waits for an answer, also if the configuration does not say so.
    #[must_use]
    pub fn timeout_or_default(&self) -> Span {
        if self.timeout > Span::ZERO { self.timeout } else { DEFAULT_TIMEOUT }
    }

    /// Returns whether it covers a resource of a group.
    #[must_use]
    pub fn covers(&self, group: &str, resource: &str) -> bool {
        self.rules.iter().any(|rule| rule.covers(group, resource))
    }
}

impl CoveredNamespaces {
    /// Returns whether a namespace is certainly covered.
    #[must_use]
    pub fn contains(&self, namespace: &str) -> bool {
        let is_named = |names: &[String]| names.iter().any(|name| name == namespace);
        match self {
            Self::All => true,
            Self::Only(names) => is_named(names),
            Self::Except(names) => !is_named(names),
            Self::Unknown => false,
        }
    }
}
