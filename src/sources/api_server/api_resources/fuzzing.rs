//! The lists of APIs, for the fuzz targets.

use super::{ApiKind, ApiResources, DiscoveryDocument};

/// A kind that an API server serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiKindView {
    pub group: String,
    pub version: String,
    pub versions: Vec<String>,
    pub kind: String,
    pub resource: String,
    /// Whether a search by group and resource finds this kind.
    pub is_found: bool,
    /// The resource that a search by group and kind finds.
    pub of_kind: Option<String>,
}

/// Reads the list of all APIs, or that of the version `v1` of a group.
#[must_use]
pub fn api_list(document: &[u8], group: Option<&str>) -> Option<Vec<ApiKindView>> {
    let document: DiscoveryDocument = serde_json::from_slice(document).ok()?;
    let mut all = ApiResources::default();
    match group {
        Some(group) => all.add_resources(group, "v1", &document),
        None => all.add_aggregated(document),
    }

    let view = |kind: &ApiKind| ApiKindView {
        is_found: all.get(&kind.group, &kind.resource) == Some(kind),
        of_kind: all.find_kind(&kind.group, &kind.kind).map(|found| found.resource.clone()),
        group: kind.group.clone(),
        version: kind.version.clone(),
        versions: kind.versions.clone(),
        kind: kind.kind.clone(),
        resource: kind.resource.clone(),
    };
    Some(all.kinds().map(view).collect())
}
