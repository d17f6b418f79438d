//! What a watch can see, and the sources that it needs.

mod blindness;
mod outages;
mod grace;
mod unseen;
mod scrapes;
mod sources;
mod audits;
mod permissions;
mod rights;
