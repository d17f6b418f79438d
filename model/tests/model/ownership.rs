//! Owner references, logical owners and orphans.

mod bad_owners;
mod cascades;
mod unwatched_owners;
mod orphans;
mod lost_owners;
mod logical_owners;
mod annotated_owners;
