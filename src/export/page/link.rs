//! Names of objects, and links to the page of each. All links are relative, so that they also work
//! behind a proxy that adds a prefix to the path.

use std::fmt;

use form_urlencoded::byte_serialize;

use super::Escaped;

/// The name of an object, which identifies it for people.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObjectName<'a> {
    pub(crate) group: &'a str,
    pub(crate) kind: &'a str,
    /// Empty for cluster-scoped objects.
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

/// `kind` and `namespace/name`, as a link to the page of the object.
pub(super) struct Link<'a>(pub(super) ObjectName<'a>);

/// The same text without a link.
pub(super) struct Plain<'a>(pub(super) ObjectName<'a>);

/// A group as a parameter: `core` stands for the group without a name.
pub(super) fn group_parameter(group: &str) -> &str {
    if group.is_empty() { "core" } else { group }
}

/// Percent-encodes a parameter. The result is safe in markup, too.
pub(super) fn encoded(text: &str) -> String {
    byte_serialize(text.as_bytes()).collect()
}

// === impl ObjectName ===

impl ObjectName<'_> {
    /// The path of the object's page: `object?group=…&kind=…&namespace=…&name=…`.
    pub(crate) fn path(&self) -> String {
        let Self { group, kind, namespace, name } = *self;
        let parameters = [
            ("group", group_parameter(group)),
            ("kind", kind),
            ("namespace", namespace),
            ("name", name),
        ];

        form_urlencoded::Serializer::for_suffix("object?".to_owned(), "object?".len())
            .extend_pairs(parameters)
            .finish()
    }
}

// === impl Link ===

impl fmt::Display for Link<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<a class=\"object\" href=\"{}\">{}</a>", Escaped(&self.0.path()), Plain(self.0))
    }
}

// === impl Plain ===

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ObjectName { kind, namespace, name, .. } = self.0;
        write!(f, "<span class=\"kind\">{}</span> <bdi>", Escaped(kind))?;
        if !namespace.is_empty() {
            write!(f, "<span class=\"ns\">{}/</span>", Escaped(namespace))?;
        }

        write!(f, "{}</bdi>", Escaped(name))
    }
}
