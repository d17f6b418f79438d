//! The annotations of namespaces that silence findings or set deadlines. loopwatch watches the metadata of all namespaces if
//! the account may.

use std::collections::BTreeMap;
use std::sync::Arc;

use loopwatch_model::model::annotated::{DEADLINE, IGNORE};
use loopwatch_model::observation::{NamespaceView, Observation, SourceId};
use serde::Deserialize;
use tokio::sync::Notify;

use super::failure::Failure;
use super::metadata::or_default;
use super::watch::{Sink, WatchTarget};

pub(crate) const GROUP: &str = "";
pub(crate) const RESOURCE: &str = "namespaces";

/// The reason why the source is off without permission.
pub(crate) const OFF: &str = "the account may not list and watch namespaces, so their annotations have no effect";

/// Limit on namespaces with annotations. The model has a lower one, and counts what exceeds it.
const MAX_ANNOTATED: usize = 10_000;

/// Turns events about namespaces into observations. Namespaces without annotations for loopwatch make none.
#[derive(Default)]
pub(crate) struct NamespaceSink {
    /// The annotations of each namespace that has any, as reported.
    reported: BTreeMap<String, BTreeMap<String, String>>,
    /// Those of the list in progress.
    listed: BTreeMap<String, BTreeMap<String, String>>,
    /// Notified when a list is complete.
    complete: Arc<Notify>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NamespaceDocument {
    metadata: NamespaceMetadata,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct NamespaceMetadata {
    name: String,
    resource_version: String,
    #[serde(deserialize_with = "or_default")]
    annotations: BTreeMap<String, String>,
}

/// The address of the watch.
pub(crate) fn target() -> WatchTarget {
    WatchTarget::new(format!("/api/v1/{RESOURCE}"), true)
}

// === impl NamespaceSink ===

impl NamespaceSink {
    pub(crate) fn new(complete: Arc<Notify>) -> Self {
        Self { complete, ..Self::default() }
    }
}

impl Sink for NamespaceSink {
    fn source(&self) -> SourceId {
        SourceId::Namespaces
    }

    fn began(&mut self, _: u64, _: &mut Vec<Observation>) {
        self.listed.clear();
    }

    fn listed(&mut self, object: &[u8], _: &mut Vec<Observation>) -> Result<(), Failure> {
        let NamespaceMetadata { name, annotations, .. } = decode(object)?;
        self.listed.remove(&name);
        if !annotations.is_empty() && self.listed.len() < MAX_ANNOTATED {
            self.listed.insert(name, annotations);
        }
        Ok(())
    }

    fn ended(&mut self, _: u64, _: &str, out: &mut Vec<Observation>) {
        self.reported = std::mem::take(&mut self.listed);
        let views = self.reported.iter().map(|(name, annotations)| view(name.clone(), annotations.clone()));
        out.push(Observation::NamespacesListed(views.collect()));
        self.complete.notify_one();
    }

    fn applied(&mut self, object: &[u8], out: &mut Vec<Observation>) -> Result<String, Failure> {
        let NamespaceMetadata { name, annotations, resource_version } = decode(object)?;
        let reported = self.reported.get(&name);
        if reported.map_or(annotations.is_empty(), |reported| *reported == annotations) {
            return Ok(resource_version);
        }
        if annotations.is_empty() {
            self.reported.remove(&name);
        } else if reported.is_some() || self.reported.len() < MAX_ANNOTATED {
            self.reported.insert(name.clone(), annotations.clone());
        }
        out.push(Observation::NamespaceSeen(view(name, annotations)));
        Ok(resource_version)
    }

    fn deleted(&mut self, object: &[u8], out: &mut Vec<Observation>) -> Result<String, Failure> {
        let NamespaceMetadata { name, resource_version, .. } = decode(object)?;
        self.listed.remove(&name);
        if self.reported.remove(&name).is_some() {
            out.push(Observation::NamespaceGone(name));
        }
        Ok(resource_version)
    }

    fn progressed(&mut self, _: &str, _: &mut Vec<Observation>) {}
}

fn view(name: String, annotations: BTreeMap<String, String>) -> NamespaceView {
    NamespaceView { name, annotations, ..NamespaceView::default() }
}

/// Decodes the metadata of a namespace, with only the annotations that loopwatch reads.
fn decode(object: &[u8]) -> Result<NamespaceMetadata, Failure> {
    let NamespaceDocument { mut metadata } =
        serde_json::from_slice(object).map_err(|error| Failure::undecodable(&error))?;
    metadata.annotations.retain(|name, _| [IGNORE, DEADLINE].contains(&name.as_str()));
    Ok(metadata)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn namespace(name: &str, ignore: &str) -> Vec<u8> {
        let annotations = match ignore {
            "" => json!(null),
            ignore => json!({ IGNORE: ignore, "example.io/owner": "team" }),
        };
        json!({ "metadata": { "name": name, "resourceVersion": "7", "annotations": annotations } })
            .to_string()
            .into_bytes()
    }

    fn seen(name: &str, ignore: &str) -> NamespaceView {
        let annotations = [(IGNORE.to_owned(), ignore.to_owned())].into_iter().filter(|_| !ignore.is_empty()).collect();
        view(name.to_owned(), annotations)
    }

    #[test]
    fn only_changes_of_annotations_for_loopwatch_are_reported() {
        let mut sink = NamespaceSink::default();
        let list = |sink: &mut NamespaceSink, objects: &[Vec<u8>]| {
            let mut out = Vec::new();
            sink.began(1, &mut out);
            objects.iter().for_each(|object| sink.listed(object, &mut out).expect("a namespace"));
            sink.ended(1, "7", &mut out);
            out
        };
        let listed = list(&mut sink, &[namespace("a", "all"), namespace("b", ""), namespace("c", "Overdue")]);
        assert_eq!(listed, [Observation::NamespacesListed(vec![seen("a", "all"), seen("c", "Overdue")])]);

        let mut out = Vec::new();
        for (name, ignore) in [("a", "all"), ("b", ""), ("b", "all"), ("b", "all"), ("a", ""), ("a", "")] {
            assert_eq!(sink.applied(&namespace(name, ignore), &mut out).expect("a namespace"), "7");
        }
        for name in ["a", "c", "c"] {
            sink.deleted(&namespace(name, ""), &mut out).expect("a namespace");
        }
        let expected = [
            Observation::NamespaceSeen(seen("b", "all")),
            Observation::NamespaceSeen(seen("a", "")),
            Observation::NamespaceGone("c".to_owned()),
        ];
        assert_eq!(out, expected);
        assert_eq!(list(&mut sink, &[]), [Observation::NamespacesListed(Vec::new())], "after a reconnect");
    }
}
