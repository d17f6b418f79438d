//! Looks up single objects for the model: whether they exist, their metadata, and their dependents.
//!
//! An answer about existence must be certain: it is [`Answer::Absent`] only if the API server says
//! that this object does not exist, and [`Answer::KindUnknown`] only if a current and complete list
//! of kinds lacks the kind. Everything else is [`Answer::Failed`]. The requests ask for metadata
//! only, never for the contents of an object.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use loopwatch_model::observation::{
    Answer, Cause, MAX_OBJECT_BYTES, ObjectAddress, ObjectView, Observation, Probe, SourceId,
};
use serde_json::value::RawValue;
use tokio::sync::{Mutex, mpsc};
use tokio::time::{Instant, sleep_until, timeout};

mod dependents;
mod kinds;
#[cfg(test)]
mod tests;

pub(crate) use self::dependents::WatchedChildKinds;
use self::kinds::{NotFound, ServedKinds};
use crate::net::{Failure, percent_encode};
use crate::sources::api_server::{ApiKind, Cluster, METADATA, SecretAccess, is_name};
use crate::sources::decoding::{self, DecodeOptions, Extra, HashKey};
use crate::sources::feed::{Closed, Feed};

/// Answers lookups, one at a time.
pub(crate) struct ObjectLookups {
    cluster: Cluster,
    hash_key: HashKey,
    secrets: SecretAccess,
    kinds: ServedKinds,
    children: WatchedChildKinds,
    refusals: Refusals,
}

/// The kinds and namespaces in which the API server has refused to read.
#[derive(Default)]
struct Refusals(BTreeMap<RefusedScope, Instant>);

/// A probe that waits for a list of kinds.
struct Postponed {
    probe: Probe,
    asked: Instant,
    until: Instant,
}

/// A verb, a kind, and a namespace or the whole cluster.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct RefusedScope {
    verb: &'static str,
    group: String,
    resource: String,
    namespace: Option<String>,
}

/// Time for one answer. A slow API server must not delay the lookups of other kinds for longer.
const WITHIN: Duration = Duration::from_secs(5);
/// How long a refusal counts. Permissions change rarely, and each refused request is an entry
/// in the audit log.
const REFUSED_FOR: Duration = Duration::from_secs(600);
/// Limit on probes that wait for a list of kinds. Those beyond it fail.
const MAX_POSTPONED: usize = 1_000;
/// Shortest time between two postponed probes once the list is there: the model spaces its probes,
/// too.
const PAUSE: Duration = Duration::from_millis(100);
/// Limit on remembered refusals. Beyond it, loopwatch asks again.
const MAX_REFUSALS: usize = 10_000;

/// Answers probes until the channel closes. After an earlier task has failed, the first answer
/// shows that the source works again.
pub(crate) async fn answer_lookups(
    mut lookups: ObjectLookups,
    feed: Feed,
    probes: Arc<Mutex<mpsc::Receiver<Probe>>>,
    mut failed: bool,
) {
    let mut probes = probes.lock().await;
    let mut postponed: VecDeque<Postponed> = VecDeque::new();
    let mut pause = Instant::now();

    loop {
        let retry_at = postponed.front().map(|first| first.until.max(pause));
        let retry = async { sleep_until(retry_at.unwrap_or_else(Instant::now)).await };
        let (probe, asked) = tokio::select! {
            probe = probes.recv() => match probe {
                Some(probe) => (probe, Instant::now()),
                None => return,
            },
            () = retry, if retry_at.is_some() => match postponed.pop_front() {
                Some(Postponed { probe, asked, .. }) => {
                    pause = Instant::now() + PAUSE;
                    (probe, asked)
                }
                None => continue,
            },
        };

        let answer = match lookups.answer(&probe, asked).await {
            Ok(answer) => answer,
            Err(NotFound::TooEarly(until)) if postponed.len() < MAX_POSTPONED => {
                postponed.push_back(Postponed { probe, asked, until });
                continue;
            }
            Err(NotFound::TooEarly(_)) => Answer::Failed(Cause::Throttled),
            Err(NotFound::Failed(cause)) => Answer::Failed(cause),
        };

        if feed.send(Observation::Answered { probe, answer }).await == Err(Closed) {
            return;
        }

        if std::mem::take(&mut failed) && feed.recovered(SourceId::Reads).await == Err(Closed) {
            return;
        }
    }
}

impl ObjectLookups {
    pub(crate) fn new(
        cluster: Cluster,
        hash_key: HashKey,
        secrets: SecretAccess,
        children: WatchedChildKinds,
    ) -> Self {
        let (kinds, refusals) = (ServedKinds::new(cluster.clone()), Refusals::default());
        Self { cluster, hash_key, secrets, kinds, children, refusals }
    }

    /// Answers a probe now.
    pub(crate) async fn ask(&mut self, probe: &Probe) -> Answer {
        match self.answer(probe, Instant::now()).await {
            Ok(answer) => answer,
            Err(NotFound::Failed(cause)) => Answer::Failed(cause),
            Err(NotFound::TooEarly(_)) => Answer::Failed(Cause::Throttled),
        }
    }

    /// Answers a probe that was asked at this time.
    async fn answer(&mut self, probe: &Probe, asked: Instant) -> Result<Answer, NotFound> {
        match probe {
            Probe::Read(address) => self.read(address, asked).await,
            Probe::Dependents { owner, uid } => self.dependents(owner, uid).await,
            // Other tasks answer these.
            Probe::Count(_) | Probe::Fields { .. } | Probe::Profile { .. } => {
                Err(NotFound::Failed(Cause::Invalid))
            }
        }
    }

    async fn read(&mut self, address: &ObjectAddress, asked: Instant) -> Result<Answer, NotFound> {
        let ObjectAddress { group, kind, namespace, name } = address;
        if !is_name(name) || !(namespace.is_empty() || is_name(namespace)) {
            return Err(NotFound::Failed(Cause::Invalid));
        }

        let Some(served) = self.kinds.find(group, kind, asked).await? else {
            return Ok(Answer::KindUnknown);
        };

        // Objects of a namespaced kind need a namespace. For a cluster-scoped kind, it is ignored.
        let namespace = served.namespaced.then_some(namespace.as_str());
        if namespace == Some("") {
            return Err(NotFound::Failed(Cause::Invalid));
        }

        let scope = RefusedScope::new("get", &served, namespace);
        if (served.is_secret() && !self.secrets.may_get()) || self.refusals.contain(&scope) {
            return Err(NotFound::Failed(Cause::Forbidden));
        }

        let sent = Instant::now();
        match self.get(&served, namespace, name).await {
            Ok(object) => Ok(Answer::Found(Box::new(object))),
            Err(failure) if failure.absent_object == *name => Ok(Answer::Absent),
            // The API server may no longer serve the kind.
            Err(failure) if failure.status == Some(404) => {
                match self.kinds.find_again(group, kind, sent).await? {
                    Some(_) => Err(NotFound::Failed(Cause::NotFound)),
                    None => Ok(Answer::KindUnknown),
                }
            }
            Err(failure) => {
                if failure.cause == Cause::Forbidden {
                    self.refusals.add(scope);
                }
                Err(NotFound::Failed(failure.cause))
            }
        }
    }

    async fn get(
        &self,
        kind: &ApiKind,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<ObjectView, Failure> {
        let path = kind.collection(namespace);
        let path = format!("{path}/{}", percent_encode(name));
        let request =
            self.cluster.get_json_within::<Box<RawValue>>(&path, METADATA, MAX_OBJECT_BYTES);
        let document = timeout(WITHIN, request)
            .await
            .unwrap_or_else(|_| Err(Failure::timeout(&path, WITHIN)))?;
        let extra = Extra::of(&kind.group, &kind.resource);

        let options = DecodeOptions { key: &self.hash_key, annotations: &[], extra };
        match decoding::object(document.get().as_bytes(), options) {
            Ok(object) if object.key.name == name => Ok(object),
            _ => Err(Failure::new(
                Cause::Undecodable,
                format!("{path}: the response is another object"),
            )),
        }
    }
}

impl RefusedScope {
    fn new(verb: &'static str, kind: &ApiKind, namespace: Option<&str>) -> Self {
        let (group, resource) = (kind.group.clone(), kind.resource.clone());
        Self { verb, group, resource, namespace: namespace.map(str::to_owned) }
    }
}

impl Refusals {
    fn contain(&self, scope: &RefusedScope) -> bool {
        self.0.get(scope).is_some_and(|at| at.elapsed() < REFUSED_FOR)
    }

    fn add(&mut self, scope: RefusedScope) {
        if self.0.len() >= MAX_REFUSALS {
            self.0.retain(|_, at| at.elapsed() < REFUSED_FOR);
        }
        if self.0.len() < MAX_REFUSALS {
            self.0.insert(scope, Instant::now());
        }
    }
}
