//! Finalizers, blocking chains, terminating scopes and soft deletion.

mod stuck;
mod finalizer_actors;
mod finalizers;
mod lost_finalizers;
mod finalizer_writers;
mod absence;
mod uninstalled_operators;
mod blocking_chains;
mod blocked_deletions;
mod terminating_scopes;
mod deleted_scopes;
mod terminating_namespaces;
mod soft_deletion;
mod cascade;
