//! The reviews of permissions, for the fuzz targets.

use loopwatch_model::observation::Permission;

use super::{Rules, access};

/// The rules in a review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesView {
    pub listed: Vec<Permission>,
    pub named: Vec<Permission>,
    pub excess: Vec<Permission>,
    pub incomplete: bool,
    /// The permissions in `named` that the rules do not allow.
    pub denied: Vec<Permission>,
}

/// Reads a review of the account's rules; `None` if it has none.
#[must_use]
pub fn rules_review(document: &[u8]) -> Option<RulesView> {
    let rules = Rules::of(serde_json::from_slice(document).ok()?).ok()?;
    let named: Vec<Permission> = rules.named().collect();
    let is_denied = |permission: &&Permission| {
        !rules.allow(&permission.verb, &permission.group, &permission.resource)
    };

    Some(RulesView {
        listed: rules.listed(),
        denied: named.iter().filter(is_denied).cloned().collect(),
        excess: rules.excess(),
        incomplete: rules.incomplete,
        named,
    })
}

/// Reads an access review; `None` if it has no answer.
#[must_use]
pub fn access_review(document: &[u8]) -> Option<bool> {
    access(serde_json::from_slice(document).ok()?).ok()
}
