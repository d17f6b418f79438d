//! The findings about the operator's processes.

use std::collections::BTreeMap;

use super::super::super::Model;
use super::super::super::detection::Detection;
use super::{Reason, Watched};
use crate::finding::{Confidence, Evidence, FINDINGS, FindingCode, Value};
use crate::observation::ProfileKind;
use crate::settings::Settings;
use crate::time::{Span, Timestamp};
use crate::trend::{Trend, TrendState, TrendVerdict};

/// The area of all findings of this file.
const AREA: &str = "process";

/// The number of functions of the top stack in the evidence.
const FUNCTIONS: usize = 2;

/// A process under review.
struct Reviewed<'a> {
    now: Timestamp,
    name: &'a str,
    watched: &'a Watched,
    settings: &'a Settings,
}

// === impl Model ===

impl Model {
    /// Opens and closes the findings about the operator's processes. Of several processes with the same problem, the one
    /// with the clearest evidence counts.
    pub(crate) fn review_trends(&mut self) {
        let now = self.now;
        let mut worst: BTreeMap<FindingCode, Detection> = BTreeMap::new();
        let mut wanted: Vec<(String, ProfileKind, Reason)> = Vec::new();
        for (name, watched) in &self.operator.trends.processes {
            let process = Reviewed { now, name, watched, settings: &self.settings };
            wanted.extend(process.wanted().into_iter().map(|(kind, reason)| (name.clone(), kind, reason)));
            for detection in self.process_detections(&process).into_iter().filter(|found| found.due <= now) {
                let rank = |found: &Detection| (found.confidence == Confidence::Suspected, found.weak, found.since);
                match worst.get(&detection.code) {
                    Some(known) if rank(known) <= rank(&detection) => {}
                    _ => _ = worst.insert(detection.code, detection),
                }
            }
        }
        let subject = self.operator_subject();
        let earlier = self.operator.trends.subject.replace(subject.clone()).filter(|earlier| *earlier != subject);
        for code in FINDINGS.iter().filter(|info| info.area == AREA).map(|info| info.code) {
            if let Some(earlier) = &earlier {
                self.open_findings.clear(now, code, earlier);
            }
            match worst.remove(&code) {
                Some(detection) => self.raise(subject.clone(), detection),
                None => self.open_findings.clear(now, code, &subject),
            }
        }
        wanted.into_iter().for_each(|(instance, kind, reason)| self.want_profile(&instance, kind, reason));
    }

    fn process_detections(&self, process: &Reviewed<'_>) -> Vec<Detection> {
        let top = |kind| self.top_growth(process.name, kind);
        let heap = || top(ProfileKind::Heap);
        let found = [
            process.heap_leak(&heap),
            process.heap_growth_explained(),
            process.task_leak(&|| top(ProfileKind::Goroutines)),
            process.task_limit(&|| top(ProfileKind::Goroutines)),
            self.exhaustion(process, &heap),
            process.thrash(),
            process.descriptor_leak(),
            self.memory_jump(process, &heap),
            process.memory_large(&heap),
        ];
        found.into_iter().flatten().collect()
    }

    /// Detects that the memory will soon reach its limit. It pages only if the operator needs more than it usually does, and
    /// objects suffer.
    fn exhaustion(&self, process: &Reviewed<'_>, top: &dyn Fn() -> Vec<String>) -> Option<Detection> {
        let Watched { memory, forecast, marks, last, .. } = process.watched;
        let verdict = memory.verdict();
        let within = process.settings.exhaustion_within;
        let by_trend = verdict.exhaustion.filter(|span| verdict.state == TrendState::Confirmed && *span <= within);
        let exhaustion = [by_trend, forecast.exhaustion()].into_iter().flatten().min()?;
        let percent = process.settings.memory_jump_percent;
        let above = |lowest: f64| last.memory.is_some_and(|now| now > lowest * (1.0 + f64::from(percent) / 100.0));
        let own = self.operator.trends.baseline.exceeds(marks, percent);
        let deviates = own.unwrap_or_else(|| memory.lowest().is_some_and(above));
        let since = verdict.since.filter(|_| by_trend.is_some()).unwrap_or(process.now);
        let evidence = || {
            let evidence = process.growth(&verdict).with("exhausted_in", Value::Span(exhaustion));
            names(bytes(evidence, "used", last.used), "top_growth", top())
        };
        let detection = process.detection(FindingCode::MemoryExhaustionPredicted, since, evidence);
        Some(detection.weak_if(!deviates || self.unhealthy.is_empty()))
    }

    /// Detects that a process needs much more memory than the one before it at the same uptime.
    fn memory_jump(&self, process: &Reviewed<'_>, top: &dyn Fn() -> Vec<String>) -> Option<Detection> {
        let Watched { marks, last, .. } = process.watched;
        let jump = self.operator.trends.baseline.jump(process.name, marks, process.settings.memory_jump_percent)?;
        let evidence = || {
            let evidence = bytes(process.evidence(), "used", last.used);
            let evidence = bytes(evidence, "before", Some(jump.before)).with("uptime", Value::Span(jump.uptime));
            names(evidence, "top_growth", top())
        };
        Some(process.detection(FindingCode::MemoryJump, process.now, evidence))
    }

    /// Returns the innermost functions of the stack that grew most between two profiles, without those of the language:
    /// every goroutine that waits ends in `runtime.gopark`.
    fn top_growth(&self, instance: &str, kind: ProfileKind) -> Vec<String> {
        let profile = self.operator.instances.get(instance).and_then(|known| known.profiles.get(&kind));
        let Some(stack) = profile.and_then(|profile| profile.stacks.first()) else { return Vec::new() };
        let culprit = stack.culprit();
        stack.functions.iter().skip_while(|function| *function != culprit).take(FUNCTIONS).cloned().collect()
    }
}

// === impl Reviewed ===

impl Reviewed<'_> {
    fn heap_leak(&self, top: &dyn Fn() -> Vec<String>) -> Option<Detection> {
        self.leak(FindingCode::HeapLeak, &self.watched.memory, |verdict| {
            let evidence = bytes(self.growth(verdict), "limit", self.watched.last.limit);
            let evidence = bytes(evidence, "used", self.watched.last.memory);
            let evidence = evidence.text("signal", if self.watched.last.heap { "live heap" } else { "memory" });
            names(span(evidence, "exhausted_in", verdict.exhaustion), "top_growth", top())
        })
    }

    fn heap_growth_explained(&self) -> Option<Detection> {
        let verdict = self.watched.memory.verdict();
        let since = verdict.since.filter(|_| verdict.state == TrendState::GrowthExplained)?;
        let evidence = || {
            let evidence = bytes(self.evidence(), "explained", Some(verdict.explained));
            count(evidence, "objects", verdict.objects).with("window", Value::Span(verdict.window))
        };
        Some(self.detection(FindingCode::HeapGrowthExplained, since, evidence))
    }

    fn task_leak(&self, top: &dyn Fn() -> Vec<String>) -> Option<Detection> {
        self.leak(FindingCode::TaskLeak, &self.watched.tasks, |verdict| {
            let evidence = self.task_evidence();
            let evidence = count(evidence, "rise", verdict.rise).with("window", Value::Span(verdict.window));
            let evidence = evidence.with("per_hour", Value::Number(verdict.slope.unwrap_or_default()));
            names(evidence, "top_growth", top())
        })
    }

    fn task_limit(&self, top: &dyn Fn() -> Vec<String>) -> Option<Detection> {
        let level = self.task_level()?;
        let evidence =
            || names(self.task_evidence().with("threshold", Value::Count(whole(level))), "top_growth", top());
        Some(self.detection(FindingCode::TaskLimit, self.now, evidence))
    }

    fn thrash(&self) -> Option<Detection> {
        let Watched { collector, last, .. } = self.watched;
        let since = collector.since?;
        let evidence = || {
            let evidence = bytes(bytes(self.evidence(), "limit", last.runtime_limit), "used", last.memory);
            let evidence = bytes(evidence, "heap_goal", last.heap_goal);
            match collector.rate {
                Some(rate) => evidence.with("collections_per_second", Value::Number(rate)),
                None => evidence,
            }
        };
        let due = since.after(self.settings.thrash_after);
        let detection = Detection::new(self.now, FindingCode::GarbageCollectionThrash, since, due, evidence);
        // Without a word of the runtime itself, fast collections may be due to much work.
        Some(detection.suspected_if(!collector.is_limited(self.now) && last.gc_limited_cycle.is_some()))
    }

    fn descriptor_leak(&self) -> Option<Detection> {
        let Watched { descriptors, last, .. } = self.watched;
        let evidence = |verdict: &TrendVerdict| {
            let evidence = count(self.evidence(), "descriptors", last.descriptors.unwrap_or_default());
            let evidence = match last.max_descriptors {
                Some(limit) => count(evidence, "limit", limit),
                None => evidence,
            };
            let evidence = count(evidence, "rise", verdict.rise).with("window", Value::Span(verdict.window));
            span(evidence, "exhausted_in", verdict.exhaustion)
        };
        let verdict = descriptors.verdict();
        let share = last.descriptors.zip(last.max_descriptors).map(|(open, limit)| 100.0 * open / limit);
        if share.is_some_and(|share| share > f64::from(self.settings.descriptors_percent)) {
            let since = verdict.since.unwrap_or(self.now);
            return Some(self.detection(FindingCode::FileDescriptorLeak, since, || evidence(&verdict)));
        }
        self.leak(FindingCode::FileDescriptorLeak, descriptors, evidence)
    }

    fn memory_large(&self, top: &dyn Fn() -> Vec<String>) -> Option<Detection> {
        let level = self.memory_level()?;
        let evidence = || {
            let evidence = bytes(self.evidence(), "used", self.watched.last.used);
            names(bytes(evidence, "threshold", Some(level as f64)), "top_growth", top())
        };
        Some(self.detection(FindingCode::MemoryLarge, self.now, evidence))
    }

    /// Returns a finding about a trend that is suspected or confirmed.
    fn leak(
        &self,
        code: FindingCode,
        trend: &Trend,
        evidence: impl FnOnce(&TrendVerdict) -> Evidence,
    ) -> Option<Detection> {
        let verdict = trend.verdict();
        Reason::of(&verdict)?;
        let since = verdict.since.unwrap_or(self.now);
        Some(self.detection(code, since, || evidence(&verdict)).suspected_if(verdict.state == TrendState::Suspected))
    }

    /// Returns the profiles that would show more about the problems, each with its most urgent reason.
    fn wanted(&self) -> Vec<(ProfileKind, Reason)> {
        let Watched { memory, tasks, forecast, .. } = self.watched;
        let threshold = |crossed: bool| crossed.then_some(Reason::Threshold);
        let heap = [Reason::of(&memory.verdict()), threshold(self.memory_level().is_some())];
        let last_minute = forecast.exhaustion().map(|_| Reason::Confirmed);
        let goroutines = [Reason::of(&tasks.verdict()), threshold(self.task_level().is_some())];
        let heap = heap.into_iter().chain([last_minute]).flatten().max().map(|reason| (ProfileKind::Heap, reason));
        let goroutines = goroutines.into_iter().flatten().max().map(|reason| (ProfileKind::Goroutines, reason));
        heap.into_iter().chain(goroutines).collect()
    }

    /// Returns the highest threshold that the number of goroutines exceeds. Threads have none.
    fn task_level(&self) -> Option<u64> {
        let tasks = self.watched.last.tasks.filter(|_| self.watched.last.goroutines)?;
        self.settings.goroutine_levels.iter().copied().filter(|level| tasks > *level as f64).max()
    }

    /// Returns the highest threshold that the memory exceeds.
    fn memory_level(&self) -> Option<u64> {
        let used = self.watched.last.used?;
        self.settings.memory_levels.iter().copied().filter(|level| used > *level as f64).max()
    }

    fn detection(&self, code: FindingCode, since: Timestamp, evidence: impl FnOnce() -> Evidence) -> Detection {
        Detection::new(self.now, code, since.min(self.now), self.now, evidence)
    }

    fn evidence(&self) -> Evidence {
        Evidence::new().text("instance", self.name)
    }

    fn task_evidence(&self) -> Evidence {
        let last = &self.watched.last;
        let evidence = count(self.evidence(), "tasks", last.tasks.unwrap_or_default());
        evidence.text("type", if last.goroutines { "goroutines" } else { "threads" })
    }

    fn growth(&self, verdict: &TrendVerdict) -> Evidence {
        let evidence = self.evidence();
        let Some(slope) = verdict.slope.filter(|slope| *slope > 0.0) else { return evidence };
        let evidence = bytes(bytes(evidence, "per_hour", Some(slope)), "rise", Some(verdict.rise));
        let evidence = evidence.with("window", Value::Span(verdict.window));
        if verdict.explained > 0.0 { bytes(evidence, "explained", Some(verdict.explained)) } else { evidence }
    }
}

fn bytes(evidence: Evidence, key: &'static str, number: Option<f64>) -> Evidence {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
    match number {
        Some(number) => evidence.with(key, Value::Bytes(number.max(0.0) as u64)),
        None => evidence,
    }
}

fn count(evidence: Evidence, key: &'static str, number: f64) -> Evidence {
    #[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
    evidence.with(key, Value::Count(number.round() as i64))
}

fn span(evidence: Evidence, key: &'static str, span: Option<Span>) -> Evidence {
    match span {
        Some(span) => evidence.with(key, Value::Span(span)),
        None => evidence,
    }
}

fn names(evidence: Evidence, key: &'static str, names: Vec<String>) -> Evidence {
    if names.is_empty() { evidence } else { evidence.with(key, Value::Names(names)) }
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
