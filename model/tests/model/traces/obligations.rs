//! Traces: each obligation produces one, with its steps; nothing is kept if nobody wants them.

use loopwatch_model::observation::ConditionStatus::{False, True};
use loopwatch_model::observation::ObjectAddress;
use loopwatch_model::settings::{Limits, Settings};
use loopwatch_model::snapshot::Outcome;
use loopwatch_model::time::Span;
use loopwatch_model::trace::{Measured, TraceLink};

use super::{ended, gathering, lab, lines};
use crate::lab::{Lab, START, Widget, unlearned};

#[test]
fn a_spec_change_that_converges_gives_one_trace() {
    let mut lab = lab();
    let mut web = lab.converged("web");

    assert_eq!(
        ended(&mut lab),
        [
            "web created converged after 1s",
            "  acknowledge: 0s to 1s",
            "  Ready=True AsExpected: 1s to 1s"
        ]
        .map(|line| line
            .replace("Ready=True AsExpected: 1s to 1s", "Ready=True AsExpected: 1s to …"))
    );

    lab.apply(web.spec(2, lab.now));
    lab.advance(Span::secs(2));
    lab.apply(web.waiting());
    lab.advance(Span::secs(5));
    lab.apply(web.ready());
    lab.advance(Span::secs(5));

    assert!(lab.model.traces().is_empty(), "it may yet stop being ready");

    lab.advance(Span::secs(10));
    let traces = lab.model.traces();

    assert_eq!(
        lines(&traces[0]),
        [
            "web spec_changed converged after 7s",
            "  acknowledge: 0s to 2s",
            "  Ready=True AsExpected: 0s to 2s",
            "  Ready=False Progressing: 2s to 7s",
            "  Ready=True AsExpected: 7s to …",
        ]
    );

    let measured = Measured {
        acknowledged: Some(Span::secs(2)),
        converged: Some(Span::secs(7)),
        counted: true,
    };

    assert_eq!(traces[0].measured, measured);
    assert_eq!((traces[0].generation, traces[0].deadline), (2, Span::mins(10)));
    assert!(!traces[0].is_failure());
    assert_eq!(traces.len(), 1);
}

#[test]
fn the_root_ends_at_the_deadline_and_another_trace_shows_the_rest() {
    let mut lab = lab();
    let mut web = lab.converged("web");
    ended(&mut lab);
    lab.apply(web.spec(2, lab.now));
    lab.advance(Span::secs(3));
    lab.apply(web.waiting());
    lab.advance(Span::mins(20));

    let late = lab.model.traces();
    assert_eq!(
        lines(&late[0]),
        [
            "web spec_changed late after 600s",
            "  acknowledge: 0s to 3s",
            "  Ready=True AsExpected: 0s to 3s",
            "  Ready=False Progressing: 3s to …",
        ]
    );

    assert!(late[0].is_failure() && late[0].signal.contains("Ready=False"), "{:?}", late[0].signal);
    assert!(late[0].measured.counted);

    lab.apply(web.ready());
    lab.advance(Span::mins(1));

    let rest = lab.model.traces();
    assert_eq!(
        lines(&rest[0]),
        [
            "rest web spec_changed converged after 603s",
            "  Ready=False Progressing: 0s to 603s",
            "  Ready=True AsExpected: 603s to …",
        ]
    );

    assert_eq!(rest[0].links, [TraceLink::Continues(late[0].key.clone())]);
    assert_eq!(rest[0].key.to_string(), format!("{}|late", late[0].key));
    assert!(rest[0].is_failure(), "kept by every sampler");

    lab.advance(Span::hours(1));
    assert!(lab.model.traces().is_empty(), "each root ends once");
}

#[test]
fn a_newer_spec_ends_the_trace_and_the_rest_of_one() {
    let mut lab = lab();
    let mut web = lab.converged("web");
    ended(&mut lab);
    lab.apply(web.spec(2, lab.now));
    lab.advance(Span::secs(30));
    lab.apply(web.spec(3, lab.now));

    let traces = lab.model.traces();
    assert_eq!(lines(&traces[0])[0], "web spec_changed superseded after 30s");
    assert!(!traces[0].is_failure());

    lab.advance(Span::mins(11));
    assert_eq!(lab.model.traces()[0].outcome, Outcome::Late);

    lab.apply(web.spec(4, lab.now));
    let rest = lab.model.traces();

    assert_eq!(lines(&rest[0])[0], "rest web spec_changed superseded after 60s");

    lab.advance(Span::secs(1));
    lab.apply(web.ready());
    lab.advance(Span::mins(1));

    let last = lab.model.traces();
    assert_eq!(lines(&last[0])[0], "web spec_changed converged after 1s");

    let previous = TraceLink::Previous(traces[0].key.clone());
    let TraceLink::Previous(key) = &last[0].links[0] else { panic!("{:?}", last[0].links) };

    assert!(TraceLink::Previous(key.clone()) != previous, "of generation 3");
    assert!(key.to_string().ends_with("|3"), "{key}");
}

/// An object whose second generation the operator has rejected after 4 s.
fn rejected() -> (Lab, Widget) {
    let mut lab = lab();
    let mut web = lab.converged("web");
    ended(&mut lab);
    lab.apply(web.spec(2, lab.now));
    lab.advance(Span::secs(4));
    lab.apply(web.failed("InvalidSpec"));
    lab.advance(Span::mins(30));

    (lab, web)
}

#[test]
fn a_rejection_ends_the_trace_when_the_status_said_so() {
    let (mut lab, _) = rejected();
    let traces = lab.model.traces();

    assert_eq!(lines(&traces[0])[0], "web spec_changed rejected after 4s");
    assert!(
        traces[0].is_failure() && traces[0].signal.contains("Stalled"),
        "{:?}",
        traces[0].signal
    );
    assert_eq!(traces.len(), 1);
}

#[test]
fn a_pause_ends_the_trace_and_the_resumption_gives_another_one() {
    let mut lab = lab();
    let mut web = lab.converged("web");
    ended(&mut lab);
    lab.apply(web.spec(2, lab.now));
    lab.advance(Span::secs(4));
    web.paused = true;
    lab.apply(&web);

    let paused = lab.model.traces();
    assert_eq!(lines(&paused[0])[0], "web spec_changed suspended after 4s");

    lab.advance(Span::hours(1));
    web.paused = false;
    lab.apply(&web);
    lab.advance(Span::secs(2));
    lab.apply(web.ready());
    lab.advance(Span::mins(1));

    let resumed = lab.model.traces();
    assert_eq!(
        (lines(&resumed[0])[0].as_str(), resumed.len()),
        ("web resumed converged after 2s", 1)
    );
    assert_ne!(resumed[0].key, paused[0].key, "the generation is the same");
    assert_eq!(resumed[0].links, [TraceLink::Previous(paused[0].key.clone())]);
    assert!(!resumed[0].measured.counted && resumed[0].measured.converged.is_none());
}

#[test]
fn conditions_that_turn_again_and_again_are_limited() {
    let mut lab = lab();
    let mut web = lab.converged("web");
    ended(&mut lab);
    lab.apply(web.spec(2, lab.now));

    for round in 0..200 {
        lab.advance(Span::secs(1));
        let status = if round % 2 == 0 { False } else { True };
        lab.apply(web.observe().condition("Reconciling", status, "Retry"));
        lab.apply(web.condition("Ready", False, "Progressing"));
    }

    lab.advance(Span::mins(11));
    let traces = lab.model.traces();

    assert_eq!(traces[0].steps.len(), 128);
    assert!(traces[0].dropped > 50, "{}", traces[0].dropped);
    assert!(lab.snapshot().dropped["trace_steps"] > 50);
}

#[test]
fn traces_that_do_not_fit_are_dropped_and_counted() {
    let limits = Limits { trace_bytes: 10_000, ..Limits::default() };
    let mut lab = gathering(Settings { limits, ..unlearned() });
    let mut widgets: Vec<Widget> =
        (0..100).map(|number| Widget::new(&format!("web-{number}"), lab.now)).collect();

    widgets.iter().for_each(|widget| lab.apply(widget));
    assert!(
        lab.findings().contains(&"LimitReached limit traces".to_owned()),
        "{:?}",
        lab.findings()
    );

    let dropped = lab.snapshot().dropped["traces"];
    assert!((50..100).contains(&dropped), "{dropped}");

    lab.advance(Span::secs(1));
    widgets.iter_mut().for_each(|widget| lab.apply(widget.ready()));
    lab.advance(Span::mins(1));

    assert_eq!(lab.model.traces().len() as u64, 100 - dropped);

    // Once they are gone, there is room again.
    lab.converged("another");
    assert_eq!(lab.model.traces().len(), 1);
}

#[test]
fn without_gathering_nothing_is_kept() {
    let mut lab = Lab::new();
    let mut web = lab.converged("web");
    lab.apply(web.spec(2, lab.now));
    lab.advance(Span::mins(11));

    assert!(lab.model.traces().is_empty());

    // Gathering that begins later knows nothing about obligations that are open.
    lab.model.gather_traces();
    lab.apply(web.ready());
    lab.advance(Span::mins(1));

    assert!(lab.model.traces().is_empty());
}

#[test]
fn after_a_restart_the_keys_are_the_same() {
    let mut lab = lab();
    let mut web = Widget::new("web", START);
    lab.apply(web.waiting());
    lab.advance(Span::mins(11));

    let before: Vec<_> = lab.model.traces().into_iter().map(|trace| trace.key).collect();
    let mut again = Lab::unsynced(unlearned());
    again.model.gather_traces();
    again.now = lab.now;
    again.list(&[web.clone()]);
    again.advance(Span::secs(5));
    again.apply(web.ready());
    again.advance(Span::mins(1));

    let rest = again.model.traces();
    assert_eq!(rest.len(), 1, "an earlier process has sent the trace up to the deadline");
    assert_eq!(rest[0].links, [TraceLink::Continues(before[0].clone())]);
    assert!(rest[0].key.late);
}

#[test]
fn a_step_of_the_clock_changes_no_duration() {
    let mut lab = lab();
    let mut web = lab.converged("web");
    ended(&mut lab);
    lab.apply(web.spec(2, lab.now));
    lab.advance(Span::secs(2));
    lab.apply(web.waiting());
    lab.step_clock(Span::hours(-2));
    lab.advance(Span::secs(5));

    lab.apply(web.ready());
    lab.advance(Span::mins(1));

    let traces = lab.model.traces();
    assert_eq!(
        lines(&traces[0])[..2],
        ["web spec_changed converged after 7s", "  acknowledge: 0s to 2s"]
    );
}

#[test]
fn the_generation_after_a_rejection_links_to_it() {
    let (mut lab, mut web) = rejected();
    let rejected = lab.model.traces();

    assert_eq!((rejected.len(), rejected[0].outcome), (1, Outcome::Rejected));

    lab.apply(web.spec(3, lab.now));
    lab.advance(Span::secs(2));
    lab.apply(web.ready());
    lab.advance(Span::mins(1));

    let mended = lab.model.traces();
    assert_eq!(
        (mended.len(), lines(&mended[0])[0].as_str()),
        (1, "web spec_changed converged after 2s")
    );
    assert_eq!(mended[0].links, [TraceLink::Previous(rejected[0].key.clone())]);
}

#[test]
fn an_explanation_names_the_trace_that_is_open_or_was_last() {
    let key = |lab: &Lab| {
        let [group, kind, namespace, name] =
            ["example.io", "Widget", "team-a", "web"].map(str::to_owned);
        let explanation =
            lab.model.explain(&ObjectAddress { group, kind, namespace, name }).expect("the object");

        explanation.trace.map(|key| key.to_string())
    };

    let mut plain = Lab::new();
    plain.converged("web");

    assert_eq!(key(&plain), None, "traces are off");

    let mut lab = lab();
    let mut web = lab.converged("web");
    let last = lab.model.traces().pop().map(|trace| trace.key.to_string());

    assert!(last.is_some() && key(&lab) == last, "{last:?}");

    lab.apply(web.spec(2, lab.now));
    assert!(key(&lab).is_some_and(|key| key.ends_with("|2")));

    lab.advance(Span::mins(11));
    assert!(key(&lab).is_some_and(|key| key.ends_with("|2|late")), "the rest of it");

    web.finalizers = vec!["example.io/disk".into()];
    web.deleted = Some(lab.now);
    lab.apply(&web);

    assert!(key(&lab).is_some_and(|key| key.ends_with("|deletion")));
}
