//! Workloads that widgets own.

use loopwatch_model::observation::ConditionStatus::True;
use loopwatch_model::observation::{
    Fact, Hashes, ObjectKey, ObjectView, OwnerReference, StatusShape,
};

use super::views::{condition, count, owner, widget_at};
use super::{START, Widget};

/// Returns a child of a widget.
pub fn child_of(widget: &str, name: &str) -> ObjectView {
    ObjectView {
        key: ObjectKey { namespace: "team-a".into(), name: name.into() },
        uid: format!("uid-{name}"),
        generation: 1,
        owners: vec![owned_by(widget)],
        ..ObjectView::default()
    }
}

/// Returns a Deployment of a widget, with this many of its replicas available.
pub fn deployment(widget: &str, name: &str, replicas: i64, available: i64) -> ObjectView {
    let settled = available.unsigned_abs() + 1;
    ObjectView {
        observed_generation: Some(1),
        status: StatusShape::Filled,
        facts: replica_counts(replicas, available),
        conditions: vec![condition("Progressing", True, "NewReplicaSetAvailable")],
        hashes: Hashes { spec: 1, status: settled, settled },
        ..child_of(widget, name)
    }
}

fn replica_counts(replicas: i64, available: i64) -> Vec<Fact> {
    let wanted = ["spec.replicas", "status.replicas", "status.updatedReplicas"];
    let ready = ["status.readyReplicas", "status.availableReplicas"];
    let wanted = wanted.into_iter().map(|path| count(path, replicas));

    wanted.chain(ready.into_iter().map(|path| count(path, available))).collect()
}

/// Returns a reference to a widget that the lab has created.
pub fn owned_by(widget: &str) -> OwnerReference {
    owner(&widget_at("team-a", widget), &Widget::new(widget, START).view(1).uid)
}
