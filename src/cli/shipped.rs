//! `loopwatch rules` and `loopwatch dashboards`: print files from the binary.

use super::SUCCESS;

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
