//! Workloads whose Pods read configuration at their start.

mod stale_pods;
