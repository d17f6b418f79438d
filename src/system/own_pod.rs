//! The Pod of this process, according to its environment, which it can read without permissions.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

use loopwatch_model::observation::Revision;

/// The Pod of this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnPod {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// The host name: the name of the Pod, cut to 63 characters, or that of the node. Operators
    /// sign leases with it.
    pub(crate) host: String,
    /// Whether the manifest sets the name. Otherwise, it is the host name, and the Pod may run no
    /// operator.
    pub(crate) is_told: bool,
    /// Whether this process runs in a cluster, and thus really shares the network of the Pod.
    pub(crate) in_cluster: bool,
    /// The UID; empty if unknown.
    pub(crate) uid: String,
    /// The address; `None` if unknown.
    pub(crate) ip: Option<IpAddr>,
    /// Whether the Pod uses the network of its node, or may do so.
    pub(crate) host_network: bool,
    /// The revision of the operator, without the image.
    pub(crate) revision: Revision,
    /// The name of the container of this process, if the manifest sets it.
    pub(crate) container: Option<String>,
}

/// The kubelet sets this variable in every container of a Pod.
pub(crate) const IN_CLUSTER_HOST: &str = "KUBERNETES_SERVICE_HOST";
/// The kubelet sets this one, too: the port of the API server.
pub(crate) const IN_CLUSTER_PORT: &str = "KUBERNETES_SERVICE_PORT";

/// The variables that `deploy/components/sidecar` sets.
const NAME: &str = "POD_NAME";
const NAMESPACE: &str = "POD_NAMESPACE";
const UID: &str = "POD_UID";
const IP: &str = "POD_IP";
const NODE_IP: &str = "NODE_IP";
const TEMPLATE_HASH: &str = "POD_TEMPLATE_HASH";
const REVISION_HASH: &str = "POD_REVISION_HASH";
const VERSION: &str = "POD_VERSION";
const CONTAINER: &str = "LOOPWATCH_CONTAINER";

/// The name of the Pod, in every container that does not use the network of the node.
const HOSTNAME: &str = "HOSTNAME";

/// The longest host name of a Pod, in bytes.
const MAX_HOST: usize = 63;

/// Whether this process runs in a Pod.
pub(crate) fn in_pod() -> bool {
    std::env::var_os(IN_CLUSTER_HOST).is_some()
}

/// Whether a Pod of this name with its own network may have this host name: the kubelet cuts the
/// name, and adds a domain if the Pod requests it. The name of a node may also be a prefix of the
/// name of a Pod.
fn is_host_of(pod: &str, host: &str) -> bool {
    let cut = pod.get(..MAX_HOST).map_or(pod, |cut| cut.trim_end_matches(['-', '.']));
    host.strip_prefix(cut).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Whether an address belongs to this Pod: the kernel would use it as the source of packets to
/// itself. Sends nothing.
pub(crate) fn is_own_address(address: IpAddr) -> bool {
    address.to_canonical().is_loopback() || source_towards(address) == Some(address)
}

/// The address of this Pod in the family of the API server's: the kernel would use it as the source
/// of packets to the API server. Sends nothing.
pub(crate) fn address_towards_api_server() -> Option<IpAddr> {
    let server = std::env::var(IN_CLUSTER_HOST).ok()?.parse().ok()?;
    source_towards(server)
}

/// The source address of packets to this address.
fn source_towards(address: IpAddr) -> Option<IpAddr> {
    let unspecified = if address.is_ipv4() {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        IpAddr::from(Ipv6Addr::UNSPECIFIED)
    };
    let source = UdpSocket::bind((unspecified, 0)).and_then(|socket| {
        socket.connect((address, 9))?;
        socket.local_addr()
    });

    source.ok().map(|source| source.ip())
}

/// The name of the Deployment or StatefulSet of a Pod: `operator` for `operator-7c9d5b8f6-x2x4z`
/// and `operator-0`.
pub(crate) fn workload_of_pod(pod: &str) -> Option<String> {
    let (rest, last) = pod.rsplit_once('-')?;
    if last.chars().all(|c| c.is_ascii_digit()) {
        return Some(rest.to_owned());
    }

    let is_hash = |text: &str| text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let (deployment, hash) = rest.rsplit_once('-')?;
    (last.len() == 5 && is_hash(last) && is_hash(hash)).then(|| deployment.to_owned())
}

impl OwnPod {
    /// Reads the environment of this process. `namespace` is that of its service account.
    pub(crate) fn of_environment(namespace: &str) -> Option<Self> {
        Self::of(|name| std::env::var(name).ok(), namespace)
    }

    fn of(variable: impl Fn(&str) -> Option<String>, namespace: &str) -> Option<Self> {
        // The variable is empty if the Pod lacks the label.
        let variable = |name: &str| {
            variable(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
        };
        let hostname = variable(HOSTNAME);
        let told = variable(NAME);
        let (is_told, in_cluster) = (told.is_some(), variable(IN_CLUSTER_HOST).is_some());
        let name = told.or_else(|| hostname.clone().filter(|_| in_cluster))?;
        let address = |name: &str| variable(name)?.parse::<IpAddr>().ok();

        let host_network = match (address(IP), address(NODE_IP)) {
            (Some(pod), Some(node)) => pod == node,
            _ => !hostname.as_ref().is_some_and(|host| is_host_of(&name, host)),
        };
        let hash = variable(TEMPLATE_HASH).or_else(|| variable(REVISION_HASH)).unwrap_or_default();
        let revision =
            Revision { hash, version: variable(VERSION).unwrap_or_default(), image: String::new() };

        Some(Self {
            namespace: variable(NAMESPACE).unwrap_or_else(|| namespace.to_owned()),
            host: hostname.unwrap_or_else(|| name.clone()),
            name,
            is_told,
            in_cluster,
            uid: variable(UID).unwrap_or_default(),
            ip: address(IP),
            host_network,
            revision,
            container: variable(CONTAINER),
        })
    }

    /// The name of the instance in all sources.
    pub(crate) fn instance(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// The name of the operator's workload, found without a permission to read it: the name of the
    /// Pod without the parts that controllers generate.
    pub(crate) fn workload(&self) -> Option<String> {
        let hash = &self.revision.hash;
        let replica_set = self.name.rsplit_once('-').map(|(replica_set, _)| replica_set);
        let deployment =
            replica_set.and_then(|name| name.strip_suffix(hash.as_str())?.strip_suffix('-'));

        match deployment.filter(|name| !hash.is_empty() && !name.is_empty()) {
            Some(deployment) => Some(deployment.to_owned()),
            None => workload_of_pod(&self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_name_contains_the_name_of_its_workload() {
        for (pod, workload) in [
            ("widget-operator-7c9d5b8f6-x2x4z", Some("widget-operator")),
            ("widget-operator-0", Some("widget-operator")),
            ("laptop", None),
            ("my-Laptop-home", None),
        ] {
            assert_eq!(workload_of_pod(pod).as_deref(), workload, "{pod}");
        }
    }

    fn of(variables: &[(&str, &str)]) -> Option<OwnPod> {
        let value = |name: &str| {
            variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned())
        };
        OwnPod::of(value, "from-token")
    }

    #[test]
    fn the_sidecar_component_tells_which_pod_it_is_in() {
        let pod = of(&[
            (NAME, "widget-operator-7c9d5b8f6-x2x4z"),
            (NAMESPACE, "system"),
            (UID, "u1"),
            (IP, "10.1.0.4"),
            (NODE_IP, "192.168.0.2"),
            (TEMPLATE_HASH, "7c9d5b8f6"),
            (VERSION, ""),
            (HOSTNAME, "widget-operator-7c9d5b8f6-x2x4z"),
        ])
        .expect("a Pod");

        assert_eq!((pod.namespace.as_str(), pod.uid.as_str(), pod.is_told), ("system", "u1", true));
        assert_eq!((pod.ip, pod.host_network), (Some(IpAddr::from([10, 1, 0, 4])), false));
        assert_eq!(pod.revision, Revision { hash: "7c9d5b8f6".to_owned(), ..Revision::default() });
        assert_eq!(pod.workload().as_deref(), Some("widget-operator"));
    }

    #[test]
    fn the_manifests_set_the_variables_where_an_operator_runs() {
        let sidecar = include_str!("../../deploy/components/sidecar/sidecar.yaml");
        for name in [NAME, NAMESPACE, UID, IP, NODE_IP, TEMPLATE_HASH, REVISION_HASH, VERSION] {
            assert!(sidecar.contains(&format!("- name: {name}\n")), "{name}");
        }

        let base = include_str!("../../deploy/base/deployment.yaml");
        assert!(!base.contains(NAME), "no operator runs in this Pod");
    }

    #[test]
    fn without_variables_the_host_name_is_the_name_of_the_pod() {
        assert_eq!(of(&[(HOSTNAME, "laptop")]), None, "not in a Pod");
        assert_eq!(of(&[]), None);

        let pod = of(&[(HOSTNAME, "op-0"), (IN_CLUSTER_HOST, "10.0.0.1")]).expect("a Pod");
        assert_eq!(
            (pod.namespace.as_str(), pod.name.as_str(), pod.is_told),
            ("from-token", "op-0", false)
        );
        assert_eq!((pod.host_network, pod.workload().as_deref()), (false, Some("op")));
        assert_eq!((pod.in_cluster, pod.instance().as_str()), (true, "from-token/op-0"));
        assert!(!of(&[(NAME, "op-0")]).expect("a Pod").in_cluster, "a name alone makes no Pod");
    }

    #[test]
    fn a_pod_with_the_network_of_its_node_is_told_apart() {
        let node = [(NAME, "op-7c9d5b8f6-x2x4z"), (IP, "192.168.0.2"), (NODE_IP, "192.168.0.2")];
        assert!(of(&node).expect("a Pod").host_network);

        let host = [(NAME, "op-7c9d5b8f6-x2x4z"), (HOSTNAME, "node-17")];
        assert!(of(&host).expect("a Pod").host_network, "the host name is that of the node");
        assert!(of(&host[..1]).expect("a Pod").host_network, "nothing is known");

        let same = |host: &str| {
            !of(&[(NAME, "op-7c9d5b8f6-x2x4z"), (HOSTNAME, host)]).expect("a Pod").host_network
        };

        assert!(same("op-7c9d5b8f6-x2x4z") && same("op-7c9d5b8f6-x2x4z.op.system.svc"));
        assert!(!same("op"), "a node whose name begins the name of the Pod");

        for (first, kept) in [(60, 63), (62, 62)] {
            let long = format!("{}-7c9d5b8f6-x2x4z", "o".repeat(first));
            let cut = of(&[(NAME, &long), (HOSTNAME, &long[..kept])]).expect("a Pod");

            assert!(
                !cut.host_network,
                "the kubelet cuts a host name to 63 characters, without a dash at the end"
            );
        }
    }

    #[test]
    fn the_hash_separates_the_name_of_the_workload() {
        let pod = |name: &str, hash: &str| OwnPod {
            name: name.to_owned(),
            revision: Revision { hash: hash.to_owned(), ..Revision::default() },
            ..OwnPod::default()
        };
        for (name, hash, workload) in [
            ("op-v2-7c9d5b8f6-x2x4z", "7c9d5b8f6", Some("op-v2")),
            // Kubernetes cuts the name of a long ReplicaSet, and the hash with it.
            ("op-with-a-long-name-7c9dx2x4z", "7c9d5b8f6", None),
            ("op-0", "op-5d7f9c", Some("op")),
            ("bare", "", None),
        ] {
            assert_eq!(pod(name, hash).workload().as_deref(), workload, "{name}");
        }
    }

    #[test]
    fn only_addresses_of_this_host_are_its_own() {
        for (address, expected) in [
            ("127.0.0.1", true),
            ("127.0.0.6", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("198.51.100.1", false),
            ("2001:db8::1", false),
            ("0.0.0.0", false),
            ("::", false),
            ("255.255.255.255", false),
            ("224.0.0.1", false),
        ] {
            assert_eq!(is_own_address(address.parse().expect("an address")), expected, "{address}");
        }
    }
}
