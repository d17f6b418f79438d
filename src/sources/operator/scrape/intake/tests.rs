use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::*;

fn intake(content_type: Option<&str>) -> Intake {
    Intake::new("team-a/operator-0".to_owned(), content_type)
}

fn scrape(content_type: Option<&str>, chunks: &[&[u8]]) -> Result<MetricsView, Failure> {
    let mut intake = intake(content_type);
    for chunk in chunks {
        intake.push(chunk)?;
    }

    intake.finish(Span(7))
}

#[test]
fn a_view_says_what_was_read_and_what_could_not_be() {
    let text = "process_open_fds 3\nprocess_max_fds many\nprocess_max_fds 9\nprocess_open_fds 3\n";
    let view = scrape(None, &[text.as_bytes()]).expect("metrics");

    assert_eq!(
        (view.instance.as_str(), view.process.instance.as_str()),
        ("team-a/operator-0", "team-a/operator-0")
    );
    assert_eq!((view.series, view.bytes, view.took), (2, text.len() as u64, Span(7)));
    assert_eq!(
        (view.lines_skipped, view.problem.as_str()),
        (2, "line 2: the value is not a number")
    );
    assert_eq!((view.process.open_fds, view.process.max_fds), (Some(3), Some(9)));
}

#[test]
fn a_repeated_family_does_not_double_its_counters() {
    let text = "workqueue_adds_total{name=\"a\"} 5\nworkqueue_adds_total{name=\"b\"} 1\n";
    let view =
        scrape(None, &[text.as_bytes(), b"# TYPE workqueue_adds_total counter\n", text.as_bytes()])
            .expect("metrics");

    assert_eq!(view.controllers[0].queue_adds, Some(5));
    assert_eq!((view.series, view.lines_skipped), (2, 2));
    assert_eq!(view.problem, "line 4: the series has occurred before");
}

#[test]
fn the_content_type_decides_about_the_end_marker() {
    let problem = |content_type, text: &str| {
        scrape(content_type, &[text.as_bytes()]).expect("metrics").problem
    };
    let openmetrics = Some("Application/OpenMetrics-TextParser; version=1.0.0; charset=utf-8");
    let missing = "line 1: the end marker `# EOF` is missing, so the metrics may be incomplete";

    assert_eq!(problem(openmetrics, "up 1\n"), missing);
    assert_eq!(problem(openmetrics, "up 1\n# EOF\n"), "");

    for content_type in [Some("text/plain; version=0.0.4"), Some("text/html"), None] {
        assert_eq!(problem(content_type, "up 1\n"), "", "{content_type:?}");
    }
}

#[test]
fn a_failure_lasts() {
    let mut html = intake(Some("text/plain"));
    let failure = html.push(b"<html>\n").expect_err("a page");

    assert_eq!(html.push(b"up 1\n"), Err(failure.clone()));
    assert_eq!(html.finish(Span(7)), Err(failure));

    let protobuf = Some("application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily");
    let failure = scrape(protobuf, &[b"up 1\n"]).expect_err("protobuf");

    assert_eq!(failure.cause, Cause::Undecodable);
    assert_eq!(failure.detail, "the response is protobuf, although loopwatch asked for text");
}

/// The files of `tests/scrapes`.
fn scrapes() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scrapes");
    let files = fs::read_dir(folder).expect("scrapes").map(|entry| entry.expect("an entry").path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension != "md"));
    files.map(|path| fs::read(path).expect("a scrape")).collect()
}

#[test]
fn real_metrics_have_no_problem() {
    for text in scrapes() {
        let view = scrape(None, &[&text]).expect("metrics");
        assert_eq!(
            (view.problem.as_str(), view.lines_skipped),
            ("", 0),
            "{}",
            String::from_utf8_lossy(&text[..200])
        );
    }
}

/// Damage to real text: the position (in thousandths of the length), the number of bytes to
/// replace, and their replacement.
type Damage = (usize, usize, Vec<u8>);

fn damaged(mut text: Vec<u8>, damages: &[Damage]) -> Vec<u8> {
    for (place, length, bytes) in damages {
        let from = text.len() * place / 1000;
        let to = (from + length).min(text.len());
        text.splice(from..to, bytes.iter().copied());
    }

    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_damage_in_any_chunks_gives_one_result(
        file in 0usize..14,
        damages in prop::collection::vec((0usize..1000, 0usize..400, prop::collection::vec(any::<u8>(), 0..40)), 0..20),
        chunk in 1usize..5000,
    ) {
        let mut files = scrapes();
        let text = damaged(files.swap_remove(file % files.len()), &damages);
        let whole = scrape(None, &[&text]);
        let parts = scrape(None, &text.chunks(chunk).collect::<Vec<_>>());
        prop_assert_eq!(&whole, &parts);
        if let Ok(view) = whole {
            prop_assert!(view.controllers.iter().all(|controller| controller.name.len() <= 253));
            prop_assert_eq!(view.lines_skipped > 0, !view.problem.is_empty());
        }
    }
}
