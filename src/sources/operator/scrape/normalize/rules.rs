//! The form of the tables of rules.

use std::borrow::Cow;

use loopwatch_model::observation::{Framework, RECONCILE_BOUNDS, Runtime};

use crate::sources::operator::scrape::text::Labels;

/// The metrics of one framework, or of one language runtime.
pub(super) struct Table {
    /// The framework; `None` for a language runtime.
    pub(super) framework: Option<Framework>,
    /// Where a series may name its controller; the first place that applies counts. If several
    /// places name the same controller, each signal comes from the first one that has it, so
    /// nothing counts twice.
    pub(super) who: &'static [Who],
    /// Further tables with signals of the framework's controllers.
    pub(super) also: &'static [Framework],
    pub(super) rules: &'static [Rule],
}

/// Where a series names its controller.
#[derive(Clone, Copy, Debug)]
pub(super) enum Who {
    /// In a label.
    Label(&'static str),
    /// In a label, before this suffix.
    Before(&'static str, &'static str),
    /// In the name of the metric, beside the part that the rule names.
    Rest,
}

/// One rule: which series contribute to which signal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    pub(super) metric: Metric,
    /// A label that must have one of these values. A series with another value counts as 0.
    pub(super) only: Option<(&'static str, &'static [&'static str])>,
    pub(super) signal: Signal,
    /// How several series become one value.
    pub(super) take: Take,
    /// The factor from the metric's unit to that of the signal.
    pub(super) factor: f64,
    /// The rank among rules of the same signal. Only the lowest rank that is present counts.
    pub(super) rank: u8,
}

/// The name of a metric.
#[derive(Clone, Copy, Debug)]
pub(super) enum Metric {
    /// This name.
    Is(&'static str),
    /// A name that begins like this.
    Begins(&'static str),
    /// A name with this suffix. Before it comes the name of a component.
    Ends(&'static str),
}

/// How several series become one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Take {
    /// Their sum. If one is negative or not a number, the signal is absent.
    Sum,
    /// The sum of those that are neither negative nor not a number.
    SumOfKnown,
    /// Subtracted from the sum.
    Less,
    /// The largest of them.
    Largest,
    /// Nothing, except that the signal is 0 unless another rule adds to it: the framework creates a
    /// counter only on its first increment.
    Zero,
}

/// A signal of the vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    Succeeded,
    Failed,
    Requeued,
    Panicked,
    Reconciles,
    ReconcileSeconds,
    /// The reconciles that took no longer than the bound in the label `le`. The factor of its rule
    /// applies to the bound.
    ReconcilesWithin,
    WorkersBusy,
    WorkersMax,
    QueueDepth,
    QueueAdds,
    QueueRetries,
    QueueWaits,
    QueueSeconds,
    Unfinished,
    LongestRunning,
    Started,
    CpuSeconds,
    Resident,
    LiveHeap,
    HeapGoal,
    RuntimeLimit,
    GcPercent,
    GcCycles,
    GcLimitedCycle,
    Goroutines,
    Threads,
    OpenFds,
    MaxFds,
    Requests,
    WebhookCalls,
    WebhookSeconds,
    Leading,
    /// Only the presence of the framework.
    Framework,
    Runtime(Runtime),
}

impl Table {
    /// Returns the name of the controller, and the number of the place that names it.
    pub(super) fn controller<'a>(
        &self,
        metric: &'a str,
        rule: &Rule,
        labels: Labels<'a>,
    ) -> Option<(usize, Cow<'a, str>)> {
        let named = self.who.iter().enumerate().find_map(|(lane, who)| {
            let name = match who {
                Who::Label(label) => labels.get(label),
                Who::Before(label, ending) => match labels.get(label)? {
                    Cow::Borrowed(name) => name.strip_suffix(ending).map(Cow::Borrowed),
                    Cow::Owned(name) => {
                        name.strip_suffix(ending).map(|name| Cow::Owned(name.to_owned()))
                    }
                },
                Who::Rest => match rule.metric {
                    Metric::Begins(beginning) => metric.strip_prefix(beginning).map(Cow::Borrowed),
                    Metric::Ends(ending) => metric.strip_suffix(ending).map(Cow::Borrowed),
                    Metric::Is(_) => None,
                },
            };
            Some((lane, name?))
        });
        named.filter(|(_, name)| !name.is_empty())
    }
}

impl Rule {
    pub(super) const fn sum(metric: &'static str, signal: Signal) -> Self {
        Self {
            metric: Metric::Is(metric),
            only: None,
            signal,
            take: Take::Sum,
            factor: 1.0,
            rank: 0,
        }
    }

    pub(super) const fn largest(metric: &'static str, signal: Signal) -> Self {
        Self { take: Take::Largest, ..Self::sum(metric, signal) }
    }

    pub(super) const fn zero(metric: &'static str, signal: Signal) -> Self {
        Self { take: Take::Zero, ..Self::sum(metric, signal) }
    }

    pub(super) const fn begins(beginning: &'static str, signal: Signal) -> Self {
        Self { metric: Metric::Begins(beginning), ..Self::sum("", signal) }
    }

    pub(super) const fn ends(ending: &'static str, signal: Signal) -> Self {
        Self { metric: Metric::Ends(ending), ..Self::sum("", signal) }
    }

    pub(super) const fn only(self, label: &'static str, values: &'static [&'static str]) -> Self {
        Self { only: Some((label, values)), ..self }
    }

    pub(super) const fn take(self, take: Take) -> Self {
        Self { take, ..self }
    }

    pub(super) const fn times(self, factor: f64) -> Self {
        Self { factor, ..self }
    }

    pub(super) const fn rank(self, rank: u8) -> Self {
        Self { rank, ..self }
    }

    /// Returns the position among [`RECONCILE_BOUNDS`] of the bound of a bucket; `None` for others.
    pub(super) fn bound(&self, labels: Labels<'_>) -> Option<usize> {
        /// Two bounds are the same if they differ by less than this part: `250 * 0.001`.
        const SAME: f64 = 1e-9;

        let bound: f64 = labels.get("le")?.parse().ok()?;
        let bound = bound * self.factor;
        RECONCILE_BOUNDS.iter().position(|known| (bound - known).abs() <= known * SAME)
    }

    /// Whether a series counts for this rule; `None` if it lacks the label.
    pub(super) fn matches(&self, labels: Labels<'_>) -> Option<bool> {
        let Some((label, values)) = self.only else { return Some(true) };
        labels.get(label).map(|value| values.contains(&&*value))
    }
}

impl Signal {
    /// The signals with a number.
    pub(super) const NUMBERS: usize = Self::MaxFds.index() + 1;

    /// The index on a sheet of a signal with a number.
    pub(super) const fn index(self) -> usize {
        match self {
            Self::Succeeded => 0,
            Self::Failed => 1,
            Self::Requeued => 2,
            Self::Panicked => 3,
            Self::Reconciles => 4,
            Self::ReconcileSeconds => 5,
            Self::WorkersBusy => 6,
            Self::WorkersMax => 7,
            Self::QueueDepth => 8,
            Self::QueueAdds => 9,
            Self::QueueRetries => 10,
            Self::QueueWaits => 11,
            Self::QueueSeconds => 12,
            Self::Unfinished => 13,
            Self::LongestRunning => 14,
            Self::Started => 15,
            Self::CpuSeconds => 16,
            Self::Resident => 17,
            Self::LiveHeap => 18,
            Self::HeapGoal => 19,
            Self::RuntimeLimit => 20,
            Self::GcPercent => 21,
            Self::GcCycles => 22,
            Self::GcLimitedCycle => 23,
            Self::Goroutines => 24,
            Self::Threads => 25,
            Self::OpenFds => 26,
            Self::MaxFds
            | Self::ReconcilesWithin
            | Self::Requests
            | Self::WebhookCalls
            | Self::WebhookSeconds
            | Self::Leading
            | Self::Framework
            | Self::Runtime(_) => 27,
        }
    }

    /// Whether the signal belongs to a controller.
    pub(super) const fn is_of_controller(self) -> bool {
        matches!(self, Self::ReconcilesWithin) || self.index() <= Self::LongestRunning.index()
    }
}
