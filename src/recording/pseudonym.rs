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
            Observation::Skipped { source, cause } => Observation::Skipped { source: self.source(source), cause },
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
    use super::*;

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
