//! The bundled alert rules and dashboards, as tests use them.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::repository;

/// The names of the dashboards of each installation, which are also their UIDs.
pub const DASHBOARDS: [&str; 4] =
    ["loopwatch-overview", "loopwatch-objects", "loopwatch-process", "loopwatch-self"];

/// All dashboards, with the opt-in one that compares clusters.
pub const ALL_DASHBOARDS: [&str; 5] = [
    "loopwatch-overview",
    "loopwatch-objects",
    "loopwatch-process",
    "loopwatch-self",
    "loopwatch-clusters",
];

/// A query of a panel.
#[derive(Clone, Debug)]
pub struct Query {
    /// The title of the panel.
    pub panel: String,
    /// The query, with the default values of the variables.
    pub promql: String,
}

/// A query for the values of a variable.
#[derive(Clone, Debug)]
pub struct VariableQuery {
    /// The name of the variable.
    pub variable: String,
    /// The selector of the series, with the default values of the other variables.
    pub selector: String,
    /// The label whose values it takes.
    pub label: String,
}

/// How fast Prometheus works.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Everything takes one or two seconds. The burn rates are wrong, because they depend on the
    /// interval of their rules.
    Quick,
    /// Everything takes one or two seconds, but alerts keep firing for 20 seconds, and the burn
    /// rates are right. After a restart, loopwatch needs a few seconds to list everything and to
    /// see the operator for long enough.
    Brisk,
    /// Everything takes a thirtieth of the time: a minute takes two seconds. The figures of all windows
    /// are right, because these keep their proportion to the intervals.
    Hurried,
    /// The rules are as they are, and the intervals are those of the example in `deploy/`.
    Shipped,
}

/// The values that the variables of dashboards have in tests: all values, and the built-in ones of
/// Grafana. A name that is the beginning of another one comes after it.
const VALUES: [(&str, &str); 11] = [
    ("$__rate_interval", "30s"),
    ("$__range", "1m"),
    ("$target_namespace", ".*"),
    ("$operator_pod", ".*"),
    ("$operator_version", ".*"),
    ("$operator", ".*"),
    ("$namespace", ".*"),
    ("$cluster", ".*"),
    ("$group", ".*"),
    ("$kind", ".*"),
    ("$job", ".+"),
];

/// Reads a dashboard.
pub fn dashboard(name: &str) -> Value {
    let folder = if DASHBOARDS.contains(&name) { "dashboards" } else { "dashboards/clusters" };
    let file = repository(folder).join(format!("{name}.json"));
    let text = std::fs::read_to_string(&file)
        .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Returns the panels of a dashboard, without the rows that group them.
pub fn panels(dashboard: &Value) -> Vec<&Value> {
    let mut found = Vec::new();
    for panel in dashboard["panels"].as_array().into_iter().flatten() {
        if panel["type"] != "row" {
            found.push(panel);
        }
        found.extend(panels(panel));
    }

    found
}

/// Returns all queries of a dashboard.
pub fn queries(name: &str) -> Vec<Query> {
    let dashboard = dashboard(name);
    let of_panel = |panel: &&Value| {
        let title = panel["title"].as_str().unwrap_or_default().to_owned();
        let targets = panel["targets"].as_array().cloned().unwrap_or_default();
        targets.into_iter().map(move |target| Query {
            panel: title.clone(),
            promql: filled_in(target["expr"].as_str().unwrap_or_default()),
        })
    };

    let queries: Vec<Query> = panels(&dashboard).iter().flat_map(of_panel).collect();
    assert!(!queries.is_empty(), "{name} has no query");

    queries
}

/// Returns the queries of the annotations of a dashboard.
pub fn annotation_queries(name: &str) -> Vec<Query> {
    let dashboard = dashboard(name);
    let annotations = dashboard["annotations"]["list"].as_array().into_iter().flatten();
    let queries = annotations.filter_map(|annotation| {
        let (name, promql) = (annotation["name"].as_str()?, annotation["expr"].as_str()?);
        Some(Query { panel: name.to_owned(), promql: filled_in(promql) })
    });

    queries.collect()
}

/// Returns the queries of the variables of a dashboard.
pub fn variable_queries(name: &str) -> Vec<VariableQuery> {
    let dashboard = dashboard(name);
    let variables = dashboard["templating"]["list"].as_array().into_iter().flatten();
    let queries = variables.filter(|variable| variable["type"] == "query").map(|variable| {
        let query = filled_in(variable["query"].as_str().unwrap_or_default());
        let inner = query.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')'));
        let (selector, label) =
            inner.and_then(|inner| inner.rsplit_once(", ")).unwrap_or_else(|| panic!("{query}"));
        let variable = variable["name"].as_str().unwrap_or_default().to_owned();

        VariableQuery { variable, selector: selector.to_owned(), label: label.to_owned() }
    });

    queries.collect()
}

/// Fills in the values of the variables.
fn filled_in(text: &str) -> String {
    let text = VALUES.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value));
    let mut rest = text.split('$').skip(1);

    // A digit is the number of a group of a regular expression, and no variable.
    let are_groups = rest.all(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    assert!(are_groups, "an unknown variable: {text}");

    text
}

/// Writes copies of the bundled rules, with the times of this pace.
pub fn rules_at(pace: Pace, directory: &Path) -> Vec<PathBuf> {
    rules_of("alerts", pace, directory)
}

/// Like [`rules_at`], with the opt-in rules that compare clusters, of which a user has changed a recorded
/// threshold: its name and its value.
pub fn central_rules_at(
    pace: Pace,
    directory: &Path,
    (threshold, value): (&str, u32),
) -> Vec<PathBuf> {
    let central = rules_of("alerts/clusters", pace, directory);
    for file in &central {
        let text = std::fs::read_to_string(file).expect("our own file");
        let before = format!("record: {threshold}\n        expr: vector(");
        let (start, rest) = text.split_once(&before).expect(threshold);
        let (_, end) = rest.split_once(')').expect("a value");
        std::fs::write(file, format!("{start}{before}{value}){end}")).expect("our own file");
    }

    [rules_at(pace, directory), central].concat()
}

fn rules_of(folder: &str, pace: Pace, directory: &Path) -> Vec<PathBuf> {
    std::fs::create_dir_all(directory).expect("our own folder");
    let bundled =
        std::fs::read_dir(repository(folder)).expect("the bundled rules").filter_map(Result::ok);
    let mut files = Vec::new();

    for entry in bundled.filter(|entry| entry.path().to_string_lossy().ends_with(".rules.yaml")) {
        let text = std::fs::read_to_string(entry.path()).expect("a bundled file");
        let changed: Vec<String> = text.lines().map(|line| at_pace(pace, line)).collect();
        let to = directory.join(entry.file_name());
        std::fs::write(&to, changed.join("\n")).expect("our own folder");
        files.push(to);
    }

    assert!(!files.is_empty(), "there are no bundled rules");

    files
}

/// Changes the times in a line of a rule. Rules without a wait stay without one.
fn at_pace(pace: Pace, line: &str) -> String {
    let (keep_firing_for, kept) = match pace {
        Pace::Quick => ("2s", None),
        Pace::Brisk => ("20s", Some("interval: 1m")),
        Pace::Hurried => return hurried(line),
        Pace::Shipped => return line.to_owned(),
    };
    let field = line.trim_start();
    for (name, time) in
        [("for: ", "2s"), ("keep_firing_for: ", keep_firing_for), ("interval: ", "2s")]
    {
        if field.starts_with(name) && field != "for: 0s" && Some(field) != kept {
            return format!("{}{name}{time}", &line[..line.len() - field.len()]);
        }
    }

    line.to_owned()
}

/// The texts before the durations of rules: those of fields, of windows, and of looks back.
const BEFORE_DURATIONS: [&str; 4] = ["for: ", "interval: ", "[", "offset "];

/// Divides the durations in a line of a rule by 30.
fn hurried(line: &str) -> String {
    BEFORE_DURATIONS.iter().fold(line.to_owned(), |line, before| {
        let mut parts = line.split(before);
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |text, part| format!("{text}{before}{}", hurried_duration(part)))
    })
}

/// Divides the duration with which a text begins, if it does.
fn hurried_duration(text: &str) -> String {
    let digits = text.chars().take_while(char::is_ascii_digit).count();
    let (number, rest) = text.split_at(digits);
    let seconds = match rest.chars().next() {
        Some('s') => 1,
        Some('m') => 60,
        Some('h') => 3600,
        Some('d') => 86400,
        _ => return text.to_owned(),
    };

    match number.parse::<u64>() {
        Ok(number) => format!("{}ms{}", number * seconds * 1000 / 30, &rest[1..]),
        Err(_) => text.to_owned(),
    }
}
