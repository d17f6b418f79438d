//! A permission of an account. Observations report permissions, and checkpoints remember them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A verb on a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct Permission {
    /// `list`, `watch` and so on, or `*` for all.
    pub verb: String,
    /// API group; empty for the core group, `*` for all.
    pub group: String,
    /// Plural resource name, followed by `/` and the subresource if there is one.
    pub resource: String,
}

impl Permission {
    /// Returns whether this permission includes another one, by the rules of RBAC.
    #[must_use]
    pub fn includes(&self, other: &Self) -> bool {
        let is_any = |mine: &str, asked: &str| mine == "*" || mine == asked;
        let any_parent = || {
            let subresource = other.resource.split_once('/').map(|(_, subresource)| subresource);
            subresource.is_some() && self.resource.strip_prefix("*/") == subresource
        };
        is_any(&self.verb, &other.verb)
            && is_any(&self.group, &other.group)
            && (is_any(&self.resource, &other.resource) || any_parent())
    }

    /// Returns whether it stands for all verbs, groups or resources.
    #[must_use]
    pub fn is_wildcard(&self) -> bool {
        self.verb == "*" || self.group == "*" || self.resource.contains('*')
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, group, resource } = self;
        let dot = if group.is_empty() { "" } else { "." };
        match resource.split_once('/') {
            Some((resource, subresource)) => {
                write!(f, "{verb} {resource}{dot}{group}/{subresource}")
            }
            None => write!(f, "{verb} {resource}{dot}{group}"),
        }
    }
}
