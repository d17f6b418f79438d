//! Generates documentation from the table of findings: `docs/findings.md` and drafts of runbooks.

use std::fmt::Write as _;

use crate::export::view::{TICKET, capitalised};
use loopwatch_model::finding::{Alert, Explainer, FINDINGS, FindingInfo, Severity};

/// The headings that every runbook has, in this order, after its impact and its first command.
pub(super) const RUNBOOK_HEADINGS: [&str; 5] =
    ["Diagnosis", "Mitigation", "Recovery", "False alarms", "Meaning"];

// `write!` to a string cannot fail, so this file drops its result.

/// `docs/findings.md`.
#[must_use]
pub(super) fn findings() -> String {
    let mut page = String::from(
        "<!-- Generated from model/src/finding/table.rs by `UPDATE=1 cargo test`: do not edit. -->\n\n# Findings\n\n\
         This is the complete list of findings. Open findings appear in the metrics `loopwatch_findings` and\n\
         `loopwatch_finding_since_timestamp_seconds`, on the page, in the API and in the report of `check`.\n\
         A finding raises an alert only if no other open finding explains it ([noise](alerts.md#noise)). A critical finding pages, and a warning opens a\n\
         ticket. A finding about an operator or a controller also takes the severity of the findings that it explains. In commands, loopwatch replaces\n\
         the placeholders in braces with the values of the subject and of its evidence. The page serves the runbooks at `/runbooks`, and\n\
         `loopwatch runbook NAME` prints them.\n\n\
         A finding has two times. The problem began at the first one: \"for 12m\", `since` in JSON. For an object that waits, this is\n\
         the spec change or the deletion. The finding opened at the second one, after its threshold: \"opened\", `found` in JSON.\n",
    );

    let mut area = None;
    for info in FINDINGS {
        if area.replace(info.area) != Some(info.area) {
            let _ = write!(page, "\n## {}\n", capitalised(info.area.as_str()));
        }

        let evidence: Vec<_> = info.evidence.iter().map(|key| format!("`{key}`")).collect();
        let _ = write!(
            page,
            "\n### {name}\n\n{meaning}\n\n- Severity: {severity}\n{alert}- Not to be confused with: {near}\n\
             - Evidence: {evidence}\n{thresholds}{explained}- Action: {advice}\n- Next command: `{command}`{otherwise}\n\
             - [Runbook](runbooks/{name}.md)\n",
            name = info.name,
            meaning = info.meaning,
            severity = severity(info),
            alert = super::rules::alert(info)
                .map(|name| match info.alert {
                    Alert::Page => format!("- Alert: `{name}`; as a ticket, `{TICKET}`\n"),
                    _ => format!("- Alert: `{name}`\n"),
                })
                .unwrap_or_default(),
            near = info.near_miss,
            evidence = evidence.join(", "),
            thresholds = thresholds(info),
            explained = explained(info),
            advice = info.advice,
            command = info.command,
            otherwise = otherwise(info),
        );
    }

    page
}

/// The severity, with the condition under which it is critical.
fn severity(info: &FindingInfo) -> String {
    let own = info.severity.as_str();
    match info.alert {
        Alert::Page => {
            format!("{own} {}; otherwise {}", info.critical_only, Severity::Warning.as_str())
        }
        Alert::TicketUnlessMost => format!(
            "{own}; {} if at least `page_percent` of the objects of a kind, and at least `page_objects`, have had the finding \
             for `page_after`",
            Severity::Critical.as_str()
        ),
        Alert::Ticket | Alert::None => own.to_owned(),
    }
}

/// The command for evidence that lacks what the first one needs; empty if there is none.
fn otherwise(info: &FindingInfo) -> String {
    match info.otherwise {
        "" => String::new(),
        command => {
            let absent = if info.command.contains("{pod}") { "Pod" } else { "target" };
            format!(", or `{command}` if the evidence names no {absent}")
        }
    }
}

/// The line that lists the settings with the thresholds; empty if there are none.
fn thresholds(info: &FindingInfo) -> String {
    let names: Vec<_> = info.settings.iter().map(|name| format!("`{name}`")).collect();
    if names.is_empty() {
        String::new()
    } else {
        format!("- Thresholds: {} ([defaults](alerts.md#alerts-on-findings))\n", names.join(", "))
    }
}

/// The line "Explained by"; empty if no finding explains this one.
fn explained(info: &FindingInfo) -> String {
    let explainers = info.explained_by.iter().map(|explainer| match explainer {
        Explainer::Subject(code) => code.name().to_owned(),
        Explainer::Kind(code) => format!("{} of the kind", code.name()),
        Explainer::Reconciled(code) => {
            format!("{} of the controller's kind, if it did not begin much later", code.name())
        }
        Explainer::Blocker(code) => format!("{} of the blocker", code.name()),
        Explainer::Operator(code) => format!("{} of the operator", code.name()),
        Explainer::Outage(code) => format!("{} of the operator, if it began no later", code.name()),
        Explainer::Machinery(code) => {
            format!("{} on which the kind depends, if it did not begin later", code.name())
        }
        Explainer::Controller(code) => {
            format!("{} of the kind's controller, if it did not begin much later", code.name())
        }
        Explainer::Worker(code) => {
            format!(
                "{} of the kind's controller, if the object began to wait at about the same time or no reconcile has succeeded since",
                code.name()
            )
        }
    });

    let names: Vec<_> = explainers.collect();
    if names.is_empty() { String::new() } else { format!("- Explained by: {}\n", names.join(", ")) }
}

/// The draft of a runbook for somebody to complete.
#[must_use]
pub(super) fn runbook(info: &FindingInfo) -> String {
    let evidence: Vec<_> = info.evidence.iter().map(|key| format!("`{key}`")).collect();
    format!(
        "# {name}\n\n{impact}\n\n```sh\n{command}\n```\n\n## Diagnosis\n\n\
         Read the evidence of the finding ({evidence}).\n\n| output | cause | action |\n|---|---|---|\n\n\
         ## Mitigation\n\n- {advice}\n\n## Recovery\n\nThe finding closes.\n\n```promql\n\
         loopwatch_findings{{finding=\"{name}\"}}\n```\n\n## False alarms\n\nNot to be confused with: {near}\n\n\
         ## Meaning\n\n{meaning}\n",
        name = info.name,
        meaning = info.meaning,
        near = info.near_miss,
        impact = impact(info),
        evidence = evidence.join(", "),
        command = info
            .command
            .replace("{resource}", "<kind>.<group>")
            .replace("{in_namespace}", " -n <namespace>")
            .replace("{kind}", "<kind>")
            .replace("{group}", "<group>")
            .replace("{name}", "<name>")
            .replace("{pod}", " -n <operator-namespace> <pod>")
            .replace("{target}", "<target-kind> <target> -n <namespace>"),
        advice = info.advice,
    )
}

fn impact(info: &FindingInfo) -> &'static str {
    match info.severity.as_str() {
        "critical" => "The operator does not work, and its users are affected now.",
        "warning" => "Some objects do not work as specified and will not recover by themselves.",
        _ => "No object is affected at the moment.",
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::golden;

    #[test]
    fn the_documentation_matches_the_table() {
        golden::check("docs/findings.md", &findings());
    }

    #[test]
    fn every_finding_has_a_runbook() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/runbooks");
        for info in FINDINGS {
            let file = folder.join(format!("{}.md", info.name));
            if std::env::var_os("UPDATE").is_some() && !file.exists() {
                fs::create_dir_all(&folder).expect("the folder can be made");
                fs::write(&file, runbook(info)).expect("the file can be written");
            }

            let text = fs::read_to_string(&file).unwrap_or_default();
            assert!(
                text.starts_with(&format!("# {}\n", info.name)),
                "{}: no runbook; UPDATE=1 begins one",
                info.name
            );

            let headings: Vec<_> =
                text.lines().filter_map(|line| line.strip_prefix("## ")).collect();

            assert_eq!(headings, RUNBOOK_HEADINGS, "{}", info.name);

            for heading in RUNBOOK_HEADINGS {
                let after =
                    text.split_once(&format!("## {heading}\n")).map_or("", |(_, after)| after);
                let section = after.split("\n## ").next().unwrap_or_default();

                assert!(section.trim().len() > 20, "{}: nothing under {heading}", info.name);
            }
        }
    }
}
