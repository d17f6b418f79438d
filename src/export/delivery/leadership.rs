//! Whether this replica leads: each replica of an operator has a loopwatch, and all see the same
//! events and traces.
//!
//! A replica leads if its Pod holds a lease, or if no Pod of its workload has held one lately.
//! Leases of other workloads say nothing. If loopwatch cannot read leases, every replica therefore
//! sends, and the receiver can ignore repetitions by the ID of the event or the span. Between two
//! leaders, nobody sends.

use std::time::Duration;

use loopwatch_model::observation::pod_of_holder;
use tokio::time::Instant;

use crate::system::own_pod::workload_of_pod;

/// Decides whether this replica leads.
#[derive(Debug)]
pub(crate) struct Leadership {
    /// The Pod of this process; `None` outside a cluster.
    pod: Option<String>,
    /// The Deployment or StatefulSet of this Pod.
    workload: Option<String>,
    /// When a Pod of the workload was last seen to hold a lease: a workload that elects leaders.
    elected: Option<Instant>,
}

/// The longest time between two leaders. After it, the workload no longer elects any: a lease
/// survives an update of the operator that switches leader election off.
const BETWEEN_LEADERS: Duration = Duration::from_secs(300);

impl Leadership {
    pub(crate) fn new(pod: Option<String>) -> Self {
        let workload = pod.as_deref().and_then(workload_of_pod);
        Self { pod, workload, elected: None }
    }

    /// Whether this process is in a Pod.
    pub(crate) const fn is_in_pod(&self) -> bool {
        self.pod.is_some()
    }

    /// Whether the workload elects leaders, as far as it is known.
    pub(crate) fn elects(&self) -> bool {
        self.elected.is_some_and(|at| at.elapsed() <= BETWEEN_LEADERS)
    }

    /// Whether the holder of a lease is a Pod of this workload.
    pub(crate) fn concerns(&self, holder: &str) -> bool {
        let pod = pod_of_holder(holder);
        self.pod.as_deref() == Some(pod)
            || (self.workload.is_some() && workload_of_pod(pod) == self.workload)
    }

    /// Returns whether this replica leads, by the current holders of all leases.
    pub(crate) fn leads(&mut self, holders: &[String]) -> bool {
        let Some(pod) = &self.pod else { return true };
        let is_mine = holders.iter().any(|holder| pod_of_holder(holder) == pod);
        if is_mine || holders.iter().any(|holder| self.concerns(holder)) {
            self.elected = Some(Instant::now());
        }

        is_mine || !self.elects()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = "operator-7c9d5b8f6-x2x4z";
    const REPLICA: &str = "operator-7c9d5b8f6-aaaaa_1b671a64-40d5-491e-99b0-da01ff1f3341";
    const MINE: &str = "operator-7c9d5b8f6-x2x4z_1b671a64-40d5-491e-99b0-da01ff1f3341";

    fn leads(pod: &str, holders: &[&str]) -> bool {
        let holders: Vec<String> = holders.iter().map(|holder| (*holder).to_owned()).collect();
        Leadership::new(Some(pod.to_owned())).leads(&holders)
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
        assert!(Leadership::new(None).leads(&[REPLICA.to_owned()]), "outside a Pod");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_leads_between_two_leaders() {
        let mut leadership = Leadership::new(Some(POD.to_owned()));
        assert!(!leadership.leads(&[REPLICA.to_owned()]));
        assert!(!leadership.leads(&[String::new()]), "released");
        assert!(leadership.leads(&[MINE.to_owned()]));
        assert!(!leadership.leads(&[REPLICA.to_owned()]), "lost");
    }

    #[tokio::test(start_paused = true)]
    async fn every_replica_leads_if_its_workload_no_longer_elects_leaders() {
        let mut leadership = Leadership::new(Some(POD.to_owned()));
        assert!(!leadership.leads(&[REPLICA.to_owned()]));

        tokio::time::sleep(BETWEEN_LEADERS).await;
        assert!(!leadership.leads(&[]));

        tokio::time::sleep(BETWEEN_LEADERS).await;
        assert!(leadership.leads(&[]), "the lease of an earlier version of the operator");
    }
}
