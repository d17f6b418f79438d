//! How field managers write the objects of a kind, as the managed fields show it. This outlives the
//! objects, for the report about permissions.

use std::sync::Arc;

use crate::observation::{Manager, ManagerOperation, ObjectView};
use crate::time::Timestamp;

/// The maximum number of different writes of one kind.
const MAX_WRITES: usize = 64;

/// The writes of one kind.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    pub(crate) known: Vec<Write>,
    /// Some did not fit.
    pub(crate) are_left_out: bool,
}

/// The writes of one manager in one way.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) manager: Arc<str>,
    /// `status`, `scale` or empty.
    pub(crate) subresource: Box<str>,
    pub(crate) way: Way,
    /// The last one.
    pub(crate) at: Timestamp,
}

/// How a manager writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Create,
    /// Server-side apply.
    Apply,
    /// An update or a patch: the managed fields do not tell them apart.
    Update,
}

impl Way {
    /// Returns the verbs that such a write may have used.
    pub(crate) const fn verbs(self) -> &'static [&'static str] {
        match self {
            Self::Create => &["create"],
            Self::Apply => &["patch"],
            Self::Update => &["update", "patch"],
        }
    }
}

impl Writes {
    /// Notes the last write of a manager of an object. A manager that has written the whole spec has
    /// created the object, because nobody creates an object without fields.
    pub(crate) fn note(&mut self, view: &ObjectView, manager: &Manager, at: Timestamp) {
        let way = match manager.operation {
            ManagerOperation::Apply => Way::Apply,
            ManagerOperation::Update => Way::Update,
        };
        self.add(manager, way, at);

        let is_own = |other: &Manager| !other.owns.spec || other.name == manager.name;
        if manager.subresource.is_empty()
            && manager.owns.spec
            && view.managers.iter().all(is_own)
            && let Some(created) = view.created
        {
            self.add(manager, Way::Create, created);
        }
    }

    fn add(&mut self, manager: &Manager, way: Way, at: Timestamp) {
        let Manager { name, subresource, .. } = manager;
        let is_same = |known: &&mut Write| {
            known.way == way && *known.manager == **name && *known.subresource == **subresource
        };
        if let Some(known) = self.known.iter_mut().find(is_same) {
            known.at = at.max(known.at);
        } else if self.known.len() < MAX_WRITES {
            let (manager, subresource) = (name.as_str().into(), subresource.as_str().into());
            self.known.push(Write { manager, subresource, way, at });
        } else {
            self.are_left_out = true;
        }
    }
}
