//! Finds out which fields of an object its writers change: follows the single object for a while and
//! compares its versions, one object at a time. The answer holds the paths of fields, never their values.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use loopwatch_model::observation::{
    Answer, Cause, MAX_FIELD_BYTES, MAX_FIELDS, ObjectKey, Observation, Probe, WatchId,
};
use serde_json::{Map, Value};
use tokio::sync::{Mutex, mpsc};
use tokio::time::{Instant, sleep};

use super::WatchTargets;
use crate::lock::read_lock;
use crate::net::Failure;
use crate::sources::api_server::{Cluster, StreamItem, WatchEvent, WatchStream, WatchTarget};
use crate::sources::feed::{Closed, Feed};

/// How often each field has changed.
#[derive(Debug, Default)]
struct Changes {
    latest: Option<Value>,
    /// The number of versions that differed from the one before.
    versions: u32,
    /// At most [`MAX_PATHS`].
    counts: BTreeMap<String, u32>,
}

/// How long to follow an object. The model asks again after a minute at the earliest.
const FOLLOWED_FOR: Duration = Duration::from_secs(50);

/// The number of changes after which the fields are known.
const ENOUGH: u32 = 10;

/// The time and the number of changes after which what is known has to do, because other objects wait.
const PATIENCE: (Duration, u32) = (Duration::from_secs(20), 3);

/// Pause between two objects, so that failures do not become a burst of requests.
const PAUSE: Duration = Duration::from_secs(1);

/// The largest version that is compared, in bytes.
const LARGEST: usize = 256 << 10;

/// The maximum number of values in it: two versions are in memory, parsed, at some 600 bytes per value.
const MOST_VALUES: usize = 10_000;

/// The maximum number of fields that are counted.
const MAX_PATHS: usize = 256;

/// The fields of `metadata` that change with each write.
const OF_EACH_WRITE: [&str; 3] = ["generation", "managedFields", "resourceVersion"];

/// The maximum depth of a path.
const DEEPEST: usize = 12;

/// Answers probes until the channel closes.
pub(crate) async fn answer_fields(
    cluster: Cluster,
    targets: WatchTargets,
    feed: Feed,
    probes: Arc<Mutex<mpsc::Receiver<Probe>>>,
) {
    let mut probes = probes.lock().await;
    // The model asks again while a probe waits here.
    let mut waiting: VecDeque<Probe> = VecDeque::new();

    loop {
        if waiting.is_empty() {
            let Some(probe) = probes.recv().await else { return };
            waiting.push_back(probe);
        }
        while let Ok(probe) = probes.try_recv() {
            if !waiting.contains(&probe) {
                waiting.push_back(probe);
            }
        }

        let Some(probe) = waiting.pop_front() else { continue };
        let answer = match &probe {
            Probe::Fields { watch, object } => answer(&cluster, &targets, watch, object).await,
            _ => Answer::Failed(Cause::Invalid), // other tasks answer these
        };
        if feed.send(Observation::Answered { probe, answer }).await == Err(Closed) {
            return;
        }

        sleep(PAUSE).await;
    }
}

async fn answer(
    cluster: &Cluster,
    targets: &WatchTargets,
    watch: &WatchId,
    object: &ObjectKey,
) -> Answer {
    let target = read_lock(targets).get(watch).cloned();
    let target = target.and_then(|target| target.of_object(object));
    let Some(target) = target else { return Answer::Failed(Cause::NotFound) };

    match follow(cluster, &target, &object.name).await {
        Ok(changes) => Answer::Fields(changes.most_frequent()),
        Err(failure) => Answer::Failed(failure.cause),
    }
}

/// Follows one object, until enough is known or the time is up.
async fn follow(cluster: &Cluster, target: &WatchTarget, name: &str) -> Result<Changes, Failure> {
    // The version 0 stands for any: the stream begins with the object as the API server has it.
    let mut stream = WatchStream::open(cluster, target, Some("0"), FOLLOWED_FOR).await?;
    let (began, mut changes) = (Instant::now(), Changes::default());

    loop {
        let (patience, few) = PATIENCE;
        let until = began + if changes.versions >= few { patience } else { FOLLOWED_FOR };
        if changes.versions >= ENOUGH || Instant::now() >= until {
            return Ok(changes);
        }

        let line = match stream.next(until, Duration::ZERO).await? {
            StreamItem::Line(line) if is_comparable(&line) => line,
            StreamItem::Line(_) | StreamItem::Oversized => {
                return Err(Failure::new(Cause::TooLarge, "the object is too large to compare"));
            }
            StreamItem::Silence | StreamItem::End => return Ok(changes),
        };
        match WatchEvent::parse(&line)? {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                let object: Value =
                    serde_json::from_slice(object).map_err(|e| Failure::undecodable(&e))?;
                // A server that ignores the selector sends other objects, too.
                if object["metadata"]["name"] == *name {
                    changes.note(object);
                }
            }
            WatchEvent::Deleted(_) => changes.latest = None,
            WatchEvent::Bookmark { .. } => {}
            WatchEvent::Error(failure) => return Err(failure),
        }
    }
}

/// Whether a version fits in memory, parsed.
fn is_comparable(line: &[u8]) -> bool {
    let separates = |byte: &&u8| matches!(**byte, b',' | b'[' | b'{');
    line.len() <= LARGEST && line.iter().filter(separates).count() <= MOST_VALUES
}

impl Changes {
    fn note(&mut self, object: Value) {
        let mut found = Vec::new();
        if let Some(before) = &self.latest {
            differences(before, &object, &mut Path::default(), &mut found);
        }

        self.versions += u32::from(!found.is_empty());
        for path in found {
            if self.counts.len() < MAX_PATHS || self.counts.contains_key(&path) {
                *self.counts.entry(path).or_default() += 1;
            }
        }
        self.latest = Some(object);
    }

    /// The fields that change at least half as often as the one of their part, such as `spec`, that changes
    /// most. Of each part, the first fields come first, so that no part displaces the others.
    fn most_frequent(self) -> Vec<String> {
        let mut parts: BTreeMap<String, Vec<(String, u32)>> = BTreeMap::new();
        for (path, count) in self.counts {
            let part = path.split(['.', '[']).next().unwrap_or_default().to_owned();
            parts.entry(part).or_default().push((path, count));
        }

        let mut ranked: Vec<(usize, Reverse<u32>, String)> = Vec::new();
        for mut fields in parts.into_values() {
            fields.sort_by_key(|(_, count)| Reverse(*count));
            let most = fields.first().map_or(0, |(_, count)| *count);
            let frequent = fields.into_iter().filter(|(_, count)| count * 2 >= most);
            ranked
                .extend(frequent.enumerate().map(|(at, (path, count))| (at, Reverse(count), path)));
        }

        ranked.sort();
        ranked.into_iter().map(|(.., path)| path).take(MAX_FIELDS).collect()
    }
}

/// The path of a field.
#[derive(Debug, Default)]
struct Path {
    text: String,
    depth: usize,
}

impl Path {
    /// Calls `inner` with the path of a field below this one. Returns false if that would be too long, or
    /// if its name is no printable word.
    fn within(&mut self, name: &str, is_field: bool, inner: impl FnOnce(&mut Self)) -> bool {
        let is_word = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
        let fits = self.text.len() + name.len() + 2 <= MAX_FIELD_BYTES && self.depth < DEEPEST;
        if !is_word || !fits {
            return false;
        }

        let length = self.text.len();
        match is_field && !name.contains(['.', '/', '[']) {
            true if length == 0 => self.text.push_str(name),
            true => self.text.extend([".", name]),
            false => self.text.extend(["[", name, "]"]),
        }
        self.depth += 1;
        inner(self);

        self.depth -= 1;
        self.text.truncate(length);
        true
    }

    /// Whether the field changes with each write.
    fn is_of_each_write(&self, name: &str) -> bool {
        self.text == "metadata" && OF_EACH_WRITE.contains(&name)
    }
}

/// Collects the paths of the smallest fields in which two values differ.
fn differences(before: &Value, after: &Value, path: &mut Path, found: &mut Vec<String>) {
    if found.len() >= MAX_PATHS {
        return;
    }
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            of_maps(before, after, path, found);
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            of_lists(before, after, path, found);
        }
        _ => found.push(path.text.clone()),
    }
}

fn of_maps(
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    path: &mut Path,
    found: &mut Vec<String>,
) {
    let added = after.keys().filter(|name| !before.contains_key(*name));
    for name in before.keys().chain(added) {
        let before = before.get(name).unwrap_or(&Value::Null);
        let after = after.get(name).unwrap_or(&Value::Null);
        if before == after || path.is_of_each_write(name) {
            continue;
        }

        differences_below((name, true), before, after, path, found);
    }
}

/// Conditions are named by their types, other items by their positions: values of fields may be secret.
fn of_lists(before: &[Value], after: &[Value], path: &mut Path, found: &mut Vec<String>) {
    let are_conditions = path.text.to_ascii_lowercase().ends_with("conditions");
    let pairs = before.iter().zip(after).enumerate();
    for (position, (before, after)) in pairs.filter(|(_, (before, after))| before != after) {
        let kind =
            before["type"].as_str().filter(|_| are_conditions && before["type"] == after["type"]);
        let position = position.to_string();
        let name = kind.unwrap_or(&position);

        differences_below((name, false), before, after, path, found);
    }
}

/// Collects the differences of two values that differ, in a field or an item. Without a path for it, its
/// parent counts.
fn differences_below(
    (name, is_field): (&str, bool),
    before: &Value,
    after: &Value,
    path: &mut Path,
    found: &mut Vec<String>,
) {
    let is_named = path.within(name, is_field, |path| differences(before, after, path, found));
    if !is_named {
        found.push(path.text.clone());
    }
}

#[cfg(test)]
mod tests {
    use loopwatch_testbed::standin::{Reply, Script};
    use serde_json::json;

    use super::*;
    use crate::sources::testing::InProcess as _;

    fn between(versions: &[Value]) -> Vec<String> {
        let mut changes = Changes::default();
        versions.iter().for_each(|version| changes.note(version.clone()));
        changes.most_frequent()
    }

    fn object(status: &Value) -> Value {
        json!({"metadata": {"name": "web"}, "status": status})
    }

    #[test]
    fn the_smallest_fields_that_differ_are_named_without_their_values() {
        for (before, after, expected) in [
            (json!({"at": "1"}), json!({"at": "2"}), vec!["status.at"]),
            (json!({}), json!({"at": "2"}), vec!["status.at"]),
            (json!({}), json!({"at": null}), vec![]),
            (json!({"a": {"b": [1, 2]}}), json!({"a": {"b": [1, 3]}}), vec!["status.a.b[1]"]),
            (json!({"list": [1]}), json!({"list": [1, 2]}), vec!["status.list"]),
            (
                json!({"conditions": [{"type": "Ready", "at": "1"}]}),
                json!({"conditions": [{"type": "Ready", "at": "2"}]}),
                vec!["status.conditions[Ready].at"],
            ),
            // The value of a field is no name, unless it is the type of a condition.
            (
                json!({"users": [{"type": "secret", "at": "1"}]}),
                json!({"users": [{"type": "secret", "at": "2"}]}),
                vec!["status.users[0].at"],
            ),
            (json!({"a.io/b": 1}), json!({"a.io/b": 2}), vec!["status[a.io/b]"]),
            (json!({"a b\u{1b}[31m": 1}), json!({"a b\u{1b}[31m": 2}), vec!["status"]),
            (json!({"same": 1}), json!({"same": 1}), vec![]),
        ] {
            assert_eq!(between(&[object(&before), object(&after)]), expected, "{after}");
        }
    }

    #[test]
    fn what_each_write_changes_is_no_field() {
        let version = |number: u64| {
            json!({"metadata": {
                "name": "web", "resourceVersion": number.to_string(), "generation": number,
                "managedFields": [number], "annotations": {"example.io/at": number},
            }})
        };
        assert_eq!(between(&[version(1), version(2)]), ["metadata.annotations[example.io/at]"]);
    }

    #[test]
    fn a_field_that_seldom_changes_is_left_out_and_paths_are_short() {
        let version = |number: u64| object(&json!({"at": number, "rare": number / 9}));
        let versions: Vec<Value> = (1..=9).map(version).collect();
        assert_eq!(between(&versions), ["status.at"]);

        let deep = |value: u64| {
            let nested = (0..60).fold(json!(value), |inner, _| json!({"k": inner}));
            object(&json!({"x".repeat(200): value, "nested": nested}))
        };
        let found = between(&[deep(1), deep(2)]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().all(|path| path.len() <= MAX_FIELD_BYTES), "{found:?}");

        let wide = |value: u64| {
            let fields = (0..1_000).map(|number| (format!("f{number}"), json!(value)));
            object(&Value::Object(fields.collect()))
        };
        assert_eq!(between(&[wide(1), wide(2)]).len(), MAX_FIELDS);
    }

    #[test]
    fn no_part_displaces_the_fields_of_another() {
        let version = |number: u64| {
            json!({
                "metadata": {"annotations": {"a": number, "b": number, "c": number, "d": number, "e": number}},
                "spec": {"size": number / 3},
                "status": {"at": number},
            })
        };
        let versions: Vec<Value> = (1..=9).map(version).collect();
        let found = between(&versions);
        assert_eq!(found[..3], ["metadata.annotations.a", "status.at", "spec.size"], "{found:?}");
        assert_eq!(found.len(), MAX_FIELDS);
    }

    #[tokio::test(start_paused = true)]
    async fn the_versions_of_one_object_are_followed_until_the_stream_ends() {
        let line = |kind: &str, name: &str, at: u64| {
            let object = json!({"metadata": {"name": name}, "status": {"at": at}});
            format!("{}\n", json!({"type": kind, "object": object}))
        };
        let lines = [
            line("ADDED", "web", 1),
            line("MODIFIED", "other", 2),
            line("BOOKMARK", "web", 3),
            line("MODIFIED", "web", 4),
        ];
        let error = r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}"#;
        let large = line("ADDED", &"x".repeat(LARGEST), 1);
        let many = line("ADDED", &"[".repeat(MOST_VALUES), 1);
        let target = WatchTarget::new("/apis/example.io/v1/widgets".to_owned(), false);
        let object = ObjectKey { namespace: "team-a".into(), name: "web".into() };
        let target = target.of_object(&object).expect("a target");
        assert_eq!(target.path, "/apis/example.io/v1/namespaces/team-a/widgets");
        assert_eq!(target.fields, "metadata.name=web");

        for (body, expected) in [
            (lines.concat(), Ok(vec!["status.at".to_owned()])),
            (String::new(), Ok(vec![])),
            (format!("{error}\n"), Err(Cause::Gone)),
            ("nothing\n".to_owned(), Err(Cause::Undecodable)),
            (large, Err(Cause::TooLarge)),
            (many, Err(Cause::TooLarge)),
        ] {
            let script = Script::new([Reply::Response(200, vec![], body.clone())]);
            let followed = follow(&script.cluster(), &target, "web").await;
            let found = followed.map(Changes::most_frequent).map_err(|failure| failure.cause);
            assert_eq!(found, expected, "{body}");
        }
    }
}
