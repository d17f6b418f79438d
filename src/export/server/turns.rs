//! Limits the large responses in progress: in total, for each peer and in time. Their memory is
//! thus limited, and slow clients do not keep fast ones out.
//!
//! A client that reads slowly, or not at all, loses its turn as soon as another client needs it. A
//! queue thus moves on fast, even if all other requests in it come from slow clients.

use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body::{Frame, SizeHint};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::backpressure::Backpressure;
use super::client::Client;
use crate::lock::lock;

/// The turns of one group of paths. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Turns(Arc<Shared>);

/// How many turns there are, and how long they last.
#[derive(Clone, Copy, Debug)]
pub(super) struct TurnLimits {
    /// Responses in progress.
    pub(super) total: usize,
    /// Responses in progress for one peer address, which several clients may share.
    pub(super) per_peer: usize,
    /// How long a request waits for its turn. Prometheus times out after ten seconds by default.
    pub(super) queue: Duration,
    /// A client that has not taken a part of the response for this time is slow.
    pub(super) slow: Duration,
    /// How long a response may take, unless the scraper states another time.
    pub(super) whole: Duration,
}

#[derive(Debug)]
struct Shared {
    limits: TurnLimits,
    responses: Mutex<Responses>,
    freed: Notify,
}

/// The responses in progress, and the requests that wait.
#[derive(Debug, Default)]
struct Responses {
    open: Vec<Open>,
    /// The numbers of the requests that wait, the oldest first, with their peers.
    waiting: Vec<(u64, IpAddr)>,
    /// How many requests there have been.
    requests: u64,
    /// When the task that looks for slow clients last did. It runs only while requests wait.
    looked: Option<Instant>,
}

/// A response in progress.
#[derive(Debug)]
struct Open {
    peer: IpAddr,
    /// When the client last took a part.
    taken: Instant,
    /// For how long it has been seen since then to take none.
    idle: Duration,
    /// Whether the connection waits for the client.
    backpressure: Backpressure,
    /// Closes its connection.
    close: CancellationToken,
    /// The number of its request.
    number: u64,
}

/// A request that waits for its turn. It no longer waits when it is dropped.
struct Waiter {
    shared: Arc<Shared>,
    number: u64,
}

/// The room for one more response.
enum Room {
    Free,
    /// A slow client must give up its turn, at this position.
    Of(usize),
}

/// The right to send one response. It ends when it is dropped.
#[derive(Debug)]
struct Turn {
    shared: Arc<Shared>,
    number: u64,
    _timer: DropGuard,
}

/// A body that is sent in parts while it has the turn.
struct TurnBody {
    body: Body,
    /// The rest of the last part of `body`.
    rest: Bytes,
    /// How much it has sent since other tasks could run.
    sent: usize,
    turn: Turn,
}

/// The longest time that a scraper can request for a whole response.
const LONGEST: Duration = Duration::from_secs(60);

/// The header in which Prometheus states how long it waits.
const SCRAPE_TIMEOUT: &str = "x-prometheus-scrape-timeout-seconds";

/// Largest part of a body that the connection holds at once.
const PART: usize = 64 * 1024;

/// How much a body sends before it lets other tasks run. Otherwise, one that fills the empty buffers
/// of a connection, which may be several megabytes, would stop all others meanwhile.
const YIELD_AFTER: usize = 4 * PART;

/// Time between two looks for slow clients while requests wait.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Handles a request when its turn has come, and ends the turn with the response.
pub(super) async fn take_turn(
    State(turns): State<Turns>,
    request: Request,
    next: Next,
) -> Response {
    let client = request.extensions().get::<Client>().cloned().unwrap_or_default();
    let whole = requested_time(request.headers()).unwrap_or(turns.0.limits.whole);
    let Ok(turn) = timeout(turns.0.limits.queue, turns.wait(&client, whole)).await else {
        let busy = "too many concurrent requests; retry later\n";
        return (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "1")], busy)
            .into_response();
    };

    let response = next.run(request).await;
    response.map(|body| Body::new(TurnBody { body, rest: Bytes::new(), sent: 0, turn }))
}

/// How long the scraper waits for the whole response, if it says so.
fn requested_time(headers: &HeaderMap) -> Option<Duration> {
    let seconds: f64 = headers.get(SCRAPE_TIMEOUT)?.to_str().ok()?.trim().parse().ok()?;
    let time = Duration::try_from_secs_f64(seconds).ok()?;
    Some(time.min(LONGEST))
}

impl Turns {
    pub(super) fn new(limits: TurnLimits) -> Self {
        Self(Arc::new(Shared { limits, responses: Mutex::default(), freed: Notify::new() }))
    }

    /// Waits for a turn that may last for `whole`.
    async fn wait(&self, client: &Client, whole: Duration) -> Turn {
        let waiter = Waiter::new(&self.0, client.peer());
        loop {
            if let Some(turn) = self.take(&waiter, client, whole) {
                return turn;
            }

            self.0.freed.notified().await;
        }
    }

    /// Takes a turn if one is free or if a slow client must give one up, and if nobody else goes
    /// first.
    fn take(&self, waiter: &Waiter, client: &Client, whole: Duration) -> Option<Turn> {
        let (limits, close) = (self.0.limits, client.close());
        let mut responses = lock(&self.0.responses);
        let (next, room) = responses.next(limits)?;
        if next != waiter.number {
            return None;
        }

        if let Room::Of(slow) = room {
            responses.open.remove(slow).close.cancel();
        }

        let (peer, number, taken) = (client.peer(), waiter.number, Instant::now());
        let (close_by, idle) = (close.clone(), Duration::ZERO);
        let backpressure = client.backpressure();
        responses.open.push(Open { peer, taken, idle, backpressure, close: close_by, number });
        Some(Turn { shared: Arc::clone(&self.0), number, _timer: close_after(whole, close) })
    }
}

impl Waiter {
    fn new(shared: &Arc<Shared>, peer: IpAddr) -> Self {
        let mut responses = lock(&shared.responses);
        responses.requests += 1;
        let number = responses.requests;

        responses.waiting.push((number, peer));
        if responses.looked.is_none() {
            responses.looked = Some(Instant::now());
            tokio::spawn(look_for_slow_clients(Arc::clone(shared)));
        }

        Self { shared: Arc::clone(shared), number }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        lock(&self.shared.responses).waiting.retain(|(number, _)| *number != self.number);
    }
}

/// Looks for slow clients as long as requests wait. This is a task of its own, not a part of the
/// requests: between two of its turns, each connection has had one, in which its client could take
/// what was ready. Several requests may begin between two turns of a connection, and each may take
/// long to render its response.
async fn look_for_slow_clients(shared: Arc<Shared>) {
    loop {
        sleep(LOOK_EVERY).await;

        let has_waiting = lock(&shared.responses).look();
        shared.freed.notify_waiters();
        if !has_waiting {
            return;
        }
    }
}

impl Responses {
    /// Looks for how long clients have taken nothing although their connections wait for them. While
    /// this process, or the whole machine, had no CPU time, no client could take anything, so the time between two looks
    /// counts only in part. Returns whether requests wait.
    fn look(&mut self) -> bool {
        let now = Instant::now();
        let passed = self.looked.replace(now).map_or(Duration::ZERO, |looked| now - looked);
        for open in self.open.iter_mut().filter(|open| open.backpressure.is_on()) {
            let idle = open.idle + passed.min(2 * LOOK_EVERY);
            open.idle = idle.min(now - open.taken);
        }

        if self.waiting.is_empty() {
            self.looked = None;
        }
        self.looked.is_some()
    }

    /// The request whose turn is next, and the room for its response. Peers with few requests go
    /// first, then older requests.
    fn next(&self, limits: TurnLimits) -> Option<(u64, Room)> {
        let mut requests: HashMap<IpAddr, usize> = HashMap::new();
        let in_progress = self.open.iter().map(|open| open.peer);
        for peer in in_progress.chain(self.waiting.iter().map(|(_, peer)| *peer)) {
            *requests.entry(peer).or_default() += 1;
        }

        let mut order: Vec<_> = self
            .waiting
            .iter()
            .map(|(number, peer)| (requests.get(peer), *number, *peer))
            .collect();
        order.sort_unstable();
        order.into_iter().find_map(|(_, number, peer)| Some((number, self.room(limits, peer)?)))
    }

    /// The room for a response to this peer: a free turn, or that of the slowest client.
    fn room(&self, limits: TurnLimits, peer: IpAddr) -> Option<Room> {
        if self.open.iter().filter(|open| open.peer == peer).count() >= limits.per_peer {
            return self.slowest(limits.slow, |open| open.peer == peer);
        }

        if self.open.len() < limits.total {
            return Some(Room::Free);
        }
        self.slowest(limits.slow, |_| true)
    }

    /// The turn of the slowest client among those that `may` accepts, if one has been slow for this
    /// time.
    fn slowest(&self, slow: Duration, may: impl Fn(&Open) -> bool) -> Option<Room> {
        let candidates = self.open.iter().enumerate();
        let candidates = candidates.filter(|(_, open)| may(open) && open.idle >= slow);
        candidates.min_by_key(|(_, open)| open.taken).map(|(position, _)| Room::Of(position))
    }
}

/// Closes a connection after this time, unless the returned guard is dropped before.
fn close_after(time: Duration, close: CancellationToken) -> DropGuard {
    let ended = CancellationToken::new();
    let guard = ended.clone().drop_guard();
    tokio::spawn(async move {
        if timeout(time, ended.cancelled()).await.is_err() {
            close.cancel();
        }
    });

    guard
}

impl Turn {
    /// Notes that the client has taken a part.
    fn progressed(&self) {
        let mut responses = lock(&self.shared.responses);
        if let Some(open) = responses.open.iter_mut().find(|open| open.number == self.number) {
            (open.taken, open.idle) = (Instant::now(), Duration::ZERO);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        lock(&self.shared.responses).open.retain(|open| open.number != self.number);
        self.shared.freed.notify_one();
    }
}

impl http_body::Body for TurnBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.sent >= YIELD_AFTER {
            self.sent = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }

        if self.rest.is_empty() {
            let frame = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => frame,
                other => return Poll::Ready(other),
            };
            match frame.into_data() {
                Ok(data) => self.rest = data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }

        self.turn.progressed();
        let length = self.rest.len().min(PART);
        self.sent += length;
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (hint, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut with_rest = SizeHint::new();
        with_rest.set_lower(hint.lower().saturating_add(rest));
        if let Some(upper) = hint.upper() {
            with_rest.set_upper(upper.saturating_add(rest));
        }

        with_rest
    }
}
