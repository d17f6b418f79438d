//! Looks which of several operators writes the status of a kind, by the signs that each leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use loopwatch_model::observation::ObjectView;
use tokio::time::Instant;

use super::ApiKind;
use super::declared;
use super::sample::{Portion, Sample};
use super::serving::{Clarity, Signs};
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

/// A sign that an operator owns a kind. Namespaces vote, not objects: whoever may create objects in one
/// namespace chooses all managers in them, also that of the status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sign {
    /// In how many namespaces objects show it.
    pub(crate) namespaces: usize,
    pub(crate) clarity: Clarity,
}

/// What to read of a kind. The first objects of a list are those of one namespace, and a single object may have
/// 256 KiB of annotations.
const PORTION: Portion = Portion { limit: 100, few: 10, largest: 4 << 20 };

/// How long it counts as current.
const CURRENT_FOR: Duration = Duration::from_secs(60);

impl Known {
    /// The sign of the operator in some objects of a kind.
    fn sign(&self, kind: &ApiKind, objects: &[ObjectView]) -> Sign {
        let Self { signs, declared } = self;
        if signs.name(&kind.group) {
            return Sign { namespaces: usize::MAX, clarity: Clarity::Own };
        }

        let mut clearest: BTreeMap<&str, Clarity> = BTreeMap::new();
        for object in objects {
            let writers = status_writers(object, kind.has_status);
            let clarity = writers.map(|writer| signs.clarity_of(writer)).max().unwrap_or_default();
            if clarity > Clarity::None {
                let so_far = clearest.entry(&object.key.namespace).or_default();
                *so_far = clarity.max(*so_far);
            }
        }

        let is_declared = declared.contains(&kind.id());
        let declared = if is_declared { Clarity::Declared } else { Clarity::None };
        let clarity = clearest.values().copied().max().unwrap_or_default().max(declared);
        Sign { namespaces: clearest.len(), clarity }
    }
}

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
        let sample = Sample::request_portion(&first.cluster, key, &path, PORTION, "").await;
        let objects = sample.map(|sample| sample.objects).unwrap_or_default();
        let known = |contender: &Contender| self.known.get(&contender.operator);
        let sign = |contender| known(contender).map(|(_, it)| it.sign(contested.kind, &objects));
        Ok(contenders.iter().map(|contender| sign(contender).unwrap_or_default()).collect())
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

/// The managers that have written the status of an object: as a subresource, if the kind has that.
fn status_writers(object: &ObjectView, as_subresource: bool) -> impl Iterator<Item = &String> {
    let writes = object.managers.iter().filter(move |manager| {
        manager.subresource == "status" || (!as_subresource && manager.owns.status)
    });
    writes.map(|manager| &manager.name)
}

#[cfg(test)]
mod tests {
    use loopwatch_model::observation::{Manager, ObjectKey, Owned};

    use super::*;

    fn written(namespace: &str, manager: &str, subresource: &str) -> ObjectView {
        let owns = Owned { status: true, finalizers: true, ..Owned::default() };
        let (name, subresource) = (manager.to_owned(), subresource.to_owned());
        ObjectView {
            key: ObjectKey { namespace: namespace.to_owned(), ..ObjectKey::default() },
            managers: vec![Manager { name, subresource, owns, ..Manager::default() }],
            ..ObjectView::default()
        }
    }

    #[test]
    fn namespaces_vote_and_not_objects() {
        let signs = Signs::named("op");
        let known = Known { signs, declared: BTreeSet::new() };
        let sign = |objects: &[ObjectView], has_status| {
            known.sign(&ApiKind { has_status, ..ApiKind::default() }, objects)
        };

        let forged = [written("aaa", "op", "status"), written("aaa", "op", "status")];
        assert_eq!(sign(&forged, true), Sign { namespaces: 1, clarity: Clarity::Own });
        let real = [written("b", "op-worker", "status"), written("c", "op", "status")];
        assert_eq!(sign(&real, true), Sign { namespaces: 2, clarity: Clarity::Own });

        let whole = [written("b", "op", "")];
        assert_eq!(sign(&whole, true), Sign::default(), "its status is not in it");
        assert_eq!(sign(&whole, false), Sign { namespaces: 1, clarity: Clarity::Own });
    }
}
