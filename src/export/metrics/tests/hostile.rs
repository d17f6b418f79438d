//! Metrics of an operator with numbers and names that no operator has, through the model to every
//! output.

use std::fs;
use std::path::Path;

use loopwatch_model::model::Model;
use loopwatch_model::observation::{Observation, ProcessView, SourceId};
use loopwatch_model::settings::Settings;
use loopwatch_model::time::{Span, Timestamp};

use super::*;
use crate::export::presentation::{json, page};
use crate::sources::operator::intake;

/// Values at the ends of the ranges of floating-point numbers and of integers, and values that are
/// not numbers.
const VALUES: [&str; 11] = [
    "0",
    "1",
    "-1",
    "NaN",
    "+Inf",
    "-Inf",
    "1e308",
    "9223372036854774784",
    "18446744073709551615",
    "4503599627370497",
    "1e-320",
];

/// The files of `tests/scrapes` with other values, and with a controller name that would break the
/// output formats.
fn scrapes(first: usize) -> impl Iterator<Item = String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scrapes");
    let files = fs::read_dir(folder).expect("scrapes").map(|entry| entry.expect("an entry").path());
    files.filter(|path| path.extension().is_some_and(|extension| extension != "md")).map(
        move |path| {
            let text = fs::read_to_string(path).expect("a scrape");
            let line = |(number, line): (usize, &str)| match line.rsplit_once(' ') {
                Some((series, _)) if !line.starts_with('#') => {
                    let value = VALUES[if first < VALUES.len() {
                        first
                    } else {
                        (number * 7 + first) % VALUES.len()
                    }];

                    format!("{series} {value}\n")
                }
                _ => format!("{line}\n"),
            };

            text.lines().enumerate().map(line).collect()
        },
    )
}

#[test]
fn numbers_that_no_operator_has_reach_every_output() {
    let mut model = Model::new(Settings::default());
    let mut at = Timestamp(1_700_000_000_000);
    for round in 0..40 {
        for (number, text) in scrapes(round).enumerate() {
            at = at.after(Span::secs(10));
            let Some(mut view) = intake::read([text.as_bytes()]) else { continue };
            view.instance = format!("team-a/operator-{number}");
            view.process.instance.clone_from(&view.instance);
            view.interval = Span::secs(10);

            let process = ProcessView { open_fds: Some(u64::MAX), ..view.process.clone() };
            model.apply(at, Observation::MetricsScraped(Box::new(view)));
            model.apply(at, Observation::ProcessSeen(Box::new(process)));
        }

        model.apply(at, Observation::SourceRecovered { source: SourceId::Metrics });
        let sample = Sample { snapshot: model.snapshot(), rows: Vec::new() };
        let _ = page::render(
            &sample.snapshot,
            &loopwatch_model::snapshot::RecentPast::default(),
            &crate::export::view::Input::default(),
            page::Wish::default(),
        );

        let _ = serde_json::to_string(&json::operator(&sample.snapshot.operator)).expect("JSON");
        let text = render(sample, TextFormat::Text004, ObjectSeries::All, 500);
        prometheus_parse::Scrape::parse(text.lines().map(|line| Ok(line.to_owned())))
            .expect("text");
    }
}
