//! Who may open a path, and which paths a port serves.

/// Who may open a path. Each path has exactly one policy, in the table of [`super::routes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    /// Everybody: health checks, which the kubelet sends without credentials. They contain no names
    /// of objects.
    Public,
    /// Clients of the metrics, on any host.
    Metrics,
    /// People on loopback; with `--expose-ui`, on any host. Shows the names of tenants' objects.
    Page,
    /// People on loopback only. Shows the inside of the operator's program.
    Profiles,
}

/// Which paths a port serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    /// The health checks and the metrics, and with `--expose-ui` the page and the API.
    Metrics,
    /// Everything, to clients on loopback only.
    Ui,
    /// Both on one port: outside Pods, and if `--ui-port` names the port of `--listen`.
    Both,
}

impl Policy {
    /// The nonResourceURL that an account must be allowed to `get`. For the page and the API, it is
    /// not their own path, because every account may `get` /api/* of the API server.
    pub(super) fn reviewed_path(self) -> &'static str {
        match self {
            Self::Public | Self::Metrics => "/metrics",
            Self::Page | Self::Profiles => "/loopwatch",
        }
    }
}
