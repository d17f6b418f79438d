//! What the Alertmanagers should know: the bodies of requests to their API, version 2.

use std::collections::BTreeMap;

use loopwatch_model::time::Timestamp;
use serde::Serialize;

/// Labels or annotations of an alert.
pub(super) type Pairs = BTreeMap<String, String>;

/// One alert, in the shape of `postableAlert` in the OpenAPI specification of Alertmanager.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Alert {
    labels: Pairs,
    annotations: Pairs,
    starts_at: Timestamp,
    /// This is in the past if the alert has cleared.
    ends_at: Timestamp,
    /// The source of the alert, to which Alertmanager and its notifications link.
    #[serde(rename = "generatorURL", skip_serializing_if = "Option::is_none")]
    generator_url: Option<String>,
}

/// The annotation with the link to the web page.
pub(super) const PAGE: &str = "page_url";

/// All alerts that fire or have recently cleared.
#[derive(Debug, Default)]
pub(super) struct Posting {
    /// Each is the body of one request.
    pub(super) bodies: Vec<Vec<u8>>,
}

/// The maximum number of alerts in one request, as in Prometheus.
const BATCH: usize = 64;

impl Alert {
    /// An object may claim that its problem began before the year 0. Alertmanager cannot read such
    /// a time, and would reject the whole request.
    pub(super) fn new(
        labels: Pairs,
        annotations: Pairs,
        starts_at: Timestamp,
        ends_at: Timestamp,
    ) -> Self {
        let generator_url = annotations.get(PAGE).cloned();
        Self { labels, annotations, starts_at: starts_at.max(Timestamp(0)), ends_at, generator_url }
    }
}

impl Posting {
    pub(super) fn of(alerts: impl Iterator<Item = Alert>) -> Self {
        let alerts: Vec<Alert> = alerts.collect();

        // Serializing texts and times cannot fail.
        let bodies =
            alerts.chunks(BATCH).map(|batch| serde_json::to_vec(batch).unwrap_or_default());
        Self { bodies: bodies.collect() }
    }
}
