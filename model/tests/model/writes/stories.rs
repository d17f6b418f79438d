//! What real operators do, and what others do to their objects.

use loopwatch_model::finding::{Confidence, FindingCode, Severity};
use loopwatch_model::observation::{
    Condition, ConditionStatus, DefinitionView, HandlerAttempts, Manager, Observation, Owned,
    StatusSchema, WatchedKind,
};
use loopwatch_model::time::{Span, Timestamp};

use super::{Written, found};
use crate::lab::{
    GROUP, Lab, Widget, World, at, condition, deployment, deployments, kind, map, primary,
    scaled_by, spec_by, status_by, watch, web, written_by,
};

const OPERATOR: &str = "widget-operator";

fn summary(lab: &Lab, code: FindingCode) -> Option<String> {
    found(lab, code).map(|it| format!("{:?} {}", it.confidence, it.summary()))
}

fn hot(lab: &Lab) -> Option<String> {
    summary(lab, FindingCode::HotLoop)
}

fn fight(lab: &Lab) -> Option<String> {
    summary(lab, FindingCode::WriteFight)
}

fn revert(lab: &Lab) -> Option<String> {
    summary(lab, FindingCode::StatusReverted)
}

fn set_spec(lab: &mut Lab, object: &mut Written, by: Manager, spec: u64) {
    object.view.hashes.spec = spec;
    object.view.generation += 1;
    object.written(lab, by);
}

fn annotate(lab: &mut Lab, object: &mut Written, by: &str) {
    let by = written_by(by, lab.now, Owned::default());
    object.written(lab, by);
}

// ---- HotLoop: false alarms ----

/// An agent reports each ten seconds; the API server refuses one of its writes (conflict, 429).
#[test]
fn a_heartbeat_that_misses_one_beat() {
    let mut lab = Lab::new();
    let mut object = Written::widget(&mut lab, "web");
    for beat in 0..40 {
        lab.advance(Span::secs(10));
        if beat % 11 != 10 {
            object.status(&mut lab, OPERATOR, 7, 100 + beat);
        }
        assert_eq!(hot(&lab), None, "beat {beat}");
    }
}

/// The same agent; one beat carries a change of the status, so this beat is not wasted.
#[test]
fn a_heartbeat_of_which_one_beat_carries_news() {
    let mut lab = Lab::new();
    let mut object = Written::widget(&mut lab, "web");
    for beat in 0..40 {
        lab.advance(Span::secs(10));
        object.status(&mut lab, OPERATOR, 7 + beat / 15, 100 + beat);
        assert_eq!(hot(&lab), None, "beat {beat}");
    }
}

/// Two agents (Longhorn instance managers, two gateway controllers, kopf peers) beat every ten seconds.
#[test]
fn two_heartbeats_of_two_agents() {
    let mut lab = Lab::new();
    let mut object = Written::widget(&mut lab, "web");
    for beat in 0..20 {
        lab.advance(Span::secs(4));
        object.status(&mut lab, "agent-a", 7, 100 + beat);
        lab.advance(Span::secs(6));
        object.status(&mut lab, "agent-b", 7, 200 + beat);
        assert_eq!(hot(&lab), None, "beat {beat}");
    }
}

/// The connection of the watch breaks for three minutes and resumes at its version: the API server
/// delivers all versions in between at once. Their managed fields have the true times.
#[test]
fn a_heartbeat_whose_versions_arrive_together_after_a_break() {
    let mut lab = Lab::new();
    let mut object = Written::widget(&mut lab, "web");
    for beat in 0..12 {
        lab.advance(Span::secs(10));
        object.status(&mut lab, OPERATOR, 7, 100 + beat);
    }
    let began = lab.now;
    lab.blind_for(Span::mins(3));
    for beat in 1..18 {
        let time = began.after(Span::secs(10 * beat));
        object.view.hashes.status = 500 + beat as u64;
        object.written(&mut lab, status_by(OPERATOR, time));
    }
    lab.advance(Span::secs(1));
    object.status(&mut lab, OPERATOR, 7, 999);
    assert_eq!(hot(&lab), None);
}

/// The same for a tool that applies manifests every three minutes while the operator sets a default.
#[test]
fn manifests_of_twenty_minutes_that_arrive_together_after_a_break() {
    let mut lab = Lab::new();
    let mut object = Written::widget(&mut lab, "web");
    object.status(&mut lab, OPERATOR, 7, 7);
    let began = lab.now;
    lab.blind_for(Span::mins(21));
    for turn in 1..7 {
        let time = began.after(Span::mins(3 * turn));
        set_spec(&mut lab, &mut object, spec_by("argocd-controller", time), 100);
        set_spec(&mut lab, &mut object, spec_by(OPERATOR, time.after(Span::secs(1))), 101);
    }
    lab.advance(Span::secs(1));
    object.status(&mut lab, OPERATOR, 7, 999);
    assert_eq!(fight(&lab), None);
}

/// Each push to a monorepo lets a webhook annotate the object, and the operator notes the request's time.
#[test]
fn requests_that_the_operator_answers() {
    let mut wrong = Vec::new();
    for who in ["notification-controller", "kubectl-annotate", "rancher"] {
        let mut lab = Lab::new();
        let mut object = Written::widget(&mut lab, "web");
        object.status(&mut lab, OPERATOR, 7, 7);
        for (turn, pause) in [9, 21, 13, 17, 25, 11, 14].into_iter().enumerate() {
            lab.advance(Span::secs(pause));
            annotate(&mut lab, &mut object, who);
            lab.advance(Span::secs(1));
            object.status(&mut lab, OPERATOR, 7, 100 + turn as u64);
        }
        wrong.extend(hot(&lab).map(|it| format!("{who}: {it}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A queue (Kueue LocalQueue, Karpenter NodePool) whose counters go up and down with the work.
#[test]
fn counters_of_a_queue_that_go_up_and_down() {
    let mut lab = Lab::new();
    let mut object = Written::widget(&mut lab, "web");
    for turn in 0..48 {
        lab.advance(Span::secs([3, 14, 6, 11, 4, 13, 5, 12][turn % 8]));
        let pending = [2, 3, 2, 4, 3, 2, 3, 4][turn % 8];
        object.status(&mut lab, OPERATOR, pending, pending);
        assert_eq!(hot(&lab), None, "turn {turn}");
    }
}

/// kopf notes each failed attempt of a handler that waits for a database (TemporaryError, delay=3).
#[test]
fn attempts_of_a_handler_for_an_object_that_is_not_ready() {
    let mut lab = Lab::new();
    let mut object = Written::widget(&mut lab, "web");
    object.view.conditions[0].status = ConditionStatus::False;
    object.view.conditions[0].reason = "WaitingForDatabase".into();
    object.status(&mut lab, OPERATOR, 8, 8);
    for failed in 1..30 {
        lab.advance(Span::secs(3));
        object.view.attempts =
            vec![HandlerAttempts { handler: "create".into(), failed, ..Default::default() }];
        annotate(&mut lab, &mut object, "kopf");
    }
    assert_eq!(hot(&lab), None, "it has not reached its state");
}

/// The operator and a GitOps tool both set a label of the operator's own object.
#[test]
fn a_fight_over_a_label_is_no_loop_of_the_operator_alone() {
    let mut lab = Lab::new();
    let mut object = Written::widget(&mut lab, "web");
    object.status(&mut lab, OPERATOR, 7, 7);
    for _ in 0..20 {
        lab.advance(Span::secs(3));
        annotate(&mut lab, &mut object, "argocd-controller");
        lab.advance(Span::secs(1));
        annotate(&mut lab, &mut object, OPERATOR);
    }
    let confirmed =
        found(&lab, FindingCode::HotLoop).is_some_and(|it| it.confidence == Confidence::Confirmed);
    assert!(!confirmed, "{:?}", hot(&lab));
}

// ---- HotLoop: misses ----

/// loopwatch watches Argo CD or Flux: the tool is the controller of these objects.
#[test]
fn the_loop_of_a_gitops_tool_over_its_own_objects() {
    let mut missed = Vec::new();
    for who in [
        "argocd-application-controller",
        "helm-controller",
        "kustomize-controller",
        "helm-operator",
        "velero-server",
    ] {
        let mut lab = Lab::new();
        let mut object = Written::widget(&mut lab, "web");
        object.view.managers.truncate(1);
        for turn in 0..60 {
            lab.advance(Span::secs(1));
            object.status(&mut lab, who, 7, 100 + turn);
        }
        if hot(&lab).is_none() {
            missed.push(who);
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
}

/// All Applications are in one namespace, and a mass sync keeps 600 of them busy.
#[test]
fn a_loop_beside_six_hundred_busy_objects_of_its_namespace() {
    let mut lab = Lab::new();
    let mut busy: Vec<Widget> =
        (0..600).map(|number| Widget::new(&format!("app-{number}"), lab.now)).collect();
    for widget in &mut busy {
        lab.apply(widget);
        lab.apply(widget.ready());
    }
    let mut web = lab.converged("web");
    let round = |lab: &mut Lab, busy: &mut Vec<Widget>| {
        for widget in busy {
            lab.apply(widget.touch_status());
        }
    };
    for _ in 0..4 {
        lab.advance(Span::secs(20));
        round(&mut lab, &mut busy);
    }
    for second in 0..180 {
        lab.advance(Span::secs(1));
        let now = lab.now;
        lab.apply(web.touch_times(now));
        if second % 30 == 0 {
            round(&mut lab, &mut busy);
        }
    }
    assert!(hot(&lab).is_some(), "180 wasted writes in three minutes");
}

/// The API server answers a resumed watch with 410 Gone, so loopwatch lists again. The loop goes on.
#[test]
fn a_list_in_the_middle_of_a_loop_does_not_close_the_finding() {
    let mut lab = Lab::new();
    let mut web = lab.converged("web");
    for _ in 0..60 {
        lab.advance(Span::secs(1));
        let now = lab.now;
        lab.apply(web.touch_times(now));
    }
    let since = found(&lab, FindingCode::HotLoop).expect("a finding").since;
    web.touch_times(lab.now);
    lab.list(&[web.clone()]);
    for second in 0..30 {
        lab.advance(Span::secs(1));
        let now = lab.now;
        lab.apply(web.touch_times(now));
        let known = found(&lab, FindingCode::HotLoop).map(|it| it.since);
        assert_eq!(known, Some(since), "{second} seconds after the list");
    }
}

/// An operator writes a list of its own spec in the order of a map.
#[test]
fn a_spec_in_the_order_of_a_map() {
    let mut lab = Lab::new();
    let mut object = Written::widget(&mut lab, "web");
    object.status(&mut lab, OPERATOR, 7, 7);
    for turn in 0..300 {
        lab.advance(Span(400));
        object.spec(&mut lab, OPERATOR, [5, 9, 5, 7, 9, 7][turn % 6]);
    }
    assert!(
        hot(&lab).or(fight(&lab)).is_some(),
        "150 generations per minute: {:?}",
        lab.findings()
    );
}

// ---- WriteFight: misses ----

/// A typed client of an older release writes the object without a field that it does not know. An
/// update that only removes fields moves no time in the managed fields.
#[test]
fn a_fight_in_which_one_writer_only_removes_a_field() {
    let mut lab = Lab::new();
    let mut object = Written::widget(&mut lab, "web");
    object.status(&mut lab, OPERATOR, 7, 7);
    for _ in 0..30 {
        lab.advance(Span::secs(6));
        object.spec(&mut lab, "argocd-controller", 101);
        lab.advance(Span::secs(2));
        object.view.hashes.spec = 100;
        object.view.generation += 1;
        object.show(&mut lab);
    }
    assert!(fight(&lab).is_some());
}

/// An autoscaler and Argo CD with self-heal set `spec.replicas` of a Rollout, which is a primary object.
#[test]
fn an_autoscaler_against_a_gitops_tool_on_a_primary_object() {
    let mut lab = Lab::new();
    let mut object = Written::widget(&mut lab, "web");
    object.status(&mut lab, "rollouts-controller", 7, 7);
    for _ in 0..20 {
        lab.advance(Span::secs(10));
        let scaler = scaled_by("kube-controller-manager", lab.now);
        set_spec(&mut lab, &mut object, scaler, 105);
        lab.advance(Span::secs(5));
        object.spec(&mut lab, "argocd-controller", 103);
    }
    assert!(fight(&lab).is_some());
}

/// Two releases of one operator, or two replicas without leader election, have the same name.
#[test]
fn two_releases_of_one_operator() {
    let mut lab = Lab::new();
    let mut object = Written::widget(&mut lab, "web");
    object.status(&mut lab, "cert-manager-certificates-issuing", 7, 7);
    for turn in 0..300 {
        lab.advance(Span(200));
        object.spec(&mut lab, "cert-manager-certificates-issuing", 100 + turn % 2);
    }
    assert!(hot(&lab).or(fight(&lab)).is_some(), "300 generations per minute");
}

/// An autoscaler and a GitOps tool both fight with the operator over the replicas of a Deployment.
#[test]
fn a_fight_of_three() {
    let mut lab = Lab::new();
    let deployments = deployments();
    lab.discover(&[kind(), deployments.clone()]);
    lab.list_in(&deployments.watch, Vec::new());
    lab.converged("web");
    let mut object = Written { watch: deployments.watch, view: deployment("web", "web", 3, 3) };
    (object.view.hashes.spec, object.view.hashes.status) = (3, 3);
    object.show(&mut lab);
    for _ in 0..12 {
        for (who, spec) in
            [("kube-controller-manager", 5), (OPERATOR, 3), ("argocd-controller", 1), (OPERATOR, 3)]
        {
            lab.advance(Span::secs(4));
            object.spec(&mut lab, who, spec);
        }
    }
    assert!(fight(&lab).is_some());
}

/// The clock of one of two API servers is two seconds ahead.
#[test]
fn a_fight_through_two_api_servers() {
    let mut lab = Lab::new();
    let mut object = Written::widget(&mut lab, "web");
    object.status(&mut lab, OPERATOR, 7, 7);
    for _ in 0..30 {
        lab.advance(Span::secs(6));
        let ahead = spec_by("argocd-controller", lab.now.after(Span::secs(2)));
        set_spec(&mut lab, &mut object, ahead, 100);
        lab.advance(Span::secs(1));
        object.spec(&mut lab, OPERATOR, 101);
    }
    assert!(fight(&lab).is_some());
}

// ---- WriteFight: false alarm ----

/// One controller counts replicas; the other one answers each change with a condition on and off.
#[test]
fn a_controller_that_answers_another_one_within_the_second() {
    let mut lab = Lab::new();
    let mut object = Written::widget(&mut lab, "web");
    for turn in 0..12 {
        lab.advance(Span::secs(15));
        lab.now = Timestamp(lab.now.0 / 1_000 * 1_000);
        object.status(&mut lab, "workload-controller", 100 + turn, 100 + turn);
        lab.advance(Span(150));
        object.status(&mut lab, "health-controller", 200 + turn, 200 + turn);
        lab.advance(Span(150));
        object.status(&mut lab, "health-controller", 100 + turn, 100 + turn);
        assert_eq!(fight(&lab), None, "turn {turn}");
    }
}

// ---- StatusReverted ----

/// kstatus: `Reconciling` exists only while the operator works; `Ready` stays as it was.
#[test]
fn a_condition_that_exists_only_while_the_operator_works() {
    let mut lab = Lab::new();
    let mut object = Written::widget(&mut lab, "web");
    object.status(&mut lab, OPERATOR, 50, 50);
    for turn in 0..15 {
        lab.advance(Span::secs(40));
        let works = Condition {
            changed: Some(lab.now),
            ..condition("Reconciling", ConditionStatus::True, "ProgressingWithRetry")
        };
        object.view.conditions.push(works);
        object.status(&mut lab, OPERATOR, 51, 1_000 + turn);
        lab.advance(Span::secs(3));
        object.view.conditions.pop();
        object.status(&mut lab, OPERATOR, 50, 50);
        assert_eq!(revert(&lab), None, "turn {turn}");
    }
}

// ---- RecreateLoop ----

/// A Kafka owns a StrimziPodSet, a composite owns a managed resource: both kinds are the operator's.
#[test]
fn a_child_of_the_operators_own_group() {
    let gears = primary(GROUP, "Gear");
    let mut world = World::of(&[kind(), gears]);
    world.create(&web(), &[]);
    let owner = world.owner(&web());
    let child = at(GROUP, "Gear", "team-a", "web-gear");
    for _ in 0..6 {
        world.create(&child, std::slice::from_ref(&owner));
        world.advance(Span::secs(5));
        world.remove(&child);
        world.advance(Span::secs(2));
    }
    assert!(found(&world.lab, FindingCode::RecreateLoop).is_some());
}

/// The operator, or an autoscaler, scales the Deployment between its creation and its deletion.
#[test]
fn a_deployment_that_is_scaled_before_it_is_deleted() {
    let mut world = World::of(&[kind(), deployments()]);
    world.create(&web(), &[]);
    let owner = world.owner(&web());
    let child = at("apps", "Deployment", "team-a", "web");
    for _ in 0..6 {
        world.create_unseen(&child, std::slice::from_ref(&owner));
        world.put(&child, |view, _| view.hashes.spec = 1);
        world.advance(Span::secs(10));
        world.put(&child, |view, now| {
            view.hashes.spec = 3;
            view.managers.push(scaled_by("kube-controller-manager", now));
        });
        world.advance(Span::secs(10));
        world.remove(&child);
        world.advance(Span::secs(2));
    }
    assert!(found(&world.lab, FindingCode::RecreateLoop).is_some());
}

/// The operator writes `loopwatch.dev/ignore` into its short-lived lock.
#[test]
fn a_child_that_says_ignore_from_its_creation() {
    let mut world = World::new();
    world.create(&web(), &[]);
    let owner = world.owner(&web());
    for _ in 0..6 {
        world.create_unseen(&map("lock"), std::slice::from_ref(&owner));
        world.put(&map("lock"), |view, _| {
            view.annotations.insert("loopwatch.dev/ignore".into(), "RecreateLoop".into());
        });
        world.advance(Span::secs(5));
        world.remove(&map("lock"));
        world.advance(Span::secs(2));
        let open = found(&world.lab, FindingCode::RecreateLoop).map(|it| it.summary());
        assert_eq!(open, None);
    }
}

/// Somebody silences the namespace while the finding is open and the child is absent.
#[test]
fn a_namespace_that_is_silenced_while_the_child_is_absent() {
    let mut world = World::new();
    world.create(&web(), &[]);
    let owner = world.owner(&web());
    for _ in 0..5 {
        world.create(&map("settings"), std::slice::from_ref(&owner));
        world.advance(Span::secs(5));
        world.remove(&map("settings"));
        world.advance(Span::secs(2));
    }
    assert!(found(&world.lab, FindingCode::RecreateLoop).is_some());
    world.lab.annotate_namespace("team-a", "ignore", "RecreateLoop");
    world.advance(Span::secs(15));
    assert_eq!(found(&world.lab, FindingCode::RecreateLoop).map(|it| it.summary()), None);
}

// ---- Definitions ----

fn definition(lab: &Lab) -> DefinitionView {
    let works = |name: &str| Condition {
        changed: Some(lab.now.before(Span::hours(1))),
        ..condition(name, ConditionStatus::True, "Works")
    };
    DefinitionView {
        name: "gears.gears.io".into(),
        group: "gears.io".into(),
        kind: "Gear".into(),
        served: vec!["v1".into()],
        storage: "v1".into(),
        stored: vec!["v1".into()],
        status: StatusSchema::Subresource,
        conditions: vec![works("NamesAccepted"), works("Established")],
        created: Some(lab.now.before(Span::hours(1))),
        ..Default::default()
    }
}

/// The supervisor waits for the list of definitions before it discovers kinds
/// (src/sources/supervisor/optional.rs), and sends a definition only when it changes.
#[test]
fn definitions_that_loopwatch_sees_before_it_discovers_the_kinds() {
    let mut lab = Lab::new();
    let view = DefinitionView { stored: vec!["v1beta1".into(), "v1".into()], ..definition(&lab) };
    lab.observe(Observation::DefinitionSeen(view));
    let gears = primary("gears.io", "Gear");
    lab.discover(&[kind(), gears.clone()]);
    lab.list_in(&gears.watch, Vec::new());
    lab.advance(Span::mins(5));
    assert_eq!(lab.findings(), ["StorageMigrationPending definition gears.gears.io"]);
}

#[test]
fn a_refused_definition_that_loopwatch_sees_before_it_discovers_the_other_kinds() {
    let mut lab = Lab::new();
    let mut view = definition(&lab);
    view.conditions[1].status = ConditionStatus::False;
    lab.observe(Observation::DefinitionSeen(view));
    let wheels = primary("gears.io", "Wheel");
    lab.discover(&[kind(), wheels.clone()]);
    lab.list_in(&wheels.watch, Vec::new());
    lab.advance(Span::mins(5));
    assert_eq!(lab.finding("DefinitionNotEstablished").severity, Severity::Warning);
}

/// The clock of the API server that wrote the condition was ahead.
#[test]
fn a_refused_definition_whose_condition_is_of_the_future() {
    let mut lab = Lab::new();
    let mut view = definition(&lab);
    view.conditions[1].status = ConditionStatus::False;
    view.conditions[1].changed = Some(lab.now.after(Span::hours(2)));
    lab.observe(Observation::DefinitionSeen(view));
    lab.advance(Span::mins(5));
    assert!(lab.has("DefinitionNotEstablished"));
}

/// Somebody uninstalls the operator: the definition waits for its objects.
#[test]
fn a_definition_that_is_deleted_needs_no_migration() {
    let mut lab = Lab::new();
    let mut view = DefinitionView { group: GROUP.into(), ..definition(&lab) };
    (view.stored, view.deleted) = (vec!["v1beta1".into(), "v1".into()], Some(lab.now));
    lab.observe(Observation::DefinitionSeen(view));
    assert!(!lab.has("StorageMigrationPending"));
}

// ---- Hostile and silent input; expected to be right ----

#[test]
fn a_silenced_namespace_and_a_silenced_object() {
    for by_namespace in [true, false] {
        let mut lab = Lab::new();
        let mut object = Written::widget(&mut lab, "web");
        if by_namespace {
            lab.annotate_namespace("team-a", "ignore", "HotLoop");
        } else {
            object.view.annotations.insert("loopwatch.dev/ignore".into(), "HotLoop".into());
        }
        for turn in 0..60 {
            lab.advance(Span::secs(1));
            object.status(&mut lab, OPERATOR, 7, 100 + turn);
        }
        assert_eq!(hot(&lab), None);
    }
}

#[test]
fn a_loop_over_a_kind_without_status_subresource() {
    let mut lab = Lab::new();
    lab.discover(&[WatchedKind { status: StatusSchema::InBody, ..kind() }]);
    lab.list(&[]);
    let mut object = Written::widget(&mut lab, "web");
    for turn in 0..60 {
        lab.advance(Span::secs(1));
        object.view.generation += 1;
        object.status(&mut lab, OPERATOR, 7, 100 + turn);
    }
    assert!(hot(&lab).is_some());
}

#[test]
fn six_hundred_children_in_a_loop_at_once() {
    let mut world = World::new();
    world.create(&web(), &[]);
    let owner = world.owner(&web());
    for _ in 0..5 {
        for number in 0..600 {
            world.create(&map(&format!("c{number}")), std::slice::from_ref(&owner));
        }
        world.advance(Span::secs(5));
        for number in 0..600 {
            world.remove(&map(&format!("c{number}")));
        }
        world.advance(Span::secs(2));
    }
    let of = |code| world.lab.snapshot().findings.iter().filter(|it| it.code == code).count();
    assert!(of(FindingCode::RecreateLoop) >= 500, "{}", of(FindingCode::RecreateLoop));
}

#[test]
fn many_managers_in_one_second_and_times_of_1970_and_9999() {
    let mut lab = Lab::new();
    let mut object = Written::widget(&mut lab, "web");
    for turn in 0..60 {
        lab.advance(Span::secs(1));
        object.view.managers = (0..300)
            .map(|number| status_by(&format!("m-{}", number % 7), lab.now))
            .chain([
                status_by("old", Timestamp(0)),
                status_by("new", Timestamp(253_402_300_799_000)),
            ])
            .collect();
        object.view.hashes.status = 100 + turn;
        object.show(&mut lab);
    }
    let known = found(&lab, FindingCode::HotLoop).map(|it| it.confidence);
    assert_eq!(known, Some(Confidence::Suspected));
    let _ = watch();
}

/// A paused object whose operator still beats every thirty seconds, and a loop of a paused object.
#[test]
fn a_loop_while_the_object_is_deleted_is_left_to_the_findings_about_deletion() {
    let mut lab = Lab::new();
    let mut object = Written::widget(&mut lab, "web");
    object.view.finalizers = vec!["example.io/cleanup".into()];
    object.view.deleted = Some(lab.now);
    for turn in 0..60 {
        lab.advance(Span::secs(1));
        object.status(&mut lab, OPERATOR, 7, 100 + turn);
    }
    assert_eq!(hot(&lab), None);
}

/// A person annotates the object once between two beats.
#[test]
fn a_heartbeat_and_one_annotation_of_a_person() {
    let mut lab = Lab::new();
    let mut object = Written::widget(&mut lab, "web");
    for beat in 0..40 {
        lab.advance(Span::secs(7));
        if beat == 20 {
            annotate(&mut lab, &mut object, "kubectl-annotate");
        }
        lab.advance(Span::secs(3));
        object.status(&mut lab, OPERATOR, 7, 100 + beat);
        assert_eq!(hot(&lab), None, "beat {beat}");
    }
}

#[test]
fn a_restart_of_loopwatch_keeps_the_start_of_a_loop() {
    let mut lab = Lab::new();
    let mut web = lab.converged("web");
    let rewrite = |lab: &mut Lab, web: &mut Widget| {
        for _ in 0..40 {
            lab.advance(Span::secs(1));
            let now = lab.now;
            lab.apply(web.touch_times(now));
        }
    };
    rewrite(&mut lab, &mut web);
    let since = found(&lab, FindingCode::HotLoop).expect("a finding").since;
    let mut lab = lab.restart();
    lab.list(&[web.clone()]);
    rewrite(&mut lab, &mut web);
    assert_eq!(found(&lab, FindingCode::HotLoop).map(|it| it.since), Some(since));
}

/// Flux with an interval of one minute against an operator that resets the field at once.
#[test]
fn a_fight_once_a_minute() {
    let mut lab = Lab::new();
    let mut object = Written::widget(&mut lab, "web");
    object.status(&mut lab, OPERATOR, 7, 7);
    let mut after = None;
    for minute in 1..20 {
        lab.advance(Span::secs(59));
        object.spec(&mut lab, "kustomize-controller", 100);
        lab.advance(Span::secs(1));
        object.spec(&mut lab, OPERATOR, 101);
        after = after.or(fight(&lab).map(|_| minute));
    }
    assert!(after.is_some_and(|minutes| minutes <= 5), "found after {after:?} minutes");
}
