//! Writes headings and samples as text. Names, types, units and labels come from the metric's row
//! in the catalog.

use std::fmt::Write as _;

use loopwatch_model::histogram::Histogram;
use loopwatch_model::time::{Span, Timestamp};

use super::metric::{Metric, MetricType};
use crate::telemetry::Exemplar;

/// A text format of Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// Text 0.0.4, the older format, which every scraper reads.
    Text004,
    /// OpenMetrics 1.0, with units, info metrics and an end marker.
    OpenMetrics,
}

/// The output of one metric. The heading comes with the first sample, so that a metric without
/// samples writes nothing.
pub(crate) struct Samples<'a> {
    out: &'a mut String,
    metric: &'static Metric,
    /// The text before each label value, built once because it makes up most of the output.
    label_prefixes: Vec<String>,
    /// The label that all samples have, if any.
    constant: String,
    format: TextFormat,
    headed: &'a mut bool,
}

/// The value of a sample.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SampleValue {
    Count(u64),
    Integer(i64),
    Real(f64),
    /// Milliseconds, written in seconds.
    Millis(i64),
}

impl TextFormat {
    /// The registered content type.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Text004 => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

impl<'a> Samples<'a> {
    /// The output of `metric`. `headed` says whether its heading has been written; the caller keeps
    /// it between calls. `operator` is the value of the label of this name, if all samples have it.
    pub(super) fn new(
        out: &'a mut String,
        metric: &'static Metric,
        format: TextFormat,
        headed: &'a mut bool,
        operator: Option<&str>,
    ) -> Self {
        let mut constant = String::new();
        if let Some(operator) = operator {
            constant.push_str("operator=\"");
            escape_into(&mut constant, operator);
            constant.push('"');
        }

        let comma = if constant.is_empty() { "" } else { "," };
        let opener = |(index, name)| match index {
            0 => format!("{{{constant}{comma}{name}=\""),
            _ => format!("\",{name}=\""),
        };
        let label_prefixes = metric.labels.iter().enumerate().map(opener).collect();
        Self { out, metric, label_prefixes, constant, format, headed }
    }

    /// Writes one sample; `labels` holds the values in the order of the catalog.
    pub(crate) fn put(&mut self, labels: &[&str], value: impl Into<SampleValue>) {
        self.put_with(labels, value, None);
    }

    /// Writes one sample, with the exemplar if any.
    pub(crate) fn put_with(
        &mut self,
        labels: &[&str],
        value: impl Into<SampleValue>,
        exemplar: Option<Exemplar>,
    ) {
        self.head();
        self.sample("", labels, None, value.into(), exemplar);
    }

    /// Writes one sample unless there is no value.
    pub(crate) fn put_some(&mut self, labels: &[&str], value: Option<impl Into<SampleValue>>) {
        if let Some(value) = value {
            self.put(labels, value);
        }
    }

    /// Writes the buckets, the sum and the count of `histogram`.
    pub(crate) fn histogram(&mut self, labels: &[&str], histogram: &Histogram) {
        self.histogram_with(labels, histogram, |_| None);
    }

    /// Writes a histogram; `exemplar` returns the exemplar of a bucket, by its position.
    pub(crate) fn histogram_with(
        &mut self,
        labels: &[&str],
        histogram: &Histogram,
        exemplar: impl Fn(usize) -> Option<Exemplar>,
    ) {
        let (sum, count) = (histogram.sum(), histogram.count());
        self.buckets(labels, histogram.buckets(), sum, count, exemplar);
    }

    /// Writes a histogram of another process. `buckets` has a bucket without a bound, too.
    pub(crate) fn buckets(
        &mut self,
        labels: &[&str],
        buckets: impl Iterator<Item = (f64, u64)>,
        sum: f64,
        count: u64,
        exemplar: impl Fn(usize) -> Option<Exemplar>,
    ) {
        self.head();
        for (position, (bound, count)) in buckets.enumerate() {
            self.sample(
                "_bucket",
                labels,
                Some(bound),
                SampleValue::Count(count),
                exemplar(position),
            );
        }

        self.sample("_sum", labels, None, SampleValue::Real(sum), None);
        self.sample("_count", labels, None, SampleValue::Count(count), None);
    }

    /// Writes a finished line.
    pub(super) fn line(&mut self, line: &str) {
        self.head();
        self.out.push_str(line);
        self.out.push('\n');
    }

    pub(super) fn metric(&self) -> &'static Metric {
        self.metric
    }

    /// The format of the output.
    pub(super) fn format(&self) -> TextFormat {
        self.format
    }

    fn sample(
        &mut self,
        suffix: &str,
        labels: &[&str],
        bound: Option<f64>,
        value: SampleValue,
        exemplar: Option<Exemplar>,
    ) {
        self.out.push_str(self.metric.name);
        self.out.push_str(suffix);
        self.labels(labels, bound);
        value.write(self.out);

        if let Some(exemplar) = exemplar.filter(|_| self.format == TextFormat::OpenMetrics) {
            let Exemplar { trace_id, span_id, value, at } = exemplar;
            let _ =
                write!(self.out, " # {{trace_id=\"{trace_id}\",span_id=\"{span_id}\"}} {value} ");
            SampleValue::from(at).write(self.out);
        }

        self.out.push('\n');
    }

    fn labels(&mut self, values: &[&str], bound: Option<f64>) {
        debug_assert_eq!(
            values.len(),
            self.metric.labels.len(),
            "{}: labels as in the catalog",
            self.metric.name
        );
        for (opener, value) in self.label_prefixes.iter().zip(values) {
            self.out.push_str(opener);
            escape_into(self.out, value);
        }

        match (bound, values.is_empty(), self.constant.is_empty()) {
            (None, true, true) => self.out.push(' '),
            (None, true, false) => {
                let _ = write!(self.out, "{{{}}} ", self.constant);
            }
            (None, false, _) => self.out.push_str("\"} "),
            (Some(bound), ..) => {
                match (values.is_empty(), self.constant.is_empty()) {
                    (true, true) => self.out.push_str("{le=\""),
                    (true, false) => _ = write!(self.out, "{{{},le=\"", self.constant),
                    (false, _) => self.out.push_str("\",le=\""),
                }
                bound_into(self.out, bound);
                self.out.push_str("\"} ");
            }
        }
    }

    fn head(&mut self) {
        if !std::mem::replace(self.headed, true) {
            heading_into(self.out, self.metric, self.format);
        }
    }
}

/// Writes the heading of a metric.
///
/// In OpenMetrics, the name omits `_total` for counters and `_info` for info metrics. In text
/// 0.0.4, it is the name of the samples. Prometheus rejects the whole scrape if the format lacks
/// the type.
fn heading_into(out: &mut String, metric: &Metric, format: TextFormat) {
    let (name, kind) = match (format, metric.kind) {
        (TextFormat::OpenMetrics, kind) => (metric.family_name(), kind),
        (TextFormat::Text004, MetricType::Info) => (metric.name, MetricType::Gauge),
        (TextFormat::Text004, kind) => (metric.name, kind),
    };
    let _ = write!(out, "# HELP {name} ");

    escape_help_into(out, metric.help, format);
    let _ = write!(out, "\n# TYPE {name} {}\n", kind.as_str());
    if let (TextFormat::OpenMetrics, Some(unit)) = (format, metric.unit()) {
        let _ = writeln!(out, "# UNIT {name} {unit}");
    }
}

/// Writes a label value: escapes backslash, quote and line feed, and copies the rest.
fn escape_into(out: &mut String, value: &str) {
    // Hardly any value contains one of these characters. Without an early exit, the compiler
    // vectorizes the loop.
    let escape = value.bytes().fold(false, |any, byte| any | matches!(byte, b'\\' | b'"' | b'\n'));
    if !escape {
        out.push_str(value);
        return;
    }

    for character in value.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            other => out.push(other),
        }
    }
}

/// Writes a help text. Only OpenMetrics escapes quotes.
fn escape_help_into(out: &mut String, help: &str, format: TextFormat) {
    for character in help.chars() {
        match (character, format) {
            ('\\', _) => out.push_str("\\\\"),
            ('\n', _) => out.push_str("\\n"),
            ('"', TextFormat::OpenMetrics) => out.push_str("\\\""),
            _ => out.push(character),
        }
    }
}

/// Writes the bound of a bucket identically in both formats (`1.0`, never `1`): otherwise, every
/// bucket would become a new series when a scraper switches formats.
fn bound_into(out: &mut String, bound: f64) {
    if bound == f64::INFINITY {
        out.push_str("+Inf");
    } else {
        let _ = write!(out, "{bound:?}");
    }
}

impl SampleValue {
    fn write(self, out: &mut String) {
        match self {
            Self::Count(count) => digits_into(out, count, 1),
            Self::Integer(number) => {
                out.push_str(if number < 0 { "-" } else { "" });
                digits_into(out, number.unsigned_abs(), 1);
            }
            Self::Real(real) if real.is_nan() => out.push_str("NaN"),
            Self::Real(f64::INFINITY) => out.push_str("+Inf"),
            Self::Real(f64::NEG_INFINITY) => out.push_str("-Inf"),
            Self::Real(real) => {
                let _ = write!(out, "{real}");
            }
            Self::Millis(ms) => {
                out.push_str(if ms < 0 { "-" } else { "" });
                let (seconds, rest) = (ms.unsigned_abs() / 1000, ms.unsigned_abs() % 1000);
                digits_into(out, seconds, 1);

                if rest > 0 {
                    out.push('.');
                    digits_into(out, rest, 3);
                }
            }
        }
    }
}

/// Writes a number with at least `least` digits. The standard library's formatting costs more than
/// the rest of a sample.
fn digits_into(out: &mut String, mut number: u64, least: usize) {
    const MOST: usize = 20; // digits of the largest u64

    let mut digits = [b'0'; MOST];
    let mut start = MOST;
    while number > 0 || MOST - start < least {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
    }

    out.push_str(std::str::from_utf8(&digits[start..]).unwrap_or_default()); // always ASCII
}

impl From<u64> for SampleValue {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<i64> for SampleValue {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<f64> for SampleValue {
    fn from(real: f64) -> Self {
        Self::Real(real)
    }
}

impl From<Timestamp> for SampleValue {
    fn from(time: Timestamp) -> Self {
        Self::Millis(time.0)
    }
}

impl From<Span> for SampleValue {
    fn from(span: Span) -> Self {
        Self::Millis(span.0)
    }
}

#[cfg(test)]
mod tests;
