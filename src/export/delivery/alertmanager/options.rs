//! Which Alertmanagers get the alerts, and how to reach them.

use std::path::PathBuf;

use super::label::AlertLabel;
use crate::export::view::Links;
use crate::net::HttpUrl;

/// The Alertmanagers, how to reach them, and what loopwatch adds to each alert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AlertmanagerOptions {
    /// At least one.
    pub(crate) urls: Vec<HttpUrl>,
    /// A file with the bearer token.
    pub(crate) token_file: Option<PathBuf>,
    /// A file with the certificate authorities to trust instead of those of the system.
    pub(crate) ca_file: Option<PathBuf>,
    /// Labels of all alerts, such as the name of the cluster.
    pub(crate) labels: Vec<AlertLabel>,
    /// The operator that the alerts are about, `NAMESPACE/NAME`, if it is one of many.
    pub(crate) operator: Option<String>,
    /// Where the alerts link to.
    pub(crate) links: Links,
}
