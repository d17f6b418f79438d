//! Decides which replica sends a trace, so that each trace arrives once, even while the leader
//! changes.
//! All replicas see the same traces and the same lease. In each of them, a trace that has ended
//! therefore waits for the next renewal of the lease, and the replica whose Pod renews it sends the
//! trace. If the leader dies, its successor has all traces that ended since the last renewal. If
//! nobody takes the lease, the last leader sends them. Without a lease, no trace waits.

use std::collections::VecDeque;
use std::time::Duration;

use loopwatch_model::model::LeaderElection;
use loopwatch_model::observation::LeaseView;
use loopwatch_model::time::Timestamp;
use loopwatch_model::trace::Trace;
use tokio::time::Instant;

use super::spans::spans_in;
use crate::export::delivery::leadership::Leadership;

/// Decides which traces this replica sends.
#[derive(Debug)]
pub(super) struct TraceSender {
    leadership: Leadership,
    started: Instant,
    waiting: VecDeque<WaitingTrace>,
    /// The number of waiting spans.
    spans: usize,
    /// Whether this replica sends: it leads, or nobody does and it was the last leader.
    leads: bool,
    /// Whether another replica can take over.
    stands_by: bool,
    /// How long to wait for the next renewal.
    patience: Duration,
}

/// A trace that waits for the next renewal.
#[derive(Debug)]
struct WaitingTrace {
    trace: Trace,
    /// The last renewals when the trace ended.
    renewals: Vec<Renewal>,
    since: Instant,
}

/// The last renewal of one of the workload's leases.
type Renewal = (String, Option<Timestamp>);

/// Traces whose sender is certain.
#[derive(Debug, Default)]
pub(super) struct Decided {
    /// The traces that this replica sends.
    pub(super) own: Vec<Trace>,
    /// The number of spans that another replica sends.
    pub(super) others: usize,
    /// Whether the traces waited for a renewal, so that more come only with the next one.
    pub(super) waited: bool,
}

/// The maximum number of waiting spans, which need approximately two megabytes. Beyond it, the
/// oldest traces no longer wait.
const MAX_SPANS: usize = 8_192;

/// How long a replica waits for the leases after its start: it does not know yet whether another
/// one leads.
const START: Duration = Duration::from_secs(10);

/// The usual duration of a lease.
const LEASE: Duration = Duration::from_secs(15);

/// How long another replica may need to take over an expired lease.
const TAKE_OVER: Duration = Duration::from_secs(30);

impl TraceSender {
    pub(super) fn new(pod: Option<String>) -> Self {
        Self {
            leadership: Leadership::new(pod),
            started: Instant::now(),
            waiting: VecDeque::new(),
            spans: 0,
            leads: false,
            stands_by: false,
            patience: LEASE + TAKE_OVER,
        }
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes traces that have ended, and returns those whose sender is certain.
    pub(super) fn decide(&mut self, traces: Vec<Trace>, election: &LeaderElection) -> Decided {
        let standing = self.leadership.standing(election);
        let renewals: Vec<Renewal> =
            standing.held.iter().map(|lease| (lease.name.clone(), lease.renewed)).collect();
        let is_held = !standing.held.is_empty();
        self.stands_by = election.stands_by;

        if let Some(longest) = standing.held.iter().map(|lease| duration_of(lease)).max() {
            self.patience = longest + TAKE_OVER;
        }

        // A leader without a successor keeps its role.
        if is_held || !standing.elects {
            self.leads = standing.leads;
        }

        let waits =
            standing.elects || (self.leadership.is_in_pod() && self.started.elapsed() < START);
        let mut decided = Decided { waited: waits, ..Decided::default() };
        let is_decided = |first: &WaitingTrace, patience: Duration| {
            !waits || (is_held && first.renewals != renewals) || first.since.elapsed() > patience
        };

        while self.waiting.front().is_some_and(|first| is_decided(first, self.patience)) {
            self.release(&mut decided);
        }

        for trace in traces {
            self.spans += spans_in(&trace);
            self.waiting.push_back(WaitingTrace {
                trace,
                renewals: renewals.clone(),
                since: Instant::now(),
            });
            while !waits && self.is_waiting() || self.spans > MAX_SPANS {
                self.release(&mut decided);
            }
        }

        decided
    }

    /// Decides about the waiting traces when the process stops: if there is a replica that takes
    /// over, it has them as well.
    pub(super) fn close(&mut self) -> Decided {
        self.leads &= !self.stands_by;
        let mut decided = Decided::default();
        while self.is_waiting() {
            self.release(&mut decided);
        }

        decided
    }

    /// Decides about the oldest trace according to the current leader.
    fn release(&mut self, decided: &mut Decided) {
        let Some(WaitingTrace { trace, .. }) = self.waiting.pop_front() else { return };
        self.spans -= spans_in(&trace);
        if self.leads {
            decided.own.push(trace);
        } else {
            decided.others += spans_in(&trace);
        }
    }
}

/// How long a lease lasts.
fn duration_of(lease: &LeaseView) -> Duration {
    let given = lease.duration.and_then(|lasts| u64::try_from(lasts.0).ok());
    given.map_or(LEASE, Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use loopwatch_model::time::Span;
    use tokio::time::advance;

    use super::super::tests::trace;
    use super::*;

    const ONE: &str = "operator-7c9d5b8f6-aaaaa";
    const TWO: &str = "operator-7c9d5b8f6-bbbbb";

    fn lease(holder: &str, renewed: i64) -> LeaderElection {
        let (renewed, duration) = (Some(Timestamp(renewed)), Some(Span::secs(15)));
        let holder = if holder.is_empty() { String::new() } else { format!("{holder}_1") };
        let lease = LeaseView {
            name: "operator".into(),
            holder,
            renewed,
            duration,
            ..LeaseView::default()
        };

        LeaderElection { leases: vec![lease], stands_by: true }
    }

    /// The generations of the traces that this replica sends, and the number of the others' traces.
    fn decide(
        sender: &mut TraceSender,
        generations: &[i64],
        election: &LeaderElection,
    ) -> (Vec<i64>, usize) {
        let decided = sender.decide(generations.iter().copied().map(trace).collect(), election);
        (decided.own.iter().map(|trace| trace.generation).collect(), decided.others / 2)
    }

    #[tokio::test(start_paused = true)]
    async fn each_trace_has_one_sender_while_the_leader_changes() {
        let [mut one, mut two] = [ONE, TWO].map(|pod| TraceSender::new(Some(pod.to_owned())));
        let mut both = |generations: &[i64], election: &LeaderElection| {
            [decide(&mut one, generations, election), decide(&mut two, generations, election)]
        };
        let nothing = || (vec![], 0);

        assert_eq!(both(&[1], &lease(ONE, 10)), [nothing(), nothing()], "until the next renewal");
        assert_eq!(both(&[2], &lease(ONE, 12)), [(vec![1], 0), (vec![], 1)]);

        // The leader dies. Its sidecar lives on, and sees the same traces and leases as the other
        // sidecar.
        assert_eq!(both(&[3], &lease(ONE, 12)), [nothing(), nothing()]);
        assert_eq!(both(&[4], &lease("", 13)), [nothing(), nothing()], "nobody leads");
        assert_eq!(both(&[5], &lease(TWO, 14)), [(vec![], 3), (vec![2, 3, 4], 0)]);
        assert_eq!(both(&[], &lease(TWO, 16)), [(vec![], 1), (vec![5], 0)]);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_waits_without_a_lease_or_outside_a_pod() {
        let none = LeaderElection::default();
        assert_eq!(decide(&mut TraceSender::new(None), &[1], &lease(ONE, 1)), (vec![1], 0));

        let mut sender = TraceSender::new(Some(ONE.to_owned()));
        assert_eq!(
            decide(&mut sender, &[1], &none),
            (vec![], 0),
            "the leases may not be known yet"
        );

        advance(START).await;
        assert_eq!(decide(&mut sender, &[2], &none), (vec![1, 2], 0));

        // A replica whose peer leads.
        let mut sender = TraceSender::new(Some(ONE.to_owned()));
        assert_eq!(decide(&mut sender, &[1], &none), (vec![], 0));
        assert_eq!(decide(&mut sender, &[], &lease(TWO, 1)), (vec![], 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_leader_that_nobody_replaces_sends_what_waits() {
        let [mut one, mut two] = [ONE, TWO].map(|pod| TraceSender::new(Some(pod.to_owned())));
        for sender in [&mut one, &mut two] {
            assert_eq!(decide(sender, &[1], &lease(ONE, 1)), (vec![], 0));
        }

        advance(LEASE + TAKE_OVER).await;
        assert_eq!(decide(&mut one, &[], &lease(ONE, 1)), (vec![], 0), "a near miss");

        advance(Duration::from_secs(1)).await;
        assert_eq!(
            decide(&mut one, &[], &lease(ONE, 1)),
            (vec![1], 0),
            "the operator is down, and its sidecar is not"
        );
        assert_eq!(decide(&mut two, &[], &lease(ONE, 1)), (vec![], 1));
    }

    /// A failing operator releases its lease, and the kubelet may wait for minutes before it
    /// restarts the operator.
    #[tokio::test(start_paused = true)]
    async fn the_last_leader_sends_what_waits_if_nobody_takes_a_released_lease() {
        let [mut one, mut two] = [ONE, TWO].map(|pod| TraceSender::new(Some(pod.to_owned())));
        let mut both = |generations: &[i64], holder: &str| {
            [
                decide(&mut one, generations, &lease(holder, 1)),
                decide(&mut two, generations, &lease(holder, 1)),
            ]
        };

        let nothing = || (vec![], 0);
        assert_eq!(both(&[1], ONE), [nothing(), nothing()]);
        assert_eq!(both(&[2], ""), [nothing(), nothing()], "another replica may take over");

        advance(LEASE + TAKE_OVER + Duration::from_secs(1)).await;
        assert_eq!(both(&[], ""), [(vec![1, 2], 0), (vec![], 2)]);

        // The only replica stops after its operator.
        let mut sender = TraceSender::new(Some(ONE.to_owned()));
        assert_eq!(decide(&mut sender, &[1], &lease(ONE, 1)), (vec![], 0));

        let released = LeaderElection { stands_by: false, ..lease("", 1) };
        assert_eq!(decide(&mut sender, &[2], &released), (vec![], 0));
        assert_eq!(sender.close().own.len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn at_a_stop_the_last_replica_sends_what_waits() {
        for (stands_by, expected) in [(false, 1), (true, 0)] {
            let mut sender = TraceSender::new(Some(ONE.to_owned()));
            let election = LeaderElection { stands_by, ..lease(ONE, 1) };

            assert_eq!(decide(&mut sender, &[1], &election), (vec![], 0));
            assert_eq!(sender.close().own.len(), expected);
            assert!(!sender.is_waiting() && sender.spans == 0);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_is_bounded() {
        let mut sender = TraceSender::new(Some(ONE.to_owned()));
        let many: Vec<i64> = (0..5_000).collect();
        let (own, others) = decide(&mut sender, &many, &lease(ONE, 1));

        assert_eq!((own.len(), others), (5_000 - MAX_SPANS / 2, 0), "the oldest do not wait");

        let mut sender = TraceSender::new(Some(TWO.to_owned()));
        assert_eq!(decide(&mut sender, &many, &lease(ONE, 1)), (vec![], 5_000 - MAX_SPANS / 2));
    }
}
