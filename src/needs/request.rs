//! Reads a request as the API server does.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use super::Verb::{self, Create, Get, List, Watch};

/// A request, as the API server authorizes it.
#[derive(Debug, PartialEq, Eq)]
pub struct Request<'a> {
    pub verb: Verb,
    pub target: Target<'a>,
    /// Whether the response contains only metadata.
    pub metadata_only: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// The group and the plural name of a resource.
    Resource(&'a str, &'a str),
    Path(&'a str),
}

/// Segments after the version with which an old API server begins another kind of request.
const PREFIXES: [&str; 3] = ["watch", "proxy", "redirect"];
/// Subresources of a namespace. Their paths look like those of collections.
const OF_NAMESPACES: [&str; 2] = ["status", "finalize"];

impl<'a> Request<'a> {
    /// Parses a request as the API server does. `None` for requests that loopwatch never sends:
    /// other methods, subresources, and paths with another meaning after decoding.
    #[must_use]
    pub fn parse(method: &str, path_and_query: &'a str, metadata_only: bool) -> Option<Self> {
        let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
        let segments: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
        if !segments.iter().all(|segment| is_one_segment(segment)) {
            return None;
        }

        let (group, rest) = match segments[..] {
            ["version" | "api" | "apis"] | ["api", _] | ["apis", _] | ["apis", _, _] => {
                let target = Target::Path(path);
                return (method == "GET").then_some(Self { verb: Get, target, metadata_only });
            }
            ["api", _, ref rest @ ..] => ("", rest),
            ["apis", group, _, ref rest @ ..] => (group, rest),
            _ => return None,
        };

        let (resource, name) = match *rest {
            [first, ..] if PREFIXES.contains(&first) => return None,
            ["namespaces", _, resource] if OF_NAMESPACES.contains(&resource) => return None,
            ["namespaces", _, resource] | [resource] => (resource, false),
            ["namespaces", _, resource, _] | [resource, _] => (resource, true),
            _ => return None,
        };

        let watches = query.split('&').any(|pair| pair.split('=').next() == Some("watch"));
        let verb = match (method, name) {
            ("GET", true) if !watches => Get,
            ("GET", false) if watches => Watch,
            ("GET", false) => List,
            ("POST", false) => Create,
            _ => return None,
        };

        let target = Target::Resource(group, resource);
        (is_plain(group) && is_plain(resource)).then_some(Self { verb, target, metadata_only })
    }
}

/// Whether a segment of a path is one segment even after decoding.
fn is_one_segment(segment: &str) -> bool {
    let decoded: Cow<'_, [u8]> = percent_decode_str(segment).into();
    !matches!(&*decoded, b"" | b"." | b"..") && !decoded.contains(&b'/')
}

/// Whether a text means the same after decoding.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_the_api_server_reads_them() {
        let resource = |verb, group, resource| {
            Some(Request { verb, target: Target::Resource(group, resource), metadata_only: false })
        };
        for (path, expected) in [
            ("/api/v1/namespaces", resource(List, "", "namespaces")),
            ("/api/v1/namespaces/team", resource(Get, "", "namespaces")),
            ("/api/v1/namespaces/team/pods", resource(List, "", "pods")),
            ("/api/v1/namespaces/team/pods/a?watches=1", resource(Get, "", "pods")),
            ("/apis/a.io/v1/widgets?limit=1&watch=true", resource(Watch, "a.io", "widgets")),
            ("/apis/a.io/v1/widgets/system%3Aa", resource(Get, "a.io", "widgets")),
        ] {
            assert_eq!(Request::parse("GET", path, false), expected, "{path}");
        }

        let review = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
        let created = resource(Create, "authorization.k8s.io", "selfsubjectrulesreviews");
        assert_eq!(Request::parse("POST", review, false), created);
    }
}
