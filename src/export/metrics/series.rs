//! The functions that write samples, by section of the catalog.

use std::sync::Arc;

use loopwatch_model::finding::Finding;
use loopwatch_model::snapshot::{InstanceSummary, KindSummary, ObjectRef, ObjectRow, Snapshot};
use loopwatch_model::time::Timestamp;

use super::encode::Samples;
use crate::telemetry::{Readings, SelfMetrics};

pub(crate) mod objects;
pub(crate) mod deletion;
pub(crate) mod ownership;
pub(crate) mod references;
pub(crate) mod findings;
pub(crate) mod leases;
pub(crate) mod operator;
pub(crate) mod trends;
pub(crate) mod every_object;
pub(crate) mod sources;

/// A function that writes the samples of one metric.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WriteSamples {
    /// Called once.
    Whole(fn(&Exposition, &mut Samples<'_>)),
    /// Called for each kind of the snapshot.
    Kind(fn(&Exposition, &KindSummary, &mut Samples<'_>)),
    /// Called for each unhealthy object that has its own series.
    Unhealthy(fn(&ObjectRow, &mut Samples<'_>)),
    /// Called for each finding that has its own series.
    Finding(fn(&Finding, &mut Samples<'_>)),
    /// Called for each object of the model, if every object has its own series.
    Object(fn(&ObjectRef<'_>, &mut Samples<'_>)),
}

/// The content of one exposition.
#[derive(Debug)]
pub(crate) struct Exposition {
    pub(crate) snapshot: Snapshot,
    /// Limit on per-object series in a family.
    pub(crate) object_series: usize,
    /// Series dropped so far because of that limit, including those of this exposition.
    pub(crate) series_dropped: u64,
    /// Whether it contains the numbers of protected metrics.
    pub(crate) shows_protected: bool,
    /// When the certificate of the port expires, if the port has one.
    pub(crate) certificate_expires: Option<Timestamp>,
    /// Counters of loopwatch itself, updated as events happen.
    pub(crate) metrics: Arc<SelfMetrics>,
    /// Values about loopwatch itself, read at each scrape.
    pub(crate) readings: Readings,
}

impl Exposition {
    /// Whether this exposition leaves out the numbers in the metrics of `instance`, because the
    /// operator does not show them to everybody.
    pub(crate) fn withholds(&self, instance: &InstanceSummary) -> bool {
        let is_protected = instance.metrics.as_ref().is_some_and(|(_, metrics)| metrics.protected);
        is_protected && !self.shows_protected
    }
}
