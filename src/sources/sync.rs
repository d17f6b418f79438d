//! How far the first lists are, for commands that look once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use loopwatch_model::observation::WatchId;
use tokio::sync::watch;

/// Follows the first list of every watch.
#[derive(Clone, Debug)]
pub struct InitialSync {
    table: Arc<watch::Sender<ListStages>>,
    objects: Arc<AtomicU64>,
}

/// How far the first lists are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Whether it is known what there is to list.
    pub discovered: bool,
    /// Lists in all.
    pub watches: usize,
    /// Lists that are complete.
    pub listed: usize,
    /// Lists that cannot be had.
    pub failed: usize,
    /// Objects listed so far.
    pub objects: u64,
}

/// Through this one watch reports.
#[derive(Debug)]
pub(crate) struct SyncReporter {
    /// `None` for watches that nobody waits for.
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

// === impl InitialSync ===

impl InitialSync {
    pub(crate) fn new() -> Self {
        Self { table: Arc::new(watch::Sender::new(ListStages::default())), objects: Arc::default() }
    }

    /// How far the first lists are now.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let table = self.table.borrow();
        let count = |stage| table.watches.values().filter(|is| **is == stage).count();
        Progress {
            discovered: table.discovered,
            watches: table.watches.len(),
            listed: count(ListStage::Listed),
            failed: count(ListStage::Failed),
            objects: self.objects.load(Ordering::Relaxed),
        }
    }

    /// Waits until each first list is complete or cannot be had.
    pub async fn done(&self) -> Progress {
        let settled = |table: &ListStages| {
            table.discovered && table.watches.values().all(|is| matches!(is, ListStage::Listed | ListStage::Failed))
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

    /// It is known what there is to list: these watches, and no others.
    pub(crate) fn discovered(&self, watches: &[WatchId]) {
        self.table.send_modify(|table| {
            table.discovered = true;
            table.watches.retain(|watch, _| watches.contains(watch));
        });
    }

    /// There will be no list of this watch.
    pub(crate) fn gave_up(&self, watch: &WatchId) {
        self.set(watch, ListStage::Failed);
    }

    /// What there is to list cannot be found out.
    pub(crate) fn discovery_failed(&self) {
        self.table.send_modify(|table| table.discovered = true);
    }

    fn set(&self, watch: &WatchId, stage: ListStage) {
        self.table.send_if_modified(|table| {
            // What was listed once stays listed: this is about the first list.
            let old = table.watches.insert(watch.clone(), stage);
            if old == Some(ListStage::Listed) {
                table.watches.insert(watch.clone(), ListStage::Listed);
                return false;
            }
            old != Some(stage)
        });
    }
}

// === impl SyncReporter ===

impl SyncReporter {
    /// For a watch that nobody waits for.
    pub(crate) fn silent() -> Self {
        Self { sync: None, first: AtomicBool::new(true) }
    }

    /// A list begins.
    pub(crate) fn listing(&self) {
        self.set(ListStage::Listing);
    }

    /// One object was listed.
    pub(crate) fn object(&self) {
        if let Some((sync, _)) = &self.sync
            && self.first.load(Ordering::Relaxed)
        {
            sync.objects.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A list is complete.
    pub(crate) fn listed(&self) {
        self.set(ListStage::Listed);
    }

    /// There will be no list, as far as can be seen now.
    pub(crate) fn failed(&self) {
        self.set(ListStage::Failed);
    }

    /// True once: for the first success.
    pub(crate) fn is_first(&self) -> bool {
        self.first.swap(false, Ordering::Relaxed)
    }

    fn set(&self, stage: ListStage) {
        if let Some((sync, watch)) = &self.sync {
            sync.set(watch, stage);
        }
    }
}
