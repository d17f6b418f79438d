//! The cost of traces: gathering them in the model, sending them to a collector, and the memory
//! while the collector is away. Run with `cargo bench --bench traces`.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use loopwatch::export::delivery::Origin;
use loopwatch::export::delivery::traces::{Collector, Sampling, TraceExporter, collector_url};
use loopwatch::telemetry::{ResultLabels, SelfMetrics, SendResult};
use loopwatch_model::model::{LeaderElection, Model};
use loopwatch_model::observation::{
    Condition, ConditionStatus, Hashes, ObjectKey, ObjectView, Observation, OwnerReference, Role,
    StatusShape, WatchedKind,
};
use loopwatch_model::settings::Settings;
use loopwatch_model::time::{Span, Timestamp};
use loopwatch_model::trace::Trace;
use loopwatch_testbed::kinds::watched;

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Obligations per second, and for how long.
const RATE: usize = 1_000;
const SECONDS: usize = 10;
/// Rounds of the model. The fastest one counts.
const ROUNDS: usize = 5;
/// The targets: the share of a core at that rate, and the memory with the collector away for ten
/// minutes.
const TARGETS: (f64, usize) = (0.05, 8 << 20);

/// Open obligations, far more than fit.
#[cfg(feature = "jemalloc")]
const OPEN: usize = 20_000;

const START: Timestamp = Timestamp(1_767_225_600_000);

fn kinds() -> (WatchedKind, WatchedKind) {
    (
        watched("example.org", "Shop", "shops", Role::Primary),
        watched("", "ConfigMap", "configmaps", Role::Child),
    )
}

fn uid(number: usize) -> String {
    format!("0d7b4c9e-1111-2222-3333-{number:012x}")
}

/// A version of an object with three conditions; `ready` is the status of two of them.
fn shop(number: usize, version: usize, ready: Option<bool>) -> ObjectView {
    let condition = |name: &str, is: bool| Condition {
        r#type: name.into(),
        status: if is { ConditionStatus::True } else { ConditionStatus::False },
        reason: "AllComponentsAvailable".into(),
        ..Condition::default()
    };

    let conditions = |ready| {
        vec![condition("Ready", ready), condition("Available", ready), condition("Degraded", false)]
    };
    ObjectView {
        key: ObjectKey {
            namespace: format!("team-{}", number % 50),
            name: format!("shop-{number}"),
        },
        uid: uid(number),
        version: version.to_string(),
        generation: 1,
        created: Some(START),
        observed_generation: ready.map(|_| 1),
        status: if ready.is_some() { StatusShape::Filled } else { StatusShape::Absent },
        conditions: ready.map(conditions).unwrap_or_default(),
        hashes: Hashes {
            spec: 1,
            settled: ready.map_or(0, |ready| 1 + u64::from(ready)),
            ..Hashes::default()
        },
        ..ObjectView::default()
    }
}

fn child(number: usize, version: usize) -> ObjectView {
    let owner = OwnerReference {
        api_version: "example.org/v1".into(),
        kind: "Shop".into(),
        name: format!("shop-{number}"),
        uid: uid(number),
        ..OwnerReference::default()
    };
    ObjectView {
        key: ObjectKey {
            namespace: format!("team-{}", number % 50),
            name: format!("shop-{number}-config"),
        },
        uid: uid(number + (1 << 30)),
        version: version.to_string(),
        created: Some(START),
        owners: vec![owner],
        ..ObjectView::default()
    }
}

/// A model with empty lists.
fn model(gathers: bool, shops: &WatchedKind, configs: &WatchedKind) -> Model {
    let mut model = Model::new(Settings { learn_after: 0, ..Settings::default() });
    if gathers {
        model.gather_traces();
    }

    model.apply(START, Observation::KindsDiscovered(vec![shops.clone(), configs.clone()]));
    for watched in [shops, configs] {
        model.apply(START, Observation::ListBegan { watch: watched.watch.clone(), epoch: 1 });
        let version = "1".to_owned();
        model.apply(
            START,
            Observation::ListEnded { watch: watched.watch.clone(), epoch: 1, version },
        );
    }

    model
}

/// The memory of a model in which many obligations are open.
#[cfg(feature = "jemalloc")]
fn open(gathers: bool) -> usize {
    let before = allocated();
    let (shops, configs) = kinds();
    let mut model = model(gathers, &shops, &configs);

    for number in 0..OPEN {
        let object = Box::new(shop(number, 2 * number + 2, None));
        model.apply(START, Observation::Applied { watch: shops.watch.clone(), object });

        let object = Box::new(shop(number, 2 * number + 3, Some(false)));
        model.apply(START, Observation::Applied { watch: shops.watch.clone(), object });
    }

    allocated().saturating_sub(before)
}

/// Creates objects that converge, each with one child; returns the CPU time and the traces.
fn converge(gathers: bool, objects: usize) -> (Duration, Vec<Trace>) {
    let (shops, configs) = kinds();
    let mut model = model(gathers, &shops, &configs);
    let (begin, mut traces, mut version) = (cpu(), Vec::new(), 1);

    for first in (0..objects).step_by(500) {
        let now = START.after(Span::secs(60 * first as i64 / 500));
        let mut apply = |after: i64, watched: &WatchedKind, view: ObjectView| {
            let observation =
                Observation::Applied { watch: watched.watch.clone(), object: Box::new(view) };
            model.apply(now.after(Span::secs(after)), observation);
        };
        for number in first..first + 500 {
            version += 4;
            apply(0, &shops, shop(number, version, None));
            apply(0, &configs, child(number, version + 1));
            apply(1, &shops, shop(number, version + 2, Some(false)));
            apply(2, &shops, shop(number, version + 3, Some(true)));
        }

        model.apply(now.after(Span::secs(30)), Observation::Tick);
        traces.extend(model.traces());
    }

    (cpu() - begin, traces)
}

/// CPU time of this thread, as the kernel counts it.
fn cpu() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|first| first.parse().ok());
    nanoseconds.map(Duration::from_nanos).unwrap_or_default()
}

/// Bytes that are allocated.
#[cfg(feature = "jemalloc")]
fn allocated() -> usize {
    use tikv_jemalloc_ctl::{epoch, stats};

    epoch::advance().and_then(|_| stats::allocated::read()).unwrap_or_default()
}

/// Starts a collector that accepts everything, on a thread of its own.
fn collector() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("its address"));
    std::thread::spawn(move || {
        for mut socket in listener.incoming().filter_map(Result::ok) {
            let (mut buffer, mut missing) = (vec![0; 1 << 20], None::<usize>);
            let mut head = Vec::new();
            while let Ok(length) = socket.read(&mut buffer) {
                if length == 0 {
                    break;
                }

                let mut body = length;
                if missing.is_none() {
                    head.extend_from_slice(&buffer[..length]);
                    let Some(end) = head.windows(4).position(|window| window == b"\r\n\r\n") else {
                        continue;
                    };
                    let text = String::from_utf8_lossy(&head[..end]).to_lowercase();
                    let announced = text
                        .lines()
                        .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());

                    (missing, body) = (announced, head.len() - end - 4);
                }

                let left = missing.unwrap_or(0).saturating_sub(body);
                missing = Some(left);
                if left == 0 {
                    (missing, head) = (None, Vec::new());
                    if socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").is_err() {
                        break;
                    }
                }
            }
        }
    });

    url
}

fn target(url: &str) -> Collector {
    let url = collector_url(url).expect("a URL");
    let (within, sampling) = (Duration::from_secs(10), Sampling::ALL);
    Collector { url, token_file: None, ca_file: None, within, sampling, warnings: Vec::new() }
}

/// Sends traces at the rate, and returns the CPU time of the thread that does everything in
/// loopwatch.
async fn send(traces: &[Trace]) -> (Duration, u64) {
    let metrics = Arc::new(SelfMetrics::new());
    let (exporter, sending) =
        TraceExporter::start(&target(&collector()), metrics.clone(), Origin::default())
            .expect("an exporter");
    let sent = |result| metrics.spans.get_or_create_owned(&ResultLabels { result }).get();
    let mut spent = Duration::ZERO;

    for batch in traces.chunks(RATE / 10) {
        let copies = batch.to_vec(); // the model has made these
        let begin = cpu();
        exporter.push(copies, &LeaderElection::default());
        tokio::time::sleep(Duration::from_millis(100)).await;
        spent += cpu() - begin;
    }

    let begin = cpu();
    exporter.close(sending).await;
    spent += cpu() - begin;

    assert_eq!(sent(SendResult::Dropped) + sent(SendResult::Rejected), 0, "everything has arrived");

    (spent, sent(SendResult::Ok))
}

/// Ten minutes of traces for a collector that is away; returns the memory that remains allocated.
#[cfg(feature = "jemalloc")]
async fn away(traces: &[Trace]) -> usize {
    let metrics = Arc::new(SelfMetrics::new());
    let (exporter, sending) =
        TraceExporter::start(&target("http://127.0.0.1:1"), metrics, Origin::default())
            .expect("an exporter");
    let before = allocated();

    for _ in 0..600 * RATE / traces.len() {
        for batch in traces.chunks(128) {
            exporter.push(batch.to_vec(), &LeaderElection::default());
            tokio::task::yield_now().await;
        }
    }

    let after = allocated();
    sending.abort();
    after.saturating_sub(before)
}

fn main() {
    let objects = RATE * SECONDS;
    let fastest =
        |gathers| (0..ROUNDS).map(|_| converge(gathers, objects).0).min().unwrap_or_default();
    let (without, with) = (fastest(false), fastest(true));
    let gathering = with.saturating_sub(without) / u32::try_from(objects).unwrap_or(1);
    let (_, traces) = converge(true, objects);
    let spans: usize = traces.iter().map(|trace| 1 + trace.steps.len()).sum();

    assert_eq!(traces.len(), objects);

    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (sending, ok) = runtime.block_on(send(&traces));

    assert_eq!(ok, spans as u64);

    let sending = sending / u32::try_from(objects).unwrap_or(1);
    let part = (gathering + sending).as_secs_f64() * RATE as f64;
    println!(
        "{objects} obligations with {:.1} spans each, {RATE} per second",
        spans as f64 / objects as f64
    );
    println!("| step | CPU time per obligation |\n|---|---|");
    println!("| gather in the model | {gathering:.1?} |\n| encode and send | {sending:.1?} |");

    println!("{:.1} % of a core (target: {} %)", part * 100.0, TARGETS.0 * 100.0);
    #[cfg(feature = "jemalloc")]
    {
        let (limit, held) =
            (Settings::default().limits.trace_bytes, open(true).saturating_sub(open(false)));
        println!(
            "traces of {OPEN} open obligations: {} KiB (limit: {} KiB)",
            held >> 10,
            limit >> 10
        );

        assert!(held <= limit + limit / 4, "{held} bytes");

        let memory = runtime.block_on(away(&traces));
        println!(
            "ten minutes without the collector: {} KiB (target: {} KiB)",
            memory >> 10,
            TARGETS.1 >> 10
        );

        assert!(memory <= TARGETS.1, "{memory} bytes");
    }

    assert!(part <= TARGETS.0, "{part:.3} of a core");
}
