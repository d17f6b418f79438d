//! The cost of reading the operator's own metrics, compared with the crate `prometheus-parse` on
//! the same text. Run with `cargo bench --bench scrape`.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::fmt::Write as _;
use std::fs;
use std::hint::black_box;
use std::time::Duration;

use loopwatch::sources::operator::intake;

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Runs of the slower parser.
const RUNS: u32 = 100;
/// The size of a chunk from the network.
const CHUNK: usize = 16 << 10;
/// The numbers of series of a typical operator and of the largest known one.
const USUAL: usize = 3_000;
const LARGE: usize = 800_000;
/// The targets: how many times as fast as the crate, the time for a typical scrape, and the memory
/// for a large one.
const TARGETS: (f64, Duration, usize) = (20.0, Duration::from_millis(5), 4 << 20);

/// Metrics of controllers in the proportions of controller-runtime: mostly buckets of histograms,
/// and the metrics of the operator's own domain, which no rule reads.
fn text(series: usize) -> String {
    let (mut text, mut lines, mut nth) = (String::new(), 0, 0);
    while lines < series {
        let controller = format!("widget-{:03}", nth % 60);
        for result in ["success", "error", "requeue", "requeue_after"] {
            let labels = format!("controller=\"{controller}\",result=\"{result}\",shard=\"{nth}\"");
            let _ = writeln!(text, "controller_runtime_reconcile_total{{{labels}}} {}", nth * 7);
        }

        for (family, buckets) in
            [("controller_runtime_reconcile_time_seconds", 40), ("shop_order_age_seconds", 14)]
        {
            let _ = writeln!(text, "# HELP {family} Length of time.\n# TYPE {family} histogram");
            for le in 0..buckets {
                let labels = format!(
                    "controller=\"{controller}\",shard=\"{nth}\",le=\"{}\"",
                    f64::from(le) * 0.25
                );
                let _ = writeln!(text, "{family}_bucket{{{labels}}} {}", le * 3);
            }

            let _ = writeln!(
                text,
                "{family}_sum{{controller=\"{controller}\",shard=\"{nth}\"}} 0.011133796999999999"
            );
            let _ =
                writeln!(text, "{family}_count{{controller=\"{controller}\",shard=\"{nth}\"}} 23");
        }

        (lines, nth) = (lines + 62, nth + 1);
    }

    text
}

/// CPU time of this thread, as the kernel counts it. Other processes do not slow it down much.
fn cpu() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|first| first.parse().ok());
    nanoseconds.map(Duration::from_nanos).unwrap_or_default()
}

/// The mean of many runs, since the kernel counts in steps of milliseconds.
fn mean<T>(runs: u32, mut run: impl FnMut() -> T) -> Duration {
    let begin = cpu();
    (0..runs).for_each(|_| drop(black_box(run())));
    (cpu() - begin) / runs
}

/// Reads a text in chunks, as from the network.
fn ours(text: &str) -> u64 {
    intake::read(text.as_bytes().chunks(CHUNK)).map_or(0, |view| view.series)
}

fn theirs(text: &str) -> usize {
    let lines = text.lines().map(|line| Ok(line.to_owned()));
    prometheus_parse::Scrape::parse(lines).map_or(0, |scrape| scrape.samples.len())
}

/// The most memory that reading a text takes, beyond what was allocated before.
#[cfg(feature = "jemalloc")]
fn extra_memory(text: &str) -> usize {
    use tikv_jemalloc_ctl::{epoch, stats};

    let allocated = || epoch::advance().and_then(|_| stats::allocated::read()).unwrap_or_default();
    let (before, mut most) = (allocated(), 0);
    let chunks = text
        .as_bytes()
        .chunks(CHUNK)
        .inspect(|_| most = most.max(allocated().saturating_sub(before)));

    black_box(intake::read(chunks));
    most
}

fn main() {
    let small = text(USUAL);
    let (mine, other) = (mean(RUNS * 20, || ours(&small)), mean(RUNS, || theirs(&small)));
    let (series, lines) = (ours(&small), small.lines().count());
    println!("{series} series, {lines} lines, {} KiB", small.len() >> 10);
    println!("| parser | CPU time | per series |\n|---|---|---|");

    for (name, took) in [("loopwatch, with its rules", mine), ("prometheus-parse", other)] {
        println!("| {name} | {took:.1?} | {} ns |", took.as_nanos() / u128::from(series.max(1)));
    }

    let ratio = other.as_secs_f64() / mine.as_secs_f64();
    println!("{ratio:.0} times as fast as prometheus-parse (target: {} times)", TARGETS.0);
    println!("one scrape of {series} series: {mine:.1?} (target: {:?})", TARGETS.1);

    let large = text(LARGE);
    let (series, took) = (ours(&large), mean(5, || ours(&large)));
    println!(
        "{series} series, {} MiB: {took:.0?}, {} ns per series",
        large.len() >> 20,
        took.as_nanos() / u128::from(series.max(1))
    );

    #[cfg(feature = "jemalloc")]
    {
        let memory = extra_memory(&large);
        println!(
            "extra memory for {series} series: {} KiB (target: {} KiB)",
            memory >> 10,
            TARGETS.2 >> 10
        );

        assert!(memory <= TARGETS.2, "{memory} bytes of memory");
    }

    assert!(ratio >= TARGETS.0 && mine <= TARGETS.1, "{ratio:.1} times as fast, {mine:?}");
}
