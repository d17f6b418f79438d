//! Prints the timeline of a recording: when findings opened and closed.

use std::net::{Ipv4Addr, SocketAddr};

use loopwatch_model::finding::{Change, Finding, FindingEvent};
use loopwatch_model::time::Timestamp;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::config::DEFAULT_PORT;
use crate::export::server::{self, Exporter, Port};
use crate::export::view::without_controls;

/// Maximum number of events in the text. A recording of several weeks has too many to read; the
/// JSON contains all of them.
const MAX_LINES: usize = 200;

/// The note on a server for all addresses whose page is for this host only.
const CLOSED: &str =
    "Other hosts may read the metrics. With --expose-ui, they may also see the page.\n";

/// The finding events of a recording as text: one line per event, with the time since the first.
/// `is_whole` means that loopwatch could read every line of the recording.
pub(super) fn text(events: &[FindingEvent], is_whole: bool) -> String {
    let part = if is_whole { "" } else { " in the part that loopwatch could read" };
    let Some(first) = events.first().map(|event| event.at) else {
        return match is_whole {
            true => "No findings in this recording.\n\n".to_owned(),
            false => {
                format!("No findings{part}. The rest of this recording is missing or damaged.\n\n")
            }
        };
    };
    let mut text = format!("Findings since {first}{part}:\n");
    for event in events.iter().take(MAX_LINES) {
        text.push_str(&line(event, first, events));
    }

    if events.len() > MAX_LINES {
        text.push_str(&format!(
            "  … and {} more events; -o json lists them\n",
            events.len() - MAX_LINES
        ));
    }

    text.push('\n');
    text
}

/// The host and port at which a browser on this host finds a server. It refuses to show the page of
/// `0.0.0.0`, which other hosts might name as well.
fn here(address: SocketAddr) -> String {
    if address.ip().is_unspecified() {
        format!("localhost:{}", address.port())
    } else {
        address.to_string()
    }
}

/// One event, with the time since the first. `events` has the finding that explains it.
pub(super) fn line(event: &FindingEvent, first: Timestamp, events: &[FindingEvent]) -> String {
    let (code, subject) = (event.finding.code.name(), &event.finding.subject);
    let since = format!("+{}", event.at.since(first));
    let is_explained = event.finding.explained_by.is_some();
    let change = match event.change {
        Change::Opened if is_explained => "opened, explained",
        Change::Opened => "opened",
        Change::Closed => "closed",
        Change::Explained if is_explained => "explained",
        Change::Explained => "no longer explained",
    };
    let cause = match event.change {
        Change::Closed => None,
        Change::Opened | Change::Explained => cause(event, events),
    };

    let by = cause.map(|cause| format!(", by {} on {}", cause.code.name(), cause.subject));
    let line = format!("  {since:>8}  {change}  {code} on {subject}{}", by.unwrap_or_default());
    without_controls(&line) + "\n"
}

/// The finding that explains that of an event.
fn cause<'a>(event: &FindingEvent, events: &'a [FindingEvent]) -> Option<&'a Finding> {
    let id = event.finding.explained_by?;
    events.iter().map(|other| &other.finding).find(|other| other.id == id)
}

/// Serves until interrupted, and prints the address. Without `listen`, serves only this machine: on
/// the default port, or on any free port if another process uses that one.
pub(super) async fn serve(
    listen: Option<SocketAddr>,
    exporter: std::sync::Arc<Exporter>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let listener = match listen {
        Some(address) => TcpListener::bind(address)
            .await
            .map_err(|e| anyhow::anyhow!("cannot listen on {address}: {e}"))?,
        None => match TcpListener::bind((Ipv4Addr::LOCALHOST, DEFAULT_PORT)).await {
            Ok(listener) => listener,
            Err(_) => TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?,
        },
    };

    let address = listener.local_addr()?;
    let note =
        if address.ip().is_unspecified() && !exporter.options().expose_ui { CLOSED } else { "" };
    super::print(&format!(
        "Page:     http://{0}/\nMetrics:  http://{0}/metrics\n{note}Press Ctrl-C to stop.\n",
        here(address)
    ))?;
    server::serve(listener, Port::Both, exporter, stop.cancelled_owned()).await;

    Ok(())
}
