//! The signals of the operator's processes that may grow without end: memory, tasks and file
//! descriptors.
//!
//! Each sample of a process feeds its trends. All conclusions come from samples, so none needs a
//! timer. Without samples, no finding opens or closes.

mod baseline; // the memory of earlier processes
mod collector; // garbage collection
mod detectors; // the findings
mod signals; // of a process, from the kernel and from its metrics

use std::collections::BTreeMap;

use self::baseline::{Baseline, Marks};
use self::collector::Collector;
use self::signals::Signals;
use crate::finding::Subject;
use crate::model::findings::open_findings::OpenFindings;
use crate::model::operator::Operator;
use crate::model::world::World;
use crate::observation::{Probe, ProfileKind, ProfileView};
use crate::snapshot::{ProfileSummary, TrendSignal, TrendSummary};
use crate::time::{Span, Timestamp};
use crate::trend::{Forecast, Trend, TrendConfig, TrendState, TrendVerdict};

/// The trends of the operator.
#[derive(Debug, Default)]
pub(crate) struct Trends {
    /// By instance, at most one for each of the operator's instances.
    processes: BTreeMap<String, Box<Watched>>,
    baseline: Baseline,
    /// The subject of the findings that are open.
    subject: Option<Subject>,
}

/// The trends of a process.
#[derive(Debug)]
struct Watched {
    /// Which process of the instance it is.
    number: u32,
    /// The number of restarts of its container, if its Pod is visible.
    restarts: Option<u32>,
    memory: Trend,
    tasks: Trend,
    descriptors: Trend,
    forecast: Forecast,
    collector: Collector,
    marks: Marks,
    last: Signals,
    /// The latest profile of each kind that the model has asked for.
    asked: BTreeMap<ProfileKind, Asked>,
}

/// A request for a profile.
#[derive(Clone, Copy, Debug)]
struct Asked {
    at: Timestamp,
    reason: Reason,
}

/// Why a profile is wanted. For a more urgent reason, loopwatch asks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    Threshold,
    Suspected,
    Confirmed,
}

/// An instance that has been silent for longer counts as ended.
const SILENT: Span = Span::mins(10);

/// Profiles cost memory, so none is taken while the operator uses more than this share of its
/// limit.
const NEAR_LIMIT: f64 = 0.9;

impl Trends {
    /// Returns the trends as snapshots show them.
    pub(crate) fn summaries(&self) -> Vec<TrendSummary> {
        let mut rows = Vec::new();
        for (instance, watched) in &self.processes {
            let memory =
                if watched.last.heap { TrendSignal::LiveHeap } else { TrendSignal::Memory };
            let trends = [
                (memory, &watched.memory, watched.last.memory),
                (TrendSignal::Tasks, &watched.tasks, watched.last.tasks),
                (TrendSignal::Descriptors, &watched.descriptors, watched.last.descriptors),
            ];
            for (signal, trend, _) in trends.into_iter().filter(|(.., value)| value.is_some()) {
                let mut verdict = trend.verdict();
                if signal == memory {
                    let nearest = [verdict.exhaustion, watched.forecast.exhaustion()]
                        .into_iter()
                        .flatten()
                        .min();

                    verdict.exhaustion = nearest;
                }

                rows.push(TrendSummary { instance: instance.clone(), signal, verdict });
            }
        }

        rows
    }

    /// Moves all instants of loopwatch's own clock by `by_ms` milliseconds.
    pub(crate) fn clock_stepped(&mut self, by_ms: i64) {
        for watched in self.processes.values_mut() {
            watched.trends_mut().into_iter().for_each(|trend| trend.clock_stepped(by_ms));
            watched.forecast.clock_stepped(by_ms);
            watched.collector.clock_stepped(by_ms);
            watched.asked.values_mut().for_each(|asked| asked.at = asked.at.shifted(by_ms));
        }
    }
}

impl Watched {
    /// `started` is the start of the process, or the present if that is not known.
    fn new(number: u32, started: Timestamp) -> Self {
        Self {
            number,
            restarts: None,
            memory: Trend::new(TrendConfig::MEMORY, started),
            tasks: Trend::new(TrendConfig::TASKS, started),
            descriptors: Trend::new(TrendConfig::DESCRIPTORS, started),
            forecast: Forecast::default(),
            collector: Collector::default(),
            marks: Marks::default(),
            last: Signals::default(),
            asked: BTreeMap::new(),
        }
    }

    fn trends_mut(&mut self) -> [&mut Trend; 3] {
        [&mut self.memory, &mut self.tasks, &mut self.descriptors]
    }

    /// Starts anew if the signals come from another process than before.
    fn note_start(&mut self, now: Timestamp, signals: &Signals) {
        let restarted = self.number != signals.number
            || self.restarts.zip(signals.restarts).is_some_and(|(known, seen)| seen > known);
        if restarted {
            let started = signals.started.unwrap_or(now);
            self.trends_mut().into_iter().for_each(|trend| trend.restart(started));
            self.forecast.clear();
            (self.collector, self.marks, self.last) = Default::default();

            // The time of the last request stays, because profiles must not follow each other too
            // soon.
            self.asked.values_mut().for_each(|asked| asked.reason = Reason::Threshold);
        }

        self.number = signals.number;
        self.restarts = signals.restarts.or(self.restarts);
    }

    fn sample(&mut self, now: Timestamp, mut signals: Signals, objects: Option<f64>) {
        if self.last.heap && !signals.heap {
            // The metrics are missing for now. The last values stay, because another signal would
            // look like a jump.
            (signals.memory, signals.heap, signals.capacity) =
                (self.last.memory, true, self.last.capacity);
            signals.runtime_limit = self.last.runtime_limit;
        } else if let Some(value) = signals.memory {
            if signals.heap && !self.last.heap && self.last.memory.is_some() {
                self.memory.restart(signals.started.unwrap_or(now));
            }
            self.memory.sample(now, value, objects, signals.capacity);
        }

        if let Some(value) = signals.tasks {
            self.tasks.sample(now, value, objects, None);
        }

        if let Some(value) = signals.descriptors {
            self.descriptors.sample(now, value, None, signals.max_descriptors);
        }

        let (value, capacity) = signals.foreseen();
        if let Some(value) = value {
            self.forecast.sample(now, value, capacity);
        }

        self.collector.sample(now, &signals);
        self.last = signals;
    }

    /// Returns the share of the limit that is in use.
    fn share_used(&self) -> Option<f64> {
        Some(self.last.used? / self.last.limit.filter(|limit| *limit > 0.0)?)
    }
}

impl Operator {
    /// Takes the signals of an instance after a new sample of it.
    pub(crate) fn sample_trends(
        &mut self,
        world: &mut World,
        findings: &mut OpenFindings,
        name: &str,
    ) {
        let now = world.now;
        let Some(instance) = self.instances.get(name) else { return };
        let container = self.pod_of(name).and_then(|pod| pod.containers.first());
        let signals = Signals::of(now, instance, container);

        // If loopwatch sees no object at all, it does not know how many the operator holds.
        let objects =
            Some(world.store.len()).filter(|objects| *objects > 0).map(|objects| objects as f64);

        let trends = &mut self.trends;
        let start = signals.started.unwrap_or(now);
        let watched = trends
            .processes
            .entry(name.to_owned())
            .or_insert_with(|| Box::new(Watched::new(signals.number, start)));

        watched.note_start(now, &signals);
        if let Some((uptime, used)) = signals.uptime(now).zip(signals.used) {
            watched.marks.note(uptime, used, objects, signals.standby);
            let known = &self.instances;
            let is_running =
                |other: &str| known.get(other).is_some_and(|known| now.since(known.seen) <= SILENT);

            trends.baseline.note(name, &watched.marks, is_running);
        }

        watched.sample(now, signals, objects);
        if self.trends.processes.len() > self.instances.len() {
            self.forget_trends(world, findings, None); // an instance had to make room
        }

        self.review_trends(world, findings);
    }

    /// Forgets the trends of the instance whose process has `ended`, and of instances that are no
    /// longer known or no longer run.
    pub(crate) fn forget_trends(
        &mut self,
        world: &mut World,
        findings: &mut OpenFindings,
        ended: Option<&str>,
    ) {
        let operator = &self;
        let is_over = |name: &str| {
            ended == Some(name) || !operator.instances.contains_key(name) || !operator.may_run(name)
        };
        let over: Vec<String> =
            operator.trends.processes.keys().filter(|name| is_over(name)).cloned().collect();

        for name in &over {
            self.trends.processes.remove(name);
        }

        if !over.is_empty() {
            self.review_trends(world, findings);
        }
    }

    /// Returns the growth between the last two heap profiles of each instance.
    pub(crate) fn shown_profiles(&self) -> Vec<ProfileSummary> {
        let instances = self.instances.iter();
        let profiles = instances
            .filter_map(|(name, known)| Some((name, known.profiles.get(&ProfileKind::Heap)?)));
        let growth =
            |profile: &ProfileView| profile.stacks.iter().map(|stack| stack.growth).collect();

        profiles
            .map(|(name, profile)| ProfileSummary {
                instance: name.clone(),
                growth: growth(profile),
            })
            .collect()
    }

    /// Asks for a profile of an instance, unless there was a recent request or the operator is
    /// close to its limit.
    fn want_profile(
        &mut self,
        world: &mut World,
        instance: &str,
        kind: ProfileKind,
        reason: Reason,
    ) {
        let now = world.now;
        let every = world.settings.profile_every;
        let latest =
            self.instances.get(instance).and_then(|known| known.profiles.get(&kind)).map(|p| p.to);

        let Some(watched) = self.trends.processes.get_mut(instance) else { return };
        let near_limit = watched.share_used().is_some_and(|share| share > NEAR_LIMIT);
        let asked = watched.asked.get(&kind);
        let is_answered = asked
            .is_some_and(|asked| asked.reason >= reason && latest.is_some_and(|at| at >= asked.at));
        let is_early = asked.is_some_and(|asked| now.since(asked.at) < every);

        if watched.last.has_profiles && !near_limit && !is_answered && !is_early {
            watched.asked.insert(kind, Asked { at: now, reason });
            world.agenda.probes.insert(Probe::Profile { instance: instance.to_owned(), kind });
        }
    }
}

impl Reason {
    fn of(verdict: &TrendVerdict) -> Option<Self> {
        match verdict.state {
            TrendState::Confirmed => Some(Self::Confirmed),
            TrendState::Suspected => Some(Self::Suspected),
            TrendState::GrowthExplained | TrendState::Steady | TrendState::Unknown => None,
        }
    }
}
