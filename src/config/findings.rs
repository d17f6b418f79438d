//! Reads the key `findings` of the configuration file: rules that disable findings or change their
//! severity, for all subjects or for some kinds and namespaces.
//!
//! ```yaml
//! findings:
//!   Overdue: {severity: critical}
//!   Regressed:
//!     - {namespaces: [staging-*], enabled: false}
//!     - {kinds: [example.io/Cache], severity: info}
//!   all: {namespaces: {exclude: [prod-*]}, severity: info}
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use loopwatch_model::finding::{FINDINGS, FindingCode, Severity};
use loopwatch_model::settings::{ALL_FINDINGS, FindingRule, Selector, Settings};
use loopwatch_model::snapshot::KindSummary;
use serde_json::{Map, Value};

use super::spelling::{slip_of, unknown};
use super::values::is_label;
use crate::sources::api_server::KindSelector;

/// The key of the rules. It is not a flag.
pub(super) const FINDINGS_KEY: &str = "findings";

/// The problem with an empty list, which would select everything instead of nothing.
pub(super) const NAMES_NOTHING: &str = "names nothing; leave it out to select everything";

/// Objects that may be without an owner, from `--orphan-allow`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OrphanAllow(FindingRule);

impl OrphanAllow {
    /// Adds the rule before those of the file, so that it takes precedence, unless it is already
    /// there.
    pub(super) fn apply(&self, settings: &mut Settings) {
        let rules = settings.findings.entry(FindingCode::Orphan.name().to_owned()).or_default();
        if !rules.contains(&self.0) {
            rules.insert(0, self.0.clone());
        }
    }
}

impl FromStr for OrphanAllow {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((namespaces, kinds)) = text.trim().split_once(':') else {
            return Err(format!(
                "expected NAMESPACE:KIND, for example team-a:ConfigMap or *:Secret, not {text:?}"
            ));
        };

        // Objects without a namespace match only rules for all namespaces.
        let select = |text: &str, name: fn(&str) -> Result<String, String>| match text {
            "*" => Ok(Selector::default()),
            _ => name(text).map(|name| Selector { include: vec![name], ..Selector::default() }),
        };
        let (namespaces, kinds) = (select(namespaces, namespace)?, select(kinds, kind)?);

        Ok(Self(FindingRule { kinds, namespaces, enabled: Some(false), severity: None }))
    }
}

/// The maximum number of rules in a file, and of names in all of them together. Each detection looks at
/// the rules.
const MAX_RULES: usize = 200;
const MAX_NAMES: usize = 1_000;

/// Reads the rules. Returns the valid ones, and a problem for each invalid one. If there are too many,
/// none is valid.
pub(super) fn read(value: Value) -> (BTreeMap<String, Vec<FindingRule>>, Vec<String>) {
    let (mut findings, mut problems) = (BTreeMap::new(), Vec::new());
    let entries = match value {
        Value::Object(entries) => entries,
        Value::Null => return (findings, problems),
        _ => {
            problems
                .push(format!("{FINDINGS_KEY}: expected names of findings, for example `Overdue: {{enabled: false}}`"));
            return (findings, problems);
        }
    };

    let names = || FINDINGS.iter().map(|info| info.name).chain([ALL_FINDINGS]);
    for (given, value) in entries {
        let Some(name) = names().find(|name| name.eq_ignore_ascii_case(&given)) else {
            problems
                .push(format!("{FINDINGS_KEY}: {}", unknown(&given, names().map(str::to_owned))));
            continue;
        };
        let rules = rules(name, value, &mut problems);
        if !rules.is_empty() {
            findings.entry(name.to_owned()).or_insert_with(Vec::new).extend(rules);
        }
    }

    if let Some(problem) = excess(&findings) {
        return (BTreeMap::new(), vec![problem]);
    }

    (findings, problems)
}

/// The problem with too many rules, or names in rules.
fn excess(findings: &BTreeMap<String, Vec<FindingRule>>) -> Option<String> {
    let rules = || findings.values().flatten();
    let names = |selector: &Selector| selector.include.len() + selector.exclude.len();
    let (count, named) = (
        rules().count(),
        rules().map(|rule| names(&rule.kinds) + names(&rule.namespaces)).sum::<usize>(),
    );

    (count > MAX_RULES || named > MAX_NAMES).then(|| {
        format!(
            "{FINDINGS_KEY}: {count} rules with {named} kinds and namespaces; the maximum is {MAX_RULES} rules with {MAX_NAMES}"
        )
    })
}

/// The valid rules of one finding. The value is one rule or a list.
fn rules(name: &str, value: Value, problems: &mut Vec<String>) -> Vec<FindingRule> {
    let listed = value.is_array();
    let values = match value {
        Value::Array(values) => values,
        Value::Null => Vec::new(),
        one => vec![one],
    };
    if listed && values.is_empty() {
        problems.push(format!(
            "{FINDINGS_KEY}.{name}: has no rule; use, for example, `{{enabled: false}}`"
        ));
    }
    let mut rules = Vec::new();

    for (index, value) in values.into_iter().enumerate() {
        let place = if listed {
            format!("{FINDINGS_KEY}.{name}[{index}]")
        } else {
            format!("{FINDINGS_KEY}.{name}")
        };
        match rule(value) {
            Ok(rule) => rules.push(rule),
            Err(problem) => problems.push(format!("{place}{problem}")),
        }
    }

    rules
}

/// Reads one rule. A problem begins with `: `, or with the key that it is about.
fn rule(value: Value) -> Result<FindingRule, String> {
    let Value::Object(entries) = value else {
        return Err(
            ": expected a rule, for example `{namespaces: [staging], enabled: false}`".to_owned()
        );
    };
    let mut rule = FindingRule::default();
    for (key, value) in entries {
        let at = |problem: String| format!(".{key}: {problem}");
        match key.as_str() {
            "enabled" => {
                rule.enabled =
                    Some(value.as_bool().ok_or_else(|| at("expected true or false".to_owned()))?)
            }
            "severity" => rule.severity = Some(severity(&value).map_err(at)?),
            "kinds" => rule.kinds = selector(value, kind).map_err(at)?,
            "namespaces" => rule.namespaces = selector(value, namespace).map_err(at)?,
            _ => {
                let keys = ["enabled", "severity", "kinds", "namespaces"].map(str::to_owned);
                return Err(format!(": {}", unknown(&key, keys.into_iter())));
            }
        }
    }

    if rule.enabled.is_none() && rule.severity.is_none() {
        return Err(
            ": a rule needs `enabled` or `severity`; `kinds` and `namespaces` only say where it applies".to_owned()
        );
    }

    Ok(rule)
}

fn severity(value: &Value) -> Result<Severity, String> {
    let named = Severity::named(value.as_str().unwrap_or_default());
    named.ok_or_else(|| format!("expected critical, warning or info, not {value}"))
}

/// Notes on the kinds in the rules that are probably misspelt: each is like a known one, and is none.
/// A kind that is like none may belong to another cluster, or be installed later.
pub(crate) fn misspelt_kinds(settings: &Settings, known: &[KindSummary]) -> Vec<String> {
    let full = |kind: &KindSummary, name: &str| {
        let slash = if kind.group.is_empty() { "" } else { "/" };
        format!("{}{slash}{name}", kind.group)
    };
    let names = |kind: &KindSummary| [full(kind, &kind.kind), full(kind, &kind.resource)];
    let all: BTreeSet<String> = known.iter().flat_map(names).collect();
    let is_known = |name: &str| all.iter().any(|known| known.eq_ignore_ascii_case(name));

    let note = |finding: &str, name: &String| {
        let is_exact = !name.contains('*') && !is_known(name);
        let meant = slip_of(name, all.iter().map(String::as_str)).filter(|_| is_exact)?;
        Some(format!(
            "{FINDINGS_KEY}.{finding}: a rule names the kind {name}, which is none of those here; did you mean {meant}?"
        ))
    };
    let rules = settings.findings.iter();
    let named = rules.flat_map(|(finding, rules)| {
        let kinds =
            rules.iter().flat_map(|rule| rule.kinds.include.iter().chain(&rule.kinds.exclude));
        kinds.map(move |name| (finding, name))
    });

    named.filter_map(|(finding, name)| note(finding, name)).collect()
}

/// Reads a list of names, or `include` and `exclude` with a list each.
fn selector(value: Value, name: fn(&str) -> Result<String, String>) -> Result<Selector, String> {
    let mut selector = Selector::default();
    match value {
        Value::Object(parts) => read_parts(parts, name, &mut selector)?,
        value => selector.include = names(value, name)?,
    }

    if selector.selects_all() {
        return Err(NAMES_NOTHING.to_owned());
    }

    Ok(selector)
}

fn read_parts(
    parts: Map<String, Value>,
    name: fn(&str) -> Result<String, String>,
    selector: &mut Selector,
) -> Result<(), String> {
    for (key, value) in parts {
        match key.as_str() {
            "include" => selector.include = some(&key, names(value, name)?)?,
            "exclude" => selector.exclude = some(&key, names(value, name)?)?,
            _ => return Err(unknown(&key, ["include", "exclude"].map(str::to_owned).into_iter())),
        }
    }

    Ok(())
}

/// The names of a part, which may not be empty.
fn some(key: &str, names: Vec<String>) -> Result<Vec<String>, String> {
    if names.is_empty() { Err(format!("{key} is empty; leave it out")) } else { Ok(names) }
}

/// Reads a list of strings, or a comma-separated string.
fn names(value: Value, name: fn(&str) -> Result<String, String>) -> Result<Vec<String>, String> {
    match value {
        Value::String(text) => text.split(',').map(|part| name(part.trim())).collect(),
        Value::Array(items) => {
            let strings = items.into_iter().map(|item| match item {
                Value::String(text) => name(text.trim()),
                Value::Number(_) | Value::Bool(_) => {
                    Err("expected strings; put each value in quotes".to_owned())
                }
                _ => Err("expected strings".to_owned()),
            });
            strings.collect()
        }
        _ => Err("expected a list of names".to_owned()),
    }
}

/// Checks a kind in the notation of `--watch`. `*` stands for any text.
fn kind(text: &str) -> Result<String, String> {
    if !text.contains('*') {
        return text
            .parse()
            .map(|kind: KindSelector| kind.to_string())
            .map_err(|error| error.to_string());
    }

    let is_pattern = |c: char| c.is_ascii_alphanumeric() || "*-./".contains(c);
    if text.chars().all(is_pattern) && text.matches('/').count() <= 1 {
        return Ok(text.to_owned());
    }

    Err(format!(
        "{text:?} does not name kinds; use, for example, example.io/Widget or example.io/*"
    ))
}

/// Checks the name of a namespace. `*` stands for any text.
fn namespace(text: &str) -> Result<String, String> {
    // Where the pattern has an asterisk, a name has any letters.
    if is_label(&text.replace('*', "a")) {
        return Ok(text.to_owned());
    }

    Err(format!("{text:?} does not name namespaces; use, for example, team-a or team-*"))
}

#[cfg(test)]
mod tests;
