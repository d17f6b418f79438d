//! The namespaces that the user wants.

/// Which namespaces the user wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WantedNamespaces {
    /// If empty, all.
    pub(crate) namespaces: Vec<String>,
    pub(crate) excluded: Vec<String>,
}

impl WantedNamespaces {
    pub(crate) fn allows(&self, namespace: &str) -> bool {
        let is_among = |names: &[String]| names.iter().any(|name| name == namespace);
        (self.namespaces.is_empty() || is_among(&self.namespaces)) && !is_among(&self.excluded)
    }
}
