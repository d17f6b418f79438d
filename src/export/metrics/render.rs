//! Renders the whole exposition in chunks, so that its memory depends on the size of a chunk and
//! not on the number of objects.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use loopwatch_model::snapshot::Cursor;
use loopwatch_model::time::Timestamp;

use super::catalog::{CATALOG, CatalogRow};
use super::encode::{Samples, TextFormat};
use super::series::{Exposition, WriteSamples};
use crate::export::view::View;
use crate::telemetry::{Readings, SelfMetrics};

/// The size at which a chunk ends: large enough that the overhead per chunk does not matter, small
/// enough for a socket buffer and a processor cache.
pub(crate) const CHUNK: usize = 64 * 1024;

/// Objects written under one lock, or findings at once: approximately one chunk, in well under a
/// millisecond.
const PAGE: usize = 256;

/// Which objects have their own series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ObjectSeries {
    /// Unhealthy objects, up to the limit per family.
    #[default]
    Unhealthy,
    All,
}

/// An exposition in progress.
pub struct Render {
    /// The part about loopwatch itself and, beside a single operator, about that. Those of many
    /// operators follow.
    parts: Vec<Part>,
    format: TextFormat,
    objects: ObjectSeries,
    position: Position,
    ended: bool,
}

/// The part of an exposition that comes from one model.
struct Part {
    view: Arc<dyn View>,
    shown: Exposition,
    /// The value of the label `operator`, if there are many operators.
    operator: Option<String>,
}

/// The position of an exposition: the row of the catalog, the part, and within it the kind, the
/// unhealthy object or finding, or the object.
#[derive(Clone, Copy, Debug, Default)]
struct Position {
    row: usize,
    headed: bool,
    part: usize,
    index: usize,
    cursor: Cursor,
}

impl Render {
    /// Starts an exposition of the state of `view`. Adds the series beyond `limit` per family to
    /// `series_dropped`.
    #[must_use]
    pub fn new(
        view: Arc<dyn View>,
        metrics: Arc<SelfMetrics>,
        format: TextFormat,
        objects: ObjectSeries,
        limit: usize,
        series_dropped: &AtomicU64,
    ) -> Self {
        let readings = Readings::now();
        let part = Part::new(view, None, metrics, readings, limit, series_dropped);
        let (parts, position) = (vec![part], Position::default());
        Self { parts, format, objects, position, ended: false }
    }

    /// Adds the state of one of many operators, whose name becomes the label `operator`.
    #[must_use]
    pub(crate) fn with_operator(
        mut self,
        operator: &str,
        view: Arc<dyn View>,
        series_dropped: &AtomicU64,
    ) -> Self {
        let Exposition { metrics, readings, object_series, .. } = &self.parts[0].shown;
        let (metrics, readings) = (Arc::clone(metrics), *readings);
        let operator = Some(operator.to_owned());
        let part = Part::new(view, operator, metrics, readings, *object_series, series_dropped);
        self.parts.push(part);
        self
    }

    /// Adds the numbers of protected metrics, if the port
    /// `authenticates` its own clients.
    #[must_use]
    pub fn with_protected(mut self, authenticates: bool) -> Self {
        self.parts.iter_mut().for_each(|part| part.shown.shows_protected |= authenticates);
        self
    }

    /// Adds when the certificate of the port expires, if the port has one.
    #[must_use]
    pub fn with_certificate(mut self, expires: Option<Timestamp>) -> Self {
        self.parts.iter_mut().for_each(|part| part.shown.certificate_expires = expires);
        self
    }

    /// Returns the next chunk, approximately [`CHUNK`] bytes; `None` after the last one.
    pub fn next_chunk(&mut self) -> Option<String> {
        let mut out = String::with_capacity(CHUNK + CHUNK / 4);
        while out.len() < CHUNK && !self.ended {
            self.step(&mut out);
        }

        (!out.is_empty()).then_some(out)
    }

    /// Returns the rest of the exposition at once.
    #[must_use]
    pub fn into_text(mut self) -> String {
        let mut out = String::new();
        while !self.ended {
            self.step(&mut out);
        }

        out
    }

    fn step(&mut self, out: &mut String) {
        let Some(row) = CATALOG.get(self.position.row) else {
            self.end(out);
            return;
        };
        if !self.step_within(row, out) {
            return;
        }

        let Position { row: number, headed, part, .. } = self.position;
        let parts = if row.metric.is_about_loopwatch() { 1 } else { self.parts.len() };
        self.position = match part + 1 < parts {
            true => Position { row: number, headed, part: part + 1, ..Position::default() },
            false => Position { row: number + 1, ..Position::default() },
        };
    }

    /// Writes the next samples of a row of one part, and returns whether they were the last ones.
    fn step_within(&mut self, row: &'static CatalogRow, out: &mut String) -> bool {
        let Self { parts, position, format, objects, .. } = self;
        let Part { view, shown, operator } = &parts[position.part];
        let mut samples =
            Samples::new(out, &row.metric, *format, &mut position.headed, operator.as_deref());
        match row.write {
            WriteSamples::Whole(write) => write(shown, &mut samples),
            WriteSamples::Kind(write) => {
                if let Some(kind) = shown.snapshot.kinds.get(position.index) {
                    write(shown, kind, &mut samples);
                    position.index += 1;
                }
                return position.index >= shown.snapshot.kinds.len();
            }
            WriteSamples::Unhealthy(write) => {
                let (page, is_last) =
                    next_page(shown, &shown.snapshot.unhealthy, &mut position.index);
                page.iter().for_each(|row| write(row, &mut samples));
                return is_last;
            }
            WriteSamples::Finding(write) => {
                let (page, is_last) =
                    next_page(shown, &shown.snapshot.findings, &mut position.index);
                page.iter().for_each(|finding| write(finding, &mut samples));
                return is_last;
            }
            WriteSamples::Object(write) if *objects == ObjectSeries::All => {
                match view.visit(position.cursor, PAGE, &mut |object| write(&object, &mut samples))
                {
                    Some(next) => position.cursor = next,
                    None => return true,
                }

                return false;
            }
            WriteSamples::Object(_) => {}
        }

        true
    }

    fn end(&mut self, out: &mut String) {
        if self.format == TextFormat::OpenMetrics {
            out.push_str("# EOF\n");
        }
        self.ended = true;
    }
}

impl Part {
    /// Takes the state of a model. Adds the series beyond `limit` per family to `series_dropped`.
    fn new(
        view: Arc<dyn View>,
        operator: Option<String>,
        metrics: Arc<SelfMetrics>,
        readings: Readings,
        limit: usize,
        series_dropped: &AtomicU64,
    ) -> Self {
        let snapshot = view.snapshot();
        let over = |count: usize| count.saturating_sub(limit) as u64;

        // Findings have two families with such series, unhealthy objects have one.
        let here = 2 * over(snapshot.findings.len())
            + over(snapshot.unhealthy.len())
            + snapshot.unhealthy_dropped;
        let before = series_dropped.fetch_add(here, Ordering::Relaxed);
        let series_dropped = before.saturating_add(here);
        let shown = Exposition {
            snapshot,
            object_series: limit,
            series_dropped,
            shows_protected: metrics.exports_protected,
            certificate_expires: None,
            metrics,
            readings,
        };

        Self { view, shown, operator }
    }
}

/// Returns the items from `index` on that have their own series, at most a page, and whether they are
/// the last ones. Moves the index behind them.
fn next_page<'a, T>(shown: &Exposition, items: &'a [T], index: &mut usize) -> (&'a [T], bool) {
    let items = &items[..items.len().min(shown.object_series)];
    let rest = items.get(*index..).unwrap_or_default();
    let page = &rest[..rest.len().min(PAGE)];

    *index += page.len();
    (page, page.len() == rest.len())
}
