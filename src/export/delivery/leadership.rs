//! Decides which replica sends: each replica of an operator has a loopwatch, and all see the same
//! events and traces.
//!
//! A replica leads if its Pod holds a lease, or if no Pod of its workload has recently held one.
//! Leases of other workloads do not matter. If loopwatch cannot read leases, every replica
//! therefore sends, and the receiver can ignore repetitions by the ID of the event or the span.
//! Between two leaders, nobody sends. For an event, the current leader sends; a trace waits for the
//! leader's next renewal (`traces/trace_sender.rs`).

use std::time::Duration;

use loopwatch_model::model::LeaderElection;
use loopwatch_model::observation::{LeaseView, pod_of_holder};
use tokio::time::Instant;

use crate::system::own_pod::workload_of_pod;

/// Decides whether this replica leads.
#[derive(Debug)]
pub(super) struct Leadership {
    /// The Pod of this process; `None` outside a cluster.
    pod: Option<String>,
    /// The Deployment or StatefulSet of this Pod.
    workload: Option<String>,
    /// When a Pod of the workload last held a lease, which shows that the workload elects leaders.
    elected: Option<Instant>,
}

/// What the leases show at one instant.
#[derive(Debug)]
pub(super) struct Standing<'a> {
    /// Whether this replica leads.
    pub(super) leads: bool,
    /// Whether the workload is known to elect leaders.
    pub(super) elects: bool,
    /// The leases that Pods of the workload hold.
    pub(super) held: Vec<&'a LeaseView>,
}

/// The longest time between two leaders. After it, the workload counts as one without leader
/// election: a lease remains if an update of the operator turns leader election off.
const BETWEEN_LEADERS: Duration = Duration::from_secs(300);

impl Leadership {
    pub(super) fn new(pod: Option<String>) -> Self {
        let workload = pod.as_deref().and_then(workload_of_pod);
        Self { pod, workload, elected: None }
    }

    /// Whether this process is in a Pod.
    pub(super) const fn is_in_pod(&self) -> bool {
        self.pod.is_some()
    }

    /// Evaluates the current leases.
    pub(super) fn standing<'a>(&mut self, election: &'a LeaderElection) -> Standing<'a> {
        let is_held = |lease: &&LeaseView| self.is_of_workload(pod_of_holder(&lease.holder));
        let held: Vec<&LeaseView> = election.leases.iter().filter(is_held).collect();
        if !held.is_empty() {
            self.elected = Some(Instant::now());
        }

        let elects = self.elected.is_some_and(|at| at.elapsed() <= BETWEEN_LEADERS);
        let pod = self.pod.as_deref();
        let is_leader = held.iter().any(|lease| Some(pod_of_holder(&lease.holder)) == pod);
        Standing { leads: is_leader || !elects, elects, held }
    }

    fn is_of_workload(&self, pod: &str) -> bool {
        self.pod.as_deref() == Some(pod)
            || (self.workload.is_some() && workload_of_pod(pod) == self.workload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = "operator-7c9d5b8f6-x2x4z";
    const REPLICA: &str = "operator-7c9d5b8f6-aaaaa_1b671a64-40d5-491e-99b0-da01ff1f3341";
    const MINE: &str = "operator-7c9d5b8f6-x2x4z_1b671a64-40d5-491e-99b0-da01ff1f3341";

    fn leads(pod: &str, holders: &[&str]) -> bool {
        Leadership::new(Some(pod.to_owned())).leads(holders)
    }

    impl Leadership {
        fn leads(&mut self, holders: &[&str]) -> bool {
            let leases = holders
                .iter()
                .map(|holder| LeaseView { holder: (*holder).to_owned(), ..LeaseView::default() });
            let election = LeaderElection { leases: leases.collect(), stands_by: false };

            self.standing(&election).leads
        }
    }

    #[test]
    fn the_pod_that_holds_a_lease_leads() {
        assert!(leads(POD, &[MINE]));
        assert!(leads(POD, &[POD]), "an identity without a random ID");
        assert!(leads(POD, &["other_1", REPLICA, MINE]), "one controller of several");
        assert!(!leads(POD, &[REPLICA]));
        assert!(leads("operator-1", &["operator-1_x"]) && !leads("operator-1", &["operator-10_x"]));
    }

    #[test]
    fn a_replica_of_a_workload_without_a_lease_leads() {
        assert!(leads(POD, &[]), "no leader election");
        assert!(leads(POD, &["other-7c9d5b8f6-x2x4z_1", ""]), "another operator in the namespace");
        assert!(leads("loopwatch-5f6d7c8b9-abcde", &[REPLICA]), "standalone, beside the operator");
        assert!(Leadership::new(None).leads(&[REPLICA]), "outside a Pod");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_leads_between_two_leaders() {
        let mut leadership = Leadership::new(Some(POD.to_owned()));
        assert!(!leadership.leads(&[REPLICA]));
        assert!(!leadership.leads(&[""]), "released");
        assert!(leadership.leads(&[MINE]));
        assert!(!leadership.leads(&[REPLICA]), "lost");
    }

    #[tokio::test(start_paused = true)]
    async fn every_replica_leads_if_its_workload_no_longer_elects_leaders() {
        let mut leadership = Leadership::new(Some(POD.to_owned()));
        assert!(!leadership.leads(&[REPLICA]));

        tokio::time::sleep(BETWEEN_LEADERS).await;
        assert!(!leadership.leads(&[]));

        tokio::time::sleep(BETWEEN_LEADERS).await;
        assert!(leadership.leads(&[]), "the lease of an earlier version of the operator");
    }
}
