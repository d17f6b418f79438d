//! Kubernetes Events about objects: counts by kind, type and reason, and the latest of each object
//! for explanations and as evidence. They confirm no verdict, because anybody may write Events about any object
//! with any text. `machinery/` takes suspicions from them.

mod reasons;

use std::collections::BTreeMap;
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
    let counts = &world.kinds[kind as usize].totals.events;
    let known = counts
        .keys()
        .find(|known| *known.reason == *event.reason)
        .map(|known| known.reason.clone());
    let is_new = is_word(&event.reason) && known.is_none() && !is_of_kubernetes(&event.reason);
    let left_out = is_new && !may_introduce_reason(world, kind, &event.about.namespace);

    let kind = &mut world.kinds[kind as usize];
    let reason: Arc<str> = match known {
        Some(known) => known,
        None if is_word(&event.reason) && !left_out => event.reason.as_str().into(),
        None => OTHER.into(),
    };
    if is_new && !left_out {
        *kind.introduced_reasons.entry(event.about.namespace.as_str().into()).or_default() += 1;
    }

    let reason = EventReason { r#type: severity(&event.r#type), reason };
    let count = kind.totals.events.entry(reason).or_default();
    *count = count.saturating_add(event.added);
    if left_out {
        world.count_dropped(Limit::EventReasons);
    }
}

/// Returns whether an Event in a namespace may introduce a reason. Anybody may write Events about the
/// objects of their namespace, so those of one namespace among several introduce at most half of
/// the reasons.
fn may_introduce_reason(world: &World, kind: u16, namespace: &str) -> bool {
    let limit = world.settings.limits.event_reasons;
    let introduced = &world.kinds[kind as usize].introduced_reasons;
    let here = introduced.get(namespace).copied().unwrap_or_default();

    introduced.values().sum::<usize>() < limit
        && (here < limit.div_ceil(2) || !has_several_namespaces(world, kind))
}

/// Returns whether objects of a kind are in more than one namespace.
fn has_several_namespaces(world: &World, kind: u16) -> bool {
    let watches = world.watches.iter().filter(|watch| watch.kind == kind);
    let namespaces = watches.flat_map(|watch| &watch.namespaces);
    namespaces.filter(|namespace| !namespace.is_empty()).nth(1).is_some()
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
