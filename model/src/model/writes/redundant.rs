//! Kinds whose objects an operator writes often, and mostly without a change: a heartbeat in each status,
//! for example. Each single object is written too rarely for a loop, but all of them together cost the API
//! server more than the work of the operator does.
//!
//! The counts of [`totals`](super::totals) are compared with those at the beginning of the window.

use std::collections::{BTreeMap, VecDeque};

use crate::finding::{Evidence, FindingCode, Value};
use crate::model::findings::detection::{Detection, events_needed};
use crate::model::part::StepContext;
use crate::model::world::World;
use crate::model::world::field_managers;
use crate::snapshot::WriteCounts;
use crate::time::{Span, Timestamp};

/// The counts of the kinds within the window.
#[derive(Debug, Default)]
pub(super) struct Redundant {
    /// By kind; only kinds that have been written within the window.
    kinds: BTreeMap<u16, Kind>,
    /// When to count again.
    next: Option<Timestamp>,
}

#[derive(Debug, Default)]
struct Kind {
    /// One sample for each part of the window, the oldest first.
    samples: VecDeque<Sample>,
    /// Since when most versions change nothing.
    since: Option<Timestamp>,
}

/// The versions of a kind that programs have written, up to an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sample {
    at: Timestamp,
    versions: u64,
    wasted: u64,
}

const CODE: FindingCode = FindingCode::RedundantStatusWrites;

/// The number of parts of the window.
const PARTS: i64 = 6;

/// The share of the versions that must change nothing, in percent.
const WASTED_PERCENT: u64 = 50;

/// An object that is written more rarely than this, on average, costs little.
const RARELY: Span = Span::mins(2);

impl Redundant {
    pub(super) fn is_idle(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Counts again if it is time, and judges the kinds.
    pub(super) fn due(&mut self, step: &mut StepContext<'_>) {
        let (now, window) = (step.world.now, step.world.settings.redundant_window);
        if self.next.is_some_and(|next| now < next) {
            return;
        }

        self.next = Some(now.after(Span(window.0 / PARTS)));
        for kind in 0..step.world.kinds.len() {
            let Ok(kind) = u16::try_from(kind) else { break };
            let sample = Sample::of(step.world, kind);
            if sample.versions > 0 || self.kinds.contains_key(&kind) {
                self.note(step, kind, sample);
            }
        }
    }

    fn note(&mut self, step: &mut StepContext<'_>, kind: u16, sample: Sample) {
        let (now, window) = (step.world.now, step.world.settings.redundant_window);
        let subject = step.world.kind_subject(kind);
        let open = step.findings.is_open(CODE, &subject);
        let own = self.kinds.entry(kind).or_default();
        own.note(sample, window);

        let is_redundant = own.is_redundant(step.world, kind, open);
        own.since = own.since.or(own.samples.front().map(|first| first.at));
        own.since = own.since.filter(|_| is_redundant);
        match own.since {
            Some(since) => {
                let evidence = own.evidence(step.world, kind, window);
                let detection = Detection::new(now, CODE, since, now, || evidence);
                step.findings.report(step.world, subject, detection);
            }
            None => step.findings.clear(now, CODE, &subject),
        }

        if own.is_quiet() && own.since.is_none() {
            self.kinds.remove(&kind);
        }
    }

    pub(super) fn clock_stepped(&mut self, by_ms: i64) {
        self.next = self.next.map(|at| at.shifted(by_ms));
        for kind in self.kinds.values_mut() {
            let samples = kind.samples.iter_mut().map(|sample| &mut sample.at);
            samples.chain(&mut kind.since).for_each(|at| *at = at.shifted(by_ms));
        }
    }
}

impl Sample {
    fn of(world: &World, kind: u16) -> Self {
        let mut sample = Self { at: world.now, versions: 0, wasted: 0 };
        for (_, counts) in of_programs(world, kind) {
            sample.versions = sample.versions.saturating_add(counts.versions);
            sample.wasted = sample.wasted.saturating_add(counts.wasted);
        }

        sample
    }
}

impl Kind {
    /// Adds a sample, and forgets those before the window.
    fn note(&mut self, sample: Sample, window: Span) {
        self.samples.push_back(sample);
        while self.samples.get(1).is_some_and(|second| sample.at.since(second.at) >= window) {
            self.samples.pop_front();
        }
    }

    /// Returns the versions within the window, and those of them that change nothing.
    fn counts(&self) -> (u64, u64) {
        let ends = self.samples.front().zip(self.samples.back());
        ends.map_or((0, 0), |(first, last)| {
            let versions = last.versions.saturating_sub(first.versions);
            (versions, last.wasted.saturating_sub(first.wasted))
        })
    }

    fn is_quiet(&self) -> bool {
        self.counts().0 == 0 && self.samples.len() > 1
    }

    /// An open finding needs half as many writes.
    fn is_redundant(&self, world: &World, kind: u16, open: bool) -> bool {
        let window = world.settings.redundant_window;
        let is_full = self.samples.front().is_some_and(|first| world.now.since(first.at) >= window);
        let (versions, wasted) = self.counts();
        let per_object =
            world.kinds[usize::from(kind)].objects * (window.0 / RARELY.0).unsigned_abs();
        let least = u64::from(events_needed(open, world.settings.redundant_writes)).max(per_object);

        (is_full || open)
            && wasted >= least
            && wasted.saturating_mul(100) >= versions.saturating_mul(WASTED_PERCENT)
    }

    fn evidence(&self, world: &World, kind: u16, window: Span) -> Evidence {
        let (versions, wasted) = self.counts();
        let most = of_programs(world, kind).max_by_key(|(_, counts)| counts.wasted);
        let minutes = (window.0 / Span::mins(1).0).max(1).unsigned_abs();

        Evidence::new()
            .text("manager", most.map_or("", |(name, _)| name))
            .with("writes", Value::count(versions))
            .with("wasted", Value::count(wasted))
            .with("writes_per_minute", Value::count(versions / minutes))
            .with("objects", Value::count(world.kinds[usize::from(kind)].objects))
            .with("window", Value::Span(window))
    }
}

/// Returns the counts of the field managers of a kind that are programs, not people.
fn of_programs(world: &World, kind: u16) -> impl Iterator<Item = (&str, &WriteCounts)> {
    let writes = world.kinds[usize::from(kind)].totals.writes.iter();
    let programs = writes.filter(|(name, _)| !field_managers::is_client(name));
    programs.map(|(name, counts)| (&**name, counts))
}
