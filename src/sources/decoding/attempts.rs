//! Reads the notes of a framework about its attempts to handle an object. kopf keeps a record per
//! handler, in an annotation or in `.status.kopf.progress`, until all handlers have ended.

use loopwatch_model::observation::{HandlerAttempts, ObjectView};
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess};

use super::limits::{MAX_MESSAGE, MAX_NAME};
use super::shape::{
    AnyShape, BoolField, FieldValue, IntegerField, MapKey, Scalar, TextField, Visit,
};
use super::words::cut;

/// `.status.kopf`. The attempts that it notes go to a view.
pub(super) struct KopfNotes<'v> {
    pub(super) view: &'v mut ObjectView,
}

/// `.status.kopf.progress`: a record for each handler.
struct Progress<'v> {
    view: &'v mut ObjectView,
}

/// The record of one handler.
struct RecordValue;

/// What such a record says.
#[derive(Default)]
struct Record {
    retries: i64,
    succeeded: bool,
    error: String,
}

/// A field of such a record.
#[derive(Default)]
enum RecordField {
    Retries,
    Success,
    Message,
    #[default]
    Other,
}

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
    if !is_record {
        return None;
    }

    let mut json = serde_json::Deserializer::from_str(value);
    let record = Visit(RecordValue).deserialize(&mut json).ok()?;
    json.end().ok()?;

    // An annotation has `.` for each `/` of a handler's name.
    let (_, handler) = key.rsplit_once('/')?;
    record.attempts(handler)
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

impl Record {
    /// Returns the attempts of a handler that has not succeeded yet; `None` if none has failed.
    fn attempts(self, handler: &str) -> Option<HandlerAttempts> {
        let Self { retries, succeeded, error } = self;
        (retries > 0 && !succeeded).then(|| HandlerAttempts {
            handler: cut(handler, MAX_NAME).to_owned(),
            failed: u32::try_from(retries).unwrap_or(u32::MAX),
            error,
        })
    }
}

impl<'de> AnyShape<'de> for KopfNotes<'_> {
    type Out = ();

    fn scalar(self, _: Scalar<'_>) {}

    fn map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let Self { view } = self;
        let is_progress = |key: &str| key == "progress";
        while let Some(is_progress) = entries.next_key_seed(MapKey(is_progress))? {
            if is_progress {
                entries.next_value_seed(Visit(Progress { view: &mut *view }))?;
            } else {
                entries.next_value::<IgnoredAny>()?;
            }
        }

        Ok(())
    }
}

impl<'de> AnyShape<'de> for Progress<'_> {
    type Out = ();

    fn scalar(self, _: Scalar<'_>) {}

    fn map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let handler = |key: &str| cut(key, MAX_NAME).replace('/', ".");
        while let Some(handler) = entries.next_key_seed(MapKey(handler))? {
            let record = entries.next_value_seed(Visit(RecordValue))?;
            record.attempts(&handler).into_iter().for_each(|attempts| keep(self.view, attempts));
        }

        Ok(())
    }
}

impl<'de> AnyShape<'de> for RecordValue {
    type Out = Record;

    fn scalar(self, _: Scalar<'_>) -> Record {
        Record::default()
    }

    fn map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Record, A::Error> {
        let mut record = Record::default();
        while let Some(field) = entries.next_key_seed(MapKey(RecordField::of))? {
            match field {
                RecordField::Retries => {
                    let retries = entries.next_value_seed(Visit(IntegerField))?;
                    record.retries =
                        if let FieldValue::Is(retries) = retries { retries } else { 0 };
                }
                RecordField::Success => {
                    let success = entries.next_value_seed(Visit(BoolField))?;
                    record.succeeded = success == FieldValue::Is(true);
                }
                RecordField::Message => {
                    let text = |text: &str| cut(text, MAX_MESSAGE).to_owned();
                    let message = entries.next_value_seed(TextField::new(text))?;
                    record.error =
                        if let FieldValue::Is(text) = message { text } else { String::new() };
                }
                RecordField::Other => _ = entries.next_value::<IgnoredAny>()?,
            }
        }

        Ok(record)
    }
}

impl RecordField {
    fn of(key: &str) -> Self {
        match key {
            "retries" => Self::Retries,
            "success" => Self::Success,
            "message" => Self::Message,
            _ => Self::Other,
        }
    }
}
