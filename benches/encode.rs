//! The time to encode one series, with 100,000 objects. Run with `cargo bench --bench encode`.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use loopwatch::export::ObjectSeries;
use loopwatch::export::prometheus::{Render, TextFormat};
use loopwatch::export::view::{Filter, View};
use loopwatch::telemetry::SelfMetrics;
use loopwatch_model::snapshot::{Cursor, ObjectRef, ObjectRow, ObjectState, Snapshot};
use loopwatch_model::time::Timestamp;

/// Rounds. The fastest one counts, because other processes slow down the rest.
const ROUNDS: u32 = 10;

/// Object names and conditions without a store, so that only the encoder is measured.
struct Fleet(Vec<String>, [(Arc<str>, &'static str); 3]);

impl View for Fleet {
    fn snapshot(&self) -> Snapshot {
        Snapshot::default()
    }

    fn visit(&self, cursor: Cursor, limit: usize, show: &mut dyn FnMut(ObjectRef<'_>)) -> Option<Cursor> {
        let (to, now) = ((cursor.0 as usize + limit).min(self.0.len()), Timestamp(1_767_225_600_000));
        for name in &self.0[cursor.0 as usize..to] {
            show(ObjectRef {
                group: "db.example.io",
                kind: "Database",
                namespace: "team-a",
                name,
                state: ObjectState::Converged,
                reason: "ready_true",
                since: now,
                generation: 7,
                observed_generation: Some(7),
                created: Some(now),
                terminating_since: None,
                phase: "Running",
                conditions: &self.1,
                finalizers: 1,
            });
        }
        (to < self.0.len()).then_some(Cursor(to as u32))
    }

    fn select(&self, _: Cursor, _: usize, _: &Filter) -> (Vec<ObjectRow>, Option<Cursor>) {
        (Vec::new(), None)
    }
}

fn main() {
    let names = (0..100_000).map(|index| format!("database-{index:06}")).collect();
    let conditions = [("Ready".into(), "true"), ("Progressing".into(), "false"), ("Degraded".into(), "false")];
    let (view, metrics) = (Arc::new(Fleet(names, conditions)), Arc::new(SelfMetrics::new()));
    let dropped = AtomicU64::new(0);
    let new = || Render::new(view.clone(), metrics.clone(), TextFormat::Text004, ObjectSeries::All, 500, &dropped);
    let lines = new().into_text().lines().filter(|line| !line.starts_with('#')).count();
    let round = || {
        let (mut render, mut bytes, mut longest, began) = (new(), 0, Duration::ZERO, Instant::now());
        loop {
            let step = Instant::now();
            let Some(chunk) = render.next_chunk() else { return (began.elapsed(), longest, bytes) };
            longest = longest.max(step.elapsed());
            bytes += chunk.len();
        }
    };
    if let Some((took, longest, bytes)) = (0..ROUNDS).map(|_| round()).min() {
        let each = took.as_nanos() / lines as u128;
        println!("{lines} series, {bytes} bytes in {took:?}: {each} ns per series; longest chunk {longest:?}");
    }
}
