//! The diagnosis of a chain: the operator keeps objects in memory that it should have released, it does not
//! remove their finalizers, and so more and more of them stay in deletion.
//!
//! ```text
//!   a cache or a closure keeps the object ──▶ the finalizer is not removed
//!                  ▲                                     │
//!                  └──── the object stays in deletion ◀──┘
//! ```
//!
//! Each symptom has a finding of its own. Together they have one cause, which one alert should name. In
//! doubt, they stay apart: objects that began to wait at once, before the memory grew, or while the operator
//! could not work, show no chain.

use std::collections::BTreeMap;

use crate::finding::{Confidence, Evidence, Finding, FindingCode, FindingId, Subject, Value};
use crate::model::findings::detection::Detection;
use crate::model::findings::open_findings::OpenFindings;
use crate::model::operator::Operator;
use crate::model::world::World;
use crate::time::Span;

const CODE: FindingCode = FindingCode::LeakChain;

/// The findings that show growth. Memory may grow in step with the objects that stay in deletion.
const GROWTH: [FindingCode; 4] = [
    FindingCode::HeapLeak,
    FindingCode::TaskLeak,
    FindingCode::MemoryExhaustionPredicted,
    FindingCode::HeapGrowthExplained,
];

/// The findings during which the operator cannot remove finalizers, so that these show nothing.
const OUTAGES: [FindingCode; 5] = [
    FindingCode::OperatorDown,
    FindingCode::RestartLoop,
    FindingCode::LeaderAbsent,
    FindingCode::ApiErrors,
    FindingCode::ConflictStorm,
];

/// The number of objects that must stay in deletion, and the number that keeps the finding open.
const OBJECTS: (usize, usize) = (3, 2);

/// The beginning of a growth is known to about this time.
const BEGAN_WITHIN: Span = Span::hours(1);

/// The maximum number of objects that the evidence names.
const MAX_NAMED: usize = 3;

impl Operator {
    /// Detects the chain, if the open findings about the operator and its objects are its symptoms.
    pub(super) fn leak_chain(&self, world: &World, findings: &OpenFindings) -> Option<Detection> {
        let subject = self.operator_subject();
        let own = FindingId::of(CODE, &subject);
        if OUTAGES.iter().any(|outage| self.is_found(*outage)) {
            return None;
        }

        let is_confirmed = |finding: &&Finding| finding.confidence == Confidence::Confirmed;
        let growth = GROWTH.iter().filter_map(|code| findings.about(*code, &subject));
        let growth = growth.filter(is_confirmed).min_by_key(|finding| finding.since)?;

        let from = growth.since.before(BEGAN_WITHIN);
        let mut kinds: BTreeMap<Subject, Vec<&Finding>> = BTreeMap::new();
        for finding in findings.of_operator(FindingCode::FinalizerStuck).filter(is_confirmed) {
            let is_root = finding.explained_by.is_none_or(|cause| cause == own);
            if let Some(kind) = finding.subject.whole_kind().filter(|_| is_root)
                && finding.since >= from
            {
                kinds.entry(kind).or_default().push(finding);
            }
        }

        let (kind, mut stuck) = kinds.into_iter().max_by_key(|(_, stuck)| stuck.len())?;
        stuck.sort_by_key(|finding| (finding.since, finding.id));
        let (first, last) = (stuck.first()?.since, stuck.last()?.since);
        let (to_open, to_stay) = OBJECTS;
        let is_open = self.is_found(CODE);
        let is_growing = last.since(first) >= world.settings.finalizer_stuck_after;
        if stuck.len() < if is_open { to_stay } else { to_open } || !(is_open || is_growing) {
            return None;
        }

        let named = stuck.iter().take(MAX_NAMED).map(|finding| finding.subject.to_string());
        let evidence = Evidence::new()
            .text("growth", growth.code.name())
            .text("kind", kind.to_string())
            .with("objects", Value::count(stuck.len() as u64))
            .names("examples", named.collect())
            .with("growing_for", Value::Age(growth.since))
            .with("stuck_for", Value::Age(first));
        let since = growth.since.min(first);
        Some(Detection::new(world.now, CODE, since, world.now, || evidence).affecting(vec![kind]))
    }
}
