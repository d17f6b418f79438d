//! Root findings as cards, each with the findings that it explains.

use std::fmt::Write as _;

use loopwatch_model::finding::{Confidence, Finding, Severity, Subject};
use loopwatch_model::snapshot::Snapshot;

use super::{Age, Escaped, Number};
use crate::export::summary::{self, Findings, Group};

/// Maximum number of findings shown per code. The page links to the API for the rest, because thousands of them would
/// slow the browser down.
const SHOWN: usize = 100;

/// Writes the findings. `sees_all` means that there are no blind spots.
pub(super) fn write(page: &mut String, snapshot: &Snapshot, sees_all: bool) {
    let findings = Findings::of(snapshot);
    let (info, urgent): (Vec<_>, Vec<_>) =
        findings.groups().into_iter().partition(|group| group.severity == Severity::Info);
    page.push_str("<section aria-labelledby=\"findings\"><h2 id=\"findings\">Findings</h2>");
    if urgent.is_empty() {
        let text = match (summary::overall(snapshot), sees_all) {
            ("unknown", _) => "No critical findings or warnings, but loopwatch cannot see any objects.",
            (_, true) => "No critical findings or warnings.",
            (_, false) => "No critical findings or warnings in the resources that loopwatch can see.",
        };
        let _ = write!(page, "<p class=\"empty\">{text}</p>");
    }
    cards(page, snapshot, &urgent, &findings);
    if !info.is_empty() {
        let count = findings.count(Severity::Info);
        let _ = write!(
            page,
            "<details class=\"info-findings\" data-key=\"info\"><summary>{} info finding{} (not urgent)</summary>",
            Number(count as u64),
            if count == 1 { "" } else { "s" }
        );
        cards(page, snapshot, &info, &findings);
        page.push_str("</details>");
    }
    page.push_str("</section>");
}

fn cards(page: &mut String, snapshot: &Snapshot, groups: &[Group<'_>], findings: &Findings<'_>) {
    page.push_str("<div class=\"cards\">");
    for group in groups {
        card(page, snapshot, group, findings);
    }
    page.push_str("</div>");
}

/// One card per code, so that a hundred objects with the same finding show its advice once.
fn card(page: &mut String, snapshot: &Snapshot, group: &Group<'_>, findings: &Findings<'_>) {
    let info = group.code.info();
    let (name, severity) = (info.name, group.severity.as_str());
    let _ = write!(
        page,
        "<article class=\"card {severity}\" data-key=\"c-{name}-{severity}\" data-find><header><span class=\"severity\">{severity}</span>\
         <h3>{name}</h3><span class=\"age\">{}</span></header><p class=\"meaning\">{}</p>",
        if group.findings.len() == 1 {
            String::new()
        } else {
            format!("{} findings", Number(group.findings.len() as u64))
        },
        Escaped(info.meaning)
    );
    for (index, finding) in group.findings.iter().take(SHOWN).enumerate() {
        // The first finding is expanded; the others take one line each.
        details(page, snapshot, finding, findings, index == 0);
    }
    if let Some(more) = group.findings.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        let more = Number(more as u64);
        let _ =
            write!(page, "<p class=\"more\">and {more} more: <a href=\"api/v1/findings\">all findings as JSON</a></p>");
    }
    let _ = write!(
        page,
        "<p class=\"advice\">{} <a href=\"{}\" rel=\"noreferrer\">Runbook</a></p></article>",
        Escaped(info.advice),
        summary::runbook(name)
    );
}

fn details(page: &mut String, snapshot: &Snapshot, finding: &Finding, findings: &Findings<'_>, open: bool) {
    let suspected = if finding.confidence == Confidence::Suspected { " <i>suspected</i>" } else { "" };
    let _ = write!(
        page,
        "<details class=\"one\" data-key=\"f-{id}\" data-find{open}><summary><span class=\"subject\">{subject}</span>{suspected} \
         <span class=\"age\">for {age}</span></summary>",
        id = finding.id,
        open = if open { " open" } else { "" },
        subject = subject(&finding.subject),
        age = Age(snapshot, finding.since),
    );
    evidence(page, finding);
    command(page, &finding.command());
    explained(page, snapshot, findings.explained_by(finding), finding);
    page.push_str("</details>");
}

fn evidence(page: &mut String, finding: &Finding) {
    if finding.evidence.0.is_empty() {
        return;
    }
    page.push_str("<dl>");
    for (key, value) in summary::evidence(finding) {
        let _ = write!(page, "<div><dt>{}</dt><dd>{}</dd></div>", Escaped(&key), Escaped(&value));
    }
    page.push_str("</dl>");
}

fn command(page: &mut String, command: &str) {
    let _ = write!(
        page,
        "<div class=\"command\"><code tabindex=\"0\">{}</code><button type=\"button\" data-copy>Copy</button></div>",
        Escaped(command)
    );
}

/// Findings that `root` explains; they need no action of their own.
fn explained(page: &mut String, snapshot: &Snapshot, explained: &[&Finding], root: &Finding) {
    if explained.is_empty() {
        return;
    }
    let _ = write!(
        page,
        "<details data-key=\"e-{}\"><summary>explains {} other finding{}</summary><ul>",
        root.id,
        Number(explained.len() as u64),
        if explained.len() == 1 { "" } else { "s" }
    );
    for finding in explained.iter().take(SHOWN) {
        let _ = write!(
            page,
            "<li data-key=\"f-{id}\"><b>{code}</b> {subject} <span class=\"age\">for {age}</span><br>{summary}</li>",
            id = finding.id,
            code = finding.info().name,
            subject = subject(&finding.subject),
            age = Age(snapshot, finding.since),
            summary = Escaped(&finding.summary()),
        );
    }
    page.push_str("</ul></details>");
}

/// The subject, with kind, namespace and name styled apart.
fn subject(subject: &Subject) -> String {
    match subject {
        Subject::Object { kind, namespace, name, .. } if namespace.is_empty() => {
            format!("<span class=\"kind\">{}</span> <bdi>{}</bdi>", Escaped(kind), Escaped(name))
        }
        Subject::Object { kind, namespace, name, .. } => format!(
            "<span class=\"kind\">{}</span> <bdi><span class=\"ns\">{}/</span>{}</bdi>",
            Escaped(kind),
            Escaped(namespace),
            Escaped(name)
        ),
        Subject::Kind { kind, .. } => format!("<span class=\"kind\">{}</span> all objects", Escaped(kind)),
        other => format!("<bdi>{}</bdi>", Escaped(&other.to_string())),
    }
}
