//! Which of the permissions that loopwatch can use the account lacks. For `doctor`.

use crate::needs::{Asks, NEEDS, Need, Scope, Verb};
use crate::net::Failure;
use crate::sources::api_server::{Cluster, NOWHERE, Rules};

/// The permissions that the account lacks.
#[derive(Debug, Default)]
pub(crate) struct MissingRights {
    /// Rows of the table of needs.
    pub(crate) needs: Vec<&'static Need>,
    /// Whether the API server cannot list all rules, so that the account may have them nevertheless.
    pub(crate) is_uncertain: bool,
}

/// Asks the API server for the rules of this account, and compares them with what a role of `deploy/`
/// grants. `namespace` is that of the operator.
pub(crate) async fn missing_rights(
    cluster: &Cluster,
    namespace: &str,
) -> Result<MissingRights, Failure> {
    let (here, everywhere) =
        (Rules::review(cluster, namespace).await?, Rules::review(cluster, NOWHERE).await?);
    let lacks = |need: &&Need| {
        let Asks::Of(group, resources) = need.asks else { return false };
        let rules = if need.scope == Scope::Cluster { &everywhere } else { &here };
        let allows = |verb: &Verb| {
            resources.iter().all(|resource| rules.allow(verb.as_str(), group, resource))
        };
        !need.verbs.iter().all(allows)
    };

    let by_default = NEEDS.iter().filter(|need| need.setting.is_none());
    let granted = by_default.filter(|need| !need.granted_by.is_empty());
    Ok(MissingRights {
        needs: granted.filter(lacks).collect(),
        is_uncertain: here.incomplete || everywhere.incomplete,
    })
}
