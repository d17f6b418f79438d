//! Posts to one URL. Its host may stand for several Alertmanagers: those of a cluster share
//! silences, but each needs to receive each alert.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};

use super::options::AlertmanagerOptions;
use super::posting::Posting;
use crate::export::delivery::post::{Delivery, Poster};
use crate::export::delivery::problems::Problems;
use crate::net::{Backoff, Destination, HttpUrl, NameLookups};
use crate::telemetry::{AlertingMetrics, AlertmanagerLabels, SendResult};

/// The Alertmanagers behind one URL.
pub(super) struct Receiver {
    url: HttpUrl,
    token_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
    lookups: NameLookups,
    /// By address.
    instances: BTreeMap<SocketAddr, Alertmanager>,
    /// The number of addresses of the host beyond the limit.
    left_out: usize,
    metrics: AlertingMetrics,
    /// The URL for display and for the label of the metrics.
    shown: String,
    problems: Problems,
}

struct Alertmanager {
    poster: Poster,
    /// Whether it has accepted the current posting.
    done: bool,
}

/// Time for one request, including the connection and the head of the response.
const REQUEST: Duration = Duration::from_secs(10);

/// Time for all requests of one posting to one Alertmanager. The others at the same URL wait for
/// it.
const ROUND: Duration = Duration::from_secs(30);

/// Time to look up the addresses of a name.
const LOOKUP: Duration = Duration::from_secs(5);

/// How long known addresses wait for the lookup: less than the process takes to stop.
const KNOWN_WAIT: Duration = Duration::from_secs(1);

/// The maximum number of Alertmanagers behind one URL.
const MAX_INSTANCES: usize = 16;

impl Receiver {
    pub(super) fn new(
        url: &HttpUrl,
        options: &AlertmanagerOptions,
        metrics: AlertingMetrics,
        lookups: NameLookups,
    ) -> Self {
        let shown = url.to_string();
        let receiver = Self {
            url: url.clone(),
            token_file: options.token_file.clone(),
            ca_file: options.ca_file.clone(),
            lookups,
            instances: BTreeMap::new(),
            left_out: 0,
            metrics,
            shown,
            problems: Problems::default(),
        };

        SendResult::OF_REQUESTS.into_iter().for_each(|result| receiver.count(result, 0));
        receiver
    }

    /// Posts the newest posting until each instance has accepted it, then waits for the next one.
    /// When the sender is dropped, tries once more to post the last one, and ends.
    pub(super) async fn run(mut self, mut postings: watch::Receiver<Arc<Posting>>) {
        while postings.changed().await.is_ok() {
            self.instances.values_mut().for_each(|instance| instance.done = false);
            let mut backoff = Backoff::new();
            loop {
                let posting = postings.borrow_and_update().clone();
                let is_last = postings.has_changed().is_err();
                let Some(retry_after) = self.post(&posting).await else { break };

                if is_last {
                    return;
                }

                let wait = backoff.wait(retry_after);
                tokio::select! {
                    () = sleep(wait) => {}
                    // A newer posting replaces this one, and every instance needs it.
                    changed = postings.changed() => {
                        if changed.is_ok() {
                            self.instances.values_mut().for_each(|instance| instance.done = false);
                        }
                    }
                }
            }
        }
    }

    /// Posts to the instances that have not accepted the posting yet. Returns `None` if all have
    /// accepted it; otherwise, the wait that one of them requests, if any.
    async fn post(&mut self, posting: &Posting) -> Option<Option<Duration>> {
        let mut looking = pin!(self.look_up());
        let mut results = Vec::new();
        let looked_up = match timeout(KNOWN_WAIT, &mut looking).await {
            Ok(looked_up) => looked_up,
            Err(_) => {
                results = self.post_to(posting, |_| true).await;
                looking.await
            }
        };

        let mut problems = Vec::new();
        match looked_up {
            Ok(found) => self.adopt(found),
            Err(problem) => {
                self.count(SendResult::Failed, 1);
                problems.push(format!("cannot look up the host: {problem}"));
            }
        }

        let tried: Vec<SocketAddr> = results.iter().map(|(address, _)| *address).collect();
        results.extend(self.post_to(posting, |address| !tried.contains(address)).await);

        let mut retry = self.instances.is_empty().then_some(None);
        for (address, answers) in results {
            let mut problem = None;
            for answer in answers {
                match answer {
                    Delivery::Accepted(()) => self.count(SendResult::Ok, 1),
                    Delivery::Refused(reason) => {
                        self.count(SendResult::Rejected, 1);
                        problem = Some(format!("{address} refuses alerts: {reason}"));
                    }
                    Delivery::Failed { problem: reason, retry_after } => {
                        self.count(SendResult::Failed, 1);
                        problem = Some(format!("{address}: {reason}; loopwatch tries again"));
                        retry = Some(retry_after.max(retry.flatten()));
                    }
                }
            }

            problems.extend(problem);
        }

        // Joins the problems into one line: if two alternated, each posting would log both.
        match problems.is_empty() {
            true => self.report_success(),
            false => self.report(&problems.join("; ")),
        }

        retry
    }

    /// Posts to those of the given instances that have not accepted the posting yet.
    async fn post_to(
        &mut self,
        posting: &Posting,
        among: impl Fn(&SocketAddr) -> bool,
    ) -> Vec<(SocketAddr, Vec<Delivery>)> {
        let waiting = self
            .instances
            .iter_mut()
            .filter(|(address, instance)| !instance.done && among(address));

        join_all(waiting.map(|(address, instance)| instance.post(*address, posting, ROUND))).await
    }

    /// Looks up the addresses of the host, which change when Pods do.
    fn look_up(&self) -> impl Future<Output = Result<Vec<SocketAddr>, String>> + use<> {
        let (ip, host, port) = (self.url.ip(), self.url.host().to_owned(), self.url.port());
        let lookups = self.lookups.clone();

        async move {
            if let Some(ip) = ip {
                return Ok(vec![(ip, port).into()]);
            }

            let answer = timeout(LOOKUP, lookups.addresses(&host))
                .await
                .map_err(|_| format!("no answer within {} s", LOOKUP.as_secs()))?;
            let mut found = of_one_family(answer.map_err(|error| error.to_string())?);

            if found.is_empty() {
                return Err("the name has no address".to_owned());
            }

            found.iter_mut().for_each(|address| address.set_port(port));
            Ok(found)
        }
    }

    /// Adopts the addresses of the host, up to the limit.
    fn adopt(&mut self, mut found: Vec<SocketAddr>) {
        let left_out = found.len().saturating_sub(MAX_INSTANCES);
        found.truncate(MAX_INSTANCES);
        self.metrics.addresses_dropped.inc_by(left_out as u64);

        if left_out > 0 && self.left_out == 0 {
            warn!(
                alertmanager = self.shown,
                left_out,
                "the host has more than {MAX_INSTANCES} addresses; the others get no alerts"
            );
        }

        self.left_out = left_out;
        self.instances.retain(|address, _| found.contains(address));
        for address in found {
            let Self { url, token_file, ca_file, instances, .. } = self;
            instances.entry(address).or_insert_with(|| {
                let destination = Destination {
                    url: url.clone(),
                    address: Some(address),
                    token_file: token_file.clone(),
                    ca_file: ca_file.clone(),
                    within: REQUEST,
                };
                Alertmanager { poster: Poster::new(destination, true), done: false }
            });
        }
    }

    fn count(&self, result: SendResult, by: u64) {
        let labels = AlertmanagerLabels { alertmanager: self.shown.clone(), result };
        self.metrics.requests.get_or_create_owned(&labels).inc_by(by);
    }

    fn report(&mut self, problem: &str) {
        if self.problems.is_new(problem) {
            warn!(alertmanager = self.shown, problem, "cannot post alerts");
        }
    }

    fn report_success(&mut self) {
        if self.problems.solved() {
            info!(alertmanager = self.shown, "alerts are posted again");
        }
    }
}

/// Returns the IPv4 addresses, or the IPv6 addresses if there are no others. Where both exist, each
/// Alertmanager usually has one of each.
fn of_one_family(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let (four, six): (Vec<SocketAddr>, Vec<SocketAddr>) =
        addresses.into_iter().partition(SocketAddr::is_ipv4);
    let mut all = if four.is_empty() { six } else { four };
    all.sort();
    all.dedup();

    all
}

impl Alertmanager {
    /// Posts all bodies. Stops at the first that must be repeated, or when `round` is over.
    async fn post(
        &mut self,
        address: SocketAddr,
        posting: &Posting,
        round: Duration,
    ) -> (SocketAddr, Vec<Delivery>) {
        let began = Instant::now();
        let mut answers = Vec::new();
        for (posted, body) in posting.bodies.iter().enumerate() {
            if posted > 0 && began.elapsed() >= round {
                // Quotes no number that changes with each posting: the log would treat it as
                // another problem.
                let problem =
                    format!("too slow: it did not take all requests within {} s", round.as_secs());
                answers.push(Delivery::Failed { problem, retry_after: None });
                return (address, answers);
            }

            let answer = self.poster.post(body).await;
            let fails = matches!(answer, Delivery::Failed { .. });
            answers.push(answer);

            if fails {
                return (address, answers);
            }
        }

        self.done = true;
        (address, answers)
    }
}

#[cfg(test)]
mod tests;
