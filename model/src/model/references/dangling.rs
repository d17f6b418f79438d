//! Dangling references: their target does not exist.
//!
//! A target is missing once it has been absent for `dangling_after` and a lookup after that time
//! confirms it. Lookups without an answer prove nothing. A target that the object owns, or that
//! loopwatch saw the operator create, is an output of the operator, so its absence causes no
//! finding, for any object of the kind. A field whose targets are absent for several converged
//! objects is also an output, or not required.

use std::collections::BTreeMap;

use crate::finding::{Evidence, FindingCode, Value};
use crate::model::convergence::object_context;
use crate::model::findings::detection::Detection;
use crate::model::findings::open_findings::OpenFindings;
use crate::model::references::lookups::{Index, Lookup, References, State, seconds};
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
        let (slot, was_asked) = (held.slot, held.asked);
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
            held.asked = answer.is_none();
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
        let asked = |index: &&Index| self.get(**index).is_some_and(|held| held.asked);
        let asked: Vec<Index> = references.iter().filter(asked).copied().collect();

        if !asked.is_empty() {
            asked.into_iter().for_each(|index| _ = self.look_up(world, findings, index));
            self.set_references_timer(world);
        }

        if references.is_empty() {
            return None;
        }

        let mut missing: Vec<(Timestamp, ObjectAddress, String)> = Vec::new();
        for index in references {
            let since = self.get(index).filter(|held| held.missing).and_then(|held| held.since());
            let Some((since, (address, path))) = since.zip(self.target_of(world, index)) else {
                continue;
            };
            if !self.is_unneeded(world, slot, &path) {
                missing.push((since, address, path));
            }
        }

        missing.sort();
        let Some((since, ..)) = missing.first() else {
            return self.awaited_dangling(world, findings, slot);
        };

        // The operator may have written the spec of an owned object, and its references may have
        // another meaning: those of an ACME challenge to Secrets are relative to the namespace of
        // its issuer.
        let written_by_operator = !world.owners_of(slot).is_empty();
        let confirmed = match object_context::state(world, slot)? {
            ObjectState::Progressing | ObjectState::Overdue | ObjectState::Failed => true,
            ObjectState::Converged | ObjectState::Suspended | ObjectState::Unknown => false,
            ObjectState::Terminating | ObjectState::Finished => return None,
        };
        let created = world.store.get(slot)?.created();
        let due = since.after(world.settings.dangling_after);

        let signal = || {
            world
                .store
                .get(slot)
                .and_then(|record| record.hot.as_ref())
                .map(|hot| hot.signal.clone())
        };

        let detection =
            Detection::new(world.now, FindingCode::DanglingReference, *since, due, || {
                let named = || missing.iter().take(MAX_NAMED);
                Evidence::new()
                    .with(
                        "reference",
                        Value::Names(named().map(|(_, _, path)| path.clone()).collect()),
                    )
                    .with(
                        "target",
                        Value::Names(named().map(|(_, address, _)| address.to_string()).collect()),
                    )
                    .with("missing_for", Value::Age(*since))
                    .text("signal", signal().unwrap_or_default())
            });

        Some(detection.suspected_if(!confirmed || written_by_operator).not_before(created))
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
    /// this field are absent.
    fn is_unneeded(&self, world: &World, slot: Slot, path: &str) -> bool {
        let Some(record) = world.store.get(slot) else { return false };
        let kind = world.watches[record.watch as usize].kind;
        let mut slots: Vec<Slot> = Vec::new();

        for (index, held) in self.queued() {
            let other = world.store.get(held.slot).filter(|_| held.missing);
            let converged = other.is_some_and(|record| {
                record.state == ObjectState::Converged
                    && world.watches[record.watch as usize].kind == kind
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
