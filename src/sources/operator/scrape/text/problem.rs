//! Problems of single lines. Their texts quote nothing, because metrics may contain anything.

use std::fmt;

/// Why loopwatch cannot use a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sources::operator::scrape) enum Problem {
    /// The response is an HTML page.
    Html,
    /// The response is compressed.
    Compressed,
    /// The response is not text.
    Binary,
    /// No valid metric name.
    Name,
    /// Labels that do not end, or lack a name, an equals sign or a quote.
    Labels,
    /// More labels than the limit.
    TooManyLabels,
    NoValue,
    /// A value that is not a number.
    Value,
    /// Text after the value that is neither a timestamp nor an exemplar.
    Trailing,
    /// A line that is longer than the limit.
    LongLine,
    /// A series that has occurred before.
    Repeated,
    /// The name of a controller that is longer than any name in Kubernetes.
    LongName,
    /// The end marker of OpenMetrics is missing.
    NoEnd,
}

impl Problem {
    /// Recognizes other formats from the first line.
    pub(super) fn of_other_format(line: &[u8]) -> Option<Self> {
        const GZIP: &[u8] = b"\x1f\x8b";

        const ZSTANDARD: &[u8] = b"\x28\xb5\x2f\xfd";

        if line.starts_with(b"<") {
            Some(Self::Html)
        } else if line.starts_with(GZIP) || line.starts_with(ZSTANDARD) {
            Some(Self::Compressed)
        } else {
            line.contains(&0).then_some(Self::Binary)
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Html => "it is an HTML or XML page, for example of a login or a proxy",
            Self::Compressed => "it is compressed, although loopwatch did not ask for that",
            Self::Binary => "it is not text",
            Self::Name => "the name of the metric is missing or invalid",
            Self::Labels => "the labels are malformed",
            Self::TooManyLabels => "the series has more than 64 labels",
            Self::NoValue => "the series has no value",
            Self::Value => "the value is not a number",
            Self::Trailing => "the text after the value is neither a timestamp nor an exemplar",
            Self::LongLine => "the line is longer than 64 KiB",
            Self::Repeated => "the series has occurred before",
            Self::LongName => "the name of the controller is longer than 253 bytes",
            Self::NoEnd => "the end marker `# EOF` is missing, so the metrics may be incomplete",
        })
    }
}
