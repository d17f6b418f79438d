//! A hand-made explanation of an object that cannot be deleted.

use loopwatch_model::snapshot::{
    ExplainedChange, ExplainedCondition, ExplainedEvent, ExplainedFinalizer, ExplainedNode,
    ExplainedObject, ExplainedObligation, ExplainedWriter, Explanation,
};
use loopwatch_model::time::Span;

use super::{GROUP, ago, findings, now};

fn object(group: &str, kind: &str, name: &str, state: &str) -> ExplainedObject {
    ExplainedObject {
        group: group.to_owned(),
        kind: kind.to_owned(),
        namespace: if kind == "Fleet" { String::new() } else { "team-a".to_owned() },
        name: name.to_owned(),
        uid: format!("8f14e45f-ceea-467f-a8f8-{:012x}", name.len()),
        state: state.to_owned(),
        since: Some(ago(Span::hours(70))),
        created: Some(ago(Span::hours(2000))),
        ..ExplainedObject::default()
    }
}

fn node(object: ExplainedObject, nodes: Vec<ExplainedNode>) -> ExplainedNode {
    ExplainedNode { object, nodes, ..ExplainedNode::default() }
}

fn finalizer(name: &str, actor: &str, known_by: &str, verdict: &str) -> ExplainedFinalizer {
    ExplainedFinalizer {
        name: name.to_owned(),
        actor: actor.to_owned(),
        known_by: known_by.to_owned(),
        liveness: "unknown".to_owned(),
        last_seen: None,
        verdict: verdict.to_owned(),
    }
}

/// An object that waits for the deletion of its children.
pub(crate) fn explanation() -> Explanation {
    let mut database = object(GROUP, "Database", "orders-legacy", "terminating");
    database.terminating_since = Some(ago(Span::hours(76)));

    let actor = "field manager db-operator (removed it from other objects)";
    let mut cleanup = finalizer("db.example.io/volume-cleanup", actor, "removed_before", "stuck");
    (cleanup.liveness, cleanup.last_seen) = ("alive".to_owned(), Some(ago(Span::secs(4))));

    let collector = "garbage collector, once all blocking dependents are gone";
    database.finalizers =
        vec![cleanup, finalizer("foregroundDeletion", collector, "built_in", "stuck")];
    database.findings = vec!["FinalizerStuck".to_owned()];

    let mut claim = object("", "PersistentVolumeClaim", "data-orders-0", "terminating");
    claim.terminating_since = Some(ago(Span::hours(76)));

    let protection = "kube-controller-manager, once no Pod uses the claim";
    claim.finalizers = vec![finalizer("kubernetes.io/pvc-protection", protection, "built_in", "")];

    let pods =
        (0..6).map(|n| node(object("", "Pod", &format!("orders-{n}"), "converged"), Vec::new()));
    let mut set = node(object("apps", "StatefulSet", "orders", "progressing"), pods.collect());
    (set.object.signal, set.blocks_owner_deletion, set.more) =
        ("Replicas: 5 of 6 ready".to_owned(), true, 3);
    set.nodes.insert(0, node(claim, Vec::new()));

    let config = node(object("", "ConfigMap", "orders-settings", "unknown"), Vec::new());
    let fleet = node(object("fleet.example.io", "Fleet", "eu", "converged"), Vec::new());
    let gone = node(object("db.example.io", "Plan", "large", "absent"), Vec::new());

    Explanation {
        at: now(),
        object: database,
        role: "primary".to_owned(),
        generation: 7,
        observed_generation: Some(6),
        trace: None,
        message: "waiting for <b>backup</b> \u{1b}[31mnightly-42".to_owned(),
        phase: "Deleting".to_owned(),
        phase_since: Some(ago(Span::hours(76))),
        last_convergence_seconds: Some(41),
        obligation: Some(ExplainedObligation {
            since: ago(Span::hours(77)),
            opened: Some(ago(Span::hours(77))),
            deadline: Some(ago(Span::hours(76))),
            deadline_source: "learned".to_owned(),
            unacknowledged_since: Some(ago(Span::hours(77))),
            ..ExplainedObligation::default()
        }),
        conditions: vec![ExplainedCondition {
            r#type: "Ready".to_owned(),
            status: "false".to_owned(),
            reason: "Deleting".to_owned(),
            message: "the volume is in use".to_owned(),
            changed: Some(ago(Span::hours(76))),
        }],
        writers: vec![ExplainedWriter {
            manager: "db-operator".to_owned(),
            parts: vec!["status".to_owned(), "finalizers".to_owned()],
            at: Some(ago(Span::hours(75))),
        }],
        deletion_progress: Some(ago(Span::hours(75))),
        owners: vec![fleet, gone],
        children: vec![set, config],
        more_children: 12,
        changes: vec![ExplainedChange {
            at: ago(Span::hours(76)),
            part: "phase".to_owned(),
            name: "Deleting".to_owned(),
            was: String::new(),
            ..ExplainedChange::default()
        }],
        timeline: vec![
            ExplainedEvent {
                at: ago(Span::hours(75)),
                change: "opened".to_owned(),
                code: "FinalizerStuck".to_owned(),
                severity: "warning".to_owned(),
                ..ExplainedEvent::default()
            },
            ExplainedEvent {
                at: ago(Span::mins(3)),
                change: "event".to_owned(),
                code: "CleanupFailed".to_owned(),
                severity: "warning".to_owned(),
                count: 214,
                message: "bucket orders-legacy: access denied".to_owned(),
                reporter: "database-operator".to_owned(),
            },
        ],
        findings: findings()
            .into_iter()
            .filter(|finding| finding.subject.name() == "orders-legacy")
            .collect(),
    }
}
