//! Leader election leases: the leader of the operator, and the last renewal.
//!
//! Decodes only the fields that it reads: operators renew leases every few seconds, and a malformed time must not fail
//! the watch.

use loopwatch_model::observation::{LeaseView, Observation, SourceId};
use loopwatch_model::time::{Span, Timestamp};
use serde::Deserialize;

use super::cluster::encode;
use super::failure::Failure;
use super::metadata::ObjectMetadata;
use super::watch::{Sink, WatchTarget};

/// Turns the leases of one namespace into observations.
pub(crate) struct LeaseSink;

#[derive(Default, Deserialize)]
#[serde(default)]
struct LeaseDocument {
    metadata: ObjectMetadata,
    spec: LeaseDocumentSpec,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct LeaseDocumentSpec {
    holder_identity: Option<String>,
    lease_duration_seconds: Option<i64>,
    renew_time: Option<String>,
    lease_transitions: Option<i64>,
}

pub(crate) const GROUP: &str = "coordination.k8s.io";
pub(crate) const RESOURCE: &str = "leases";

/// The address of the watch.
pub(crate) fn target(namespace: &str) -> WatchTarget {
    WatchTarget::new(format!("/apis/{GROUP}/v1/namespaces/{}/{RESOURCE}", encode(namespace)), false)
}

// === impl LeaseSink ===

impl Sink for LeaseSink {
    fn source(&self) -> SourceId {
        SourceId::Lease
    }

    fn began(&mut self, _: u64, _: &mut Vec<Observation>) {}

    fn listed(&mut self, object: &[u8], out: &mut Vec<Observation>) -> Result<(), Failure> {
        observe(object, false, out).map(drop)
    }

    fn ended(&mut self, _: u64, _: &str, _: &mut Vec<Observation>) {}

    fn applied(&mut self, object: &[u8], out: &mut Vec<Observation>) -> Result<String, Failure> {
        observe(object, false, out)
    }

    fn deleted(&mut self, object: &[u8], out: &mut Vec<Observation>) -> Result<String, Failure> {
        observe(object, true, out)
    }

    fn progressed(&mut self, _: &str, _: &mut Vec<Observation>) {}
}

fn observe(object: &[u8], gone: bool, out: &mut Vec<Observation>) -> Result<String, Failure> {
    let LeaseDocument { metadata, spec } = serde_json::from_slice(object).map_err(|e| Failure::undecodable(&e))?;
    out.push(Observation::LeaseSeen(LeaseView {
        namespace: metadata.namespace,
        name: metadata.name,
        // A deleted lease has no holder.
        holder: spec.holder_identity.filter(|_| !gone).unwrap_or_default(),
        renewed: spec.renew_time.and_then(|time| Timestamp::parse(&time)),
        duration: spec.lease_duration_seconds.map(Span::secs),
        transitions: spec.lease_transitions.unwrap_or(0),
    }));
    Ok(metadata.resource_version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_names_its_holder_until_its_deletion() {
        let lease =
            br#"{"metadata":{"namespace":"op","name":"lock","resourceVersion":"9"},"spec":{"holderIdentity":"pod-1",
            "leaseDurationSeconds":15,"renewTime":"2026-11-21T01:00:00.500000Z","leaseTransitions":2}}"#;
        let mut out = Vec::new();
        let mut sink = LeaseSink;
        assert_eq!(sink.applied(lease, &mut out).expect("a lease"), "9");
        assert_eq!(sink.deleted(lease, &mut out).expect("a lease"), "9");
        let holders: Vec<String> = out
            .iter()
            .filter_map(|observation| match observation {
                Observation::LeaseSeen(view) => Some(format!("{} {:?}", view.holder, view.duration)),
                _ => None,
            })
            .collect();
        assert_eq!(holders, ["pod-1 Some(Span(15000))", " Some(Span(15000))"]);
    }
}
