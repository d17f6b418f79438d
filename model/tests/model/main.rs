//! The tests of the model, in folders named as its rooms. `lab` is the harness that all share.

mod lab;

mod status; // the reading of statuses, and what the statuses of a kind say
mod world; // objects, kinds and watches that come and go
mod findings; // open findings, their starts, causes, tuning and limits
mod visibility; // what a watch can see, and the sources that it needs
mod convergence; // obligations, deadlines and the findings about objects that miss them
mod deletion; // finalizers, blocking chains, terminating scopes and soft deletion
mod ownership; // owner references, logical owners and orphans
mod references; // references to other objects, and their targets
mod configuration; // workloads whose Pods read configuration at their start
mod writes; // writes that should not happen
mod machinery; // the machinery around the API
mod operator; // the operator: its Pods, leases, revisions, control loops and process
mod traces; // traces of obligations and deletions
mod steps; // the way of one observation: restarts, clock, random histories
mod output; // snapshot, explanation and recent past
