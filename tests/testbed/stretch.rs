//! Recordings stretched in time, so that minutes of a real process become hours for the model.
//!
//! A leak that takes hours cannot run in a test. But each sample of a leak that takes minutes is as
//! real, and the model knows no clock other than the times in the recording.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

/// How often loopwatch asks again whether a missing object exists.
const ASKED_EVERY_MS: i64 = 60_000;

/// The names of numbers that are times in seconds.
const SECONDS: [&str; 4] = ["cpu_seconds", "unfinished_seconds", "longest_running_seconds", "sum"];

/// The names of texts that are times in seconds, such as `2s`.
const SPANS: [&str; 2] = ["interval", "duration"];

/// Returns the lines of a recording with all times `factor` times as far from its first
/// observation.
///
/// That includes the times before it, such as the start of a process, and sums of time, such as its
/// CPU time: a process keeps its age in proportion, and its share of a core. Counters keep their
/// values, so their rates fall. The settings in the first line stay as they are. If loopwatch asked twice
/// whether an object exists, and it never did, the answer is repeated every minute in between, as often as
/// loopwatch asks.
///
/// # Panics
/// If it is not a recording.
#[must_use]
pub fn stretched(recording: &str, factor: i64) -> String {
    let mut lines = recording.lines();
    let header = lines.next().expect("a header");
    let mut observations: Vec<Value> =
        lines.map(|line| serde_json::from_str(line).expect("a line of a recording")).collect();
    let first =
        observations.iter().filter_map(|line| instant(&line["at"])).min().expect("an observation");

    observations.iter_mut().for_each(|line| stretch(line, first, factor));
    observations.extend(repeated_answers(&observations));
    observations.sort_by_key(|line| instant(&line["at"]));

    let mut text = format!("{header}\n");
    for line in observations {
        text.push_str(&format!("{line}\n"));
    }

    text
}

/// The answers that an object is absent, every minute between two such answers.
fn repeated_answers(observations: &[Value]) -> Vec<Value> {
    let mut absent: BTreeMap<String, Timestamp> = BTreeMap::new();
    let mut repeated = Vec::new();
    for line in observations {
        let answered = &line["saw"]["answered"];
        let (Some(at), false) = (instant(&line["at"]), answered.is_null()) else { continue };
        let probe = answered["probe"].to_string();
        if answered["answer"] != "absent" {
            absent.remove(&probe);
            continue;
        }

        if let Some(before) = absent.insert(probe, at) {
            let minutes = (1..).map(|minute| before.as_millisecond() + minute * ASKED_EVERY_MS);
            for between in minutes.take_while(|between| *between < at.as_millisecond()) {
                let between = Timestamp::from_millisecond(between).expect("in our time");
                let mut copy = line.clone();
                copy["at"] = Value::from(format!("{between:.3}"));
                repeated.push(copy);
            }
        }
    }

    repeated
}

fn stretch(value: &mut Value, first: Timestamp, factor: i64) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let number = field.as_f64().filter(|_| SECONDS.contains(&name.as_str()));
                let span = field
                    .as_str()
                    .filter(|_| SPANS.contains(&name.as_str()))
                    .and_then(milliseconds);
                match (number, span) {
                    (Some(number), _) => *field = Value::from(number * factor as f64),
                    (_, Some(span)) => *field = Value::from(format!("{}ms", span * factor)),
                    _ => stretch(field, first, factor),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| stretch(item, first, factor)),
        Value::String(text) => {
            if let Some(at) = instant(&Value::from(text.as_str())) {
                let since = at.as_millisecond() - first.as_millisecond();
                let moved = Timestamp::from_millisecond(first.as_millisecond() + since * factor)
                    .expect("in our time");
                *text = format!("{moved:.3}");
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Reads an instant, as recordings contain them.
fn instant(value: &Value) -> Option<Timestamp> {
    value
        .as_str()
        .filter(|text| text.ends_with('Z') && text.len() >= "2026-01-31T12:00:00Z".len())?
        .parse()
        .ok()
}

/// Reads a time such as `2s` or `1500ms`.
fn milliseconds(text: &str) -> Option<i64> {
    match text.strip_suffix("ms") {
        Some(number) => number.parse().ok(),
        None => text.strip_suffix('s')?.parse::<i64>().ok().map(|seconds| seconds * 1000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_absence_of_an_object_is_repeated_between_two_answers() {
        let answer = |at: &str, name: &str, answer: &str| {
            format!(
                r#"{{"at":"{at}","saw":{{"answered":{{"answer":"{answer}","probe":{{"read":{{"name":"{name}"}}}}}}}}}}"#
            )
        };
        let lines = [
            r#"{"loopwatch_recording":1}"#.to_owned(),
            answer("2026-01-31T12:00:00Z", "a", "absent"),
            answer("2026-01-31T12:00:01Z", "b", "absent"),
            answer("2026-01-31T12:00:03Z", "a", "absent"),
            answer("2026-01-31T12:00:04Z", "b", "forbidden"),
            answer("2026-01-31T12:00:09Z", "b", "absent"),
        ];
        let stretched = stretched(&lines.join("\n"), 60);
        let times: Vec<&str> = stretched
            .lines()
            .filter_map(|line| line.strip_prefix("{\"at\":\"")?.split_once('"'))
            .map(|(at, _)| &at[11..16])
            .collect();

        assert_eq!(times, ["12:00", "12:01", "12:01", "12:02", "12:03", "12:04", "12:09"]);
    }

    #[test]
    fn times_move_away_from_the_first_observation_and_counters_stay() {
        let recording = r#"{"loopwatch_recording":1,"settings":{"deadline":"600s"}}
{"at":"2026-01-31T12:00:10Z","saw":"tick"}
{"at":"2026-01-31T12:00:11.5Z","saw":{"metrics_scraped":{"interval":"1s","process":{"started":"2026-01-31T12:00:04Z","cpu_seconds":0.5,"gc_cycles":7},"controllers":[{"reconcile_seconds":{"count":3,"sum":0.25}}]}}}"#;
        let stretched = stretched(recording, 100);
        let lines: Vec<Value> =
            stretched.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();

        assert_eq!(lines[0]["settings"]["deadline"], "600s");
        assert_eq!(lines[1]["at"], "2026-01-31T12:00:10.000Z");
        assert_eq!(lines[2]["at"], "2026-01-31T12:02:40.000Z");

        let metrics = &lines[2]["saw"]["metrics_scraped"];
        assert_eq!(metrics["interval"], "100000ms");
        assert_eq!(metrics["process"]["started"], "2026-01-31T11:50:10.000Z");
        assert_eq!(
            (&metrics["process"]["cpu_seconds"], &metrics["process"]["gc_cycles"]),
            (&50.0.into(), &7.into())
        );

        let durations = &metrics["controllers"][0]["reconcile_seconds"];
        assert_eq!((&durations["count"], &durations["sum"]), (&3.into(), &25.0.into()));
    }
}
