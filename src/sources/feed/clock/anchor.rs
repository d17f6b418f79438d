//! Estimates the clock of the API server from the `Date` headers of its responses.
//!
//! **What a response says.** The server wrote `date`, the beginning of the current second, after
//! loopwatch had sent the request and before the response arrived. So the *offset*, the server's
//! time minus the monotonic time, lies between `date - received` and `date + 1 s - sent`, whatever
//! the latency was. The width of this interval is one second plus the latency.
//!
//! **The estimate.** A target stays where it is while responses agree with it, and otherwise moves
//! to the nearest end of the interval. With one server, it thus ends up within all intervals, whose
//! intersection is soon approximately as wide as the latency, and it follows the drift of the
//! clocks. With several servers that differ by some seconds, it stays between them. The first
//! response sets it. Until then, the node's wall clock counts.
//!
//! **The reading.** The offset in use follows the target by at most 10 ms per second. So the clock
//! never runs backwards and its durations are right within 1 %, whatever the responses say. It
//! corrects a difference of 5 s within 500 s.
//!
//! **Jumps.** A response further than 10 s from the reading does not move the target, because API
//! servers that differ by so much are broken. If only such responses arrive for 30 s, at least
//! three of them, and they agree with one another within 10 s, then the reading is wrong and jumps
//! to them: the machine was suspended, which stops the monotonic clock, or somebody set the
//! servers' clock. [`super::ServerClock`] announces the jump.

use std::time::Duration;

use loopwatch_model::time::Timestamp;

/// The estimate. Offsets and times are in microseconds.
#[derive(Debug)]
pub(super) struct Anchor {
    /// The offset in use at `since`.
    offset: i64,
    /// The offset to approach.
    target: i64,
    /// The monotonic time of the last response.
    since: Duration,
    /// Whether a response has arrived.
    heard: bool,
    /// The responses that contradict the reading, if the last one did.
    dissent: Option<Dissent>,
}

/// Responses far from the reading that agree with one another.
#[derive(Clone, Copy, Debug)]
struct Dissent {
    offset: i64,
    since: Duration,
    responses: u32,
}

/// The offsets that agree with a response.
#[derive(Clone, Copy, Debug)]
struct Interval {
    low: i64,
    high: i64,
}

/// Microseconds per second.
const SECOND: i64 = 1_000_000;
/// The time in which the offset may change by one unit of time: 10 ms per second. This is much
/// faster than clocks drift (at most 0.5 ms per second), but keeps durations right within 1 %.
const SLEW: i64 = 100;
/// The difference from the wall clock at which the first response makes the clock jump. A node with
/// a synchronized clock differs by less.
const FIRST_JUMP: i64 = SECOND / 2;
/// The difference at which later responses contradict the reading.
const JUMP: i64 = 10 * SECOND;
/// How long all responses must contradict the reading before it jumps.
const JUMP_AFTER: Duration = Duration::from_secs(30);
/// The number of responses that must contradict the reading before it jumps.
const JUMP_RESPONSES: u32 = 3;

impl Anchor {
    /// An estimate before the first response.
    pub(super) fn new(wall: Timestamp, steady: Duration) -> Self {
        let offset = wall.0.saturating_mul(1000) - micros(steady);
        Self { offset, target: offset, since: steady, heard: false, dissent: None }
    }

    /// The server's time at this monotonic time, in microseconds since 1970.
    pub(super) fn micros(&self, steady: Duration) -> i64 {
        micros(steady) + self.offset_at(steady)
    }

    /// Takes the `Date` of a response into account. Returns by how much the clock jumps; 0 almost
    /// always.
    pub(super) fn hear(&mut self, date: Timestamp, sent: Duration, received: Duration) -> i64 {
        let date = date.0.saturating_mul(1000);
        let possible =
            Interval { low: date - micros(received), high: date + SECOND - micros(sent) };
        self.offset = self.offset_at(received);
        self.since = self.since.max(received);

        let differs_by = (possible.nearest(self.offset) - self.offset).abs();
        if differs_by < if self.heard { JUMP } else { FIRST_JUMP } {
            self.heard = true;
            self.dissent = None;
            self.target = possible.nearest(self.target);
            return 0;
        }

        let dissent = match self.dissent {
            Some(dissent) if (possible.nearest(dissent.offset) - dissent.offset).abs() < JUMP => {
                Dissent {
                    offset: possible.nearest(dissent.offset),
                    responses: dissent.responses + 1,
                    ..dissent
                }
            }
            _ => Dissent { offset: possible.middle(), since: received, responses: 1 },
        };

        let is_sustained = dissent.responses >= JUMP_RESPONSES
            && received.saturating_sub(dissent.since) >= JUMP_AFTER;
        if self.heard && !is_sustained {
            self.dissent = Some(dissent);
            return 0;
        }

        let jump = dissent.offset - self.offset;
        *self = Self {
            offset: dissent.offset,
            target: dissent.offset,
            since: self.since,
            heard: true,
            dissent: None,
        };

        jump
    }

    fn offset_at(&self, steady: Duration) -> i64 {
        let most = micros(steady.saturating_sub(self.since)) / SLEW;
        self.offset + (self.target - self.offset).clamp(-most, most)
    }
}

impl Interval {
    fn nearest(self, offset: i64) -> i64 {
        offset.max(self.low).min(self.high)
    }

    fn middle(self) -> i64 {
        self.low.midpoint(self.high)
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: i64 = 1000;
    /// The offset of the server in most tests: some time in 2026.
    const TRUE: i64 = 1_767_225_600_123_456;

    /// A clock under test, with a server whose clock the test sets.
    struct Rig {
        anchor: Anchor,
        steady: i64,
    }

    /// A response: time passes before it, and it takes some time out and back.
    #[derive(Clone, Copy, Debug)]
    struct Exchange {
        pause: i64,
        out: i64,
        back: i64,
    }

    impl Rig {
        fn new(wall_error: i64) -> Self {
            let anchor = Anchor::new(Timestamp((TRUE + wall_error) / MS), Duration::ZERO);
            Self { anchor, steady: 0 }
        }

        fn error(&self) -> i64 {
            self.anchor.offset_at(at(self.steady)) - TRUE
        }

        /// Lets time pass and checks that the clock does not run backwards, nor more than 1 % fast
        /// or slow.
        fn pass(&mut self, span: i64) {
            let before = self.anchor.micros(at(self.steady));
            self.steady += span;

            let passed = self.anchor.micros(at(self.steady)) - before;
            assert!((passed - span).abs() <= span / SLEW + 1, "{passed} in {span}");
            assert!(passed >= 0);
        }

        /// Hears a server whose clock differs from the true one. Returns the jump.
        fn hear(&mut self, exchange: Exchange, server_error: i64) -> i64 {
            self.pass(exchange.pause);
            let sent = self.steady;
            self.pass(exchange.out);

            let date = (self.steady + TRUE + server_error).div_euclid(SECOND) * 1000;
            self.pass(exchange.back);

            let before = self.anchor.micros(at(self.steady));
            let jump = self.anchor.hear(Timestamp(date), at(sent), at(self.steady));

            assert_eq!(
                self.anchor.micros(at(self.steady)) - before,
                jump,
                "only a jump changes the reading at once"
            );

            jump
        }
    }

    fn at(micros: i64) -> Duration {
        Duration::from_micros(u64::try_from(micros).expect("time does not run backwards"))
    }

    fn exchange() -> impl Strategy<Value = Exchange> {
        (0..20 * SECOND, 0..200 * MS, 0..200 * MS).prop_map(|(pause, out, back)| Exchange {
            pause,
            out,
            back,
        })
    }

    fn exchanges() -> impl Strategy<Value = Vec<Exchange>> {
        prop::collection::vec(exchange(), 1..200)
    }

    proptest! {
        /// The true offset lies within every interval. So the target differs from it by at most one
        /// second plus the latency, and the reading approaches the target at its limited pace.
        #[test]
        fn one_server_is_followed_within_a_second(wall_error in -9 * SECOND..9 * SECOND, heard in exchanges()) {
            let mut rig = Rig::new(wall_error);
            for (n, exchange) in heard.into_iter().enumerate() {
                let jump = rig.hear(exchange, 0);
                prop_assert!(n == 0 || jump == 0, "only the first response may make the clock jump");
                let latency = exchange.out + exchange.back;
                prop_assert!((rig.anchor.target - TRUE).abs() <= SECOND + latency);
                prop_assert!(rig.error().abs() <= SECOND + FIRST_JUMP + latency);
            }
        }

        /// Servers that differ from one another never make the clock jump, and it stays between
        /// them.
        #[test]
        fn servers_that_differ_do_not_disturb(
            spread in 0..9 * SECOND,
            heard in prop::collection::vec((exchange(), 0_i64..=4), 1..200),
        ) {
            let mut rig = Rig::new(0);
            for (n, (exchange, server)) in heard.into_iter().enumerate() {
                let jump = rig.hear(exchange, server * spread / 4);
                prop_assert!(n == 0 || jump == 0, "only the first response may make the clock jump");
                let slack = 2 * SECOND;
                prop_assert!(rig.error() >= -slack && rig.error() <= spread + slack, "{} of {spread}", rig.error());
            }
        }

        /// A machine wakes up, or the clock of the server is set: the clock jumps once, within a
        /// minute of responses.
        #[test]
        fn a_lasting_difference_makes_it_jump_once(
            hours in prop_oneof![-48_i64..=-1, 1_i64..=48],
            before in prop::collection::vec(exchange(), 1..20),
            after in prop::collection::vec(exchange(), 20..40),
        ) {
            let mut rig = Rig::new(0);
            for exchange in before {
                rig.hear(exchange, 0);
            }
            let (set, began) = (hours * 3600 * SECOND, rig.steady);
            let mut jumps = Vec::new();
            for exchange in after {
                let jump = rig.hear(exchange, set);
                if jump != 0 {
                    jumps.push((jump, rig.steady - began));
                }
            }
            // Pauses are at most 20 s, so the third response after 30 s comes within 20.4 s more.
            if rig.steady - began > 75 * SECOND {
                prop_assert_eq!(jumps.len(), 1);
                prop_assert!((jumps[0].0 - set).abs() <= 4 * SECOND);
                prop_assert!(jumps[0].1 >= micros(JUMP_AFTER));
                prop_assert!((rig.error() - set).abs() <= 2 * SECOND);
            }
        }
    }

    const SOON: Exchange = Exchange { pause: 10_100 * MS, out: MS, back: MS };

    #[test]
    fn the_node_counts_before_the_first_response() {
        let rig = Rig::new(-3600 * SECOND);
        assert_eq!(rig.anchor.micros(at(60 * SECOND)), TRUE / MS * MS - 3540 * SECOND);
    }

    #[test]
    fn the_first_response_sets_it_and_a_synchronized_node_needs_no_jump() {
        for (wall_error, jumps) in
            [(3600 * SECOND, true), (-2 * SECOND, true), (0, false), (300 * MS, false)]
        {
            let mut rig = Rig::new(wall_error);
            assert_eq!(rig.hear(SOON, 0) != 0, jumps, "{wall_error}");
            assert!(rig.error().abs() <= SECOND, "{wall_error}");
        }
    }

    #[test]
    fn many_responses_narrow_the_estimate() {
        let mut rig = Rig::new(-400 * MS);
        (0..300).for_each(|_| assert_eq!(rig.hear(SOON, 0), 0));

        assert!(rig.error().abs() <= 100 * MS, "{}", rig.error());
    }

    #[test]
    fn a_few_seconds_are_approached_slowly() {
        let mut rig = Rig::new(0);
        rig.hear(SOON, 0);

        let error = rig.error();
        for n in 1..=30 {
            assert_eq!(rig.hear(SOON, 8 * SECOND), 0);

            let moved = rig.error() - error;
            assert!(moved <= n * 10_102 * MS / SLEW, "{moved}");
        }

        (0..60).for_each(|_| assert_eq!(rig.hear(SOON, 8 * SECOND), 0));
        assert!((rig.error() - 8 * SECOND).abs() <= SECOND, "{}", rig.error());
    }

    #[test]
    fn a_broken_server_among_others_is_ignored() {
        let mut rig = Rig::new(0);
        for n in 0..100 {
            assert_eq!(rig.hear(SOON, if n % 4 == 0 { 0 } else { 3600 * SECOND }), 0);
        }

        assert!(rig.error().abs() <= SECOND);
    }

    #[test]
    fn servers_that_differ_set_it_after_a_suspension() {
        let mut rig = Rig::new(0);
        rig.hear(SOON, 0);

        let jumps: Vec<i64> = (0..8)
            .map(|n| rig.hear(SOON, 7200 * SECOND + n % 2 * 4 * SECOND))
            .filter(|jump| *jump != 0)
            .collect();

        assert_eq!(jumps.len(), 1);
        assert!((7199 * SECOND..=7206 * SECOND).contains(&jumps[0]), "{}", jumps[0]);
    }

    #[test]
    fn a_slow_response_is_no_reason_to_move() {
        let mut rig = Rig::new(0);
        for (out, back) in [(0, 5), (5, 0), (0, 30), (30, 0)] {
            let jump = rig.hear(Exchange { pause: 0, out: out * SECOND, back: back * SECOND }, 0);
            assert_eq!(
                (jump, rig.anchor.target, rig.error() / MS),
                (0, rig.anchor.offset, 0),
                "{out} s, {back} s"
            );
        }
    }
}
