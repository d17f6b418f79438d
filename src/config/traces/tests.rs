use super::*;

fn read(
    flag: Option<&str>,
    variables: &[(&'static str, &str)],
) -> (Option<Collector>, Vec<String>) {
    let otlp = flag.map(|url| collector_url(url).expect("a URL"));
    let variables = variables.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    TraceFlags { otlp, ..TraceFlags::default() }.collector_with(&variables)
}

fn url(flag: Option<&str>, variables: &[(&'static str, &str)]) -> Option<HttpUrl> {
    let (collector, problems) = read(flag, variables);
    assert_eq!(problems, [""; 0]);

    collector.map(|collector| collector.url)
}

fn parsed(text: &str) -> Option<HttpUrl> {
    Some(collector_url(text).expect("a URL"))
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
    assert_eq!(url(None, &[(all, "http://b:4318/otlp/")]), parsed("http://b:4318/otlp/v1/traces"));

    assert_eq!(url(None, &[(all, "http://b"), (traces, "http://c/here")]), parsed("http://c/here"));

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
        let (collector, problems) = read(Some("http://a"), &[(variable, value)]);
        assert_eq!((collector.is_some(), problems.len()), (sends, 1), "{problems:?}");
        assert!(
            problems[0].starts_with(expected) && !problems[0].contains("S3CRET"),
            "{}",
            problems[0]
        );
    }

    let (collector, problems) = read(None, &[(ENDPOINT[1], "collector:4317/S3CRET")]);
    assert!(
        collector.is_none()
            && problems[0].contains("expected http://")
            && !problems[0].contains("S3CRET")
    );

    let (collector, problems) =
        read(Some("http://a"), &[(SAMPLER, "traceidratio"), (SAMPLER_ARG, "2")]);

    assert!(collector.is_some_and(|collector| collector.sampling == Sampling::ALL));
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
    let (collector, problems) = read(Some("http://a"), &good);

    assert_eq!(problems, [""; 0]);
    assert_eq!(collector.and_then(|collector| collector.ca_file), Some("/ca.crt".into()));

    let off =
        [(DISABLED, "true"), (HEADERS[1], "nonsense"), (PROTOCOL[1], "grpc"), (TIMEOUT[1], "x")];

    assert_eq!(
        read(Some("http://a"), &off),
        (None, Vec::new()),
        "somebody has switched traces off"
    );
}

#[test]
fn the_signal_specific_variable_comes_first() {
    let (collector, _) = read(Some("http://a"), &[(TIMEOUT[0], "2500"), (TIMEOUT[1], "1")]);
    assert_eq!(collector.expect("a collector").within, Duration::from_millis(2500));
    assert_eq!(read(Some("http://a"), &[]).0.expect("a collector").within, DEFAULT_TIMEOUT);
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
        ("https://collector", vec![secret, (ENDPOINT[1], "https://vendor/S3CRET")], Some(other)),
        ("https://collector", vec![secret, (ENDPOINT[1], "https://collector/otlp")], None),
        ("https://collector", vec![(ENDPOINT[1], "https://vendor")], None),
    ] {
        let (collector, problems) = read(Some(flag), &variables);
        let warnings = collector.expect("a collector").warnings;

        assert_eq!(
            (problems.len(), warnings.len()),
            (0, expected.iter().count()),
            "{variables:?}: {warnings:?}"
        );

        let starts =
            warnings.iter().zip(expected).all(|(warning, expected)| warning.starts_with(expected));

        assert!(starts && !warnings.concat().contains("S3CRET"), "{warnings:?}");
    }

    let flags = |url: &str| TraceFlags {
        otlp: collector_url(url).ok(),
        otlp_token_file: Some("/token".into()),
        ..TraceFlags::default()
    };
    let warnings =
        |url: &str| flags(url).collector_with(&Variables::new()).0.expect("a collector").warnings;

    assert!(
        warnings("http://collector")[0]
            .starts_with("--otlp-token-file: requests to http://collector are not")
    );
    assert_eq!(warnings("https://collector"), [""; 0]);
}
