//! The subjects of findings.

use crate::finding::Subject;
use crate::model::world::World;
use crate::model::world::store::Slot;
use crate::observation::SourceId;

impl World {
    /// Returns all objects of a kind as the subject of a finding.
    pub(crate) fn kind_subject(&self, number: u16) -> Subject {
        let kind = &self.kinds[number as usize];
        Subject::Kind { group: kind.group.to_string(), kind: kind.kind.to_string() }
    }

    /// Returns the object as the subject of a finding.
    pub(crate) fn subject(&self, slot: Slot) -> Subject {
        let (group, kind, namespace, name) =
            self.store.get(slot).map_or_else(Default::default, |record| {
                let kind = self.kind_of(record.watch);
                (
                    kind.group.to_string(),
                    kind.kind.to_string(),
                    record.namespace.to_string(),
                    record.name.to_string(),
                )
            });
        Subject::Object { group, kind, namespace, name }
    }
}

/// Returns a source as the subject of a finding.
pub(crate) fn source(id: &SourceId) -> Subject {
    Subject::Source { name: id.to_string() }
}

/// Returns a permission in a namespace, or in the whole cluster, as the subject of a finding.
pub(crate) fn permission(namespace: &str, permission: String) -> Subject {
    Subject::Permission { namespace: namespace.to_owned(), permission }
}

/// Returns a namespace as the subject of a finding.
pub(crate) fn namespace(name: &str) -> Subject {
    let (group, kind, namespace) = (String::new(), "Namespace".to_owned(), String::new());
    Subject::Object { group, kind, namespace, name: name.to_owned() }
}
