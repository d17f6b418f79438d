//! Replaces the names of namespaces and objects with pseudonyms, and removes free text.
//!
//! Kinds, finalizers, managers and reasons stay, because they belong to the operator and the model needs them. Within a
//! recording, equal names get equal pseudonyms, so that references still match.

use std::hash::Hasher;

use loopwatch_model::observation::{
    Answer, FactValue, LeaseView, ObjectKey, ObjectView, Observation, PermissionsView, Probe, Scope, SourceId, WatchId,
    WatchedKind,
};
use siphasher::sip::SipHasher24;

/// The pseudonyms of one recording.
pub(super) struct Pseudonyms {
    key: [u8; 16],
}

// === impl Pseudonyms ===

impl Pseudonyms {
    pub(super) fn new(key: [u8; 16]) -> Self {
        Self { key }
    }

    /// Returns the observation with pseudonyms.
    pub(super) fn anonymize(&self, observation: Observation) -> Observation {
        match observation {
            Observation::KindsDiscovered(kinds) => {
                Observation::KindsDiscovered(kinds.into_iter().map(|kind| self.kind(kind)).collect())
            }
            Observation::ListBegan { watch, epoch } => Observation::ListBegan { watch: self.watch(&watch), epoch },
            Observation::Listed { watch, object } => {
                Observation::Listed { watch: self.watch(&watch), object: Box::new(self.object(*object)) }
            }
            Observation::ListEnded { watch, epoch, version } => {
                Observation::ListEnded { watch: self.watch(&watch), epoch, version }
            }
            Observation::Applied { watch, object } => {
                Observation::Applied { watch: self.watch(&watch), object: Box::new(self.object(*object)) }
            }
            Observation::Deleted { watch, key, version } => {
                Observation::Deleted { watch: self.watch(&watch), key: self.object_key(key), version }
            }
            Observation::Progressed { watch, version } => {
                Observation::Progressed { watch: self.watch(&watch), version }
            }
            Observation::PermissionsReviewed(view) => {
                Observation::PermissionsReviewed(PermissionsView { namespace: self.namespace(&view.namespace), ..view })
            }
            Observation::LeaseSeen(lease) => Observation::LeaseSeen(LeaseView {
                namespace: self.namespace(&lease.namespace),
                holder: self.name("holder", &lease.holder),
                ..lease
            }),
            Observation::Answered { probe: Probe::Count(watch), answer } => {
                Observation::Answered { probe: Probe::Count(self.watch(&watch)), answer: Answer::clone(&answer) }
            }
            Observation::SourceFailed { source, cause, .. } => {
                Observation::SourceFailed { source: self.source(source), cause, detail: String::new() }
            }
            Observation::SourceRecovered { source } => Observation::SourceRecovered { source: self.source(source) },
            Observation::Restored(_)
            | Observation::DefinitionSeen(_)
            | Observation::DefinitionGone(_)
            | Observation::ClockStepped { .. }
            | Observation::Tick => observation,
        }
    }

    fn kind(&self, kind: WatchedKind) -> WatchedKind {
        let scope = match kind.scope {
            Scope::Namespace(namespace) => Scope::Namespace(self.namespace(&namespace)),
            other => other,
        };
        WatchedKind { watch: self.watch(&kind.watch), scope, ..kind }
    }

    fn watch(&self, watch: &WatchId) -> WatchId {
        match watch.0.split_once('/') {
            Some((resource, namespace)) => WatchId(format!("{resource}/{}", self.namespace(namespace)).into()),
            None => watch.clone(),
        }
    }

    fn source(&self, source: SourceId) -> SourceId {
        match source {
            SourceId::Watch(watch) => SourceId::Watch(self.watch(&watch)),
            other => other,
        }
    }

    fn object(&self, mut object: ObjectView) -> ObjectView {
        object.key = self.object_key(object.key);
        for owner in &mut object.owners {
            owner.name = self.name("object", &owner.name);
        }
        for (key, value) in object.annotations.iter_mut().chain(&mut object.labels) {
            *value = self.mark(key, value);
        }
        for reference in &mut object.references {
            reference.slot = self.slot(&reference.slot);
            reference.namespace = self.namespace(&reference.namespace);
        }
        for condition in &mut object.conditions {
            condition.message.clear();
        }
        for fact in &mut object.facts {
            // One word is a phase; a sentence may contain anything.
            if let FactValue::Text(text) = &mut fact.value
                && text.contains(char::is_whitespace)
            {
                "(text)".clone_into(text);
            }
        }
        object
    }

    /// Returns the value of an annotation or a label. All values are names, unless their key says otherwise.
    fn mark(&self, key: &str, value: &str) -> String {
        let (prefix, name) = key.rsplit_once('/').unwrap_or(("", key));
        let name = name.to_ascii_lowercase().replace('_', "-");
        let kept = matches!(prefix, "loopwatch.dev" | "soft-delete" | "deployment.kubernetes.io")
            || matches!(name.as_str(), "managed-by" | "created-by" | "component" | "primary-resource-type")
            || ["kind", "gvk", "hash", "traceparent", "spancontext", "-at", "requestedat", "restartedat"]
                .iter()
                .any(|end| name.ends_with(end));
        if kept {
            value.to_owned()
        } else if name.ends_with("namespace") || name.ends_with("-ns") {
            self.namespace(value)
        } else if let Some((namespace, object)) = value.split_once('/') {
            format!("{}/{}", self.namespace(namespace), self.name("object", object))
        } else {
            self.name("object", value)
        }
    }

    /// Returns the path of a reference. Keys between the first and the last may be names that the user chose.
    fn slot(&self, slot: &str) -> String {
        let last = slot.split('.').count().saturating_sub(1);
        let part = |(position, part): (usize, &str)| match part.trim_end_matches("[]") {
            key if position > 0 && position < last => format!("{}{}", self.name("key", key), &part[key.len()..]),
            _ => part.to_owned(),
        };
        slot.split('.').enumerate().map(part).collect::<Vec<_>>().join(".")
    }

    fn object_key(&self, key: ObjectKey) -> ObjectKey {
        ObjectKey { namespace: self.namespace(&key.namespace), name: self.name("object", &key.name) }
    }

    fn namespace(&self, namespace: &str) -> String {
        self.name("namespace", namespace)
    }

    fn name(&self, what: &str, name: &str) -> String {
        if name.is_empty() {
            return String::new();
        }
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write(what.as_bytes());
        hasher.write(&[0xff]);
        hasher.write(name.as_bytes());
        format!("{what}-{:08x}", hasher.finish() as u32)
    }
}

#[cfg(test)]
mod tests {
    use loopwatch_model::observation::Reference;

    use super::*;

    #[test]
    fn marks_and_references_name_nobody() {
        let pseudonyms = Pseudonyms::new([7; 16]);
        let text = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let reference = Reference {
            slot: "spec.users.payroll.passwordSecretRef".into(),
            namespace: "team-a".into(),
            ..Reference::default()
        };
        let object = pseudonyms.object(ObjectView {
            key: ObjectKey { namespace: "team-a".into(), name: "payroll".into() },
            annotations: text(&[
                ("loopwatch.dev/ignore", "Overdue"),
                ("example.org/owner-name", "payroll"),
                ("example.org/owner_ns", "team-a"),
                ("example.org/owner-kind", "Shop"),
                ("operator-sdk/primary-resource", "team-a/payroll"),
                ("argocd.argoproj.io/tracking-id", "payroll:apps/Deployment:team-a/payroll"),
            ]),
            labels: text(&[("app.kubernetes.io/instance", "payroll"), ("app.kubernetes.io/managed-by", "Helm")]),
            references: vec![reference],
            ..ObjectView::default()
        });
        let json = serde_json::to_string(&object).expect("serialisable");
        assert!(!json.contains("payroll") && !json.contains("team-a"), "{json}");
        assert_eq!(object.annotations["loopwatch.dev/ignore"], "Overdue");
        assert_eq!(object.annotations["example.org/owner-name"], object.key.name);
        assert_eq!(object.annotations["example.org/owner_ns"], object.key.namespace);
        assert_eq!(object.annotations["example.org/owner-kind"], "Shop");
        assert_eq!(object.labels["app.kubernetes.io/instance"], object.key.name);
        assert_eq!(object.labels["app.kubernetes.io/managed-by"], "Helm");
        assert_eq!(object.references[0].namespace, object.key.namespace);
        assert!(object.references[0].slot.ends_with(".passwordSecretRef"), "{}", object.references[0].slot);
    }

    #[test]
    fn equal_names_get_equal_pseudonyms_and_messages_are_removed() {
        let pseudonyms = Pseudonyms::new([7; 16]);
        let key = ObjectKey { namespace: "team-a".into(), name: "payroll".into() };
        let condition =
            loopwatch_model::observation::Condition { message: "payroll is broken".into(), ..Default::default() };
        let object = ObjectView { key: key.clone(), conditions: vec![condition], ..Default::default() };
        let watch = WatchId("widgets.example.io/team-a".into());
        let applied = pseudonyms.anonymize(Observation::Applied { watch: watch.clone(), object: Box::new(object) });
        let deleted = pseudonyms.anonymize(Observation::Deleted { watch, key, version: "5".into() });
        let text = serde_json::to_string(&(&applied, &deleted)).expect("serialisable");
        assert!(!text.contains("payroll") && !text.contains("team-a"), "{text}");
        let (Observation::Applied { object, .. }, Observation::Deleted { key, .. }) = (applied, deleted) else {
            unreachable!("the variants stay")
        };
        assert_eq!(object.key, key);
    }
}
