//! The URL path of a kind's collection at the API server.

use crate::net::percent_encode;

/// The path of all objects of a kind, or of those in one namespace.
pub(crate) fn collection(
    group: &str,
    version: &str,
    resource: &str,
    namespace: Option<&str>,
) -> String {
    let api = if group.is_empty() {
        format!("/api/{version}")
    } else {
        format!("/apis/{group}/{version}")
    };
    match namespace {
        Some(namespace) => format!("{api}/namespaces/{}/{resource}", percent_encode(namespace)),
        None => format!("{api}/{resource}"),
    }
}

/// Whether an object may have this name. Any other text could make the path address something else,
/// such as a subresource.
pub(crate) fn is_name(text: &str) -> bool {
    !matches!(text, "" | "." | "..") && !text.contains(['/', '%'])
}
