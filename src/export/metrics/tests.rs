//! The whole exposition, read by independent parsers.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use loopwatch_model::observation::ProcessView;
use loopwatch_model::snapshot::{DownSign, ObjectRow, ObjectState};
use proptest::prelude::*;

use super::catalog::CATALOG;
use super::metric::{Metric, MetricType};
use super::render::ObjectSeries;
use super::{Render, TextFormat};
use crate::export::sample::{Sample, empty, sample};
use crate::golden;
use crate::telemetry::{RequestLabels, SelfMetrics};

mod hostile;

fn render(view: Sample, format: TextFormat, objects: ObjectSeries, limit: usize) -> String {
    let (metrics, dropped) = (SelfMetrics::new(), AtomicU64::new(0));
    metrics.requests.get_or_create_owned(&RequestLabels { path: "/metrics", code: 200 }).inc();
    Render::new(Arc::new(view), Arc::new(metrics), format, objects, limit, &dropped).into_text()
}

fn metrics() -> impl Iterator<Item = &'static Metric> {
    CATALOG.iter().map(|row| &row.metric)
}

/// The part of an exposition that is the same on every machine.
fn stable(text: &str) -> String {
    let end = text.find("# HELP loopwatch_build").expect("the build is always there");
    text[..end].to_owned()
}

#[test]
fn the_sample_matches_its_golden_files() {
    golden::check(
        "tests/golden/exposition.prom",
        &stable(&render(sample(), TextFormat::Text004, ObjectSeries::All, 500)),
    );
    golden::check(
        "tests/golden/exposition.openmetrics",
        &stable(&render(sample(), TextFormat::OpenMetrics, ObjectSeries::Unhealthy, 500)),
    );
}

/// The lines of the sample whose operator protects its metrics.
fn lines_of_protected(by_kernel: ProcessView, exports_protected: bool) -> Vec<String> {
    let mut view = sample();
    let instance = &mut view.snapshot.operator.instances[0];
    let (_, metrics) = instance.metrics.as_mut().expect("metrics");
    Arc::make_mut(metrics).protected = true;
    instance.by_kernel = by_kernel;

    let metrics = SelfMetrics { exports_protected, ..SelfMetrics::new() };
    let (format, objects) = (TextFormat::Text004, ObjectSeries::Unhealthy);
    let dropped = AtomicU64::new(0);
    let text =
        Render::new(Arc::new(view), Arc::new(metrics), format, objects, 500, &dropped).into_text();
    text.lines().filter(|line| line.starts_with("loopwatch_")).map(str::to_owned).collect()
}

fn has(lines: &[String], beginning: &str) -> bool {
    lines.iter().any(|line| line.starts_with(beginning))
}

const FROM_PROTECTED: [&str; 14] = [
    "loopwatch_reconciles_total",
    "loopwatch_reconcile_requeues_total",
    "loopwatch_reconcile_duration_seconds",
    "loopwatch_reconcile_longest_running_seconds",
    "loopwatch_queue_",
    "loopwatch_workers_",
    "loopwatch_operator_requests_total",
    "loopwatch_operator_scrape_series",
    "loopwatch_operator_memory_bytes",
    "loopwatch_operator_tasks",
    "loopwatch_operator_open_fds",
    "loopwatch_operator_cpu_seconds_total",
    "loopwatch_trend_slope",
    "loopwatch_time_to_exhaustion_seconds",
];

#[test]
fn numbers_that_the_operator_protects_are_left_out_unless_the_user_wants_them() {
    let withheld = "loopwatch_operator_metrics_withheld{";
    let lines = lines_of_protected(ProcessView::default(), false);
    let wanted = lines_of_protected(ProcessView::default(), true);
    for beginning in FROM_PROTECTED {
        assert!(!has(&lines, beginning), "{beginning}");
        assert!(has(&wanted, beginning), "{beginning}");
    }

    let value = |lines: &[String]| {
        lines.iter().find(|line| line.starts_with(withheld)).map(|line| line.ends_with(" 1"))
    };

    assert_eq!((value(&lines), value(&wanted)), (Some(true), Some(false)));

    // The conclusions stay, and the time that loopwatch itself has measured.
    for beginning in [
        "loopwatch_findings{",
        "loopwatch_operator_up",
        "loopwatch_operator_signal_available{",
        "loopwatch_operator_scrape_duration_seconds{",
    ] {
        assert!(has(&lines, beginning), "{beginning}");
    }

    let open = render(sample(), TextFormat::Text004, ObjectSeries::Unhealthy, 500);
    let open: Vec<String> = open.lines().map(str::to_owned).collect();
    assert_eq!(value(&open), Some(false));
    assert!(FROM_PROTECTED.iter().all(|beginning| has(&open, beginning)), "metrics for everybody");
}

#[test]
fn the_kernel_shows_a_process_whose_metrics_are_protected() {
    let kernel = ProcessView {
        anonymous: Some(270 << 20),
        threads: Some(14),
        open_fds: Some(38),
        ..ProcessView::default()
    };
    let lines = lines_of_protected(kernel, false);

    assert!(has(&lines, "loopwatch_operator_open_fds{"), "from the kernel");
    assert!(lines.iter().any(|line| line.contains(r#"type="anonymous""#)), "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains(r#"type="live_heap""#)), "from the metrics");
    assert!(!lines.iter().any(|line| line.contains(r#"type="goroutines""#)), "from the metrics");
}

#[test]
fn each_sign_that_the_operator_is_gone_has_a_series() {
    let exposition = |signs: &[DownSign]| {
        let mut view = sample();
        view.snapshot.operator.down_signs = signs.to_vec();

        let text = render(view, TextFormat::Text004, ObjectSeries::Unhealthy, 500);
        let lines = text.lines().filter(|line| line.starts_with("loopwatch_operator_down_info"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };

    assert_eq!(exposition(&[]), Vec::<String>::new());
    assert_eq!(
        exposition(&[DownSign::NoPodRuns, DownSign::ProcessEnded]),
        [
            "loopwatch_operator_down_info{sign=\"no_pod_runs\"} 1",
            "loopwatch_operator_down_info{sign=\"process_ended\"} 1"
        ]
    );
}

#[test]
fn an_independent_parser_reads_openmetrics() {
    for view in [sample(), empty()] {
        let text = render(view, TextFormat::OpenMetrics, ObjectSeries::All, 500);

        // The parser rejects units of histograms, although examples in the specification have them.
        let histograms: Vec<_> =
            metrics().filter(|metric| metric.kind == MetricType::Histogram).collect();
        let is_histogram = |line: &str| {
            histograms.iter().any(|metric| line.split(' ').nth(2) == Some(metric.name))
        };
        let text: String = text
            .split_inclusive('\n')
            .filter(|line| !line.starts_with("# UNIT") || !is_histogram(line))
            .collect();

        if let Err(error) = openmetrics_parser::openmetrics::parse_openmetrics(&text) {
            panic!("{error}");
        }
    }
}

#[test]
fn an_independent_parser_reads_the_older_format() {
    let text = render(sample(), TextFormat::Text004, ObjectSeries::All, 500);
    if let Err(error) = openmetrics_parser::prometheus::parse_prometheus(&text) {
        panic!("{error}");
    }

    assert!(!text.contains("# UNIT") && !text.contains("# EOF") && !text.contains(" info\n"));
}

/// Skipped where promtool is not installed.
#[test]
fn promtool_accepts_the_exposition() {
    let Ok(mut child) = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
    else {
        return;
    };

    let text = render(sample(), TextFormat::Text004, ObjectSeries::All, 500);
    child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("promtool reads");

    let output = child.wait_with_output().expect("promtool ends");
    let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);

    assert!(output.status.success(), "{said}");
}

#[test]
fn both_formats_hold_the_same_samples() {
    let samples = |format| {
        let text = render(sample(), format, ObjectSeries::All, 500);
        stable(&text)
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(samples(TextFormat::Text004), samples(TextFormat::OpenMetrics));
}

#[test]
fn chunks_add_up_to_the_whole() {
    let mut view = sample();
    let row = view.rows[0].clone();
    view.rows = (0..5000)
        .map(|index| ObjectRow { name: format!("object-{index}"), ..row.clone() })
        .collect();

    let view = Arc::new(view);
    let metrics = Arc::new(SelfMetrics::new());
    let dropped = AtomicU64::new(0);
    let new = || {
        Render::new(
            view.clone(),
            metrics.clone(),
            TextFormat::OpenMetrics,
            ObjectSeries::All,
            500,
            &dropped,
        )
    };

    let (mut render, mut text, mut largest) = (new(), String::new(), 0);
    while let Some(chunk) = render.next_chunk() {
        largest = largest.max(chunk.len());
        text.push_str(&chunk);
    }

    assert!(text.len() > 5_000_000 && text.ends_with("# EOF\n"), "{}", text.len());
    assert!(largest < 512 * 1024, "{largest}");
    assert!(stable(&text) == stable(&new().into_text()), "the same text");
}

#[test]
fn the_limit_holds_for_a_hundred_thousand_unhealthy_objects() {
    let mut view = sample();
    let row = view.snapshot.unhealthy[0].clone();
    view.snapshot.unhealthy = (0..100_000)
        .map(|index| ObjectRow { name: format!("hostile-{index}"), ..row.clone() })
        .collect();
    view.snapshot.unhealthy_dropped = 7;

    let text = render(view, TextFormat::Text004, ObjectSeries::Unhealthy, 500);
    let series = text
        .lines()
        .filter(|line| line.starts_with("loopwatch_object_unconverged_timestamp_seconds{"));

    assert_eq!(series.count(), 500);
    assert!(text.contains("loopwatch_dropped_total{limit=\"object_series\"} 99507\n"), "counted");
}

#[test]
fn an_empty_model_has_no_series() {
    let text = stable(&render(empty(), TextFormat::Text004, ObjectSeries::All, 500));
    let samples: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();

    assert_eq!(samples, ["loopwatch_dropped_total{limit=\"object_series\"} 0"]);
}

#[test]
fn families_are_in_the_order_of_the_catalog() {
    let text = render(sample(), TextFormat::Text004, ObjectSeries::All, 500);
    let written: Vec<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .map(|(name, _)| metrics().position(|metric| metric.name == name).expect("listed"))
        .collect();

    assert!(
        written.is_sorted() && written.windows(2).all(|pair| pair[0] != pair[1]),
        "{written:?}"
    );

    let counters = metrics().filter(|metric| metric.kind == MetricType::Counter).count();
    assert!(counters > 5);
}

/// Samples that `prometheus-client` writes follow the type of the metric in the code, not the type
/// in the catalog.
#[test]
fn samples_have_the_names_of_their_catalog_rows() {
    let text = render(sample(), TextFormat::Text004, ObjectSeries::All, 500);
    let mut row = None;
    for line in text.lines().filter(|line| !line.starts_with("# HELP")) {
        if let Some((name, _)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            row = metrics().find(|metric| metric.name == name);
            continue;
        }

        let row = row.expect("a row of the catalog");
        let suffix = line[..line.find(['{', ' ']).expect("a value")].strip_prefix(row.name);
        match row.kind {
            MetricType::Histogram => {
                assert!(matches!(suffix, Some("_bucket" | "_sum" | "_count")), "{line}")
            }
            MetricType::Counter | MetricType::Gauge | MetricType::Info => {
                assert_eq!(suffix, Some(""), "{line}")
            }
        }
    }

    for own in [
        "loopwatch_http_requests_total{",
        "loopwatch_render_seconds_count ",
        "loopwatch_channel_depth ",
    ] {
        assert!(text.contains(&format!("\n{own}")), "{own}");
    }
}

/// Any text that an API server or an attacker can send, with many quotes, line ends and replacement
/// characters.
fn hostile() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        proptest::collection::vec(
            prop_oneof![
                Just('"'),
                Just('\\'),
                Just('\n'),
                Just('\r'),
                Just('}'),
                Just(','),
                Just('='),
                Just('\u{fffd}'),
                Just('\u{0}'),
                Just('\u{202e}'),
                Just('#'),
                Just('n'),
                any::<char>()
            ],
            0..24
        )
        .prop_map(|characters| characters.into_iter().collect()),
    ]
}

proptest! {
    #[test]
    fn every_label_value_can_be_read_back(name in hostile(), namespace in hostile(), phase in hostile()) {
        let mut view = empty();
        let mut row = sample().rows[0].clone();
        (row.name, row.namespace, row.phase) = (name.clone(), namespace.clone(), phase.clone());
        row.state = ObjectState::Overdue;
        view.rows = vec![row];
        let text = render(view, TextFormat::Text004, ObjectSeries::All, 500);
        let line = text.split('\n').find(|line| line.starts_with("loopwatch_object_state{")).expect("one line");
        let read = labels(line);
        prop_assert_eq!(&read["name"], &name);
        prop_assert_eq!(&read["target_namespace"], &namespace);
        prop_assert_eq!(&read["state"], "overdue");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn every_finalizer_can_be_read_back(finalizer in hostile()) {
        let mut view = sample();
        for kind in &mut view.snapshot.kinds {
            let summaries = std::mem::take(&mut kind.finalizers).into_values();
            kind.finalizers = summaries.map(|summary| (finalizer.as_str().into(), summary)).collect();
        }
        let text = render(view, TextFormat::Text004, ObjectSeries::All, 500);
        let lines: Vec<_> = text.split('\n').filter(|line| line.starts_with("loopwatch_finalizer_")).collect();
        prop_assert!(lines.len() > 5);
        for line in lines {
            prop_assert_eq!(&labels(line)["finalizer"], &finalizer, "{}", line);
        }
    }
}

/// Reads labels as the format's specification says, independently of the encoder.
fn labels(line: &str) -> std::collections::BTreeMap<String, String> {
    let mut labels = std::collections::BTreeMap::new();
    let mut rest = &line[line.find('{').expect("labels") + 1..];
    while !rest.starts_with('}') {
        let (name, after) = rest.split_once("=\"").expect("a label");
        let mut value = String::new();
        let mut characters = after.char_indices();
        let end = loop {
            match characters.next().expect("a closing quote") {
                (at, '"') => break at,
                (_, '\\') => match characters.next().expect("an escape").1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                (_, other) => value.push(other),
            }
        };

        labels.insert(name.trim_start_matches(',').to_owned(), value);
        rest = &after[end + 1..];
    }

    labels
}
