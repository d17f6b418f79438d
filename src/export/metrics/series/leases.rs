//! Writes samples about leader election leases.

use loopwatch_model::snapshot::LeaseRow;

use super::Exposition;
use crate::export::metrics::encode::Samples;

pub(crate) fn lease_holder(shown: &Exposition, samples: &mut Samples<'_>) {
    for LeaseRow { lease, .. } in
        shown.snapshot.leases.iter().filter(|row| !row.lease.holder.is_empty())
    {
        samples.put(&[&lease.namespace, &lease.name, &lease.holder], 1_u64);
    }
}

pub(crate) fn lease_renew_age(shown: &Exposition, samples: &mut Samples<'_>) {
    for LeaseRow { lease, seen_renewed_at } in &shown.snapshot.leases {
        let age = seen_renewed_at.map(|renewed| shown.snapshot.at.since(renewed));
        samples.put_some(&[&lease.namespace, &lease.name], age);
    }
}

pub(crate) fn lease_renew(shown: &Exposition, samples: &mut Samples<'_>) {
    for LeaseRow { lease, seen_renewed_at } in &shown.snapshot.leases {
        samples.put_some(&[&lease.namespace, &lease.name], *seen_renewed_at);
    }
}

pub(crate) fn leader_transitions(shown: &Exposition, samples: &mut Samples<'_>) {
    for LeaseRow { lease, .. } in &shown.snapshot.leases {
        samples.put(&[&lease.namespace, &lease.name], lease.transitions.max(0));
    }
}
