//! Finds the dependents of an object: the objects that name it as an owner.
//!
//! The API server cannot search by owner, so loopwatch lists the metadata of the kinds that may
//! hold dependents: the child kinds that it watches, and those that Kubernetes creates for the kind
//! of the owner.

use std::collections::BTreeSet;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use loopwatch_model::observation::{
    Answer, Cause, Dependent, MAX_DEPENDENTS, MAX_OBJECT_BYTES, ObjectAddress, ObjectView,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout};

use super::ObjectLookups;
use super::kinds::NotFound;
use crate::lock::read_lock;
use crate::net::{Failure, percent_encode};
use crate::sources::api_server::{ApiKind, LIST_METADATA, is_name};
use crate::sources::decoding;
use crate::sources::decoding::{ListMetadata, or_default};

/// The watched child kinds, as group and kind.
pub(crate) type WatchedChildKinds = Arc<RwLock<BTreeSet<(String, String)>>>;

/// One page of a list.
#[derive(Deserialize)]
struct DependentsPage {
    #[serde(default)]
    metadata: ListMetadata,
    /// Required: a document without `items` is not a list and must not pass for an empty one.
    #[serde(deserialize_with = "or_default")]
    items: Vec<Box<RawValue>>,
}

/// The dependents found so far.
struct FoundDependents {
    dependents: Vec<Dependent>,
    is_complete: bool,
}

/// Objects in a page.
const PAGE: usize = 500;
/// Limit on pages of one kind: in the namespace of the owner, and in the whole cluster.
const PAGES: (usize, usize) = (10, 1);
/// Time for a page.
const PAGE_WITHIN: Duration = Duration::from_secs(10);
/// Time for all kinds. No other lookup can run during this time.
const WITHIN: Duration = Duration::from_secs(20);

/// The kinds of the objects that Kubernetes creates for objects of a kind.
fn created_for(group: &str, kind: &str) -> &'static [(&'static str, &'static str)] {
    match (group, kind) {
        ("apps", "Deployment") => &[("apps", "ReplicaSet")],
        ("apps", "ReplicaSet") | ("", "ReplicationController") | ("batch", "Job") => &[("", "Pod")],
        ("apps", "StatefulSet") => {
            &[("", "Pod"), ("apps", "ControllerRevision"), ("", "PersistentVolumeClaim")]
        }
        ("apps", "DaemonSet") => &[("", "Pod"), ("apps", "ControllerRevision")],
        ("batch", "CronJob") => &[("batch", "Job")],
        ("", "Service") => &[("discovery.k8s.io", "EndpointSlice")],
        _ => &[],
    }
}

impl ObjectLookups {
    pub(super) async fn dependents(
        &mut self,
        owner: &ObjectAddress,
        uid: &str,
    ) -> Result<Answer, NotFound> {
        if uid.is_empty() || !(owner.namespace.is_empty() || is_name(&owner.namespace)) {
            return Err(NotFound::Failed(Cause::Invalid));
        }

        let asked = Instant::now();
        let watched = read_lock(&self.children).clone();
        let created = created_for(&owner.group, &owner.kind).iter();
        let created = created.map(|(group, kind)| ((*group).to_owned(), (*kind).to_owned()));
        let candidates: BTreeSet<(String, String)> = watched.into_iter().chain(created).collect();
        let mut found = FoundDependents { dependents: Vec::new(), is_complete: true };
        let search = async {
            for (group, kind) in candidates {
                match self.kinds.find(&group, &kind, asked).await {
                    Ok(Some(kind)) => self.dependents_of_kind(&kind, owner, uid, &mut found).await,
                    Ok(None) => {}
                    Err(_) => found.is_complete = false,
                }
            }
        };

        if timeout(WITHIN, search).await.is_err() {
            found.is_complete = false;
        }

        Ok(Answer::Dependents { found: found.dependents, complete: found.is_complete })
    }

    async fn dependents_of_kind(
        &mut self,
        kind: &ApiKind,
        owner: &ObjectAddress,
        uid: &str,
        found: &mut FoundDependents,
    ) {
        if !owner.namespace.is_empty() && !kind.namespaced {
            return; // a namespaced object cannot own one without a namespace
        }

        let namespace = Some(owner.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        let scope = super::RefusedScope::new("list", kind, namespace);
        if (kind.is_secret() && !self.secrets.may_list()) || self.refusals.contain(&scope) {
            found.is_complete = false;
            return;
        }

        let path = kind.collection(namespace);
        let pages = if namespace.is_some() { PAGES.0 } else { PAGES.1 };
        let mut token = String::new();

        for _ in 0..pages {
            match self.page(&path, &token).await {
                Ok(DependentsPage { metadata, items }) => {
                    self.add_dependents(kind, &items, uid, found);
                    token = metadata.token;
                }
                Err(failure) => {
                    if failure.cause == Cause::Forbidden {
                        self.refusals.add(scope);
                    }

                    found.is_complete = false;
                    return;
                }
            }

            if token.is_empty() {
                return;
            }
        }

        found.is_complete = false;
    }

    async fn page(&self, path: &str, token: &str) -> Result<DependentsPage, Failure> {
        let rest = if token.is_empty() {
            String::new()
        } else {
            format!("&continue={}", percent_encode(token))
        };
        let path = format!("{path}?limit={PAGE}{rest}");
        let request = self.cluster.get_json_within(&path, LIST_METADATA, MAX_OBJECT_BYTES);

        timeout(PAGE_WITHIN, request)
            .await
            .unwrap_or_else(|_| Err(Failure::timeout(&path, PAGE_WITHIN)))
    }

    fn add_dependents(
        &self,
        kind: &ApiKind,
        items: &[Box<RawValue>],
        uid: &str,
        found: &mut FoundDependents,
    ) {
        for item in items {
            let Ok(object) = decoding::object(item.get().as_bytes(), &self.hash_key) else {
                found.is_complete = false;
                continue;
            };
            if !is_owned_by(&object, uid) {
                continue;
            }

            if found.dependents.len() >= MAX_DEPENDENTS {
                found.is_complete = false;
                return;
            }

            found.dependents.push(Dependent {
                group: kind.group.clone(),
                kind: kind.kind.clone(),
                object,
            });
        }
    }
}

fn is_owned_by(object: &ObjectView, uid: &str) -> bool {
    object.owners.iter().any(|owner| owner.uid == uid)
}
