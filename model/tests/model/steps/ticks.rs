//! Jumps of time and timers: it does not matter how time arrives.

use loopwatch_model::model::Model;
use loopwatch_model::observation::*;
use loopwatch_model::settings::Settings;
use loopwatch_model::time::{Span, Timestamp};

use crate::lab::dice::Dice;
use crate::lab::{Lab, START, Widget, kind, namespaced, unlearned, watch};

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

#[test]
fn ticks_do_not_matter_before_a_step_of_the_clock() {
    let run = |ticks: bool| {
        let mut lab = Lab::new();
        let mut w = lab.converged("web");
        w.finalizers = vec!["example.io/f".into()];
        w.deleted = Some(lab.now);
        lab.apply(&w);

        if ticks {
            lab.advance(Span::mins(16));
        } else {
            lab.now = lab.now.after(Span::mins(16));
        }

        lab.now = lab.now.after(Span::hours(-1));
        lab.observe(Observation::ClockStepped { by_ms: -3_600_000 });
        lab.findings()
    };
    assert_eq!(run(true), run(false));
}

/// A replay must not hang because one line of a recording has a wrong time. Timers that are due after
/// a month fire once, and the conclusions are the same.
#[test]
fn a_jump_of_years_fires_each_timer_once() {
    let after = |ticks: &[i64]| {
        let mut model = Model::new(Settings::default());
        let mut last = START;
        for (at, observation) in history(7) {
            last = at;
            model.apply(at, observation);
        }

        for days in ticks {
            model.apply(last.after(Span::hours(24 * days)), Observation::Tick);
        }

        let snapshot = model.snapshot();
        let mut ids: Vec<String> = snapshot.findings.iter().map(|f| f.id.to_string()).collect();
        ids.sort();
        assert!(!ids.is_empty(), "the history leaves findings");
        (ids, snapshot.at.since(last))
    };

    assert_eq!(after(&[20, 40]), after(&[40]));
    assert_eq!(after(&[365 * 50]).1, Span::hours(24 * 365 * 50));
}
