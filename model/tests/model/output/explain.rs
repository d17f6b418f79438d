//! The explanation of one object: its surroundings, with limits.

use loopwatch_model::observation::{
    Condition, ConditionStatus, Fact, FactValue, ObjectAddress, StatusShape,
};
use loopwatch_model::snapshot::{Cursor, ExplainedNode, Explanation};
use loopwatch_model::time::Span;

use crate::lab::{GROUP, World, at, owner, widget_at};

fn widget(name: &str) -> ObjectAddress {
    widget_at("team-a", name)
}

fn config(name: &str) -> ObjectAddress {
    at("", "ConfigMap", "team-a", name)
}

fn explain(world: &World, of: &ObjectAddress) -> Explanation {
    world.lab.model.explain(of).expect("it is visible")
}

/// Returns the names in the tree, in order: `a(b(c) d)`, with the number of objects that do not
/// fit.
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
    let mut world = World::new();
    world.create(&widget("root"), &[]);
    world.create(&widget("web"), &[world.owner(&widget("root"))]);
    world.create(&config("b"), &[world.owner(&widget("web"))]);
    world.create(&widget("a"), &[world.owner(&widget("web"))]);
    world.create(&config("leaf"), &[world.owner(&widget("a"))]);
    world.create(&config("stranger"), &[]);

    let web = explain(&world, &widget("web"));
    assert_eq!(
        (tree(&web.owners), tree(&web.children)),
        ("root".to_owned(), "b a(leaf)".to_owned())
    );
    assert_eq!(
        (web.object.name.as_str(), web.role.as_str(), web.more_children),
        ("web", "primary", 0)
    );

    let leaf = explain(&world, &config("leaf"));
    assert_eq!(
        (tree(&leaf.owners), tree(&leaf.children)),
        ("a(web(root))".to_owned(), String::new())
    );
    assert_eq!(leaf.role, "child");
    assert!(world.lab.model.explain(&widget("nothing")).is_none());
}

#[test]
fn a_missing_owner_is_absent_and_one_that_cannot_be_seen_is_not() {
    let mut world = World::new();
    let ghost = owner(&widget("ghost"), "11111111-0000-4000-8000-000000000000");
    world.create(&config("lost"), &[ghost]);

    let state =
        |world: &World, of: &str| explain(world, &config(of)).owners[0].object.state.clone();

    assert_eq!(state(&world, "lost"), "not_visible", "nobody has looked yet");

    world.advance(Span::mins(2));
    assert_eq!(state(&world, "lost"), "absent");
    assert_eq!(explain(&world, &config("lost")).object.findings, ["OwnerMissing"]);
    assert_eq!(explain(&world, &config("lost")).findings.len(), 1);

    // An owner of a kind that nobody watches, which exists.
    let elsewhere = at(GROUP, "Gadget", "team-a", "other");
    world.create_unseen(&elsewhere, &[]);
    world.create(&config("held"), &[world.owner(&elsewhere)]);
    world.advance(Span::mins(2));

    assert_eq!(state(&world, "held"), "not_visible");
}

#[test]
fn cycles_end() {
    let mut world = World::new();
    world.create_unseen(&widget("a"), &[]);
    world.create_unseen(&widget("b"), &[world.owner(&widget("a"))]);

    let back = world.owner(&widget("b"));
    world.put(&widget("a"), |view, _| view.owners = vec![back]);
    world.see(&widget("b"));

    let a = explain(&world, &widget("a"));
    assert_eq!((tree(&a.owners), tree(&a.children)), ("b(a*)".to_owned(), "b(a*)".to_owned()));
}

#[test]
fn ten_thousand_children_have_a_limit_and_those_with_problems_come_first() {
    let mut world = World::new();
    world.create(&widget("web"), &[]);

    let owners = [world.owner(&widget("web"))];
    for n in 0..10_000 {
        world.create(&config(&format!("c{n}")), &owners);
    }

    let last = config("c9999");
    let now = world.lab.now;
    world.put(&last, |view, _| {
        (view.deleted, view.finalizers) = (Some(now), vec!["example.io/hold".to_owned()]);
    });

    let web = explain(&world, &widget("web"));
    assert_eq!((web.children.len(), web.more_children), (100, 9_900));
    assert_eq!(web.children[0].object.name, "c9999", "it is being deleted");
}

#[test]
fn chains_and_wide_trees_have_limits() {
    let mut world = World::new();
    world.create(&widget("w0"), &[]);
    for n in 1..20 {
        world.create(&widget(&format!("w{n}")), &[world.owner(&widget(&format!("w{}", n - 1)))]);
    }

    assert_eq!(count(&explain(&world, &widget("w0")).children), 8);
    assert_eq!(count(&explain(&world, &widget("w19")).owners), 8);
    assert!(tree(&explain(&world, &widget("w0")).children).contains("w8+1"));

    world.create(&widget("wide"), &[]);
    for n in 0..30 {
        let child = widget(&format!("x{n}"));
        world.create(&child, &[world.owner(&widget("wide"))]);
        for m in 0..10 {
            world.create(&config(&format!("x{n}-{m}")), &[world.owner(&child)]);
        }
    }

    let wide = explain(&world, &widget("wide"));
    let more: u64 = wide.children.iter().map(|node| node.more).sum();

    assert_eq!((count(&wide.children), wide.children.len(), more), (200, 30, 130));
}

#[test]
fn finalizers_name_their_actor_before_and_during_a_deletion() {
    let mut world = World::new();
    world.create_unseen(&widget("web"), &[]);
    world.put(&widget("web"), |view, _| {
        view.finalizers =
            ["example.io/hold", "foregroundDeletion", "odd \u{1}"].map(str::to_owned).to_vec();
    });

    let known = |world: &World| -> Vec<String> {
        let finalizers = explain(world, &widget("web")).object.finalizers;
        finalizers.into_iter().map(|f| format!("{}:{}", f.known_by, f.verdict)).collect()
    };

    assert_eq!(known(&world), ["operator:", "built_in:", "unknown:"]);

    let now = world.lab.now;
    world.put(&widget("web"), |view, _| view.deleted = Some(now));

    assert_eq!(
        known(&world),
        ["operator:progressing", "built_in:progressing", "unknown:progressing"]
    );

    world.advance(Span::hours(2));
    let web = explain(&world, &widget("web"));

    assert_eq!(web.object.finalizers[0].verdict, "stuck");
    assert_eq!(web.findings.len(), 1);

    let events: Vec<String> =
        web.timeline.iter().map(|event| format!("{} {}", event.code, event.change)).collect();

    assert_eq!(events, ["CleanupSlow opened", "CleanupSlow closed", "FinalizerStuck opened"]);
}

#[test]
fn the_condition_that_decides_the_state_has_its_reason_and_message_until_the_object_recovers() {
    let mut world = World::new();
    world.create(&widget("web"), &[]);

    let condition = |name: &str, status, reason: &str, message: &str| Condition {
        r#type: name.to_owned(),
        status,
        reason: reason.to_owned(),
        message: message.to_owned(),
        ..Condition::default()
    };

    let shown = |world: &World| -> Vec<String> {
        let conditions = explain(world, &widget("web")).conditions;
        conditions
            .into_iter()
            .map(|c| [c.r#type, c.status, c.reason, c.message].join("|"))
            .collect()
    };

    world.put(&widget("web"), |view, _| {
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
        shown(&world),
        ["Ready|false|QuotaExceeded|no room for (another) disk", "ReadyToServe|true||"],
        "a condition of which only the name begins alike has no reason of another"
    );

    world.put(&widget("web"), |view, _| {
        view.conditions = vec![condition("Ready", ConditionStatus::True, "Serving", "")];
    });

    assert!(
        shown(&world)[0].starts_with("Ready|true|") && !shown(&world)[0].contains("Quota"),
        "{:?}",
        shown(&world)
    );
}

#[test]
fn an_object_at_rest_still_shows_what_decided_its_state() {
    let mut world = World::new();
    let shown = |world: &World, name: &str| {
        let object = explain(world, &widget(name)).object;
        let (rows, _) = world.lab.model.rows(Cursor::default(), 10);
        let row = rows.iter().find(|row| row.name == name).expect("it is listed");

        assert_eq!(
            (row.signal.as_str(), row.reason),
            (object.signal.as_str(), object.reason.as_str())
        );

        format!("{} {} {}", object.state, object.reason, object.signal)
    };

    let mut settle = |name: &str, types: &[&str], phase: &str| {
        world.create(&widget(name), &[]);
        world.put(&widget(name), |view, _| {
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
    world.restart(); // so that none of them has a history

    assert_eq!(shown(&world, "one"), "converged ReadyTrue Ready=True");
    assert_eq!(shown(&world, "best"), "converged ReadyTrue Ready=True");
    assert_eq!(shown(&world, "phase"), "converged PhaseGood phase Running");
    assert_eq!(shown(&world, "none"), "converged Acknowledged ");
}
