//! The sender of events and traces.

/// Where events and traces come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The Pod of this process; `None` outside a cluster.
    pub pod: Option<String>,
    /// The operator that they are about, `NAMESPACE/NAME`, if it is one of many.
    pub operator: Option<String>,
}
