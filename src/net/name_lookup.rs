//! Looks up the addresses of names, each lookup on its own thread.
//!
//! The system's resolver may take minutes, and nothing can cancel a lookup. The runtime has few
//! threads for blocking work. If hanging lookups used them, then files, logins, checkpoints and the
//! end of the process would wait for them.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;
use std::vec;

use hyper_util::client::legacy::connect::dns::Name;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::lock::lock;

/// The resolver. All clones share the running lookups: at most one per name.
#[derive(Clone)]
pub(crate) struct NameLookups(Arc<Shared>);

struct Shared {
    /// Asks the system. May take any time.
    resolve: fn(&str) -> io::Result<Vec<SocketAddr>>,
    running: Mutex<BTreeMap<String, Lookup>>,
}

/// A lookup that is running, or that ended when nothing waited for it any more.
struct Lookup {
    began: Instant,
    answer: AnswerReceiver,
}

/// The addresses, with port 0, or the problem.
type LookupAnswer = Result<Vec<SocketAddr>, String>;
type AnswerReceiver = watch::Receiver<Option<LookupAnswer>>;

/// The lookups of this process.
static OF_SYSTEM: LazyLock<NameLookups> =
    LazyLock::new(|| NameLookups::new(|host| (host, 0).to_socket_addrs().map(Iterator::collect)));

/// How long after its beginning a lookup's answer can still be used although nobody waits for it.
/// Without this, callers of a resolver that is slower than their time limits would never get an
/// answer. A late failure does not count.
const USABLE: Duration = Duration::from_secs(120);

/// The maximum number of running lookups. The names come from the configuration.
const MAX_RUNNING: usize = 64;

impl NameLookups {
    /// The lookups of this process.
    pub(crate) fn of_system() -> Self {
        OF_SYSTEM.clone()
    }

    pub(crate) fn new(resolve: fn(&str) -> io::Result<Vec<SocketAddr>>) -> Self {
        Self(Arc::new(Shared { resolve, running: Mutex::default() }))
    }

    /// Returns the addresses of a host, with port 0. Joins a running lookup of this host. Has no
    /// time limit: the caller may stop waiting at any time.
    ///
    /// # Errors
    /// If the host has no address, or the resolver fails.
    pub(crate) async fn addresses(&self, host: &str) -> io::Result<Vec<SocketAddr>> {
        let mut answer = self.join(host)?;
        let answered = answer.wait_for(Option::is_some).await.map(|answer| answer.clone());
        self.forget(host);

        match answered {
            Ok(Some(Ok(addresses))) => Ok(addresses),
            Ok(Some(Err(problem))) => Err(io::Error::other(problem)),
            Ok(None) | Err(_) => Err(io::Error::other("the lookup ended without an answer")),
        }
    }

    /// Forgets a lookup whose answer a caller has taken. Another one may be running by now.
    fn forget(&self, host: &str) {
        let mut running = self.lock();
        if running.get(host).is_some_and(|lookup| !lookup.is_running()) {
            running.remove(host);
        }
    }

    /// Joins the lookup of a host, or begins one.
    fn join(&self, host: &str) -> io::Result<AnswerReceiver> {
        let mut running = self.lock();
        running.retain(|_, lookup| lookup.is_running() || lookup.has_addresses());
        if let Some(lookup) = running.get(host) {
            return Ok(lookup.answer.clone());
        }

        if running.len() >= MAX_RUNNING {
            return Err(io::Error::other("too many lookups of names run"));
        }

        let (sender, answer) = watch::channel(None);
        let (resolve, name) = (self.0.resolve, host.to_owned());
        let look_up = move || {
            _ = sender.send_replace(Some(resolve(&name).map_err(|error| error.to_string())))
        };

        std::thread::Builder::new().name("lookup".to_owned()).spawn(look_up)?;
        running.insert(host.to_owned(), Lookup { began: Instant::now(), answer: answer.clone() });
        Ok(answer)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Lookup>> {
        lock(&self.0.running)
    }
}

/// For the connector of an HTTP client.
impl tower::Service<Name> for NameLookups {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let lookups = self.clone();
        Box::pin(async move { lookups.addresses(name.as_str()).await.map(Vec::into_iter) })
    }
}

impl Lookup {
    fn is_running(&self) -> bool {
        self.answer.borrow().is_none() && self.answer.has_changed().is_ok()
    }

    /// Whether the lookup has found addresses that are recent enough.
    fn has_addresses(&self) -> bool {
        self.answer.borrow().as_ref().is_some_and(Result::is_ok) && self.began.elapsed() < USABLE
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use tokio::time::{sleep, timeout};

    use super::*;

    const ADDRESS: ([u8; 4], u16) = ([192, 0, 2, 1], 0);
    const PATIENCE: Duration = Duration::from_secs(5);

    #[tokio::test(start_paused = true)]
    async fn a_lookup_that_hangs_is_one_thread_and_its_late_answer_counts() {
        static STARTED: AtomicUsize = AtomicUsize::new(0);

        static GATE: Mutex<Option<mpsc::Receiver<()>>> = Mutex::new(None);

        let (open, gate) = mpsc::channel();
        *GATE.lock().expect("no panic") = Some(gate);

        let lookups = NameLookups::new(|_| {
            STARTED.fetch_add(1, Ordering::Relaxed);
            let gate = GATE.lock().expect("no panic");
            let _ = gate.as_ref().map(mpsc::Receiver::recv);
            Ok(vec![ADDRESS.into()])
        });

        for _ in 0..20 {
            assert!(
                timeout(PATIENCE, lookups.addresses("alertmanager")).await.is_err(),
                "it hangs"
            );
        }

        // Both must join before the answer comes: the first to take it forgets the lookup.
        let open = async { drop(open) };
        let (one, other, ()) = tokio::join!(
            lookups.addresses("alertmanager"),
            lookups.addresses("alertmanager"),
            open
        );

        assert_eq!(
            (one.expect("an answer"), other.expect("an answer")),
            (vec![ADDRESS.into()], vec![ADDRESS.into()])
        );
        assert_eq!(STARTED.load(Ordering::Relaxed), 1, "all waited for the same lookup");
        assert!(lookups.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_nobody_waited_for_is_used_once_and_only_while_it_is_young() {
        static STARTED: AtomicUsize = AtomicUsize::new(0);

        let lookups = NameLookups::new(|_| {
            STARTED.fetch_add(1, Ordering::Relaxed);
            Ok(vec![ADDRESS.into()])
        });
        for (waited, started) in [(60, 1), (0, 2), (121, 4)] {
            drop(lookups.join("host").expect("a lookup"));
            while lookups.lock()["host"].is_running() {
                tokio::task::yield_now().await;
            }

            sleep(Duration::from_secs(waited)).await;
            assert_eq!(lookups.addresses("host").await.expect("an answer"), [ADDRESS.into()]);
            assert_eq!(STARTED.load(Ordering::Relaxed), started, "after {waited} s");
        }

        assert!(lookups.lock().is_empty());
    }

    #[tokio::test]
    async fn a_failure_that_nobody_waited_for_is_not_used() {
        static STARTED: AtomicUsize = AtomicUsize::new(0);

        let lookups = NameLookups::new(|_| match STARTED.fetch_add(1, Ordering::Relaxed) {
            0 => Err(io::Error::other("Temporary failure in name resolution")),
            _ => Ok(vec![ADDRESS.into()]),
        });

        drop(lookups.join("host").expect("a lookup"));
        while lookups.lock()["host"].is_running() {
            tokio::task::yield_now().await;
        }

        assert_eq!(lookups.addresses("host").await.expect("an answer"), [ADDRESS.into()]);
    }

    #[tokio::test]
    async fn a_failed_lookup_says_why_and_the_number_of_lookups_is_limited() {
        let failing = NameLookups::new(|_| Err(io::Error::other("Name or service not known")));
        let error = failing.addresses("host").await.expect_err("no address");

        assert_eq!(error.to_string(), "Name or service not known");

        let panicking = NameLookups::new(|_| panic!("injected"));
        assert!(panicking.addresses("host").await.is_err());
        assert!(panicking.lock().is_empty());

        let hanging = NameLookups::new(|_| {
            std::thread::park();
            Ok(Vec::new())
        });
        let begun: Vec<bool> =
            (0..=MAX_RUNNING).map(|number| hanging.join(&number.to_string()).is_ok()).collect();

        assert_eq!(begun.iter().filter(|begun| **begun).count(), MAX_RUNNING);
        assert!(hanging.join("0").is_ok(), "it runs already");
    }
}
