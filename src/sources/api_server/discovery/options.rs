//! Options of discovery: what to watch.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use loopwatch_model::observation::Permission;

use super::observed::Observed;
use crate::sources::api_server::wanted_namespaces::WantedNamespaces;
use crate::sources::decoding::HashKey;

/// Default limit on open watch connections.
pub(crate) const DEFAULT_MAX_WATCHES: usize = 64;

/// What to watch. The defaults are those of a sidecar without any flag.
#[derive(Clone, Debug)]
pub(crate) struct DiscoveryOptions {
    /// The primary kinds. If empty, `select` decides.
    pub watch: Vec<KindSelector>,
    /// The namespaces to watch. If empty, all namespaces that the permissions allow.
    pub namespaces: Vec<String>,
    /// The namespaces not to watch.
    pub exclude_namespaces: Vec<String>,
    /// How to select kinds if `watch` is empty.
    pub select: Selection,
    /// Limit on concurrent watches.
    pub max_watches: usize,
    /// Which child kinds to watch.
    pub children: ChildSelection,
    /// Whether to read Secrets.
    pub secrets: SecretAccess,
    /// The key of the fingerprints.
    pub hash_key: HashKey,
    /// Whether to stop each watch after its first list.
    pub once: bool,
    /// The permissions that an earlier process knew, by namespace.
    pub known_permissions: Arc<BTreeMap<String, Vec<Permission>>>,
    /// The operator, if it is one of many and loopwatch has an account of its own.
    pub observed: Option<Observed>,
}

/// How to select kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Selection {
    /// By the permissions of the operator's account.
    #[default]
    OperatorPermissions,
    /// Every custom resource with a status, for an administrator.
    EveryKindWithStatus,
}

/// Which child kinds to watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ChildSelection {
    /// Kinds whose samples show objects that belong to primary objects.
    #[default]
    Auto,
    None,
}

/// Whether to read Secrets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SecretAccess {
    /// The metadata of all, as a child kind.
    Metadata,
    /// Only the metadata of single ones that other objects name, to find out whether they exist.
    #[default]
    Named,
    /// Never, except as a kind that `--watch` names.
    Off,
}

impl SecretAccess {
    /// Whether loopwatch may list Secrets.
    pub(crate) fn may_list(self) -> bool {
        self == Self::Metadata
    }

    /// Whether it may read a single one.
    pub(crate) fn may_get(self) -> bool {
        self != Self::Off
    }
}

/// A kind in the user's notation: `example.io/Widget`, `widgets.example.io`, `Pod`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KindSelector {
    /// The API group; empty for the core group.
    pub group: String,
    /// The kind or plural resource name. Case does not matter.
    pub name: String,
}

/// The error for a text that does not name a kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} does not name a kind; use GROUP/KIND, for example example.io/Widget, or KIND alone for the core group"
)]
pub(crate) struct NotAKind(String);

impl DiscoveryOptions {
    /// The options of a sidecar without any flag.
    #[must_use]
    pub(crate) fn new(hash_key: HashKey) -> Self {
        Self {
            watch: Vec::new(),
            namespaces: Vec::new(),
            exclude_namespaces: Vec::new(),
            select: Selection::default(),
            max_watches: DEFAULT_MAX_WATCHES,
            children: ChildSelection::default(),
            secrets: SecretAccess::default(),
            hash_key,
            once: false,
            known_permissions: Arc::default(),
            observed: None,
        }
    }

    /// Which namespaces the user wants.
    pub(crate) fn wanted_namespaces(&self) -> WantedNamespaces {
        let (namespaces, excluded) = (self.namespaces.clone(), self.exclude_namespaces.clone());
        WantedNamespaces { namespaces, excluded }
    }
}

impl KindSelector {
    /// Whether this selector names the kind.
    #[must_use]
    pub(crate) fn names(&self, group: &str, kind: &str, resource: &str) -> bool {
        self.group == group
            && (self.name.eq_ignore_ascii_case(kind) || self.name.eq_ignore_ascii_case(resource))
    }
}

impl FromStr for KindSelector {
    type Err = NotAKind;

    fn from_str(text: &str) -> Result<Self, NotAKind> {
        let parts: Vec<&str> = text.trim().split('/').collect();
        let (group, name) = match parts[..] {
            // `widgets.example.io`, in the notation of kubectl, cannot be a kind: kinds have no
            // dots.
            [name] => {
                name.split_once('.').map_or(("", name), |(resource, group)| (group, resource))
            }
            [group, name] => (group, name),
            // `example.io/v1/Widget`, with the version of an apiVersion: loopwatch ignores the
            // version.
            [group, _, name] => (group, name),
            _ => return Err(NotAKind(text.to_owned())),
        };

        let is_word =
            |word: &str| word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '.');

        // `apps/v1` is a group and a version without a kind.
        let is_version = name
            .strip_prefix('v')
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        if name.is_empty() || !is_word(name) || !is_word(group) || (is_version && parts.len() == 2)
        {
            return Err(NotAKind(text.to_owned()));
        }

        let group = if group == "core" || group == "v1" { "" } else { group };
        Ok(Self { group: group.to_owned(), name: name.to_owned() })
    }
}

impl fmt::Display for KindSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, name } = self;
        let slash = if group.is_empty() { "" } else { "/" };
        write!(f, "{group}{slash}{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_named_as_people_write_them() {
        for (text, group, name) in [
            ("example.io/Widget", "example.io", "Widget"),
            ("example.io/v1/Widget", "example.io", "Widget"),
            ("widgets.example.io", "example.io", "widgets"),
            ("Pod", "", "Pod"),
            ("v1/Pod", "", "Pod"),
            ("core/Pod", "", "Pod"),
            ("apps/deployments", "apps", "deployments"),
        ] {
            let read: KindSelector = text.parse().unwrap_or_else(|e| panic!("{e}"));
            assert_eq!((read.group.as_str(), read.name.as_str()), (group, name), "{text}");
        }

        for text in ["", "/", "apps/", "apps/v1", "a/b/c/d", "apps/Deploy ment"] {
            assert!(text.parse::<KindSelector>().is_err(), "{text:?} was read");
        }
    }
}
