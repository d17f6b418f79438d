//! The names of the operator's processes.

/// The name of an *instance*, which is one process of the operator: `namespace/pod`, or the address
/// of its metrics if its Pod is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstanceName<'a>(pub &'a str);

impl<'a> InstanceName<'a> {
    /// Returns the namespace and the name of its Pod; `None` if its Pod is not known.
    #[must_use]
    pub fn pod(self) -> Option<(&'a str, &'a str)> {
        self.0.split_once('/')
    }

    /// Returns the value of the `operator_pod` label: the name of its Pod, or the address of its
    /// metrics.
    #[must_use]
    pub fn label(self) -> &'a str {
        self.pod().map_or(self.0, |(_, pod)| pod)
    }
}
