//! What is special about well-known kinds, as data: the only place where kinds are named.

/// What to do differently for a kind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Profile {
    /// Runs to its end although its status records no end time.
    pub(super) finishes: bool,
    /// Phases whose words mislead, with the sense that they have here; compared without case.
    pub(super) phases: &'static [(&'static str, super::words::Sense)],
}

/// One kind, or all kinds of a group.
struct Row {
    group: &'static str,
    /// Empty for all kinds.
    kind: &'static str,
    profile: Profile,
}

const TABLE: &[Row] = &[];

/// The profile of a kind; the ordinary one when it has no row.
pub(super) fn of(group: &str, kind: &str) -> Profile {
    let row = TABLE.iter().find(|row| row.group == group && (row.kind.is_empty() || row.kind == kind));
    row.map_or_else(Profile::default, |row| row.profile)
}
