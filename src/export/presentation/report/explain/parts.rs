//! The parts of the report.

use loopwatch_model::snapshot::{ExplainedFinalizer, Explanation};
use loopwatch_model::time::Timestamp;

use super::{kinship, object_name};
use crate::export::presentation::json::{Explained, FindingText};
use crate::export::view::{
    age, capitalised, obligation_in_words, reason_in_words, timeline_entries,
};

/// A titled part of the report.
pub(super) struct Part {
    pub(super) title: &'static str,
    pub(super) lines: Vec<PartLine>,
}

/// One line, which may have to be wrapped.
#[derive(Default)]
pub(super) struct PartLine {
    pub(super) text: String,
    /// The text before it, and before its further lines.
    pub(super) first: String,
    pub(super) further: String,
    /// The level in a tree.
    pub(super) depth: usize,
    pub(super) command: Option<String>,
}

/// Conditions, writers, events and changes that the report shows.
const SHOWN: usize = 8;

/// The state, in capitals.
pub(super) fn word(explanation: &Explanation) -> String {
    explanation.object.state.to_uppercase()
}

/// `Widget.example.io team-a/web for 47m: Ready=False (BucketUnreachable)`.
pub(super) fn headline(explanation: &Explanation) -> String {
    let Explanation { at, object, .. } = explanation;
    let since = object.terminating_since.or(object.since).filter(|since| since < at);
    let lasting = since.map(|since| format!(" for {}", age(*at, since))).unwrap_or_default();
    let why = match reason_in_words(&object.signal, &object.reason) {
        "" => String::new(),
        why => format!(": {why}"),
    };

    format!("{}{lasting}{why}", object_name(object))
}

/// Lines without a title: the generations, the ages, and the message.
pub(super) fn introduction(explained: &Explained) -> Vec<String> {
    let Explained { explanation, trace_id, .. } = explained;
    let Explanation { at, object, generation, observed_generation, phase, phase_since, .. } =
        explanation;
    let mut facts = Vec::new();

    if let Some(created) = object.created {
        facts.push(format!("created {} ago", age(*at, created)));
    }

    match (generation, observed_generation) {
        (0, None) => {}
        (generation, None) => {
            facts.push(format!("generation {generation}, not reported by the status"))
        }
        (generation, Some(observed)) if generation == observed => {
            facts.push(format!("generation {generation}, observed"));
        }
        (generation, Some(observed)) => {
            facts.push(format!("generation {generation}, observed {observed}"))
        }
    }

    if !phase.is_empty() {
        let since =
            phase_since.map(|since| format!(" for {}", age(*at, since))).unwrap_or_default();
        facts.push(format!("phase {phase}{since}"));
    }

    if let Some(seconds) = explanation.last_convergence_seconds {
        facts.push(format!("converged in {seconds} s the last time"));
    }

    if !object.uid.is_empty() {
        facts.push(format!("UID {}", object.uid));
    }

    if !trace_id.is_empty() {
        facts.push(format!("trace {trace_id}"));
    }

    let mut lines = vec![facts.join("; ")];
    lines.extend((!explanation.message.is_empty()).then(|| explanation.message.clone()));
    lines
}

/// All parts that have lines.
pub(super) fn all(explained: &Explained) -> Vec<Part> {
    let explanation = &explained.explanation;
    let at = explanation.at;
    let items =
        |title, texts: Vec<String>| Part { title, lines: texts.into_iter().map(item).collect() };
    let conditions = explanation.conditions.iter().take(SHOWN).map(|condition| {
        let since =
            condition.changed.map(|since| format!(" for {}", age(at, since))).unwrap_or_default();
        let reason = if condition.reason.is_empty() {
            String::new()
        } else {
            format!(" ({})", condition.reason)
        };
        let message = if condition.message.is_empty() {
            String::new()
        } else {
            format!(": {}", condition.message)
        };

        let status = capitalised(&condition.status); // as in Kubernetes
        format!("{}={status}{since}{reason}{message}", condition.r#type)
    });

    let mut parts = vec![
        items(
            "Obligation",
            explanation.obligation.iter().flat_map(|o| obligation_in_words(at, o)).collect(),
        ),
        items(
            if explanation.object.terminating_since.is_some() { "Deletion" } else { "Finalizers" },
            deletion(explanation),
        ),
        items("Conditions", with_more(conditions.collect(), explanation.conditions.len())),
        tree(explanation),
        items("Other owners", kinship::other_owners(explanation)),
        Part {
            title: "Findings",
            lines: explained.findings.iter().map(|f| finding(explanation, f)).collect(),
        },
        items("Timeline", history(explanation)),
        items("Written by", writers(explanation)),
        items("Not visible to loopwatch", not_visible(explained)),
    ];

    parts.retain(|part| !part.lines.is_empty());
    parts
}

fn item(text: String) -> PartLine {
    PartLine { text, first: "- ".to_owned(), further: "  ".to_owned(), ..PartLine::default() }
}

/// Adds the number of items that are not shown.
fn with_more(mut shown: Vec<String>, all: usize) -> Vec<String> {
    if all > shown.len() {
        shown.push(format!("… and {} more; -o json lists them", all - shown.len()));
    }
    shown
}

fn tree(explanation: &Explanation) -> Part {
    let line = |line: crate::export::presentation::report::branches::Line| PartLine {
        first: line.branches(),
        further: line.continuation(),
        depth: line.depth(),
        text: line.label,
        command: None,
    };
    Part {
        title: "Owners and children",
        lines: kinship::lines(explanation).into_iter().map(line).collect(),
    }
}

fn deletion(explanation: &Explanation) -> Vec<String> {
    let Explanation { at, object, .. } = explanation;
    let mut lines = Vec::new();
    if let Some(since) = object.terminating_since {
        let progress = explanation
            .deletion_progress
            .map(|last| format!("; last progress {} ago", age(*at, last)));
        let when = if since > *at { "is due in" } else { "has taken" };

        lines.push(format!(
            "the deletion {when} {}{}",
            age(*at, since),
            progress.unwrap_or_default()
        ));
    }

    lines.extend(
        object.finalizers.iter().map(|f| finalizer(*at, f, object.terminating_since.is_some())),
    );
    lines
}

/// `finalizer x: to be removed by field manager y (removed it from other objects), alive 4s ago;
/// stuck`.
fn finalizer(at: Timestamp, finalizer: &ExplainedFinalizer, is_deleted: bool) -> String {
    let ExplainedFinalizer { name, actor, liveness, last_seen, verdict, .. } = finalizer;
    let mut text = match actor.as_str() {
        "" | "unknown" => format!("finalizer {name}: nothing shows who removes it"),
        actor => format!("finalizer {name}: to be removed by {actor}"),
    };
    match (liveness.as_str(), last_seen) {
        ("alive", Some(last)) => text.push_str(&format!(", alive {} ago", age(at, *last))),
        ("absent", Some(last)) => text.push_str(&format!(", absent for {}", age(at, *last))),
        _ => {}
    }

    if is_deleted && !verdict.is_empty() {
        text.push_str(&format!("; {}", verdict.replace('_', " ")));
    }

    text
}

fn finding(explanation: &Explanation, finding: &FindingText) -> PartLine {
    let at = explanation.at;
    let about = &finding.subject;
    let object = &explanation.object;
    let is_own = about.kind == object.kind
        && about.namespace == object.namespace
        && about.name == object.name;
    let whose = match (is_own, about.name.as_str()) {
        (true, _) => String::new(),
        (false, "") => format!(" of all {} objects", about.kind),
        (false, name) if about.namespace.is_empty() => format!(" of {} {name}", about.kind),
        (false, name) => format!(" of {} {}/{name}", about.kind, about.namespace),
    };

    let suspected = if finding.confidence == "suspected" { ", suspected" } else { "" };
    let because =
        if finding.explained_by.is_some() { ", explained by another finding" } else { "" };
    let (severity, code) = (finding.severity.to_uppercase(), &finding.code);
    let lasting = age(at, finding.since);
    let (summary, advice) = (&finding.summary, &finding.advice);
    let text =
        format!("{severity} {code}{whose} for {lasting}{suspected}{because}: {summary}. {advice}");

    PartLine {
        command: (!finding.command.is_empty()).then(|| finding.command.clone()),
        ..item(text)
    }
}

/// The latest entries of the timeline, in order.
fn history(explanation: &Explanation) -> Vec<String> {
    let mut all = timeline_entries(explanation);
    let earlier = all.len().saturating_sub(SHOWN);
    let mut lines: Vec<String> = all
        .drain(earlier..)
        .map(|entry| format!("{} ago: {}", age(explanation.at, entry.at), entry.text))
        .collect();

    if earlier > 0 {
        lines.insert(0, format!("and {earlier} earlier; -o json lists all"));
    }

    lines
}

fn writers(explanation: &Explanation) -> Vec<String> {
    let writers = explanation.writers.iter().take(SHOWN).map(|writer| {
        let parts =
            if writer.parts.is_empty() { "metadata".to_owned() } else { writer.parts.join(", ") };
        let when =
            writer.at.map(|at| format!(", {} ago", age(explanation.at, at))).unwrap_or_default();

        format!("{}: {parts}{when}", writer.manager)
    });
    with_more(writers.collect(), explanation.writers.len())
}

fn not_visible(explained: &Explained) -> Vec<String> {
    let spots =
        explained.not_visible.iter().take(SHOWN).map(|spot| format!("{}: {}", spot.what, spot.why));
    with_more(spots.collect(), explained.not_visible.len())
}
