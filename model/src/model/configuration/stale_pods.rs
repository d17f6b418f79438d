//! Stale Pods: they are older than the configuration that they read only when they start.
//!
//! Containers may start or restart long after the creation of their Pod, and each start makes the
//! kubelet write the status of the Pod. So a Pod certainly has not read data that was written after
//! its status; all other Pods prove nothing. A hash of the configuration in the Pod template needs
//! no rule of its own: with a new hash, the Pods are new, too.

use std::collections::BTreeMap;

use crate::finding::{Evidence, FindingCode, Value};
use crate::model::configuration::consumers::{Configuration, Stale, kind};
use crate::model::findings::detection::Detection;
use crate::model::findings::open_findings::OpenFindings;
use crate::model::status::reading::Verdict;
use crate::model::world::World;
use crate::model::world::data_writes::LastWrite;
use crate::model::world::lookups::{ASK_AGAIN, Existence};
use crate::model::world::store::{self, Slot};
use crate::observation::Dependent;
use crate::snapshot::ObjectState;
use crate::time::{Span, Timestamp};

/// A change of data.
struct Change {
    at: Timestamp,
    certain: bool,
    name: String,
}

/// The Pods of a workload.
enum Pods {
    /// No answer yet.
    Awaited,
    /// They cannot be read, or there are none.
    Unknown,
    Found(Vec<Pod>),
}

/// The times of a Pod.
#[derive(Clone, Copy)]
struct Pod {
    created: Timestamp,
    /// The last write of its status. No container can have started after that.
    last_status: Timestamp,
}

/// The time after which Pods are read again if they were stale or could not be read.
const CHECK_EVERY: Span = Span::mins(10);
/// How long a workload must have been at rest before its Pods are read.
const AT_REST: Span = Span::secs(2);
/// The maximum number of changed objects that a finding names.
const MAX_NAMED: usize = 3;
/// The annotation with the rollout number on each `ReplicaSet` of a Deployment.
const REVISION: &str = "deployment.kubernetes.io/revision";

impl Stale {
    /// Compares Pods with changes. Returns `None` if no Pod is certainly older than one of the
    /// changes.
    fn find(pods: &[Pod], changes: &[Change]) -> Option<Self> {
        let is_older =
            |pod: &Pod, change: &Change| pod.created < change.at && pod.last_status < change.at;
        let missed = |change: &&Change| pods.iter().any(|pod| is_older(pod, change));
        let missed: Vec<&Change> = changes.iter().filter(missed).collect();
        let older = || pods.iter().filter(|pod| missed.iter().any(|change| is_older(pod, change)));
        let mut names: Vec<String> = missed.iter().map(|change| change.name.clone()).collect();

        names.dedup();
        names.truncate(MAX_NAMED);
        Some(Self {
            since: missed.iter().map(|change| change.at).min()?,
            names,
            pods: older().count(),
            oldest: older().map(|pod| pod.created).min()?,
            certain: missed.iter().any(|change| change.certain),
        })
    }
}

impl Pod {
    /// Extracts the times of a Pod. Returns `None` if it is being deleted.
    fn read(dependent: &Dependent) -> Option<Self> {
        let pod = &dependent.object;
        let is_pod = dependent.group.is_empty() && dependent.kind == "Pod" && pod.deleted.is_none();
        let written = pod
            .managers
            .iter()
            .filter(|manager| manager.owns.status)
            .filter_map(|manager| manager.time);

        // A Pod without a status has not started yet.
        let last_status = written.max().unwrap_or(Timestamp(i64::MAX));
        is_pod.then_some(Self { created: pod.created.unwrap_or(last_status), last_status })
    }
}

impl Configuration {
    /// Detects that Pods of a workload are older than their configuration.
    pub(super) fn stale_configuration(
        &mut self,
        world: &mut World,
        findings: &OpenFindings,
        slot: Slot,
    ) -> Option<Detection> {
        let consumer = self.consumers.get(&slot)?;
        let (record, now) = (world.store.get(slot)?, world.now);
        if record.deletion().is_some() {
            return None;
        }

        let is_open = world.has_open(FindingCode::StaleConfiguration, slot);
        let held = consumer.stale.clone().filter(|_| is_open);
        if record.verdict != Verdict::Converged {
            return held.map(|stale| stale_detection(world, &stale)); // the end of the rollout decides
        }

        let after = world.settings.stale_after;
        let mut changes = self.changes(world, slot);
        let Some(first) = changes.iter().map(|change| change.at).min() else {
            self.forget_stale(world, slot);
            return self.awaited_stale(world, findings, slot);
        };
        let later = changes.iter().map(|change| change.at).filter(|at| at.after(after) > now).min();

        changes.retain(|change| change.at.after(after) <= now);
        let Some(last) = changes.iter().map(|change| change.at).max() else {
            return Some(pending(now, first, first.after(after)));
        };
        let rested = rests_since(world, slot)?.after(AT_REST);

        if rested > now {
            self.check_pods_at(world, slot, rested);
            return Some(held.map_or_else(
                || pending(now, first, rested),
                |stale| stale_detection(world, &stale),
            ));
        }

        let consumer = self.consumers.get(&slot)?;
        let not_before = consumer.not_before.max(last.after(after)).max(rested);
        if consumer.checked.is_none_or(|at| at < not_before) {
            match pods_of(world, slot, not_before) {
                Pods::Awaited => {
                    let again = || pending(now, first, now.after(ASK_AGAIN));
                    return Some(held.map_or_else(again, |stale| stale_detection(world, &stale)));
                }
                Pods::Unknown => {
                    self.pods_checked(world, slot, None, held, Some(now.after(CHECK_EVERY)))
                }
                Pods::Found(pods) => {
                    let stale = Stale::find(&pods, &changes).map(Box::new);
                    let (settled, again) = match stale {
                        Some(_) => (None, Some(now.after(CHECK_EVERY))),
                        None => (Some(last), None),
                    };

                    self.pods_checked(world, slot, settled, stale, again);
                }
            }
        }

        let stale = self.consumers.get(&slot)?.stale.as_deref();
        let found = stale.map(|stale| stale_detection(world, stale));
        found.or_else(|| later.map(|at| pending(now, at, at.after(after))))
    }
}

/// Returns since when a workload has been at rest: since now, if this is the first review after a
/// rollout.
fn rests_since(world: &World, slot: Slot) -> Option<Timestamp> {
    let record = world.store.get(slot)?;
    Some(if record.state == ObjectState::Converged { record.since } else { world.now })
}

impl Configuration {
    /// Returns the changes of a workload's configuration since its creation that the Pods are not
    /// known to have read: the first and the last change of each object.
    fn changes(&mut self, world: &World, slot: Slot) -> Vec<Change> {
        let Some((consumer, record)) = self.consumers.get(&slot).zip(world.store.get(slot)) else {
            return Vec::new();
        };
        let settled = consumer.settled.max(record.created().unwrap_or_default());
        let (mut changes, mut unread) = (Vec::new(), BTreeMap::new());

        for (place, read) in consumer.reads.iter().enumerate() {
            let change = self.written(world, &record.namespace, read).and_then(LastWrite::change);
            let Some(last) = change.filter(|(at, _)| *at > settled) else { continue };
            let first = consumer.unread.get(&place).filter(|(at, _)| settled < *at && *at < last.0);

            for (at, certain) in first.into_iter().copied().chain([last]) {
                let name = format!("{} {}", kind(read), read.name);
                // If Pods read only some keys, these may not have changed.
                changes.push(Change { at, certain: certain && read.whole, name });
            }

            unread.insert(place, first.copied().unwrap_or(last));
        }

        if let Some(consumer) = self.consumers.get_mut(&slot) {
            consumer.unread = unread;
        }

        changes
    }
}

fn stale_detection(world: &World, stale: &Stale) -> Detection {
    let due = stale.since.after(world.settings.stale_after);
    let detection =
        Detection::new(world.now, FindingCode::StaleConfiguration, stale.since, due, || {
            Evidence::new()
                .with("configuration", Value::Names(stale.names.clone()))
                .with("changed_at", Value::Time(stale.since))
                .with("pods", Value::count(stale.pods))
                .with("oldest_pod", Value::Age(stale.oldest))
        });

    detection.suspected_if(!stale.certain).not_before(Some(stale.since))
}

impl Configuration {
    /// Returns a detection that is not due yet, if an earlier process had found the workload stale
    /// and it is not known yet when its configuration was written.
    fn awaited_stale(
        &self,
        world: &World,
        findings: &OpenFindings,
        slot: Slot,
    ) -> Option<Detection> {
        if !findings.has_restored() {
            return None;
        }

        let since =
            findings.restored_start(FindingCode::StaleConfiguration, &world.subject(slot))?;
        let namespace = world.store.get(slot)?.namespace.clone();
        let reads = &self.consumers.get(&slot)?.reads;
        let is_awaited = reads.iter().any(|read| self.is_awaited(world, &namespace, read));
        let due = world.now.after(ASK_AGAIN);

        is_awaited.then(|| {
            Detection::new(world.now, FindingCode::StaleConfiguration, since, due, Evidence::new)
        })
    }

    /// Records the result of a check of a workload's Pods, and when to check them again.
    fn pods_checked(
        &mut self,
        world: &World,
        slot: Slot,
        settled: Option<Timestamp>,
        stale: Option<Box<Stale>>,
        again: Option<Timestamp>,
    ) {
        let Some(consumer) = self.consumers.get_mut(&slot) else { return };
        (consumer.checked, consumer.stale) = (Some(world.now), stale);
        consumer.settled = consumer.settled.max(settled.unwrap_or(consumer.settled));
        self.check_at(slot, again);
        self.set_configurations_timer(world);
    }

    /// Forgets the last check of a workload's Pods, because nothing has changed since they started.
    fn forget_stale(&mut self, world: &World, slot: Slot) {
        let Some(consumer) = self.consumers.get_mut(&slot) else { return };
        consumer.stale = None;
        self.check_at(slot, None);
        self.set_configurations_timer(world);
    }

    fn check_pods_at(&mut self, world: &World, slot: Slot, at: Timestamp) {
        self.check_at(slot, Some(at));
        self.set_configurations_timer(world);
    }
}

/// Returns the Pods of a workload, as read at `not_before` or later.
fn pods_of(world: &mut World, slot: Slot, not_before: Timestamp) -> Pods {
    let Some(record) = world.store.get(slot) else { return Pods::Unknown };
    let (mut owner, mut uid) = (world.record_address(record), record.uid);
    if owner.kind == "Deployment" {
        let found = match world.brief_dependents(slot, &owner, uid, not_before) {
            None => return Pods::Awaited,
            Some(Existence::Dependents(found)) => found,
            Some(_) => return Pods::Unknown,
        };

        // At rest, only the ReplicaSet of the last rollout has Pods.
        let revision = |dependent: &&Dependent| {
            dependent.object.annotations.get(REVISION).and_then(|text| text.parse::<u64>().ok())
        };
        let sets = found
            .iter()
            .filter(|dependent| dependent.group == "apps" && dependent.kind == "ReplicaSet");
        let Some(last) = sets.max_by_key(revision) else { return Pods::Unknown };

        uid = store::uid_number(&last.object.uid);
        (owner.kind, owner.name) = (last.kind.clone(), last.object.key.name.clone());
    }

    match world.brief_dependents(slot, &owner, uid, not_before) {
        None => Pods::Awaited,
        Some(Existence::Dependents(found)) => {
            let pods: Vec<Pod> = found.iter().filter_map(Pod::read).collect();
            if pods.is_empty() { Pods::Unknown } else { Pods::Found(pods) }
        }
        Some(_) => Pods::Unknown,
    }
}

impl Configuration {
    /// Returns the number of stale workloads by kind. Those that are not visible do not count.
    pub(crate) fn stale_configurations(&self, world: &World) -> BTreeMap<u16, u64> {
        let mut kinds: BTreeMap<u16, u64> = BTreeMap::new();
        for (slot, consumer) in &self.consumers {
            let watch = world.store.get(*slot).map(|record| &world.watches[record.watch as usize]);
            if let Some(watch) =
                watch.filter(|watch| watch.blindness.blind.is_none() && consumer.stale.is_some())
            {
                *kinds.entry(watch.kind).or_default() += 1;
            }
        }

        kinds
    }
}

/// Returns a detection that is not due yet.
fn pending(now: Timestamp, since: Timestamp, due: Timestamp) -> Detection {
    Detection::new(now, FindingCode::StaleConfiguration, since, due, Evidence::new)
}
