use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::sources::survey::Object;

/// Returns objects of a kind, as a list of the API server has them.
fn objects<S: Default + DeserializeOwned>(kind: &'static str, items: Value) -> Vec<Object<S>> {
    let mut objects: Vec<Object<S>> = serde_json::from_value(items).expect("objects");
    objects.iter_mut().for_each(|object| object.kind = kind);
    objects
}

/// A workload in the namespace `shop`.
fn workload(name: &str, labels: &Value, containers: &Value) -> Value {
    json!({"metadata": {"namespace": "shop", "name": name, "labels": labels},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name, "loopwatch/scrape": "true"}},
                "spec": {"initContainers": containers}}}})
}

fn loopwatch(image: &str) -> Value {
    json!([{"name": "loopwatch", "image": image, "ports": [{"name": "loopwatch-http", "containerPort": 9917}]}])
}

/// A Pod of the operator, whose loopwatch container has this state.
fn pod(state: &Value) -> Value {
    json!({"metadata": {"namespace": "shop", "name": "op-1", "labels": {"app": "op"}},
        "spec": {"initContainers": loopwatch("reg/loopwatch:1")},
        "status": {"initContainerStatuses": [{"name": "loopwatch", "state": state}]}})
}

fn monitor(namespace: &str, labels: &Value, selector: &Value, port: &str) -> Value {
    json!({"metadata": {"namespace": namespace, "name": "loopwatch", "labels": labels},
        "spec": {"selector": {"matchLabels": selector}, "podMetricsEndpoints": [{"port": port}]}})
}

fn scrape_label() -> Value {
    json!({"loopwatch/scrape": "true"})
}

/// An operator with loopwatch in the namespace `shop`, the PodMonitor and the rules of `deploy/`, and a
/// Prometheus that selects both by a label.
fn in_order() -> Surroundings {
    let labels = json!({"release": "prom"});
    let prometheus = json!([{"metadata": {"namespace": "monitoring", "name": "k8s"}, "spec": {
        "podMonitorSelector": {"matchLabels": {"release": "prom"}}, "podMonitorNamespaceSelector": {},
        "ruleSelector": {"matchLabels": {"release": "prom"}},
        "ruleNamespaceSelector": {"matchLabels": {"team": "shop"}}}}]);
    let rules = json!([{"metadata": {"namespace": "shop", "name": "loopwatch", "labels": labels},
        "spec": {"groups": [{"name": "loopwatch-slo"}]}}]);
    let namespaces = json!([{"metadata": {"name": "shop", "labels": {"team": "shop"}}}]);

    let operator =
        workload("op", &json!({"loopwatch/sidecar": "true"}), &loopwatch("reg/loopwatch:1"));
    let mut surroundings = Surroundings::default();
    surroundings.workloads.items = objects("StatefulSet", json!([operator]));
    surroundings.pods.items = serde_json::from_value(json!([pod(
        &json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}})
    )]))
    .expect("Pods");
    surroundings.pod_monitors.items =
        objects("PodMonitor", json!([monitor("shop", &labels, &scrape_label(), "loopwatch-http")]));
    surroundings.prometheuses.items = objects("Prometheus", prometheus);
    surroundings.rules.items = objects("PrometheusRule", rules);
    surroundings.namespaces.items = objects("Namespace", namespaces);
    surroundings
}

fn checks(surroundings: &Surroundings) -> Vec<Check> {
    of_surroundings(surroundings, "all namespaces")
}

/// Expects exactly one problem, with this topic, these words and this command.
fn expect_problem(surroundings: &Surroundings, topic: Topic, words: &[&str], command: &str) {
    let checks = checks(surroundings);
    let problems: Vec<&Check> =
        checks.iter().filter(|check| check.state == CheckState::Problem).collect();
    let [problem] = problems[..] else { panic!("not one problem: {checks:#?}") };

    assert_eq!(problem.topic, topic, "{problem:?}");
    for word in words {
        assert!(problem.text.contains(word), "{word}: {problem:?}");
    }
    assert!(problem.commands.iter().any(|it| it.contains(command)), "{command}: {problem:?}");
}

#[test]
fn an_installation_in_order_has_no_problem() {
    let checks = checks(&in_order());
    let topics: Vec<Topic> = checks.iter().map(|check| check.topic).collect();

    assert_eq!(topics, [Topic::Sidecar, Topic::Monitor, Topic::Prometheus, Topic::Rules]);
    assert!(checks.iter().all(|check| check.state == CheckState::Well), "{checks:#?}");
}

#[test]
fn a_cluster_without_loopwatch_says_how_to_install_it() {
    let mut surroundings = in_order();
    let labels = json!({"control-plane": "controller-manager"});
    surroundings.workloads.items =
        objects("Deployment", json!([workload("op", &labels, &json!([]))]));

    let all = checks(&surroundings);
    let found = all.iter().find(|check| check.topic == Topic::Sidecar).expect("a check");
    assert!(
        found.state == CheckState::Problem && found.text.contains("Deployment shop/op"),
        "{found:?}"
    );
    assert!(found.commands == ["kubectl apply -k FOLDER"], "{found:?}");
}

#[test]
fn only_operators_beside_others_with_loopwatch_are_missing_it() {
    let mut surroundings = in_order();
    let labels = json!({"app.kubernetes.io/component": "controller"});
    let beside = workload("beside", &labels, &json!([]));
    surroundings.workloads.items.extend(objects("Deployment", json!([beside])));
    let command = "kubectl -n shop label deployment/beside loopwatch/sidecar=false";
    expect_problem(&surroundings, Topic::Sidecar, &["Deployment shop/beside"], command);

    let mut surroundings = in_order();
    let webhook =
        workload("webhook", &json!({"app.kubernetes.io/component": "webhook"}), &json!([]));
    let opted_out = json!({"control-plane": "controller-manager", "loopwatch/sidecar": "false"});
    let opted_out = workload("quiet", &opted_out, &json!([]));
    let mut elsewhere = workload("elsewhere", &labels, &json!([]));
    elsewhere["metadata"]["namespace"] = "other".into();
    let others = objects("Deployment", json!([webhook, opted_out, elsewhere]));
    surroundings.workloads.items.extend(others);

    let checks = checks(&surroundings);
    let told: Vec<&Check> = checks.iter().filter(|it| it.state != CheckState::Well).collect();
    assert!(told.len() == 1 && told[0].state == CheckState::Off, "{told:?}");
    assert!(told[0].text.contains("other/elsewhere"), "{told:?}");
}

#[test]
fn a_container_that_does_not_run_says_why() {
    let mut surroundings = in_order();
    let waiting = json!({"waiting": {"reason": "ImagePullBackOff", "message": "not found"}});
    surroundings.pods.items = serde_json::from_value(json!([pod(&waiting)])).expect("Pods");
    expect_problem(
        &surroundings,
        Topic::Sidecar,
        &["ImagePullBackOff, not found"],
        "kubectl -n shop describe pod op-1",
    );

    let operator = workload(
        "op",
        &json!({}),
        &loopwatch(&format!("{}:0.1.0", crate::published::PUBLISHED.image)),
    );
    surroundings.workloads.items = objects("Deployment", json!([operator]));
    expect_problem(
        &surroundings,
        Topic::Sidecar,
        &["which no registry has"],
        "kubectl -n shop get deployment/op",
    );

    let mut surroundings = in_order();
    surroundings.pods.items.clear();
    expect_problem(&surroundings, Topic::Sidecar, &["no Pod"], "describe statefulset/op");
}

#[test]
fn a_monitor_in_the_wrong_namespace_or_with_other_labels_or_ports_selects_nothing() {
    let labels = json!({"release": "prom"});
    for (monitor, words, command) in [
        (
            monitor("default", &labels, &scrape_label(), "loopwatch-http"),
            ["PodMonitor default/loopwatch", "only in the namespace default", "are in shop"],
            "kubectl -n default delete podmonitors.monitoring.coreos.com loopwatch",
        ),
        (
            monitor("shop", &labels, &json!({"app": "another"}), "loopwatch-http"),
            ["PodMonitor shop/loopwatch", "labels do not match", "StatefulSet shop/op"],
            "kubectl -n shop get pods --show-labels",
        ),
        (
            monitor("shop", &labels, &scrape_label(), "metrics"),
            ["none of its ports", "names metrics", "has loopwatch-http"],
            "edit podmonitors.monitoring.coreos.com loopwatch",
        ),
    ] {
        let mut surroundings = in_order();
        surroundings.pod_monitors.items = objects("PodMonitor", json!([monitor]));
        expect_problem(&surroundings, Topic::Monitor, &words, command);
    }

    let mut surroundings = in_order();
    surroundings.pod_monitors.items.clear();
    expect_problem(&surroundings, Topic::Monitor, &["No PodMonitor"], "kubectl apply -k");
}

#[test]
fn a_monitor_for_all_namespaces_or_by_number_selects_the_pods() {
    let mut any =
        monitor("monitoring", &json!({"release": "prom"}), &scrape_label(), "loopwatch-http");
    any["spec"]["namespaceSelector"] = json!({"any": true});
    let mut by_name = any.clone();
    by_name["spec"]["namespaceSelector"] = json!({"matchNames": ["shop"]});
    let mut by_number = any.clone();
    by_number["spec"]["podMetricsEndpoints"] = json!([{"portNumber": 9917}]);

    for monitor in [any, by_name, by_number] {
        let mut surroundings = in_order();
        surroundings.pod_monitors.items = objects("PodMonitor", json!([monitor]));
        let checks = checks(&surroundings);
        assert!(checks.iter().all(|it| it.state == CheckState::Well), "{monitor}: {checks:#?}");
    }
}

#[test]
fn a_service_monitor_selects_the_pods_through_a_service() {
    let mut surroundings = in_order();
    surroundings.pod_monitors.items.clear();
    let monitor = json!({"metadata": {"namespace": "shop", "name": "m"},
        "spec": {"selector": {"matchLabels": {"svc": "op"}}, "endpoints": [{"port": "http"}]}});
    let service = |target: Value| {
        json!([{"metadata": {"namespace": "shop", "name": "op", "labels": {"svc": "op"}},
            "spec": {"selector": {"app": "op"}, "ports": [{"name": "http", "port": 80, "targetPort": target}]}}])
    };
    surroundings.service_monitors.items = objects("ServiceMonitor", json!([monitor]));
    surroundings.prometheuses.items[0].spec.service_monitor_selector = Some(Default::default());
    surroundings.prometheuses.items[0].spec.service_monitor_namespace_selector =
        Some(Default::default());

    for target in [json!("loopwatch-http"), json!(9917)] {
        surroundings.services.items = objects("Service", service(target));
        let checks = checks(&surroundings);
        assert!(checks.iter().all(|it| it.state == CheckState::Well), "{checks:#?}");
    }

    surroundings.services.items = objects("Service", service(json!(8443)));
    expect_problem(&surroundings, Topic::Monitor, &["no ServiceMonitor"], "kubectl apply -k");
}

#[test]
fn the_label_that_a_prometheus_wants_is_named_with_its_command() {
    let mut surroundings = in_order();
    surroundings.pod_monitors.items[0].metadata.labels.clear();
    expect_problem(
        &surroundings,
        Topic::Prometheus,
        &[
            "Prometheus monitoring/k8s does not select PodMonitor shop/loopwatch",
            "podMonitorSelector wants release=prom",
        ],
        "kubectl -n shop label podmonitors.monitoring.coreos.com loopwatch release=prom",
    );

    surroundings.pod_monitors.items[0].metadata.labels.insert("release".into(), "old".into());
    expect_problem(&surroundings, Topic::Prometheus, &["release=prom"], "--overwrite release=prom");

    let mut surroundings = in_order();
    surroundings.rules.items[0].metadata.labels.clear();
    expect_problem(
        &surroundings,
        Topic::Rules,
        &["ruleSelector wants release=prom"],
        "label prometheusrules",
    );

    let mut surroundings = in_order();
    surroundings.namespaces.items[0].metadata.labels.clear();
    expect_problem(
        &surroundings,
        Topic::Rules,
        &["ruleNamespaceSelector wants team=shop"],
        "kubectl label namespace shop team=shop",
    );
}

#[test]
fn the_advice_names_what_the_doctor_does_not_read() {
    let mut surroundings = in_order();
    surroundings.rules.items[0].metadata.labels.clear();
    let all = checks(&surroundings);
    assert!(all.iter().any(|check| check.advice.contains("ThanosRuler")), "{all:#?}");

    let mut surroundings = in_order();
    surroundings.pod_monitors.items.clear();
    surroundings.service_monitors.items.clear();
    let all = checks(&surroundings);
    assert!(all.iter().any(|check| check.advice.contains("ScrapeConfig")), "{all:#?}");
}

#[test]
fn selectors_that_are_not_set_select_nothing() {
    let mut surroundings = in_order();
    surroundings.prometheuses.items[0].spec.pod_monitor_selector = None;
    let command = "kubectl -n monitoring get prometheuses.monitoring.coreos.com k8s";
    expect_problem(&surroundings, Topic::Prometheus, &["podMonitorSelector is not set"], command);

    let mut surroundings = in_order();
    surroundings.prometheuses.items[0].spec.pod_monitor_namespace_selector = None;
    expect_problem(
        &surroundings,
        Topic::Prometheus,
        &["only the namespace monitoring counts"],
        command,
    );

    surroundings.prometheuses.items[0].metadata.namespace = "shop".into();
    let checks = checks(&surroundings);
    assert!(checks.iter().all(|it| it.state == CheckState::Well), "its own namespace: {checks:#?}");
}

#[test]
fn one_prometheus_of_several_is_enough_and_none_is_no_problem() {
    let mut surroundings = in_order();
    let deaf: Vec<Object<_>> = objects(
        "Prometheus",
        json!([{"metadata": {"namespace": "a", "name": "deaf"}, "spec": {}}]),
    );
    surroundings.prometheuses.items.splice(0..0, deaf);
    assert!(checks(&surroundings).iter().all(|it| it.state == CheckState::Well));

    surroundings.prometheuses.items.clear();
    let checks = checks(&surroundings);
    let off = checks.iter().filter(|it| it.state == CheckState::Off).count();
    assert_eq!((off, checks.len()), (2, 4), "{checks:#?}");
}

#[test]
fn what_nobody_installed_or_may_see_is_no_problem() {
    let mut surroundings = in_order();
    for is_installed in [
        &mut surroundings.pod_monitors.is_installed,
        &mut surroundings.service_monitors.is_installed,
        &mut surroundings.rules.is_installed,
        &mut surroundings.prometheuses.is_installed,
    ] {
        *is_installed = false;
    }
    surroundings.pod_monitors.items.clear();
    let all = checks(&surroundings);
    let monitor = all.iter().find(|check| check.topic == Topic::Monitor).expect("a check");
    assert!(
        monitor.state == CheckState::Off && monitor.text.contains("not installed"),
        "{monitor:?}"
    );
    assert!(all.iter().all(|check| check.state != CheckState::Problem), "{all:#?}");

    let mut blind = Surroundings::default();
    blind.workloads.left_out = "deployments: no permission to list".into();
    blind.pod_monitors.left_out = "podmonitors: no permission to list".into();
    let all = checks(&blind);
    assert!(
        all.iter().all(|check| matches!(check.state, CheckState::Unknown | CheckState::Off)),
        "{all:#?}"
    );

    let mut surroundings = in_order();
    surroundings.pod_monitors.items[0].metadata.labels.clear();
    surroundings.prometheuses.left_out = "prometheuses: no permission to list".into();
    let all = checks(&surroundings);
    let prometheus = all.iter().find(|check| check.topic == Topic::Prometheus).expect("a check");
    assert_eq!(prometheus.state, CheckState::Unknown, "another may select it: {prometheus:?}");
}

/// The status of a running loopwatch.
fn status(kinds: &Value, not_visible: &Value, scrapes: &Value) -> Vec<Check> {
    let status = json!({"version": 1, "at": "2026-01-01T00:20:00Z", "kinds": kinds, "not_visible": not_visible,
        "scrapes": scrapes});
    running::checks(&status.to_string()).expect("a status")
}

#[test]
fn a_running_loopwatch_says_what_it_watches_and_who_scrapes_it() {
    let kind = |synced| json!([{"group": "shop.io", "kind": "Cart", "role": "primary", "watches": [{"synced": synced}]}]);
    let scraped = json!({"since": "2026-01-01T00:00:00Z", "last": "2026-01-01T00:19:40Z", "expected_within": "600s"});
    let states = |checks: &[Check]| checks.iter().map(|check| check.state).collect::<Vec<_>>();

    let checks = status(&kind(true), &json!([]), &scraped);
    assert_eq!(states(&checks), [CheckState::Well; 2], "{checks:?}");
    assert!(
        checks[0].text.contains("Cart.shop.io") && checks[1].text.contains("20s ago"),
        "{checks:?}"
    );

    let blind = json!([{"what": "leases", "why": "no permission"}]);
    let checks = status(&kind(false), &blind, &Value::Null);
    assert_eq!(
        states(&checks),
        [CheckState::Problem, CheckState::Limited, CheckState::Unknown],
        "{checks:?}"
    );

    let never = json!({"since": "2026-01-01T00:00:00Z", "last": null, "expected_within": "600s"});
    let checks = status(&json!([]), &json!([]), &never);
    assert_eq!(states(&checks), [CheckState::Problem; 2], "{checks:?}");
    assert!(
        checks[0].text.contains("no kind") && checks[1].text.contains("since the start 20m ago"),
        "{checks:?}"
    );

    // Somebody who posts alerts directly needs no scrapes.
    let unexpected =
        json!({"since": "2026-01-01T00:00:00Z", "last": null, "expected_within": null});
    assert_eq!(states(&status(&kind(true), &json!([]), &unexpected))[1], CheckState::Off);

    assert!(running::checks("{}").is_err() && running::checks("<html>").is_err());
}

/// Somebody with a Prometheus object in their own namespace chooses its selector, whose labels the API
/// server does not check.
#[test]
fn a_hostile_label_adds_nothing_to_a_command() {
    let mut surroundings = in_order();
    for value in ["x; touch /tmp/owned #", "$(touch /tmp/owned)", "x\ntouch /tmp/owned"] {
        let hostile = json!([{"metadata": {"namespace": "tenant", "name": "k8s"},
            "spec": {"podMonitorSelector": {"matchLabels": {"release": value}},
                "podMonitorNamespaceSelector": {}, "ruleSelector": {"matchLabels": {}},
                "ruleNamespaceSelector": {}}}]);
        surroundings.prometheuses.items = objects("Prometheus", hostile);

        for command in checks(&surroundings).into_iter().flat_map(|check| check.commands) {
            let unquoted: String = command.split('\'').step_by(2).collect();
            let is_safe = !unquoted.contains([';', '$', '\n', '`', '|', '&', '#']);
            assert!(is_safe, "{command:?}");
        }
    }
}

/// Somebody may have fifty workloads with a container named loopwatch in a namespace that comes first.
/// The template of the operator says nothing of loopwatch, and its Pod has it.
#[tokio::test]
async fn an_injected_container_counts() {
    use loopwatch_testbed::standin::{Reply, answer, client};

    let read = async |label: &'static str| {
        let client = client(move |request| {
            let labels = json!({"control-plane": "controller-manager"});
            let items = match request.uri().path().rsplit('/').next() {
                Some("deployments") => json!([workload("op", &labels, &json!([]))]),
                Some("namespaces") => {
                    json!([{"metadata": {"name": "shop", "labels": {"loopwatch/injection": label}}}])
                }
                Some("pods") => json!([pod(&json!({"running": {}}))]),
                _ => json!([]),
            };
            let body = json!({"metadata": {}, "items": items}).to_string();
            answer(Reply::Response(200, vec![], body))
        });
        Surroundings::read(&crate::sources::testing::cluster(client), None).await
    };

    let checks = |surroundings: &Surroundings| installed::checks(surroundings, "all namespaces");
    let injected = checks(&read("enabled").await);
    assert!(injected.iter().all(|check| check.state == CheckState::Well), "{injected:?}");
    assert_eq!(injected.len(), 1, "{injected:?}");

    // Without the label, loopwatch reads no Pods of a workload without the container.
    let off = checks(&read("disabled").await);
    assert!(off.iter().any(|check| check.state == CheckState::Problem), "{off:?}");
}

#[tokio::test]
async fn workloads_whose_pods_were_not_read_are_no_problem() {
    use loopwatch_testbed::standin::{Reply, answer, client};

    let all: Vec<Value> = (0..51)
        .map(|number| {
            workload(&format!("op-{number:02}"), &json!({}), &loopwatch("reg/loopwatch:1"))
        })
        .collect();
    let client = client(move |request| {
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        let name = query.split("labelSelector=app%3D").nth(1).unwrap_or_default();
        let items = match path.rsplit('/').next() {
            Some("deployments") => json!(all),
            Some("pods") => json!([{"metadata": {"namespace": "shop", "name": format!("{name}-1"),
                    "labels": {"app": name}},
                "spec": {"initContainers": loopwatch("reg/loopwatch:1")},
                "status": {"initContainerStatuses": [{"name": "loopwatch", "state":
                    {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]}}]),
            _ => json!([]),
        };
        let body = json!({"metadata": {}, "items": items}).to_string();
        answer(Reply::Response(200, vec![], body))
    });

    let cluster = crate::sources::testing::cluster(client);
    let surroundings = Surroundings::read(&cluster, None).await;
    let of_sidecar = super::installed::checks(&surroundings, "all namespaces");
    let problems: Vec<&Check> =
        of_sidecar.iter().filter(|check| check.state == CheckState::Problem).collect();
    assert!(of_sidecar.len() >= 51 && problems.is_empty(), "{problems:?}");
}

#[test]
fn a_pod_that_has_ended_and_was_replaced_is_no_problem() {
    let mut surroundings = in_order();
    let mut evicted =
        pod(&json!({"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}));
    evicted["metadata"]["name"] = "op-evicted".into();
    (evicted["status"]["phase"], evicted["status"]["reason"]) = ("Failed".into(), "Evicted".into());
    surroundings.pods.items.insert(0, serde_json::from_value(evicted).expect("a Pod"));

    let checks = checks(&surroundings);
    assert!(checks.iter().all(|it| it.state == CheckState::Well), "{checks:#?}");
}

#[test]
fn services_that_nobody_may_list_may_lead_to_the_pods() {
    let mut surroundings = in_order();
    surroundings.pod_monitors.items.clear();
    let monitor = json!({"metadata": {"namespace": "shop", "name": "loopwatch"},
        "spec": {"selector": {"matchLabels": {"svc": "op"}}, "endpoints": [{"port": "http"}]}});
    surroundings.service_monitors.items = objects("ServiceMonitor", json!([monitor]));
    surroundings.services.left_out = "services: no permission to list".into();

    let all = checks(&surroundings);
    assert!(all.iter().all(|check| check.state != CheckState::Problem), "{all:#?}");
    assert!(
        all.iter().any(|check| check.topic == Topic::Monitor && check.state == CheckState::Unknown),
        "{all:#?}"
    );
}

#[test]
fn a_kind_that_the_account_may_not_list_is_a_limit_and_no_problem() {
    let kinds = json!([
        {"group": "shop.io", "kind": "Cart", "role": "primary", "watches": [{"synced": true, "missing": []}]},
        {"group": "", "kind": "Secret", "role": "child", "watches": [{"synced": false, "missing": ["list"]}]}]);
    let why = json!([{"what": "Secret in all namespaces", "why": "the account may not list them"}]);
    let scraped = json!({"since": "2026-01-01T00:00:00Z", "last": "2026-01-01T00:19:40Z", "expected_within": "600s"});

    let checks = status(&kinds, &why, &scraped);
    assert!(checks.iter().all(|check| check.state != CheckState::Problem), "{checks:#?}");
}
