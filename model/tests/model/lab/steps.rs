//! Further steps of the fixture: sources that fail, lists, restarts and steps of the clock; and
//! questions about findings.

use loopwatch_model::finding::{Change, Finding};
use loopwatch_model::model::Model;
use loopwatch_model::observation::{
    Answer, Cause, Manager, ObjectView, Observation, Owned, Probe, Scope, SourceId, WatchId,
    WatchedKind,
};
use loopwatch_model::settings::{Limits, Settings};
use loopwatch_model::snapshot::{KindSummary, ObjectRow};
use loopwatch_model::time::{Span, Timestamp};

use super::{Lab, Widget, kind, watch};

/// Returns default settings without learning.
pub fn unlearned() -> Settings {
    Settings { learn_after: 0, ..Settings::default() }
}

/// Returns the watch of widgets in one namespace.
pub fn namespaced(namespace: &str) -> WatchedKind {
    let scope = Scope::Namespace(namespace.into());
    WatchedKind { watch: WatchId::new("example.io", "widgets", &scope), scope, ..kind() }
}

/// Returns the watch of a kind other than the widgets.
pub fn other_kind(name: &str) -> WatchedKind {
    let resource = format!("{}s", name.to_lowercase());
    let watch = WatchId::new("example.io", &resource, &Scope::AllNamespaces);
    WatchedKind { watch, kind: name.into(), resource, ..kind() }
}

/// Returns the watch of a kind as it is without the permission to list.
pub fn forbidden(kind: WatchedKind) -> WatchedKind {
    WatchedKind { missing: vec!["list".into()], ..kind }
}

/// Returns the managed fields entry of a client that wrote the spec through a subresource, or
/// directly if it is empty.
pub fn spec_writer(name: &str, subresource: &str, time: Timestamp) -> Manager {
    Manager {
        name: name.into(),
        subresource: subresource.into(),
        time: Some(time),
        owns: Owned { spec: true, ..Owned::default() },
        ..Manager::default()
    }
}

impl Lab {
    /// Returns a lab with a widget that has lost its readiness 20 minutes ago, and that widget.
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

    /// Returns a lab with default settings and these limits.
    pub fn limited(limits: Limits) -> Self {
        Self::with(Settings { limits, ..unlearned() })
    }

    /// Returns the instant `span` ago.
    pub fn ago(&self, span: Span) -> Timestamp {
        self.now.after(Span(-span.0))
    }

    /// Advances by `span` in steps of one minute.
    pub fn advance_by_minutes(&mut self, minutes: i64) {
        (0..minutes).for_each(|_| self.advance(Span::mins(1)));
    }

    pub fn discover(&mut self, kinds: &[WatchedKind]) {
        self.observe(Observation::KindsDiscovered(kinds.to_vec()));
    }

    /// The connection of the watch breaks.
    pub fn fail(&mut self) {
        self.fail_watch(&watch());
    }

    pub fn fail_watch(&mut self, watch: &WatchId) {
        let source = SourceId::Watch(watch.clone());
        self.observe(Observation::SourceFailed {
            source,
            cause: Cause::Connection,
            detail: "refused".into(),
        });
    }

    /// The watch works again, and goes on from the version that it had reached.
    pub fn recover(&mut self) {
        self.recover_watch(&watch());
    }

    pub fn recover_watch(&mut self, watch: &WatchId) {
        self.observe(Observation::SourceRecovered { source: SourceId::Watch(watch.clone()) });
    }

    /// The watch fails, and recovers after `span`.
    pub fn blind_for(&mut self, span: Span) {
        self.fail();
        self.advance(span);
        self.recover();
    }

    /// Returns the next version of a widget, for tests that change it further.
    pub fn view(&mut self, widget: &Widget) -> ObjectView {
        self.version += 1;
        widget.view(self.version)
    }

    pub fn apply_view(&mut self, view: ObjectView) {
        self.apply_to(&watch(), view);
    }

    pub fn apply_to(&mut self, watch: &WatchId, view: ObjectView) {
        self.observe(Observation::Applied { watch: watch.clone(), object: Box::new(view) });
    }

    pub fn list_views(&mut self, views: Vec<ObjectView>) {
        self.list_in(&watch(), views);
    }

    pub fn list_in(&mut self, watch: &WatchId, views: Vec<ObjectView>) {
        self.begin_list(watch);
        for view in views {
            self.listed(watch, view);
        }

        self.end_list(watch);
    }

    pub fn begin_list(&mut self, watch: &WatchId) {
        self.epoch += 1;
        self.observe(Observation::ListBegan { watch: watch.clone(), epoch: self.epoch });
    }

    pub fn listed(&mut self, watch: &WatchId, view: ObjectView) {
        self.observe(Observation::Listed { watch: watch.clone(), object: Box::new(view) });
    }

    /// Ends the list that began last.
    pub fn end_list(&mut self, watch: &WatchId) {
        self.version += 1;
        let (epoch, version) = (self.epoch, self.version.to_string());
        self.observe(Observation::ListEnded { watch: watch.clone(), epoch, version });
    }

    /// Sets the clock forward, or back if `by` is negative.
    pub fn step_clock(&mut self, by: Span) {
        self.now = self.now.after(by);
        self.observe(Observation::ClockStepped { by_ms: by.0 });
    }

    /// Returns the lab after a restart of loopwatch, before its first list.
    pub fn restart(&self) -> Self {
        let model = Model::new(self.model.settings().clone());
        let mut again = Self { model, now: self.now, version: self.version, epoch: 0 };
        again.observe(Observation::Restored(Box::new(self.model.checkpoint())));
        again.discover(&[kind()]);

        again
    }

    /// Answers an audit of the watch: the API server has this number of objects.
    pub fn audit(&mut self, objects: u64) {
        self.version += 1;
        let version = self.version.to_string();
        let answer = Answer::Counted { objects, version: version.clone() };
        self.observe(Observation::Answered { probe: Probe::Count(watch()), answer });
        self.observe(Observation::Progressed { watch: watch(), version });
    }

    pub fn kind(&self) -> KindSummary {
        self.snapshot().kinds.remove(0)
    }

    pub fn row(&self, name: &str) -> ObjectRow {
        let (rows, _) = self.model.rows(Default::default(), usize::MAX);
        rows.into_iter().find(|row| row.name == name).unwrap_or_else(|| panic!("no object {name}"))
    }

    /// Returns whether a finding with this code is open.
    pub fn has(&self, code: &str) -> bool {
        self.snapshot().findings.iter().any(|finding| finding.code.name() == code)
    }

    /// Returns an open finding with this code.
    pub fn finding(&self, code: &str) -> Finding {
        let found =
            self.snapshot().findings.into_iter().find(|finding| finding.code.name() == code);
        found.unwrap_or_else(|| panic!("no finding {code}: {:?}", self.findings()))
    }

    pub fn since(&self, code: &str) -> Timestamp {
        self.finding(code).since
    }

    /// Returns the findings that opened or closed since the last call, each as `Code subject`.
    pub fn changes(&mut self) -> Vec<String> {
        let events = self
            .model
            .finding_events()
            .into_iter()
            .filter(|event| event.change != Change::Explained);

        events
            .map(|e| format!("{:?} {} {}", e.change, e.finding.code.name(), e.finding.subject))
            .collect()
    }
}
