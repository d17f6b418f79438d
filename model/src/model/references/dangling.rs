//! Dangling references: their target does not exist.
//!
//! A target is missing once it has been absent for `dangling_after` and a lookup after that time
//! confirms it. Lookups without an answer prove nothing. A target that the object owns, or that
//! loopwatch saw the operator create, is an output of the operator, so its absence causes no
//! finding, for any object of the kind. A field whose targets are absent for several converged
//! objects is also an output, or not required. `need.rs` decides whether a single object waits for
//! its target.

use std::collections::BTreeMap;

use crate::finding::{Evidence, FindingCode, Value};
use crate::model::convergence::object_context;
use crate::model::findings::detection::Detection;
use crate::model::findings::open_findings::OpenFindings;
use crate::model::references::lookups::{Index, Lookup, Mark, References, State, seconds};
use crate::model::references::need;
use crate::model::references::targets::{self, Watched};
use crate::model::world::World;
use crate::model::world::lookups::{ASK_AGAIN, Existence};
use crate::model::world::owner_graph::Owner;
use crate::model::world::store::{self, Slot};
use crate::model::world::visibility::Visibility;
use crate::observation::ObjectAddress;
use crate::snapshot::ObjectState;
use crate::time::{Span, Timestamp};

/// The longest and the shortest time after which an absent target is looked up again, and for which
/// an answer counts.
const LOOK_AGAIN: (Span, Span) = (Span::mins(1), Span::secs(1));
/// The same for targets of watched kinds, for which a lookup costs no request: at most this long.
const WATCHED_AGAIN: Span = Span::secs(10);
/// After this many reads without an answer, an absent target counts as unknown.
const MAX_UNANSWERED: u8 = 5;
/// If this many objects have converged although their targets in a field are absent, the field is
/// not required. For kinds with few objects, half of them suffice, but at least two.
const UNNEEDED_BY: usize = 3;
/// The maximum number of references that a finding names.
const MAX_NAMED: usize = 3;

/// A target that has been missing for long enough.
struct MissingTarget {
    /// The object probably waits for it.
    is_needed: bool,
    since: Timestamp,
    address: ObjectAddress,
    path: String,
}

/// What a lookup has shown about a target.
struct LookedUp {
    /// The object with the reference is an owner of the target.
    owned: bool,
    /// The operator has written the target.
    written: bool,
}

impl References {
    /// Looks up the target of a reference.
    pub(crate) fn look_up(
        &mut self,
        world: &mut World,
        findings: &OpenFindings,
        index: Index,
    ) -> Lookup {
        let (Some((address, path)), Some(held)) = (self.target_of(world, index), self.get(index))
        else {
            return Lookup::Done;
        };
        let (slot, was_asked) = (held.slot, held.marks.has(Mark::Asked));
        match targets::watched(world, &address) {
            Watched::Here(target) => {
                let owned =
                    world.store.get(slot).is_some_and(|record| is_owned(world, target, record.uid));
                self.target_exists(world, index, &path, &LookedUp { owned, written: false });
                return Lookup::Done;
            }
            Watched::Absent => {
                self.target_absent(world, findings, index, WATCHED_AGAIN.min(look_again(world)));
                return Lookup::Done;
            }
            Watched::Blind => {
                self.enqueue(index, Some(world.now.after(look_again(world))));
                return Lookup::Done;
            }
            Watched::No => {}
        }

        let answer = world.brief_existence(slot, &address, self.answers_from(world, index));
        if let Some(held) = self.get_mut(index) {
            held.marks.set(Mark::Asked, answer.is_none());
        }

        match answer {
            None => {
                if self.get(index).is_some_and(|held| held.state == State::Unchecked) {
                    self.set_state(index, State::New);
                }

                // Asks again if no answer arrives.
                self.enqueue(index, Some(world.now.after(ASK_AGAIN)));
                return if was_asked { Lookup::Done } else { Lookup::Asked };
            }
            Some(Existence::Exists(target)) => {
                let record = world.store.get(slot);
                let owned = record.is_some_and(|record| target.owners.contains(&record.uid));
                let kind = record.map(|record| world.watches[record.watch as usize].kind);
                let written = kind.is_some_and(|kind| self.is_writer(kind, &target.writers));

                self.target_exists(world, index, &path, &LookedUp { owned, written });
            }
            Some(Existence::Absent) => {
                self.target_absent(world, findings, index, look_again(world))
            }
            Some(
                Existence::KindUnknown
                | Existence::Unreadable
                | Existence::Failed
                | Existence::Dependents(_),
            ) => self.target_unknown(world, index),
        }

        Lookup::Done
    }
}

/// Returns the time after which an absent target is looked up again: half of `dangling_after`, but
/// at most a minute.
fn look_again(world: &World) -> Span {
    Span(world.settings.dangling_after.0 / 2).clamp(LOOK_AGAIN.1, LOOK_AGAIN.0)
}

impl References {
    /// Returns the earliest time from which an answer counts. Once a target has been absent for
    /// `dangling_after`, only an answer from after that time does.
    fn answers_from(&self, world: &World, index: Index) -> Timestamp {
        let recent = world.now.shifted(-look_again(world).0);
        let held = self.get(index).filter(|held| held.state == State::Absent);
        let due = held
            .and_then(|held| held.since())
            .map(|since| since.after(world.settings.dangling_after));

        due.filter(|due| *due <= world.now).map_or(recent, |due| due.max(recent))
    }
}

fn is_owned(world: &World, target: Slot, by: u128) -> bool {
    by != store::NO_UID && world.owners_of(target).iter().map(Owner::uid).any(|owner| owner == by)
}

impl References {
    fn target_exists(&mut self, world: &mut World, index: Index, path: &str, found: &LookedUp) {
        let Some(held) = self.get_mut(index) else { return };
        let was_absent = held.state == State::Absent;
        (held.since, held.missing, held.unanswered) = (0, false, 0);
        held.marks.set(Mark::Existed, true);
        held.marks.set(Mark::Unneeded, false);

        let slot = held.slot;
        self.set_state(index, State::Exists);
        self.enqueue(index, None);

        if found.owned || (was_absent && found.written) {
            if let Some(record) = world.store.get(slot) {
                self.learn_output(world, world.watches[record.watch as usize].kind, path);
            }
        } else if was_absent {
            world.agenda.objects.insert(slot);
        }
    }

    fn target_absent(
        &mut self,
        world: &mut World,
        findings: &OpenFindings,
        index: Index,
        again: Span,
    ) {
        let (now, after) = (world.now, world.settings.dangling_after);
        let Some((slot, state)) = self.get(index).map(|held| (held.slot, held.state)) else {
            return;
        };
        let restored = restored_dangling(world, findings, slot);
        let Some(held) = self.get_mut(index) else { return };

        held.unanswered = 0;
        if state != State::Absent {
            // A new reference was dangling from the start.
            let appeared = held.since().filter(|_| state == State::New);
            let since = appeared.unwrap_or(now);
            held.since = seconds(restored.map_or(since, |earlier| earlier.min(since)));
        }

        let missing = held.since().is_some_and(|since| since.after(after) <= now);
        let was_missing = std::mem::replace(&mut held.missing, missing);
        self.set_state(index, State::Absent);
        self.enqueue(index, Some(now.after(again)));

        // While it is missing, the finding also depends on other objects of the kind.
        if missing || was_missing {
            world.agenda.objects.insert(slot);
        }
    }

    /// Handles a read without an answer. The first few change nothing for an absent target.
    fn target_unknown(&mut self, world: &mut World, index: Index) {
        let Some(slot) = self.get(index).map(|held| held.slot) else { return };

        // In an outage, the watch is blind, too, and nothing changes.
        let blind = world.store.get(slot).is_some_and(|r| {
            world.watches[r.watch as usize].visibility(world.now) == Visibility::Lost
        });
        let Some(held) = self.get_mut(index) else { return };

        held.unanswered = held.unanswered.saturating_add(u8::from(!blind));
        let was_absent = held.state == State::Absent;
        if was_absent && held.unanswered < MAX_UNANSWERED {
            return self.enqueue(index, Some(world.now.after(look_again(world))));
        }

        (held.since, held.missing) = (0, false);
        self.set_state(index, State::Unknown);
        self.enqueue(index, None);

        if was_absent {
            world.agenda.objects.insert(slot);
        }
    }
}

/// Returns the start of an earlier process's finding about a dangling reference of an object.
fn restored_dangling(world: &World, findings: &OpenFindings, slot: Slot) -> Option<Timestamp> {
    if !findings.has_restored() {
        return None;
    }

    let created = world.store.get(slot)?.created();
    let start = findings.restored_start(FindingCode::DanglingReference, &world.subject(slot));
    start.filter(|at| Some(*at) >= created)
}

impl References {
    /// Detects that the spec refers to objects that do not exist.
    pub(super) fn dangling_reference(
        &mut self,
        world: &mut World,
        findings: &OpenFindings,
        slot: Slot,
    ) -> Option<Detection> {
        let references = self.of(slot);
        let asked =
            |index: &&Index| self.get(**index).is_some_and(|held| held.marks.has(Mark::Asked));
        let asked: Vec<Index> = references.iter().filter(asked).copied().collect();

        if !asked.is_empty() {
            asked.into_iter().for_each(|index| _ = self.look_up(world, findings, index));
            self.set_references_timer(world);
        }

        if references.is_empty() {
            return None;
        }

        let missing = self.missing_targets(world, slot, references);
        let Some(first) = missing.first() else {
            return self.awaited_dangling(world, findings, slot);
        };

        // The operator may have written the spec of an owned object, and its references may have
        // another meaning: those of an ACME challenge to Secrets are relative to the namespace of
        // its issuer.
        let written_by_operator = !world.owners_of(slot).is_empty();
        let is_waiting = match object_context::state(world, slot)? {
            ObjectState::Progressing | ObjectState::Overdue | ObjectState::Failed => true,
            ObjectState::Converged
            | ObjectState::Suspended
            | ObjectState::Skipped
            | ObjectState::Unknown => false,
            ObjectState::Terminating | ObjectState::Finished => return None,
        };
        let confirmed = is_waiting && first.is_needed && !written_by_operator;
        let record = world.store.get(slot)?;
        let (since, created) = (first.since, record.created());
        let due = since.after(world.settings.dangling_after);

        let signal = || record.hot.as_ref().map(|hot| hot.signal.clone()).unwrap_or_default();
        let named = |name: fn(&MissingTarget) -> String| {
            Value::Names(missing.iter().take(MAX_NAMED).map(name).collect())
        };
        let detection =
            Detection::new(world.now, FindingCode::DanglingReference, since, due, || {
                Evidence::new()
                    .with("reference", named(|target| target.path.clone()))
                    .with("target", named(|target| target.address.to_string()))
                    .with("missing_for", Value::Age(since))
                    .text("signal", signal())
            });

        Some(detection.suspected_if(!confirmed).not_before(created))
    }

    /// Returns the targets of an object that have been missing for long enough, those first that
    /// it needs.
    fn missing_targets(
        &mut self,
        world: &World,
        slot: Slot,
        references: Vec<Index>,
    ) -> Vec<MissingTarget> {
        let mut missing: Vec<MissingTarget> = Vec::new();
        for index in references {
            let since = self.get(index).filter(|held| held.missing).and_then(|held| held.since());
            let Some((since, (address, path))) = since.zip(self.target_of(world, index)) else {
                continue;
            };

            if !self.is_unneeded(world, slot, &path) {
                let is_needed = self.needs(world, slot, index, since, &address, &path);
                missing.push(MissingTarget { is_needed, since, address, path });
            }
        }

        missing.sort_by(|one, other| {
            let key = |of: &MissingTarget| (!of.is_needed, of.since);
            key(one)
                .cmp(&key(other))
                .then_with(|| (&one.address, &one.path).cmp(&(&other.address, &other.path)))
        });
        missing
    }

    /// Returns whether an object probably waits for a target that has been missing `since`.
    fn needs(
        &mut self,
        world: &World,
        slot: Slot,
        index: Index,
        since: Timestamp,
        address: &ObjectAddress,
        path: &str,
    ) -> bool {
        let (Some(record), Some(held)) = (world.store.get(slot), self.get_mut(index)) else {
            return false;
        };
        let has_existed = held.marks.has(Mark::Existed);
        if need::manages_without(record, world.now, since, has_existed) {
            held.marks.set(Mark::Unneeded, true);
        }

        let may_come =
            !has_existed && need::may_be_created(record, world.now, address, path, since);
        !held.marks.has(Mark::Unneeded) && !may_come
    }

    /// Returns a detection that is not due yet, if an earlier process had found a dangling
    /// reference and no lookup has decided yet.
    fn awaited_dangling(
        &self,
        world: &World,
        findings: &OpenFindings,
        slot: Slot,
    ) -> Option<Detection> {
        let since = restored_dangling(world, findings, slot)?;
        let undecided = self.of(slot).into_iter().any(|index| {
            let state = self.get(index).map(|held| held.state);
            matches!(state, Some(State::Unchecked | State::New | State::Absent))
        });
        let due = world.now.after(look_again(world));

        undecided.then(|| {
            Detection::new(world.now, FindingCode::DanglingReference, since, due, Evidence::new)
        })
    }

    /// Returns whether several objects of the same kind have converged although their targets in
    /// this field are absent. One that has been converged since before its target went may fail as
    /// soon as the operator looks at it again.
    fn is_unneeded(&self, world: &World, slot: Slot, path: &str) -> bool {
        let Some(record) = world.store.get(slot) else { return false };
        let kind = world.watches[record.watch as usize].kind;
        let mut slots: Vec<Slot> = Vec::new();

        for (index, held) in self.queued() {
            let other = world.store.get(held.slot).filter(|_| held.missing);
            let existed = held.marks.has(Mark::Existed);
            let converged = other.zip(held.since()).is_some_and(|(record, since)| {
                let is_proof = !existed || record.since >= since;
                record.state == ObjectState::Converged
                    && world.watches[record.watch as usize].kind == kind
                    && (is_proof || need::manages_without(record, world.now, since, existed))
            });
            if converged && self.target_of(world, index).is_some_and(|(_, of_path)| of_path == path)
            {
                slots.push(held.slot);
            }

            if slots.len() >= UNNEEDED_BY * 32 {
                break; // an object has at most 32 references
            }
        }

        slots.sort_unstable();
        slots.dedup();

        let half =
            usize::try_from(world.kinds[kind as usize].objects.div_ceil(2)).unwrap_or(usize::MAX);
        slots.len() >= UNNEEDED_BY.min(half.max(2))
    }

    /// Returns the number of references to missing objects, by the kind of the object with the
    /// reference and that of the missing object.
    pub(crate) fn dangling_references(
        &self,
        world: &World,
    ) -> BTreeMap<u16, BTreeMap<String, u64>> {
        let mut kinds: BTreeMap<u16, BTreeMap<String, u64>> = BTreeMap::new();
        for (index, held) in self.queued().filter(|(_, held)| held.missing) {
            let kind =
                world.store.get(held.slot).map(|record| world.watches[record.watch as usize].kind);
            if let Some((kind, (address, _))) = kind.zip(self.target_of(world, index)) {
                *kinds.entry(kind).or_default().entry(address.kind).or_default() += 1;
            }
        }

        kinds
    }
}
