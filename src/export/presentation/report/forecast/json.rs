//! The JSON of `what-if`. Version 1 is permanent: fields are only ever added.

use loopwatch_model::cascade::{Claim, Fate, NodeId, Reason, Step};
use serde::Serialize;

use super::{Forecast, sections};
use crate::export::presentation::json::VERSION;

/// `what-if -o json`.
#[derive(Debug, Serialize)]
pub(super) struct ForecastResponse<'a> {
    version: u32,
    action: &'static str,
    cascade: &'static str,
    /// Whether nothing stops the deletion.
    clear: bool,
    /// Whether there may be more objects than loopwatch could read.
    at_least: bool,
    targets: Vec<ObjectShape<'a>>,
    deleted: Vec<DeletedShape<'a>>,
    kept: Vec<KeptShape<'a>>,
    deleted_anyway: Vec<ObjectShape<'a>>,
    blocked_by: Vec<BlockerShape<'a>>,
    stranded_finalizers: Vec<StrandedShape<'a>>,
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
}

#[derive(Debug, Serialize)]
struct StrandedShape<'a> {
    finalizer: &'a str,
    confidence: &'static str,
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
        let prediction = forecast.prediction;
        let object = |id: NodeId| {
            let node = forecast.graph.node(id);
            ObjectShape {
                group: &node.group,
                kind: &node.kind,
                namespace: &node.namespace,
                name: &node.name,
                uid: &node.uid,
            }
        };

        let objects = |ids: &[NodeId]| ids.iter().copied().map(object).collect();
        let part = |part: &'a loopwatch_model::observation::LeftOut| PartShape {
            what: &part.what,
            why: &part.why,
        };
        let step = |step: &Step| {
            let (name, ids) = match step {
                Step::Delete(nodes) => ("delete", nodes.as_slice()),
                Step::Wait(nodes) => ("wait", nodes.as_slice()),
                Step::Targets => ("delete_targets", &[][..]),
                Step::Definitions(nodes) => ("delete_definitions", nodes.as_slice()),
            };
            StepShape {
                step: name,
                objects: objects(ids),
                commands: sections::commands(forecast, step),
            }
        };

        Self {
            version: VERSION,
            action: if forecast.operator.is_some() { "uninstall" } else { "delete" },
            cascade: forecast.request.cascade.as_str(),
            clear: forecast.is_clear(),
            at_least: forecast.is_lower_limit(),
            targets: objects(&forecast.request.targets),
            deleted: prediction
                .taken
                .iter()
                .map(|taken| DeletedShape {
                    object: object(taken.node),
                    fate: fate(taken.fate),
                    depends_on_timing: taken.depends_on_timing,
                    because: taken.because.map(object),
                })
                .collect(),
            kept: prediction
                .kept
                .iter()
                .map(|kept| {
                    let (reason, other) = reason(kept.reason);
                    let (owner, other_owner) = (object(kept.owner), other.map(object));
                    KeptShape { object: object(kept.node), owner, reason, other_owner }
                })
                .collect(),
            deleted_anyway: objects(&prediction.anyway),
            blocked_by: prediction
                .blockers
                .iter()
                .map(|blocker| BlockerShape {
                    object: object(blocker.node),
                    finalizers: &blocker.finalizers,
                    waits_for: objects(&blocker.waits_for),
                })
                .collect(),
            stranded_finalizers: prediction
                .stranded
                .iter()
                .map(|stranded| StrandedShape {
                    finalizer: &stranded.finalizer,
                    confidence: match stranded.claim {
                        Claim::Domain => "confirmed",
                        Claim::Possible => "suspected",
                    },
                    objects: objects(&stranded.nodes),
                })
                .collect(),
            better_order: prediction.steps.iter().map(step).collect(),
            shared: forecast.shared.iter().map(part).collect(),
            not_visible: forecast.left_out.iter().map(part).collect(),
        }
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
