//! The recent past: the numbers of findings and of objects by state, at regular intervals of the
//! last hours.
//!
//! A point shows the state at the end of an interval. The model records it when time next advances
//! beyond that instant, because nothing changes before that. This needs no timer, and does not
//! depend on when ticks arrive.

use std::collections::VecDeque;

use crate::finding::Severity;
use crate::model::findings::open_findings::OpenFindings;
use crate::model::world::World;
use crate::observation::Role;
use crate::snapshot::{ObjectState, PAST_POINTS, PastPoint};
use crate::time::{Span, Timestamp};

/// The points of the last hours.
#[derive(Debug)]
pub(crate) struct Points {
    points: VecDeque<PastPoint>,
    /// The time between two points. It doubles when there is no more room, up to [`LONGEST`]; after
    /// that, the oldest points are dropped.
    every: Span,
    /// The instant of the next point; absent before the first observation.
    due: Option<Timestamp>,
    /// The convergences up to the latest point.
    counted: Convergences,
}

/// The sums over all primary kinds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Convergences {
    count: u64,
    seconds: f64,
}

/// The initial time between two points.
const SHORTEST: Span = Span::secs(15);

/// The final time between two points.
const LONGEST: Span = Span::mins(1);

impl Points {
    /// Returns the points, the earliest one first.
    pub(crate) fn points(&self) -> impl Iterator<Item = PastPoint> {
        self.points.iter().copied()
    }

    /// Records the points that are due before `at`. Nothing has changed since the model's current
    /// time.
    pub(crate) fn time_passes(&mut self, world: &World, findings: &OpenFindings, at: Timestamp) {
        let first = *self.due.get_or_insert_with(|| at.after(SHORTEST));
        if at <= first {
            return;
        }

        // After a long gap, only the latest points fit.
        let missed = (at.since(first).0 / LONGEST.0).saturating_sub(PAST_POINTS as i64).max(0);
        let mut due = first.after(Span(missed * LONGEST.0));
        let (mut point, counted) = self.past_point(world, findings);
        self.counted = counted;

        while due < at {
            self.push(PastPoint { at: due, ..point });
            (point.converged, point.convergence_seconds) = (0, None);
            due = due.after(self.every);
        }

        self.due = Some(due);
    }
}

impl Points {
    /// Returns a point for now, and the convergences so far.
    pub(crate) fn past_point(
        &self,
        world: &World,
        findings: &OpenFindings,
    ) -> (PastPoint, Convergences) {
        let mut point = PastPoint { at: world.now, ..PastPoint::default() };
        for finding in findings.iter().filter(|finding| finding.explained_by.is_none()) {
            let severity = Severity::ALL.iter().position(|severity| *severity == finding.severity);
            severity.into_iter().for_each(|severity| point.findings[severity] += 1);
        }

        let is_primary = |kind: u16| world.kinds[usize::from(kind)].role == Role::Primary;
        for watch in world.watches.iter().filter(|watch| is_primary(watch.kind)) {
            for (state, objects) in
                watch.namespaces.iter().flat_map(|n| n.totals.states.iter().enumerate())
            {
                let state = if watch.blindness.blind.is_some() {
                    ObjectState::Unknown as usize
                } else {
                    state
                };
                point.states[state] = point.states[state].saturating_add(clamped(*objects));
            }
        }

        let mut all = Convergences::default();
        for kind in world.kinds.iter().filter(|kind| kind.role == Role::Primary) {
            all.count += kind.totals.convergence.count();
            all.seconds += kind.totals.convergence.sum();
        }

        let new = all.count.saturating_sub(self.counted.count);
        point.converged = clamped(new);
        point.convergence_seconds =
            (new > 0).then(|| ((all.seconds - self.counted.seconds) / new as f64) as f32);

        (point, all)
    }
}

impl Points {
    fn push(&mut self, point: PastPoint) {
        if self.points.len() >= PAST_POINTS && self.every < LONGEST {
            self.thin_out();
        }

        if self.points.len() >= PAST_POINTS {
            self.points.pop_front();
        }

        self.points.push_back(point);
    }

    /// Merges each pair of points into the second of the two, with the convergences of both.
    fn thin_out(&mut self) {
        let mut all = std::mem::take(&mut self.points).into_iter();
        while let Some(first) = all.next() {
            self.points.push_back(match all.next() {
                Some(second) => merged(&first, &second),
                None => first,
            });
        }

        self.every = Span(self.every.0 * 2);
    }

    /// Moves all instants by `by_ms` milliseconds.
    pub(crate) fn clock_stepped(&mut self, by_ms: i64) {
        let instants = self.points.iter_mut().map(|point| &mut point.at).chain(&mut self.due);
        instants.for_each(|at| *at = at.shifted(by_ms));
    }
}

impl Default for Points {
    fn default() -> Self {
        Self {
            points: VecDeque::new(),
            every: SHORTEST,
            due: None,
            counted: Convergences::default(),
        }
    }
}

/// Returns the second of two points, with the convergences of both.
fn merged(first: &PastPoint, second: &PastPoint) -> PastPoint {
    let sum = |point: &PastPoint| point.convergence_seconds.unwrap_or(0.0) * point.converged as f32;
    let converged = first.converged.saturating_add(second.converged);
    let convergence_seconds =
        (converged > 0).then(|| (sum(first) + sum(second)) / converged as f32);

    PastPoint { converged, convergence_seconds, ..*second }
}

fn clamped(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
