//! Kinds, their watches, and the totals that the model counts as objects change.

pub(crate) mod siblings; // of owned objects
pub(crate) mod durations; // learned, of convergences and removals
pub(crate) mod completed; // how far the operator has got
pub(crate) mod failures; // objects that fail, by reason and namespace
pub(crate) mod pace; // slow work or an outage
pub(crate) mod served; // objects that a controller has served, in their order
pub(crate) mod runs; // objects that do their work once and end
pub(crate) mod phases; // how long objects stay in them
pub(crate) mod writes; // of field managers
mod namespace; // of a watch
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::status::coverage::StatusCoverage;
use crate::model::world::finalizer_actors::FinalizerWriters;
use crate::model::world::kinds::completed::Completed;
use crate::model::world::kinds::durations::{Durations, Learned};
use crate::model::world::kinds::failures::Failures;
use crate::model::world::kinds::pace::Pace;
use crate::model::world::kinds::phases::Phases;
use crate::model::world::kinds::runs::Runs;
use crate::model::world::kinds::served::Served;
use crate::model::world::kinds::siblings::Siblings;
use crate::model::world::kinds::writes::Writes;
use crate::model::world::store::Slot;
use crate::observation::{Role, StatusSchema, WatchedKind};
use crate::settings::Settings;
use crate::snapshot::{
    DeadlineSource, EarlierRevisions, FinalizerTotals, KindTotals, NamespaceTotals,
};
use crate::time::{Span, Timestamp};

pub(crate) use self::namespace::WatchNamespace;
#[cfg(test)]
pub(crate) use self::watch::Lists;
pub(crate) use self::watch::{PendingCount, Watch};

/// One kind, over all of its watches.
#[derive(Debug, Default)]
pub(crate) struct Kind {
    pub(crate) group: Arc<str>,
    pub(crate) kind: Arc<str>,
    pub(crate) resource: String,
    pub(crate) version: String,
    pub(crate) role: Role,
    pub(crate) status: StatusSchema,
    /// Nothing shows that this operator serves the kind, so findings about it are only suspected.
    pub(crate) suspected: bool,
    pub(crate) objects: u64,
    pub(crate) silent_status: SilentStatus,
    pub(crate) learned: Learned,
    /// What its owned objects have in common.
    pub(crate) siblings: Siblings,
    pub(crate) totals: KindTotals,
    /// The totals under earlier revisions of the operator; `None` before the first change of
    /// revision.
    pub(crate) earlier: Option<Box<EarlierRevisions>>,
    /// Unconverged objects by the time at which they became so.
    pub(crate) unconverged: BTreeSet<(Timestamp, Slot)>,
    pub(crate) deletions: Deletions,
    /// The latest objects whose spec changes were acknowledged.
    pub(crate) acknowledged: Served,
    pub(crate) completed: Completed,
    /// When the operator answered spec changes.
    pub(crate) pace: Pace,
    /// When a scrape last showed that all workers of a controller of the kind were busy while
    /// objects waited.
    pub(crate) workers_busy: Option<Timestamp>,
    pub(crate) runs: Runs,
    /// How many reasons of Kubernetes Events the Events in each namespace have introduced; at most
    /// `limits.event_reasons` together.
    pub(crate) introduced_reasons: BTreeMap<Box<str>, usize>,
    pub(crate) phases: Phases,
    /// When each controller that writes objects of the kind last did so, by the API server's clock.
    pub(crate) writers: Vec<(Arc<str>, Timestamp)>,
    /// How these and other programs write them, except clients of people.
    pub(crate) writes: Writes,
    pub(crate) failures: Failures,
    pub(crate) malformed_conditions: MalformedConditions,
    /// When the timer of the kind is due.
    pub(crate) due: Option<Timestamp>,
    /// Totals of namespaces that no longer have a place in a watch, so that the counters never go
    /// back.
    pub(crate) retired: BTreeMap<Arc<str>, NamespaceTotals>,
}

/// What the statuses of a kind say, and its objects whose statuses say nothing.
#[derive(Debug, Default)]
pub(crate) struct SilentStatus {
    pub(crate) coverage: StatusCoverage,
    /// The kind has been seen to expect a status.
    pub(crate) shows_status: bool,
    /// Silent objects of the list that is being read.
    pub(crate) listed_silent: BTreeSet<Slot>,
}

/// The objects of a kind that wait for finalizers, and what is known about these.
#[derive(Debug, Default)]
pub(crate) struct Deletions {
    pub(crate) finalizers: BTreeMap<Arc<str>, FinalizerWaits>,
    /// The field managers that add and remove finalizers; at most `limits.finalizers`.
    pub(crate) finalizer_writers: BTreeMap<Arc<str>, FinalizerWriters>,
    /// Removal times of an earlier run, until the first deletion that waits for the finalizer.
    pub(crate) restored_removals: BTreeMap<Arc<str>, Durations>,
}

/// The objects with malformed conditions.
#[derive(Debug, Default)]
pub(crate) struct MalformedConditions {
    pub(crate) malformed: BTreeSet<Slot>,
    /// The lints of their conditions.
    pub(crate) lints: BTreeSet<String>,
    /// When an object last began or ceased to have any.
    pub(crate) seen: Option<Timestamp>,
}

impl MalformedConditions {
    /// Notes whether an object has any. Returns whether that has changed.
    pub(crate) fn set(&mut self, slot: Slot, malformed: bool, now: Timestamp) -> bool {
        let changed = match malformed {
            true => self.malformed.insert(slot),
            false => self.malformed.remove(&slot),
        };
        if changed {
            self.seen = Some(now);
        }
        changed
    }

    /// Forgets those of longer ago than `window`: some operators write them in each rollout only. Returns when
    /// the operator no longer counts as one that writes such conditions, if no object has any now.
    pub(crate) fn forget_old(&mut self, now: Timestamp, window: Span) -> Option<Timestamp> {
        if !self.malformed.is_empty() {
            return None;
        }

        self.seen = self.seen.filter(|seen| now < seen.after(window));
        self.seen.map(|seen| seen.after(window))
    }
}

/// How long the model remembers findings about the objects of a watch that has ended.
pub(crate) const REMEMBERED_FOR: Span = Span::hours(24);

/// Deletions of one kind that wait, or waited, for one finalizer.
#[derive(Debug, Default)]
pub(crate) struct FinalizerWaits {
    pub(crate) waiting: BTreeSet<(Timestamp, Slot)>,
    pub(crate) totals: FinalizerTotals,
    /// How long removals take.
    pub(crate) removals: Durations,
    /// The latest objects from which it was removed.
    pub(crate) removed: Served,
}

/// The name under which namespaces beyond `limits.namespaces` are counted.
pub(crate) const OTHER: &str = "_other";

impl Kind {
    pub(crate) fn new(watched: &WatchedKind) -> Self {
        Self {
            group: watched.group.as_str().into(),
            kind: watched.kind.as_str().into(),
            resource: watched.resource.clone(),
            version: watched.version.clone(),
            role: watched.role,
            status: watched.status,
            ..Self::default()
        }
    }

    /// Returns whether a text names the kind: as `Kind`, `group/Kind` or `Kind.group`.
    pub(crate) fn is_named(&self, text: &str) -> bool {
        let (kind, group) = match (text.split_once('/'), text.split_once('.')) {
            (Some((group, kind)), _) => (kind, Some(group)),
            (None, Some((kind, group))) => (kind, Some(group)),
            (None, None) => (text, None),
        };

        kind.eq_ignore_ascii_case(&self.kind) && group.is_none_or(|group| *group == *self.group)
    }

    /// Returns its name in settings and checkpoints.
    pub(crate) fn name(&self) -> String {
        kind_name(&self.group, &self.kind)
    }

    /// Returns how long an object may take to converge after its creation, or else after an update,
    /// before a finding opens, and where that deadline comes from. A learned deadline is three
    /// times the 95th percentile of all changes, or of the usual late ones if that is longer. It is
    /// at most one day and never less than the default: the next spec change may be the first one
    /// of a slower sort.
    pub(crate) fn deadline(&self, settings: &Settings, creation: bool) -> (Span, DeadlineSource) {
        let durations = if creation { &self.learned.creation } else { &self.learned.update };
        self.configured_or_learned(settings, durations)
    }

    /// Returns how long the operator may take to acknowledge a spec change before a finding opens.
    pub(crate) fn acknowledgement_deadline(&self, settings: &Settings) -> Span {
        self.configured_or_learned(settings, &self.learned.acknowledgement).0
    }

    /// Returns the longer of the deadlines after a creation and after an update, for display.
    pub(crate) fn longest_deadline(&self, settings: &Settings) -> (Span, DeadlineSource) {
        let (creation, update) = (self.deadline(settings, true), self.deadline(settings, false));
        if creation.0 > update.0 { creation } else { update }
    }

    /// Returns the deadline without anything that loopwatch has learned.
    pub(crate) fn unlearned_deadline(&self, settings: &Settings) -> (Span, DeadlineSource) {
        match self.configured_deadline(settings) {
            Some(configured) => (configured, DeadlineSource::Configured),
            None => (settings.deadline, DeadlineSource::Default),
        }
    }

    fn configured_or_learned(
        &self,
        settings: &Settings,
        durations: &Durations,
    ) -> (Span, DeadlineSource) {
        if let Some(configured) = self.configured_deadline(settings) {
            return (configured, DeadlineSource::Configured);
        }

        let learned = durations
            .usual(settings.learn_after)
            .map(|usual| Span(usual.0.saturating_mul(3)).min(Span::hours(24)));
        match learned.filter(|learned| *learned > settings.deadline) {
            Some(learned) => (learned, DeadlineSource::Learned),
            None => (settings.deadline, DeadlineSource::Default),
        }
    }

    /// Returns the deadline that the settings give this kind.
    fn configured_deadline(&self, settings: &Settings) -> Option<Span> {
        settings.deadlines.iter().find(|(name, _)| self.has_deadline(name)).map(|(_, span)| *span)
    }

    /// Returns whether a deadline for `GROUP/KIND` is for this kind. As for `--watch`, the name may be in
    /// any case, and it may be the plural; a name without a group is of the core group.
    pub(crate) fn has_deadline(&self, name: &str) -> bool {
        let (group, kind) = name.rsplit_once('/').unwrap_or(("", name));
        *group == *self.group
            && (kind.eq_ignore_ascii_case(&self.kind) || kind.eq_ignore_ascii_case(&self.resource))
    }

    /// Returns the SLO deadline, after which an obligation counts as late. It is never learned,
    /// because a kind that gets slower would relax its own objective.
    pub(crate) fn slo_deadline(&self, settings: &Settings) -> Span {
        self.configured_deadline(settings).unwrap_or(settings.deadline)
    }

    /// Returns whether each status write increments the generation, so that a higher generation may
    /// not mean a spec change.
    pub(crate) fn generation_is_unreliable(&self) -> bool {
        self.status == StatusSchema::InBody
    }

    /// Moves the totals of a finalizer for which no object waits to those of [`OTHER`]. Returns
    /// whether there is room now.
    pub(crate) fn retire_finalizer(&mut self) -> bool {
        let idle = |(name, waits): (&Arc<str>, &FinalizerWaits)| {
            (waits.waiting.is_empty() && **name != *OTHER).then(|| name.clone())
        };
        let Some(retired) = self
            .deletions
            .finalizers
            .iter()
            .find_map(idle)
            .and_then(|name| self.deletions.finalizers.remove(&name))
        else {
            return false;
        };

        self.deletions.finalizers.entry(OTHER.into()).or_default().totals.add(&retired.totals);
        true
    }

    /// Moves all instants of loopwatch's own clock by `by_ms` milliseconds. The waits for
    /// finalizers begin at deletion timestamps, which the API server wrote.
    pub(crate) fn rebase(&mut self, by_ms: i64) {
        // The records say which of their instants have moved.
        self.unconverged.clear();
        self.failures.rebase(by_ms);
        self.due = self.due.map(|at| at.shifted(by_ms));
        let seen = &mut self.malformed_conditions.seen;
        *seen = seen.map(|at| at.shifted(by_ms));
        self.acknowledged.rebase(by_ms);
        self.pace.rebase(by_ms);
        self.workers_busy = self.workers_busy.map(|at| at.shifted(by_ms));
        self.completed.rebase(by_ms);
        self.runs.rebase(by_ms);
        self.phases.rebase(by_ms);
        let waits = self.deletions.finalizers.values_mut();
        waits.for_each(|waits| waits.removed.rebase(by_ms));
    }
}

/// Returns the name of a kind in settings and checkpoints: `group/Kind`, or `Kind` for the core
/// group.
pub(crate) fn kind_name(group: &str, kind: &str) -> String {
    if group.is_empty() { kind.to_owned() } else { format!("{group}/{kind}") }
}
