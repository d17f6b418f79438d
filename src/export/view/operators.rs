//! The operators of a cluster, each in a few numbers, worst first.

use std::cmp::Reverse;

use loopwatch_model::finding::{Finding, Severity};
use loopwatch_model::observation::Role;
use loopwatch_model::snapshot::{Health, ObjectState, Snapshot};

use super::findings::Findings;
use super::health::{OverallHealth, objects_by_state};
use super::input::Input;

/// One of many operators.
#[derive(Clone, Debug)]
pub(crate) struct OperatorSummary {
    /// `NAMESPACE/NAME` of its workload.
    pub(crate) name: String,
    pub(crate) health: OverallHealth,
    /// Root findings, by severity: critical, warning, info.
    pub(crate) findings: [u64; 3],
    /// The most severe root finding, if any is at least a warning.
    pub(crate) worst: Option<Finding>,
    /// The objects of primary kinds in each state.
    pub(crate) states: [u64; ObjectState::ALL.len()],
    /// The primary kinds, as `group/Kind`.
    pub(crate) kinds: Vec<String>,
    /// Those of them that another operator may own.
    pub(crate) suspected_kinds: Vec<String>,
}

/// A workload that loopwatch does not judge, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SkippedOperator {
    /// `NAMESPACE/NAME`.
    pub(crate) name: String,
    pub(crate) why: &'static str,
}

/// All operators of a cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct Operators {
    /// Worst first.
    pub(crate) operators: Vec<OperatorSummary>,
    pub(crate) skipped: Vec<SkippedOperator>,
    /// Custom resources that no operator owns.
    pub(crate) unclaimed: Vec<String>,
    /// Whether loopwatch has looked through the whole cluster once.
    pub(crate) is_complete: bool,
}

impl OperatorSummary {
    #[must_use]
    pub(crate) fn of(name: String, snapshot: &Snapshot, input: &Input) -> Self {
        let findings = Findings::of(snapshot);
        let count = |severity| findings.count(severity) as u64;
        let worst = findings.roots.first().filter(|finding| finding.severity != Severity::Info);
        let primary = snapshot.kinds.iter().filter(|kind| kind.role == Role::Primary);
        let (suspected, kinds): (Vec<_>, Vec<_>) = primary.partition(|kind| kind.suspected);
        let names = |kinds: Vec<&loopwatch_model::snapshot::KindSummary>| {
            kinds.into_iter().map(|kind| format!("{}/{}", kind.group, kind.kind)).collect()
        };

        Self {
            name,
            health: OverallHealth::of(snapshot, input),
            findings: [Severity::Critical, Severity::Warning, Severity::Info].map(count),
            worst: worst.map(|finding| (*finding).clone()),
            states: objects_by_state(snapshot),
            kinds: names(kinds),
            suspected_kinds: names(suspected),
        }
    }

    /// The number of objects of primary kinds.
    pub(crate) fn objects(&self) -> u64 {
        self.states.iter().sum()
    }

    /// The place among others: the worst has the highest.
    fn rank(&self) -> (u8, [u64; 2], u64) {
        let health = match self.health {
            OverallHealth::Known(Health::Failing) => 3,
            OverallHealth::Known(Health::Degraded) => 2,
            OverallHealth::Unknown(_) => 1,
            OverallHealth::Known(Health::Healthy) => 0,
        };
        let unwell = [ObjectState::Overdue, ObjectState::Failed].map(|it| self.states[it as usize]);
        (health, [self.findings[0], self.findings[1]], unwell.iter().sum())
    }
}

impl Operators {
    /// Sorts the operators, worst first.
    #[must_use]
    pub(crate) fn sorted(mut self) -> Self {
        self.operators
            .sort_by(|a, b| (Reverse(a.rank()), &a.name).cmp(&(Reverse(b.rank()), &b.name)));
        self
    }

    /// The worst health of any operator; `None` without one.
    #[must_use]
    pub(crate) fn health(&self) -> Option<OverallHealth> {
        self.operators
            .iter()
            .max_by_key(|operator| operator.rank().0)
            .map(|operator| operator.health)
    }
}
