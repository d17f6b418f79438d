//! The steps of the model: how it handles each observation.

mod apply; // from its arrival to the end of the step
mod watches; // that are discovered, and their lists
mod sources; // that fail or recover
mod namespaces;
mod definitions; // of custom resources
mod webhooks; // that are registered
mod kube_events;
mod settings; // that change
mod references; // of a dump
mod version; // a version of an object
mod update; // what the version changes
mod lifetime; // how an object enters the model, and leaves it
mod room; // for objects, and which of them leave if there is none
mod review; // the state of an object and its findings
mod attempts; // of a handler, in the evidence of findings
mod warnings; // Events in the evidence of findings
mod kinds; // the findings about a kind
pub(crate) mod finish; // what else to review, and the end of the step
mod clock; // steps of the clock
