//! Steps of the clock, jumps of time, and timers: only the passing of time matters, not how it
//! arrives.

mod lab;

use lab::dice::Dice;
use lab::steps::{namespaced, unlearned};
use lab::{Lab, START, Widget, kind, watch};
use loopwatch_model::model::Model;
use loopwatch_model::observation::{
    Cause, ConditionStatus, Observation, SourceId, StatusShape, WatchedKind,
};
use loopwatch_model::settings::Settings;
use loopwatch_model::snapshot::Outcome;
use loopwatch_model::time::{Span, Timestamp};

const STEPS: [Span; 4] = [Span::hours(1), Span::hours(-1), Span::hours(24 * 365), Span::hours(-6)];

#[test]
fn a_clock_that_is_set_forward_makes_nothing_late() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::secs(1));
    lab.step_clock(Span::hours(1));
    lab.apply(widget.ready());
    lab.advance(Span::secs(30));

    assert_eq!(lab.outcomes(Outcome::Late), 0);
    assert!(lab.kind().totals.convergence.sum() < 60.0, "{}", lab.kind().totals.convergence.sum());
}

#[test]
fn a_clock_that_is_set_back_hides_no_dead_operator() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.step_clock(Span::hours(-6));
    lab.apply(widget.spec(2, lab.now));
    lab.advance_by_minutes(5 * 60);

    assert!(!lab.findings().is_empty(), "the operator has been dead for five hours");
}

#[test]
fn a_step_while_an_obligation_is_open_moves_its_deadline_along() {
    for step in STEPS {
        let mut lab = Lab::new();
        let mut widget = lab.converged("web");
        lab.apply(widget.spec(2, lab.now));
        lab.advance(Span::mins(4));
        lab.step_clock(step);
        lab.advance(Span(Span::mins(6).0 - 1));

        assert!(lab.findings().is_empty(), "{}: {:?}", step.0, lab.findings());

        lab.advance(Span(1));
        assert_eq!(lab.findings(), ["Unacknowledged Widget team-a/web"], "{}", step.0);
        assert_eq!(lab.since("Unacknowledged"), lab.ago(Span::mins(10)), "{}", step.0);
        assert_eq!(lab.outcomes(Outcome::Late), 1);
    }
}

#[test]
fn a_step_during_a_regression_changes_neither_its_age_nor_its_threshold() {
    for step in STEPS {
        let mut lab = Lab::new();
        let mut widget = lab.converged("web");
        lab.advance(Span::hours(1));
        lab.apply(widget.condition("Ready", ConditionStatus::False, "LeaderLost"));
        lab.advance(Span::mins(3));
        lab.step_clock(step);
        lab.advance(Span(Span::mins(2).0 - 1));

        assert!(lab.findings().is_empty(), "{}: {:?}", step.0, lab.findings());

        lab.advance(Span(1));
        assert_eq!(lab.findings(), ["Regressed Widget team-a/web"], "{}", step.0);
        assert!(lab.evidence().contains("lost for 5m"), "{}", lab.evidence());

        lab.step_clock(step);
        lab.advance(Span::mins(1));

        assert!(lab.evidence().contains("lost for 6m"), "{}", lab.evidence());
        assert_eq!(lab.since("Regressed"), lab.ago(Span::mins(6)));
    }
}

#[test]
fn a_step_within_the_flapping_window_neither_opens_nor_closes_the_finding() {
    for step in STEPS {
        let mut lab = Lab::new();
        let mut widget = lab.converged("web");
        lab.advance(Span::mins(20));

        let flip = |lab: &mut Lab, widget: &mut Widget, times: u32| {
            for number in 0..times {
                let status =
                    if number % 2 == 0 { ConditionStatus::True } else { ConditionStatus::False };
                lab.apply(widget.condition("Synced", status, "Polled"));
                lab.advance(Span::secs(30));
            }
        };

        flip(&mut lab, &mut widget, 6); // five transitions
        lab.step_clock(step);
        lab.advance(Span::secs(1));

        assert!(!lab.has("ConditionFlapping"), "{}", step.0);

        flip(&mut lab, &mut widget, 1);
        assert_eq!(lab.findings(), ["ConditionFlapping Widget team-a/web"], "{}", step.0);

        lab.step_clock(step);
        lab.advance(Span::secs(1));

        assert_eq!(lab.findings(), ["ConditionFlapping Widget team-a/web"], "{}", step.0);

        lab.advance(Span::mins(30));
        lab.assert_no_findings();
    }
}

#[test]
fn a_step_in_a_phase_does_not_make_it_stuck() {
    for step in STEPS {
        let mut lab = Lab::new();
        let mut widget = lab.converged("web");
        lab.advance(Span::mins(20));
        lab.apply(widget.phase("Rebalancing"));
        lab.apply(widget.condition("Ready", ConditionStatus::Unknown, "Rebalancing"));
        lab.advance(Span::mins(10));
        lab.step_clock(step);
        lab.advance(Span::mins(19));

        assert!(!lab.has("PhaseStuck"), "{}", step.0);

        lab.advance(Span::mins(1));
        assert!(lab.has("PhaseStuck"), "{}: {:?}", step.0, lab.findings());
    }
}

#[test]
fn a_step_while_a_source_fails_neither_hurries_nor_delays_the_finding_about_it() {
    for step in STEPS {
        let mut lab = Lab::new();
        lab.converged("web");
        lab.fail();
        lab.advance(Span::mins(1));
        lab.step_clock(step);
        lab.advance(Span(59_999));
        lab.assert_no_findings();
        lab.advance(Span(1));

        assert_eq!(lab.findings(), ["SourceFailing source watch/widgets.example.io"], "{}", step.0);

        lab.step_clock(step);
        lab.recover();
        lab.advance(Span::mins(1));
        lab.assert_no_findings();
    }
}

#[test]
fn a_step_during_the_grace_after_blindness_does_not_end_it() {
    for step in STEPS {
        let mut lab = Lab::new();
        let mut widget = lab.converged("web");
        lab.apply(widget.spec(2, lab.now));
        lab.advance(Span::mins(8));
        lab.blind_for(Span::mins(5));
        lab.advance(Span::secs(20));
        lab.step_clock(step);
        lab.advance(Span(39_999));

        lab.assert_no_findings();
        lab.advance(Span(1));

        assert_eq!(lab.findings(), ["Unacknowledged Widget team-a/web"], "{}", step.0);
    }
}

#[test]
fn a_step_closes_no_finding_and_moves_no_audit_far_away() {
    for step in STEPS {
        let mut lab = Lab::new();
        let mut widgets: Vec<Widget> = ["a", "b", "c", "d"].map(|name| lab.converged(name)).into();
        widgets[..3].iter_mut().for_each(|widget| lab.apply(widget.failed("TokenExpired")));
        lab.apply(widgets[3].spec(2, lab.now));
        lab.advance(Span::mins(11));

        let before = lab.findings();
        lab.changes();
        lab.model.probes();
        lab.step_clock(step);
        lab.advance(Span::secs(1));

        assert_eq!((lab.findings(), lab.changes()), (before, Vec::new()), "{}", step.0);

        let due = lab.model.next_due().expect("the audit");
        assert!(due <= lab.now.after(Span::mins(1)), "{}: the next timer is due at {due}", step.0);
    }
}

#[test]
fn steps_that_cancel_each_other_change_no_time_in_a_state() {
    let mut lab = Lab::new();
    lab.converged("web");

    let before: u64 = lab.kind().namespaces["team-a"].state_ms.iter().sum();
    for step in STEPS {
        lab.step_clock(step);
        lab.advance(Span::mins(1));
        lab.step_clock(Span(-step.0));
    }

    let after: u64 = lab.kind().namespaces["team-a"].state_ms.iter().sum();
    assert_eq!(after - before, 4 * 60_000, "one object for four minutes");
}

// Jumps and ticks.

#[test]
fn a_jump_of_a_year_asks_each_watch_for_one_audit() {
    let watched: Vec<WatchedKind> =
        (0..20).map(|number| namespaced(&format!("team-{number}"))).collect();
    let mut lab = Lab::unsynced(Settings::default());
    lab.discover(&watched);
    watched.iter().for_each(|watched| lab.list_in(&watched.watch, Vec::new()));
    lab.advance(Span::hours(24 * 365));

    assert_eq!(lab.model.probes().len(), 20);

    let next = lab.now.after(lab.model.settings().audit_every);
    assert_eq!(lab.model.next_due(), Some(next), "the audits of the year before are over");

    lab.advance(Span::secs(59));
    assert!(lab.model.probes().is_empty());
}

#[test]
fn a_jump_over_a_night_gives_the_same_result_as_waiting() {
    let run = |minutes: i64| {
        let mut lab = Lab::new();
        let mut widgets: Vec<Widget> = ["a", "b", "c"].map(|name| lab.converged(name)).into();
        lab.apply(widgets[0].spec(2, lab.now));
        lab.apply(widgets[1].waiting().phase("Repairing"));
        widgets[2].deleted = Some(lab.now);
        widgets[2].finalizers = vec!["example.io/f".into()];
        lab.apply(&widgets[2]);
        (0..600 / minutes).for_each(|_| lab.advance(Span::mins(minutes)));

        format!("{:?} {:?} {:?}", lab.snapshot().findings, lab.model.finding_events(), lab.kind())
    };
    assert_eq!(run(600), run(1));
}

#[test]
fn the_same_history_on_a_clock_that_is_set_opens_and_closes_the_same_findings() {
    for seed in 1..40 {
        let settings = Settings { deadline: Span::mins(2), ..unlearned() };
        let (mut plain, mut stepped) = (Model::new(settings.clone()), Model::new(settings));
        let (mut dice, mut shift) = (Dice(seed), Span::ZERO);
        let changes = |model: &mut Model| {
            let events = model.finding_events().into_iter();
            events
                .map(|e| format!("{:?} {:?} {}", e.change, e.finding.code, e.finding.subject))
                .collect::<Vec<_>>()
        };

        // The API server has its own clock, so the history keeps nothing that the API server dates.
        let undated = |observation: Observation| match observation {
            Observation::Applied { watch, mut object } => {
                (object.created, object.managers) = (None, Vec::new());
                object.deleted.is_none().then_some(Observation::Applied { watch, object })
            }
            Observation::ListBegan { .. }
            | Observation::Listed { .. }
            | Observation::ListEnded { .. } => None,
            other => Some(other),
        };

        let mut listed = false;
        for (at, observation) in history(seed * 0x51ed_270b) {
            let Some(observation) = undated(observation) else { continue };
            if dice.roll(10) == 0 {
                let by_ms = (dice.roll(7_200) as i64 - 3_600) * 1000;
                shift = Span(shift.0 + by_ms);
                stepped.apply(at.after(shift), Observation::ClockStepped { by_ms });
                plain.apply(at, Observation::Tick);
            }

            for (model, at) in [(&mut plain, at), (&mut stepped, at.after(shift))] {
                model.apply(at, observation.clone());
                if !listed {
                    model.apply(at, Observation::ListBegan { watch: watch(), epoch: 1 });
                    let version = "1".to_owned();
                    model.apply(at, Observation::ListEnded { watch: watch(), epoch: 1, version });
                }
            }

            listed = true;
            assert_eq!(changes(&mut plain), changes(&mut stepped), "seed {seed} at {at}");
        }
    }
}

/// A random history of eight objects and their watch.
fn history(seed: u64) -> Vec<(Timestamp, Observation)> {
    let mut dice = Dice(seed | 1);
    let mut history = vec![(START, Observation::KindsDiscovered(vec![kind()]))];
    let (mut now, mut version) = (START, 100);
    let source = SourceId::Watch(watch());
    let mut widgets: Vec<Widget> =
        (0..8).map(|number| Widget::new(&format!("w{number}"), now)).collect();

    for epoch in 0..300 {
        now = now.after(Span(dice.roll(120_000) as i64));
        let widget = &mut widgets[dice.roll(8) as usize];
        let spec = dice.roll(3) + 1;

        match dice.roll(12) {
            0 | 1 => drop(widget.spec(spec, now)),
            2 | 3 => drop(widget.ready()),
            4 => drop(widget.waiting()),
            5 => drop(widget.failed("Broken")),
            6 => drop(widget.phase(["Pending", "Running", "Working"][dice.roll(3) as usize])),
            7 => {
                widget.finalizers = vec!["a/b".into()];
                widget.deleted = Some(now);
            }
            8 => {
                version += 1;
                let key = widget.key();
                history.push((
                    now,
                    Observation::Deleted { watch: watch(), key, version: version.to_string() },
                ));
                *widget = Widget::new(&widget.name.clone(), now);
                widget.uid = dice.roll(1 << 40);
            }
            9 => {
                let (cause, detail) = (Cause::Timeout, String::new());
                history.push((
                    now,
                    Observation::SourceFailed { source: source.clone(), cause, detail },
                ));
                continue;
            }
            10 => {
                history.push((now, Observation::SourceRecovered { source: source.clone() }));
                continue;
            }
            _ => {
                history.push((now, Observation::ListBegan { watch: watch(), epoch }));
                for widget in &widgets {
                    version += 1;
                    let object = Box::new(widget.view(version));
                    history.push((now, Observation::Listed { watch: watch(), object }));
                }

                history.push((
                    now,
                    Observation::ListEnded { watch: watch(), epoch, version: version.to_string() },
                ));
                continue;
            }
        }

        version += 1;
        history.push((
            now,
            Observation::Applied { watch: watch(), object: Box::new(widget.view(version)) },
        ));
    }

    history
}

/// Returns everything that a model shows.
fn shown(model: &mut Model) -> String {
    let snapshot = model.snapshot();
    let parts = (&snapshot.findings, &snapshot.kinds, &snapshot.unhealthy, &snapshot.health);
    format!("{parts:?} {:?}", model.finding_events())
}

#[test]
fn ticks_between_observations_change_nothing() {
    for seed in 1..60 {
        let settings = Settings { deadline: Span::mins(2), ..Settings::default() };
        let (mut plain, mut ticked) = (Model::new(settings.clone()), Model::new(settings));
        let (mut dice, mut last) = (Dice(seed), START);

        for (at, observation) in history(seed * 0x9e37_79b9_7f4a) {
            plain.apply(at, observation.clone());
            let gap = at.since(last).0;
            if gap > 0 {
                let mut ticks: Vec<i64> = (0..3).map(|_| dice.roll(gap as u64) as i64).collect();
                ticks.sort_unstable();
                ticks
                    .into_iter()
                    .for_each(|tick| ticked.apply(last.after(Span(tick)), Observation::Tick));
            }

            ticked.apply(at, observation);
            last = at;
        }

        let end = last.after(Span::hours(3));
        plain.apply(end, Observation::Tick);
        ticked.apply(end, Observation::Tick);

        assert_eq!(shown(&mut plain), shown(&mut ticked), "seed {seed}");
    }
}

#[test]
fn a_live_history_on_a_clock_that_is_set_opens_and_closes_the_same_findings() {
    for seed in 1..40 {
        let settings = Settings { deadline: Span::mins(2), ..unlearned() };
        let (mut plain, mut stepped) = (Model::new(settings.clone()), Model::new(settings));
        let (mut dice, mut shift) = (Dice(seed), Span::ZERO);
        let changes = |model: &mut Model| {
            let events = model.finding_events().into_iter();
            events
                .map(|e| format!("{:?} {:?} {}", e.change, e.finding.code, e.finding.subject))
                .collect::<Vec<_>>()
        };

        // The API server has its own clock, so the history keeps nothing that it dates. Without a
        // status, dates would decide.
        let undated = |observation: Observation| match observation {
            Observation::Applied { watch, mut object } => {
                (object.created, object.managers) = (None, Vec::new());
                let judged = object.deleted.is_none() && object.status == StatusShape::Filled;
                judged.then_some(Observation::Applied { watch, object })
            }
            Observation::ListBegan { .. }
            | Observation::Listed { .. }
            | Observation::ListEnded { .. } => None,
            other => Some(other),
        };

        let mut listed = false;
        for (at, observation) in history(seed * 0x51ed_270b) {
            let Some(observation) = undated(observation) else { continue };
            if dice.roll(10) == 0 {
                let by_ms = (dice.roll(7_200) as i64 - 3_600) * 1000;
                shift = Span(shift.0 + by_ms);
                stepped.apply(at.after(shift), Observation::ClockStepped { by_ms });
                plain.apply(at, Observation::Tick);
            }

            for (model, at) in [(&mut plain, at), (&mut stepped, at.after(shift))] {
                model.apply(at, observation.clone());
                if !listed {
                    model.apply(at, Observation::ListBegan { watch: watch(), epoch: 1 });
                    let version = "1".to_owned();
                    model.apply(at, Observation::ListEnded { watch: watch(), epoch: 1, version });
                }
            }

            listed = true;
            assert_eq!(changes(&mut plain), changes(&mut stepped), "seed {seed} at {at}");
        }
    }
}
