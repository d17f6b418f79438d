use loopwatch_model::time::Span;

use super::*;
use crate::export::sample::sample;
use crate::golden;

#[test]
fn the_shapes_match_their_golden_files() {
    let sample = sample();
    let input = Input::default();
    let check_all = check(&sample.snapshot, Some(&sample.rows), &input, None);
    let (at, within) = (sample.snapshot.at, Some(Span::mins(10)));
    let last = Some(at.before(Span::secs(20)));
    let scrapes = Scrapes { since: at.before(Span::hours(1)), last, expected_within: within };

    for (path, value) in [
        (
            "tests/golden/findings.json",
            serde_json::to_string_pretty(&findings(
                &sample.snapshot,
                sample.snapshot.findings.len(),
                None,
            )),
        ),
        (
            "tests/golden/objects.json",
            serde_json::to_string_pretty(&objects(&sample.rows[..2], Some("2".to_owned()))),
        ),
        (
            "tests/golden/status.json",
            serde_json::to_string_pretty(&status(&sample.snapshot, &input, &scrapes)),
        ),
        ("tests/golden/check.json", serde_json::to_string_pretty(&check_all)),
    ] {
        golden::check(path, &(value.expect("plain data") + "\n"));
    }
}

#[test]
fn items_are_absent_unless_all_objects_are_requested() {
    let sample = sample();
    let text = serde_json::to_value(check(&sample.snapshot, None, &Input::default(), None))
        .expect("plain data");

    assert!(text.get("items").is_none());
    assert_eq!(text["objects"]["/Pod"]["converged"], 1211);
}
