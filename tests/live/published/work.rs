//! Published operators of different styles, unchanged, while users create, scale, upgrade and delete
//! objects. loopwatch runs with its defaults beside each, and must report nothing.
//!
//! `WORK_FOR=60m cargo test --test live -- --ignored published::` runs them for an hour. They are no
//! default tests, because each needs a build of its own.

use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use serde_json::json;

use super::expect_no_finding;
use super::works::{self, Wish, Work};
use crate::bed::{another, bed, test};
use loopwatch_testbed::controlplane::ControlPlane;
use loopwatch_testbed::sidecar::Sidecar;
use loopwatch_testbed::wait::{eventually, pause};

/// The tests.
pub(super) fn trials() -> Vec<Trial> {
    let of = |work: fn() -> Work| move || run(bed(), &work());
    // Another test stops an operator of the same kinds in the common cluster.
    let apart = |work: fn() -> Work| move || run(&another(), &work());
    vec![
        test("published::argo_rollouts", of(works::argo_rollouts)).with_ignored_flag(true),
        test("published::prometheus_operator", of(works::prometheus_operator))
            .with_ignored_flag(true),
        test("published::kro", of(works::kro)).with_ignored_flag(true),
        test("published::cert_manager_at_work", apart(works::cert_manager)).with_ignored_flag(true),
        test("published::rabbitmq_at_work", apart(works::rabbitmq)).with_ignored_flag(true),
    ]
}

/// The time for which users work, without `WORK_FOR`.
const SHORT: Duration = Duration::from_secs(240);

/// The pause between two rounds of work.
const PAUSE: Duration = Duration::from_secs(20);

/// The time that an operator may need for a change, here and in loopwatch's defaults.
pub(crate) const IN_TIME: Duration = Duration::from_secs(300);

/// The time between two changes of a user, longer than an object must stay converged.
const BETWEEN: Duration = Duration::from_secs(12);

/// The time within which loopwatch must agree with a status.
const AGREED_WITHIN: Duration = Duration::from_secs(30);

/// Reads `WORK_FOR`, such as `60m`.
pub(crate) fn time_to_work(otherwise: Duration) -> Duration {
    let Some(text) = std::env::var_os("WORK_FOR") else { return otherwise };
    let text = text.to_string_lossy();
    let minutes = text.strip_suffix('m').and_then(|minutes| minutes.parse::<u64>().ok());
    Duration::from_secs(60 * minutes.unwrap_or_else(|| panic!("WORK_FOR={text}: expected 60m")))
}

fn run(plane: &ControlPlane, work: &Work) {
    let mut operator = work.operator.start(plane);
    let name = work.operator.name;
    let users = Users::new(plane, work);

    let flags = [format!("--operator={name}/{name}"), "--secrets=metadata".to_owned()];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let sidecar = Sidecar::start(
        plane,
        &format!("{name}.loopwatch"),
        &plane.kube.kubeconfig,
        &json!({}),
        &flags,
    );

    let found_nothing = |rounds: u32| {
        expect_no_finding(name, &sidecar, work.true_anyway, &format!("{rounds} rounds"));
    };
    let rounds = users.work_for(time_to_work(SHORT), &sidecar, "", |rounds| {
        operator.replica.assert_running();
        found_nothing(rounds);
    });

    found_nothing(rounds);
    operator.replica.stop();
}

/// The users of an operator.
pub(crate) struct Users<'a> {
    plane: &'a ControlPlane,
    work: &'a Work,
    teams: [String; 2],
}

impl<'a> Users<'a> {
    /// Creates their namespaces, and what all of their objects need.
    pub(crate) fn new(plane: &'a ControlPlane, work: &'a Work) -> Self {
        let teams = ["a", "b"].map(|team| format!("{}-team-{team}", work.operator.name));
        teams.iter().for_each(|team| plane.kube.namespace(team));
        (work.prepare)(plane, &teams);
        Self { plane, work, teams }
    }

    /// Works for this time, and calls `after_round` after each round. The API of the loopwatch that
    /// judges the operator begins with `path`. Returns the number of rounds.
    pub(crate) fn work_for(
        &self,
        time: Duration,
        sidecar: &Sidecar,
        path: &str,
        mut after_round: impl FnMut(u32),
    ) -> u32 {
        let (began, mut round) = (Instant::now(), 0);
        while began.elapsed() < time {
            self.work_once(round, sidecar, path);
            after_round(round);
            pause(PAUSE);
            round += 1;
        }

        round
    }

    /// Creates the objects of the first round, and waits for nothing.
    pub(crate) fn begin(&self) {
        self.wish(Wish {
            name: &name(0),
            size: self.work.sizes[0],
            upgraded: false,
            second: false,
        });
    }

    /// Creates an object in each namespace, scales it, upgrades it, changes it while it is being
    /// changed, and deletes the objects of the round before.
    fn work_once(&self, round: u32, sidecar: &Sidecar, path: &str) {
        let (began, name) = (Instant::now(), name(round));
        let [at_first, scaled, changed, at_last] =
            self.work.sizes.map(|size| Wish { name: &name, size, upgraded: false, second: false });
        let expect_done = |what: &str| self.expect_done(&name, what, sidecar, path);

        self.wish(at_first);
        expect_done("created");
        self.wish(scaled);
        expect_done("scaled up");
        self.wish(Wish { upgraded: true, ..scaled });
        expect_done("upgraded");
        self.wish(changed);
        pause(Duration::from_secs(1));
        self.wish(Wish { upgraded: true, ..at_last });
        expect_done("changed in the middle of a change");

        if let Some(before) = round.checked_sub(1) {
            self.delete(&self::name(before));
        }

        eprintln!("{}: round {round} in {:.1?}", self.work.operator.name, began.elapsed());
    }

    fn wish(&self, wish: Wish<'_>) {
        let Work { kind: (api, kind), spec, beside, .. } = self.work;
        for (team, second) in self.teams.iter().zip([false, true]) {
            let wish = Wish { second, ..wish };
            let metadata = json!({"name": wish.name, "namespace": team});
            for mut other in beside(&wish) {
                other["metadata"]["namespace"] = json!(team);
                self.plane.kube.apply(&other);
            }

            let object =
                json!({"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec(&wish)});
            self.plane.kube.apply(&object);
        }
    }

    /// Waits until the operator has done its work, and loopwatch says so.
    fn expect_done(&self, name: &str, what: &str, sidecar: &Sidecar, path: &str) {
        let (api, kind) = self.work.kind;
        for team in &self.teams {
            eventually(IN_TIME, &format!("{kind} {team}/{name} is {what}"), || {
                let found = self.plane.kube.find(api, kind, team, name).unwrap_or_default();
                if (self.work.is_done)(&found) { Ok(()) } else { Err(found["status"].to_string()) }
            });
            sidecar.expect(AGREED_WITHIN, &format!("{kind} {team}/{name} is {what}"), || {
                let object = sidecar.object_at(path, kind, team, name)?;
                let found = self.plane.kube.find(api, kind, team, name).unwrap_or_default();
                let is_same = object["generation"] == found["metadata"]["generation"];
                if is_same && object["state"] == "converged" {
                    Ok(())
                } else {
                    Err(object.to_string())
                }
            });
        }

        pause(BETWEEN);
    }

    fn delete(&self, name: &str) {
        let (api, kind) = self.work.kind;
        for team in &self.teams {
            self.plane.kube.delete(api, kind, team, name);
            eventually(IN_TIME, &format!("{kind} {team}/{name} is gone"), || {
                self.plane.kube.find(api, kind, team, name).map_or(Ok(()), |it| Err(it.to_string()))
            });
        }
    }
}

/// The name of the objects of a round.
fn name(round: u32) -> String {
    format!("round-{round}")
}
