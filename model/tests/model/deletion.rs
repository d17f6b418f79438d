//! Finalizers, blocking chains, terminating scopes and soft deletion.

mod stuck;
mod progress;
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

use loopwatch_model::observation::{Manager, ObjectView, Owned};

use crate::lab::Lab;

const STUCK: &str = "FinalizerStuck Widget team-a/web";

/// Returns a version that is being deleted and whose finalizers these field managers have added.
fn deleted(lab: &mut Lab, name: &str, finalizers: &[(&str, &str)]) -> ObjectView {
    let mut widget = lab.converged(name);
    widget.finalizers = finalizers.iter().map(|(finalizer, _)| (*finalizer).to_owned()).collect();
    widget.deleted = Some(lab.now);

    let mut view = lab.view(&widget);
    view.managers[1].finalizers.clear();
    for (finalizer, manager) in finalizers {
        view.managers.push(Manager {
            name: (*manager).into(),
            time: Some(lab.now),
            owns: Owned { finalizers: true, ..Owned::default() },
            finalizers: vec![(*finalizer).to_owned()],
            ..Manager::default()
        });
    }

    view
}
