//! The runbooks, which loopwatch contains: the page shows them, and `loopwatch runbook` prints them.

use self::texts::RUNBOOKS;

mod texts; // the list of files

/// A runbook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Runbook {
    /// The name of the file without `.md`: for most runbooks, that of a finding.
    pub(crate) name: &'static str,
    /// The text, in Markdown.
    pub(crate) text: &'static str,
}

/// Defines `RUNBOOKS` with the texts of the named files.
macro_rules! runbooks {
    ($($name:literal,)*) => {
        /// All runbooks, by name.
        pub(super) const RUNBOOKS: &[super::Runbook] = &[
            $(super::Runbook {
                name: $name,
                text: include_str!(concat!("../../../../docs/runbooks/", $name, ".md")),
            }),*
        ];
    };
}

use runbooks;

/// All runbooks, by name.
#[must_use]
pub(crate) fn all_runbooks() -> &'static [Runbook] {
    RUNBOOKS
}

/// The runbook of a finding or an alert.
#[must_use]
pub(crate) fn runbook(name: &str) -> Option<&'static Runbook> {
    RUNBOOKS.iter().find(|runbook| runbook.name == name)
}

/// The path of a runbook on the page, relative to the overview.
#[must_use]
pub(crate) fn runbook_path(name: &str) -> String {
    format!("runbooks/{name}")
}

/// The command that prints a runbook. It needs no network.
#[must_use]
pub(crate) fn runbook_command(name: &str) -> String {
    format!("loopwatch runbook {name}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use loopwatch_model::finding::FINDINGS;

    use super::*;

    /// The list of the files in `docs/runbooks`, as `runbooks/texts.rs` has it. The file of a new
    /// finding may not exist yet: another test creates its draft.
    fn list() -> String {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/runbooks");
        let files = fs::read_dir(folder).expect("the folder exists").map(|entry| {
            let file = entry.expect("a file").file_name().to_string_lossy().into_owned();
            file.trim_end_matches(".md").to_owned()
        });
        let findings = FINDINGS.iter().map(|info| info.name.to_owned());
        let names: BTreeSet<String> = files.chain(findings).collect();
        let lines = names.iter().map(|name| format!("    {name:?},\n"));

        format!(
            "//! Generated from the files in `docs/runbooks` by `UPDATE=1 cargo test --lib`; do not \
             edit.\n\nsuper::runbooks![\n{}];\n",
            lines.collect::<String>()
        )
    }

    #[test]
    fn loopwatch_contains_every_runbook() {
        crate::golden::check("src/export/view/runbooks/texts.rs", &list());

        assert!(RUNBOOKS.iter().all(|one| one.text.starts_with(&format!("# {}\n", one.name))));
        assert_eq!(runbook("Overdue").map(|found| found.name), Some("Overdue"));
        assert_eq!(runbook("overdue.md"), None);
    }
}
