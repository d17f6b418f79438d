//! Looks for the kinds of a workload that may write all of them: those that show its signs.

use super::serving::Serving;
use super::{ApiKind, name};
use crate::net::Failure;
use crate::sources::api_server::connection::Cluster;
use crate::sources::decoding::HashKey;

/// The kinds that have shown signs of one workload.
#[derive(Debug, Default)]
pub(crate) struct Scout {
    serving: Serving,
}

impl Scout {
    /// Looks for signs of a workload, to which `cluster` belongs, and its `account` in these kinds. Returns
    /// the group and the plural name of those that have shown one, now or before.
    pub(crate) async fn look(
        &mut self,
        cluster: &Cluster,
        account: &str,
        key: &HashKey,
        kinds: &[&ApiKind],
    ) -> Result<Vec<(String, String)>, Failure> {
        self.serving.review(cluster, Some(account), key, kinds).await?;
        let served = kinds.iter().filter(|kind| self.serving.serves(kind));
        Ok(served.map(|kind| name(kind)).collect())
    }
}
