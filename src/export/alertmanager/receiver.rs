//! The task that posts to one URL. Its host may stand for several Alertmanagers: those of a cluster share silences, but
//! each must learn of each alert.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use http::Uri;
use http::uri::Scheme;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tokio::net::lookup_host;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};

use super::posting::Posting;
use super::{AlertmanagerOptions, AlertmanagerUrl};
use crate::export::post::{Answer, Destination, Poster};
use crate::export::problems::Problems;
use crate::sources::Backoff;
use crate::telemetry::AlertmanagerLabels;

/// The Alertmanagers behind one URL.
pub(super) struct Receiver {
    uri: Uri,
    token_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
    /// By address.
    instances: BTreeMap<SocketAddr, Instance>,
    requests: Family<AlertmanagerLabels, Counter>,
    /// The URL for people and for the label of the metrics.
    shown: String,
    problems: Problems,
}

struct Instance {
    poster: Poster,
    /// It has accepted the present posting.
    done: bool,
}

/// Time for one request, with the connection and the head of the response.
const REQUEST: Duration = Duration::from_secs(10);

/// Time for all requests of one posting to one Alertmanager. The others behind the same URL wait for it.
const ROUND: Duration = Duration::from_secs(30);

/// Time to look up the addresses of a name.
const LOOKUP: Duration = Duration::from_secs(5);

/// The maximum number of Alertmanagers behind one URL.
const MAX_INSTANCES: usize = 16;

const OK: &str = "ok";
const REJECTED: &str = "rejected";
const FAILED: &str = "failed";

// === impl Receiver ===

impl Receiver {
    pub(super) fn new(
        url: &AlertmanagerUrl,
        options: &AlertmanagerOptions,
        requests: Family<AlertmanagerLabels, Counter>,
    ) -> Self {
        let shown = url.to_string();
        let receiver = Self {
            uri: url.uri().clone(),
            token_file: options.token_file.clone(),
            ca_file: options.ca_file.clone(),
            instances: BTreeMap::new(),
            requests,
            shown,
            problems: Problems::default(),
        };
        [OK, REJECTED, FAILED].into_iter().for_each(|result| receiver.count(result, 0));
        receiver
    }

    /// Posts the newest posting until each instance has accepted it, and waits for the next one. Ends with the sender of the
    /// postings, after one attempt to post the last one.
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
                    // A newer posting replaces this one, and every instance needs that one.
                    changed = postings.changed() => {
                        if changed.is_ok() {
                            self.instances.values_mut().for_each(|instance| instance.done = false);
                        }
                    }
                }
            }
        }
    }

    /// Posts to the instances that have not accepted the posting yet. Returns `None` if all have, or else the wait that one
    /// of them asks for.
    async fn post(&mut self, posting: &Posting) -> Option<Option<Duration>> {
        let looked_up = self.look_up().await;
        if let Err(problem) = &looked_up {
            self.count(FAILED, 1);
            self.report(&format!("cannot look up the host: {problem}"));
            if self.instances.is_empty() {
                return Some(None);
            }
        }
        let waiting = self.instances.iter_mut().filter(|(_, instance)| !instance.done);
        let results = join_all(waiting.map(|(address, instance)| instance.post(*address, posting, ROUND))).await;
        let (mut problem, mut retry) = (None, None);
        for (address, answers) in results {
            for answer in answers {
                match answer {
                    Answer::Accepted => self.count(OK, 1),
                    Answer::Refused(reason) => {
                        self.count(REJECTED, 1);
                        problem = Some(format!("{address} refuses alerts: {reason}"));
                    }
                    Answer::Failed { problem: reason, retry_after } => {
                        self.count(FAILED, 1);
                        problem = Some(format!("{address}: {reason}; loopwatch tries again"));
                        retry = Some(retry_after.max(retry.flatten()));
                    }
                }
            }
        }
        match problem {
            Some(problem) => self.report(&problem),
            None if looked_up.is_ok() => self.report_success(),
            None => {}
        }
        retry
    }

    /// Looks up the addresses of the host, which change when Pods do.
    async fn look_up(&mut self) -> Result<(), String> {
        let host = self.uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let default = if self.uri.scheme() == Some(&Scheme::HTTPS) { 443 } else { 80 };
        let port = self.uri.port_u16().unwrap_or(default);
        let found: Vec<SocketAddr> = match host.parse::<IpAddr>() {
            Ok(address) => vec![(address, port).into()],
            Err(_) => match timeout(LOOKUP, lookup_host((host.as_str(), port))).await {
                Ok(Ok(addresses)) => of_one_family(addresses),
                Ok(Err(error)) => return Err(error.to_string()),
                Err(_) => return Err(format!("no answer within {} s", LOOKUP.as_secs())),
            },
        };
        if found.is_empty() {
            return Err("the name has no address".to_owned());
        }
        self.instances.retain(|address, _| found.contains(address));
        for address in found {
            let Self { uri, token_file, ca_file, instances, .. } = self;
            instances.entry(address).or_insert_with(|| {
                let destination = Destination {
                    uri: uri.clone(),
                    address: Some(address),
                    token_file: token_file.clone(),
                    ca_file: ca_file.clone(),
                };
                Instance { poster: Poster::new(destination, REQUEST), done: false }
            });
        }
        Ok(())
    }

    fn count(&self, result: &'static str, by: u64) {
        let labels = AlertmanagerLabels { alertmanager: self.shown.clone(), result };
        self.requests.get_or_create_owned(&labels).inc_by(by);
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

/// Returns the addresses of IPv4, or of IPv6 if there are no others: with both, each Alertmanager has one of each.
fn of_one_family(addresses: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let (four, six): (Vec<SocketAddr>, Vec<SocketAddr>) = addresses.partition(SocketAddr::is_ipv4);
    let mut all = if four.is_empty() { six } else { four };
    all.sort();
    all.dedup();
    all.truncate(MAX_INSTANCES);
    all
}

// === impl Instance ===

impl Instance {
    /// Posts all bodies, and stops at the first that should be repeated, or when `round` is over.
    async fn post(&mut self, address: SocketAddr, posting: &Posting, round: Duration) -> (SocketAddr, Vec<Answer>) {
        let began = Instant::now();
        let mut answers = Vec::new();
        for (posted, body) in posting.bodies.iter().enumerate() {
            if posted > 0 && began.elapsed() >= round {
                let problem = format!(
                    "too slow: it took {posted} of {} requests within {} s",
                    posting.bodies.len(),
                    round.as_secs()
                );
                answers.push(Answer::Failed { problem, retry_after: None });
                return (address, answers);
            }
            let answer = self.poster.post(body).await;
            let fails = matches!(answer, Answer::Failed { .. });
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
mod tests {
    use super::*;
    use crate::export::alertmanager::Links;
    use crate::export::notify::receiver::Receiver as Script;
    use crate::telemetry::AlertingMetrics;

    #[tokio::test]
    async fn a_slow_instance_does_not_hold_up_the_others_for_long() {
        let script = Script::start([]).await;
        let address: SocketAddr = script.url.trim_start_matches("http://").parse().expect("an address");
        let uri: Uri = script.url.parse().expect("a URL");
        let destination = Destination { uri, address: Some(address), token_file: None, ca_file: None };
        let mut instance = Instance { poster: Poster::new(destination, REQUEST), done: false };
        let posting = Posting { bodies: vec![b"[]".to_vec(), b"[]".to_vec()] };
        let (_, answers) = instance.post(address, &posting, Duration::ZERO).await;
        assert!(matches!(&answers[..], [Answer::Accepted, Answer::Failed { .. }]), "{answers:?}");
        assert!(!instance.done);
        let (_, answers) = instance.post(address, &posting, ROUND).await;
        assert!(matches!(&answers[..], [Answer::Accepted, Answer::Accepted]) && instance.done, "{answers:?}");
    }

    /// Otherwise each posting would make two lines in the log.
    #[tokio::test]
    async fn a_lookup_that_keeps_failing_is_one_problem_although_the_known_addresses_accept() {
        let script = Script::start([]).await;
        let url: AlertmanagerUrl = "http://alertmanager.invalid:9093".parse().expect("a URL");
        let options = AlertmanagerOptions {
            urls: Vec::new(),
            token_file: None,
            ca_file: None,
            labels: Vec::new(),
            links: Links::default(),
        };
        let mut receiver = Receiver::new(&url, &options, AlertingMetrics::default().requests);
        let address: SocketAddr = script.url.trim_start_matches("http://").parse().expect("an address");
        let destination =
            Destination { uri: url.uri().clone(), address: Some(address), token_file: None, ca_file: None };
        receiver.instances.insert(address, Instance { poster: Poster::new(destination, REQUEST), done: false });
        let posting = Posting { bodies: vec![b"[]".to_vec()] };
        assert_eq!(receiver.post(&posting).await, None, "it is accepted");
        assert_eq!(script.requests.all().len(), 1);
        assert!(receiver.problems.solved(), "the problem lasts");
    }
}
