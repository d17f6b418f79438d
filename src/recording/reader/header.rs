//! Reads the header of a recording. Leaves out and reports any setting that is unknown or whose
//! value is unreadable: recordings of newer and older versions must stay readable.

use loopwatch_model::settings::Settings;
use serde_json::{Map, Value};

use crate::recording::RecordingHeader;

/// Reads a header. Also returns the names of the fields that it left out.
///
/// # Errors
/// If the line is not the header of a recording.
pub(super) fn read(line: &[u8]) -> Result<(RecordingHeader, Vec<String>), serde_json::Error> {
    let mut fields: Map<String, Value> = serde_json::from_slice(line)?;
    let mut unread = Vec::new();
    let settings = match fields.remove("settings") {
        Some(recorded) => settings(recorded, &mut unread),
        None => Settings::default(),
    };
    let known = ["loopwatch_recording", "recorded_by"];

    unread.extend(fields.keys().filter(|field| !known.contains(&field.as_str())).cloned());
    fields.insert("settings".to_owned(), serde_json::to_value(settings)?);
    Ok((serde_json::from_value(Value::Object(fields))?, unread))
}

/// Returns the default settings with those of the header that this program can read.
fn settings(recorded: Value, unread: &mut Vec<String>) -> Settings {
    let Ok(defaults) = serde_json::to_value(Settings::default()) else {
        return Settings::default();
    };
    let mut all = defaults.clone();
    overlay(&mut all, &defaults, "", recorded, unread);
    serde_json::from_value(all).unwrap_or_default()
}

/// Replaces the value at `pointer` with the recorded one: as a whole if possible, otherwise field
/// by field. Tests each value among the defaults: a test among all values so far would take a time
/// that grows with the square of their number.
fn overlay(
    all: &mut Value,
    defaults: &Value,
    pointer: &str,
    recorded: Value,
    unread: &mut Vec<String>,
) {
    let mut changed = defaults.clone();
    replace(&mut changed, pointer, recorded.clone());
    if let Ok(settings) = serde_json::from_value::<Settings>(changed) {
        // serde accepts unknown fields, and drops them.
        let kept = serde_json::to_value(settings).unwrap_or_default();
        missing(&recorded, kept.pointer(pointer), &name_of(pointer), unread);
        return replace(all, pointer, recorded);
    }

    let (Value::Object(fields), Some(Value::Object(_))) = (recorded, defaults.pointer(pointer))
    else {
        return unread.push(name_of(pointer));
    };
    for (field, value) in fields {
        let below = format!("{pointer}/{}", field.replace('~', "~0").replace('/', "~1"));
        overlay(all, defaults, &below, value, unread);
    }
}

/// Sets the value at `pointer`, if the object that contains it exists.
fn replace(all: &mut Value, pointer: &str, value: Value) {
    let Some((parent, field)) = pointer.rsplit_once('/') else { return *all = value };
    if let Some(Value::Object(entries)) = all.pointer_mut(parent) {
        entries.insert(field.replace("~1", "/").replace("~0", "~"), value);
    }
}

/// Adds the names of the fields in `recorded` that `kept` lacks.
fn missing(recorded: &Value, kept: Option<&Value>, name: &str, unread: &mut Vec<String>) {
    match (recorded, kept) {
        (Value::Object(fields), Some(Value::Object(kept))) => {
            for (field, value) in fields {
                missing(value, kept.get(field), &format!("{name}.{field}"), unread);
            }
        }
        (_, Some(_)) => {}
        (_, None) => unread.push(name.to_owned()),
    }
}

fn name_of(pointer: &str) -> String {
    format!("settings{}", pointer.replace('/', ".").replace("~1", "/").replace("~0", "~"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use loopwatch_model::time::Span;

    fn read_text(line: &str) -> (RecordingHeader, Vec<String>) {
        read(line.as_bytes()).expect("a header")
    }

    #[test]
    fn unknown_settings_are_named_and_the_others_apply() {
        let (header, unread) = read_text(
            r#"{"loopwatch_recording":1,"mood":"good","settings":{"settle":"3s","moon":{"phase":"full"},"learn_after":"never",
               "limits":{"objects":7,"stars":8},"deadlines":{"a.io/A":"5m","a.io/B":"soon"}}}"#,
        );

        assert_eq!(
            unread,
            [
                "settings.deadlines.a.io/B",
                "settings.learn_after",
                "settings.limits.stars",
                "settings.moon",
                "mood"
            ]
        );

        let settings = header.settings;
        assert_eq!((settings.settle, settings.limits.objects), (Span::secs(3), 7));
        assert_eq!(
            settings.deadlines.into_iter().collect::<Vec<_>>(),
            [("a.io/A".to_owned(), Span::mins(5))]
        );
        assert_eq!(settings.learn_after, Settings::default().learn_after);
    }

    #[test]
    fn many_deadlines_are_read_quickly() {
        let deadlines: Vec<String> =
            (0..20_000).map(|kind| format!(r#""a.io/K{kind}":"5m""#)).collect();
        let line = format!(
            r#"{{"loopwatch_recording":1,"settings":{{"deadlines":{{"a.io/A":"soon",{}}}}}}}"#,
            deadlines.join(",")
        );
        let began = cpu_time();
        let (header, unread) = read_text(&line);

        assert_eq!(unread, ["settings.deadlines.a.io/A"]);
        assert_eq!(header.settings.deadlines.len(), 20_000);
        let spent = cpu_time() - began;
        assert!(spent < Duration::from_secs(20), "{spent:?}");
    }

    /// The time that this thread has run, which does not depend on other programs.
    fn cpu_time() -> Duration {
        let times = std::fs::read_to_string("/proc/thread-self/schedstat").expect("procfs");
        let nanoseconds = times.split_whitespace().next().and_then(|it| it.parse().ok());
        Duration::from_nanos(nanoseconds.expect("a number"))
    }

    #[test]
    fn complete_headers_are_read_unchanged() {
        let settings = Settings { settle: Span::secs(7), ..Settings::default() };
        let header =
            RecordingHeader { loopwatch_recording: 1, recorded_by: "test".to_owned(), settings };
        let line = serde_json::to_vec(&header).expect("plain data");

        assert_eq!(read(&line).expect("a header"), (header, Vec::new()));
        assert_eq!(read_text(r#"{"loopwatch_recording":1,"settings":null}"#).1, ["settings"]);

        for other in ["[]", "{}", "1", r#"{"loopwatch_recording":"one"}"#] {
            assert!(read(other.as_bytes()).is_err(), "{other}");
        }
    }
}
