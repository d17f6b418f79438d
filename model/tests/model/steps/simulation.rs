//! Random histories with repeated, lost and relisted events. After every step, the totals of the
//! model must add up.

use std::collections::{BTreeMap, BTreeSet};

use loopwatch_model::model::Model;
use loopwatch_model::observation::{
    Cause, ConditionStatus, EventView, ObjectKey, Observation, SourceId, WatchedKind,
};
use loopwatch_model::settings::{Limits, Settings};
use loopwatch_model::snapshot::{Cursor, Outcome};
use loopwatch_model::time::Span;
use loopwatch_model::trace::{StepKind, Trace, TraceKey, TraceStep};

use crate::lab::dice::Dice;
use crate::lab::{Lab, Widget, kind, watch};

/// The objects that exist, and the model that observes them.
struct RandomWorld {
    dice: Dice,
    lab: Lab,
    widgets: BTreeMap<String, Widget>,
    traces: Vec<Trace>,
    keys: BTreeSet<TraceKey>,
    /// Kubernetes Events use random numbers of their own; `events` counts them.
    event_dice: Dice,
    events: u64,
}

impl RandomWorld {
    fn new(seed: u64) -> Self {
        let limits = Limits { histories: 5, ..Limits::default() };
        let settings = Settings { deadline: Span::secs(30), limits, ..Settings::default() };
        let mut lab = Lab::with(settings);
        lab.model.gather_traces();

        Self {
            dice: Dice(seed | 1),
            lab,
            widgets: BTreeMap::new(),
            traces: Vec::new(),
            keys: BTreeSet::new(),
            event_dice: Dice(!seed | 1),
            events: 0,
        }
    }

    /// An Event about an object that exists, or about another one. A list sends it again.
    fn event(&mut self) {
        let added = self.event_dice.roll(3);
        let event = EventView {
            uid: self.event_dice.roll(9).to_string(),
            about: ObjectKey {
                namespace: "team-a".into(),
                name: format!("w{}", self.event_dice.roll(13)),
            },
            reason: format!("Reason{}", self.event_dice.roll(20)),
            added,
            ..EventView::default()
        };

        let again = EventView { added: 0, ..event.clone() };
        for event in [event, again] {
            self.lab.observe(Observation::EventSeen { watch: watch(), event: Box::new(event) });
        }

        self.events += added;
    }

    fn step(&mut self) {
        let name = format!("w{}", self.dice.roll(12));
        let now = self.lab.now;
        match self.dice.roll(16) {
            0 | 1 => {
                let mut widget = Widget::new(&name, now);
                widget.uid = self.dice.roll(1 << 40);
                self.lab.apply(&widget);
                self.widgets.insert(name, widget);
            }
            2 => {
                if let Some(widget) = self.widgets.remove(&name) {
                    self.lab.delete(&widget);
                }
            }
            3 => drop(self.widgets.remove(&name)), // the delete event is lost
            4 => {
                let list: Vec<Widget> = self.widgets.values().cloned().collect();
                self.lab.list(&list);
            }
            5 => self.lab.advance(Span(self.dice.roll(60_000) as i64)),
            6 => self.lab.advance(Span::hours(1)),
            7 => {
                let source = SourceId::Watch(watch());
                let up = self.dice.roll(2) == 0;
                let cause = Cause::Connection;
                self.lab.observe(match up {
                    true => Observation::SourceRecovered { source },
                    false => Observation::SourceFailed { source, cause, detail: String::new() },
                });
            }
            8 => {
                let missing =
                    if self.dice.roll(8) == 0 { vec!["list".to_owned()] } else { Vec::new() };
                let hidden = !missing.is_empty();
                self.lab.discover(&[WatchedKind { missing, ..kind() }]);
                if hidden {
                    self.lab.discover(&[kind()]);
                    let list: Vec<Widget> = self.widgets.values().cloned().collect();
                    self.lab.list(&list);
                }
            }
            change => self.change(&name, change),
        }
    }

    fn change(&mut self, name: &str, change: u64) {
        let (now, spec) = (self.lab.now, self.dice.roll(4) + 1);
        let (phase, times) = (self.dice.roll(4), self.dice.roll(2) + 1);
        let Some(widget) = self.widgets.get_mut(name) else { return };

        match change {
            9 => drop(widget.spec(spec, now)),
            10 => drop(widget.ready()),
            11 => drop(widget.waiting()),
            12 => drop(widget.failed("Broken")),
            13 => drop(widget.phase(["Pending", "Running", "Failed", "Working"][phase as usize])),
            14 => {
                widget.paused = !widget.paused;
                widget.condition(
                    "Synced",
                    if widget.paused { ConditionStatus::True } else { ConditionStatus::False },
                    "X",
                );
            }
            _ => {
                widget.finalizers = vec!["example.io/f".into()];
                widget.deleted = Some(now);
            }
        }

        let widget = widget.clone();
        (0..times).for_each(|_| self.lab.apply(&widget)); // sometimes delivered twice
    }

    fn check(&self, seed: u64, step: usize) {
        let snapshot = self.lab.snapshot();
        let (rows, _) = self.lab.model.rows(Cursor::default(), usize::MAX);
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

        if let Some(due) = self.lab.model.next_due() {
            assert!(due > snapshot.at, "{context}: a timer in the past");
        }
    }

    /// No trace ends twice, its steps lie within it, and the traces are what the totals count.
    fn check_traces(&mut self, seed: u64, step: usize) {
        let context = format!("seed {seed}, step {step}");
        let ended = self.lab.model.traces();
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

        let snapshot = self.lab.snapshot();
        let traced = |outcome: Outcome| {
            let is_it = |trace: &&Trace| {
                trace.measured.counted && !trace.key.late && trace.outcome == outcome
            };
            self.traces.iter().filter(is_it).count() as u64
        };

        let counted = |outcome: Outcome| {
            let namespaces = snapshot.kinds[0].namespaces.values();
            namespaces.map(|n| n.obligations[outcome as usize]).sum::<u64>()
        };
        let by_deadline = [Outcome::Late, Outcome::Superseded];
        let decided_later =
            |outcome: &&Outcome| **outcome == Outcome::Unknown || by_deadline.contains(*outcome);
        for outcome in Outcome::ALL.iter().filter(|outcome| !decided_later(outcome)) {
            assert_eq!(traced(*outcome), counted(*outcome), "{context}: {}", outcome.as_str());
        }

        // The trace of a superseded change ends before the deadline that may make the change late.
        let undecided = self.traces.iter().filter(|trace| {
            trace.outcome == Outcome::Superseded && !trace.measured.counted && !trace.key.late
        });
        let [in_traces, in_totals] = [by_deadline.map(traced), by_deadline.map(counted)];
        let later = in_totals.iter().sum::<u64>() - in_traces.iter().sum::<u64>();

        assert!(in_traces[0] <= in_totals[0] && in_traces[1] <= in_totals[1], "{context}");
        assert!(later <= undecided.count() as u64, "{context}: {in_traces:?} {in_totals:?}");

        let converged =
            self.traces.iter().filter(|trace| trace.measured.converged.is_some()).count() as u64;

        // A trace also ends when its deadline passes while the watch is blind, and the object may
        // converge later.
        assert!(converged <= snapshot.kinds[0].totals.convergence.count(), "{context}");
    }
}

#[test]
fn totals_add_up_after_every_step_of_a_random_history() {
    for seed in 1..=30 {
        let mut world = RandomWorld::new(seed * 0x9e37_79b9);
        for step in 0..400 {
            world.step();
            world.event();
            world.check(seed, step);
            world.check_traces(seed, step);
        }

        let list: Vec<Widget> = world.widgets.values().cloned().collect();
        world.lab.list(&list);
        world.lab.recover_watch(&watch());

        assert_eq!(
            world.lab.model.objects(),
            world.widgets.len(),
            "seed {seed}: objects after a list"
        );
    }
}

#[test]
fn a_repeated_list_changes_neither_findings_nor_outcomes() {
    for seed in 1..=20 {
        let mut world = RandomWorld::new(seed * 0x51ed_270b);
        (0..200).for_each(|_| world.step());

        let list: Vec<Widget> = world.widgets.values().cloned().collect();
        world.lab.list(&list);

        let before = world.lab.findings();
        let outcomes = format!(
            "{:?}",
            world.lab.snapshot().kinds[0]
                .namespaces
                .values()
                .map(|n| n.obligations)
                .collect::<Vec<_>>()
        );

        world.lab.list(&list);
        assert_eq!(before, world.lab.findings(), "seed {seed}");

        let after = format!(
            "{:?}",
            world.lab.snapshot().kinds[0]
                .namespaces
                .values()
                .map(|n| n.obligations)
                .collect::<Vec<_>>()
        );

        assert_eq!(outcomes, after, "seed {seed}: obligations counted twice");
    }
}

#[test]
fn an_empty_model_has_no_kinds_and_no_timers() {
    let model = Model::new(Settings::default());
    assert_eq!(model.next_due(), None);
    assert!(model.snapshot().kinds.is_empty());
}
