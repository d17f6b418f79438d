//! Configuration: ConfigMaps and Secrets that workloads read only when their Pods start.

pub(crate) mod consumers; // which workload reads what
pub(crate) mod stale_pods; // Pods that are older than what they read
