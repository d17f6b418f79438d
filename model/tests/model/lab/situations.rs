//! Situations in which stories begin, and what users and operators do again and again.

use loopwatch_model::observation::ConditionStatus::{False, True};
use loopwatch_model::time::Span;

use super::views::{spec_by, texts};
use super::{Lab, Widget};

impl Lab {
    /// Creates a widget that converges after one second, and advances past `settle`.
    pub fn converged(&mut self, name: &str) -> Widget {
        self.converged_in("team-a", name)
    }

    /// Does the same in another namespace.
    pub fn converged_in(&mut self, namespace: &str, name: &str) -> Widget {
        let mut widget = Widget::new(name, self.now);
        widget.namespace = namespace.to_owned();
        self.apply(&widget);
        self.advance(Span::secs(1));
        self.apply(widget.ready());
        self.advance(Span::mins(1));

        widget
    }

    /// Creates widgets that have converged, an hour ago.
    pub fn fleet(&mut self, names: &[&str]) -> Vec<Widget> {
        let widgets = names.iter().map(|name| self.converged(name)).collect();
        self.advance(Span::hours(1));
        widgets
    }

    /// Creates a widget that converges and has these finalizers.
    pub fn finalized(&mut self, name: &str, finalizers: &[&str]) -> Widget {
        let mut widget = self.converged(name);
        widget.finalizers = texts(finalizers);
        self.apply(&widget);

        widget
    }

    /// Begins the deletion of a converged widget that has these finalizers.
    pub fn terminating(&mut self, name: &str, finalizers: &[&str]) -> Widget {
        let mut widget = self.finalized(name, finalizers);
        self.begin_deletion(&mut widget);

        widget
    }

    /// Somebody deletes a widget, which waits for its finalizers.
    pub fn begin_deletion(&mut self, widget: &mut Widget) {
        widget.deleted = Some(self.now);
        self.apply(widget);
    }

    /// Returns a lab with an unacknowledged widget, and that widget.
    pub fn unacknowledged() -> (Self, Widget) {
        let mut lab = Self::new();
        let mut widget = lab.converged("web");
        lab.apply(widget.spec(2, lab.now));
        lab.advance(Span::mins(11));

        assert!(lab.has("Unacknowledged"));

        (lab, widget)
    }

    /// Returns a lab with a widget that lost its readiness 20 minutes ago, and that widget.
    pub fn regressed() -> (Self, Widget) {
        let mut lab = Self::new();
        let mut web = lab.converged("web");
        lab.advance(Span::hours(1));
        lab.apply(web.waiting());
        lab.advance(Span::mins(20));

        assert!(lab.has("Regressed"));

        (lab, web)
    }

    /// Returns a lab with a widget that has not recovered since its bad spec was reverted 20
    /// minutes ago, and that widget.
    pub fn unrecovered() -> (Self, Widget) {
        let mut lab = Self::new();
        let mut pg = lab.converged("pg");
        lab.advance(Span::hours(1));
        lab.apply(pg.spec(2, lab.now));
        lab.apply(pg.failed("InvalidParameter"));
        lab.advance(Span::mins(1));
        lab.apply(pg.spec(1, lab.now));
        lab.apply(pg.failed("PrimaryNotStarting"));

        lab.advance(Span::mins(20));
        assert_eq!(lab.findings(), ["NeverRecovered Widget team-a/pg"]);

        (lab, pg)
    }

    /// Replaces `replicas` replicas: `condition` is false for 40 seconds and true for 40 seconds.
    pub fn roll(&mut self, widget: &mut Widget, replicas: u32, condition: &str) {
        for _ in 0..replicas {
            self.advance(Span::secs(40));
            self.apply(widget.observe().condition(condition, False, "PodNotReady"));
            self.advance(Span::secs(40));
            self.apply(widget.observe().condition(condition, True, "AllPodsReady"));
        }
    }

    /// The operator writes the spec. The managed fields entry of the user stays as it was.
    pub fn write_spec_as_operator(&mut self, widget: &mut Widget, spec: u64) {
        widget.spec(spec, widget.spec_written);
        let mut view = self.view(widget);
        view.managers.push(spec_by("widget-operator", self.now));
        self.apply_view(view);
    }

    /// The watch fails, and recovers after `span`.
    pub fn blind_for(&mut self, span: Span) {
        self.fail();
        self.advance(span);
        self.recover();
    }
}
