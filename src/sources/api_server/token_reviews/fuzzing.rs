//! The reviews of clients, for the fuzz targets.

use super::{is_allowed, user};

/// Reads a review of a token: the name of its user, if it is valid.
#[must_use]
pub fn token_review(document: &[u8]) -> Option<Option<String>> {
    let review = serde_json::from_slice(document).ok()?;
    Some(user(review).map(|user| user.username.unwrap_or_default()))
}

/// Reads a review of the access of a user.
#[must_use]
pub fn subject_review(document: &[u8]) -> Option<bool> {
    serde_json::from_slice(document).ok().map(is_allowed)
}
