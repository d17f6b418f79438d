//! A streaming parser for the Prometheus text format 0.0.4 and OpenMetrics 1.0.
//!
//! It keeps at most one unfinished line and borrows everything else from the chunk. Most of an
//! operator's series match no rule: once the parser has read one series of a metric, the following
//! ones cost only the search for the end of the line.

mod line;
mod problem;

use loopwatch_model::observation::Cause;
use memchr::{memchr, memchr_iter};

pub(super) use self::line::Labels;
use self::line::{Parsed, name_length};
pub(super) use self::problem::Problem;
use crate::net::Failure;

/// One series with its value.
pub(super) struct Sample<'a> {
    /// The metric name, with suffixes such as `_total`.
    pub(super) name: &'a str,
    pub(super) labels: Labels<'a>,
    pub(super) value: f64,
}

/// The receiver of samples.
pub(super) trait SampleSink {
    /// Whether series of this metric matter. The parser asks once for each run of series with the
    /// same name.
    fn wants(&mut self, name: &str) -> bool;

    /// Takes a series of the metric that [`SampleSink::wants`] was last called with. Returns why it
    /// cannot be used.
    fn sample(&mut self, sample: &Sample<'_>) -> Result<(), Problem>;
}

/// What the parser accepts from one scrape.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextLimits {
    pub(super) bytes: u64,
    pub(super) lines: u64,
    /// Bytes of one line. The parser skips longer ones.
    pub(super) line: usize,
    /// Bytes without a usable series after which the parser gives up.
    pub(super) vain: u64,
}

/// What the parser has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) bytes: u64,
    /// Lines, including comments and empty ones.
    pub(super) lines: u64,
    pub(super) series: u64,
    /// Lines that the parser skipped because it cannot read them.
    pub(super) skipped: u64,
    /// The first problem, and its line.
    pub(super) problem: Option<(u64, Problem)>,
}

pub(super) struct TextParser {
    limits: TextLimits,
    /// Whether the endpoint announces OpenMetrics, which has an end marker.
    openmetrics: bool,
    /// The beginning of an incomplete line.
    unfinished: Vec<u8>,
    /// Whether that line is already longer than the limit.
    too_long: bool,
    /// The last name for which the parser asked, if the sink wants it; empty if it has quotes.
    wanted: Vec<u8>,
    /// Some names that the sink does not want. The series of a histogram alternate between three
    /// names.
    unwanted: [Vec<u8>; 4],
    /// The index of the unwanted name that occurred last.
    latest: usize,
    /// The position of the current line.
    offset: u64,
    /// Whether the end marker has been read.
    ended: bool,
    report: Report,
}

/// One known operator sends 810,000 series, approximately 130 MiB.
pub(super) const LIMITS: TextLimits =
    TextLimits { bytes: 256 << 20, lines: 5_000_000, line: 64 << 10, vain: 1 << 20 };

/// The end marker of OpenMetrics.
const END: &[u8] = b"# EOF";

impl TextParser {
    pub(super) fn new(limits: TextLimits, openmetrics: bool) -> Self {
        let (unfinished, wanted, unwanted, report) =
            (Vec::new(), Vec::new(), Default::default(), Report::default());
        let (too_long, latest, offset, ended) = (false, 0, 0, false);
        Self {
            limits,
            openmetrics,
            unfinished,
            too_long,
            wanted,
            unwanted,
            latest,
            offset,
            ended,
            report,
        }
    }

    /// Reads a chunk. An error is final: the parser does not expect further chunks after it.
    pub(super) fn push(&mut self, bytes: &[u8], sink: &mut impl SampleSink) -> Result<(), Failure> {
        let room = usize::try_from(self.limits.bytes.saturating_sub(self.report.bytes))
            .unwrap_or(usize::MAX);
        let (bytes, excess) = bytes.split_at(bytes.len().min(room));
        self.report.bytes += bytes.len() as u64;

        let mut begin = 0;
        for end in memchr_iter(b'\n', bytes) {
            let line = &bytes[begin..end];
            begin = end + 1;
            if self.unfinished.is_empty() && !self.too_long {
                self.line(line, sink)?;
            } else {
                self.append(line)?;
                self.end_line(sink)?;
            }
        }

        self.append(&bytes[begin..])?;
        if excess.is_empty() {
            return Ok(());
        }

        Err(Failure::new(
            Cause::TooLarge,
            format!("the metrics are larger than {} MiB", self.limits.bytes >> 20),
        ))
    }

    /// Reads the last line, which may lack a line end.
    pub(super) fn finish(mut self, sink: &mut impl SampleSink) -> Result<Report, Failure> {
        if !self.unfinished.is_empty() || self.too_long {
            self.end_line(sink)?;
        }
        match self.report.problem {
            Some((line, problem)) if self.report.series == 0 => Err(not_metrics(line, problem)),
            None if self.openmetrics && !self.ended && self.report.lines > 0 => {
                self.report.problem = Some((self.report.lines, Problem::NoEnd));
                Ok(self.report)
            }
            _ => Ok(self.report),
        }
    }

    /// Keeps the beginning of a line until its end arrives.
    fn append(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if self.too_long {
            return Ok(());
        }

        if self.unfinished.len() + bytes.len() > self.limits.line {
            self.too_long = true;
            self.unfinished = Vec::new();
            if self.report.lines == 0 {
                return Err(not_metrics(1, Problem::LongLine));
            }
        } else {
            self.unfinished.extend_from_slice(bytes);
        }

        Ok(())
    }

    fn end_line(&mut self, sink: &mut impl SampleSink) -> Result<(), Failure> {
        let mut line = std::mem::take(&mut self.unfinished);
        let result = if self.too_long { self.long_line() } else { self.line(&line, sink) };
        self.too_long = false;
        line.clear();
        self.unfinished = line;

        result
    }

    fn long_line(&mut self) -> Result<(), Failure> {
        self.next_line(self.limits.line)?;
        self.skip(Problem::LongLine)
    }

    /// Counts a line of this length.
    fn next_line(&mut self, length: usize) -> Result<(), Failure> {
        self.report.lines += 1;
        self.offset += length as u64 + 1;
        if self.report.lines > self.limits.lines {
            let detail = format!("the metrics have more than {} lines", self.limits.lines);
            return Err(Failure::new(Cause::TooLarge, detail));
        }

        Ok(())
    }

    /// Counts a line that the parser cannot read. Gives up after too many bytes without a usable
    /// series.
    fn skip(&mut self, problem: Problem) -> Result<(), Failure> {
        self.report.skipped += 1;
        let (line, problem) = *self.report.problem.get_or_insert((self.report.lines, problem));
        if self.report.series == 0 && self.offset > self.limits.vain {
            return Err(not_metrics(line, problem));
        }

        Ok(())
    }

    fn line(&mut self, line: &[u8], sink: &mut impl SampleSink) -> Result<(), Failure> {
        if line.len() > self.limits.line {
            if self.report.lines == 0 {
                return Err(not_metrics(1, Problem::LongLine));
            }
            return self.long_line();
        }

        self.next_line(line.len())?;
        if self.is_unwanted(line) {
            self.report.series += 1;
            return Ok(());
        }

        if begins(line, &self.wanted) {
            return self.series(line, sink);
        }

        let mut line = line.trim_ascii();
        if self.report.lines == 1 {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }

        match line.first() {
            None => Ok(()),
            Some(b'#') => {
                self.ended |= line == END;
                Ok(())
            }
            Some(_) => self.new_name(line, sink),
        }
    }

    /// Whether the line is a series that the sink does not want, according to its earlier answers.
    fn is_unwanted(&mut self, line: &[u8]) -> bool {
        if begins(line, &self.unwanted[self.latest]) {
            return true;
        }

        let found = self.unwanted.iter().position(|name| begins(line, name));
        self.latest = found.unwrap_or(self.latest);
        found.is_some()
    }

    /// Reads the first series of a name. Checks it even if the sink does not want it, to notice a
    /// text that is not metrics at all.
    fn new_name(&mut self, line: &[u8], sink: &mut impl SampleSink) -> Result<(), Failure> {
        if self.report.series == 0
            && self.report.skipped == 0
            && let Some(problem) = Problem::of_other_format(line)
        {
            return Err(not_metrics(self.report.lines, problem));
        }

        let parsed = match Parsed::of(line) {
            Ok(parsed) => parsed,
            Err(problem) => return self.skip(problem),
        };
        let Some(name) = parsed.name() else { return self.skip(Problem::Name) };
        let bare = &line[..name_length(line)];

        self.wanted.clear();
        if !sink.wants(&name) {
            self.latest = (self.latest + 1) % self.unwanted.len();
            self.unwanted[self.latest].clear();
            self.unwanted[self.latest].extend_from_slice(bare);
            self.report.series += 1;
            return Ok(());
        }

        self.wanted.extend_from_slice(bare);
        let sample = Sample { name: &name, labels: parsed.labels, value: parsed.value };
        self.count(sink.sample(&sample))
    }

    /// Reads another series of the last name.
    fn series(&mut self, line: &[u8], sink: &mut impl SampleSink) -> Result<(), Failure> {
        let result = Parsed::of(line.trim_ascii()).and_then(|parsed| {
            let name = parsed.name().ok_or(Problem::Name)?;
            sink.sample(&Sample { name: &name, labels: parsed.labels, value: parsed.value })
        });

        self.count(result)
    }

    fn count(&mut self, result: Result<(), Problem>) -> Result<(), Failure> {
        match result {
            Ok(()) => {
                self.report.series += 1;
                Ok(())
            }
            Err(problem) => self.skip(problem),
        }
    }
}

/// Whether a line begins with a name without quotes.
fn begins(line: &[u8], name: &[u8]) -> bool {
    let length = name.len();
    length > 0
        && line.len() > length
        && matches!(line[length], b'{' | b' ' | b'\t')
        && line[..length] == *name
}

/// The failure of a scrape whose response contains no metrics.
fn not_metrics(line: u64, problem: Problem) -> Failure {
    let detail = match problem {
        Problem::Html | Problem::Compressed | Problem::Binary => {
            format!("the response contains no metrics: {problem}")
        }
        _ => format!("the response contains no metrics: line {line}: {problem}"),
    };
    Failure::new(Cause::Undecodable, detail)
}

/// Whether a content type announces a format that loopwatch does not read.
pub(super) fn is_protobuf(content_type: &str) -> bool {
    memchr(b'/', content_type.as_bytes())
        .is_some_and(|at| content_type[at..].starts_with("/vnd.google.protobuf"))
}

#[cfg(test)]
mod tests;
