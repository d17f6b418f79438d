//! Names with their API group.

/// Returns the name of a kind or a resource with its group, as kubectl reads it: `widgets.example.io`,
/// or `pods` for the core group.
#[must_use]
pub fn with_group(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}
