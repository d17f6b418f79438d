//! Trends of a small synthetic fleet: no false alarms, and leaks are found in time. `cargo bench
//! --bench fleet` measures a larger one.

use loopwatch_model::time::{Span, Timestamp};
use loopwatch_model::trend::{Trend, TrendConfig, TrendState};

use crate::lab::START;
use crate::lab::fleet::{HARD, HEALTHY, Load, Pod};

/// Seeds that the benchmark does not use.
const SEEDS: std::ops::Range<u64> = 1000..1008;

/// Returns the highest state that a pod's trend reached, and how long before the end of the pod it
/// was confirmed.
fn watch(seed: u64, load: Load, days: i64, config: TrendConfig) -> (TrendState, Option<Span>) {
    let mut trend = Trend::new(config, START);
    let (mut highest, mut confirmed) = (TrendState::Unknown, None::<Timestamp>);
    let end = START.after(Span::hours(24 * days));

    for reading in Pod::new(seed, load).take_while(|reading| reading.at <= end) {
        trend.sample(reading.at, reading.live, Some(reading.objects), Some(reading.capacity));
        let state = trend.verdict().state;
        highest = highest.max(state);
        confirmed = confirmed.or((state == TrendState::Confirmed).then_some(reading.at));

        if reading.killed {
            return (highest, confirmed.map(|confirmed| reading.at.since(confirmed)));
        }
    }

    (highest, None)
}

fn confirmed(load: Load, days: i64, config: TrendConfig) -> usize {
    SEEDS.filter(|seed| watch(*seed, load, days, config).0 == TrendState::Confirmed).count()
}

#[test]
fn healthy_pods_raise_no_alarm() {
    assert_eq!(confirmed(HEALTHY, 3, TrendConfig::MEMORY), 0);
    assert!(confirmed(HARD, 3, TrendConfig::MEMORY) <= 1);

    // The fleet is hard enough to tell: without the most important gate, it raises alarms.
    let careless = TrendConfig { must_exhaust: false, ..TrendConfig::MEMORY };
    assert!(confirmed(HARD, 3, careless) > 1, "the fleet is too tame");
}

#[test]
fn leaks_are_confirmed_before_the_memory_is_exhausted() {
    for (leak, days, least) in
        [(60.0, 1, Span::mins(90)), (20.0, 2, Span::mins(240)), (5.0, 4, Span::hours(16))]
    {
        let pods = SEEDS.map(|seed| watch(seed, Load::leaking(leak), days, TrendConfig::MEMORY));
        let pods: Vec<(TrendState, Option<Span>)> = pods.collect();

        assert!(
            pods.iter().all(|(state, _)| *state >= TrendState::Suspected),
            "{leak} MiB/h: {pods:?}"
        );

        let mut leads: Vec<Span> = pods.iter().filter_map(|(_, lead)| *lead).collect();
        leads.sort_unstable();

        assert!(leads.len() + 1 >= pods.len(), "{leak} MiB/h: {leads:?}");
        assert!(leads[leads.len() / 2] > least, "{leak} MiB/h: {leads:?}");
    }
}
