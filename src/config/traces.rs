//! The flags about traces, and the variables of OpenTelemetry that mean the same.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr as _;
use std::time::Duration;

use clap::Args;
use http::{HeaderName, HeaderValue};

use crate::export::delivery::traces::{CollectorUrl, SAMPLER, SAMPLER_ARG, Sampling, Target};
use crate::sources::peer::in_the_clear;

/// Where to send traces.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
#[command(next_help_heading = "Tracing")]
pub(crate) struct TraceFlags {
    /// OpenTelemetry collector for traces, over http/protobuf; the path defaults to /v1/traces
    /// [default: OTEL_EXPORTER_OTLP_ENDPOINT]
    #[arg(long, value_name = "URL")]
    pub otlp: Option<CollectorUrl>,
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

/// The default of the specification.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest time for a request, in milliseconds. A collector that never answers holds up all
/// later spans for as long.
const MAX_TIMEOUT: u64 = 600_000;

/// Parts of the names of headers whose values are usually secret.
const SECRET: [&str; 5] = ["auth", "token", "key", "secret", "cookie"];

/// The variables of OpenTelemetry that are set.
type Variables = BTreeMap<&'static str, String>;

impl TraceFlags {
    /// Returns the collector, if traces are wanted, and the problems of these flags and of the
    /// variables of OpenTelemetry.
    #[must_use]
    pub(crate) fn target(&self) -> (Option<Target>, Vec<String>) {
        let names = [DISABLED, EXPORTER, SAMPLER, SAMPLER_ARG, RESOURCE].into_iter();
        let names = names.chain(ENDPOINT).chain(PROTOCOL).chain(TIMEOUT).chain(COMPRESSION);
        let names = names.chain(HEADERS).chain(CERTIFICATE).chain(CLIENT_CERTIFICATE);
        let set =
            |name| Some((name, std::env::var(name).ok().filter(|value| !value.trim().is_empty())?));

        self.target_with(&names.filter_map(set).collect())
    }

    fn target_with(&self, variables: &Variables) -> (Option<Target>, Vec<String>) {
        let mut problems = Vec::new();
        let target = self.wanted(variables, &mut problems);
        (target, problems)
    }

    fn wanted(&self, variables: &Variables, problems: &mut Vec<String>) -> Option<Target> {
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

        Some(Target { url, token_file, ca_file, within, sampling, warnings })
    }

    /// Says where secrets may go by mistake. That is no reason to send no traces: the variables are
    /// valid.
    fn warnings(&self, url: &CollectorUrl, variables: &Variables) -> Vec<String> {
        let file = self
            .otlp_token_file
            .as_ref()
            .and_then(|_| in_the_clear(url.uri(), "--otlp-token-file"));
        let Some((name, text)) = first(variables, HEADERS) else {
            return file.into_iter().collect();
        };
        let is_secret =
            |key: &str| SECRET.iter().any(|part| key.to_ascii_lowercase().contains(part));

        let secret = entries(text)
            .filter_map(|(_, entry)| Some(entry.split_once('=')?.0.trim()))
            .find(|key| is_secret(key));
        let clear =
            secret.and_then(|key| in_the_clear(url.uri(), &format!("{name}, header {key}")));

        // The specification says that the headers apply to the exporter, whatever names its
        // endpoint.
        let elsewhere = self.otlp.as_ref().and_then(|_| endpoint(variables, &mut Vec::new()));
        let elsewhere = elsewhere.filter(|other| other.uri().authority() != url.uri().authority()).map(|other| {
            format!("{name}: the headers go to {url}, which --otlp names, although the variables of OpenTelemetry name {other}")
        });

        file.into_iter().chain(clear).chain(elsewhere).collect()
    }
}

/// The endpoint that the variables name. Below that for all signals, traces have a path of their
/// own. A problem does not quote the URL, which may hold a secret.
fn endpoint(variables: &Variables, problems: &mut Vec<String>) -> Option<CollectorUrl> {
    let (name, text) = first(variables, ENDPOINT)?;
    let url = if name == ENDPOINT[0] { text.parse() } else { CollectorUrl::of_base(text) };
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
mod tests {
    use super::*;

    fn read(
        flag: Option<&str>,
        variables: &[(&'static str, &str)],
    ) -> (Option<Target>, Vec<String>) {
        let otlp = flag.map(|url| url.parse().expect("a URL"));
        let variables =
            variables.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        TraceFlags { otlp, ..TraceFlags::default() }.target_with(&variables)
    }

    fn url(flag: Option<&str>, variables: &[(&'static str, &str)]) -> Option<CollectorUrl> {
        let (target, problems) = read(flag, variables);
        assert_eq!(problems, [""; 0]);

        target.map(|target| target.url)
    }

    fn parsed(text: &str) -> Option<CollectorUrl> {
        Some(text.parse().expect("a URL"))
    }

    #[test]
    fn traces_are_off_unless_somebody_names_a_collector() {
        assert_eq!(url(None, &[]), None);
        assert_eq!(
            url(None, &[(PROTOCOL[1], "grpc"), (SAMPLER, "nonsense")]),
            None,
            "meant for somebody else"
        );

        let (all, traces) = (ENDPOINT[1], ENDPOINT[0]);
        assert_eq!(
            url(Some("http://a:4318"), &[(all, "http://b:4318")]),
            parsed("http://a:4318/v1/traces")
        );
        assert_eq!(url(None, &[(all, "http://b:4318")]), parsed("http://b:4318/v1/traces"));
        assert_eq!(
            url(None, &[(all, "http://b:4318/otlp/")]),
            parsed("http://b:4318/otlp/v1/traces")
        );

        assert_eq!(
            url(None, &[(all, "http://b"), (traces, "http://c/here")]),
            parsed("http://c/here")
        );

        for off in [(DISABLED, "TRUE"), (EXPORTER, "none"), (SAMPLER, "always_off")] {
            assert_eq!(url(Some("http://a"), &[off]), None, "{off:?}");
        }

        assert!(
            url(
                Some("http://a"),
                &[(DISABLED, "False"), (EXPORTER, "otlp"), (PROTOCOL[0], "http/protobuf")]
            )
            .is_some()
        );
    }

    #[test]
    fn what_loopwatch_cannot_do_is_a_problem() {
        for (variable, value, expected, sends) in [
            (
                PROTOCOL[1],
                "grpc",
                "OTEL_EXPORTER_OTLP_PROTOCOL: loopwatch can only use http/protobuf",
                false,
            ),
            (PROTOCOL[0], "http/json", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: ", false),
            (EXPORTER, "zipkin", "OTEL_TRACES_EXPORTER: ", false),
            (SAMPLER, "jaeger_remote", "OTEL_TRACES_SAMPLER: ", true),
            (TIMEOUT[1], "10s", "OTEL_EXPORTER_OTLP_TIMEOUT: expected milliseconds", true),
            (TIMEOUT[0], "-1", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: expected milliseconds", true),
            (
                TIMEOUT[0],
                "0",
                "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: expected milliseconds from 1 to 600000",
                true,
            ),
            (
                TIMEOUT[1],
                "600001",
                "OTEL_EXPORTER_OTLP_TIMEOUT: expected milliseconds from 1 to 600000",
                true,
            ),
            (
                TIMEOUT[1],
                "1000000000000000000",
                "OTEL_EXPORTER_OTLP_TIMEOUT: expected milliseconds",
                true,
            ),
            (EXPORTER, "otlp,none", "OTEL_TRACES_EXPORTER: ", false),
            (DISABLED, "yes", "OTEL_SDK_DISABLED: expected true or false", true),
            (HEADERS[1], "a=b,S3CRET", "OTEL_EXPORTER_OTLP_HEADERS: entry 2 has no =", true),
            (
                HEADERS[0],
                "a b=S3CRET",
                "OTEL_EXPORTER_OTLP_TRACES_HEADERS: entry 1 begins with no name",
                true,
            ),
            (
                HEADERS[1],
                "a=S3CRET\u{7}",
                "OTEL_EXPORTER_OTLP_HEADERS: the header a has an invalid value",
                true,
            ),
            (RESOURCE, "a=b,,c", "OTEL_RESOURCE_ATTRIBUTES: entry 3 is not name=value", true),
            (
                CLIENT_CERTIFICATE[1],
                "/tls.crt",
                "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: loopwatch cannot",
                true,
            ),
            (COMPRESSION[0], "zstd", "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION: expected gzip", true),
        ] {
            let (target, problems) = read(Some("http://a"), &[(variable, value)]);
            assert_eq!((target.is_some(), problems.len()), (sends, 1), "{problems:?}");
            assert!(
                problems[0].starts_with(expected) && !problems[0].contains("S3CRET"),
                "{}",
                problems[0]
            );
        }

        let (target, problems) = read(None, &[(ENDPOINT[1], "collector:4317/S3CRET")]);
        assert!(
            target.is_none()
                && problems[0].contains("expected http://")
                && !problems[0].contains("S3CRET")
        );

        let (target, problems) =
            read(Some("http://a"), &[(SAMPLER, "traceidratio"), (SAMPLER_ARG, "2")]);

        assert!(target.is_some_and(|target| target.sampling == Sampling::ALL));
        assert!(
            problems[0].contains("OTEL_TRACES_SAMPLER_ARG: expected a number from 0 to 1"),
            "{problems:?}"
        );
    }

    #[test]
    fn good_variables_are_no_problem() {
        let good = [
            (HEADERS[1], "X-Scope-OrgID=team-a, authorization = Bearer%20x,"),
            (RESOURCE, "k8s.cluster.uid=1,empty="),
            (CERTIFICATE[1], "/ca.crt"),
        ];
        let (target, problems) = read(Some("http://a"), &good);

        assert_eq!(problems, [""; 0]);
        assert_eq!(target.and_then(|target| target.ca_file), Some("/ca.crt".into()));

        let off = [
            (DISABLED, "true"),
            (HEADERS[1], "nonsense"),
            (PROTOCOL[1], "grpc"),
            (TIMEOUT[1], "x"),
        ];

        assert_eq!(
            read(Some("http://a"), &off),
            (None, Vec::new()),
            "somebody has switched traces off"
        );
    }

    #[test]
    fn the_signal_specific_variable_comes_first() {
        let (target, _) = read(Some("http://a"), &[(TIMEOUT[0], "2500"), (TIMEOUT[1], "1")]);
        assert_eq!(target.expect("a target").within, Duration::from_millis(2500));
        assert_eq!(read(Some("http://a"), &[]).0.expect("a target").within, DEFAULT_TIMEOUT);
    }
    #[test]
    fn a_secret_that_may_go_astray_is_a_warning_that_does_not_quote_it() {
        let secret = (HEADERS[1], "x-team=a,Api-Key=S3CRET");
        let plain = "OTEL_EXPORTER_OTLP_HEADERS, header Api-Key: requests to http://collector:4318 are not encrypted";
        let other = "OTEL_EXPORTER_OTLP_HEADERS: the headers go to https://collector, which --otlp names, although the variables \
                     of OpenTelemetry name https://vendor";

        for (flag, variables, expected) in [
            ("http://collector:4318", vec![secret], Some(plain)),
            ("http://127.0.0.1:4318", vec![secret], None),
            ("http://localhost", vec![secret], None),
            ("http://[::1]:4318", vec![secret], None),
            ("https://collector", vec![secret], None),
            ("http://collector:4318", vec![(HEADERS[1], "X-Scope-OrgID=a")], None),
            (
                "https://collector",
                vec![secret, (ENDPOINT[1], "https://vendor/S3CRET")],
                Some(other),
            ),
            ("https://collector", vec![secret, (ENDPOINT[1], "https://collector/otlp")], None),
            ("https://collector", vec![(ENDPOINT[1], "https://vendor")], None),
        ] {
            let (target, problems) = read(Some(flag), &variables);
            let warnings = target.expect("a target").warnings;

            assert_eq!(
                (problems.len(), warnings.len()),
                (0, expected.iter().count()),
                "{variables:?}: {warnings:?}"
            );

            let starts = warnings
                .iter()
                .zip(expected)
                .all(|(warning, expected)| warning.starts_with(expected));

            assert!(starts && !warnings.concat().contains("S3CRET"), "{warnings:?}");
        }

        let flags = |url: &str| TraceFlags {
            otlp: url.parse().ok(),
            otlp_token_file: Some("/token".into()),
            ..TraceFlags::default()
        };
        let warnings =
            |url: &str| flags(url).target_with(&Variables::new()).0.expect("a target").warnings;

        assert!(
            warnings("http://collector")[0]
                .starts_with("--otlp-token-file: requests to http://collector are not")
        );
        assert_eq!(warnings("https://collector"), [""; 0]);
    }
}
