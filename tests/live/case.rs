//! The fixture of most tests: a namespace with its own operator and loopwatch.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bed::bed;
use crate::recorder::Recorder;
use crate::table::{self, Row};
use loopwatch_testbed::kube::{Kube, ZOO_KINDS};
use loopwatch_testbed::operator::{ACCOUNT, NAMESPACE, Operator};
use loopwatch_testbed::sidecar::{ShownFinding, Sidecar};
use loopwatch_testbed::wait::{eventually, pause};

/// The time that a test waits in addition to a threshold, enough for a busy machine with two cores.
pub(crate) const SLACK: Duration = Duration::from_secs(12);

/// The name of the object of each kind that stays healthy.
pub(crate) const TWIN: &str = "twin";

/// The namespace, operator and loopwatch of one test.
pub(crate) struct Case {
    /// The first field, because it must stop before the others.
    _recorder: Option<Recorder>,
    pub(crate) namespace: String,
    pub(crate) kube: Kube,
    pub(crate) operator: Operator,
    pub(crate) sidecar: Sidecar,
}

/// A fault, and the finding that loopwatch must report for it.
pub(crate) struct Expected {
    /// The fault, with parameters.
    pub(crate) fault: &'static str,
    /// The finding.
    pub(crate) code: &'static str,
    /// The time that must pass before loopwatch may report it.
    pub(crate) threshold: Duration,
    /// Other findings that are correct for the same object.
    pub(crate) also: &'static [&'static str],
    /// How long the finding stays open after the cure, because it counts within a window.
    pub(crate) lingers: Duration,
}

/// How long loopwatch may take to complete the evidence of a finding: it asks the API server once per minute.
const COMPLETE_WITHIN: Duration = Duration::from_secs(90);

/// The namespaces of the cases of this run.
static CLAIMED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Code and subject of a finding.
pub(crate) type Found = (String, String);

/// Reserves a namespace for one case. The objects of a case remain after it, so another case in the
/// same namespace would count them, too, if it ran later.
fn claim(namespace: &str) {
    let mut claimed = CLAIMED.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(claimed.insert(namespace.to_owned()), "two cases share the namespace {namespace}");
}

impl Case {
    /// Creates a case with a fast operator and a healthy object of every kind.
    pub(crate) fn new(name: &str, settings: &Value) -> Self {
        let case = Self::empty(name, settings);
        for kind in ZOO_KINDS {
            case.kube.zoo(kind, name, TWIN, json!({}));
        }

        for kind in ZOO_KINDS {
            case.wait_settled(kind, TWIN);
        }

        case
    }

    /// Creates a case without objects.
    pub(crate) fn empty(name: &str, settings: &Value) -> Self {
        Self::start(name, settings, &[], |_| Vec::new(), &[])
    }

    /// Creates a case without objects, in which loopwatch scrapes the operator every second. The
    /// operator has this number of workers for each kind.
    pub(crate) fn scraping(name: &str, settings: &Value, workers: u8) -> Self {
        Self::scraping_and(name, settings, workers, |_| Vec::new())
    }

    /// Like [`Case::scraping`], and loopwatch takes profiles of the operator.
    pub(crate) fn profiling(name: &str, settings: &Value, workers: u8) -> Self {
        Self::scraping_and(name, settings, workers, |operator| {
            vec![format!("--pprof=http://{}", operator.pprof), "--profile-wait=2s".to_owned()]
        })
    }

    fn scraping_and(
        name: &str,
        settings: &Value,
        workers: u8,
        more: impl FnOnce(&Operator) -> Vec<String>,
    ) -> Self {
        let workers = format!("--concurrency={workers}");
        let flags = |operator: &Operator| {
            let scrape = format!("--scrape=http://{}", operator.metrics);
            let mut flags = vec![scrape, "--scrape-interval=1s".to_owned()];
            flags.extend(more(operator));
            flags
        };

        Self::start(name, settings, &[&workers], flags, &[])
    }

    /// Creates a case without objects, and starts loopwatch with these additional flags.
    pub(crate) fn with_flags(name: &str, settings: &Value, flags: &[String]) -> Self {
        Self::start(name, settings, &[], |_| flags.to_vec(), &[])
    }

    /// Creates a case without objects, and starts loopwatch with these environment variables.
    pub(crate) fn with_environment(
        name: &str,
        settings: &Value,
        environment: &[(&str, &Path)],
    ) -> Self {
        Self::start(name, settings, &[], |_| Vec::new(), environment)
    }

    /// Starts an operator with additional flags, and loopwatch with the flags that `flags` returns
    /// and with environment variables.
    fn start(
        name: &str,
        settings: &Value,
        operator: &[&str],
        flags: impl FnOnce(&Operator) -> Vec<String>,
        environment: &[(&str, &Path)],
    ) -> Self {
        claim(name);
        let plane = bed();
        let kube = plane.kube.clone();
        kube.namespace(name);

        let usual = ["--ready-after=200ms", "--wait-for-pods=false", "--autoscale-every=0"];
        let operator =
            Operator::start(plane, &format!("{name}.operator"), name, &[&usual, operator].concat());
        let kubeconfig = plane.kubeconfig_of(
            &format!("{name}.loopwatch.kubeconfig"),
            &plane.url,
            NAMESPACE,
            ACCOUNT,
        );

        let (scope, more) = (format!("--namespace={name}"), flags(&operator));
        let more: Vec<&str> = more.iter().map(String::as_str).collect();
        let flags = [&[scope.as_str()], &more[..]].concat();
        let process = format!("{name}.loopwatch");
        let sidecar =
            Sidecar::start_with(plane, &process, &kubeconfig, settings, &flags, environment);

        sidecar.wait_synced(ZOO_KINDS.len());
        let _recorder =
            Recorder::for_scenario(&format!("{name}.loopwatch"), name, &kubeconfig, &more);
        Self { _recorder, namespace: name.to_owned(), kube, operator, sidecar }
    }

    /// Creates an object and waits until loopwatch considers it converged for longer than the
    /// threshold `settle`.
    pub(crate) fn make(&self, kind: &str, name: &str) {
        self.kube.zoo(kind, &self.namespace, name, json!({}));
        self.wait_settled(kind, name);
        pause(Duration::from_millis(1500));
    }

    /// Waits until loopwatch considers an object converged or finished, or unknown if its kind has
    /// no status.
    pub(crate) fn wait_settled(&self, kind: &str, name: &str) {
        self.sidecar.expect(
            Duration::from_secs(30),
            &format!("{kind} {name} has converged"),
            || {
                let object = self.sidecar.object(kind, &self.namespace, name)?;
                let state = object["state"].as_str().unwrap_or_default();
                match matches!(state, "converged" | "finished")
                    || (kind == "Statusless" && state == "unknown")
                {
                    true => Ok(()),
                    false => Err(format!("{state}: {object}")),
                }
            },
        );
    }

    /// Changes the size of an object.
    pub(crate) fn resize(&self, kind: &str, name: &str, size: u32) {
        self.kube.change(kind, &self.namespace, name, json!({"size": size}));
    }

    /// Waits until the status of an object fulfils a condition.
    pub(crate) fn wait_status(
        &self,
        kind: &str,
        name: &str,
        what: &str,
        says: impl Fn(&Value) -> bool,
    ) {
        eventually(Duration::from_secs(20), &format!("{kind} {name} says {what}"), || {
            let status = self.kube.status(kind, &self.namespace, name);
            if says(&status) { Ok(()) } else { Err(status.to_string()) }
        });
    }

    /// Reports whether the evidence names the operator as the actor.
    pub(crate) fn names_operator(finding: &ShownFinding) -> bool {
        finding.evidence("actor").to_string().contains("widget-operator")
    }

    /// Switches a fault on for one object, runs `effect` to trigger it, and expects the finding on
    /// this object and on no other. Then switches the fault off and expects the finding to close.
    /// Returns the finding.
    pub(crate) fn prove(
        &self,
        expected: &Expected,
        kind: &str,
        name: &str,
        effect: impl FnOnce(),
    ) -> ShownFinding {
        self.prove_until(expected, kind, name, effect, |_| true)
    }

    /// Like [`Case::prove`], and waits before the cure until the finding has the evidence that loopwatch
    /// collects afterwards.
    pub(crate) fn prove_until(
        &self,
        expected: &Expected,
        kind: &str,
        name: &str,
        effect: impl FnOnce(),
        is_complete: impl Fn(&ShownFinding) -> bool,
    ) -> ShownFinding {
        let selector = format!("kind={kind}&namespace={}&name={name}", self.namespace);
        let separator = if expected.fault.contains('?') { '&' } else { '?' };
        self.operator.fault(&format!("{}{separator}{selector}", expected.fault));
        effect();

        let (finding, detected) =
            self.sidecar.expect_finding(expected.threshold + SLACK, expected.code, kind, name);
        let finding = self.sidecar.expect(COMPLETE_WITHIN, "the evidence is complete", || {
            let findings = self.sidecar.findings()?;
            let found = findings.into_iter().find(|found| found.is(expected.code, kind, name));
            found.filter(|found| is_complete(found)).ok_or_else(|| finding.to_string())
        });
        self.operator.cure(expected.fault);

        let cured = Instant::now();
        self.sidecar.expect_cleared(expected.lingers + SLACK, expected.code, kind, name);
        self.conclude(expected, kind, name, detected, cured.elapsed(), &|_| false);
        finding
    }

    /// Adds a row to the table. Fails if loopwatch ever reported a finding that is neither expected
    /// nor `fine`.
    pub(crate) fn conclude(
        &self,
        expected: &Expected,
        kind: &str,
        name: &str,
        detected: Duration,
        cleared: Duration,
        fine: &dyn Fn(&Found) -> bool,
    ) {
        let is_subject = |on: &str| match name {
            "" => on == format!("{kind} (all)"),
            // A test uses the same name for objects of several kinds, one after the other.
            _ => on.ends_with(&format!(" {}/{name}", self.namespace)),
        };
        let allowed = |(code, on): &Found| {
            is_subject(on) && (code == expected.code || expected.also.contains(&code.as_str()))
        };

        let found = self.sidecar.opened();
        assert!(
            found.iter().any(|(code, on)| code == expected.code && is_subject(on)),
            "the log does not report {}: {found:?}",
            expected.code
        );

        let false_positives: Vec<_> =
            found.into_iter().filter(|found| !allowed(found) && !fine(found)).collect();
        let fault = expected.fault.split('?').next().unwrap_or_default();
        table::add(Row {
            fault: fault.to_owned(),
            on: if name.is_empty() { format!("{kind} (all)") } else { kind.to_owned() },
            found: expected.code.to_owned(),
            detected,
            threshold: expected.threshold,
            cleared,
            false_positives: false_positives.len(),
        });

        assert!(
            false_positives.is_empty(),
            "besides {} on {kind} {name}, loopwatch reported {false_positives:?}\n{}",
            expected.code,
            self.sidecar.account()
        );
    }
}
