//! Whether loopwatch runs beside the operators.

use std::collections::BTreeSet;

use super::unknown;
use crate::export::view::{Check, CheckState, Topic};
use crate::published::PUBLISHED;
use crate::sources::survey::{ContainerState, Pod, Surroundings, Workload};

/// The labels by which `deploy/components/operator` finds an operator.
const CHOICE: &str = "loopwatch/sidecar";
const COMPONENT: &str = "app.kubernetes.io/component";
const OPERATORS: [&str; 3] = ["controller", "controller-manager", "operator"];

/// Limit on operators without loopwatch to list.
const MOST: usize = 10;

pub(super) fn checks(surroundings: &Surroundings, place: &str) -> Vec<Check> {
    let workloads = &surroundings.workloads;
    let (with, without): (Vec<&Workload>, Vec<&Workload>) =
        workloads.items.iter().partition(|workload| workload.loopwatch().is_some());
    let mut checks: Vec<Check> =
        with.iter().map(|workload| running(surroundings, workload)).collect();

    // In the other namespaces, nobody has asked for it.
    let namespaces: BTreeSet<&str> =
        with.iter().map(|workload| workload.metadata.namespace.as_str()).collect();
    let operators: Vec<&Workload> =
        without.into_iter().filter(|workload| is_operator(workload)).collect();
    let (beside, elsewhere): (Vec<&Workload>, Vec<&Workload>) = operators
        .into_iter()
        .partition(|workload| namespaces.contains(workload.metadata.namespace.as_str()));
    checks.extend(beside.into_iter().take(MOST).map(alone));

    if with.is_empty() && workloads.left_out.is_empty() {
        checks.push(nowhere(place, &elsewhere));
    } else if !elsewhere.is_empty() {
        let text = format!("Without loopwatch: {}, {}.", count(elsewhere.len()), names(&elsewhere));
        checks.push(Check::new(Topic::Sidecar, CheckState::Off, text));
    }

    checks.extend(unknown(workloads, Topic::Sidecar));
    checks
}

/// Whether the labels of a workload say that it is an operator, and nothing says that it needs no
/// loopwatch.
fn is_operator(workload: &Workload) -> bool {
    let label = |name: &str| workload.metadata.labels.get(name).map(String::as_str);
    match label(CHOICE) {
        Some(choice) => choice != "false",
        None => {
            label("control-plane") == Some("controller-manager")
                || label(COMPONENT).is_some_and(|component| OPERATORS.contains(&component))
        }
    }
}

/// Whether the loopwatch container of a workload runs in its Pods.
fn running(surroundings: &Surroundings, workload: &Workload) -> Check {
    let name = workload.in_words();
    let image = workload.loopwatch().map(|container| container.image.as_str()).unwrap_or_default();
    let check = |state, text: String| Check::new(Topic::Sidecar, state, text);
    let namespace = &workload.metadata.namespace;

    if is_unpublished(image) {
        return check(
            CheckState::Problem,
            format!("{name}: the image of loopwatch is {image}, which no registry has."),
        )
        .advise("Build the image, push it to your registry, and set its name under `images:` of the kustomization.")
        .next(format!("kubectl -n {namespace} get {} -o wide", in_kubectl(workload)));
    }

    // A Pod that has ended remains after an eviction, or after a shutdown of its node.
    let pods = surroundings.pods.items.iter().filter(|pod| workload.owns(pod) && !pod.has_ended());
    let pods: Vec<&Pod> = pods.collect();
    if let Some((pod, why)) = pods.iter().find_map(|pod| Some((pod, why_not(&pod.loopwatch()?.1)?)))
    {
        return check(
            CheckState::Problem,
            format!("{name}: loopwatch does not run in Pod {}: {why}.", pod.metadata.name),
        )
        .next(format!("kubectl -n {namespace} describe pod {}", pod.metadata.name));
    }

    match pods.iter().filter(|pod| pod.loopwatch().is_some()).count() {
        0 if !surroundings.pods.left_out.is_empty() => check(
            CheckState::Unknown,
            format!("{name} has a loopwatch container, but its Pods are not visible."),
        ),
        0 if workload.spec.replicas == Some(0) => {
            check(CheckState::Off, format!("{name} has a loopwatch container, and 0 replicas."))
        }
        0 => check(CheckState::Problem, format!("{name} has a loopwatch container, but no Pod."))
            .next(format!("kubectl -n {namespace} describe {}", in_kubectl(workload))),
        running if running < pods.len() => check(
            CheckState::Problem,
            format!(
                "{name}: {} of {} Pods have no loopwatch container.",
                pods.len() - running,
                pods.len()
            ),
        )
        .advise("A rollout may be under way, or stuck.")
        .next(format!("kubectl -n {namespace} rollout status {}", in_kubectl(workload))),
        running => check(
            CheckState::Well,
            format!("{name}: loopwatch runs in {running} of {running} Pods."),
        ),
    }
}

/// Whether the image is the one that the manifests name and no registry has.
fn is_unpublished(image: &str) -> bool {
    PUBLISHED.image.contains(".invalid/") && image.starts_with(PUBLISHED.image)
}

/// Why a container does not run.
fn why_not(state: &ContainerState) -> Option<String> {
    let ContainerState { running, waiting, terminated } = state;
    let why = waiting.as_ref().or(terminated.as_ref());
    match (running, why) {
        (None, Some(why)) => {
            let message: String = why.message.chars().take(200).collect();
            let text = if message.is_empty() {
                why.reason.clone()
            } else {
                format!("{}, {message}", why.reason)
            };
            Some(text.trim_end_matches('.').to_owned())
        }
        // A container without any state is about to start.
        _ => None,
    }
}

/// An operator without loopwatch, in a namespace where others have it.
fn alone(workload: &Workload) -> Check {
    let namespace = &workload.metadata.namespace;
    Check::new(
        Topic::Sidecar,
        CheckState::Problem,
        format!("{} is an operator by its labels, and has no loopwatch container.", workload.in_words()),
    )
    .advise(format!(
        "List components/sidecar in the kustomization that installs it. If it needs none, say so with the label {CHOICE}: \"false\":"
    ))
    .next(format!("kubectl -n {namespace} label {} {CHOICE}=false", in_kubectl(workload)))
}

/// Nothing runs loopwatch.
fn nowhere(place: &str, operators: &[&Workload]) -> Check {
    let candidates = match operators {
        [] => "No workload has the label of an operator, either.".to_owned(),
        operators => format!("Operators by their labels: {}.", names(operators)),
    };
    Check::new(
        Topic::Sidecar,
        CheckState::Problem,
        format!("No workload in {place} has a loopwatch container. {candidates}"),
    )
    .advise(
        "List components/sidecar in the kustomization that installs the operator (deploy/README.md), and apply it:",
    )
    .next("kubectl apply -k FOLDER")
}

fn in_kubectl(workload: &Workload) -> String {
    format!("{}/{}", workload.kind.to_lowercase(), workload.metadata.name)
}

fn names(workloads: &[&Workload]) -> String {
    let mut names: Vec<String> =
        workloads.iter().take(MOST).map(|workload| workload.in_words()).collect();
    if workloads.len() > MOST {
        names.push(format!("{} more", workloads.len() - MOST));
    }
    names.join(", ")
}

fn count(operators: usize) -> String {
    match operators {
        1 => "1 operator in another namespace".to_owned(),
        more => format!("{more} operators in other namespaces"),
    }
}
