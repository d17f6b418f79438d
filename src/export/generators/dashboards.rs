//! Generates the Grafana dashboards in `dashboards/`.

mod colours; // the meaning of each colour
mod panels; // panels, columns and thresholds
mod queries; // selectors, merged replicas, kept labels, links

mod clusters; // loopwatch-clusters, which is opt-in
mod findings; // the panels of open findings, which begin each dashboard
mod itself; // loopwatch-self
mod objects; // loopwatch-objects
mod overview; // loopwatch-overview
mod process; // loopwatch-process

use loopwatch_model::time::Span;
use serde_json::{Value, json};

use self::colours::Meaning;
use self::panels::{Panel, source};
use self::queries::{Scope, by, series};

/// A dashboard.
struct Dashboard {
    /// Its UID, and the name of its file.
    uid: &'static str,
    title: &'static str,
    description: &'static str,
    rows: Vec<Row>,
    /// Variables that the other dashboards do not have.
    variables: Vec<Value>,
    /// Annotations that the other dashboards do not have.
    annotations: Vec<Value>,
}

/// A row of panels, which answer the question that is its title.
struct Row {
    title: &'static str,
    /// Whether only its title is visible until somebody opens it. Grafana then asks nothing.
    is_folded: bool,
    panels: Vec<Panel>,
}

impl Dashboard {
    fn json(self) -> Value {
        let variables = [variables(), self.variables].concat();
        let annotations = [annotations(), self.annotations].concat();

        json!({
            "uid": self.uid, "title": self.title, "description": self.description,
            "tags": ["loopwatch"], "editable": false, "schemaVersion": 39, "graphTooltip": 1,
            "refresh": "30s", "time": {"from": "now-6h", "to": "now"}, "timezone": "browser",
            "links": [{"type": "dashboards", "title": "loopwatch", "tags": ["loopwatch"],
                "asDropdown": true, "includeVars": true, "keepTime": true}],
            "templating": {"list": variables},
            "annotations": {"list": annotations},
            "panels": placed(self.rows),
        })
    }
}

/// A setting as a threshold.
fn seconds(span: Span) -> f64 {
    span.0 as f64 / 1000.0
}

/// Gives each panel a place: from left to right, and below if there is no room.
fn placed(rows: Vec<Row>) -> Vec<Value> {
    let (mut placed, mut id, mut top) = (Vec::new(), 0, 0);
    for row in rows {
        id += 1;
        let mut header = json!({
            "type": "row", "id": id, "title": row.title, "collapsed": row.is_folded,
            "gridPos": {"x": 0, "y": top, "w": 24, "h": 1}, "panels": [],
        });

        let (mut left, mut line, mut height, mut panels) = (0, top + 1, 0, Vec::new());
        for panel in row.panels {
            if left + panel.width > 24 {
                (left, line, height) = (0, line + height, 0);
            }

            id += 1;
            let width = panel.width;
            height = height.max(panel.height);
            panels.push(panel.at(id, left, line));
            left += width;
        }

        top = line + height;
        if row.is_folded {
            header["panels"] = Value::Array(std::mem::take(&mut panels));
        }

        placed.push(header);
        placed.append(&mut panels);
    }

    placed
}

/// The variables that all dashboards have, so that links keep their values.
fn variables() -> Vec<Value> {
    let of_build =
        |label, matchers: &str| format!("label_values(loopwatch_build_info{matchers}, {label})");
    let of =
        |metric, label| format!("label_values({}, {label})", series(metric, Scope::Operator, ""));

    // Every operator has sources. A variable must not restrict its own values.
    let of_any_operator = series("loopwatch_source_up", Scope::Process, "");
    let queries = [
        (
            "cluster",
            "Cluster",
            ".*",
            "The label that tells your clusters apart.",
            of_build("cluster", ""),
        ),
        (
            "job",
            "Job",
            ".+",
            "The scrape job of loopwatch. With the namespace, it identifies a loopwatch.",
            of_build("job", r#"{cluster=~"$cluster"}"#),
        ),
        (
            "namespace",
            "Operator namespace",
            ".*",
            "The namespace of the operator. With --all-operators, that of loopwatch.",
            of_build("namespace", r#"{cluster=~"$cluster",job=~"$job"}"#),
        ),
        (
            "operator",
            "Operator",
            ".*",
            "The operator, as NAMESPACE/NAME. Series have this label only with --all-operators.",
            format!("label_values({of_any_operator}, operator)"),
        ),
        (
            "target_namespace",
            "Target namespace",
            ".*",
            "The namespace of the objects.",
            of("loopwatch_objects", "target_namespace"),
        ),
        (
            "group",
            "Group",
            ".*",
            "The API group of the objects.",
            of("loopwatch_deadline_seconds", "group"),
        ),
        (
            "kind",
            "Kind",
            ".*",
            "The kind of the objects.",
            of("loopwatch_deadline_seconds", "kind"),
        ),
    ];

    let source = json!({"type": "datasource", "name": "datasource", "label": "Data source",
        "query": "prometheus", "refresh": 1});
    let queries = queries.map(|(name, label, all, description, query)| {
        variable(name, label, all, description, &query)
    });

    std::iter::once(source).chain(queries).collect()
}

/// A variable that selects values of a label.
fn variable(name: &str, label: &str, all: &str, description: &str, query: &str) -> Value {
    json!({
        "type": "query", "name": name, "label": label, "description": description,
        "query": query, "definition": query, "datasource": source(),
        "current": {"selected": true, "text": "All", "value": "$__all"},
        "includeAll": true, "allValue": all, "multi": true, "refresh": 2, "sort": 1,
    })
}

/// The annotations that all dashboards have: alerts, and rollouts of the operator.
fn annotations() -> Vec<Value> {
    let alerts =
        series("ALERTS", Scope::Operator, r#"alertname=~"Loopwatch.+",alertstate="firing""#);

    // A revision that was there in the last five minutes is not new: loopwatch may have restarted.
    let info = series("loopwatch_operator_info", Scope::Operator, r#"revision!="""#);
    let labels = "revision, version, image";
    let rollouts = format!(
        "{} unless {}",
        by("max", labels, &info),
        by("max", labels, &format!("max_over_time({info}[5m] offset 1m)"))
    );

    vec![
        json!({"builtIn": 1, "datasource": {"type": "grafana", "uid": "-- Grafana --"},
            "enable": true, "hide": true, "iconColor": Meaning::Busy.colour(),
            "name": "Annotations & Alerts", "type": "dashboard"}),
        annotation(
            "Alerts firing",
            Meaning::Bad,
            &alerts,
            "{{alertname}}",
            "severity,finding,operator,group,kind,target_namespace",
        ),
        annotation(
            "Rollouts",
            Meaning::Busy,
            &rollouts,
            "New operator revision {{revision}}",
            "cluster,namespace,operator,version,image",
        ),
    ]
}

fn annotation(name: &str, meaning: Meaning, query: &str, title: &str, tags: &str) -> Value {
    json!({
        "name": name, "datasource": source(), "enable": true, "iconColor": meaning.colour(),
        "expr": query, "step": "60s", "titleFormat": title, "tagKeys": tags,
        "useValueForTime": "false",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dashboards_are_generated() {
        let each = [
            overview::dashboard(),
            objects::dashboard(),
            process::dashboard(),
            itself::dashboard(),
        ];
        let all = each.map(|dashboard| ("dashboards", dashboard));

        for (folder, dashboard) in
            all.into_iter().chain([("dashboards/clusters", clusters::dashboard())])
        {
            let file = format!("{folder}/{}.json", dashboard.uid);
            let text = serde_json::to_string_pretty(&dashboard.json()).expect("JSON");
            crate::golden::check(&file, &format!("{text}\n"));
        }
    }
}
