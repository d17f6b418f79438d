//! Jaeger, all in one process: a real receiver of OTLP, and the API with which the tests read
//! traces back.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::guard::{Process, Program};
use super::wait::eventually;
use super::{http, ports};

/// Jaeger, which keeps traces in memory.
pub struct Jaeger {
    program: Program,
    process: Option<Process>,
    /// The port of OTLP over HTTP.
    pub otlp: u16,
    query: u16,
}

/// One span as the API shows it.
#[derive(Clone, Debug)]
pub struct Span(pub Value);

impl Jaeger {
    /// Finds free ports for a Jaeger that does not run yet. Its log is in a folder.
    pub fn new(binary: &Path, folder: &Path) -> Self {
        let (otlp, query) = (ports::free(), ports::free());
        let mut program = Program::new("jaeger", binary, folder);
        for (flag, port) in [("collector.otlp.http", otlp), ("query.http-server", query)] {
            program = program.arg(format!("--{flag}.host-port=127.0.0.1:{port}"));
        }

        // Everything else that it serves.
        let unused = [
            "admin.http",
            "collector.grpc-server",
            "collector.http-server",
            "collector.otlp.grpc",
            "http-server",
        ];

        for flag in unused.into_iter().chain(["query.grpc-server"]) {
            program = program.arg(format!("--{flag}.host-port=127.0.0.1:{}", ports::free()));
        }

        for flag in ["jaeger-binary", "jaeger-compact", "zipkin-compact"] {
            program = program
                .arg(format!("--processor.{flag}.server-host-port=127.0.0.1:{}", ports::free()));
        }

        Self { program, process: None, otlp, query }
    }

    /// Starts it, and waits until it serves. It has forgotten all earlier traces.
    pub fn start(&mut self) {
        let process = self.process.insert(self.program.start());
        eventually(Duration::from_secs(30), "Jaeger is ready", || {
            process.assert_running();
            http::get(self.query, "/api/services").map(drop)?;

            // An empty request of OTLP is valid.
            let headers = [("Content-Type", "application/x-protobuf")];
            let answer = http::request("POST", self.otlp, "/v1/traces", &headers, "")?;
            if answer.status == 200 { Ok(()) } else { Err(format!("{answer:?}")) }
        });
    }

    /// Kills it.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
    }

    /// Returns the spans of a trace.
    ///
    /// # Errors
    /// If it does not know the trace.
    pub fn trace(&self, id: &str) -> Result<Vec<Span>, String> {
        let mut spans = self.ask(&format!("/api/traces/{id}"))?;
        match spans.pop() {
            Some(only) if spans.is_empty() => Ok(only),
            _ => Err(format!("{} traces with the ID {id}", spans.len())),
        }
    }

    /// Returns the traces of a service whose spans have a tag with a value, each as its spans.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn find(&self, service: &str, tag: &str, value: &str) -> Result<Vec<Vec<Span>>, String> {
        let tags = http::encode(&format!("{{\"{tag}\":\"{value}\"}}"));
        self.ask(&format!("/api/traces?service={service}&tags={tags}&limit=100&lookback=1h"))
    }

    fn ask(&self, path: &str) -> Result<Vec<Vec<Span>>, String> {
        let text = http::get(self.query, path)?;
        let answer: Value =
            serde_json::from_str(&text).map_err(|error| format!("{path}: {error}: {text}"))?;
        let traces =
            answer["data"].as_array().cloned().ok_or_else(|| format!("{path}: {answer}"))?;
        let spans = |trace: Value| {
            trace["spans"].as_array().into_iter().flatten().cloned().map(Span).collect()
        };

        Ok(traces.into_iter().map(spans).collect())
    }
}

impl Span {
    /// Returns its name.
    pub fn name(&self) -> &str {
        self.0["operationName"].as_str().unwrap_or_default()
    }

    /// Returns its ID in hexadecimal.
    pub fn id(&self) -> &str {
        self.0["spanID"].as_str().unwrap_or_default()
    }

    /// Returns the ID of its trace in hexadecimal.
    pub fn trace_id(&self) -> &str {
        self.0["traceID"].as_str().unwrap_or_default()
    }

    /// Returns whether it is the root of its trace. Jaeger shows links as references, too.
    pub fn is_root(&self) -> bool {
        self.references("CHILD_OF").is_empty()
    }

    /// Returns the IDs of the traces of its links.
    pub fn links(&self) -> Vec<String> {
        self.references("FOLLOWS_FROM")
    }

    /// Returns the time that it took.
    pub fn took(&self) -> Duration {
        Duration::from_micros(self.0["duration"].as_u64().unwrap_or_default())
    }

    /// Returns the value of an attribute; null if it has none of this name.
    pub fn tag(&self, name: &str) -> &Value {
        let tags = self.0["tags"].as_array().into_iter().flatten();
        tags.into_iter().find(|tag| tag["key"] == name).map_or(&Value::Null, |tag| &tag["value"])
    }

    fn references(&self, kind: &str) -> Vec<String> {
        let references = self.0["references"].as_array().into_iter().flatten();
        let of_kind = references.filter(|reference| reference["refType"] == kind);
        of_kind.filter_map(|reference| reference["traceID"].as_str()).map(str::to_owned).collect()
    }
}
