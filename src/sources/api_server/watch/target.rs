//! Which objects a watch requests.

use crate::net::percent_encode;

/// The request of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WatchTarget {
    /// For example `/apis/example.io/v1/namespaces/team-a/widgets`.
    pub(crate) path: String,
    /// Whether to request only the metadata of the objects.
    pub(crate) metadata_only: bool,
    /// Namespaces whose objects the API server leaves out. Empty unless the path covers all
    /// namespaces.
    pub(crate) without: Vec<String>,
    /// The label selector of the objects; empty for all.
    pub(crate) labels: String,
    /// A further field selector of the objects; empty for all.
    pub(crate) fields: String,
    /// Whether the API server has a cache of the objects. Without one, not every version streams
    /// lists, and bookmarks are rare.
    pub(crate) cached: bool,
}

impl WatchTarget {
    pub(crate) fn new(path: String, metadata_only: bool) -> Self {
        Self {
            path,
            metadata_only,
            without: Vec::new(),
            labels: String::new(),
            fields: String::new(),
            cached: true,
        }
    }

    /// The request for the objects, with further parameters.
    pub(crate) fn request(&self, parameters: &str) -> String {
        let unequal = self
            .without
            .iter()
            .map(|namespace| percent_encode(&format!("metadata.namespace!={namespace}")));
        let equal = (!self.fields.is_empty()).then(|| percent_encode(&self.fields));
        let fields: Vec<String> = unequal.chain(equal).collect();
        let fields = (!fields.is_empty()).then(|| format!("fieldSelector={}", fields.join(",")));
        let labels = (!self.labels.is_empty())
            .then(|| format!("labelSelector={}", percent_encode(&self.labels)));

        let parameters = (!parameters.is_empty()).then(|| parameters.to_owned());
        let query: Vec<String> = [fields, labels, parameters].into_iter().flatten().collect();
        match query.is_empty() {
            true => self.path.clone(),
            false => format!("{}?{}", self.path, query.join("&")),
        }
    }

    /// The path of the objects of one namespace, if the path covers all namespaces.
    pub(crate) fn path_within(&self, namespace: &str) -> String {
        let (api, resource) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        format!("{api}/namespaces/{}/{resource}", percent_encode(namespace))
    }
}
