//! Turns the metrics of any framework into the same signals.
//!
//! ```text
//!  series ─▶ rules of its name ─┬─ of a control loop ─▶ one sheet per controller and origin ─┐
//!                               └─ of the process ────▶ one sheet                            ├─▶ MetricsView
//!                                                                     the framework decides ─┘
//! ```
//!
//! The rules are tables, one file per framework; a section of `docs/operator.md` is generated from
//! them.

mod controllers;
mod rules;
mod seen;
mod sheet;
mod tables;
mod views;
mod webhooks;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use loopwatch_model::observation::{Framework, MAX_CODES, MetricsView, Runtime};

use self::controllers::Controllers;
use self::rules::{Rule, Signal};
use self::seen::SeenSeries;
use self::sheet::Sheet;
use self::tables::{Index, TABLES, sources_of};
use self::views::{process_view, whole};
use self::webhooks::WebhookCalls;
use super::text::{Problem, Sample, SampleSink};
use crate::system::own_pod::{IN_CLUSTER_HOST, IN_CLUSTER_PORT};

/// The state of one scrape.
pub(super) struct Normalizer {
    /// The rules of the current name.
    rules: Vec<(usize, &'static Rule)>,
    controllers: Controllers,
    process: Sheet,
    runtime: Runtime,
    leading: Option<bool>,
    requests: Requests,
    /// The part of these that went to the API server of this cluster. An operator may manage other
    /// clusters, which may fail.
    at_home: Requests,
    webhooks: WebhookCalls,
    /// The address of this API server, as a client in this cluster writes it in its metrics; `None`
    /// outside of a cluster.
    home: Option<&'static str>,
    /// The tables that a series has matched.
    present: [bool; TABLES.len()],
    /// The series that have matched a rule. If an endpoint repeats a family, its counters must not
    /// double.
    seen: SeenSeries,
}

/// Requests to API servers.
#[derive(Default)]
struct Requests {
    by_code: BTreeMap<String, f64>,
    /// Those that write and were accepted, by method.
    writes: BTreeMap<&'static str, f64>,
}

/// The longest name of an object in Kubernetes. Names of controllers are not longer.
const MAX_NAME: usize = 253;

/// The HTTP methods of requests that write.
const WRITES: [&str; 4] = ["DELETE", "PATCH", "POST", "PUT"];

/// The address of the API server for clients in this cluster, as client-go writes it.
static HOME: LazyLock<Option<String>> = LazyLock::new(|| {
    let (host, port) = (std::env::var(IN_CLUSTER_HOST).ok()?, std::env::var(IN_CLUSTER_PORT).ok()?);
    Some(if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") })
});

impl Normalizer {
    pub(super) fn new() -> Self {
        Self {
            rules: Vec::new(),
            controllers: Controllers::default(),
            process: Sheet::default(),
            runtime: Runtime::Unknown,
            leading: None,
            requests: Requests::default(),
            at_home: Requests::default(),
            webhooks: WebhookCalls::default(),
            home: HOME.as_deref(),
            present: [false; TABLES.len()],
            seen: SeenSeries::default(),
        }
    }

    /// Returns the view, without the instance and the figures of the scrape itself.
    pub(super) fn view(self) -> MetricsView {
        let found = TABLES
            .iter()
            .zip(self.present)
            .find(|(table, present)| *present && table.framework.is_some());
        let table = found.map(|(table, _)| *table);

        let mut view = MetricsView {
            framework: table.and_then(|table| table.framework).unwrap_or_default(),
            leading: self.leading,
            process: process_view(&self.process, self.runtime),
            ..MetricsView::default()
        };

        if let Some(table) = table {
            (view.controllers, view.controllers_left_out) =
                self.controllers.views(sources_of(table));
        }

        if view.framework == Framework::KubeRs {
            // Nothing shows successes without errors, and operators in other languages may name
            // metrics of their own like the template.
            view.controllers.retain(|controller| controller.failed.is_some());
            if view.controllers.is_empty() || self.runtime != Runtime::Unknown {
                view.framework = Framework::Unknown;
            }
        }

        let requests = match self.at_home.by_code.is_empty() {
            true => &self.requests,
            false => &self.at_home,
        };
        view.requests = counts(&requests.by_code);
        view.writes = counts(&requests.writes);
        view.webhooks = self.webhooks.views();

        view
    }

    /// Applies the rules of one table about controllers.
    fn apply_to_controller(
        &mut self,
        rules: &[(usize, &'static Rule)],
        sample: &Sample<'_>,
    ) -> Result<(), Problem> {
        let Some(&(table, rule)) = rules.first() else { return Ok(()) };
        let Some((lane, name)) = TABLES[table].controller(sample.name, rule, sample.labels) else {
            return Ok(());
        };
        if name.len() > MAX_NAME {
            return Err(Problem::LongName);
        }

        let Some(sheet) = self.controllers.sheet(&name, table, lane) else { return Ok(()) };
        for (_, rule) in rules {
            let Some(matches) = rule.matches(sample.labels) else { continue };
            self.present[table] = true;
            if rule.signal == Signal::ReconcilesWithin {
                if let Some(bound) = rule.bound(sample.labels) {
                    sheet.add_bucket(rule, bound, sample.value);
                }

                continue;
            }

            // A series with another label value proves that the framework offers the signal.
            sheet.add(rule, if matches { sample.value } else { 0.0 });
        }

        Ok(())
    }

    fn apply(&mut self, table: usize, rule: &'static Rule, sample: &Sample<'_>) {
        if rule.matches(sample.labels) != Some(true) {
            return;
        }

        self.present[table] = true;
        match rule.signal {
            Signal::Framework => {}
            // Takes the first one in the order of the type, so that the order of the series does
            // not matter.
            Signal::Runtime(runtime) => self.runtime = self.runtime.min(runtime),
            Signal::Leading => {
                self.leading = Some(self.leading == Some(true) || sample.value == 1.0)
            }
            Signal::Requests => self.request(sample),
            Signal::WebhookCalls | Signal::WebhookSeconds => self.webhooks.add(rule.signal, sample),
            _ => self.process.add(rule, sample.value),
        }
    }

    fn request(&mut self, sample: &Sample<'_>) {
        let Some(code) = sample.labels.get("code") else { return };

        // Anything else may be free text, which must not become a label.
        let is_known =
            code == "<error>" || code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_digit());
        if !is_known {
            return;
        }

        let value = if sample.value >= 0.0 { sample.value } else { f64::NAN };
        let is_home = self.home.is_some() && sample.labels.get("host").as_deref() == self.home;
        let method = sample.labels.get("method").filter(|_| code.starts_with('2'));
        let write = WRITES.into_iter().find(|known| Some(*known) == method.as_deref());
        for requests in [&mut self.requests].into_iter().chain(is_home.then_some(&mut self.at_home))
        {
            requests.add(&code, write, value);
        }
    }
}

impl Requests {
    fn add(&mut self, code: &str, write: Option<&'static str>, value: f64) {
        if self.by_code.len() < MAX_CODES || self.by_code.contains_key(code) {
            *self.by_code.entry(code.to_owned()).or_default() += value;
        }
        if let Some(method) = write {
            *self.writes.entry(method).or_default() += value;
        }
    }
}

/// Returns the counts that are whole numbers.
fn counts(by_name: &BTreeMap<impl ToString, f64>) -> Vec<(String, u64)> {
    let counts = by_name.iter();
    counts.filter_map(|(name, count)| Some((name.to_string(), whole(*count)?))).collect()
}

impl SampleSink for Normalizer {
    fn wants(&mut self, name: &str) -> bool {
        self.rules.clear();
        Index::get().find(name, &mut self.rules);
        !self.rules.is_empty()
    }

    fn sample(&mut self, sample: &Sample<'_>) -> Result<(), Problem> {
        if !self.seen.insert(&(sample.name, sample.labels.raw())) {
            return Err(Problem::Repeated);
        }

        let rules = std::mem::take(&mut self.rules);
        let mut result = Ok(());
        for rules in rules.chunk_by(|(left, _), (right, _)| left == right) {
            let of_controller =
                rules.iter().take_while(|(_, rule)| rule.signal.is_of_controller()).count();
            let (of_controller, others) = rules.split_at(of_controller);
            result = result.and(self.apply_to_controller(of_controller, sample));
            others.iter().for_each(|(table, rule)| self.apply(*table, rule, sample));
        }

        self.rules = rules;
        result
    }
}

#[cfg(test)]
mod tests;
