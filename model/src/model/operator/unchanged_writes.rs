//! The verdict on writes that change nothing: the operator sends them again and again, and no object
//! changes. The API server stores no new version for such a write, so no watch shows it. Only the metrics
//! of the operator count it.
//!
//! ```text
//!   accepted PUT and PATCH = changes + leases + writes that change nothing
//! ```
//!
//! loopwatch counts the changes of the objects that it watches, by any client. If the operator may also
//! write kinds that loopwatch does not watch, the finding is only suspected.

use std::collections::BTreeSet;

use crate::finding::{Evidence, FindingCode, Value};
use crate::model::findings::detection::Detection;
use crate::model::operator::pace::is_blind;
use crate::model::operator::review::Verdicts;
use crate::model::operator::scraped::leading;
use crate::model::operator::window::percentage;
use crate::model::operator::{Instance, Operator};
use crate::model::world::World;
use crate::observation::{Permission, with_group};

const CODE: FindingCode = FindingCode::UnchangedWrites;

/// The maximum number of kinds that the evidence names.
const MAX_NAMED: usize = 3;

/// Writes to these resources change no object that anybody works on.
const BOOKKEEPING: [(&str, &str); 3] =
    [("coordination.k8s.io", "leases"), ("", "events"), ("events.k8s.io", "events")];

/// Returns the resources that the operator may update although loopwatch does not watch them; `None` if the
/// permissions of the operator are not known.
fn unwatched(world: &World) -> Option<BTreeSet<String>> {
    if !world.knows_permissions() {
        return None;
    }

    let is_update = |it: &&Permission| matches!(it.verb.as_str(), "update" | "patch" | "*");
    let updates = world.permissions.iter().flat_map(|(namespace, view)| {
        view.granted.iter().filter(is_update).map(move |permission| (namespace, permission))
    });
    let resources = updates.map(|(namespace, permission)| {
        let resource = permission.resource.split('/').next().unwrap_or_default();
        (namespace, (permission.group.as_str(), resource))
    });
    let is_watched = |namespace: &str, (group, resource): (&str, &str)| {
        world.watches.iter().filter(|watch| watch.active).any(|watch| {
            let kind = &world.kinds[usize::from(watch.kind)];
            let is_of_kind = *kind.group == *group && kind.resource == resource;
            is_of_kind && watch.covers_all_of(namespace)
        })
    };

    let unwatched = resources
        .filter(|(namespace, of)| !BOOKKEEPING.contains(of) && !is_watched(namespace, *of));
    Some(unwatched.map(|(_, (group, resource))| with_group(resource, group)).collect())
}

impl Operator {
    /// Judges the writes of an instance after a scrape. While loopwatch does not see all changes, it cannot
    /// tell.
    pub(super) fn note_unchanged_writes(&mut self, world: &World, instance: &str) {
        let open = self.is_found(CODE);
        let Some(Instance { history, .. }) = self.instances.get_mut(instance) else { return };

        let written = &mut history.written;
        let is_hot = if is_blind(world) { open } else { written.is_hot(world, open) };
        written.since = written.since.or(Some(world.now)).filter(|_| is_hot);
    }

    /// Detects an instance that has sent such writes for long.
    pub(super) fn unchanged_writes(&self, world: &World, verdicts: &mut Verdicts) {
        let long = self.fresh_instances(world).filter_map(|(name, at, instance)| {
            let since = instance.history.written.since?;
            let is_long = at.since(since) >= world.settings.silent_loop_after;
            (is_long && leading(instance) != Some(false)).then_some((since, name, instance))
        });
        let Some((since, name, instance)) = long.min_by_key(|(since, ..)| *since) else { return };

        let written = &instance.history.written;
        let (unchanged, seconds) = (written.unchanged(), written.seconds());
        let unwatched = unwatched(world);
        let percent = percentage(unchanged, written.sent.sum());
        let named = unwatched.iter().flatten().take(MAX_NAMED).cloned().collect::<Vec<_>>();
        let detection = Detection::new(world.now, CODE, since, world.now, || {
            Evidence::new()
                .text("instance", name)
                .with("writes_per_second", Value::count(unchanged / seconds))
                .with("unchanged_percent", Value::count(percent))
                .with("changes", Value::count(written.changes.sum()))
                .with("window", Value::Span(written.window))
                .names("unwatched", named)
        });

        let is_certain = unwatched.is_some_and(|unwatched| unwatched.is_empty());
        verdicts.push(self.operator_subject(), detection.suspected_if(!is_certain));
    }
}
