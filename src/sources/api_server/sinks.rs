//! Sinks turn the events of watches into observations.

mod objects;
mod children;
mod definitions;
pub(crate) mod fuzzing;
mod kube_events;
mod leases;
mod namespaces;
mod webhooks;

pub(crate) use self::children::{ChildSink, Kept, NewPrimaries, PrimarySink};
pub(crate) use self::definitions::{DefinitionNews, DefinitionSink, Definitions};
pub(crate) use self::kube_events::{EventSink, EventTally, events_about};
pub(crate) use self::leases::LeaseSink;
pub(crate) use self::namespaces::{NamespaceSink, Terminating};
pub(crate) use self::objects::ObjectSink;
pub(crate) use self::webhooks::{EndpointSink, WebhookServices, WebhookSink};
