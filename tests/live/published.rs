//! Unmodified published operators, observed by loopwatch.

mod cert_manager;
mod rabbitmq;
pub(crate) mod work;
pub(crate) mod works;

use libtest_mimic::Trial;
use serde_json::json;

use crate::bed::test;
use loopwatch_testbed::sidecar::Sidecar;

/// The tests of this file. Only cert-manager is a part of the default tests.
pub(crate) fn trials() -> Vec<Trial> {
    let own_story = [
        test("published::cert_manager", cert_manager::run),
        test("published::rabbitmq", rabbitmq::run).with_ignored_flag(true),
    ];

    own_story.into_iter().chain(work::trials()).collect()
}

/// Expects that loopwatch never reported anything except the findings `true_anyway`.
fn expect_no_finding(name: &str, sidecar: &Sidecar, true_anyway: &[&str], lag: &str) {
    let mut found = sidecar.opened();
    found.retain(|(code, _)| !true_anyway.contains(&code.as_str()));
    eprintln!(
        "{name}: {} observations, {} objects, {} obligations converged; found {}; {lag}",
        total(sidecar, "loopwatch_observations_total", ""),
        total(sidecar, "loopwatch_objects{", ""),
        outcomes(sidecar, "converged"),
        found.len(),
    );

    assert!(
        found.is_empty(),
        "loopwatch reported findings for a healthy operator: {found:?}\n{}",
        sidecar.account()
    );

    let status = sidecar.status().unwrap_or_default();
    assert_eq!(status["not_visible"], json!([]), "{status}");
}

/// Expects that every obligation ended well.
fn expect_good_outcomes(sidecar: &Sidecar) {
    let bad = ["late", "rejected", "unknown"].map(|outcome| outcomes(sidecar, outcome));
    assert_eq!(bad, [0.0; 3], "late, rejected, unknown\n{}", sidecar.account());
}

fn outcomes(sidecar: &Sidecar, outcome: &str) -> f64 {
    total(sidecar, "loopwatch_obligations_total{", &format!("outcome=\"{outcome}\""))
}

/// The sum of all series that begin with `series` and contain `label`.
fn total(sidecar: &Sidecar, series: &str, label: &str) -> f64 {
    let text = sidecar.metrics().unwrap_or_default();
    let lines = text.lines().filter(|line| line.starts_with(series) && line.contains(label));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}
