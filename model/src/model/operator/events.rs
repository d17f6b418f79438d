//! Recent events of the operator, for its timeline. The detectors of the operator keep them anyway.

use crate::model::operator::Operator;
use crate::observation::ContainerEnd;
use crate::snapshot::{Happening, PastEvent};
use crate::time::Timestamp;

impl Operator {
    /// Returns the latest ends and restarts of the operator, and the changes of its leader and its
    /// revision.
    pub(in crate::model) fn operator_events(&self) -> impl Iterator<Item = PastEvent> {
        let ends = self.operator_pods().flat_map(|(pod, history)| {
            history
                .ends()
                .filter_map(|end| Some(event(end.finished?, "ended", &pod.name, words(end))))
        });
        let restarts = self.operator_pods().flat_map(|(pod, history)| {
            history.restarts().map(|at| event(at, "restarted", &pod.name, String::new()))
        });

        let without_pod = self.instances.iter().filter(|(name, _)| self.pod_of(name).is_none());
        let processes = without_pod.flat_map(|(name, instance)| {
            instance.restarts.iter().map(|at| event(*at, "restarted", name, String::new()))
        });
        let leaders = self.leaders.changes().map(|(lease, at, before)| {
            event(at, "leader_changed", lease, format!("{before} no longer leads"))
        });

        let revisions = self
            .revisions
            .changes()
            .map(|(at, old, new)| event(at, "revision_changed", new, format!("before: {old}")));

        ends.chain(restarts).chain(processes).chain(leaders).chain(revisions)
    }
}

fn event(at: Timestamp, change: &'static str, name: &str, detail: String) -> PastEvent {
    PastEvent { at, what: Happening::Operator { change, name: name.to_owned(), detail } }
}

/// Describes an end, for example as `OOMKilled, exit code 137`.
fn words(end: &ContainerEnd) -> String {
    let code = format!("exit code {}", end.exit_code);
    if end.reason.is_empty() { code } else { format!("{}, {code}", end.reason) }
}
