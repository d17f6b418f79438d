//! Sends one request to a receiver: the webhook of `--notify`, or an Alertmanager.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, header};

use crate::net::{Destination, HttpUrl, Transport, retry_after};
use crate::telemetry::VERSION;

/// Sends requests to a receiver.
pub(super) struct Poster {
    url: HttpUrl,
    transport: Transport,
    /// Whether a web page does not count as success: a server other than this receiver has
    /// responded, such as a proxy that asks for a password.
    refuses_pages: bool,
}

/// The outcome of a request. An acceptance may contain details.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Delivery<T = ()> {
    /// The receiver accepted it.
    Accepted(T),
    /// The receiver will not accept it later, either.
    Refused(String),
    /// The receiver may accept it later.
    Failed {
        problem: String,
        /// The wait that the receiver requests.
        retry_after: Option<Duration>,
    },
}

/// The problem of a successful response with a web page.
const A_PAGE: &str = "the response is a web page: the URL may be wrong";

impl Poster {
    pub(super) fn new(destination: Destination, refuses_pages: bool) -> Self {
        let (url, transport) = (destination.url.clone(), Transport::new(destination));
        Self { url, transport, refuses_pages }
    }

    /// Sends a JSON body and waits for the response.
    pub(super) async fn post(&mut self, body: &[u8]) -> Delivery {
        let request = Request::post(self.url.uri())
            .header(header::HOST, self.url.authority())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, format!("loopwatch/{VERSION}"))
            .body(Bytes::copy_from_slice(body));
        let sent = match request {
            Ok(request) => self.transport.send(request).await,
            Err(error) => Err(error.to_string()),
        };

        match sent {
            Ok(response) if response.status().is_success() => match self.refuses_pages {
                true => Delivery::unless_page(response.headers()),
                false => Delivery::Accepted(()),
            },
            Ok(response) => {
                let is_passing = response.status() == StatusCode::TOO_MANY_REQUESTS
                    || response.status().is_server_error();
                Delivery::of_refusal(response.status(), response.headers(), is_passing)
            }
            Err(problem) => Delivery::Failed { problem, retry_after: None },
        }
    }
}

impl Delivery {
    /// The outcome of a successful response. A server other than the receiver may respond with a
    /// web page.
    pub(super) fn unless_page(headers: &HeaderMap) -> Self {
        let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        match kind.is_some_and(|kind| kind.to_ascii_lowercase().starts_with("text/html")) {
            true => Self::Refused(A_PAGE.to_owned()),
            false => Self::Accepted(()),
        }
    }
}

impl<T> Delivery<T> {
    /// The outcome of an unsuccessful response. `is_passing` says whether a later request may
    /// succeed. After a redirect, none may: the token must not go elsewhere.
    pub(super) fn of_refusal(status: StatusCode, headers: &HeaderMap, is_passing: bool) -> Self {
        let problem = format!("HTTP {}", status.as_u16());
        match is_passing {
            true => Self::Failed { problem, retry_after: retry_after(headers) },
            false => Self::Refused(problem),
        }
    }

    /// The same outcome, with details of an acceptance.
    pub(super) fn map<U>(self, more: impl FnOnce(T) -> U) -> Delivery<U> {
        match self {
            Self::Accepted(said) => Delivery::Accepted(more(said)),
            Self::Refused(problem) => Delivery::Refused(problem),
            Self::Failed { problem, retry_after } => Delivery::Failed { problem, retry_after },
        }
    }
}
