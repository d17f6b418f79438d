//! A prediction with its context, for the report and the JSON.

use loopwatch_model::cascade::{Graph, NodeId, Prediction, Request};
use loopwatch_model::observation::LeftOut;

use crate::export::view::{Number, ObjectName};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Forecast<'a> {
    /// The graph of the prediction.
    pub graph: &'a Graph,
    pub request: &'a Request,
    /// What the request would do.
    pub prediction: &'a Prediction,
    /// The operator to uninstall, as `NAMESPACE/DEPLOYMENT`; `None` for the deletion of one object.
    pub operator: Option<&'a str>,
    /// Objects of the installation that stay because others use them.
    pub shared: &'a [LeftOut],
    /// Parts of the cluster that loopwatch could not read.
    pub left_out: &'a [LeftOut],
}

/// Whether something stops the deletion, now or later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Clear,
    /// Timing decides whether objects stay in deletion, or others that may use a target.
    Uncertain,
    Blocked,
}

impl Forecast<'_> {
    /// Whether nothing can stop the deletion, now or later.
    #[must_use]
    pub(crate) fn is_clear(&self) -> bool {
        self.verdict() == Verdict::Clear
    }

    pub(super) fn verdict(&self) -> Verdict {
        let Prediction { blockers, lingering, stranded, .. } = self.prediction;
        let stops = !blockers.is_empty() || !lingering.is_empty() || !stranded.is_empty();
        match (!stops, self.unsure()) {
            (false, _) => Verdict::Blocked,
            (true, 0) if !self.is_target_in_doubt() => Verdict::Clear,
            (true, _) => Verdict::Uncertain,
        }
    }

    /// Whether a target may stay in deletion because others use it. The users of its dependents are
    /// usually deleted with them.
    pub(super) fn is_target_in_doubt(&self) -> bool {
        let mut expected = self.prediction.expected.iter().flat_map(|expected| &expected.nodes);
        expected.any(|node| self.request.targets.contains(node))
    }

    /// The number of objects of which timing decides whether they stay in deletion.
    pub(super) fn unsure(&self) -> usize {
        self.prediction.taken.iter().filter(|taken| taken.depends_on_timing).count()
    }

    /// Whether loopwatch could not read everything, so that further objects may be affected.
    pub(super) fn is_lower_limit(&self) -> bool {
        !self.left_out.is_empty()
    }

    pub(super) fn name(&self, id: NodeId) -> ObjectName<'_> {
        self.graph.node(id).into()
    }

    /// `team-a/a, team-a/b and 7 more`.
    pub(super) fn places(&self, ids: &[NodeId], most: usize) -> String {
        let shown: Vec<String> =
            ids.iter().take(most).map(|id| self.name(*id).in_namespace()).collect();
        let more = ids.len().saturating_sub(most);
        let rest =
            if more > 0 { format!(" and {} more", Number(more as u64)) } else { String::new() };

        format!("{}{rest}", shown.join(", "))
    }
}
