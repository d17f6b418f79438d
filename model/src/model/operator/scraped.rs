//! One controller of an instance as the last scrape shows it, for the detectors.

use std::collections::BTreeSet;

use crate::checkpoint::ReconcileMemory;
use crate::finding::{Evidence, FindingCode, Subject};
use crate::model::findings::detection::Detection;
use crate::model::operator::Instance;
use crate::model::operator::history::{History, Loop};
use crate::model::world::World;
use crate::observation::{ControllerView, ProfileView};
use crate::time::Timestamp;

/// One controller of an instance at its last scrape.
pub(super) struct Scraped<'a> {
    pub(super) at: Timestamp,
    pub(super) instance: &'a str,
    pub(super) history: &'a History,
    /// The last comparison of its goroutines.
    pub(super) goroutines: Option<&'a ProfileView>,
    pub(super) own: &'a Loop,
    pub(super) view: &'a ControllerView,
    pub(super) usual: ReconcileMemory,
    /// The open findings about the operator.
    pub(super) found: &'a BTreeSet<(FindingCode, Subject)>,
}

impl Scraped<'_> {
    /// Returns whether a finding about the controller is open.
    pub(super) fn is_open(&self, code: FindingCode) -> bool {
        self.found.contains(&(code, Subject::Controller { name: self.view.name.clone() }))
    }
}

/// Returns a finding about a controller, with the name of the instance as its first evidence.
pub(super) fn of_loop(
    world: &World,
    scraped: &Scraped<'_>,
    code: FindingCode,
    since: Timestamp,
    evidence: impl FnOnce(Evidence) -> Evidence,
) -> Detection {
    let instance = Evidence::new().text("instance", scraped.instance);
    Detection::new(world.now, code, since, world.now, || evidence(instance))
}

/// Returns whether an instance leads, as far as its metrics tell.
pub(super) fn leading(instance: &Instance) -> Option<bool> {
    instance.metrics.as_ref().and_then(|(_, metrics)| metrics.leading)
}
