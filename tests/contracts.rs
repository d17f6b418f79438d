//! Consistency between metrics, findings, alerts, runbooks, dashboards, manifests, and documents.

#![allow(clippy::panic, reason = "test helpers may panic")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use loopwatch::export::metrics::CATALOG;
use loopwatch_model::finding::{Alert, Explainer, FINDINGS, FindingCode, Severity};
use loopwatch_testbed::bundled;
use serde_json::Value;

#[path = "contracts/alerts.rs"]
mod alerts;
#[path = "contracts/chart.rs"]
mod chart;
#[path = "contracts/clusters.rs"]
mod clusters;
#[path = "contracts/faults.rs"]
mod faults;
#[path = "contracts/links.rs"]
mod links;
#[path = "contracts/names.rs"]
mod names;
#[path = "contracts/needs.rs"]
mod needs;

/// The recorded series of the SLO objective. It has no labels.
const OBJECTIVE: &str = "loopwatch:convergence_objective:ratio";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).expect("YAML")
}

fn documents(text: &str) -> Vec<Value> {
    let parts = text.split("\n---").map(|part| part.trim_start_matches("---"));
    parts
        .filter(|part| part.lines().any(|line| !line.trim().is_empty() && !line.starts_with('#')))
        .map(yaml)
        .collect()
}

fn rule_files() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(root().join("alerts"))
        .expect("alerts")
        .map(|e| e.expect("an entry").path())
        .collect();

    files.retain(|file| file.to_string_lossy().ends_with(".rules.yaml"));
    files.sort();

    assert!(files.len() >= 3, "{files:?}");

    files
}

fn rules() -> Vec<Value> {
    let groups = rule_files()
        .into_iter()
        .flat_map(|file| yaml(&read(file))["groups"].as_array().expect("groups").clone());
    groups.flat_map(|group| group["rules"].as_array().expect("rules").clone()).collect()
}

/// Names of loopwatch metrics in a PromQL expression or a template.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    text.split(|c| !is_name(c))
        .filter(|word| word.contains("loopwatch_"))
        .map(str::to_owned)
        .collect()
}

/// The names that queries may use: those of samples of metrics in the catalog, and of recorded
/// series.
fn known() -> BTreeSet<String> {
    let samples = CATALOG.iter().flat_map(|row| {
        ["", "_bucket", "_sum", "_count"].map(|suffix| format!("{}{suffix}", row.metric.name))
    });
    let recorded = rules().into_iter().filter_map(|rule| Some(rule["record"].as_str()?.to_owned()));

    samples.chain(recorded).collect()
}

#[test]
fn rules_use_only_metrics_in_the_catalog() {
    let known = known();
    for rule in rules() {
        let expr = rule["expr"].as_str().expect("an expression");
        for metric in metrics_in(expr) {
            assert!(known.contains(&metric), "{metric} is not in the catalog: {expr}");
        }

        let texts = rule["annotations"]
            .as_object()
            .into_iter()
            .flatten()
            .filter_map(|(_, text)| text.as_str());
        for metric in texts.flat_map(metrics_in) {
            assert!(known.contains(&metric), "{metric} is not in the catalog (annotation)");
        }
    }
}

/// A selector of findings in a generated alert: the names and the severities.
type FindingSelector = (Vec<String>, Vec<String>);

/// The generated alerts, with the findings that each covers.
fn covered() -> Vec<(String, Vec<FindingSelector>)> {
    let values = |text: &str, label: &str| -> Vec<String> {
        let (_, after) = text.split_once(label).unwrap_or_else(|| panic!("no {label} in {text}"));
        let quoted =
            after.trim_start_matches(['=', '~', '"']).split('"').next().unwrap_or_default();
        quoted.split('|').map(str::to_owned).collect()
    };

    let rules = rules().into_iter().filter_map(|rule| {
        let parts = rule["expr"].as_str()?.split("finding:loopwatch_findings:max{").skip(1);
        let selectors: Vec<_> =
            parts.map(|part| (values(part, "finding"), values(part, "severity"))).collect();
        (!selectors.is_empty())
            .then(|| (rule["alert"].as_str().expect("an alert").to_owned(), selectors))
    });

    rules.collect()
}

/// The names of the alerts that a finding of this severity raises.
fn alerts_of(finding: &str, severity: Severity) -> Vec<String> {
    let selects = |(names, severities): &FindingSelector| {
        names.iter().any(|name| name == finding)
            && severities.iter().any(|word| word == severity.as_str())
    };
    let rules = covered().into_iter().filter(|(_, selectors)| selectors.iter().any(selects));

    rules.map(|(rule, _)| rule).collect()
}

#[test]
fn every_finding_has_the_alert_that_its_row_names() {
    let covered = covered();
    for finding in FINDINGS {
        let own = format!("Loopwatch{}", finding.name);
        let expected: &[&str] = match finding.alert {
            Alert::Page => &[own.as_str()],
            Alert::Ticket | Alert::TicketUnlessMost => &["LoopwatchFinding"],
            Alert::None => &[],
        };

        assert_eq!(alerts_of(finding.name, finding.severity), expected, "{}", finding.name);

        let raised = if finding.alert == Alert::Page { own.as_str() } else { "LoopwatchFinding" };
        assert_eq!(
            alerts_of(finding.name, Severity::Critical),
            [raised],
            "{}, raised to critical",
            finding.name
        );
        assert_eq!(
            alerts_of(finding.name, Severity::Warning),
            ["LoopwatchFinding"],
            "{}, as warning",
            finding.name
        );

        assert!(
            alerts_of(finding.name, Severity::Info).is_empty(),
            "{}, lowered to info",
            finding.name
        );

        if finding.severity == Severity::Critical {
            assert_eq!(finding.alert, Alert::Page, "{} is critical, so it must page", finding.name);
        }

        if finding.severity == Severity::Info {
            assert_ne!(finding.alert, Alert::Page, "{} is info, so it must not page", finding.name);
        } else {
            assert_ne!(finding.alert, Alert::None, "{} is urgent, so it must alert", finding.name);
        }
    }

    let known = |name: &String| FINDINGS.iter().any(|finding| finding.name == name);
    let names = covered.iter().flat_map(|(_, selectors)| selectors).flat_map(|(names, _)| names);

    assert!(names.into_iter().all(known), "an alert on a finding that does not exist");

    let pages = FINDINGS.iter().filter(|finding| finding.alert == Alert::Page).count();
    assert!(
        pages <= 8,
        "{pages} findings page: people cannot keep so many apart; make one a ticket"
    );
}

#[test]
fn no_finding_explains_itself() {
    for finding in FINDINGS {
        let mut deeper: BTreeSet<FindingCode> = BTreeSet::new();
        let mut next = vec![finding];
        while let Some(info) = next.pop() {
            for explainer in info.explained_by {
                // A blocker is another object, further down the chain.
                let (Explainer::Subject(code)
                | Explainer::Kind(code)
                | Explainer::Reconciled(code)
                | Explainer::Operator(code)
                | Explainer::Outage(code)
                | Explainer::Controller(code)
                | Explainer::Worker(code)) = explainer
                else {
                    continue;
                };

                assert_ne!(
                    *code, finding.code,
                    "{} explains itself by way of {}",
                    finding.name, info.name
                );

                if deeper.insert(*code) {
                    next.push(code.info());
                }
            }
        }
    }
}

#[test]
fn the_objective_is_defined_in_one_place() {
    let texts = ["alerts/slo.rules.yaml", "docs/runbooks/ErrorBudgetBurn.md"].map(read).concat();
    let all = texts + &dashboards().iter().map(read).collect::<String>();

    assert_eq!(all.matches("vector(0.99)").count(), 1, "the recording rule");

    let rest = all.replace("vector(0.99)", "").replace("histogram_quantile(0.99", "");
    for copy in ["0.99", "99 %", "99%", "0.01", "1 in 100", "0.856"] {
        assert!(!rest.contains(copy), "a copy of the objective: {copy}");
    }

    let burns: Vec<Value> =
        rules().into_iter().filter(|rule| rule["alert"] == "LoopwatchErrorBudgetBurn").collect();

    assert_eq!(burns.len(), 2);

    for burn in burns {
        let expr = burn["expr"].as_str().expect("an expression");
        assert_eq!(
            expr.matches(OBJECTIVE).count(),
            expr.matches("ratio_increase").count(),
            "{expr}"
        );
    }
}

#[test]
fn every_alert_has_a_severity_texts_and_a_runbook() {
    let alerts: Vec<Value> = rules().into_iter().filter(|rule| rule["alert"].is_string()).collect();
    let covered = covered();
    for alert in &alerts {
        let name = alert["alert"].as_str().expect("a name");
        let severity = alert["labels"]["severity"].as_str().unwrap_or_default();
        let selectors =
            covered.iter().find(|(rule, _)| rule == name).map(|(_, selectors)| selectors);
        let of_findings = selectors
            .map(|all| all.iter().flat_map(|(names, _)| names.clone()).collect::<Vec<_>>());
        let taken_over = of_findings.is_some() && severity == "{{ $labels.severity }}";

        assert!(
            taken_over || ["critical", "warning", "info"].contains(&severity),
            "{name}: severity {severity:?}"
        );

        for annotation in ["summary", "description", "runbook_url"] {
            assert!(
                alert["annotations"][annotation].as_str().is_some_and(|text| !text.is_empty()),
                "{name}: no {annotation}"
            );
        }

        let url = alert["annotations"]["runbook_url"].as_str().unwrap_or_default();
        let (_, after) = url.split_once("reReplaceAll \"NAME\" ").expect("a runbook");
        let runbook = match after.split(' ').next().unwrap_or_default() {
            "$labels.finding" => "{{ $labels.finding }}",
            quoted => quoted.trim_matches('"'),
        };
        let is_on_page = url.contains(&format!("{{{{ .page_url }}}}runbooks/{runbook} "));

        assert!(is_on_page || name == "LoopwatchVanished", "{name}: {url}");

        for finding in of_findings.as_deref().unwrap_or(&[String::new()]) {
            let runbook = runbook.replace("{{ $labels.finding }}", finding);
            let file = root().join(format!("docs/runbooks/{runbook}.md"));
            assert!(file.is_file(), "{name}: {runbook} does not exist");
        }

        let expr = alert["expr"].as_str().expect("an expression");
        assert!(!expr.contains("topk"), "{name}: topk is fragile in alerts");
        assert!(
            !alert["labels"].to_string().contains("$value"),
            "{name}: each value in a label creates a new alert"
        );
    }
}

/// Returns the receiver to which the example configuration of Alertmanager routes an alert,
/// according to `amtool`.
fn receiver(alert: &str, severity: &str) -> String {
    let config = root().join("deploy/examples/prometheus/alertmanager.yml");
    receivers(&config, &[("alertname", alert), ("severity", severity)])
}

/// Returns the receivers to which a configuration of Alertmanager routes an alert with these
/// labels, according to `amtool`.
fn receivers(config: &Path, labels: &[(&str, &str)]) -> String {
    let labels = labels.iter().map(|(name, value)| format!("{name}={value}"));
    let config = format!("--config.file={}", config.display());
    let output = std::process::Command::new("amtool")
        .args(["config", "routes", "test", &config])
        .args(labels)
        .output();
    let output = output.expect("amtool runs: apt-get install prometheus-alertmanager");

    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn the_example_of_alertmanager_routes_every_alert() {
    let mut routed = 0;
    for rule in rules() {
        let Some(alert) = rule["alert"].as_str() else { continue };

        // The generated ticket has the severity of its findings.
        let severities = match rule["labels"]["severity"].as_str().expect("a severity") {
            "{{ $labels.severity }}" => vec!["critical", "warning"],
            severity => vec![severity],
        };
        for severity in severities {
            let expected = match severity {
                "critical" => "pager",
                "warning" => "tickets",
                "info" => "none",
                other => panic!("{alert}: {other}"),
            };

            assert_eq!(receiver(alert, severity), expected, "{alert} {severity}");

            routed += 1;
        }
    }

    assert!(routed >= 15, "{routed}");
    assert_eq!(receiver("LoopwatchWatchdog", "none"), "heartbeat", "loopwatch posts it itself");
}

/// Checks that the `PrometheusRule` at `path` has the groups of these rule files.
fn expect_generated(path: &str, name: &str, files: &[&str], from: &str) {
    let mut text = format!(
        "# Generated from {from}; do not edit.\napiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\n"
    );
    text.push_str(&format!("metadata:\n  name: {name}\nspec:\n  groups:\n"));
    for file in files {
        let rules = read(file);
        let (_, groups) = rules.split_once("groups:\n").expect("groups");
        for line in groups.lines() {
            text.push_str(if line.is_empty() { "" } else { "  " });
            text.push_str(line);
            text.push('\n');
        }
    }

    if std::env::var_os("UPDATE").is_some() {
        fs::write(root().join(path), &text).expect("written");
    }

    assert!(yaml(&read(path)) == yaml(&text), "{path} is out of date; run with UPDATE=1");
}

#[test]
fn the_prometheus_rules_are_generated_from_the_rule_files() {
    let files = ["slo", "sli", "findings", "self"].map(|file| format!("alerts/{file}.rules.yaml"));
    assert_eq!(files.len(), rule_files().len());

    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let path = "deploy/components/monitoring/prometheusrule.yaml";
    expect_generated(path, "loopwatch", &files, "alerts/*.rules.yaml");

    let (path, file) = (
        "deploy/components/tenant-alerts/prometheusrule.yaml",
        "alerts/tenants/tenants.rules.yaml",
    );

    expect_generated(path, "loopwatch-tenants", &[file], file);
}

#[test]
fn dashboards_use_only_metrics_in_the_catalog() {
    let known = known();
    for file in &dashboards() {
        let dashboard: Value = serde_json::from_str(&read(file)).expect("JSON");
        assert_eq!(&format!("dashboards/{}.json", dashboard["uid"].as_str().expect("a uid")), file);

        let panels = bundled::panels(&dashboard);
        assert!(panels.len() > 10, "{file}: {} panels", panels.len());

        for target in panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten() {
            let expr = target["expr"].as_str().unwrap_or_default();
            assert!(metrics_in(expr).iter().all(|metric| known.contains(metric)), "{file}: {expr}");
        }
    }
}

/// The files of all dashboards.
fn dashboards() -> Vec<String> {
    let entries = fs::read_dir(root().join("dashboards"))
        .expect("dashboards")
        .map(|entry| entry.expect("an entry"));
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut files: Vec<String> = names
        .filter(|name| name.ends_with(".json"))
        .map(|name| format!("dashboards/{name}"))
        .collect();

    files.sort();
    files
}

#[test]
fn every_dashboard_is_installed_and_has_the_variables_of_the_others() {
    let kustomization = yaml(&read("dashboards/kustomization.yaml"));
    let generated: BTreeSet<String> = kustomization["configMapGenerator"]
        .as_array()
        .expect("generators")
        .iter()
        .map(|generator| format!("dashboards/{}", generator["files"][0].as_str().expect("a file")))
        .collect();

    assert_eq!(generated, dashboards().into_iter().collect());

    let printed =
        std::process::Command::new(env!("CARGO_BIN_EXE_loopwatch")).arg("dashboards").output();
    let printed: Value =
        serde_json::from_slice(&printed.expect("loopwatch runs").stdout).expect("JSON");
    let printed = printed.as_array().expect("an array");

    assert_eq!(printed.len(), generated.len());

    for dashboard in printed {
        let file = format!("dashboards/{}.json", dashboard["uid"].as_str().expect("a uid"));
        assert_eq!(
            *dashboard,
            serde_json::from_str::<Value>(&read(&file)).expect("JSON"),
            "{file}"
        );

        let variables = |dashboard: &Value| {
            dashboard["templating"]["list"].as_array().cloned().unwrap_or_default()
        };

        // Links keep the values of variables, so that all dashboards need the same ones. One may
        // have more.
        assert!(variables(dashboard).starts_with(&variables(&printed[0])), "{file}");
    }
}

#[test]
fn the_dashboard_of_objects_shows_all_findings_and_metrics_of_its_areas() {
    let areas = ["deletion", "ownership", "references"];
    let of_areas = FINDINGS
        .iter()
        .filter(|finding| areas.contains(&finding.area.as_str()))
        .map(|finding| finding.name);
    let of_areas = of_areas.collect::<Vec<_>>().join("|");
    let file = "dashboards/loopwatch-objects.json";
    let selectors = |text: &str| -> BTreeSet<String> {
        let parts = text.split(",finding=~\\\"").skip(1);
        parts.filter_map(|part| Some(part.split_once('\\')?.0.to_owned())).collect()
    };

    let text = read(file);
    assert_eq!(selectors(&text), BTreeSet::from([of_areas]), "{file} shows other findings");

    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let exprs = bundled::panels(&dashboard)
        .iter()
        .map(|panel| panel["targets"].to_string())
        .collect::<String>();
    let shown = metrics_in(&exprs);
    let sections = ["Deletion", "Ownership", "References"];

    for row in CATALOG.iter().filter(|row| sections.contains(&row.metric.section)) {
        let name = row.metric.name;
        assert!(
            shown.iter().any(|metric| metric.trim_end_matches("_bucket") == name),
            "no panel shows {name}"
        );
    }
}

#[test]
fn the_sidecar_has_no_gating_probes_and_roles_are_read_only() {
    let sidecar = read("deploy/components/sidecar/sidecar.yaml");
    assert!(sidecar.contains("restartPolicy: Always"), "a native sidecar");

    for probe in ["readinessProbe", "startupProbe"] {
        let used = sidecar.lines().any(|line| line.trim_start().starts_with(probe));
        assert!(!used, "a {probe} would delay the operator");
    }

    let mut rules = 0;
    for folder in ["deploy/base", "deploy/cluster", "deploy/components"] {
        for file in files_with(&root().join(folder), "yaml", &[]) {
            for document in documents(&fs::read_to_string(&file).expect("readable")) {
                for rule in document["rules"].as_array().into_iter().flatten() {
                    let verbs: Vec<&str> = rule["verbs"]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .filter_map(Value::as_str)
                        .collect();

                    let reviews =
                        rule["resources"].as_array().into_iter().flatten().all(|r| {
                            r.as_str().is_some_and(|resource| resource.ends_with("reviews"))
                        });
                    let reads = verbs.iter().all(|verb| ["get", "list", "watch"].contains(verb));

                    assert!(
                        reads || (reviews && verbs == ["create"]),
                        "{}: {rule}",
                        file.display()
                    );

                    rules += 1;
                }
            }
        }
    }

    assert!(rules >= 5, "only {rules} rules of roles found");
}

/// The rules in the roles of a component.
struct Granted(Vec<Value>);

impl Granted {
    fn by(component: &str) -> Self {
        let text = read(format!("deploy/components/{component}/reader.yaml"));
        let rules = documents(&text).into_iter().filter_map(|it| it["rules"].as_array().cloned());
        Self(rules.flatten().collect())
    }

    fn allows(&self, verb: &str, group: &str, resource: &str) -> bool {
        let has = |list: &Value, word: &str| {
            list.as_array().is_some_and(|list| list.iter().any(|entry| entry == word))
        };

        self.0.iter().any(|rule| {
            has(&rule["apiGroups"], group)
                && has(&rule["resources"], resource)
                && has(&rule["verbs"], verb)
        })
    }
}

#[test]
fn reader_rights_cover_dependents_and_no_contents() {
    let granted = Granted::by("reader-rights");
    expect_dependents_without_contents(&granted);

    let allows = |verb: &str, group: &str, resource: &str| granted.allows(verb, group, resource);
    assert!(allows("get", "", "namespaces"), "to read what blocks the deletion of a namespace");

    let metrics = |rule: &&Value| !rule["nonResourceURLs"].is_null();
    let rule = granted.0.iter().find(metrics).expect("a rule for the operator's metrics");

    assert_eq!(
        (rule["nonResourceURLs"].to_string(), rule["verbs"].to_string()),
        (r#"["/metrics"]"#.into(), r#"["get"]"#.into())
    );
}

#[test]
fn the_namespaced_reader_rights_are_a_role_that_covers_the_same_kinds() {
    let text = read("deploy/components/reader-rights-namespaced/reader.yaml");
    let kinds: Vec<String> =
        documents(&text).iter().map(|it| it["kind"].as_str().unwrap_or_default().into()).collect();
    assert_eq!(kinds, ["Role", "RoleBinding"], "nothing for the whole cluster");

    let (namespaced, all) = (Granted::by("reader-rights-namespaced"), Granted::by("reader-rights"));
    expect_dependents_without_contents(&namespaced);
    for rule in &namespaced.0 {
        assert!(all.0.contains(rule), "only the other component grants {rule}");
    }

    let left_out: Vec<String> =
        all.0.iter().filter(|rule| !namespaced.0.contains(rule)).map(Value::to_string).collect();
    let of_cluster =
        ["customresourcedefinitions", "webhookconfigurations", "namespaces", "/metrics"];
    assert_eq!(left_out.len(), of_cluster.len(), "{left_out:?}");
    assert!(
        left_out.iter().zip(of_cluster).all(|(rule, word)| rule.contains(word)),
        "{left_out:?}"
    );
}

/// Expects the permissions to read the operator's Pods and the dependents of its objects, and none
/// to read objects with contents to protect.
fn expect_dependents_without_contents(granted: &Granted) {
    let allows = |verb: &str, group: &str, resource: &str| granted.allows(verb, group, resource);

    // The kinds of `created_for` in `src/sources/probes/object_lookups/dependents.rs`.
    for (group, resource) in [
        ("apps", "replicasets"),
        ("apps", "controllerrevisions"),
        ("", "pods"),
        ("", "persistentvolumeclaims"),
        ("batch", "jobs"),
        ("discovery.k8s.io", "endpointslices"),
    ] {
        assert!(allows("get", group, resource) && allows("list", group, resource), "{resource}");
    }

    for resource in ["deployments", "statefulsets", "daemonsets"] {
        assert!(allows("get", "apps", resource), "to read the operator's workload");
    }

    assert!(
        allows("list", "", "pods") && allows("watch", "", "pods"),
        "to follow the operator's Pods"
    );
    assert!(
        allows("list", "events.k8s.io", "events") && allows("watch", "events.k8s.io", "events"),
        "to count and show Events"
    );

    assert!(!allows("get", "events.k8s.io", "events"), "nothing reads single Events");

    for resource in ["secrets", "configmaps", "*"] {
        assert!(
            !allows("get", "", resource) && !allows("list", "", resource),
            "{resource} have contents to protect"
        );
    }
}

#[test]
fn the_role_of_the_cluster_mode_covers_dependents_and_rights_and_no_contents() {
    let role = yaml(&read("deploy/cluster/operators.yaml"));
    let granted = Granted(role["rules"].as_array().cloned().unwrap_or_default());
    expect_dependents_without_contents(&granted);

    for resource in ["roles", "rolebindings", "clusterroles", "clusterrolebindings"] {
        let allows = |verb: &str| granted.allows(verb, "rbac.authorization.k8s.io", resource);
        assert!(allows("list") && allows("watch"), "to learn which kinds an operator owns");
    }

    // A wildcard includes subresources, and whoever may `get` nodes/proxy can run commands.
    let all = yaml(&read("deploy/components/read-all-kinds/kinds.yaml"));
    let everything = serde_json::json!({
        "apiGroups": ["*"], "resources": ["*"], "verbs": ["list", "watch"]
    });
    assert_eq!(all["rules"], serde_json::json!([everything]));
}

/// Kubernetes fills in the role of the kinds from the roles with one of its labels.
#[test]
fn the_cluster_mode_selects_the_roles_for_kinds_by_their_labels() {
    let role = &documents(&read("deploy/cluster/kinds.yaml"))[0];
    assert!(role["rules"].is_null(), "the control plane would overwrite them");
    let selectors = &role["aggregationRule"]["clusterRoleSelectors"];
    assert_eq!(
        selectors[0]["matchLabels"],
        serde_json::json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"})
    );

    for file in ["examples/cluster", "components/read-all-kinds"] {
        let added = yaml(&read(format!("deploy/{file}/kinds.yaml")));
        assert_eq!(added["metadata"]["labels"], selectors[1]["matchLabels"], "{file}");
        assert!(added["rules"].as_array().is_some_and(|rules| !rules.is_empty()), "{file}");
    }
}

#[test]
fn the_manifests_mount_an_optional_config_map_where_run_looks_for_its_file() {
    for (file, containers) in [
        ("deploy/components/sidecar/sidecar.yaml", "initContainers"),
        ("deploy/base/deployment.yaml", "containers"),
    ] {
        let spec = &yaml(&read(file))["spec"]["template"]["spec"];
        let mount = &spec[containers][0]["volumeMounts"][0];

        assert_eq!(mount["mountPath"], "/etc/loopwatch", "{file}");
        assert!(mount["subPath"].is_null(), "{file}: the kubelet does not update a subPath");

        let volume = &spec["volumes"][0];
        assert_eq!(volume["name"], mount["name"], "{file}");
        assert_eq!(volume["configMap"]["name"], "loopwatch", "{file}");
        assert_eq!(
            volume["configMap"]["optional"],
            Value::Bool(true),
            "{file}: the Pod must start without it"
        );
    }

    let help = std::process::Command::new(env!("CARGO_BIN_EXE_loopwatch"))
        .args(["run", "--help"])
        .output();
    let help = String::from_utf8_lossy(&help.expect("loopwatch runs").stdout).into_owned();

    assert!(
        help.split_whitespace().any(|word| word.starts_with("/etc/loopwatch/config.yaml")),
        "{help}"
    );
}

#[test]
fn the_policy_injects_the_sidecar_of_the_component() {
    let policy = yaml(&read("deploy/injection/policy.yaml"));
    let variables = policy["spec"]["variables"].as_array().expect("variables");

    // Apart from `dyn`, the expressions without a call are YAML.
    let literal = |name: &str| -> Value {
        let found = variables.iter().find(|variable| variable["name"] == name);
        let found = found.unwrap_or_else(|| panic!("no variable {name}"));
        let text = found["expression"].as_str().expect("an expression");

        yaml(&text.replace("dyn(", "").replace(')', ""))
    };

    let fields = literal("fields");
    let env = fields.as_array().into_iter().flatten().map(|pair| {
        serde_json::json!({"name": pair[0], "valueFrom": {"fieldRef": {"fieldPath": pair[1]}}})
    });
    let mut sidecar = literal("sidecar");
    sidecar["env"] = env.collect();
    sidecar["image"] = literal("image");
    sidecar["resources"] = literal("resources");

    let component = yaml(&read("deploy/components/sidecar/sidecar.yaml"));
    let template = &component["spec"]["template"];
    assert_eq!(sidecar, template["spec"]["initContainers"][0]);
    assert_eq!(literal("volume"), template["spec"]["volumes"][0]);
    assert_eq!(literal("settings"), serde_json::json!([]), "the component has no settings");
    assert_eq!(template["metadata"]["labels"], serde_json::json!({"loopwatch/scrape": "true"}));

    // The patches in the documents name these by their position.
    let first: Vec<&Value> = variables.iter().take(3).map(|variable| &variable["name"]).collect();
    assert_eq!(first, ["image", "resources", "settings"]);
    assert_eq!(policy["spec"]["failurePolicy"], "Ignore", "a Pod must start nevertheless");
}

#[test]
fn the_tls_component_mounts_what_its_file_names() {
    let template = &yaml(&read("deploy/components/tls/tls.yaml"))["spec"]["template"];
    let container = &template["spec"]["initContainers"][0];
    let mount = &container["volumeMounts"][0];
    let sources = &template["spec"]["volumes"][0]["projected"]["sources"];
    assert_eq!(mount["name"], template["spec"]["volumes"][0]["name"]);
    assert!(mount["subPath"].is_null(), "the kubelet does not update a subPath");

    let item = &sources[0]["downwardAPI"]["items"][0];
    let variable = &container["env"][0];
    assert_eq!(variable["name"], "LOOPWATCH_WEB_CONFIG_FILE");
    assert_eq!(
        variable["value"].as_str().expect("a path"),
        format!(
            "{}/{}",
            mount["mountPath"].as_str().expect("a path"),
            item["path"].as_str().expect("a path")
        )
    );
    assert_eq!(item["fieldRef"]["fieldPath"], "metadata.annotations['loopwatch/web-config']");
    assert_eq!(sources[1]["secret"]["optional"], Value::Bool(true), "the Pod starts without it");

    let file = template["metadata"]["annotations"]["loopwatch/web-config"].as_str();
    let tls = &yaml(file.expect("the file"))["tls_server_config"];
    assert_eq!((&tls["cert_file"], &tls["key_file"]), (&"tls.crt".into(), &"tls.key".into()));
}

#[test]
fn the_standalone_example_with_tls_does_what_the_components_do_for_the_sidecar() {
    let example = |file: &str| read(format!("deploy/examples/standalone-tls/{file}"));
    let component = |file: &str| read(format!("deploy/components/{file}"));

    let ours = &yaml(&example("deployment.yaml"))["spec"]["template"];
    let tls = &yaml(&component("tls/tls.yaml"))["spec"]["template"];
    let tokens = &yaml(&component("web-auth/web-auth.yaml"))["spec"]["template"];
    assert_eq!(ours["metadata"], tls["metadata"]);
    assert_eq!(ours["spec"]["volumes"], tls["spec"]["volumes"]);

    let (our, of_tls, of_tokens) = (
        &ours["spec"]["containers"][0],
        &tls["spec"]["initContainers"][0],
        &tokens["spec"]["initContainers"][0],
    );
    let base = yaml(&read("deploy/base/deployment.yaml"));
    assert_eq!(our["name"], base["spec"]["template"]["spec"]["containers"][0]["name"]);
    assert_eq!(our["volumeMounts"], of_tls["volumeMounts"]);
    assert_eq!(our["env"][0], of_tls["env"][0]);
    assert_eq!(our["env"][1], of_tokens["env"][0]);

    let operations = |text: &str| yaml(text).as_array().expect("a JSON patch").clone();
    let both = ["tls/podmonitor.yaml", "web-auth/podmonitor.yaml"].map(component);
    assert_eq!(
        operations(&example("podmonitor.yaml")),
        both.map(|text| operations(&text)).concat()
    );

    let [ours, theirs] =
        [example("reviews.yaml"), component("web-auth/reviews.yaml")].map(|text| documents(&text));
    assert_eq!(ours[0], theirs[0], "the ClusterRole");

    let account = yaml(&read("deploy/base/serviceaccount.yaml"));
    assert_eq!(ours[1]["subjects"][0]["name"], account["metadata"]["name"]);
}

#[test]
fn the_network_policy_closes_the_port_of_the_metrics_and_no_other() {
    let policy = yaml(&read("deploy/components/network-policy/networkpolicy.yaml"));
    let sidecar = yaml(&read("deploy/components/sidecar/sidecar.yaml"));
    let template = &sidecar["spec"]["template"];
    let port = &template["spec"]["initContainers"][0]["ports"][0]["containerPort"];
    let port = port.as_u64().expect("a port");

    let labels = &template["metadata"]["labels"];
    assert_eq!(policy["spec"]["podSelector"]["matchLabels"], *labels);

    let [prometheus, others] = policy["spec"]["ingress"].as_array().expect("rules").as_slice()
    else {
        panic!("{policy}")
    };
    assert_eq!(prometheus["ports"][0]["port"], port);
    assert!(prometheus["from"][0]["namespaceSelector"].is_object());

    let open = |protocol: &str, wanted: u64| {
        let ports = others["ports"].as_array().into_iter().flatten();
        ports.filter(|range| range["protocol"] == protocol).any(|range| {
            let (first, last) = (range["port"].as_u64(), range["endPort"].as_u64());
            first.zip(last).is_some_and(|(first, last)| (first..=last).contains(&wanted))
        })
    };
    assert!(others["from"].is_null(), "as without a policy");
    for other in (1..=65535).filter(|other| *other != port) {
        assert!(open("TCP", other), "{other}");
    }
    assert!(!open("TCP", port) && open("UDP", port) && open("SCTP", port));
}

/// The kind by which the components find the operator: kustomize prints it if there is none.
const OPERATOR: &str = "OneWorkloadWithLabel-loopwatch/sidecar=true";

fn component(name: &str) -> Value {
    yaml(&read(format!("deploy/components/{name}/kustomization.yaml")))
}

/// The patches of a component whose target has a selector of labels.
fn patches_of_workloads(component: &Value) -> Vec<Value> {
    let patches = component["patches"].as_array().into_iter().flatten();
    patches.filter(|patch| !patch["target"]["labelSelector"].is_null()).cloned().collect()
}

#[test]
fn all_components_change_the_workloads_that_the_sidecar_is_in() {
    let chosen = patches_of_workloads(&component("sidecar"))[0]["target"].clone();
    assert_eq!(
        chosen,
        serde_json::json!({"group": "apps", "kind": "(Deployment|StatefulSet)",
            "labelSelector": "loopwatch/sidecar in (true, additional)"})
    );

    for name in ["process", "tls", "web-auth"] {
        let patches = patches_of_workloads(&component(name));
        assert!(!patches.is_empty(), "{name}");
        assert!(patches.iter().all(|patch| patch["target"] == chosen), "{name}: {patches:?}");
    }
}

#[test]
fn every_namespaced_object_of_a_component_takes_the_namespace_of_the_operator() {
    let cluster_wide = ["ClusterRole", "ClusterRoleBinding", "Kustomization", "Component"];
    let mut checked = 0;
    for entry in fs::read_dir(root().join("deploy/components")).expect("components") {
        let name = entry.expect("an entry").file_name().to_string_lossy().into_owned();
        let component = component(&name);
        let targets: Vec<&Value> = component["replacements"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|it| it["source"]["kind"] == OPERATOR)
            .filter(|it| it["source"]["fieldPath"] == "metadata.namespace")
            .flat_map(|it| it["targets"].as_array().into_iter().flatten())
            .collect();

        let resources: Vec<&str> = component["resources"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let files = resources.iter().filter(|path| path.ends_with(".yaml"));
        let mut objects: Vec<(String, String)> = files
            .flat_map(|path| documents(&read(format!("deploy/components/{name}/{path}"))))
            .map(|it| (it["kind"].to_string(), it["metadata"]["name"].to_string()))
            .map(|(kind, name)| (kind.replace('"', ""), name.replace('"', "")))
            .filter(|(kind, _)| !cluster_wide.contains(&kind.as_str()))
            .collect();
        if resources.contains(&"../../../dashboards") {
            objects
                .extend(bundled::DASHBOARDS.map(|name| ("ConfigMap".to_owned(), name.to_owned())));
        }

        for (kind, object) in objects {
            let takes = |target: &&Value| {
                target["select"]["kind"] == kind
                    && target["select"]["name"] == object
                    && target["fieldPaths"].to_string().contains("\"metadata.namespace\"")
            };
            assert!(targets.iter().any(takes), "{name}: {kind} {object}");
            checked += 1;
        }
    }

    assert!(checked >= 10, "only {checked} objects");
}

#[test]
fn the_process_component_shares_processes_as_one_user_without_privileges() {
    let spec = &yaml(&read("deploy/components/process/process.yaml"))["spec"]["template"]["spec"];
    assert_eq!(spec["shareProcessNamespace"], Value::Bool(true));

    let sidecar = &yaml(&read("deploy/components/sidecar/sidecar.yaml"))["spec"]["template"]["spec"]
        ["initContainers"];
    let container = &spec["initContainers"][0];

    assert_eq!(container["name"], sidecar[0]["name"], "it patches the sidecar");

    let context = container["securityContext"].as_object().expect("a security context");
    assert!(
        context.keys().all(|key| ["runAsUser", "runAsGroup"].contains(&key.as_str())),
        "no privilege: {context:?}"
    );

    // The image runs as the same user, and so do the images of Kubebuilder.
    let image = read("deploy/Dockerfile");
    let (user, group) = (&context["runAsUser"], &context["runAsGroup"]);

    assert!(image.contains(&format!("USER {user}:{group}")), "{context:?}");

    let (mount, volume) = (&container["volumeMounts"][0], &spec["volumes"][0]);
    assert_eq!((&mount["mountPath"], &mount["name"]), (&Value::from("/profiles"), &volume["name"]));
    assert!(volume["emptyDir"]["sizeLimit"].is_string(), "{volume}");

    let page = read("docs/process.md");
    for word in
        ["process 1", "runAsUser", "environment", "must trust each other", "--pid", "OpenShift"]
    {
        assert!(page.contains(word), "docs/process.md does not mention {word}");
    }
}

/// All files below a folder, without those that builds create.
fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    let mut files = Vec::new();
    for entry in entries {
        let (path, is_folder) = (entry.path(), entry.file_type().expect("a type").is_dir());
        match entry.file_name().to_str() {
            Some(".git" | "target") => {}
            _ if is_folder => files.extend(files_in(&path)),
            _ => files.push(path),
        }
    }

    files
}

/// The files below a folder with this extension, without those in folders, or of names, to leave out.
fn files_with(folder: &Path, extension: &str, without: &[&str]) -> Vec<PathBuf> {
    let is_left_out = |path: &Path| {
        let below = path.strip_prefix(folder).expect("a file below");
        below.iter().any(|part| without.iter().any(|name| part == *name))
    };

    let files = files_in(folder).into_iter();
    let files = files.filter(|file| file.extension().is_some_and(|found| found == extension));
    files.filter(|file| !is_left_out(file)).collect()
}

#[test]
fn every_setting_is_documented_with_its_default_and_its_bounds() {
    use loopwatch_model::settings::Settings;
    use loopwatch_model::settings::bounds::Bounds;

    use loopwatch_model::time::Span;

    let page = read("docs/tuning.md");
    let documented: Vec<[String; 3]> = page
        .lines()
        .filter_map(|line| {
            let mut cells = line.split('|').map(str::trim).skip(1);
            let name = cells.next()?.strip_prefix('`')?.strip_suffix('`')?;
            Some([name.to_owned(), cells.next()?.to_owned(), cells.next()?.to_owned()])
        })
        .collect();

    let all = serde_json::to_value(Settings::default()).expect("JSON");
    let settings = all.as_object().expect("settings").iter();
    let limits = all["limits"].as_object().expect("limits").iter();
    let mut checked = 0;

    for (name, value) in settings.chain(limits) {
        // `deadline` and `deadlines` have a text of their own.
        if ["deadline", "deadlines", "limits"].contains(&name.as_str()) {
            continue;
        }

        let (default, bounds) = match value.as_str() {
            Some(text) => match Span::parse(text) {
                Ok(span) => (span.to_string(), Bounds::of_duration(name).to_string()),
                Err(_) => (text.to_owned(), "any text".to_owned()),
            },
            None => (value.to_string(), Bounds::of_number(name).to_string()),
        };

        assert!(
            documented.contains(&[name.clone(), default.clone(), bounds.clone()]),
            "docs/tuning.md lacks | `{name}` | {default} | {bounds} |"
        );

        checked += 1;
    }

    assert!(checked > 20, "{checked}");
}

#[test]
fn the_model_has_no_dependencies_that_do_io() {
    let manifest = read("model/Cargo.toml");
    let (_, dependencies) = manifest.split_once("[dependencies]").expect("dependencies");
    let (dependencies, _) =
        dependencies.split_once("[dev-dependencies]").expect("dev-dependencies");
    let names: Vec<&str> = dependencies
        .lines()
        .filter_map(|line| line.split([' ', '.', '=']).next())
        .filter(|n| !n.is_empty())
        .collect();

    assert_eq!(names, ["arrayvec", "hashbrown", "jiff", "serde"]);
}

/// `cargo test --test live frameworks` compares the files behind it with reality.
#[test]
fn the_table_of_frameworks_is_generated_from_runs() {
    const BEGIN: &str = "<!-- frameworks -->\n";

    const END: &str = "<!-- end of frameworks -->";

    let file = "docs/operator.md";
    let text = read(file);
    let (before, rest) = text.split_once(BEGIN).expect("the beginning of the table");
    let (_, after) = rest.split_once(END).expect("the end of the table");
    let wanted = format!("{before}{BEGIN}{}{END}{after}", loopwatch_testbed::verdicts::table());

    if std::env::var_os("UPDATE").is_some() {
        fs::write(root().join(file), &wanted).expect(file);
    }

    assert!(read(file) == wanted, "{file} is out of date; run with UPDATE=1");
}

/// Otherwise, the image could not be built.
#[test]
fn the_context_of_the_image_has_every_file_that_the_program_includes() {
    let ignored = read("deploy/Dockerfile.dockerignore");
    let context: Vec<PathBuf> =
        ignored.lines().filter_map(|line| Some(root().join(line.strip_prefix('!')?))).collect();

    let mut checked = 0;
    for file in files_with(&root().join("src"), "rs", &["tests", "tests.rs"]) {
        let text = fs::read_to_string(&file).expect("a source");
        let program = text.split("#[cfg(test)]").next().unwrap_or_default();
        let included =
            ["include_bytes!(\"", "include_str!(\""].map(|macro_| program.split(macro_).skip(1));

        for rest in included.into_iter().flatten() {
            let name = rest.split('"').next().expect("the end of a path");
            let path = file.parent().expect("a folder").join(name).canonicalize().expect(name);
            let copied = context.iter().any(|part| path.starts_with(part));

            assert!(copied, "{} includes {}", file.display(), path.display());
            checked += 1;
        }
    }

    assert!(checked > 5, "{checked}");
}
