//! Reads a cluster once, for one command: the ownership graph for `what-if`, one object with its
//! family for `explain`, and who runs and scrapes loopwatch for `doctor`.

mod graph;
mod listing;
mod closeup;
mod installation;
mod kind_names;
mod own_rights;
mod scraping;
#[cfg(test)]
mod tests;

pub(crate) use self::closeup::{CloseUp, LimitedLookups, object_names};
pub(crate) use self::graph::{ListProgress, OwnershipGraph, find_object};
pub(crate) use self::installation::Installation;
pub(crate) use self::kind_names::{KindNameError, kind_name, kind_named};
pub(crate) use self::own_rights::{MissingRights, missing_rights};
pub(crate) use self::scraping::{
    Container, ContainerState, Endpoint, MonitorSpec, Object, PORT, Part, Pod, PrometheusSpec,
    Surroundings, Workload, matches,
};
