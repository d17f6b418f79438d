//! Writes samples about sources, watches and limits.

use std::collections::BTreeSet;

use loopwatch_model::snapshot::{KindSummary, WatchSummary};

use super::Exposition;
use crate::export::metrics::encode::Samples;

/// The limits that the exporter enforces. The model enforces all others.
const OBJECT_SERIES: &str = "object_series";
const ALERTMANAGER_ADDRESSES: &str = "alertmanager_addresses";

pub(crate) fn source_up(shown: &Exposition, samples: &mut Samples<'_>) {
    for source in shown.snapshot.sources.iter().filter(|source| source.off.is_none()) {
        samples.put(&[&source.source], u64::from(source.up));
    }
}

pub(crate) fn source_last_success(shown: &Exposition, samples: &mut Samples<'_>) {
    for source in &shown.snapshot.sources {
        samples.put_some(&[&source.source], source.last_success);
    }
}

pub(crate) fn source_failures(shown: &Exposition, samples: &mut Samples<'_>) {
    for source in &shown.snapshot.sources {
        for (cause, count) in &source.failures {
            samples.put(&[&source.source, cause], *count);
        }
    }
}

pub(crate) fn permission_missing(shown: &Exposition, samples: &mut Samples<'_>) {
    let missing: BTreeSet<_> = shown.snapshot.permissions_missing.iter().collect();
    for (namespace, permission) in missing {
        samples.put(&[&permission.group, namespace, &permission.verb, &permission.resource], 1_u64);
    }
}

pub(crate) fn watch_lag(_: &Exposition, kind: &KindSummary, samples: &mut Samples<'_>) {
    for watch in kind.watches.iter().filter(|watch| watch.totals.lag.count() > 0) {
        samples.histogram(&[&kind.group, &kind.kind, scope(watch)], &watch.totals.lag);
    }
}

pub(crate) fn audit_difference(_: &Exposition, kind: &KindSummary, samples: &mut Samples<'_>) {
    for watch in &kind.watches {
        samples.put_some(&[&kind.group, &kind.kind, scope(watch)], watch.totals.audit_difference);
    }
}

pub(crate) fn observations(shown: &Exposition, samples: &mut Samples<'_>) {
    for (source, count) in &shown.snapshot.observations {
        samples.put(&[source], *count);
    }
}

pub(crate) fn dropped(shown: &Exposition, samples: &mut Samples<'_>) {
    let mut dropped = shown.snapshot.dropped.clone();
    *dropped.entry(OBJECT_SERIES).or_default() += shown.series_dropped;

    let addresses = shown.metrics.alerting.addresses_dropped.get();
    if addresses > 0 {
        dropped.insert(ALERTMANAGER_ADDRESSES, addresses);
    }

    for (limit, count) in dropped {
        samples.put(&[limit], count);
    }
}

pub(crate) fn links(shown: &Exposition, samples: &mut Samples<'_>) {
    let [page, grafana, runbooks] = &shown.metrics.links;
    if shown.metrics.links.iter().any(|url| !url.is_empty()) {
        samples.put(&[page, grafana, runbooks], 1_u64);
    }
}

fn scope(watch: &WatchSummary) -> &str {
    watch.scope.namespace().unwrap_or("")
}
