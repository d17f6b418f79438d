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
    view: Arc<dyn View>,
    shown: Exposition,
    format: TextFormat,
    objects: ObjectSeries,
    position: Position,
}

/// The position of an exposition: the row of the catalog, and within it the kind, the unhealthy
/// object or finding, or the object.
#[derive(Clone, Copy, Debug, Default)]
struct Position {
    row: usize,
    index: usize,
    cursor: Cursor,
    headed: bool,
    ended: bool,
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
            readings: Readings::now(),
        };

        Self { view, shown, format, objects, position: Position::default() }
    }

    /// Adds the numbers of protected metrics, if the port
    /// `authenticates` its own clients.
    #[must_use]
    pub fn with_protected(mut self, authenticates: bool) -> Self {
        self.shown.shows_protected |= authenticates;
        self
    }

    /// Adds when the certificate of the port expires, if the port has one.
    #[must_use]
    pub fn with_certificate(mut self, expires: Option<Timestamp>) -> Self {
        self.shown.certificate_expires = expires;
        self
    }

    /// Returns the next chunk, approximately [`CHUNK`] bytes; `None` after the last one.
    pub fn next_chunk(&mut self) -> Option<String> {
        let mut out = String::with_capacity(CHUNK + CHUNK / 4);
        while out.len() < CHUNK && !self.position.ended {
            self.step(&mut out);
        }

        (!out.is_empty()).then_some(out)
    }

    /// Returns the rest of the exposition at once.
    #[must_use]
    pub fn into_text(mut self) -> String {
        let mut out = String::new();
        while !self.position.ended {
            self.step(&mut out);
        }

        out
    }

    fn step(&mut self, out: &mut String) {
        let Some(row) = CATALOG.get(self.position.row) else {
            self.end(out);
            return;
        };
        if self.step_within(row, out) {
            self.position = Position { row: self.position.row + 1, ..Position::default() };
        }
    }

    /// Writes the next part of `row`, and returns whether it was the last one.
    fn step_within(&mut self, row: &'static CatalogRow, out: &mut String) -> bool {
        let Self { view, shown, position, format, objects } = self;
        let mut samples = Samples::new(out, &row.metric, *format, &mut position.headed);
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
        self.position.ended = true;
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
