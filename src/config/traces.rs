//! The flags about traces, and the equivalent environment variables of OpenTelemetry.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr as _;
use std::time::Duration;

use clap::Args;
use http::{HeaderName, HeaderValue};

use crate::export::delivery::traces::{
    Collector, SAMPLER, SAMPLER_ARG, Sampling, collector_url, collector_url_of_base,
};
use crate::net::HttpUrl;

/// Where to send traces.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
#[command(next_help_heading = "Tracing")]
pub(crate) struct TraceFlags {
    /// OpenTelemetry collector for traces, over http/protobuf; the path defaults to /v1/traces
    /// [default: OTEL_EXPORTER_OTLP_ENDPOINT]
    #[arg(long, value_name = "URL", value_parser = collector_url)]
    pub otlp: Option<HttpUrl>,
    /// File with the bearer token for the collector
    #[arg(long, value_name = "FILE")]
    pub otlp_token_file: Option<PathBuf>,
    /// File with the certificate authorities of the collector, in PEM [default: those of the
    /// system]
    #[arg(long, value_name = "FILE")]
    pub otlp_ca_file: Option<PathBuf>,
}

const DISABLED: &str = "OTEL_SDK_DISABLED";
const EXPORTER: &str = "OTEL_TRACES_EXPORTER";
const ENDPOINT: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
const PROTOCOL: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
const TIMEOUT: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"];
const HEADERS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"];
const CERTIFICATE: [&str; 2] =
    ["OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE"];
const CLIENT_CERTIFICATE: [&str; 2] =
    ["OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE", "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"];
const RESOURCE: &str = "OTEL_RESOURCE_ATTRIBUTES";
const COMPRESSION: [&str; 2] =
    ["OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "OTEL_EXPORTER_OTLP_COMPRESSION"];

/// The default in the OpenTelemetry specification.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest time for a request, in milliseconds. A collector that never responds delays all
/// later spans for as long.
const MAX_TIMEOUT: u64 = 600_000;

/// Parts of the names of headers with usually secret values.
const SECRET: [&str; 5] = ["auth", "token", "key", "secret", "cookie"];

/// The environment variables of OpenTelemetry that are set.
type Variables = BTreeMap<&'static str, String>;

impl TraceFlags {
    /// Returns the collector, if the user wants traces, and the problems of these flags and of
    /// OpenTelemetry's environment variables.
    #[must_use]
    pub(crate) fn collector(&self) -> (Option<Collector>, Vec<String>) {
        let names = [DISABLED, EXPORTER, SAMPLER, SAMPLER_ARG, RESOURCE]
            .into_iter()
            .chain(ENDPOINT)
            .chain(PROTOCOL)
            .chain(TIMEOUT)
            .chain(COMPRESSION)
            .chain(HEADERS)
            .chain(CERTIFICATE)
            .chain(CLIENT_CERTIFICATE);
        let set =
            |name| Some((name, std::env::var(name).ok().filter(|value| !value.trim().is_empty())?));

        self.collector_with(&names.filter_map(set).collect())
    }

    fn collector_with(&self, variables: &Variables) -> (Option<Collector>, Vec<String>) {
        let mut problems = Vec::new();
        let collector = self.wanted(variables, &mut problems);
        (collector, problems)
    }

    fn wanted(&self, variables: &Variables, problems: &mut Vec<String>) -> Option<Collector> {
        let is = |name: &str, value: &str| {
            variables.get(name).is_some_and(|set| set.trim().eq_ignore_ascii_case(value))
        };
        if is(DISABLED, "true") || is(EXPORTER, "none") {
            return None;
        }

        let url = self.otlp.clone().or_else(|| endpoint(variables, problems))?;
        if let Some(value) = variables.get(DISABLED).filter(|_| !is(DISABLED, "false")) {
            problems.push(format!(
                "{DISABLED}: expected true or false, not {value:?}; loopwatch takes it for false"
            ));
        }

        if let Some(name) = variables.get(EXPORTER).filter(|name| name.trim() != "otlp") {
            problems.push(format!(
                "{EXPORTER}: loopwatch can only use otlp or none, not {name:?}; it sends no traces"
            ));
            return None;
        }

        if let Some((name, protocol)) =
            first(variables, PROTOCOL).filter(|(_, value)| *value != "http/protobuf")
        {
            problems.push(format!(
                "{name}: loopwatch can only use http/protobuf, not {protocol:?}; it sends no traces. Collectors usually listen \
                 for http/protobuf on port 4318"
            ));
            return None;
        }

        let sampling = Sampling::of(variables, problems)?;
        if let Some((name, value)) =
            first(variables, COMPRESSION).filter(|(_, value)| !["gzip", "none"].contains(value))
        {
            problems.push(format!("{name}: expected gzip or none, not {value:?}"));
        }

        check_headers(variables, problems);
        check_resource(variables, problems);
        if let Some((name, _)) = first(variables, CLIENT_CERTIFICATE) {
            problems.push(format!(
                "{name}: loopwatch cannot use a client certificate; it sends traces without"
            ));
        }

        let within = timeout(variables, problems);
        let certificate = || first(variables, CERTIFICATE).map(|(_, file)| PathBuf::from(file));
        let (token_file, ca_file) =
            (self.otlp_token_file.clone(), self.otlp_ca_file.clone().or_else(certificate));
        let warnings = self.warnings(&url, variables);

        Some(Collector { url, token_file, ca_file, within, sampling, warnings })
    }

    /// Warns where secrets may leak by mistake. loopwatch still sends traces, because the variables
    /// are valid.
    fn warnings(&self, url: &HttpUrl, variables: &Variables) -> Vec<String> {
        let file =
            self.otlp_token_file.as_ref().and_then(|_| url.in_the_clear("--otlp-token-file"));
        let Some((name, text)) = first(variables, HEADERS) else {
            return file.into_iter().collect();
        };
        let is_secret =
            |key: &str| SECRET.iter().any(|part| key.to_ascii_lowercase().contains(part));

        let secret = entries(text)
            .filter_map(|(_, entry)| Some(entry.split_once('=')?.0.trim()))
            .find(|key| is_secret(key));
        let clear = secret.and_then(|key| url.in_the_clear(&format!("{name}, header {key}")));

        // The specification says that the headers apply to the exporter, regardless of the source
        // of its endpoint.
        let named = self.otlp.as_ref().and_then(|_| endpoint(variables, &mut Vec::new()));
        let elsewhere = named.filter(|other| other.authority() != url.authority()).map(|other| {
            format!(
                "{name}: the headers go to {url}, which --otlp names, although the variables \
                     of OpenTelemetry name {other}"
            )
        });

        file.into_iter().chain(clear).chain(elsewhere).collect()
    }
}

/// The endpoint from the variables. Below the endpoint for all signals, traces have their own path.
/// A problem does not quote the URL, which may contain a secret.
fn endpoint(variables: &Variables, problems: &mut Vec<String>) -> Option<HttpUrl> {
    let (name, text) = first(variables, ENDPOINT)?;
    let url = if name == ENDPOINT[0] { collector_url(text) } else { collector_url_of_base(text) };
    url.map_err(|problem| problems.push(format!("{name}: {problem}; loopwatch sends no traces")))
        .ok()
}

/// Finds headers that the exporter leaves out. A problem quotes only names, because values may be
/// secret.
fn check_headers(variables: &Variables, problems: &mut Vec<String>) {
    let Some((name, text)) = first(variables, HEADERS) else { return };
    for (number, entry) in entries(text) {
        let problem = match entry.split_once('=') {
            None => format!("entry {number} has no ="),
            Some((key, _)) if HeaderName::from_str(key.trim()).is_err() => {
                format!("entry {number} begins with no name of a header")
            }
            Some((key, value)) if HeaderValue::from_str(value.trim()).is_err() => {
                format!("the header {} has an invalid value", key.trim())
            }
            Some(_) => continue,
        };
        problems.push(format!("{name}: {problem}; expected name=value,name=value"));
    }
}

/// Finds attributes that the resource leaves out.
fn check_resource(variables: &Variables, problems: &mut Vec<String>) {
    let text = variables.get(RESOURCE).map(String::as_str).unwrap_or_default();
    for (number, entry) in entries(text) {
        if entry.split_once('=').is_none_or(|(key, _)| key.trim().is_empty()) {
            problems.push(format!("{RESOURCE}: entry {number} is not name=value"));
        }
    }
}

/// The entries of a list, with their numbers.
fn entries(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let entries = text.split(',').map(str::trim).enumerate();
    entries.filter(|(_, entry)| !entry.is_empty()).map(|(index, entry)| (index + 1, entry))
}

fn timeout(variables: &Variables, problems: &mut Vec<String>) -> Duration {
    let Some((name, text)) = first(variables, TIMEOUT) else { return DEFAULT_TIMEOUT };
    match text.parse() {
        Ok(milliseconds @ 1..=MAX_TIMEOUT) => Duration::from_millis(milliseconds),
        _ => {
            let default = DEFAULT_TIMEOUT.as_millis();
            problems.push(format!(
                "{name}: expected milliseconds from 1 to {MAX_TIMEOUT}, not {text:?}; loopwatch uses {default}"
            ));

            DEFAULT_TIMEOUT
        }
    }
}

/// The first of these variables that is set.
fn first<'v>(
    variables: &'v Variables,
    names: [&'static str; 2],
) -> Option<(&'static str, &'v str)> {
    names.into_iter().find_map(|name| Some((name, variables.get(name)?.trim())))
}

#[cfg(test)]
mod tests;
