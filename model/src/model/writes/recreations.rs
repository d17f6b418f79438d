//! Children that disappear and come back again and again: the operator creates one, somebody deletes
//! it, and the operator creates it once more. Often the garbage collector deletes it, because its owner
//! does not exist where the reference says.
//!
//! The child is absent half of the time, so its finding does not belong to a record: this part opens
//! and closes it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::finding::{Evidence, FindingCode, FindingId, Subject, Value};
use crate::model::findings::detection::{Detection, events_needed};
use crate::model::findings::open_findings::OpenFindings;
use crate::model::findings::tuning;
use crate::model::part::{Part, StepContext, Version};
use crate::model::status::reading::Verdict;
use crate::model::world::World;
use crate::model::world::crowd::{self, Crowd};
use crate::model::world::field_managers;
use crate::model::world::limits::{Limit, MAX_RECREATED};
use crate::model::world::store::{Record, Slot, uid_number};
use crate::model::writes::seen::push;
use crate::observation::ObjectView;
use crate::settings::bounds::KEPT_RETURNS;
use crate::time::{Span, Timestamp};

/// A child that lives longer than this has done some work.
const SHORT_LIFE: Span = Span::mins(2);

/// The longest pause between the deletion of a child and its return that shows one cause for both.
const RETURNS_WITHIN: Span = Span::mins(1);

/// How often the part looks for what is over.
const REVIEW: Span = Span::secs(10);

/// Kinds whose objects end on purpose, and may come again under the same name.
const ENDING: [&str; 2] = ["Job", "Pod"];

/// The children that have been deleted lately.
#[derive(Debug, Default)]
pub(crate) struct Recreations {
    /// By the ID of their finding; at most [`MAX_RECREATED`].
    children: BTreeMap<FindingId, Recreated>,
    by_namespace: Crowd<Arc<str>, FindingId>,
    /// The child that has just come back, until its annotations are known.
    returned: Option<(Slot, FindingId)>,
    /// When to look next; `None` if there is nothing.
    review: Option<Timestamp>,
}

/// One child.
#[derive(Debug)]
struct Recreated {
    namespace: Arc<str>,
    subject: Subject,
    owner: u128,
    /// Fingerprint of the spec with which it was last created; `None` before its first return.
    spec: Option<u64>,
    died: Timestamp,
    lived: Span,
    /// When it came back, the earliest first.
    returns: VecDeque<Timestamp>,
    /// Who created it, if its managed fields tell.
    manager: Option<Arc<str>>,
    is_open: bool,
}

impl Part for Recreations {
    /// A child that has just been created may be one that was deleted before.
    fn seen(&mut self, step: &mut StepContext<'_>, version: &Version<'_>) {
        let Version { slot, view, .. } = *version;
        let world = &mut *step.world;
        let is_new = world.store.get(slot).is_some_and(|record| record.version == 0);
        if self.children.is_empty() || !is_new || !version.is_live || version.becomes_visible {
            return;
        }

        let id = FindingId::of(FindingCode::RecreateLoop, &world.subject(slot));
        let Some(child) = self.children.get_mut(&id) else { return };
        if child.is_continued_by(world.now, view) {
            child.comes_back(world.now, view);
            self.returned = Some((slot, id));
        } else {
            self.forget(step.world, step.findings, id);
        }
    }

    fn removed(&mut self, step: &mut StepContext<'_>, slot: Slot, deleted: bool) {
        let world = &mut *step.world;
        let Some(record) = world.store.get(slot).filter(|_| deleted) else { return };
        let Some(lived) = short_life(world, record) else { return };
        let Some(owner) = record.owners().first().map(|owner| owner.uid()) else { return };

        let subject = world.subject(slot);
        let id = FindingId::of(FindingCode::RecreateLoop, &subject);
        let namespace = record.namespace.clone();
        if let Some(child) = self.children.get_mut(&id) {
            (child.died, child.lived, child.owner) = (world.now, lived, owner);
            return;
        }

        self.forget_oldest(world, step.findings);
        if !self.make_room(world, step.findings, &namespace) {
            return;
        }
        self.by_namespace.insert(&namespace, id, 1);
        self.children.insert(id, Recreated::new(namespace, subject, owner, (world.now, lived)));
        self.review = self.review.or(Some(world.now.after(REVIEW)));
    }

    fn detections(&mut self, step: &mut StepContext<'_>, slot: Slot) -> Vec<Detection> {
        if let Some((_, id)) = self.returned.take_if(|(returned, _)| *returned == slot) {
            self.report(step.world, step.findings, id, Some(slot));
        }
        Vec::new()
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.review
    }

    /// Closes the findings of loops that have ended, and forgets children that did not come back.
    fn due(&mut self, step: &mut StepContext<'_>) {
        let now = step.world.now;
        let window = step.world.settings.recreate_window;
        for id in self.children.keys().copied().collect::<Vec<_>>() {
            let Some(child) = self.children.get_mut(&id) else { continue };
            child.returns.retain(|at| *at > now.before(window));

            if child.returns.is_empty() && now.since(child.died) >= RETURNS_WITHIN {
                self.forget(step.world, step.findings, id);
            } else {
                self.report(step.world, step.findings, id, None);
            }
        }

        self.review = (!self.children.is_empty()).then(|| now.after(REVIEW));
    }

    fn clock_stepped(&mut self, by_ms: i64) {
        self.review = self.review.map(|at| at.shifted(by_ms));
        for child in self.children.values_mut() {
            child.died = child.died.shifted(by_ms);
            child.returns.iter_mut().for_each(|at| *at = at.shifted(by_ms));
        }
    }
}

impl Recreations {
    /// Opens, renews or closes the finding about a child, which has this slot if it exists.
    fn report(
        &mut self,
        world: &mut World,
        findings: &mut OpenFindings,
        id: FindingId,
        slot: Option<Slot>,
    ) {
        let needed = world.settings.recreations;
        let Some(child) = self.children.get_mut(&id) else { return };
        let is_silenced = slot.is_some_and(|slot| {
            tuning::is_silenced(world, slot, FindingCode::RecreateLoop, &child.subject)
        });
        let is_enough = child.returns.len() >= events_needed(child.is_open, needed) as usize;

        if is_enough && !is_silenced && (child.is_open || slot.is_some()) {
            child.is_open = true;
            let (subject, detection) = (child.subject.clone(), child.detection(world.now));
            findings.report(world, subject, detection);
        } else if child.is_open {
            child.is_open = false;
            findings.clear(world.now, FindingCode::RecreateLoop, &child.subject);
        }
    }

    fn forget(&mut self, world: &World, findings: &mut OpenFindings, id: FindingId) {
        let Some(child) = self.children.remove(&id) else { return };
        self.by_namespace.remove(&child.namespace, &id);
        if child.is_open {
            findings.clear(world.now, FindingCode::RecreateLoop, &child.subject);
        }
    }

    /// Makes room by the child that has been absent for the longest time, among those that have never
    /// come back. Many children die at once when their owner is deleted, so nothing is lost that counts
    /// as an overflow.
    fn forget_oldest(&mut self, world: &World, findings: &mut OpenFindings) {
        if self.children.len() < MAX_RECREATED {
            return;
        }

        let absent = self.children.iter().filter(|(_, child)| child.returns.is_empty());
        if let Some(id) = absent.min_by_key(|(_, child)| child.died).map(|(id, _)| *id) {
            self.forget(world, findings, id);
        }
    }

    fn make_room(
        &mut self,
        world: &mut World,
        findings: &mut OpenFindings,
        namespace: &Arc<str>,
    ) -> bool {
        let has_room = |known: &Self| known.children.len() < MAX_RECREATED;
        let leaves = |known: &Self| known.by_namespace.leaves_for(namespace, 1).copied();
        let forget = |known: &mut Self, world: &mut World, other| {
            known.forget(world, findings, other);
        };
        crowd::make_room(self, world, Limit::Recreated, has_room, leaves, forget)
    }
}

impl Recreated {
    fn new(
        namespace: Arc<str>,
        subject: Subject,
        owner: u128,
        (died, lived): (Timestamp, Span),
    ) -> Self {
        let returns = VecDeque::new();
        Self {
            namespace,
            subject,
            owner,
            spec: None,
            died,
            lived,
            returns,
            manager: None,
            is_open: false,
        }
    }

    /// Whether a new object is the deleted child once more: soon after its end, with the same spec and
    /// owner, and not created by a person or a tool.
    fn is_continued_by(&self, now: Timestamp, view: &ObjectView) -> bool {
        let is_of_client = !view.managers.is_empty()
            && view.managers.iter().all(|manager| field_managers::is_client(&manager.name));

        now.since(self.died) <= RETURNS_WITHIN
            && self.spec.is_none_or(|spec| spec == view.hashes.spec)
            && view.owners.iter().any(|owner| uid_number(&owner.uid) == self.owner)
            && !is_of_client
    }

    fn comes_back(&mut self, now: Timestamp, view: &ObjectView) {
        let creator = view.managers.iter().min_by_key(|manager| manager.time);
        self.spec = Some(view.hashes.spec);
        self.manager = creator.map(|manager| manager.name.as_str().into());

        push(&mut self.returns, now, KEPT_RETURNS);
    }

    fn detection(&self, now: Timestamp) -> Detection {
        let since = self.returns.front().copied().unwrap_or(now);
        let evidence = || {
            Evidence::new()
                .text("manager", self.manager.as_deref().unwrap_or("unknown"))
                .with("times", Value::count(self.returns.len() as u64))
                .with("lived", Value::Elapsed(self.lived))
        };
        Detection::new(now, FindingCode::RecreateLoop, since, now, evidence)
    }
}

/// Returns how long a child has lived, if that was short and it did not end by itself.
fn short_life(world: &World, record: &Record) -> Option<Span> {
    let kind = world.kind_of(record.watch);
    let lived = world.now.since(record.created()?);
    let has_ended = record.verdict == Verdict::Finished || ENDING.contains(&&*kind.kind);
    (!has_ended && lived < SHORT_LIFE).then_some(lived)
}
