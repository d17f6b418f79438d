//! The machinery around the API that the operator depends on: the definitions of its kinds, and the
//! webhooks that the API server calls for its objects.

pub(crate) mod definitions;
mod hazards; // of registered webhooks
mod latencies; // of the webhooks of the operator
mod registrations;
mod reports; // who says that calls of a webhook fail
mod verdict; // whether they do
pub(crate) mod webhooks;
