//! Reads counts, such as those of replicas, nodes and members.

use crate::model::status::reading::facts::{Status, StatusFact};
use crate::model::status::reading::signals::{Signal, worst};
use crate::model::status::reading::{Reason, Verdict};
use crate::observation::FactValue;

/// Reads the counts of an object: first counts as text, then replicas, then pairs.
///
/// Without `other_signals`, a missing count of ready replicas means that none is ready if the status has
/// other counts of the same family: Go omits a zero.
pub(super) fn read(status: &Status<'_>, other_signals: bool) -> Option<Signal> {
    ratio(status)
        .or_else(|| replicas(status, other_signals))
        .or_else(|| pairs(status, PRESENT_PREFIXES, |_| true))
}

/// Paths of the wanted count; the first that is present applies.
const WANTED: &[&str] = &[
    "spec.replicas",
    "spec.size",
    "spec.instances",
    "status.expectedNodes",
    "status.desiredHealthy",
    "status.expectedMachines",
    "status.desiredNumberScheduled",
    "status.desiredReplicas",
    "status.replicas",
    "status.size",
    "status.expectedPods",
];

/// Paths of the count of ready replicas.
const PRESENT: &[&str] = &[
    "status.readyReplicas",
    "status.availableReplicas",
    "status.availableNodes",
    "status.currentHealthy",
    "status.numberReady",
    "status.numberAvailable",
    "status.readyInstances",
    "status.readyNodes",
    "status.ready",
    "status.updatedReadyReplicas",
    "status.instances",
];

/// First words of counts of items that are as wanted: `readyMembers`, `updatedPods`.
const PRESENT_PREFIXES: &[&str] = &["ready", "available", "healthy", "updated"];

/// First words of counts of all items, beside the bare noun: `desiredMembers`, `matchedPods`.
const TOTAL_PREFIXES: &[&str] = &["desired", "expected", "matched", "total"];

/// Paths of the count of replicas with the current spec.
const UPDATED: &[&str] =
    &["status.updatedReplicas", "status.updatedNumberScheduled", "status.upToDateNodes"];

/// Paths of counts that stand beside one of ready replicas.
const BESIDE_READY: &[&str] = &[
    "status.updatedReplicas",
    "status.unavailableReplicas",
    "status.updatedNumberScheduled",
    "status.expectedNodes",
    "status.expectedMachines",
];

/// Paths of counts of replicas that are in use or kept for later, and therefore not among those that are ready.
const IN_USE: &[&str] = &["status.allocatedReplicas", "status.reservedReplicas", "status.standby"];

/// Paths of the count of replicas that are held back on purpose.
const HELD: &[&str] = &[
    "spec.updateStrategy.rollingUpdate.partition",
    "spec.updateStrategy.partition",
    "spec.partition",
];

fn replicas(status: &Status<'_>, other_signals: bool) -> Option<Signal> {
    let find = |paths: &[&'static str]| {
        paths.iter().find_map(|path| match status.fact(path) {
            Some(FactValue::Number(number)) => Some((*number, *path)),
            _ => None,
        })
    };

    let (wanted, from) = find(WANTED)?;
    let of = |(have, path): (i64, &str)| format!("{path}={have} of {from}={wanted}");
    let held = find(HELD).map_or(0, |(held, _)| held).max(0);
    let number = |path: &&str| match status.fact(path) {
        Some(FactValue::Number(number)) => Some((*number).max(0)),
        _ => None,
    };
    let in_use = IN_USE.iter().filter_map(number).fold(0, i64::saturating_add);
    let present = find(PRESENT).map(|(present, path)| (present.saturating_add(in_use), path));
    let omits_zero = || BESIDE_READY.iter().any(|path| number(path).is_some());
    let updated = find(UPDATED).filter(|(updated, _)| *updated < wanted && !is_by_hand(status));

    match (present, updated) {
        (Some(short), _) if short.0 < wanted => {
            // An unhealthy replica is worse than a missing one.
            let verdict =
                if short.1.ends_with("Healthy") { Verdict::Failed } else { Verdict::Progressing };
            Some(Signal::new(verdict, Reason::CountsShort, of(short)))
        }
        (_, Some(updated)) if held > 0 && updated.0 >= wanted.saturating_sub(held) => {
            Some(Signal::new(
                Verdict::Suspended,
                Reason::HeldBack,
                format!("{}, {held} held back", of(updated)),
            ))
        }
        (Some(_), Some(updated)) => {
            Some(Signal::new(Verdict::Progressing, Reason::CountsShort, of(updated)))
        }
        (Some((present, path)), None) => {
            Some(Signal::new(Verdict::Converged, Reason::CountsMet, format!("{path}={present}")))
        }
        (None, _) if wanted > 0 && !other_signals && omits_zero() => Some(Signal::new(
            Verdict::Progressing,
            Reason::CountsShort,
            format!("{from}={wanted}, none is ready"),
        )),
        (None, _) => None,
    }
}

/// Reads pairs of counts, such as `members` and `readyMembers`, or `instances[0].replicas` and
/// `instances[0].readyReplicas`. `prefixes` and `wanted` select the counts of the items that are as
/// wanted.
pub(super) fn pairs(
    status: &Status<'_>,
    prefixes: &[&str],
    wanted: impl Fn(&StatusFact<'_>) -> bool,
) -> Option<Signal> {
    worst(status.facts().filter(|fact| wanted(fact)).map(|fact| {
        let FactValue::Number(present) = *fact.value else { return None };
        let (parent, key) = fact.path.rsplit_once('.')?;
        let noun = prefixes.iter().find_map(|prefix| key.strip_prefix(prefix))?;
        if key.starts_with("updated") && is_by_hand(status) {
            return None;
        }

        let wanted = Some(noun)
            .filter(|_| fact.depth <= 3 && fact.key.len() == 2)
            .and_then(|noun| total(status, parent, noun))?;

        let (verdict, reason) = if present < wanted {
            (Verdict::Progressing, Reason::CountsShort)
        } else {
            (Verdict::Converged, Reason::CountsMet)
        };

        Some(Signal::new(verdict, reason, format!("{}={present} of {wanted}", fact.path)))
    }))
}

/// Returns whether a person has to replace what is not up to date.
fn is_by_hand(status: &Status<'_>) -> bool {
    let by_hand = |strategy: &str| matches!(strategy, "NotUpdate" | "OnDelete");
    matches!(status.fact("spec.updateStrategy.type"), Some(FactValue::Text(it)) if by_hand(it))
}

/// Returns the count of all items: for the noun `Pods`, that of `pods` or of `matchedPods`.
fn total(status: &Status<'_>, parent: &str, noun: &str) -> Option<i64> {
    let number = |path: String| match status.fact(&path) {
        Some(FactValue::Number(number)) => Some(*number),
        _ => None,
    };
    let prefixed =
        || TOTAL_PREFIXES.iter().find_map(|prefix| number(format!("{parent}.{prefix}{noun}")));

    number(format!("{parent}.{}", noun.to_ascii_lowercase())).or_else(prefixed)
}

/// Reads a count that is written as text: `statusReplicas: 1/3`.
fn ratio(status: &Status<'_>) -> Option<Signal> {
    worst(status.facts().filter(|fact| fact.depth <= 2 && !fact.listed).map(|fact| {
        let FactValue::Text(text) = fact.value else { return None };
        let (have, wanted) = text.split_once('/')?;
        let (have, wanted): (u32, u32) = (have.trim().parse().ok()?, wanted.trim().parse().ok()?);
        let (verdict, reason) = if have < wanted {
            (Verdict::Progressing, Reason::CountsShort)
        } else {
            (Verdict::Converged, Reason::CountsMet)
        };

        Some(Signal::new(verdict, reason, format!("{}={text}", fact.path)))
    }))
}

/// Returns whether the object is scaled to zero.
///
/// A positive `spec.replicas` contradicts `status.replicas: 0`, unless the rollout is complete.
pub(super) fn scaled_to_zero(status: &Status<'_>, rolled_out: bool) -> bool {
    let number = |path| match status.fact(path) {
        Some(FactValue::Number(number)) => Some(*number),
        _ => None,
    };
    let wanted = number("spec.replicas").unwrap_or(0) > 0 && !rolled_out;

    !wanted
        && number("status.replicas") == Some(0)
        && number("status.unavailableReplicas").unwrap_or(0) == 0
}
