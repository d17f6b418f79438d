//! Notices that a file has changed, without reading it.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Identifies one version of a file: every write changes at least the change time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl Stamp {
    /// The stamp of the file after following all links; `None` if it cannot be read.
    pub(crate) async fn of(path: &Path) -> Option<Self> {
        let metadata = tokio::fs::metadata(path).await.ok()?;
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        Some(Self { device: metadata.dev(), inode: metadata.ino(), size: metadata.size(), changed })
    }
}
