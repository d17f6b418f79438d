//! The whole exposition, in chunks: memory is bounded by the chunk, not by the number of objects.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use loopwatch_model::snapshot::Cursor;

use super::encode::{Samples, TextFormat};
use super::families::{Feed, Scene, feed};
use super::own;
use crate::export::catalog::{CATALOG, Family};
use crate::export::view::View;
use crate::telemetry::SelfMetrics;

/// A chunk is handed over when it has grown to this: large enough that its cost per byte is that of writing it, small
/// enough to fit a socket buffer and a processor cache.
pub const CHUNK: usize = 64 * 1024;

/// Objects shown under one lock: about one chunk, written in well under a millisecond.
const PAGE: usize = 256;

/// Which objects get series of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ObjectSeries {
    /// Those that have something wrong, at most so many per family.
    #[default]
    Unhealthy,
    /// All of them.
    All,
}

/// An exposition that is under way.
pub struct Render {
    view: Arc<dyn View>,
    metrics: Arc<SelfMetrics>,
    own: Option<BTreeMap<Family, String>>,
    format: TextFormat,
    objects: ObjectSeries,
    scene: Scene,
    position: Position,
}

/// Where the exposition goes on. Families in the order of the catalog, kinds within a family, objects within a family.
#[derive(Clone, Copy, Debug, Default)]
struct Position {
    family: usize,
    kind: usize,
    cursor: Cursor,
    headed: bool,
    ended: bool,
}

// === impl Render ===

impl Render {
    /// Begins an exposition of what `view` shows now. What does not fit into `limit` series per family is added to
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
        // Findings have two families, unconverged objects one.
        let here = 2 * over(snapshot.findings.len()) + over(snapshot.unhealthy.len()) + snapshot.unhealthy_dropped;
        let before = series_dropped.fetch_add(here, Ordering::Relaxed);
        let scene = Scene { snapshot, object_series: limit, series_dropped: before.saturating_add(here) };
        Self { view, metrics, own: None, format, objects, scene, position: Position::default() }
    }

    /// The next chunk, about [`CHUNK`] bytes; `None` after the last one.
    pub fn next_chunk(&mut self) -> Option<String> {
        let mut out = String::with_capacity(CHUNK + CHUNK / 4);
        while out.len() < CHUNK && !self.position.ended {
            self.step(&mut out);
        }
        (!out.is_empty()).then_some(out)
    }

    /// The rest of the exposition at once.
    #[must_use]
    pub fn into_text(mut self) -> String {
        let mut out = String::new();
        while !self.position.ended {
            self.step(&mut out);
        }
        out
    }

    fn step(&mut self, out: &mut String) {
        let Some(metric) = CATALOG.get(self.position.family) else {
            self.end(out);
            return;
        };
        if self.step_within(metric.family, out) {
            self.position = Position { family: self.position.family + 1, ..Position::default() };
        }
    }

    /// Writes the next part of `family`; whether that was the last one.
    fn step_within(&mut self, family: Family, out: &mut String) -> bool {
        let Self { view, metrics, own, scene, position, format, objects } = self;
        let mut samples = Samples::new(out, family, *format, &mut position.headed);
        match feed(family) {
            Feed::Whole(write) => write(scene, &mut samples),
            Feed::Kind(write) => {
                if let Some(kind) = scene.snapshot.kinds.get(position.kind) {
                    write(scene, kind, &mut samples);
                    position.kind += 1;
                }
                return position.kind >= scene.snapshot.kinds.len();
            }
            Feed::Object(write) if *objects == ObjectSeries::All => {
                match view.visit(position.cursor, PAGE, &mut |object| write(&object, &mut samples)) {
                    Some(next) => position.cursor = next,
                    None => return true,
                }
                return false;
            }
            Feed::Registry => {
                let own = own.get_or_insert_with(|| own::by_family(&metrics.openmetrics()));
                if let Some(samples) = own.get(&family) {
                    own::write(out, family, samples, *format);
                }
            }
            Feed::Object(_) => {}
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
