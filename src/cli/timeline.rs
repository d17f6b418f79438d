//! What happened over time: which findings came and went.

use std::net::SocketAddr;

use loopwatch_model::finding::{Change, FindingEvent};
use loopwatch_model::time::Timestamp;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::export::{Exporter, http};

/// Lines told; a recording of weeks has more events than anybody reads.
const MAX_LINES: usize = 200;

/// The findings that came and went, in order.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    events: Vec<FindingEvent>,
    more: usize,
}

// === impl Timeline ===

impl Timeline {
    pub(super) fn add(&mut self, events: Vec<FindingEvent>) {
        let room = MAX_LINES.saturating_sub(self.events.len());
        self.more += events.len().saturating_sub(room);
        self.events.extend(events.into_iter().take(room));
    }

    /// One line per change, with the time since the first.
    pub(super) fn text(&self) -> String {
        let Some(first) = self.events.first().map(|events| events.at) else {
            return "nothing was found in this recording\n\n".to_owned();
        };
        let mut text = format!("what was found, and when (from {first}):\n");
        for events in &self.events {
            text.push_str(&line(events, first));
        }
        if self.more > 0 {
            text.push_str(&format!("  … and {} more changes\n", self.more));
        }
        text.push('\n');
        text
    }
}

fn line(events: &FindingEvent, first: Timestamp) -> String {
    let (code, subject) = (events.finding.code.name(), &events.finding.subject);
    let since = format!("+{}", events.at.since(first));
    match events.change {
        Change::Opened => format!("  {since:>8}  found    {code} on {subject}\n"),
        Change::Closed => format!("  {since:>8}  cleared  {code} on {subject}\n"),
    }
}

/// Serves until interrupted, on the given address or on the usual port of this machine alone; when that is taken, on
/// any free one. Says where.
pub(super) async fn serve_and_tell(
    listen: Option<SocketAddr>,
    exporter: std::sync::Arc<Exporter>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let listener = match listen {
        Some(address) => {
            TcpListener::bind(address).await.map_err(|e| anyhow::anyhow!("cannot listen on {address}: {e}"))?
        }
        None => match TcpListener::bind(("127.0.0.1", 9917)).await {
            Ok(listener) => listener,
            Err(_) => TcpListener::bind(("127.0.0.1", 0)).await?,
        },
    };
    let address = listener.local_addr()?;
    super::say(&format!("page     http://{address}/\nmetrics  http://{address}/metrics\nstop with Ctrl-C\n"));
    http::serve(listener, exporter, stop.cancelled_owned()).await;
    Ok(())
}
