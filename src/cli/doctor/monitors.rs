//! Whether a PodMonitor or a ServiceMonitor selects the Pods with loopwatch, and if not, what keeps it
//! from doing so.

use super::unknown;
use crate::export::view::{Check, CheckState, Topic};
use crate::sources::survey::{
    Container, Endpoint, MonitorSpec, Object, PORT, Surroundings, Workload, matches,
};

type Monitor = Object<MonitorSpec>;

/// A workload with its loopwatch container.
type Target<'a> = (&'a Workload, &'a Container);

/// Why a PodMonitor does not select a workload, and which one.
struct Miss<'a> {
    workload: &'a Workload,
    check: Check,
}

/// The label that `deploy/` gives to Pods with loopwatch.
const LABEL: &str = "loopwatch/scrape";

/// The checks, and the monitors that select a Pod with loopwatch.
pub(super) fn checks(surroundings: &Surroundings) -> (Vec<Check>, Vec<&Monitor>) {
    let Surroundings { pod_monitors, service_monitors, workloads, .. } = surroundings;
    if !pod_monitors.is_installed {
        let text =
            "The Prometheus Operator is not installed: the API server serves no PodMonitors.";
        let advice =
            "For a Prometheus that reads configuration files, see deploy/examples/prometheus.";
        return (
            vec![Check::new(Topic::Monitor, CheckState::Off, text).advise(advice)],
            Vec::new(),
        );
    }

    let targets: Vec<Target<'_>> = workloads
        .items
        .iter()
        .filter_map(|workload| Some((workload, workload.loopwatch()?)))
        .collect();
    let (mut checks, mut covering, mut explained) = (Vec::new(), Vec::new(), Vec::new());

    for monitor in &pod_monitors.items {
        let selected = |(workload, container): &&Target<'_>| selects(monitor, workload, container);
        if targets.iter().any(|target| selected(&target)) {
            covering.push(monitor);
        } else if let Some(miss) = is_ours(monitor).then(|| miss(monitor, &targets)).flatten() {
            explained.push(miss.workload.in_words());
            checks.push(miss.check);
        }
    }

    let serves = |monitor: &&Monitor| {
        targets
            .iter()
            .any(|(workload, container)| leads(surroundings, monitor, workload, container))
    };
    covering.extend(service_monitors.items.iter().filter(serves));

    let services = &surroundings.services;
    let is_complete = [&pod_monitors.left_out, &service_monitors.left_out, &services.left_out]
        .iter()
        .all(|left_out| left_out.is_empty());
    for (workload, container) in &targets {
        let by: Vec<String> = covering
            .iter()
            .filter(|monitor| {
                selects(monitor, workload, container)
                    || leads(surroundings, monitor, workload, container)
            })
            .map(|monitor| monitor.in_words())
            .collect();
        match by.as_slice() {
            [] if explained.contains(&workload.in_words()) => {}
            [] if is_complete => checks.push(unselected(workload)),
            [] => {}
            by => checks.push(Check::new(
                Topic::Monitor,
                CheckState::Well,
                format!("{}: {} selects its Pods.", workload.in_words(), by.join(" and ")),
            )),
        }
    }

    checks.extend(unknown(pod_monitors, Topic::Monitor));
    if covering.is_empty() {
        checks.extend(unknown(service_monitors, Topic::Monitor));
        checks.extend(unknown(services, Topic::Monitor));
    }
    (checks, covering)
}

/// Whether a PodMonitor selects the loopwatch container of a workload.
fn selects(monitor: &Monitor, workload: &Workload, container: &Container) -> bool {
    monitor.kind == "PodMonitor"
        && looks_at(monitor, workload)
        && matches(&monitor.spec.selector, workload.pod_labels())
        && has_port(monitor, container)
}

/// Whether a ServiceMonitor selects a Service that leads to the loopwatch container of a workload.
fn leads(
    surroundings: &Surroundings,
    monitor: &Monitor,
    workload: &Workload,
    container: &Container,
) -> bool {
    monitor.kind == "ServiceMonitor"
        && looks_at(monitor, workload)
        && surroundings.services.items.iter().any(|service| {
            let selector = &service.spec.selector;
            let labels = workload.pod_labels();
            service.metadata.namespace == workload.metadata.namespace
                && matches(&monitor.spec.selector, &service.metadata.labels)
                && !selector.is_empty()
                && selector.iter().all(|(name, value)| labels.get(name) == Some(value))
                && monitor.spec.endpoints.iter().any(|it| it.leads_to(&service.spec, container))
        })
}

fn looks_at(monitor: &Monitor, workload: &Workload) -> bool {
    monitor.spec.looks_at(&monitor.metadata.namespace, &workload.metadata.namespace)
}

fn has_port(monitor: &Monitor, container: &Container) -> bool {
    monitor.spec.endpoints.iter().any(|endpoint| endpoint.names_port_of(container))
}

/// Whether somebody made this PodMonitor for loopwatch.
fn is_ours(monitor: &Monitor) -> bool {
    let MonitorSpec { selector, endpoints, .. } = &monitor.spec;
    let is_port = |endpoint: &Endpoint| endpoint.port.as_deref() == Some(PORT);
    monitor.metadata.name.contains("loopwatch")
        || selector.match_labels.iter().flatten().any(|(name, _)| name == LABEL)
        || endpoints.iter().any(is_port)
}

/// The workload that a PodMonitor misses by one condition only, and this condition.
fn miss<'a>(monitor: &Monitor, targets: &[Target<'a>]) -> Option<Miss<'a>> {
    let meets = |(workload, container): &Target<'_>| {
        [
            looks_at(monitor, workload),
            matches(&monitor.spec.selector, workload.pod_labels()),
            has_port(monitor, container),
        ]
    };
    let nearest =
        targets.iter().max_by_key(|target| meets(target).iter().filter(|met| **met).count())?;
    let (workload, container) = nearest;
    let [namespace, labels, _port] = meets(nearest);

    let (name, target) = (monitor.in_words(), workload.in_words());
    let (own, pods) = (&monitor.metadata.namespace, &workload.metadata.namespace);
    let problem = |text| Check::new(Topic::Monitor, CheckState::Problem, text);
    let check = match (namespace, labels) {
        (false, _) => problem(format!(
            "{name} selects Pods only in the namespace {own}, but those of {target} are in {pods}."
        ))
        .advise(
            "List components/monitoring or components/scrape in the kustomization of the operator, whose namespace they take, and delete the old PodMonitor:",
        )
        .next(format!("kubectl -n {own} delete podmonitors.monitoring.coreos.com {}", monitor.metadata.name)),
        (true, false) => problem(format!(
            "{name} does not select the Pods of {target}: their labels do not match its selector."
        ))
        .advise("Compare the two:")
        .next(format!("kubectl -n {own} get podmonitors.monitoring.coreos.com {} -o jsonpath='{{.spec.selector}}'", monitor.metadata.name))
        .next(format!("kubectl -n {pods} get pods --show-labels")),
        (true, true) => problem(format!(
            "{name} selects the Pods of {target}, but none of its ports: it names {}, and the container has {}.",
            ports(monitor.spec.endpoints.iter().filter_map(|it| it.port.as_deref())),
            ports(container.ports.iter().map(|port| port.name.as_str())),
        ))
        .advise(format!("Name the port {PORT} in the container and in the PodMonitor, as deploy/ does:"))
        .next(format!("kubectl -n {own} edit podmonitors.monitoring.coreos.com {}", monitor.metadata.name)),
    };
    Some(Miss { workload, check })
}

fn ports<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
    if names.is_empty() { "no named port".to_owned() } else { names.join(", ") }
}

fn unselected(workload: &Workload) -> Check {
    let text =
        format!("No PodMonitor and no ServiceMonitor selects the Pods of {}.", workload.in_words());
    Check::new(Topic::Monitor, CheckState::Problem, text)
        .advise("If a ScrapeConfig or a scrape configuration of Prometheus selects them, this is in order: doctor does not read those. Otherwise, list components/monitoring (once per cluster) or components/scrape in the kustomization of the operator, and apply it:")
        .next("kubectl apply -k FOLDER")
}
