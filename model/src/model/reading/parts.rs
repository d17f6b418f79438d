//! Reads the verdicts on parts of an object in lists: environments, shards, members.
//!
//! A summary such as `Ready=True` often says only that the operator did its own work. The parts say whether it had the
//! intended effect.

use super::facts::{self, StatusFact};
use super::profiles::Profile;
use super::signals::{Signal, worst};
use super::words::Words;
use super::{Reason, Verdict};
use crate::observation::{FactValue, ObjectView};

/// Words, in the singular, for parts without which an object is not complete.
const PARTS: &[&str] = &[
    "application",
    "broker",
    "cluster",
    "component",
    "destination",
    "domain",
    "endpoint",
    "environment",
    "ingress",
    "instance",
    "listener",
    "member",
    "node",
    "parent",
    "partition",
    "pool",
    "rack",
    "region",
    "replica",
    "server",
    "shard",
    "target",
    "worker",
    "workload",
    "zone",
];

/// Words, in the singular, for entries about the past or about work that may fail without harm to the object.
const RECORDS: &[&str] = &[
    "attempt",
    "backup",
    "deleted",
    "event",
    "failed",
    "history",
    "job",
    "last",
    "log",
    "old",
    "operation",
    "past",
    "previous",
    "recent",
    "removed",
    "revision",
    "run",
    "step",
    "task",
    "transition",
];

/// Keys for a state that the object is about to enter.
const NEXT: &[&str] = &["candidate", "canary", "proposed", "upcoming"];

/// Reads the phases of parts, and their flags. Only bad news count.
///
/// The phase of a part itself counts in full. Deeper in a part, for example in the checks of a proposed change, a
/// failure shows only that the part is not done.
pub(super) fn read(object: &ObjectView, profile: &Profile) -> Option<Signal> {
    worst(facts::status_facts(object).filter(|fact| fact.depth > 1).map(|fact| {
        if !fact.listed {
            let fault = phase_of_part(&fact, profile).filter(|signal| signal.verdict == Verdict::Failed);
            return fault.filter(|_| fact.depth == 2 && is_status_of_part(fact.path));
        }
        if !is_part(fact.path) {
            return None;
        }
        if fact.is_part_flag() && *fact.value == FactValue::Flag(false) {
            let text = format!("{}=false", fact.path);
            return Some(Signal::new(Verdict::Progressing, Reason::FlagFalse, text));
        }
        phase_of_part(&fact, profile)
    }))
}

fn phase_of_part(fact: &StatusFact<'_>, profile: &Profile) -> Option<Signal> {
    let signal = Some(fact).filter(|fact| fact.is_phase()).and_then(|fact| facts::phase(fact, profile))?;
    match signal.verdict {
        Verdict::Failed if fact.depth > 2 => {
            Some(Signal { verdict: Verdict::Progressing, reason: Reason::PhaseInMotion, ..signal })
        }
        Verdict::Failed | Verdict::Progressing => Some(signal),
        _ => None,
    }
}

/// Returns whether a path leads into a list of parts, and not into a record of the past.
fn is_part(path: &str) -> bool {
    let mut part = false;
    for key in path.split('.').skip(1) {
        let (name, listed) = key.split_once('[').map_or((key, false), |(name, _)| (name, true));
        let words = Words::of(name);
        let names = |table: &[&str]| words.iter().any(|word| table.contains(&singular(word)));
        if names(RECORDS) {
            return false;
        }
        part |= (listed && names(PARTS)) || NEXT.contains(&name);
    }
    part
}

/// Returns whether a path leads into the status of a part: `status.modelStatus.transitionStatus`.
fn is_status_of_part(path: &str) -> bool {
    let words = Words::of(path.split('.').nth(1).unwrap_or_default());
    words.len() > 1 && words.last() == "status" && !words.iter().any(|word| RECORDS.contains(&singular(word)))
}

fn singular(word: &str) -> &str {
    word.strip_suffix('s').filter(|stem| !stem.ends_with('s')).unwrap_or(word)
}
