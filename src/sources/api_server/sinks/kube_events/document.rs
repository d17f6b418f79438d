//! An Event in either of its forms, `events.k8s.io/v1` and the older `v1`. Its writer chose all
//! texts in it.

use loopwatch_model::observation::{EventView, FailedCall, MAX_EVENT_MESSAGE, ObjectKey};
use loopwatch_model::time::Timestamp;
use serde::Deserialize;

use crate::net::Failure;
use crate::sources::decoding::or_default;

/// The part of an Event that loopwatch reads. The aliases are the names of the older form.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct EventDocument {
    metadata: EventMetadata,
    #[serde(alias = "involvedObject", deserialize_with = "or_default")]
    regarding: Regarding,
    #[serde(deserialize_with = "or_default")]
    r#type: String,
    #[serde(deserialize_with = "or_default")]
    reason: String,
    #[serde(alias = "message", deserialize_with = "or_default")]
    note: String,
    #[serde(alias = "reportingComponent", deserialize_with = "or_default")]
    reporting_controller: String,
    #[serde(alias = "source", deserialize_with = "or_default")]
    deprecated_source: EventSource,
    #[serde(alias = "count")]
    deprecated_count: Option<i64>,
    series: Option<EventSeries>,
    event_time: Option<String>,
    #[serde(alias = "lastTimestamp")]
    deprecated_last_timestamp: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct EventMetadata {
    uid: String,
    resource_version: String,
    creation_timestamp: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Regarding {
    api_version: String,
    kind: String,
    namespace: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct EventSource {
    component: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct EventSeries {
    count: Option<i64>,
    last_observed_time: Option<String>,
}

/// The maximum length of the type, the reason and the name of the writer, in bytes.
const MAX_WORD: usize = 128;

/// The maximum length of the name of an object, in bytes.
const MAX_NAME: usize = 253;

impl EventDocument {
    pub(super) fn parse(object: &[u8]) -> Result<Self, Failure> {
        serde_json::from_slice(object).map_err(|error| Failure::undecodable(&error))
    }

    pub(super) fn uid(&self) -> &str {
        &self.metadata.uid
    }

    pub(super) fn version(&self) -> &str {
        &self.metadata.resource_version
    }

    pub(super) fn created(&self) -> Option<Timestamp> {
        Timestamp::parse(self.metadata.creation_timestamp.as_deref()?)
    }

    /// Whether the Event is about an object of this kind, in any version. The field selector cannot
    /// tell groups apart.
    pub(super) fn is_about(&self, group: &str, kind: &str) -> bool {
        let Regarding { api_version, kind: about, namespace, name } = &self.regarding;
        let in_group = api_version.split_once('/').map_or("", |(group, _)| group);

        // The API server does not check what an Event is about, and the model remembers it.
        let can_exist = (1..=MAX_NAME).contains(&name.len()) && namespace.len() <= MAX_NAME;
        about == kind && can_exist && (in_group == group || api_version.is_empty())
    }

    /// How often it has happened: at least once, because it exists.
    pub(super) fn count(&self) -> u32 {
        let series = self.series.as_ref().and_then(|series| series.count);
        let counts = [self.deprecated_count, series].into_iter().flatten();
        u32::try_from(counts.max().unwrap_or(1).max(1)).unwrap_or(u32::MAX)
    }

    /// When it last happened.
    fn at(&self) -> Option<Timestamp> {
        let series = self.series.as_ref().and_then(|series| series.last_observed_time.as_ref());
        let times = [series, self.deprecated_last_timestamp.as_ref(), self.event_time.as_ref()];
        let latest = times.into_iter().flatten().filter_map(|time| Timestamp::parse(time)).max();
        latest.or_else(|| self.created())
    }

    /// The view for the model, without `added`.
    pub(super) fn view(self) -> EventView {
        let (count, at) = (u64::from(self.count()), self.at());
        let Self {
            metadata,
            regarding,
            r#type,
            reason,
            note,
            reporting_controller,
            deprecated_source,
            ..
        } = self;

        let reporter = if reporting_controller.is_empty() {
            deprecated_source.component
        } else {
            reporting_controller
        };

        EventView {
            uid: readable(&metadata.uid, MAX_WORD),
            about: ObjectKey { namespace: regarding.namespace, name: regarding.name },
            r#type: readable(&r#type, MAX_WORD),
            reason: readable(&reason, MAX_WORD),
            failed_call: FailedCall::read(&note).map(Box::new),
            message: readable(&note, MAX_EVENT_MESSAGE),
            reporter: readable(&reporter, MAX_WORD),
            count,
            at,
            ..EventView::default()
        }
    }
}

/// The beginning of a text, without control characters.
fn readable(text: &str, limit: usize) -> String {
    let cut = &text[..text.floor_char_boundary(limit)];
    cut.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect::<String>()
        .trim_end()
        .to_owned()
}
