//! Custom resource definitions: their served and stored versions, and how they declare a status.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, RwLock};

use loopwatch_model::observation::{
    ConditionStatus, ConversionView, DefinitionView, Observation, SourceId, StatusSchema, WatchId,
};
use tokio::sync::{Notify, broadcast};

use crate::lock::{read_lock, write_lock};
use crate::net::Failure;
use crate::sources::api_server::watch::{WatchSink, WatchTarget};
use crate::sources::decoding::definition;
use crate::sources::feed::{Closed, Feed};

/// The current definitions, shared between their watch and discovery.
#[derive(Clone, Debug, Default)]
pub(crate) struct Definitions {
    table: Arc<RwLock<DefinitionTable>>,
    /// Notified of changes that concern discovery.
    pub(crate) changed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct DefinitionTable {
    /// Whether the list is complete.
    known: bool,
    by_name: BTreeMap<String, DefinitionView>,
}

/// Forwards what one watch sees to the models of many operators.
#[derive(Clone, Debug)]
pub(crate) struct DefinitionNews {
    changes: broadcast::Sender<Observation>,
}

/// Turns events about definitions into observations.
pub(crate) struct DefinitionSink {
    definitions: Definitions,
    listed: BTreeSet<String>,
    /// Whether the list had to skip a definition.
    is_incomplete: bool,
    /// Where the observations go, if several models get them.
    news: Option<DefinitionNews>,
}

/// The number of changes that a model may be behind. Beyond it, the model gets all definitions again.
const NEWS: usize = 256;

const GROUP: &str = "apiextensions.k8s.io";
const RESOURCE: &str = "customresourcedefinitions";

impl Definitions {
    /// The address of the watch.
    pub(crate) fn target() -> WatchTarget {
        WatchTarget::new(format!("/apis/{GROUP}/v1/{RESOURCE}"), false)
    }

    /// The name of the watch.
    pub(crate) fn watch() -> WatchId {
        WatchId(format!("{RESOURCE}.{GROUP}").into())
    }

    /// The group and resource, for reviews.
    pub(crate) const fn resource() -> (&'static str, &'static str) {
        (GROUP, RESOURCE)
    }

    /// The definition of a kind, if the account may read definitions and there is one.
    pub(crate) fn get(&self, group: &str, resource: &str) -> Option<DefinitionView> {
        let table = read_lock(&self.table);
        table.by_name.get(&format!("{resource}.{group}")).cloned()
    }

    /// The names of the Services in a namespace that convert objects.
    pub(crate) fn conversion_services(&self, namespace: &str) -> BTreeSet<String> {
        let table = read_lock(&self.table);
        let services = table.by_name.values().filter_map(|view| {
            let (within, name) = view.conversion.as_ref()?.service.split_once('/')?;
            (within == namespace).then(|| name.to_owned())
        });
        services.collect()
    }

    /// Whether the list of definitions is complete.
    pub(crate) fn are_known(&self) -> bool {
        read_lock(&self.table).known
    }

    /// The same definitions for another model, whose discovery is notified itself.
    #[must_use]
    pub(crate) fn for_another_model(&self) -> Self {
        Self { table: Arc::clone(&self.table), changed: Arc::default() }
    }

    /// Everything that is known about the wanted groups, as observations.
    fn everything(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<Observation> {
        let table = read_lock(&self.table);
        let wanted = table.by_name.iter().filter(|(name, _)| is_wanted(group_of(name)));
        let (names, views): (Vec<_>, Vec<_>) =
            wanted.map(|(name, view)| (name.clone(), view.clone())).unzip();
        let seen = views.into_iter().map(Observation::DefinitionSeen);
        seen.chain(table.known.then_some(Observation::DefinitionsListed(names))).collect()
    }

    /// Forgets all definitions, because the account may no longer read them.
    pub(crate) fn forget(&self) {
        self.change(|table| *table = DefinitionTable::default());
    }

    fn change<T>(&self, change: impl FnOnce(&mut DefinitionTable) -> T) -> T {
        change(&mut write_lock(&self.table))
    }
}

impl DefinitionSink {
    pub(crate) fn new(definitions: Definitions) -> Self {
        Self { definitions, listed: BTreeSet::new(), is_incomplete: false, news: None }
    }

    /// A sink whose observations go to all models.
    pub(crate) fn shared(definitions: Definitions, news: DefinitionNews) -> Self {
        Self { news: Some(news), ..Self::new(definitions) }
    }

    fn tell(&self, observation: Observation, out: &mut Vec<Observation>) {
        match &self.news {
            None => out.push(observation),
            Some(news) => _ = news.changes.send(observation), // nobody may listen yet
        }
    }

    fn seen(&self, view: DefinitionView, out: &mut Vec<Observation>) {
        let known =
            self.definitions.change(|table| table.by_name.insert(view.name.clone(), view.clone()));
        if known.as_ref() == Some(&view) {
            return;
        }

        if known.is_none_or(|known| what_is_served(&known) != what_is_served(&view)) {
            self.definitions.changed.notify_one();
        }

        self.tell(Observation::DefinitionSeen(view), out);
    }
}

impl Default for DefinitionNews {
    fn default() -> Self {
        Self { changes: broadcast::Sender::new(NEWS) }
    }
}

impl DefinitionNews {
    /// Forwards the definitions of the wanted groups to a model, and then each change, until the feed is
    /// closed. Begins again whenever `wishes` completes.
    pub(crate) async fn forward(
        self,
        definitions: Definitions,
        feed: Feed,
        is_wanted: impl Fn(&str) -> bool,
        mut wishes: impl AsyncFnMut(),
    ) {
        let mut changes = self.changes.subscribe();
        loop {
            let forwarded = tokio::select! {
                forwarded = forward_until_behind(&mut changes, &definitions, &feed, &is_wanted) => forwarded,
                () = wishes() => Ok(()),
            };
            if forwarded.is_err() {
                return;
            }
        }
    }
}

/// Forwards all definitions of the wanted groups, and then each change, until the model is too far behind.
async fn forward_until_behind(
    changes: &mut broadcast::Receiver<Observation>,
    definitions: &Definitions,
    feed: &Feed,
    is_wanted: &impl Fn(&str) -> bool,
) -> Result<(), Closed> {
    feed.recovered(SourceId::Watch(Definitions::watch())).await?;
    for observation in definitions.everything(is_wanted) {
        feed.send(observation).await?;
    }

    loop {
        match changes.recv().await {
            Ok(change) => {
                if let Some(change) = only(change, is_wanted) {
                    feed.send(change).await?;
                }
                definitions.changed.notify_one();
            }
            Err(broadcast::error::RecvError::Lagged(_)) => return Ok(()),
            Err(broadcast::error::RecvError::Closed) => return Err(Closed),
        }
    }
}

/// The part of a change that concerns wanted groups.
fn only(change: Observation, is_wanted: &impl Fn(&str) -> bool) -> Option<Observation> {
    let is_wanted = |name: &str| is_wanted(group_of(name));
    match change {
        Observation::DefinitionSeen(view) => {
            is_wanted(&view.name).then_some(Observation::DefinitionSeen(view))
        }
        Observation::DefinitionGone(name) => {
            is_wanted(&name).then_some(Observation::DefinitionGone(name))
        }
        Observation::DefinitionsListed(mut names) => {
            names.retain(|name| is_wanted(name));
            Some(Observation::DefinitionsListed(names))
        }
        other => Some(other),
    }
}

/// The group in the name of a definition.
fn group_of(name: &str) -> &str {
    name.split_once('.').map_or("", |(_, group)| group)
}

impl WatchSink for DefinitionSink {
    fn source(&self) -> SourceId {
        SourceId::Watch(Definitions::watch())
    }

    fn began(&mut self, _: u64, _: &mut Vec<Observation>) {
        self.listed.clear();
        self.is_incomplete = false;
    }

    fn listed(&mut self, object: &[u8], out: &mut Vec<Observation>) -> Result<(), Failure> {
        let (view, _) = definition(object)?;
        self.listed.insert(view.name.clone());
        self.seen(view, out);
        Ok(())
    }

    fn skipped(&mut self) {
        self.is_incomplete = true;
    }

    fn ended(&mut self, _: u64, _: &str, out: &mut Vec<Observation>) {
        let listed = std::mem::take(&mut self.listed);

        // A definition that the list skipped is not gone.
        let is_complete = !self.is_incomplete;
        self.definitions.change(|table| {
            table.known = true;
            table.by_name.retain(|name, _| !is_complete || listed.contains(name));
        });
        self.definitions.changed.notify_one();

        if is_complete {
            self.tell(Observation::DefinitionsListed(listed.into_iter().collect()), out);
        }
    }

    fn applied(&mut self, object: &[u8], out: &mut Vec<Observation>) -> Result<String, Failure> {
        let (view, version) = definition(object)?;
        self.seen(view, out);
        Ok(version)
    }

    fn deleted(&mut self, object: &[u8], out: &mut Vec<Observation>) -> Result<String, Failure> {
        let (view, version) = definition(object)?;
        self.listed.remove(&view.name);
        self.definitions.change(|table| table.by_name.remove(&view.name));
        self.definitions.changed.notify_one();
        self.tell(Observation::DefinitionGone(view.name), out);
        Ok(version)
    }

    fn progressed(&mut self, _: &str, _: &mut Vec<Observation>) {}
}

/// The part of a definition that determines what to watch, and how.
fn what_is_served(
    view: &DefinitionView,
) -> (&[String], &str, StatusSchema, bool, Option<&ConversionView>) {
    let established = view
        .conditions
        .iter()
        .any(|c| c.r#type == "Established" && c.status == ConditionStatus::True);

    (&view.served, &view.storage, view.status, established, view.conversion.as_ref())
}

// The parts of the JSON form that loopwatch reads. The decoder skips schemas, which can be a
// megabyte each.

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_all_definitions_so_that_others_are_gone_also_after_a_restart_of_the_sources() {
        let mut sink = DefinitionSink::new(Definitions::default());
        let mut out = Vec::new();
        sink.began(1, &mut out);
        sink.listed(br#"{"metadata":{"name":"ws.a.io"},"spec":{"group":"a.io"}}"#, &mut out)
            .expect("a definition");
        sink.ended(1, "7", &mut out);

        assert_eq!(out.pop(), Some(Observation::DefinitionsListed(vec!["ws.a.io".to_owned()])));
        assert!(sink.definitions.get("a.io", "ws").is_some());

        sink.began(2, &mut out);
        sink.ended(2, "8", &mut out);

        assert_eq!(out.pop(), Some(Observation::DefinitionsListed(Vec::new())));
        assert!(sink.definitions.get("a.io", "ws").is_none());
    }

    #[test]
    fn a_definition_that_a_list_skips_is_not_gone() {
        let mut sink = DefinitionSink::new(Definitions::default());
        let mut out = Vec::new();
        let definition = br#"{"metadata":{"name":"ws.a.io"},"spec":{"group":"a.io"}}"#;
        sink.began(1, &mut out);
        sink.listed(definition, &mut out).expect("a definition");
        sink.ended(1, "7", &mut out);
        out.clear();
        sink.began(2, &mut out);

        sink.skipped();
        sink.ended(2, "8", &mut out);

        assert!(out.is_empty() && sink.definitions.get("a.io", "ws").is_some(), "{out:?}");

        sink.began(3, &mut out);
        sink.ended(3, "9", &mut out);

        assert_eq!(out, [Observation::DefinitionsListed(Vec::new())], "the next list is complete");
    }

    #[test]
    fn a_deletion_and_each_change_of_its_conditions_is_reported() {
        let mut sink = DefinitionSink::new(Definitions::default());
        let mut changed = |deleted: &str, reason: &str| {
            let mut out = Vec::new();
            let json = format!(
                r#"{{"metadata":{{"name":"ws.a.io","deletionTimestamp":{deleted}}},"spec":{{"group":"a.io"}},
                "status":{{"conditions":[{{"type":"Terminating","status":"True","reason":"{reason}"}}]}}}}"#
            );

            sink.applied(json.as_bytes(), &mut out).expect("a definition");
            match out.pop() {
                Some(Observation::DefinitionSeen(view)) => {
                    Some((view.deleted.is_some(), view.conditions[0].reason.clone()))
                }
                _ => None,
            }
        };

        let time = r#""2026-01-01T00:00:00Z""#;
        assert_eq!(changed("null", ""), Some((false, String::new())));
        assert_eq!(changed(time, ""), Some((true, String::new())));
        assert_eq!(
            changed(time, "InstanceDeletionInProgress"),
            Some((true, "InstanceDeletionInProgress".to_owned()))
        );
        assert_eq!(changed(time, "InstanceDeletionInProgress"), None, "nothing new");
    }
}
