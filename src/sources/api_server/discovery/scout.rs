//! Looks which of several operators writes the status of a kind, by the signs that each leaves.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::ApiKind;
use super::sample::Sample;
use super::serving::{OBJECTS, Signs};
use crate::net::Failure;
use crate::sources::api_server::connection::Cluster;
use crate::sources::decoding::HashKey;

/// What is known of the operators that may own a kind.
#[derive(Debug, Default)]
pub(crate) struct Scout {
    /// The signs of each operator, and when they were read.
    signs: BTreeMap<String, (Instant, Signs)>,
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

/// How clearly the objects of a kind show an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sign {
    None,
    /// A writer has a name that begins like the operator's, with as many characters.
    Similar(usize),
    /// A writer or a finalizer is the operator's.
    Own,
}

/// How long the signs of an operator count as current.
const CURRENT_FOR: Duration = Duration::from_secs(60);

impl Scout {
    /// Looks for signs of each contender in some objects of a kind, in a namespace or anywhere. A kind that cannot be read shows none.
    pub(crate) async fn look(
        &mut self,
        contenders: &[Contender],
        key: &HashKey,
        kind: &ApiKind,
        namespace: Option<&str>,
    ) -> Result<Vec<Sign>, Failure> {
        let Some(first) = contenders.first() else { return Ok(Vec::new()) };
        let path = kind.collection(namespace);
        let sample = Sample::request(&first.cluster, key, &path, OBJECTS, "").await;
        let objects = sample.map(|sample| sample.objects).unwrap_or_default();

        let mut all = Vec::new();
        for contender in contenders {
            let signs = self.signs_of(contender).await?;
            let similar = objects.iter().map(|object| signs.similar_to(object)).max().unwrap_or(0);
            let is_own = signs.name(&kind.group) || objects.iter().any(|it| signs.are_in(it));
            all.push(match (is_own, similar) {
                (true, _) => Sign::Own,
                (false, 0) => Sign::None,
                (false, length) => Sign::Similar(length),
            });
        }

        Ok(all)
    }

    async fn signs_of(&mut self, contender: &Contender) -> Result<&Signs, Failure> {
        let Contender { operator, cluster, names, siblings } = contender;
        let is_current = |(at, _): &(Instant, Signs)| at.elapsed() < CURRENT_FOR;
        if !self.signs.get(operator).is_some_and(is_current) {
            let signs = Signs::of(cluster, names.iter().cloned(), siblings).await?;
            self.signs.insert(operator.clone(), (Instant::now(), signs));
        }

        Ok(&self.signs[operator].1)
    }

    /// Forgets all operators except these.
    pub(crate) fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        self.signs.retain(|operator, _| is_there(operator));
    }
}
