//! Which objects a watch requests.

use loopwatch_model::observation::ObjectKey;

use crate::net::percent_encode;
use crate::sources::api_server::collections::is_name;

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

    /// The target for a single object; `None` if its name is none.
    pub(crate) fn of_object(&self, object: &ObjectKey) -> Option<Self> {
        let ObjectKey { namespace, name } = object;
        let is_valid = is_name(name) && (namespace.is_empty() || is_name(namespace));
        let is_in_path = self.path.contains("/namespaces/");
        let path = match namespace.is_empty() || is_in_path {
            true => self.path.clone(),
            false => self.path_within(namespace),
        };

        is_valid.then(|| Self {
            fields: format!("metadata.name={}", escaped(name)),
            without: Vec::new(),
            path,
            ..self.clone()
        })
    }
}

/// A value in a field selector, as `EscapeValue` of `k8s.io/apimachinery/pkg/fields` writes it.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selector_of_an_object_names_no_other_one() {
        let target = WatchTarget::new("/apis/example.io/v1/namespaces/a/widgets".to_owned(), true);
        for (name, expected) in [
            ("web", Some("metadata.name=web")),
            (r"a,b=\c", Some(r"metadata.name=a\,b\=\\c")),
            ("a/b", None),
            ("", None),
        ] {
            let object = ObjectKey { namespace: "a".into(), name: name.into() };
            let found = target.of_object(&object);
            assert_eq!(found.as_ref().map(|it| it.fields.as_str()), expected);
            assert!(found.is_none_or(|it| it.path == target.path && it.metadata_only));
        }
    }
}
