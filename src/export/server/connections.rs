//! Limits the number of open connections, in total and per peer. A new connection replaces the one
//! that has been idle longest: neither idle nor slow clients keep out a probe of the kubelet, and
//! neither do requests that wait for their turn.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio::time::Instant;

use crate::lock::lock;

/// The open connections of a server.
#[derive(Debug)]
pub(super) struct Connections {
    tasks: JoinSet<()>,
    open: Vec<Connection>,
    limit: usize,
    limit_per_peer: usize,
}

#[derive(Debug)]
struct Connection {
    peer: IpAddr,
    activity: Activity,
    task: AbortHandle,
}

/// The activity of a connection. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Activity(Arc<Mutex<ConnectionState>>);

#[derive(Clone, Copy, Debug)]
enum ConnectionState {
    /// No complete request since this time, or one that has yet to be answered. A client that sends a
    /// request slowly counts as idle.
    Idle(Instant),
    /// A response is in progress.
    Busy,
}

/// Marks a connection as busy while a response is in progress.
#[derive(Debug)]
pub(super) struct Busy(Activity);

/// A response body. Its connection is busy while the body exists.
struct BusyBody {
    body: Body,
    _busy: Busy,
}

impl Connections {
    pub(super) fn new(limit: usize, limit_per_peer: usize) -> Self {
        Self { tasks: JoinSet::new(), open: Vec::new(), limit, limit_per_peer }
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// Makes room for a connection from `peer`. Returns false if the peer has too many connections
    /// and all of them are busy.
    pub(super) fn make_room(&mut self, peer: IpAddr) -> bool {
        if self.count(peer) >= self.limit_per_peer {
            let Some(idle) = self.longest_idle(|open| open.peer == peer) else { return false };
            self.close(idle);
        }

        if self.open.len() >= self.limit {
            // Closes a connection of a peer with the most connections: the one that has been idle
            // longest, or else the oldest. If many peers have one connection each, this spares new
            // ones, whose request has yet to arrive.
            let most = self.open.iter().map(|open| self.count(open.peer)).max().unwrap_or(0);
            let is_greedy = |open: &Connection| self.count(open.peer) == most;
            let victim =
                self.longest_idle(is_greedy).or_else(|| self.open.iter().position(is_greedy));

            victim.into_iter().for_each(|victim| self.close(victim));
        }

        true
    }

    /// Serves a connection from `peer` by running a task.
    pub(super) fn spawn<F: Future<Output = ()> + Send + 'static>(
        &mut self,
        peer: IpAddr,
        serve: impl FnOnce(Activity) -> F,
    ) {
        let activity = Activity(Arc::new(Mutex::new(ConnectionState::Idle(Instant::now()))));
        let task = self.tasks.spawn(serve(activity.clone()));
        self.open.push(Connection { peer, activity, task });
    }

    /// Waits for the end of a connection; returns false if none is open.
    pub(super) async fn ended(&mut self) -> bool {
        let id = match self.tasks.join_next_with_id().await {
            Some(Ok((id, ()))) => id,
            Some(Err(error)) => error.id(),
            None => return false,
        };

        self.open.retain(|open| open.id() != id);
        true
    }

    fn count(&self, peer: IpAddr) -> usize {
        self.open.iter().filter(|open| open.peer == peer).count()
    }

    /// The position of the connection that has been idle longest, among those that `may` accepts.
    fn longest_idle(&self, may: impl Fn(&Connection) -> bool) -> Option<usize> {
        let open = self.open.iter().enumerate().filter(|(_, open)| may(open));
        let idle =
            open.filter_map(|(position, open)| Some((open.activity.idle_since()?, position)));
        idle.min().map(|(_, position)| position)
    }

    fn close(&mut self, position: usize) {
        self.open.remove(position).task.abort();
    }
}

impl Connection {
    fn id(&self) -> Id {
        self.task.id()
    }
}

impl Activity {
    /// Notes a complete request.
    pub(super) fn requested(&self) {
        self.set(ConnectionState::Idle(Instant::now()));
    }

    /// Marks the connection as busy until the returned value is dropped.
    pub(super) fn busy(&self) -> Busy {
        self.set(ConnectionState::Busy);
        Busy(self.clone())
    }

    fn idle_since(&self) -> Option<Instant> {
        match *lock(&self.0) {
            ConnectionState::Idle(since) => Some(since),
            ConnectionState::Busy => None,
        }
    }

    fn set(&self, state: ConnectionState) {
        *lock(&self.0) = state;
    }
}

impl Busy {
    /// Returns a body that keeps the connection busy while it exists.
    pub(super) fn during(self, body: Body) -> Body {
        Body::new(BusyBody { body, _busy: self })
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.set(ConnectionState::Idle(Instant::now()));
    }
}

impl http_body::Body for BusyBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    /// Adds a connection that never ends, if there is room.
    fn connect(connections: &mut Connections, from: u8) -> Option<Activity> {
        let mut activity = None;
        connections.make_room(peer(from)).then(|| {
            connections.spawn(peer(from), |shared| {
                activity = Some(shared);
                std::future::pending()
            });
        });

        activity
    }

    fn open(connections: &Connections, of: u8) -> usize {
        connections.open.iter().filter(|open| open.peer == peer(of)).count()
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_connection_takes_the_place_of_the_one_that_is_idle_longest() {
        let mut connections = Connections::new(10, 2);
        let first = connect(&mut connections, 1).expect("room");
        tokio::time::advance(std::time::Duration::from_secs(1)).await;

        let second = connect(&mut connections, 1).expect("room");
        let busy = first.busy();

        assert!(connect(&mut connections, 1).is_some(), "the second one is idle");
        assert!(connections.ended().await, "it ended");
        assert!(second.idle_since().is_some() && connections.len() == 2);

        let also = connections.open[1].activity.clone();
        let too = also.busy();

        assert!(connect(&mut connections, 1).is_none(), "all connections of this peer are busy");
        assert!(connect(&mut connections, 2).is_some(), "another peer has room");

        drop((busy, too));
        assert!(connect(&mut connections, 1).is_some(), "both are idle again");

        connections.open.iter().for_each(|open| open.activity.requested());
        assert!(connect(&mut connections, 1).is_some(), "requests that wait keep no probe out");
    }

    #[tokio::test]
    async fn a_full_server_takes_from_the_peer_with_most_connections() {
        let mut connections = Connections::new(4, 3);
        let busy: Vec<_> =
            (0..3).filter_map(|_| connect(&mut connections, 1)).map(|a| a.busy()).collect();
        connect(&mut connections, 2).expect("room");

        assert!(connect(&mut connections, 3).is_some());
        assert_eq!([1, 2, 3].map(|peer| open(&connections, peer)), [2, 1, 1], "{}", busy.len());
    }

    #[tokio::test(start_paused = true)]
    async fn many_peers_with_one_connection_each_do_not_replace_the_newest() {
        let mut connections = Connections::new(4, 3);
        for from in 1..=4 {
            connect(&mut connections, from).expect("room");
            tokio::time::advance(std::time::Duration::from_secs(1)).await;
        }

        connect(&mut connections, 9).expect("room"); // a probe, whose request has yet to arrive
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
        for from in 5..=7 {
            connect(&mut connections, from).expect("room");
        }

        assert_eq!([1, 2, 3, 4, 9].map(|peer| open(&connections, peer)), [0, 0, 0, 0, 1]);
    }
}
