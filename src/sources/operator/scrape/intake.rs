//! Turns the bytes of one scrape into a view.

use loopwatch_model::observation::{Cause, MetricsView};
use loopwatch_model::time::Span;

use super::normalize::Normalizer;
use super::text::{LIMITS, TextParser, is_protobuf};
use crate::net::Failure;

/// Reads one scrape in pieces.
pub(crate) struct Intake {
    instance: String,
    text: TextParser,
    normalizer: Normalizer,
    /// Why the scrape cannot be used. Further bytes do not change that.
    failed: Option<Failure>,
}

impl Intake {
    /// Begins a scrape. Some endpoints announce the wrong content type. It therefore only decides
    /// whether the end marker of OpenMetrics may be missing, and rules out protobuf.
    pub(crate) fn new(instance: String, content_type: Option<&str>) -> Self {
        let content_type = content_type.unwrap_or_default().to_ascii_lowercase();
        let protobuf = "the response is protobuf, although loopwatch asked for text";
        let failed = is_protobuf(&content_type).then(|| Failure::new(Cause::Undecodable, protobuf));
        let text =
            TextParser::new(LIMITS, content_type.starts_with("application/openmetrics-text"));

        Self { instance, text, normalizer: Normalizer::new(), failed }
    }

    /// Reads the next bytes. After an error, further bytes are useless.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if self.failed.is_none() {
            self.failed = self.text.push(bytes, &mut self.normalizer).err();
        }
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Returns the view, once all bytes have been read.
    pub(crate) fn finish(mut self, took: Span) -> Result<MetricsView, Failure> {
        if let Some(failure) = self.failed {
            return Err(failure);
        }

        let report = self.text.finish(&mut self.normalizer)?;
        let mut view = self.normalizer.view();
        view.process.instance.clone_from(&self.instance);
        view.instance = self.instance;
        (view.series, view.bytes, view.took) = (report.series, report.bytes, took);
        view.lines_skipped = report.skipped;
        view.problem = report
            .problem
            .map(|(line, problem)| format!("line {line}: {problem}"))
            .unwrap_or_default();

        Ok(view)
    }
}

/// Reads a text in chunks of this size, for benchmarks and tests of the program's limits.
#[must_use]
pub fn read(chunks: impl IntoIterator<Item: AsRef<[u8]>>) -> Option<MetricsView> {
    let mut intake = Intake::new("benchmark".to_owned(), None);
    for chunk in chunks {
        intake.push(chunk.as_ref()).ok()?;
    }

    intake.finish(Span::ZERO).ok()
}

#[cfg(test)]
mod tests;
