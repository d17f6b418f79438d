//! Reads the notes of a framework about its attempts to handle an object. kopf keeps a record per
//! handler, in an annotation or in `.status.kopf.progress`, until all handlers have ended.

use loopwatch_model::observation::{HandlerAttempts, ObjectView};
use serde_json::Value;

use super::limits::{MAX_MESSAGE, MAX_NAME};
use super::words::cut;

/// Maximum number of handlers of one object.
const MAX_HANDLERS: usize = 16;

/// The longest annotation that may be a record.
const MAX_RECORD: usize = 16 * 1024;

/// The names of annotations with copies of objects, which can be large.
const COPIES: [&str; 2] = ["last-applied-configuration", "last-handled-configuration"];

/// Returns whether the annotation of this name may be a record. Each operator may have a prefix of
/// its own.
pub(super) fn may_be_record(key: &str) -> bool {
    key.rsplit_once('/').is_some_and(|(_, name)| !COPIES.contains(&name))
}

/// Reads an annotation that may be a record.
pub(super) fn of_annotation(key: &str, value: &str) -> Option<HandlerAttempts> {
    let is_record = value.len() <= MAX_RECORD
        && value.starts_with('{')
        && value.contains("\"retries\"")
        && value.contains("\"started\"");
    let record = is_record.then(|| serde_json::from_str(value).ok())??;

    // An annotation has `.` for each `/` of a handler's name.
    let (_, handler) = key.rsplit_once('/')?;
    of_record(handler, &record)
}

/// Reads `.status.kopf`.
pub(super) fn of_status(kopf: &Value) -> impl Iterator<Item = HandlerAttempts> {
    let records = kopf.get("progress").and_then(Value::as_object).into_iter().flatten();
    records.filter_map(|(handler, record)| of_record(&handler.replace('/', "."), record))
}

/// Adds the attempts of a handler. Operators may keep the same record in both places.
pub(super) fn keep(view: &mut ObjectView, attempts: HandlerAttempts) {
    let is_full = view.attempts.len() >= MAX_HANDLERS;
    match view.attempts.iter_mut().find(|known| known.handler == attempts.handler) {
        Some(known) => known.failed = known.failed.max(attempts.failed),
        None if is_full => {}
        None => view.attempts.push(attempts),
    }
}

/// Returns the attempts of a handler that has not succeeded yet; `None` if none has failed.
fn of_record(handler: &str, record: &Value) -> Option<HandlerAttempts> {
    let failed = record.get("retries")?.as_u64().filter(|retries| *retries > 0)?;
    let is_success = record.get("success").and_then(Value::as_bool) == Some(true);
    let error = record.get("message").and_then(Value::as_str).unwrap_or_default();

    (!is_success).then(|| HandlerAttempts {
        handler: cut(handler, MAX_NAME).to_owned(),
        failed: u32::try_from(failed).unwrap_or(u32::MAX),
        error: cut(error, MAX_MESSAGE).to_owned(),
    })
}
