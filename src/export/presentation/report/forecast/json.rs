//! The JSON of `what-if`. Version 1 is permanent: later releases only add fields.

use loopwatch_model::cascade::{
    Blocker, Claim, Expected, Fate, Graph, Kept, Node, NodeId, Reason, Step, Stranded, Taken,
    built_in_actor,
};
use loopwatch_model::observation::LeftOut;
use serde::Serialize;

use super::context::Forecast;
use super::sections;
use crate::export::presentation::json::VERSION;

/// `what-if -o json`.
#[derive(Debug, Serialize)]
pub(super) struct ForecastResponse<'a> {
    version: u32,
    action: &'static str,
    cascade: &'static str,
    /// Whether nothing stops the deletion.
    clear: bool,
    /// Whether there may be further objects, which loopwatch could not read.
    at_least: bool,
    targets: Vec<ObjectShape<'a>>,
    deleted: Vec<DeletedShape<'a>>,
    kept: Vec<KeptShape<'a>>,
    deleted_anyway: Vec<ObjectShape<'a>>,
    blocked_by: Vec<BlockerShape<'a>>,
    /// Other objects that are being deleted already and stay, although an owner is deleted.
    lingering: Vec<BlockerShape<'a>>,
    stranded_finalizers: Vec<StrandedShape<'a>>,
    /// Finalizers that Kubernetes removes when nothing uses their objects any more, which is not checked.
    expected_finalizers: Vec<ExpectedShape<'a>>,
    better_order: Vec<StepShape<'a>>,
    shared: Vec<PartShape<'a>>,
    not_visible: Vec<PartShape<'a>>,
}

#[derive(Debug, Serialize)]
struct ObjectShape<'a> {
    group: &'a str,
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
}

#[derive(Debug, Serialize)]
struct DeletedShape<'a> {
    #[serde(flatten)]
    object: ObjectShape<'a>,
    /// `removed`, `terminating` or `later`.
    fate: &'static str,
    /// Whether the object may be `removed` or `terminating`, depending on timing.
    depends_on_timing: bool,
    /// The object whose deletion causes this one; null for a target.
    because: Option<ObjectShape<'a>>,
}

#[derive(Debug, Serialize)]
struct KeptShape<'a> {
    #[serde(flatten)]
    object: ObjectShape<'a>,
    owner: ObjectShape<'a>,
    reason: &'static str,
    other_owner: Option<ObjectShape<'a>>,
}

#[derive(Debug, Serialize)]
struct BlockerShape<'a> {
    #[serde(flatten)]
    object: ObjectShape<'a>,
    finalizers: &'a [String],
    waits_for: Vec<ObjectShape<'a>>,
    /// Other reasons for which the object stays.
    kept_by: &'a [String],
}

#[derive(Debug, Serialize)]
struct StrandedShape<'a> {
    finalizer: &'a str,
    confidence: &'static str,
    objects: Vec<ObjectShape<'a>>,
}

#[derive(Debug, Serialize)]
struct ExpectedShape<'a> {
    finalizer: &'a str,
    /// The component of Kubernetes that removes the finalizer, and when.
    actor: &'static str,
    objects: Vec<ObjectShape<'a>>,
}

#[derive(Debug, Serialize)]
struct StepShape<'a> {
    /// `delete`, `wait`, `delete_targets` or `delete_definitions`.
    step: &'static str,
    objects: Vec<ObjectShape<'a>>,
    commands: Vec<String>,
}

#[derive(Debug, Serialize)]
struct PartShape<'a> {
    what: &'a str,
    why: &'a str,
}

impl<'a> ForecastResponse<'a> {
    pub(super) fn of(forecast: &Forecast<'a>) -> Self {
        let shapes = Shapes(forecast.graph);
        let prediction = forecast.prediction;
        let step = |step: &Step| StepShape {
            step: step_name(step),
            objects: shapes.objects(nodes_of(step)),
            commands: sections::commands(forecast, step),
        };

        Self {
            version: VERSION,
            action: if forecast.operator.is_some() { "uninstall" } else { "delete" },
            cascade: forecast.request.cascade.as_str(),
            clear: forecast.is_clear(),
            at_least: forecast.is_lower_limit(),
            targets: shapes.objects(&forecast.request.targets),
            deleted: prediction.taken.iter().map(|taken| shapes.deleted(taken)).collect(),
            kept: prediction.kept.iter().map(|kept| shapes.kept(kept)).collect(),
            deleted_anyway: shapes.objects(&prediction.anyway),
            blocked_by: prediction.blockers.iter().map(|it| shapes.blocker(it)).collect(),
            lingering: prediction.lingering.iter().map(|it| shapes.blocker(it)).collect(),
            stranded_finalizers: prediction.stranded.iter().map(|it| shapes.stranded(it)).collect(),
            expected_finalizers: prediction.expected.iter().map(|it| shapes.expected(it)).collect(),
            better_order: prediction.steps.iter().map(step).collect(),
            shared: forecast.shared.iter().map(PartShape::of).collect(),
            not_visible: forecast.left_out.iter().map(PartShape::of).collect(),
        }
    }
}

impl<'a> PartShape<'a> {
    fn of(LeftOut { what, why }: &'a LeftOut) -> Self {
        Self { what, why }
    }
}

/// Builds the shapes of objects.
struct Shapes<'a>(&'a Graph);

impl<'a> Shapes<'a> {
    fn object(&self, id: NodeId) -> ObjectShape<'a> {
        let Node { group, kind, namespace, name, uid, .. } = self.0.node(id);
        ObjectShape { group, kind, namespace, name, uid }
    }

    fn objects(&self, ids: &[NodeId]) -> Vec<ObjectShape<'a>> {
        ids.iter().map(|id| self.object(*id)).collect()
    }

    fn deleted(&self, taken: &Taken) -> DeletedShape<'a> {
        DeletedShape {
            object: self.object(taken.node),
            fate: fate(taken.fate),
            depends_on_timing: taken.depends_on_timing,
            because: taken.because.map(|id| self.object(id)),
        }
    }

    fn kept(&self, kept: &Kept) -> KeptShape<'a> {
        let (reason, other) = reason(kept.reason);
        KeptShape {
            object: self.object(kept.node),
            owner: self.object(kept.owner),
            reason,
            other_owner: other.map(|id| self.object(id)),
        }
    }

    fn blocker(&self, blocker: &'a Blocker) -> BlockerShape<'a> {
        BlockerShape {
            object: self.object(blocker.node),
            finalizers: &blocker.finalizers,
            waits_for: self.objects(&blocker.waits_for),
            kept_by: &self.0.node(blocker.node).kept_by,
        }
    }

    fn expected(&self, Expected { finalizer, nodes }: &'a Expected) -> ExpectedShape<'a> {
        let actor = built_in_actor(finalizer).unwrap_or_default();
        ExpectedShape { finalizer, actor, objects: self.objects(nodes) }
    }

    fn stranded(&self, stranded: &'a Stranded) -> StrandedShape<'a> {
        StrandedShape {
            finalizer: &stranded.finalizer,
            confidence: match stranded.claim {
                Claim::Domain => "confirmed",
                Claim::Possible => "suspected",
            },
            objects: self.objects(&stranded.nodes),
        }
    }
}

fn step_name(step: &Step) -> &'static str {
    match step {
        Step::Delete(_) => "delete",
        Step::Wait(_) => "wait",
        Step::Targets => "delete_targets",
        Step::Definitions(_) => "delete_definitions",
    }
}

fn nodes_of(step: &Step) -> &[NodeId] {
    match step {
        Step::Delete(nodes) | Step::Wait(nodes) | Step::Definitions(nodes) => nodes,
        Step::Targets => &[],
    }
}

fn fate(fate: Fate) -> &'static str {
    match fate {
        Fate::Removed => "removed",
        Fate::Terminating => "terminating",
        Fate::Waiting => "later",
    }
}

fn reason(reason: Reason) -> (&'static str, Option<NodeId>) {
    match reason {
        Reason::Orphaned => ("orphaned", None),
        Reason::OtherOwner(other) => ("other_owner", Some(other)),
        Reason::UnknownOwner => ("unknown_owner", None),
        Reason::Unresolvable => ("unresolvable", None),
        Reason::OwnerStays => ("owner_stays", None),
        Reason::NotCollected => ("not_collected", None),
    }
}
