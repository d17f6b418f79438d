//! The rule for a fight: two writers undo each other's writes.
//!
//! A write counts if its author restores exactly the state that it had left, after another one changed
//! it. A tool that applies manifests every few minutes against an operator that fills in a default stays
//! below the threshold within the window. An autoscaler that scales up and down writes alone.

use std::collections::BTreeSet;

use crate::finding::{Evidence, FindingCode, Value};
use crate::model::findings::detection::{Detection, events_needed};
use crate::model::part::StepContext;
use crate::model::world::store::Slot;
use crate::model::writes::author::{Author, AuthorRole};
use crate::model::writes::fields::Fields;
use crate::model::writes::line::{Line, Undone};
use crate::model::writes::suspects::Suspect;
use crate::observation::Role;
use crate::time::Span;

/// The maximum number of writers in a fight.
const MAX_WRITERS: usize = 3;

/// The number of other writes that may be among the last ones of theirs.
const MAX_OTHERS: usize = 1;

/// From this many undone writes within [`FAST_WINDOW`] on, two programs of one name are confirmed: no
/// person and no schedule writes that often.
const FAST: usize = 30;
const FAST_WINDOW: Span = Span::mins(2);

/// Detects a fight over the spec or the status of an object.
pub(super) fn detect(step: &StepContext<'_>, slot: Slot, suspect: &Suspect) -> Option<Detection> {
    let of = |part, line| over_part(step, slot, part, line, &suspect.fields);
    of("spec", &suspect.spec).or_else(|| of("status", &suspect.status))
}

fn over_part(
    step: &StepContext<'_>,
    slot: Slot,
    part: &'static str,
    line: &Line,
    fields: &Fields,
) -> Option<Detection> {
    let (world, settings) = (&*step.world, &step.world.settings);
    let record = world.store.get(slot)?;
    let is_open = world.has_open(FindingCode::WriteFight, slot);
    let needed = events_needed(is_open, settings.fight_writes) as usize;

    let undone: Vec<&Undone> = line.undone_within(world.now, settings.fight_window).collect();
    let (first, last) = (undone.first()?, *undone.last()?);
    let names: BTreeSet<&str> = undone.iter().flat_map(|it| [&*it.by.name, &*it.of.name]).collect();
    if undone.len() < needed || names.len() > MAX_WRITERS || line.by_others(&names) > MAX_OTHERS {
        return None;
    }

    let is_primary = world.kind_of(record.watch).role == Role::Primary;
    let is_alone = names.len() == 1;
    let has_controller = undone.iter().any(|it| is_of_operator(it, is_primary));
    if !has_controller || (is_alone && part != "spec") {
        return None;
    }

    let fast = line.undone_within(world.now, FAST_WINDOW).count() >= FAST;
    if is_alone && !fast && !last.by.is_generic() {
        return None; // a program with a name of its own may change its mind
    }

    let is_certain = match is_alone {
        true => fast && last.by.is_generic(),
        false => !undone.iter().any(|it| it.by.is_nameless() || it.of.is_nameless()),
    };
    let evidence = || {
        Evidence::new()
            .text("writers", writers(&names))
            .text("part", part)
            .names("fields", fields.of(part))
            .with("undone", Value::count(undone.len() as u64))
            .with("last_at", Value::Time(last.at))
    };
    let detection =
        Detection::new(world.now, FindingCode::WriteFight, first.at, world.now, evidence);
    Some(detection.not_before(record.created()).suspected_if(!is_certain))
}

/// Whether a controller takes part. On a child, the operator is not the one who writes the status, so
/// any program but a tool of people may be one.
fn is_of_operator(undone: &Undone, is_primary: bool) -> bool {
    let is_controller = |author: &Author| match author.role {
        AuthorRole::Controller => true,
        AuthorRole::Other => !is_primary,
        AuthorRole::Client => false,
    };
    is_controller(&undone.by) || is_controller(&undone.of)
}

/// Returns the names of the writers, in the order of the alphabet.
fn writers(names: &BTreeSet<&str>) -> String {
    match names.iter().copied().collect::<Vec<_>>()[..] {
        [one] => format!("{one}, perhaps two programs of this name"),
        ref several => several.join(" and "),
    }
}
