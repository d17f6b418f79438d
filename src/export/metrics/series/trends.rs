//! Writes samples about the trends of the operator's processes.

use loopwatch_model::observation::InstanceName;
use loopwatch_model::snapshot::{TrendSignal, TrendSummary};

use super::Exposition;
use crate::export::metrics::encode::Samples;

/// The values of the label `rank`.
const RANKS: [&str; 10] = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10"];

/// The trends that everybody may see.
fn shown_trends(shown: &Exposition) -> impl Iterator<Item = &TrendSummary> {
    shown.snapshot.trends.iter().filter(|trend| !is_withheld(shown, trend))
}

/// Whether a trend comes from metrics that the exposition leaves out, and not from the kernel.
fn is_withheld(shown: &Exposition, trend: &TrendSummary) -> bool {
    let mut instances = shown.snapshot.operator.instances.iter();
    let Some(instance) = instances.find(|instance| instance.name == trend.instance) else {
        return false;
    };

    let (process, kernel) = (&instance.process, &instance.by_kernel);
    let is_by_kernel = match trend.signal {
        TrendSignal::LiveHeap => kernel.live_heap.is_some(),
        TrendSignal::Memory => kernel.anonymous.is_some() || kernel.resident.is_some(),
        TrendSignal::Tasks => process.goroutines.is_none() && kernel.threads.is_some(),
        TrendSignal::Descriptors => kernel.open_fds.is_some(),
    };

    !is_by_kernel && shown.withholds(instance)
}

pub(crate) fn slope(shown: &Exposition, samples: &mut Samples<'_>) {
    for TrendSummary { instance, signal, verdict } in shown_trends(shown) {
        samples.put_some(&[InstanceName(instance).label(), signal.as_str()], verdict.slope);
    }
}

pub(crate) fn verdict(shown: &Exposition, samples: &mut Samples<'_>) {
    for TrendSummary { instance, signal, verdict } in shown_trends(shown) {
        samples
            .put(&[InstanceName(instance).label(), signal.as_str(), verdict.state.as_str()], 1_u64);
    }
}

pub(crate) fn time_to_exhaustion(shown: &Exposition, samples: &mut Samples<'_>) {
    for TrendSummary { instance, signal, verdict } in shown_trends(shown) {
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
