//! The model: all watched objects, and the findings about them.
//!
//! [`Model::apply`] is the only input: it fires the timers that are due, each at its own due time,
//! and then handles the observation. Start to read in `steps/apply.rs`, which dispatches each
//! observation. Objects live in `world/store.rs`, and `steps/version.rs` takes one version of an
//! object through the parts. The code that judges an object works on an `ObjectContext`, which also
//! gives access to the object's kind and to the totals of its namespace.
//!
//! The parts are listed in the order in which a newcomer should read them.

pub(crate) mod status;
pub(crate) mod world;
pub(crate) mod findings;
mod visibility;
mod kube_events; // Kubernetes Events about objects
pub(crate) mod traces; // what happened during an obligation or a deletion
mod convergence;
mod deletion;
mod ownership;
mod references;
mod configuration;
mod writes; // writes that should not happen
mod machinery; // the machinery around the API
pub(crate) mod operator;
pub(crate) mod recent_past; // the last hours, for charts
mod recent_changes; // of single objects, for explanations
mod part; // the interface of the parts
mod parts; // all of them
mod steps;
mod output;

use std::collections::BTreeMap;

use self::findings::open_findings::OpenFindings;
use self::kube_events::KubeEvents;
use self::operator::Operator;
use self::part::StepContext;
use self::parts::Parts;
use self::recent_past::Points;
use self::traces::Traces;
use self::world::World;
use crate::settings::Settings;
use crate::time::Span;

pub use self::findings::tuning;
pub use self::operator::leases::LeaderElection;
pub use self::status::reading;
pub use self::world::annotations as annotated;

/// The model. [`Model::apply`] is its only input; [`Model::snapshot`], [`Model::finding_events`],
/// [`Model::reference_events`], [`Model::traces`], [`Model::probes`] and [`Model::checkpoint`] are
/// its output.
#[derive(Debug)]
pub struct Model {
    world: World,
    operator: Operator,
    findings: OpenFindings,
    /// The parts that draw conclusions about objects, each with its own state.
    parts: Parts,
    kube_events: KubeEvents,
    traces: Traces,
    recent_past: Points,
    /// The number of observations of each source.
    observations: BTreeMap<&'static str, u64>,
}

impl Model {
    /// Returns an empty model.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            world: World::new(settings),
            operator: Operator::default(),
            findings: OpenFindings::default(),
            parts: Parts::default(),
            kube_events: KubeEvents::default(),
            traces: Traces::default(),
            recent_past: Points::default(),
            observations: BTreeMap::new(),
        }
    }

    /// Returns an empty model for a single look at the objects. Since nobody looks again, a failure counts at
    /// once, and the time for which a ticket is open until it pages counts from when the problem became one.
    #[must_use]
    pub fn for_one_look(settings: Settings) -> Self {
        let mut model = Self::new(Settings { reject_after: Span::ZERO, ..settings });
        model.world.looks_once = true;
        model
    }

    /// Returns the parts, and what they may use in a step.
    fn parts(&mut self) -> (&mut Parts, StepContext<'_>) {
        let (world, findings) = (&mut self.world, &mut self.findings);
        (&mut self.parts, StepContext { world, operator: &self.operator, findings })
    }
}
