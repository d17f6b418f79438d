//! The clock of the API server, the only one that loopwatch uses. A monotonic clock counts between
//! responses.
//!
//! Objects carry times that the API server wrote. An age is right only if the other time comes from
//! the same clock, and the node's clock may be wrong or be set at any moment. [`ServerClock`]
//! therefore reads the node's wall clock only once, when it is created. From then on, it counts
//! with a monotonic clock, which the `Date` header of each response corrects (see [`Anchor`]).
//! Setting the node's clock has no effect.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, StatusCode, header};
use jiff::fmt::rfc2822;
use loopwatch_model::observation::Observation;
use loopwatch_model::time::Timestamp;
use tracing::info;

mod anchor;

use self::anchor::Anchor;

use crate::lock::lock;

/// The clocks of a node.
pub(crate) trait Clock: Send + Sync {
    /// The wall clock time.
    fn wall(&self) -> Timestamp;
    /// Time since a fixed instant, from a monotonic clock.
    fn steady(&self) -> Duration;
}

/// The clocks of this machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SystemClock {
    started: Instant,
}

/// The clock of the API server. Observations and the ticks between them get their timestamps from
/// it.
#[derive(Clone)]
pub(crate) struct ServerClock {
    node: Arc<dyn Clock>,
    state: Arc<Mutex<ClockState>>,
    /// The jumps that the readings of this model have announced; `None` before the first reading, so
    /// that earlier jumps concern nobody.
    announced: Arc<Mutex<Option<i64>>>,
}

struct ClockState {
    anchor: Anchor,
    /// The sum of all jumps, in microseconds.
    jumped: i64,
}

impl SystemClock {
    /// Creates a clock whose monotonic time starts now.
    #[must_use]
    pub(crate) fn new() -> Self {
        Self { started: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the only place that reads the clock")]
    fn wall(&self) -> Timestamp {
        // A clock before 1970 reads as 1970, when no measurement makes sense anyway.
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX))
    }

    // On Linux, this clock stops while the machine is suspended. That is right: loopwatch sees
    // nothing then, and the next responses make the clock jump forward.
    fn steady(&self) -> Duration {
        self.started.elapsed()
    }
}

impl ServerClock {
    /// A clock that starts with the time of this machine.
    #[must_use]
    pub(crate) fn new() -> Self {
        Self::of(Arc::new(SystemClock::new()))
    }

    /// A clock that starts with the time of a node.
    #[must_use]
    pub(crate) fn of(node: Arc<dyn Clock>) -> Self {
        let anchor = Anchor::new(node.wall(), node.steady());
        let state = Arc::new(Mutex::new(ClockState { anchor, jumped: 0 }));
        Self { node, state, announced: Arc::default() }
    }

    /// The same clock for another model, which hears of each jump itself.
    #[must_use]
    pub(crate) fn for_another_model(&self) -> Self {
        Self { announced: Arc::default(), ..self.clone() }
    }

    /// The monotonic time, to pass to [`ServerClock::hear`].
    pub(crate) fn steady(&self) -> Duration {
        self.node.steady()
    }

    pub(crate) fn now(&self) -> Timestamp {
        let state = self.state();
        Timestamp(state.anchor.micros(self.node.steady()).div_euclid(1000))
    }

    /// The time now, and the size of a jump since the last call, in milliseconds. The caller must
    /// announce the jump to the model before anything else.
    pub(crate) fn read(&self) -> (Timestamp, Option<i64>) {
        let (micros, all) = {
            let state = self.state();
            (state.anchor.micros(self.node.steady()), state.jumped)
        };
        let now = micros.div_euclid(1000);
        let new = all - lock(&self.announced).replace(all).unwrap_or(all);
        let jumped = now - (micros - new).div_euclid(1000);

        (Timestamp(now), Some(jumped).filter(|by_ms| *by_ms != 0))
    }

    /// A tick, after the announcement of a jump if there was one.
    pub(crate) fn ticks(&self) -> impl Iterator<Item = (Timestamp, Observation)> + use<> {
        let (now, step) = self.read();
        let step = step.map(|by_ms| Observation::ClockStepped { by_ms });
        step.into_iter().chain([Observation::Tick]).map(move |observation| (now, observation))
    }

    /// Reads the `Date` of a response that has just begun. `sent` is the monotonic time of its
    /// request.
    pub(crate) fn hear(&self, status: StatusCode, headers: &HeaderMap, sent: Duration) {
        // Proxies send such statuses themselves, with their own clock, and a cached response is
        // old.
        if status.is_server_error() || headers.contains_key(header::AGE) {
            return;
        }

        let Some(date) = headers.get(header::DATE).and_then(|value| parse_date(value.as_bytes()))
        else {
            return;
        };
        let mut state = self.state();
        let jumped = state.anchor.hear(date, sent, self.node.steady());

        if jumped != 0 {
            info!(by_ms = jumped / 1000, "set the clock by the API server's");
        }

        state.jumped = state.jumped.saturating_add(jumped);
    }

    fn state(&self) -> MutexGuard<'_, ClockState> {
        lock(&self.state)
    }
}

/// Parses a `Date` header, for example `Sun, 06 Nov 1994 08:49:37 GMT`.
fn parse_date(text: &[u8]) -> Option<Timestamp> {
    let date = rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    Some(Timestamp(date.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

    use super::*;

    /// A node whose clocks a test sets, in milliseconds.
    #[derive(Default)]
    struct Node {
        wall: AtomicI64,
        steady: AtomicU64,
    }

    impl Clock for Node {
        fn wall(&self) -> Timestamp {
            Timestamp(self.wall.load(Ordering::Relaxed))
        }
        fn steady(&self) -> Duration {
            Duration::from_millis(self.steady.load(Ordering::Relaxed))
        }
    }

    impl Node {
        /// Lets time pass on both clocks.
        fn pass(&self, ms: u64) {
            self.steady.fetch_add(ms, Ordering::Relaxed);
            self.wall.fetch_add(i64::try_from(ms).expect("small"), Ordering::Relaxed);
        }
    }

    /// 1994-11-06T08:49:37Z.
    const DATE: i64 = 784_111_777_000;

    fn headers(date: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::DATE, date.parse().expect("a value"))])
    }

    /// Hears the time that is `seconds` after [`DATE`].
    fn hear(clock: &ServerClock, seconds: i64) {
        let date = jiff::Timestamp::from_second(DATE / 1000 + seconds).expect("a valid time");
        let date =
            rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&date).expect("printable");
        clock.hear(StatusCode::OK, &headers(&date), clock.steady());
    }

    fn started(wall: i64) -> (Arc<Node>, ServerClock) {
        let node = Arc::new(Node::default());
        node.wall.store(wall, Ordering::Relaxed);
        (node.clone(), ServerClock::of(node))
    }

    #[test]
    fn setting_the_clock_of_the_node_changes_nothing() {
        let (node, clock) = started(DATE + 200);
        for step in [3_600_000, -7_200_000, 3_600_000] {
            node.wall.fetch_add(step, Ordering::Relaxed);
            node.pass(1_000);

            assert_eq!(clock.read().1, None, "before the first response");
        }

        hear(&clock, 3);
        for step in [3_600_000, -7_200_000, 3_600_000] {
            node.wall.fetch_add(step, Ordering::Relaxed);
            node.pass(1_000);
            hear(&clock, i64::try_from(clock.steady().as_secs()).expect("small"));

            assert_eq!(clock.read().1, None);
        }

        assert_eq!(clock.now(), Timestamp(DATE + 6_200));
    }

    #[test]
    fn a_jump_is_announced_once_and_before_the_tick() {
        let (node, clock) = started(DATE - 3_600_000);
        assert_eq!(clock.read(), (Timestamp(DATE - 3_600_000), None));

        node.pass(100);
        hear(&clock, 0);

        let now = Timestamp(DATE + 500);
        let stepped = Observation::ClockStepped { by_ms: 3_600_400 };

        assert_eq!(clock.ticks().collect::<Vec<_>>(), [(now, stepped), (now, Observation::Tick)]);
        assert_eq!(clock.ticks().collect::<Vec<_>>(), [(now, Observation::Tick)]);
    }

    #[test]
    fn each_model_hears_of_a_jump() {
        let (_, clock) = started(DATE - 3_600_000);
        let (other, later) = (clock.for_another_model(), clock.for_another_model());
        let jump = |clock: &ServerClock| clock.read().1;
        assert_eq!((jump(&clock), jump(&other)), (None, None));

        hear(&clock, 0);
        assert_eq!((jump(&clock), jump(&other)), (Some(3_600_500), Some(3_600_500)));
        assert_eq!((jump(&clock), jump(&other), jump(&later)), (None, None, None));
    }

    #[test]
    fn a_jump_before_the_first_reading_concerns_nobody() {
        let (_, clock) = started(0);
        hear(&clock, 0);

        assert_eq!(clock.read(), (Timestamp(DATE + 500), None));
    }

    #[test]
    fn only_the_dates_of_the_api_server_count() {
        let (_, clock) = started(0);
        for (status, date, age) in [
            (StatusCode::BAD_GATEWAY, "Sun, 06 Nov 1994 08:49:37 GMT", None),
            (StatusCode::OK, "Sun, 06 Nov 1994 08:49:37 GMT", Some("60")),
            (StatusCode::OK, "yesterday", None),
            (StatusCode::OK, "", None),
        ] {
            let mut headers = headers(date);
            headers.extend(age.map(|age| (header::AGE, age.parse().expect("a value"))));
            clock.hear(status, &headers, Duration::ZERO);

            assert_eq!(clock.now(), Timestamp(0), "{status} {date:?}");
        }

        // The API server's refusal carries the API server's time.
        clock.hear(
            StatusCode::FORBIDDEN,
            &headers("Sun, 06 Nov 1994 08:49:37 GMT"),
            Duration::ZERO,
        );

        assert_eq!(clock.now(), Timestamp(DATE + 500));
    }
}
