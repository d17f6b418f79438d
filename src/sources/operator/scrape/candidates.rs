//! Where an operator's metrics may be: at the ports of its containers, at listening sockets, or at
//! common ports.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::sockets::{Listening, Sockets};
use crate::sources::operator::hints::{PortPurpose, TargetPort};

/// A port that may serve metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PortCandidate {
    /// The addresses to try, in this order.
    pub(super) addresses: Vec<IpAddr>,
    pub(super) port: u16,
    /// Whether to try TLS first.
    pub(super) tls_first: bool,
}

/// What is known about the ports of loopwatch's own Pod.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnPorts<'a> {
    pub(super) ip: Option<IpAddr>,
    /// Whether it uses the network of its node.
    pub(super) host_network: bool,
    /// The ports of the operator's containers.
    pub(super) ports: &'a [TargetPort],
    /// The listening sockets, if loopwatch can read them.
    pub(super) sockets: Option<&'a Sockets>,
}

/// Limit on candidates of one Pod.
const MAX_CANDIDATES: usize = 24;
/// The ports on which operators usually serve metrics, the most common first.
const COMMON: [u16; 6] = [8080, 8443, 8383, 8686, 9090, 8081];
/// The first of the ports that the kernel assigns.
const ASSIGNED: u16 = 32_768;

impl PortCandidate {
    fn new(addresses: Vec<IpAddr>, port: u16, name: &str) -> Self {
        Self { addresses, port, tls_first: name.contains("https") || port % 1000 == 443 }
    }
}

/// The candidates of the Pod in which loopwatch runs, the best first.
pub(super) fn of_own_pod(pod: OwnPorts<'_>) -> Vec<PortCandidate> {
    let mut addresses = vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    addresses.extend(pod.ip);

    let mut found = of_ports(pod.ports, &addresses);
    let of_node = pod.host_network || pod.sockets.is_some_and(|sockets| sockets.of_node);
    match pod.sockets {
        // The sockets of a node belong to many programs.
        _ if of_node => {}
        Some(sockets) => found.extend(sockets_in_order(&sockets.listening)),
        None => {
            found.extend(COMMON.map(|port| PortCandidate::new(addresses[..2].to_vec(), port, "")))
        }
    }

    limited(found)
}

/// The candidates of another Pod, the best first.
pub(super) fn of_pod(ip: IpAddr, ports: &[TargetPort]) -> Vec<PortCandidate> {
    limited(of_ports(ports, &[ip]))
}

fn of_ports(ports: &[TargetPort], addresses: &[IpAddr]) -> Vec<PortCandidate> {
    let mut ports: Vec<&TargetPort> = ports.iter().collect();
    ports.sort_by_key(|port| (!port.takes_token, PortPurpose::of(&port.name)));
    ports
        .into_iter()
        .map(|port| PortCandidate::new(addresses.to_vec(), port.number, &port.name))
        .collect()
}

fn sockets_in_order(sockets: &[Listening]) -> impl Iterator<Item = PortCandidate> {
    let common =
        |port: u16| COMMON.iter().position(|common| *common == port).unwrap_or(COMMON.len());
    let mut sockets = sockets.to_vec();
    sockets.sort_by_key(|socket| (common(socket.port), socket.port >= ASSIGNED, socket.port));
    sockets.retain(|socket| !may_be_of_mesh(socket.port));

    sockets.into_iter().map(|Listening { port, address }| {
        let addresses = match address {
            Some(address) => vec![address],
            None => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
        };

        PortCandidate::new(addresses, port, "")
    })
}

/// Drops the ports of a mesh, merges candidates of the same port, and drops those beyond the limit.
fn limited(candidates: Vec<PortCandidate>) -> Vec<PortCandidate> {
    let mut kept: Vec<PortCandidate> = Vec::new();
    for candidate in candidates {
        if is_of_mesh(candidate.port) || candidate.port == 0 {
            continue;
        }
        match kept.iter_mut().find(|kept| kept.port == candidate.port) {
            Some(same) => {
                let new: Vec<IpAddr> = candidate
                    .addresses
                    .into_iter()
                    .filter(|ip| !same.addresses.contains(ip))
                    .collect();

                same.addresses.extend(new);
            }
            None => kept.push(candidate),
        }
    }

    kept.truncate(MAX_CANDIDATES);
    kept
}

/// Whether only a proxy of Istio or Linkerd listens on this port.
fn is_of_mesh(port: u16) -> bool {
    matches!(port, 15_000..=15_099 | 4140 | 4143 | 4190 | 4191)
}

/// Whether an unknown listener on this port is probably a proxy of Consul or Dapr, or another
/// Envoy.
fn may_be_of_mesh(port: u16) -> bool {
    matches!(port, 9901 | 19_000 | 20_000 | 3500 | 3501 | 50_001 | 50_002)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(name: &str, number: u16) -> TargetPort {
        let (container, name) = ("manager".to_owned(), name.to_owned());
        TargetPort { container, name, number, takes_token: false }
    }

    fn ports(candidates: &[PortCandidate]) -> Vec<u16> {
        candidates.iter().map(|candidate| candidate.port).collect()
    }

    fn own<'a>(ports: &'a [TargetPort], sockets: Option<&'a Sockets>) -> OwnPorts<'a> {
        OwnPorts { ip: "10.0.0.7".parse().ok(), host_network: false, ports, sockets }
    }

    fn listening(ports: &[u16]) -> Sockets {
        let listening = ports.iter().map(|port| Listening { port: *port, address: None }).collect();
        Sockets { listening, of_node: false }
    }

    #[test]
    fn ports_of_the_pod_come_first_and_those_for_metrics_before_others() {
        let spec = [
            port("webhook-server", 9443),
            port("api", 7000),
            port("health", 8081),
            port("http-metrics", 2112),
            port("https", 6443),
        ];

        let sockets = listening(&[2112, 5555, 8080, 8443, 40_000]);
        let found = of_own_pod(own(&spec, Some(&sockets)));

        assert_eq!(ports(&found), [2112, 6443, 7000, 9443, 8081, 8080, 8443, 5555, 40_000]);

        let tls: Vec<u16> =
            found.iter().filter(|candidate| candidate.tls_first).map(|found| found.port).collect();

        assert_eq!(tls, [6443, 9443, 8443]);

        let [v4, v6, pod] =
            ["127.0.0.1", "::1", "10.0.0.7"].map(|ip| ip.parse::<IpAddr>().expect("an address"));

        assert_eq!(
            found[0].addresses,
            [v4, v6, pod],
            "the last one for a server that listens only there"
        );
        assert_eq!(found[5].addresses, [v4, v6]);
        assert_eq!(of_pod(pod, &spec)[0].addresses, [pod]);
    }

    #[test]
    fn common_ports_are_only_for_unreadable_sockets() {
        assert_eq!(ports(&of_own_pod(own(&[], None))), COMMON);
        assert_eq!(ports(&of_own_pod(own(&[], Some(&listening(&[]))))), [0; 0]);
    }

    #[test]
    fn ports_of_a_mesh_are_left_out() {
        let sockets = listening(&[4143, 4191, 8080, 15_000, 15_020, 15_021, 15_090, 9901]);
        assert_eq!(ports(&of_own_pod(own(&[port("metrics", 15_090)], Some(&sockets)))), [8080]);
        assert_eq!(
            ports(&of_own_pod(own(&[port("metrics", 9901)], Some(&sockets)))),
            [9901, 8080],
            "its own"
        );
    }

    #[test]
    fn sockets_and_loopback_of_a_node_are_left_alone() {
        let spec = [port("metrics", 8080)];
        let sockets = listening(&[9100, 10_248]);
        for (host_network, sockets) in [
            (true, Some(&sockets)),
            (true, None),
            (false, Some(&Sockets { of_node: true, ..sockets.clone() })),
        ] {
            let found = of_own_pod(OwnPorts { host_network, ..own(&spec, sockets) });
            assert_eq!(ports(&found), [8080], "only the ports of the Pod's spec");
        }
    }

    #[test]
    fn the_number_of_candidates_is_limited() {
        let many: Vec<u16> = (1000..2000).collect();
        assert_eq!(of_own_pod(own(&[], Some(&listening(&many)))).len(), MAX_CANDIDATES);
    }
}
