//! The API server: the connection to it, the kinds that it serves, discovery of those to watch,
//! the watches, and the sinks that turn their events into observations.

mod connection;
mod collections;
mod api_resources;
mod initial_sync;
mod wanted_namespaces;
mod watch;
mod sinks;
mod discovery;
mod token_reviews;

pub(crate) use self::api_resources::{ApiKind, ApiResources, Kind, fuzzing as api_list_fuzzing};
pub(crate) use self::collections::{collection, is_name};
pub(crate) use self::connection::{
    Access, Cluster, ConnectError, JSON, LIST_METADATA, METADATA, OperatorIdentity, OperatorName,
    PodTemplate,
};
pub(crate) use self::discovery::{
    Account, CLUSTER_SERVICE_VERSIONS, ChildSelection, Clarity, Contender, Contested,
    DEFAULT_MAX_WATCHES, Discovered, Discovery, DiscoveryOptions, Granted, Grants, KindSelector,
    NOWHERE, Observed, Owner, Owners, Reach, Rules, Scout, SecretAccess, Selection, Shared, Sign,
    Subject, fuzzing as permissions_fuzzing, is_allowed,
};
pub(crate) use self::initial_sync::{InitialSync, SyncReporter};
pub(crate) use self::sinks::fuzzing as sink_fuzzing;
pub(crate) use self::sinks::*;
pub(crate) use self::token_reviews::fuzzing as token_review_fuzzing;
pub(crate) use self::token_reviews::{Review, TokenReviewer, TokenReviews};
pub(crate) use self::wanted_namespaces::WantedNamespaces;
pub(crate) use self::watch::fuzzing as watch_fuzzing;
pub(crate) use self::watch::{
    Frame, ListPage, Listing, SharedWatchState, StreamItem, WatchEvent, WatchSink, WatchStream,
    WatchTarget, Watcher,
};
