//! The operator itself: its Pods, its metrics, its processes and its profiles.

mod hints;
mod pods;
mod process;
mod profiles;
mod scrape;

pub(crate) use self::hints::{MetricsAddresses, ScrapeHints};
pub(crate) use self::pods::{PodSpec, PodsHandle, PodsReader, fuzzing as pods_fuzzing};
pub(crate) use self::process::{
    ProcessReader, ProcessSelection, follow_process, fuzzing as process_fuzzing, own_memory_limit,
};
pub use self::profiles::compare_profiles;
pub(crate) use self::profiles::{
    KeptProfile, PprofUrl, ProfileOptions, ProfileStore, Profiler, answer_profiles,
};
pub use self::scrape::intake;
pub(crate) use self::scrape::{
    DEFAULT_INTERVAL, MIN_INTERVAL, ScrapeFlag, ScrapeOptions, ScrapeTarget, ScrapeTurns, Scraper,
};
