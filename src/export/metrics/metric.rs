//! The static description of a metric.

/// A metric, as in the documentation and in the heading of its samples.
#[derive(Debug)]
pub struct Metric {
    /// The name in a scrape; counters end in `_total`, info metrics in `_info`.
    pub name: &'static str,
    pub kind: MetricType,
    /// Names of the labels, in the order of the output.
    pub labels: &'static [&'static str],
    /// One sentence: the meaning of the value.
    pub help: &'static str,
    pub stability: Stability,
    /// The section in the documentation.
    pub section: &'static str,
}

/// The section of the metrics about loopwatch itself.
const OWN_SECTION: &str = "loopwatch itself";

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricType {
    /// Never decreases while the process runs.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Cumulative buckets, sum and count.
    Histogram,
    /// Labels with the value 1: `info` in OpenMetrics, and a gauge in text 0.0.4, which lacks this
    /// type.
    Info,
}

/// The stability of a metric's name and labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stability {
    /// They change only after a notice of two minor versions.
    Stable,
    /// They may change with any version.
    Alpha,
}

impl Metric {
    /// The name of the metric family in OpenMetrics: the name without the suffix of its type.
    #[must_use]
    pub fn family_name(&self) -> &'static str {
        let suffix = match self.kind {
            MetricType::Counter => "_total",
            MetricType::Info => "_info",
            MetricType::Gauge | MetricType::Histogram => "",
        };

        self.name.strip_suffix(suffix).unwrap_or(self.name)
    }

    /// Whether the metric is about loopwatch itself, and not about an operator.
    #[must_use]
    pub fn is_about_loopwatch(&self) -> bool {
        self.section == OWN_SECTION
    }

    /// The base unit: the last word of the family name.
    #[must_use]
    pub fn unit(&self) -> Option<&'static str> {
        ["seconds", "bytes", "ratio"].into_iter().find(|unit| {
            self.family_name().strip_suffix(unit).is_some_and(|rest| rest.ends_with('_'))
                && self.kind != MetricType::Info
        })
    }
}

impl MetricType {
    /// The word after `# TYPE` in OpenMetrics.
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
