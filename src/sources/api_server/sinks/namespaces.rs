//! Namespaces: annotations that silence findings or set deadlines, the label that names their team,
//! and deletions. loopwatch watches the metadata of all namespaces if the account may do so, and
//! reads the conditions of those that are being deleted.

use std::collections::BTreeMap;
use std::sync::Arc;

use loopwatch_model::model::annotated;
use loopwatch_model::observation::{NamespaceView, Observation, SourceId};
use loopwatch_model::time::Timestamp;
use serde::Deserialize;
use tokio::sync::Notify;

mod terminating;
#[cfg(test)]
mod tests;

pub(crate) use self::terminating::Terminating;
use crate::net::Failure;
use crate::sources::api_server::collections::collection;
use crate::sources::api_server::wanted_namespaces::WantedNamespaces;
use crate::sources::api_server::watch::{WatchSink, WatchTarget};
use crate::sources::decoding::{or_default, truncate};

/// Limit on reported namespaces. The model has a lower limit, and counts the excess.
const MAX_REPORTED: usize = 10_000;

/// The longest value of an annotation, in bytes: a list of all findings takes more than half of it.
const MAX_ANNOTATION: usize = 2048;

/// Turns events about namespaces into observations. Namespaces without annotations for loopwatch
/// and without a team cause none, unless they are being deleted.
#[derive(Default)]
pub(crate) struct NamespaceSink {
    /// The namespaces as reported, without conditions.
    reported: BTreeMap<String, NamespaceView>,
    /// Those of the list in progress.
    listed: BTreeMap<String, NamespaceView>,
    /// The namespaces whose conditions another task reads.
    terminating: Terminating,
    /// Whether the list had to skip a namespace.
    is_incomplete: bool,
    /// Notified when a list is complete.
    complete: Arc<Notify>,
    /// The label that names the team of a namespace.
    team_label: Option<String>,
    /// The namespaces whose deletion counts.
    wanted: WantedNamespaces,
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
    deletion_timestamp: Option<String>,
    #[serde(deserialize_with = "or_default")]
    annotations: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    labels: BTreeMap<String, String>,
}

impl NamespaceSink {
    pub(crate) const GROUP: &str = "";
    pub(crate) const RESOURCE: &str = "namespaces";

    /// The reason why the source is off without permission.
    pub(crate) const OFF: &str = "the account may not list and watch namespaces, so their annotations have no effect, and loopwatch does not \
     see their deletions and teams";

    /// The address of the watch.
    pub(crate) fn target() -> WatchTarget {
        WatchTarget::new(collection(Self::GROUP, "v1", Self::RESOURCE, None), true)
    }

    pub(crate) fn new(
        complete: Arc<Notify>,
        terminating: Terminating,
        team_label: Option<String>,
    ) -> Self {
        Self { complete, terminating, team_label, ..Self::default() }
    }

    /// Ignores deletions of all namespaces except these.
    pub(crate) fn with_deletions_of(self, wanted: WantedNamespaces) -> Self {
        Self { wanted, ..self }
    }

    /// Decodes the metadata of a namespace, with only the annotations and the label that loopwatch
    /// reads, and its version.
    fn decode(&self, object: &[u8]) -> Result<(NamespaceView, String), Failure> {
        let NamespaceDocument { metadata } =
            serde_json::from_slice(object).map_err(|error| Failure::undecodable(&error))?;
        let NamespaceMetadata {
            name,
            resource_version,
            deletion_timestamp,
            mut annotations,
            mut labels,
        } = metadata;

        annotations.retain(|name, _| annotated::ALL.contains(&name.as_str()));
        annotations.values_mut().for_each(|value| truncate(value, MAX_ANNOTATION));
        let team =
            self.team_label.as_ref().and_then(|label| labels.remove(label)).unwrap_or_default();
        let deleted = deletion_timestamp.filter(|_| self.wanted.allows(&name));
        let deleted = deleted.and_then(|time| Timestamp::parse(&time));

        Ok((
            NamespaceView { name, annotations, team, deleted, conditions: Vec::new() },
            resource_version,
        ))
    }

    /// Adds the known conditions to a namespace, and has them read again if it has changed.
    fn with_conditions(&self, view: NamespaceView, version: &str) -> NamespaceView {
        if view.deleted.is_none() {
            self.terminating.remove(&view.name);
            return view;
        }
        NamespaceView { conditions: self.terminating.note(&view, version), ..view }
    }
}

impl WatchSink for NamespaceSink {
    fn source(&self) -> SourceId {
        SourceId::Namespaces
    }

    fn began(&mut self, _: u64, _: &mut Vec<Observation>) {
        self.listed.clear();
        self.is_incomplete = false;
    }

    fn listed(&mut self, object: &[u8], _: &mut Vec<Observation>) -> Result<(), Failure> {
        let (view, version) = self.decode(object)?;
        self.listed.remove(&view.name);
        if is_reported(&view) && self.listed.len() < MAX_REPORTED {
            let view = self.with_conditions(view, &version);
            self.listed.insert(view.name.clone(), view);
        }

        Ok(())
    }

    fn skipped(&mut self) {
        self.is_incomplete = true;
    }

    fn ended(&mut self, _: u64, _: &str, out: &mut Vec<Observation>) {
        let listed = std::mem::take(&mut self.listed);
        let bare = |view: &NamespaceView| NamespaceView { conditions: Vec::new(), ..view.clone() };
        let reported = listed.iter().map(|(name, view)| (name.clone(), bare(view)));

        if self.is_incomplete {
            // A namespace that the list skipped is not gone.
            self.reported.extend(reported);
            out.extend(listed.into_values().map(Observation::NamespaceSeen));
        } else {
            self.reported = reported.collect();
            self.terminating.retain(|name| self.reported.contains_key(name));
            out.push(Observation::NamespacesListed(listed.into_values().collect()));
        }

        self.complete.notify_one();
    }

    fn applied(&mut self, object: &[u8], out: &mut Vec<Observation>) -> Result<String, Failure> {
        let (view, version) = self.decode(object)?;
        let view = self.with_conditions(view, &version);
        let bare = NamespaceView { conditions: Vec::new(), ..view.clone() };
        let reported = self.reported.get(&view.name);

        if reported.map_or(!is_reported(&view), |reported| *reported == bare) {
            return Ok(version);
        }

        if !is_reported(&view) {
            self.reported.remove(&view.name);
        } else if reported.is_some() || self.reported.len() < MAX_REPORTED {
            self.reported.insert(view.name.clone(), bare);
        }

        out.push(Observation::NamespaceSeen(view));
        Ok(version)
    }

    fn deleted(&mut self, object: &[u8], out: &mut Vec<Observation>) -> Result<String, Failure> {
        let (NamespaceView { name, .. }, version) = self.decode(object)?;
        self.listed.remove(&name);
        self.terminating.remove(&name);

        if self.reported.remove(&name).is_some() {
            out.push(Observation::NamespaceGone(name));
        }

        Ok(version)
    }

    fn progressed(&mut self, _: &str, _: &mut Vec<Observation>) {}
}

/// Whether the model needs to know a namespace.
fn is_reported(view: &NamespaceView) -> bool {
    view.deleted.is_some() || !view.annotations.is_empty() || !view.team.is_empty()
}
