//! How long it takes from a fault of the operator until Alertmanager notifies somebody, with the default settings of loopwatch
//! and the example configuration of Alertmanager.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Watched, secs};
use crate::alertmanager::{Alertmanager, wait_posted_within};
use loopwatch_testbed::wait::pause;
use loopwatch_testbed::webhook::Webhook;

/// The time that the best known tool takes, according to its documentation: 2.4 minutes.
const QUOTED: Duration = Duration::from_secs(144);

/// Replicas of the operator, loopwatch with default settings, and an Alertmanager.
struct Paged {
    all: Watched,
    webhook: Webhook,
    _alertmanager: Alertmanager,
}

// === impl Paged ===

impl Paged {
    fn start(namespace: &'static str, replicas: u8) -> Self {
        let webhook = Webhook::listen();
        let alertmanager = Alertmanager::start_patient(&format!("{namespace}.alertmanager"), &webhook);
        let flags = [format!("--alertmanager=http://127.0.0.1:{}", alertmanager.port)];
        let all = Watched::with_flags(namespace, replicas, json!({}), &flags);
        for name in ["one", "two"] {
            all.make("Widget", name);
        }
        Self { all, webhook, _alertmanager: alertmanager }
    }

    /// Waits for the first notification about any finding, which must be this one.
    fn expect_notification(&self, fault: Instant, finding: &str) {
        let is_finding = |labels: &Value| labels["finding"].is_string();
        let alert = wait_posted_within(QUOTED * 2, &self.webhook, "firing", is_finding);
        let took = fault.elapsed();
        eprintln!("times: {finding} was received {:.0} s after the fault", took.as_secs_f64());
        assert_eq!(alert["labels"]["finding"], finding, "{alert}");
        assert!(took < QUOTED, "{took:?}");
    }
}

pub(super) fn killed() {
    let mut paged = Paged::start("times-killed", 2);
    let fault = Instant::now();
    paged.all.kill(0);
    paged.all.kill(1);
    paged.expect_notification(fault, "OperatorDown");
}

pub(super) fn out_of_memory() {
    let mut paged = Paged::start("times-memory", 1);
    let fault = Instant::now();
    for _ in 0..3 {
        let replica = &mut paged.all.replicas.all[0];
        replica.operator.fault("OutOfMemory?size=8Mi&delay=100ms");
        assert_eq!(replica.wait_end(secs(10), true), 137);
        replica.pod.backs_off();
        pause(secs(1));
        replica.restart();
    }
    paged.all.kill(0);
    paged.expect_notification(fault, "StartupOutOfMemory");
}

pub(super) fn panics() {
    let paged = Paged::start("times-panics", 1);
    let fault = Instant::now();
    paged.all.replicas.all[0].operator.fault("ReconcilePanicking?kind=Widget&name=one");
    paged.all.kube.change("Widget", "times-panics", "one", json!({"size": 2}));
    paged.expect_notification(fault, "ReconcilePanicking");
}
