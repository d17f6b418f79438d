//! loopwatch's own metrics: `prometheus-client` writes their samples, the catalog their headings.
//!
//! That library writes OpenMetrics only. Its samples are valid in both formats but for exemplars; so only its headings
//! have to be replaced.

use std::collections::BTreeMap;

use super::encode::{TextFormat, heading_into};
use crate::export::catalog::{CATALOG, Family, MetricType};

/// The samples in `openmetrics`, by family. A family that the catalog does not list is left out.
pub(super) fn by_family(openmetrics: &str) -> BTreeMap<Family, String> {
    let mut families = BTreeMap::<_, String>::new();
    for line in openmetrics.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let name = &line[..line.find(['{', ' ']).unwrap_or(line.len())];
        if let Some(family) = family_of(name) {
            let samples = families.entry(family).or_default();
            samples.push_str(line);
            samples.push('\n');
        }
    }
    // The library keeps labels in a hash map. Buckets, which have an order of their own, have no labels.
    for (_, samples) in families.iter_mut().filter(|(family, _)| family.metric().kind != MetricType::Histogram) {
        let mut lines: Vec<_> = samples.split_inclusive('\n').collect();
        lines.sort_unstable();
        *samples = lines.concat();
    }
    families
}

/// Writes one family.
pub(super) fn write(out: &mut String, family: Family, samples: &str, format: TextFormat) {
    heading_into(out, family.metric(), format);
    for line in samples.lines() {
        out.push_str(match format {
            TextFormat::OpenMetrics => line,
            TextFormat::Text004 => without_exemplar(line),
        });
        out.push('\n');
    }
}

fn family_of(sample: &str) -> Option<Family> {
    let row = CATALOG.iter().find(|metric| {
        let rest = sample.strip_prefix(metric.name);
        match metric.kind {
            MetricType::Histogram => matches!(rest, Some("_bucket" | "_sum" | "_count")),
            MetricType::Counter | MetricType::Gauge | MetricType::Info => rest == Some(""),
        }
    })?;
    Some(row.family)
}

/// An exemplar follows ` # ` outside of quotes.
fn without_exemplar(line: &str) -> &str {
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in line.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => quoted = !quoted,
            b'#' if !quoted => return line[..at].trim_end(),
            _ => {}
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::{RequestLabels, SelfMetrics};

    #[test]
    fn every_own_metric_is_in_the_catalog_with_its_type_and_help() {
        let metrics = SelfMetrics::new();
        metrics.requests.get_or_create_owned(&RequestLabels { path: "/metrics", code: 200 }).inc();
        let text = metrics.openmetrics();
        let known: usize = by_family(&text).values().map(|samples| samples.lines().count()).sum();
        assert_eq!(known, text.lines().filter(|line| !line.starts_with('#')).count(), "{text}");
        for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
            let (name, kind) = line.split_once(' ').expect("a type line");
            let row = CATALOG.iter().find(|metric| metric.family_name() == name).expect("listed");
            assert_eq!(row.kind.as_str(), kind, "{name}");
            assert!(text.contains(&format!("# HELP {name} {}\n", row.help)), "{name}");
        }
    }

    #[test]
    fn exemplars_are_for_openmetrics_only() {
        let line = "x_bucket{le=\"1.0\",p=\"a # b\\\" # c\"} 3 # {trace_id=\"7\"} 0.5";
        assert_eq!(without_exemplar(line), "x_bucket{le=\"1.0\",p=\"a # b\\\" # c\"} 3");
        assert_eq!(without_exemplar("x 1"), "x 1");
    }
}
