//! The page of one object: everything that `explain` knows about it.

use std::fmt::Write as _;

use loopwatch_model::snapshot::{
    ExplainedFinalizer, ExplainedNode, ExplainedObject, ExplainedWriter, Explanation, Health,
    Snapshot,
};
use loopwatch_model::time::Timestamp;

use super::findings::{self, Labels};
use super::link::{Link, Plain, objects_of_kind};
use super::{Age, Escaped, Number, UtcTime, tables};
use crate::export::view::{
    BlindSpot, Findings, ObjectName, capitalised, group_parameter, grouped_findings,
    obligation_in_words, reason_in_words, timeline_entries,
};

/// Maximum number of entries of the timeline that are shown, the newest first.
const ENTRIES: usize = 200;

/// Writes the page.
pub(super) fn write(
    page: &mut String,
    snapshot: &Snapshot,
    explanation: &Explanation,
    trace_id: &str,
    not_visible: &[BlindSpot],
) {
    trail(page, &explanation.object);
    headline(page, explanation, trace_id);
    list(
        page,
        "obligation",
        "Obligation",
        explanation
            .obligation
            .iter()
            .flat_map(|obligation| obligation_in_words(explanation.at, obligation)),
    );

    open_findings(page, snapshot, explanation);
    conditions(page, explanation);
    finalizers(page, explanation);
    family(page, explanation);
    entries(page, explanation);
    writers(page, explanation);
    tables::blind_spots(page, not_visible);
}

/// Writes the page that says why there is no other one.
pub(super) fn problem(page: &mut String, title: &str, problem: &str) {
    let _ = write!(
        page,
        "<nav class=\"trail\" aria-label=\"Breadcrumb\"><a href=\"./\">Overview</a> › <a href=\"objects\">Objects</a></nav>\
         <section class=\"headline unknown\" aria-label=\"Problem\"><h1>{title}</h1><p>{}.</p></section>",
        Escaped(&capitalised(problem))
    );
}

/// The links to the pages above.
fn trail(page: &mut String, object: &ExplainedObject) {
    let (group, kind) = (group_parameter(&object.group), &object.kind);
    let _ = write!(
        page,
        "<nav class=\"trail\" aria-label=\"Breadcrumb\"><a href=\"./\">Overview</a> › <a href=\"objects\">Objects</a> › \
         <a href=\"{}\">{} <small>{}</small></a></nav>",
        objects_of_kind(&object.group, kind),
        Escaped(kind),
        Escaped(group)
    );
}

fn headline(page: &mut String, explanation: &Explanation, trace_id: &str) {
    let Explanation { at, object, .. } = explanation;
    let own = explanation
        .findings
        .iter()
        .filter(|finding| object.findings.iter().any(|code| code == finding.info().name));
    let found = own.map(|finding| Health::of(finding.severity)).max().unwrap_or(Health::Healthy);
    let health = match (object.state.as_str(), found) {
        ("failed", _) | (_, Health::Failing) => "failing",
        ("overdue", _) | (_, Health::Degraded) => "degraded",
        ("converged" | "finished", Health::Healthy) => "healthy",
        (_, Health::Healthy) => "unknown",
    };

    let _ = write!(
        page,
        "<section class=\"headline {health}\" aria-label=\"Object\"><h1 class=\"title\">{}</h1>",
        Plain(object.into())
    );
    let state = Escaped(&object.state);
    let _ = write!(page, "<p><span class=\"state {state}\">{state}</span>");

    if let Some(since) = object.terminating_since.or(object.since) {
        let _ = write!(page, " for {}", Age(*at, since));
    }

    let why = reason_in_words(&object.signal, &object.reason);
    if !why.is_empty() {
        let _ = write!(page, ": {}", Escaped(why));
    }

    page.push_str("</p>");
    if !explanation.message.is_empty() {
        let _ = write!(page, "<p class=\"message\">{}</p>", Escaped(&explanation.message));
    }

    facts(page, explanation, trace_id);
    let json = ObjectName::from(object).path().replacen("object?", "api/v1/explain?", 1);
    let _ = write!(
        page,
        "<p class=\"asof\">As of {} · <a href=\"{}\">as JSON</a></p></section>",
        UtcTime(*at),
        Escaped(&json)
    );
}

fn facts(page: &mut String, explanation: &Explanation, trace_id: &str) {
    let Explanation { at, object, generation, observed_generation, .. } = explanation;
    page.push_str("<dl class=\"facts\">");

    let mut fact = |name: &str, value: &str| {
        let _ = write!(page, "<div><dt>{name}</dt><dd>{value}</dd></div>");
    };
    if let Some(created) = object.created {
        fact("created", &format!("{} ago", Age(*at, created)));
    }

    match (generation, observed_generation) {
        (0, None) => {}
        (generation, None) => {
            fact("generation", &format!("{generation} <small>not reported by the status</small>"))
        }
        (generation, Some(observed)) => {
            fact("generation", &format!("{generation} <small>observed {observed}</small>"))
        }
    }

    if !explanation.phase.is_empty() {
        let since =
            explanation.phase_since.map(|since| format!(" <small>for {}</small>", Age(*at, since)));
        fact("phase", &format!("{}{}", Escaped(&explanation.phase), since.unwrap_or_default()));
    }

    if let Some(seconds) = explanation.last_convergence_seconds {
        fact("last convergence", &format!("{} s", Number(seconds.into())));
    }

    if !object.uid.is_empty() {
        fact("UID", &Escaped(&object.uid).to_string());
    }

    if !trace_id.is_empty() {
        fact("trace", &format!("<code class=\"trace\">{}</code>", Escaped(trace_id)));
    }

    page.push_str("</dl>");
}

/// A section with one sentence per item, unless there is none.
fn list(page: &mut String, id: &str, title: &str, sentences: impl Iterator<Item = String>) {
    let mut sentences = sentences.peekable();
    if sentences.peek().is_none() {
        return;
    }

    section(page, id, title);
    page.push_str("<ul class=\"panel\">");
    for sentence in sentences {
        let _ = write!(page, "<li>{}</li>", Escaped(&capitalised(&sentence)));
    }

    page.push_str("</ul></section>");
}

fn section(page: &mut String, id: &str, title: &str) {
    let _ = write!(page, "<section aria-labelledby=\"{id}\"><h2 id=\"{id}\">{title}</h2>");
}

/// Begins a section that consists of one table.
fn table(page: &mut String, id: &str, title: &str, columns: &[&str]) {
    section(page, id, title);
    let _ = write!(
        page,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"{id}\"><table class=\"stacked\"><thead><tr>"
    );
    for column in columns {
        let _ = write!(page, "<th scope=\"col\">{column}</th>");
    }

    page.push_str("</tr></thead><tbody>");
}

fn open_findings(page: &mut String, snapshot: &Snapshot, explanation: &Explanation) {
    section(page, "findings", "Findings");
    if explanation.findings.is_empty() {
        page.push_str("<p class=\"panel\">No open findings about this object or its kind.</p>");
    }

    let all = Findings::of(snapshot);
    findings::cards(
        page,
        explanation.at,
        &grouped_findings(&explanation.findings),
        &all,
        Labels::WithRoots,
    );
    page.push_str("</section>");
}

fn conditions(page: &mut String, explanation: &Explanation) {
    if explanation.conditions.is_empty() {
        return;
    }

    table(page, "conditions", "Conditions", &["Condition", "Status", "For", "Reason and message"]);
    for condition in &explanation.conditions {
        let age = condition
            .changed
            .map_or_else(|| "–".to_owned(), |since| Age(explanation.at, since).to_string());
        let _ = write!(
            page,
            "<tr data-find><th scope=\"row\"><bdi>{}</bdi></th><td>{}</td><td class=\"num\">{age}</td><td>{} <small>{}</small></td></tr>",
            Escaped(&condition.r#type),
            Escaped(&capitalised(&condition.status)),
            Escaped(if condition.reason.is_empty() { "–" } else { &condition.reason }),
            Escaped(&condition.message),
        );
    }

    page.push_str("</tbody></table></div></section>");
}

fn finalizers(page: &mut String, explanation: &Explanation) {
    let Explanation { at, object, .. } = explanation;
    if object.finalizers.is_empty() && object.terminating_since.is_none() {
        return;
    }

    let title = if object.terminating_since.is_some() { "Deletion" } else { "Finalizers" };
    table(
        page,
        "finalizers",
        title,
        &["Finalizer", "To be removed by", "Last sign of life", "Verdict"],
    );
    for ExplainedFinalizer { name, actor, liveness, last_seen, verdict, .. } in &object.finalizers {
        let known = !matches!(actor.as_str(), "" | "unknown");
        let life = match (liveness.as_str(), last_seen) {
            ("alive", Some(last)) => format!("{} ago", Age(*at, *last)),
            ("absent", Some(last)) => format!("absent for {}", Age(*at, *last)),
            _ => "–".to_owned(),
        };
        let _ = write!(
            page,
            "<tr data-find><th scope=\"row\"><bdi>{}</bdi></th><td>{}</td><td class=\"num\">{life}</td><td>{}</td></tr>",
            Escaped(name),
            Escaped(if known { actor } else { "nothing shows who removes it" }),
            Escaped(&if verdict.is_empty() { "–".to_owned() } else { verdict.replace('_', " ") }),
        );
    }

    page.push_str("</tbody></table></div>");
    if let Some(last) = explanation.deletion_progress {
        let _ = write!(
            page,
            "<p class=\"more\">The deletion last made progress {} ago.</p>",
            Age(*at, last)
        );
    }

    page.push_str("</section>");
}

fn family(page: &mut String, explanation: &Explanation) {
    let Explanation { at, owners, children, more_children, .. } = explanation;
    for (id, title, nodes, more) in
        [("owners", "Owners", owners, &0), ("children", "Children", children, more_children)]
    {
        if !nodes.is_empty() || *more > 0 {
            section(page, id, title);
            page.push_str("<div class=\"panel\">");
            tree(page, *at, nodes, *more);
            page.push_str("</div></section>");
        }
    }
}

/// Objects, each with those below it. The model limits their number and depth.
fn tree(page: &mut String, at: Timestamp, nodes: &[ExplainedNode], more: u64) {
    page.push_str("<ul class=\"tree\">");
    for node in nodes {
        let object = &node.object;
        let state = Escaped(&object.state);
        page.push_str("<li data-find>");

        let _ = match object.state.as_str() {
            "absent" => write!(
                page,
                "{} <span class=\"state failed\">does not exist</span>",
                Plain(object.into())
            ),
            "not_visible" => {
                write!(
                    page,
                    "{} <span class=\"state unknown\">not visible to loopwatch</span>",
                    Plain(object.into())
                )
            }
            // A ConfigMap has no status.
            "unknown" if object.reason == "NothingToJudge" => {
                write!(page, "{}", Link(object.into()))
            }
            _ => {
                write!(page, "{} <span class=\"state {state}\">{state}</span>", Link(object.into()))
            }
        };

        if let Some(since) = object.terminating_since {
            let _ = write!(page, " for {}", Age(at, since));
        }

        if !matches!(object.state.as_str(), "converged" | "finished") && !object.signal.is_empty() {
            let _ = write!(page, " <small>{}</small>", Escaped(&object.signal));
        }

        for code in &object.findings {
            let _ = write!(page, " <span class=\"tag\">{}</span>", Escaped(code));
        }

        if node.repeated {
            page.push_str(" <small>repeated</small>");
        }

        if !node.nodes.is_empty() || node.more > 0 {
            tree(page, at, &node.nodes, node.more);
        }

        page.push_str("</li>");
    }

    if more > 0 {
        let _ = write!(page, "<li><small>and {} more</small></li>", Number(more));
    }

    page.push_str("</ul>");
}

fn entries(page: &mut String, explanation: &Explanation) {
    let entries = timeline_entries(explanation);
    if entries.is_empty() {
        return;
    }

    section(page, "timeline", "Timeline");
    page.push_str(
        "<p class=\"lead\">Changes of the object, and findings that opened and closed, the newest first. loopwatch knows only \
         changes that it saw, and those that the object itself dates.</p><ol class=\"timeline\">",
    );
    for entry in entries.iter().rev().take(ENTRIES) {
        let _ = write!(
            page,
            "<li class=\"{sort}\" data-find>{} <span class=\"age\">{} ago</span> <span class=\"what\">{}</span></li>",
            UtcTime(entry.at),
            Age(explanation.at, entry.at),
            Escaped(&entry.text),
            sort = entry.sort,
        );
    }

    page.push_str("</ol>");
    if let Some(more) = entries.len().checked_sub(ENTRIES).filter(|more| *more > 0) {
        let _ = write!(page, "<p class=\"more\">and {} earlier</p>", Number(more as u64));
    }

    page.push_str("</section>");
}

fn writers(page: &mut String, explanation: &Explanation) {
    if explanation.writers.is_empty() {
        return;
    }

    table(page, "writers", "Written by", &["Field manager", "Parts", "Last write"]);
    for ExplainedWriter { manager, parts, at } in &explanation.writers {
        let parts = if parts.is_empty() { "metadata".to_owned() } else { parts.join(", ") };
        let age =
            at.map_or_else(|| "–".to_owned(), |at| format!("{} ago", Age(explanation.at, at)));
        let (manager, parts) = (Escaped(manager), Escaped(&parts));
        let _ = write!(
            page,
            "<tr><th scope=\"row\"><bdi>{manager}</bdi></th><td>{parts}</td><td class=\"num\">{age}</td></tr>"
        );
    }

    page.push_str("</tbody></table></div></section>");
}

#[cfg(test)]
mod tests;
