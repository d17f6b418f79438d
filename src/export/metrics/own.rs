//! Metrics of loopwatch itself: `prometheus-client` counts them and writes their samples; the
//! catalog has their headings.
//!
//! The library writes only OpenMetrics. Except for exemplars, its samples are valid in both
//! formats.

use prometheus_client::encoding::text::encode_registry;
use prometheus_client::registry::{self, Registry};

use super::encode::{Samples, TextFormat};
use super::metric::MetricType;

impl Samples<'_> {
    /// Writes the samples of a metric that `prometheus-client` counts.
    pub(crate) fn registry_metric<M: registry::Metric + Clone>(&mut self, counted: &M) {
        let text = openmetrics(self.metric().family_name(), counted);
        let mut lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();

        // The library keeps label sets in a hash map, so their order is random. Histograms have no
        // labels, and their buckets must keep their order.
        if self.metric().kind != MetricType::Histogram {
            lines.sort_unstable();
        }

        for line in lines {
            self.line(match self.format() {
                TextFormat::OpenMetrics => line,
                TextFormat::Text004 => without_exemplar(line),
            });
        }
    }
}

/// Returns the metric as OpenMetrics text. The clone shares the counts of the original.
fn openmetrics<M: registry::Metric + Clone>(name: &str, counted: &M) -> String {
    let mut registry = Registry::default();
    registry.register(name, "", counted.clone());

    let mut text = String::new();

    // Writing to a string cannot fail. If the metric fails to encode itself, the text before it is
    // still valid.
    let _ = encode_registry(&mut text, &registry);
    text
}

/// Cuts off an exemplar, which follows ` # ` outside quotes.
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

    #[test]
    fn exemplars_can_be_cut_off() {
        let line = "x_bucket{le=\"1.0\",p=\"a # b\\\" # c\"} 3 # {trace_id=\"7\"} 0.5";
        assert_eq!(without_exemplar(line), "x_bucket{le=\"1.0\",p=\"a # b\\\" # c\"} 3");
        assert_eq!(without_exemplar("x 1"), "x 1");
    }
}
