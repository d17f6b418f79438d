//! Obligations, deadlines and the findings about objects that miss them.

mod detectors;
mod transitions;
mod work_in_progress;
mod failing_kinds;
mod tenants; // that do not silence each other
mod deadlines;
mod slow_work;
mod queues;
mod superseded;
mod spec_changes;
mod spec_churn;
mod rejections;
mod pauses;
mod attempts;
mod reverts;
mod rollouts;
mod runs;
mod workloads;
mod ready_but_broken;
