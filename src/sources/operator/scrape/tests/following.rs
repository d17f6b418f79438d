use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use loopwatch_model::observation::{MetricsView, Observation, ProcessView};
use loopwatch_model::time::Timestamp;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{advance, pause, resume, timeout};

use super::server::{METRICS, Reply, Server};
use crate::sources::feed::{Feed, Observations};
use crate::sources::operator::hints::{ScrapeHints, TargetPod, TargetPort};
use crate::sources::operator::scrape::Scraper;
use crate::sources::operator::scrape::options::{ScrapeFlag, ScrapeOptions, ScrapeTarget};
use crate::sources::testing::VirtualClock;
use crate::system::own_pod::OwnPod;

/// The address of loopwatch's own Pod in these tests. A server on 127.0.0.1 does not listen there, and
/// one on all addresses does.
pub(super) const POD: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// A running scraper.
pub(super) struct Run {
    observations: Observations,
    pub(super) pods: watch::Sender<Vec<TargetPod>>,
    task: JoinHandle<()>,
    proc: tempfile::TempDir,
}

impl Run {
    /// Starts it with these flags in a Pod, or with `--operator` outside.
    pub(super) fn start(
        scrape: &[&str],
        standalone: bool,
        pods: Vec<TargetPod>,
        servers: &[&Server],
    ) -> Self {
        let (scraper, observations) = Self::scraper(scrape, standalone);
        Self::of(scraper, observations, pods, servers)
    }

    /// Starts it with these flags in a Pod that has this address.
    pub(super) fn start_at(ip: Option<IpAddr>, scrape: &[&str], pods: Vec<TargetPod>) -> Self {
        let (mut scraper, observations) = Self::scraper(scrape, false);
        if let Some(own) = &mut scraper.own {
            own.ip = ip;
        }

        Self::of(scraper, observations, pods, &[])
    }

    fn of(
        mut scraper: Scraper,
        observations: Observations,
        pods: Vec<TargetPod>,
        servers: &[&Server],
    ) -> Self {
        let (sender, receiver) = watch::channel(pods);
        let proc = tempfile::tempdir().expect("a folder");
        std::fs::write(proc.path().join("token"), "S3CRET").expect("written");

        scraper.pods = receiver;

        let (token, options) = (proc.path().join("token"), (*scraper.options).clone());
        scraper.options =
            Arc::new(ScrapeOptions { proc: proc.path().to_owned(), token, ..options });

        let mut run = Self { observations, pods: sender, proc, task: tokio::spawn(async {}) };
        run.listen(servers);
        run.task = tokio::spawn(scraper.run());
        run
    }

    /// A scraper with these flags.
    fn scraper(scrape: &[&str], standalone: bool) -> (Scraper, Observations) {
        let (feed, observations) = Feed::new(100, VirtualClock::server());
        let flags: Vec<ScrapeFlag> =
            scrape.iter().map(|flag| flag.parse().expect("valid")).collect();
        let options = ScrapeOptions {
            target: ScrapeTarget::of(&flags),
            interval: Duration::from_millis(100),
            standalone,
            proc: PathBuf::from("/nonexistent"),
            token: PathBuf::from("/nonexistent"),
            ..ScrapeOptions::default()
        };

        let own = (!standalone).then(|| OwnPod {
            namespace: "ns".to_owned(),
            name: "operator-0".to_owned(),
            in_cluster: true,
            ip: Some(POD.into()),
            ..OwnPod::default()
        });

        (
            Scraper {
                options: Arc::new(options),
                own,
                pods: watch::channel(Vec::new()).1,
                feed,
                hints: ScrapeHints::default(),
            },
            observations,
        )
    }

    /// Writes the listening sockets of these servers.
    fn listen(&self, servers: &[&Server]) {
        self.listen_at(servers.iter().map(|server| server.address.port()));
    }

    /// Writes listening sockets.
    fn listen_at(&self, ports: impl Iterator<Item = u16>) {
        let line = |port| format!("0: 0100007F:{port:04X} 00000000:0000 0A 0:0 0:0 0 0 0 1 1\n");
        std::fs::create_dir_all(self.proc.path().join("net")).expect("our own folder");

        let text: String = ports.map(line).collect();
        std::fs::write(self.proc.path().join("net/tcp"), text).expect("written");
    }

    /// The next observation in words. On a busy machine, an answer may take a second, so that
    /// loopwatch waits a hundred seconds until the next scrape.
    pub(super) async fn next(&mut self) -> String {
        let mut buffer = Vec::new();
        let taken =
            timeout(Duration::from_secs(150), self.observations.recv_many(&mut buffer, 1)).await;

        assert_eq!(taken, Ok(1), "no observation");

        say(&buffer[0].1)
    }

    /// Waits for an observation.
    pub(super) async fn wait_for(&mut self, expected: &str) {
        for _ in 0..100 {
            if self.next().await == expected {
                return;
            }
        }

        panic!("no {expected:?}");
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn say(observation: &Observation) -> String {
    match observation {
        Observation::MetricsScraped(view) => {
            assert!(view.interval.0 >= 100 && view.bytes > 0, "{view:?}");

            let protected = if view.protected { ", protected" } else { "" };
            format!("scraped {}{protected}", view.instance)
        }
        Observation::ScrapeFailed { instance, cause, .. } => format!("{instance}: {cause}"),
        Observation::SourceRecovered { source } => format!("{source} works"),
        Observation::SourceFailed { source, cause, .. } => format!("{source} fails: {cause}"),
        Observation::SourceRestricted { source, reason } => {
            format!("{source} is restricted: {reason}")
        }
        Observation::SourceOff { source, reason } => format!("{source} is off: {reason}"),
        other => format!("{other:?}"),
    }
}

pub(super) fn pod(name: &str, server: &Server) -> TargetPod {
    let port = TargetPort {
        container: "manager".to_owned(),
        name: "metrics".to_owned(),
        number: server.address.port(),
        takes_token: true,
    };

    TargetPod {
        instance: name.to_owned(),
        own: false,
        ip: Some(server.address.ip()),
        host_network: false,
        ports: vec![port],
        container_ids: Vec::new(),
    }
}

#[cfg(target_endian = "little")]
#[tokio::test]
async fn a_sidecar_finds_the_operator_and_finds_it_again() {
    let operator = Server::everywhere(Reply::text(METRICS));
    let mut run = Run::start(&[], false, Vec::new(), &[]);
    let off =
        "metrics is off: no metrics endpoint found: no port to try is known; set --scrape URL";

    assert_eq!(run.next().await, off);

    run.listen(&[&operator]);
    assert_eq!(run.next().await, "scraped ns/operator-0");
    assert_eq!(run.next().await, "metrics works");
    assert_eq!(run.next().await, "scraped ns/operator-0");

    operator.answer(Reply::status(500));
    run.wait_for("ns/operator-0: server_error").await;

    assert_eq!(run.next().await, "metrics fails: server_error");

    operator.answer(Reply::text(METRICS));
    run.wait_for("metrics works").await;

    // The operator restarts on another port.
    operator.answer(Reply::Cut);
    operator.stop();
    run.wait_for("ns/operator-0: refused").await;

    assert_eq!(run.next().await, "metrics fails: refused");

    let again = Server::everywhere(Reply::text(METRICS));
    run.listen(&[&again]);
    run.wait_for("metrics fails: refused").await;

    assert!(again.requests().is_empty(), "only after some time");

    pause();
    advance(Duration::from_secs(31)).await;
    resume();
    run.wait_for("metrics works").await;

    assert!(!again.requests().is_empty());
}

#[tokio::test]
async fn each_pod_of_a_named_operator_is_an_instance() {
    let (one, two) = (Server::plain(Reply::text(METRICS)), Server::plain(Reply::status(500)));
    let mut run = Run::start(&[], true, vec![pod("ns/a", &one)], &[]);
    run.wait_for("scraped ns/a").await;
    run.wait_for("metrics works").await;
    two.answer(Reply::text(METRICS));
    run.pods.send_replace(vec![pod("ns/a", &one), pod("ns/b", &two)]);
    run.wait_for("scraped ns/b").await;
    two.answer(Reply::status(500));

    run.wait_for("ns/b: server_error").await;
    loop {
        let next = run.next().await;
        if next == "scraped ns/a" {
            break;
        }

        assert_eq!(
            next, "ns/b: server_error",
            "the source works as long as one instance can be scraped"
        );
    }

    run.pods.send_replace(vec![pod("ns/b", &two)]);
    run.wait_for("metrics fails: server_error").await;
    run.pods.send_replace(Vec::new());
    run.wait_for(
        "metrics is off: no Pod of the operator with an address is known; set --scrape URL",
    )
    .await;
}

#[tokio::test]
async fn named_addresses_win() {
    let (operator, other) =
        (Server::everywhere(Reply::text(METRICS)), Server::plain(Reply::text(METRICS)));
    let mut run = Run::start(&[&operator.url()], false, Vec::new(), &[&other]);

    assert_eq!(run.next().await, "scraped ns/operator-0", "loopback is that of the own Pod");
    assert!(other.requests().is_empty());

    let mut run = Run::start(&[&operator.url(), &other.url()], true, Vec::new(), &[]);
    run.wait_for(&format!("scraped {}", operator.address)).await;
    run.wait_for(&format!("scraped {}", other.address)).await;

    let mut run = Run::start(&["off"], false, Vec::new(), &[&other]);
    assert_eq!(run.next().await, "metrics is off: --scrape is off");
}

#[tokio::test]
async fn a_named_address_that_is_down_is_evidence_and_no_search() {
    let operator = Server::plain(Reply::Hang);
    operator.stop();

    let mut run = Run::start(&[&operator.url()], false, Vec::new(), &[]);
    assert_eq!(run.next().await, "ns/operator-0: refused");
    assert_eq!(run.next().await, "metrics fails: refused");
}

#[tokio::test]
async fn a_check_scrapes_named_addresses_once() {
    let (operator, down) = (Server::plain(Reply::text(METRICS)), Server::plain(Reply::Hang));
    down.stop();
    for (flags, expected) in [
        (
            vec![operator.url(), down.url()],
            vec![
                format!("scraped {}", operator.address),
                "metrics works".to_owned(),
                format!("{}: refused", down.address),
            ],
        ),
        (vec![], vec![]),
    ] {
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let (scraper, mut observations) = Run::scraper(&flags, true);
        scraper.once().await.expect("the receiver exists");

        let seen: Vec<String> =
            std::iter::from_fn(|| observations.try_recv()).map(|(_, seen)| say(&seen)).collect();

        assert_eq!(seen, expected);
    }

    assert_eq!(operator.requests().len(), 1);
}

#[cfg(target_endian = "little")]
#[tokio::test]
async fn the_token_stays_in_the_network_of_the_pod() {
    let operator = Server::tls(Reply::Token("s3cret"));
    let mut run = Run::start(&[&operator.url()], false, Vec::new(), &[]);

    assert_eq!(run.next().await, "scraped ns/operator-0, protected");

    let asked =
        |server: &Server| server.requests().iter().any(|head| head.contains("authorization"));

    assert!(asked(&operator));

    // Nothing says that the Pod uses the network of its node, except the ports of the kubelet.
    let other = Server::tls(Reply::Token("s3cret"));
    let mut run = Run::start(&[], false, Vec::new(), &[&other]);
    run.task.abort();

    let (mut scraper, observations) = Run::scraper(&[&other.url()], false);
    let (token, options) = (run.proc.path().join("token"), (*scraper.options).clone());
    scraper.options =
        Arc::new(ScrapeOptions { proc: run.proc.path().to_owned(), token, ..options });
    run.listen_at([10_248, 10_250, other.address.port()].into_iter());
    (run.observations, run.task) = (observations, tokio::spawn(scraper.run()));

    assert_eq!(run.next().await, "ns/operator-0: unauthorized");
    assert!(!asked(&other), "any program of the node may listen there");
}

#[test]
fn two_addresses_of_one_operator_do_not_move_its_process() {
    let (hints, view) = (ScrapeHints::default(), |instance: &str| MetricsView {
        instance: instance.to_owned(),
        process: ProcessView { started: Some(Timestamp(5_000)), ..ProcessView::default() },
        ..MetricsView::default()
    });
    let mut clues = hints.clues.subscribe();
    for instance in ["ns/operator-0", "127.0.0.1:9090", "ns/operator-0", "127.0.0.1:9090"] {
        hints.scraped(&view(instance), None, true);
    }

    assert_eq!(clues.borrow_and_update().instance, "ns/operator-0");

    hints.gone("127.0.0.1:9090");
    assert_eq!(clues.borrow_and_update().instance, "ns/operator-0");

    hints.gone("ns/operator-0");
    hints.scraped(&view("127.0.0.1:9090"), None, true);

    assert_eq!(clues.borrow_and_update().instance, "127.0.0.1:9090", "the only one that is left");
}

#[cfg(target_endian = "little")]
#[tokio::test]
async fn new_ports_do_not_make_every_round_a_search() {
    let other = Server::plain(Reply::status(404));
    let mut run = Run::start(&[], false, Vec::new(), &[]);
    run.next().await;

    for round in 0..20 {
        // A program that listens on another port every second, next to one that loopwatch knows.
        run.listen_at([other.address.port(), 1 + round].into_iter());
        tokio::time::sleep(Duration::from_millis(150)).await;
    }

    let searches = other.requests().iter().filter(|head| head.starts_with("get /metrics ")).count();
    assert!((1..=5).contains(&searches), "{searches}");
}

#[cfg(target_endian = "little")]
#[tokio::test]
async fn an_endpoint_loses_the_token_when_the_pod_turns_out_to_use_the_network_of_its_node() {
    let operator = Server::tls(Reply::Token("s3cret"));
    let own = TargetPod { own: true, ..pod("ns/operator-0", &operator) };
    let mut run = Run::start(&[], false, vec![own.clone()], &[&operator]);
    run.wait_for("metrics works").await;

    run.pods.send_replace(vec![TargetPod { host_network: true, ..own }]);
    run.wait_for("ns/operator-0: unauthorized").await;
}

/// Another container of the Pod answers 401 at a port that nobody has declared.
#[cfg(target_endian = "little")]
#[tokio::test]
async fn only_a_port_that_the_spec_names_gets_the_token() {
    let asked =
        |server: &Server| server.requests().iter().any(|head| head.contains("authorization"));
    let thief = Server::tls(Reply::Token("s3cret"));
    let mut run = Run::start(&[], false, Vec::new(), &[&thief]);
    run.wait_for("ns/operator-0: unauthorized").await;
    assert!(!asked(&thief), "the spec of the Pod is unknown");

    let (thief, operator) =
        (Server::tls(Reply::Token("s3cret")), Server::tls(Reply::Token("s3cret")));
    let own = TargetPod { own: true, ..pod("ns/operator-0", &operator) };
    let mut run = Run::start(&[], false, vec![own.clone()], &[&thief, &operator]);
    run.wait_for("metrics works").await;
    assert!(asked(&operator) && !asked(&thief));

    // A port of another container.
    let mut other = own;
    other.ports[0].takes_token = false;
    let operator = Server::tls(Reply::Token("s3cret"));
    other.ports[0].number = operator.address.port();
    let mut run = Run::start(&[], false, vec![other], &[&operator]);
    run.wait_for("ns/operator-0: unauthorized").await;
    assert!(!asked(&operator));
}

#[tokio::test]
async fn the_address_that_a_pod_had_before_is_not_scraped() {
    let before = Server::plain(Reply::text(METRICS));
    let mut run = Run::start(&[], true, vec![pod("ns/a", &before)], &[]);
    run.wait_for("scraped ns/a").await;

    let moved = TargetPod { ip: "127.0.0.2".parse().ok(), ..pod("ns/a", &before) };
    run.pods.send_replace(vec![moved]);
    tokio::time::sleep(Duration::from_millis(250)).await;

    let asked = before.requests().len();
    tokio::time::sleep(Duration::from_millis(500)).await;

    assert_eq!(before.requests().len(), asked, "another Pod may have that address now");
}

#[tokio::test]
async fn the_source_says_which_lines_it_cannot_read_until_it_can() {
    let broken = format!("{METRICS}process_open_fds many\n");
    let (one, two) = (Server::plain(Reply::text(METRICS)), Server::plain(Reply::text(&broken)));
    let mut run = Run::start(&[], true, vec![pod("ns/a", &one), pod("ns/b", &two)], &[]);
    let restricted = "metrics is restricted: ns/b: loopwatch skips a part of the metrics: the value is not a number";

    run.wait_for(restricted).await;
    two.answer(Reply::text(&format!("{METRICS}{broken}{METRICS}")));
    run.wait_for("metrics is restricted: ns/b: loopwatch skips a part of the metrics: the series has occurred before")
        .await;
    two.answer(Reply::text(METRICS));
    run.wait_for("metrics works").await;
    two.answer(Reply::text(&broken));
    run.wait_for(restricted).await;

    two.answer(Reply::status(500));
    run.wait_for("ns/b: server_error").await;

    assert_eq!(run.next().await, "metrics works", "all that can be scraped is readable");
}
