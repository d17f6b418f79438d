//! The bodies of notifications: stable JSON shapes, to which fields are only ever added.

use loopwatch_model::finding::{Change, FindingEvent};
use loopwatch_model::reference::{ObjectName, ReferenceEvent};
use serde::Serialize;

use super::Event;
use crate::export::presentation::json::FindingView;

/// One event, for a receiver.
#[derive(Debug, Serialize)]
pub(super) struct Notification<'a> {
    /// The version of this shape.
    version: u8,
    /// The same for each attempt, so that a receiver can ignore repetitions.
    id: String,
    event: &'static str,
    /// The operator, if it is one of many.
    #[serde(skip_serializing_if = "Option::is_none")]
    operator: Option<&'a str>,
    #[serde(flatten)]
    about: About<'a>,
    /// When loopwatch saw the change, by the API server's clock.
    time: String,
}

/// What an event is about.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum About<'a> {
    Reference {
        source: &'a ObjectName,
        target: &'a ObjectName,
        /// The field of the source object that holds the reference.
        path: &'a str,
    },
    /// The same shape as in `/api/v1/findings`.
    Finding { finding: Box<FindingView<'a>> },
}

impl<'a> Notification<'a> {
    pub(super) fn of(event: &'a Event, operator: Option<&'a str>) -> Self {
        let notification = match event {
            Event::Reference(event) => Self::of_reference(event),
            Event::Finding(event) => Self::of_finding(event),
        };
        Self { operator, ..notification }
    }

    fn of_reference(event: &'a ReferenceEvent) -> Self {
        let ReferenceEvent { id, at, source, target, path, .. } = event;
        Self {
            version: 1,
            id: id.to_string(),
            event: event.name(),
            operator: None,
            about: About::Reference { source, target, path },
            time: at.to_string(),
        }
    }

    fn of_finding(event: &'a FindingEvent) -> Self {
        let FindingEvent { at, change, finding } = event;
        let name = match change {
            Change::Opened => "finding_opened",
            Change::Closed => "finding_closed",
            Change::Explained => "finding_explained",
        };

        Self {
            version: 1,
            id: format!("{}-{name}-{}", finding.id, at.0),
            event: name,
            operator: None,
            about: About::Finding { finding: Box::new(FindingView::of(finding)) },
            time: at.to_string(),
        }
    }

    pub(super) fn to_json(&self) -> Vec<u8> {
        // Serializing texts and numbers cannot fail.
        serde_json::to_vec(self).unwrap_or_default()
    }
}
