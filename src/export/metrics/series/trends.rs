//! Writes samples about the trends of the operator's processes.

use loopwatch_model::observation::InstanceName;
use loopwatch_model::snapshot::TrendSummary;

use super::Exposition;
use crate::export::metrics::encode::Samples;

/// The values of the label `rank`.
const RANKS: [&str; 10] = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10"];

pub(crate) fn slope(shown: &Exposition, samples: &mut Samples<'_>) {
    for TrendSummary { instance, signal, verdict } in &shown.snapshot.trends {
        samples.put_some(&[InstanceName(instance).label(), signal.as_str()], verdict.slope);
    }
}

pub(crate) fn verdict(shown: &Exposition, samples: &mut Samples<'_>) {
    for TrendSummary { instance, signal, verdict } in &shown.snapshot.trends {
        samples
            .put(&[InstanceName(instance).label(), signal.as_str(), verdict.state.as_str()], 1_u64);
    }
}

pub(crate) fn time_to_exhaustion(shown: &Exposition, samples: &mut Samples<'_>) {
    for TrendSummary { instance, signal, verdict } in &shown.snapshot.trends {
        if let Some(resource) = signal.resource() {
            samples.put_some(&[InstanceName(instance).label(), resource], verdict.exhaustion);
        }
    }
}

pub(crate) fn top_growth(shown: &Exposition, samples: &mut Samples<'_>) {
    for profile in &shown.snapshot.profiles {
        for (rank, growth) in RANKS.iter().zip(&profile.growth) {
            samples.put(&[InstanceName(&profile.instance).label(), rank], *growth);
        }
    }
}
