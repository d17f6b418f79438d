//! The panels of open findings, with which each dashboard begins.

use loopwatch_model::finding::{Area, Severity};

use super::panels::{Column, Panel, lines, table};
use super::queries::{ages, by, details, findings, legend, of_areas, urgency};

/// A link to the page of loopwatch. The query builds the address.
pub(super) const TO_PAGE: &str = "${__data.fields.link:raw}";

/// A link to a runbook. The query builds the address.
pub(super) const TO_RUNBOOK: &str = "${__data.fields.runbook:raw}";

/// The columns of the operator. The last one is visible only if a series has the label `operator`.
pub(super) fn operator_columns() -> [Column; 3] {
    [
        Column::new("cluster", "Cluster"),
        Column::new("namespace", "Operator namespace"),
        Column::new("operator", "Operator"),
    ]
}

/// The open findings of these areas, or of all, the most urgent first.
pub(super) fn open_findings(areas: Option<&[Area]>) -> Panel {
    let matchers = areas.map(of_areas).unwrap_or_default();
    let severities = Severity::ALL.map(Severity::as_str);
    let [cluster, namespace, operator] = operator_columns();
    let columns = vec![
        Column::new("severity", "Severity").wide(90).words(&severities),
        Column::new("finding", "Finding").wide(220).link("Runbook", TO_RUNBOOK),
        Column::new("kind", "Kind"),
        Column::new("target_namespace", "Namespace"),
        Column::new("name", "Name").link("On the page of loopwatch", TO_PAGE),
        Column::new("Value #A", "Age").unit("s").wide(110),
        Column::new("actor", "Actor"),
        Column::new("finalizer", "Finalizer"),
        Column::new("blocker_kind", "Blocking kind"),
        Column::new("blocker_name", "Blocked by"),
        Column::new("root", "Explained by"),
        cluster,
        namespace,
        operator,
        Column::hidden("job"),
        Column::hidden("group"),
        Column::hidden("link"),
        Column::hidden("runbook"),
    ];

    let queries = [ages(&matchers), urgency(&matchers), details(&matchers)];
    let description = "Open findings: critical ones first, the oldest of a severity first. Another finding explains those with \
        \"Explained by\", which raise no alert. A finding links to its runbook, and a name to the page of loopwatch: at the address of \
        --external-url, otherwise at that of `kubectl port-forward … 9917:9918`. Findings about the operator and about loopwatch stay \
        visible if you select a namespace, group or kind.";

    table("Open findings", description, &queries, Some("Value #B"), columns)
        .wide(24)
        .high(10)
        .unit("short")
        .none("No findings")
}

/// The number of open findings over time.
pub(super) fn findings_over_time(areas: Option<&[Area]>) -> Panel {
    let description = "Findings that are confirmed and that no other finding explains: the ones that may raise an alert.";
    let panel = lines("Open findings over time", description, "findings").stacked();

    match areas {
        None => panel
            .query(&by("sum", "severity", &findings("")), &legend("{{severity}}"))
            .words(&Severity::ALL.map(Severity::as_str)),
        Some(areas) => panel
            .query(
                &by("sum", "severity, finding", &findings(&of_areas(areas))),
                &legend("{{finding}} ({{severity}})"),
            )
            .wide(24),
    }
}
