//! How detectors ask whether an object exists, and what becomes of the answer.

use std::sync::Arc;

use crate::model::world::World;
use crate::model::world::limits::Limit;
use crate::model::world::lookups::*;
use crate::model::world::store::{self, Slot};
use crate::model::world::timers::Timer;
use crate::observation::{Answer, Cause, Dependent, ObjectAddress, Probe};
use crate::time::Timestamp;

impl World {
    /// Returns what a read of `address` at `not_before` or later has shown. If there was no such
    /// read, asks for one; `slot` is reviewed when the answer arrives.
    pub(crate) fn existence(
        &mut self,
        slot: Slot,
        address: &ObjectAddress,
        not_before: Timestamp,
        urgency: Urgency,
    ) -> Option<Existence> {
        let probe = Probe::Read(address.clone());
        let existence = self.answer(slot, &probe, not_before, urgency);
        self.lookups.keep(&probe);
        existence
    }

    /// Like [`World::existence`], for regular checks. The answer is forgotten a minute after it has
    /// arrived, unless another detector needs it.
    pub(crate) fn brief_existence(
        &mut self,
        slot: Slot,
        address: &ObjectAddress,
        not_before: Timestamp,
    ) -> Option<Existence> {
        self.lookups.forget_brief(self.now);
        self.answer(slot, &Probe::Read(address.clone()), not_before, Urgency::Check)
    }

    /// Returns what a read of the dependents of an object at `not_before` or later has shown, for
    /// regular checks, like [`World::brief_existence`].
    pub(crate) fn brief_dependents(
        &mut self,
        slot: Slot,
        owner: &ObjectAddress,
        uid: u128,
        not_before: Timestamp,
    ) -> Option<Existence> {
        self.lookups.forget_brief(self.now);
        let probe = Probe::Dependents { owner: owner.clone(), uid: store::uid_text(uid) };
        self.answer(slot, &probe, not_before, Urgency::Check)
    }

    fn answer(
        &mut self,
        slot: Slot,
        probe: &Probe,
        not_before: Timestamp,
        urgency: Urgency,
    ) -> Option<Existence> {
        let answer = self.lookups.answer(probe);
        if let Some((_, existence)) = answer.filter(|(at, _)| *at >= not_before) {
            return Some(existence.clone());
        }

        self.ask(slot, probe.clone(), urgency);
        None
    }

    /// Returns the objects that name this one as an owner, as far as the last read has shown;
    /// `None` before the first answer, and if nobody could read them. If the last read was before
    /// `not_before`, asks for another one; `slot` is reviewed when its answer arrives.
    pub(crate) fn dependents(
        &mut self,
        slot: Slot,
        owner: &ObjectAddress,
        uid: u128,
        not_before: Timestamp,
    ) -> Option<Arc<Vec<Dependent>>> {
        let probe = Probe::Dependents { owner: owner.clone(), uid: store::uid_text(uid) };
        let answer = self.lookups.answer(&probe).cloned();
        if answer.as_ref().is_none_or(|(at, _)| *at < not_before) {
            self.ask(slot, probe.clone(), Urgency::Suspicion);
        }

        self.lookups.keep(&probe);
        match answer {
            Some((_, Existence::Dependents(found))) => Some(found),
            _ => None,
        }
    }

    fn ask(&mut self, slot: Slot, probe: Probe, urgency: Urgency) {
        let namespace = match self.store.get(slot) {
            Some(record) => Arc::clone(&record.namespace),
            None => namespace_of(&probe).into(), // a child that was deleted asks for its owner
        };
        match self.lookups.ask(self.now, (slot, &namespace), probe, urgency) {
            Asked::Now => self.set_reads_timer(),
            Asked::Before => {}
            Asked::Instead => {
                self.count_dropped(Limit::Lookups);
                self.set_reads_timer();
            }
            Asked::NoRoom => self.count_dropped(Limit::Lookups),
        }
    }

    /// Handles the answer to a read.
    pub(crate) fn read_answered(&mut self, probe: &Probe, answer: &Answer) {
        let existence = match answer {
            Answer::Found(view) => Existence::Exists(Arc::new(ReadObject::of(view))),
            Answer::Absent => Existence::Absent,
            Answer::KindUnknown => Existence::KindUnknown,
            Answer::Dependents { found, .. } => Existence::Dependents(Arc::new(found.clone())),
            Answer::Counted { .. }
            | Answer::Fields(_)
            | Answer::Profiled(_)
            | Answer::Failed(Cause::Forbidden | Cause::Invalid) => Existence::Unreadable,
            Answer::Failed(_) => Existence::Failed,
        };

        let mut waiting = self.lookups.answered(self.now, probe, existence);
        self.agenda.objects.append(&mut waiting);
    }

    /// Removes and returns the reads that the sources should make now, and sets the timer of the
    /// next one.
    pub(crate) fn take_reads(&mut self) -> Vec<Probe> {
        let taken = self.lookups.take(self.now);
        self.set_reads_timer();
        taken
    }

    /// Returns whether the last read has shown that an object does not exist, or that another one
    /// has its name.
    pub(crate) fn is_known_absent(&self, address: &ObjectAddress, uid: u128) -> bool {
        match self.lookups.answer(&Probe::Read(address.clone())) {
            Some((_, Existence::Absent)) => true,
            Some((_, Existence::Exists(object))) => object.uid != uid,
            _ => false,
        }
    }

    /// Returns the dependents that the last read has shown.
    pub(crate) fn known_dependents(
        &self,
        owner: &ObjectAddress,
        uid: u128,
    ) -> Option<Arc<Vec<Dependent>>> {
        let probe = Probe::Dependents { owner: owner.clone(), uid: store::uid_text(uid) };
        match self.lookups.answer(&probe) {
            Some((_, Existence::Dependents(found))) => Some(found.clone()),
            _ => None,
        }
    }

    pub(crate) fn set_reads_timer(&mut self) {
        let due = self.lookups.next().filter(|due| *due > self.now);
        let old = std::mem::replace(&mut self.lookups.due, due);
        self.agenda.timers.set(Timer::Lookups, old, due);
    }

    /// Handles the timer: the caller takes the probes after this step.
    pub(crate) fn reads_due(&mut self) {
        self.lookups.due = None;
    }
}

/// Returns the namespace that a question is about; empty if there is none.
fn namespace_of(probe: &Probe) -> &str {
    match probe {
        Probe::Read(address) | Probe::Dependents { owner: address, .. } => &address.namespace,
        Probe::Count(_) | Probe::Fields { .. } | Probe::Profile { .. } => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::world::limits::MAX_LOOKUPS;
    use crate::settings::Settings;
    use crate::time::Span;

    /// 2026-01-01T00:00:00Z.
    const START: Timestamp = Timestamp(1_767_225_600_000);

    fn at(seconds: i64) -> Timestamp {
        START.after(Span::secs(seconds))
    }

    fn address(number: usize) -> ObjectAddress {
        address_in("team", number)
    }

    fn address_in(namespace: &str, number: usize) -> ObjectAddress {
        let [group, kind, namespace] = ["", "Secret", namespace].map(str::to_owned);
        ObjectAddress { group, kind, namespace, name: number.to_string() }
    }

    fn world_at(now: Timestamp) -> World {
        World { now, ..World::new(Settings::default()) }
    }

    fn doubt(world: &mut World, number: usize) {
        doubt_address(world, &address(number));
    }

    fn doubt_address(world: &mut World, address: &ObjectAddress) {
        assert_eq!(world.existence(Slot::MAX, address, world.now, Urgency::Suspicion), None);
    }

    #[test]
    fn a_probe_that_is_asked_for_again_keeps_its_place_in_the_queue() {
        let mut world = world_at(START);
        (0..3).for_each(|number| doubt(&mut world, number));
        world.now = at(61);
        doubt(&mut world, 0);

        assert_eq!(world.take_reads(), [Probe::Read(address(0))]);

        // A source that took it and did not answer is asked again, after the others.
        world.now = at(130);
        doubt(&mut world, 0);

        assert_eq!(world.lookups.take_all(), [1, 2, 0].map(|number| Probe::Read(address(number))));
    }

    #[test]
    fn dependents_of_objects_in_doubt_are_not_forgotten_after_a_minute() {
        let mut world = world_at(START);

        let owner = address(0);
        assert_eq!(world.dependents(Slot::MAX, &owner, 7, START), None);

        let [probe] = world.take_reads().try_into().expect("one probe");
        let answer = Answer::Dependents { found: vec![], complete: true };
        world.read_answered(&probe, &answer);

        // Another detector asks something else.
        world.now = at(120);
        assert_eq!(world.brief_existence(Slot::MAX, &address(1), at(120)), None);
        assert!(world.dependents(Slot::MAX, &owner, 7, START).is_some());
        assert_eq!(world.lookups.take_all(), [Probe::Read(address(1))]);
    }

    #[test]
    fn probes_that_a_source_never_answers_make_room_for_others() {
        let mut world = world_at(START);
        (0..MAX_LOOKUPS).for_each(|number| doubt(&mut world, number));

        assert_eq!(world.lookups.take_all().len(), MAX_LOOKUPS);

        world.now = at(61);
        doubt(&mut world, MAX_LOOKUPS);

        assert_eq!(world.lookups.take_all(), [Probe::Read(address(MAX_LOOKUPS))]);
    }

    #[test]
    fn a_namespace_with_many_probes_delays_none_of_another() {
        let mut world = world_at(START);
        (0..100).for_each(|number| doubt(&mut world, number));
        assert_eq!(world.take_reads(), [Probe::Read(address(0))]);

        // Both namespaces take turns from now on, and the order within each stays.
        let others = [0, 1].map(|number| address_in("other", number));
        others.iter().for_each(|other| doubt_address(&mut world, other));
        let order: Vec<Probe> = world.lookups.take_all().into_iter().take(4).collect();
        let expected = [others[0].clone(), address(1), others[1].clone(), address(2)];
        assert_eq!(order, expected.map(Probe::Read));
    }

    #[test]
    fn a_probe_that_another_namespace_also_needs_moves_forward() {
        let mut world = world_at(START);
        (0..100).for_each(|number| doubt(&mut world, number));

        let needed = Probe::Read(address(99));
        let namespace = "other".into();
        let asked = world.lookups.ask(START, (7, &namespace), needed.clone(), Urgency::Suspicion);
        assert_eq!(asked, Asked::Now);
        let place = world.lookups.take_all().iter().position(|probe| *probe == needed);
        assert!(place.is_some_and(|place| place < 2), "{place:?}");
    }

    #[test]
    fn probes_of_one_namespace_make_room_for_those_of_others() {
        let mut world = world_at(START);
        (0..MAX_LOOKUPS + 10).for_each(|number| doubt(&mut world, number));
        let other = address_in("other", 0);
        doubt_address(&mut world, &other);

        let all = world.lookups.take_all();
        assert_eq!((all.len(), all.contains(&Probe::Read(other))), (MAX_LOOKUPS, true));
    }
}
