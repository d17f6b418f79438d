//! The ports of a Pod that may serve the operator's metrics, and which of them may get the token.
//!
//! All containers of a Pod share its network, so an address does not tell who listens there. The
//! Pod's spec does: it names the ports of each container.

use std::net::SocketAddr;

use super::containers;
use super::document::{ContainerDocument, PodDocument};
use crate::sources::operator::hints::{PortPurpose, TargetPort};

/// Limit on the ports of a Pod.
const MAX_PORTS: usize = 64;

/// The arguments that set the address of the metrics in operators of Kubebuilder and the Operator
/// SDK. Their manifests often declare no port.
const ADDRESS_FLAGS: [&str; 2] = ["metrics-bind-address", "metrics-addr"];

/// The TCP ports that may serve the operator's metrics. `own` is the name of the container of this
/// process, if the manifest sets it.
pub(super) fn of_pod(pod: &PodDocument, own: Option<&str>) -> Vec<TargetPort> {
    let operator = containers::of_operator(pod, own).first().map(containers::PodContainer::spec);
    let argument = operator.and_then(named_by_argument);
    let is_open = |spec: &&ContainerDocument| {
        !containers::is_loopwatch(spec, own) && !containers::serves_others(&spec.name)
    };

    let specs = containers::all(pod).map(|container| container.spec());
    let mut ports: Vec<TargetPort> = specs.filter(is_open).flat_map(declared).collect();
    if let (Some(operator), Some(number)) = (operator, argument)
        && !ports.iter().any(|port| port.number == number && port.container == operator.name)
    {
        let container = operator.name.clone();
        ports.insert(0, TargetPort { container, name: String::new(), number, takes_token: false });
    }

    for port in &mut ports {
        let is_named = PortPurpose::of(&port.name) <= PortPurpose::Https;
        let of_operator = operator.is_some_and(|operator| operator.name == port.container);
        let of_proxy = containers::is_metrics_proxy(&port.container);
        let is_for_metrics = of_operator && (is_named || argument == Some(port.number));

        port.takes_token = (is_for_metrics || of_proxy && is_named) && is_alone(pod, port);
    }

    ports.truncate(MAX_PORTS);
    ports
}

/// The TCP ports that a container declares.
fn declared(spec: &ContainerDocument) -> impl Iterator<Item = TargetPort> {
    let tcp = spec
        .ports
        .iter()
        .filter(|port| matches!(port.protocol.as_str(), "" | "TCP") && port.container_port > 0);

    tcp.map(|port| TargetPort {
        container: spec.name.clone(),
        name: port.name.clone(),
        number: port.container_port,
        takes_token: false,
    })
}

/// Whether no other container declares the same port.
fn is_alone(pod: &PodDocument, port: &TargetPort) -> bool {
    let mut others = containers::all(pod)
        .map(|container| container.spec())
        .filter(|spec| spec.name != port.container);

    !others.any(|spec| declared(spec).any(|other| other.number == port.number))
}

/// The port of the metrics that an argument of the container sets.
fn named_by_argument(spec: &ContainerDocument) -> Option<u16> {
    let mut words = spec.command.iter().chain(&spec.args).map(String::as_str);
    while let Some(word) = words.next() {
        let Some(flag) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')) else {
            continue;
        };
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (flag, None),
        };
        if ADDRESS_FLAGS.contains(&name) {
            return value.or_else(|| words.next()).and_then(port_of);
        }
    }

    None
}

/// The port of an address such as `:8443`; `None` for 0, which turns the metrics off.
fn port_of(address: &str) -> Option<u16> {
    let port = match address.strip_prefix(':') {
        Some(port) => port.parse().ok(),
        None => address.parse::<SocketAddr>().ok().map(|address| address.port()),
    };

    port.filter(|port| *port > 0)
}
