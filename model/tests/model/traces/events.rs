//! Kubernetes Events in traces.

use loopwatch_model::observation::{EventView, ObjectKey};
use loopwatch_model::time::Span;
use loopwatch_model::trace::Trace;

use super::{ended, lab, lines};

/// An Event about an object that the operator has just written.
fn event(name: &str, reason: &str) -> EventView {
    EventView {
        uid: format!("uid-{name}-{reason}"),
        about: ObjectKey { namespace: "team-a".into(), name: name.into() },
        r#type: "Warning".into(),
        reason: reason.into(),
        reporter: "operator".into(),
        count: 1,
        added: 1,
        ..EventView::default()
    }
}

fn lines_of_events(trace: &Trace) -> Vec<String> {
    lines(trace)
        .into_iter()
        .filter(|line| line.contains(" by "))
        .map(|line| line.trim().to_owned())
        .collect()
}

#[test]
fn events_of_one_reason_are_one_step_from_the_first_to_the_last() {
    let mut lab = lab();
    let mut web = lab.converged("web");
    lab.converged("db");
    ended(&mut lab);
    lab.apply(web.spec(2, lab.now));

    let start = lab.now;
    for second in 1..=3 {
        lab.advance(Span::secs(1));
        // An Event in the older form, with times in whole seconds.
        lab.see_event(EventView {
            at: Some(start.after(Span::secs(second))),
            ..event("web", "SyncFailed")
        });
    }

    // An Event from before the watch.
    lab.see_event(EventView { count: 40, added: 0, ..event("web", "Old") });
    // An Event from before the change.
    lab.see_event(EventView { at: Some(start.before(Span::secs(2))), ..event("web", "Stale") });
    lab.see_event(EventView {
        at: Some(start.after(Span(2_500))),
        added: 4,
        ..event("web", "Later")
    });
    lab.see_event(event("db", "OfAnother"));
    lab.see_event(EventView {
        r#type: "Normal".into(),
        reason: "free text".into(),
        ..event("web", "")
    });

    lab.advance(Span::secs(1));
    lab.apply(web.ready());
    lab.advance(Span::secs(1));
    lab.see_event(EventView { r#type: "Normal".into(), ..event("web", "Synced") });
    lab.advance(Span(1));
    lab.see_event(event("web", "Afterwards"));
    lab.advance(Span::mins(1));

    let traces = lab.model.traces();
    assert_eq!(
        lines_of_events(&traces[0]),
        [
            "Warning SyncFailed by operator ×3: 1s to 3s",
            "Warning Later by operator ×4: 2.5s to 2.5s",
            "Normal _other by operator ×1: 3s to 3s",
            "Normal Synced by operator ×1: 4s to 4s",
        ]
    );
    assert_eq!((traces.len(), traces[0].dropped), (1, 0));
}

#[test]
fn an_event_that_arrives_just_before_its_change_belongs_to_it() {
    let mut lab = lab();
    let mut web = lab.converged("web");
    ended(&mut lab);
    lab.see_event(event("web", "Before"));
    lab.advance(Span(600));
    lab.see_event(event("web", "Reconciling"));
    lab.see_event(event("db", "OfAnother"));
    lab.advance(Span(200));

    lab.apply(web.spec(2, lab.now));
    lab.advance(Span::secs(2));
    lab.apply(web.ready());
    lab.advance(Span::mins(1));

    assert_eq!(
        lines_of_events(&lab.model.traces()[0]),
        ["Warning Reconciling by operator ×1: 0s to 0s"]
    );

    lab.apply(web.spec(3, lab.now));
    lab.apply(web.ready());
    lab.advance(Span::mins(1));

    assert!(lines_of_events(&lab.model.traces()[0]).is_empty(), "it counts once");
}

#[test]
fn events_are_limited_and_leave_room_for_other_steps() {
    let mut lab = lab();
    let mut web = lab.converged("web");
    ended(&mut lab);
    lab.apply(web.spec(2, lab.now));

    for number in 0..100 {
        lab.see_event(event("web", &format!("Reason{}", number % 20)));
    }

    lab.advance(Span::secs(2));
    lab.apply(web.ready());
    lab.advance(Span::mins(1));

    let traces = lab.model.traces();
    assert_eq!((lines_of_events(&traces[0]).len(), traces[0].dropped), (16, 20));
    assert!(
        lines(&traces[0]).iter().any(|line| line.contains("Ready=True")),
        "{:#?}",
        lines(&traces[0])
    );
    assert_eq!(lab.snapshot().dropped["trace_steps"], 20);

    // Events about objects without a trace cost a bounded amount of memory.
    (0..1_000).for_each(|number| lab.see_event(event(&format!("other-{number}"), "Synced")));
}

#[test]
fn events_after_the_deadline_belong_to_the_rest_and_a_deletion_has_its_own() {
    let mut lab = lab();
    let mut web = lab.converged("web");
    web.finalizers = vec!["example.io/disk".into()];
    ended(&mut lab);
    lab.apply(web.spec(2, lab.now));
    lab.see_event(event("web", "SyncFailed"));
    lab.advance(Span::mins(11));
    lab.see_event(event("web", "SyncFailed"));

    lab.advance(Span::mins(1));
    web.deleted = Some(lab.now);
    lab.apply(&web);
    lab.advance(Span::secs(1));
    lab.see_event(event("web", "CleanupFailed"));
    lab.delete(&web);

    let traces = lab.model.traces();
    let events: Vec<_> = traces.iter().map(lines_of_events).collect();
    let line = |text: &str| vec![format!("Warning {text}")];

    assert_eq!(
        events,
        [
            line("SyncFailed by operator ×1: 0s to 0s"),
            line("SyncFailed by operator ×1: 60s to 60s"),
            line("CleanupFailed by operator ×1: 1s to 1s"),
        ]
    );
}

#[test]
fn a_step_of_the_clock_moves_events_with_their_trace() {
    for hours in [-2, 3] {
        let mut lab = lab();
        let mut web = lab.converged("web");
        ended(&mut lab);
        lab.apply(web.spec(2, lab.now));
        lab.advance(Span::secs(2));
        lab.see_event(event("web", "SyncFailed"));
        lab.step_clock(Span::hours(hours));
        lab.advance(Span::secs(3));

        lab.see_event(event("web", "SyncFailed"));
        lab.apply(web.ready());
        lab.advance(Span::mins(1));

        let traces = lab.model.traces();
        assert_eq!(lines(&traces[0])[0], "web spec_changed converged after 5s", "{hours}");
        assert_eq!(
            lines_of_events(&traces[0]),
            ["Warning SyncFailed by operator ×2: 2s to 5s"],
            "{hours}"
        );
    }
}
