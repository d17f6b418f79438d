//! What the operator is expected to do about an object.

use loopwatch_model::snapshot::ExplainedObligation;
use loopwatch_model::time::Timestamp;

use super::text::age;

pub(crate) fn obligation_in_words(at: Timestamp, obligation: &ExplainedObligation) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(since) = obligation.regressed_since {
        lines.push(format!(
            "to converge again: it stopped being converged {} ago, without a spec change",
            age(at, since)
        ));
    }

    if let Some(opened) = obligation.opened {
        let deadline = match obligation.deadline {
            Some(deadline) if deadline > at => {
                format!("; the deadline is in {}", age(at, deadline))
            }
            Some(deadline) => format!("; the deadline passed {} ago", age(at, deadline)),
            None => String::new(),
        };

        let source = if obligation.deadline_source.is_empty() || obligation.deadline.is_none() {
            String::new()
        } else {
            format!(" ({})", obligation.deadline_source)
        };

        lines.push(format!(
            "to converge: the spec changed {} ago{deadline}{source}",
            age(at, opened)
        ));
    }

    if let Some(since) = obligation.unacknowledged_since {
        lines.push(format!(
            "to acknowledge the spec: the status has not done so for {}",
            age(at, since)
        ));
    }

    lines
}
