//! The names under which loopwatch is published.

/// The names under which loopwatch is published. Other files repeat the image and the repository; a
/// test compares them with this table, and the release workflow reads it.
#[derive(Clone, Copy, Debug)]
pub struct Published {
    /// The image in manifests and documents, without a tag.
    pub image: &'static str,
    /// The URL of the public repository, without a slash at its end. Its release workflow is the
    /// identity in the signatures.
    pub repository: &'static str,
    /// The folder of the documents in the public repository, with a slash at its end. Without a
    /// repository, the documents have no links.
    pub docs: Option<&'static str>,
}

/// Nobody has registered names for loopwatch. Until then, none of its files may contain a name that
/// a stranger could register: they would decide what our users run and read. `.invalid` never
/// exists (RFC 6761).
pub const PUBLISHED: Published = Published {
    image: "registry.invalid/loopwatch",
    repository: "https://repository.invalid/loopwatch",
    docs: None,
};
