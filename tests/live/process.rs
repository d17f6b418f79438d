//! loopwatch reads the operator's process.

use std::time::Duration;

use libtest_mimic::Trial;

use crate::bed::{bed, test};
use loopwatch_testbed::operator::{ACCOUNT, NAMESPACE, Operator};
use loopwatch_testbed::sidecar::{Sidecar, quick};

pub(crate) fn trials() -> Vec<Trial> {
    vec![test("process::named", named)]
}

/// A process that a flag names is read every few seconds. Its end makes the source fail; without
/// the flag, outside of a Pod, the source is off, which is not a problem.
fn named() {
    let plane = bed();
    plane.kube.namespace("process-named");

    let mut operator = Operator::start(plane, "process-named-operator", "process-named", &[]);
    let kubeconfig =
        plane.kubeconfig_of("process-named.kubeconfig", &plane.url, NAMESPACE, ACCOUNT);
    let pid = format!("--pid={}", operator.process.id());
    let flags = ["--namespace=process-named", pid.as_str()];
    let loopwatch = Sidecar::start(plane, "process-named", &kubeconfig, &quick(), &flags);
    let samples = || loopwatch.metric("loopwatch_observations_total{source=\"process\"}");

    loopwatch.expect(Duration::from_secs(40), "the process is read twice", || match samples()? {
        count if count >= 2.0 => Ok(()),
        count => Err(count.to_string()),
    });
    let source = loopwatch.source("process").unwrap_or_else(|error| panic!("{error}"));

    assert!(source["up"] == true && source["off"].is_null(), "{source}");

    operator.process.kill();
    loopwatch.expect_finding(Duration::from_secs(40), "SourceFailing", "Source", "process");

    let plain = Sidecar::start(plane, "process-off", &kubeconfig, &quick(), &flags[..1]);
    plain.expect(Duration::from_secs(20), "the source is off", || {
        let source = plain.source("process")?;
        let reason = source["off"].as_str().unwrap_or_default().to_owned();
        if source["up"] == true && reason.contains("--pid") {
            Ok(())
        } else {
            Err(source.to_string())
        }
    });

    assert!(
        !plain.opened().iter().any(|(code, on)| code == "SourceFailing" && on.contains("process"))
    );
}
