//! Links to the page of each object, and to the table of a kind's objects.

use std::fmt;

use super::Escaped;
use crate::export::view::{ObjectName, encoded};

/// `kind` and `namespace/name`, as a link to the page of the object.
pub(super) struct Link<'a>(pub(super) ObjectName<'a>);

/// The same text without a link.
pub(super) struct Plain<'a>(pub(super) ObjectName<'a>);

/// The path of the table of a kind's objects.
pub(super) fn objects_of_kind(group: &str, kind: &str) -> String {
    format!("objects?kind={}", encoded(&format!("{group}/{kind}")))
}

impl fmt::Display for Link<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<a class=\"object\" href=\"{}\">{}</a>", Escaped(&self.0.path()), Plain(self.0))
    }
}

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
