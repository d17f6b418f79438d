//! The report of `explain`: one object on one screen.

mod family_tree; // its owners and children

use loopwatch_model::snapshot::{ExplainedCondition, ExplainedFinalizer, Explanation};
use loopwatch_model::time::Timestamp;

use super::document::{Block, Document, Headline, Ink, Item, List};
use super::style::Style;
use super::writer;
use crate::export::presentation::json::{Explained, FindingText};
use crate::export::view::{
    ObjectName, age, capitalised, lasting, obligation_in_words, reason_in_words, runbook,
    runbook_command, step_in_words, timeline_entries, utc, without_code_marks,
};

/// Conditions, writers, events and changes that the report shows.
const SHOWN: usize = 8;

/// The report as text or Markdown.
#[must_use]
pub(crate) fn explain_report(explained: &Explained, style: Style) -> String {
    writer::write(&document(explained), style)
}

fn document(explained: &Explained) -> Document {
    let explanation = &explained.explanation;
    let at = explanation.at;
    let mut document = Document::new(Headline {
        command: "loopwatch explain",
        word: explanation.object.state.to_lowercase(),
        ink: ink(explained),
        sentence: sentence(explanation),
        facts: facts(explained),
    });

    let obligations = explanation.obligation.iter().flat_map(|open| obligation_in_words(at, open));
    document.add_list("Obligation", List::of(obligations));

    let is_deleted = explanation.object.terminating_since.is_some();
    let title = if is_deleted { "Deletion" } else { "Finalizers" };
    document.add_list(title, List::of(deletion(explanation)));
    document.add_list("Conditions", List::of(conditions(explanation)));
    document.add(Block::Title("Owners and children"));
    document.add(Block::Tree(family_tree::lines(explanation)));
    document.add_list("Other owners", List::of(family_tree::other_owners(explanation)));

    let findings =
        explained.findings.iter().map(|open| finding(explanation, open, &explained.findings));
    document.add_list("Findings", List { items: findings.collect(), ..List::default() });
    add_steps(&mut document, &explained.findings);
    document.add_list("Timeline", List::of(history(explanation)));
    document.add_list("Written by", List::of(writers(explanation)));
    document.add_list("Not visible to loopwatch", List::of(not_visible(explained)));
    document
}

fn ink(explained: &Explained) -> Ink {
    let has =
        |severity: &str| explained.findings.iter().any(|finding| finding.severity == severity);
    match explained.explanation.object.state.as_str() {
        _ if has("critical") => Ink::Critical,
        _ if has("warning") => Ink::Warning,
        "failed" => Ink::Critical,
        "overdue" => Ink::Warning,
        "converged" | "finished" => Ink::Good,
        _ => Ink::Strong,
    }
}

/// `Widget.example.io team-a/web for 47m: Ready=False (BucketUnreachable)`.
fn sentence(explanation: &Explanation) -> String {
    let Explanation { at, object, .. } = explanation;
    let since = object.terminating_since.or(object.since).filter(|since| since < at);
    let held = since.map(|since| format!(" {}", lasting(*at, since))).unwrap_or_default();
    let why = match reason_in_words(&object.signal, &object.reason) {
        "" => String::new(),
        why => format!(": {why}"),
    };

    format!("{}{held}{why}", ObjectName::from(object).in_full())
}

/// The generations, the ages, and the message.
fn facts(explained: &Explained) -> Vec<String> {
    let Explained { explanation, trace_id, .. } = explained;
    let Explanation { at, object, generation, observed_generation, phase, phase_since, .. } =
        explanation;
    let mut facts = Vec::new();

    if let Some(created) = object.created {
        facts.push(format!("created {} ago ({})", age(*at, created), utc(created)));
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

fn conditions(explanation: &Explanation) -> Vec<String> {
    let shown = explanation.conditions.iter().take(SHOWN);
    let texts = shown.map(|condition| condition_text(explanation.at, condition));
    with_more(texts.collect(), explanation.conditions.len())
}

/// `Ready=False for 47m (BucketUnreachable): the bucket does not answer`.
fn condition_text(at: Timestamp, condition: &ExplainedCondition) -> String {
    let mut text = match condition.status.as_str() {
        "absent" => format!("{} (without a status)", condition.r#type),
        status => format!("{}={}", condition.r#type, capitalised(status)), // as in Kubernetes
    };
    if let Some(since) = condition.changed {
        text.push_str(&format!(" {}", lasting(at, since)));
    }

    if !condition.reason.is_empty() {
        text.push_str(&format!(" ({})", condition.reason));
    }

    if !condition.message.is_empty() {
        text.push_str(&format!(": {}", condition.message));
    }

    text
}

/// Adds the number of items that the report omits.
fn with_more(mut shown: Vec<String>, all: usize) -> Vec<String> {
    if all > shown.len() {
        shown.push(format!("… and {} more; -o json lists them", all - shown.len()));
    }

    shown
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

fn finding(explanation: &Explanation, finding: &FindingText, all: &[FindingText]) -> Item {
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
    let because = match &finding.explained_by {
        Some(id) => match all.iter().find(|other| other.id == *id) {
            Some(cause) => format!(", explained by {}", cause.code),
            None => ", explained by another finding".to_owned(),
        },
        None => String::new(),
    };
    let (severity, code) = (finding.severity.to_uppercase(), &finding.code);
    let held = lasting(at, finding.since);
    let (summary, advice) = (&finding.summary, without_code_marks(&finding.advice));
    let text = format!("{severity} {code}{whose} {held}{suspected}{because}: {summary}. {advice}");

    let command = (!finding.command.is_empty()).then(|| finding.command.clone());
    // The server may be a later release, with findings that this one does not know.
    let runbook = runbook(code).map(|runbook| runbook_command(runbook.name));
    Item { text, commands: command.into_iter().chain(runbook).collect() }
}

/// Adds the steps of the first finding that has any. The other findings of an object have the same.
fn add_steps(document: &mut Document, findings: &[FindingText]) {
    let steps = findings.iter().map(|finding| &finding.steps).find(|steps| !steps.is_empty());
    let items = steps.into_iter().flatten().take(SHOWN).map(|step| Item {
        text: step_in_words(&step.purpose, &step.danger),
        commands: vec![step.command.clone()],
    });

    let list = List { items: items.collect(), is_numbered: true, ..List::default() };
    document.add_list("Steps; loopwatch runs none of them", list);
}

/// The latest entries of the timeline, oldest first.
fn history(explanation: &Explanation) -> Vec<String> {
    let mut all = timeline_entries(explanation);
    let earlier = all.len().saturating_sub(SHOWN);
    let mut lines: Vec<String> = all
        .drain(earlier..)
        .map(|entry| {
            format!("{} ({} ago): {}", utc(entry.at), age(explanation.at, entry.at), entry.text)
        })
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

#[cfg(test)]
mod tests;
