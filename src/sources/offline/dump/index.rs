//! Answers questions about single objects from a dump.
//!
//! A dump shows which objects exist, but seldom which do not: it may hold only some kinds or some
//! namespaces. An object counts as absent only where the dump shows other objects of its kind.

use std::collections::{BTreeMap, BTreeSet};

use loopwatch_model::observation::{
    Answer, Cause, Dependent, MAX_DEPENDENTS, ObjectAddress, ObjectKey, ObjectView, Probe,
};

/// The metadata of all objects of a dump.
#[derive(Debug, Default)]
pub(crate) struct DumpIndex {
    /// By group and kind.
    pub(super) kinds: BTreeMap<(String, String), DumpedKind>,
    /// The namespaces of all objects.
    namespaces: BTreeSet<String>,
    /// Whether a part of the dump, which may hold any object, could not be read.
    pub(super) is_broken: bool,
}

/// The objects of one kind.
#[derive(Debug, Default)]
pub(super) struct DumpedKind {
    pub(super) objects: BTreeMap<ObjectKey, ObjectView>,
    namespaces: BTreeSet<String>,
}

/// Namespaces that exist in every cluster, and thus in every list of all namespaces.
const ALWAYS_THERE: [&str; 2] = ["default", "kube-system"];

impl DumpIndex {
    /// Answers a question.
    pub(crate) fn answer(&self, probe: &Probe) -> Answer {
        let answer = match probe {
            Probe::Read(address) => self.read(address),
            Probe::Dependents { owner, uid } => Ok(self.dependents(owner, uid)),
            Probe::Count(_) | Probe::Fields { .. } | Probe::Profile { .. } => Err(Cause::NotFound),
        };

        answer.unwrap_or_else(Answer::Failed)
    }

    fn read(&self, address: &ObjectAddress) -> Result<Answer, Cause> {
        let ObjectAddress { group, kind, namespace, name } = address;
        let named = self.kinds.get(&(group.clone(), kind.clone()));

        // An address without a group may mean a kind of any group.
        let mut others =
            self.kinds.iter().filter(|((_, other), _)| group.is_empty() && other == kind);
        let dumped = match (named, others.next(), others.next()) {
            (Some(dumped), ..) | (None, Some((_, dumped)), None) => dumped,
            (None, Some(_), Some(_)) => return Err(Cause::Invalid),
            (None, None, _) => return Err(Cause::NotFound),
        };
        let in_namespace = ObjectKey { namespace: namespace.clone(), name: name.clone() };

        let in_cluster = ObjectKey { namespace: String::new(), name: name.clone() };
        if let Some(object) =
            dumped.objects.get(&in_namespace).or_else(|| dumped.objects.get(&in_cluster))
        {
            return Ok(Answer::Found(Box::new(object.clone())));
        }

        match named {
            _ if self.is_broken => Err(Cause::Undecodable),
            Some(dumped) if self.covers(dumped, namespace) => Ok(Answer::Absent),
            _ => Err(Cause::NotFound),
        }
    }

    /// Adds an object.
    pub(super) fn add(&mut self, kind: &(String, String), object: &ObjectView) {
        self.namespaces.insert(object.key.namespace.clone());
        self.kinds.entry(kind.clone()).or_default().add(object);
    }

    /// Whether the dump shows the objects of a kind in a namespace.
    pub(super) fn shows(&self, kind: &(String, String), namespace: &str) -> bool {
        self.kinds.get(kind).is_some_and(|dumped| self.covers(dumped, namespace))
    }

    /// Whether the dump shows the objects of a kind in a namespace. It does if it has one there, or
    /// an empty list of the kind. It also does if it has objects of the kind in several namespaces,
    /// and thus probably in all, and other objects in this one. Nothing exists in a namespace that
    /// is absent from a list of all namespaces.
    fn covers(&self, dumped: &DumpedKind, namespace: &str) -> bool {
        let namespaces = &dumped.namespaces;
        match namespaces.len() {
            0 => true,
            _ if namespaces.contains(namespace) || namespaces.contains("") => true,
            1 => false,
            _ => self.namespaces.contains(namespace) || self.lacks_namespace(namespace),
        }
    }

    fn lacks_namespace(&self, name: &str) -> bool {
        let Some(dumped) = self.kinds.get(&(String::new(), "Namespace".to_owned())) else {
            return false;
        };
        let has = |name: &str| {
            dumped
                .objects
                .contains_key(&ObjectKey { namespace: String::new(), name: name.to_owned() })
        };

        ALWAYS_THERE.iter().all(|name| has(name)) && !has(name)
    }

    /// The dependents in the dump. There may be others.
    fn dependents(&self, owner: &ObjectAddress, uid: &str) -> Answer {
        let is_near =
            |key: &ObjectKey| owner.namespace.is_empty() || owner.namespace == key.namespace;
        let mut found = Vec::new();
        for ((group, kind), dumped) in &self.kinds {
            let owned = dumped
                .objects
                .values()
                .filter(|object| object.owners.iter().any(|owner| owner.uid == uid));

            found.extend(owned.filter(|object| is_near(&object.key)).map(|object| {
                let (group, kind, object) = (group.clone(), kind.clone(), object.clone());
                Dependent { group, kind, object }
            }));
        }

        found.truncate(MAX_DEPENDENTS);
        Answer::Dependents { found, complete: false }
    }
}

impl DumpedKind {
    /// Adds what answers need from an object.
    fn add(&mut self, object: &ObjectView) {
        let ObjectView { key, uid, version, created, deleted, grace, finalizers, owners, .. } =
            object.clone();
        self.namespaces.insert(key.namespace.clone());

        let kept = ObjectView {
            uid,
            version,
            created,
            deleted,
            grace,
            finalizers,
            owners,
            key,
            ..ObjectView::default()
        };

        self.objects.insert(kept.key.clone(), kept);
    }
}
