//! Decides when to scrape again, so that scrapes cost the operator at most 1 % of a core.

use std::time::Duration;

use loopwatch_model::observation::Cause;

/// The schedule of one endpoint.
#[derive(Debug)]
pub(super) struct ScrapeSchedule {
    interval: Duration,
    /// What the last successful scrapes cost, the newest last.
    costs: Vec<Duration>,
    /// Failures in a row.
    failures: u32,
    /// The CPU time, in seconds, that scrapes may still use; negative if they have used too much.
    budget: f64,
    /// The wait since the last success.
    waited: Duration,
}

/// The inverse of the share of the operator's CPU time that scrapes may use.
pub(super) const SHARE: u32 = 100;
/// The cheapest of this many scrapes shows the cost: a wait for a busy node is not CPU time of the
/// operator.
const COSTS: usize = 3;
/// The largest budget, in seconds: this much of the cost may not be the operator's CPU time.
const BUDGET: f64 = 10.0;
/// Longest wait after failures, unless they are slow.
const LONGEST: Duration = Duration::from_secs(120);

impl ScrapeSchedule {
    pub(super) fn new(interval: Duration) -> Self {
        Self { interval, costs: Vec::new(), failures: 0, budget: BUDGET, waited: Duration::ZERO }
    }

    /// Notes a scrape, and returns the wait until the next one. `cost` is the time in which the
    /// operator responded, which is at least the CPU time that it used.
    pub(super) fn succeeded(&mut self, cost: Duration) -> Duration {
        self.failures = 0;
        if self.costs.len() == COSTS {
            self.costs.remove(0);
        }

        self.costs.push(cost);
        let earned = self.waited.as_secs_f64() / f64::from(SHARE);
        self.budget = (self.budget + earned).min(BUDGET) - cost.as_secs_f64();

        let owed = Duration::try_from_secs_f64(-self.budget).unwrap_or_default();
        self.waited =
            self.affordable(owed.max(self.costs.iter().min().copied().unwrap_or_default()));
        self.waited
    }

    /// Notes a failure, and returns the wait until the next scrape. `answered` says whether the
    /// operator began to respond. If not, it may hang, which costs nothing, or it may lack CPU
    /// time: the wait grows slowly.
    pub(super) fn failed(&mut self, cause: Cause, cost: Duration, answered: bool) -> Duration {
        self.failures = self.failures.saturating_add(1);
        if cause == Cause::Refused {
            // A refused connection costs the operator nothing, and loopwatch should notice the end
            // of the outage soon.
            return self.interval;
        }

        let doubled = self.interval.saturating_mul(1 << (self.failures - 1).min(16));
        let longest = LONGEST.max(self.interval);
        match answered {
            true => doubled.min(longest).max(self.affordable(cost)),
            false => doubled.min(longest.max(self.affordable(cost))),
        }
    }

    fn affordable(&self, cost: Duration) -> Duration {
        self.interval.max(cost.saturating_mul(SHARE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(10);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn scrapes_cost_at_most_one_percent() {
        let mut schedule = ScrapeSchedule::new(INTERVAL);
        assert_eq!(schedule.succeeded(ms(100)), INTERVAL);

        let mut slow = ScrapeSchedule::new(INTERVAL);
        assert_eq!(slow.succeeded(ms(15_000)), Duration::from_secs(1500), "800,000 series");
        assert_eq!(slow.succeeded(ms(15_000)), Duration::from_secs(1500));
    }

    #[test]
    fn an_operator_that_never_ends_its_work_in_time_is_left_alone() {
        let mut schedule = ScrapeSchedule::new(INTERVAL);
        let waits: Vec<u64> =
            (0..11).map(|_| schedule.failed(Cause::Timeout, ms(30_000), false).as_secs()).collect();

        assert_eq!(
            waits,
            [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3000, 3000],
            "it may collect metrics all the time"
        );
    }

    #[test]
    fn expensive_answers_between_cheap_ones_count_in_the_long_run() {
        let mut schedule = ScrapeSchedule::new(INTERVAL);
        let (mut spent, mut passed) = (Duration::ZERO, Duration::ZERO);
        for cost in [5, 20_000, 20_000].repeat(20) {
            // The operator may, for example, cache its metrics for a while.
            spent += ms(cost);
            passed += ms(cost) + schedule.succeeded(ms(cost));
        }

        assert!(spent * SHARE <= passed + Duration::from_secs(2000), "{spent:?} of {passed:?}");
        assert!(passed < spent * SHARE * 2, "no longer than necessary: {passed:?}");
    }

    #[test]
    fn one_slow_answer_of_a_fast_operator_does_not_count() {
        let mut schedule = ScrapeSchedule::new(INTERVAL);
        schedule.succeeded(ms(5));

        assert_eq!(schedule.succeeded(ms(5_000)), INTERVAL, "a busy node");
        assert_eq!(schedule.succeeded(ms(2_000)), INTERVAL);
        assert_eq!(
            schedule.succeeded(ms(2_000)),
            Duration::from_secs(200),
            "the operator has become slow"
        );
        assert_eq!(schedule.succeeded(ms(5)), INTERVAL);
    }

    #[test]
    fn failures_are_repeated_less_and_less_often_unless_nothing_listens() {
        let mut schedule = ScrapeSchedule::new(INTERVAL);
        let waits: Vec<u64> =
            (0..8).map(|_| schedule.failed(Cause::Forbidden, ms(2), false).as_secs()).collect();

        assert_eq!(waits, [10, 20, 40, 80, 120, 120, 120, 120]);
        assert_eq!(schedule.failed(Cause::Refused, ms(1), false), INTERVAL);
        assert_eq!(schedule.failed(Cause::TooLarge, ms(20_000), true), Duration::from_secs(2000));

        schedule.succeeded(ms(1));
        assert_eq!(schedule.failed(Cause::Timeout, ms(30_000), false), INTERVAL);

        let mut seldom = ScrapeSchedule::new(Duration::from_secs(3600));
        assert_eq!(seldom.failed(Cause::Timeout, ms(30_000), false), Duration::from_secs(3600));
    }
}
