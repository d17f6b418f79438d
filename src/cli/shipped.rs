//! `loopwatch rules`, `loopwatch dashboards` and `loopwatch runbook`: print files from the binary.

use clap::Args;
use clap::builder::PossibleValuesParser;

use super::SUCCESS;
use crate::export::view::all_runbooks;

/// Flags of `runbook`.
#[derive(Args, Debug)]
pub(super) struct RunbookArgs {
    /// Name of the finding; without it, loopwatch prints the names of all runbooks
    #[arg(value_name = "NAME", value_parser = runbook_names(), ignore_case = true, hide_possible_values = true)]
    name: Option<String>,
}

/// Rule files, in the order of the printed document.
const RULES: &[&str] = &[
    include_str!("../../alerts/slo.rules.yaml"),
    include_str!("../../alerts/sli.rules.yaml"),
    include_str!("../../alerts/findings.rules.yaml"),
    include_str!("../../alerts/self.rules.yaml"),
];

/// Dashboard files.
const DASHBOARDS: &[&str] = &[
    include_str!("../../dashboards/loopwatch-overview.json"),
    include_str!("../../dashboards/loopwatch-objects.json"),
    include_str!("../../dashboards/loopwatch-process.json"),
    include_str!("../../dashboards/loopwatch-self.json"),
];

pub(super) fn rules() -> anyhow::Result<u8> {
    super::print(&merged(RULES));
    Ok(SUCCESS)
}

pub(super) fn dashboards() -> anyhow::Result<u8> {
    super::print(&format!("[{}]\n", DASHBOARDS.join(",")));
    Ok(SUCCESS)
}

pub(super) fn runbook_text(args: &RunbookArgs) -> anyhow::Result<u8> {
    // The parser accepts the name in any case, and passes it on as it is.
    let is_named = |name: &str| args.name.as_ref().is_some_and(|it| it.eq_ignore_ascii_case(name));
    match all_runbooks().iter().find(|runbook| is_named(runbook.name)) {
        Some(runbook) => super::print(runbook.text),
        None => {
            all_runbooks().iter().for_each(|runbook| super::print(&format!("{}\n", runbook.name)))
        }
    }

    Ok(SUCCESS)
}

fn runbook_names() -> PossibleValuesParser {
    PossibleValuesParser::new(all_runbooks().iter().map(|runbook| runbook.name))
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
    fn the_rules_are_one_document_with_all_groups() {
        let document: serde_json::Value = serde_saphyr::from_str(&merged(RULES)).expect("YAML");
        let groups = document["groups"].as_array().expect("groups");
        let each: usize = RULES.iter().map(|file| file.matches("\n  - name: ").count()).sum();

        assert_eq!(groups.len(), each);
        assert!(each >= RULES.len());
    }
}
