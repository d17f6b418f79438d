//! The parsers of bytes that loopwatch does not control, as functions from bytes to plain values. Only
//! the fuzz targets (`fuzz/`) use them; `sources::decoding`, `sources::operator::intake` and
//! `recording` are the others.

pub use crate::config::fuzzing::{FlagValues, config_file};
pub use crate::export::server::fuzzing::{Server, WebFileView, web_file};
pub use crate::net::fuzzing::{RefusalView, UrlView, refusal, url};
pub use crate::sources::api_server::watch_fuzzing::{
    EventView, Split, event, is_list, items, lines,
};
pub use crate::sources::operator::compare_profiles;
