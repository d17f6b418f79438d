//! The JSON about the operator itself.

use loopwatch_model::observation::{Cause, ControllerView, Framework, OperatorView, ProcessView};
use loopwatch_model::snapshot::{InstanceSummary, OperatorSummary, RecentPoint};
use loopwatch_model::time::Timestamp;
use serde::Serialize;

use super::version::VERSION;

/// `/api/v1/operator`.
#[derive(Debug, Serialize)]
pub(crate) struct OperatorResponse<'a> {
    version: u32,
    /// The workload and the Pods; null if loopwatch cannot read them.
    operator: Option<&'a OperatorView>,
    instances: Vec<InstanceView<'a>>,
}

#[derive(Debug, Serialize)]
struct InstanceView<'a> {
    name: &'a str,
    framework: Option<Framework>,
    leading: Option<bool>,
    /// Whether it shows its metrics only to authenticated clients, or on loopback only.
    protected: Option<bool>,
    scraped: Option<Timestamp>,
    scrape_failing: Option<ScrapeFailure>,
    controllers: &'a [ControllerView],
    controllers_left_out: u32,
    /// Those of the last scrape.
    #[serde(skip_serializing_if = "is_zero")]
    lines_skipped: u64,
    /// The first problem of the last scrape.
    #[serde(skip_serializing_if = "str::is_empty")]
    problem: &'a str,
    requests: &'a [(String, u64)],
    process: &'a ProcessView,
    recent: &'a [RecentPoint],
}

#[derive(Debug, Serialize)]
struct ScrapeFailure {
    since: Timestamp,
    cause: Cause,
}

#[must_use]
pub(crate) fn operator(summary: &OperatorSummary) -> OperatorResponse<'_> {
    let instances = summary.instances.iter().map(InstanceView::of).collect();
    OperatorResponse { version: VERSION, operator: summary.view.as_deref(), instances }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl<'a> InstanceView<'a> {
    fn of(instance: &'a InstanceSummary) -> Self {
        let metrics = instance.metrics.as_ref().map(|(_, metrics)| metrics);
        Self {
            name: &instance.name,
            framework: metrics.map(|metrics| metrics.framework),
            leading: metrics.and_then(|metrics| metrics.leading),
            protected: metrics.map(|metrics| metrics.protected),
            scraped: instance.metrics.as_ref().map(|(at, _)| *at),
            scrape_failing: instance
                .scrape_failure
                .map(|(since, cause)| ScrapeFailure { since, cause }),
            controllers: metrics.map_or(&[], |metrics| &metrics.controllers),
            controllers_left_out: metrics.map_or(0, |metrics| metrics.controllers_left_out),
            lines_skipped: metrics.map_or(0, |metrics| metrics.lines_skipped),
            problem: metrics.map_or("", |metrics| &metrics.problem),
            requests: metrics.map_or(&[], |metrics| &metrics.requests),
            process: &instance.process,
            recent: &instance.recent,
        }
    }
}
