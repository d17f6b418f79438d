//! The false alarms and the lead times of the trends, on a synthetic fleet. Run with `cargo bench
//! --bench fleet`.
//!
//! The generator, in `model/tests/model/lab/fleet.rs`, decides how hard this is; the figures say nothing
//! about other fleets.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

#[path = "../model/tests/model/lab/dice.rs"]
#[allow(unreachable_pub, reason = "tests share this file")]
mod dice;
#[path = "../model/tests/model/lab/fleet.rs"]
#[allow(unreachable_pub, dead_code, reason = "tests share this file")]
mod fleet;

use std::time::Instant;

use fleet::{HARD, HEALTHY, LIMIT, Load, Pod, START};
use loopwatch_model::time::{Span, Timestamp};
use loopwatch_model::trend::{Forecast, Trend, TrendConfig, TrendState};

/// The seed of the first pod.
const SEED: u64 = 1;

/// The length of a history.
const DAYS: i64 = 7;

/// Rounds of the time measurement. The fastest one counts, because other processes slow down the
/// others.
const ROUNDS: usize = 20;

/// The signal that a trend sees.
#[derive(Clone, Copy, PartialEq)]
enum Signal {
    LiveHeap,
    LiveHeapWithObjects,
    Resident,
    /// The live heap, with an unknown limit.
    Unlimited,
}

/// What happened to a pod: when the trend was first suspected and confirmed, when the last-minute
/// rule first warned, when the growth was first explained, and when the pod was killed.
#[derive(Default)]
struct Outcome {
    suspected: Option<Timestamp>,
    confirmed: Option<Timestamp>,
    last_minute: Option<Timestamp>,
    explained: Option<Timestamp>,
    killed: Option<Timestamp>,
    /// When the leak began.
    leaking: Option<Timestamp>,
}

fn watch(seed: u64, load: Load, signal: Signal) -> Outcome {
    let (mut trend, mut forecast) = (Trend::new(TrendConfig::MEMORY, START), Forecast::default());
    let mut outcome = Outcome::default();
    let end = START.after(Span::hours(24 * DAYS));
    let pod = Pod::new(seed, load);

    outcome.leaking = pod.leaks_from();
    for reading in pod.take_while(|reading| reading.at <= end) {
        let (value, capacity) = match signal {
            Signal::Resident => (reading.resident, Some(LIMIT)),
            Signal::Unlimited => (reading.live, None),
            Signal::LiveHeap | Signal::LiveHeapWithObjects => {
                (reading.live, Some(reading.capacity))
            }
        };

        let objects = (signal == Signal::LiveHeapWithObjects).then_some(reading.objects);
        trend.sample(reading.at, value, objects, capacity);
        forecast.sample(reading.at, reading.resident, Some(LIMIT));

        let state = trend.verdict().state;
        let first =
            |field: &mut Option<Timestamp>, now: bool| *field = field.or(now.then_some(reading.at));
        first(&mut outcome.suspected, state >= TrendState::Suspected);
        first(&mut outcome.confirmed, state == TrendState::Confirmed);
        first(&mut outcome.explained, state == TrendState::GrowthExplained);
        first(&mut outcome.last_minute, forecast.exhaustion().is_some());
        first(&mut outcome.killed, reading.killed);
    }

    outcome
}

/// Returns the number of pods for which something happened, and the median time before the end of
/// those that were killed.
fn count(outcomes: &[Outcome], of: impl Fn(&Outcome) -> Option<Timestamp>) -> String {
    let happened = outcomes.iter().filter(|outcome| of(outcome).is_some()).count();
    let leads = outcomes
        .iter()
        .filter_map(|outcome| Some(outcome.killed?.since(of(outcome)?).seconds() / 3600.0));
    let mut leads: Vec<f64> = leads.collect();

    leads.sort_by(f64::total_cmp);
    match leads.get(leads.len() / 2) {
        Some(median) => format!("{happened}/{}, {median:.1} h", outcomes.len()),
        None => format!("{happened}/{}", outcomes.len()),
    }
}

fn main() {
    let pods: u64 = std::env::var("PODS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    println!(
        "| fleet | signal | suspected | confirmed | last-minute rule | explained | killed, after a leak of |"
    );
    println!("|---|---|---|---|---|---|---|");

    let plain = Signal::LiveHeap;
    let rows: [(&str, Load, &str, Signal); 11] = [
        ("healthy", HEALTHY, "live heap", plain),
        ("healthy", HEALTHY, "resident", Signal::Resident),
        ("healthy", HEALTHY, "live heap, no limit", Signal::Unlimited),
        ("hard healthy", HARD, "live heap", plain),
        ("hard healthy", HARD, "live heap and objects", Signal::LiveHeapWithObjects),
        ("60 MiB/h", Load::leaking(60.0), "live heap", plain),
        ("20 MiB/h", Load::leaking(20.0), "live heap", plain),
        ("5 MiB/h", Load::leaking(5.0), "live heap", plain),
        ("1.5 MiB/h", Load::leaking(1.5), "live heap", plain),
        (
            "5 MiB/h, hard",
            Load { leak: 5.0, ..HARD },
            "live heap and objects",
            Signal::LiveHeapWithObjects,
        ),
        ("5 MiB/h", Load::leaking(5.0), "resident", Signal::Resident),
    ];

    for (name, load, signal_name, signal) in rows {
        let outcomes: Vec<Outcome> =
            (SEED..SEED + pods).map(|seed| watch(seed, load, signal)).collect();
        let end = count(&outcomes, |outcome| outcome.leaking.filter(|_| outcome.killed.is_some()));
        let [suspected, confirmed, last, explained] = [
            |o: &Outcome| o.suspected,
            |o: &Outcome| o.confirmed,
            |o: &Outcome| o.last_minute,
            |o: &Outcome| o.explained,
        ]
        .map(|of| count(&outcomes, of));

        println!(
            "| {name} | {signal_name} | {suspected} | {confirmed} | {last} | {explained} | {end} |"
        );
    }

    println!();
    let readings: Vec<_> = Pod::new(SEED, Load::leaking(1.5)).collect();
    let rounds = (0..ROUNDS).map(|_| {
        let mut trend = Trend::new(TrendConfig::MEMORY, START);
        let began = Instant::now();
        readings.iter().for_each(|r| trend.sample(r.at, r.live, Some(r.objects), Some(r.capacity)));
        began.elapsed().as_secs_f64() * 1e6 / readings.len() as f64
    });

    println!(
        "{pods} pods per row, {DAYS} days; {:.2} µs per sample",
        rounds.fold(f64::INFINITY, f64::min)
    );
}
