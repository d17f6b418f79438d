//! How people and links name an object. All links are relative, so that they also work behind a
//! proxy that adds a prefix to the path.

use form_urlencoded::byte_serialize;
use loopwatch_model::cascade::Node;
use loopwatch_model::observation::with_group;
use loopwatch_model::snapshot::{DeletionRow, ExplainedObject, ObjectRow};

/// The name of an object, as people identify it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObjectName<'a> {
    pub(crate) group: &'a str,
    pub(crate) kind: &'a str,
    /// Empty for cluster-scoped objects.
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

/// A group as a parameter: `core` stands for the empty group name.
pub(crate) fn group_parameter(group: &str) -> &str {
    if group.is_empty() { "core" } else { group }
}

/// Percent-encodes a parameter. The result is also safe in markup.
pub(crate) fn encoded(text: &str) -> String {
    byte_serialize(text.as_bytes()).collect()
}

impl ObjectName<'_> {
    /// `team-a/web`, or `web` for a cluster-scoped object.
    pub(crate) fn in_namespace(&self) -> String {
        match self.namespace {
            "" => self.name.to_owned(),
            namespace => format!("{namespace}/{}", self.name),
        }
    }

    /// `Widget.example.io team-a/web`.
    pub(crate) fn in_full(&self) -> String {
        format!("{} {}", self.kind_name(), self.in_namespace())
    }

    /// `Widget.example.io`, or `Pod` for the core group.
    pub(crate) fn kind_name(&self) -> String {
        kind_name(self.group, self.kind)
    }

    /// Whether loopwatch may have a page for the object. It follows namespaces and definitions by
    /// themselves, not as objects of the operator.
    pub(crate) fn may_have_page(&self) -> bool {
        !matches!(
            (self.group, self.kind),
            ("", "Namespace") | ("apiextensions.k8s.io", "CustomResourceDefinition")
        )
    }

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

impl<'a> From<&'a ObjectRow> for ObjectName<'a> {
    fn from(ObjectRow { group, kind, namespace, name, .. }: &'a ObjectRow) -> Self {
        Self { group, kind, namespace, name }
    }
}

impl<'a> From<&'a ExplainedObject> for ObjectName<'a> {
    fn from(ExplainedObject { group, kind, namespace, name, .. }: &'a ExplainedObject) -> Self {
        Self { group, kind, namespace, name }
    }
}

impl<'a> From<&'a Node> for ObjectName<'a> {
    fn from(Node { group, kind, namespace, name, .. }: &'a Node) -> Self {
        Self { group, kind, namespace, name }
    }
}

impl<'a> From<&'a DeletionRow> for ObjectName<'a> {
    fn from(DeletionRow { group, kind, namespace, name, .. }: &'a DeletionRow) -> Self {
        Self { group, kind, namespace, name }
    }
}

/// `Widget.example.io`, or `Pod` for the core group.
pub(crate) fn kind_name(group: &str, kind: &str) -> String {
    with_group(kind, group)
}
