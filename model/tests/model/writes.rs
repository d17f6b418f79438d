//! Writes that should not happen: for each finding the fault, its healthy twin, and near misses.

mod fights;
mod hot_loops;
mod redundant;
mod stories; // of real operators
mod recreations;
mod reverts;

use loopwatch_model::finding::{Finding, FindingCode};
use loopwatch_model::observation::{Manager, ObjectView, WatchId};
use loopwatch_model::time::Timestamp;

use crate::lab::{Lab, Widget, spec_by, status_by, watch};

/// An object whose writers leave their traces in the managed fields, as the API server notes them: one
/// entry per name and part, with a time in whole seconds.
struct Written {
    watch: WatchId,
    view: ObjectView,
}

impl Written {
    /// Returns a widget that has converged.
    fn widget(lab: &mut Lab, name: &str) -> Self {
        let widget: Widget = lab.converged(name);
        let mut view = lab.view(&widget);
        for condition in &mut view.conditions {
            condition.changed = Some(lab.now);
        }
        view.managers = vec![spec_by("kubectl", lab.now), status_by("widget-operator", lab.now)];
        Self { watch: watch(), view }
    }

    fn spec(&mut self, lab: &mut Lab, by: &str, spec: u64) {
        let changes = self.view.hashes.spec != spec;
        self.view.hashes.spec = spec;
        self.view.generation += i64::from(changes);
        self.written(lab, spec_by(by, lab.now));
    }

    fn status(&mut self, lab: &mut Lab, by: &str, settled: u64, whole: u64) {
        (self.view.hashes.settled, self.view.hashes.status) = (settled, whole);
        self.written(lab, status_by(by, lab.now));
    }

    fn written(&mut self, lab: &mut Lab, mut by: Manager) {
        by.time = by.time.map(|at| Timestamp(at.0 / 1_000 * 1_000));
        let is_same =
            |known: &Manager| (&known.name, &known.subresource) == (&by.name, &by.subresource);
        match self.view.managers.iter_mut().find(|known| is_same(known)) {
            Some(known) => *known = by,
            None => self.view.managers.push(by),
        }
        self.show(lab);
    }

    fn show(&self, lab: &mut Lab) {
        let view = lab.versioned(self.view.clone());
        lab.apply_to(&self.watch, view);
    }
}

fn found(lab: &Lab, code: FindingCode) -> Option<Finding> {
    lab.snapshot().findings.into_iter().find(|finding| finding.code == code)
}
