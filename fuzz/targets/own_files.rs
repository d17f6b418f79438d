//! The configuration file, and that of access over HTTP.

use std::path::Path;

use loopwatch::fuzzing::{config_file, web_file};
use serde_json::{Map, Value, json};

use crate::limits::bounded;

/// The headers and the files that a web configuration file may name.
const MAX_HEADERS: usize = 5;
const MAX_FILES: usize = 3;

/// The flags without a value.
const SWITCHES: [&str; 2] = ["expose-ui", "export-protected-metrics"];

/// The input is a configuration file.
pub(crate) fn config(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    for in_pod in [false, true] {
        let read = || config_file(text, in_pod);
        let (settings, values, problems) = bounded(input, 64 << 20, 64 << 10, read);
        assert!(problems.iter().all(|problem| !problem.is_empty()));

        // A file of the values that it accepted gives the same values.
        let entries: Map<String, Value> =
            values.iter().map(|(name, values)| (name.clone(), entry(name, values))).collect();
        let again = config_file(&Value::Object(entries).to_string(), in_pod);
        assert_eq!((&values, Vec::<String>::new()), (&again.1, again.2));

        let settings = serde_json::to_value(&settings).expect("plain data");
        let read = serde_json::from_value::<loopwatch_model::settings::Settings>(settings.clone());
        assert_eq!(read.map(|read| serde_json::to_value(read).ok()).ok(), Some(Some(settings)));
    }
}

/// The value of a key, as a file has it.
fn entry(name: &str, values: &[String]) -> Value {
    if SWITCHES.contains(&name) { json!(true) } else { json!(values) }
}

/// The input is a web configuration file.
pub(crate) fn web_config(input: &[u8]) {
    let folder = Path::new("/etc/loopwatch");
    match bounded(input, 1 << 20, 1 << 12, || web_file(input, folder)) {
        Ok(read) => {
            assert!(read.headers.len() <= MAX_HEADERS && read.files.len() <= MAX_FILES);
            assert!(read.files.iter().all(|file| file.is_absolute()));
        }
        Err(problem) => assert!(!problem.is_empty() && !problem.contains('\n'), "{problem:?}"),
    }
}
