//! The permissions: documents and roles agree with the table of what loopwatch asks for.

use std::collections::BTreeSet;
use std::fs;

use loopwatch::needs::{Asks, Contents, Grant, NEEDS, Need, Scope};
use serde_json::Value;

use super::{documents, files_with, read, root};

/// The document with the table, and the lines around it.
const DOCUMENT: &str = "deploy/README.md";
const BEGIN: &str =
    "<!-- Generated from src/needs/table.rs by `UPDATE=1 cargo test`: do not edit. -->\n";
const END: &str = "<!-- End of the generated table. -->\n";

/// The roles of each grant.
const ROLES: [(Grant, &str); 5] = [
    (Grant::Base, "deploy/base/discovery.yaml"),
    (Grant::ReaderRights, "deploy/components/reader-rights/reader.yaml"),
    (Grant::NamespacedReaderRights, "deploy/components/reader-rights-namespaced/reader.yaml"),
    (Grant::WebAuth, "deploy/components/web-auth/reviews.yaml"),
    (Grant::Cluster, "deploy/cluster/operators.yaml"),
];

/// A role with wildcards, which the table cannot name.
const ALL_KINDS: &str = "deploy/components/read-all-kinds/kinds.yaml";

/// One permission: verb, API group, and resource. Paths outside the resources have no group.
type Permission = (String, String, String);

/// The group and the resources, or paths, of a row that names them.
fn named(need: &Need) -> Option<(&'static str, Vec<&'static str>)> {
    match need.asks {
        Asks::Of(group, resources) => Some((group, resources.to_vec())),
        Asks::OperatorPath(path) => Some(("", vec![path])),
        Asks::AnyResource | Asks::Paths(_) => None,
    }
}

/// What the rows with this grant need.
fn needed(grant: Grant) -> BTreeSet<Permission> {
    let rows = NEEDS.iter().filter(|need| need.granted_by.contains(&grant));
    rows.flat_map(|need| {
        let (group, resources) = named(need).expect("a role names its resources");
        need.verbs.iter().flat_map(move |verb| {
            let permission =
                |resource: &&str| (verb.as_str().into(), group.into(), (*resource).into());
            resources.iter().map(permission).collect::<Vec<_>>()
        })
    })
    .collect()
}

/// What the roles in a file permit.
fn permitted(file: &str) -> BTreeSet<Permission> {
    let words = |list: &Value| -> Vec<String> {
        let list = list.as_array().into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };

    let mut permissions = BTreeSet::new();
    for document in documents(&read(file)) {
        for rule in document["rules"].as_array().into_iter().flatten() {
            let mut groups = words(&rule["apiGroups"]);
            let mut resources = words(&rule["resources"]);
            if !rule["nonResourceURLs"].is_null() {
                groups.push(String::new());
                resources.extend(words(&rule["nonResourceURLs"]));
            }

            assert!(rule["resourceNames"].is_null(), "the table has no names: {rule}");

            for verb in words(&rule["verbs"]) {
                for group in &groups {
                    permissions.extend(
                        resources.iter().map(|it| (verb.clone(), group.clone(), it.clone())),
                    );
                }
            }
        }
    }

    permissions
}

#[test]
fn each_role_grants_exactly_what_features_need() {
    for (grant, file) in ROLES {
        assert_eq!(permitted(file), needed(grant), "{file}");
        assert!(!needed(grant).is_empty(), "{file}");
    }

    let mut roles = BTreeSet::new();
    for folder in ["deploy/base", "deploy/cluster", "deploy/components"] {
        for file in files_with(&root().join(folder), "yaml", &[]) {
            let text = fs::read_to_string(&file).expect("readable");
            if documents(&text)
                .iter()
                .any(|it| it["rules"].as_array().is_some_and(|r| !r.is_empty()))
            {
                let path = file.strip_prefix(root()).expect("a file of the repository");
                // A PrometheusRule has groups of rules, and no rules of its own.
                roles.insert(path.display().to_string());
            }
        }
    }

    let files = ROLES.iter().map(|(_, file)| *file).chain([ALL_KINDS]);
    let compared: BTreeSet<String> = files.map(str::to_owned).collect();
    assert_eq!(roles, compared, "a role that no row knows");
}

fn rows() -> String {
    let mut table = String::from(
        "| feature | API group: resources | verbs | where | purpose | without it | granted by |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for need in NEEDS {
        let setting = need.setting.map(|setting| format!(" ({setting})")).unwrap_or_default();
        let verbs: Vec<String> =
            need.verbs.iter().map(|verb| format!("`{}`", verb.as_str())).collect();
        let contents = match need.contents {
            Contents::Metadata => ". **Metadata only**",
            Contents::Whole | Contents::Review => "",
        };

        table.push_str(&format!(
            "| {}{setting} | {} | {} | {} | {}{contents} | {} | {} |\n",
            need.feature,
            asked(need.asks),
            verbs.join(", "),
            place(need.scope),
            need.why,
            need.without,
            grants(need.granted_by),
        ));
    }

    table
}

fn asked(asks: Asks) -> String {
    let list = |words: &[&str]| {
        words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
    };
    match asks {
        Asks::Of("", resources) => format!("core: {}", list(resources)),
        Asks::Of(group, resources) => format!("`{group}`: {}", list(resources)),
        Asks::AnyResource => "those of the kind".to_owned(),
        Asks::Paths(paths) => format!("`nonResourceURLs`: {}", list(paths)),
        Asks::OperatorPath(path) => format!("`nonResourceURLs`: {}", list(&[path])),
    }
}

fn place(scope: Scope) -> &'static str {
    match scope {
        Scope::Cluster => "cluster",
        Scope::Watched => "namespaces of the objects",
        Scope::Operator => "the operator's namespace",
    }
}

fn grants(grants: &[Grant]) -> String {
    let name = |grant: &Grant| match grant {
        Grant::Everybody => "the built-in roles of every account",
        Grant::Base => "`base`",
        Grant::ReaderRights => "`reader-rights`",
        Grant::NamespacedReaderRights => "`reader-rights-namespaced`",
        Grant::WebAuth => "`web-auth`",
        Grant::Cluster => "`cluster`",
    };
    match grants {
        [] => "none".to_owned(),
        _ => grants.iter().map(name).collect::<Vec<_>>().join(", "),
    }
}

#[test]
fn the_table_of_permissions_is_generated() {
    let text = read(DOCUMENT);
    let (before, rest) = text.split_once(BEGIN).expect("the beginning of the table");
    let (_, after) = rest.split_once(END).expect("the end of the table");
    let new = format!("{before}{BEGIN}{}{END}{after}", rows());

    if std::env::var_os("UPDATE").is_some() {
        fs::write(root().join(DOCUMENT), &new).expect("written");
    }

    assert!(read(DOCUMENT) == new, "{DOCUMENT} is out of date; run with UPDATE=1");
}
