//! The parsers of requests and of the web configuration file, for the fuzz targets.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{Request, Response};
use http_body_util::BodyExt as _;
use loopwatch_model::model::Model;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

pub use super::access::fuzzing::{WebFileView, web_file};
use super::client::Client;
use super::exporter::{ExportOptions, Exporter};
use super::policy::Port;
use super::routes::router;
use crate::telemetry::SelfMetrics;

/// A server without a port.
pub struct Server(Router);

impl Server {
    /// A server of a model.
    #[must_use]
    pub fn new(model: Model) -> Self {
        let (model, metrics) = (Arc::new(Mutex::new(model)), Arc::new(SelfMetrics::new()));
        Self(router(Arc::new(Exporter::new(model, metrics, ExportOptions::default()))))
    }

    /// Responds to a request from this host, to a port for everything.
    ///
    /// # Errors
    /// If the body of the response breaks off.
    pub async fn respond(
        &self,
        mut request: Request<Body>,
    ) -> Result<Response<Bytes>, axum::Error> {
        let peer = (Ipv4Addr::LOCALHOST, 5000).into();
        let client = Client::new(peer, Port::Both, CancellationToken::new());
        request.extensions_mut().insert(client);

        let response = self.0.clone().oneshot(request).await;
        let (head, body) = response.unwrap_or_else(|never: Infallible| match never {}).into_parts();
        Ok(Response::from_parts(head, body.collect().await?.to_bytes()))
    }
}
