//! Opens the ports, and serves them until a stop signal arrives.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::RETRY;
use crate::config::WebFlags;
use crate::export::server::{self, Exporter, Port};
use crate::system::own_pod;

/// Serves the metrics at `listen` and, if the flags or the Pod ask for it, the page, the API and
/// the profiles at another port on loopback.
pub(super) async fn serve(
    listen: SocketAddr,
    flags: WebFlags,
    exporter: Arc<Exporter>,
    stop: CancellationToken,
) {
    let Some(ui) = flags.ui_address(listen, own_pod::in_pod()) else {
        return serve_port(listen, Port::Both, exporter, stop).await;
    };

    let metrics = serve_port(listen, Port::Metrics, exporter.clone(), stop.clone());
    if exporter.loopback_is_shared() {
        // All Pods on the network of the node would compete for the port, which could only refuse.
        return metrics.await;
    }

    tokio::join!(metrics, serve_port(ui, Port::Ui, exporter, stop));
}

/// Serves one port. Retries if another process uses it: exiting would not free the port.
async fn serve_port(
    listen: SocketAddr,
    port: Port,
    exporter: Arc<Exporter>,
    stop: CancellationToken,
) {
    let flag = if port == Port::Ui { "--ui-port" } else { "--listen" };
    let mut wait = RETRY.0;
    loop {
        match server::bind(listen) {
            Ok(listener) => {
                info!(address = %listener.local_addr().unwrap_or(listen), flag, "listening");
                return server::serve(listener, port, exporter, stop.cancelled_owned()).await;
            }
            Err(error) => {
                warn!(address = %listen, flag, %error, retry_in = ?wait, "cannot listen")
            }
        }

        if stop.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
            return;
        }

        wait = (wait * 2).min(RETRY.1);
    }
}
