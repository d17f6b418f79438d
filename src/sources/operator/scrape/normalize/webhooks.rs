//! The calls of the webhooks that the operator serves.

use std::collections::BTreeMap;

use loopwatch_model::observation::{Durations, MAX_WEBHOOK_PATHS};

use super::rules::Signal;
use super::views::whole;
use crate::sources::operator::scrape::text::Sample;

/// The calls by path.
#[derive(Default)]
pub(super) struct WebhookCalls {
    by_path: BTreeMap<String, Calls>,
}

/// The number and the total duration of calls; absent unless the operator tells both.
#[derive(Default)]
struct Calls {
    count: Option<f64>,
    seconds: Option<f64>,
}

/// The longest path, in bytes. Kubebuilder generates paths from a group, a version and a kind.
const MAX_PATH: usize = 512;

impl WebhookCalls {
    /// Takes one of the two series of a path.
    pub(super) fn add(&mut self, signal: Signal, sample: &Sample<'_>) {
        let Some(path) = sample.labels.get("webhook").filter(|path| path.len() <= MAX_PATH) else {
            return;
        };
        if self.by_path.len() >= MAX_WEBHOOK_PATHS && !self.by_path.contains_key(&*path) {
            return;
        }

        let calls = self.by_path.entry(path.into_owned()).or_default();
        let sum = match signal {
            Signal::WebhookCalls => &mut calls.count,
            _ => &mut calls.seconds,
        };
        *sum = Some(sum.unwrap_or_default() + sample.value);
    }

    /// Returns the calls of all webhooks, ordered by path.
    pub(super) fn views(self) -> Vec<(String, Durations)> {
        let of_path = |(path, Calls { count, seconds })| {
            let sum = seconds.filter(|seconds| seconds.is_finite() && *seconds >= 0.0)?;
            Some((path, Durations { count: whole(count?)?, sum }))
        };
        self.by_path.into_iter().filter_map(of_path).collect()
    }
}
