//! The machinery around the API.

mod definitions;
mod failed_calls; // of webhooks, in the words of those who have seen them
mod registrations; // of webhooks
