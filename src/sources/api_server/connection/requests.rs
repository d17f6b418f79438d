//! Requests to the API server, with limits of time and size.

use std::time::Duration;

use bytes::Bytes;
use http::header::InvalidHeaderValue;
use http::{HeaderMap, HeaderValue, Method, Request, Response, header};
use http_body_util::BodyExt as _;
use kube::client::Body;
use loopwatch_model::observation::Cause;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::{BatchTime, Cluster, ServiceAccount};
use crate::needs;
use crate::net::Failure;

/// Whole objects.
pub(crate) const JSON: &str = "application/json";
/// Events of a watch with the objects reduced to their metadata.
pub(crate) const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
/// A list of objects reduced to their metadata.
pub(crate) const LIST_METADATA: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// Time to wait for the response to begin. The API server itself gives up after 60 s.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Time to wait for the end of a document: a proxy that sends a byte now and then must not hold up
/// a source.
const DOCUMENT_WITHIN: Duration = Duration::from_secs(120);
/// Largest response, in bytes. Aggregated discovery of a cluster with thousands of kinds takes 5
/// MB.
const LARGEST_DOCUMENT: usize = 32 << 20;
/// Largest body of an error, in bytes.
const LARGEST_ERROR: usize = 64 << 10;

impl Cluster {
    /// Sends a GET and returns when a successful response begins.
    pub(crate) async fn open(&self, path: &str, accept: &'static str) -> Result<Body, Failure> {
        self.send(Method::GET, path, accept, Body::empty(), None).await.map(Response::into_body)
    }

    /// Sends a GET for a stream. Returns its body, and the handle on its connection.
    pub(crate) async fn open_stream(
        &self,
        path: &str,
        accept: &'static str,
    ) -> Result<(Body, BatchTime), Failure> {
        let mut answer = self.send(Method::GET, path, accept, Body::empty(), None).await?;
        let batch_time = answer.extensions_mut().remove().unwrap_or_default();
        Ok((answer.into_body(), batch_time))
    }

    /// Reads one document.
    pub(crate) async fn get_json<T: DeserializeOwned>(
        &self,
        path: &str,
        accept: &'static str,
    ) -> Result<T, Failure> {
        self.get_json_within(path, accept, LARGEST_DOCUMENT).await
    }

    /// Reads one document of limited size.
    pub(crate) async fn get_json_within<T: DeserializeOwned>(
        &self,
        path: &str,
        accept: &'static str,
        limit: usize,
    ) -> Result<T, Failure> {
        let mut body = self.open(path, accept).await?;
        let bytes = collect(&mut body, limit).await?;
        decode(path, &bytes)
    }

    /// Reads one document and its ETag.
    pub(crate) async fn get_tagged<T: DeserializeOwned>(
        &self,
        path: &str,
        accept: &'static str,
    ) -> Result<(T, Option<HeaderValue>), Failure> {
        let mut answer = self.send(Method::GET, path, accept, Body::empty(), None).await?;
        let tag = answer.headers_mut().remove(header::ETAG);
        let bytes = collect(answer.body_mut(), LARGEST_DOCUMENT).await?;
        Ok((decode(path, &bytes)?, tag))
    }

    /// Whether a document still has this ETag.
    pub(crate) async fn is_unchanged(
        &self,
        path: &str,
        accept: &'static str,
        tag: &HeaderValue,
    ) -> Result<bool, Failure> {
        match self.send(Method::GET, path, accept, Body::empty(), Some(tag)).await {
            Ok(_) => Ok(false),
            Err(failure) if failure.status == Some(304) => Ok(true),
            Err(failure) => Err(failure),
        }
    }

    /// Creates a review, which changes nothing in the cluster. loopwatch sends no other POST.
    pub(crate) async fn review<R: Serialize + DeserializeOwned>(
        &self,
        path: &str,
        review: &R,
    ) -> Result<R, Failure> {
        let body =
            serde_json::to_vec(review).map_err(|e| Failure::new(Cause::Other, e.to_string()))?;
        let mut answer = self.send(Method::POST, path, JSON, Body::from(body), None).await?;
        let bytes = collect(answer.body_mut(), LARGEST_DOCUMENT).await?;

        decode(path, &bytes)
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        accept: &'static str,
        body: Body,
        tag: Option<&HeaderValue>,
    ) -> Result<Response<Body>, Failure> {
        // A fault elsewhere must not make loopwatch change the cluster or read data of Secrets.
        let metadata_only = [METADATA, LIST_METADATA].contains(&accept);
        if !needs::is_needed(method.as_str(), path, metadata_only) {
            return Err(Failure::new(
                Cause::Invalid,
                format!("{method} {path}: no feature of loopwatch needs this request"),
            ));
        }

        let mut request = Request::new(body);
        *request.uri_mut() =
            path.parse().map_err(|e| Failure::new(Cause::Invalid, format!("{path}: {e}")))?;
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static(accept));

        if method == Method::POST {
            request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
        }

        if let Some(tag) = tag {
            request.headers_mut().insert(header::IF_NONE_MATCH, tag.clone());
        }

        if let Some(account) = &self.acting_as {
            impersonate(request.headers_mut(), account).map_err(|e| {
                Failure::new(Cause::Invalid, format!("the service account of the operator: {e}"))
            })?;
        }

        *request.method_mut() = method;
        let sent = self.clock.steady();
        let client = self.client.get();
        let mut answer = match timeout(ANSWER_WITHIN, client.send(request)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => {
                let failure = Failure::client(&error);
                if failure.cause == Cause::Tls {
                    self.client.renew().await;
                }
                return Err(failure);
            }
            Err(_) => return Err(Failure::timeout(path, ANSWER_WITHIN)),
        };

        self.clock.hear(answer.status(), answer.headers(), sent);
        if answer.status().is_success() {
            return Ok(answer);
        }

        // The body holds the reason. If reading it fails as well, the status alone is enough.
        let error = collect(answer.body_mut(), LARGEST_ERROR).await.unwrap_or_default();
        Err(Failure::http(answer.status(), answer.headers(), &error))
    }
}

/// Adds the headers of an impersonated service account and of its groups.
fn impersonate(
    headers: &mut HeaderMap,
    account: &ServiceAccount,
) -> Result<(), InvalidHeaderValue> {
    let ServiceAccount { namespace, name } = account;
    headers
        .insert("impersonate-user", format!("system:serviceaccount:{namespace}:{name}").parse()?);
    headers.append("impersonate-group", HeaderValue::from_static("system:serviceaccounts"));
    headers.append("impersonate-group", format!("system:serviceaccounts:{namespace}").parse()?);
    headers.append("impersonate-group", HeaderValue::from_static("system:authenticated"));

    Ok(())
}

/// A chunk of a body; `None` at its end.
pub(crate) type Chunk = Result<Option<Bytes>, Failure>;

/// The next chunk of a body, within a time.
pub(crate) async fn next_chunk(body: &mut Body, within: Duration) -> Chunk {
    timeout(within, chunk(body))
        .await
        .unwrap_or_else(|_| Err(Failure::timeout("reading the response", within)))
}

/// The next chunk of a body.
pub(crate) async fn chunk(body: &mut Body) -> Chunk {
    while let Some(frame) = body.frame().await {
        // Skips trailers.
        if let Ok(data) = frame.map_err(|error| Failure::client(&error))?.into_data() {
            return Ok(Some(data));
        }
    }

    Ok(None)
}

async fn collect(body: &mut Body, limit: usize) -> Result<Vec<u8>, Failure> {
    let late = |_| Err(Failure::timeout("reading the response", DOCUMENT_WITHIN));
    timeout(DOCUMENT_WITHIN, collect_chunks(body, limit)).await.unwrap_or_else(late)
}

async fn collect_chunks(body: &mut Body, limit: usize) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    while let Some(chunk) = next_chunk(body, ANSWER_WITHIN).await? {
        if bytes.len() + chunk.len() > limit {
            return Err(Failure::new(
                Cause::TooLarge,
                format!("the response is larger than {limit} bytes"),
            ));
        }

        bytes.extend_from_slice(&chunk);
    }

    Ok(bytes)
}

fn decode<T: DeserializeOwned>(path: &str, bytes: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(bytes)
        .map_err(|e| Failure::new(Cause::Undecodable, format!("{path}: {e}")))
}

/// The path that creates a review.
pub(crate) fn review_path<R: k8s_openapi::Resource>() -> String {
    format!("/apis/{}/{}", R::API_VERSION, R::URL_PATH_SEGMENT)
}

#[cfg(test)]
mod tests {
    use loopwatch_testbed::standin::{Piece, Reply, Script};
    use tokio::time::Instant;

    use super::*;
    use crate::sources::testing::InProcess as _;

    #[tokio::test(start_paused = true)]
    async fn a_document_that_trickles_in_is_given_up() {
        let trickle =
            (0..1_000).flat_map(|_| [Piece::Text(" ".to_owned()), Piece::Pause(ANSWER_WITHIN / 2)]);
        let script = Script::new([Reply::Streamed(trickle.collect())]);
        let began = Instant::now();
        let read = script.cluster().get_json::<serde_json::Value>("/version", JSON).await;

        assert_eq!(read.map_err(|failure| failure.cause), Err(Cause::Timeout));
        assert!(began.elapsed() <= DOCUMENT_WITHIN, "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_no_feature_needs_are_not_sent() {
        let script = Script::default();
        let cluster = script.cluster();
        for path in ["/api/v1/secrets", "/api/v1/nodes/a/proxy/metrics", "/api/v1/pods/a/b"] {
            let read = cluster.get_json::<serde_json::Value>(path, JSON).await;
            assert_eq!(read.map_err(|failure| failure.cause), Err(Cause::Invalid), "{path}");
        }

        let review = serde_json::json!({});
        let sent = cluster.review("/api/v1/namespaces/team/pods", &review).await;

        assert_eq!(sent.map_err(|failure| failure.cause), Err(Cause::Invalid));
        assert!(script.asked().is_empty(), "{:?}", script.asked());
    }
}
