//! Leader election leases: the operator's leader, and its last renewal.
//!
//! Decodes only the fields that it reads: operators renew leases every few seconds, and a malformed
//! time must not fail the watch.

use std::collections::BTreeSet;

use loopwatch_model::observation::{LeaseView, Observation, SourceId};
use loopwatch_model::time::{Span, Timestamp};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::net::Failure;
use crate::sources::api_server::collections::collection;
use crate::sources::api_server::watch::{WatchSink, WatchTarget};
use crate::sources::decoding::{ObjectMetadata, or_default, truncate};

/// Turns the leases of one namespace into observations.
pub(crate) struct LeaseSink {
    namespace: String,
    /// The leases of the list in progress.
    listed: BTreeSet<String>,
    /// Whether that list had to skip a lease.
    is_incomplete: bool,
}

/// The longest identity of a holder, in bytes: the longest name of a host, and a UUID after it. The
/// API server has no limit.
const MAX_HOLDER: usize = 512;

#[derive(Default, Deserialize)]
#[serde(default)]
struct LeaseDocument {
    metadata: LeaseDocumentMetadata,
    spec: LeaseDocumentSpec,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct LeaseDocumentMetadata {
    #[serde(flatten)]
    object: ObjectMetadata,
    #[serde(deserialize_with = "or_default")]
    managed_fields: Vec<ManagedFields>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct LeaseDocumentSpec {
    holder_identity: Option<String>,
    lease_duration_seconds: Option<i64>,
    acquire_time: Option<String>,
    renew_time: Option<String>,
    lease_transitions: Option<i64>,
}

/// The fields that one manager wrote, and when, by the API server's clock.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ManagedFields {
    time: Option<String>,
    fields_v1: Option<ManagedFieldsOfLease>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ManagedFieldsOfLease {
    #[serde(rename = "f:spec")]
    spec: Option<ManagedFieldsOfSpec>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ManagedFieldsOfSpec {
    #[serde(rename = "f:renewTime")]
    renew_time: Option<IgnoredAny>,
}

impl LeaseSink {
    pub(crate) const GROUP: &str = "coordination.k8s.io";
    pub(crate) const RESOURCE: &str = "leases";

    /// The address of the watch.
    pub(crate) fn target(namespace: &str) -> WatchTarget {
        let path = collection(Self::GROUP, "v1", Self::RESOURCE, Some(namespace));
        WatchTarget::new(path, false)
    }

    pub(crate) fn new(namespace: String) -> Self {
        Self { namespace, listed: BTreeSet::new(), is_incomplete: false }
    }
}

impl WatchSink for LeaseSink {
    fn source(&self) -> SourceId {
        SourceId::Lease
    }

    fn began(&mut self, _: u64, _: &mut Vec<Observation>) {
        self.listed.clear();
        self.is_incomplete = false;
    }

    fn listed(&mut self, object: &[u8], out: &mut Vec<Observation>) -> Result<(), Failure> {
        let (lease, _) = decode(object)?;
        self.listed.insert(lease.name.clone());
        out.push(Observation::LeaseSeen(lease));
        Ok(())
    }

    fn skipped(&mut self) {
        self.is_incomplete = true;
    }

    // The list replaces the set: leases may have been deleted while no watch was open, even leases
    // that an earlier sink reported.
    fn ended(&mut self, _: u64, _: &str, out: &mut Vec<Observation>) {
        let names = std::mem::take(&mut self.listed).into_iter().collect();
        // A lease that the list skipped is not gone.
        if !self.is_incomplete {
            out.push(Observation::LeasesListed { namespace: self.namespace.clone(), names });
        }
    }

    fn applied(&mut self, object: &[u8], out: &mut Vec<Observation>) -> Result<String, Failure> {
        let (lease, version) = decode(object)?;
        out.push(Observation::LeaseSeen(lease));
        Ok(version)
    }

    fn deleted(&mut self, object: &[u8], out: &mut Vec<Observation>) -> Result<String, Failure> {
        let (LeaseView { namespace, name, .. }, version) = decode(object)?;
        self.listed.remove(&name);
        out.push(Observation::LeaseGone { namespace, name });
        Ok(version)
    }

    fn progressed(&mut self, _: &str, _: &mut Vec<Observation>) {}
}

/// The lease and its resource version.
fn decode(object: &[u8]) -> Result<(LeaseView, String), Failure> {
    let LeaseDocument { metadata, spec } =
        serde_json::from_slice(object).map_err(|e| Failure::undecodable(&e))?;
    let LeaseDocumentMetadata { object, managed_fields } = metadata;
    let parse = |time: Option<String>| time.and_then(|time| Timestamp::parse(&time));
    let renewals = managed_fields.into_iter().filter(ManagedFields::has_renew_time);
    let mut holder = spec.holder_identity.unwrap_or_default();
    truncate(&mut holder, MAX_HOLDER);

    let lease = LeaseView {
        namespace: object.namespace,
        name: object.name,
        holder,
        acquired: parse(spec.acquire_time),
        renewed: parse(spec.renew_time),
        written: renewals.filter_map(|fields| parse(fields.time)).max(),
        duration: spec.lease_duration_seconds.map(Span::secs),
        transitions: spec.lease_transitions.unwrap_or(0),
    };

    Ok((lease, object.resource_version))
}

impl ManagedFields {
    fn has_renew_time(&self) -> bool {
        let spec = self.fields_v1.as_ref().and_then(|fields| fields.spec.as_ref());
        spec.is_some_and(|spec| spec.renew_time.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(name: &str) -> Vec<u8> {
        format!(
            r#"{{"metadata":{{"namespace":"op","name":"{name}","resourceVersion":"9","managedFields":[
            {{"manager":"kubectl","time":"2026-11-21T02:30:00Z","fieldsV1":{{"f:metadata":{{"f:labels":{{}}}}}}}},
            {{"manager":"op","time":"2026-11-21T02:00:00Z","fieldsV1":{{"f:spec":{{"f:holderIdentity":{{}},"f:renewTime":{{}}}}}}}}]}},
            "spec":{{"holderIdentity":"pod-1","leaseDurationSeconds":15,"acquireTime":"2026-11-21T00:30:00.000000Z","renewTime":"2026-11-21T01:00:00.500000Z","leaseTransitions":2}}}}"#
        )
        .into_bytes()
    }

    fn say(observations: &[Observation]) -> Vec<String> {
        let say = |observation: &Observation| match observation {
            Observation::LeaseSeen(view) => format!("{} has {}", view.holder, view.name),
            Observation::LeaseGone { name, .. } => format!("{name} is gone"),
            Observation::LeasesListed { namespace, names } => format!("{namespace} has {names:?}"),
            other => format!("{other:?}"),
        };
        observations.iter().map(say).collect()
    }

    #[test]
    fn a_lease_is_decoded() {
        let (view, version) = decode(&lease("lock")).expect("a lease");
        let time = |text| Timestamp::parse(text).expect("a time");

        assert_eq!(version, "9");
        assert_eq!(view.acquired, Some(time("2026-11-21T00:30:00Z")));
        assert_eq!(view.renewed, Some(time("2026-11-21T01:00:00.5Z")));
        assert_eq!(
            view.written,
            Some(time("2026-11-21T02:00:00Z")),
            "the time of the renewal, not of the label"
        );

        assert_eq!((view.duration, view.transitions), (Some(Span::secs(15)), 2));

        let bare =
            br#"{"metadata":{"name":"a","managedFields":null},"spec":{"renewTime":"yesterday"}}"#;
        let (view, _) = decode(bare).expect("a malformed time does not fail the watch");

        assert_eq!((view.renewed, view.written), (None, None));
    }

    #[test]
    fn a_long_holder_is_cut_and_a_long_duration_is_kept() {
        let spec = serde_json::json!({ "holderIdentity": "ü".repeat(300), "leaseDurationSeconds": i64::MAX });
        let lease = serde_json::json!({ "metadata": { "name": "a" }, "spec": spec }).to_string();
        let (view, _) = decode(lease.as_bytes()).expect("a lease");

        assert_eq!(view.holder, "ü".repeat(256));
        assert_eq!(view.duration, Some(Span(i64::MAX)));
    }

    #[test]
    fn a_list_replaces_the_set_of_leases() {
        let (mut sink, mut out) = (LeaseSink::new("op".to_owned()), Vec::new());
        sink.began(1, &mut out);
        for name in ["a", "b", "c"] {
            sink.listed(&lease(name), &mut out).expect("a lease");
        }

        sink.deleted(&lease("b"), &mut out).expect("a lease");
        sink.ended(1, "9", &mut out);
        sink.applied(&lease("d"), &mut out).expect("a lease");

        let expected = [
            "pod-1 has a",
            "pod-1 has b",
            "pod-1 has c",
            "b is gone",
            r#"op has ["a", "c"]"#,
            "pod-1 has d",
        ];

        assert_eq!(say(&out), expected);

        // Only the next complete list shows what was deleted while the watch was down, even after
        // an abandoned one.
        out.clear();
        sink.began(2, &mut out);
        sink.listed(&lease("a"), &mut out).expect("a lease");
        sink.began(3, &mut out);
        sink.ended(3, "12", &mut out);

        assert_eq!(say(&out), ["pod-1 has a", "op has []"]);

        out.clear();
        sink.began(4, &mut out);
        sink.skipped();
        sink.ended(4, "15", &mut out);

        assert!(out.is_empty(), "a lease that the list skipped is not gone");

        sink.began(5, &mut out);
        sink.ended(5, "18", &mut out);

        assert_eq!(say(&out), ["op has []"]);
    }
}
