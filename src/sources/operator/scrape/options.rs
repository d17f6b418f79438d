//! Options for scraping the operator's metrics.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::lock::lock;
use crate::net::HttpUrl;

/// Where the operator's metrics are, and how often to read them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScrapeOptions {
    pub target: ScrapeTarget,
    /// Time between two scrapes.
    pub interval: Duration,
    /// Whether loopwatch does not run in the operator's Pod, because the user has named the
    /// operator.
    pub standalone: bool,
    /// `/proc`.
    pub proc: PathBuf,
    /// The token of the Pod's service account.
    pub token: PathBuf,
    /// The turns of those that scrape at the same time.
    pub turns: ScrapeTurns,
}

/// Limits how many instances are read at the same time: each takes up to some MiB, for as long as it likes
/// to answer. Clones share the limit.
#[derive(Clone, Debug)]
pub(crate) struct ScrapeTurns {
    at_once: usize,
    /// Those of this operator, and those of all that share the limit.
    own: Arc<Semaphore>,
    all: Arc<Mutex<Arc<Semaphore>>>,
}

/// A turn lasts as long as it exists.
pub(super) struct Turn {
    _permits: [Option<OwnedSemaphorePermit>; 2],
}

/// Where the operator's metrics are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ScrapeTarget {
    /// loopwatch searches for them.
    #[default]
    Find,
    /// loopwatch does not read them.
    Off,
    /// At these addresses.
    Urls(Vec<HttpUrl>),
}

/// A value of `--scrape`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScrapeFlag {
    /// `off`.
    Off,
    /// An address.
    Url(HttpUrl),
}

pub(crate) const MIN_INTERVAL: Duration = Duration::from_secs(1);
pub(crate) const DEFAULT_INTERVAL: Duration = Duration::from_secs(10);

/// Scrapes at the same time, unless there are several groups of them.
const AT_ONCE: usize = 8;

/// Those of one operator among several that share the limit. Its slow Pods hold up only its other ones.
const OF_OPERATOR: usize = 2;

impl ScrapeTurns {
    pub(crate) fn of(at_once: usize) -> Self {
        let turns = || Arc::new(Semaphore::new(at_once));
        Self { at_once, own: turns(), all: Arc::new(Mutex::new(turns())) }
    }

    /// The turns of one of several operators.
    pub(crate) fn of_operator(&self) -> Self {
        let (own, all) = (Arc::new(Semaphore::new(OF_OPERATOR)), self.all());
        Self { at_once: self.at_once, own, all: Arc::new(Mutex::new(all)) }
    }

    /// From the next turn on, shares the limit of others.
    pub(crate) fn join(&self, others: &Self) {
        let all = others.all();
        *lock(&self.all) = all;
    }

    /// Waits for a turn. Nobody closes the semaphores.
    pub(super) async fn take(&self) -> Turn {
        let own = Arc::clone(&self.own).acquire_owned().await.ok();
        let all = self.all().acquire_owned().await.ok();
        Turn { _permits: [own, all] }
    }

    fn all(&self) -> Arc<Semaphore> {
        Arc::clone(&lock(&self.all))
    }
}

/// Equal limits are equal options.
impl PartialEq for ScrapeTurns {
    fn eq(&self, other: &Self) -> bool {
        self.at_once == other.at_once
    }
}

impl Eq for ScrapeTurns {}

impl Default for ScrapeTurns {
    fn default() -> Self {
        Self::of(AT_ONCE)
    }
}

/// Limit on instances: that of the Pods in an `OperatorView`.
pub(super) const MAX_INSTANCES: usize = loopwatch_model::observation::MAX_PODS;

const DEFAULT_PATH: &str = "/metrics";
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

impl Default for ScrapeOptions {
    fn default() -> Self {
        let target = ScrapeTarget::default();
        Self {
            target,
            interval: DEFAULT_INTERVAL,
            standalone: false,
            proc: "/proc".into(),
            token: TOKEN.into(),
            turns: ScrapeTurns::default(),
        }
    }
}

impl ScrapeTarget {
    /// The meaning of all values of the flag. `off` overrides all others.
    pub(crate) fn of(flags: &[ScrapeFlag]) -> Self {
        let urls: Option<Vec<HttpUrl>> = flags
            .iter()
            .map(|flag| match flag {
                ScrapeFlag::Off => None,
                ScrapeFlag::Url(url) => Some(url.clone()),
            })
            .collect();
        match urls {
            None => Self::Off,
            Some(urls) if urls.is_empty() => Self::Find,
            Some(urls) => Self::Urls(urls),
        }
    }

    /// The problem with the flag if it names more addresses than loopwatch scrapes.
    pub(crate) fn problem(&self) -> Option<String> {
        match self {
            Self::Urls(urls) if urls.len() > MAX_INSTANCES => Some(format!(
                "--scrape: {} addresses; loopwatch reads only the first {MAX_INSTANCES}",
                urls.len()
            )),
            _ => None,
        }
    }

    /// The name of the instance at the first address, while its Pod is unknown.
    pub(crate) fn first_instance(&self) -> Option<String> {
        match self {
            Self::Urls(urls) => urls.first().map(HttpUrl::host_and_port),
            Self::Find | Self::Off => None,
        }
    }
}

impl FromStr for ScrapeFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self::Off);
        }

        let url = HttpUrl::parse(text, DEFAULT_PATH).map_err(|error| format!("{error}, or off"))?;
        Ok(Self::Url(without_localhost(url)))
    }
}

/// Replaces `localhost`, which a resolver could map to any address, with the loopback address.
fn without_localhost(url: HttpUrl) -> HttpUrl {
    if url.host() != "localhost" {
        return url;
    }

    let port = url.authority().split_once(':').map(|(_, port)| format!(":{port}"));
    let authority = format!("{}{}", Ipv4Addr::LOCALHOST, port.unwrap_or_default());
    url.with_authority(&authority).unwrap_or(url)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn a_url_without_a_path_gets_that_of_metrics() {
        for (text, url) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/metrics"),
            ("https://localhost:8443/", "https://127.0.0.1:8443/metrics"),
            ("http://localhost/q/metrics?name=a", "http://127.0.0.1/q/metrics?name=a"),
            ("https://operator.ns.svc:8443/custom", "https://operator.ns.svc:8443/custom"),
        ] {
            let Ok(ScrapeFlag::Url(read)) = text.parse() else { panic!("{text}") };
            assert_eq!(read.uri().to_string(), url, "{text}");
        }

        for text in ["", "on", "127.0.0.1:8080", "ftp://a", "http://user:S3CRET@a", "http://a:0"] {
            let error = text.parse::<ScrapeFlag>().expect_err(text);
            assert!(!error.contains("S3CRET"), "{error}");
        }
    }

    #[tokio::test]
    async fn an_operator_can_join_others() {
        let (crowd, others) = (ScrapeTurns::of(1), ScrapeTurns::of(1));
        let (slow, moved) = (crowd.of_operator(), crowd.of_operator());
        let _turn = slow.take().await;
        assert!(moved.take().now_or_never().is_none(), "the other one has the turn");

        moved.join(&others);
        assert!(moved.take().now_or_never().is_some());
    }

    #[test]
    fn off_wins() {
        let flag = |text: &str| text.parse::<ScrapeFlag>().expect("valid");
        let url = HttpUrl::parse("http://127.0.0.1:1/metrics", "/").expect("a URL");

        assert_eq!(ScrapeTarget::of(&[]), ScrapeTarget::Find);
        assert_eq!(ScrapeTarget::of(&[flag("http://127.0.0.1:1")]), ScrapeTarget::Urls(vec![url]));
        assert_eq!(ScrapeTarget::of(&[flag("http://127.0.0.1:1"), flag("off")]), ScrapeTarget::Off);
    }
}
