//! Finds out who may read metrics that loopwatch reads on loopback.
//!
//! An operator may serve its metrics on loopback only, behind a proxy in its Pod that checks the
//! tokens of clients. loopwatch is in the same Pod and passes the proxy by. Such metrics are public
//! only if another host could read them, too: if the same port answers without credentials at the
//! address of the Pod. The table of the kernel shows who listens, but not whether a proxy listens at
//! that address, so only a request can tell. See ADR 27.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use loopwatch_model::observation::{Cause, MetricsView};
use loopwatch_model::time::Timestamp;
use tokio::time::Instant;

use super::content::{Content, Sniffer};
use super::fetch::{Attempt, Reach, RequestLimits};
use super::schedule::SHARE;
use crate::net::{Failure, HttpUrl, is_loopback};

/// What is known about who may read the metrics at one endpoint.
#[derive(Debug, Default)]
pub(super) struct Audience {
    answer: Option<Answer>,
}

/// The answer at the address of the Pod.
#[derive(Debug)]
struct Answer {
    /// The address that loopwatch has asked.
    pod: IpAddr,
    /// When the operator's process had started, if its metrics show that.
    started: Option<Timestamp>,
    /// Why not everybody may read the metrics; `None` if everybody may.
    why_protected: Option<String>,
    /// When to ask again.
    until: Instant,
}

/// Limits of a request. An operator on loopback only refuses it at once.
const LIMITS: RequestLimits = RequestLimits {
    connect: Duration::from_secs(1),
    head: Duration::from_secs(20),
    whole: Duration::from_secs(30),
    bytes: 16 << 20,
};

/// How long an answer holds. A process that listens elsewhere than before has usually started again,
/// which makes loopwatch ask at once.
const HOLDS: Duration = Duration::from_secs(600);

/// How long the lack of an answer holds, such as a timeout.
const UNANSWERED_HOLDS: Duration = Duration::from_secs(60);

impl Audience {
    /// Why not everybody may read the metrics that `view` shows; `None` if everybody may. `pod` is
    /// the address of loopwatch's own Pod.
    pub(super) async fn why_protected(
        &mut self,
        url: &HttpUrl,
        pod: Option<IpAddr>,
        view: &MetricsView,
    ) -> Option<String> {
        if !is_on_loopback(url) {
            return None;
        }

        let Some(pod) = pod.filter(|pod| !serves_loopback(*pod)) else {
            return Some(
                "loopwatch reads them on loopback, and does not know the address of its Pod (POD_IP)"
                    .to_owned(),
            );
        };

        let now = Instant::now();
        let holds = |answer: &Answer| {
            answer.until > now && answer.pod == pod && answer.started == view.process.started
        };
        if !self.answer.as_ref().is_some_and(holds) {
            self.answer = Some(ask(url, pod, view).await);
        }

        self.answer.as_ref().and_then(|answer| answer.why_protected.clone())
    }

    /// Forgets the answer, because another process may listen at the port next time.
    pub(super) fn forget(&mut self) {
        self.answer = None;
    }
}

/// Requests the same metrics without credentials at the address of the Pod.
async fn ask(url: &HttpUrl, pod: IpAddr, view: &MetricsView) -> Answer {
    let authority = SocketAddr::new(pod, url.port()).to_string();
    let started = view.process.started;
    let Some(there) = url.with_authority(&authority) else {
        let why_protected = Some(format!("{authority} is not an address"));
        return Answer { pod, started, why_protected, until: Instant::now() + HOLDS };
    };

    // Without a token, because only metrics without one are public.
    let mut client = Reach { own: Some(pod), ..Reach::default() }.client(there);
    let shown = client.shown();
    let Attempt { result, took, .. } = client.get(LIMITS, |_| Sniffer::default()).await;
    let has_answered = result.as_ref().err().is_none_or(is_answer);
    let why_not = match result {
        Ok(sniffer) if sniffer.content() >= wanted(view) => None,
        Ok(_) => Some("other metrics".to_owned()),
        Err(failure) => Some(describe(&failure)),
    };

    let holds = if has_answered { HOLDS } else { UNANSWERED_HOLDS };
    Answer {
        pod,
        started,
        why_protected: why_not.map(|why| {
            format!(
                "loopwatch reads them on loopback, and not without credentials at {shown} ({why})"
            )
        }),
        until: Instant::now() + holds.max(took.saturating_mul(SHARE)),
    }
}

/// The content that the same metrics have.
fn wanted(view: &MetricsView) -> Content {
    if view.controllers.is_empty() { Content::Other } else { Content::ControlLoop }
}

/// Whether a failure shows that others cannot read the metrics, and not only that they could not now.
fn is_answer(failure: &Failure) -> bool {
    failure.status.is_some() || failure.cause == Cause::Refused
}

fn describe(failure: &Failure) -> String {
    match failure.status {
        Some(status) => format!("HTTP {status}"),
        None => failure.cause.as_str().replace('_', " "),
    }
}

/// Whether a request to this URL stays in the Pod. The kernel takes the unspecified address for
/// loopback.
fn is_on_loopback(url: &HttpUrl) -> bool {
    let is_near = |ip: IpAddr| ip.to_canonical().is_loopback() || ip.is_unspecified();
    is_loopback(url.host()) || url.ip().is_some_and(is_near)
}

/// Whether an operator that listens on loopback only listens at this address, too, so that an answer
/// there would show nothing.
fn serves_loopback(ip: IpAddr) -> bool {
    let usual: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    usual.contains(&ip.to_canonical()) || ip.is_unspecified()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_to_write_loopback_counts() {
        for (url, expected) in [
            ("http://127.0.0.1:8080", true),
            ("http://127.0.0.9:8080", true),
            ("http://[::1]:8080", true),
            ("http://[::ffff:127.0.0.1]:8080", true),
            ("http://0.0.0.0:8080", true),
            ("http://[::]:8080", true),
            ("http://LOCALHOST:8080", true),
            ("http://10.0.0.7:8080", false),
            ("http://operator.ns.svc:8080", false),
        ] {
            let url = HttpUrl::parse(url, "/metrics").expect("a URL");
            assert_eq!(is_on_loopback(&url), expected, "{url}");
        }
    }
}
