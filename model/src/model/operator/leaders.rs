//! The operator's leases.

use super::super::Model;
use crate::time::Timestamp;

/// The number of generated parts at the end of a Pod's name: the hash of its template and its own.
const GENERATED_PARTS: usize = 2;

// === impl Model ===

impl Model {
    /// Returns the name of the operator's lease and when loopwatch last saw it renewed. If it has several, the one that was
    /// renewed last. `None` if it has none, or if loopwatch cannot see the leases.
    pub(super) fn operator_lease_renewed(&self) -> Option<(&str, Timestamp)> {
        let view = self.operator.view.as_ref()?;
        let is_own = |holder: &str| is_of_workload(holder, &view.name);
        self.controllers.renewed_in(&view.namespace, is_own).max_by_key(|(_, alive)| *alive)
    }
}

/// Returns whether the holder of a lease is a Pod of a workload, according to its name.
pub(super) fn is_of_workload(holder: &str, workload: &str) -> bool {
    let pod = pod_of(holder);
    let rest = pod.strip_prefix(workload).and_then(|rest| rest.strip_prefix('-'));
    pod == workload || rest.is_some_and(|rest| !rest.is_empty() && rest.split('-').count() <= GENERATED_PARTS)
}

/// Returns the name of the Pod that holds a lease: client-go appends `_` and a UUID.
pub(super) fn pod_of(holder: &str) -> &str {
    holder.split('_').next().unwrap_or(holder)
}
