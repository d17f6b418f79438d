//! Decides which values the recorded form leaves out.

/// Returns whether a value is the one that a reader assumes for an absent field.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
