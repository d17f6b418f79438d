//! Conditions and phases over time: how many objects are in each, and whether they flap or cycle
//! without a spec change.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::finding::FindingCode;
use crate::model::convergence::object_context::{ObjectContext, Update};
use crate::model::findings::detection::events_needed;
use crate::model::status::reading::{self, Verdict};
use crate::model::world::intern::{ConditionSet, Symbol};
use crate::model::world::kinds::pace::Wait;
use crate::model::world::store::{Flag, History, Obligation, Transitions};
use crate::observation::Condition;
use crate::settings::bounds::KEPT_TRANSITIONS;
use crate::snapshot::{ConditionState, DeadlineSource};
use crate::time::{Span, Timestamp};

/// The number of conditions per object whose transitions are kept.
const MAX_CONDITIONS_WITH_HISTORY: usize = 8;

/// How often an object may stay in a phase as long as nearly all other objects of its kind.
const STAY_FACTOR: i64 = 3;

/// The longest time that loopwatch learns for a phase.
const LONGEST_STAY: Span = Span::hours(24);

impl ObjectContext<'_> {
    /// Sets the object's phase. Returns `false` if the kind has too many distinct phases to count
    /// this one.
    pub(crate) fn update_phase(&mut self, update: &Update<'_>, phase: Symbol) -> bool {
        let old = std::mem::replace(&mut self.record.phase, phase);
        if update.verdict == Verdict::Finished {
            // A run is complete, and the next one goes through all phases again.
            self.clear_phases();
        }

        if old == phase && !update.new {
            return true;
        }

        self.uncount_phase(old);
        self.learn_stay(update, old);
        if reading::is_resting_phase(self.texts.get(phase))
            && (self.rolls_out() || self.stayed_ready(update))
        {
            // One replica is done, and the next may go through all phases again. So may the next
            // work on an object that is ready all the time.
            self.clear_phases();
        } else if !update.new {
            self.add_phase_change(update, old, phase);
        } else if let Some(hot) = self.record.hot.as_mut() {
            hot.phase_since = update.restored.phase_stuck;
        }

        let name = self.texts.get(phase);
        if name.is_empty() {
            return true;
        }

        let phases = &mut self.kind.totals.phases;
        let fits = phases.len() < self.settings.limits.phases || phases.contains_key(name);
        if fits {
            *phases.entry(name.clone()).or_default() += 1;
        }

        self.record.flags.set(Flag::PhaseCounted, fits);
        fits
    }

    /// Learns how long the object was in a transitional phase that it has just left.
    fn learn_stay(&mut self, update: &Update<'_>, phase: Symbol) {
        let (now, settings) = (self.now, self.settings);
        let name = self.texts.get(phase);
        let seen = update.live && !update.new && !update.spec_changed && !name.is_empty();
        if !seen || update.old_verdict != Verdict::Progressing {
            return;
        }

        let entered = self.record.hot.as_ref().and_then(|hot| hot.phase_since);
        let measured = self.record.obligation().is_some_and(Obligation::is_measured);
        let Some(since) = self.in_phase_since().filter(|_| entered.is_some() || measured) else {
            return;
        };

        let served = self.regained <= since && self.operator_failed <= since;
        if served {
            let usual = now < since.after(self.longest_stay(name).max(settings.phase_stuck_after));
            let stay = Wait { from: since, to: now };
            self.kind.phases.left(name, self.is_created(), stay, usual);
        }
    }

    /// Returns whether the object has not converged since its creation.
    fn is_created(&self) -> bool {
        self.record.obligation().is_some_and(|obligation| obligation.creation)
    }

    /// Returns how long the object may stay in a phase: three times as long as nearly all objects
    /// of its kind, or else as long as the whole work may take. A deadline that somebody has set
    /// applies as it is.
    pub(crate) fn longest_stay(&self, phase: &Arc<str>) -> Span {
        if let Some(annotated) = self.annotated_deadline {
            return annotated;
        }

        let (deadline, source) = self.kind.longest_deadline(self.settings);
        let usual = self.kind.phases.usual(phase, self.is_created(), self.settings.learn_after);
        match usual.filter(|_| source != DeadlineSource::Configured) {
            Some(usual) => Span(usual.0.saturating_mul(STAY_FACTOR)).min(LONGEST_STAY),
            None => deadline,
        }
    }

    /// Sets the object's conditions. Returns `false` if the kind has too many condition types to
    /// count them. The limit allows four statuses per type.
    pub(crate) fn update_conditions(&mut self, update: &Update<'_>, conditions: Symbol) -> bool {
        let old = std::mem::replace(&mut self.record.conditions, conditions);
        if old == conditions && !update.new {
            return true;
        }

        self.uncount_conditions(old);
        let (before, after) =
            (self.condition_sets.get(old).clone(), self.condition_sets.get(conditions).clone());
        let flaps_fit = update.new || self.add_transitions(update, &before, &after);
        let counted = &mut self.kind.totals.conditions;
        let added = after.iter().filter(|condition| !counted.contains_key(condition)).count();
        let fits = counted.len() + added <= self.settings.limits.condition_types.saturating_mul(4);

        if fits {
            after.iter().for_each(|condition| *counted.entry(condition.clone()).or_default() += 1);
        }

        self.record.flags.set(Flag::ConditionsCounted, fits);
        fits && flaps_fit
    }

    /// Removes the object from its kind's counts of phases and conditions.
    pub(crate) fn uncount_phase_and_conditions(&mut self) {
        self.uncount_phase(self.record.phase);
        self.uncount_conditions(self.record.conditions);
    }

    fn uncount_phase(&mut self, phase: Symbol) {
        if self.record.flags.has(Flag::PhaseCounted) {
            decrement(&mut self.kind.totals.phases, self.texts.get(phase));
            self.record.flags.set(Flag::PhaseCounted, false);
        }
    }

    fn uncount_conditions(&mut self, conditions: Symbol) {
        if self.record.flags.has(Flag::ConditionsCounted) {
            for condition in self.condition_sets.get(conditions).iter() {
                decrement(&mut self.kind.totals.conditions, condition);
            }
            self.record.flags.set(Flag::ConditionsCounted, false);
        }
    }

    /// Clears the history of phases and conditions. After a spec change the object may go through
    /// all phases and conditions again.
    pub(crate) fn clear_history(&mut self) {
        if let Some(history) = self.record.hot.as_mut().and_then(|hot| hot.history.as_mut()) {
            history.phases.clear();
            history.transitions.clear();
        }
    }

    /// Clears the phases in the history. The object has come to rest, so its phase changes were not
    /// a cycle.
    fn clear_phases(&mut self) {
        if let Some(history) = self.record.hot.as_mut().and_then(|hot| hot.history.as_mut()) {
            history.phases.clear();
        }
    }

    /// Returns the condition that flaps most, the number of its transitions within the window, and
    /// the time of the first one.
    pub(crate) fn flapping(&self) -> Option<(&Transitions, usize, Timestamp)> {
        let history = self.record.hot.as_ref()?.history.as_ref()?;
        let window = self.settings.flap_window;
        let counted = history.transitions.iter().map(|t| {
            let within = t.changes.iter().copied().filter(|at| at.after(window) > self.now);
            (t, within.clone().count(), within.clone().next().unwrap_or(self.now))
        });
        let enough = self.threshold(FindingCode::ConditionFlapping, self.settings.flap_transitions);

        counted.filter(|(_, count, _)| *count >= enough).max_by_key(|(_, count, _)| *count)
    }

    /// Returns the phases of a cycle, the number of returns to an earlier phase within the window,
    /// and the time at which the cycle began.
    pub(crate) fn cycling(&self) -> Option<(Vec<String>, usize, Timestamp)> {
        let history = self.record.hot.as_ref()?.history.as_ref()?;
        let within: Vec<_> = history
            .phases
            .iter()
            .filter(|(at, _)| at.after(self.settings.cycle_window) > self.now)
            .collect();
        let returns = within
            .iter()
            .enumerate()
            .filter(|(i, (_, phase))| within[..*i].iter().any(|(_, p)| p == phase))
            .count();

        if returns < self.threshold(FindingCode::PhaseCycling, self.settings.cycle_returns) {
            return None;
        }

        let mut phases: Vec<String> = Vec::new();
        for (_, phase) in &within {
            let name = phase.to_string();
            if !phases.contains(&name) {
                phases.push(name);
            }
        }

        Some((phases, returns, within.first().map_or(self.now, |(at, _)| *at)))
    }

    /// Returns how many events within the window keep a finding open, given the number that opens
    /// it: half as many, rounded up, so that the finding does not flap around the threshold.
    pub(crate) fn threshold(&self, code: FindingCode, to_open: u32) -> usize {
        events_needed(self.has_finding(code), to_open) as usize
    }

    /// Returns the start of the time that counts as spent in the current phase: when the object
    /// entered it, or when it became expected to converge to its current spec, whichever is later.
    /// Before that, the object was not expected to leave the phase, for example because it was
    /// paused.
    pub(crate) fn in_phase_since(&self) -> Option<Timestamp> {
        let hot = self.record.hot.as_ref()?;
        let entered = hot.phase_since;
        let unconverged = hot.unconverged.as_ref();
        let expected_since = unconverged.map(|unconverged| {
            unconverged
                .obligation
                .as_ref()
                .map_or(unconverged.since, |obligation| obligation.opened)
        });

        entered.max(expected_since)
    }

    /// Returns when the next entry of the history leaves its window, which may close a finding.
    pub(crate) fn history_due(&self) -> Option<Timestamp> {
        let history = self.record.hot.as_ref()?.history.as_ref()?;
        let next = |times: &mut dyn Iterator<Item = Timestamp>, window: Span| {
            times.map(|at| at.after(window)).find(|leaves| *leaves > self.now)
        };
        let flaps = history
            .transitions
            .iter()
            .filter_map(|t| next(&mut t.changes.iter().copied(), self.settings.flap_window));

        let phases =
            next(&mut history.phases.iter().map(|(at, _)| *at), self.settings.cycle_window);
        flaps.chain(phases).chain(self.finalizer_changes_due()).min()
    }

    fn add_phase_change(&mut self, update: &Update<'_>, old: Symbol, phase: Symbol) {
        let now = self.now;
        if let Some(hot) = self.record.hot.as_mut() {
            hot.phase_since = Some(now);
        }

        let (old, phase) = (self.texts.get(old).clone(), self.texts.get(phase).clone());
        let changes = self
            .record
            .hot
            .as_ref()
            .and_then(|hot| hot.history.as_ref())
            .map(|history| &history.phases);

        let alternates = changes
            .is_some_and(|changes| changes.iter().rev().take(2).any(|(_, shown)| *shown == phase));

        // A rolling update may alternate between two phases once per replica without showing a
        // resting phase.
        if update.spec_changed || (alternates && self.rolls_out()) {
            return;
        }

        let Some(history) = self.history() else { return };
        if history.phases.is_empty() && !old.is_empty() {
            // The old phase began earlier, but the exact time does not matter.
            history.phases.push_back((now, old));
        }

        push_bounded(&mut history.phases, (now, phase));
        self.record.hot_mut().phase_since = Some(now);
    }

    /// Returns whether the object has been ready since it left its last resting phase: a condition
    /// that sums it up was true and still is, and none has had a transition.
    fn stayed_ready(&self, update: &Update<'_>) -> bool {
        let Some(history) = self.record.hot.as_ref().and_then(|hot| hot.history.as_ref()) else {
            return false;
        };
        let phases = &history.phases;
        let rested = phases.iter().rposition(|(_, phase)| reading::is_resting_phase(phase));
        let left = phases.get(rested.map_or(0, |at| at + 1)).map_or(self.now, |(at, _)| *at);
        let last_transition =
            history.transitions.iter().filter_map(|t| t.changes.back()).copied().max();
        let before = self.condition_sets.get(self.record.conditions);
        let now = update.view.conditions.iter().filter(|condition| condition.at.is_empty());

        last_transition.is_none_or(|last| last < left)
            && ![update.old_verdict, update.verdict].contains(&Verdict::Failed)
            && reading::stands(before.iter().map(|c| (&*c.r#type, c.status)))
            && reading::stands(now.map(|c| (c.r#type.as_str(), c.status.as_str())))
    }

    /// Returns `false` if the kind has too many condition types to count the flaps of all of them.
    fn add_transitions(
        &mut self,
        update: &Update<'_>,
        before: &ConditionSet,
        after: &ConditionSet,
    ) -> bool {
        let mut all_fit = true;
        if update.spec_changed {
            return all_fit;
        }

        for ConditionState { r#type: condition, status } in after {
            let earlier = before.iter().find(|other| other.r#type == *condition);
            if earlier.is_none_or(|earlier| earlier.status == *status)
                || !reading::describes_health(condition)
            {
                continue;
            }

            let known = self.kind.totals.flaps.len() < self.settings.limits.condition_types
                || self.kind.totals.flaps.contains_key(condition);
            if known {
                *self.kind.totals.flaps.entry(condition.clone()).or_default() += 1;
            } else {
                all_fit = false;
            }

            let shown = update.view.conditions.iter().find(|c| *c.r#type == **condition);
            let from = earlier.map_or("", |earlier| earlier.status);
            // A rolling update may make the object unavailable once per replica.
            if self.rolls_out() || self.is_step_of_work(condition, (from, status), shown) {
                continue;
            }

            let reason = shown.map(|c| c.reason.clone()).unwrap_or_default();
            self.add_transition(condition, reason);
        }

        all_fit
    }

    /// Returns whether a transition only shows that the operator works on the object: a condition is
    /// `Unknown` while it does, and then true again, or false as before. The second transition counts
    /// unless it leads back to the state in which the object was before, according to the transitions that
    /// have counted since it stopped being converged.
    fn is_step_of_work(
        &self,
        condition: &Arc<str>,
        statuses: (&str, &str),
        shown: Option<&Condition>,
    ) -> bool {
        let has_failed = || {
            let since = self.record.unconverged().map(|unconverged| unconverged.since);
            let last = self.last_transition(condition);
            last.zip(since).is_some_and(|(last, since)| last >= since)
        };
        match statuses {
            ("true" | "false", "unknown") => shown.is_some_and(reading::reports_work),
            ("unknown", "true") => !has_failed(),
            ("unknown", "false") => has_failed(),
            _ => false,
        }
    }

    /// Returns when a condition last had a transition that counts.
    fn last_transition(&self, condition: &Arc<str>) -> Option<Timestamp> {
        let history = self.record.hot.as_ref()?.history.as_ref()?;
        let of = history.transitions.iter().find(|t| t.condition == *condition)?;
        of.changes.back().copied()
    }

    fn add_transition(&mut self, condition: &Arc<str>, reason: String) {
        let (now, half_window) = (self.now, Span(self.settings.flap_window.0 / 2));
        let Some(History { transitions, .. }) = self.history() else { return };
        if transitions.len() >= MAX_CONDITIONS_WITH_HISTORY {
            // Conditions that have not changed recently do not flap, so the limit drops them first.
            let recent = |t: &Transitions| {
                t.changes.back().is_some_and(|last| last.after(half_window) > now)
            };
            transitions.retain(|t| t.condition == *condition || recent(t));
        }

        let position = transitions.iter().position(|t| t.condition == *condition).or_else(|| {
            (transitions.len() < MAX_CONDITIONS_WITH_HISTORY).then(|| {
                transitions.push(Transitions {
                    condition: condition.clone(),
                    changes: VecDeque::new(),
                    reasons: Vec::new(),
                });

                transitions.len() - 1
            })
        });

        let Some(entry) = position.and_then(|position| transitions.get_mut(position)) else {
            return;
        };
        push_bounded(&mut entry.changes, now);
        if !reason.is_empty() && entry.reasons.len() < 2 && !entry.reasons.contains(&reason) {
            entry.reasons.push(reason);
        }
    }

    pub(crate) fn history(&mut self) -> Option<&mut History> {
        if !self.may_add_history && self.record.hot.as_ref().is_none_or(|hot| hot.history.is_none())
        {
            self.history_denied = true;
            return None;
        }

        Some(self.record.hot_mut().history.get_or_insert_with(Box::default))
    }
}

/// Appends a value and drops the oldest one if there are more than [`KEPT_TRANSITIONS`].
fn push_bounded<T>(ring: &mut VecDeque<T>, value: T) {
    if ring.len() >= KEPT_TRANSITIONS {
        ring.pop_front();
    }
    ring.push_back(value);
}

/// Decrements the count of `key` and removes it at zero.
fn decrement<K: Ord>(counts: &mut BTreeMap<K, u64>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}
