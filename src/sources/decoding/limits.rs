//! Limits on what a view keeps.

/// Maximum number of entries of one object in each of its lists: conditions, facts, managers,
/// finalizers, owners, annotations and labels.
pub(super) const MAX_ITEMS: usize = 64;
/// Longest name, identifier or condition type, in bytes. The API server allows 253 for most.
pub(super) const MAX_NAME: usize = 256;
/// Longest reason or severity of a condition, in bytes.
pub(super) const MAX_REASON: usize = 128;
/// Longest message of a condition, in bytes.
pub(super) const MAX_MESSAGE: usize = 256;
/// Longest value of an annotation, in bytes.
pub(super) const MAX_MARK: usize = 256;
/// Longest text of a fact, in bytes.
pub(super) const MAX_FACT: usize = 128;
/// The decoder skips values at this depth and below: half of the JSON parser's own limit.
pub(super) const MAX_DEPTH: u8 = 64;
