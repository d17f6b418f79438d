use super::*;
use crate::export::metrics::metric::Stability;

static SECONDS: Metric = metric(
    "loopwatch_object_seconds_total",
    MetricType::Counter,
    &["group", "kind", "target_namespace", "state"],
);
static BUILD: Metric = metric("loopwatch_build_info", MetricType::Info, &["version", "revision"]);
static UP: Metric = metric("loopwatch_source_up", MetricType::Gauge, &["source"]);
static CONVERGENCE: Metric =
    metric("loopwatch_convergence_seconds", MetricType::Histogram, &["group", "kind"]);

const fn metric(name: &'static str, kind: MetricType, labels: &'static [&'static str]) -> Metric {
    Metric { name, kind, labels, help: "A sentence.", stability: Stability::Stable, section: "" }
}

fn written(
    metric: &'static Metric,
    format: TextFormat,
    write: impl FnOnce(&mut Samples<'_>),
) -> String {
    let (mut out, mut headed) = (String::new(), false);
    write(&mut Samples::new(&mut out, metric, format, &mut headed, None));
    out
}

#[test]
fn a_counter_has_the_name_of_its_family_in_openmetrics_only() {
    let write = |format| {
        written(&SECONDS, format, |samples| samples.put(&["g", "K", "ns", "failed"], 1.5_f64))
    };
    let help = SECONDS.help;

    assert_eq!(
        write(TextFormat::Text004),
        format!(
            "# HELP loopwatch_object_seconds_total {help}\n# TYPE loopwatch_object_seconds_total counter\n\
             loopwatch_object_seconds_total{{group=\"g\",kind=\"K\",target_namespace=\"ns\",state=\"failed\"}} 1.5\n"
        )
    );
    assert_eq!(
        write(TextFormat::OpenMetrics),
        format!(
            "# HELP loopwatch_object_seconds {help}\n# TYPE loopwatch_object_seconds counter\n\
             # UNIT loopwatch_object_seconds seconds\n\
             loopwatch_object_seconds_total{{group=\"g\",kind=\"K\",target_namespace=\"ns\",state=\"failed\"}} 1.5\n"
        )
    );
}

#[test]
fn an_info_metric_is_a_gauge_in_text_0_0_4() {
    let write = |format| written(&BUILD, format, |samples| samples.put(&["1", "r"], 1_u64));
    assert!(write(TextFormat::Text004).contains("# TYPE loopwatch_build_info gauge\n"));
    assert!(write(TextFormat::OpenMetrics).contains("# TYPE loopwatch_build info\n"));
    assert!(
        write(TextFormat::OpenMetrics)
            .contains("\nloopwatch_build_info{version=\"1\",revision=\"r\"} 1\n")
    );
}

#[test]
fn hostile_label_values_stay_inside_their_quotes() {
    let text = written(&UP, TextFormat::Text004, |samples| {
        samples.put(&["a\"} 1\nevil{x=\"\\"], 0_u64);
    });

    assert!(
        text.ends_with("\nloopwatch_source_up{source=\"a\\\"} 1\\nevil{x=\\\"\\\\\"} 0\n"),
        "{text}"
    );
}

#[test]
fn values_are_written_as_prometheus_reads_them() {
    for (number, text) in [
        (SampleValue::Real(f64::NAN), "NaN"),
        (SampleValue::Real(f64::INFINITY), "+Inf"),
        (SampleValue::Real(f64::NEG_INFINITY), "-Inf"),
        (SampleValue::Real(0.1), "0.1"),
        (SampleValue::Real(3.0), "3"),
        (SampleValue::Millis(1_700_000_000_001), "1700000000.001"),
        (SampleValue::Millis(-1_500), "-1.500"),
        (SampleValue::Millis(60_000), "60"),
        (SampleValue::Integer(-3), "-3"),
        (SampleValue::Integer(i64::MIN), "-9223372036854775808"),
        (SampleValue::Count(u64::MAX), "18446744073709551615"),
        (SampleValue::Count(0), "0"),
        (SampleValue::Millis(0), "0"),
        (SampleValue::Millis(7), "0.007"),
    ] {
        let mut out = String::new();
        number.write(&mut out);

        assert_eq!(out, text);
    }
}

#[test]
fn buckets_are_the_same_in_both_formats() {
    let mut histogram = Histogram::default();
    histogram.observe(Span::secs(3));

    let bodies = [TextFormat::Text004, TextFormat::OpenMetrics].map(|format| {
        let text =
            written(&CONVERGENCE, format, |samples| samples.histogram(&["", "Pod"], &histogram));
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>()
    });

    assert_eq!(bodies[0], bodies[1]);
    assert_eq!(
        bodies[0][0],
        "loopwatch_convergence_seconds_bucket{group=\"\",kind=\"Pod\",le=\"0.1\"} 0"
    );
    assert_eq!(
        bodies[0][5],
        "loopwatch_convergence_seconds_bucket{group=\"\",kind=\"Pod\",le=\"5.0\"} 1"
    );

    assert_eq!(
        bodies[0][17],
        "loopwatch_convergence_seconds_bucket{group=\"\",kind=\"Pod\",le=\"+Inf\"} 1"
    );
    assert_eq!(
        bodies[0][18..],
        [
            "loopwatch_convergence_seconds_sum{group=\"\",kind=\"Pod\"} 3",
            "loopwatch_convergence_seconds_count{group=\"\",kind=\"Pod\"} 1",
        ]
    );
}

#[test]
fn exemplars_are_only_in_openmetrics() {
    let mut histogram = Histogram::default();
    histogram.observe(Span::secs(3));

    let exemplar = |bucket| {
        let (trace_id, span_id) = ("0a".repeat(16), "0b".repeat(8));
        (bucket == 5).then_some(Exemplar {
            trace_id,
            span_id,
            value: 3.5,
            at: Timestamp(1_767_225_600_250),
        })
    };

    let write = |format| {
        written(&CONVERGENCE, format, |samples| {
            samples.histogram_with(&["", "Pod"], &histogram, exemplar)
        })
    };
    let expected = "loopwatch_convergence_seconds_bucket{group=\"\",kind=\"Pod\",le=\"5.0\"} 1 \
                    # {trace_id=\"0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a\",span_id=\"0b0b0b0b0b0b0b0b\"} 3.5 1767225600.250\n";
    let text = write(TextFormat::OpenMetrics);

    assert!(text.contains(expected), "{text}");
    assert_eq!(text.matches(" # {").count(), 1);

    let without_unit: String =
        text.split_inclusive('\n').filter(|line| !line.starts_with("# UNIT")).collect();
    let parsed =
        openmetrics_parser::openmetrics::parse_openmetrics(&format!("{without_unit}# EOF\n"));

    assert!(parsed.is_ok(), "{:?}", parsed.err());
    assert!(!write(TextFormat::Text004).contains(" # {"));
}
