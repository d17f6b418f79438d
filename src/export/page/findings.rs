//! What is wrong: root findings as cards, what they explain inside of them.

use std::fmt::Write as _;

use loopwatch_model::finding::{Confidence, Finding, Severity, Subject};
use loopwatch_model::snapshot::Snapshot;

use super::{Age, Escaped, Number};
use crate::export::summary::{self, Findings, Group};

/// Findings of one code on the page; the rest is a number and a link. Nobody reads more, and a browser has to lay them out.
const SHOWN: usize = 100;

pub(super) fn write(page: &mut String, snapshot: &Snapshot) {
    let findings = Findings::of(snapshot);
    let (notes, urgent): (Vec<_>, Vec<_>) =
        findings.groups().into_iter().partition(|group| group.code.info().severity == Severity::Info);
    page.push_str("<section aria-labelledby=\"findings\"><h2 id=\"findings\">Findings</h2>");
    if urgent.is_empty() {
        let seen = match (summary::overall(snapshot), summary::blind_spots(snapshot).is_empty()) {
            ("unknown", _) => "Nothing has been seen yet.",
            (_, true) => "Nothing is wrong.",
            (_, false) => "Nothing is wrong with what can be seen.",
        };
        let _ = write!(page, "<p class=\"empty\">{seen}</p>");
    }
    cards(page, snapshot, &urgent, &findings);
    if !notes.is_empty() {
        let count = findings.count(Severity::Info);
        let _ = write!(
            page,
            "<details class=\"notes\" data-key=\"notes\"><summary>{} to know, nothing to do at once</summary>",
            if count == 1 { "1 note".to_owned() } else { format!("{count} notes") }
        );
        cards(page, snapshot, &notes, &findings);
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

/// One card per code: a hundred objects with the same trouble need the same advice, once.
fn card(page: &mut String, snapshot: &Snapshot, group: &Group<'_>, findings: &Findings<'_>) {
    let info = group.code.info();
    let (name, severity) = (info.name, info.severity.as_str());
    let _ = write!(
        page,
        "<article class=\"card {severity}\" data-key=\"c-{name}\" data-find><header><span class=\"severity\">{severity}</span>\
         <h3>{name}</h3><span class=\"age\">{}</span></header><p class=\"meaning\">{}</p>",
        if group.findings.len() == 1 {
            String::new()
        } else {
            format!("{} times", Number(group.findings.len() as u64))
        },
        Escaped(info.meaning)
    );
    for (index, finding) in group.findings.iter().take(SHOWN).enumerate() {
        // The worst one is open; the others are a line each.
        one(page, snapshot, finding, findings, index == 0);
    }
    if let Some(more) = group.findings.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        let more = Number(more as u64);
        let _ = write!(page, "<p class=\"more\">and {more} more: <a href=\"api/v1/findings\">all of them</a></p>");
    }
    let _ = write!(
        page,
        "<p class=\"advice\">{} <a href=\"{}\" rel=\"noreferrer\">Runbook</a></p></article>",
        Escaped(info.advice),
        summary::runbook(name)
    );
}

fn one(page: &mut String, snapshot: &Snapshot, finding: &Finding, findings: &Findings<'_>, open: bool) {
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
    nested(page, snapshot, findings.explained_by(finding), finding);
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

/// What has this finding as its cause: it needs no action of its own.
fn nested(page: &mut String, snapshot: &Snapshot, explained: &[&Finding], root: &Finding) {
    if explained.is_empty() {
        return;
    }
    let _ = write!(
        page,
        "<details data-key=\"e-{}\"><summary>explains {} more</summary><ul>",
        root.id,
        Number(explained.len() as u64)
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

/// The subject, so that kind, namespace and name can be told apart.
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
        Subject::Kind { kind, .. } => format!("<span class=\"kind\">{}</span> all of them", Escaped(kind)),
        other => format!("<bdi>{}</bdi>", Escaped(&other.to_string())),
    }
}
