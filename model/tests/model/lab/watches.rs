//! What watches and other sources tell the model: objects, lists, failures.

use loopwatch_model::observation::{
    Answer, Cause, EventView, NamespaceView, ObjectKey, ObjectView, Observation, Probe, SourceId,
    WatchId, WatchedKind,
};
use loopwatch_model::settings::Settings;

use super::{Lab, Widget, watch};

impl Lab {
    pub fn discover(&mut self, kinds: &[WatchedKind]) {
        self.observe(Observation::KindsDiscovered(kinds.to_vec()));
    }

    pub fn configure(&mut self, settings: Settings) {
        self.observe(Observation::SettingsChanged(Box::new(settings)));
    }

    /// Returns the next version of a widget, for tests that change it further.
    pub fn view(&mut self, widget: &Widget) -> ObjectView {
        widget.view(self.next_version())
    }

    /// Returns the next version of an object.
    pub fn versioned(&mut self, view: ObjectView) -> ObjectView {
        ObjectView { version: self.next_version().to_string(), ..view }
    }

    pub fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    pub fn apply(&mut self, widget: &Widget) {
        let view = self.view(widget);
        self.apply_view(view);
    }

    pub fn apply_view(&mut self, view: ObjectView) {
        self.apply_to(&watch(), view);
    }

    pub fn apply_to(&mut self, watch: &WatchId, view: ObjectView) {
        self.observe(Observation::Applied { watch: watch.clone(), object: Box::new(view) });
    }

    pub fn delete(&mut self, widget: &Widget) {
        self.delete_from(&watch(), widget.key());
    }

    pub fn delete_from(&mut self, watch: &WatchId, key: ObjectKey) {
        let version = self.next_version().to_string();
        self.observe(Observation::Deleted { watch: watch.clone(), key, version });
    }

    pub fn list(&mut self, objects: &[Widget]) {
        let views = objects.iter().map(|widget| self.view(widget)).collect();
        self.list_views(views);
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
        let (epoch, version) = (self.epoch, self.next_version().to_string());
        self.observe(Observation::ListEnded { watch: watch.clone(), epoch, version });
    }

    /// The connection of the watch breaks.
    pub fn fail(&mut self) {
        self.fail_watch(&watch());
    }

    pub fn fail_watch(&mut self, watch: &WatchId) {
        self.fail_source(&SourceId::Watch(watch.clone()), Cause::Connection);
    }

    pub fn fail_source(&mut self, source: &SourceId, cause: Cause) {
        let (source, detail) = (source.clone(), "refused".to_owned());
        self.observe(Observation::SourceFailed { source, cause, detail });
    }

    /// The watch works again, and goes on from the version that it had reached.
    pub fn recover(&mut self) {
        self.recover_watch(&watch());
    }

    pub fn recover_watch(&mut self, watch: &WatchId) {
        self.recover_source(&SourceId::Watch(watch.clone()));
    }

    pub fn recover_source(&mut self, source: &SourceId) {
        self.observe(Observation::SourceRecovered { source: source.clone() });
    }

    /// Answers an audit of the watch: the API server has this number of objects.
    pub fn audit(&mut self, objects: u64) {
        let version = self.next_version().to_string();
        let answer = Answer::Counted { objects, version: version.clone() };
        self.observe(Observation::Answered { probe: Probe::Count(watch()), answer });
        self.observe(Observation::Progressed { watch: watch(), version });
    }

    pub fn see_event(&mut self, event: EventView) {
        self.observe(Observation::EventSeen { watch: watch(), event: Box::new(event) });
    }

    /// Somebody annotates a namespace with `loopwatch.dev/KEY`.
    pub fn annotate_namespace(&mut self, name: &str, key: &str, value: &str) {
        let annotations = [(format!("loopwatch.dev/{key}"), value.to_owned())].into();
        let view = NamespaceView { name: name.into(), annotations, ..NamespaceView::default() };
        self.observe(Observation::NamespaceSeen(view));
    }

    /// Somebody deletes a namespace now.
    pub fn delete_namespace(&mut self, name: &str) {
        let deleted = Some(self.now);
        let view = NamespaceView { name: name.into(), deleted, ..NamespaceView::default() };
        self.observe(Observation::NamespaceSeen(view));
    }
}
