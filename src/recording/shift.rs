//! Moves a recording in time, so that an old incident can be shown as if it had just happened.

use loopwatch_model::time::{Span, Timestamp};
use serde_json::Value;

/// The shortest text that is an instant.
const SHORTEST: usize = "2026-01-31T12:00:00Z".len();

/// Returns the lines of a recording with all instants moved, so that its last observation happens at
/// `end`. A text without observations stays as it is.
#[must_use]
pub fn ending_at(recording: &str, end: Timestamp) -> String {
    let mut lines: Vec<Value> =
        recording.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let last = lines.iter().filter_map(|line| Timestamp::parse(line["at"].as_str()?)).max();
    let Some(last) = last else { return recording.to_owned() };

    let by = Span(end.0.saturating_sub(last.0)); // the recording may be from the future
    lines.iter_mut().for_each(|line| shift(line, by));
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn shift(value: &mut Value, by: Span) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(|field| shift(field, by)),
        Value::Array(items) => items.iter_mut().for_each(|item| shift(item, by)),
        Value::String(text) if text.len() >= SHORTEST && text.ends_with('Z') => {
            if let Some(at) = Timestamp::parse(text) {
                *text = at.after(by).to_string();
            }
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_instants_keep_their_distance_and_other_texts_stay() {
        let recording = r#"{"loopwatch_recording":1,"settings":{"deadline":"600s"}}
{"at":"2026-01-31T12:00:10Z","saw":{"x":{"created":"2026-01-31T11:00:10Z","name":"Z","list":["2026-02-01T00:00:00Z",null]}}}
{"at":"2026-01-31T13:00:10Z","saw":"tick"}
"#;
        let end = Timestamp::parse("2027-01-31T13:00:10Z").expect("an instant");
        let moved = ending_at(recording, end);

        let expected = recording.replace("2026", "2027");
        let parsed = |text: &str| -> Vec<Value> {
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
        };

        assert_eq!(parsed(&moved), parsed(&expected));
        let last = Timestamp::parse("2026-01-31T13:00:10Z").expect("an instant");
        assert_eq!(parsed(&ending_at(&moved, last)), parsed(recording), "and back");
    }

    #[test]
    fn a_text_without_observations_stays_as_it_is() {
        assert_eq!(ending_at("no recording\n", Timestamp(0)), "no recording\n");
    }
}
