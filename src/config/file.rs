//! The configuration file: YAML whose keys are the names of the flags.

use std::path::{Path, PathBuf};

use loopwatch_model::settings::Settings;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{Problem, shown};

/// Largest file that is read.
const MAX_BYTES: u64 = 1024 * 1024;

/// How alike two names must be for the one to be suggested for the other (Jaro and Winkler's measure).
const ALIKE: f64 = 0.8;

/// The file's content; what is absent was not said.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "snake_case")]
pub struct File {
    pub(super) listen: Option<String>,
    pub(super) kubeconfig: Option<PathBuf>,
    pub(super) context: Option<String>,
    #[serde(deserialize_with = "one_or_many")]
    pub(super) namespace: Vec<String>,
    #[serde(deserialize_with = "one_or_many")]
    pub(super) watch: Vec<String>,
    pub(super) operator: Option<String>,
    pub(super) max_watches: Option<usize>,
    #[serde(deserialize_with = "one_or_many")]
    pub(super) deadline: Vec<String>,
    pub(super) object_series: Option<String>,
    pub(super) max_object_series: Option<usize>,
    pub(super) expose_ui: Option<bool>,
    pub(super) state_dir: Option<PathBuf>,
    pub(super) settings: Option<Settings>,
}

/// The keys of [`File`]; a test compares them.
const KEYS: &[&str] = &[
    "listen",
    "kubeconfig",
    "context",
    "namespace",
    "watch",
    "operator",
    "max_watches",
    "deadline",
    "object_series",
    "max_object_series",
    "expose_ui",
    "state_dir",
    "settings",
];

// === impl File ===

impl File {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// When it cannot be read, is not YAML, or holds a key or a value that cannot be used.
    pub fn read(path: &Path) -> Result<Self, Problem> {
        let name = shown(path);
        let size = std::fs::metadata(path).map_err(|e| Problem(format!("cannot read {name}: {e}")))?.len();
        if size > MAX_BYTES {
            return Err(Problem(format!("{name} is {size} bytes long; a configuration has at most {MAX_BYTES}")));
        }
        let text = std::fs::read_to_string(path).map_err(|e| Problem(format!("cannot read {name}: {e}")))?;
        Self::parse(&text).map_err(|Problem(reason)| Problem(format!("{name}: {reason}")))
    }

    /// Reads a file's text.
    ///
    /// # Errors
    /// As [`File::read`].
    pub fn parse(text: &str) -> Result<Self, Problem> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let value: Value =
            serde_saphyr::from_str(text).map_err(|e| Problem(format!("not YAML: {}", first_line(&e))))?;
        let entries = match value {
            Value::Null => return Ok(Self::default()),
            Value::Object(entries) => entries,
            _ => return Err(Problem("expected keys and values, for example `deadline: 10m`".to_owned())),
        };
        let mut known = serde_json::Map::new();
        for (key, value) in entries {
            let name = key.replace('-', "_"); // as the flags are written
            if !KEYS.contains(&name.as_str()) {
                return Err(Problem(unknown(&key, KEYS)));
            }
            check_settings(&name, &value)?;
            known.insert(name, value);
        }
        serde_json::from_value(Value::Object(known)).map_err(|e| Problem(first_line(&e)))
    }
}

/// Names an unknown setting with its neighbour: serde alone would list all of them.
fn check_settings(key: &str, value: &Value) -> Result<(), Problem> {
    let Value::Object(settings) = value else { return Ok(()) };
    let Ok(Value::Object(defaults)) = serde_json::to_value(Settings::default()) else { return Ok(()) };
    let names: Vec<&str> = defaults.keys().map(String::as_str).collect();
    let limits: Vec<&str> =
        defaults["limits"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    let inner = settings.get("limits").and_then(Value::as_object).into_iter().flatten();
    let unknown_setting = settings.keys().find(|name| key == "settings" && !names.contains(&name.as_str()));
    let unknown_limit = inner.map(|(name, _)| name).find(|name| key == "settings" && !limits.contains(&name.as_str()));
    match (unknown_setting, unknown_limit) {
        (Some(name), _) => Err(Problem(format!("settings: {}", unknown(name, &names)))),
        (None, Some(name)) => Err(Problem(format!("settings.limits: {}", unknown(name, &limits)))),
        (None, None) => Ok(()),
    }
}

fn unknown(name: &str, known: &[&str]) -> String {
    let likeness = |candidate: &&str| strsim::jaro_winkler(name, candidate);
    let nearest = known.iter().copied().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    match nearest.filter(|nearest| likeness(nearest) >= ALIKE) {
        Some(nearest) => format!("unknown key {name:?}; did you mean {nearest:?}?"),
        None => format!("unknown key {name:?}; known are {}", known.join(", ")),
    }
}

fn first_line(error: &dyn std::fmt::Display) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

/// `watch: example.io/Widget` and `watch: [example.io/Widget]` mean the same.
fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a text or a list of texts")]
    enum OneOrMany {
        One(String),
        Many(Vec<String>),
    }
    Ok(match OneOrMany::deserialize(deserializer)? {
        OneOrMany::One(text) => text.split(',').map(|part| part.trim().to_owned()).collect(),
        OneOrMany::Many(texts) => texts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use loopwatch_model::time::Span;

    #[test]
    fn keys_are_the_names_of_the_flags() {
        let file = File::parse(
            "deadline: [5m, example.io/Widget=30m]\nwatch: example.io/Widget\nmax-watches: 7\nsettings:\n  settle: 3s\n  limits: {objects: 10}\n",
        )
        .expect("a good file");
        assert_eq!(file.watch, ["example.io/Widget"]);
        assert_eq!(file.max_watches, Some(7));
        let settings = file.settings.expect("settings");
        assert_eq!((settings.settle, settings.limits.objects), (Span::secs(3), 10));
        for empty in ["", "\n", "# nothing\n", "---\n"] {
            assert!(File::parse(empty).is_ok(), "{empty:?}");
        }
    }

    #[test]
    fn a_bad_file_says_what_and_what_to_write_instead() {
        for (text, expected) in [
            ("deadlin: 5m", "did you mean \"deadline\"?"),
            ("settings: {settel: 5s}", "settings: unknown key \"settel\"; did you mean \"settle\"?"),
            ("settings: {limits: {object: 5}}", "did you mean \"objects\"?"),
            ("settings: {settle: soon}", "\"soon\" is not a duration"),
            ("settings: {settle: 5}", "expected"),
            ("max_watches: many", "expected"),
            ("zebra: 1", "known are listen, kubeconfig"),
            ("- a\n- b", "expected keys and values"),
            ("a: [1", "not YAML"),
            ("{{{{", "not YAML"),
            ("watch: {a: b}", "expected a text or a list"),
        ] {
            let Problem(message) = File::parse(text).expect_err(text);
            assert!(message.contains(expected), "{text:?} gave {message:?}");
            assert!(!message.contains('\n'), "{message:?} is one line");
        }
    }

    #[test]
    fn every_key_is_one_of_the_struct() {
        for key in KEYS {
            let wrong = format!("{key}: {{nobody: [expects, this]}}");
            assert!(File::parse(&wrong).is_err(), "{key} is listed but not read");
        }
    }
}
