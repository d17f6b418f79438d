//! Kubernetes Events about objects: counts by kind, type and reason, and the latest of each object
//! for explanations and as evidence. No verdict depends on them, because anybody may write Events about any object
//! with any text.

mod reasons;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use self::reasons::{is_of_kubernetes, is_word};
use crate::model::world::World;
use crate::model::world::kinds::OTHER;
use crate::model::world::limits::Limit;
use crate::model::world::store::Record;
use crate::observation::{EventView, ObjectKey};
use crate::snapshot::{EventReason, ExplainedEvent};
use crate::time::Timestamp;

/// The latest Events of the objects with the most recent ones.
#[derive(Debug, Default)]
pub(crate) struct KubeEvents {
    /// By kind and object; at most [`MAX_OBJECTS`].
    objects: BTreeMap<(u16, ObjectKey), EventsOfObject>,
    /// The same objects, in the order in which their last Event arrived.
    order: BTreeMap<u64, (u16, ObjectKey)>,
    /// The number of Events that have arrived.
    arrived: u64,
}

/// The latest Events of one object.
#[derive(Debug, Default)]
struct EventsOfObject {
    /// Its place in [`KubeEvents::order`].
    place: u64,
    /// At most [`MAX_PER_OBJECT`].
    latest: Vec<PastEvent>,
}

#[derive(Debug)]
struct PastEvent {
    uid: Box<str>,
    at: Timestamp,
    severity: &'static str,
    reason: Box<str>,
    message: Box<str>,
    reporter: Box<str>,
    count: u64,
}

/// The maximum number of objects with Events. Beyond it, the objects whose last Event is oldest are
/// forgotten.
const MAX_OBJECTS: usize = 500;

/// The maximum number of Events of one object. Beyond it, the oldest are forgotten.
const MAX_PER_OBJECT: usize = 8;

/// The type of Events about problems.
pub(crate) const WARNING: &str = "Warning";

/// The maximum length of a text that is kept, in bytes. Messages have another limit.
const MAX_TEXT: usize = 64;

impl KubeEvents {
    /// Remembers a new or updated Event.
    pub(crate) fn add(&mut self, now: Timestamp, kind: u16, event: EventView) {
        self.arrived += 1;
        let key = (kind, event.about);
        let object = self.objects.entry(key.clone()).or_default();
        self.order.remove(&object.place);
        object.place = self.arrived;
        object.latest.retain(|past| *past.uid != *event.uid);

        if object.latest.len() >= MAX_PER_OBJECT {
            let oldest = object
                .latest
                .iter()
                .enumerate()
                .min_by_key(|(_, past)| past.at)
                .map(|(index, _)| index);
            oldest.map(|index| object.latest.remove(index));
        }

        object.latest.push(PastEvent {
            // Its writer's clock may be wrong.
            at: event.at.map_or(now, |at| at.min(now)),
            severity: severity(&event.r#type),
            uid: cut(event.uid),
            reason: cut(event.reason),
            message: event.message.into(),
            reporter: cut(event.reporter),
            count: event.count,
        });

        self.order.insert(self.arrived, key);
        if self.objects.len() > MAX_OBJECTS
            && let Some((_, longest_ago)) = self.order.pop_first()
        {
            self.objects.remove(&longest_ago);
        }
    }

    /// Returns the latest Events about an object.
    pub(crate) fn about(
        &self,
        kind: u16,
        namespace: &str,
        name: &str,
    ) -> impl Iterator<Item = ExplainedEvent> {
        let key = (kind, ObjectKey { namespace: namespace.to_owned(), name: name.to_owned() });
        let latest = self.objects.get(&key).into_iter().flat_map(|object| &object.latest);
        latest.map(|past| ExplainedEvent {
            at: past.at,
            change: "event".to_owned(),
            code: past.reason.to_string(),
            severity: past.severity.to_ascii_lowercase(),
            count: past.count,
            message: past.message.to_string(),
            reporter: past.reporter.to_string(),
        })
    }
}

impl KubeEvents {
    pub(crate) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Returns the latest Warning about an object since an instant, as `reason: message`.
    pub(crate) fn last_warning(
        &self,
        world: &World,
        record: &Record,
        since: Timestamp,
    ) -> Option<String> {
        let kind = world.watches[record.watch as usize].kind;
        let key =
            ObjectKey { namespace: record.namespace.to_string(), name: record.name.to_string() };
        let latest = &self.objects.get(&(kind, key))?.latest;
        let warnings = latest.iter().filter(|past| past.severity == WARNING && past.at >= since);
        let last = warnings.max_by_key(|past| past.at)?;

        Some(format!("{}: {}", last.reason, last.message))
    }
}

pub(crate) fn count_event(world: &mut World, kind: u16, event: &EventView) {
    let limit = world.settings.limits.event_reasons;
    let counts = &mut world.kinds[kind as usize].totals.events;
    let known = counts
        .keys()
        .find(|known| *known.reason == *event.reason)
        .map(|known| known.reason.clone());
    let (is_word, is_known) =
        (is_word(&event.reason), known.is_some() || is_of_kubernetes(&event.reason));

    let left_out = is_word && !is_known && of_operator(counts) >= limit;
    let reason: Arc<str> = match known {
        Some(known) => known,
        None if is_word && !left_out => event.reason.as_str().into(),
        None => OTHER.into(),
    };
    let count = counts.entry(EventReason { r#type: severity(&event.r#type), reason }).or_default();

    *count = count.saturating_add(event.added);
    if left_out {
        world.count_dropped(Limit::EventReasons);
    }
}

/// Returns the number of distinct reasons other than those of Kubernetes itself.
fn of_operator(counts: &BTreeMap<EventReason, u64>) -> usize {
    let reasons = counts.keys().map(|known| &*known.reason);
    reasons
        .filter(|reason| !is_of_kubernetes(reason) && *reason != OTHER)
        .collect::<BTreeSet<_>>()
        .len()
}

/// Returns the type as a label value.
pub(super) fn severity(r#type: &str) -> &'static str {
    match r#type {
        "Normal" => "Normal",
        WARNING => WARNING,
        _ => OTHER,
    }
}

/// Returns a reason if it is one word, or else `_other`.
pub(super) fn reason_word(reason: &str) -> &str {
    if is_word(reason) { reason } else { OTHER }
}

fn cut(text: String) -> Box<str> {
    match text.len() <= MAX_TEXT {
        true => text.into(),
        false => text[..text.floor_char_boundary(MAX_TEXT)].into(),
    }
}
