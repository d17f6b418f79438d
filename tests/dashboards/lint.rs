//! The rules of Grafana's dashboard-linter (<https://github.com/grafana/dashboard-linter>), and
//! where the dashboards deviate from them. The linter is a Go module that the module proxy does not
//! have.

use serde_json::Value;

use crate::promql::{self, Selector};

/// A deviation from a rule, for queries of panels.
pub(crate) struct Deviation {
    pub(crate) rule: &'static str,
    /// The panel; empty for all.
    pub(crate) panel: &'static str,
    pub(crate) reason: &'static str,
}

/// All deviations. A test fails if one of them is not needed.
pub(crate) const DEVIATIONS: [Deviation; 6] = [
    Deviation {
        rule: "template-instance-rule",
        panel: "",
        reason: "replicas of loopwatch export the same objects, so an instance selects nothing that a person looks for; \
                 `cluster`, `namespace`, `target_namespace`, `group` and `kind` select operators and objects instead",
    },
    Deviation {
        rule: "target-instance-rule",
        panel: "",
        reason: "as above; queries merge the instances",
    },
    Deviation {
        rule: "target-job-rule",
        panel: "Spec changes converged in time",
        reason: "the objective is one recorded series for all jobs",
    },
    Deviation {
        rule: "target-job-rule",
        panel: "Error budget",
        reason: "the objective is one recorded series for all jobs",
    },
    Deviation {
        rule: "target-job-rule",
        panel: "Kinds by cluster and version",
        reason: "the median of the clusters is one recorded series for all jobs",
    },
    Deviation {
        rule: "target-counter-agg-rule",
        panel: "Dropped by limits",
        reason: "a limit that was reached before the first scrape would not show as an increase",
    },
];

/// The units that the dashboards use, by their names in Grafana.
const UNITS: [&str; 7] = ["short", "percentunit", "s", "bytes", "ops", "reqps", "cpm"];

/// A violation: the rule, the panel, and the problem.
pub(crate) type Violation = (&'static str, String, String);

/// Returns all violations, including those that a deviation allows.
pub(crate) fn violations(dashboard: &Value) -> Vec<Violation> {
    let mut found = of_dashboard(dashboard);
    for panel in loopwatch_testbed::bundled::panels(dashboard) {
        let title = panel["title"].as_str().unwrap_or_default();
        let mut add = |rule, problem: String| found.push((rule, title.to_owned(), problem));
        of_panel(panel, &mut add);

        for target in panel["targets"].as_array().into_iter().flatten() {
            let expr = target["expr"].as_str().unwrap_or_default();
            if target["datasource"]["uid"] != "${datasource}" {
                add("panel-datasource-rule", target["datasource"].to_string());
            }

            for selector in promql::selectors(expr) {
                of_selector(&selector, &mut add);
            }
        }
    }

    found
}

fn of_dashboard(dashboard: &Value) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut add = |rule, problem: String| found.push((rule, String::new(), problem));
    if dashboard["editable"] != Value::Bool(false) {
        add("uneditable-dashboard", "it can be changed".to_owned());
    }

    let variables = dashboard["templating"]["list"].as_array().cloned().unwrap_or_default();
    let of_type = |kind: &str| {
        variables.iter().filter(|variable| variable["type"] == kind).collect::<Vec<_>>()
    };
    match of_type("datasource")[..] {
        [source] if source["name"] == "datasource" && source["label"] == "Data source" => {}
        _ => add(
            "template-datasource-rule",
            "not one data source with the usual name and label".to_owned(),
        ),
    }

    for name in ["job", "instance"] {
        let rule = if name == "job" { "template-job-rule" } else { "template-instance-rule" };
        let Some(variable) = variables.iter().find(|variable| variable["name"] == name) else {
            add(rule, format!("no variable {name}"));
            continue;
        };
        let label = format!("{}{}", name[..1].to_uppercase(), &name[1..]);
        let is_usual = variable["type"] == "query"
            && variable["datasource"]["uid"] == "${datasource}"
            && variable["label"] == label
            && variable["multi"] == Value::Bool(true)
            && variable["allValue"] == ".+";

        if !is_usual {
            add(rule, variable.to_string());
        }
    }

    for variable in of_type("query") {
        let query = variable["query"].as_str().unwrap_or_default();
        let name = variable["name"].as_str().unwrap_or_default();
        if variable["refresh"] != 2 {
            add("template-on-time-change-reload-rule", name.to_owned());
        }

        let is_call = query.starts_with("label_values(") && query.ends_with(')');
        if !is_call || variable["definition"] != variable["query"] {
            add("template-label-promql-rule", query.to_owned());
        }
    }

    found
}

fn of_panel(panel: &Value, add: &mut impl FnMut(&'static str, String)) {
    let is_text = |key: &str| panel[key].as_str().is_some_and(|text| !text.is_empty());
    if !is_text("title") || !is_text("description") {
        add("panel-title-description-rule", "no title or no description".to_owned());
    }

    if panel["datasource"]["uid"] != "${datasource}" {
        add("panel-datasource-rule", panel["datasource"].to_string());
    }

    if panel["targets"].as_array().is_none_or(Vec::is_empty) {
        add("panel-no-targets-rule", "no query".to_owned());
    }

    let overrides = panel["fieldConfig"]["overrides"].as_array().into_iter().flatten();
    let properties = overrides.filter_map(|one| one["properties"].as_array()).flatten();
    let units =
        properties.filter(|property| property["id"] == "unit").map(|property| &property["value"]);

    for unit in units.chain([&panel["fieldConfig"]["defaults"]["unit"]]) {
        if !unit.as_str().is_some_and(|unit| UNITS.contains(&unit)) {
            add("panel-units-rule", format!("unit {unit}"));
        }
    }
}

fn of_selector(selector: &Selector<'_>, add: &mut impl FnMut(&'static str, String)) {
    let Selector { metric, matchers, range, around } = selector;
    let is_called = |names: &[&str]| around.last().is_some_and(|function| names.contains(function));
    if !matchers.contains("job=~\"$job\"") {
        add("target-job-rule", (*metric).to_owned());
    }

    if !matchers.contains("instance=~\"$instance\"") {
        add("target-instance-rule", (*metric).to_owned());
    }

    if is_called(&["rate", "irate"]) && *range != Some("$__rate_interval") {
        add("target-rate-interval-rule", format!("{metric}[{}]", range.unwrap_or_default()));
    }

    if metric.ends_with("_total") && !(range.is_some() && is_called(&["rate", "irate", "increase"]))
    {
        add("target-counter-agg-rule", (*metric).to_owned());
    }

    if metric.ends_with("_bucket") && !around.contains(&"histogram_quantile") {
        add("target-histogram-rule", (*metric).to_owned());
    }
}
