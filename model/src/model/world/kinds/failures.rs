//! The objects of a kind that fail, by reason and namespace. One user may create many bad objects,
//! so their number alone does not show that the operator fails. It does if objects in several
//! namespaces fail for the same reason at about the same time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::world::store::Slot;
use crate::time::{Span, Timestamp};

/// The objects of a kind that fail.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    /// The objects that converged and now fail with the same spec.
    pub(crate) regressed: FailedObjects,
    /// When their number reached the thresholds.
    pub(crate) failing_since: Option<Timestamp>,
    /// The objects whose spec changes the operator has rejected since it succeeded in their
    /// namespace, or in two others.
    rejected: FailedObjects,
    /// The objects that have failed since before loopwatch saw them, and may have converged before.
    pub(crate) listed: FailedObjects,
    successes: Successes,
    /// A success may have ended rejections since the last review of the kind.
    is_relieved: bool,
}

/// The spec changes of the kind that converged last. Those of one namespace do not show that the
/// operator works for others: one user may have arranged them.
#[derive(Debug, Default)]
struct Successes {
    /// The namespace of the last one, and when it converged.
    last: Option<(Arc<str>, Timestamp)>,
    /// Changes in two namespaces have converged since each rejection up to this time.
    in_two: Option<Timestamp>,
}

/// How one object fails, as its kind counts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) sort: FailureSort,
    /// When a converged object began to fail, or when a rejected spec was written.
    pub(crate) since: Timestamp,
    /// The signal that shows the failure.
    pub(crate) reason: Arc<str>,
}

/// Whether an object fails with a spec that had converged: only those that loopwatch has seen show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureSort {
    Regressed,
    Rejected,
    Listed,
}

/// Objects that fail, and the times at which they began.
#[derive(Debug, Default)]
pub(crate) struct FailedObjects {
    by_time: Objects,
    by_reason: BTreeMap<Arc<str>, Namespaces>,
    /// The number of objects in each namespace that has any.
    by_namespace: BTreeMap<Arc<str>, usize>,
}

type Objects = BTreeSet<(Timestamp, Slot)>;

type Namespaces = BTreeMap<Arc<str>, Objects>;

/// The objects that fail for one reason.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedReason<'a> {
    pub(crate) reason: &'a Arc<str>,
    /// The namespace with most of these objects, unless the reason is common to several namespaces.
    pub(crate) only_in: Option<&'a Arc<str>>,
    /// When the reason became common to two namespaces, or to enough objects of the only one.
    pub(crate) since: Timestamp,
    namespaces: &'a Namespaces,
    /// The objects that failed up to this time do not count.
    ended: Option<Timestamp>,
}

/// How much later than in another namespace a common cause may show.
const TOGETHER: Span = Span::mins(30);

/// The time in which spec changes must be rejected for the same reason.
const REJECTED_WITHIN: Span = Span::hours(24);

impl Failures {
    /// Replaces the failure of an object.
    pub(crate) fn replace(
        &mut self,
        slot: Slot,
        namespace: &Arc<str>,
        old: Option<&Failure>,
        new: Option<&Failure>,
    ) {
        if let Some(old) = old {
            self.of_sort(old.sort).remove(slot, namespace, old);
        }

        let is_over = |new: &Failure| {
            new.sort == FailureSort::Rejected && self.successes.end(namespace, new.since)
        };
        if let Some(new) = new.filter(|new| !is_over(new)) {
            self.of_sort(new.sort).add(slot, namespace, new);
        }
    }

    /// Notes that a spec change in a namespace has converged. This ends the rejections there, and all
    /// of them if a change in another namespace has converged since the first.
    pub(crate) fn succeeded(&mut self, namespace: &Arc<str>, now: Timestamp) {
        self.is_relieved |= !self.rejected.is_empty();
        self.rejected.remove_namespace(namespace);

        let first = self.rejected.iter().next().map(|(at, _)| *at);
        if self.successes.note(namespace, now, first) {
            self.rejected = FailedObjects::default();
        }
    }

    /// Returns the reason for which the operator rejected `needed` objects of several namespaces
    /// within a day. Where only two namespaces have any, a success in one of them shows that the
    /// operator works: the other one's user may be the reason.
    pub(crate) fn rejected_reason(&self, needed: usize) -> Option<SharedReason<'_>> {
        self.rejected.recent_reason(needed, self.successes.last.as_ref())
    }

    /// Returns the namespaces with objects that fail for a reason, with or without spec changes of
    /// their own.
    pub(crate) fn namespaces_of<'a>(
        &'a self,
        reason: &str,
        sort: FailureSort,
    ) -> impl Iterator<Item = &'a Arc<str>> {
        let objects = match sort {
            FailureSort::Regressed => &self.regressed,
            FailureSort::Rejected => &self.rejected,
            FailureSort::Listed => &self.listed,
        };
        objects.by_reason.get(reason).into_iter().flat_map(BTreeMap::keys)
    }

    /// Returns whether a success may have ended rejections since the last call.
    pub(crate) fn take_relief(&mut self) -> bool {
        std::mem::take(&mut self.is_relieved)
    }

    /// Returns `signal`, shared with other objects that fail with it.
    pub(crate) fn reason(&self, signal: &str) -> Arc<str> {
        let known =
            [&self.regressed, &self.rejected, &self.listed].into_iter().find_map(|objects| {
                objects.by_reason.get_key_value(signal).map(|(reason, _)| reason.clone())
            });
        known.unwrap_or_else(|| signal.into())
    }

    /// Forgets all objects after a change of the clock. Their records say which instants have moved.
    pub(crate) fn rebase(&mut self, by_ms: i64) {
        (self.regressed, self.rejected, self.listed) = Default::default();
        self.failing_since = None;
        self.successes.rebase(by_ms);
    }

    fn of_sort(&mut self, sort: FailureSort) -> &mut FailedObjects {
        match sort {
            FailureSort::Regressed => &mut self.regressed,
            FailureSort::Rejected => &mut self.rejected,
            FailureSort::Listed => &mut self.listed,
        }
    }
}

impl Successes {
    /// Notes a success, and returns whether it ends all rejections, of which `first` is the first.
    fn note(&mut self, namespace: &Arc<str>, now: Timestamp, first: Option<Timestamp>) -> bool {
        let last = self.last.replace((namespace.clone(), now));
        let Some((_, elsewhere)) = last.filter(|(last, _)| last != namespace) else { return false };

        let ends_all = first.is_some_and(|first| first <= elsewhere);
        self.in_two = Some(if ends_all { now } else { elsewhere });
        ends_all
    }

    /// Returns whether successes have ended a rejection.
    fn end(&self, namespace: &str, since: Timestamp) -> bool {
        self.in_two.is_some_and(|at| since <= at)
            || self.last.as_ref().is_some_and(|(last, at)| **last == *namespace && since <= *at)
    }

    fn rebase(&mut self, by_ms: i64) {
        self.in_two = self.in_two.map(|at| at.shifted(by_ms));
        if let Some((_, at)) = &mut self.last {
            *at = at.shifted(by_ms);
        }
    }
}

impl FailedObjects {
    pub(crate) fn len(&self) -> usize {
        self.by_time.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_time.is_empty()
    }

    /// Returns the objects, beginning with the one that failed first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(Timestamp, Slot)> {
        self.by_time.iter()
    }

    /// Returns the namespaces with objects that fail.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = &Arc<str>> {
        self.by_namespace.keys()
    }

    /// Returns how many objects of a namespace fail.
    pub(crate) fn in_namespace(&self, namespace: &str) -> usize {
        self.by_namespace.get(namespace).copied().unwrap_or_default()
    }

    /// Returns the reason that is most likely a common cause: one that is common to several
    /// namespaces, or else the one of most objects. A namespace counts only if `needed` of its
    /// objects fail for this reason; that function gets one of these objects.
    pub(crate) fn common_reason(&self, needed: impl Fn(Slot) -> usize) -> Option<SharedReason<'_>> {
        let shared = self.by_reason.iter().filter_map(|(reason, namespaces)| {
            let most = namespaces.iter().max_by_key(|(_, objects)| objects.len())?;
            let together = began_together(namespaces, &needed);
            let first_enough = enough_since(most.1, &needed);
            Some(SharedReason {
                reason,
                only_in: together.is_none().then_some(most.0),
                since: together.or(first_enough).or_else(|| most.1.first().map(|(at, _)| *at))?,
                namespaces,
                ended: None,
            })
        });

        shared.max_by_key(|shared| (shared.only_in.is_none(), shared.objects()))
    }

    /// Returns the reason for which `needed` objects fail, at whatever times they began, in several
    /// namespaces or `in_one`.
    pub(crate) fn frequent_reason(&self, needed: usize, in_one: bool) -> Option<SharedReason<'_>> {
        let shared = self.by_reason.iter().filter_map(|(reason, namespaces)| {
            if namespaces.len() < 2 && !in_one {
                return None;
            }

            let since = enough_of(namespaces.values().flatten().map(|(at, _)| *at), needed)?;
            Some(SharedReason { reason, only_in: None, since, namespaces, ended: None })
        });

        shared.max_by_key(SharedReason::objects)
    }

    /// Returns the reason for which `needed` objects of several namespaces failed within a day.
    /// Those up to `success` count only if it lies outside of two of these namespaces.
    fn recent_reason(
        &self,
        needed: usize,
        success: Option<&(Arc<str>, Timestamp)>,
    ) -> Option<SharedReason<'_>> {
        let (latest, _) = self.by_time.last()?;
        let day = latest.before(REJECTED_WITHIN);
        let shared = self.by_reason.iter().filter_map(|(reason, namespaces)| {
            let has_any =
                |objects: &Objects, after| objects.last().is_some_and(|(at, _)| *at > after);
            let is_proof = |(succeeded, _): &&(Arc<str>, Timestamp)| {
                let recent = namespaces.iter().filter(|(_, objects)| has_any(objects, day));
                recent.filter(|(name, _)| *name != succeeded).nth(1).is_none()
            };
            let ended = success.filter(is_proof).map(|(_, at)| *at);
            let after = ended.map_or(day, |at| at.max(day));
            namespaces.values().filter(|objects| has_any(objects, after)).nth(1)?; // in several

            let starts = namespaces.values().flatten().map(|(at, _)| *at);
            let since = enough_of(starts.filter(|at| *at > after), needed)?;
            Some(SharedReason { reason, only_in: None, since, namespaces, ended })
        });

        shared.max_by_key(SharedReason::objects)
    }

    fn add(&mut self, slot: Slot, namespace: &Arc<str>, failure: &Failure) {
        let key = (failure.since, slot);
        self.by_time.insert(key);
        let namespaces = self.by_reason.entry(failure.reason.clone()).or_default();
        namespaces.entry(namespace.clone()).or_default().insert(key);
        *self.by_namespace.entry(namespace.clone()).or_default() += 1;
    }

    fn remove(&mut self, slot: Slot, namespace: &str, failure: &Failure) {
        let key = (failure.since, slot);
        if !self.by_time.remove(&key) {
            return; // a success has ended it
        }

        self.forget_one_in(namespace);
        let Some(namespaces) = self.by_reason.get_mut(&failure.reason) else { return };
        if let Some(objects) = namespaces.get_mut(namespace) {
            objects.remove(&key);
            if objects.is_empty() {
                namespaces.remove(namespace);
            }
        }

        if namespaces.is_empty() {
            self.by_reason.remove(&failure.reason);
        }
    }

    fn forget_one_in(&mut self, namespace: &str) {
        let Some(count) = self.by_namespace.get_mut(namespace) else { return };
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.by_namespace.remove(namespace);
        }
    }

    /// Removes the objects of a namespace.
    fn remove_namespace(&mut self, namespace: &str) {
        if self.by_namespace.remove(namespace).is_none() {
            return;
        }

        self.by_reason.retain(|_, namespaces| {
            for key in namespaces.remove(namespace).unwrap_or_default() {
                self.by_time.remove(&key);
            }
            !namespaces.is_empty()
        });
    }
}

impl SharedReason<'_> {
    /// Returns the number of objects that fail for this reason.
    pub(crate) fn objects(&self) -> usize {
        self.namespaces.values().map(|objects| self.counted(objects)).sum()
    }

    /// Returns the number of namespaces in which they are.
    pub(crate) fn namespaces(&self) -> usize {
        self.namespaces.values().filter(|objects| self.counted(objects) > 0).count()
    }

    /// Returns the objects, by namespace.
    pub(crate) fn slots(&self) -> impl Iterator<Item = &Slot> {
        let counts = |since: &Timestamp| self.ended.is_none_or(|ended| *since > ended);
        let objects = self.namespaces.values().flatten();
        objects.filter(move |(since, _)| counts(since)).map(|(_, slot)| slot)
    }

    fn counted(&self, objects: &Objects) -> usize {
        let Some(ended) = self.ended else { return objects.len() };
        objects.iter().rev().take_while(|(since, _)| *since > ended).count()
    }
}

/// Returns when `needed` objects had failed that began to at these times.
fn enough_of(starts: impl Iterator<Item = Timestamp>, needed: usize) -> Option<Timestamp> {
    let mut starts: Vec<Timestamp> = starts.collect();
    let position = needed.saturating_sub(1);
    starts.get(position)?;
    Some(*starts.select_nth_unstable(position).1)
}

/// Returns when enough objects of a second namespace had failed, if that was shortly after those of
/// the first one.
fn began_together(namespaces: &Namespaces, needed: impl Fn(Slot) -> usize) -> Option<Timestamp> {
    let mut starts: BTreeSet<Timestamp> = BTreeSet::new();
    for objects in namespaces.values() {
        let Some(since) = enough_since(objects, &needed) else { continue };
        let earlier = starts.range(..=since).next_back();
        if earlier.is_some_and(|earlier| since <= earlier.after(TOGETHER)) {
            return Some(since);
        }

        let later = starts.range(since..).next();
        if let Some(later) = later.filter(|later| **later <= since.after(TOGETHER)) {
            return Some(*later);
        }

        starts.insert(since);
    }

    None
}

/// Returns when enough objects of a namespace had failed.
fn enough_since(objects: &Objects, needed: impl Fn(Slot) -> usize) -> Option<Timestamp> {
    let (_, slot) = objects.first()?;
    objects.iter().nth(needed(*slot).saturating_sub(1)).map(|(since, _)| *since)
}
