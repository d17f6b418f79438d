//! Kubernetes Events.

use serde::{Deserialize, Serialize};

use super::failed_call::FailedCall;
use super::object::ObjectKey;
use super::omission::is_default;
use crate::time::Timestamp;

/// The part of a Kubernetes Event that loopwatch reads. Its writer chose the texts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EventView {
    /// The UID of the Event.
    pub uid: String,
    /// The object that it is about, which is of the kind of its watch.
    #[serde(flatten)]
    pub about: ObjectKey,
    /// `Normal` or `Warning`, but the API server accepts other words.
    pub r#type: String,
    /// Why it was written: a word in `CamelCase`, by convention.
    pub reason: String,
    /// A message for people, cut to [`MAX_EVENT_MESSAGE`] bytes.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The controller that wrote it; may be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reporter: String,
    /// The total count that the Event states.
    pub count: u64,
    /// How often it happened since loopwatch last saw the Event; 0 for an Event that is older than
    /// its watch.
    #[serde(skip_serializing_if = "is_default")]
    pub added: u64,
    /// When it last happened, if the Event states it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// There was no room to remember how often it had happened, so `added` is 0.
    #[serde(skip_serializing_if = "is_default")]
    pub uncounted: bool,
    /// The failed call of a webhook that the whole message reports. Recordings by older versions
    /// leave it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_call: Option<Box<FailedCall>>,
}

/// The maximum number of Events whose counts a source remembers, over all kinds.
pub const MAX_EVENTS: usize = 20_000;

/// The maximum length of [`EventView::message`], in bytes.
pub const MAX_EVENT_MESSAGE: usize = 160;
