//! The explanation of one object: its surroundings, with limits.

use loopwatch_model::observation::{
    Condition, ConditionStatus, Fact, FactValue, ObjectAddress, StatusShape,
};
use loopwatch_model::snapshot::{Cursor, ExplainedNode, Explanation};
use loopwatch_model::time::Span;

use crate::lab::cluster::{Cluster, address, owner};

fn widget(name: &str) -> ObjectAddress {
    address("Widget", "team-a", name)
}

fn config(name: &str) -> ObjectAddress {
    address("ConfigMap", "team-a", name)
}

fn explain(cluster: &Cluster, of: &ObjectAddress) -> Explanation {
    cluster.lab.model.explain(of).expect("it is visible")
}

/// Returns the names in the tree, in order: `a(b(c) d)`, with the objects without room.
fn tree(nodes: &[ExplainedNode]) -> String {
    let text = |node: &ExplainedNode| {
        let below =
            if node.nodes.is_empty() { String::new() } else { format!("({})", tree(&node.nodes)) };
        let repeated = if node.repeated { "*" } else { "" };
        let more = if node.more > 0 { format!("+{}", node.more) } else { String::new() };

        format!("{}{repeated}{below}{more}", node.object.name)
    };
    nodes.iter().map(text).collect::<Vec<_>>().join(" ")
}

fn count(nodes: &[ExplainedNode]) -> usize {
    nodes.iter().map(|node| 1 + count(&node.nodes)).sum()
}

#[test]
fn owners_are_above_and_children_below() {
    let mut cluster = Cluster::new();
    cluster.create(&widget("root"), &[]);
    cluster.create(&widget("web"), &[cluster.owner(&widget("root"))]);
    cluster.create(&config("b"), &[cluster.owner(&widget("web"))]);
    cluster.create(&widget("a"), &[cluster.owner(&widget("web"))]);
    cluster.create(&config("leaf"), &[cluster.owner(&widget("a"))]);
    cluster.create(&config("stranger"), &[]);

    let web = explain(&cluster, &widget("web"));
    assert_eq!(
        (tree(&web.owners), tree(&web.children)),
        ("root".to_owned(), "b a(leaf)".to_owned())
    );
    assert_eq!(
        (web.object.name.as_str(), web.role.as_str(), web.more_children),
        ("web", "primary", 0)
    );

    let leaf = explain(&cluster, &config("leaf"));
    assert_eq!(
        (tree(&leaf.owners), tree(&leaf.children)),
        ("a(web(root))".to_owned(), String::new())
    );
    assert_eq!(leaf.role, "child");
    assert!(cluster.lab.model.explain(&widget("nothing")).is_none());
}

#[test]
fn a_missing_owner_is_absent_and_one_that_cannot_be_seen_is_not() {
    let mut cluster = Cluster::new();
    let ghost = owner(&widget("ghost"), "11111111-0000-4000-8000-000000000000");
    cluster.create(&config("lost"), &[ghost]);

    let state =
        |cluster: &Cluster, of: &str| explain(cluster, &config(of)).owners[0].object.state.clone();

    assert_eq!(state(&cluster, "lost"), "not_visible", "nobody has looked yet");

    cluster.advance(Span::mins(2));
    assert_eq!(state(&cluster, "lost"), "absent");
    assert_eq!(explain(&cluster, &config("lost")).object.findings, ["OwnerMissing"]);
    assert_eq!(explain(&cluster, &config("lost")).findings.len(), 1);

    // An owner of a kind that nobody watches, which exists.
    let elsewhere = address("Gadget", "team-a", "other");
    cluster.create_unseen(&elsewhere, &[]);
    cluster.create(&config("held"), &[cluster.owner(&elsewhere)]);
    cluster.advance(Span::mins(2));

    assert_eq!(state(&cluster, "held"), "not_visible");
}

#[test]
fn cycles_end() {
    let mut cluster = Cluster::new();
    cluster.create_unseen(&widget("a"), &[]);
    cluster.create_unseen(&widget("b"), &[cluster.owner(&widget("a"))]);

    let back = cluster.owner(&widget("b"));
    cluster.change(&widget("a"), |view| view.owners = vec![back]);
    cluster.see(&widget("b"));

    let a = explain(&cluster, &widget("a"));
    assert_eq!((tree(&a.owners), tree(&a.children)), ("b(a*)".to_owned(), "b(a*)".to_owned()));
}

#[test]
fn ten_thousand_children_have_a_limit_and_those_with_problems_come_first() {
    let mut cluster = Cluster::new();
    cluster.create(&widget("web"), &[]);

    let owners = [cluster.owner(&widget("web"))];
    for n in 0..10_000 {
        cluster.create(&config(&format!("c{n}")), &owners);
    }

    let last = config("c9999");
    let now = cluster.lab.now;
    cluster.change(&last, |view| {
        (view.deleted, view.finalizers) = (Some(now), vec!["example.io/hold".to_owned()]);
    });

    let web = explain(&cluster, &widget("web"));
    assert_eq!((web.children.len(), web.more_children), (100, 9_900));
    assert_eq!(web.children[0].object.name, "c9999", "it is being deleted");
}

#[test]
fn chains_and_wide_trees_have_limits() {
    let mut cluster = Cluster::new();
    cluster.create(&widget("w0"), &[]);
    for n in 1..20 {
        cluster
            .create(&widget(&format!("w{n}")), &[cluster.owner(&widget(&format!("w{}", n - 1)))]);
    }

    assert_eq!(count(&explain(&cluster, &widget("w0")).children), 8);
    assert_eq!(count(&explain(&cluster, &widget("w19")).owners), 8);
    assert!(tree(&explain(&cluster, &widget("w0")).children).contains("w8+1"));

    cluster.create(&widget("wide"), &[]);
    for n in 0..30 {
        let child = widget(&format!("x{n}"));
        cluster.create(&child, &[cluster.owner(&widget("wide"))]);
        for m in 0..10 {
            cluster.create(&config(&format!("x{n}-{m}")), &[cluster.owner(&child)]);
        }
    }

    let wide = explain(&cluster, &widget("wide"));
    let more: u64 = wide.children.iter().map(|node| node.more).sum();

    assert_eq!((count(&wide.children), wide.children.len(), more), (200, 30, 130));
}

#[test]
fn finalizers_name_their_actor_before_and_during_a_deletion() {
    let mut cluster = Cluster::new();
    cluster.create_unseen(&widget("web"), &[]);
    cluster.change(&widget("web"), |view| {
        view.finalizers =
            ["example.io/hold", "foregroundDeletion", "odd \u{1}"].map(str::to_owned).to_vec();
    });

    let known = |cluster: &Cluster| -> Vec<String> {
        let finalizers = explain(cluster, &widget("web")).object.finalizers;
        finalizers.into_iter().map(|f| format!("{}:{}", f.known_by, f.verdict)).collect()
    };

    assert_eq!(known(&cluster), ["operator:", "built_in:", "unknown:"]);

    let now = cluster.lab.now;
    cluster.change(&widget("web"), |view| view.deleted = Some(now));

    assert_eq!(
        known(&cluster),
        ["operator:progressing", "built_in:progressing", "unknown:progressing"]
    );

    cluster.advance(Span::hours(2));
    let web = explain(&cluster, &widget("web"));

    assert_eq!(web.object.finalizers[0].verdict, "stuck");
    assert_eq!(web.findings.len(), 1);

    let events: Vec<String> =
        web.timeline.iter().map(|event| format!("{} {}", event.code, event.change)).collect();

    assert_eq!(events, ["CleanupSlow opened", "CleanupSlow closed", "FinalizerStuck opened"]);
}

#[test]
fn the_condition_that_decides_the_state_has_its_reason_and_message_until_the_object_recovers() {
    let mut cluster = Cluster::new();
    cluster.create(&widget("web"), &[]);

    let condition = |name: &str, status, reason: &str, message: &str| Condition {
        r#type: name.to_owned(),
        status,
        reason: reason.to_owned(),
        message: message.to_owned(),
        ..Condition::default()
    };

    let shown = |cluster: &Cluster| -> Vec<String> {
        let conditions = explain(cluster, &widget("web")).conditions;
        conditions
            .into_iter()
            .map(|c| [c.r#type, c.status, c.reason, c.message].join("|"))
            .collect()
    };

    cluster.change(&widget("web"), |view| {
        (view.status, view.observed_generation) = (StatusShape::Filled, Some(1));
        view.conditions = vec![
            condition(
                "Ready",
                ConditionStatus::False,
                "QuotaExceeded",
                "no room for (another) disk",
            ),
            condition("ReadyToServe", ConditionStatus::True, "Serving", "all well"),
        ];
    });

    assert_eq!(
        shown(&cluster),
        ["Ready|false|QuotaExceeded|no room for (another) disk", "ReadyToServe|true||"],
        "a condition of which only the name begins alike has no reason of another"
    );

    cluster.change(&widget("web"), |view| {
        view.conditions = vec![condition("Ready", ConditionStatus::True, "Serving", "")];
    });

    assert!(
        shown(&cluster)[0].starts_with("Ready|true|") && !shown(&cluster)[0].contains("Quota"),
        "{:?}",
        shown(&cluster)
    );
}

#[test]
fn an_object_at_rest_still_shows_what_decided_its_state() {
    let mut cluster = Cluster::new();
    let shown = |cluster: &Cluster, name: &str| {
        let object = explain(cluster, &widget(name)).object;
        let (rows, _) = cluster.lab.model.rows(Cursor::default(), 10);
        let row = rows.iter().find(|row| row.name == name).expect("it is listed");

        assert_eq!(
            (row.signal.as_str(), row.reason),
            (object.signal.as_str(), object.reason.as_str())
        );

        format!("{} {} {}", object.state, object.reason, object.signal)
    };

    let mut settle = |name: &str, types: &[&str], phase: &str| {
        cluster.create(&widget(name), &[]);
        cluster.change(&widget(name), |view| {
            (view.status, view.observed_generation) = (StatusShape::Filled, Some(1));
            let condition = |name: &&str| Condition {
                r#type: (*name).to_owned(),
                status: ConditionStatus::True,
                ..Condition::default()
            };

            view.conditions = types.iter().map(condition).collect();
            let value = FactValue::Text(phase.to_owned());
            view.facts.extend(
                (!phase.is_empty()).then(|| Fact { path: "status.phase".to_owned(), value }),
            );
        });
    };

    settle("one", &["Ready"], "");
    settle("best", &["Available", "Ready"], "");
    settle("phase", &[], "Running");
    settle("none", &[], "");
    cluster.restart(); // so that none of them has a history

    assert_eq!(shown(&cluster, "one"), "converged ReadyTrue Ready=True");
    assert_eq!(shown(&cluster, "best"), "converged ReadyTrue Ready=True");
    assert_eq!(shown(&cluster, "phase"), "converged PhaseGood phase Running");
    assert_eq!(shown(&cluster, "none"), "converged Acknowledged ");
}
