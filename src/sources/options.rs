//! What to watch, as the user asks for it.

use std::fmt;
use std::str::FromStr;

use super::decode::HashKey;

/// What the sources are to do. The defaults are those of a sidecar without any flag.
#[derive(Clone, Debug)]
pub struct SourceOptions {
    /// Kinds that are named; the only primary ones when there are any.
    pub watch: Vec<KindSelector>,
    /// Namespaces to look at; empty for all that the rights allow.
    pub namespaces: Vec<String>,
    /// How kinds are found when none is named.
    pub select: Selection,
    /// Connections that may be open for watches at once.
    pub max_watches: usize,
    /// The key of the fingerprints.
    pub hash_key: HashKey,
    /// Which leases to follow.
    pub lease: LeaseSelection,
    /// Stop each watch after its first list.
    pub once: bool,
}

/// How kinds are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Selection {
    /// By the rights of the account: those of the operator whose account it is.
    #[default]
    OperatorRights,
    /// Every custom resource that has a status, for an administrator.
    EveryKindWithStatus,
}

/// Which leader election leases are the operator's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LeaseSelection {
    /// None.
    Off,
    /// Those in our own namespace.
    #[default]
    OwnNamespace,
}

/// A kind as the user names it: `example.io/Widget`, `widgets.example.io`, `Pod`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KindSelector {
    /// API group; empty for the core group.
    pub group: String,
    /// Kind or plural resource name, compared without regard to case.
    pub name: String,
}

/// A text that does not name a kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} does not name a kind; write GROUP/KIND, for example example.io/Widget, or KIND alone for the core group"
)]
pub struct NotAKind(String);

// === impl SourceOptions ===

impl SourceOptions {
    /// The options of a sidecar without any flag.
    #[must_use]
    pub fn new(hash_key: HashKey) -> Self {
        Self {
            watch: Vec::new(),
            namespaces: Vec::new(),
            select: Selection::default(),
            max_watches: 64,
            hash_key,
            lease: LeaseSelection::default(),
            once: false,
        }
    }
}

// === impl KindSelector ===

impl KindSelector {
    /// Whether this names the kind.
    #[must_use]
    pub fn names(&self, group: &str, kind: &str, resource: &str) -> bool {
        self.group == group && (self.name.eq_ignore_ascii_case(kind) || self.name.eq_ignore_ascii_case(resource))
    }
}

impl FromStr for KindSelector {
    type Err = NotAKind;

    fn from_str(text: &str) -> Result<Self, NotAKind> {
        let parts: Vec<&str> = text.trim().split('/').collect();
        let (group, name) = match parts[..] {
            // `widgets.example.io`, as kubectl writes it, cannot be a kind: those have no dots.
            [name] => name.split_once('.').map_or(("", name), |(resource, group)| (group, resource)),
            [group, name] => (group, name),
            // `example.io/v1/Widget`, as in an apiVersion: which version is read is the API server's choice.
            [group, _, name] => (group, name),
            _ => return Err(NotAKind(text.to_owned())),
        };
        let is_word = |word: &str| word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '.');
        // `apps/v1` is a group and a version: the kind was forgotten.
        let is_version = name.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        if name.is_empty() || !is_word(name) || !is_word(group) || (is_version && parts.len() == 2) {
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
