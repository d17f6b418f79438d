//! Conditions and phases over time: how many objects are in each, how often they change without a reason in the
//! spec, and whether they go round in circles.

use std::collections::VecDeque;
use std::sync::Arc;

use super::context::{ObjectContext, Seen};
use super::intern::{Shape, Symbol};
use super::reading;
use super::store::{History, Transitions};
use crate::finding::FindingCode;
use crate::observation::{ConditionStatus, FactValue, ObjectView};
use crate::snapshot::ConditionState;
use crate::time::{Span, Timestamp};

/// Entries kept per object: enough for the thresholds, which are far lower.
const HISTORY: usize = 24;

/// Conditions of one object whose transitions are kept.
const CONDITIONS: usize = 8;

// === impl ObjectContext ===

impl ObjectContext<'_> {
    /// Moves the object's phase; `false` when the kind has too many phases to count this one.
    pub(crate) fn change_phase(&mut self, seen: &Seen<'_>, phase: Symbol) -> bool {
        let old = std::mem::replace(&mut self.record.phase, phase);
        if old == phase && !seen.new {
            return true;
        }
        if !seen.new {
            leave(&mut self.kind.totals.phases, self.texts.get(old));
        }
        if !seen.new && !seen.spec_changed {
            self.note_phase(old, phase);
        }
        let name = self.texts.get(phase);
        let known = self.kind.totals.phases.contains_key(name);
        if name.is_empty() {
            return true;
        }
        if !known && self.kind.totals.phases.len() >= self.settings.limits.phases {
            return false;
        }
        *self.kind.totals.phases.entry(name.clone()).or_default() += 1;
        true
    }

    /// Moves the object's conditions; `false` when the kind has too many condition types to count them.
    pub(crate) fn change_conditions(&mut self, seen: &Seen<'_>, shape: Symbol) -> bool {
        let old = std::mem::replace(&mut self.record.shape, shape);
        if old == shape && !seen.new {
            return true;
        }
        let (before, after) = (self.shapes.get(old).clone(), self.shapes.get(shape).clone());
        if !seen.new {
            before.iter().for_each(|condition| leave(&mut self.kind.totals.conditions, condition));
            self.note_transitions(seen, &before, &after);
        }
        let mut fits = true;
        for condition in after.iter() {
            if self.kind.totals.conditions.contains_key(condition)
                || self.kind.totals.conditions.len() < self.settings.limits.condition_types * 4
            {
                *self.kind.totals.conditions.entry(condition.clone()).or_default() += 1;
            } else {
                fits = false;
            }
        }
        fits
    }

    /// Takes the object out of the totals.
    pub(crate) fn leave_conditions(&mut self) {
        leave(&mut self.kind.totals.phases, self.texts.get(self.record.phase));
        for condition in self.shapes.get(self.record.shape).iter() {
            leave(&mut self.kind.totals.conditions, condition);
        }
    }

    /// A new spec may go through everything once: what was before does not count.
    pub(crate) fn forget_history(&mut self) {
        if let Some(hot) = self.record.hot.as_mut() {
            hot.history = None;
        }
    }

    /// The condition that flaps most within the window, its transitions, and when they began.
    pub(crate) fn flapping(&self) -> Option<(&Transitions, usize, Timestamp)> {
        let history = self.record.hot.as_ref()?.history.as_ref()?;
        let window = self.settings.flap_window;
        let counted = history.transitions.iter().map(|t| {
            let within = t.times.iter().filter(|time| time.after(window) > self.now);
            (t, within.clone().count(), within.copied().next().unwrap_or(self.now))
        });
        let enough = self.threshold(FindingCode::ConditionFlapping, self.settings.flap_transitions);
        counted.filter(|(_, count, _)| *count >= enough).max_by_key(|(_, count, _)| *count)
    }

    /// The phases of a circle, how often an earlier one came back within the window, and since when.
    pub(crate) fn cycling(&self) -> Option<(Vec<String>, usize, Timestamp)> {
        let history = self.record.hot.as_ref()?.history.as_ref()?;
        let within: Vec<_> =
            history.phases.iter().filter(|(at, _)| at.after(self.settings.cycle_window) > self.now).collect();
        let returns =
            within.iter().enumerate().filter(|(i, (_, phase))| within[..*i].iter().any(|(_, p)| p == phase)).count();
        if returns < self.threshold(FindingCode::PhaseCycling, self.settings.cycle_returns) {
            return None;
        }
        let mut phases: Vec<String> = Vec::new();
        for (_, phase) in &within {
            let name = self.texts.get(*phase).to_string();
            if !phases.contains(&name) {
                phases.push(name);
            }
        }
        Some((phases, returns, within.first().map_or(self.now, |(at, _)| *at)))
    }

    /// How many within the window are too many. What was found once stays found until it has halved: at the threshold
    /// itself each event that leaves the window would close the finding and the next would open it again.
    fn threshold(&self, code: FindingCode, to_find: u32) -> usize {
        let found = self.record.hot.as_ref().is_some_and(|hot| hot.findings >> code as u64 & 1 == 1);
        if found { (to_find as usize).div_ceil(2) } else { to_find as usize }
    }

    /// Since when the object is in its phase on the way to its present spec, as far as we have seen: an object that was
    /// paused in a phase, or failed with another spec, has not tried to leave it before.
    pub(crate) fn in_phase_since(&self) -> Option<Timestamp> {
        let hot = self.record.hot.as_ref()?;
        let entered = hot.history.as_ref().and_then(|h| h.phases.back()).map(|(at, _)| *at);
        let unconverged = hot.unconverged.as_ref();
        let set_out = unconverged.map(|unconverged| {
            unconverged.obligation.as_ref().map_or(unconverged.since, |obligation| obligation.opened)
        });
        entered.max(set_out)
    }

    /// When the history next matters: an entry that counts towards an open finding leaves its window.
    pub(crate) fn history_due(&self) -> Option<Timestamp> {
        let history = self.record.hot.as_ref()?.history.as_ref()?;
        let next = |times: &mut dyn Iterator<Item = Timestamp>, window: Span| {
            times.map(|at| at.after(window)).find(|leaves| *leaves > self.now)
        };
        let flaps =
            history.transitions.iter().filter_map(|t| next(&mut t.times.iter().copied(), self.settings.flap_window));
        let phases = next(&mut history.phases.iter().map(|(at, _)| *at), self.settings.cycle_window);
        flaps.chain(phases).min()
    }

    fn note_phase(&mut self, old: Symbol, phase: Symbol) {
        let now = self.now;
        let Some(history) = self.history() else { return };
        if history.phases.is_empty() && old != Symbol::default() {
            history.phases.push_back((now, old)); // where it came from; that it began earlier does not matter
        }
        push(&mut history.phases, (now, phase));
    }

    fn note_transitions(&mut self, seen: &Seen<'_>, before: &Shape, after: &Shape) {
        if seen.spec_changed {
            return;
        }
        for ConditionState { r#type: condition, status } in after {
            let earlier = before.iter().find(|other| other.r#type == *condition);
            if earlier.is_none_or(|earlier| earlier.status == *status) || !reading::decides(condition) {
                continue;
            }
            let known = self.kind.totals.flaps.len() < self.settings.limits.condition_types
                || self.kind.totals.flaps.contains_key(condition);
            if known {
                *self.kind.totals.flaps.entry(condition.clone()).or_default() += 1;
            }
            let reason = seen.view.conditions.iter().find(|c| *c.r#type == **condition).map(|c| c.reason.clone());
            self.note_transition(condition, reason.unwrap_or_default());
        }
    }

    fn note_transition(&mut self, condition: &Arc<str>, reason: String) {
        let now = self.now;
        let Some(History { transitions, .. }) = self.history() else { return };
        let position = transitions.iter().position(|t| t.condition == *condition).or_else(|| {
            (transitions.len() < CONDITIONS).then(|| {
                transitions.push(Transitions {
                    condition: condition.clone(),
                    times: VecDeque::new(),
                    reasons: Vec::new(),
                });
                transitions.len() - 1
            })
        });
        let Some(entry) = position.and_then(|position| transitions.get_mut(position)) else { return };
        push(&mut entry.times, now);
        if !reason.is_empty() && entry.reasons.len() < 2 && !entry.reasons.contains(&reason) {
            entry.reasons.push(reason);
        }
    }

    fn history(&mut self) -> Option<&mut History> {
        if !self.room && self.record.hot.as_ref().is_none_or(|hot| hot.history.is_none()) {
            self.refused = true;
            return None;
        }
        Some(self.record.hot_mut().history.get_or_insert_with(Box::default))
    }
}

/// The conditions of a status as they are counted: the top level, each type once.
pub(crate) fn shape(conditions: &[crate::observation::Condition], bound: usize) -> Vec<ConditionState> {
    let mut shape: Vec<ConditionState> = Vec::new();
    for condition in conditions.iter().filter(|c| c.at.is_empty() && !c.r#type.is_empty()) {
        if shape.len() < bound && !shape.iter().any(|known| *known.r#type == *condition.r#type) {
            shape.push(ConditionState { r#type: condition.r#type.as_str().into(), status: condition.status.as_str() });
        }
    }
    shape
}

/// Where operators keep the one word that says how far an object is, most usual first.
const PHASES: &[&str] = &["status.phase", "status.state", "status.health.status", "status.status", "phase"];

/// The phase of an object; empty when it has none.
pub(crate) fn phase(view: &ObjectView) -> &str {
    let words = PHASES.iter().filter_map(|path| match view.fact(path) {
        Some(FactValue::Text(word)) => Some(word.as_str()),
        _ => None,
    });
    words.into_iter().next().unwrap_or_default()
}

/// Whether a condition is not as it should be, whichever way it is meant: for finding when the goal was lost.
pub(crate) fn is_false(status: ConditionStatus) -> bool {
    status == ConditionStatus::False
}

fn push<T>(ring: &mut VecDeque<T>, value: T) {
    if ring.len() >= HISTORY {
        ring.pop_front();
    }
    ring.push_back(value);
}

fn leave<K: Ord>(totals: &mut std::collections::BTreeMap<K, u64>, key: &K) {
    if let Some(count) = totals.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            totals.remove(key);
        }
    }
}
