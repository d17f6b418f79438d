//! The problems that make `check` and `replay` exit with 1, and the tests of their JUnit file fail.

use loopwatch_model::finding::{Finding, Severity};
use loopwatch_model::observation::Role;
use loopwatch_model::snapshot::{KindSummary, ObjectState, Snapshot};

/// The problems that count.
#[derive(Clone, Debug)]
pub(crate) struct FailOn {
    /// The lowest severity of a finding that counts; with `None`, no finding does.
    pub(crate) severity: Option<Severity>,
    /// The states in which no object may be.
    pub(crate) states: Vec<ObjectState>,
}

impl Default for FailOn {
    fn default() -> Self {
        Self { severity: Some(Severity::Warning), states: Vec::new() }
    }
}

impl FailOn {
    /// Whether a problem that counts is in the snapshot.
    pub(crate) fn fails(&self, snapshot: &Snapshot) -> bool {
        snapshot.findings.iter().any(|finding| self.counts(finding))
            || snapshot.kinds.iter().any(|kind| self.objects(kind).next().is_some())
    }

    /// Whether a finding counts.
    pub(super) fn counts(&self, finding: &Finding) -> bool {
        self.severity.is_some_and(|limit| finding.severity <= limit)
    }

    /// The states of a kind that count, with their numbers of objects. As in the headline, only the
    /// operator's own kinds count.
    pub(super) fn objects(&self, kind: &KindSummary) -> impl Iterator<Item = (ObjectState, u64)> {
        let states = if kind.role == Role::Primary { kind.states() } else { Default::default() };
        let counted = ObjectState::ALL.iter().filter(|state| self.states.contains(state));

        counted.map(move |state| (*state, states[*state as usize])).filter(|(_, count)| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::sample::sample;

    #[test]
    fn the_documentation_has_the_meaning_of_every_state() {
        let rows = ObjectState::ALL
            .iter()
            .map(|state| format!("| `{}` | {} |\n", state.as_str(), state.meaning()));
        let table = format!("| state | meaning |\n|---|---|\n{}", rows.collect::<String>());

        crate::golden::check_section("docs/commands.md", "states", &table);
    }

    #[test]
    fn objects_in_a_state_count_only_if_the_user_says_so() {
        let mut snapshot = sample().snapshot;
        snapshot.findings.clear();
        assert!(!FailOn::default().fails(&snapshot));

        let fail_on = |states: &[ObjectState]| FailOn { severity: None, states: states.to_vec() };
        assert!(fail_on(&[ObjectState::Skipped, ObjectState::Overdue]).fails(&snapshot));

        for kind in &mut snapshot.kinds {
            kind.role = Role::Child;
        }
        assert!(!fail_on(&[ObjectState::Overdue]).fails(&snapshot));
    }
}
