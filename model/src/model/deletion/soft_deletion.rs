//! Soft deletion: objects that annotations mark as deleted, although they still exist.

use std::collections::BTreeMap;

use crate::finding::{Evidence, FindingCode, Value};
use crate::model::findings::detection::Detection;
use crate::model::findings::open_findings::OpenFindings;
use crate::model::part::{Part, StepContext, Version};
use crate::model::world::World;
use crate::model::world::limits::Limit;
use crate::model::world::store::Slot;
use crate::observation::ObjectView;
use crate::snapshot::{SoftDeletePhase, SoftDeleteSummary};
use crate::time::Timestamp;

pub(crate) use crate::model::world::limits::MAX_SOFT_DELETED;

/// From this number on, a time is in milliseconds rather than in seconds.
const MILLISECONDS_FROM: i64 = 100_000_000_000;
/// Values of the annotation for an object that is not deleted.
const OFF: [&str; 6] = ["", "0", "disabled", "false", "no", "off"];

/// The objects that annotations mark as deleted.
#[derive(Debug, Default)]
pub(crate) struct SoftDeletions {
    /// At most [`MAX_SOFT_DELETED`].
    objects: BTreeMap<Slot, SoftDeleted>,
}

/// The marks of one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SoftDeleted {
    phase: SoftDeletePhase,
    /// When the object was marked, or when loopwatch saw the mark first.
    since: Timestamp,
    /// `since` is the time in the annotation.
    dated: bool,
    /// The annotation with the time does not contain a valid time.
    malformed: bool,
}

impl SoftDeletePhase {
    fn of(text: &str) -> Self {
        match text.trim().to_ascii_lowercase().as_str() {
            "canary" => Self::Canary,
            "stable" => Self::Stable,
            "off" => Self::Off,
            _ => Self::Other,
        }
    }
}

/// Returns whether the value of the mark says that the object is deleted.
fn is_on(value: &str) -> bool {
    !OFF.contains(&value.trim().to_ascii_lowercase().as_str())
}

/// Parses an RFC 3339 time, or seconds or milliseconds since the Unix epoch.
fn time(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    match text.parse::<i64>() {
        Ok(seconds) if (1..MILLISECONDS_FROM).contains(&seconds) => Some(Timestamp(seconds * 1000)),
        Ok(milliseconds) => (milliseconds >= MILLISECONDS_FROM).then_some(Timestamp(milliseconds)),
        Err(_) => Timestamp::parse(text),
    }
}

impl Part for SoftDeletions {
    fn seen(&mut self, step: &mut StepContext<'_>, version: &Version<'_>) {
        self.update_soft_deletion(step.world, step.findings, version.slot, version.view);
    }

    fn removed(&mut self, _step: &mut StepContext<'_>, slot: Slot, _deleted: bool) {
        self.objects.remove(&slot);
    }

    fn detections(&mut self, step: &mut StepContext<'_>, slot: Slot) -> Vec<Detection> {
        self.soft_delete_lingering(step.world, slot).into_iter().collect()
    }

    /// Leaves the times from annotations as they are: another clock set them.
    fn clock_stepped(&mut self, by_ms: i64) {
        let undated = self.objects.values_mut().filter(|marks| !marks.dated);
        undated.for_each(|marks| marks.since = marks.since.shifted(by_ms));
    }
}

impl SoftDeletions {
    /// Returns the objects that are marked.
    #[cfg(test)]
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.objects.keys().copied()
    }

    /// Reads the annotations that mark an object as deleted.
    fn update_soft_deletion(
        &mut self,
        world: &mut World,
        findings: &OpenFindings,
        slot: Slot,
        view: &ObjectView,
    ) {
        let mark = |key: &str| view.annotations.get(key).map(String::as_str);
        if !mark(&world.settings.soft_delete_enable).is_some_and(is_on) {
            self.objects.remove(&slot);
            return;
        }

        let known = self.objects.get(&slot).copied();
        if known.is_none() && self.objects.len() >= MAX_SOFT_DELETED {
            return world.count_dropped(Limit::SoftDeleted);
        }

        let text = mark(&world.settings.soft_delete_time);
        let at = text.and_then(time).filter(|at| *at <= world.now);
        let first_seen = || match known.filter(|known| !known.dated) {
            Some(known) => known.since,
            // An earlier process may have seen it before.
            None => restored_lingering(world, findings, slot).unwrap_or(world.now),
        };
        let soft_deleted = SoftDeleted {
            phase: SoftDeletePhase::of(mark(&world.settings.soft_delete_phase).unwrap_or_default()),
            since: at.unwrap_or_else(first_seen),
            dated: at.is_some(),
            malformed: text.is_some() && at.is_none(),
        };

        self.objects.insert(slot, soft_deleted);
    }
}

fn restored_lingering(world: &World, findings: &OpenFindings, slot: Slot) -> Option<Timestamp> {
    if !findings.has_restored() {
        return None;
    }

    let created = world.store.get(slot)?.created();
    let start = findings.restored_start(FindingCode::SoftDeleteLingering, &world.subject(slot));

    start.filter(|at| Some(*at) >= created)
}

impl SoftDeletions {
    /// Detects an object that was marked as deleted long ago.
    fn soft_delete_lingering(&self, world: &World, slot: Slot) -> Option<Detection> {
        let SoftDeleted { phase, since, dated, malformed } = *self.objects.get(&slot)?;
        let record = world.store.get(slot)?;
        let deleted = record.deletion().is_some();

        if deleted {
            return None; // it is really being deleted now
        }

        let created = record.created();
        let threshold = world.settings.soft_deleted_after;
        let detection = Detection::new(
            world.now,
            FindingCode::SoftDeleteLingering,
            since,
            since.after(threshold),
            || {
                let evidence = Evidence::new()
                    .text("phase", phase.as_str())
                    .text("marked_by", world.settings.soft_delete_enable.clone())
                    .with("marked_for", Value::Age(since))
                    .with("threshold", Value::Span(threshold));
                let evidence =
                    if dated { evidence.with("deleted_at", Value::Time(since)) } else { evidence };
                let unusable = || format!("{} is not a past time", world.settings.soft_delete_time);
                if malformed { evidence.text("problem", unusable()) } else { evidence }
            },
        );

        Some(detection.not_before(if dated { Some(since) } else { created }))
    }

    /// Returns the objects that are marked as deleted, by kind and phase. Objects that no watch can
    /// see do not count.
    pub(crate) fn soft_deletions(
        &self,
        world: &World,
    ) -> BTreeMap<u16, BTreeMap<SoftDeletePhase, SoftDeleteSummary>> {
        let mut kinds: BTreeMap<u16, BTreeMap<SoftDeletePhase, SoftDeleteSummary>> =
            BTreeMap::new();
        for (slot, marks) in &self.objects {
            let watch = world.store.get(*slot).map(|record| &world.watches[record.watch as usize]);
            let Some(watch) = watch.filter(|watch| watch.blindness.blind.is_none()) else {
                continue;
            };
            let summary = kinds.entry(watch.kind).or_default().entry(marks.phase).or_default();
            summary.objects += 1;
            summary.oldest =
                Some(summary.oldest.map_or(marks.since, |oldest| oldest.min(marks.since)));
        }

        kinds
    }
}
