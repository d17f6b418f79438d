//! Every metric there is. The encoder writes nothing that is not in [`CATALOG`]; `docs/metrics.md` is made from it.

mod table;

use std::fmt::Write as _;

pub use self::table::{CATALOG, Family};

/// One row of [`CATALOG`].
#[derive(Debug)]
pub struct Metric {
    /// Which family this is.
    pub family: Family,
    /// The name as it is scraped; counters end in `_total`, facts in `_info`.
    pub name: &'static str,
    /// Its type.
    pub kind: MetricType,
    /// Names of its labels, in the order in which they are written.
    pub labels: &'static [&'static str],
    /// One sentence: what is measured, and what the value means.
    pub help: &'static str,
    /// What may change about it.
    pub stability: Stability,
    /// The heading it stands under in the documentation.
    pub section: &'static str,
}

/// The type of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricType {
    /// Only ever grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Cumulative buckets, sum and count.
    Histogram,
    /// A fact, with the value 1: `info` under OpenMetrics and a gauge in the older format, which knows no such type.
    Info,
}

/// What users may rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stability {
    /// Name and labels change only with two minor versions of notice.
    Stable,
    /// May change with any version.
    Alpha,
}

// === impl Metric ===

impl Metric {
    /// The name without the suffix that its type demands: what OpenMetrics calls the metric family.
    #[must_use]
    pub fn family_name(&self) -> &'static str {
        let suffix = match self.kind {
            MetricType::Counter => "_total",
            MetricType::Info => "_info",
            MetricType::Gauge | MetricType::Histogram => "",
        };
        self.name.strip_suffix(suffix).unwrap_or(self.name)
    }

    /// The base unit, which is the last word of the family's name.
    #[must_use]
    pub fn unit(&self) -> Option<&'static str> {
        ["seconds", "bytes", "ratio"].into_iter().find(|unit| {
            self.family_name().strip_suffix(unit).is_some_and(|rest| rest.ends_with('_'))
                && self.kind != MetricType::Info
        })
    }
}

// === impl MetricType ===

impl MetricType {
    /// The word after `# TYPE` under OpenMetrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Info => "info",
        }
    }
}

// === impl Stability ===

impl Stability {
    /// The word in the documentation.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stable => "stable",
            Self::Alpha => "alpha",
        }
    }
}

// === documentation ===

/// `docs/metrics.md`.
#[must_use]
pub fn markdown() -> String {
    let mut page = String::from(HEAD);
    let mut section = "";
    for metric in CATALOG {
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
<!-- Made from src/export/catalog/table.rs by `UPDATE=1 cargo test`: do not edit. -->

# Metrics

Everything that `/metrics` can show, in the order in which it is written, as text 0.0.4 or OpenMetrics 1.0.

- Labels of an object are `group`, `kind`, `target_namespace` and `name`. The object's namespace is not called
  `namespace` because the scrape target has a label of that name; so no scrape configuration needs `honorLabels`.
  It is empty for cluster-scoped objects.
- What is absent is not there: a series is missing, never zero, for what an object does not have.
- Series of single objects exist only for objects that have something wrong, at most `--max-object-series` per family,
  worst first; what did not fit is counted in `loopwatch_dropped_total{limit=\"object_series\"}`. Those under
  \"Every object\" are written only with `--object-series=all`, and then for every object, without a bound.
- Every replica of an operator shows the same objects. Merge them with `max without (pod, instance) (…)`, and rates with
  `max without (pod, instance) (rate(…))`.
- No label value comes from free text.
";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_follow_the_conventions() {
        let mut seen = BTreeSet::new();
        for metric in CATALOG {
            let name = metric.name;
            assert!(seen.insert(metric.family_name()), "{name}: the family is listed twice");
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'), "{name}");
            assert!(name.starts_with("loopwatch_") || name.starts_with("process_"), "{name}: no prefix");
            assert_eq!(name.ends_with("_total"), metric.kind == MetricType::Counter, "{name}: _total is for counters");
            assert_eq!(name.ends_with("_info"), metric.kind == MetricType::Info, "{name}: _info is for facts");
            for reserved in ["_count", "_sum", "_bucket", "_created"] {
                assert!(!name.ends_with(reserved), "{name}: {reserved} belongs to histograms and counters");
            }
            assert!(metric.help.ends_with('.'), "{name}: the help is a sentence");
            assert!(!metric.help.contains(['\n', '\\', '"', '|']), "{name}: the help is plain");
        }
    }

    #[test]
    fn labels_stand_in_one_order_and_avoid_those_of_scrape_targets() {
        const IDENTITY: [&str; 4] = ["group", "kind", "target_namespace", "name"];
        const TARGET: [&str; 8] = ["instance", "job", "service", "type_", "env", "cluster", "pod", "namespace"];
        for metric in CATALOG {
            let positions: Vec<_> =
                metric.labels.iter().map(|label| IDENTITY.iter().position(|i| i == label).unwrap_or(4)).collect();
            assert!(positions.is_sorted(), "{}: {:?}", metric.name, metric.labels);
            let different: BTreeSet<_> = metric.labels.iter().collect();
            assert_eq!(different.len(), metric.labels.len(), "{}: a label twice", metric.name);
            for label in metric.labels {
                assert!(!TARGET.contains(label) && *label != "le" && *label != "uid", "{}: {label}", metric.name);
            }
        }
    }

    #[test]
    fn the_documentation_is_what_the_table_says() {
        crate::export::golden::check("docs/metrics.md", &markdown());
    }

    #[test]
    fn the_table_is_in_the_order_of_its_families() {
        for (index, metric) in CATALOG.iter().enumerate() {
            assert_eq!(metric.family as usize, index, "{}", metric.name);
        }
    }
}
