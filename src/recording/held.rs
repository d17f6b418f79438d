//! Keeps the observations with which a replay has to begin: the latest of each source, and the
//! objects of each watch.
//!
//! A recording in several files keeps them in memory, so that a new file can begin without new
//! lists.

use std::collections::{BTreeMap, HashMap};
use std::io;

use loopwatch_model::observation::{
    Cause, NamespaceView, ObjectKey, ObjectView, Observation, SourceId, WatchId, WatchedKind,
    WebhookKind,
};
use loopwatch_model::time::Timestamp;

/// The state of all sources, as observations.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// The time of the latest observation.
    at: Timestamp,
    latest: BTreeMap<Topic, Observation>,
    watches: BTreeMap<WatchId, HeldWatch>,
    sources: BTreeMap<SourceId, Observation>,
}

/// The subject of observations that replace each other, in the order in which a file begins with
/// them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Topic {
    Kinds,
    /// By name.
    Definition(String),
    Webhooks(WebhookKind),
    Endpoints,
    /// By namespace.
    Permissions(String),
    /// By name.
    Namespace(String),
    /// By namespace and name.
    Lease(String, String),
    Operator,
    /// By instance.
    Metrics(String),
    /// By instance.
    Process(String),
}

/// The state of one watch.
#[derive(Debug, Default)]
struct HeldWatch {
    /// The epoch of the latest complete list.
    complete: Option<u64>,
    /// The epoch of a list in progress.
    listing: Option<u64>,
    /// The latest version.
    version: String,
    /// The causes of objects skipped since the latest list began.
    skipped: Vec<Cause>,
    objects: HashMap<ObjectKey, HeldObject>,
}

#[derive(Debug)]
struct HeldObject {
    /// The epoch of the list in progress when the object was last seen; `None` without one.
    epoch: Option<u64>,
    /// The object as JSON, which takes a fraction of the memory of an [`ObjectView`].
    view: Box<[u8]>,
}

/// The maximum number of skipped objects to remember per watch.
const MAX_SKIPPED: usize = 1_000;

impl Held {
    /// The time of the latest observation.
    pub(super) fn at(&self) -> Timestamp {
        self.at
    }

    /// Updates the state with an observation.
    ///
    /// # Errors
    /// If an object cannot be serialised.
    pub(super) fn note(&mut self, at: Timestamp, observation: &Observation) -> io::Result<()> {
        self.at = self.at.max(at);
        if let Some(topic) = Topic::of(observation) {
            self.latest.insert(topic, observation.clone());
        }

        match observation {
            Observation::KindsDiscovered(kinds) => self.kinds_discovered(kinds),
            Observation::DefinitionGone(name) => {
                _ = self.latest.remove(&Topic::Definition(name.clone()))
            }
            Observation::DefinitionsListed(names) => self.latest.retain(|topic, _| match topic {
                Topic::Definition(name) => names.contains(name),
                _ => true,
            }),
            Observation::LeaseGone { namespace, name } => {
                self.latest.remove(&Topic::Lease(namespace.clone(), name.clone()));
            }
            Observation::LeasesListed { namespace, names } => {
                self.latest.retain(|topic, _| match topic {
                    Topic::Lease(within, name) => within != namespace || names.contains(name),
                    _ => true,
                })
            }
            Observation::NamespacesListed(namespaces) => self.namespaces_listed(namespaces),
            Observation::NamespaceGone(name) => {
                _ = self.latest.remove(&Topic::Namespace(name.clone()))
            }
            Observation::OperatorSeen(view) => {
                let is_of =
                    |instance: &String| view.pods.iter().any(|pod| instance.ends_with(&pod.name));
                self.latest.retain(|topic, _| match topic {
                    Topic::Metrics(instance) | Topic::Process(instance) => {
                        !view.complete || is_of(instance)
                    }
                    _ => true,
                });
            }
            Observation::ProcessGone { instance } => {
                _ = self.latest.remove(&Topic::Process(instance.clone()))
            }
            Observation::SourceFailed { source, .. }
            | Observation::SourceRecovered { source }
            | Observation::SourceRestricted { source, .. }
            | Observation::SourceOff { source, .. } => {
                self.sources.insert(source.clone(), observation.clone());
            }
            Observation::ListBegan { watch, .. }
            | Observation::Listed { watch, .. }
            | Observation::ListEnded { watch, .. }
            | Observation::Applied { watch, .. }
            | Observation::Deleted { watch, .. }
            | Observation::Progressed { watch, .. } => {
                if let Some(watch) = self.watches.get_mut(watch) {
                    watch.note(observation)?;
                }
            }
            Observation::Skipped { source: SourceId::Watch(watch), cause } => {
                if let Some(watch) =
                    self.watches.get_mut(watch).filter(|watch| watch.skipped.len() < MAX_SKIPPED)
                {
                    watch.skipped.push(*cause);
                }
            }
            _ => {} // only its topic matters, if it has one
        }

        Ok(())
    }

    /// Forgets the watches that have ended, and adds new ones.
    fn kinds_discovered(&mut self, kinds: &[WatchedKind]) {
        let stays = |watch: &WatchId| {
            kinds.iter().any(|kind| kind.watch == *watch && kind.missing.is_empty())
        };
        let gone: Vec<WatchId> =
            self.watches.keys().filter(|watch| !stays(watch)).cloned().collect();
        for watch in gone {
            self.watches.remove(&watch);
            if !kinds.iter().any(|kind| kind.watch == watch) {
                self.sources.remove(&SourceId::Watch(watch));
            }
        }

        for kind in kinds.iter().filter(|kind| kind.missing.is_empty()) {
            self.watches.entry(kind.watch.clone()).or_default();
        }
    }

    fn namespaces_listed(&mut self, namespaces: &[NamespaceView]) {
        self.latest.retain(|topic, _| !matches!(topic, Topic::Namespace(_)));
        for namespace in namespaces {
            let seen = Observation::NamespaceSeen(namespace.clone());
            self.latest.insert(Topic::Namespace(namespace.name.clone()), seen);
        }
    }

    /// Passes the observations that rebuild this state to `write`.
    ///
    /// # Errors
    /// Those of `write`.
    pub(super) fn replay(
        &self,
        mut write: impl FnMut(&Observation) -> io::Result<()>,
    ) -> io::Result<()> {
        self.latest.values().try_for_each(&mut write)?;
        for (id, watch) in &self.watches {
            watch.replay(id, &mut write)?;
        }

        self.sources.values().try_for_each(write)
    }
}

impl Topic {
    /// The topic whose latest state this observation sets.
    fn of(observation: &Observation) -> Option<Self> {
        Some(match observation {
            Observation::KindsDiscovered(_) => Self::Kinds,
            Observation::DefinitionSeen(definition) => Self::Definition(definition.name.clone()),
            Observation::WebhooksListed { kind, .. } => Self::Webhooks(*kind),
            Observation::EndpointsListed(_) => Self::Endpoints,
            Observation::PermissionsReviewed(view) => Self::Permissions(view.namespace.clone()),
            Observation::NamespaceSeen(namespace) => Self::Namespace(namespace.name.clone()),
            Observation::LeaseSeen(lease) => {
                Self::Lease(lease.namespace.clone(), lease.name.clone())
            }
            Observation::OperatorSeen(_) => Self::Operator,
            Observation::MetricsScraped(view) => Self::Metrics(view.instance.clone()),
            Observation::ScrapeFailed { instance, .. } => Self::Metrics(instance.clone()),
            Observation::ProcessSeen(view) => Self::Process(view.instance.clone()),
            // These do not replace each other, or `note` keeps them elsewhere.
            Observation::DefinitionGone(_)
            | Observation::DefinitionsListed(_)
            | Observation::LeaseGone { .. }
            | Observation::LeasesListed { .. }
            | Observation::NamespacesListed(_)
            | Observation::NamespaceGone(_)
            | Observation::ProcessGone { .. }
            | Observation::ListBegan { .. }
            | Observation::Listed { .. }
            | Observation::ListEnded { .. }
            | Observation::Applied { .. }
            | Observation::Deleted { .. }
            | Observation::Progressed { .. }
            | Observation::Skipped { .. }
            | Observation::ScrapesMissed { .. }
            | Observation::ScrapesSeen
            | Observation::SourceFailed { .. }
            | Observation::SourceRecovered { .. }
            | Observation::SourceRestricted { .. }
            | Observation::SourceOff { .. } => return None,
            // The model's checkpoint replaces `Restored`, and the settings in the header replace
            // `SettingsChanged`. The others describe an instant, not a state.
            Observation::Restored(_)
            | Observation::SettingsChanged(_)
            | Observation::Answered { .. }
            | Observation::EventSeen { .. }
            | Observation::ClockStepped { .. }
            | Observation::Tick => return None,
        })
    }
}

impl HeldWatch {
    fn note(&mut self, observation: &Observation) -> io::Result<()> {
        match observation {
            Observation::ListBegan { epoch, .. } => {
                self.listing = Some(*epoch);
                self.skipped.clear();
            }
            Observation::Listed { object, .. } => self.keep(object)?,
            Observation::ListEnded { epoch, version, .. } => self.list_ended(*epoch, version),
            Observation::Applied { object, .. } => {
                self.version.clone_from(&object.version);
                self.keep(object)?;
            }
            Observation::Deleted { key, version, .. } => {
                self.version.clone_from(version);
                self.objects.remove(key);
            }
            Observation::Progressed { version, .. } => self.version.clone_from(version),
            _ => {}
        }

        Ok(())
    }

    fn list_ended(&mut self, epoch: u64, version: &str) {
        if self.listing != Some(epoch) {
            return; // as in the model: an abandoned list does not show which objects are gone
        }

        self.listing = None;
        self.complete = Some(epoch);
        version.clone_into(&mut self.version);

        let is_listed = |object: &HeldObject| object.epoch == Some(epoch);
        let missing = self.objects.values().filter(|object| !is_listed(object)).count();

        // As in the model: each skipped object may be one of those missing.
        if missing > self.skipped.len() {
            self.objects.retain(|_, object| is_listed(object));
        }

        self.objects.values_mut().for_each(|object| object.epoch = None);
    }

    fn keep(&mut self, object: &ObjectView) -> io::Result<()> {
        let view = serde_json::to_vec(object)?.into_boxed_slice();
        self.objects.insert(object.key.clone(), HeldObject { epoch: self.listing, view });
        Ok(())
    }

    /// Writes the last complete list before a list in progress: until the latter ends, objects that
    /// it does not list yet still exist.
    fn replay(
        &self,
        id: &WatchId,
        write: &mut impl FnMut(&Observation) -> io::Result<()>,
    ) -> io::Result<()> {
        let skipped = || {
            self.skipped.iter().map(|cause| Observation::Skipped {
                source: SourceId::Watch(id.clone()),
                cause: *cause,
            })
        };

        if let Some(epoch) = self.complete {
            self.list(id, epoch, |_| true, write)?;
            if self.listing.is_none() {
                skipped().try_for_each(|observation| write(&observation))?;
            }

            write(&Observation::ListEnded {
                watch: id.clone(),
                epoch,
                version: self.version.clone(),
            })?;
        }

        if let Some(epoch) = self.listing {
            self.list(id, epoch, |object| object.epoch == Some(epoch), write)?;
            skipped().try_for_each(|observation| write(&observation))?;
        }

        Ok(())
    }

    fn list(
        &self,
        id: &WatchId,
        epoch: u64,
        wanted: impl Fn(&HeldObject) -> bool,
        write: &mut impl FnMut(&Observation) -> io::Result<()>,
    ) -> io::Result<()> {
        write(&Observation::ListBegan { watch: id.clone(), epoch })?;
        let mut objects: Vec<_> =
            self.objects.iter().filter(|(_, object)| wanted(object)).collect();
        objects.sort_by_key(|(key, _)| *key);

        for (_, object) in objects {
            let object = Box::new(serde_json::from_slice::<ObjectView>(&object.view)?);
            write(&Observation::Listed { watch: id.clone(), object })?;
        }

        Ok(())
    }
}
