//! The rules for a loop that the watch shows: an operator rewrites an object again and again, although
//! the object has reached its state.
//!
//! - *times, metadata*: the versions change nothing but times or annotations;
//! - *order*: the status returns to earlier states, and says the same in each, as if the operator wrote a
//!   list in the order of a map;
//! - *counter*: the status differs each time, five times per second, and says the same.
//!
//! The threshold follows Config Sync, which calls more than five updates per minute a fight. In the
//! recordings of healthy operators, no object has more than three versions within two minutes that
//! change nothing. No heartbeat, autoscaler or count of new children
//! changes a status five times per second for a minute.

use std::sync::Arc;

use crate::finding::{Evidence, FindingCode, Value};
use crate::model::findings::detection::{Detection, events_needed};
use crate::model::part::StepContext;
use crate::model::status::reading::Verdict;
use crate::model::world::store::{Record, Slot};
use crate::model::writes::author::{Author, AuthorRole};
use crate::model::writes::seen::Seen;
use crate::model::writes::suspects::Suspect;
use crate::snapshot::ObjectState;
use crate::time::{Span, Timestamp};

/// The share of the versions that must change nothing, in percent. Below it, the object is busy.
const WASTED_PERCENT: usize = 60;

/// From this period on, writes at equal distances are a heartbeat, or a requeue on purpose. A loop that
/// wakes itself is as fast as its work.
const PERIODIC_FROM: Span = Span::secs(5);

/// The share of the pauses that must fit the period, in percent.
const PERIODIC_PERCENT: usize = 75;

/// How much a pause may differ from the period: by a quarter of it, so that half of all pauses of any length fit.
/// For the end of an open finding, which chance must not cause, by an eighth.
const JITTER: i64 = 4;
const LITTLE_JITTER: i64 = 8;

/// The resolution of the times in managed fields.
const RESOLUTION: Span = Span::secs(1);

/// How long a counter must run, and at least how fast.
const COUNTS_FOR: Span = Span::mins(1);
const COUNTS_PER_MINUTE: u64 = 300;

/// From this rate on, a status that returns to earlier states is no effect of the cluster, such as a Pod
/// that becomes ready and unready.
const RETURNS_PER_MINUTE: u64 = 60;

/// The versions of a loop.
struct Loop<'a> {
    /// What the versions change.
    changes: &'static str,
    since: Timestamp,
    wasted: Vec<&'a Seen>,
    /// The versions before the part began to follow the object.
    earlier: usize,
}

/// Detects a hot loop. `all_per_minute` is the rate of the versions of all objects.
pub(super) fn detect(
    step: &StepContext<'_>,
    slot: Slot,
    suspect: &Suspect,
    all_per_minute: u64,
) -> Option<Detection> {
    let (world, settings) = (&*step.world, &step.world.settings);
    let record = world.store.get(slot)?;
    let from = world.now.before(settings.hot_loop_window);
    let within: Vec<&Seen> = suspect.versions.iter().filter(|seen| seen.at > from).collect();

    let is_open = world.has_open(FindingCode::HotLoop, slot);
    let needed = events_needed(is_open, settings.hot_loop_writes) as usize;
    let is_enough = |found: &Loop<'_>, manager: &str, own: usize| {
        let is_only = own == found.wasted.len();
        let count = own + if is_only { found.earlier } else { 0 };
        lasts(record, found, world.now, settings.hot_loop_window, needed)
            && own >= 2
            && count >= needed
            && found.wasted.len() * 100 >= within.len() * WASTED_PERCENT
            && !is_periodic(&within, manager, is_open)
    };

    let found = [
        without_change(suspect, &within, from),
        in_other_order(record, suspect, &within),
        counter(record, suspect, &within, world.now),
    ];
    let mut by_author = found.into_iter().flatten().filter_map(|found| {
        let (manager, own) = author(&found.wasted)?;
        is_enough(&found, &manager, own).then_some((found, manager, own))
    });
    let (found, manager, own) = by_author.next()?;
    let is_known = !manager.is_empty() && own * 3 >= found.wasted.len() * 2;
    let manager = if manager.is_empty() { "unknown" } else { &*manager };

    let rate = per_minute(&found.wasted);
    let evidence = || {
        Evidence::new()
            .text("manager", manager)
            .text("changes", found.changes)
            .names("fields", suspect.fields.all())
            .with("writes_per_minute", Value::count(rate))
            .with("wasted", Value::count((found.wasted.len() + found.earlier) as u64))
            .with("seen", Value::count((within.len() + found.earlier) as u64))
            .with("share_percent", Value::count(rate * 100 / all_per_minute.max(rate).max(1)))
    };
    let detection =
        Detection::new(world.now, FindingCode::HotLoop, found.since, world.now, evidence);
    Some(detection.not_before(record.created()).suspected_if(!is_known))
}

/// Whether the object rests, and has been written often enough since it came to rest, or else whether
/// the loop has gone on for half of the window without slowing down. An operator that tries again and
/// again notes each attempt, but waits longer each time.
fn lasts(record: &Record, found: &Loop<'_>, now: Timestamp, window: Span, needed: usize) -> bool {
    // The object enters its state, with its start, only after this. Until then, it is not at rest.
    let is_owed = record.obligation().is_some_and(|it| it.converged_since.is_none());
    if record.state == ObjectState::Converged && record.verdict == Verdict::Converged && !is_owed {
        let resting = found.wasted.iter().filter(|seen| seen.at >= record.since).count();
        let earlier = if resting == found.wasted.len() { found.earlier } else { 0 };
        return resting + earlier >= needed;
    }

    let half = Span(window.0 / 2);
    let lately = found.wasted.iter().filter(|seen| seen.at > now.before(half)).count();
    found.changes == "times" && now.since(found.since) >= half && lately * 2 >= needed
}

/// The versions that change nothing but times or metadata.
fn without_change<'a>(suspect: &Suspect, within: &[&'a Seen], from: Timestamp) -> Option<Loop<'a>> {
    let wasted: Vec<&Seen> = within.iter().copied().filter(|seen| seen.change.is_waste).collect();
    let times = within.windows(2).filter(|pair| pair[1].change.is_waste);
    let times = times.filter(|pair| pair[1].status != pair[0].status).count();
    let (followed, before) = suspect.followed;
    let before_from = followed.before(Span(pause(&wasted).0.saturating_mul(before.into())));

    Some(Loop {
        changes: if times * 2 >= wasted.len().saturating_sub(1) { "times" } else { "metadata" },
        since: suspect.wasted_since?,
        earlier: if before_from > from { usize::from(before) } else { 0 },
        wasted,
    })
}

/// The versions that return to an earlier status, although the status says the same in all of them.
fn in_other_order<'a>(record: &Record, suspect: &Suspect, within: &[&'a Seen]) -> Option<Loop<'a>> {
    let returns = |place: usize| {
        let seen = within[place];
        seen.is_unsaid(within[place - 1])
            && within[..place - 1].iter().any(|earlier| earlier.settled == seen.settled)
    };
    let wasted: Vec<&Seen> =
        (1..within.len()).filter(|place| returns(*place)).map(|place| within[place]).collect();

    let is_fast = per_minute(&wasted) >= RETURNS_PER_MINUTE;
    let since = suspect.unsaid_since.filter(|_| record.verdict == Verdict::Converged)?;
    is_fast.then_some(Loop { changes: "order", since, wasted, earlier: 0 })
}

/// The versions that differ each time, if they come too fast for any work.
fn counter<'a>(
    record: &Record,
    suspect: &Suspect,
    within: &[&'a Seen],
    now: Timestamp,
) -> Option<Loop<'a>> {
    let is_unsaid = |pair: &&[&Seen]| pair[1].is_unsaid(pair[0]);
    let wasted: Vec<&Seen> = within.windows(2).filter(is_unsaid).map(|pair| pair[1]).collect();
    let since = suspect.unsaid_since.filter(|_| record.verdict == Verdict::Converged)?;
    let is_fast = suspect.is_full()
        && per_minute(&wasted) >= COUNTS_PER_MINUTE
        && now.since(since) >= COUNTS_FOR;

    is_fast.then_some(Loop { changes: "counter", since, wasted, earlier: 0 })
}

/// Returns the controller that wrote most of the versions, and how many of them; `None` if clients wrote
/// most of them. Without a known author, the name is empty.
fn author(wasted: &[&Seen]) -> Option<(Arc<str>, usize)> {
    let authors = || wasted.iter().filter_map(|seen| seen.author.as_ref());
    let of_role = |role: AuthorRole| authors().filter(move |author| author.role == role);
    let count = |author: &Author| authors().filter(|other| other.name == author.name).count();

    if of_role(AuthorRole::Client).count() * 2 > wasted.len() {
        return None;
    }
    match of_role(AuthorRole::Controller).max_by_key(|author| count(author)) {
        Some(author) => Some((author.name.clone(), count(author))),
        None => Some(("".into(), wasted.len())),
    }
}

/// Returns whether an author writes at equal distances of some seconds, with all of its versions: a
/// heartbeat may carry news, miss a beat, or come twice at once.
fn is_periodic(within: &[&Seen], name: &str, is_open: bool) -> bool {
    let is_own = |seen: &&&Seen| {
        seen.author.as_ref().map_or(name.is_empty(), |author| *author.name == *name)
    };
    let own: Vec<&&Seen> = within.iter().filter(is_own).collect();
    let mut pauses: Vec<i64> = own.windows(2).map(|pair| pair[1].at.since(pair[0].at).0).collect();
    pauses.sort_unstable();

    let Some(period) = pauses.get(pauses.len() / 2).copied() else { return false };
    if period + RESOLUTION.0 < PERIODIC_FROM.0 {
        return false;
    }

    let fits = |pause: &&i64| {
        let beats = ((**pause + period / 2) / period).max(1);
        (**pause - beats * period).abs() <= period / if is_open { LITTLE_JITTER } else { JITTER }
    };
    pauses.iter().filter(fits).count() * 100 >= pauses.len() * PERIODIC_PERCENT
}

/// Returns the mean pause between the versions. Those before the first one have probably had the same.
fn pause(wasted: &[&Seen]) -> Span {
    let (Some(first), Some(last)) = (wasted.first(), wasted.last()) else { return Span::ZERO };
    Span(last.at.since(first.at).0 / (wasted.len() as i64 - 1).max(1))
}

/// Returns the rate of the versions.
fn per_minute(wasted: &[&Seen]) -> u64 {
    let (Some(first), Some(last)) = (wasted.first(), wasted.last()) else { return 0 };
    let milliseconds = last.at.since(first.at).0.max(RESOLUTION.0).unsigned_abs();
    (wasted.len() as u64 - 1) * 60_000 / milliseconds
}
