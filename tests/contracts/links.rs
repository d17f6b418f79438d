//! The documents: each link between them leads to a file and a heading that exist, and the README
//! names the alerts that page.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use super::{files_with, read, root, rules};

/// A link in a document to another file, or to a heading of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Link<'a> {
    /// Empty for the document itself.
    path: &'a str,
    /// Empty for the whole file.
    heading: &'a str,
}

/// The lines of a document without those of code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// The links of a document within the repository.
fn links(text: &str) -> Vec<Link<'_>> {
    let targets = prose(text).flat_map(|line| {
        let outside_code = line.split('`').step_by(2);
        outside_code.flat_map(|part| part.split("](").skip(1)).filter_map(|rest| {
            let target = rest.split(')').next()?;
            (!target.contains("://") && !target.is_empty()).then_some(target)
        })
    });

    targets
        .map(|target| {
            let (path, heading) = target.split_once('#').unwrap_or((target, ""));
            Link { path, heading }
        })
        .collect()
}

/// The anchors that GitHub gives to the headings of a document.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let headings = prose(text).filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
            let count = seen.entry(anchor.clone()).or_default();
            *count += 1;
            if *count == 1 { anchor } else { format!("{anchor}-{}", *count - 1) }
        })
        .collect()
}

/// Resolves `..`, so that the result names one file in one way.
fn resolved(folder: &Path, path: &str) -> PathBuf {
    let mut full = PathBuf::new();
    for component in folder.join(path).components() {
        match component {
            Component::ParentDir => {
                full.pop();
            }
            other => full.push(other),
        }
    }

    full
}

/// The alert on all findings without an alert of their own: usually a ticket.
const OTHERS: &str = "LoopwatchFinding";

/// The links of a document that lead nowhere.
fn broken<'a>(document: &Path, text: &'a str) -> Vec<Link<'a>> {
    let folder = document.parent().expect("a folder");
    let leads_nowhere = |link: &Link<'_>| {
        let target = match link.path {
            "" => document.to_owned(),
            path => resolved(folder, path),
        };
        let is_document = target.extension().is_some_and(|extension| extension == "md");

        !target.exists()
            || (is_document
                && !link.heading.is_empty()
                && !anchors(&read(&target)).contains(link.heading))
    };

    links(text).into_iter().filter(leads_nowhere).collect()
}

#[test]
fn links_between_documents_lead_to_headings_that_exist() {
    // Reports in golden files are no documents.
    let documents = files_with(&root(), "md", &["golden", "scenarios"]);
    let mut count = 0;
    for document in &documents {
        let text = read(document);
        count += links(&text).len();

        assert_eq!(broken(document, &text), [], "{}", document.display());
    }

    assert!(documents.len() > 100 && count > 500, "{} documents, {count} links", documents.len());
}

#[test]
fn a_link_to_a_missing_file_or_heading_is_broken() {
    let document = root().join("README.md");
    let text = "[a](docs/metrics.md#metrics) [b](docs/missing.md) [c](docs/metrics.md#missing)\n\
                `[code](missing)` [web](https://example.com/missing)\n```\n[block](missing)\n```\n";

    let link = |path, heading| Link { path, heading };
    assert_eq!(
        broken(&document, text),
        [link("docs/missing.md", ""), link("docs/metrics.md", "missing")]
    );
}

#[test]
fn the_readme_names_the_alerts_that_page() {
    let readme = read("README.md");
    let (_, rest) = readme.split_once("These alerts page: ").expect("the list");
    let (list, _) = rest.split_once(". ").expect("the end of the list");
    let named: BTreeSet<&str> = list.split('`').skip(1).step_by(2).collect();

    let rules = rules();
    let critical = rules.iter().filter(|rule| rule["labels"]["severity"] == "critical");
    let names = critical.filter_map(|rule| rule["alert"].as_str());
    let paging: BTreeSet<&str> = names.filter(|name| *name != OTHERS).collect();

    assert_eq!(named, paging);
}
