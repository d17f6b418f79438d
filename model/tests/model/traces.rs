//! Traces of obligations and deletions.

mod obligations;
mod deletions;
mod children;
mod events;

use loopwatch_model::settings::Settings;
use loopwatch_model::time::Timestamp;
use loopwatch_model::trace::{StepKind, Trace};

use crate::lab::{Lab, unlearned};

/// Returns a lab that gathers traces.
fn lab() -> Lab {
    gathering(unlearned())
}

fn gathering(settings: Settings) -> Lab {
    let mut lab = Lab::with(settings);
    lab.model.gather_traces();
    lab
}

/// Returns the traces that have ended, each as lines that a person can compare.
fn ended(lab: &mut Lab) -> Vec<String> {
    lab.model.traces().iter().flat_map(lines).collect()
}

fn lines(trace: &Trace) -> Vec<String> {
    let seconds = |at: Timestamp| at.since(trace.start).seconds();
    let rest = if trace.key.late { "rest " } else { "" };
    let (cause, outcome) = (trace.cause.as_str(), trace.outcome.as_str());
    let mut lines = vec![format!(
        "{rest}{} {cause} {outcome} after {}s",
        trace.object.name,
        trace.took().seconds()
    )];

    lines.extend(trace.steps.iter().map(|step| {
        let what = match &step.kind {
            StepKind::Acknowledge => "acknowledge".to_owned(),
            StepKind::Condition { r#type, status, reason } => format!("{type}={status:?} {reason}"),
            StepKind::Child(name) => format!("{} {}", name.kind, name.name),
            StepKind::Finalizer(name) => format!("finalizer {name}"),
            StepKind::Event { r#type, reason, reporter, count } => {
                format!("{type} {reason} by {reporter} ×{count}")
            }
        };

        let end =
            if step.unfinished { "…".to_owned() } else { format!("{}s", seconds(step.end)) };
        format!("  {what}: {}s to {end}", seconds(step.start))
    }));

    lines
}
