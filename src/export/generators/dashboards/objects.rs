//! `loopwatch-objects`: deletion, ownership and references of objects.

use loopwatch_model::finding::Area;
use loopwatch_model::settings::Settings;

use super::colours::Meaning::{Good, Warn};
use super::findings::{findings_over_time, open_findings};
use super::panels::{Panel, lines, stat};
use super::queries::{Scope, by, gauge, legend, per_minute, quantile, series, some};
use super::{Dashboard, Row, seconds};

const AREAS: [Area; 3] = [Area::Deletion, Area::Ownership, Area::References];

const KIND: &str = "{{kind}} {{group}}";
const BAD_OWNERS: &str = r#"reason!~"ok|unknown""#;
const STUCK: &str = r#"verdict=~"stuck|owner_absent|blocked_by_dependent""#;

pub(super) fn dashboard() -> Dashboard {
    Dashboard {
        uid: "loopwatch-objects",
        title: "loopwatch / Objects",
        description: "Deletion, ownership and references of objects: what is stuck, orphaned or dangling, and which controller has to act.",
        rows: vec![broken(), deletion(), owners(), references()],
        variables: Vec::new(),
        annotations: Vec::new(),
    }
}

/// A count of which each one is a fault.
fn faults(title: &str, description: &str, metric: &str, scope: Scope, matchers: &str) -> Panel {
    let query = format!("sum({}) or vector(0)", gauge(metric, scope, matchers));
    stat(title, description, &query, &[(Good, None), (Warn, Some(1.0))])
}

/// The present number of something over time.
fn numbers(
    (title, description, axis): (&str, &str, &str),
    metric: &str,
    scope: Scope,
    (labels, words): (&str, &str),
) -> Panel {
    lines(title, description, axis)
        .query(&some(&by("sum", labels, &gauge(metric, scope, ""))), &legend(words))
        .stacked()
}

/// How often something happens.
fn changes(
    (title, description, axis): (&str, &str, &str),
    metric: &str,
    (labels, words): (&str, &str),
) -> Panel {
    lines(title, description, axis)
        .query(&per_minute(labels, metric, Scope::Kind), &legend(words))
        .unit("cpm")
        .stacked()
        .interval("5m")
}

fn broken() -> Row {
    let stuck_after = seconds(Settings::default().finalizer_stuck_after);
    let oldest = series("loopwatch_finalizer_oldest_seconds", Scope::Kind, "");
    let terminating = gauge("loopwatch_terminating_objects", Scope::Kind, "");

    Row {
        title: "What is broken, and who has to act?",
        is_folded: false,
        panels: vec![
            stat(
                "Terminating objects",
                "Objects with a deletion timestamp.",
                &format!("sum({terminating}) or vector(0)"),
                &[(Good, None)],
            ),
            stat(
                "Oldest deletion",
                "Age of the oldest deletion that waits for a finalizer. By default, a deletion is stuck after 15 minutes if it made no progress in the last 7.5 minutes.",
                &format!("max({oldest})"),
                &[(Good, None), (Warn, Some(stuck_after))],
            )
            .unit("s")
            .none("none"),
            faults(
                "Stuck deletions",
                "Waits for a finalizer that make no progress: its controller does not remove it, its controller is gone, or another object must be deleted first.",
                "loopwatch_finalizer_objects",
                Scope::Kind,
                STUCK,
            ),
            faults(
                "Bad owner references",
                "Owner references that the garbage collector cannot follow, or that make it delete the child. Excludes references to owners that loopwatch does not know.",
                "loopwatch_owner_references",
                Scope::Kind,
                BAD_OWNERS,
            ),
            faults(
                "Orphans",
                "Objects of the operator without an owner, confirmed by a read. Nobody deletes them.",
                "loopwatch_orphans",
                Scope::Objects,
                "",
            ),
            faults(
                "Dangling references",
                "References in specs to objects that do not exist. Some of them are about to be created: a finding opens only after its deadline.",
                "loopwatch_references_dangling",
                Scope::Kind,
                "",
            ),
            open_findings(Some(&AREAS)),
            findings_over_time(Some(&AREAS)),
        ],
    }
}

fn deletion() -> Row {
    let stuck_after = seconds(Settings::default().finalizer_stuck_after);
    let finalizer = "group, kind, finalizer";
    let removal = |share| {
        quantile(share, finalizer, "loopwatch_finalizer_removal_seconds_bucket", Scope::Kind)
    };
    let verdicts = ["stuck", "owner_absent", "blocked_by_dependent", "slow", "progressing"];
    let outcomes = ["removed", "removed_late", "timed_out", "lost", "flapping"];

    Row {
        title: "What does not get deleted, and why?",
        is_folded: false,
        panels: vec![
            numbers(
                ("Terminating objects by kind", "Objects with a deletion timestamp, by kind.", "objects"),
                "loopwatch_terminating_objects",
                Scope::Kind,
                ("group, kind", KIND),
            ),
            numbers(
                (
                    "Pending deletions by finalizer",
                    "Waits for a finalizer, by verdict. Progressing: within its usual time. Slow: longer than usual. Stuck: no progress. Owner absent: the controller that removes the finalizer is gone. Blocked by dependent: another object must be deleted first.",
                    "waits for a finalizer",
                ),
                "loopwatch_finalizer_objects",
                Scope::Kind,
                ("group, kind, finalizer, verdict", "{{verdict}} {{finalizer}} {{kind}} {{group}}"),
            )
            .words(&verdicts),
            lines(
                "Oldest deletion by finalizer",
                "Age of the oldest deletion that waits for a finalizer. By default, a deletion is stuck after 15 minutes if it made no progress in the last 7.5 minutes.",
                "age",
            )
            .query(
                &by("max", finalizer, &series("loopwatch_finalizer_oldest_seconds", Scope::Kind, "")),
                &legend("{{finalizer}} {{kind}} {{group}}"),
            )
            .unit("s")
            .none("none")
            .threshold(Warn, stuck_after),
            lines(
                "Time to remove a finalizer",
                "Time from the deletion request for an object until the finalizer was removed: median and 95th percentile.",
                "time to removal",
            )
            .query(&removal("0.5"), &legend("p50 {{finalizer}} {{kind}} {{group}}"))
            .query(&removal("0.95"), &legend("p95 {{finalizer}} {{kind}} {{group}}"))
            .unit("s")
            .interval("5m")
            .threshold(Warn, stuck_after),
            changes(
                (
                    "Outcomes of finalizers",
                    "Waits for a finalizer that ended in time (removed) or late, deletions that got stuck (timed out), finalizers that another writer removed (lost), and finalizers that come and go (flapping).",
                    "outcomes per minute",
                ),
                "loopwatch_finalizer_outcomes_total",
                ("group, kind, finalizer, outcome", "{{outcome}} {{finalizer}} {{kind}} {{group}}"),
            )
            .words(&outcomes)
            .wide(24),
        ],
    }
}

fn owners() -> Row {
    let orphans = gauge("loopwatch_orphans", Scope::Objects, "");

    Row {
        title: "Which objects lack their owner?",
        is_folded: true,
        panels: vec![
            numbers(
                (
                    "Owner references",
                    "Owner references by reason. Unknown: loopwatch does not know the owner, so it does not judge the reference. Other reasons than ok and unknown are faults.",
                    "references",
                ),
                "loopwatch_owner_references",
                Scope::Kind,
                ("reason", "{{reason}}"),
            )
            .words(&["ok", "unknown"]),
            changes(
                (
                    "Bad owner references seen",
                    "Bad owner references that appeared, by reason. The garbage collector deletes most of these children within seconds, so \"Owner references\" often does not show them.",
                    "references per minute",
                ),
                "loopwatch_owner_hazards_total",
                ("group, kind, reason", "{{reason}} {{kind}} {{group}}"),
            ),
            lines("Orphans by kind", "Objects of the operator without an owner, confirmed by a read. Nobody deletes them.", "objects")
                .query(
                    &by("sum", "group, kind, target_namespace", &orphans),
                    &legend("{{kind}} {{group}} in {{target_namespace}}"),
                )
                .stacked()
                .none("none")
                .wide(24),
        ],
    }
}

fn references() -> Row {
    let soft_deleted_after = seconds(Settings::default().soft_deleted_after);
    let stale = gauge("loopwatch_stale_configuration_objects", Scope::Kind, "");
    let marked = series("loopwatch_soft_deleted_oldest_seconds", Scope::Kind, "");

    Row {
        title: "Which references lead nowhere, and which objects stay behind?",
        is_folded: true,
        panels: vec![
            numbers(
                (
                    "Dangling references by kind of the target",
                    "References in specs to objects that do not exist, by kind of the object and kind of the missing target.",
                    "references",
                ),
                "loopwatch_references_dangling",
                Scope::Kind,
                ("group, kind, reference", "{{kind}} {{group}} to {{reference}}"),
            )
            .none("none"),
            numbers(
                (
                    "References between namespaces",
                    "References in specs to objects in other namespaces, by kind of the object.",
                    "references",
                ),
                "loopwatch_cross_namespace_references",
                Scope::Kind,
                ("group, kind", KIND),
            ),
            changes(
                (
                    "Changes of references between namespaces",
                    "References to objects in other namespaces that appeared or disappeared. With --notify, loopwatch also sends each change to a webhook.",
                    "changes per minute",
                ),
                "loopwatch_cross_namespace_reference_changes_total",
                ("group, kind, change", "{{change}} {{kind}} {{group}}"),
            ),
            lines(
                "Workloads with stale configuration",
                "Workloads with Pods that are older than the ConfigMap or Secret that they read when they start. Restart the workload to apply the change.",
                "workloads",
            )
            .query(&by("sum", "group, kind", &stale), &legend(KIND))
            .stacked()
            .none("none"),
            numbers(
                ("Soft-deleted objects", "Objects that annotations mark as deleted, by phase.", "objects"),
                "loopwatch_soft_deleted_objects",
                Scope::Kind,
                ("group, kind, phase", "{{phase}} {{kind}} {{group}}"),
            )
            .none("none"),
            lines(
                "Oldest soft-deleted object",
                "Age of the oldest mark, by phase. By default, a finding opens 24 hours after an object was marked.",
                "age",
            )
            .query(&by("max", "group, kind, phase", &marked), &legend("{{phase}} {{kind}} {{group}}"))
            .unit("s")
            .none("none")
            .threshold(Warn, soft_deleted_after),
        ],
    }
}
