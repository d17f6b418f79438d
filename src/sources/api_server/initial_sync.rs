//! Progress of the first lists, for commands that poll a cluster once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use loopwatch_model::observation::WatchId;
use tokio::sync::watch;

/// Tracks the first list of every watch.
#[derive(Clone, Debug)]
pub(crate) struct InitialSync {
    table: Arc<watch::Sender<ListStages>>,
    objects: Arc<AtomicU64>,
}

/// Progress of the first lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SyncProgress {
    /// Number of lists.
    pub watches: usize,
    /// Complete lists.
    pub listed: usize,
    /// Lists that failed.
    pub failed: usize,
    /// Objects listed so far.
    pub objects: u64,
}

/// Reports the progress of one watch.
#[derive(Debug)]
pub(crate) struct SyncReporter {
    /// `None` for a watch that does not count.
    sync: Option<(InitialSync, WatchId)>,
    first: AtomicBool,
}

#[derive(Debug, Default)]
struct ListStages {
    discovered: bool,
    watches: BTreeMap<WatchId, ListStage>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListStage {
    Waiting,
    Listing,
    Listed,
    Failed,
}

impl InitialSync {
    pub(crate) fn new() -> Self {
        Self { table: Arc::new(watch::Sender::new(ListStages::default())), objects: Arc::default() }
    }

    /// The current progress.
    #[must_use]
    pub(crate) fn progress(&self) -> SyncProgress {
        let table = self.table.borrow();
        let count = |stage| table.watches.values().filter(|is| **is == stage).count();
        SyncProgress {
            watches: table.watches.len(),
            listed: count(ListStage::Listed),
            failed: count(ListStage::Failed),
            objects: self.objects.load(Ordering::Relaxed),
        }
    }

    /// Waits until each first list is complete or has failed.
    pub(crate) async fn done(&self) -> SyncProgress {
        let settled = |table: &ListStages| {
            table.discovered
                && table
                    .watches
                    .values()
                    .all(|is| matches!(is, ListStage::Listed | ListStage::Failed))
        };

        // The sender lives in `self`, so waiting cannot fail.
        let _ = self.table.subscribe().wait_for(settled).await;
        self.progress()
    }

    pub(crate) fn reporter(&self, watch: &WatchId) -> SyncReporter {
        self.table.send_modify(|table| {
            table.watches.entry(watch.clone()).or_insert(ListStage::Waiting);
        });
        SyncReporter { sync: Some((self.clone(), watch.clone())), first: AtomicBool::new(true) }
    }

    /// Discovery has finished: only these watches count.
    pub(crate) fn discovered(&self, watches: &[WatchId]) {
        self.table.send_modify(|table| {
            table.discovered = true;
            table.watches.retain(|watch, _| watches.contains(watch));
        });
    }

    /// Notes that the watch will never list.
    pub(crate) fn gave_up(&self, watch: &WatchId) {
        self.set(watch, ListStage::Failed);
    }

    /// Discovery has failed: there is nothing to wait for.
    pub(crate) fn discovery_failed(&self) {
        self.table.send_modify(|table| table.discovered = true);
    }

    fn set(&self, watch: &WatchId, stage: ListStage) {
        self.table.send_if_modified(|table| {
            // A watch that has listed once stays listed: only its first list counts.
            let old = table.watches.insert(watch.clone(), stage);
            if old == Some(ListStage::Listed) {
                table.watches.insert(watch.clone(), ListStage::Listed);
                return false;
            }

            old != Some(stage)
        });
    }
}

impl SyncReporter {
    /// A reporter for a watch that does not count.
    pub(crate) fn silent() -> Self {
        Self { sync: None, first: AtomicBool::new(true) }
    }

    /// Notes that the list begins.
    pub(crate) fn listing(&self) {
        self.set(ListStage::Listing);
    }

    /// Notes one more object of the list.
    pub(crate) fn object(&self) {
        if let Some((sync, _)) = &self.sync
            && self.first.load(Ordering::Relaxed)
        {
            sync.objects.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes that the list is complete.
    pub(crate) fn listed(&self) {
        self.set(ListStage::Listed);
    }

    /// Notes that the list has failed for now.
    pub(crate) fn failed(&self) {
        self.set(ListStage::Failed);
    }

    /// Returns true on the first call only, which is the first success.
    pub(crate) fn is_first(&self) -> bool {
        self.first.swap(false, Ordering::Relaxed)
    }

    fn set(&self, stage: ListStage) {
        if let Some((sync, watch)) = &self.sync {
            sync.set(watch, stage);
        }
    }
}
