//! The findings about the operator's processes.

use std::collections::BTreeMap;

use crate::finding::{Area, Confidence, Evidence, FINDINGS, FindingCode, Value};
use crate::model::findings::detection::Detection;
use crate::model::findings::open_findings::OpenFindings;
use crate::model::operator::Operator;
use crate::model::operator::trends::Reason;
use crate::model::operator::trends::throttling::WINDOW;
use crate::model::operator::trends::watched::{Followed, Watched};
use crate::model::world::World;
use crate::observation::ProfileKind;
use crate::settings::Settings;
use crate::time::Timestamp;
use crate::trend::{TrendState, TrendVerdict};

/// The area of all findings of this file.
const AREA: Area = Area::Process;

/// The problems of objects that a lack of memory may cause: the operator is slow, or restarts. What
/// an object itself reports as broken has another cause.
const SYMPTOMS: [FindingCode; 8] = [
    FindingCode::Unacknowledged,
    FindingCode::StatusLag,
    FindingCode::Overdue,
    FindingCode::Starved,
    FindingCode::PhaseStuck,
    FindingCode::NeverRecovered,
    FindingCode::FinalizerStuck,
    FindingCode::CleanupSlow,
];

/// The problems that a lack of CPU time causes: the operator answers late, or cannot renew its lease.
/// An object that is only overdue may wait for something else.
const DELAYS: [FindingCode; 7] = [
    FindingCode::Unacknowledged,
    FindingCode::StatusLag,
    FindingCode::Starved,
    FindingCode::QueueBacklog,
    FindingCode::WorkersSaturated,
    FindingCode::LeaderAbsent,
    FindingCode::LeaderFlapping,
];

/// The number of functions of the top stack in the evidence.
const FUNCTIONS: usize = 2;

/// A process under review.
struct Reviewed<'a> {
    now: Timestamp,
    name: &'a str,
    watched: &'a Watched,
    settings: &'a Settings,
    /// When the last object began to suffer in a way that a lack of memory explains.
    suffering: Option<Timestamp>,
    /// When the last delay of each sort began.
    delays: &'a BTreeMap<FindingCode, Timestamp>,
}

impl Operator {
    /// Opens and closes the findings about the operator's processes. Of several processes with the
    /// same problem, the one with the clearest evidence counts.
    pub(crate) fn review_trends(&mut self, world: &mut World, findings: &mut OpenFindings) {
        let now = world.now;
        let mut worst: BTreeMap<FindingCode, Detection> = BTreeMap::new();
        let mut wanted: Vec<(String, ProfileKind, Reason)> = Vec::new();

        let suffering = findings.latest_starts(&SYMPTOMS).into_values().max();
        let delays = findings.latest_starts(&DELAYS);
        for (name, watched) in &self.trends.processes {
            let settings = &world.settings;
            let process = Reviewed { now, name, watched, settings, suffering, delays: &delays };
            wanted.extend(
                process.wanted().into_iter().map(|(kind, reason)| (name.clone(), kind, reason)),
            );
            for detection in
                self.process_detections(&process).into_iter().filter(|found| found.due <= now)
            {
                let rank = |found: &Detection| {
                    let is_suspected = found.confidence == Confidence::Suspected;
                    (is_suspected, found.harmless, found.weak, found.since)
                };
                match worst.get(&detection.code) {
                    Some(known) if rank(known) <= rank(&detection) => {}
                    _ => _ = worst.insert(detection.code, detection),
                }
            }
        }

        let subject = self.operator_subject();
        let earlier =
            self.trends.subject.replace(subject.clone()).filter(|earlier| *earlier != subject);

        for code in FINDINGS.iter().filter(|info| info.area == AREA).map(|info| info.code) {
            if let Some(earlier) = &earlier {
                findings.clear(now, code, earlier);
            }
            match worst.remove(&code) {
                _ if code == FindingCode::LeakChain => {} // which follows from these, in leak_chain.rs
                Some(detection) => findings.report(world, subject.clone(), detection),
                None => findings.clear(now, code, &subject),
            }
        }

        wanted
            .into_iter()
            .for_each(|(instance, kind, reason)| self.want_profile(world, &instance, kind, reason));
    }

    fn process_detections(&self, process: &Reviewed<'_>) -> Vec<Detection> {
        let top = |kind| self.top_growth(process.name, kind);
        let heap = || top(ProfileKind::Heap);
        let found = [
            process.heap_leak(&heap),
            process.heap_growth_explained(),
            process.task_leak(&|| top(ProfileKind::Goroutines)),
            self.task_limit(process, &|| top(ProfileKind::Goroutines)),
            self.exhaustion(process, &heap),
            process.thrash(),
            process.throttled(),
            process.descriptor_leak(),
            self.memory_jump(process, &heap),
            process.memory_large(&heap),
        ];

        found.into_iter().flatten().collect()
    }

    /// Detects that the memory will soon reach its limit. The finding pages only if the operator
    /// needs more memory than usual and objects have begun to suffer since the growth began.
    fn exhaustion(
        &self,
        process: &Reviewed<'_>,
        top: &dyn Fn() -> Vec<String>,
    ) -> Option<Detection> {
        let Watched { memory, forecast, marks, last, .. } = process.watched;
        let verdict = memory.trend.standing();
        let within = process.settings.exhaustion_within;
        let by_trend = verdict
            .exhaustion
            .filter(|span| verdict.state == TrendState::Confirmed && *span <= within);
        by_trend.or(forecast.exhaustion())?;
        let percent = process.settings.memory_jump_percent;

        let above = |lowest: f64| {
            last.memory.is_some_and(|now| now > lowest * (1.0 + f64::from(percent) / 100.0))
        };
        let own = self.trends.baseline.exceeds(marks, percent);
        let deviates = own.unwrap_or_else(|| memory.trend.lowest().is_some_and(above));

        let since = verdict.since.filter(|_| by_trend.is_some()).unwrap_or(process.now);
        let evidence = || {
            let left = process.watched.time_to_limit(&verdict);
            process
                .growth(&verdict)
                .with_some("exhausted_in", left.map(Value::Span))
                .with_some("limit", last.limit.map(bytes))
                .with_some("used", last.used.map(bytes))
                .with_some("heap_goal", last.heap_goal.map(bytes))
                .names("top_growth", top())
        };

        let detection = process.detection(FindingCode::MemoryExhaustionPredicted, since, evidence);
        let began = verdict.since.unwrap_or(since);
        let suffer = process.suffering.is_some_and(|suffering| suffering >= began);
        Some(detection.weak_if(!deviates || !suffer))
    }

    /// Detects that a process runs more goroutines than operators usually do. Many operators always
    /// do, so only a number beyond the highest threshold that the operator never had before is
    /// certain.
    fn task_limit(
        &self,
        process: &Reviewed<'_>,
        top: &dyn Fn() -> Vec<String>,
    ) -> Option<Detection> {
        let level = process.task_level()?;
        let evidence = || {
            let evidence = process.task_evidence().with("threshold", Value::count(level));
            evidence.names("top_growth", top())
        };

        let last = &process.watched.last;
        let is_highest = process.settings.goroutine_levels.iter().all(|other| *other <= level);
        let is_new =
            last.tasks.is_some_and(|tasks| self.trends.levels.exceed(last.sources.tasks, tasks));
        let detection = process.detection(FindingCode::TaskLimit, process.now, evidence);
        Some(detection.suspected_if(!is_highest || !is_new))
    }

    /// Detects that a process needs much more memory than the one before it at the same uptime. It
    /// is certain once the process needs much more than the one before ever did.
    fn memory_jump(
        &self,
        process: &Reviewed<'_>,
        top: &dyn Fn() -> Vec<String>,
    ) -> Option<Detection> {
        let Watched { marks, last, .. } = process.watched;
        let jump =
            self.trends.baseline.jump(process.name, marks, process.settings.memory_jump_percent)?;
        let evidence = || {
            let evidence = process.evidence().with_some("used", last.used.map(bytes));
            let evidence = evidence
                .with("before", bytes(jump.before))
                .with("uptime", Value::Span(jump.uptime));

            evidence.names("top_growth", top())
        };

        let percent = process.settings.memory_jump_percent;
        let exceeds = self.trends.baseline.exceeds_highest(marks, percent);
        let detection = process.detection(FindingCode::MemoryJump, process.now, evidence);
        Some(detection.suspected_if(!exceeds))
    }

    /// Returns the innermost functions of the stack that grew most between two profiles, without
    /// those of Go's runtime and standard library: the stack of every waiting goroutine ends in
    /// `runtime.gopark`.
    fn top_growth(&self, instance: &str, kind: ProfileKind) -> Vec<String> {
        let profile = self.instances.get(instance).and_then(|known| known.profiles.get(&kind));
        let Some(stack) = profile.and_then(|profile| profile.stacks.first()) else {
            return Vec::new();
        };

        let culprit = stack.culprit();
        stack
            .functions
            .iter()
            .skip_while(|function| *function != culprit)
            .take(FUNCTIONS)
            .cloned()
            .collect()
    }
}

impl Reviewed<'_> {
    fn heap_leak(&self, top: &dyn Fn() -> Vec<String>) -> Option<Detection> {
        self.leak(FindingCode::HeapLeak, &self.watched.memory, |verdict| {
            let last = &self.watched.last;
            self.growth(verdict)
                .with_some("limit", last.limit.map(bytes))
                .with_some("used", last.memory.map(bytes))
                .text("signal", if last.heap { "live heap" } else { "memory" })
                .with_some("exhausted_in", self.watched.time_to_limit(verdict).map(Value::Span))
                .names("top_growth", top())
        })
    }

    fn heap_growth_explained(&self) -> Option<Detection> {
        let verdict = self.watched.memory.trend.standing();
        let since = verdict.since.filter(|_| verdict.state == TrendState::GrowthExplained)?;
        let evidence = || {
            let evidence = self.evidence().with("explained", bytes(verdict.explained));
            evidence
                .with("objects", count(verdict.objects))
                .with("window", Value::Span(verdict.window))
        };

        Some(self.detection(FindingCode::HeapGrowthExplained, since, evidence))
    }

    fn task_leak(&self, top: &dyn Fn() -> Vec<String>) -> Option<Detection> {
        self.leak(FindingCode::TaskLeak, &self.watched.tasks, |verdict| {
            let evidence = self.task_evidence().with("rise", count(verdict.rise));
            let evidence = evidence.with("window", Value::Span(verdict.window));
            let evidence =
                evidence.with("per_hour", Value::Number(verdict.slope.unwrap_or_default()));

            evidence.names("top_growth", top())
        })
    }

    fn thrash(&self) -> Option<Detection> {
        let Watched { collector, last, .. } = self.watched;
        let since = collector.since?;
        let evidence = || {
            self.evidence()
                .with_some("limit", last.runtime_limit.map(bytes))
                .with_some("used", last.memory.map(bytes))
                .with_some("heap_goal", last.heap_goal.map(bytes))
                .with_some("collections_per_second", collector.rate.map(Value::Number))
        };

        let due = since.after(self.settings.thrash_after);
        let detection =
            Detection::new(self.now, FindingCode::GarbageCollectionThrash, since, due, evidence);

        // If the runtime could have limited its collector but has not, frequent collections may be
        // due to much work.
        Some(
            detection
                .suspected_if(!collector.is_limited(self.now) && last.gc_limited_cycle.is_some()),
        )
    }

    /// Detects a process that the kernel has throttled for long. It is a problem only if work waits:
    /// in the queues, or according to findings that began with the throttling or later. A standby
    /// has no work.
    fn throttled(&self) -> Option<Detection> {
        let Watched { throttling, last, .. } = self.watched;
        let since = throttling.since?;
        let wait = throttling.mean_wait().filter(|wait| *wait >= self.settings.throttled_wait);

        // The share exceeds the threshold some time after the throttling has begun.
        let began = since.before(WINDOW);
        let delays = self.delays.iter().filter(|(_, start)| **start >= began);
        let delays: Vec<String> = delays.map(|(code, _)| code.name().to_owned()).collect();
        let is_harmless = last.standby || (wait.is_none() && delays.is_empty());

        let evidence = || {
            self.evidence()
                .with("percent", Value::count(throttling.percent()))
                .with("window", Value::Span(WINDOW))
                .with_some("limit", last.cpu_limit.map(millicores))
                .with_some("queue_wait", wait.map(Value::Span))
                .names("delays", delays)
                .with("throttled_for", Value::Age(since))
        };

        let due = since.after(self.settings.throttled_after);
        let detection = Detection::new(self.now, FindingCode::CpuThrottled, since, due, evidence);
        Some(detection.harmless_if(is_harmless))
    }

    fn descriptor_leak(&self) -> Option<Detection> {
        let Watched { descriptors, last, .. } = self.watched;
        let evidence = |verdict: &TrendVerdict| {
            self.evidence()
                .with("descriptors", count(last.descriptors.unwrap_or_default()))
                .with_some("limit", last.max_descriptors.map(count))
                .with("rise", count(verdict.rise))
                .with("window", Value::Span(verdict.window))
                .with_some("exhausted_in", verdict.exhaustion.map(Value::Span))
        };

        let verdict = descriptors.trend.standing();
        let share =
            last.descriptors.zip(last.max_descriptors).map(|(open, limit)| 100.0 * open / limit);
        if share.is_some_and(|share| share > f64::from(self.settings.descriptors_percent)) {
            let since = verdict.since.unwrap_or(self.now);
            return Some(
                self.detection(FindingCode::FileDescriptorLeak, since, || evidence(&verdict)),
            );
        }

        self.leak(FindingCode::FileDescriptorLeak, descriptors, evidence)
    }

    fn memory_large(&self, top: &dyn Fn() -> Vec<String>) -> Option<Detection> {
        let level = self.memory_level()?;
        let evidence = || {
            let evidence = self.evidence().with_some("used", self.watched.last.used.map(bytes));
            evidence.with("threshold", Value::Bytes(level)).names("top_growth", top())
        };

        Some(self.detection(FindingCode::MemoryLarge, self.now, evidence))
    }

    /// Returns a finding about a trend that is suspected or confirmed.
    fn leak(
        &self,
        code: FindingCode,
        followed: &Followed,
        evidence: impl FnOnce(&TrendVerdict) -> Evidence,
    ) -> Option<Detection> {
        let verdict = followed.trend.standing();
        Reason::of(&verdict)?;

        let since = verdict.since.unwrap_or(self.now);
        Some(
            self.detection(code, since, || evidence(&verdict))
                .suspected_if(verdict.state == TrendState::Suspected),
        )
    }

    /// Returns the profiles that would show more about the problems, each with the most urgent
    /// reason for it.
    fn wanted(&self) -> Vec<(ProfileKind, Reason)> {
        let Watched { memory, tasks, forecast, .. } = self.watched;
        let threshold = |crossed: bool| crossed.then_some(Reason::Threshold);
        let heap = [Reason::of(&memory.trend.standing()), threshold(self.memory_level().is_some())];
        let last_minute = forecast.exhaustion().map(|_| Reason::Confirmed);
        let goroutines =
            [Reason::of(&tasks.trend.standing()), threshold(self.task_level().is_some())];

        let heap = heap
            .into_iter()
            .chain([last_minute])
            .flatten()
            .max()
            .map(|reason| (ProfileKind::Heap, reason));

        let goroutines =
            goroutines.into_iter().flatten().max().map(|reason| (ProfileKind::Goroutines, reason));
        heap.into_iter().chain(goroutines).collect()
    }

    /// Returns the highest threshold that the number of goroutines exceeds. There are no thresholds
    /// for threads.
    fn task_level(&self) -> Option<u64> {
        let tasks = self.watched.last.tasks.filter(|_| self.watched.last.goroutines)?;
        self.settings.goroutine_levels.iter().copied().filter(|level| tasks > *level as f64).max()
    }

    /// Returns the highest threshold that the memory exceeds.
    fn memory_level(&self) -> Option<u64> {
        let used = self.watched.last.used?;
        self.settings.memory_levels.iter().copied().filter(|level| used > *level as f64).max()
    }

    fn detection(
        &self,
        code: FindingCode,
        since: Timestamp,
        evidence: impl FnOnce() -> Evidence,
    ) -> Detection {
        Detection::new(self.now, code, since.min(self.now), self.now, evidence)
    }

    fn evidence(&self) -> Evidence {
        Evidence::new().text("instance", self.name)
    }

    fn task_evidence(&self) -> Evidence {
        let last = &self.watched.last;
        let evidence = self.evidence().with("tasks", count(last.tasks.unwrap_or_default()));
        evidence.text("type", if last.goroutines { "goroutines" } else { "threads" })
    }

    fn growth(&self, verdict: &TrendVerdict) -> Evidence {
        let evidence = self.evidence();
        let Some(slope) = verdict.slope.filter(|slope| *slope > 0.0) else { return evidence };
        let explained = Some(verdict.explained).filter(|explained| *explained > 0.0);
        evidence
            .with("per_hour", bytes(slope))
            .with("rise", bytes(verdict.rise))
            .with("window", Value::Span(verdict.window))
            .with_some("explained", explained.map(bytes))
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
fn bytes(number: f64) -> Value {
    Value::Bytes(number.max(0.0) as u64)
}

/// A number of CPUs as Kubernetes writes it.
fn millicores(cpus: f64) -> Value {
    Value::Text(format!("{:.0}m", 1000.0 * cpus))
}

#[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
fn count(number: f64) -> Value {
    Value::Count(number.round() as i64)
}
