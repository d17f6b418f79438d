//! Root findings as cards, each with the findings that it explains.

use std::fmt::Write as _;

use loopwatch_model::finding::{Confidence, Finding, Severity, Subject, Value};
use loopwatch_model::snapshot::Snapshot;
use loopwatch_model::time::Timestamp;

use super::link::Link;
use super::{Age, Escaped, Number, UtcTime};
use crate::export::view::{
    FindingGroup, Findings, ObjectName, evidence_values, overall_health, runbook,
};

/// Maximum number of findings shown per code. The page links to the API for the rest, because
/// thousands of them would slow the browser down.
const SHOWN: usize = 100;

/// Writes the findings. `sees_all` means that there are no blind spots.
pub(super) fn write(page: &mut String, snapshot: &Snapshot, sees_all: bool) {
    let findings = Findings::of(snapshot);
    let (info, urgent): (Vec<_>, Vec<_>) =
        findings.groups().into_iter().partition(|group| group.severity == Severity::Info);
    page.push_str("<section aria-labelledby=\"findings\"><h2 id=\"findings\">Findings</h2>");

    if urgent.is_empty() {
        let text = match (overall_health(snapshot), sees_all) {
            ("unknown", _) => {
                "No critical findings or warnings, but loopwatch cannot see any objects."
            }
            (_, true) => "No critical findings or warnings.",
            (_, false) => {
                "No critical findings or warnings in the resources that loopwatch can see."
            }
        };
        let _ = write!(page, "<p class=\"empty\">{text}</p>");
    }

    cards(page, snapshot.at, &urgent, &findings, Labels::Short);
    if !info.is_empty() {
        let count = findings.count(Severity::Info);
        let _ = write!(
            page,
            "<details class=\"info-findings\" data-key=\"info\"><summary>{} info finding{} (not urgent)</summary>",
            Number(count as u64),
            if count == 1 { "" } else { "s" }
        );

        cards(page, snapshot.at, &info, &findings, Labels::Short);
        page.push_str("</details>");
    }

    page.push_str("</section>");
}

/// What a card says about each finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Labels {
    /// All of its findings are roots.
    Short,
    /// Names the root finding that explains it, too.
    WithRoots,
}

/// Writes a card for each group. `findings` are all that are open.
pub(super) fn cards(
    page: &mut String,
    at: Timestamp,
    groups: &[FindingGroup<'_>],
    findings: &Findings<'_>,
    labels: Labels,
) {
    page.push_str("<div class=\"cards\">");
    for group in groups {
        card(page, at, group, findings, labels);
    }

    page.push_str("</div>");
}

/// One card per code, so that a hundred objects with the same finding show its advice once.
fn card(
    page: &mut String,
    at: Timestamp,
    group: &FindingGroup<'_>,
    findings: &Findings<'_>,
    labels: Labels,
) {
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
        details(page, at, finding, index == 0);
        if let Some(root) = findings.root_of(finding).filter(|_| labels == Labels::WithRoots) {
            let (code, about) = (root.info().name, subject(&root.subject));
            let _ = write!(page, "<p>Explained by <b>{code}</b> of {about}.</p>");
        }

        explained(page, at, findings.explained_by(finding), finding);
        page.push_str("</details>");
    }

    if let Some(more) = group.findings.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        let more = Number(more as u64);
        let _ = write!(
            page,
            "<p class=\"more\">and {more} more: <a href=\"api/v1/findings\">all findings as JSON</a></p>"
        );
    }

    let _ = write!(
        page,
        "<p class=\"advice\">{} <a href=\"{}\" rel=\"noreferrer\">Runbook</a></p></article>",
        Escaped(info.advice),
        runbook(name)
    );
}

/// Begins the details of a finding.
fn details(page: &mut String, at: Timestamp, finding: &Finding, open: bool) {
    let suspected =
        if finding.confidence == Confidence::Suspected { " <i>suspected</i>" } else { "" };
    let _ = write!(
        page,
        "<details class=\"one\" data-key=\"f-{id}\" data-find{open}><summary><span class=\"subject\">{subject}</span>{suspected} \
         <span class=\"age\">for {age}</span></summary>",
        id = finding.id,
        open = if open { " open" } else { "" },
        subject = subject(&finding.subject),
        age = Age(at, finding.since),
    );

    evidence(page, at, finding);
    command(page, &finding.command());
}

fn evidence(page: &mut String, at: Timestamp, finding: &Finding) {
    if finding.evidence.0.is_empty() {
        return;
    }

    page.push_str("<dl>");
    for (key, value) in evidence_values(finding) {
        let _ = write!(page, "<div><dt>{}</dt><dd>", Escaped(&key));
        let _ = match value {
            Value::Time(time) => {
                write!(page, "{} ago <small>{}</small>", Age(at, *time), UtcTime(*time))
            }
            value => write!(page, "{}", Escaped(&value.to_string())),
        };

        page.push_str("</dd></div>");
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
fn explained(page: &mut String, at: Timestamp, explained: &[&Finding], root: &Finding) {
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
            age = Age(at, finding.since),
            summary = Escaped(&finding.summary()),
        );
    }

    page.push_str("</ul></details>");
}

/// The subject; a link if it is an object.
pub(super) fn subject(subject: &Subject) -> String {
    match subject {
        Subject::Object { group, kind, namespace, name } => {
            Link(ObjectName { group, kind, namespace, name }).to_string()
        }
        Subject::Kind { kind, .. } => {
            format!("<span class=\"kind\">{}</span> all objects", Escaped(kind))
        }
        other => format!("<bdi>{}</bdi>", Escaped(&other.to_string())),
    }
}
