//! What the watches see.

use loopwatch_model::observation::{
    Cause, ObjectAddress, Observation, SourceId, StatusSchema, WatchedKind,
};
use loopwatch_model::time::Span;

use super::RandomWorld;

impl RandomWorld {
    /// Lists all kinds.
    pub fn list_all(&mut self) {
        for kind in self.world.kinds.clone() {
            self.list(&kind, true);
        }
    }

    /// Lists a kind, to the end or not.
    fn list(&mut self, kind: &WatchedKind, is_complete: bool) {
        let watch = kind.watch.clone();
        self.world.lab.begin_list(&watch);
        let of_watch: Vec<ObjectAddress> = self
            .world
            .objects
            .keys()
            .filter(|at| self.world.watch_of(at).as_ref() == Some(&watch))
            .cloned()
            .collect();

        if is_complete {
            let world = &self.world;
            self.told.retain(|at, _| world.watch_of(at).as_ref() != Some(&watch));
        }

        for at in of_watch {
            if self.world.silent && self.dice.one_in(5) {
                self.pass(Span::secs(20));
            }

            self.world.put_unseen(&at, |_, _| ());
            let view = self.world.objects[&at].clone();
            self.told.insert(at.clone(), view.owners.clone());
            self.tell(Observation::Listed { watch: watch.clone(), object: Box::new(view) });
        }

        if is_complete {
            self.world.lab.end_list(&watch);
        }
    }

    fn some_kind(&mut self) -> usize {
        self.dice.roll(self.world.kinds.len() as u64) as usize
    }
}

/// Lists the kind of an object, perhaps not to the end.
pub fn list(random: &mut RandomWorld, at: &ObjectAddress) {
    let watch = random.world.watch_of(at);
    let kinds = random.world.kinds.iter();
    let kind = kinds.clone().find(|kind| Some(&kind.watch) == watch.as_ref()).cloned();
    let is_complete = !random.dice.one_in(4);
    if let Some(kind) = kind {
        random.list(&kind, is_complete);
    }
}

pub fn fail_watch(random: &mut RandomWorld, at: &ObjectAddress) {
    if let Some(watch) = random.world.watch_of(at) {
        let (source, cause, detail) = (SourceId::Watch(watch), Cause::Connection, String::new());
        random.tell(Observation::SourceFailed { source, cause, detail });
    }
}

pub fn recover_watch(random: &mut RandomWorld, at: &ObjectAddress) {
    if let Some(watch) = random.world.watch_of(at) {
        random.tell(Observation::SourceRecovered { source: SourceId::Watch(watch) });
    }
}

/// A watch leaves an object out.
pub fn skip(random: &mut RandomWorld, at: &ObjectAddress) {
    if let Some(watch) = random.world.watch_of(at) {
        let source = SourceId::Watch(watch);
        random.tell(Observation::Skipped { source, cause: Cause::TooLarge });
    }
}

/// Restarts loopwatch.
pub fn restart(random: &mut RandomWorld, _: &ObjectAddress) {
    random.world.lab = random.world.lab.restored();
    random.drop_reads();
    random.told.clear();
    discover(random, &ObjectAddress::default());
    random.list_all();
}

/// Discovers all kinds as they are.
pub fn discover(random: &mut RandomWorld, _: &ObjectAddress) {
    random.tell(Observation::KindsDiscovered(random.world.kinds.clone()));
}

/// Discovers that loopwatch may not watch one of the kinds.
pub fn forbid(random: &mut RandomWorld, _: &ObjectAddress) {
    let (mut kinds, number) = (random.world.kinds.clone(), random.some_kind());
    kinds[number].missing = vec!["list".into(), "watch".into()];
    random.tell(Observation::KindsDiscovered(kinds));
}

/// Changes a kind for good, and discovers all kinds, perhaps without one of them.
pub fn change_kinds(random: &mut RandomWorld, _: &ObjectAddress) {
    let (number, change, version) = (random.some_kind(), random.dice.roll(5), random.dice.roll(3));
    let kind = &mut random.world.kinds[number];
    match change {
        0 => kind.missing = vec!["list".into()],
        1 => kind.missing.clear(),
        2 => kind.suspected = !kind.suspected,
        3 => kind.version = format!("v{version}"),
        _ => kind.status = [StatusSchema::InBody, StatusSchema::Subresource][number % 2],
    }

    let without = random.dice.roll(12) as usize;
    let mut kinds = random.world.kinds.clone();
    if without < kinds.len() {
        kinds.remove(without);
    }

    random.tell(Observation::KindsDiscovered(kinds));
}
