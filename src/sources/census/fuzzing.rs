//! The objects that decide which operators a cluster runs, for the fuzz targets.

use std::any::Any;

use super::roles::{Binding, RoleRules};
use super::table::Record;
use super::workloads::{ScrapedPod, Workload};

/// The kind of an object that anybody with rights in a namespace may write.
#[derive(Clone, Copy, Debug)]
pub enum CensusKind {
    Role,
    Binding,
    Workload,
    Pod,
}

/// What the census keeps of an object.
pub struct CensusRecord {
    /// The namespace and the name.
    pub name: (String, String),
    /// The bytes that the census counts for it.
    pub weight: usize,
    /// The record itself, so that it stays in memory.
    pub kept: Box<dyn Any>,
}

/// Reads an object; `None` if it is unreadable or does not matter.
#[must_use]
pub fn census_record(kind: CensusKind, document: &[u8]) -> Option<CensusRecord> {
    match kind {
        CensusKind::Role => record::<RoleRules>(document),
        CensusKind::Binding => record::<Binding>(document),
        CensusKind::Workload => record::<Workload>(document),
        CensusKind::Pod => record::<ScrapedPod>(document),
    }
}

fn record<T: Record>(document: &[u8]) -> Option<CensusRecord> {
    let read = T::read(document).ok()?;
    let kept = read.record?;
    Some(CensusRecord { name: read.name, weight: kept.weight(), kept: Box::new(kept) })
}
