//! The facts of a status, and the meaning of their keys.

use std::ops::Deref;

use crate::model::status::reading::senses::{self, Sense};
use crate::model::status::reading::words::Words;
use crate::observation::{Fact, FactValue, ObjectView};

/// An object and the facts of its status. Most rules look at all facts, so their keys are split into
/// words once.
pub(super) struct Status<'a> {
    object: &'a ObjectView,
    facts: Vec<StatusFact<'a>>,
}

/// A fact of the status, with its path split.
pub(super) struct StatusFact<'a> {
    pub(super) path: &'a str,
    /// The number of keys below `status`.
    pub(super) depth: usize,
    /// Whether the fact is inside a list.
    pub(super) listed: bool,
    /// The words of the last key.
    pub(super) key: Words,
    pub(super) value: &'a FactValue,
}

/// First words of keys that hold an earlier or a desired state.
const NOT_CURRENT: &[&str] =
    &["desired", "target", "previous", "expected", "old", "requested", "next", "prior", "last"];

/// Last words of keys that hold a phase, for verdicts, findings and metrics. If an object has
/// several phases, the first word in this list determines the one to show.
pub(super) const PHASE_KEYS: &[&str] = &[
    "phase",
    "state",
    "status",
    "health",
    "stage",
    "result",
    "outcome",
    "verdict",
    "lifecycle",
    "robustness",
    "compliant",
    "compliance",
    "conclusion",
    "condition",
];

/// Last words of keys that hold a health flag.
const FLAG_KEYS: &[&str] = &[
    "ready",
    "healthy",
    "applied",
    "valid",
    "succeeded",
    "successful",
    "success",
    "synced",
    "ok",
    "operational",
    "available",
    "installed",
    "deployed",
    "reconciled",
    "initialized",
    "bound",
    "connected",
    "completed",
    "complete",
    "active",
    "accepted",
    "created",
    "established",
    "provisioned",
];

impl<'a> Status<'a> {
    pub(super) fn of(object: &'a ObjectView) -> Self {
        Self { object, facts: object.facts.iter().filter_map(StatusFact::of).collect() }
    }

    pub(super) fn facts(&self) -> impl Iterator<Item = &StatusFact<'a>> {
        self.facts.iter()
    }
}

impl Deref for Status<'_> {
    type Target = ObjectView;

    fn deref(&self) -> &ObjectView {
        self.object
    }
}

impl<'a> StatusFact<'a> {
    /// Splits the path of a fact. Returns `None` if the fact is not in the status.
    pub(super) fn of(Fact { path, value }: &'a Fact) -> Option<Self> {
        let below = path.strip_prefix("status.")?;
        let key = below.rsplit('.').next().unwrap_or(below);
        let key = key.split('[').next().unwrap_or(key);

        Some(Self {
            path,
            depth: below.split('.').count(),
            listed: below.contains('['),
            key: Words::of(key),
            value,
        })
    }

    pub(super) fn key_ends_with(&self, keys: &[&str]) -> bool {
        keys.contains(&self.key.last())
    }

    pub(super) fn text_is(&self, word: &str) -> bool {
        self.text_is_one_of(&[word])
    }

    /// Returns whether the text is one of these words. The name of an enumeration may precede it:
    /// `STATE_RUNNING`.
    pub(super) fn text_is_one_of(&self, words: &[&str]) -> bool {
        let FactValue::Text(text) = self.value else { return false };
        let text = match text.split_once('_') {
            Some((prefix, rest))
                if PHASE_KEYS.iter().any(|key| key.eq_ignore_ascii_case(prefix)) =>
            {
                rest
            }
            _ => text,
        };
        words.iter().any(|word| text.eq_ignore_ascii_case(word))
    }

    /// Returns whether this is a current phase or state. `managementState` repeats what the spec wants, and
    /// `powerState` is about a machine that may be off.
    pub(super) fn is_phase(&self) -> bool {
        let names_phase = self.key_ends_with(PHASE_KEYS) || self.key_is_state_summary();
        names_phase
            && self.is_current()
            && self.key.get(0) != "management"
            && !(self.key.get(0) == "power" && self.text_is_one_of(&["off", "on", "unknown"]))
            && !self.is_history()
    }

    /// Returns whether the key is `currentStateSummary` or the like.
    fn key_is_state_summary(&self) -> bool {
        let is_word = |text: &str| !text.contains(' ');
        self.key.get(0) == "current"
            && self.key.get(1) == "state"
            && self.key.last() == "summary"
            && matches!(self.value, FactValue::Text(text) if is_word(text))
    }

    /// Returns whether this is about the past: `workflowHistory.completed[0].phase`.
    fn is_history(&self) -> bool {
        // The first entry of a plain `history` may be the present.
        let mut parents = self.path.split('.').skip(1).take(self.depth - 1);
        self.depth > 2 && parents.any(|parent| parent.to_ascii_lowercase().contains("history"))
    }

    /// Returns whether this is a flag of a part, such as `shards[2].ready`.
    pub(super) fn is_part_flag(&self) -> bool {
        self.depth == 2
            && self.key.len() == 1
            && matches!(self.key.get(0), "ready" | "applied" | "healthy" | "synced")
    }

    /// Returns whether this is a flag that means a fault: `failed`, `noMatchingInstances`.
    pub(super) fn is_fault_flag(&self) -> bool {
        let nothing_matches = self.key.get(0) == "no" && self.key.get(1) == "matching";
        self.depth == 1
            && matches!(self.value, FactValue::Flag(_))
            && (nothing_matches || self.key.sense() == Some(Sense::Bad))
    }

    /// Returns whether the key names an error text: `error`, `lastError`, `errMsg`,
    /// `failureReason`.
    pub(super) fn names_error(&self) -> bool {
        let text = matches!(
            self.key.last(),
            "message" | "msg" | "reason" | "description" | "details" | "text" | "cause"
        );
        let about_error =
            || self.key.iter().any(|word| matches!(word, "error" | "err" | "failure"));

        matches!(self.key.last(), "error" | "errors" | "err") || (text && about_error())
    }

    /// Returns whether this is the text of an error in a map: `error.message`,
    /// `reconciliationError.reason`.
    pub(super) fn is_message_of_error(&self) -> bool {
        let parent = self.path.rsplit('.').nth(1).unwrap_or_default();
        self.depth == 2
            && matches!(self.key.last(), "message" | "reason" | "description")
            && matches!(Words::of(parent).last(), "error" | "err" | "failure")
    }

    /// Returns whether this is in a list of errors, such as `errors[0]` or `problems[0].message`.
    pub(super) fn is_in_error_list(&self) -> bool {
        self.path
            .split('.')
            .filter_map(|key| key.split_once('['))
            .any(|(name, _)| matches!(Words::of(name).last(), "errors" | "problems" | "failures"))
    }

    /// Returns whether this is the health of a part in a map: `extendedHealth.etcd: HealthStatusDown`.
    pub(super) fn is_health_of_part(&self) -> bool {
        let parent = self.path.rsplit('.').nth(1).unwrap_or_default();
        self.depth == 2 && !self.listed && !self.is_phase() && Words::of(parent).last() == "health"
    }

    /// Returns whether this is the health of something in the status: `mirroringStatus.summary.health`.
    pub(super) fn is_named_health(&self) -> bool {
        self.depth <= 3
            && !self.listed
            && self.key.last() == "health"
            && self.is_current()
            && !self.text_is_one_of(&["warn", "warning"])
    }

    /// Returns whether this grades a message as an error: `validationMessages[0].level: ERROR`.
    pub(super) fn grades_an_error(&self) -> bool {
        self.listed && matches!(self.key.get(0), "level" | "severity") && self.text_is("error")
    }

    /// Returns whether this is the phase or the health of the object itself: `phase`,
    /// `health.status`, `ceph.health`.
    pub(super) fn is_own_phase(&self) -> bool {
        self.depth == 1
            || (self.depth == 2
                && !self.listed
                && (self.path.ends_with(".health") || self.path == "status.health.status"))
    }

    /// Returns whether this is about an operation on the object, such as `operationState.phase`.
    pub(super) fn is_of_operation(&self) -> bool {
        let mut parents = self.path.split('.').skip(1).take(self.depth - 1);
        parents.any(|parent| Words::of(parent).has("operation"))
    }

    /// Returns whether this is a health flag: `ready`, `isReady`, `readyToUse`.
    pub(super) fn is_flag(&self) -> bool {
        let first = self.key.get(0);
        let named = self.key_ends_with(FLAG_KEYS) && (self.key.len() == 1 || first == "is");
        self.depth <= 2 && !self.listed && (named || (first == "ready" && self.key.len() > 1))
    }

    /// Returns whether this is a flag for work in progress: `isRollingUpdate`.
    pub(super) fn is_flag_of_work(&self) -> bool {
        self.depth == 1
            && self.key.get(0) == "is"
            && self.key.iter().any(|word| word.ends_with("ing") && senses::is_work(word))
    }

    /// Returns whether this is a flag for a step of the operator's work: `promOpRulesGenerated`. Others, such as
    /// `passwordGenerated`, may stay false for good.
    pub(super) fn is_flag_of_step(&self) -> bool {
        self.depth == 1
            && self.key.has("rules")
            && matches!(self.key.last(), "generated" | "synced")
    }

    /// Returns whether this says whether a run has ended: `completed`.
    pub(super) fn is_end_flag(&self) -> bool {
        self.depth == 1
            && !self.listed
            && self.key.len() == 1
            && matches!(self.key.last(), "complete" | "completed" | "done" | "finished")
    }

    /// Returns whether this says how a run has ended: `succeeded`.
    pub(super) fn is_result(&self) -> bool {
        self.depth == 1
            && !self.listed
            && self.key.len() == 1
            && matches!(self.key.last(), "pass" | "passed" | "success" | "succeeded" | "successful")
    }

    /// Returns whether this describes the present, unlike `desiredState` or `lastPhase`.
    pub(super) fn is_current(&self) -> bool {
        let first = self.key.get(0);
        // Nobody knows a later state than the `lastObservedState`.
        let is_latest = || ["operation", "observed"].iter().any(|word| self.key.has(word));
        self.key.len() == 1 || !NOT_CURRENT.contains(&first) || is_latest()
    }
}
