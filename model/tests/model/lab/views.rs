//! Parts of the views of objects.

use loopwatch_model::observation::{
    Condition, ConditionStatus, Fact, FactValue, Manager, ObjectAddress, Owned, OwnerReference,
    Reference,
};
use loopwatch_model::time::Timestamp;

use super::kinds::GROUP;

/// The finalizer of the operator.
pub const FINALIZER: &str = "example.io/cleanup";

pub fn at(group: &str, kind: &str, namespace: &str, name: &str) -> ObjectAddress {
    ObjectAddress {
        group: group.into(),
        kind: kind.into(),
        namespace: namespace.into(),
        name: name.into(),
    }
}

pub fn widget_at(namespace: &str, name: &str) -> ObjectAddress {
    at(GROUP, "Widget", namespace, name)
}

/// Returns the address of the widget of most stories.
pub fn web() -> ObjectAddress {
    widget_at("team-a", "web")
}

pub fn map(name: &str) -> ObjectAddress {
    at("", "ConfigMap", "team-a", name)
}

/// Returns the managed fields entry of a client that wrote the spec.
pub fn spec_by(name: &str, time: Timestamp) -> Manager {
    written_by(name, time, Owned { spec: true, ..Owned::default() })
}

/// Returns the managed fields entry of an autoscaler that changed the number of replicas.
pub fn scaled_by(name: &str, time: Timestamp) -> Manager {
    Manager { subresource: "scale".into(), ..spec_by(name, time) }
}

/// Returns the managed fields entry of a controller that wrote the status.
pub fn status_by(name: &str, time: Timestamp) -> Manager {
    let owns = Owned { status: true, ..Owned::default() };
    Manager { subresource: "status".into(), ..written_by(name, time, owns) }
}

/// Returns the managed fields entry of a client that added finalizers.
pub fn finalizers_by(name: &str, time: Timestamp, finalizers: &[&str]) -> Manager {
    let owns = Owned { finalizers: true, ..Owned::default() };
    Manager { finalizers: texts(finalizers), ..written_by(name, time, owns) }
}

pub fn written_by(name: &str, time: Timestamp, owns: Owned) -> Manager {
    Manager { name: name.into(), time: Some(time), owns, ..Manager::default() }
}

pub fn condition(name: &str, status: ConditionStatus, reason: &str) -> Condition {
    Condition { r#type: name.into(), status, reason: reason.into(), ..Condition::default() }
}

pub fn text(path: &str, value: &str) -> Fact {
    Fact { path: path.into(), value: FactValue::Text(value.into()) }
}

pub fn count(path: &str, number: i64) -> Fact {
    Fact { path: path.into(), value: FactValue::Number(number) }
}

/// Returns a reference to an object as the controller that owns the referrer.
pub fn owner(of: &ObjectAddress, uid: &str) -> OwnerReference {
    let version = if of.group.is_empty() { "v1".to_owned() } else { format!("{}/v1", of.group) };
    OwnerReference {
        api_version: version,
        kind: of.kind.clone(),
        name: of.name.clone(),
        uid: uid.to_owned(),
        controller: true,
        blocks_deletion: true,
    }
}

/// Returns a reference in a field of a spec to an object by its name.
pub fn reference(group: &str, kind: &str, path: &str, name: &str) -> Reference {
    Reference {
        slot: path.into(),
        group: group.into(),
        kind: kind.into(),
        name_hash: name.bytes().fold(7, |hash, byte| hash * 31 + u64::from(byte)),
        name: name.into(),
        ..Reference::default()
    }
}

pub fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}
