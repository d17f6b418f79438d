//! The parsers of bytes that loopwatch does not control, as functions from bytes to plain values. Only
//! the fuzz targets (`fuzz/`) use them; `sources::decoding`, `sources::operator::intake` and
//! `recording` are the others.

pub use crate::config::fuzzing::{FlagValues, config_file};
pub use crate::export::server::fuzzing::{Server, WebFileView, web_file};
pub use crate::net::fuzzing::{RefusalView, UrlView, refusal, url};
pub use crate::sources::api_server::api_list_fuzzing::{ApiKindView, api_list};
pub use crate::sources::api_server::permissions_fuzzing::{RulesView, access_review, rules_review};
pub use crate::sources::api_server::sink_fuzzing::{Followed, SinkView, follow};
pub use crate::sources::api_server::token_review_fuzzing::{subject_review, token_review};
pub use crate::sources::api_server::watch_fuzzing::{
    EventView, Split, event, is_list, items, lines,
};
pub use crate::sources::census::fuzzing::{CensusKind, CensusRecord, census_record};
pub use crate::sources::offline::dump_fuzzing::{DumpView, DumpedObject, dump};
pub use crate::sources::operator::compare_profiles;
pub use crate::sources::operator::pods_fuzzing::{SeenPodView, pod, workload};
pub use crate::sources::operator::process_fuzzing::{FindBy, ProcessReading, process};
