//! Options of the sources.

use std::sync::Arc;

use crate::sources::api_server::DiscoveryOptions;
use crate::sources::decoding::HashKey;
use crate::sources::operator::{ProcessSelection, ProfileOptions, ScrapeOptions};

/// Options of the sources. The defaults are those of a sidecar without any flag.
#[derive(Clone, Debug)]
pub(crate) struct SourceOptions {
    /// What to watch.
    pub discovery: DiscoveryOptions,
    /// The label of a namespace that names its team.
    pub team_label: Option<String>,
    /// Further annotations that the sources keep.
    pub annotations: Arc<[String]>,
    /// The leases to watch.
    pub lease: LeaseSelection,
    /// Where the operator's metrics are.
    pub scrape: ScrapeOptions,
    /// Whether and where to take profiles.
    pub profiles: ProfileOptions,
    /// Where to look for the operator's process.
    pub process: ProcessSelection,
}

/// The leader election leases of the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum LeaseSelection {
    /// None.
    Off,
    /// All in our own namespace.
    #[default]
    OwnNamespace,
}

impl SourceOptions {
    /// The options of a sidecar without any flag.
    #[must_use]
    pub(crate) fn new(hash_key: HashKey) -> Self {
        Self {
            discovery: DiscoveryOptions::new(hash_key),
            team_label: None,
            annotations: Arc::default(),
            lease: LeaseSelection::default(),
            scrape: ScrapeOptions::default(),
            profiles: ProfileOptions::default(),
            process: ProcessSelection::default(),
        }
    }
}
