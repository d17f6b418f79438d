//! Computes the longest time from a fault to its notification, for both ways of alerting, with
//! default settings and the examples in `deploy/`. `docs/alerts.md` has the results in a
//! table, which this test checks.

use std::path::Path;

use loopwatch_model::finding::HOLD;
use loopwatch_model::settings::Settings;
use loopwatch_model::time::Span;
use serde_json::Value;

use crate::export::delivery::alertmanager::EVALUATE_EVERY;
use crate::sources::operator::DEFAULT_INTERVAL;

/// The time within which prompt faults must page: 2.4 minutes, the best time that another tool
/// claims.
const QUOTED: Span = Span::secs(144);

/// A row of the table.
struct Row {
    fault: &'static str,
    finding: &'static str,
    severity: &'static str,
    /// From the fault to the finding.
    opens_after: Span,
    /// Whether the fault must page within [`QUOTED`].
    prompt: bool,
}

fn rows() -> Vec<Row> {
    let settings = Settings::default();
    let row = |fault, finding, severity, opens_after, prompt| Row {
        fault,
        finding,
        severity,
        opens_after,
        prompt,
    };

    let gone = settings.operator_gone_after();
    let scraped = Span(i64::try_from(DEFAULT_INTERVAL.as_millis()).expect("a short time"));
    vec![
        row(
            "all containers of the operator have ended for good",
            "OperatorDown",
            "critical",
            gone,
            true,
        ),
        row("the operator crashes again and again", "RestartLoop", "critical", gone, true),
        row(
            "the kernel kills it for its memory at each start",
            "StartupOutOfMemory",
            "critical",
            gone,
            true,
        ),
        row("a reconcile panics", "ReconcilePanicking", "warning", scraped, true),
        row(
            "it is gone, and its Pods do not show it",
            "OperatorDown",
            "critical",
            settings.operator_down_after,
            false,
        ),
        row(
            "half of its requests fail",
            "ApiErrors",
            "critical",
            settings.source_failing_after,
            false,
        ),
        row(
            "it ignores changes of many objects",
            "Unacknowledged",
            "critical",
            settings.deadline,
            false,
        ),
        row("it ignores one change", "Unacknowledged", "warning", settings.deadline, false),
        row(
            "the controller of many objects' finalizer is gone",
            "FinalizerOwnerAbsent",
            "critical",
            settings.owner_absent_after,
            false,
        ),
        row("a spec change takes too long", "Overdue", "warning", settings.deadline, false),
        row(
            "an object is no longer Ready",
            "Regressed",
            "warning",
            settings.regressed_after,
            false,
        ),
        row(
            "a finalizer blocks a deletion",
            "FinalizerStuck",
            "warning",
            settings.finalizer_stuck_after,
            false,
        ),
    ]
}

fn yaml(path: &str) -> Value {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path));
    serde_saphyr::from_str(&text.unwrap_or_else(|error| panic!("{path}: {error}"))).expect("YAML")
}

fn span(value: &Value) -> Span {
    value
        .as_str()
        .and_then(|text| Span::parse(text).ok())
        .unwrap_or_else(|| panic!("no duration: {value}"))
}

/// The waits between loopwatch and a notification.
struct Waits {
    scrape: Span,
    evaluation: Span,
    group: Span,
    rules: Vec<Value>,
}

impl Waits {
    fn of_the_examples() -> Self {
        let scrape =
            span(&yaml("deploy/examples/prometheus/prometheus.yml")["global"]["scrape_interval"]);
        let monitor = yaml("deploy/components/scrape/podmonitor.yaml");

        assert_eq!(
            span(&monitor["spec"]["podMetricsEndpoints"][0]["interval"]),
            scrape,
            "the PodMonitor differs"
        );

        let alertmanager = yaml("deploy/examples/prometheus/alertmanager.yml");
        let is_page = |route: &&Value| route["matchers"].to_string().contains("critical");
        let page = alertmanager["route"]["routes"]
            .as_array()
            .and_then(|routes| routes.iter().find(is_page));

        assert!(
            page.is_some_and(|page| page["group_wait"].is_null()),
            "pages wait as long as everything else"
        );

        let group = &yaml("alerts/findings.rules.yaml")["groups"][0];
        Self {
            scrape,
            evaluation: span(&group["interval"]),
            group: span(&alertmanager["route"]["group_wait"]),
            rules: group["rules"].as_array().expect("rules").clone(),
        }
    }

    /// Returns `for` of the rule that covers a finding with a severity.
    fn pending(&self, finding: &str, severity: &str) -> Span {
        let covers = |rule: &&Value| {
            let selectors = rule["expr"]
                .as_str()
                .expect("an expression")
                .split("finding:loopwatch_findings:max{")
                .skip(1);
            let has = |text: &str, label: &str, value: &str| {
                let matcher = text.split_once(&format!("{label}=")).map_or("", |(_, rest)| rest);
                let values = matcher
                    .trim_start_matches('~')
                    .trim_start_matches('"')
                    .split('"')
                    .next()
                    .unwrap_or("");

                values.split('|').any(|one| one == value)
            };

            selectors
                .into_iter()
                .any(|text| has(text, "finding", finding) && has(text, "severity", severity))
        };

        let rule = self
            .rules
            .iter()
            .find(covers)
            .unwrap_or_else(|| panic!("no rule for {finding} {severity}"));

        span(&rule["for"])
    }

    /// Returns the longest time through Prometheus.
    fn through_prometheus(&self, row: &Row) -> Span {
        let pending = self.pending(row.finding, row.severity);
        Span(row.opens_after.0 + self.scrape.0 + self.evaluation.0 + pending.0 + self.group.0)
    }

    /// Returns the longest time without Prometheus. Alertmanager does not delay an alert that began
    /// long enough ago.
    fn directly(&self, row: &Row) -> Span {
        let looks = HOLD.0 + i64::try_from(EVALUATE_EVERY.as_millis()).expect("a short time");
        let began_long_ago = row.opens_after.0 + HOLD.0 > self.group.0;
        Span(row.opens_after.0 + looks + if began_long_ago { 0 } else { self.group.0 })
    }
}

#[test]
fn the_table_of_times_follows_from_the_settings_and_the_rules() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/alerts.md");
    let page = std::fs::read_to_string(path).expect("the page");
    let waits = Waits::of_the_examples();

    for row in rows() {
        let (directly, through) = (waits.directly(&row), waits.through_prometheus(&row));
        let (fault, finding, severity, opens) =
            (row.fault, row.finding, row.severity, row.opens_after);
        let expected =
            format!("| {fault} | `{finding}`, {severity} | {opens} | {directly} | {through} |");
        let found = page.lines().find(|line| line.starts_with(&expected));
        let line = found
            .unwrap_or_else(|| panic!("docs/alerts.md has no row that begins with\n{expected}"));

        let measured: Vec<Span> = line[expected.len()..]
            .split('|')
            .filter_map(|cell| Span::parse(cell.trim()).ok())
            .collect();
        if row.prompt {
            assert!(directly < QUOTED && through < QUOTED, "{fault}: {directly}, {through}");
            assert!(
                measured.len() == 2 && measured[0] <= directly && measured[1] <= through,
                "{fault}: {measured:?}"
            );
        }
    }
}
