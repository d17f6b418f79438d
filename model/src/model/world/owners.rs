//! The owners and the children of objects.

use crate::model::world::World;
use crate::model::world::intern::Symbol;
use crate::model::world::kinds::kind_name;
use crate::model::world::owner_graph::*;
use crate::model::world::store::{self, Flag, Owners, Record, Slot};
use crate::observation::{ObjectAddress, ObjectView, OwnerReference, names_kind};

impl World {
    /// Returns the object with this UID.
    pub(crate) fn find_uid(&self, uid: u128) -> Option<Slot> {
        self.graph.find(&self.store, uid)
    }

    /// Returns the objects that name this one as an owner, in the order of their slots.
    pub(crate) fn children_of(&self, uid: u128) -> impl Iterator<Item = Slot> {
        let key = fingerprint(uid);
        let slots = self.graph.children.range((key, 0)..=(key, Slot::MAX)).map(|(_, slot)| *slot);
        slots.filter(move |slot| self.owners_of(*slot).iter().any(|owner| owner.uid() == uid))
    }

    /// Returns the owners of an object.
    pub(crate) fn owners_of(&self, slot: Slot) -> &[Owner] {
        self.store.get(slot).map(Record::owners).unwrap_or_default()
    }

    /// Returns the name of an owner.
    pub(crate) fn owner_name<'a>(&'a self, owner: &'a Owner) -> &'a str {
        let known = || self.find_uid(owner.uid()).and_then(|slot| self.store.get(slot));
        owner
            .name
            .as_deref()
            .map(|name| &**name)
            .or_else(|| known().map(|record| &*record.name))
            .unwrap_or_default()
    }

    /// Returns the group and the kind of an owner.
    pub(crate) fn owner_kind(&self, owner: &Owner) -> (&str, &str) {
        let (text, _) = self.kind_and_version(owner.kind);
        text.split_once('/').unwrap_or(("", text))
    }

    /// Returns the kind of an owner as `group/Kind`, and the version that the reference names.
    pub(crate) fn owner_version(&self, owner: &Owner) -> (&str, &str) {
        self.kind_and_version(owner.kind)
    }

    fn kind_and_version(&self, symbol: Symbol) -> (&str, &str) {
        let text: &str = self.shared.texts.get(symbol);
        text.split_once(SEPARATOR).unwrap_or((text, ""))
    }

    /// Returns the address of an object.
    pub(crate) fn object_address(&self, slot: Slot) -> ObjectAddress {
        self.store.get(slot).map(|record| self.record_address(record)).unwrap_or_default()
    }

    /// Returns the address of the object of a record.
    pub(crate) fn record_address(&self, record: &Record) -> ObjectAddress {
        let kind = self.kind_of(record.watch);
        ObjectAddress {
            group: kind.group.to_string(),
            kind: kind.kind.to_string(),
            namespace: record.namespace.to_string(),
            name: record.name.to_string(),
        }
    }

    /// Adds a new object to the graph. Its children are reviewed, because they have an owner now.
    pub(crate) fn add_to_graph(&mut self, slot: Slot) {
        let Some(uid) =
            self.store.get(slot).map(|record| record.uid).filter(|uid| *uid != store::NO_UID)
        else {
            return;
        };

        self.graph.insert(&self.store, slot, uid);
        let children: Vec<Slot> = self.children_of(uid).collect();
        self.agenda.objects.extend(children);
    }

    /// Removes an object from the graph. Its children are reviewed. `gone` tells that the object
    /// was deleted, and is not merely no longer visible.
    pub(crate) fn remove_from_graph(&mut self, slot: Slot, gone: bool) {
        let Some(record) = self.store.get(slot) else { return };
        let (uid, name) = (record.uid, record.name.clone());
        let children: Vec<Slot> =
            if uid == store::NO_UID { Vec::new() } else { self.children_of(uid).collect() };

        for child in &children {
            let owners = self.store.get_mut(*child).and_then(|record| record.owners.as_mut());
            let owners = owners.into_iter().flat_map(|owners| owners.0.iter_mut());
            for owner in owners.filter(|owner| owner.uid() == uid) {
                owner.name.get_or_insert_with(|| Box::new(name.clone()));
            }
        }

        self.set_owners(slot, Vec::new());
        if uid != store::NO_UID {
            self.graph.remove(slot, uid);
        }

        if gone && uid != store::NO_UID {
            self.graph.departed.add(self.now, uid);
        }

        self.agenda.objects.extend(children);
    }

    /// Replaces the owners of an object. Returns whether they have changed.
    pub(crate) fn update_owners(&mut self, slot: Slot, view: &ObjectView) -> bool {
        if let Some(record) = self.store.get_mut(slot) {
            record.flags.set(Flag::OwnersCut, view.lints.iter().any(|lint| lint == CUT));
        }

        let references = &view.owners;
        let old = self.owners_of(slot);
        let same = |(old, new): (&Owner, &OwnerReference)| {
            old.uid() == store::uid_number(&new.uid)
                && self.owner_name(old) == new.name
                && self.names_kind_of(new, old)
                && old.blocks_deletion == new.blocks_deletion
        };

        if old.len() == references.len() && old.iter().zip(references).all(same) {
            return false;
        }

        let new: Vec<Owner> = references
            .iter()
            .map(|reference| {
                let uid = store::uid_number(&reference.uid);
                let kind = self.acquire_text(&self.kind_text(reference));
                let name = (!self.is_known(uid, kind, &reference.name))
                    .then(|| Box::new(reference.name.as_str().into()));

                Owner { uid: halves(uid), kind, blocks_deletion: reference.blocks_deletion, name }
            })
            .collect();

        self.set_owners(slot, new);
        true
    }

    /// Returns whether the model knows an object with this UID, kind and name.
    fn is_known(&self, uid: u128, kind: Symbol, name: &str) -> bool {
        let known = self.find_uid(uid).and_then(|slot| self.store.get(slot));
        known.is_some_and(|record| {
            *record.name == *name
                && self.kind_of(record.watch).name() == self.kind_and_version(kind).0
        })
    }

    fn set_owners(&mut self, slot: Slot, owners: Vec<Owner>) {
        let Some(record) = self.store.get_mut(slot) else { return };
        let number = self.watches[record.watch as usize].kind as usize;
        self.kinds[number].siblings.count(record.owners(), &owners);

        let new = (!owners.is_empty()).then(|| Box::new(Owners(owners.into())));
        let old = std::mem::replace(&mut record.owners, new);
        for owner in old.iter().flat_map(|owners| &owners.0) {
            self.shared.texts.release(owner.kind);
            self.graph.children.remove(&(fingerprint(owner.uid()), slot));
        }

        let Some(record) = self.store.get(slot) else { return };
        self.graph
            .children
            .extend(record.owners().iter().map(|owner| (fingerprint(owner.uid()), slot)));
    }
}

impl World {
    /// Returns whether a reference names the kind and the version of a known owner. Each version of
    /// each child asks this, so it allocates only for a kind in lower case, which hardly anybody
    /// writes.
    fn names_kind_of(&self, reference: &OwnerReference, owner: &Owner) -> bool {
        let in_own_case = reference.kind.contains(|c: char| c.is_ascii_uppercase());
        if !in_own_case || reference.kind.contains('/') {
            return **self.shared.texts.get(owner.kind) == *self.kind_text(reference);
        }

        let (group, version) = group_and_version(reference);
        self.owner_kind(owner) == (group, &reference.kind) && self.owner_version(owner).1 == version
    }

    /// Returns the kind of a reference as `group/Kind`, or `Kind` for the core group, and its
    /// version. The garbage collector also resolves a kind in lower case.
    fn kind_text(&self, reference: &OwnerReference) -> String {
        let (group, version) = group_and_version(reference);
        let mut kinds = self.kinds.iter().filter(|kind| *kind.group == *group);
        let known = kinds.find(|known| names_kind(&reference.kind, &known.kind));
        let kind = known.map_or(reference.kind.as_str(), |known| &known.kind);

        format!("{}{SEPARATOR}{version}", kind_name(group, kind))
    }
}

fn group_and_version(reference: &OwnerReference) -> (&str, &str) {
    reference.api_version.split_once('/').unwrap_or(("", &reference.api_version))
}
