use std::time::Duration;

use loopwatch_testbed::standin::{Reply, Script};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::*;
use crate::sources::feed::{Feed, Observations};
use crate::sources::testing::{InProcess as _, VirtualClock};

fn namespace(name: &str, ignore: &str) -> Vec<u8> {
    let annotations = match ignore {
        "" => json!(null),
        ignore => json!({ annotated::IGNORE: ignore, "example.io/owner": "team" }),
    };

    json!({ "metadata": { "name": name, "resourceVersion": "7", "annotations": annotations } })
        .to_string()
        .into_bytes()
}

/// A namespace that is being deleted.
fn deleted(name: &str, version: &str) -> Vec<u8> {
    let time = "2026-01-01T00:00:00Z";
    json!({ "metadata": { "name": name, "resourceVersion": version, "deletionTimestamp": time } })
        .to_string()
        .into_bytes()
}

fn seen(name: &str, ignore: &str) -> NamespaceView {
    let annotations = [(annotated::IGNORE.to_owned(), ignore.to_owned())]
        .into_iter()
        .filter(|_| !ignore.is_empty())
        .collect();

    NamespaceView { name: name.to_owned(), annotations, ..NamespaceView::default() }
}

fn list(sink: &mut NamespaceSink, objects: &[Vec<u8>]) -> Vec<Observation> {
    let mut out = Vec::new();
    sink.began(1, &mut out);
    objects.iter().for_each(|object| sink.listed(object, &mut out).expect("a namespace"));
    sink.ended(1, "7", &mut out);

    out
}

#[test]
fn all_annotations_for_loopwatch_are_reported_and_long_ones_cut() {
    let long = "Overdue,".repeat(1_000);
    let annotations =
        json!({ annotated::IGNORE: long, annotated::CRITICAL: "true", annotated::DEADLINE: "5m" });
    let object = json!({ "metadata": { "name": "a", "annotations": annotations } }).to_string();
    let listed = list(&mut NamespaceSink::default(), &[object.into_bytes()]);
    let [Observation::NamespacesListed(views)] = &listed[..] else { panic!("{listed:?}") };

    let lengths: Vec<usize> = views[0].annotations.values().map(String::len).collect();
    assert_eq!(lengths, [4, 2, MAX_ANNOTATION], "in the order of their names");
}

#[test]
fn only_changes_of_annotations_for_loopwatch_are_reported() {
    let mut sink = NamespaceSink::default();
    let listed =
        list(&mut sink, &[namespace("a", "all"), namespace("b", ""), namespace("c", "Overdue")]);

    assert_eq!(
        listed,
        [Observation::NamespacesListed(vec![seen("a", "all"), seen("c", "Overdue")])]
    );

    let mut out = Vec::new();
    for (name, ignore) in
        [("a", "all"), ("b", ""), ("b", "all"), ("b", "all"), ("a", ""), ("a", "")]
    {
        assert_eq!(sink.applied(&namespace(name, ignore), &mut out).expect("a namespace"), "7");
    }

    for name in ["a", "c", "c"] {
        sink.deleted(&namespace(name, ""), &mut out).expect("a namespace");
    }

    let expected = [
        Observation::NamespaceSeen(seen("b", "all")),
        Observation::NamespaceSeen(seen("a", "")),
        Observation::NamespaceGone("c".to_owned()),
    ];

    assert_eq!(out, expected);
    assert_eq!(
        list(&mut sink, &[]),
        [Observation::NamespacesListed(Vec::new())],
        "after a reconnect"
    );
}

#[test]
fn a_namespace_that_a_list_skips_is_not_gone() {
    let mut sink = NamespaceSink::default();
    list(&mut sink, &[namespace("a", "all")]);

    let mut out = Vec::new();
    sink.began(2, &mut out);
    sink.skipped();
    sink.listed(&namespace("b", "all"), &mut out).expect("a namespace");
    sink.ended(2, "8", &mut out);

    assert_eq!(out, [Observation::NamespaceSeen(seen("b", "all"))]);

    out.clear();
    sink.deleted(&namespace("a", ""), &mut out).expect("a namespace");

    assert_eq!(out, [Observation::NamespaceGone("a".to_owned())]);
}

#[test]
fn the_team_of_a_namespace_is_one_label_if_the_configuration_names_it() {
    let labelled = |team: Value| {
        let labels = json!({ "example.io/team": team, "kubernetes.io/metadata.name": "a" });
        json!({ "metadata": { "name": "a", "resourceVersion": "7", "labels": labels } })
            .to_string()
            .into_bytes()
    };

    let with = |team: &str| NamespaceView { team: team.to_owned(), ..seen("a", "") };
    let label = Some("example.io/team".to_owned());
    let mut sink = NamespaceSink::new(Arc::default(), Terminating::default(), label);
    let listed = list(&mut sink, &[labelled(json!("red")), namespace("b", "")]);

    assert_eq!(listed, [Observation::NamespacesListed(vec![with("red")])]);

    let mut out = Vec::new();
    for team in ["red", "blue", "red"] {
        sink.applied(&labelled(json!(team)), &mut out).expect("a namespace");
    }

    sink.applied(&namespace("a", ""), &mut out).expect("a namespace");
    let seen_again = |team| Observation::NamespaceSeen(with(team));

    assert_eq!(out, [seen_again("blue"), seen_again("red"), seen_again("")]);

    let mut sink = NamespaceSink::default();
    assert_eq!(list(&mut sink, &[labelled(json!("red"))]), [Observation::NamespacesListed(vec![])]);
}

#[test]
fn only_the_deletions_of_wanted_namespaces_count() {
    let wanted = WantedNamespaces { namespaces: vec!["a".to_owned()], excluded: Vec::new() };
    let mut sink = NamespaceSink::default().with_deletions_of(wanted);
    let listed = list(&mut sink, &[deleted("a", "5"), deleted("b", "6"), namespace("c", "ALL")]);

    let [Observation::NamespacesListed(all)] = &listed[..] else { panic!("{listed:?}") };
    let names: Vec<_> = all.iter().map(|it| (it.name.as_str(), it.deleted.is_some())).collect();
    assert_eq!(names, [("a", true), ("c", false)]);
}

/// A sink whose observations go to the same channel as those of the task that reads conditions.
struct Lab {
    sink: NamespaceSink,
    script: Script,
    feed: Feed,
    observations: Observations,
}

impl Lab {
    fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        let (script, terminating) = (Script::new(replies), Terminating::default());
        let (feed, observations) = Feed::new(100, VirtualClock::server());
        tokio::spawn(terminating.clone().follow(script.cluster(), feed.clone(), false));
        Self {
            sink: NamespaceSink::new(Arc::default(), terminating, None),
            script,
            feed,
            observations,
        }
    }

    async fn applied(&mut self, object: &[u8]) -> Vec<String> {
        let mut out = Vec::new();
        self.sink.applied(object, &mut out).expect("a namespace");
        for observation in out {
            self.feed.send(observation).await.expect("the receiver exists");
        }

        self.within(1).await
    }

    /// What was said within `seconds`.
    async fn within(&mut self, seconds: u64) -> Vec<String> {
        sleep(Duration::from_secs(seconds)).await;
        let say = |observation| match observation {
            Observation::NamespaceSeen(view) => {
                let reasons: Vec<String> =
                    view.conditions.into_iter().map(|condition| condition.reason).collect();
                format!(
                    "{} {} [{}]",
                    view.name,
                    if view.deleted.is_some() { "deleted" } else { "there" },
                    reasons.join(" ")
                )
            }
            other => format!("{other:?}"),
        };

        std::iter::from_fn(|| self.observations.try_recv())
            .map(|(_, observation)| say(observation))
            .collect()
    }
}

/// A whole namespace with one condition.
fn whole(reason: &str) -> Reply {
    let condition =
        json!({ "type": "NamespaceContentRemaining", "status": "True", "reason": reason });
    let document: Value =
        json!({ "metadata": { "name": "a" }, "status": { "conditions": [condition] } });

    Reply::Response(200, vec![], document.to_string())
}

fn failure(code: u16) -> Reply {
    Reply::Response(code, vec![], json!({ "kind": "Status", "code": code }).to_string())
}

#[tokio::test(start_paused = true)]
async fn the_conditions_of_a_namespace_are_read_when_its_deletion_begins_and_when_it_changes() {
    let mut lab = Lab::new([whole("first"), whole("second"), whole("second")]);
    assert!(lab.applied(&namespace("a", "")).await.is_empty());
    assert_eq!(lab.script.asked().len(), 0, "only namespaces that are being deleted are read");
    assert_eq!(lab.applied(&deleted("a", "8")).await, ["a deleted []", "a deleted [first]"]);
    assert!(lab.applied(&deleted("a", "8")).await.is_empty());

    // Soon after the last read, the next one waits.
    assert!(lab.applied(&deleted("a", "9")).await.is_empty());
    assert_eq!(lab.within(5).await, ["a deleted [second]"]);
    assert_eq!(lab.within(600).await.len(), 0);
    assert!(lab.applied(&deleted("a", "10")).await.is_empty(), "the same conditions");
    assert_eq!(lab.script.asked(), ["GET a", "GET a", "GET a"]);

    let listed = list(&mut lab.sink, &[deleted("a", "10")]);
    let [Observation::NamespacesListed(listed)] = &listed[..] else { panic!("{listed:?}") };

    assert_eq!(listed[0].conditions[0].reason, "second", "a list keeps the conditions");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_cannot_be_read_is_read_again_later_and_rarely_if_forbidden() {
    let mut lab = Lab::new([failure(500), whole("first"), failure(403)]);
    assert_eq!(lab.applied(&deleted("a", "8")).await, ["a deleted []"]);
    assert_eq!(lab.within(31).await, ["a deleted [first]"]);

    for version in 9..100 {
        lab.applied(&deleted("a", &version.to_string())).await;
    }

    assert_eq!(lab.script.asked().len(), 3, "no further attempt after a refusal");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_gone_does_not_come_back() {
    // The response arrives after the deletion.
    let script = Script::new([Reply::Streamed(vec![
        loopwatch_testbed::standin::Piece::Pause(Duration::from_secs(10)),
        loopwatch_testbed::standin::Piece::Text(
            r#"{"status":{"conditions":[{"type":"A"}]}}"#.to_owned(),
        ),
    ])]);
    let mut lab = Lab::new([]);
    let terminating = Terminating::default();

    tokio::spawn(terminating.clone().follow(script.cluster(), lab.feed.clone(), false));
    lab.sink = NamespaceSink::new(Arc::default(), terminating, None);

    assert_eq!(lab.applied(&deleted("a", "8")).await, ["a deleted []"]);

    let mut out = Vec::new();
    lab.sink.deleted(&deleted("a", "9"), &mut out).expect("a namespace");

    assert_eq!(out, [Observation::NamespaceGone("a".to_owned())]);
    assert!(lab.within(60).await.is_empty());
    assert!(timeout(Duration::from_secs(1), script.ended()).await.is_err(), "no further request");
}

#[tokio::test(start_paused = true)]
async fn many_deletions_at_once_make_no_burst_of_requests() {
    let mut lab = Lab::new((0..50).map(|_| whole("SomeResourcesRemain")));
    for number in 0..50 {
        let mut out = Vec::new();
        lab.sink.applied(&deleted(&format!("ns-{number}"), "1"), &mut out).expect("a namespace");
    }

    lab.within(1).await;
    assert!(
        (2..=6).contains(&lab.script.asked().len()),
        "{} requests in a second",
        lab.script.asked().len()
    );

    lab.within(10).await;
    assert_eq!(lab.script.asked().len(), 50);
}
