//! Tests of the probes of the model, and of the tasks that answer them.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_count_probe_is_answered() {
    let world = widget_operator();
    let mut run = Run::start(&world, |_| {});
    let _ = run.within(1).await;
    let count = |name: &str| Probe::Count(WatchId(name.into()));

    assert!(run.handle.ask(count("widgets.example.io")));
    assert!(run.handle.ask(count("unknown.example.io")));

    let answers: Vec<Answer> = run
        .within(2)
        .await
        .into_iter()
        .filter_map(|observation| match observation {
            Observation::Answered { answer, .. } => Some(answer),
            _ => None,
        })
        .collect();

    let counted = Answer::Counted { objects: 42, version: "7".to_owned() };
    assert_eq!(answers, [counted, Answer::Failed(loopwatch_model::observation::Cause::NotFound)]);
}

#[tokio::test(start_paused = true)]
async fn an_audit_that_panics_is_restarted_and_reports_that_it_works() {
    let world = widget_operator();
    let mut run = Run::start(&world, |_| {});
    let _ = run.within(1).await;
    let count = || Probe::Count(WatchId("widgets.example.io".into()));

    world.change(|state| state.poisoned = Some("widgets".to_owned()));
    assert!(run.handle.ask(count()));

    let said: Vec<String> = run.within(1).await.iter().map(say).collect();
    assert_eq!(said, ["failed: other"]);

    world.change(|state| state.poisoned = None);
    assert!(run.handle.ask(count()));

    let seen = run.within(5).await;
    assert!(
        matches!(
            seen[0],
            Observation::Answered { answer: Answer::Counted { objects: 42, .. }, .. }
        ),
        "{seen:?}"
    );
    assert_eq!(seen[1..], [Observation::SourceRecovered { source: SourceId::Audit }]);
}

#[tokio::test(start_paused = true)]
async fn a_read_is_answered_and_a_reader_that_panics_is_restarted() {
    let world = widget_operator().allow("", &["get"], "example.io", &["widgets"]);
    world.change(|state| state.objects.insert("widgets", vec![object("team", "a", None)]));

    let mut run = Run::start(&world, |_| {});
    let _ = run.within(1).await;
    let address = |name: &str| ObjectAddress {
        group: "example.io".to_owned(),
        kind: "Widget".to_owned(),
        namespace: "team".to_owned(),
        name: name.to_owned(),
    };

    assert!(run.handle.ask(Probe::Read(address("b"))));

    let seen = run.within(1).await;
    assert_eq!(
        seen,
        [Observation::Answered { probe: Probe::Read(address("b")), answer: Answer::Absent }]
    );

    world.change(|state| state.poisoned = Some("widgets/a".to_owned()));
    assert!(run.handle.ask(Probe::Read(address("a"))));

    let seen = run.within(1).await;
    assert!(
        matches!(&seen[..], [Observation::SourceFailed { source: SourceId::Reads, .. }]),
        "{seen:?}"
    );

    world.change(|state| state.poisoned = None);
    assert!(run.handle.ask(Probe::Read(address("a"))));

    let seen = run.within(5).await;
    assert!(matches!(seen[0], Observation::Answered { answer: Answer::Found(_), .. }), "{seen:?}");
    assert_eq!(seen[1..], [Observation::SourceRecovered { source: SourceId::Reads }]);
}

#[tokio::test(start_paused = true)]
async fn a_probe_of_profiles_is_answered() {
    let mut run = Run::start(&widget_operator(), |options| options.profiles.off = true);
    let said = last_words(&run.within(1).await);

    assert_eq!(said.get("profiles"), Some(&"off"), "{said:?}");

    let probe = Probe::Profile { instance: "op/operator-7f9c".to_owned(), kind: ProfileKind::Heap };
    assert!(run.handle.ask(probe.clone()));

    let answered =
        run.within(1).await.into_iter().find(|o| matches!(o, Observation::Answered { .. }));

    assert_eq!(answered, Some(Observation::Answered { probe, answer: Answer::Absent }));

    let mut run = Run::start(&widget_operator(), |_| {});
    let said = last_words(&run.within(1).await);

    assert_eq!(said.get("profiles"), None, "nothing before the first probe");

    run.handle.shutdown().await;
}
