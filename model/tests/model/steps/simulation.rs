//! Random histories with repeated, lost and relisted events. After every step, the totals of the
//! model must add up.

use std::collections::BTreeSet;

use loopwatch_model::model::Model;
use loopwatch_model::observation::{EventView, ObjectAddress, ObjectKey};
use loopwatch_model::settings::{Limits, Settings};
use loopwatch_model::snapshot::{Cursor, Outcome};
use loopwatch_model::time::Span;
use loopwatch_model::trace::{StepKind, Trace, TraceKey, TraceStep};

use crate::lab::dice::Dice;
use crate::lab::random::{self, Happening, RandomWorld};
use crate::lab::{Lab, kind};

const HAPPENINGS: [(u64, Happening); 18] = [
    (2, random::create),
    (2, random::remove),
    (1, random::list),
    (1, |random, _| random.pass(Span::mins(1))),
    (1, |random, _| random.pass_exactly(Span::hours(1))),
    (1, random::fail_watch),
    (1, random::recover_watch),
    (1, random::discover),
    (1, lose_permission),
    (1, random::change_spec),
    (1, random::get_ready),
    (1, random::wait),
    (1, random::fail),
    (1, random::change_phase),
    (1, random::pause),
    (1, random::sync),
    (1, random::begin_deletion),
    (4, random::repeat),
];

/// Now and then, loopwatch loses a permission for a moment.
fn lose_permission(random: &mut RandomWorld, at: &ObjectAddress) {
    if random.dice.one_in(8) {
        random::forbid(random, at);
        random::discover(random, at);
        random.list_all();
    }
}

/// A random world, and what it should add up to.
struct Simulation {
    random: RandomWorld,
    traces: Vec<Trace>,
    keys: BTreeSet<TraceKey>,
    /// Kubernetes Events have a die of their own, and this is how many there were.
    event_dice: Dice,
    events: u64,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let limits = Limits { histories: 5, ..Limits::default() };
        let settings = Settings { deadline: Span::secs(30), limits, ..Settings::default() };
        let mut random = RandomWorld::new(seed, settings, &[kind()], (&["team-a"], 12));
        random.world.lab.model.gather_traces();
        random.list_all();

        Self {
            random,
            traces: Vec::new(),
            keys: BTreeSet::new(),
            event_dice: Dice(!seed | 1),
            events: 0,
        }
    }

    fn lab(&self) -> &Lab {
        &self.random.world.lab
    }

    fn step(&mut self) {
        self.random.step(&HAPPENINGS);
    }

    /// An Event about an object that exists, or about another one. A list sends it again.
    fn event(&mut self) {
        let added = self.event_dice.roll(3);
        let event = EventView {
            uid: self.event_dice.roll(9).to_string(),
            about: ObjectKey {
                namespace: "team-a".into(),
                name: format!("widget-{}", self.event_dice.roll(13)),
            },
            reason: format!("Reason{}", self.event_dice.roll(20)),
            added,
            ..EventView::default()
        };

        let again = EventView { added: 0, ..event.clone() };
        for event in [event, again] {
            self.random.world.lab.see_event(event);
        }

        self.events += added;
    }

    fn check(&self, seed: u64, step: usize) {
        let snapshot = self.lab().snapshot();
        let (rows, _) = self.lab().model.rows(Cursor::default(), usize::MAX);
        let kind = &snapshot.kinds[0];
        let context = format!("seed {seed}, step {step}");

        assert_eq!(kind.states().iter().sum::<u64>(), rows.len() as u64, "{context}: states");

        let held: u64 = kind.watches.iter().map(|watch| watch.totals.objects).sum();
        assert_eq!(held, rows.len() as u64, "{context}: objects of the watches");
        assert_eq!(kind.totals.events.values().sum::<u64>(), self.events, "{context}: Events");
        assert!(kind.totals.phases.values().sum::<u64>() <= rows.len() as u64, "{context}: phases");

        let waiting: u64 = kind.finalizers.values().flat_map(|f| f.waiting).sum();
        let terminating = rows
            .iter()
            .filter(|row| row.terminating_since.is_some() && !row.finalizers.is_empty())
            .count();

        assert!(
            waiting <= terminating as u64,
            "{context}: {waiting} waits, {terminating} terminating"
        );
        assert!(
            kind.totals.convergence.count() <= kind.totals.acknowledge.count(),
            "{context}: converged but not acknowledged"
        );

        for finding in &snapshot.findings {
            assert!(
                finding.since <= snapshot.at,
                "{context}: a finding that begins in the future: {finding:?}"
            );

            if let Some(root) = finding.explained_by {
                assert!(
                    snapshot.findings.iter().any(|other| other.id == root),
                    "{context}: explained by a finding that is not open"
                );
            }
        }

        if let Some(due) = self.lab().model.next_due() {
            assert!(due > snapshot.at, "{context}: a timer in the past");
        }
    }

    /// No trace ends twice, its steps lie within it, and the traces are what the totals count.
    fn check_traces(&mut self, seed: u64, step: usize) {
        let context = format!("seed {seed}, step {step}");
        let ended = self.random.world.lab.model.traces();
        for trace in &ended {
            assert!(self.keys.insert(trace.key.clone()), "{context}: twice: {trace:#?}");
            assert!(trace.start <= trace.end, "{context}: {trace:#?}");

            let within = |step: &TraceStep| {
                trace.start <= step.start && step.start <= step.end && step.end <= trace.end
            };

            assert!(trace.steps.iter().all(within), "{context}: {trace:#?}");
        }

        self.traces.extend(ended);
        let counted =
            self.traces.iter().flat_map(|trace| &trace.steps).filter_map(|step| match step.kind {
                StepKind::Event { count, .. } => Some(count),
                _ => None,
            });

        assert!(counted.sum::<u64>() <= self.events, "{context}: an Event in two traces");

        let snapshot = self.lab().snapshot();
        let traced = |outcome: Outcome| {
            let is_it = |trace: &&Trace| {
                trace.measured.counted && !trace.key.late && trace.outcome == outcome
            };
            self.traces.iter().filter(is_it).count() as u64
        };

        for outcome in Outcome::ALL.iter().filter(|outcome| **outcome != Outcome::Unknown) {
            let counted = snapshot.kinds[0]
                .namespaces
                .values()
                .map(|n| n.obligations[*outcome as usize])
                .sum::<u64>();

            assert_eq!(traced(*outcome), counted, "{context}: {}", outcome.as_str());
        }

        let converged =
            self.traces.iter().filter(|trace| trace.measured.converged.is_some()).count() as u64;

        // A trace also ends when its deadline passes out of sight, and the object may converge
        // later.
        assert!(converged <= snapshot.kinds[0].totals.convergence.count(), "{context}");
    }
}

#[test]
fn totals_add_up_after_every_step_of_a_random_history() {
    for seed in 1..=30 {
        let mut simulation = Simulation::new(seed * 0x9e37_79b9);
        for step in 0..400 {
            simulation.step();
            simulation.event();
            simulation.check(seed, step);
            simulation.check_traces(seed, step);
        }

        let mut random = simulation.random;
        random.list_all();
        random.world.lab.recover();

        let objects = random.world.lab.model.objects();
        assert_eq!(objects, random.widgets.len(), "seed {seed}: objects after a list");
    }
}

#[test]
fn a_repeated_list_changes_neither_findings_nor_outcomes() {
    for seed in 1..=20 {
        let mut simulation = Simulation::new(seed * 0x51ed_270b);
        (0..200).for_each(|_| simulation.step());

        let [before, after] = [1, 2].map(|_| {
            let world = &mut simulation.random.world;
            for at in world.objects.keys().cloned().collect::<Vec<_>>() {
                world.put_unseen(&at, |_, _| ());
            }

            world.list();
            let namespaces = world.lab.kind().namespaces;
            let obligations: Vec<_> = namespaces.values().map(|n| n.obligations).collect();
            (world.lab.findings(), obligations)
        });

        assert_eq!(before.0, after.0, "seed {seed}");
        assert_eq!(before.1, after.1, "seed {seed}: obligations counted twice");
    }
}

#[test]
fn an_empty_model_has_no_kinds_and_no_timers() {
    let model = Model::new(Settings::default());
    assert_eq!(model.next_due(), None);
    assert!(model.snapshot().kinds.is_empty());
}
