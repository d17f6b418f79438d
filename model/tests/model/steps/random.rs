//! Random histories of all kinds of observations, with two kinds and two watches of each.

use std::collections::BTreeMap;

use loopwatch_model::finding::{FindingCode, Subject};
use loopwatch_model::model::Model;
use loopwatch_model::observation::*;
use loopwatch_model::settings::Settings;
use loopwatch_model::snapshot::{Cursor, ObjectState};
use loopwatch_model::time::{Span, Timestamp};
use loopwatch_model::trace::StepKind;

use crate::lab::dice::Dice;
use crate::lab::random::{self, Happening, RandomWorld};
use crate::lab::{GROUP, logged, watched};

type History = Vec<(Timestamp, Observation)>;

const NAMESPACES: [&str; 2] = ["team-a", "team-b"];

const HAPPENINGS: [(u64, Happening); 25] = [
    (2, random::create),
    (1, random::create_owned),
    (1, random::change_owners),
    (1, random::remove),
    (2, random::list),
    (3, |random, _| random.pass(Span::secs(100))),
    (1, |random, _| random.pass(Span::hours(1))),
    (2, random::fail_watch),
    (3, random::recover_watch),
    (1, random::skip),
    (2, random::change_kinds),
    (1, random::configure),
    (1, random::annotate),
    (1, random::change_namespace),
    (1, random::define),
    (1, random::change_lease),
    (6, random::change_operator),
    (3, random::change_spec),
    (4, random::get_ready),
    (2, random::wait),
    (3, random::fail),
    (1, random::change_phase),
    (1, random::pause),
    (1, |random, at| {
        [random::touch_status, random::date_conditions][random.dice.roll(2) as usize](random, at)
    }),
    (1, random::begin_deletion),
];

fn kinds() -> Vec<WatchedKind> {
    let scopes = NAMESPACES.map(|namespace| Scope::Namespace(namespace.into()));
    let watch = |kind, scope: &Scope| watched(Role::Primary, GROUP, kind, scope.clone());
    ["Widget", "Gadget"].iter().flat_map(|kind| scopes.iter().map(|s| watch(kind, s))).collect()
}

/// Returns a random history, and the world at its end.
fn history(seed: u64, steps: usize, with_steps: bool) -> (History, RandomWorld) {
    let mut happenings = HAPPENINGS.to_vec();
    if with_steps {
        happenings.push((1, random::step_clock));
    }

    let mut world = RandomWorld::new(seed, settings(), &kinds(), (&NAMESPACES, 3));
    let log = logged(|| {
        random::discover(&mut world, &ObjectAddress::default());
        world.list_all();
        for _ in 0..steps {
            world.step(&happenings);
            world.pass(Span::secs(2));
        }
    });

    (with_events(seed, log), world)
}

fn settings() -> Settings {
    Settings { deadline: Span::secs(90), ..Settings::default() }
}

/// Adds Kubernetes Events about objects that exist, existed, or never did.
fn with_events(seed: u64, history: History) -> History {
    let mut dice = Dice(seed.rotate_left(17) | 1);
    let mut mixed = Vec::with_capacity(2 * history.len());
    for (at, observation) in history {
        // The instant of a step is by the new setting.
        let is_step = matches!(observation, Observation::ClockStepped { .. });
        if !is_step && dice.one_in(2) {
            mixed.push((at, event(&mut dice, at)));
        }

        mixed.push((at, observation));
    }

    mixed
}

fn event(dice: &mut Dice, now: Timestamp) -> Observation {
    let ago = Span(dice.roll(7_200_000).cast_signed() - 3_600_000);
    let kind = dice.pick(&kinds());
    let event = EventView {
        uid: dice.roll(50).to_string(),
        about: ObjectKey {
            namespace: dice.pick(&NAMESPACES).into(),
            name: format!("{}-{}", kind.kind.to_lowercase(), dice.roll(4)),
        },
        r#type: dice.pick(&["Normal", "Warning", "odd"]).into(),
        reason: dice.pick(&["Synced", "SyncFailed", "BackOff", "free text"]).into(),
        count: dice.roll(9),
        added: dice.roll(3),
        at: (!dice.one_in(4)).then(|| now.before(ago)),
        ..EventView::default()
    };

    Observation::EventSeen { watch: kind.watch, event: Box::new(event) }
}

/// Everything that the model says, without the instants of its internal timers.
fn output(model: &mut Model) -> String {
    let snapshot = model.snapshot();
    let (rows, _) = model.rows(Cursor::default(), usize::MAX);
    format!("{snapshot:#?}\n{rows:#?}\n{:#?}\n{:#?}", model.finding_events(), model.checkpoint())
}

fn first_difference(a: &str, b: &str) -> String {
    let pairs = a.lines().zip(b.lines()).enumerate();
    let Some((line, _)) = pairs.clone().find(|(_, (a, b))| a != b) else { return "length".into() };
    let near = |text: &str| {
        text.lines().skip(line.saturating_sub(14)).take(20).collect::<Vec<_>>().join("\n")
    };

    format!("--- a\n{}\n--- b\n{}", near(a), near(b))
}

fn differs(history: &[(Timestamp, Observation)], every_ms: i64) -> Option<String> {
    let (mut a, mut b) = (Model::new(settings()), Model::new(settings()));
    for (at, observation) in history {
        a.apply(*at, observation.clone());

        // The instant of a step is by the new setting.
        let end = match observation {
            Observation::ClockStepped { by_ms } => at.0 - by_ms,
            _ => at.0,
        };
        let mut tick = b.snapshot().at;
        let every_ms = every_ms.max((end - tick.0) / 40);

        while tick.0 > 0 && tick.0 < end {
            b.apply(tick, Observation::Tick);
            tick = tick.after(Span(every_ms));
        }

        b.apply(*at, observation.clone());
    }

    let (a, b) = (output(&mut a), output(&mut b));
    (a != b).then(|| first_difference(&a, &b))
}

#[test]
fn ticks_change_nothing() {
    for seed in 1..=60_u64 {
        let (history, _) = history(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), 400, true);
        for every in [700, 31_000] {
            if differs(&history, every).is_some() {
                // Shorten the history from both ends.
                let mut kept = history.clone();
                let mut size = kept.len() / 2;
                while size > 0 {
                    let mut from = 0;
                    while from < kept.len() {
                        let mut shorter = kept.clone();
                        shorter.drain(from..(from + size).min(kept.len()));
                        if differs(&shorter, every).is_some() {
                            kept = shorter;
                        } else {
                            from += size;
                        }
                    }

                    size /= 2;
                }

                let difference = differs(&kept, every).unwrap_or_default();
                panic!("seed {seed}, every {every}: {difference}\n{kept:#?}");
            }
        }
    }
}

#[test]
fn invariants_hold_after_every_step() {
    for seed in 1..=60_u64 {
        let (history, _) = history(seed.wrapping_mul(0x51ed_270b_0000_0001), 500, seed % 2 == 0);
        let mut model = Model::new(settings());
        let mut outcomes: BTreeMap<(String, String), Vec<u64>> = BTreeMap::new();

        for (step, (at, observation)) in history.iter().enumerate() {
            model.apply(*at, observation.clone());
            let context = format!("seed {seed}, step {step}: {observation:?}");
            let snapshot = model.snapshot();

            if let Some(due) = model.next_due() {
                assert!(due > snapshot.at, "{context}: a timer in the past");
            }

            let (rows, _) = model.rows(Cursor::default(), usize::MAX);
            for finding in &snapshot.findings {
                assert!(finding.found <= snapshot.at, "{context}: {finding:?}");

                if seed % 2 == 1 {
                    assert!(finding.since <= finding.found, "{context}: {finding:?}");
                }

                let mut deeper = finding.explained_by;
                for _ in 0..=snapshot.findings.len() {
                    let Some(id) = deeper else { break };
                    let Some(next) = snapshot.findings.iter().find(|other| other.id == id) else {
                        panic!("{context}: {finding:?}");
                    };

                    deeper = next.explained_by;
                }

                assert_eq!(deeper, None, "{context}: explained in a circle: {finding:?}");

                if let Subject::Object { kind, namespace, name, .. } = &finding.subject {
                    let exists = rows.iter().any(|row| {
                        (&row.kind, &row.namespace, &row.name) == (kind, namespace, name)
                    });

                    // A child with a bad owner may be collected already.
                    let collected = finding.info().area.as_str() == "ownership";
                    assert!(
                        exists || collected || kind == "Namespace",
                        "{context}: nothing has {finding:?}"
                    );
                }
            }

            for kind in &snapshot.kinds {
                for (namespace, totals) in &kind.namespaces {
                    let key = (kind.kind.clone(), namespace.to_string());
                    let old = outcomes.entry(key).or_default();
                    let new = totals.obligations.to_vec();

                    assert!(
                        old.iter().zip(&new).all(|(old, new)| old <= new),
                        "{context}: a counter went back"
                    );

                    *old = new;
                }
            }
        }
    }
}

/// Anybody may write Events, so they change only what is about Events, and the traces that show
/// them.
#[test]
fn events_change_nothing_else() {
    for seed in 1..=40_u64 {
        let (history, _) = history(seed.wrapping_mul(0xd134_2543_de82_ef95), 400, seed % 2 == 0);
        let [(with, traces), (without, traces_without)] = [true, false].map(|keeps| {
            let mut model = Model::new(settings());
            model.gather_traces();
            for (at, observation) in &history {
                if keeps || !matches!(observation, Observation::EventSeen { .. }) {
                    model.apply(*at, observation.clone());
                }
            }

            let mut traces = model.traces();
            for trace in &mut traces {
                trace.steps.retain(|step| !matches!(step.kind, StepKind::Event { .. }));
                trace.dropped = 0;
            }

            let mut snapshot = model.snapshot();
            snapshot.kinds.iter_mut().for_each(|kind| kind.totals.events.clear());

            let (rows, _) = model.rows(Cursor::default(), usize::MAX);
            let said = (snapshot.findings, snapshot.kinds, rows, model.finding_events());
            (format!("{said:#?}"), format!("{traces:#?}"))
        });

        assert!(with == without, "seed {seed}: {}", first_difference(&with, &without));
        assert!(
            traces == traces_without,
            "seed {seed}: {}",
            first_difference(&traces, &traces_without)
        );
    }
}

/// The sources work again, nothing is tuned any more, the operator should run, and three days pass.
fn mend(world: &mut RandomWorld) {
    world.loses = None;
    world.world.kinds = kinds();
    world.world.objects.values_mut().for_each(|object| object.annotations.clear());

    let plain = Settings { learn_after: 0, ..settings() };
    world.tell(Observation::SettingsChanged(Box::new(plain)));
    world.tell(Observation::NamespacesListed(Vec::new()));
    random::discover(world, &ObjectAddress::default());
    world.list_all();

    for kind in kinds() {
        world.tell(Observation::SourceRecovered { source: SourceId::Watch(kind.watch) });
    }

    // While it is scaled to zero, nothing is expected of the operator.
    let wanted = OperatorWorkload { replicas: 1, ..OperatorWorkload::default() };
    let mut operator = OperatorView { workload: Some(wanted), ..OperatorView::default() };
    (operator.namespace, operator.name) = ("ops".into(), "widget-operator".into());
    world.tell(Observation::OperatorSeen(Box::new(operator)));
    world.pass_exactly(Span::hours(72));
    world.tell(Observation::Tick);
}

#[test]
fn in_the_end_only_what_is_broken_is_reported() {
    for seed in 1..=80_u64 {
        let (mut log, mut world) =
            history(seed.wrapping_mul(0x2545_f491_4f6c_dd1d), 400, seed % 2 == 0);

        log.extend(logged(|| mend(&mut world)));
        let mut model = Model::new(settings());
        for (at, observation) in &log {
            model.apply(*at, observation.clone());
        }

        let snapshot = model.snapshot();
        let (rows, _) = model.rows(Cursor::default(), usize::MAX);
        for (at, widget) in &world.widgets {
            let has = |codes: &[FindingCode]| {
                snapshot.findings.iter().any(|f| {
                    let Subject::Object { kind: k, namespace: ns, name: n, .. } = &f.subject else { return false };
                    (k, ns, n) == (&at.kind, &at.namespace, &at.name)
                        // Their owners are at random, so many references are bad.
                        && if codes.is_empty() { f.info().area.as_str() != "ownership" } else { codes.contains(&f.code) }
                })
            };

            let ready = widget.conditions.iter().find(|c| c.0 == "Ready").map(|c| c.1);
            let current = widget.observed == Some(widget.generation);
            let phase_is_fine = widget.phase.is_empty() || widget.phase == "Running";
            let context = || {
                let all: Vec<_> = snapshot
                    .findings
                    .iter()
                    .map(|f| format!("{:?} {} {}", f.code, f.subject, f.since))
                    .collect();

                format!(
                    "seed {seed}: {} {}/{} {ready:?} current {current} paused {} phase {} generation {} observed {:?}: {all:#?}",
                    at.kind,
                    at.namespace,
                    at.name,
                    widget.paused,
                    widget.phase,
                    widget.generation,
                    widget.observed
                )
            };

            let row = rows.iter().find(|row| {
                (&*row.kind, &*row.namespace, &row.name)
                    == (at.kind.as_str(), at.namespace.as_str(), &at.name)
            });
            let missed =
                [FindingCode::Overdue, FindingCode::Unacknowledged, FindingCode::StatusLag];
            if has(&missed) {
                assert_eq!(row.map(|row| row.state), Some(ObjectState::Overdue), "{}", context());
            }

            if widget.deleted.is_some() {
                let stuck = [
                    FindingCode::FinalizerStuck,
                    FindingCode::FinalizerOwnerAbsent,
                    FindingCode::DeletionBlockedByDependent,
                ];

                assert!(has(&stuck), "missed stuck: {}", context());
            } else if widget.paused {
                assert!(!has(&[]), "paused: {}", context());
            } else if current && ready == Some(ConditionStatus::True) && phase_is_fine {
                assert!(!has(&[]), "healthy: {}", context());
            } else if widget.conditions.iter().any(|c| c.0 == "Ready") && !current && phase_is_fine
            {
                assert!(
                    has(&[
                        FindingCode::Unacknowledged,
                        FindingCode::StatusLag,
                        FindingCode::Overdue,
                        FindingCode::Regressed,
                        FindingCode::NeverRecovered
                    ]),
                    "missed: {}",
                    context()
                );
            }
        }
    }
}
