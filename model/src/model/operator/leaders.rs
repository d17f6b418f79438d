//! The operator's leases: whether anybody leads, and how often the leader changes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::checkpoint::SeenLease;
use crate::finding::{Evidence, FindingCode, Value};
use crate::model::findings::detection::Detection;
use crate::model::operator::Operator;
use crate::model::operator::pod_history::has_ended;
use crate::model::operator::review::Verdicts;
use crate::model::traces::Traces;
use crate::model::world::World;
use crate::observation::{LeaseView, OperatorView, PodView};
use crate::time::{Span, Timestamp};
use crate::trace::OperatorChange;

/// The maximum number of the operator's leases. Operators have one, or one per controller.
const MAX_LEASES: usize = 50;

/// The maximum number of changes of the leader that are remembered per lease.
const MAX_CHANGES: usize = 32;

/// How long before or after the end of its container a leader may lose its lease: it exits when it
/// cannot renew the lease, and after a crash the lease must expire first.
const ENDS_WITHIN: Span = Span::mins(2);

/// The holders of the operator's leases.
#[derive(Debug, Default)]
pub(crate) struct Leaders {
    /// By the name of the lease, at most [`MAX_LEASES`].
    leases: BTreeMap<String, Leadership>,
    /// When a replica other than loopwatch's own Pod last led.
    elsewhere: Option<Timestamp>,
}

/// The holder of one lease, and those before it.
#[derive(Debug, Default)]
struct Leadership {
    holder: String,
    /// Its Pod.
    pod: String,
    /// Since when loopwatch has seen it hold the lease.
    since: Timestamp,
    /// Since when loopwatch has known the lease.
    known: Timestamp,
    /// How many Pods the operator should have had when it last renewed the lease.
    replicas: u32,
    /// The revision of its Pod, as far as it is known.
    revision: String,
    /// The UID of its Pod, as far as it is known.
    uid: String,
    /// When the leader changed without need, and the Pod that led before.
    changes: VecDeque<(Timestamp, String)>,
}

impl Leaders {
    /// Takes a version of a lease that a Pod of the operator holds.
    fn note(&mut self, now: Timestamp, lease: &LeaseView, pod: &str, view: &OperatorView) {
        if self.leases.len() >= MAX_LEASES && !self.leases.contains_key(&lease.name) {
            return;
        }

        let new = || Leadership { known: now, ..Leadership::default() };
        let known = self.leases.entry(lease.name.clone()).or_insert_with(new);
        if known.holder != lease.holder {
            let now_there = view.pods.iter().find(|seen| seen.name == pod);
            let hash =
                now_there.map(|pod| pod.revision.hash.clone()).filter(|hash| !hash.is_empty());
            let revision = hash.unwrap_or_else(|| template_hash(pod, &view.name).to_owned());

            if !known.holder.is_empty() && !known.is_replaced(&revision, view) {
                if known.changes.len() >= MAX_CHANGES {
                    known.changes.pop_front();
                }
                known.changes.push_back((now, known.pod.clone()));
            }

            (known.holder, known.revision) = (lease.holder.clone(), revision);
            (known.pod, known.since) = (pod.to_owned(), now);
        }

        if let Some(seen) = view.pods.iter().find(|seen| seen.name == pod) {
            known.uid.clone_from(&seen.uid);
            known.replicas = view.workload.as_ref().map_or(0, |workload| workload.replicas);
        }
    }

    /// Returns the changes of the leader that no rollout or end of a Pod explains: the lease, when,
    /// and the Pod that led before.
    pub(super) fn changes(&self) -> impl Iterator<Item = (&str, Timestamp, &str)> {
        self.leases.iter().flat_map(|(lease, known)| {
            known.changes.iter().map(|(at, before)| (lease.as_str(), *at, before.as_str()))
        })
    }

    /// Returns when a replica other than loopwatch's own Pod last led.
    pub(super) fn elsewhere(&self) -> Option<Timestamp> {
        self.elsewhere
    }

    pub(super) fn clock_stepped(&mut self, by_ms: i64) {
        for known in self.leases.values_mut() {
            known.since = known.since.shifted(by_ms);
            known.known = known.known.shifted(by_ms);
            known.changes.iter_mut().for_each(|(at, _)| *at = at.shifted(by_ms));
        }

        self.elsewhere = self.elsewhere.map(|at| at.shifted(by_ms));
    }
}

impl Leadership {
    /// Returns whether the leader had to go: its Pod is gone, terminates or has ended, or a rollout
    /// brings another revision.
    fn is_replaced(&self, revision: &str, view: &OperatorView) -> bool {
        let is_rollout =
            !revision.is_empty() && !self.revision.is_empty() && revision != self.revision;
        let stays =
            |uid: &str, name: &str| name == self.pod && (self.uid.is_empty() || uid == self.uid);
        let stays = view
            .pods
            .iter()
            .any(|seen| stays(&seen.uid, &seen.name) && seen.deleted.is_none() && !has_ended(seen));

        is_rollout || (view.complete && !stays)
    }
}

impl Operator {
    /// Notes the holder of a lease, if the operator holds it.
    pub(crate) fn note_leader(
        &mut self,
        world: &mut World,
        traces: &mut Traces,
        lease: &LeaseView,
    ) {
        let Some(view) = &self.view else { return };
        if lease.namespace != view.namespace {
            return;
        }

        if let Some(pod) = view.pod_of_holder(&lease.holder) {
            let known = self.leaders.leases.get(&lease.name);
            let changes = known.is_none_or(|known| known.holder != lease.holder);
            if known.is_some_and(|known| !known.holder.is_empty()) && changes {
                traces.operator_changed(world.now, OperatorChange::LeaderChanged);
            }

            self.leaders.note(world.now, lease, pod, view);
            world.agenda.operator |= changes;
        }
    }

    /// Notes when a replica other than loopwatch's own Pod last led. If loopwatch runs in no Pod of
    /// the operator, it sees all replicas, and there is nothing to note.
    pub(crate) fn note_other_leader(&mut self) {
        let Some(view) = &self.view else { return };
        let Some(own) = view.pods.iter().find(|pod| pod.own) else { return };
        let is_there = |pod: &str| {
            !view.complete || view.pods.iter().any(|seen| seen.name == pod && !has_ended(seen))
        };
        let is_other = |holder: &str| {
            view.pod_of_holder(holder).is_some_and(|pod| pod != own.name && is_there(pod))
        };

        let others = self
            .controllers
            .seen_in(&view.namespace)
            .filter(|(_, lease)| is_other(&lease.holder))
            .map(|(_, lease)| lease.alive)
            .max();
        self.leaders.elsewhere = self.leaders.elsewhere.max(others);
    }

    /// Returns the operator's lease, with its name. Of several leases, returns the one that was
    /// renewed last. Returns `None` if there is none, or if loopwatch cannot see the leases.
    pub(super) fn operator_lease(&self) -> Option<(&str, &SeenLease)> {
        self.operator_leases()
            .max_by_key(|(_, lease, _)| lease.alive)
            .map(|(name, lease, _)| (name, lease))
    }

    /// Returns the leases that a Pod of the operator holds or held last, each with its name and
    /// this Pod; none while loopwatch cannot see the leases.
    pub(super) fn operator_leases(&self) -> impl Iterator<Item = (&str, &SeenLease, &str)> {
        self.view.iter().flat_map(|view| {
            let leases = self.controllers.seen_in(&view.namespace);
            leases
                .filter_map(|(name, lease)| Some((name, lease, view.pod_of_holder(&lease.holder)?)))
        })
    }

    /// Returns when each of the operator's leases was last renewed.
    pub(crate) fn leases_alive(&self) -> impl Iterator<Item = Timestamp> {
        self.operator_leases().map(|(_, lease, _)| lease.alive)
    }

    /// Returns the Pods that hold one of the operator's leases, if they have renewed it within
    /// `lately`.
    pub(super) fn operator_leaders(
        &self,
        world: &World,
        lately: Span,
    ) -> impl Iterator<Item = &str> {
        self.operator_leases()
            .filter(move |(_, lease, _)| world.now.since(lease.alive) < lately)
            .map(|(_, _, pod)| pod)
    }

    /// Returns the UID of the Pod that last held a lease, as far as it is known.
    pub(super) fn holder_uid(&self, lease: &str) -> &str {
        self.leaders.leases.get(lease).map_or("", |known| known.uid.as_str())
    }

    /// Returns since when loopwatch has seen this holder of a lease.
    pub(super) fn held_since(&self, lease: &str, holder: &str) -> Option<Timestamp> {
        let known = self.leaders.leases.get(lease).filter(|known| known.holder == holder);
        known.map(|known| known.since)
    }

    /// Returns whether the Pods that run now need a lease whose last holder is gone: they are of its
    /// revision, there are at least as many of them, and they have not begun to use other leases
    /// since it last renewed this one, at `alive`. A lease of one Pod bears its name.
    pub(super) fn needs_lease(&self, view: &OperatorView, lease: &str, alive: Timestamp) -> bool {
        let Some(known) = self.leaders.leases.get(lease) else { return false };
        let is_current = |pod: &PodView| {
            pod.deleted.is_none() && !has_ended(pod) && pod.revision.hash == known.revision
        };
        let replicas = view.workload.as_ref().map_or(0, |workload| workload.replicas);
        let is_of_pod = lease.contains(&known.pod);
        let uses_others = self.leaders.leases.values().any(|other| other.known > alive);

        !known.revision.is_empty()
            && view.pods.iter().any(is_current)
            && replicas >= known.replicas
            && !is_of_pod
            && !uses_others
    }

    /// Detects that nobody leads although Pods run, or that the leader changes again and again.
    pub(super) fn leader_verdicts(&self, world: &World, verdicts: &mut Verdicts) {
        self.leader_absence(world, verdicts);

        let window = world.settings.leader_window;
        let from = world.now.before(window);
        let Some(view) = &self.view else { return };
        let flaps = self.leaders.leases.iter().filter_map(|(name, known)| {
            let recent: Vec<&(Timestamp, String)> =
                known.changes.iter().filter(|(at, _)| *at > from).collect();
            let (first, _) = recent.first()?;
            Some((recent.len(), *first, name, known, recent))
        });

        let Some((changes, first, name, known, recent)) =
            flaps.max_by_key(|(changes, ..)| *changes)
        else {
            return;
        };

        verdicts.look_again(Some(first.after(window)));
        let needed = self.threshold(FindingCode::LeaderFlapping, world.settings.leader_transitions);
        if changes < needed as usize {
            return;
        }

        // Unless loopwatch sees all Pods, each change may be due to the end of a Pod. A Pod that
        // leads again had not ended.
        let led: BTreeSet<&str> =
            recent.iter().map(|(_, pod)| pod.as_str()).chain([known.pod.as_str()]).collect();
        let returned = led.len() <= changes;
        let detection =
            Detection::new(world.now, FindingCode::LeaderFlapping, first, world.now, || {
                Evidence::new()
                    .text("lease", name)
                    .text("holder", known.holder.clone())
                    .with("transitions", Value::Count(changes as i64))
                    .with("window", Value::Span(window))
            });

        let detection = detection.suspected_if(!view.complete && !returned);
        let by_itself = recent.iter().filter(|(at, pod)| !self.ended_around(*at, pod)).count();
        let is_by_restarts = by_itself < world.settings.leader_transitions as usize;
        let cause = is_by_restarts.then(|| self.operator_subject());
        verdicts.push(self.operator_subject(), detection.blocked_by(cause));
    }

    /// Returns whether the operator's container in a Pod ended around an instant, so that another
    /// one had to take its leases.
    fn ended_around(&self, at: Timestamp, pod: &str) -> bool {
        let pods = self.view.iter().flat_map(|view| &view.pods);
        let histories = pods.filter(|seen| seen.name == pod);
        let mut ends = histories
            .filter_map(|seen| self.pods.history(&seen.uid))
            .flat_map(|history| history.ends().filter_map(|end| end.finished));
        ends.any(|end| end <= at.after(ENDS_WITHIN) && at <= end.after(ENDS_WITHIN))
    }
}

/// Returns the hash of the template in the name of a Deployment's Pod; empty if it has none.
fn template_hash<'a>(pod: &'a str, workload: &str) -> &'a str {
    let rest =
        pod.strip_prefix(workload).and_then(|rest| rest.strip_prefix('-')).unwrap_or_default();
    rest.split_once('-').map_or("", |(hash, _)| hash)
}
