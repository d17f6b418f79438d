//! The shared state of all HTTP handlers: the view of the model, the export options, what the port
//! requires of its clients, the operator's profiles, and loopwatch's own metrics.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use loopwatch_model::model::Model;
use loopwatch_model::snapshot::Explanation;
use loopwatch_model::time::Timestamp;

use super::access::Access;
use super::scrape_times::ScrapeTimes;
use crate::export::delivery::traces::TraceExporter;
use crate::export::metrics::{ObjectSeries, Render, TextFormat};
use crate::export::view::{
    Input, OperatorSummary, Operators, RecordingInput, Scrapes, SkippedOperator, View,
};
use crate::lock::lock;
use crate::sources::operator::ProfileStore;
use crate::telemetry::{SelfMetrics, UnreadLabels};

/// Options for the amount and the visibility of exported data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExportOptions {
    /// Which objects have their own series.
    pub object_series: ObjectSeries,
    /// Limit on per-object series in a metric family. The families that [`ObjectSeries::All`] adds
    /// are exempt.
    pub max_object_series: usize,
    /// Whether the page and the API are available to other hosts.
    pub expose_ui: bool,
}

/// Exports a model over HTTP.
pub(crate) struct Exporter {
    pub(super) view: Arc<dyn View>,
    options: Arc<Mutex<ExportOptions>>,
    pub(super) metrics: Arc<SelfMetrics>,
    /// How many series scrapes have left out because of the limit on per-object series.
    series_dropped: Arc<AtomicU64>,
    /// The recording or dump that the model's state comes from, if any.
    input: Mutex<Input>,
    /// The profiles to download; `None` without a cluster.
    profiles: Mutex<Option<ProfileStore>>,
    /// Sends the traces, if the user wants any.
    traces: OnceLock<TraceExporter>,
    /// The port, which the exporters of many operators share.
    port: Arc<PortState>,
    /// The exporters of the operators, if this is that of loopwatch itself beside many.
    fleet: OnceLock<Arc<Fleet>>,
}

/// The exporters of all operators of a cluster.
#[derive(Default)]
pub(crate) struct Fleet {
    state: Mutex<FleetState>,
}

#[derive(Default)]
struct FleetState {
    members: BTreeMap<String, Arc<Exporter>>,
    skipped: Vec<SkippedOperator>,
    unclaimed: Vec<String>,
    is_complete: bool,
}

/// What all handlers know about the port.
#[derive(Default)]
struct PortState {
    /// Whether loopwatch has failed for good, also after rebuilds.
    dead: AtomicBool,
    /// Whether the Pod uses the network of its node, and thus shares its loopback interface.
    loopback_is_shared: AtomicBool,
    /// What the port of the metrics requires of its clients.
    access: Access,
    scrape_times: ScrapeTimes,
}

impl Exporter {
    /// An exporter for `model`.
    #[must_use]
    pub(crate) fn new(
        model: Arc<Mutex<Model>>,
        metrics: Arc<SelfMetrics>,
        options: ExportOptions,
    ) -> Self {
        Self::with_view(model, metrics, options)
    }

    /// An exporter for any view.
    #[must_use]
    pub(crate) fn with_view(
        view: Arc<dyn View>,
        metrics: Arc<SelfMetrics>,
        options: ExportOptions,
    ) -> Self {
        let options = Arc::new(Mutex::new(options));
        Self {
            view,
            options,
            metrics,
            series_dropped: Arc::default(),
            input: Mutex::default(),
            profiles: Mutex::default(),
            traces: OnceLock::new(),
            port: Arc::default(),
            fleet: OnceLock::new(),
        }
    }

    /// An exporter for the model of one of many operators, on the same port.
    #[must_use]
    pub(crate) fn for_operator(&self, view: Arc<dyn View>, operator: &str) -> Self {
        let input = Input { operator: Some(operator.to_owned()), ..Input::default() };
        Self {
            input: Mutex::new(input),
            options: Arc::clone(&self.options),
            port: Arc::clone(&self.port),
            ..Self::with_view(view, Arc::clone(&self.metrics), self.options())
        }
    }

    /// Has this exporter export many operators, too.
    pub(crate) fn set_fleet(&self, fleet: Arc<Fleet>) {
        let _ = self.fleet.set(fleet);
    }

    /// The exporters of the operators, if there are many.
    pub(super) fn fleet(&self) -> Option<&Arc<Fleet>> {
        self.fleet.get()
    }

    #[must_use]
    pub(crate) fn access(&self) -> &Access {
        &self.port.access
    }

    pub(crate) fn scrape_times(&self) -> &ScrapeTimes {
        &self.port.scrape_times
    }

    /// The scrapes until now, which is `at` by the clock of the model.
    pub(crate) fn scrapes(&self, at: Timestamp) -> Scrapes {
        self.port.scrape_times.until(at)
    }

    /// Notes that the Pod uses the network of its node, so that each process of the node is on its
    /// loopback interface.
    pub(crate) fn share_loopback(&self) {
        self.port.loopback_is_shared.store(true, Ordering::Relaxed);
    }

    /// Whether strangers are on the loopback interface, so that a client on it may be anybody.
    pub(crate) fn loopback_is_shared(&self) -> bool {
        self.port.loopback_is_shared.load(Ordering::Relaxed)
    }

    /// Sets the recording or dump that the model's state comes from.
    pub(crate) fn set_input(&self, input: Input) {
        for (part, count) in input.recording.iter().flat_map(RecordingInput::unread) {
            let gauge = self.metrics.recording_unread.get_or_create_owned(&UnreadLabels { part });
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        *lock(&self.input) = input;
    }

    pub(super) fn input(&self) -> Input {
        lock(&self.input).clone()
    }

    pub(crate) fn set_profiles(&self, profiles: ProfileStore) {
        *lock(&self.profiles) = Some(profiles);
    }

    pub(super) fn profiles(&self) -> Option<ProfileStore> {
        lock(&self.profiles).clone()
    }

    pub(crate) fn set_traces(&self, traces: TraceExporter) {
        let _ = self.traces.set(traces);
    }

    /// The ID of the trace of an object; empty without traces.
    pub(super) fn trace_id(&self, explanation: &Explanation) -> String {
        let sent = self.traces.get().zip(explanation.trace.as_ref());
        sent.map(|(traces, key)| traces.trace_id(key)).unwrap_or_default()
    }

    #[must_use]
    pub(crate) fn metrics(&self) -> &Arc<SelfMetrics> {
        &self.metrics
    }

    #[must_use]
    pub(crate) fn options(&self) -> ExportOptions {
        *lock(&self.options)
    }

    pub(crate) fn set_options(&self, options: ExportOptions) {
        *lock(&self.options) = options;
    }

    /// Sets whether `/livez` succeeds.
    pub(crate) fn set_alive(&self, alive: bool) {
        self.port.dead.store(!alive, Ordering::Relaxed);
    }

    /// Whether `/livez` succeeds.
    #[must_use]
    pub(crate) fn is_alive(&self) -> bool {
        !self.port.dead.load(Ordering::Relaxed)
    }

    /// Starts an exposition of the current state.
    #[must_use]
    pub(crate) fn render(&self, format: TextFormat) -> Render {
        let ExportOptions { object_series, max_object_series, .. } = self.options();
        let (view, metrics) = (self.view.clone(), self.metrics.clone());
        let mut render = Render::new(
            view,
            metrics,
            format,
            object_series,
            max_object_series,
            &self.series_dropped,
        );
        for (operator, exporter) in self.fleet().iter().flat_map(|fleet| fleet.all()) {
            render =
                render.with_operator(&operator, exporter.view.clone(), &exporter.series_dropped);
        }

        render
            .with_protected(self.access().authenticates())
            .with_certificate(self.access().certificate_expires())
    }
}

impl Default for ExportOptions {
    fn default() -> Self {
        Self { object_series: ObjectSeries::Unhealthy, max_object_series: 500, expose_ui: false }
    }
}

impl Fleet {
    /// Adds the exporter of an operator, `NAMESPACE/NAME`.
    pub(crate) fn add(&self, operator: &str, exporter: Arc<Exporter>) {
        lock(&self.state).members.insert(operator.to_owned(), exporter);
    }

    pub(crate) fn remove(&self, operator: &str) {
        lock(&self.state).members.remove(operator);
    }

    /// Sets what loopwatch does not judge: workloads, and kinds that no operator owns.
    pub(crate) fn set_rest(&self, skipped: Vec<SkippedOperator>, unclaimed: Vec<String>) {
        let mut state = lock(&self.state);
        (state.skipped, state.unclaimed, state.is_complete) = (skipped, unclaimed, true);
    }

    pub(super) fn all(&self) -> Vec<(String, Arc<Exporter>)> {
        let state = lock(&self.state);
        state.members.iter().map(|(name, exporter)| (name.clone(), exporter.clone())).collect()
    }

    pub(super) fn get(&self, operator: &str) -> Option<Arc<Exporter>> {
        lock(&self.state).members.get(operator).cloned()
    }

    /// What is not ready yet: the search for operators, and the first lists of each.
    pub(super) fn pending(&self) -> Vec<String> {
        if !lock(&self.state).is_complete {
            return vec!["the operators of the cluster".to_owned()];
        }

        // Everybody may ask, so this names no operator.
        let all = self.all();
        let waiting = all.iter().filter(|(_, exporter)| !exporter.view.pending().is_empty());
        match waiting.count() {
            0 => Vec::new(),
            waiting => vec![format!("the first lists of {waiting} of {} operators", all.len())],
        }
    }

    /// All operators, in a few numbers.
    pub(super) async fn operators(&self) -> Operators {
        let mut operators = Vec::new();
        for (name, exporter) in self.all() {
            operators.push(OperatorSummary::of(name, &exporter.view.snapshot(), &exporter.input()));

            // A snapshot takes up to a millisecond.
            tokio::task::yield_now().await;
        }

        let state = lock(&self.state);
        let (skipped, unclaimed) = (state.skipped.clone(), state.unclaimed.clone());
        Operators { operators, skipped, unclaimed, is_complete: state.is_complete }.sorted()
    }
}
