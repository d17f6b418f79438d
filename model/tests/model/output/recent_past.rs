//! The last hours: the points of the charts, and what happened.

use loopwatch_model::observation::Observation;
use loopwatch_model::snapshot::{Happening, ObjectState, PAST_POINTS, RecentPast};
use loopwatch_model::time::Span;

use crate::lab::pods::{OTHER_POD, Op, POD, pod};
use crate::lab::{Lab, START};

fn happened(past: &RecentPast) -> Vec<String> {
    let words = past.events.iter().map(|event| match &event.what {
        Happening::Finding { change, code, subject, .. } => format!("{code} {change} {subject}"),
        Happening::Operator { change, name, detail } => {
            format!("operator {change} {name} {detail}")
        }
    });
    words.collect()
}

#[test]
fn a_point_shows_the_state_at_the_end_of_its_interval() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web"); // takes 1 s, and one minute passes
    let changed = lab.now;
    lab.apply(widget.spec(2, changed));
    lab.advance(Span::mins(12));
    lab.apply(widget.ready());
    lab.advance(Span::mins(2));

    let past = lab.model.recent_past();
    assert_eq!((past.at, past.points[0].at), (lab.now, START.after(Span::secs(15))));

    let at = |quarter: usize| past.points[quarter - 1];
    assert_eq!(at(1).states[ObjectState::Converged as usize], 1);
    assert_eq!((at(1).converged, at(1).convergence_seconds), (1, Some(1.0)));
    assert_eq!((at(8).states[ObjectState::Progressing as usize], at(8).findings), (1, [0, 0, 0]));
    assert_eq!(
        at(48).findings.iter().sum::<u32>(),
        1,
        "the operator has ignored the spec for ten minutes"
    );

    assert_eq!(at(54).states[ObjectState::Converged as usize], 1);
    assert_eq!((at(53).converged, at(53).convergence_seconds), (1, Some(720.0)));
    assert_eq!(past.points.len(), 60 + 1, "one for the present");
    assert_eq!(happened(&past)[..1], ["Unacknowledged opened Widget team-a/web"]);
    assert!(
        happened(&past).last().is_some_and(|last| last.contains("closed")),
        "{:?}",
        happened(&past)
    );
    assert_eq!(past.forgotten, 0);
}

#[test]
fn the_points_do_not_depend_on_when_ticks_arrive() {
    let run = |ticks: bool| {
        let mut lab = Lab::new();
        let mut widget = lab.converged("web");
        let changed = lab.now;
        lab.apply(widget.spec(2, changed));

        for _ in 0..900 {
            lab.now = lab.now.after(Span::secs(1));
            if ticks {
                lab.observe(Observation::Tick);
            }
        }

        lab.apply(widget.ready());
        lab.advance(Span::mins(3));
        lab.model.recent_past()
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn only_some_hours_are_kept_also_after_a_long_silence() {
    let mut lab = Lab::new();
    lab.converged("web");
    for span in [Span::mins(PAST_POINTS as i64 * 2), Span::hours(24 * 365)] {
        lab.advance(span);
        let past = lab.model.recent_past();

        assert!(
            (PAST_POINTS / 2..=PAST_POINTS + 1).contains(&past.points.len()),
            "{}",
            past.points.len()
        );
        assert!(past.points.windows(2).all(|pair| pair[0].at < pair[1].at));
        assert!(lab.now.since(past.points[0].at) <= Span::mins(PAST_POINTS as i64 + 1));
    }
}

#[test]
fn points_without_room_are_merged_without_losing_convergences() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    for round in 2..=100 {
        let changed = lab.now;
        lab.apply(widget.spec(round, changed));
        lab.advance(Span::secs(2));
        lab.apply(widget.ready());
        lab.advance(Span::secs(90));
    }

    let past = lab.model.recent_past();
    assert!(past.points.len() <= PAST_POINTS + 1);

    let gaps: Vec<_> = past.points.windows(2).map(|pair| pair[1].at.since(pair[0].at)).collect();
    let shorter = gaps.iter().filter(|gap| **gap != Span::mins(1)).count();

    assert!(shorter <= 3, "at most before the present and where the interval changed: {gaps:?}");
    assert_eq!(past.points.iter().map(|point| point.converged).sum::<u32>(), 100);

    let mut means = past.points.iter().filter_map(|point| point.convergence_seconds);
    assert!(means.all(|mean| (1.0..=2.01).contains(&mean)));
}

#[test]
fn old_events_make_room_and_are_counted() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    for round in 2..600 {
        let changed = lab.now;
        lab.apply(widget.spec(round, changed));
        lab.advance(Span::mins(11));
        lab.apply(widget.ready());
        lab.advance(Span::mins(5));
    }

    let past = lab.model.recent_past();
    assert_eq!(past.events.len(), 1_000);
    assert!(past.forgotten > 0);
}

#[test]
fn the_operator_has_a_timeline_of_its_own() {
    let mut lab = Lab::new();
    let mut op = Op::running(&lab);
    op.view.pods.push(pod(OTHER_POD, lab.ago(Span::hours(1))));
    op.workload().replicas = 2;
    op.seen(&mut lab);
    lab.run_with_lease(POD, 10);

    assert!(happened(&lab.model.recent_past()).is_empty(), "nothing has happened");

    lab.renew(OTHER_POD);
    let past = lab.model.recent_past();
    let changes = happened(&past);

    assert_eq!(changes.len(), 1, "{changes:?}");
    assert!(
        changes[0].starts_with("operator leader_changed ")
            && changes[0].ends_with(" no longer leads"),
        "{changes:?}"
    );
}
