//! Watches: their discovery, their end, and their lists.

use std::collections::BTreeSet;

use crate::finding::FindingCode;
use crate::model::Model;
use crate::model::convergence::silent_status;
use crate::model::visibility::{lists, sources};
use crate::model::world::timers::Timer;
use crate::model::world::{store, subjects};
use crate::observation::{Role, SourceId, WatchId, WatchedKind, Why};
use crate::snapshot::Outcome;

impl Model {
    /// Replaces the set of watches.
    pub(crate) fn kinds_discovered(&mut self, list: &[WatchedKind]) {
        self.world.sources.note_success(&SourceId::Discovery, self.world.now);

        // First make room by deactivating the watches that are no longer discovered.
        let wanted: BTreeSet<&WatchId> = list.iter().map(|watched| &watched.watch).collect();
        for number in 0..self.world.watches.len() {
            let number = u16::try_from(number).unwrap_or(u16::MAX);
            let watch = &self.world.watches[number as usize];
            if watch.active && !wanted.contains(&watch.id) {
                self.deactivate_watch(number);
            }
        }

        self.world.watches_left_out = false;
        for watched in list {
            let Some(number) = self.world.find_or_add_watch(watched) else {
                self.world.watches_left_out = true;
                continue;
            };
            let watch = &mut self.world.watches[number as usize];

            watch.active = true;
            watch.missing.clone_from(&watched.missing);
            watch.filtered = watched.filtered;
            watch.dumped = watched.why == Why::InDump;
            self.world.update_kind_definition(number, watched);

            if !watched.missing.is_empty() {
                let watch = &mut self.world.watches[number as usize];
                watch.blindness.failed_before |= watch.blindness.seen_before;
                self.reset_watch(number);
            }
        }

        let served = self
            .world
            .watches
            .iter()
            .filter(|watch| watch.active)
            .map(|watch| &self.world.kinds[watch.kind as usize]);
        let served = served
            .filter(|kind| kind.role == Role::Primary && !kind.suspected && !kind.group.is_empty());

        self.world.served_groups = served.map(|kind| kind.group.clone()).collect();
        let (parts, step) = self.parts();
        parts.definitions.review_all(step.world, step.findings);
        sources::review_permissions(&mut self.world, &mut self.findings);
    }

    pub(crate) fn deactivate_watch(&mut self, number: u16) {
        self.world.watches[number as usize].active = false;
        self.reset_watch(number);

        let id = self.world.watches[number as usize].id.clone();
        let source = SourceId::Watch(id);
        self.world.clear_blind(&source);
        self.world.watches[number as usize].blindness.failing = false;
        silent_status::stop_waiting(&mut self.world, &mut self.traces, number);
        if let Some((source_number, due)) = self.world.sources.deactivate(&source) {
            self.world.agenda.timers.set(Timer::Source(source_number), due, None);
            let code = sources::failing_code(&source);
            self.findings.clear(self.world.now, code, &subjects::source(&source));
        }

        self.world.forget_permissions(number);
    }

    /// Resets a watch that can no longer see: removes its objects and ends their obligations as
    /// `unknown`. The model remembers the objects for a while, because a permission or a scope may
    /// return.
    pub(crate) fn reset_watch(&mut self, number: u16) {
        let slots = self.world.slots_of(number, |_| true);
        if !slots.is_empty() {
            lists::remember_objects(&mut self.world, &mut self.findings, &slots);
        }

        for slot in slots {
            self.remove_object(slot, Outcome::Unknown);
        }

        let watch = &mut self.world.watches[number as usize];
        watch.lists.synced = false;
        watch.blindness.seen_before = false;
        watch.lists.listing = None;
        watch.lists.excluded.clear();

        let due = watch.audit.due.take();
        watch.audit.pending = None;
        watch.totals.audit_difference = None;
        self.world.agenda.timers.set(Timer::Audit(number), due, None);
        self.findings.clear(
            self.world.now,
            FindingCode::StateInconsistent,
            &subjects::source(&SourceId::Watch(self.world.watches[number as usize].id.clone())),
        );
        self.world.update_visibility(number);
    }

    pub(crate) fn list_ended(&mut self, number: u16, epoch: u64, version: &str) {
        let watch = &mut self.world.watches[number as usize];
        if watch.lists.listing != Some(epoch) {
            return; // an abandoned list is incomplete, so it does not show which objects are gone
        }

        watch.lists.listing = None;
        let current = watch.lists.epoch;
        watch.lists.synced = true;
        watch.lists.reread = false;

        // This is lower than before if the API server was restored from a backup.
        watch.lists.newest = store::version_number(version);
        watch.lists.newest_object = watch.lists.newest_object.min(watch.lists.newest);
        watch.lists.excluded.retain(|_, seen| *seen == current);

        if watch.has_removed_objects() {
            for slot in self.world.slots_of(number, |seen| seen != current) {
                self.remove_object(slot, Outcome::Deleted);
            }
        }

        silent_status::review_silent_status(&mut self.world, &mut self.traces, number);
        lists::schedule_audit(&mut self.world, number);
        self.world.update_visibility(number);
    }
}
