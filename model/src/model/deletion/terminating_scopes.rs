//! Namespaces and custom resource definitions that are being deleted, and the objects in them that
//! block that.
//!
//! Only watched objects count: the loopwatch of every operator sees the namespace, but only the one
//! whose objects block it reports that.

use std::collections::BTreeMap;

use crate::finding::{Evidence, FindingCode, Subject, Value};
use crate::model::deletion::{absence, stuck};
use crate::model::findings::detection::Detection;
use crate::model::findings::open_findings::OpenFindings;
use crate::model::operator::Operator;
use crate::model::world::limits::{Limit, MAX_TERMINATING_SCOPES};
use crate::model::world::sight::Sight;
use crate::model::world::store::Slot;
use crate::model::world::timers::Timer;
use crate::model::world::{World, finalizer_actors, subjects};
use crate::observation::{Condition, ConditionStatus, DefinitionView, NamespaceView, SourceId};
use crate::time::{Span, Timestamp};

/// The namespaces and definitions that are being deleted.
#[derive(Debug, Default)]
pub(crate) struct TerminatingScopes {
    /// At most [`MAX_TERMINATING_SCOPES`].
    deleted: BTreeMap<TerminatingScope, ScopeDeletion>,
    /// When the timer of all is due.
    due: Option<Timestamp>,
}

/// A namespace or a definition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TerminatingScope {
    Namespace(String),
    /// By name; its objects are those of a group and a resource.
    Definition(String),
}

/// The deletion of a namespace or a definition.
#[derive(Debug)]
struct ScopeDeletion {
    since: Timestamp,
    conditions: Vec<Condition>,
    /// The number of watched objects at the last review.
    objects: u64,
    /// When that number last became smaller.
    last_progress: Option<Timestamp>,
}

/// The time between the deletion of an object and the review of its namespace and definition.
const REVIEW_AFTER: Span = Span::secs(1);

/// The maximum number of conditions in the evidence.
const MAX_CONDITIONS: usize = 4;

impl TerminatingScopes {
    /// Returns whether any definition is being deleted.
    pub(crate) fn has_definitions(&self) -> bool {
        self.deleted.keys().any(|container| matches!(container, TerminatingScope::Definition(_)))
    }

    /// Moves all instants of loopwatch's own clock by `by_ms` milliseconds. The API server wrote
    /// when the deletions began.
    pub(crate) fn clock_stepped(&mut self, by_ms: i64) {
        let progress =
            self.deleted.values_mut().filter_map(|deletion| deletion.last_progress.as_mut());
        progress.chain(&mut self.due).for_each(|at| *at = at.shifted(by_ms));
    }
}

impl TerminatingScope {
    fn code(&self) -> FindingCode {
        match self {
            Self::Namespace(_) => FindingCode::NamespaceStuck,
            Self::Definition(_) => FindingCode::DefinitionStuck,
        }
    }

    fn subject(&self) -> Subject {
        match self {
            Self::Namespace(name) => subjects::namespace(name),
            Self::Definition(name) => Subject::Definition { name: name.clone() },
        }
    }
}

impl TerminatingScopes {
    /// Handles a version of a namespace.
    pub(crate) fn note_namespace(
        &mut self,
        world: &mut World,
        findings: &mut OpenFindings,
        operator: &Operator,
        view: &NamespaceView,
    ) {
        self.note_container(
            world,
            findings,
            operator,
            TerminatingScope::Namespace(view.name.clone()),
            view.deleted,
            &view.conditions,
        );
    }

    /// Handles a version of a definition.
    pub(crate) fn note_definition(
        &mut self,
        world: &mut World,
        findings: &mut OpenFindings,
        operator: &Operator,
        view: &DefinitionView,
    ) {
        self.note_container(
            world,
            findings,
            operator,
            TerminatingScope::Definition(view.name.clone()),
            view.deleted,
            &view.conditions,
        );
    }

    /// Handles the list of all namespaces that the source reports, or of all definitions: others
    /// are not being deleted.
    pub(crate) fn retain_containers(
        &mut self,
        world: &mut World,
        findings: &mut OpenFindings,
        mut keep: impl FnMut(&TerminatingScope) -> bool,
    ) {
        let gone: Vec<TerminatingScope> =
            self.deleted.keys().filter(|key| !keep(key)).cloned().collect();
        gone.iter().for_each(|container| self.forget_container(world, findings, container));
    }

    /// Handles that a namespace or a definition is gone, or is not being deleted.
    pub(crate) fn forget_container(
        &mut self,
        world: &mut World,
        findings: &mut OpenFindings,
        container: &TerminatingScope,
    ) {
        if self.deleted.remove(container).is_some() {
            if let TerminatingScope::Namespace(name) = container {
                world.namespaces.terminating.remove(name);
            }

            findings.clear(world.now, container.code(), &container.subject());
        }
    }

    /// Reviews the namespaces and definitions that are being deleted.
    pub(crate) fn review_containers(
        &mut self,
        world: &mut World,
        findings: &mut OpenFindings,
        operator: &Operator,
    ) {
        let containers: Vec<TerminatingScope> = self.deleted.keys().cloned().collect();
        let due = containers
            .iter()
            .filter_map(|container| self.review_container(world, findings, operator, container))
            .min();
        let old = std::mem::replace(&mut self.due, due);
        world.agenda.timers.set(Timer::TerminatingScopes, old, due);
    }

    /// Notes that an object is gone that may have blocked a namespace or a definition. Many may go
    /// at once, so the review waits a moment.
    pub(crate) fn containers_changed(&mut self, world: &mut World) {
        self.review_containers_by(world, world.now.after(REVIEW_AFTER));
    }

    /// Handles the timer.
    pub(crate) fn containers_due(
        &mut self,
        world: &mut World,
        findings: &mut OpenFindings,
        operator: &Operator,
    ) {
        self.due = None;
        self.review_containers(world, findings, operator);
    }

    fn review_containers_by(&mut self, world: &mut World, at: Timestamp) {
        if self.due.is_none_or(|due| due > at) {
            let old = self.due.replace(at);
            world.agenda.timers.set(Timer::TerminatingScopes, old, Some(at));
        }
    }

    fn note_container(
        &mut self,
        world: &mut World,
        findings: &mut OpenFindings,
        operator: &Operator,
        container: TerminatingScope,
        deleted: Option<Timestamp>,
        conditions: &[Condition],
    ) {
        let Some(since) = deleted else {
            return self.forget_container(world, findings, &container);
        };
        let known = &mut self.deleted;
        if known.len() >= MAX_TERMINATING_SCOPES && !known.contains_key(&container) {
            return world.count_dropped(Limit::TerminatingScopes);
        }

        let conditions = conditions
            .iter()
            .filter(|c| c.status == ConditionStatus::True)
            .take(MAX_CONDITIONS)
            .cloned();
        let new =
            ScopeDeletion { since, conditions: Vec::new(), objects: u64::MAX, last_progress: None };

        // It may have been created and deleted again while nobody looked.
        if known.get(&container).is_some_and(|deletion| deletion.since != since) {
            known.remove(&container);
        }

        let is_new = !known.contains_key(&container);
        known.entry(container.clone()).or_insert(new).conditions = conditions.collect();
        if is_new && let TerminatingScope::Namespace(name) = &container {
            world.namespaces.terminating.insert(name.clone());
            review_objects_in(world, name);
        }

        if let Some(due) = self.review_container(world, findings, operator, &container) {
            self.review_containers_by(world, due);
        }
    }
}

/// Judges the objects of a namespace again, because it is being deleted. The API server deletes
/// its Pods first, and everything else once the last Pod is gone: until then, the objects are
/// live, but their operator cannot create what they lack.
fn review_objects_in(world: &mut World, namespace: &str) {
    let inside = world
        .store
        .iter()
        .filter(|(_, record)| record.hot.is_some() && *record.namespace == *namespace);

    world.agenda.objects.extend(inside.map(|(slot, _)| slot));
}

impl TerminatingScopes {
    /// Opens or closes the finding about a container. Returns when to review it again.
    fn review_container(
        &mut self,
        world: &mut World,
        findings: &mut OpenFindings,
        operator: &Operator,
        container: &TerminatingScope,
    ) -> Option<Timestamp> {
        let now = world.now;
        let watches = watches_within(world, container);
        let sights: Vec<Sight> =
            watches.iter().map(|(watch, _)| world.watches[*watch as usize].sight(now)).collect();
        let after = world.settings.finalizer_stuck_after;

        if sights.contains(&Sight::Lost) || !sees(world, container) {
            return Some(now.after(after)); // nothing opens or closes meanwhile
        }

        let objects: u64 = watches.iter().map(|(_, objects)| objects).sum();
        let deletion = self.deleted.get_mut(container)?;
        if objects < std::mem::replace(&mut deletion.objects, objects)
            && deletion.last_progress.is_some()
        {
            deletion.last_progress = Some(now);
        }

        let progress = *deletion.last_progress.get_or_insert(deletion.since);
        let (since, conditions) = (deletion.since, deletion.conditions.clone());
        let (code, subject) = (container.code(), container.subject());
        let mut due = since.after(after).max(progress.after(Span(after.0 / 2)));
        let may_wait =
            matches!(container, TerminatingScope::Namespace(_)) && waits_for_pods(&conditions);
        let is_blocked = |slot: &Slot| !may_wait || world.terminating(*slot).is_some();
        let blocker = if due <= now {
            blocker_in(world, container, &watches).filter(is_blocked)
        } else {
            None
        };

        if due <= now && blocker.is_none() {
            findings.clear(now, code, &subject);
            return (objects > 0).then(|| now.after(after));
        }

        // The finding about the blocker explains this one, so this one does not open before it.
        let terminating = blocker.and_then(|slot| world.terminating(slot));
        due = due.max(terminating.map_or(due, |(record, deletion)| {
            absence::blocks_at(world, operator, record, deletion)
        }));
        if !findings.is_open(code, &subject) {
            let grace =
                |sight: &Sight| if let Sight::Grace(until) = sight { Some(*until) } else { None };
            due = due.max(sights.iter().filter_map(grace).max().unwrap_or(due));
        }

        let Some(blocker) = blocker.filter(|_| due <= now) else {
            findings.clear(now, code, &subject);
            return Some(due);
        };

        stuck::review_blocker(world, blocker);
        let detection = container_stuck(world, container, blocker, objects, since, &conditions);
        findings.report(world, subject, detection);
        Some(now.after(after))
    }
}

fn container_stuck(
    world: &World,
    container: &TerminatingScope,
    blocker: Slot,
    objects: u64,
    since: Timestamp,
    conditions: &[Condition],
) -> Detection {
    let now = world.now;
    let evidence = || {
        let finalizers = world.finalizers_of(blocker).iter().map(ToString::to_string).collect();
        let hot = world.store.get(blocker).and_then(|record| record.hot.as_ref());
        let actors =
            hot.and_then(|hot| hot.deletion.as_ref()).map(|deletion| deletion.actor_texts());
        let conditions = conditions.iter().map(|c| match c.reason.as_str() {
            "" => c.r#type.clone(),
            reason => format!("{} ({reason})", c.r#type),
        });

        Evidence::new()
            .text("blocker", world.subject(blocker).to_string())
            .with("blocker_finalizers", Value::Names(finalizers))
            .with("actor", Value::Names(actors.unwrap_or_default()))
            .with("objects", Value::count(objects))
            .with("conditions", Value::Names(conditions.collect()))
            .with("terminating_for", Value::Age(since))
    };

    let suspected =
        world.store.get(blocker).is_some_and(|record| world.kind_of(record.watch).suspected);
    Detection::new(now, container.code(), since, now, evidence)
        .suspected_if(suspected)
        .blocked_by(Some(world.subject(blocker)))
}

/// Returns whether the source of a container works.
fn sees(world: &World, container: &TerminatingScope) -> bool {
    match container {
        TerminatingScope::Namespace(_) => world.sources.is_up(&SourceId::Namespaces),
        TerminatingScope::Definition(_) => true,
    }
}

/// Returns the active watches with objects in a container, and their number.
fn watches_within(world: &World, container: &TerminatingScope) -> Vec<(u16, u64)> {
    let mut found = Vec::new();
    for (number, watch) in world.watches.iter().enumerate().filter(|(_, watch)| watch.active) {
        let objects = match container {
            TerminatingScope::Namespace(name) => {
                let position = watch.namespace_index.get(name.as_str());
                let namespace =
                    position.and_then(|position| watch.namespaces.get(*position as usize));
                namespace.map_or(0, |namespace| namespace.totals.states.iter().sum())
            }
            TerminatingScope::Definition(name) => {
                let kind = &world.kinds[watch.kind as usize];
                let is_of = name
                    .split_once('.')
                    .is_some_and(|(r, g)| r == kind.resource && *g == *kind.group);
                if is_of { watch.totals.objects } else { 0 }
            }
        };
        if objects > 0 {
            found.push((u16::try_from(number).unwrap_or(u16::MAX), objects));
        }
    }

    found
}

/// Returns the object that has waited longest for a finalizer, or else one that has any.
fn blocker_in(world: &World, container: &TerminatingScope, watches: &[(u16, u64)]) -> Option<Slot> {
    let is_in = |slot: &Slot| {
        world.store.get(*slot).is_some_and(|record| {
            let is_here = match container {
                TerminatingScope::Namespace(name) => *record.namespace == **name,
                TerminatingScope::Definition(_) => true,
            };

            is_here && watches.iter().any(|(watch, _)| *watch == record.watch)
        })
    };

    let mut kinds: Vec<u16> =
        watches.iter().map(|(watch, _)| world.watches[*watch as usize].kind).collect();
    kinds.sort_unstable();
    kinds.dedup();

    let waits = kinds.iter().flat_map(|kind| &world.kinds[*kind as usize].finalizers);
    let oldest = waits.filter_map(|(finalizer, waits)| {
        let (since, slot) = waits.waiting.iter().find(|(_, slot)| is_in(slot))?;
        Some((finalizer_actors::is_of_garbage_collector(finalizer), *since, *slot))
    });
    let any = || {
        let slots = world.store.iter().map(|(slot, _)| slot);
        slots.filter(|slot| is_in(slot)).find(|slot| !world.finalizers_of(*slot).is_empty())
    };

    oldest.min().map(|(.., slot)| slot).or_else(any)
}

/// Returns whether a namespace only waits for content to go that has no finalizers, as far as its
/// conditions say. The API server deletes Pods before everything else, so an object that is not
/// being deleted yet blocks nothing.
fn waits_for_pods(conditions: &[Condition]) -> bool {
    conditions.iter().all(|condition| condition.r#type == "NamespaceContentRemaining")
}
