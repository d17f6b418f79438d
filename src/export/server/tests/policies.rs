//! Every path has a policy, and every policy is enforced on every port.

use super::*;
use crate::export::server::policy::Policy;
use crate::export::server::routes::ROUTES;

/// The ports, each with the policies that it serves to loopback and to other hosts.
fn served(port: Port, policy: Policy, is_local: bool, expose_ui: bool) -> bool {
    match (policy, port) {
        (Policy::Public, _) => true,
        (Policy::Metrics, Port::Ui) => is_local,
        (Policy::Metrics, _) => true,
        (Policy::Page, Port::Metrics) => expose_ui,
        (Policy::Page, Port::Ui) => is_local,
        (Policy::Page, Port::Both) => is_local || expose_ui,
        (Policy::Profiles, Port::Metrics) => false,
        (Policy::Profiles, _) => is_local,
    }
}

#[tokio::test]
async fn each_path_follows_its_policy_on_each_port() {
    for expose_ui in [false, true] {
        let exporter = exporter(sample(), ExportOptions { expose_ui, ..ExportOptions::default() });
        for route in ROUTES {
            let path = route.path.replace("{name}", "heap.pb.gz");
            for port in [Port::Metrics, Port::Ui, Port::Both] {
                for (peer, is_local) in [("127.0.0.1:5000", true), ("10.1.2.3:5000", false)] {
                    let (status, body) =
                        request_at(port, &exporter, peer, "localhost", &path).await;

                    assert_eq!(
                        status != 403,
                        served(port, route.policy, is_local, expose_ui),
                        "{path} for {peer} at {port:?}, --expose-ui: {expose_ui}: {status} {body}"
                    );
                }
            }
        }
    }
}

/// A proxy in the Pod connects from 127.0.0.1 and adds nothing to the request.
#[tokio::test]
async fn a_proxy_in_the_pod_gains_nothing_but_the_metrics() {
    let exporter = exporter(sample(), ExportOptions::default());
    for route in ROUTES.iter().filter(|route| route.policy != Policy::Public) {
        let path = route.path.replace("{name}", "heap.pb.gz");
        let (status, body) =
            request_at(Port::Metrics, &exporter, "127.0.0.1:5000", "localhost", &path).await;

        match route.policy {
            Policy::Metrics => assert_eq!(status, 200, "{path}"),
            _ => assert!(status == 403 && body.contains("9917:9918"), "{path}: {status} {body}"),
        }
    }
}

#[test]
fn the_policies_of_all_paths_are_deliberate() {
    let of = |policy| -> Vec<&str> {
        ROUTES.iter().filter(|route| route.policy == policy).map(|route| route.path).collect()
    };

    assert_eq!(of(Policy::Public), ["/livez", "/readyz"]);
    assert_eq!(of(Policy::Metrics), ["/metrics"]);
    assert_eq!(of(Policy::Profiles), ["/api/v1/profiles", "/api/v1/profiles/{name}"]);
    assert_eq!(of(Policy::Page).len(), ROUTES.len() - 5);
}
