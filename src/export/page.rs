//! stub
use loopwatch_model::snapshot::Snapshot;

/// stub
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'";
/// stub
pub const CSS: &str = "";
/// stub
pub const JS: &str = "";

/// stub
#[must_use]
pub fn render(_: &Snapshot) -> String {
    String::new()
}
