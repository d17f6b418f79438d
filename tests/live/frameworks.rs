//! The same faults in every framework, seen by loopwatch with the operator's metrics, with its
//! process, and from outside. The result is compared with `tests/frameworks`, from which `make
//! docs` makes docs/operator.md; with `UPDATE=1`, it is written there. Go and Python run by
//! default, the others with `cargo test --test live -- --ignored frameworks`.

mod leaks;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use loopwatch_testbed::frameworks::{Framework, Member, On};
use loopwatch_testbed::kube::{Kube, ZOO};
use loopwatch_testbed::sidecar::{ShownFinding, Sidecar, quick_but};
use loopwatch_testbed::verdicts::{self, Found, Trouble, Verdicts, View, unseen};
use loopwatch_testbed::wait::{eventually, pause};
use serde_json::{Value, json};

use crate::bed::{bed, test_after};

/// The tests of this file. Those that need minutes, or a build that nothing else needs, run only on
/// request.
pub(crate) fn trials() -> Vec<Trial> {
    let quick = Framework::ALL.map(|framework| {
        let name = format!("frameworks::{}", framework.label());
        let is_costly = matches!(framework, Framework::Java | Framework::Rust);
        test_after(&name, move || framework.prepare(), move |()| check(framework))
            .with_ignored_flag(is_costly)
    });

    let slow = Framework::ALL.map(|framework| {
        let name = format!("frameworks::{}_leaks", framework.label());
        test_after(&name, move || framework.prepare(), move |()| leaks::check(framework))
            .with_ignored_flag(true)
    });

    quick.into_iter().chain(slow).collect()
}

/// The time after a fault that all thresholds need.
const THRESHOLDS: Duration = Duration::from_secs(8);

/// The time in which the verdicts must come on a busy machine. A scrape alone may take 30 s.
const WITHIN: Duration = Duration::from_secs(70);

/// The number of objects whose changes make a backlog.
const MANY: usize = 16;

/// Findings of severity info, which are not verdicts. The second one is correct, but not about
/// these operators: one kind of the zoo has no status subresource.
const NOTES: [&str; 2] = ["ReconcileErrors", "StatusSubresourceMissing"];

fn settings() -> Value {
    quick_but(json!({
        "operator_down_after": "3s",
        "owner_absent_after": "5s",
        "reconcile_failing_after": "5s",
        "reconcile_stuck_after": "5s",
        "workers_saturated_after": "5s",
        "queue_backlog": 8,
        "queue_backlog_after": "5s",
    }))
}

/// An operator with several loopwatches.
struct Run {
    kube: Kube,
    namespace: String,
    member: Member,
    watchers: Vec<(View, Sidecar)>,
}

/// Runs all quick faults, and compares what loopwatch finds with what it is known to find.
fn check(framework: Framework) {
    let is_update = std::env::var_os("UPDATE").is_some();
    let known = if is_update { Verdicts::new() } else { verdicts::read(framework) };
    let mut run = Run::start(framework);
    let mut wrong = Vec::new();

    for trouble in
        Trouble::QUICK.into_iter().filter(|trouble| trouble.impossible(framework).is_none())
    {
        let began = Instant::now();
        let opened = run.opened();
        run.begin(trouble);

        let expected = known.get(&trouble);
        let found = run.settled(trouble, |found| is_update || Some(found) == expected);
        eprintln!(
            "frameworks: {} {trouble:?}: {found:?} after {:?}",
            framework.label(),
            began.elapsed()
        );
        wrong.extend(run.surprises(trouble, &opened, &found));

        wrong.extend(without_reason(framework, trouble, &found));
        if is_update {
            verdicts::update(framework, &Verdicts::from([(trouble, found)]));
        } else if Some(&found) != expected {
            wrong.push(format!("{trouble:?}: expected {expected:?}, found {found:?}"));
        }

        run.end(trouble);
    }

    assert!(wrong.is_empty(), "{}:\n{}", framework.title(), wrong.join("\n"));
}

/// Returns the open findings.
fn findings_of(sidecar: &Sidecar) -> Result<Vec<ShownFinding>, String> {
    let mut findings = sidecar.findings()?;
    findings.retain(|finding| !NOTES.contains(&finding.code()));
    Ok(findings)
}

/// Returns the views without a finding and without a known reason for that, and those with a reason
/// and a finding.
pub(crate) fn without_reason(framework: Framework, trouble: Trouble, found: &Views) -> Vec<String> {
    let is_wrong = |view: View, found: &Found| {
        let is_seen = !found.root.is_empty() || trouble == Trouble::Healthy;
        is_seen == unseen(trouble, framework, view).is_some()
    };
    let wrong = found.iter().filter(|(view, found)| is_wrong(**view, found));

    wrong
        .map(|(view, found)| {
            format!("{trouble:?} ({view:?}): {found:?}, but the reasons say otherwise")
        })
        .collect()
}

/// The findings in all views.
type Views = BTreeMap<View, Found>;

impl Run {
    fn start(framework: Framework) -> Self {
        let plane = bed();
        let namespace = format!("frameworks-{}", framework.label());
        let member = Member::start(plane, framework, &namespace);
        let watchers = View::of(framework).map(|view| {
            let mut flags = vec![
                format!("--namespace={namespace}"),
                format!("--operator={namespace}/{}", framework.account()),
                "--profiles=off".to_owned(),
            ];

            flags.push(
                if view == View::Metrics { "--scrape-interval=1s" } else { "--scrape=off" }
                    .to_owned(),
            );
            flags.extend((view == View::Process).then(|| format!("--pid={}", member.process.id())));

            let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
            let name = format!("{namespace}.{}", view.label());
            (view, Sidecar::start(plane, &name, &plane.kube.kubeconfig, &settings(), &flags))
        });

        let watchers: Vec<_> = watchers.collect();
        let run = Self { kube: plane.kube.clone(), namespace, member, watchers };
        for (view, sidecar) in &run.watchers {
            sidecar.wait_watched(framework.kind(), 1);
            sidecar.expect(WITHIN, "the operator is up", || {
                sidecar.metric("loopwatch_operator_up")?;
                let sources = match view {
                    View::Metrics => {
                        sidecar.metric(r#"loopwatch_observations_total{source="metrics"}"#)?
                    }
                    View::Process => {
                        sidecar.metric(r#"loopwatch_observations_total{source="process"}"#)?
                    }
                    View::Outside => 1.0,
                };

                if sources >= 1.0 { Ok(()) } else { Err("its source has seen nothing".to_owned()) }
            });
        }

        let many = (0..MANY).map(|number| format!("many-{number:02}"));
        let names: Vec<String> =
            ["one", "two", "three"].map(str::to_owned).into_iter().chain(many).collect();
        for some in names.chunks(4) {
            some.iter().for_each(|name| run.create(name));
            some.iter().for_each(|name| run.wait_converged(name));
        }

        run
    }

    fn create(&self, name: &str) {
        self.kube.zoo(self.member.framework.kind(), &self.namespace, name, json!({}));
    }

    fn change(&self, name: &str) {
        let size = self
            .kube
            .find(ZOO, self.member.framework.kind(), &self.namespace, name)
            .unwrap_or_default()["spec"]["size"]
            .as_u64();
        let change = json!({"size": size.unwrap_or(1) % 7 + 1});

        self.kube.change(self.member.framework.kind(), &self.namespace, name, change);
    }

    fn delete(&self, name: &str) {
        self.kube.delete(ZOO, self.member.framework.kind(), &self.namespace, name);
    }

    fn wait_converged(&self, name: &str) {
        for (_, sidecar) in &self.watchers {
            sidecar.expect(WITHIN, &format!("{name} has converged"), || {
                let object = sidecar.object(self.member.framework.kind(), &self.namespace, name)?;
                if object["state"] == "converged" { Ok(()) } else { Err(object.to_string()) }
            });
        }
    }

    fn wait_gone(&self, name: &str) {
        eventually(WITHIN, &format!("{name} is gone"), || {
            let found = self.kube.find(ZOO, self.member.framework.kind(), &self.namespace, name);
            found.map_or(Ok(()), |object| Err(object["metadata"].to_string()))
        });
    }

    /// Lets the operator misbehave, and triggers the effect.
    fn begin(&mut self, trouble: Trouble) {
        let member = &mut self.member;
        match trouble {
            Trouble::Healthy => {
                member.fault("ReconcileFailing?attempts=2", On::Object("two"));
                self.create("gone");
                ["one", "two"].iter().for_each(|name| self.change(name));
                self.wait_converged("gone");
                self.delete("gone");
                self.wait_gone("gone");
                ["one", "two"].iter().for_each(|name| self.wait_converged(name));
                self.member.cure("ReconcileFailing");
            }
            Trouble::Ignored => {
                member.fault("Unacknowledged", On::Object("one"));
                self.change("one");
            }
            Trouble::Late => {
                member.fault("Overdue", On::Object("one"));
                self.change("one");
            }
            Trouble::Failing => {
                member.fault("ReconcileFailing", On::All);
                self.change("one");
            }
            Trouble::Stuck => {
                member.fault("ReconcileStuck", On::Object("one"));
                self.change("one");
                pause(Duration::from_millis(500)); // the worker takes it first
                self.change("two");
            }
            Trouble::Backlog => {
                let unit = if member.framework == Framework::Go { "ms" } else { "" };
                member.fault(&format!("QueueBacklog?delay=60000{unit}"), On::All);
                (0..MANY).for_each(|number| self.change(&format!("many-{number:02}")));
            }
            Trouble::Finalizer => {
                member.fault("FinalizerStuck", On::Object("three"));
                self.delete("three");
            }
            Trouble::Hanging => {
                member.process.pause();
                self.change("one");
            }
            Trouble::Killed => {
                member.process.kill();
                member.pod.ended("Error", 137);
            }
            Trouble::MemoryLeak | Trouble::TaskLeak => unreachable!("takes hours"),
        }
    }

    /// Ends what [`Run::begin`] began, and waits until all findings are closed and the objects have
    /// converged: work that is left must not belong to the next trouble.
    fn end(&mut self, trouble: Trouble) {
        match trouble {
            Trouble::Healthy => {}
            Trouble::Ignored => self.member.cure("Unacknowledged"),
            Trouble::Late => self.member.cure("Overdue"),
            Trouble::Failing => self.member.cure("ReconcileFailing"),
            Trouble::Stuck => self.member.cure("ReconcileStuck"),
            Trouble::Backlog => self.member.cure("QueueBacklog"),
            Trouble::Finalizer => self.member.cure("FinalizerStuck"),
            Trouble::Hanging => self.member.process.resume(),
            Trouble::Killed | Trouble::MemoryLeak | Trouble::TaskLeak => return,
        }

        for (view, sidecar) in &self.watchers {
            sidecar.expect(
                WITHIN,
                &format!("no finding is open after {trouble:?} ({view:?})"),
                || {
                    let findings = findings_of(sidecar)?;
                    if findings.is_empty() { Ok(()) } else { Err(format!("{findings:?}")) }
                },
            );
        }

        ["one", "two"].iter().for_each(|name| self.wait_converged(name));
        if trouble == Trouble::Backlog {
            (0..MANY).for_each(|number| self.wait_converged(&format!("many-{number:02}")));
        }
    }

    /// Returns the findings when they are as wanted, or when that has not happened in time. Faults
    /// that loopwatch does not see have as much time as others.
    fn settled(&self, trouble: Trouble, is_wanted: impl Fn(&Views) -> bool) -> Views {
        let began = Instant::now();
        let is_update = std::env::var_os("UPDATE").is_some();
        pause(match is_update {
            true if trouble == Trouble::Hanging => WITHIN,
            true => THRESHOLDS * 3,
            false => THRESHOLDS,
        });

        let mut last = None;
        loop {
            let found = self.found();
            let stays = last.as_ref() == Some(&found);
            if began.elapsed() > WITHIN || stays && is_wanted(&found) {
                return found;
            }

            last = Some(found);
            pause(Duration::from_millis(750));
        }
    }

    fn found(&self) -> Views {
        let found = self.watchers.iter().map(|(view, sidecar)| {
            let findings = findings_of(sidecar).unwrap_or_else(|error| panic!("{error}"));
            let codes = |is_root: bool| -> Vec<String> {
                let of = findings
                    .iter()
                    .filter(|finding| finding.0["explained_by"].is_null() == is_root);
                of.map(ShownFinding::code)
                    .collect::<BTreeSet<_>>()
                    .into_iter()
                    .map(str::to_owned)
                    .collect()
            };

            (*view, Found { root: codes(true), explained: codes(false) })
        });
        found.collect()
    }

    /// The number of findings that each loopwatch has opened so far.
    fn opened(&self) -> Vec<usize> {
        self.watchers.iter().map(|(_, sidecar)| sidecar.opened().len()).collect()
    }

    /// Returns the findings that opened since `before` and do not belong to the verdict.
    fn surprises(&self, trouble: Trouble, before: &[usize], found: &Views) -> Vec<String> {
        let views = self.watchers.iter().zip(before);
        let surprises = views.flat_map(|((view, sidecar), before)| {
            let known = &found[view];
            let opened = sidecar.opened().split_off(*before);
            let is_known =
                |code: &String| known.root.contains(code) || known.explained.contains(code);
            let unknown = opened
                .into_iter()
                .filter(move |(code, _)| !NOTES.contains(&code.as_str()) && !is_known(code));

            unknown.map(move |(code, on)| format!("{trouble:?} ({view:?}): also {code} on {on}"))
        });

        surprises.collect()
    }
}
