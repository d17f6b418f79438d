use super::*;

const MIB: f64 = 1024.0 * 1024.0;
const LIMIT: f64 = 256.0 * MIB;

/// A trend with a sample every thirty seconds.
struct Probe {
    trend: Trend,
    now: Timestamp,
    noise: u64,
}

impl Probe {
    fn new() -> Self {
        Self { trend: Trend::new(TrendConfig::MEMORY, Timestamp(0)), now: Timestamp(0), noise: 7 }
    }

    /// Feeds the signal `value`, a function of the hours since the call, for this number of hours.
    fn feed(&mut self, hours: f64, value: impl Fn(f64) -> f64) -> &mut Self {
        self.feed_with(hours, |t| (value(t), None))
    }

    fn feed_with(&mut self, hours: f64, value: impl Fn(f64) -> (f64, Option<f64>)) -> &mut Self {
        let begin = self.now;
        while self.now.since(begin).seconds() < hours * 3600.0 {
            self.now = self.now.after(Span::secs(30));
            self.noise = self
                .noise
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);

            let noise = (self.noise >> 40) as f64 / f64::from(1 << 24) - 0.5;
            let (value, objects) = value(self.now.since(begin).seconds() / 3600.0);
            self.trend.sample(self.now, value * MIB + noise * MIB, objects, Some(LIMIT));
        }

        self
    }

    fn state(&self) -> TrendState {
        self.trend.verdict().state
    }
}

#[test]
fn a_leak_is_unknown_then_suspected_then_confirmed() {
    let mut probe = Probe::new();
    assert_eq!(probe.feed(1.4, |t| 50.0 + 80.0 * t).state(), TrendState::Unknown);

    let mut states = Vec::new();
    for _ in 0..9 {
        let from = 50.0 + 80.0 * probe.now.since(Timestamp(0)).seconds() / 3600.0;
        let state = probe.feed(5.0 / 60.0, |t| from + 80.0 * t).state();
        states.extend((states.last() != Some(&state)).then_some(state));
    }

    assert_eq!(
        states,
        [TrendState::Unknown, TrendState::Steady, TrendState::Suspected, TrendState::Confirmed]
    );

    let verdict = probe.trend.verdict();
    let slope = verdict.slope.expect("a slope") / MIB;

    assert!((slope - 80.0).abs() < 2.0, "{slope}");
    assert_eq!(verdict.window, Span::hours(1));

    let exhaustion = verdict.exhaustion.expect("a limit").seconds() / 3600.0;
    assert!((exhaustion - 0.5).abs() < 0.2, "{exhaustion}");
    assert!(verdict.since.expect("a start").since(Timestamp(0)) < Span::mins(45), "{verdict:?}");
}

#[test]
fn a_warm_up_a_step_and_a_wave_are_steady() {
    let warm_up = |t: f64| 40.0 + 60.0 * (1.0 - (-t / 1.5).exp());
    assert_eq!(Probe::new().feed(24.0, warm_up).state(), TrendState::Steady);

    let step = |t: f64| if t > 8.0 { 120.0 } else { 60.0 };
    let mut probe = Probe::new();
    for _ in 0..20 {
        let from = probe.now.since(Timestamp(0)).seconds() / 3600.0;
        assert!(probe.feed(1.0, |t| step(from + t)).state() <= TrendState::Steady);
    }

    let wave = |t: f64| 60.0 + 15.0 * (std::f64::consts::TAU * t / 24.0).sin();
    let mut probe = Probe::new();
    for _ in 0..72 {
        let from = probe.now.since(Timestamp(0)).seconds() / 3600.0;
        assert!(
            probe.feed(1.0, |t| wave(from + t)).state() <= TrendState::Steady,
            "after {from} h"
        );
    }
}

#[test]
fn growth_with_the_objects_is_explained_and_growth_beside_them_is_not() {
    let objects = |t: f64| 1000.0 + 200.0 * t;
    let mut explained = Probe::new();
    let state =
        explained.feed_with(8.0, |t| (20.0 + 0.1 * objects(t), Some(objects(t).round()))).state();

    assert_eq!(state, TrendState::GrowthExplained);

    let verdict = explained.trend.verdict();
    assert!(
        (verdict.objects - 1200.0).abs() < 20.0 && verdict.explained > 80.0 * MIB,
        "{verdict:?}"
    );

    let mut leak = Probe::new();
    let state =
        leak.feed_with(8.0, |t| (60.0 + 20.0 * t, Some((1000.0 + 2.0 * t).round()))).state();

    assert_eq!(state, TrendState::Confirmed, "a few new objects do not account for a leak");
}

#[test]
fn a_gap_drops_the_window_and_another_process_everything() {
    let mut probe = Probe::new();
    assert_eq!(probe.feed(4.0, |t| 50.0 + 40.0 * t).state(), TrendState::Confirmed);

    let mut restarted = Probe { trend: probe.trend.clone(), ..probe };
    probe.now = probe.now.after(Span::mins(4));

    assert_eq!(probe.feed(0.1, |t| 212.0 + 40.0 * t).state(), TrendState::Confirmed, "a short gap");

    probe.now = probe.now.after(Span::hours(3));
    assert_eq!(probe.feed(0.1, |t| 200.0 + t).state(), TrendState::Unknown, "a long gap");

    restarted.trend.restart(restarted.now);
    assert_eq!(restarted.feed(1.0, |t| 50.0 + 30.0 * t).state(), TrendState::Unknown);
}

#[test]
fn a_step_of_the_clock_loses_nothing() {
    let mut still = Probe::new();
    let mut stepped = Probe::new();
    for probe in [&mut still, &mut stepped] {
        probe.feed(2.0, |t| 50.0 + 40.0 * t);
    }

    let by = -7_200_123;
    stepped.now = stepped.now.shifted(by);
    stepped.trend.clock_stepped(by);

    for probe in [&mut still, &mut stepped] {
        probe.feed(2.0, |t| 130.0 + 40.0 * t);
    }

    let (still, stepped) = (still.trend.verdict(), stepped.trend.verdict());
    assert_eq!(still.state, TrendState::Confirmed);
    assert_eq!((stepped.state, stepped.slope), (still.state, still.slope));
    assert_eq!(stepped.since, still.since.map(|since| since.shifted(by)));
}

#[test]
fn a_verdict_ends_when_the_rise_is_undone() {
    let mut probe = Probe::new();
    assert_eq!(probe.feed(4.0, |t| 50.0 + 40.0 * t).state(), TrendState::Confirmed);
    assert_eq!(probe.feed(0.1, |_| 210.0).state(), TrendState::Confirmed, "a pause");
    assert_eq!(probe.feed(1.0, |_| 60.0).state(), TrendState::Steady);
}

#[test]
fn tasks_and_descriptors_need_no_capacity() {
    let watch = |config, rise: f64| {
        let mut trend = Trend::new(config, Timestamp(0));
        for minute in 0..72 * 60 {
            let at = Timestamp(0).after(Span::mins(minute));
            trend.sample(at, (100.0 + rise * minute as f64 / 60.0).round(), None, None);
        }

        trend.verdict().state
    };

    assert_eq!(watch(TrendConfig::TASKS, 60.0), TrendState::Confirmed);
    assert_eq!(watch(TrendConfig::TASKS, 5.0), TrendState::Steady);
    assert_eq!(watch(TrendConfig::DESCRIPTORS, 20.0), TrendState::Confirmed);
    assert_eq!(watch(TrendConfig::DESCRIPTORS, 1.0), TrendState::Steady);
}

/// Returns the state after each of the days of a signal of tasks, a function of the hours.
fn task_states(days: i64, value: impl Fn(f64) -> f64) -> Vec<TrendState> {
    let mut trend = Trend::new(TrendConfig::TASKS, Timestamp(0));
    let day = |day: i64| {
        let doubt = if day < 7 { Doubt::Ramp } else { Doubt::None };
        trend.judge_by(Known { normal: None, doubt });
        for minute in day * 24 * 60..(day + 1) * 24 * 60 {
            let at = Timestamp(0).after(Span::mins(minute));
            trend.sample(at, value(minute as f64 / 60.0).round(), None, None);
        }

        trend.verdict().state
    };

    (0..days).map(day).collect()
}

/// A day of work: nothing at night, `height` in the afternoon, less at the weekend.
fn working_day(hour: f64, height: f64) -> f64 {
    let of_week = if (hour / 24.0) as i64 % 7 >= 5 { 0.2 } else { 1.0 };
    of_week * height * (std::f64::consts::TAU * (hour - 16.0) / 24.0).cos().max(0.0)
}

#[test]
fn a_leak_under_the_wave_of_working_days_shows_in_their_minima() {
    let leak = |t: f64| 400.0 + 5.0 * t + working_day(t, 900.0);
    let states = task_states(9, leak);
    assert_eq!(states[3], TrendState::Steady);
    assert!(states[4..].contains(&TrendState::Suspected), "{states:?}");
    assert_eq!(states[8], TrendState::Confirmed, "{states:?}");

    let healthy = |t: f64| 400.0 + working_day(t, 900.0);
    assert!(task_states(28, healthy).iter().all(|state| *state <= TrendState::Steady));
}

#[test]
fn a_working_week_whose_nights_rise_until_the_weekend_is_no_leak_once_it_is_known() {
    let week = |t: f64| 400.0 + 8.0 * (t % (7.0 * 24.0)).min(5.0 * 24.0) + working_day(t, 600.0);
    let states = task_states(28, week);
    assert!(states[..9].iter().all(|state| *state < TrendState::Confirmed), "{states:?}");
    assert!(states[12..].iter().all(|state| *state <= TrendState::Steady), "{states:?}");
}

#[test]
fn a_signal_takes_less_than_three_and_a_half_kibibytes() {
    let buckets: usize = SCALES.iter().map(|scale| scale.kept).sum();
    let bytes = size_of::<Trend>() + buckets * size_of::<window::Bucket>();
    assert!(bytes < 3 * 1024 + 512, "{bytes}");
    assert!(SCALES.iter().all(|scale| scale.points() <= statistics::MAX_POINTS));
}

#[test]
fn no_input_makes_it_panic_or_alarm() {
    let mut trend = Trend::new(TrendConfig::MEMORY, Timestamp(0));
    let odd = [f64::NAN, f64::INFINITY, f64::MAX, -1.0, 0.0, 1e300, f64::MIN_POSITIVE];
    for step in 0..20_000_i64 {
        let pick = |n: i64| odd[((step * n) % 7).unsigned_abs() as usize];
        let at = Timestamp(step * 30_000 + if step % 97 == 0 { -90_000 } else { 0 });
        trend.sample(at, pick(3), Some(pick(5)), (step % 3 == 0).then(|| pick(2)));
        trend.clock_stepped(if step % 5_000 == 0 { i64::MAX } else { 0 });
    }

    for at in [i64::MAX, i64::MIN, 0] {
        trend.sample(Timestamp(at), 1.0, None, None);
    }

    assert!(trend.verdict().state < TrendState::Suspected);
}

#[test]
fn the_last_minute_rule_needs_a_quarter_of_an_hour_and_most_of_the_limit() {
    let watch = |minutes: i64, begin: f64, per_hour: f64| {
        let mut forecast = Forecast::default();
        for minute in 0..minutes {
            let used = begin * MIB + per_hour * MIB * minute as f64 / 60.0;
            forecast.sample(Timestamp(0).after(Span::mins(minute)), used, Some(LIMIT));
        }

        forecast.exhaustion()
    };

    assert_eq!(watch(70, 140.0, 60.0), None, "too early");

    let span = watch(90, 140.0, 60.0).expect("a forecast").seconds() / 3600.0;
    assert!((span - 0.45).abs() < 0.1, "{span}");
    assert_eq!(watch(90, 90.0, 60.0), None, "most of the limit is free");
    assert_eq!(watch(90, 200.0, 2.0), None, "too slow");
}
