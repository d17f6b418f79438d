//! Fuzz targets: each parser of bytes that loopwatch does not control, with the properties that hold
//! for any bytes.
//!
//! `cargo test` replays the corpora in `__fuzz__/TARGET/corpus`; `make fuzz TARGET=decode FOR=1h`
//! searches for inputs that break a property. See `README.md`.

mod documents;
mod dumps;
mod frames;
mod histories;
mod http;
mod limits;
mod objects;
mod own_files;
mod procfs;
mod profiles;
mod recordings;
mod scrapes;
mod world;

use std::path::Path;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The longest input, in bytes. Without this limit, an engine cuts inputs to 4 KiB.
const LONGEST: usize = 64 << 10;

/// One test for each target. `cargo test` only replays the corpus: a random input could fail in an
/// unrelated change.
macro_rules! targets {
    ($($name:ident: $check:path;)*) => {
        $(#[test]
        fn $name() {
            bolero::check!()
                .with_iterations(0)
                .with_max_len(LONGEST)
                .for_each(|bytes: &[u8]| $check(bytes));
        })*

        const TARGETS: &[&str] = &[$(stringify!($name)),*];
    };
}

targets! {
    config: own_files::config;
    decode: objects::decode;
    documents: documents::documents;
    dump: dumps::dumps;
    frames: frames::frames;
    history: histories::history;
    procfs: procfs::procfs;
    profile: profiles::profile;
    recording: recordings::recording;
    refusal: http::refusal;
    request: http::request;
    scrape: scrapes::scrape;
    url: http::url;
    web_config: own_files::web_config;
}

/// The replay of a target without a corpus would succeed.
#[test]
fn every_target_has_a_corpus() {
    for target in TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("targets/__fuzz__").join(target);
        let seeds = std::fs::read_dir(folder.join("corpus")).map(Iterator::count);
        assert!(seeds.is_ok_and(|seeds| seeds >= 10), "{target} has too few seeds");
    }
}
