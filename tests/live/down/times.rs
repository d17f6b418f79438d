//! How long it takes from a fault of the operator until Alertmanager notifies somebody, with the
//! default settings of loopwatch, the bundled rules and the examples for Prometheus and
//! Alertmanager. `docs/alerts.md` has the results in a table.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Watched, secs};
use crate::alertmanager::{Alertmanager, posted_to};
use crate::prometheus::Prometheus;
use loopwatch_testbed::bundled::Pace;
use loopwatch_testbed::wait::{eventually, pause};
use loopwatch_testbed::webhook::Webhook;

/// The time that the best known tool takes, according to its documentation: 2.4 minutes.
const QUOTED: Duration = Duration::from_secs(144);

/// How long a kubelet waits before it starts a container again: not at all, and then longer and
/// longer.
const BACKOFFS: [Duration; 3] = [Duration::ZERO, secs(10), secs(20)];

/// Replicas of the operator, loopwatch with default settings, and both ways to a page: one
/// Alertmanager to which loopwatch posts, and one behind Prometheus.
struct Paged {
    all: Watched,
    ways: [(&'static str, Webhook, Alertmanager); 2],
    _prometheus: Prometheus,
}

impl Paged {
    fn start(namespace: &'static str, replicas: u8) -> Self {
        let ways = ["directly", "through Prometheus"].map(|way| {
            let webhook = Webhook::listen();
            let name = format!("{namespace}.{}", way.split(' ').next_back().unwrap_or_default());
            let alertmanager = Alertmanager::start_example(&name, &webhook, None);
            (way, webhook, alertmanager)
        });

        let flags = [format!("--alertmanager=http://127.0.0.1:{}", ways[0].2.port)];
        let all = Watched::with_flags(namespace, replicas, json!({}), &flags);
        let target = (namespace, "loopwatch", all.sidecar.port);
        let name = format!("{namespace}.prometheus-server");
        let prometheus =
            Prometheus::start_with(&name, Pace::Shipped, &[target], Some(ways[1].2.port));

        for name in ["one", "two"] {
            all.make("Widget", name);
        }

        Self { all, ways, _prometheus: prometheus }
    }

    /// A container ends and starts again, as long as the kubelet waits. `end` ends it.
    fn crash_again_and_again(&mut self, mut end: impl FnMut(&mut Watched)) {
        for backoff in BACKOFFS {
            end(&mut self.all);
            if !backoff.is_zero() {
                self.all.replicas.all[0].pod.backs_off();
            }

            pause(backoff);
            self.all.replicas.all[0].restart();
            pause(secs(1));
        }

        end(&mut self.all);
        self.all.replicas.all[0].pod.backs_off();
    }

    /// Waits until both ways have notified `receiver` of this finding, and of no other one before
    /// it.
    fn expect_notifications(&self, fault: Instant, receiver: &str, finding: &str) {
        let mut received = [None; 2];
        eventually(QUOTED * 2, "both ways notify of the fault", || {
            for (at, (way, webhook, _)) in received.iter_mut().zip(&self.ways) {
                let posted = posted_to(webhook, receiver);
                let is_firing = |alert: &&Value| {
                    alert["status"] == "firing" && alert["labels"]["finding"].is_string()
                };
                if let (None, Some(alert)) = (*at, posted.iter().find(is_firing)) {
                    assert_eq!(alert["labels"]["finding"], finding, "{alert}");

                    eprintln!(
                        "times: {finding} was received {way} {:.0} s after the fault",
                        fault.elapsed().as_secs_f64()
                    );
                    *at = Some(fault.elapsed());
                }
            }

            let [Some(_), Some(_)] = received else { return Err(format!("{received:?}")) };
            Ok(())
        });

        assert!(received.into_iter().flatten().all(|took| took < QUOTED), "{received:?}");
    }
}

pub(super) fn killed() {
    let mut paged = Paged::start("times-killed", 2);
    let fault = Instant::now();
    paged.all.kill(0);
    paged.all.kill(1);
    paged.expect_notifications(fault, "pager", "OperatorDown");
}

pub(super) fn crash_loop() {
    let mut paged = Paged::start("times-crashes", 1);
    let fault = Instant::now();
    paged.crash_again_and_again(|all| all.kill(0));
    paged.expect_notifications(fault, "pager", "RestartLoop");
}

pub(super) fn out_of_memory() {
    let mut paged = Paged::start("times-memory", 1);
    let fault = Instant::now();
    paged.crash_again_and_again(|all| {
        let replica = &mut all.replicas.all[0];
        replica.operator.fault("OutOfMemory?size=8Mi&delay=100ms");

        assert_eq!(replica.wait_end(secs(10), true), 137);
    });
    paged.expect_notifications(fault, "pager", "StartupOutOfMemory");
}

pub(super) fn panics() {
    let paged = Paged::start("times-panics", 1);
    let fault = Instant::now();
    paged.all.replicas.all[0].operator.fault("ReconcilePanicking?kind=Widget&name=one");
    paged.all.kube.change("Widget", "times-panics", "one", json!({"size": 2}));
    paged.expect_notifications(fault, "tickets", "ReconcilePanicking");
}
