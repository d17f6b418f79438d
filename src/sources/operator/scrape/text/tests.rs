use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::*;

/// Limits that a test can reach.
const SMALL: TextLimits = TextLimits { bytes: 4096, lines: 40, line: 256, vain: 1024 };

type Read = (String, Vec<(String, String)>, String);

/// Takes every sample of the names that it wants.
#[derive(Default)]
struct Collected {
    samples: Vec<Read>,
    /// Names that it does not want.
    ignored: BTreeSet<&'static str>,
    asked: usize,
}

impl SampleSink for Collected {
    fn wants(&mut self, name: &str) -> bool {
        self.asked += 1;
        !self.ignored.contains(name)
    }

    fn sample(&mut self, sample: &Sample<'_>) -> Result<(), Problem> {
        // As text, because NaN is not equal to itself.
        self.samples.push((sample.name.to_owned(), sample.labels.all(), sample.value.to_string()));
        Ok(())
    }
}

fn read_in(
    chunks: &[&[u8]],
    limits: TextLimits,
    openmetrics: bool,
) -> (Collected, Result<Report, Failure>) {
    let (mut text, mut sink) = (TextParser::new(limits, openmetrics), Collected::default());
    for chunk in chunks {
        let result = text.push(chunk, &mut sink);
        assert!(
            text.unfinished.capacity() <= 2 * limits.line.max(64),
            "{} bytes",
            text.unfinished.capacity()
        );

        if let Err(failure) = result {
            return (sink, Err(failure));
        }
    }

    let report = text.finish(&mut sink);
    (sink, report)
}

fn read(text: impl AsRef<[u8]>) -> (Collected, Result<Report, Failure>) {
    read_in(&[text.as_ref()], LIMITS, false)
}

fn sample(name: &str, labels: &[(&str, &str)], value: f64) -> Read {
    let labels =
        labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    (name.to_owned(), labels, value.to_string())
}

#[test]
fn lines_of_both_formats() {
    let cases: [(&[u8], Read); 19] = [
        (b"up 1", sample("up", &[], 1.0)),
        (b"up{} 1", sample("up", &[], 1.0)),
        (b"  up \t 1 \r", sample("up", &[], 1.0)),
        (b"job:rate:5m 0.5", sample("job:rate:5m", &[], 0.5)),
        (b"up 1 1395066363000", sample("up", &[], 1.0)),
        (b"up 1 1395066363.25", sample("up", &[], 1.0)),
        (b"up -3.14e-7 -3982045", sample("up", &[], -3.14e-7)),
        (b"up +Inf", sample("up", &[], f64::INFINITY)),
        (b"up -Inf", sample("up", &[], f64::NEG_INFINITY)),
        (b"up NaN", sample("up", &[], f64::NAN)),
        (b"up{a=\"b\"} 1", sample("up", &[("a", "b")], 1.0)),
        (b"up{a=\"b\",} 1", sample("up", &[("a", "b")], 1.0)),
        (b"up { a = \"b\" , c = \"d\" } 1", sample("up", &[("a", "b"), ("c", "d")], 1.0)),
        (
            b"up{a=\"x,y=z}\",b=\"q\\\"r\\\\\\n\\d\"} 1",
            sample("up", &[("a", "x,y=z}"), ("b", "q\"r\\\n\\d")], 1.0),
        ),
        (b"up{a=\"\xff\xc3\xa4\"} 1", sample("up", &[("a", "\u{fffd}ä")], 1.0)),
        (b"up 1 # {trace_id=\"abc\"} 0.5", sample("up", &[], 1.0)),
        (b"up{a=\"b\"} 1 2.5 # {trace_id=\"}\"} 0.5 3.5", sample("up", &[("a", "b")], 1.0)),
        (b"{\"my.metric\",\"my.label\"=\"x\"} 1", sample("my.metric", &[("my.label", "x")], 1.0)),
        (b"{a=\"b\",\"up\"} 1", sample("up", &[("a", "b")], 1.0)),
    ];
    for (line, expected) in cases {
        let (collected, report) = read(line);
        let text = String::from_utf8_lossy(line);

        assert_eq!(collected.samples, [expected], "{text}");
        assert_eq!(report.map(|report| (report.series, report.skipped)), Ok((1, 0)), "{text}");
    }
}

#[test]
fn malformed_lines_do_not_hide_others() {
    let many = format!("up{{{}}} 1", (0..65).map(|n| format!("l{n}=\"\",")).collect::<String>());
    let cases = [
        ("up", Problem::NoValue),
        ("up{a=\"b\"}", Problem::NoValue),
        ("up one", Problem::Value),
        ("up 0x1p", Problem::Value),
        ("up 1 yesterday", Problem::Trailing),
        ("up 1 2 3", Problem::Trailing),
        ("9up 1", Problem::Name),
        ("up.down 1", Problem::Name),
        ("{a=\"b\"} 1", Problem::Name),
        ("{\"up\",\"down\"} 1", Problem::Name),
        ("up{\"down\"} 1", Problem::Name),
        ("up{a=\"b\" 1", Problem::Labels),
        ("up{a=\"b} 1", Problem::Labels),
        ("up{a=b} 1", Problem::Labels),
        ("up{a} 1", Problem::Labels),
        ("up{a=\"b\"c=\"d\"} 1", Problem::Labels),
        ("up{=\"b\"} 1", Problem::Labels),
        ("up{a=\"b\\", Problem::Labels),
        ("käse 1", Problem::Name),
        ("\u{1}\u{2}\u{3}", Problem::Name),
        (&many, Problem::TooManyLabels),
    ];

    for (line, problem) in cases {
        let (collected, report) =
            read(format!("# HELP before x\nbefore 1\n{line}\nafter{{a=\"b\"}} 2\n"));

        assert_eq!(
            collected.samples,
            [sample("before", &[], 1.0), sample("after", &[("a", "b")], 2.0)],
            "{line}"
        );

        let report = report.expect("two series");
        assert_eq!(
            (report.series, report.skipped, report.problem),
            (2, 1, Some((3, problem))),
            "{line}"
        );
    }
}

#[test]
fn a_response_without_metrics_says_what_it_is() {
    let cases: [(&[u8], &str); 9] = [
        (
            b"\n <!doctype html><html>\n<body>up 1</body>",
            "it is an HTML or XML page, for example of a login or a proxy",
        ),
        (b"\x1f\x8b\x08\0\0\0\n\0", "it is compressed, although loopwatch did not ask for that"),
        (b"\x0a\x05\x00up", "it is not text"),
        (b"up\0 1\n", "it is not text"),
        (b"Unauthorized\n", "line 1: the series has no value"),
        (b"404 page not found\n", "line 1: the name of the metric is missing or invalid"),
        (b"{\"kind\":\"Status\",\"code\":403}", "line 1: the labels are malformed"),
        (b"no metrics here\nnor here\n", "line 1: the value is not a number"),
        (b"\xff\xfeu\0p\0", "it is not text"),
    ];

    for (text, expected) in cases {
        let failure = read(text).1.expect_err(expected);
        let expected = format!("the response contains no metrics: {expected}");

        assert_eq!((failure.cause, failure.detail), (Cause::Undecodable, expected));
    }

    for text in ["", "\n", "# HELP up Whether it is up.\n", "# EOF\n"] {
        assert_eq!(
            read(text).1.map(|report| (report.series, report.skipped)),
            Ok((0, 0)),
            "{text:?}"
        );
    }
}

#[test]
fn the_end_marker_may_be_missing() {
    let problem = |text: &str, openmetrics| {
        read_in(&[text.as_bytes()], LIMITS, openmetrics).1.expect("text").problem
    };

    assert_eq!(problem("up 1\n# EOF\n", true), None);
    assert_eq!(problem("up 1\n# EOF", true), None);
    assert_eq!(problem("up 1\n", true), Some((1, Problem::NoEnd)));
    assert_eq!(problem("up 1\n", false), None);

    let (collected, report) = read_in(&[b"\xef\xbb\xbfup 1\r\n# EOF\r\nafter 2"], LIMITS, true);
    assert_eq!(
        (collected.samples.len(), report.expect("text").problem),
        (2, None),
        "some endpoints join two texts"
    );
}

#[test]
fn limits_hold() {
    let failure = |text: &str| read_in(&[text.as_bytes()], SMALL, false).1.expect_err("a limit");
    assert_eq!(failure(&"up 1\n".repeat(41)).detail, "the metrics have more than 40 lines");

    let long = format!("{} 1\n", "u".repeat(250));
    let large = failure(&long.repeat(20));

    assert_eq!(
        (large.cause, large.detail.as_str()),
        (Cause::TooLarge, "the metrics are larger than 0 MiB")
    );
    assert_eq!(
        failure(&"u".repeat(300)).detail,
        "the response contains no metrics: line 1: the line is longer than 64 KiB"
    );

    assert_eq!(failure(&"bad line\n".repeat(39)).cause, Cause::Undecodable);

    let too_long = format!("up 1\n{}\nup 2\n", "u".repeat(300));
    let report = read_in(&[too_long.as_bytes()], SMALL, false).1.expect("two series");

    assert_eq!((report.series, report.lines, report.problem), (2, 3, Some((2, Problem::LongLine))));
}

#[test]
fn series_of_one_name_ask_once() {
    let text = "a{x=\"1\"} 1\na{x=\"2\"} 2\na_b 3\nb 4\nb{bad 5\nb 6\na 7\n";
    let mut sink = Collected { ignored: ["b"].into(), ..Collected::default() };
    let mut parser = TextParser::new(LIMITS, false);
    parser.push(text.as_bytes(), &mut sink).expect("text");

    assert_eq!(
        parser.finish(&mut sink).map(|report| report.series),
        Ok(7),
        "it skips lines of `b` without a look"
    );
    assert_eq!((sink.asked, sink.samples.len()), (4, 4));
}

/// The files of `tests/scrapes`, with whether they are OpenMetrics.
fn scrapes() -> Vec<(String, String, bool)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scrapes");
    let files = fs::read_dir(folder).expect("scrapes").map(|entry| entry.expect("an entry").path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension != "md"));
    let scrape = |path: std::path::PathBuf| {
        let name = path.to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).expect("a scrape");
        let openmetrics = name.ends_with(".om");
        (name, text, openmetrics)
    };

    files.map(scrape).collect()
}

#[test]
fn real_text_reads_as_another_parser_reads_it() {
    for (name, text, _) in scrapes() {
        let ours: Vec<_> =
            read(&text).0.samples.into_iter().map(|(name, _, value)| (name, value)).collect();
        let theirs =
            text.lines().filter_map(|line| match prometheus_parse::LineInfo::parse(line) {
                prometheus_parse::LineInfo::Sample { metric_name, value, .. } => Some((
                    metric_name.to_owned(),
                    value.parse::<f64>().expect("a number").to_string(),
                )),
                _ => None,
            });

        let theirs = theirs.collect::<Vec<_>>();
        assert!(ours.len() > 10, "{name}");
        assert_eq!(ours, theirs, "{name}");
    }
}

/// Series in a fixed order, with sorted labels. The other parser writes `le="10.0"` as `le="10"`.
fn sorted(samples: Vec<Read>) -> BTreeSet<Read> {
    let sort = |(name, mut labels, value): Read| {
        labels.sort();
        for (_, bound) in
            labels.iter_mut().filter(|(label, _)| label == "le" || label == "quantile")
        {
            *bound =
                bound.parse::<f64>().map_or_else(|_| bound.clone(), |number| number.to_string());
        }

        (name, labels, value)
    };
    samples.into_iter().map(sort).collect()
}

#[test]
fn labels_and_values_survive_another_parser() {
    // It refuses counters without `_total`, which this text has.
    let refused = |name: &str| name.ends_with("knative-2024.prom");
    for (name, text, _) in
        scrapes().into_iter().filter(|(name, _, openmetrics)| !openmetrics && !refused(name))
    {
        // That parser does not know quotes in descriptions.
        let plain: String =
            text.split_inclusive('\n').filter(|line| !line.starts_with("# HELP")).collect();
        let exposition = openmetrics_parser::prometheus::parse_prometheus(&plain);
        let rendered = exposition.map(|exposition| exposition.to_string());
        let rendered = rendered.unwrap_or_else(|error| panic!("{name}: {error}"));
        let (ours, theirs) = (sorted(read(&text).0.samples), sorted(read(&rendered).0.samples));
        let missing: Vec<_> = ours.difference(&theirs).take(5).collect();

        assert!(missing.is_empty(), "{name}: {missing:?}");
    }
}

/// Pieces of metrics, whole and broken.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let lines = [
        "up 1\n",
        "up{a=\"b\"} 2\r\n",
        "up{a=\"\\\"}\",} NaN 5\n",
        "other_total{x=\"y\"} 3 # {t=\"u\"} 1\n",
        "# EOF\n",
        "# x\n",
        "up{a=\"b\" 1\n",
        "up",
        "{",
        "}",
        "\"",
        "\\",
        ",",
        "=",
        " ",
        "\n",
        "\n\n",
        "{\"q\",a=\"b\"} 4\n",
        "<html>",
        "1",
        "#",
    ];
    prop_oneof![
        8 => prop::sample::select(lines.to_vec()).prop_map(|line| line.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..20),
        1 => (1usize..400).prop_map(|length| vec![b'u'; length]),
    ]
}

proptest! {
    #[test]
    fn the_result_does_not_depend_on_the_chunks(
        pieces in prop::collection::vec(piece(), 0..60),
        cuts in prop::collection::vec(1usize..50, 0..200),
        openmetrics: bool,
    ) {
        let bytes = pieces.concat();
        let (whole, expected) = read_in(&[&bytes], SMALL, openmetrics);
        let (mut rest, mut chunks) = (&bytes[..], Vec::new());
        for cut in cuts {
            let (chunk, after) = rest.split_at(cut.min(rest.len()));
            chunks.push(chunk);
            rest = after;
        }
        chunks.push(rest);
        let (parts, result) = read_in(&chunks, SMALL, openmetrics);
        prop_assert_eq!(parts.samples, whole.samples);
        prop_assert_eq!(result, expected);
        let (_, with_real_limits) = read_in(&chunks, LIMITS, openmetrics);
        if let Ok(report) = with_real_limits {
            prop_assert!(report.series + report.skipped <= report.lines);
        }
    }

    #[test]
    fn written_labels_read_back(values in prop::collection::vec("\\PC*|[\"\\\\\n{},=# ]*", 0..6), value: f64) {
        let escape = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let labels: Vec<_> = values.iter().enumerate().map(|(n, value)| (format!("l{n}"), value.clone())).collect();
        let inside: Vec<_> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escape(value))).collect();
        let (collected, _) = read(format!("up{{{}}} {value}\n", inside.join(",")));
        prop_assert_eq!(collected.samples, [("up".to_owned(), labels, value.to_string())]);
    }
}
