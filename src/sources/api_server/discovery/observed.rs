//! The discovery of one operator by an observer of many: the permissions of the operator's account come
//! from roles and bindings instead of reviews, the observer's own permissions decide what it can see, and
//! another operator may claim the same kind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loopwatch_model::observation::Permission;
use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio::time::Instant;

use super::grants::{Account, Grants};
use super::permissions::Rules;
use super::reviews::{Question, Reviews};
use crate::lock::lock;
use crate::net::Failure;
use crate::sources::api_server::api_resources::ApiResources;
use crate::sources::api_server::connection::Cluster;
use crate::sources::api_server::sinks::{DefinitionNews, Definitions};
use crate::sources::api_server::watch::SharedWatchState;

/// One of many operators.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    /// The operator, as `NAMESPACE/NAME`.
    pub(crate) operator: String,
    pub(crate) account: Account,
    /// The permissions of all accounts, now.
    pub(crate) grants: watch::Receiver<Arc<Grants>>,
    pub(crate) claims: Claims,
    pub(crate) shared: Arc<Shared>,
}

/// What the discoveries of all operators share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The definitions, which one watch follows.
    pub(crate) definitions: Definitions,
    pub(crate) definition_news: DefinitionNews,
    /// What their watches share.
    pub(crate) watches: SharedWatchState,
    /// The kinds that the API server serves, and when they were last read or compared.
    api_resources: AsyncMutex<Option<(Instant, Arc<ApiResources>)>>,
    /// The permissions of loopwatch's own account, and when they were reviewed.
    own: AsyncMutex<Option<(Instant, Reviews)>>,
}

/// Which operators claim a kind: those whose accounts may write its status, and among them those that
/// have been seen to do so. A kind is named by its group and its plural name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims {
    table: Arc<Mutex<ClaimTable>>,
    changes: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct ClaimTable {
    may_write: BTreeMap<Kind, BTreeSet<String>>,
    writes: BTreeMap<Kind, BTreeSet<String>>,
}

/// The group and the plural name of a kind.
pub(crate) type Kind = (String, String);

/// How long the kinds that the API server serves count as current. A change of a definition ends this time.
const CURRENT_FOR: Duration = Duration::from_secs(10);

/// How long loopwatch relies on a review of its own permissions.
const RELIES_FOR: Duration = Duration::from_secs(900);

impl Observed {
    /// The permissions of the operator's account in the whole cluster and in its home namespaces.
    pub(super) fn reviews(&mut self, homes: Vec<String>) -> Reviews {
        let grants = self.grants.borrow_and_update().clone();
        let everywhere = grants.rules(&self.account, "");
        let homes = homes.into_iter().map(|namespace| {
            let rules = grants.rules(&self.account, &namespace);
            (namespace, rules)
        });

        Reviews::known(everywhere, homes.collect())
    }

    /// Waits until the permissions of the account differ from those of the last review.
    pub(super) async fn grants_changed(&self) {
        let (mut grants, reviewed) = (self.grants.clone(), self.grants.borrow().clone());
        while grants.changed().await.is_ok() {
            if !grants.borrow_and_update().are_alike(&reviewed, &self.account) {
                return;
            }
        }

        // Without a sender, nothing changes any more.
        std::future::pending().await
    }

    /// The permissions in other namespaces, from bindings there.
    pub(super) fn elsewhere(&self, homes: &[String]) -> Vec<(String, Rules)> {
        let grants = self.grants.borrow().clone();
        let others =
            grants.namespaces(&self.account).filter(|name| !homes.iter().any(|it| it == name));
        others.map(|name| (name.to_owned(), grants.rules(&self.account, name))).collect()
    }

    /// Whether this operator claims a kind.
    pub(super) fn is_claimed(&self, kind: &Kind) -> bool {
        let table = lock(&self.claims.table);
        table.may_write.get(kind).is_some_and(|all| all.contains(&self.operator))
    }

    /// Whether this operator claims a kind of a group.
    pub(crate) fn claims_in(&self, group: &str) -> bool {
        let table = lock(&self.claims.table);
        table.may_write.iter().any(|((of, _), all)| of == group && all.contains(&self.operator))
    }

    /// Whether another operator may write the status of a kind, too.
    pub(super) fn is_contested(&self, kind: &Kind) -> bool {
        self.claims.others(&self.operator, |table| table.may_write.get(kind))
    }

    /// Whether another operator has been seen to write the status of a kind.
    pub(super) fn is_served_by_another(&self, kind: &Kind) -> bool {
        self.claims.others(&self.operator, |table| table.writes.get(kind))
    }

    /// Notes the kinds whose status this operator has been seen to write.
    pub(super) fn serves(&self, kinds: impl IntoIterator<Item = Kind>) {
        let mut table = lock(&self.claims.table);
        for kind in kinds {
            table.writes.entry(kind).or_default().insert(self.operator.clone());
        }
    }
}

impl Claims {
    /// Sets which operators may write the status of which kinds.
    pub(crate) fn set(&self, may_write: BTreeMap<Kind, BTreeSet<String>>) {
        let mut table = lock(&self.table);
        table.writes.retain(|kind, operators| {
            let still = may_write.get(kind);
            operators.retain(|operator| still.is_some_and(|still| still.contains(operator)));
            !operators.is_empty()
        });
        let is_changed = table.may_write != may_write;
        table.may_write = may_write;
        drop(table);

        if is_changed {
            self.changes.send_replace(());
        }
    }

    /// Waits until the operators claim other kinds.
    pub(crate) async fn changed(&self) {
        let _ = self.changes.subscribe().changed().await; // the sender is `self`
    }

    fn others(
        &self,
        operator: &str,
        of_table: impl FnOnce(&ClaimTable) -> Option<&BTreeSet<String>>,
    ) -> bool {
        of_table(&lock(&self.table)).is_some_and(|all| all.iter().any(|other| other != operator))
    }
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            definitions: Definitions::default(),
            definition_news: DefinitionNews::default(),
            watches: SharedWatchState::for_models(),
            api_resources: AsyncMutex::default(),
            own: AsyncMutex::default(),
        }
    }
}

impl Shared {
    /// The kinds that the API server serves.
    pub(crate) async fn api_resources(
        &self,
        cluster: &Cluster,
    ) -> Result<Arc<ApiResources>, Failure> {
        let mut known = self.api_resources.lock().await;
        let current = match &*known {
            Some((at, known)) if at.elapsed() < CURRENT_FOR => return Ok(Arc::clone(known)),
            Some((_, known)) if known.is_current(cluster).await? => Arc::clone(known),
            _ => Arc::new(ApiResources::read(cluster).await?),
        };

        *known = Some((Instant::now(), Arc::clone(&current)));
        Ok(current)
    }

    /// Has the kinds compared again, because a definition has changed.
    pub(crate) async fn forget_api_resources(&self) {
        if let Some((at, _)) = &mut *self.api_resources.lock().await
            && let Some(earlier) = Instant::now().checked_sub(CURRENT_FOR)
        {
            *at = earlier;
        }
    }

    /// Whether loopwatch's own account has these permissions. An empty namespace means all.
    pub(crate) async fn may(
        &self,
        cluster: &Cluster,
        permissions: &[Permission],
        namespace: &str,
    ) -> Result<bool, Failure> {
        let mut own = self.own.lock().await;
        if own.as_ref().is_none_or(|(at, _)| at.elapsed() >= RELIES_FOR) {
            *own = Some((Instant::now(), Reviews::request(cluster, Vec::new()).await?));
        }

        let Some((_, reviews)) = &mut *own else { return Ok(false) };
        let questions: Vec<Question> =
            permissions.iter().map(|permission| Question::new(permission, namespace)).collect();
        reviews.ask(cluster, &questions).await?;
        Ok(permissions.iter().all(|permission| reviews.allow(permission, namespace)))
    }

    /// Has loopwatch's own permissions reviewed again, because roles have changed.
    pub(crate) async fn forget_own(&self) {
        *self.own.lock().await = None;
    }
}
