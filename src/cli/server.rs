//! Asks a running loopwatch, for `explain` and `doctor`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, bail};
use http::header::ACCEPT;
use http::uri::Scheme;
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Limited};
use kube::client::Body;
use kube::{Client, Config};
use loopwatch_model::observation::Cause;
use serde::Deserialize;
use tokio::time::timeout;

use crate::net::{Failure, is_loopback};

/// The URL of a running loopwatch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerUrl(Uri);

/// The error response of a server that does not know the object.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ErrorDocument {
    error: String,
}

/// Time for the connection, and for the whole response.
const WITHIN: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(15));
/// The largest response, in bytes: 400 objects with long names.
const LARGEST: usize = 8 << 20;

/// The longest part of an error to show, in characters.
const LONGEST_ERROR: usize = 1_000;

/// Where a running loopwatch is after `kubectl port-forward POD 9917:9918`.
pub(super) const FORWARDED: &str = "http://127.0.0.1:9917";

/// Returns the JSON at a path of the API.
pub(super) async fn ask(server: &ServerUrl, path: &str) -> anyhow::Result<String> {
    // rustls does not choose between two linked providers. An error means that one is already
    // installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut config = Config::new(server.0.clone());
    config.connect_timeout = Some(WITHIN.0);
    config.default_retry = false;

    let client = Client::try_from(config)
        .map_err(|error| anyhow::anyhow!(Failure::client(&error).detail))?;
    let request = Request::get(path).header(ACCEPT, "application/json").body(Body::empty())?;
    let answer = async {
        let response = client
            .send(request)
            .await
            .map_err(|error| unreachable(server, Failure::client(&error)))?;
        let (head, body) = response.into_parts();
        let collected = Limited::new(body, LARGEST).collect().await;
        let bytes = collected
            .map_err(|error| anyhow::anyhow!("cannot read the answer: {error}"))?
            .to_bytes();

        anyhow::Ok((head.status, String::from_utf8_lossy(&bytes).into_owned()))
    };

    let (status, body) = timeout(WITHIN.1, answer)
        .await
        .unwrap_or_else(|_| Err(anyhow::anyhow!("no answer within {} s", WITHIN.1.as_secs())))
        .with_context(|| format!("cannot ask loopwatch at {server}"))?;

    answer_of(server, status, body)
}

fn unreachable(server: &ServerUrl, failure: Failure) -> anyhow::Error {
    let Failure { cause, detail, .. } = failure;
    let is_forwarded = cause == Cause::Connection && server.0.host().is_some_and(is_loopback);
    let hint = if is_forwarded { "; does `kubectl port-forward` run?" } else { "" };
    anyhow::anyhow!("{detail}{hint}")
}

fn answer_of(server: &ServerUrl, status: StatusCode, body: String) -> anyhow::Result<String> {
    let document = serde_json::from_str::<ErrorDocument>(&body).ok();
    let told =
        document.map(|document| document.error.chars().take(LONGEST_ERROR).collect::<String>());
    match (status, told.filter(|error| !error.is_empty())) {
        (StatusCode::OK, None) => Ok(body),
        (_, Some(error)) => bail!("{error} (according to {server})"),
        (StatusCode::FORBIDDEN, None) => bail!(
            "{server} refuses requests that come from another host or through a proxy; use `kubectl port-forward POD 9917:9918`, or run \
             loopwatch with --expose-ui"
        ),
        (StatusCode::NOT_FOUND, None) => {
            bail!("{server} is no loopwatch, or one that is older than this command")
        }
        (status, None) => bail!("{server} answered with HTTP {}", status.as_u16()),
    }
}

impl FromStr for ServerUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            "expected http:// or https:// with a host, for example http://127.0.0.1:9917".to_owned()
        };
        let uri: Uri = text.parse().map_err(|_| expected())?;
        let (Some(scheme), Some(authority)) = (uri.scheme(), uri.authority()) else {
            return Err(expected());
        };

        if authority.as_str().contains('@') {
            return Err("the URL must not contain a user or a password".to_owned());
        }

        if authority.as_str() != authority.host()
            && authority.port_u16().is_none_or(|port| port == 0)
        {
            return Err("the port must be a number from 1 to 65535".to_owned());
        }

        if uri.query().is_some() {
            return Err("the URL must not have a query".to_owned());
        }

        match scheme {
            scheme if *scheme == Scheme::HTTPS => Ok(Self(uri)),
            // The names of tenants' objects must not cross a network unencrypted.
            scheme if *scheme == Scheme::HTTP && is_loopback(authority.host()) => Ok(Self(uri)),
            scheme if *scheme == Scheme::HTTP => {
                Err("http:// is only for this host, for example after `kubectl port-forward`; use https://".to_owned())
            }
            _ => Err(expected()),
        }
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.to_string().trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_and_this_host_are_accepted() {
        for url in [
            "http://127.0.0.1:9917",
            "http://localhost:80/",
            "http://[::1]:1",
            "https://loopwatch.example.io/x",
        ] {
            assert!(url.parse::<ServerUrl>().is_ok(), "{url}");
        }

        for (url, expected) in [
            ("widget", "expected http://"),
            ("127.0.0.1:9917", "expected http://"),
            ("ftp://localhost", "expected http://"),
            ("http://10.0.0.1:9917", "port-forward"),
            ("http://loopwatch.ops.svc", "port-forward"),
            ("http://127.0.0.1.example.io", "port-forward"),
            ("https://user:S3CRET@host", "user"),
            ("https://host:0", "port"),
            ("https://host?x=1", "query"),
        ] {
            let error = url.parse::<ServerUrl>().expect_err(url);
            assert!(error.contains(expected) && !error.contains("S3CRET"), "{url}: {error}");
        }
    }

    #[test]
    fn answers_that_are_no_explanation_are_explained() {
        let server: ServerUrl = "http://127.0.0.1:9917/".parse().expect("a URL");
        for (status, body, expected) in [
            (
                404,
                r#"{"version":1,"error":"there is no Widget x"}"#,
                "there is no Widget x (according to http://127.0.0.1:9917)",
            ),
            (404, "Not found. loopwatch serves:", "older than this command"),
            (403, "This path shows the names", "port-forward"),
            (502, "<html>", "HTTP 502"),
        ] {
            let status = StatusCode::from_u16(status).expect("a status");
            let error = answer_of(&server, status, body.to_owned()).expect_err(body).to_string();

            assert!(error.contains(expected), "{error}");
        }

        let long = format!("{{\"error\":\"{}\"}}", "x".repeat(1 << 20));
        let error =
            answer_of(&server, StatusCode::NOT_FOUND, long).expect_err("an error").to_string();

        assert!(error.len() < 2_000, "{}", error.len());
        assert!(answer_of(&server, StatusCode::OK, "{}".to_owned()).is_ok());
    }
}
