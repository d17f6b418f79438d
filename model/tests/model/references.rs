//! References to other objects, and their targets.

mod cross_namespace;
mod dangling;
mod needed;
mod lookups;
mod late_targets;
mod target_kinds;

use loopwatch_model::observation::{ObjectAddress, ObjectView, Reference};
use loopwatch_model::time::Span;

use crate::lab::{Lab, Widget, World, at, kind, reference};

const WEB: &str = "DanglingReference Widget team-a/web";

/// Returns a reference to a Secret.
fn secret(name: &str) -> Reference {
    reference("", "Secret", "spec.secretName", name)
}

fn secret_at(name: &str) -> ObjectAddress {
    at("", "Secret", "team-a", name)
}

impl World {
    /// Returns a world whose API server answers the reads of a lab.
    fn answering(lab: Lab) -> Self {
        Self::around(lab, &[kind()])
    }

    /// Somebody creates a Secret, which no watch shows.
    fn create_secret(&mut self, name: &str) {
        self.put_unseen(&secret_at(name), |_, _| ());
    }

    /// Shows a widget with these references.
    fn refer(&mut self, widget: &Widget, references: &[Reference]) {
        let view = self.lab.view(widget);
        self.lab.apply_view(ObjectView { references: references.to_vec(), ..view });
    }

    /// Creates a widget that is not ready and has these references.
    fn waiting(&mut self, name: &str, references: &[Reference]) -> Widget {
        let mut widget = Widget::new(name, self.lab.now);
        self.refer(&widget, references);
        self.lab.advance(Span::secs(1));
        self.refer(widget.waiting(), references);

        widget
    }

    /// Creates a widget that is ready and has these references.
    fn ready(&mut self, name: &str, references: &[Reference]) -> Widget {
        let mut widget = Widget::new(name, self.lab.now);
        self.refer(&widget, references);
        self.lab.advance(Span::secs(1));
        self.refer(widget.ready(), references);

        widget
    }

    fn dangling(&self) -> Vec<String> {
        let findings = self.lab.findings().into_iter();
        findings.filter(|finding| finding.starts_with("DanglingReference")).collect()
    }
}
