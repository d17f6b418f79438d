//! `loopwatch rules` and `loopwatch dashboards`: what is bundled, for people who have only the binary.

use super::FINE;

/// Rule files in the order in which they are printed, as one document.
const RULES: &[&str] = &[
    include_str!("../../alerts/slo.rules.yaml"),
    include_str!("../../alerts/findings.rules.yaml"),
    include_str!("../../alerts/self.rules.yaml"),
];

/// Dashboards.
const DASHBOARDS: &[&str] = &[include_str!("../../dashboards/loopwatch-overview.json")];

pub(super) fn rules() -> anyhow::Result<u8> {
    super::say(&merged(RULES));
    Ok(FINE)
}

pub(super) fn dashboards() -> anyhow::Result<u8> {
    super::say(&format!("[{}]\n", DASHBOARDS.join(",")));
    Ok(FINE)
}

/// One document with the groups of all files: `groups:` may stand there once.
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
