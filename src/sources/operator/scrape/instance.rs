//! Follows the metrics of one instance: finds their endpoint, scrapes it, and searches again if it
//! fails.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use loopwatch_model::observation::MetricsView;
use tokio::time::{Instant, sleep_until};
use tracing::{info, warn};

use super::audience::Audience;
use super::body::{BodySink, Flow};
use super::candidates::{self, OwnPorts, PortCandidate};
use super::content::Content;
use super::fetch::{Attempt, MetricsClient, PodToken, Reach, RequestLimits};
use super::intake::Intake;
use super::options::ScrapeOptions;
use super::report::Reporter;
use super::schedule::{SHARE, ScrapeSchedule};
use super::search::{SearchResult, search};
use super::sockets;
use crate::net::{Failure, HttpUrl};
use crate::sources::feed::Closed;
use crate::sources::operator::hints::{TargetPod, TargetPods};
use crate::system::coarse_timers;
use crate::system::own_pod::{OwnPod, address_towards_api_server, is_own_address};

/// An instance of the operator, and where its metrics are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScrapedInstance {
    /// `namespace/pod`, or the address.
    pub(super) name: String,
    pub(super) place: MetricsPlace,
}

/// Where the metrics of an instance are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MetricsPlace {
    /// Somewhere in loopwatch's own Pod.
    Own,
    /// Somewhere in another Pod.
    Pod,
    /// At this address.
    Url(HttpUrl),
}

/// Follows one instance.
pub(super) struct Instance {
    target: ScrapedInstance,
    options: Arc<ScrapeOptions>,
    own: Option<OwnPod>,
    pods: TargetPods,
    reporter: Reporter,
    endpoint: Option<Endpoint>,
    schedule: ScrapeSchedule,
    failing_since: Option<Instant>,
    searches: Searches,
    /// Whether the sockets are those of a node; unknown before the first round.
    on_node: Option<bool>,
    /// Whether the last scrape showed numbers that not everybody may read.
    protected: bool,
}

/// The endpoint in use.
struct Endpoint {
    client: MetricsClient,
    content: Content,
    reach: Reach,
    audience: Audience,
}

/// When to search.
#[derive(Default)]
struct Searches {
    /// The ports that the last searches have tried.
    tried: BTreeSet<u16>,
    /// Scheduled searches since the last success.
    count: u32,
    /// Searches because of new ports, since the last scheduled one.
    early: u32,
    next: Option<Instant>,
}

/// Passes a body on to the parser.
struct Parsing(Intake);

/// Limits of a scrape. One known operator needs 15 s to collect 810,000 series, which take 120 MiB.
const LIMITS: RequestLimits = RequestLimits {
    connect: Duration::from_secs(2),
    head: Duration::from_secs(30),
    whole: Duration::from_secs(60),
    bytes: 256 << 20,
};
/// How long an endpoint must fail before loopwatch searches for another one.
const SEARCH_AFTER: Duration = Duration::from_secs(30);
/// Limit on searches because of new ports between two scheduled ones. Some programs keep listening
/// on new ports.
const MAX_EARLY: u32 = 3;
/// Interval between searches: the first one and the longest. It doubles each time.
const SEARCH_EVERY: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(600));

impl Instance {
    pub(super) fn new(
        target: ScrapedInstance,
        options: Arc<ScrapeOptions>,
        own: Option<OwnPod>,
        pods: TargetPods,
        reporter: Reporter,
    ) -> Self {
        let schedule = ScrapeSchedule::new(options.interval);
        let (endpoint, failing_since, searches, on_node) = (None, None, Searches::default(), None);
        Self {
            target,
            options,
            own,
            pods,
            reporter,
            endpoint,
            schedule,
            failing_since,
            searches,
            on_node,
            protected: false,
        }
    }

    /// Scrapes until the receiver of observations is gone.
    pub(super) async fn run(mut self) -> Closed {
        loop {
            match self.round().await {
                Ok(wait) => sleep_until(coarse_timers::after(wait)).await,
                Err(closed) => return closed,
            }
        }
    }

    /// Searches if necessary, then scrapes once. Returns the wait until the next round.
    pub(super) async fn round(&mut self) -> Result<Duration, Closed> {
        if self.on_node.is_none() && self.own.is_some() {
            let sockets = sockets::read(&self.options.proc).await;
            self.on_node = Some(sockets.is_some_and(|sockets| sockets.of_node));
        }

        let reach = self.reach();
        self.review_endpoint(&reach);
        match &self.target.place {
            MetricsPlace::Url(url) if self.endpoint.is_none() => {
                let client = reach.client(url.clone());
                self.endpoint = Some(Endpoint::new(client, Content::ControlLoop, reach));
            }
            MetricsPlace::Url(_) => {}
            MetricsPlace::Own | MetricsPlace::Pod => self.search_if_due(reach).await?,
        }

        match self.endpoint.take() {
            Some(endpoint) => self.scrape(endpoint).await,
            None => Ok(self.options.interval),
        }
    }

    /// Forgets an endpoint at an address that its Pod no longer has, and checks again whether the
    /// endpoint may get the token.
    fn review_endpoint(&mut self, reach: &Reach) {
        let Some(endpoint) = &mut self.endpoint else { return };
        if endpoint.reach == *reach {
            return;
        }

        let url = endpoint.client.url().clone();
        let address = url.address().map(|address| address.ip());
        (endpoint.client, endpoint.reach) = (reach.client(url), reach.clone());
        if self.target.place == MetricsPlace::Pod && self.pod().is_some_and(|pod| pod.ip != address)
        {
            (self.endpoint, self.searches) = (None, Searches::default());
        }
    }

    async fn scrape(&mut self, mut endpoint: Endpoint) -> Result<Duration, Closed> {
        let name = self.target.name.clone();
        let sink = |content_type: Option<&str>| Parsing(Intake::new(name, content_type));
        let turn = self.options.turns.take().await;
        let Attempt { result, took, cost, bytes } = endpoint.client.get(LIMITS, sink).await;
        let (shown, address) = (endpoint.client.shown(), endpoint.client.url().address());
        let finish = |Parsing(intake): Parsing| {
            intake.finish(took.into()).map_err(|failure| prefixed(&shown, failure))
        };
        let result = result.and_then(finish);
        drop(turn); // the receiver of observations may be slow

        match result {
            Ok(mut view) => {
                self.failing_since = None;
                if endpoint.content == Content::ControlLoop {
                    self.searches = Searches::default();
                }

                let why_protected = self.why_protected(&mut endpoint, &view).await;
                self.endpoint = Some(endpoint);

                let wait = self.schedule.succeeded(cost);
                view.interval = wait.into();
                view.protected = why_protected.is_some();
                self.note_protection(why_protected);
                self.reporter
                    .scraped(view, address, self.target.place != MetricsPlace::Pod)
                    .await?;
                Ok(wait)
            }
            Err(failure) => {
                endpoint.audience.forget();
                self.endpoint = Some(endpoint);

                self.failing_since.get_or_insert_with(Instant::now);
                let wait = self.schedule.failed(failure.cause, cost, bytes > 0);
                self.reporter.failed(&self.target.name, failure).await?;
                Ok(wait)
            }
        }
    }

    /// Why not everybody may read the metrics of a scrape; `None` if everybody may.
    async fn why_protected(&self, endpoint: &mut Endpoint, view: &MetricsView) -> Option<String> {
        if endpoint.client.needed_token() {
            return Some("the operator requested the token".to_owned());
        }

        // Outside a Pod, loopback is that of a machine whose user named the address.
        let own = self.own.as_ref()?;
        let url = endpoint.client.url().clone();
        endpoint.audience.why_protected(&url, self.pod_address(own), view).await
    }

    /// The address of loopwatch's own Pod at which other hosts reach it.
    fn pod_address(&self, own: &OwnPod) -> Option<IpAddr> {
        let told = self.pods.borrow().iter().find(|pod| pod.own).and_then(|pod| pod.ip);
        let mut known = [told, own.ip].into_iter().flatten();
        known.find(|ip| is_own_address(*ip)).or_else(address_towards_api_server)
    }

    /// Tells the user once that others do not see the numbers of protected metrics.
    fn note_protection(&mut self, why: Option<String>) {
        let was_protected = std::mem::replace(&mut self.protected, why.is_some());
        if let Some(why) = why.filter(|_| !was_protected) {
            warn!(
                instance = %self.target.name,
                why,
                "not everybody may read the operator's metrics; unless --export-protected-metrics is set or the port \
                 authenticates its clients, /metrics of loopwatch leaves out their numbers"
            );
        }
    }

    /// Searches if there is no good endpoint, and a search may find another one.
    async fn search_if_due(&mut self, reach: Reach) -> Result<(), Closed> {
        let fails = self.failing_since.is_some_and(|since| since.elapsed() >= SEARCH_AFTER);
        let good =
            self.endpoint.as_ref().is_some_and(|endpoint| endpoint.content == Content::ControlLoop);
        if good && !fails {
            return Ok(());
        }

        let candidates = self.candidates().await;
        if !self.searches.is_due(&candidates) {
            return Ok(());
        }

        let turn = self.options.turns.take().await;
        let began = Instant::now();
        let found = search(&candidates, &reach).await;
        self.searches.took(began.elapsed());
        drop(turn);

        let working = self
            .endpoint
            .as_ref()
            .filter(|_| self.failing_since.is_none())
            .map(|endpoint| endpoint.content);
        match found {
            SearchResult::Metrics(client, content)
                if working.is_none_or(|current| content > current) =>
            {
                self.adopt(client, content, reach);
            }
            SearchResult::Refusal(client) if self.endpoint.is_none() => {
                self.adopt(client, Content::NotMetrics, reach)
            }
            SearchResult::Nothing(tried) if self.endpoint.is_none() => {
                self.reporter.missing(&self.target.name, reason(&tried)).await?;
            }
            SearchResult::Metrics(..) | SearchResult::Refusal(_) | SearchResult::Nothing(_) => {}
        }

        Ok(())
    }

    fn adopt(&mut self, client: MetricsClient, content: Content, reach: Reach) {
        info!(instance = %self.target.name, endpoint = %client.shown(), "found the operator's metrics");
        self.schedule = ScrapeSchedule::new(self.options.interval);
        self.failing_since = None;

        // The search has withheld the token, which the endpoint may request later.
        let client = reach.client(client.url().clone());
        self.endpoint = Some(Endpoint::new(client, content, reach));
    }

    async fn candidates(&self) -> Vec<PortCandidate> {
        let pod = self.pod();
        let (ip, ports) =
            (pod.as_ref().and_then(|pod| pod.ip), pod.as_ref().map_or(&[][..], |pod| &pod.ports));
        match self.target.place {
            MetricsPlace::Own => {
                let sockets = sockets::read(&self.options.proc).await;
                let (host_network, ip) = (self.host_network(), ip.filter(|ip| is_own_address(*ip)));
                candidates::of_own_pod(OwnPorts {
                    ip,
                    host_network,
                    ports,
                    sockets: sockets.as_ref(),
                })
            }
            MetricsPlace::Pod => ip.map_or_else(Vec::new, |ip| candidates::of_pod(ip, ports)),
            MetricsPlace::Url(_) => Vec::new(),
        }
    }

    /// The Pod of this instance, if known.
    fn pod(&self) -> Option<TargetPod> {
        self.pods.borrow().iter().find(|pod| pod.instance == self.target.name).cloned()
    }

    fn host_network(&self) -> bool {
        let own = self.pods.borrow().iter().find(|pod| pod.own).map(|pod| pod.host_network);
        let says_pod = own.unwrap_or_else(|| self.own.as_ref().is_some_and(|own| own.host_network));

        // A manifest need not name loopwatch's Pod.
        says_pod || self.on_node == Some(true)
    }

    /// The ports that may get the token. Only the Pod's spec can set `--scrape`.
    fn token_ports(&self, pods: &[TargetPod]) -> Vec<u16> {
        match &self.target.place {
            MetricsPlace::Url(url) => vec![url.port()],
            MetricsPlace::Pod => Vec::new(),
            MetricsPlace::Own => {
                let own = pods.iter().filter(|pod| pod.own).flat_map(|pod| &pod.ports);
                own.filter(|port| port.takes_token).map(|port| port.number).collect()
            }
        }
    }

    fn reach(&self) -> Reach {
        // On the network of a node, any program may listen on loopback.
        let in_pod = self.own.is_some() && !self.options.standalone && !self.host_network();
        let pods = self.pods.borrow();
        let own: Option<IpAddr> = pods.iter().find(|pod| pod.own).and_then(|pod| pod.ip);
        let own = own.filter(|ip| in_pod && is_own_address(*ip));
        let token = in_pod
            .then(|| PodToken { file: self.options.token.clone(), ports: self.token_ports(&pods) });

        Reach { own, pods: pods.iter().filter_map(|pod| pod.ip).collect(), token }
    }
}

impl Endpoint {
    fn new(client: MetricsClient, content: Content, reach: Reach) -> Self {
        Self { client, content, reach, audience: Audience::default() }
    }
}

impl Searches {
    /// Whether to search now: there are new candidates, or the last search was long ago.
    fn is_due(&mut self, candidates: &[PortCandidate]) -> bool {
        let now = Instant::now();
        let late = self.next.is_none_or(|next| now >= next);
        let ports = candidates.iter().map(|candidate| candidate.port);
        let new = ports.clone().any(|port| !self.tried.contains(&port));

        if !late && (!new || self.early >= MAX_EARLY) {
            return false;
        }

        self.early += 1;
        if late {
            self.early = 0;
            self.tried.clear();
            self.count += 1;
            self.took(Duration::ZERO);
        }

        self.tried.extend(ports);
        true
    }

    /// Notes how long a search took, and plans the next one. Slow endpoints may cost the operator
    /// CPU time.
    fn took(&mut self, time: Duration) {
        let (first, longest) = SEARCH_EVERY;
        let doubled = first.saturating_mul(1 << self.count.saturating_sub(1).min(16));
        self.next = Some(Instant::now() + doubled.min(longest.max(time.saturating_mul(SHARE))));
    }
}

impl BodySink for Parsing {
    fn take(&mut self, piece: &[u8]) -> Result<Flow, Failure> {
        self.0.push(piece).map(|()| Flow::More)
    }
}

fn reason(tried: &[String]) -> String {
    match tried {
        [] => "no metrics endpoint found: no port to try is known; set --scrape URL".to_owned(),
        _ => format!("no metrics endpoint found: tried {}; set --scrape URL", tried.join(", ")),
    }
}

fn prefixed(shown: &str, failure: Failure) -> Failure {
    Failure { detail: format!("{shown}: {}", failure.detail), ..failure }
}

#[cfg(test)]
mod tests {
    use tokio::sync::watch;

    use super::*;
    use crate::sources::feed::Feed;
    use crate::sources::operator::hints::{ScrapeHints, TargetPort};
    use crate::sources::testing::VirtualClock;

    /// An instance in a Pod that the API server describes like this.
    fn instance(ip: &str) -> Instance {
        let own = OwnPod { name: "op-0".to_owned(), in_cluster: true, ..OwnPod::default() };
        let pod = TargetPod {
            instance: own.instance(),
            own: true,
            ip: ip.parse().ok(),
            host_network: false,
            ports: vec![TargetPort {
                container: "a".to_owned(),
                name: "metrics".to_owned(),
                number: 8080,
                takes_token: true,
            }],
            container_ids: Vec::new(),
        };

        let target = ScrapedInstance { name: own.instance(), place: MetricsPlace::Own };
        let (feed, _) = Feed::new(1, VirtualClock::server());
        let options =
            Arc::new(ScrapeOptions { proc: "/nonexistent".into(), ..ScrapeOptions::default() });

        Instance::new(
            target,
            options,
            Some(own),
            watch::channel(vec![pod]).1,
            Reporter::new(feed, ScrapeHints::default()),
        )
    }

    #[tokio::test]
    async fn an_address_of_another_host_is_not_that_of_the_own_pod() {
        // Another account could change the status of the Pod.
        for (ip, is_own) in [("198.51.100.1", false), ("2001:db8::1", false), ("127.0.0.9", true)] {
            let instance = instance(ip);
            let ip: IpAddr = ip.parse().expect("an address");

            assert_eq!(instance.reach().own, is_own.then_some(ip), "the token would go to {ip}");

            let found = instance.candidates().await;
            assert_eq!(found[0].addresses.contains(&ip), is_own, "requests would go to {ip}");
        }
    }

    #[test]
    fn searches_become_as_seldom_as_they_are_slow() {
        let mut searches = Searches::default();
        let mut waits = Vec::new();
        for _ in 0..12 {
            assert!(searches.is_due(&[]));

            searches.took(Duration::from_secs(40));
            let next = searches.next.expect("a time");
            waits.push(next.saturating_duration_since(Instant::now()).as_secs_f64().round() as u64);
            searches.next = Some(Instant::now());
        }

        assert_eq!(waits, [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 4000, 4000, 4000]);

        let mut fast = Searches { count: 11, ..Searches::default() };
        assert!(fast.is_due(&[]));

        fast.took(Duration::from_millis(20));
        assert!(
            fast.next.is_some_and(
                |next| next.saturating_duration_since(Instant::now()) <= SEARCH_EVERY.1
            )
        );
    }
}
