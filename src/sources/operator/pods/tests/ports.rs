use serde_json::{Value, json};

use super::seen;

/// The ports of a Pod with these containers that may get the token, each with its container.
fn token_ports(containers: &Value) -> Vec<(String, u16)> {
    let pod = json!({
        "metadata": { "namespace": "op", "name": "op-0" },
        "spec": { "containers": containers },
        "status": { "podIP": "10.0.0.7" },
    });

    let (_, target) = seen(&pod, None);
    let ports = target.expect("a target").ports;
    let named = ports.into_iter().filter(|port| port.takes_token);
    named.map(|port| (port.container, port.number)).collect()
}

fn container(name: &str, ports: &[(&str, u16)]) -> Value {
    let ports: Vec<Value> =
        ports.iter().map(|(name, port)| json!({ "name": name, "containerPort": port })).collect();

    json!({ "name": name, "image": name, "ports": ports })
}

#[test]
fn the_ports_that_the_operators_container_names_for_metrics_may_get_the_token() {
    for name in ["metrics", "https-metrics", "prom", "https"] {
        let found = token_ports(&json!([container("manager", &[(name, 8443)])]));
        assert_eq!(found, [("manager".to_owned(), 8443)], "{name}");
    }

    for name in ["", "webhook-https", "health", "http", "grpc"] {
        let found = token_ports(&json!([container("manager", &[(name, 8443)])]));
        assert_eq!(found, [], "{name}");
    }
}

#[test]
fn ports_of_other_containers_never_get_the_token() {
    let helper = container("cache", &[("metrics", 9090), ("https-metrics", 9443)]);
    let operator = container("manager", &[("metrics", 8443)]);
    let expected = [("manager".to_owned(), 8443)];

    assert_eq!(token_ports(&json!([helper, operator])), expected);

    // The proxies with which operators protect their metrics are an exception.
    let proxy = container("kube-rbac-proxy", &[("https", 8443)]);
    let operator = container("manager", &[("metrics", 8080)]);
    let expected = [("manager".to_owned(), 8080), ("kube-rbac-proxy".to_owned(), 8443)];
    assert_eq!(token_ports(&json!([operator, proxy])), expected);
}

#[test]
fn a_port_that_two_containers_declare_gets_no_token() {
    let operator = container("manager", &[("metrics", 8443), ("prom", 9090)]);
    let other = container("cache", &[("", 8443)]);
    let expected = [("manager".to_owned(), 9090)];

    assert_eq!(token_ports(&json!([operator, other])), expected);
}

#[test]
fn an_argument_of_the_operator_names_its_port() {
    let with = |args: Value| {
        token_ports(
            &json!([{ "name": "manager", "image": "a", "command": ["/manager"], "args": args }]),
        )
    };
    let expected = [("manager".to_owned(), 8443)];

    for args in [
        json!(["--leader-elect", "--metrics-bind-address=:8443"]),
        json!(["-metrics-bind-address", "0.0.0.0:8443"]),
        json!(["--metrics-addr=[::]:8443"]),
    ] {
        assert_eq!(with(args.clone()), expected, "{args}");
    }

    for args in [
        json!(["--metrics-bind-address=0"]),
        json!(["--metrics-bind-address=:0"]),
        json!(["--metrics-bind-address=$(ADDRESS)"]),
        json!(["--metrics-bind-address"]),
        json!(["metrics-bind-address=:8443"]),
        json!(["--health-probe-bind-address=:8443"]),
    ] {
        assert_eq!(with(args.clone()), [], "{args}");
    }

    // The argument of another container names nothing.
    let other = json!({ "name": "cache", "image": "b", "args": ["--metrics-bind-address=:9443"] });
    assert_eq!(token_ports(&json!([container("manager", &[("metrics", 8443)]), other])), expected);
}
