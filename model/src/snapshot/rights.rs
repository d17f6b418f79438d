//! The permissions of the operator's account, compared with what loopwatch has seen the operator do.

use serde::Serialize;

use super::words::RightUse;
use crate::observation::Permission;
use crate::time::Timestamp;

/// The permissions of the account.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Rights {
    /// The oldest write that loopwatch knows; absent if it knows none.
    pub from: Option<Timestamp>,
    /// The time of the report.
    pub until: Timestamp,
    /// The field managers whose writes count as those of the operator.
    pub managers: Vec<String>,
    /// All permissions, by namespace.
    pub granted: Vec<Right>,
    /// The API server could not list all rules, so the account may have further permissions.
    pub is_incomplete: bool,
    /// The number of permissions beyond the limit of a review.
    pub left_out: u64,
}

/// One permission.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Right {
    /// Empty for the whole cluster.
    pub namespace: String,
    /// The permission.
    #[serde(flatten)]
    pub permission: Permission,
    /// Whether it is used.
    pub r#use: RightUse,
    /// The last use that loopwatch has seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<Timestamp>,
    /// For a permission with `*`, those that the operator has been seen to use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub seen: Vec<Permission>,
}
