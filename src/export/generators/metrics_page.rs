//! Generates `docs/metrics.md` from the catalog.

use std::fmt::Write as _;

use crate::export::metrics::CATALOG;

#[must_use]
fn markdown() -> String {
    let mut page = String::from(HEAD);
    let mut section = "";
    for metric in CATALOG.iter().map(|row| &row.metric) {
        if metric.section != section {
            section = metric.section;
            let _ = write!(
                page,
                "\n## {section}\n\n| Metric | Type | Unit | Labels | Meaning | Stability |\n|---|---|---|---|---|---|\n"
            );
        }

        let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} | {} | {} |",
            metric.name,
            metric.kind.as_str(),
            metric.unit().unwrap_or("–"),
            labels.join(", "),
            metric.help,
            metric.stability.as_str(),
        );
    }

    page
}

const HEAD: &str = "\
<!-- Generated from src/export/metrics/catalog.rs by `UPDATE=1 cargo test`: do not edit. -->

# Metrics

loopwatch serves these metrics at `/metrics`, in this order, in the Prometheus text format 0.0.4 or in OpenMetrics 1.0.

- The labels `group`, `kind`, `target_namespace` and `name` identify an object. `target_namespace` is the object's
  namespace; it is empty for cluster-scoped objects. It is not called `namespace`, because Prometheus usually adds a
  label of that name for the scrape target. You therefore do not need `honorLabels`.
- If a value does not exist, there is no series. loopwatch never writes zero instead.
- A series with the value zero exists only if somebody needs it: a counter begins at zero as soon as its subject is known, because `increase()` does
  not count the first sample of a series; a histogram has all of its buckets; a gauge by reason is zero for
  each reason of its fixed list, and one by state for each state that has occurred before. Series about single objects, findings and
  revisions exist only while there is something to say.
- Only unhealthy objects have series of their own, at most `--max-object-series` per family, worst first. loopwatch
  counts the series that it leaves out in `loopwatch_dropped_total{limit=\"object_series\"}`. With
  `--object-series=all`, it also exports the metrics under \"Every object\", for all objects and without a limit.
- All replicas of an operator export the same objects. Merge gauges with `max without (pod, instance) (…)` and rates
  with `max without (pod, instance) (rate(…))`.
- The label `explained` of a finding says whether the finding counts for alerts: `false` if it does, `true` if another finding explains it, and
  `unknown` if only the loopwatch of another replica may see a cause. A finding that has counted for 15 seconds keeps `explained=\"false\"` until it closes,
  even if another finding explains it by then, so that its alert does not end before the problem. The page, the reports and the JSON API (`explained_by`)
  show the finding that explains it now.
- No label value comes from free text.
";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::export::metrics::MetricType;

    #[test]
    fn names_follow_the_conventions() {
        let mut seen = BTreeSet::new();
        for metric in CATALOG.iter().map(|row| &row.metric) {
            let name = metric.name;
            assert!(seen.insert(metric.family_name()), "{name}: the family is listed twice");
            assert!(
                name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'),
                "{name}"
            );
            assert!(
                name.starts_with("loopwatch_") || name.starts_with("process_"),
                "{name}: no prefix"
            );

            assert_eq!(
                name.ends_with("_total"),
                metric.kind == MetricType::Counter,
                "{name}: _total is for counters"
            );
            assert_eq!(
                name.ends_with("_info"),
                metric.kind == MetricType::Info,
                "{name}: _info is for info metrics"
            );

            for reserved in ["_count", "_sum", "_bucket", "_created"] {
                assert!(
                    !name.ends_with(reserved),
                    "{name}: {reserved} is reserved for histograms and counters"
                );
            }

            assert!(metric.help.ends_with('.'), "{name}: the help is a sentence");
            assert!(!metric.help.contains(['\n', '\\', '"', '|']), "{name}: the help is plain");
        }
    }

    #[test]
    fn labels_have_one_order_and_do_not_clash_with_target_labels() {
        const IDENTITY: [&str; 4] = ["group", "kind", "target_namespace", "name"];

        const TARGET: [&str; 8] =
            ["instance", "job", "service", "type_", "env", "cluster", "pod", "namespace"];

        for metric in CATALOG.iter().map(|row| &row.metric) {
            let positions: Vec<_> = metric
                .labels
                .iter()
                .map(|label| IDENTITY.iter().position(|i| i == label).unwrap_or(4))
                .collect();

            assert!(positions.is_sorted(), "{}: {:?}", metric.name, metric.labels);

            let different: BTreeSet<_> = metric.labels.iter().collect();
            assert_eq!(different.len(), metric.labels.len(), "{}: a duplicate label", metric.name);

            for label in metric.labels {
                assert!(
                    !TARGET.contains(label) && *label != "le" && *label != "uid",
                    "{}: {label}",
                    metric.name
                );
            }
        }
    }

    #[test]
    fn the_documentation_matches_the_catalog() {
        crate::golden::check("docs/metrics.md", &markdown());
    }
}
