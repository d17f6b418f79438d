//! The names under which loopwatch is published: no file may contain another one.

use std::collections::BTreeSet;
use std::fs;

use loopwatch::published::PUBLISHED;

use super::{files_in, read, root};

/// The files that name the image.
const WITH_IMAGE: [&str; 6] = [
    "README.md",
    "deploy/README.md",
    "deploy/base/deployment.yaml",
    "deploy/components/sidecar/kustomization.yaml",
    "deploy/components/sidecar/sidecar.yaml",
    "deploy/injection/policy.yaml",
];

/// Public services where a stranger could register our name.
const SERVICES: [&str; 8] = [
    "github.com",
    "githubusercontent.com",
    "github.io",
    "gitlab.com",
    "ghcr.io",
    "quay.io",
    "docker.io",
    "pkg.dev",
];

/// Module paths of Go programs in the tests. Each is the main module of its build, and no module
/// requires it, so Go never fetches it.
const MODULE: &str = "module ";

/// The image in a line of a manifest or of a document, if it is ours. A tag does not count. In an
/// expression of a policy, the image is in quotes, on a line of its own.
fn image_in(line: &str) -> Option<&str> {
    let after = |word: &str| Some(line.split_once(word)?.1);
    let quoted = || line.trim_start().strip_prefix('\'');
    let value = after("image: ").or_else(|| after("- name: ")).or_else(quoted)?;
    let name = value.split([' ', ',', '}', '\'']).next()?;
    let (folder, image) = name.rsplit_once('/')?;
    let without_tag = image.split(':').next()?;

    (without_tag == "loopwatch").then(|| &name[..folder.len() + 1 + without_tag.len()])
}

#[test]
fn manifests_and_documents_name_the_image_of_the_table() {
    for file in WITH_IMAGE {
        let text = read(file);
        let mut images: Vec<&str> = text.lines().filter_map(image_in).collect();
        images.dedup();

        if std::env::var_os("UPDATE").is_some() {
            let new =
                images.iter().fold(text.clone(), |new, old| new.replace(old, PUBLISHED.image));
            fs::write(root().join(file), &new).expect("written");
            continue;
        }

        assert_eq!(images, [PUBLISHED.image], "{file}: run with UPDATE=1");
    }
}

/// The repository in a command that verifies a signature.
fn repository_in(line: &str) -> Option<&str> {
    let (_, identity) = line.split_once("--certificate-identity ")?;
    Some(identity.split_once("/.github/workflows/release.yml@refs/tags/")?.0)
}

#[test]
fn the_commands_that_verify_a_release_name_the_repository_of_the_table() {
    let file = "deploy/README.md";
    let text = read(file);
    let found: Vec<&str> = text.lines().filter_map(repository_in).collect();

    if std::env::var_os("UPDATE").is_some() {
        let replace = |new: String, old: &&str| new.replace(*old, PUBLISHED.repository);
        fs::write(root().join(file), found.iter().fold(text.clone(), replace)).expect("written");
        return;
    }

    assert_eq!(found, [PUBLISHED.repository; 2], "{file}: run with UPDATE=1");
}

#[test]
fn the_release_workflow_finds_the_names_of_the_table() {
    let (table, workflow) = (read("src/published.rs"), read(".github/workflows/release.yml"));
    for (field, name) in [("image", PUBLISHED.image), ("repository", PUBLISHED.repository)] {
        let lines = table.lines().filter(|line| *line == format!("    {field}: \"{name}\","));

        assert_eq!(lines.count(), 1, "{field}");
        assert!(workflow.contains(&format!("^    {field}: ")), "{field}");
    }
}

#[test]
fn workflows_name_actions_of_others_by_commit() {
    let mut actions = 0;
    for file in files_in(&root().join(".github/workflows")) {
        let text = fs::read_to_string(&file).expect("readable");
        let uses = text.lines().filter_map(|line| Some(line.split_once("uses: ")?.1));
        for action in uses.filter(|action| !action.starts_with("./")) {
            let pin = action.split_once('@').and_then(|(_, pin)| pin.split_once(" # v"));
            let is_commit = |commit: &str| {
                commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit())
            };

            assert!(pin.is_some_and(|(commit, _)| is_commit(commit)), "{action}");
            actions += 1;
        }
    }

    assert!(actions >= 5, "{actions}");
}

/// The first line that names loopwatch at a public service, unless the table has this name.
fn foreign_name(text: &str) -> Option<&str> {
    let is_published = |line: &str| {
        line.contains(PUBLISHED.image)
            || line.contains(PUBLISHED.repository)
            || PUBLISHED.docs.is_some_and(|docs| line.contains(docs))
    };
    let is_name = |line: &str| {
        let (line, at) = (line.to_lowercase(), |service: &&str| format!("{service}/loopwatch"));
        SERVICES.iter().any(|service| line.contains(&at(service)))
    };

    text.lines()
        .filter(|line| !line.starts_with(MODULE))
        .find(|line| is_name(line) && !is_published(line))
}

#[test]
fn no_file_has_a_name_that_a_stranger_could_register() {
    let files = files_in(&root());
    assert!(files.len() > 1000, "only {} files", files.len());

    for file in files {
        let text = fs::read(&file).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);

        assert_eq!(foreign_name(&text), None, "{}", file.display());
    }

    let module = format!("{MODULE}{}/loopwatch/tests", SERVICES[0]);
    let link = format!("see https://{}/loopwatch/loopwatch", SERVICES[0]);

    assert_eq!(foreign_name(&module), None);
    assert_eq!(foreign_name(&link), Some(link.as_str()));
}

#[test]
fn the_installation_lists_every_component() {
    let file = "deploy/README.md";
    let text = read(file);
    let (_, rest) = text.split_once("| component | adds |\n").expect("the table");
    let (table, _) = rest.split_once("\n\n").expect("the end of the table");
    let named = table.lines().filter_map(|row| row.split('`').nth(1)?.strip_prefix("components/"));
    let listed: BTreeSet<String> = named.map(str::to_owned).collect();

    let folders = fs::read_dir(root().join("deploy/components")).expect("the folder exists");
    let existing: BTreeSet<String> = folders
        .map(|folder| folder.expect("a folder").file_name().to_string_lossy().into_owned())
        .collect();

    assert_eq!(listed, existing, "{file}");
}
