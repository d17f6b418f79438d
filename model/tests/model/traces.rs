//! Traces of obligations and deletions.

mod obligations;
mod deletions;
mod children;
mod events;
