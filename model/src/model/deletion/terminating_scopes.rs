//! Terminating scopes: namespaces and custom resource definitions that are being deleted, and the
//! objects in them that block the deletion.
//!
//! Only watched objects count: every loopwatch in the cluster sees the namespace, but only the one
//! that watches a blocking object reports it.

use std::collections::BTreeMap;

use crate::finding::{Evidence, FindingCode, Subject, Value};
use crate::model::deletion::{absence, stuck};
use crate::model::findings::detection::Detection;
use crate::model::findings::open_findings::OpenFindings;
use crate::model::part::{Part, StepContext};
use crate::model::world::kinds::WatchNamespace;
use crate::model::world::limits::{Limit, MAX_TERMINATING_SCOPES};
use crate::model::world::store::Slot;
use crate::model::world::visibility::Visibility;
use crate::model::world::{World, finalizer_actors, subjects};
use crate::observation::{
    Condition, ConditionStatus, DefinitionView, LeftOut, NamespaceView, SourceId,
};
use crate::time::{Span, Timestamp};

/// The namespaces and definitions that are being deleted.
#[derive(Debug, Default)]
pub(crate) struct TerminatingScopes {
    /// At most [`MAX_TERMINATING_SCOPES`].
    deleted: BTreeMap<TerminatingScope, ScopeDeletion>,
    /// When to review all of them.
    due: Option<Timestamp>,
}

/// A namespace or a definition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TerminatingScope {
    Namespace(String),
    /// The name, `RESOURCE.GROUP`, determines which objects belong to it.
    Definition(String),
}

/// The deletion of a namespace or a definition.
#[derive(Debug)]
struct ScopeDeletion {
    since: Timestamp,
    conditions: Vec<Condition>,
    /// The number of watched objects at the last review.
    objects: u64,
    /// When that number last decreased.
    last_progress: Option<Timestamp>,
    /// Whether, at the last review, it had lasted too long although no watched object blocked it.
    hangs_unseen: bool,
}

/// The time between the deletion of an object and the review of its namespace and definition.
const REVIEW_AFTER: Span = Span::secs(1);

/// Conditions of definitions that are true as long as the definition exists.
const NO_CAUSES: [&str; 2] = ["NamesAccepted", "Established"];

/// The maximum number of conditions in the evidence.
const MAX_CONDITIONS: usize = 4;

impl Part for TerminatingScopes {
    /// The object may have blocked a scope. Many objects may disappear at once, so the review waits
    /// a moment.
    fn removed(&mut self, step: &mut StepContext<'_>, slot: Slot, _deleted: bool) {
        let Some(record) = step.world.store.get(slot) else { return };
        if step.world.namespaces.is_terminating(&record.namespace) || self.has_definitions() {
            let soon = step.world.now.after(REVIEW_AFTER);
            self.due = self.due.into_iter().chain([soon]).min();
        }
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.due
    }

    fn due(&mut self, step: &mut StepContext<'_>) {
        self.review_scopes(step);
    }

    fn retune(&mut self, step: &mut StepContext<'_>) {
        self.review_scopes(step);
    }

    /// Leaves the starts of the deletions as they are: the API server's clock set them.
    fn clock_stepped(&mut self, by_ms: i64) {
        let progress =
            self.deleted.values_mut().filter_map(|deletion| deletion.last_progress.as_mut());
        progress.chain(&mut self.due).for_each(|at| *at = at.shifted(by_ms));
    }
}

impl TerminatingScopes {
    fn has_definitions(&self) -> bool {
        self.deleted.keys().any(|scope| matches!(scope, TerminatingScope::Definition(_)))
    }
}

impl ScopeDeletion {
    fn in_words(&self, now: Timestamp) -> String {
        let said = match in_words(&self.conditions).join(", ") {
            causes if causes.is_empty() => "no condition says why".to_owned(),
            causes => format!("its conditions say {causes}"),
        };
        format!(
            "loopwatch watches no object that blocks it; it has lasted {}, and {said}",
            now.since(self.since)
        )
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
    pub(crate) fn note_namespace(&mut self, step: &mut StepContext<'_>, view: &NamespaceView) {
        self.note_scope(
            step,
            TerminatingScope::Namespace(view.name.clone()),
            view.deleted,
            &view.conditions,
        );
    }

    /// Handles a version of a definition.
    pub(crate) fn note_definition(&mut self, step: &mut StepContext<'_>, view: &DefinitionView) {
        self.note_scope(
            step,
            TerminatingScope::Definition(view.name.clone()),
            view.deleted,
            &view.conditions,
        );
    }

    /// Returns the deletions that last too long although no watched object blocks them: loopwatch cannot
    /// see why.
    pub(crate) fn unseen_blockers(&self, world: &World, findings: &OpenFindings) -> Vec<LeftOut> {
        let lasting = self.deleted.iter().filter(|(scope, deletion)| {
            sees(world, scope)
                && deletion.hangs_unseen
                && !findings.is_open(scope.code(), &scope.subject())
        });

        let left_out = |(scope, deletion): (&TerminatingScope, &ScopeDeletion)| LeftOut {
            what: format!("the cause for which the deletion of {} hangs", scope.subject()),
            why: deletion.in_words(world.now),
        };
        lasting.map(left_out).collect()
    }

    /// Handles the full list of namespaces, or of definitions: forgets all scopes that are not in
    /// it.
    pub(crate) fn retain_scopes(
        &mut self,
        world: &mut World,
        findings: &mut OpenFindings,
        mut keep: impl FnMut(&TerminatingScope) -> bool,
    ) {
        let gone: Vec<TerminatingScope> =
            self.deleted.keys().filter(|key| !keep(key)).cloned().collect();
        gone.iter().for_each(|scope| self.forget_scope(world, findings, scope));
    }

    /// Forgets a namespace or a definition that is gone or is not being deleted.
    pub(crate) fn forget_scope(
        &mut self,
        world: &mut World,
        findings: &mut OpenFindings,
        scope: &TerminatingScope,
    ) {
        if self.deleted.remove(scope).is_some() {
            if let TerminatingScope::Namespace(name) = scope {
                world.namespaces.set_terminating(name, false, world.now);
            }

            findings.clear(world.now, scope.code(), &scope.subject());
        }
    }

    /// Reviews the namespaces and definitions that are being deleted.
    fn review_scopes(&mut self, step: &mut StepContext<'_>) {
        let scopes: Vec<TerminatingScope> = self.deleted.keys().cloned().collect();
        self.due = scopes.iter().filter_map(|scope| self.review_scope(step, scope)).min();
    }

    fn note_scope(
        &mut self,
        step: &mut StepContext<'_>,
        scope: TerminatingScope,
        deleted: Option<Timestamp>,
        conditions: &[Condition],
    ) {
        let Some(since) = deleted else {
            return self.forget_scope(step.world, step.findings, &scope);
        };
        let (world, known) = (&mut *step.world, &mut self.deleted);
        if known.len() >= MAX_TERMINATING_SCOPES && !known.contains_key(&scope) {
            return world.count_dropped(Limit::TerminatingScopes);
        }

        let conditions = conditions
            .iter()
            .filter(|c| c.status == ConditionStatus::True && !NO_CAUSES.contains(&&*c.r#type))
            .take(MAX_CONDITIONS)
            .cloned();
        let new = ScopeDeletion {
            since,
            conditions: Vec::new(),
            objects: u64::MAX,
            last_progress: None,
            hangs_unseen: false,
        };

        // It may have been recreated and deleted again unseen.
        if known.get(&scope).is_some_and(|deletion| deletion.since != since) {
            known.remove(&scope);
        }

        let is_new = !known.contains_key(&scope);
        known.entry(scope.clone()).or_insert(new).conditions = conditions.collect();
        if is_new && let TerminatingScope::Namespace(name) = &scope {
            world.namespaces.set_terminating(name, true, world.now);
            review_objects_in(world, name);
        }

        let due = self.review_scope(step, &scope);
        self.due = self.due.into_iter().chain(due).min();
    }
}

/// Judges the objects of a namespace again, because it is being deleted. The API server deletes its
/// Pods first, and everything else once the last Pod is gone: until then, the other objects are
/// live, but their operator cannot create anything for them.
fn review_objects_in(world: &mut World, namespace: &str) {
    let inside = world
        .store
        .iter()
        .filter(|(_, record)| record.hot.is_some() && *record.namespace == *namespace);

    world.agenda.objects.extend(inside.map(|(slot, _)| slot));
}

impl TerminatingScopes {
    /// Opens or closes the finding about a scope. Returns when to review it again.
    fn review_scope(
        &mut self,
        step: &mut StepContext<'_>,
        scope: &TerminatingScope,
    ) -> Option<Timestamp> {
        let StepContext { world, operator, findings } = step;
        let now = world.now;
        let watches = watches_within(world, scope);
        let visibilities: Vec<Visibility> = watches
            .iter()
            .map(|(watch, _)| world.watches[*watch as usize].visibility(now))
            .collect();
        let after = world.settings.finalizer_stuck_after;

        if visibilities.contains(&Visibility::Lost) || !sees(world, scope) {
            return Some(now.after(after)); // until then, no finding opens or closes
        }

        let objects: u64 = watches.iter().map(|(_, objects)| objects).sum();
        let deletion = self.deleted.get_mut(scope)?;
        if objects < std::mem::replace(&mut deletion.objects, objects)
            && deletion.last_progress.is_some()
        {
            deletion.last_progress = Some(now);
        }

        let progress = *deletion.last_progress.get_or_insert(deletion.since);
        let (since, conditions) = (deletion.since, deletion.conditions.clone());
        let (code, subject) = (scope.code(), scope.subject());
        let mut due = since.after(after).max(progress.after(Span(after.0 / 2)));
        let may_wait =
            matches!(scope, TerminatingScope::Namespace(_)) && waits_for_pods(&conditions);
        let is_blocked = |slot: &Slot| !may_wait || world.terminating(*slot).is_some();
        let blocker =
            if due <= now { blocker_in(world, scope, &watches).filter(is_blocked) } else { None };

        deletion.hangs_unseen = due <= now && blocker.is_none();
        if deletion.hangs_unseen {
            findings.clear(now, code, &subject);
            return (objects > 0).then(|| now.after(after));
        }

        // The finding about the blocker explains this one, so this one does not open before it.
        let terminating = blocker.and_then(|slot| world.terminating(slot));
        due = due.max(terminating.map_or(due, |(record, deletion)| {
            absence::blocks_at(world, operator, record, deletion)
        }));
        if !findings.is_open(code, &subject) {
            let grace = |visibility: &Visibility| {
                if let Visibility::Grace(until) = visibility { Some(*until) } else { None }
            };
            due = due.max(visibilities.iter().filter_map(grace).max().unwrap_or(due));
        }

        let Some(blocker) = blocker.filter(|_| due <= now) else {
            findings.clear(now, code, &subject);
            return Some(due);
        };

        stuck::review_blocker(world, blocker);
        let detection = scope_stuck(world, scope, blocker, objects, since, &conditions);
        findings.report(world, subject, detection);
        Some(now.after(after))
    }
}

fn scope_stuck(
    world: &World,
    scope: &TerminatingScope,
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

        Evidence::new()
            .text("blocker", world.subject(blocker).to_string())
            .with("blocker_finalizers", Value::Names(finalizers))
            .with("actor", Value::Names(actors.unwrap_or_default()))
            .with("objects", Value::count(objects))
            .with("conditions", Value::Names(in_words(conditions)))
            .with("terminating_for", Value::Age(since))
    };

    let suspected =
        world.store.get(blocker).is_some_and(|record| world.kind_of(record.watch).suspected);
    Detection::new(now, scope.code(), since, now, evidence)
        .suspected_if(suspected)
        .blocked_by(Some(world.subject(blocker)))
}

/// Returns the conditions as text: `NamespaceDeletionDiscoveryFailure (DiscoveryFailed)`.
fn in_words(conditions: &[Condition]) -> Vec<String> {
    let shown = |condition: &Condition| match condition.reason.as_str() {
        "" => condition.r#type.clone(),
        reason => format!("{} ({reason})", condition.r#type),
    };
    conditions.iter().map(shown).collect()
}

/// Returns whether the source of a scope works.
fn sees(world: &World, scope: &TerminatingScope) -> bool {
    match scope {
        TerminatingScope::Namespace(_) => world.sources.is_up(&SourceId::Namespaces),
        TerminatingScope::Definition(_) => true,
    }
}

/// Returns the active watches that have objects in a scope, and how many each has.
fn watches_within(world: &World, scope: &TerminatingScope) -> Vec<(u16, u64)> {
    let mut found = Vec::new();
    for (number, watch) in world.watches.iter().enumerate().filter(|(_, watch)| watch.active) {
        let objects = match scope {
            TerminatingScope::Namespace(name) => {
                let position = watch.namespace_index.get(name.as_str());
                let namespace =
                    position.and_then(|position| watch.namespaces.get(*position as usize));
                namespace.map_or(0, WatchNamespace::objects)
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
fn blocker_in(world: &World, scope: &TerminatingScope, watches: &[(u16, u64)]) -> Option<Slot> {
    let is_in = |slot: &Slot| {
        world.store.get(*slot).is_some_and(|record| {
            let is_here = match scope {
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

    let waits = kinds.iter().flat_map(|kind| &world.kinds[*kind as usize].deletions.finalizers);
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

/// Returns whether a namespace waits only for objects without finalizers, as far as its conditions
/// show. The API server deletes Pods before everything else, so an object that is not being deleted
/// yet blocks nothing.
fn waits_for_pods(conditions: &[Condition]) -> bool {
    conditions.iter().all(|condition| condition.r#type == "NamespaceContentRemaining")
}
