//! One request for a profile, limited in time and bytes.

use std::time::Duration;

use http::{Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use loopwatch_model::observation::{Cause, ProfileKind};
use tokio::time::timeout;

use super::endpoint::Endpoint;
use super::pprof::is_gzip;
use crate::net::{Client, Failure, Trust};
use crate::telemetry::VERSION;

/// The outcome of a request.
#[derive(Debug)]
pub(super) enum Fetched {
    /// A profile, judging by its first bytes.
    Profile(Vec<u8>),
    /// The endpoint serves no pprof, for this reason.
    NoPprof(String),
    /// The response does not show whether the endpoint serves pprof.
    Silent(Failure),
    /// The response began as a profile, but did not end as one.
    Broken(Failure),
}

/// Time for a connection. A container of the same Pod responds at once.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// Time for the head of a response. Go writes a heap profile in milliseconds, but an operator at
/// its CPU limit takes longer.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// Time for the whole response.
const BODY_WITHIN: Duration = Duration::from_secs(30);
/// The largest response, in bytes. It stays in memory until it is decoded; the profile of a large
/// operator has 0.3 MiB.
pub(super) const MAX_BYTES: usize = 4 << 20;

/// Fetches a profile. Follows no redirect and uses no proxy.
pub(super) async fn fetch(endpoint: &Endpoint, kind: ProfileKind) -> Fetched {
    let response = match request(endpoint, kind).await {
        Ok(response) => response,
        Err(failure) => return Fetched::Silent(failure),
    };
    if let Some(refused) = refused(&response) {
        return refused;
    }

    let mut content = Vec::new();
    let ended = timeout(BODY_WITHIN, read(response.into_body(), &mut content)).await;
    let ended = ended.unwrap_or_else(|_| Err(Failure::timeout(&endpoint.path(kind), BODY_WITHIN)));

    match ended {
        Ok(()) if is_gzip(&content) => Fetched::Profile(content),
        Ok(()) => Fetched::NoPprof("its response is not a profile".to_owned()),
        Err(failure) if is_gzip(&content) => Fetched::Broken(failure),
        Err(failure) => Fetched::Silent(failure),
    }
}

async fn request(
    endpoint: &Endpoint,
    kind: ProfileKind,
) -> Result<http::Response<Incoming>, Failure> {
    let request = Request::get(endpoint.uri(kind))
        .header(header::HOST, &endpoint.host)
        .header(header::USER_AGENT, format!("loopwatch/{VERSION}"))
        .header(header::CONNECTION, "close")
        .body(Full::default())
        .map_err(|error| Failure::new(Cause::Invalid, error.to_string()))?;

    Client::new(Trust::Plain).connecting_within(CONNECT_WITHIN).send(request, HEAD_WITHIN).await
}

/// The meaning of a response without a profile, judging by its head. Only some responses show that
/// there is no pprof.
fn refused(response: &http::Response<Incoming>) -> Option<Fetched> {
    let status = response.status();
    let kind = response
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .unwrap_or_default();
    let silent =
        |cause| Some(Fetched::Silent(Failure::new(cause, format!("HTTP {}", status.as_u16()))));

    match status {
        StatusCode::OK if kind.starts_with("text/") => {
            Some(Fetched::NoPprof("it responds with text".to_owned()))
        }
        StatusCode::OK => None,
        StatusCode::UNAUTHORIZED => silent(Cause::Unauthorized),
        StatusCode::FORBIDDEN => silent(Cause::Forbidden),
        StatusCode::TOO_MANY_REQUESTS => silent(Cause::Throttled),
        status if status.is_server_error() => silent(Cause::ServerError),
        status => Some(Fetched::NoPprof(format!("it responds with HTTP {}", status.as_u16()))),
    }
}

/// Reads a body. Stops at the limit, and early if it is not a profile: a server may stream text
/// indefinitely.
async fn read(mut body: Incoming, content: &mut Vec<u8>) -> Result<(), Failure> {
    let too_large = || {
        Failure::new(Cause::TooLarge, format!("the profile has more than {} MiB", MAX_BYTES >> 20))
    };
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Failure::peer(&error))?;
        let Some(data) = frame.data_ref() else { continue };
        if content.len() + data.len() > MAX_BYTES {
            return Err(too_large());
        }

        content.extend_from_slice(data);
        if content.len() >= 2 && !is_gzip(content) {
            break;
        }
    }

    Ok(())
}
