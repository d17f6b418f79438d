//! The verdict on a loop that no watch shows: a controller reconciles objects that are at rest again and
//! again, because it asks for that itself, and changes nothing.
//!
//! ```text
//!   reconciles = one or two per change + some per object in progress + the loop
//! ```
//!
//! Work that others cause is no loop. So a loop needs far more reconciles than loopwatch sees changes, and
//! most of them must be ones that the controller asked for. A controller whose metrics do not show that may
//! answer changes of objects that loopwatch does not watch.

use crate::finding::{FindingCode, Subject, Value};
use crate::model::findings::detection::Detection;
use crate::model::operator::pace::{Objects, is_blind};
use crate::model::operator::reconciled;
use crate::model::operator::scraped::{Scraped, of_loop};
use crate::model::operator::window::percentage;
use crate::model::operator::{Instance, Operator};
use crate::model::world::World;
use crate::observation::{Permission, PermissionsView};

const CODE: FindingCode = FindingCode::SilentHotLoop;

impl Operator {
    /// Judges the controllers of an instance after a scrape. While loopwatch does not see all changes, it
    /// cannot tell.
    pub(super) fn note_silent_loops(&mut self, world: &World, instance: &str) {
        let is_blind = is_blind(world);
        let Self { instances, found, .. } = self;
        let Some(Instance { metrics: Some((_, view)), history, .. }) = instances.get_mut(instance)
        else {
            return;
        };

        for view in &view.controllers {
            let Some(own) = history.controllers.get_mut(&view.name) else { continue };
            let subject = Subject::Controller { name: view.name.clone() };
            let open = found.contains(&(CODE, subject));
            let is_hot = if is_blind { open } else { own.pace.is_hot(world, view, open) };
            own.pace.since = own.pace.since.or(Some(world.now)).filter(|_| is_hot);
        }
    }
}

/// Detects a controller that has been in such a loop for long.
pub(super) fn silent_hot_loop(world: &World, scraped: &Scraped<'_>) -> Option<Detection> {
    let pace = &scraped.own.pace;
    let since = pace.since?;
    if scraped.at.since(since) < world.settings.silent_loop_after {
        return None;
    }

    let ended = pace.ended.sum();
    let seconds = pace.seconds();
    let objects = Objects::of(world, &scraped.view.name);
    let detection = of_loop(world, scraped, CODE, since, |evidence| {
        evidence
            .with("reconciles_per_second", Value::count(ended / seconds))
            .with("objects", Value::count(objects.at_rest + objects.in_progress))
            .with("changes", Value::count(pace.changes.sum()))
            .with("requeued_percent", Value::count(percentage(pace.requeued.sum(), ended)))
            .with("window", Value::Span(pace.window))
    });

    Some(detection.suspected_if(!sees_all_of(world, &scraped.view.name)))
}

/// Returns whether loopwatch sees all objects that a controller reconciles. A controller may poll others on
/// purpose.
fn sees_all_of(world: &World, controller: &str) -> bool {
    let Some(number) = reconciled::kind_of_controller(world, controller) else { return false };
    let watches = || world.watches.iter().filter(|watch| watch.active && watch.kind == number);
    let is_watched = |namespace: &str| watches().any(|watch| watch.covers_all_of(namespace));

    // The operator cannot see more than its permissions allow, if they are known.
    let kind = &world.kinds[usize::from(number)];
    let is_of_kind = |it: &Permission| it.group == *kind.group && it.resource == kind.resource;
    let allows = |view: &PermissionsView| view.granted.iter().any(is_of_kind);
    let mut granted = world.permissions.iter().filter(|(_, view)| allows(view));

    is_watched("")
        || (world.knows_permissions() && granted.all(|(namespace, _)| is_watched(namespace)))
}
