//! Soft deletion: objects that somebody has deleted, and that their operator keeps for a while.
//!
//! Such an object is being deleted and held by a finalizer for soft deletion, or an annotation has
//! the time of its deletion, or its phase is `SoftDeleted`. Other annotations only switch the
//! feature on, and say how far its rollout is: `canary`, `stable` or `off`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::finding::{Evidence, FindingCode, Value};
use crate::model::findings::detection::Detection;
use crate::model::findings::open_findings::OpenFindings;
use crate::model::part::{Part, StepContext, Version};
use crate::model::status::reading;
use crate::model::world::World;
use crate::model::world::crowd::{self, Crowd};
use crate::model::world::limits::Limit;
use crate::model::world::store::{Deletion, Slot};
use crate::observation::ObjectView;
use crate::settings::Settings;
use crate::snapshot::{SoftDeletePhase, SoftDeleteSummary};
use crate::time::Timestamp;

pub(crate) use crate::model::world::limits::MAX_SOFT_DELETED;

/// From this number on, a time is in milliseconds rather than in seconds.
const MILLISECONDS_FROM: i64 = 100_000_000_000;

/// Values of the annotation that switches soft deletion on, for a feature that is off.
const OFF: [&str; 5] = ["0", "disabled", "false", "no", "off"];

/// The phase of a soft-deleted object, in lower case and without separators.
const PHASE: &str = "softdeleted";

/// The objects that are soft-deleted, and those that could be although the feature is off.
#[derive(Debug, Default)]
pub(crate) struct SoftDeletions {
    /// At most [`MAX_SOFT_DELETED`].
    objects: BTreeMap<Slot, SoftDeleted>,
    by_namespace: Crowd<Arc<str>, Slot>,
}

/// What is known about the soft deletion of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SoftDeleted {
    phase: SoftDeletePhase,
    /// What shows that the object is deleted; `None` if it is not.
    mark: Option<Mark>,
    /// When the object was deleted, or when loopwatch first saw that.
    since: Timestamp,
    /// `since` is a time in the object.
    dated: bool,
    /// The annotation with the time does not contain a valid time.
    malformed: bool,
    /// The finalizer for soft deletion.
    finalizer: Option<Box<str>>,
    /// Since when the object has such a finalizer although soft deletion is off.
    contradicts_since: Option<Timestamp>,
}

/// What shows that an object is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Finalizer,
    Time,
    Phase,
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

/// Returns the characters of a text in lower case and without separators.
fn plain(text: &str) -> impl Iterator<Item = char> + Clone {
    text.chars().filter(|c| !matches!(c, '-' | '_')).map(|c| c.to_ascii_lowercase())
}

/// Returns whether a text contains a word, regardless of case and separators. Each version of each
/// object asks this of each finalizer, so it does not allocate.
fn contains_plain(text: &str, word: &str) -> bool {
    let mut rest = plain(text);
    loop {
        let mut from = rest.clone();
        if plain(word).all(|wanted| from.next() == Some(wanted)) {
            return true;
        }

        if rest.next().is_none() {
            return false;
        }
    }
}

/// Returns whether a finalizer keeps soft-deleted objects.
pub(crate) fn is_soft_delete(settings: &Settings, finalizer: &str) -> bool {
    let word = &settings.soft_delete_finalizer;
    !word.is_empty() && contains_plain(finalizer, word)
}

/// Returns whether a finalizer for soft deletion holds an object that is being deleted, so that its
/// other finalizers wait on purpose.
pub(crate) fn holds(settings: &Settings, deletion: &Deletion) -> bool {
    deletion.own_finalizers().any(|finalizer| is_soft_delete(settings, finalizer))
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

    fn removed(&mut self, step: &mut StepContext<'_>, slot: Slot, _deleted: bool) {
        self.forget(step.world, slot);
    }

    fn detections(&mut self, step: &mut StepContext<'_>, slot: Slot) -> Vec<Detection> {
        self.soft_delete_lingering(step.world, slot).into_iter().collect()
    }

    /// Leaves the times in objects as they are: another clock set them.
    fn clock_stepped(&mut self, by_ms: i64) {
        for object in self.objects.values_mut() {
            let undated = Some(&mut object.since).filter(|_| !object.dated);
            let own = undated.into_iter().chain(&mut object.contradicts_since);
            own.for_each(|at| *at = at.shifted(by_ms));
        }
    }
}

impl SoftDeletions {
    fn forget(&mut self, world: &World, slot: Slot) {
        if self.objects.remove(&slot).is_some()
            && let Some(record) = world.store.get(slot)
        {
            self.by_namespace.remove(&record.namespace, &slot);
        }
    }

    /// Returns the objects that are soft-deleted.
    #[cfg(test)]
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.objects.keys().copied()
    }

    /// Reads whether an object is soft-deleted.
    fn update_soft_deletion(
        &mut self,
        world: &mut World,
        findings: &OpenFindings,
        slot: Slot,
        view: &ObjectView,
    ) {
        let settings = &world.settings;
        let annotation = |key: &str| view.annotations.get(key).map(String::as_str);
        let phase =
            SoftDeletePhase::of(annotation(&settings.soft_delete_phase).unwrap_or_default());
        let finalizer = view.finalizers.iter().find(|name| is_soft_delete(settings, name));
        let text = annotation(&settings.soft_delete_time).filter(|text| !text.is_empty());

        let mark = match (view.deleted.is_some(), finalizer) {
            (true, Some(_)) => Some(Mark::Finalizer),
            (true, None) => None, // it is really being deleted now
            (false, _) if text.is_some() => Some(Mark::Time),
            (false, _) => plain(reading::phase(view)).eq(PHASE.chars()).then_some(Mark::Phase),
        };
        let is_off = annotation(&settings.soft_delete_enable)
            .is_some_and(|value| OFF.contains(&value.trim().to_ascii_lowercase().as_str()));
        let contradicts = finalizer.is_some() && (is_off || phase == SoftDeletePhase::Off);
        if mark.is_none() && !contradicts {
            return self.forget(world, slot);
        }

        let Some(namespace) = world.store.get(slot).map(|record| record.namespace.clone()) else {
            return;
        };
        if !self.objects.contains_key(&slot) && !self.make_room(world, &namespace) {
            return;
        }

        let known = self.objects.get(&slot);

        let written = text.and_then(time).filter(|at| *at <= world.now);
        let at = view.deleted.filter(|_| mark == Some(Mark::Finalizer)).or(written);
        // An earlier process may have seen it before.
        let first = || restored_lingering(world, findings, slot).unwrap_or(world.now);
        let undated = known.filter(|known| !known.dated && known.mark.is_some() == mark.is_some());
        let since = at.or(undated.map(|known| known.since)).unwrap_or_else(first);
        let contradicted = known.and_then(|known| known.contradicts_since);
        let soft_deleted = SoftDeleted {
            phase,
            mark,
            since,
            dated: at.is_some(),
            malformed: text.is_some() && written.is_none(),
            finalizer: finalizer.map(|name| name.as_str().into()),
            contradicts_since: contradicts.then(|| contradicted.unwrap_or_else(first)),
        };

        self.objects.insert(slot, soft_deleted);
        self.by_namespace.insert(&namespace, slot, 1);
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
    /// Makes room for an object: one of the namespace with most of them is forgotten. Returns whether
    /// there is room.
    fn make_room(&mut self, world: &mut World, namespace: &Arc<str>) -> bool {
        let has_room = |known: &Self| known.objects.len() < MAX_SOFT_DELETED;
        let leaves = |known: &Self| known.by_namespace.leaves_for(namespace, 1).copied();
        let forget = |known: &mut Self, world: &mut World, other| {
            known.forget(world, other);
            world.agenda.objects.insert(other);
        };

        crowd::make_room(self, world, Limit::SoftDeleted, has_room, leaves, forget)
    }
}

impl SoftDeletions {
    /// Detects an object that was soft-deleted long ago, or that has a finalizer for soft deletion
    /// although the feature is off.
    fn soft_delete_lingering(&self, world: &World, slot: Slot) -> Option<Detection> {
        let object = self.objects.get(&slot)?;
        let (settings, created) = (&world.settings, world.store.get(slot)?.created());
        let (since, threshold, not_before) = match object.contradicts_since {
            Some(since) => (since, settings.finalizer_stuck_after, created),
            None if object.dated => (object.since, settings.soft_deleted_after, Some(object.since)),
            None => (object.since, settings.soft_deleted_after, created),
        };

        let due = since.after(threshold);
        let code = FindingCode::SoftDeleteLingering;
        let detection = Detection::new(world.now, code, since, due, || {
            object.evidence(settings).with("threshold", Value::Span(threshold))
        });
        Some(detection.not_before(not_before))
    }

    /// Returns the objects that are soft-deleted, by kind and phase. Objects that no watch can see
    /// do not count.
    pub(crate) fn soft_deletions(
        &self,
        world: &World,
    ) -> BTreeMap<u16, BTreeMap<SoftDeletePhase, SoftDeleteSummary>> {
        let mut kinds: BTreeMap<u16, BTreeMap<SoftDeletePhase, SoftDeleteSummary>> =
            BTreeMap::new();
        for (slot, marks) in self.objects.iter().filter(|(_, object)| object.mark.is_some()) {
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

impl SoftDeleted {
    fn evidence(&self, settings: &Settings) -> Evidence {
        let marked_by = match self.mark {
            Some(Mark::Time) => settings.soft_delete_time.clone(),
            Some(Mark::Phase) => "phase SoftDeleted".to_owned(),
            Some(Mark::Finalizer) | None => {
                format!("finalizer {}", self.finalizer.as_deref().unwrap_or_default())
            }
        };
        let evidence =
            Evidence::new().text("phase", self.phase.as_str()).text("marked_by", marked_by);
        let evidence = match self.mark {
            Some(_) => evidence.with("marked_for", Value::Age(self.since)),
            None => evidence,
        };
        let is_dated = self.dated && self.mark.is_some();
        let evidence =
            evidence.with_some("deleted_at", is_dated.then_some(Value::Time(self.since)));

        if self.contradicts_since.is_some() {
            return evidence.text("problem", "soft deletion is off, but the finalizer remains");
        }

        match self.malformed {
            true => evidence
                .text("problem", format!("{} is not a past time", settings.soft_delete_time)),
            false => evidence,
        }
    }
}
