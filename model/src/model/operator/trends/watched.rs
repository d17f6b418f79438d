//! A process whose signals are followed: each sample goes to their trends, to the forecast of its
//! memory, and to the levels that are normal for the operator.

use std::collections::BTreeMap;

use crate::model::operator::trends::baseline::Marks;
use crate::model::operator::trends::collector::Collector;
use crate::model::operator::trends::series::{NormalLevels, Sample, Series, Source};
use crate::model::operator::trends::signals::Signals;
use crate::model::operator::trends::throttling::Throttling;
use crate::model::operator::trends::{Asked, Reason};
use crate::observation::ProfileKind;
use crate::time::{Span, Timestamp};
use crate::trend::{
    Doubt, Forecast, Known, Levels, Swing, Trend, TrendConfig, TrendState, TrendVerdict, hours,
};

/// The trends of a process.
#[derive(Debug)]
pub(super) struct Watched {
    /// Which process of the instance it is.
    pub(super) number: u32,
    /// The number of restarts of its container, if its Pod is visible.
    pub(super) restarts: Option<u32>,
    pub(super) memory: Followed,
    pub(super) tasks: Followed,
    pub(super) descriptors: Followed,
    /// The memory that counts towards the limit.
    pub(super) used: (Series, Swing),
    pub(super) forecast: Forecast,
    pub(super) collector: Collector,
    pub(super) throttling: Throttling,
    pub(super) marks: Marks,
    pub(super) last: Signals,
    /// The latest profile of each kind that the model has asked for.
    pub(super) asked: BTreeMap<ProfileKind, Asked>,
}

/// A signal with its trend.
#[derive(Debug)]
pub(super) struct Followed {
    pub(super) trend: Trend,
    pub(super) series: Series,
    pub(super) swing: Swing,
}

impl Watched {
    /// `started` is the start of the process, or the present if that is not known.
    pub(super) fn new(number: u32, started: Timestamp) -> Self {
        Self {
            number,
            restarts: None,
            memory: Followed::new(TrendConfig::MEMORY, started),
            tasks: Followed::new(TrendConfig::TASKS, started),
            descriptors: Followed::new(TrendConfig::DESCRIPTORS, started),
            used: Default::default(),
            forecast: Forecast::default(),
            collector: Collector::default(),
            throttling: Throttling::default(),
            marks: Marks::default(),
            last: Signals::default(),
            asked: BTreeMap::new(),
        }
    }

    pub(super) fn followed_mut(&mut self) -> [&mut Followed; 3] {
        [&mut self.memory, &mut self.tasks, &mut self.descriptors]
    }

    /// Starts anew if the signals come from another process than before.
    pub(super) fn note_start(&mut self, now: Timestamp, signals: &Signals) {
        let restarted = self.number != signals.number
            || self.restarts.zip(signals.restarts).is_some_and(|(known, seen)| seen > known);
        if restarted {
            let started = signals.started.unwrap_or(now);
            self.followed_mut().into_iter().for_each(|followed| followed.restart(started));
            self.forecast.clear();
            (self.collector, self.marks, self.last, self.used) = Default::default();
            self.throttling = Throttling::default();

            // The time of the last request stays, because profiles must not follow each other too
            // soon.
            self.asked.values_mut().for_each(|asked| asked.reason = Reason::Threshold);
        }

        self.number = signals.number;
        self.restarts = signals.restarts.or(self.restarts);
    }

    pub(super) fn sample(
        &mut self,
        now: Timestamp,
        mut signals: Signals,
        objects: Option<f64>,
        levels: &mut NormalLevels,
    ) {
        let (sources, start) = (signals.sources, signals.started.unwrap_or(now));
        let memory = signals.memory.map(|value| (value, sources.memory));
        let memory = memory.filter(|(_, source)| self.memory.follow(now, *source, start));
        if let Some((value, source)) = memory {
            // Memory that garbage fills by design stays near its normal level.
            let is_filling = signals.may_be_garbage() && !levels.exceed(source, value);
            let doubt = match is_filling {
                true => Doubt::Garbage,
                false if signals.capacity.is_none() => Doubt::Ramp,
                false => Doubt::None,
            };
            let levels = levels.of_mut(source);
            self.memory.sample(now, value, (objects, signals.capacity), doubt, levels);
        } else if self.last.memory.is_some() {
            signals.keep_memory(&self.last);
        }

        let tasks = signals.tasks.map(|value| (value, sources.tasks));
        let tasks = tasks.filter(|(_, source)| self.tasks.follow(now, *source, start));
        if let Some((value, source)) = tasks {
            let levels = levels.of_mut(source);
            self.tasks.sample(now, value, (objects, None), Doubt::Ramp, levels);
        } else if self.last.tasks.is_some() {
            signals.keep_tasks(&self.last);
        }

        if let Some(value) = signals.descriptors {
            let levels = levels.of_mut(Source::Descriptors);
            let beside = (None, signals.max_descriptors);
            self.descriptors.sample(now, value, beside, Doubt::Ramp, levels);
        }

        let has_gap = memory.is_none();
        self.foresee(now, &mut signals, has_gap, levels);
        self.collector.sample(now, &signals);
        self.last = signals;
    }

    /// Forecasts the memory, unless the signal that shows it has a gap. Memory that is normal for
    /// the operator will not exceed its limit.
    fn foresee(
        &mut self,
        now: Timestamp,
        signals: &mut Signals,
        memory_has_gap: bool,
        levels: &mut NormalLevels,
    ) {
        let used_has_gap = !self.take_used(now, signals, levels);
        let (value, capacity) = signals.foreseen();
        let has_gap =
            |source: Source| if source == Source::LiveHeap { memory_has_gap } else { used_has_gap };

        if let Some((value, source)) = value.filter(|(_, source)| !has_gap(*source)) {
            let normal = levels.of(source).and_then(Levels::highest);
            let tells = match signals.is_obscured() {
                true => levels.exceed(source, value),
                false => normal.is_none_or(|normal| value > normal),
            };
            let capacity = capacity.filter(|_| tells);
            self.forecast.sample(now, value, capacity);
        }
    }

    /// Takes the memory that counts towards the limit. Returns whether it belongs to the series.
    fn take_used(
        &mut self,
        now: Timestamp,
        signals: &mut Signals,
        levels: &mut NormalLevels,
    ) -> bool {
        let Some(used) = signals.used else { return false };
        let (series, swing) = &mut self.used;
        let source = signals.sources.used;
        match series.take(now, source) {
            Sample::Next => {}
            Sample::First => {
                *swing = Swing::default();
                self.forecast.clear();
            }
            Sample::Gap => {
                (signals.used, signals.sources.used) = (self.last.used, self.last.sources.used);
                return false;
            }
        }

        if self.memory.trend.has_settled(now) {
            let grows = self.memory.trend.standing().state >= TrendState::Suspected
                || self.forecast.exhaustion().is_some();
            swing.sample(now, used, grows, levels.of_mut(source));
        }
        true
    }

    /// Returns the time until the memory reaches its limit, by its trend and by the forecast.
    pub(super) fn time_to_limit(&self, verdict: &TrendVerdict) -> Option<Span> {
        let by_trend = verdict.exhaustion.map(|left| left.max(self.time_to_fill(verdict, left)));
        [by_trend, self.forecast.exhaustion()].into_iter().flatten().min()
    }

    /// Returns the time in which the growth fills the memory that is left below the limit, if the live
    /// heap has outgrown its share of the limit. The next garbage collection will then be too late, but
    /// it is not known when: a runtime may need hours to allocate as much again as it keeps.
    fn time_to_fill(&self, verdict: &TrendVerdict, left: Span) -> Span {
        let Signals { heap, used, limit, .. } = self.last;
        let free = used.zip(limit).map(|(used, limit)| (limit - used).max(0.0));
        let growing = free.zip(verdict.slope.filter(|slope| *slope > 0.0));

        match growing {
            Some((free, slope)) if heap && left == Span::ZERO => hours(free / slope),
            _ => Span::ZERO,
        }
    }

    /// Returns the share of the limit that is in use.
    pub(super) fn share_used(&self) -> Option<f64> {
        Some(self.last.used? / self.last.limit.filter(|limit| *limit > 0.0)?)
    }
}

impl Followed {
    pub(super) fn new(config: TrendConfig, started: Timestamp) -> Self {
        let trend = Trend::new(config, started);
        Self { trend, series: Series::default(), swing: Swing::default() }
    }

    /// Forgets everything, because another process started.
    fn restart(&mut self, started: Timestamp) {
        self.trend.restart(started);
        (self.series, self.swing) = Default::default();
    }

    /// Takes the source of the next value. Returns whether the value belongs to the trend.
    fn follow(&mut self, now: Timestamp, source: Source, started: Timestamp) -> bool {
        let sample = self.series.take(now, source);
        if sample == Sample::First {
            self.trend.restart(started);
            self.swing = Swing::default();
        }

        sample != Sample::Gap
    }

    /// Adds a value. `beside` holds the number of objects and the capacity.
    pub(super) fn sample(
        &mut self,
        now: Timestamp,
        value: f64,
        beside: (Option<f64>, Option<f64>),
        doubt: Doubt,
        levels: &mut Levels,
    ) {
        let is_familiar = doubt == Doubt::Ramp && levels.cover_a_week();
        let doubt = if is_familiar { Doubt::None } else { doubt };
        self.trend.judge_by(Known { normal: levels.highest(), doubt });

        let (objects, capacity) = beside;
        self.trend.sample(now, value, objects, capacity);
        if self.trend.has_settled(now) {
            let grows = self.trend.standing().state >= TrendState::Suspected;
            self.swing.sample(now, value, grows, levels);
        }
    }
}
