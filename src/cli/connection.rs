//! The flags of commands that look at a cluster once, and run no part of `run`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use crate::sources::api_server::{Access, OperatorName};

/// How to reach the cluster.
#[derive(Args, Debug)]
pub(super) struct ConnectionFlags {
    /// Kubeconfig file [default: KUBECONFIG, ~/.kube/config, or the Pod's service account]
    #[arg(long, value_name = "FILE", global = true, help_heading = "Cluster")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new(), global = true, help_heading = "Cluster")]
    context: Option<String>,
}

impl ConnectionFlags {
    /// The access to the cluster, as the service account of `operator` if there is one.
    pub(super) fn access(&self, operator: Option<OperatorName>) -> Access {
        Access { kubeconfig: self.kubeconfig.clone(), context: self.context.clone(), operator }
    }
}
