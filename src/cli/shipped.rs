//! `loopwatch rules`, `loopwatch dashboards` and `loopwatch runbook`: print files from the binary.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Args, Command, Error};

use super::SUCCESS;
use crate::export::view::{Nearest, Runbook, TICKET, all_runbooks};

/// Flags of `rules` and `dashboards`.
#[derive(Args, Debug)]
pub(super) struct ShippedArgs {
    /// Print only what compares several clusters, for the one place that has the series of all
    #[arg(long)]
    clusters: bool,
}

/// Flags of `runbook`.
#[derive(Args, Debug)]
pub(super) struct RunbookArgs {
    /// Name of the finding or of its alert, such as OperatorDown or LoopwatchOperatorDown; without it,
    /// loopwatch prints the names of all runbooks
    #[arg(value_name = "NAME", value_parser = RunbookName, hide_possible_values = true)]
    runbook: Option<&'static Runbook>,
}

/// Parses the name of a runbook. Completion scripts offer all names.
#[derive(Clone)]
struct RunbookName;

/// The names of alerts begin with this, and continue with the name of the runbook.
const ALERT_PREFIX: &str = "loopwatch";

/// Rule files, in the order of the printed document.
const RULES: &[&str] = &[
    include_str!("../../alerts/slo.rules.yaml"),
    include_str!("../../alerts/sli.rules.yaml"),
    include_str!("../../alerts/findings.rules.yaml"),
    include_str!("../../alerts/self.rules.yaml"),
];

/// The rules that compare clusters, which belong in another place than the others.
const RULES_OF_CLUSTERS: &str = include_str!("../../alerts/clusters/clusters.rules.yaml");

/// Dashboard files.
const DASHBOARDS: &[&str] = &[
    include_str!("../../dashboards/loopwatch-overview.json"),
    include_str!("../../dashboards/loopwatch-objects.json"),
    include_str!("../../dashboards/loopwatch-process.json"),
    include_str!("../../dashboards/loopwatch-self.json"),
];

/// The dashboards that compare clusters, which have nothing to show without these rules.
const DASHBOARDS_OF_CLUSTERS: &[&str] =
    &[include_str!("../../dashboards/clusters/loopwatch-clusters.json")];

pub(super) fn rules(args: &ShippedArgs) -> anyhow::Result<u8> {
    let text = if args.clusters { RULES_OF_CLUSTERS.to_owned() } else { merged(RULES) };
    super::print(&text)?;
    Ok(SUCCESS)
}

pub(super) fn dashboards(args: &ShippedArgs) -> anyhow::Result<u8> {
    let files = if args.clusters { DASHBOARDS_OF_CLUSTERS } else { DASHBOARDS };
    super::print(&format!("[{}]\n", files.join(",")))?;
    Ok(SUCCESS)
}

pub(super) fn runbook_text(args: &RunbookArgs) -> anyhow::Result<u8> {
    match args.runbook {
        Some(runbook) => super::print(runbook.text)?,
        None => {
            let names = all_runbooks().iter().map(|runbook| format!("{}\n", runbook.name));
            super::print(&names.collect::<String>())?;
        }
    }

    Ok(SUCCESS)
}

impl TypedValueParser for RunbookName {
    type Value = &'static Runbook;

    fn parse_ref(
        &self,
        command: &Command,
        _arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Self::Value, Error> {
        named(&value.to_string_lossy())
            .map_err(|problem| Error::raw(ErrorKind::ValueValidation, problem).with_cmd(command))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(all_runbooks().iter().map(|runbook| PossibleValue::new(runbook.name))))
    }
}

/// The runbook of a finding or an alert, in any case.
fn named(text: &str) -> Result<&'static Runbook, String> {
    let lower = text.to_ascii_lowercase();
    let word = lower.strip_prefix(ALERT_PREFIX).unwrap_or(&lower);
    if let Some(found) = all_runbooks().iter().find(|it| it.name.eq_ignore_ascii_case(word)) {
        return Ok(found);
    }

    if text.eq_ignore_ascii_case(TICKET) {
        return Err(format!(
            "the alert {TICKET} covers many findings; name the finding, which its label `finding` has"
        ));
    }

    let mut nearest = Nearest::new(word);
    all_runbooks().iter().for_each(|it| nearest.offer(it.name, || it.name.to_owned()));
    let hint = match nearest.hint() {
        hint if hint.is_empty() => "; `loopwatch runbook` prints the names of all".to_owned(),
        hint => hint,
    };
    Err(format!("there is no runbook {text:?}{hint}"))
}

/// Merges the groups of all files into one document, in which `groups:` may occur only once.
fn merged(files: &[&str]) -> String {
    let mut text = String::new();
    for (index, file) in files.iter().enumerate() {
        let lines = file.lines().filter(|line| index == 0 || *line != "groups:");
        lines.for_each(|line| {
            text.push_str(line);
            text.push('\n');
        });
    }

    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_alert_leads_to_its_runbook() {
        let rules = merged(RULES) + RULES_OF_CLUSTERS;
        let alerts = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
        for alert in alerts {
            match named(alert) {
                Ok(runbook) => assert_eq!(format!("Loopwatch{}", runbook.name), alert),
                Err(problem) => {
                    assert!(alert == TICKET && problem.contains("`finding`"), "{alert}")
                }
            }
        }

        assert_eq!(named("operatordown").map(|it| it.name), Ok("OperatorDown"));
        assert_eq!(
            named("LoopwatchOperatrDown").map(|it| it.name),
            Err("there is no runbook \"LoopwatchOperatrDown\"; did you mean OperatorDown?"
                .to_owned())
        );
        assert_eq!(
            named("xyz").map(|it| it.name),
            Err("there is no runbook \"xyz\"; `loopwatch runbook` prints the names of all"
                .to_owned())
        );
    }

    #[test]
    fn the_rules_are_one_document_with_all_groups() {
        let document: serde_json::Value = serde_saphyr::from_str(&merged(RULES)).expect("YAML");
        let groups = document["groups"].as_array().expect("groups");
        let each: usize = RULES.iter().map(|file| file.matches("\n  - name: ").count()).sum();

        assert_eq!(groups.len(), each);
        assert!(each >= RULES.len());
    }
}
