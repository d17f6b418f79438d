//! Finalizers that disappear from objects that are not being deleted, or that come and go.
//!
//! Managed fields do not show who removed a finalizer, because nobody owns it any more. The remover
//! is known only if the same version shows another change by it: an added finalizer or a changed
//! spec. Otherwise, a removal is suspicious only if the finalizer's controller adds the finalizer
//! again at once.

use std::sync::Arc;

use crate::finding::{Evidence, FindingCode, Value};
use crate::model::convergence::object_context::{ObjectContext, Update};
use crate::model::deletion::finalizers;
use crate::model::findings::detection::Detection;
use crate::model::world::finalizer_actors::FinalizerWriters;
use crate::model::world::store::FinalizerChange;
use crate::model::world::{controller_names, field_managers};
use crate::snapshot::FinalizerOutcome;
use crate::time::{Span, Timestamp};

/// The lint of an object with more finalizers than its view keeps.
const CUT: &str = "many_finalizers";

/// The maximum number of changes that are remembered per object. Beyond it, the oldest are
/// forgotten.
const MAX_CHANGES: usize = 32;

/// How soon the controller of a finalizer adds it again after somebody else removed it.
const REPAIRED_WITHIN: Span = Span::mins(1);

/// How long the finding about a lost finalizer stays open if nobody adds it again.
const LOST_FOR: Span = Span::hours(24);

impl ObjectContext<'_> {
    /// Compares the finalizers of two versions of an object that is not being deleted. Lists do not
    /// count, because only watch events show changes one at a time. A finalizer that is missing
    /// because the view was cut is not lost.
    pub(crate) fn update_finalizers(
        &mut self,
        update: &Update<'_>,
        old: &[Arc<str>],
        new: &[Arc<str>],
    ) {
        let is_cut = || update.view.lints.iter().any(|lint| lint == CUT);
        if update.new || !update.live || update.view.deleted.is_some() || old == new || is_cut() {
            return;
        }

        let removed = old.iter().filter(|finalizer| !new.contains(finalizer));
        let added: Vec<&Arc<str>> =
            new.iter().filter(|finalizer| !old.contains(finalizer)).collect();
        let writer = writer(update, &added);

        for finalizer in removed {
            let writer =
                writer.clone().filter(|writer| !self.is_ambiguous(finalizer, writer, &added));
            let lost =
                writer.as_deref().is_some_and(|writer| self.is_stranger(update, finalizer, writer));
            if lost {
                self.count_finalizer(finalizer, FinalizerOutcome::Lost);
            }

            let (finalizer, at, by) = (finalizer.clone(), self.now, writer);
            self.push_finalizer_change(FinalizerChange { finalizer, at, removed: true, by, lost });
        }

        for finalizer in added {
            self.finalizer_added(update, finalizer);
        }
    }

    /// Detects that another writer has removed a finalizer.
    pub(crate) fn finalizer_lost(&self) -> Option<Detection> {
        let changes = &self.record.hot.as_ref()?.history.as_ref()?.finalizers;
        let lost =
            changes.iter().rev().find(|change| change.lost && self.leaves_at(change) > self.now)?;
        let writers = self.kind.deletions.finalizer_writers.get(&lost.finalizer);
        let detection = self.detect(FindingCode::FinalizerLost, lost.at, lost.at, || {
            let added = writers
                .map(|writers| &writers.added)
                .into_iter()
                .flatten()
                .map(ToString::to_string);

            Evidence::new()
                .text("finalizer", lost.finalizer.to_string())
                .with("actor", Value::Names(added.collect()))
                .text("removed_by", lost.by.as_deref().unwrap_or("unknown").to_owned())
                .with("lost_at", Value::Time(lost.at))
        });

        Some(detection.suspected_if(lost.by.is_none()))
    }

    /// Detects that a finalizer comes and goes.
    pub(crate) fn finalizer_flapping(&self) -> Option<Detection> {
        let changes = &self.record.hot.as_ref()?.history.as_ref()?.finalizers;
        let window = self.settings.flap_window;
        let recent = || changes.iter().filter(|change| change.at.after(window) > self.now);
        let returns =
            |finalizer: &str| recent().filter(|c| !c.removed && *c.finalizer == *finalizer).count();
        let (finalizer, count) =
            recent().map(|c| (&c.finalizer, returns(&c.finalizer))).max_by_key(|(_, n)| *n)?;

        if count < self.threshold(FindingCode::FinalizerFlapping, self.settings.finalizer_returns) {
            return None;
        }

        let of_this = || recent().filter(|change| change.finalizer == *finalizer);
        let since = of_this().next().map_or(self.now, |change| change.at);
        Some(self.detect(FindingCode::FinalizerFlapping, since, self.now, || {
            let mut writers: Vec<String> = of_this()
                .filter_map(|change| change.by.as_ref())
                .map(ToString::to_string)
                .collect();

            writers.sort();
            writers.dedup();
            Evidence::new()
                .text("finalizer", finalizer.to_string())
                .with("returns", Value::count(count))
                .with("window", Value::Span(window))
                .with("writers", Value::Names(writers))
        }))
    }

    /// Returns when the next change becomes too old to matter.
    pub(crate) fn finalizer_changes_due(&self) -> Option<Timestamp> {
        let changes = &self.record.hot.as_ref()?.history.as_ref()?.finalizers;
        let leave = changes.iter().flat_map(|change| {
            [change.at.after(self.settings.flap_window), self.leaves_at(change)]
        });

        leave.filter(|at| *at > self.now).min()
    }

    /// Counts a finding about a flapping finalizer that has just opened.
    pub(crate) fn count_flapping(&mut self) {
        let changes = self
            .record
            .hot
            .as_ref()
            .and_then(|hot| hot.history.as_ref())
            .map(|history| &history.finalizers);

        let last =
            changes.and_then(|changes| changes.back()).map(|change| change.finalizer.clone());
        if let Some(finalizer) = last {
            self.count_finalizer(&finalizer, FinalizerOutcome::Flapping);
        }
    }

    /// Returns when a change becomes too old to matter: later for a lost finalizer that is still
    /// missing.
    fn leaves_at(&self, change: &FinalizerChange) -> Timestamp {
        let history = self.record.hot.as_ref().and_then(|hot| hot.history.as_ref());
        let last = history
            .and_then(|h| h.finalizers.iter().rev().find(|c| c.finalizer == change.finalizer));
        let is_missing = last.is_some_and(|last| last.removed);

        change.at.after(if is_missing && change.lost {
            LOST_FOR
        } else {
            self.settings.flap_window
        })
    }

    fn finalizer_added(&mut self, update: &Update<'_>, finalizer: &Arc<str>) {
        let now = self.now;
        let adder =
            update.view.managers.iter().find(|m| m.finalizers.iter().any(|f| **f == **finalizer));
        let by: Option<Arc<str>> = adder.map(|manager| manager.name.as_str().into());
        let repairs =
            by.as_deref().is_some_and(|name| field_managers::is_controller(update.view, name))
                && !update.spec_changed;
        let Some(history) = self.record.hot.as_mut().and_then(|hot| hot.history.as_mut()) else {
            return;
        };

        let last =
            history.finalizers.iter_mut().rev().find(|change| change.finalizer == *finalizer);
        let Some(removal) = last.filter(|change| change.removed) else { return };
        let was_repaired =
            repairs && removal.by.is_none() && now.since(removal.at) <= REPAIRED_WITHIN;

        removal.lost |= was_repaired;
        if was_repaired {
            self.count_finalizer(finalizer, FinalizerOutcome::Lost);
        }

        let finalizer = finalizer.clone();
        self.push_finalizer_change(FinalizerChange {
            finalizer,
            at: now,
            removed: false,
            by,
            lost: false,
        });
    }

    fn push_finalizer_change(&mut self, change: FinalizerChange) {
        let Some(history) = self.history() else { return };
        if history.finalizers.len() >= MAX_CHANGES {
            history.finalizers.pop_front();
        }

        history.finalizers.push_back(change);
    }

    fn count_finalizer(&mut self, finalizer: &Arc<str>, outcome: FinalizerOutcome) {
        if let Some(waits) = self.kind.waits_for(self.settings.limits.finalizers, finalizer) {
            waits.totals.outcomes[outcome as usize] += 1;
        }
    }

    /// Returns whether the name of a writer cannot show if the writer is the controller of the
    /// finalizer that it removed. Both may have the same generic name, and a new version of the
    /// operator may use another name and another finalizer. Then only the reaction of the
    /// controller can tell.
    fn is_ambiguous(&self, finalizer: &str, writer: &str, added: &[&Arc<str>]) -> bool {
        let mut own = added.iter().map(|added| self.is_of_operator(added));
        let was_of_operator = self.is_of_operator(finalizer);
        match controller_names::is_generic(writer) {
            true => own.any(|own| own != was_of_operator),
            false => was_of_operator && !added.is_empty() && own.all(|own| own),
        }
    }

    /// Returns whether the domain of a finalizer is one of the operator's.
    fn is_of_operator(&self, finalizer: &str) -> bool {
        finalizers::domain(finalizer).is_some_and(|domain| {
            let groups = self.served_groups.iter().chain([&self.kind.group]);
            groups.into_iter().any(|group| controller_names::is_within(domain, group))
        })
    }

    /// Returns whether the writer that removed a finalizer has nothing to do with it, as far as
    /// loopwatch knows.
    fn is_stranger(&self, update: &Update<'_>, finalizer: &str, writer: &str) -> bool {
        let Some(FinalizerWriters { added, removed }) =
            self.kind.deletions.finalizer_writers.get(finalizer)
        else {
            return false;
        };
        let knows = added.iter().any(|name| **name == *writer)
            || removed.iter().any(|(name, _)| **name == *writer);
        let of_persons = field_managers::is_client(writer)
            && added.iter().all(|name| field_managers::is_client(name));

        // A new version of the operator may have another name, and use another finalizer.
        let of_operator = finalizers::domain(finalizer).is_none() || self.is_of_operator(finalizer);
        let is_operator = of_operator
            && field_managers::status_writer(update.view).is_some_and(|m| m.name == *writer);
        !(added.is_empty() || knows || is_operator || of_persons)
    }
}

/// Returns the field manager that wrote a version, if another change in that version shows it.
fn writer(update: &Update<'_>, added: &[&Arc<str>]) -> Option<Arc<str>> {
    let adds = |finalizers: &[String]| {
        finalizers.iter().any(|f| added.iter().any(|added| ***added == **f))
    };
    let mut adders = update.view.managers.iter().filter(|m| adds(&m.finalizers));
    let adder = match (adders.next(), adders.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    };

    let spec_writer = || {
        update
            .view
            .managers
            .iter()
            .filter(|m| m.owns.spec && m.time.is_some())
            .max_by_key(|m| m.time)
    };

    let writer = adder.or_else(|| spec_writer().filter(|_| update.spec_changed));
    writer.map(|manager| manager.name.as_str().into())
}
