//! Sends requests to a receiver, with a token and its own certificate authorities, over a
//! connection that stays open for a while.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use tokio::time::timeout;

use super::client::{Client, Trust, no_response};
use super::credentials::{authorization, read};
use super::url::HttpUrl;

/// A receiver, and how to reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Destination {
    pub(crate) url: HttpUrl,
    /// The address to connect to, if the name of the host has several.
    pub(crate) address: Option<SocketAddr>,
    /// A file with the bearer token.
    pub(crate) token_file: Option<PathBuf>,
    /// A file with the certificate authorities to trust instead of those of the system.
    pub(crate) ca_file: Option<PathBuf>,
    /// Time for a request, including the connection and the head of the response.
    pub(crate) within: Duration,
}

/// Sends requests to one receiver.
pub(crate) struct Transport {
    destination: Destination,
    client: Client,
}

/// Time to read the body of a response.
const BODY_WITHIN: Duration = Duration::from_secs(1);
/// The largest body to read, in bytes.
const MAX_BODY: usize = 64 << 10;
/// The longest wait that a receiver can request.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(60);

impl Transport {
    pub(crate) fn new(destination: Destination) -> Self {
        let server_name = destination.address.map(|_| destination.url.host().to_owned());
        let client = Client::new(Trust::Plain).named(server_name);
        Self { destination, client }
    }

    /// Sends a request, whose URL is the receiver's, and reads the response.
    ///
    /// If no head of a response arrives. A body that is too long or does not end in time becomes
    /// empty: the status shows the outcome of the request.
    pub(crate) async fn send(
        &mut self,
        mut request: Request<Bytes>,
    ) -> Result<Response<Bytes>, String> {
        if let Some(address) = self.destination.address {
            let url = self.destination.url.with_authority(&address.to_string());
            *request.uri_mut() =
                url.ok_or_else(|| format!("{address} is no address"))?.uri().clone();
        }

        let within = self.destination.within;
        let response = match timeout(within, self.head(request)).await {
            Ok(response) => response?,
            Err(_) => {
                self.client.disconnect();
                return Err(no_response(within).detail);
            }
        };

        let (head, body) = response.into_parts();
        let body = match timeout(BODY_WITHIN, Limited::new(body, MAX_BODY).collect()).await {
            Ok(Ok(body)) => body.to_bytes(),
            _ => {
                // The unread rest of the body makes the connection useless for another request.
                self.client.disconnect();
                Bytes::new()
            }
        };

        Ok(Response::from_parts(head, body))
    }

    async fn head(&mut self, mut request: Request<Bytes>) -> Result<Response<Incoming>, String> {
        let Destination { url, token_file, ca_file, .. } = &self.destination;
        if let Some(file) = token_file {
            request.headers_mut().insert(header::AUTHORIZATION, authorization(file).await?);
        }

        let trust = match ca_file {
            _ if !url.is_https() => Trust::Plain,
            Some(file) => Trust::Authorities { file: file.clone(), pem: read(file).await? },
            None => Trust::System,
        };

        self.client.trust(trust);
        let response = self.client.call(request.map(Full::new)).await;
        response.map_err(|failure| failure.detail)
    }
}

/// The wait that a response requests, at most a minute.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds =
        headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    seconds.map(|seconds| Duration::from_secs(seconds).min(LONGEST_RETRY_AFTER))
}
