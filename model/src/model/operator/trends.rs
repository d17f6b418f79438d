//! The signals of the operator's processes that may grow without bound: memory, tasks and file
//! descriptors; and the work that its limits cost: garbage collection and CPU throttling.
//!
//! Each sample of a process feeds its trends. All conclusions come from samples, so none needs a
//! timer. Without samples, no finding opens or closes.

mod baseline; // the memory of earlier processes
mod collector; // garbage collection
mod detectors; // the findings
mod series; // the source of a signal, and its normal levels
mod signals; // of a process, from the kernel and from its metrics
mod throttling; // by the CPU limit
mod watched; // a process, with the trends of its signals

use std::collections::BTreeMap;

use self::baseline::Baseline;
use self::series::NormalLevels;
use self::signals::Signals;
use self::watched::Watched;
use crate::finding::Subject;
use crate::model::findings::open_findings::OpenFindings;
use crate::model::operator::Operator;
use crate::model::world::World;
use crate::observation::{Probe, ProfileKind, ProfileView};
use crate::snapshot::{ProfileSummary, TrendSignal, TrendSummary};
use crate::time::{Span, Timestamp};
use crate::trend::{Levels, TrendState, TrendVerdict};

/// The trends of the operator.
#[derive(Debug, Default)]
pub(crate) struct Trends {
    /// By instance, at most one for each of the operator's instances.
    processes: BTreeMap<String, Box<Watched>>,
    baseline: Baseline,
    /// Levels that processes of the operator have reached and come back from.
    levels: NormalLevels,
    /// The subject of the findings that are open.
    subject: Option<Subject>,
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
    /// Workers have waited since this instant.
    Waiting(Timestamp),
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
                (memory, &watched.memory.trend, watched.last.memory),
                (TrendSignal::Tasks, &watched.tasks.trend, watched.last.tasks),
                (TrendSignal::Descriptors, &watched.descriptors.trend, watched.last.descriptors),
            ];
            for (signal, trend, _) in trends.into_iter().filter(|(.., value)| value.is_some()) {
                let mut verdict = trend.verdict();
                if signal == memory {
                    verdict.exhaustion = watched.time_to_limit(&verdict);
                }

                rows.push(TrendSummary { instance: instance.clone(), signal, verdict });
            }
        }

        rows
    }

    /// Returns the normal levels as checkpoints hold them.
    pub(crate) fn levels(&self) -> BTreeMap<String, Levels> {
        self.levels.to_checkpoint()
    }

    /// Takes the normal levels of a checkpoint.
    pub(crate) fn restore_levels(&mut self, now: Timestamp, levels: BTreeMap<String, Levels>) {
        self.levels.restore(now, levels);
    }

    /// Moves all instants of loopwatch's own clock by `by_ms` milliseconds.
    pub(crate) fn clock_stepped(&mut self, by_ms: i64) {
        for watched in self.processes.values_mut() {
            for followed in watched.followed_mut() {
                followed.trend.clock_stepped(by_ms);
                followed.series.clock_stepped(by_ms);
            }

            watched.used.0.clock_stepped(by_ms);
            watched.forecast.clock_stepped(by_ms);
            watched.collector.clock_stepped(by_ms);
            watched.throttling.clock_stepped(by_ms);
            watched.asked.values_mut().for_each(|asked| asked.clock_stepped(by_ms));
        }
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
        let used = signals.used.filter(|_| watched.used.0.continues(now, signals.sources.used));
        if let Some((uptime, used)) = signals.uptime(now).zip(used) {
            watched.marks.note(uptime, used, objects, signals.standby);
            let known = &self.instances;
            let is_running =
                |other: &str| known.get(other).is_some_and(|known| now.since(known.seen) <= SILENT);

            trends.baseline.note(name, &watched.marks, is_running);
        }

        watched.sample(now, signals, objects, &mut trends.levels);
        watched.throttling.sample(now, &signals, &world.settings);
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

    /// Asks for profiles of the goroutines of the instances in which reconciles hang or a queue
    /// grows, unless one has been taken since that began: they show where its workers wait.
    pub(super) fn want_waiting(&mut self, world: &mut World, hanging: Vec<(String, Timestamp)>) {
        const KIND: ProfileKind = ProfileKind::Goroutines;

        for (instance, since) in hanging {
            let known = self.instances.get(&instance).and_then(|known| known.profiles.get(&KIND));
            if known.is_none_or(|profile| profile.from < since) {
                self.want_profile(world, &instance, KIND, Reason::Waiting(since));
            }
        }
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

impl Asked {
    fn clock_stepped(&mut self, by_ms: i64) {
        self.at = self.at.shifted(by_ms);
        if let Reason::Waiting(since) = &mut self.reason {
            *since = since.shifted(by_ms);
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
