//! Looks which of several operators writes the status of a kind, by the signs that each leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use loopwatch_model::observation::ObjectView;
use tokio::time::Instant;

use super::ApiKind;
use super::declared;
use super::sample::Sample;
use super::serving::{OBJECTS, Signs};
use crate::net::Failure;
use crate::sources::api_server::api_resources::Kind;
use crate::sources::api_server::connection::Cluster;
use crate::sources::decoding::HashKey;

/// What is known of the operators that may own a kind.
#[derive(Debug, Default)]
pub(crate) struct Scout {
    /// What is known of each operator, and when it was read.
    known: BTreeMap<String, (Instant, Known)>,
}

#[derive(Debug)]
struct Known {
    signs: Signs,
    /// The kinds that a ClusterServiceVersion declares to be the operator's.
    declared: BTreeSet<Kind>,
}

/// A kind whose owner is looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contested<'a> {
    pub(crate) kind: &'a ApiKind,
    /// A namespace, or `None` for the whole cluster.
    pub(crate) namespace: Option<&'a str>,
    /// The kind of ClusterServiceVersions, if the API server serves it.
    pub(crate) versions: Option<&'a ApiKind>,
}

/// An operator that may own a kind.
#[derive(Clone, Debug)]
pub(crate) struct Contender {
    /// `NAMESPACE/NAME`.
    pub(crate) operator: String,
    /// The connection, to observe this operator.
    pub(crate) cluster: Cluster,
    /// The name of its account, and that of the workload.
    pub(crate) names: Vec<String>,
    /// The names of other workloads in its namespace.
    pub(crate) siblings: Vec<String>,
}

/// How clearly an operator shows as the owner of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sign {
    None,
    /// A writer has a name that begins like the operator's, with as many characters.
    Similar(usize),
    /// A ClusterServiceVersion declares the kind to be the operator's.
    Declared,
    /// A writer of a status, or the group of the kind, is the operator's.
    Own,
}

/// Further objects to read of a kind, if the first ones show no sign.
const MORE_OBJECTS: usize = 100;

/// How long it counts as current.
const CURRENT_FOR: Duration = Duration::from_secs(60);

impl Scout {
    /// Looks for signs of each contender, also in some objects of the kind. A kind that cannot be read
    /// shows none.
    pub(crate) async fn look(
        &mut self,
        contenders: &[Contender],
        key: &HashKey,
        contested: Contested<'_>,
    ) -> Result<Vec<Sign>, Failure> {
        let Some(first) = contenders.first() else { return Ok(Vec::new()) };
        for contender in contenders {
            self.know(contender, contested.versions).await?;
        }

        let path = contested.kind.collection(contested.namespace);
        let first_page = Sample::request(&first.cluster, key, &path, OBJECTS, "").await;
        let Sample { objects, token, .. } = first_page.unwrap_or_default();
        let signs = self.signs(contenders, contested.kind, &objects);
        if token.is_empty() || signs.iter().any(|sign| *sign != Sign::None) {
            return Ok(signs);
        }

        // The first objects of the list may be those of somebody who creates them only for this.
        let more = Sample::request(&first.cluster, key, &path, MORE_OBJECTS, &token).await;
        Ok(self.signs(contenders, contested.kind, &more.unwrap_or_default().objects))
    }

    /// The sign of each contender in some objects of a kind.
    fn signs(&self, contenders: &[Contender], kind: &ApiKind, objects: &[ObjectView]) -> Vec<Sign> {
        let sign = |contender: &Contender| {
            let Some((_, Known { signs, declared })) = self.known.get(&contender.operator) else {
                return Sign::None;
            };
            let similar = objects.iter().map(|object| signs.similar_to(object)).max().unwrap_or(0);
            let is_own =
                signs.name(&kind.group) || objects.iter().any(|it| signs.wrote_status_of(it));
            match (is_own, declared.contains(&kind.id()), similar) {
                (true, ..) => Sign::Own,
                (false, true, _) => Sign::Declared,
                (false, false, 0) => Sign::None,
                (false, false, length) => Sign::Similar(length),
            }
        };

        contenders.iter().map(sign).collect()
    }

    /// Reads what is known of a contender, unless that is current.
    async fn know(
        &mut self,
        contender: &Contender,
        versions: Option<&ApiKind>,
    ) -> Result<(), Failure> {
        let Contender { operator, cluster, names, siblings } = contender;
        let is_current = |(at, _): &(Instant, Known)| at.elapsed() < CURRENT_FOR;
        if !self.known.get(operator).is_some_and(is_current) {
            let signs = Signs::of(cluster, names.iter().cloned(), siblings).await?;
            let declared = match versions {
                Some(versions) => declared::read(cluster, versions).await?,
                None => BTreeSet::new(),
            };
            self.known.insert(operator.clone(), (Instant::now(), Known { signs, declared }));
        }

        Ok(())
    }

    /// Forgets all operators except these.
    pub(crate) fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        self.known.retain(|operator, _| is_there(operator));
    }
}
