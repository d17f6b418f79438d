//! Kinds and watches: which watch shows what, and the totals of those that others replace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::world::kinds::{Kind, OTHER, Watch, WatchNamespace};
use crate::model::world::limits::Limit;
use crate::model::world::store::Slot;
use crate::model::world::{WatchId, World};
use crate::observation::{Permission, SourceId, WatchedKind};
use crate::snapshot::NamespaceTotals;

impl World {
    /// Returns the number of a kind.
    pub(crate) fn number_of_kind(&self, group: &str, kind: &str) -> Option<u16> {
        let is_it = |known: &Kind| *known.group == *group && *known.kind == *kind;
        self.kinds.iter().position(is_it).and_then(|number| u16::try_from(number).ok())
    }

    /// Returns the namespaces in which a kind has objects, once for each watch.
    pub(crate) fn namespaces_with_objects(
        &self,
        number: u16,
    ) -> impl Iterator<Item = &WatchNamespace> {
        let watches = self.watches.iter().filter(move |watch| watch.kind == number && watch.active);
        watches.flat_map(|watch| &watch.namespaces).filter(|namespace| !namespace.is_empty())
    }

    /// Returns the active watches of a kind.
    pub(crate) fn watches_of(
        &self,
        group: &str,
        kind: &str,
    ) -> impl Iterator<Item = (u16, &Watch)> + use<'_> {
        let number = self.number_of_kind(group, kind);
        let watches =
            self.watches.iter().enumerate().filter(move |(_, watch)| Some(watch.kind) == number);

        watches
            .filter_map(|(n, watch)| Some((u16::try_from(n).ok()?, watch)))
            .filter(|(_, watch)| watch.active)
    }

    /// Updates a kind from discovery. If loopwatch now reads the kind differently, it reads an
    /// object again even if its version is known.
    pub(crate) fn update_kind_definition(&mut self, number: u16, watched: &WatchedKind) {
        let kind = self.watches[number as usize].kind;
        let state = &mut self.kinds[kind as usize];
        let changed = (state.role, state.status, state.version.as_str())
            != (watched.role, watched.status, &watched.version);

        self.note_served_versions(&watched.group, &watched.kind, &watched.versions);
        let state = &mut self.kinds[kind as usize];
        state.version.clone_from(&watched.version);
        state.status = watched.status;
        state.role = watched.role;

        let suspicion_changed =
            std::mem::replace(&mut state.suspected, watched.suspected) != watched.suspected;
        if changed {
            state.silent_status.coverage.listed = None; // the end of the next list decides again what the kind says
            self.watches
                .iter_mut()
                .filter(|watch| watch.kind == kind)
                .for_each(|watch| watch.lists.reread = true);
        }

        if suspicion_changed && self.kinds[kind as usize].objects > 0 {
            self.review_everything();
        }
    }

    /// Forgets the permissions in the namespace of a watch that is no longer discovered, unless
    /// another watch needs them.
    pub(crate) fn forget_permissions(&mut self, number: u16) {
        let Some(namespace) = self.watches[number as usize].scope.namespace() else { return };
        if !self
            .watches
            .iter()
            .any(|watch| watch.active && watch.scope.namespace() == Some(namespace))
        {
            self.permissions.remove(namespace);
        }
    }

    /// Returns the number of a watch.
    pub(crate) fn find_watch(&self, id: &WatchId) -> Option<u16> {
        self.watch_numbers.get(id).copied()
    }

    pub(crate) fn kind_of(&self, watch: u16) -> &Kind {
        &self.kinds[self.watches[watch as usize].kind as usize]
    }

    /// Returns the number of a watch, which it adds if necessary. Returns `None` if
    /// `limits.watches` is reached.
    pub(crate) fn find_or_add_watch(&mut self, watched: &WatchedKind) -> Option<u16> {
        if let Some(number) = self.watch_numbers.get(&watched.watch) {
            return Some(*number);
        }

        let free = match self.watches.len() < self.settings.limits.watches {
            true => None,
            false => match self.watches.iter().position(|watch| !watch.active) {
                Some(inactive) => Some(inactive),
                None => {
                    self.count_dropped(Limit::Watches);
                    return None;
                }
            },
        };

        let kind = match self
            .kinds
            .iter()
            .position(|k| *k.group == watched.group && *k.kind == watched.kind)
        {
            Some(kind) => kind,
            None => {
                self.kinds.push(self.new_kind(watched));
                self.kinds.len() - 1
            }
        };

        let number = u16::try_from(free.unwrap_or(self.watches.len())).ok()?;
        let watch = Watch::new(watched, u16::try_from(kind).ok()?, self.now);
        match free {
            Some(position) => {
                self.retire_watch(number);
                self.watches[position] = watch;
            }
            None => self.watches.push(watch),
        }

        self.watch_numbers.insert(watched.watch.clone(), number);
        Some(number)
    }

    /// Keeps the totals of a watch that makes room for another one.
    pub(crate) fn retire_watch(&mut self, number: u16) {
        let watch = std::mem::take(&mut self.watches[number as usize]);
        self.watch_numbers.remove(&watch.id);
        for namespace in &watch.namespaces {
            let totals = namespace.at(self.now, watch.blindness.blind.is_some());
            self.retire_totals(watch.kind, namespace.name.clone(), &totals);
        }
    }

    /// Keeps the totals of a namespace that makes room for another one.
    pub(crate) fn retire_namespace(
        &mut self,
        watch: u16,
        name: Arc<str>,
        totals: &NamespaceTotals,
    ) {
        self.retire_totals(self.watches[watch as usize].kind, name, totals);
    }

    pub(crate) fn retire_totals(&mut self, kind: u16, name: Arc<str>, totals: &NamespaceTotals) {
        let retired = &mut self.kinds[kind as usize].retired;
        let fits = retired.len() < self.settings.limits.namespaces || retired.contains_key(&name);
        retired.entry(if fits { name } else { OTHER.into() }).or_default().add(totals);
    }

    pub(crate) fn new_kind(&self, watched: &WatchedKind) -> Kind {
        let mut kind = Kind::new(watched);
        if let Some(numbers) = self.restored.learning.get(&kind.name()) {
            kind.learned = crate::model::world::kinds::durations::Learned::from_numbers(numbers);
        }

        if let Some(phases) = self.restored.phases.get(&kind.name()) {
            kind.phases.restore(phases);
        }

        if let Some(memories) = self.restored.finalizers.get(&kind.name()) {
            kind.restore_finalizers(self.settings.limits.finalizers, memories);
        }

        kind
    }

    pub(crate) fn slots_of(&self, watch: u16, wanted: impl Fn(u32) -> bool) -> Vec<Slot> {
        self.store
            .iter()
            .filter(|(_, r)| r.watch == watch && wanted(r.epoch))
            .map(|(slot, _)| slot)
            .collect()
    }

    /// Returns whether the source is a watch that is no longer discovered: what it has sent before
    /// it ended does not matter any more.
    pub(crate) fn has_ended(&self, id: &SourceId) -> bool {
        let SourceId::Watch(watch) = id else { return false };
        self.find_watch(watch).is_some_and(|number| !self.watches[number as usize].active)
    }

    /// Returns the missing permissions with their namespaces (empty for the whole cluster).
    pub(crate) fn permissions_missing(&self) -> Vec<(String, Permission)> {
        let mut missing = BTreeSet::new();
        for view in self.permissions.values() {
            missing.extend(
                view.missing.iter().map(|permission| (view.namespace.clone(), permission.clone())),
            );
        }

        for watch in self.watches.iter().filter(|watch| watch.active) {
            let kind = &self.kinds[watch.kind as usize];
            let namespace = watch.scope.namespace().unwrap_or_default().to_owned();
            missing.extend(watch.missing.iter().map(|verb| {
                let permission = Permission {
                    verb: verb.clone(),
                    group: kind.group.to_string(),
                    resource: kind.resource.clone(),
                };

                (namespace.clone(), permission)
            }));
        }

        missing.into_iter().collect()
    }

    /// Returns the totals of a kind per namespace. Those of watches that are no longer discovered
    /// and of retired namespaces are included, so that the counters never go back.
    pub(crate) fn totals_of_namespaces(
        &self,
        number: usize,
        kind: &Kind,
    ) -> BTreeMap<Arc<str>, NamespaceTotals> {
        let mut namespaces = kind.retired.clone();
        for watch in self.watches.iter().filter(|watch| usize::from(watch.kind) == number) {
            for namespace in &watch.namespaces {
                let totals = namespace.at(self.now, watch.blindness.blind.is_some());
                namespaces.entry(namespace.name.clone()).or_default().add(&totals);
            }
        }

        namespaces
    }
}
