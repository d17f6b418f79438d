//! The lists of watches, and the audits that compare their object counts.

use crate::finding::{Evidence, FindingCode, Value};
use crate::model::findings::detection::Detection;
use crate::model::findings::open_findings::OpenFindings;
use crate::model::world::kinds::{PendingCount, REMEMBERED_FOR};
use crate::model::world::store::{self, Flag, Slot};
use crate::model::world::timers::Timer;
use crate::model::world::{World, subjects};
use crate::observation::{Answer, Probe, SourceId, WatchId};
use crate::time::Span;

/// The shortest time between two audits. With a configured time of 0, the timer of an audit that
/// cannot be made would otherwise fire forever.
const SHORTEST_AUDIT: Span = Span::secs(1);

/// After how many audits in a row without a difference the interval doubles with each further one,
/// and how often at most. A watch that has lost an event stays wrong, so a rare audit finds it, too.
const RARER: (u32, u32) = (3, 4);

/// Remembers the converged specs of a watch's objects and the start times of the findings about
/// them, because the objects are about to leave the model.
pub(crate) fn remember_objects(world: &mut World, findings: &mut OpenFindings, slots: &[Slot]) {
    findings.forget_aside(world.now);
    for slot in slots {
        remember_converged(world, *slot);
        let Some(record) = world.store.get(*slot) else { continue };
        if let Some(hot) = record.hot.as_ref().filter(|hot| !hot.findings.is_empty()) {
            let (subject, until) = (world.subject(*slot), world.now.after(REMEMBERED_FOR));
            hot.findings.iter().for_each(|code| findings.set_aside(*code, &subject, until));
        }
    }
}

/// Remembers that an object has converged with its spec, and since when it has regressed, because
/// it is about to leave the model.
pub(crate) fn remember_converged(world: &mut World, slot: Slot) {
    let Some(record) = world.store.get(slot) else { return };
    if !record.flags.has(Flag::SpecConverged) || record.obligation().is_some() {
        return;
    }

    let unreliable = world.kind_of(record.watch).generation_is_unreliable();
    if let Some(spec) = record.spec_identity(unreliable) {
        let regressed = record.unconverged().and_then(|unconverged| unconverged.regressed_since);
        let limit = world.settings.limits.objects;
        world.departed.add(limit, &record.namespace, spec, world.now, regressed);
    }
}

pub(crate) fn list_began(world: &mut World, number: u16, epoch: u64) {
    let watch = &mut world.watches[number as usize];
    watch.lists.listing = Some(epoch);
    // The watch counts its own epochs, because the source's epoch does not fit into a record.
    watch.lists.epoch = watch.lists.epoch.wrapping_add(1);
    watch.lists.current = 0;
    watch.audit.pending = None;
    if watch.totals.audit_difference == Some(0) {
        watch.audit.agreeing = 0; // a new list may be wrong
    }

    watch.lists.skipped = 0;
    world.update_visibility(number);
}

/// Asks for an audit of a watch. If the watch cannot be audited now, or an audit is pending,
/// schedules the next one.
pub(crate) fn audit_due(world: &mut World, number: u16) {
    let watch = &mut world.watches[number as usize];
    watch.audit.due = None;
    if watch.active && watch.lists.synced && !watch.filtered && watch.audit.pending.is_none() {
        // The next audit is scheduled only when a source takes this probe, so one audit is enough
        // after a gap.
        world.agenda.probes.insert(Probe::Count(watch.id.clone()));
    } else {
        schedule_audit(world, number);
    }
}

pub(crate) fn schedule_audit(world: &mut World, number: u16) {
    let due = world.now.after(audit_interval(world, number));
    let old = world.watches[number as usize].audit.due.replace(due);
    world.agenda.timers.set(Timer::Audit(number), old, Some(due));
}

/// The time until the next audit of a watch. Each audit is a request, and most loopwatches of a
/// cluster find a difference in none.
fn audit_interval(world: &World, number: u16) -> Span {
    let watch = &world.watches[number as usize];
    let agreeing = if watch.totals.audit_difference == Some(0) { watch.audit.agreeing } else { 0 };
    let (patience, most) = RARER;
    let doublings = agreeing.saturating_sub(patience).min(most);

    let every = world.settings.audit_every.max(SHORTEST_AUDIT);
    Span(every.0.saturating_mul(1 << doublings))
}

/// Handles the API server's object count. Compares it with the model's count, at once or as soon as
/// the watch reaches the same version.
pub(crate) fn count_answered(
    world: &mut World,
    findings: &mut OpenFindings,
    id: &WatchId,
    answer: &Answer,
) {
    let (Some(number), Answer::Counted { objects, version }) = (world.find_watch(id), answer)
    else {
        return;
    };

    let counted = PendingCount {
        at: world.now,
        objects: *objects,
        version: store::version_number(version),
        late_event: None,
    };

    let watch = &mut world.watches[number as usize];
    if counted.version == 0 || watch.lists.listing.is_some() || !watch.lists.synced {
        return;
    }

    if watch.lists.newest_object > counted.version {
        // The watch is ahead of the count, so the two cannot be compared.
        watch.totals.lag.observe(Span::ZERO);
    } else if watch.lists.newest >= counted.version {
        compare_counts(world, findings, number, counted);
    } else {
        watch.audit.pending = Some(counted);
    }
}

/// Records that a watch is about to deliver `version`, in an event or a bookmark. The model has not
/// applied that event yet. So once `version` has passed that of a pending count, the model is at the
/// version of the count, and this function compares the two.
pub(crate) fn version_reached(
    world: &mut World,
    findings: &mut OpenFindings,
    number: u16,
    version: u64,
    is_event: bool,
) {
    let watch = &mut world.watches[number as usize];
    if let Some(counted) = watch.audit.pending.as_mut() {
        if is_event && version <= counted.version {
            counted.late_event = Some(world.now);
        } else if version >= counted.version {
            let counted = *counted;
            watch.audit.pending = None;
            compare_counts(world, findings, number, counted);
        }
    }

    let watch = &mut world.watches[number as usize];
    watch.lists.newest = watch.lists.newest.max(version);
    if is_event {
        watch.lists.newest_object = watch.lists.newest_object.max(version);
    }
}

/// Compares the object counts of the model and the API server at one version. A finding opens
/// after two consecutive audits with the same difference.
fn compare_counts(
    world: &mut World,
    findings: &mut OpenFindings,
    number: u16,
    counted: PendingCount,
) {
    let watch = &mut world.watches[number as usize];
    let lag = counted.late_event.map_or(Span::ZERO, |late| late.since(counted.at));
    watch.totals.lag.observe(lag);

    // The model leaves out objects beyond the limit on purpose, and another finding reports that.
    let here = watch.totals.objects.saturating_add(watch.lists.excluded.len() as u64);
    let here = i64::try_from(here).unwrap_or(i64::MAX);
    let server = i64::try_from(counted.objects).unwrap_or(i64::MAX);
    let difference = watch.unexplained(here.saturating_sub(server));
    let same = watch.totals.audit_difference == Some(difference);

    watch.audit.agreeing = if same { watch.audit.agreeing.saturating_add(1) } else { 1 };
    watch.totals.audit_difference = Some(difference);

    let subject = subjects::source(&SourceId::Watch(watch.id.clone()));
    if difference != 0 {
        // The next audit may have been scheduled while the counts agreed.
        schedule_audit(world, number);
    }

    let agreeing = world.watches[number as usize].audit.agreeing;
    if difference == 0 {
        findings.clear(world.now, FindingCode::StateInconsistent, &subject);
    } else if agreeing >= 2 {
        let evidence = Evidence::new()
            .with("here", Value::Count(here))
            .with("server", Value::Count(server))
            .text("version", counted.version.to_string());
        let (at, now) = (counted.at, world.now);

        findings.report(
            world,
            subject,
            Detection::new(now, FindingCode::StateInconsistent, at, now, || evidence),
        );
    }
}
