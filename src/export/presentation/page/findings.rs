//! Root findings as cards, each with the findings that it explains.

use std::collections::BTreeSet;

use loopwatch_model::finding::{Confidence, Finding, FindingId, Severity, Value};
use loopwatch_model::snapshot::Snapshot;
use loopwatch_model::time::{Span, Timestamp};
use maud::{Markup, display, html};

use super::link::subject;
use super::markup::{Age, UtcTime, ago, beyond, section};
use crate::export::view::{
    Doubt, FindingGroup, Findings, Number, OverallHealth, evidence_values, runbook_path,
    step_in_words,
};

/// Maximum number of findings shown per code. The page links to the API for the rest, because
/// thousands of them would slow down the browser.
const SHOWN: usize = 100;

/// What a card shows about each finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Labels {
    /// All its findings are roots.
    Short,
    /// Also names the root finding that explains each finding.
    WithRoots,
}

/// Cards about findings.
pub(super) struct Cards<'a> {
    pub(super) at: Timestamp,
    /// All open findings.
    pub(super) findings: &'a Findings<'a>,
    pub(super) labels: Labels,
}

/// The anchors of the findings on the overview. It does not show all of them if there are many.
pub(super) fn shown(snapshot: &Snapshot) -> BTreeSet<FindingId> {
    let findings = Findings::of(snapshot);
    let groups = findings.groups();
    let roots = groups.iter().flat_map(|group| group.findings.iter().take(SHOWN));
    let with_explained = |root: &&'_ &Finding| {
        let explained = findings.explained_by(root).iter().take(SHOWN);
        explained.map(|finding| finding.id).chain([root.id]).collect::<Vec<_>>()
    };

    roots.flat_map(|root| with_explained(&root)).collect()
}

/// The section of findings. `sees_all` means that there are no blind spots.
pub(super) fn findings(snapshot: &Snapshot, health: OverallHealth, sees_all: bool) -> Markup {
    let findings = Findings::of(snapshot);
    let (info, urgent): (Vec<_>, Vec<_>) =
        findings.groups().into_iter().partition(|group| group.severity == Severity::Info);
    let cards = Cards { at: snapshot.at, findings: &findings, labels: Labels::Short };
    let infos = findings.count(Severity::Info) as u64;

    let content = html! {
        @if urgent.is_empty() { p class="empty" { (nothing_urgent(health, sees_all)) } }
        (cards.of(&urgent))
        @if !info.is_empty() {
            details class="info-findings" id="info" data-key="info" {
                summary { (Number(infos)) " info finding" @if infos != 1 { "s" } " (not urgent)" }
                (cards.of(&info))
            }
        }
    };
    section("findings", "Findings", &content)
}

/// The steps that end a finding, folded: they change the cluster.
fn steps(finding: &Finding) -> Markup {
    let (steps, id) = (finding.steps(), anchor(finding));
    html! {
        @if !steps.is_empty() {
            details class="steps" data-key={ "s-" (id) } {
                summary { "Steps to end this; loopwatch runs none of them" }
                ol {
                    @for step in &steps {
                        li {
                            (step_in_words(step.purpose, step.danger))
                            div class="command" {
                                code tabindex="0" { (step.command) }
                                button type="button" data-copy { "Copy" }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn nothing_urgent(health: OverallHealth, sees_all: bool) -> &'static str {
    match (health, sees_all) {
        (OverallHealth::Unknown(Doubt::Blind), _) => {
            "No critical findings or warnings, but loopwatch cannot see any objects."
        }
        (_, true) => "No critical findings or warnings.",
        (_, false) => "No critical findings or warnings in the resources that loopwatch can see.",
    }
}

impl Cards<'_> {
    /// A card for each group.
    pub(super) fn of(&self, groups: &[FindingGroup<'_>]) -> Markup {
        html! { div class="cards" { @for group in groups { (self.card(group)) } } }
    }

    /// One card per code, so that a hundred objects with the same finding show its advice once.
    fn card(&self, group: &FindingGroup<'_>) -> Markup {
        let info = group.code.info();
        let (name, severity, count) = (info.name, group.severity.as_str(), group.findings.len());
        html! {
            article class={ "card " (severity) } data-key={ "c-" (name) "-" (severity) } data-find {
                header {
                    span class="severity" { (severity) }
                    h3 { (name) }
                    span class="age" { @if count != 1 { (Number(count as u64)) " findings" } }
                }
                p class="meaning" { (info.meaning) }
                // The first finding is expanded; the others take one line each.
                @for (index, finding) in group.findings.iter().take(SHOWN).enumerate() {
                    (self.details(finding, index == 0))
                }
                @if let Some(more) = beyond(SHOWN, count) {
                    p class="more" {
                        "and " (more) " more: " a href="api/v1/findings" { "all findings as JSON" }
                    }
                }
                p class="advice" {
                    (with_code(info.advice)) " " a href=(runbook_path(name)) { "Runbook" }
                }
            }
        }
    }

    fn details(&self, finding: &Finding, is_open: bool) -> Markup {
        let root = self.findings.root_of(finding).filter(|_| self.labels == Labels::WithRoots);
        html! {
            @let anchor = anchor(finding);
            details class="one" id=(anchor) data-key=(anchor) data-find open[is_open] {
                summary {
                    span class="subject" { (subject(&finding.subject)) }
                    @if finding.confidence == Confidence::Suspected { " " i { "suspected" } }
                    " " (self.age(finding))
                }
                @if !finding.evidence.0.is_empty() { (evidence(self.at, finding)) }
                div class="command" {
                    code tabindex="0" { (finding.command()) }
                    button type="button" data-copy { "Copy" }
                }
                (steps(finding))
                @if let Some(root) = root {
                    p { "Explained by " b { (root.info().name) } " of " (subject(&root.subject)) "." }
                }
                (self.explained(finding))
            }
        }
    }

    /// How long the problem has lasted and, if loopwatch found it later, when the finding opened.
    fn age(&self, finding: &Finding) -> Markup {
        let is_later = finding.found.since(finding.since) >= Span::secs(1);
        html! {
            span class="age" {
                "for " (Age(self.at, finding.since))
                @if is_later { ", opened " (ago(self.at, finding.found)) }
            }
        }
    }

    /// Findings that `root` explains; they need no action of their own.
    fn explained(&self, root: &Finding) -> Markup {
        let explained = self.findings.explained_by(root);
        if explained.is_empty() {
            return Markup::default();
        }

        html! {
            details data-key={ "e-" (display(root.id)) } {
                summary {
                    "explains " (Number(explained.len() as u64)) " other finding"
                    @if explained.len() != 1 { "s" }
                }
                ul {
                    @for finding in explained.iter().take(SHOWN) {
                        @let anchor = anchor(finding);
                        li id=(anchor) data-key=(anchor) {
                            b { (finding.info().name) } " " (subject(&finding.subject)) " "
                            (self.age(finding))
                            br;
                            (finding.summary())
                        }
                    }
                }
            }
        }
    }
}

/// The anchor of a finding: `f-` and its ID.
pub(super) fn anchor(finding: &Finding) -> String {
    format!("f-{}", finding.id)
}

fn evidence(at: Timestamp, finding: &Finding) -> Markup {
    html! {
        dl {
            @for (key, value) in evidence_values(finding) {
                div {
                    dt { (key) }
                    dd {
                        @match value {
                            Value::Time(time) => {
                                (Age(at, *time)) " ago " small { (UtcTime(*time)) }
                            }
                            value => { (display(value)) }
                        }
                    }
                }
            }
        }
    }
}

/// A text of loopwatch's own with the parts between backticks as code.
fn with_code(text: &'static str) -> Markup {
    html! {
        @for (index, part) in text.split('`').enumerate() {
            @if index % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}
