//! Recognizes the content of an endpoint: the metrics of an operator, of any process, or of a
//! service mesh.

use memchr::memchr_iter;

use super::body::{BodySink, Flow};
use crate::net::Failure;

/// The content of an endpoint, the least useful first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Content {
    /// No metrics.
    #[default]
    NotMetrics,
    /// Metrics of a service mesh, or of loopwatch.
    Foreign,
    /// Other metrics.
    Other,
    /// Metrics of a process.
    Process,
    /// Metrics of a control loop.
    ControlLoop,
}

/// Reads the names of metrics until it finds those of a control loop.
#[derive(Debug, Default)]
pub(super) struct Sniffer {
    content: Content,
    /// The beginning of an incomplete line.
    line: Vec<u8>,
    /// Bytes so far.
    bytes: usize,
}

/// Parts of metric names that only control loops have, in any framework.
const OF_CONTROL_LOOPS: [&str; 4] = ["reconcil", "workqueue_", "work_queue_", "ansible_operator_"];
/// Prefixes of metric names that describe a process.
const OF_PROCESSES: [&str; 4] = ["process_", "go_", "jvm_", "python_"];
/// Prefixes of metric names of the proxies of Istio, Linkerd, Consul and Dapr, and of loopwatch
/// itself.
const FOREIGN: [&str; 6] = [
    "envoy_",
    "istio_agent_",
    "istio_requests_",
    "proxy_build_info",
    "dapr_runtime_",
    "loopwatch_",
];
/// Bytes of each line to read. Names of metrics are shorter.
const READ: usize = 256;
/// Bytes after which nothing new is expected.
const ENOUGH: usize = 12 << 20;

impl Sniffer {
    pub(super) fn content(&self) -> Content {
        self.content
    }

    fn read(&mut self, line: &[u8]) {
        let Ok(line) = std::str::from_utf8(&line[..line.len().min(READ)]) else { return };
        let comment = line.strip_prefix("# TYPE ").or_else(|| line.strip_prefix("# HELP "));
        let name = match comment {
            Some(rest) => rest.split(' ').next().unwrap_or_default(),
            None => {
                let Some(end) = line.find(['{', ' ']) else { return };

                // Only a line that looks like a sample has the name of a metric. Other text does
                // not count.
                let value = line.rsplit(' ').next().unwrap_or_default().trim_end();
                if !line[end..].starts_with('{') && value.parse::<f64>().is_err() {
                    return;
                }

                &line[..end]
            }
        };

        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
        if !name.is_empty() && name.chars().all(is_name) {
            self.content = self.content.and(Content::of(name));
        }
    }
}

impl BodySink for Sniffer {
    fn take(&mut self, piece: &[u8]) -> Result<Flow, Failure> {
        let mut from = 0;
        self.bytes += piece.len();
        for end in memchr_iter(b'\n', piece) {
            if self.line.is_empty() {
                self.read(&piece[from..end]);
            } else {
                let mut line = std::mem::take(&mut self.line);
                keep(&mut line, &piece[from..end]);
                self.read(&line);
            }

            from = end + 1;
            if self.content == Content::ControlLoop {
                return Ok(Flow::Enough);
            }
        }

        keep(&mut self.line, &piece[from..]);
        Ok(if self.bytes < ENOUGH { Flow::More } else { Flow::Enough })
    }
}

/// Appends to a line up to the limit.
fn keep(line: &mut Vec<u8>, more: &[u8]) {
    let room = READ.saturating_sub(line.len());
    line.extend_from_slice(&more[..more.len().min(room)]);
}

impl Content {
    fn of(name: &str) -> Self {
        if FOREIGN.iter().any(|prefix| name.starts_with(prefix)) {
            Self::Foreign
        } else if OF_CONTROL_LOOPS.iter().any(|part| name.contains(part)) {
            Self::ControlLoop
        } else if OF_PROCESSES.iter().any(|prefix| name.starts_with(prefix)) {
            Self::Process
        } else {
            Self::Other
        }
    }

    /// The content of an endpoint that has both. Mesh proxies are processes, too.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::ControlLoop, _) | (_, Self::ControlLoop) => Self::ControlLoop,
            (Self::Foreign, _) | (_, Self::Foreign) => Self::Foreign,
            _ => self.max(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The content of a text that arrives in pieces of this size.
    fn content(text: &str, pieces: usize) -> Content {
        let mut sniffer = Sniffer::default();
        for piece in text.as_bytes().chunks(pieces) {
            if sniffer.take(piece).expect("no failure") == Flow::Enough {
                break;
            }
        }

        sniffer.content()
    }

    #[test]
    fn content_is_recognized_wherever_the_pieces_end() {
        let long = format!("a{{b=\"{}\"}} 1\n", "x".repeat(1000));
        for (text, expected) in [
            (
                "# HELP controller_runtime_reconcile_total x\n# TYPE controller_runtime_reconcile_total counter\n",
                Content::ControlLoop,
            ),
            ("go_goroutines 9\nworkqueue_depth{name=\"a\"} 0\n", Content::ControlLoop),
            ("controller_work_queue_depth 0\n", Content::ControlLoop),
            ("operator_sdk_reconciliations_started_total{a=\"b\"} 1.0\n", Content::ControlLoop),
            ("strimzi_reconciliations_total 1\n", Content::ControlLoop),
            ("ansible_operator_reconciles_count 1\n", Content::ControlLoop),
            (
                "jvm_memory_used_bytes{area=\"heap\"} 1.0E7\nprocess_cpu_usage 0.1\n",
                Content::Process,
            ),
            ("python_info{a=\"b\"} 1.0\n", Content::Process),
            ("http_requests_total 1\n", Content::Other),
            (
                "# TYPE envoy_server_uptime gauge\ngo_threads 1\nprocess_open_fds 3\n",
                Content::Foreign,
            ),
            ("process_open_fds 3\nproxy_build_info{version=\"2\"} 1\n", Content::Foreign),
            ("# HELP loopwatch_build_info x\n", Content::Foreign),
            ("<html>\n<body>reconcile 1</body>\n", Content::NotMetrics),
            ("{\"reconcile\": 1}\n", Content::NotMetrics),
            ("reconciled, thank you\n", Content::NotMetrics),
            ("ok", Content::NotMetrics),
            ("", Content::NotMetrics),
            (&long, Content::Other),
        ] {
            for pieces in [1, 7, 4096] {
                assert_eq!(content(text, pieces), expected, "{text:.80}");
            }
        }
    }

    #[test]
    fn a_line_without_an_end_needs_little_memory_and_time() {
        let mut sniffer = Sniffer::default();
        let pieces = (0..10_000)
            .take_while(|_| sniffer.take(&[b'x'; 4096]).expect("no failure") == Flow::More)
            .count();

        assert_eq!(pieces, ENOUGH / 4096 - 1);
        assert!(sniffer.line.capacity() <= 2 * READ);
    }
}
