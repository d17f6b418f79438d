//! The discovery of one operator by an observer of many: the permissions of the operator's account come
//! from roles and bindings instead of reviews, the observer's own permissions decide what it can see, and
//! another operator may claim the same kind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loopwatch_model::observation::Permission;
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio::time::Instant;

use super::grants::{Account, Grants};
use super::permissions::Rules;
use super::reviews::{Question, Reviews};
use crate::lock::lock;
use crate::net::Failure;
use crate::sources::api_server::api_resources::{ApiResources, Kind};
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
    pub(crate) owners: Owners,
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

/// Which operator owns which kind. A kind is named by its group and its plural name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Owners {
    table: Arc<Mutex<BTreeMap<Kind, Vec<Owner>>>>,
    changes: watch::Sender<()>,
}

/// The owner of a kind, in some namespaces or in the whole cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    /// `NAMESPACE/NAME`.
    pub(crate) operator: String,
    pub(crate) reach: Reach,
    /// Whether nobody else may own the kind there.
    pub(crate) is_certain: bool,
}

/// What one operator owns.
pub(super) type Owned = BTreeMap<Kind, Owner>;

/// Where an operator may write objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Reach {
    Everywhere,
    In(BTreeSet<String>),
}

/// How long the kinds that the API server serves count as current. A change of a definition ends this time.
const CURRENT_FOR: Duration = Duration::from_secs(10);

/// How long loopwatch relies on a review of its own permissions.
const RELIES_FOR: Duration = Duration::from_secs(900);

/// How long it still does so after roles have changed.
const FORGETS_WITHIN: Duration = Duration::from_secs(30);

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

    /// Waits until the permissions of the account, whose workload watches these namespaces, differ from those of
    /// the last review.
    pub(super) async fn grants_changed(&self, watched: &[String]) {
        let (mut grants, reviewed) = (self.grants.clone(), self.grants.borrow().clone());
        while grants.changed().await.is_ok() {
            if !grants.borrow_and_update().are_alike(&reviewed, &self.account, watched) {
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

    /// What this operator owns of a kind, if anything: where, and whether that is certain.
    pub(super) fn owned(&self, kind: &Kind) -> Option<(Reach, bool)> {
        let table = lock(&self.owners.table);
        let owner = table.get(kind)?.iter().find(|owner| owner.operator == self.operator)?;
        Some((owner.reach.clone(), owner.is_certain))
    }

    /// Everything that this operator owns.
    pub(super) fn all_owned(&self) -> Owned {
        let table = lock(&self.owners.table);
        let own = table.iter().filter_map(|(kind, owners)| {
            let owner = owners.iter().find(|owner| owner.operator == self.operator)?;
            Some((kind.clone(), owner.clone()))
        });
        own.collect()
    }

    /// Waits until this operator owns something else than before.
    pub(super) async fn owned_changed(&self, before: &Owned) {
        let mut changes = self.owners.changes();
        while self.all_owned() == *before {
            let _ = changes.changed().await; // `self` keeps the sender
        }
    }

    /// Whether this operator owns a kind of a group.
    pub(crate) fn owns_in(&self, group: &str) -> bool {
        let table = lock(&self.owners.table);
        let owns = |owners: &[Owner]| owners.iter().any(|owner| owner.operator == self.operator);
        table.iter().any(|((of, _), owners)| of == group && owns(owners))
    }
}

impl Owners {
    /// Sets who owns which kind.
    pub(crate) fn set(&self, owners: BTreeMap<Kind, Vec<Owner>>) {
        let before = std::mem::replace(&mut *lock(&self.table), owners.clone());
        if before != owners {
            self.changes.send_replace(());
        }
    }

    /// Shows each change from now on.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }
}

impl Reach {
    /// The namespaces; none if it is the whole cluster.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = &String> {
        let namespaces = match self {
            Self::Everywhere => None,
            Self::In(namespaces) => Some(namespaces),
        };
        namespaces.into_iter().flatten()
    }

    /// Whether this includes all of another one.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Everywhere, _) => true,
            (Self::In(here), Self::In(there)) => here.is_superset(there),
            (Self::In(_), Self::Everywhere) => false,
        }
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

    /// The verbs of those permissions that loopwatch's own account lacks. An empty namespace means all.
    pub(super) async fn missing(
        &self,
        cluster: &Cluster,
        permissions: &[Permission],
        namespace: &str,
    ) -> Result<Vec<String>, Failure> {
        let mut own = self.own.lock().await;
        if own.as_ref().is_none_or(|(at, _)| at.elapsed() >= RELIES_FOR) {
            *own = Some((Instant::now(), Reviews::request(cluster, Vec::new()).await?));
        }

        let lacking = |permission: &Permission| permission.verb.clone();
        let Some((_, reviews)) = &mut *own else {
            return Ok(permissions.iter().map(lacking).collect());
        };
        let questions: Vec<Question> =
            permissions.iter().map(|permission| Question::new(permission, namespace)).collect();
        reviews.ask(cluster, &questions).await?;
        let missing = permissions.iter().filter(|permission| !reviews.allow(permission, namespace));
        Ok(missing.map(lacking).collect())
    }

    /// Has loopwatch's own permissions reviewed again within a minute, because roles have changed. In some
    /// clusters, they change all the time.
    pub(crate) async fn forget_own(&self) {
        let soon = Instant::now().checked_sub(RELIES_FOR.saturating_sub(FORGETS_WITHIN));
        if let (Some((at, _)), Some(soon)) = (&mut *self.own.lock().await, soon) {
            *at = soon.min(*at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(operator: &str, owners: &Owners) -> Observed {
        Observed {
            operator: operator.to_owned(),
            account: (String::new(), String::new()),
            grants: watch::Sender::default().subscribe(),
            owners: owners.clone(),
            shared: Arc::default(),
        }
    }

    fn table(kinds: &[(&str, &str)]) -> BTreeMap<Kind, Vec<Owner>> {
        let owner = |operator: &str| Owner {
            operator: operator.to_owned(),
            reach: Reach::Everywhere,
            is_certain: true,
        };
        let row = |(resource, operator): &(&str, &str)| {
            (("example.io".to_owned(), (*resource).to_owned()), vec![owner(operator)])
        };
        kinds.iter().map(row).collect()
    }

    /// Whether an operator learns of a change of the owners without another event, even if it is busy when
    /// they change.
    async fn notices(observed: &Observed, before: &Owned) -> bool {
        let noticing = observed.owned_changed(before);
        tokio::time::timeout(Duration::from_secs(1), noticing).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_operators_whose_kinds_change_owners_notice_it() {
        let owners = Owners::default();
        owners.set(table(&[("widgets", "ops/a"), ("gadgets", "ops/b")]));
        let all = ["ops/a", "ops/b", "ops/c"].map(|name| observed(name, &owners));
        let before = all.each_ref().map(Observed::all_owned);
        for (observed, before) in all.iter().zip(&before) {
            assert!(!notices(observed, before).await, "{observed:?}");
        }

        owners.set(table(&[("widgets", "ops/a"), ("gadgets", "ops/c")]));
        let mut found = Vec::new();
        for (observed, before) in all.iter().zip(&before) {
            found.push(notices(observed, before).await);
        }
        assert_eq!(found, [false, true, true]);
    }
}
