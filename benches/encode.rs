//! The time to encode one series, with 100,000 objects. Run with `cargo bench --bench encode`.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use loopwatch::export::metrics::{ObjectSeries, Render, TextFormat};
use loopwatch::export::view::View;
use loopwatch::telemetry::SelfMetrics;
use loopwatch_model::observation::ObjectAddress;
use loopwatch_model::snapshot::{
    ConditionState, Cursor, Explanation, ObjectRef, ObjectRow, ObjectState, RecentPast, Snapshot,
};
use loopwatch_model::time::Timestamp;

/// Rounds. The fastest one counts, because it is closest to the speed of an idle machine.
const ROUNDS: u32 = 10;

/// A hundred thousand objects without a store, so that the benchmark measures the encoder: names,
/// conditions and finalizers.
struct Fleet(Vec<String>, [ConditionState; 3], [Arc<str>; 1]);

impl View for Fleet {
    fn snapshot(&self) -> Snapshot {
        Snapshot::default()
    }

    fn pending(&self) -> Vec<String> {
        Vec::new()
    }

    fn visit(
        &self,
        cursor: Cursor,
        limit: usize,
        show: &mut dyn FnMut(ObjectRef<'_>),
    ) -> Option<Cursor> {
        let (to, now) =
            ((cursor.0 as usize + limit).min(self.0.len()), Timestamp(1_767_225_600_000));
        for name in &self.0[cursor.0 as usize..to] {
            show(ObjectRef {
                group: "db.example.io",
                kind: "Database",
                namespace: "team-a",
                name,
                state: ObjectState::Converged,
                since: now,
                generation: 7,
                observed_generation: Some(7),
                created: Some(now),
                phase: "Running",
                conditions: &self.1,
                finalizers: &self.2,
                ..ObjectRef::default()
            });
        }

        (to < self.0.len()).then_some(Cursor(to as u32))
    }

    fn select(
        &self,
        _: Cursor,
        _: usize,
        _: usize,
        _: &dyn Fn(&ObjectRef<'_>) -> bool,
    ) -> (Vec<ObjectRow>, Option<Cursor>) {
        (Vec::new(), None)
    }

    fn explain(&self, _: &ObjectAddress) -> Option<Explanation> {
        None
    }

    fn recent_past(&self) -> RecentPast {
        RecentPast::default()
    }
}

fn main() {
    let names = (0..100_000).map(|index| format!("database-{index:06}")).collect();
    let condition = |name: &str, status| ConditionState { r#type: name.into(), status };
    let conditions = [
        condition("Ready", "true"),
        condition("Progressing", "false"),
        condition("Degraded", "false"),
    ];
    let view = Arc::new(Fleet(names, conditions, ["db.example.io/cleanup".into()]));

    let metrics = Arc::new(SelfMetrics::new());
    let dropped = AtomicU64::new(0);
    let new = || {
        Render::new(
            view.clone(),
            metrics.clone(),
            TextFormat::Text004,
            ObjectSeries::All,
            500,
            &dropped,
        )
    };

    let lines = new().into_text().lines().filter(|line| !line.starts_with('#')).count();
    let round = || {
        let (mut render, mut bytes, mut longest, began) =
            (new(), 0, Duration::ZERO, Instant::now());
        loop {
            let step = Instant::now();
            let Some(chunk) = render.next_chunk() else { return (began.elapsed(), longest, bytes) };
            longest = longest.max(step.elapsed());
            bytes += chunk.len();
        }
    };

    if let Some((took, longest, bytes)) = (0..ROUNDS).map(|_| round()).min() {
        let each = took.as_nanos() / lines as u128;
        println!(
            "{lines} series, {bytes} bytes in {took:?}: {each} ns per series; longest chunk {longest:?}"
        );
    }
}
