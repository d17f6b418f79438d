//! Anonymizes objects. Texts in a status or an annotation may be names, unless they are common
//! words.

use std::collections::BTreeMap;

use loopwatch_model::model::annotated::Annotated;
use loopwatch_model::observation::{
    Condition, Fact, FactValue, HandlerAttempts, ObjectView, OwnerReference, Pause, Reference,
    StartupRead,
};
use loopwatch_model::time::Timestamp;

use super::Pseudonyms;

impl Pseudonyms {
    pub(super) fn object(&self, object: ObjectView) -> ObjectView {
        let ObjectView {
            key,
            uid,
            version,
            generation,
            created,
            deleted,
            grace,
            finalizers,
            owners,
            annotations,
            labels,
            resembles_owned,
            managers,
            paused,
            attempts,
            status,
            observed_generation,
            conditions,
            facts,
            name_hash,
            references,
            startup,
            marks_hash,
            hashes,
            bytes,
            lints,
        } = object;
        ObjectView {
            key: self.object_key(key),
            uid: self.uid(&uid),
            version,
            generation,
            created,
            deleted,
            grace,
            finalizers,
            owners: owners.into_iter().map(|owner| self.owner(owner)).collect(),
            annotations: self.annotations(annotations),
            labels: self.marks(labels),
            resembles_owned,
            managers,
            paused: paused.map(|Pause { by }| Pause { by: self.pause(&by) }),
            attempts: attempts.into_iter().map(|attempts| self.attempts(attempts)).collect(),
            status,
            observed_generation,
            conditions: conditions.into_iter().map(|condition| self.condition(condition)).collect(),
            facts: facts.into_iter().map(|fact| self.fact(fact)).collect(),
            name_hash, // no file contains its key
            references: references.into_iter().map(|reference| self.reference(reference)).collect(),
            startup: startup
                .into_iter()
                .map(|r| StartupRead { name: self.name("object", &r.name), ..r })
                .collect(),
            marks_hash,
            hashes,
            bytes,
            lints,
        }
    }

    fn attempts(&self, attempts: HandlerAttempts) -> HandlerAttempts {
        let HandlerAttempts { handler, failed, error } = attempts;
        HandlerAttempts { handler: self.words(&handler), failed, error: self.prose(&error) }
    }

    fn owner(&self, owner: OwnerReference) -> OwnerReference {
        let OwnerReference { api_version, kind, name, uid, controller, blocks_deletion } = owner;
        let (kind, name, uid) = (self.kind_name(kind), self.name("object", &name), self.uid(&uid));
        OwnerReference { api_version, kind, name, uid, controller, blocks_deletion }
    }

    pub(super) fn condition(&self, condition: Condition) -> Condition {
        let Condition {
            at,
            r#type,
            status,
            reason,
            message,
            severity,
            observed_generation,
            changed,
            failed_call,
        } = condition;
        Condition {
            at: self.path(&at),
            r#type: self.condition_type(&r#type),
            status,
            reason: self.value(&reason),
            message: self.prose(&message),
            severity: self.value(&severity),
            observed_generation,
            changed,
            failed_call: failed_call.map(|call| Box::new(self.failed_call(*call))),
        }
    }

    fn fact(&self, fact: Fact) -> Fact {
        let Fact { path, value } = fact;
        let value = match value {
            FactValue::Text(text) => FactValue::Text(self.value(&text)),
            other @ (FactValue::Flag(_) | FactValue::Number(_)) => other,
        };

        Fact { path: self.path(&path), value }
    }

    /// `spec.suspend`, `annotation example.io/paused`, `label …`.
    fn pause(&self, by: &str) -> String {
        match by.split_once(' ') {
            Some((what, key)) => {
                format!(
                    "{what} {}",
                    key.split('/').map(|part| self.words(part)).collect::<Vec<_>>().join("/")
                )
            }
            None => self.path(by),
        }
    }

    /// Returns the annotations with pseudonyms. Valid annotations for loopwatch stay; invalid ones
    /// may contain any text.
    pub(super) fn annotations(
        &self,
        mut annotations: BTreeMap<String, String>,
    ) -> BTreeMap<String, String> {
        if Annotated::read(&annotations).is_none_or(|annotated| !annotated.problems.is_empty()) {
            annotations.retain(|key, _| !key.starts_with("loopwatch.dev/"));
        }
        self.marks(annotations)
    }

    fn marks(&self, marks: BTreeMap<String, String>) -> BTreeMap<String, String> {
        let mark = |(key, value): (String, String)| {
            let value = self.mark(&key, &value);
            (key, value)
        };

        marks.into_iter().map(mark).collect()
    }

    /// Returns the value of an annotation or a label. A value counts as a name, unless its key and
    /// its form show something else.
    pub(super) fn mark(&self, key: &str, value: &str) -> String {
        let (prefix, name) = key.rsplit_once('/').unwrap_or(("", key));
        let name = name.to_ascii_lowercase().replace('_', "-");
        let kept = (prefix == "loopwatch.dev" && matches!(name.as_str(), "ignore" | "deadline"))
            || (name == "managed-by" && is_tool(value)) // `created-by` may name a person
            || (prefix == "soft-delete" && matches!(value, "canary" | "stable"))
            || (!name.contains("owner") && is_switch(value))
            || is_nobody(&name, value);

        if kept {
            value.to_owned()
        } else if name == "component" {
            self.words(value)
        } else if name.ends_with("uid") {
            self.uid(value)
        } else if name.ends_with("namespace") || name.ends_with("-ns") {
            self.namespace(value)
        } else if let Some((namespace, object)) = value.split_once('/') {
            format!("{}/{}", self.namespace(namespace), self.name("object", object))
        } else {
            self.name("object", value)
        }
    }

    fn reference(&self, reference: Reference) -> Reference {
        let Reference { slot, group, kind, namespace, name_hash, name, optional } = reference;
        let (slot, namespace, name) =
            (self.slot(&slot), self.namespace(&namespace), self.name("object", &name));
        let kind = self.kind_name(kind);

        Reference { slot, group, kind, namespace, name_hash, name, optional }
    }

    /// Returns the path of a reference. Keys between the first and the last may be names chosen by
    /// the user.
    pub(super) fn slot(&self, slot: &str) -> String {
        let last = slot.split('.').count().saturating_sub(1);
        let part = |(position, part): (usize, &str)| match part.trim_end_matches("[]") {
            key if position > 0 && position < last => {
                format!("{}{}", self.name("key", key), &part[key.len()..])
            }
            _ => part.to_owned(),
        };

        slot.split('.').enumerate().map(part).collect::<Vec<_>>().join(".")
    }

    /// Returns the kind in a reference. A spec may contain any text there, so only a text in the
    /// form of a kind stays.
    pub(super) fn kind_name(&self, kind: String) -> String {
        let is_kind = kind.starts_with(|first: char| first.is_ascii_uppercase())
            && kind.chars().all(|character| character.is_ascii_alphanumeric());
        if is_kind || kind.is_empty() { kind } else { self.name("kind", &kind) }
    }
}

/// Whether the value of an annotation or label switches something on or off.
fn is_switch(value: &str) -> bool {
    let value = value.to_ascii_lowercase();
    matches!(
        value.as_str(),
        "true" | "false" | "yes" | "no" | "on" | "off" | "0" | "1" | "enabled" | "disabled"
    )
}

/// Whether the value of `managed-by` is a tool that many people use. Anything else may name somebody.
fn is_tool(value: &str) -> bool {
    const TOOLS: [&str; 9] =
        ["argocd", "carvel", "flux", "helm", "kapp", "kubectl", "kustomize", "olm", "tiller"];
    TOOLS.iter().any(|tool| value.eq_ignore_ascii_case(tool))
}

/// Whether a value is a time, a hash, a number, a trace or a kind, as the name of its annotation or
/// label says. Anybody can write any text under any name.
fn is_nobody(name: &str, value: &str) -> bool {
    let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
    let is = |accepts: fn(char) -> bool| !value.is_empty() && value.chars().all(accepts);
    if ends(&["-at", "requestedat", "restartedat"]) {
        // Operators also write seconds since 1970.
        Timestamp::parse(value).is_some() || (value.len() == 10 && is(|c| c.is_ascii_digit()))
    } else if ends(&["hash"]) {
        // Kubernetes encodes hashes like this. A StatefulSet puts its name before one, and a word
        // has vowels.
        is(|c| "bcdfghjklmnpqrstvwxz0123456789".contains(c))
            && value.contains(|c: char| c.is_ascii_digit())
    } else if ends(&["traceparent", "spancontext"]) {
        value
            .replace("traceparent", "")
            .chars()
            .all(|c| c.is_ascii_hexdigit() || "-{}:\" ".contains(c))
    } else if ends(&["kind", "gvk", "primary-resource-type"]) {
        is(|c| c.is_ascii_alphanumeric() || "./,= ".contains(c))
            && value.contains(|c: char| c.is_ascii_uppercase())
    } else {
        name == "revision" && is(|c| c.is_ascii_digit())
    }
}
