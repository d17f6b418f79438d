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

/// Notices the versions of a file, or of several, that have not been taken yet.
#[derive(Debug)]
pub(crate) struct Versions<T> {
    last: Option<T>,
    taken: Option<T>,
}

impl<T: Clone + PartialEq> Versions<T> {
    /// Begins with the version that has been taken, if it is known.
    pub(crate) fn new(taken: Option<T>) -> Self {
        Self { last: taken.clone(), taken }
    }

    /// Returns whether the version that a poll has found is a new one. A file that has just changed
    /// may be incomplete, so two polls must find it.
    pub(crate) fn is_new(&mut self, now: &T) -> bool {
        let is_settled = self.last.replace(now.clone()).as_ref() == Some(now);
        is_settled && self.taken.as_ref() != Some(now)
    }

    /// Notes the version that has been taken. Returns whether it is the first one.
    pub(crate) fn take(&mut self, version: T) -> bool {
        self.last = Some(version.clone());
        self.taken.replace(version).is_none()
    }
}

impl Stamp {
    /// The stamp of the file after following all links; `None` if it cannot be read.
    pub(crate) async fn of(path: &Path) -> Option<Self> {
        let metadata = tokio::fs::metadata(path).await.ok()?;
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        Some(Self { device: metadata.dev(), inode: metadata.ino(), size: metadata.size(), changed })
    }
}
