//! Builds the HTTP client of a cluster.

use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use kube::{Client, Config};
use tower::{BoxError, ServiceBuilder};

use super::batched_reads;

/// The largest head of a response, and the largest piece of a body, in bytes: as much as one record of TLS
/// holds. There may be hundreds of connections, and each keeps its buffer. The API server limits its
/// warnings, the longest headers, to 4 KiB.
const MAX_BUFFER: usize = 16 << 10;

/// Builds a client like kube's own, except that its connections can read in batches and that it
/// logs nothing. With a proxy, it is kube's own.
pub(super) fn build(config: Config) -> kube::Result<Client> {
    if config.proxy_url.is_some() {
        return Client::try_from(config);
    }

    let mut connector = TimeoutConnector::new(
        config.rustls_https_connector_with_connector(batched_reads::connector())?,
    );
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_write_timeout(config.write_timeout);

    let mut builder = legacy::Client::builder(TokioExecutor::new());
    let client: legacy::Client<_, Body> = builder.http1_max_buf_size(MAX_BUFFER).build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(client);

    Ok(ClientBuilder::new(service, config.default_namespace).build())
}
