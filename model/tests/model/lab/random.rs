//! A world in which the dice decide what happens next.

mod objects; // what users and operators do with objects
mod owners; // owners and references of any quality
mod watches; // what the watches see
mod cluster; // namespaces, definitions, settings and the clock
mod operator; // its Pods, lease and metrics

use std::collections::BTreeMap;

use loopwatch_model::observation::{
    Answer, Cause, ObjectAddress, Observation, OwnerReference, Probe, Scope, WatchedKind,
};
use loopwatch_model::settings::Settings;
use loopwatch_model::time::{Span, Timestamp};

use super::dice::Dice;
use super::{Widget, World, at};

pub use self::cluster::{annotate, change_namespace, configure, define, step_clock};
pub use self::objects::{
    add_finalizer, begin_deletion, change_phase, change_spec, create, date_conditions, fail,
    get_ready, pause, remove, remove_finalizers, repeat, sync, touch_status, wait,
};
pub use self::operator::{change_lease, change_operator};
pub use self::owners::{change_owners, create_owned, mark, refer};
pub use self::watches::{
    change_kinds, discover, fail_watch, forbid, list, recover_watch, restart, skip,
};

/// What may happen next, perhaps to an object.
pub type Happening = fn(&mut RandomWorld, &ObjectAddress);

pub struct RandomWorld {
    /// It is silent unless somebody answers reads.
    pub world: World,
    pub dice: Dice,
    /// The spec and the status of each object that exists.
    pub widgets: BTreeMap<ObjectAddress, Widget>,
    /// The owners of each object, as the model was told of them last.
    pub told: BTreeMap<ObjectAddress, Vec<OwnerReference>>,
    /// One in so many events is lost, if any.
    pub loses: Option<u64>,
    /// No event is lost, and all reads are answered at once.
    pub is_healthy: bool,
    /// Where objects may exist.
    places: Vec<ObjectAddress>,
    /// Reads that will be answered, and when.
    reads: Vec<(Timestamp, Probe)>,
}

impl RandomWorld {
    /// Returns a world with these kinds, of which objects may have so many names in each namespace.
    pub fn new(
        seed: u64,
        settings: Settings,
        kinds: &[WatchedKind],
        (namespaces, names): (&[&str], u64),
    ) -> Self {
        let mut world = World::unlisted(settings, kinds);
        world.silent = true;
        world.unserved.insert("Gone".into());

        Self {
            world,
            dice: Dice(seed | 1),
            widgets: BTreeMap::new(),
            told: BTreeMap::new(),
            loses: Some(6),
            is_healthy: false,
            places: kinds.iter().flat_map(|kind| places(kind, namespaces, names)).collect(),
            reads: Vec::new(),
        }
    }

    /// Something happens, each by its weight.
    pub fn step(&mut self, happenings: &[(u64, Happening)]) {
        let place = self.some_place();
        let mut roll = self.dice.roll(happenings.iter().map(|(weight, _)| weight).sum());
        for (weight, happening) in happenings {
            if roll < *weight {
                return happening(self, &place);
            }

            roll -= weight;
        }
    }

    pub fn some_place(&mut self) -> ObjectAddress {
        self.dice.pick(&self.places)
    }

    pub fn now(&self) -> Timestamp {
        self.world.lab.now
    }

    /// Some time passes. Without answers to reads, the next observation shows that.
    pub fn pass(&mut self, at_most: Span) {
        let span = self.dice.roll(at_most.0.unsigned_abs());
        self.pass_exactly(Span(span.cast_signed()));
    }

    pub fn pass_exactly(&mut self, span: Span) {
        self.world.lab.now = self.now().after(span);
        if self.world.silent {
            return;
        }

        self.tell(Observation::Tick);
        while let Some(next) = self.reads.iter().position(|(due, _)| *due <= self.now()) {
            let (_, probe) = self.reads.swap_remove(next);
            let answer = self.answer(&probe);
            self.tell(Observation::Answered { probe, answer });
        }
    }

    fn answer(&mut self, probe: &Probe) -> Answer {
        let causes = [Cause::Forbidden, Cause::ServerError, Cause::Timeout];
        if !self.is_healthy && self.dice.one_in(6) {
            return Answer::Failed(self.dice.pick(&causes));
        }

        self.world.answer_to(probe)
    }

    pub fn tell(&mut self, observation: Observation) {
        self.world.lab.observe(observation);
        for probe in self.world.lab.model.probes() {
            if self.world.silent || matches!(probe, Probe::Count(_)) {
                continue;
            }

            if self.is_healthy {
                self.reads.push((self.now().after(Span(100)), probe));
            } else if !self.dice.one_in(8) {
                let after = Span(self.dice.roll(90_000).cast_signed());
                self.reads.push((self.now().after(after), probe));
            }
        }
    }

    /// Forgets all reads that are under way.
    pub fn drop_reads(&mut self) {
        self.reads.clear();
    }

    /// Decides whether an event is lost.
    fn is_lost(&mut self) -> bool {
        !self.is_healthy && self.loses.is_some_and(|sides| self.dice.one_in(sides))
    }
}

fn places(kind: &WatchedKind, namespaces: &[&str], names: u64) -> Vec<ObjectAddress> {
    let namespaces: Vec<&str> = match &kind.scope {
        Scope::Cluster => vec![""],
        Scope::Namespace(namespace) => vec![namespace],
        Scope::AllNamespaces => namespaces.to_vec(),
    };

    let name = |number| format!("{}-{number}", kind.kind.to_lowercase());
    let place = |namespace: &str, number| at(&kind.group, &kind.kind, namespace, &name(number));
    namespaces.iter().flat_map(|ns| (0..names).map(|number| place(ns, number))).collect()
}
