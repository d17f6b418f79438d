//! Finds the operator's own metrics without configuration, and scrapes them regularly.
//!
//! ```text
//!  Pod's spec, /proc/net/tcp ─▶ candidates ─▶ search ─▶ endpoint ─▶ fetch ─▶ intake ─▶ MetricsScraped
//!                                               ▲          │ fails
//!                                               └──────────┘
//! ```
//!
//! A sidecar scrapes the operator in its own Pod. With `--operator`, loopwatch scrapes each Pod of
//! that operator. `docs/operator.md` describes the rules for users.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

mod audience;
mod body;
mod candidates;
mod content;
mod fetch;
mod instance;
pub mod intake;
mod normalize;
mod options;
mod report;
mod schedule;
mod search;
mod sockets;
mod text;
#[cfg(test)]
mod tests;

use self::instance::{Instance, MetricsPlace, ScrapedInstance};
use self::options::MAX_INSTANCES;
pub(crate) use self::options::{
    DEFAULT_INTERVAL, MIN_INTERVAL, ScrapeFlag, ScrapeOptions, ScrapeTarget, ScrapeTurns,
};
use self::report::Reporter;
use super::hints::{ScrapeHints, TargetPod, TargetPods};
use crate::net::HttpUrl;
use crate::sources::feed::{Closed, Feed};
use crate::system::own_pod::OwnPod;

/// Scrapes all instances of the operator.
pub(crate) struct Scraper {
    options: Arc<ScrapeOptions>,
    /// The Pod of this process; `None` outside a cluster.
    own: Option<OwnPod>,
    pods: TargetPods,
    feed: Feed,
    hints: ScrapeHints,
}

/// A running instance.
struct Followed {
    target: ScrapedInstance,
    stop: CancellationToken,
}

/// Time to wait for the Pods of a named operator before the source counts as off.
const PODS_WITHIN: Duration = Duration::from_secs(15);
/// Time to wait for the spec of loopwatch's own Pod, which the account may not be allowed to read.
const OWN_POD_WITHIN: Duration = Duration::from_secs(3);

const OFF: &str = "--scrape is off";
const NOT_BESIDE: &str =
    "loopwatch does not run in the operator's Pod, and does not know its address; set --scrape URL";
const NO_PODS: &str = "no Pod of the operator with an address is known; set --scrape URL";

impl Scraper {
    /// `own` is the Pod of this process; `None` outside a cluster.
    pub(crate) fn new(
        options: ScrapeOptions,
        own: Option<OwnPod>,
        pods: TargetPods,
        feed: Feed,
        hints: ScrapeHints,
    ) -> Self {
        Self { options: Arc::new(options), own, pods, feed, hints }
    }

    /// Scrapes until the receiver of observations is gone.
    pub(crate) async fn run(mut self) {
        let reporter = Reporter::new(self.feed.clone(), self.hints.clone());
        let _ = self.follow_all(reporter).await;
    }

    /// Scrapes the addresses that the user has named, once.
    pub(crate) async fn once(mut self) -> Result<(), Closed> {
        let reporter = Reporter::new(self.feed.clone(), self.hints.clone());
        if matches!(self.options.target, ScrapeTarget::Urls(_)) {
            for target in self.targets() {
                self.instance(target, &reporter).round().await?;
            }
        }

        Ok(())
    }

    async fn follow_all(&mut self, reporter: Reporter) -> Result<(), Closed> {
        let (mut tasks, mut followed) = (JoinSet::new(), BTreeMap::<String, Followed>::new());
        let searches = self.options.target == ScrapeTarget::Find
            && (self.options.standalone || self.own.is_some());
        if searches && self.pods.borrow().is_empty() {
            let within = if self.options.standalone { PODS_WITHIN } else { OWN_POD_WITHIN };
            let known = self.pods.wait_for(|pods| !pods.is_empty());
            let _ = tokio::time::timeout(within, known).await.map(drop);
        }

        loop {
            let targets = self.targets();
            followed.retain(|name, one| {
                let keep = targets.contains(&one.target);
                if !keep {
                    one.stop.cancel();
                    reporter.gone(name);
                }

                keep
            });

            for target in &targets {
                if followed.contains_key(&target.name) {
                    continue;
                }

                let (stop, instance) =
                    (CancellationToken::new(), self.instance(target.clone(), &reporter));
                followed.insert(
                    target.name.clone(),
                    Followed { target: target.clone(), stop: stop.clone() },
                );
                tasks.spawn(async move { stop.run_until_cancelled(instance.run()).await });
            }

            if targets.is_empty() {
                reporter.off(self.why_off()).await?;
            }

            self.wait(&mut tasks).await?;
        }
    }

    /// Waits for a change of the Pods.
    async fn wait(&mut self, tasks: &mut JoinSet<Option<Closed>>) -> Result<(), Closed> {
        loop {
            tokio::select! {
                changed = self.pods.changed() => match changed {
                    Ok(()) => return Ok(()),
                    Err(_) => std::future::pending().await, // the sources are ending
                },
                Some(ended) = tasks.join_next() => match ended {
                    Ok(Some(closed)) => return Err(closed),
                    Ok(None) => {} // a stopped instance
                    Err(error) => resume(error),
                },
                () = self.feed.closed() => return Err(Closed),
            }
        }
    }

    fn instance(&self, target: ScrapedInstance, reporter: &Reporter) -> Instance {
        Instance::new(
            target,
            self.options.clone(),
            self.own.clone(),
            self.pods.clone(),
            reporter.clone(),
        )
    }

    fn targets(&mut self) -> Vec<ScrapedInstance> {
        let pods = self.pods.borrow_and_update();
        let own = pods.iter().find(|pod| pod.own).map(|pod| pod.instance.clone());
        let own = own.or(self.own.as_ref().map(OwnPod::instance));
        let mut targets: Vec<ScrapedInstance> = match &self.options.target {
            ScrapeTarget::Off => Vec::new(),
            ScrapeTarget::Urls(urls) => {
                urls.iter().map(|url| of_url(url, own.as_ref(), &pods)).collect()
            }
            ScrapeTarget::Find if self.options.standalone => {
                let pods = pods.iter().filter(|pod| pod.ip.is_some());
                pods.map(|pod| ScrapedInstance {
                    name: pod.instance.clone(),
                    place: MetricsPlace::Pod,
                })
                .collect()
            }
            ScrapeTarget::Find => own
                .filter(|_| self.own.is_some())
                .map(|name| ScrapedInstance { name, place: MetricsPlace::Own })
                .into_iter()
                .collect(),
        };

        for at in 1..targets.len() {
            // Two addresses of one Pod are two instances.
            let (before, rest) = targets.split_at_mut(at);
            if let MetricsPlace::Url(url) = &rest[0].place
                && before.iter().any(|target| target.name == rest[0].name)
            {
                rest[0].name = url.host_and_port();
            }
        }

        targets.truncate(MAX_INSTANCES);
        targets
    }

    fn why_off(&self) -> &'static str {
        match self.options.target {
            ScrapeTarget::Off => OFF,
            _ if self.options.standalone => NO_PODS,
            _ => NOT_BESIDE,
        }
    }
}

fn of_url(url: &HttpUrl, own: Option<&String>, pods: &[TargetPod]) -> ScrapedInstance {
    let ip = url.ip();
    let pod = pods.iter().find(|pod| pod.ip.is_some() && pod.ip == ip).map(|pod| &pod.instance);
    let own = own.filter(|_| ip.is_some_and(|ip| ip.is_loopback()));
    let name = pod.or(own).cloned().unwrap_or_else(|| url.host_and_port());

    ScrapedInstance { name, place: MetricsPlace::Url(url.clone()) }
}

/// Passes a panic on to the supervisor.
fn resume(error: JoinError) {
    if let Ok(panic) = error.try_into_panic() {
        std::panic::resume_unwind(panic);
    }
}
