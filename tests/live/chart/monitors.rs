//! The monitors of the chart, by which Prometheus finds loopwatch, and the label that they add.

use serde_json::{Value, json};

use super::{image, only, template};
use loopwatch_testbed::helm::Helm;
use loopwatch_testbed::kube::documents;

/// The ServiceMonitor leads to the Pod by its Service, with the endpoint of the PodMonitor, and the
/// annotations name the same port and scheme.
pub(super) fn monitors(helm: &Helm) {
    let access = "tls.enabled=true,webAuth.enabled=true,scrapeAnnotations.enabled=true";
    let with = |monitor: &str| {
        let monitor = format!("{monitor}.enabled=true");
        let rendered = template(helm, &["--set", &image(), "--set", access, "--set", &monitor]);
        documents(&rendered.unwrap_or_else(|error| panic!("{error}")))
    };
    let (by_pod, by_service) = (with("podMonitor"), with("serviceMonitor"));

    let service = only(&by_service, "Service");
    let monitor = only(&by_service, "ServiceMonitor");
    let template = &only(&by_service, "Deployment")["spec"]["template"];
    let has = |labels: &Value, selector: &Value| {
        let selector = selector.as_object().unwrap_or_else(|| panic!("{selector}"));
        selector.iter().all(|(label, value)| labels[label] == *value)
    };
    assert!(has(&template["metadata"]["labels"], &service["spec"]["selector"]), "{service}");
    let selector = &monitor["spec"]["selector"]["matchLabels"];
    assert!(has(&service["metadata"]["labels"], selector), "{monitor}");

    let container = &template["spec"]["containers"][0]["ports"][0];
    let port = &service["spec"]["ports"][0];
    assert_eq!(port["targetPort"], container["name"], "{service}");
    let endpoint = &monitor["spec"]["endpoints"][0];
    assert_eq!(endpoint["port"], port["name"], "{monitor}");
    let pods = only(&by_pod, "PodMonitor");
    assert_eq!(*endpoint, pods["spec"]["podMetricsEndpoints"][0], "{monitor}");

    let annotations = &template["metadata"]["annotations"];
    assert_eq!(annotations["prometheus.io/port"], container["containerPort"].to_string());
    assert_eq!(annotations["prometheus.io/path"], endpoint["path"]);
    assert_eq!(annotations["prometheus.io/scheme"], endpoint["scheme"]);
}

/// The name of the cluster is in the series, and in what loopwatch sends itself.
pub(super) fn cluster_name(helm: &Helm) {
    let name = json!({"targetLabel": "cluster", "replacement": "eu-1"});
    for (monitor, kind, endpoints) in [
        ("podMonitor", "PodMonitor", "podMetricsEndpoints"),
        ("serviceMonitor", "ServiceMonitor", "endpoints"),
    ] {
        let monitor = format!("clusterName=eu-1,{monitor}.enabled=true");
        let rendered = template(helm, &["--set", &image(), "--set", &monitor]);
        let objects = documents(&rendered.unwrap_or_else(|error| panic!("{error}")));
        let endpoint = &only(&objects, kind)["spec"][endpoints][0];
        assert_eq!(endpoint["relabelings"], json!([name]), "{kind}");

        let env = &only(&objects, "Deployment")["spec"]["template"]["spec"]["containers"][0]["env"];
        for (variable, value) in [
            ("LOOPWATCH_ALERT_LABEL", "cluster=eu-1"),
            ("OTEL_RESOURCE_ATTRIBUTES", "k8s.cluster.name=eu-1"),
        ] {
            let expected = json!({"name": variable, "value": value});
            assert!(env.as_array().is_some_and(|env| env.contains(&expected)), "{env}");
        }
    }
}
