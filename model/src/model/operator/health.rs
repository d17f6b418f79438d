//! Whether the operator is there at all. A ladder of evidence decides: its Pods, its lease, its
//! metrics endpoint and its process.
//!
//! Each rung may be unknown. A finding needs at least one rung that shows the absence, and nothing
//! that contradicts it, such as a running Pod or a later renewal of the lease, scrape or write
//! (`life.rs`). The Pods alone justify a page if loopwatch sees all of them, and so does the lease
//! together with another rung. A single rung other than the Pods takes longer and opens only a
//! warning: without a view of the Pods, nothing shows whether somebody has scaled the operator to
//! zero. If Pods may run that loopwatch does not see, only the lease shows the absence.
//!
//! The kubelet may start the container again, so a page waits for `operator_down_after`. Half of
//! this time is enough if no restart is likely, or if the container has restarted too often
//! already. A container in backoff gets the full time until the finding about its restarts explains
//! the absence. Otherwise one crash loop would page twice.

use crate::finding::{Evidence, FindingCode, Value};
use crate::model::findings::detection::Detection;
use crate::model::operator::Operator;
use crate::model::operator::controllers::Liveness;
use crate::model::operator::pod_history::proven_at;
use crate::model::operator::pods::{Comeback, PodsSay, Stopped};
use crate::model::operator::review::Verdicts;
use crate::model::world::World;
use crate::observation::{Cause, SourceId};
use crate::snapshot::DownSign;
use crate::time::{Span, Timestamp};

/// How long a container may seem alive after its end, because writes and scrapes arrive late.
const LAST_WORDS: Span = Span::secs(10);

/// The result of climbing the ladder.
#[derive(Debug, Default)]
struct Ladder {
    /// Each rung that shows the absence: since when, and a description for people. The Pods come
    /// first.
    absent: Vec<(Timestamp, String)>,
    /// The same signs, for programs.
    signs: Vec<DownSign>,
    /// The Pods show the absence, and loopwatch sees enough of them to be sure.
    certain: bool,
    /// The Pods show the absence, and none of them is likely to run soon.
    lasting: bool,
    /// The last sign of life.
    last_life: Option<Timestamp>,
    /// When to look again although nothing has happened.
    again: Option<Timestamp>,
}

impl Ladder {
    /// Returns when the absence justifies a page, and when it justifies a warning. Time before
    /// `from`, when loopwatch could not see the operator, does not count.
    fn due(
        &self,
        from: Timestamp,
        after: Span,
        alone_after: Span,
    ) -> Option<(Timestamp, Timestamp)> {
        let mut since: Vec<Timestamp> = self.absent.iter().map(|(since, _)| *since).collect();
        if self.certain {
            since.truncate(1); // the Pods are first
        } else {
            since.sort_unstable();
        }

        let base = |since: Timestamp| since.max(from).max(self.last_life.unwrap_or(since));
        let first = base(*since.first()?);
        let strong = match since.get(1) {
            _ if self.certain => first.after(after),
            Some(second) => base(*second).after(after),
            None => Timestamp(i64::MAX),
        };

        Some((strong, first.after(alone_after)))
    }
}

impl Operator {
    /// Detects that the operator is gone. Returns whether that justifies a page now.
    pub(super) fn operator_down(&self, world: &World, verdicts: &mut Verdicts) -> bool {
        let Some(looked_since) = self.operator_sighted(world) else {
            // An open finding stays open, because nothing shows whether the operator is back.
            verdicts.keep(FindingCode::OperatorDown);
            return self.down;
        };

        // Neither does a Pod that has yet to run in place of one whose node died.
        let lost = self.view.as_ref().is_some_and(|view| view.pods.iter().any(|pod| pod.node_lost));
        if lost && let PodsSay::Excused(Some(until)) = self.pods_say(world) {
            verdicts.keep(FindingCode::OperatorDown);
            verdicts.look_again(Some(until));
            return self.down;
        }

        if self.is_stopped(world) {
            self.stopped_for_long(world, verdicts);
            return false;
        }

        let Some(ladder) = self.ladder(world) else {
            if self.pods_say(world) == PodsSay::Running {
                self.partly_down(world, verdicts);
            }

            return false;
        };

        verdicts.look_again(ladder.again);
        let settings = &world.settings;

        // Once the finding pages, the shorter time stays in force while the kubelet retries the
        // container.
        let after = match ladder.certain && (ladder.lasting || self.down) {
            true => settings.operator_gone_after(),
            false => settings.operator_down_after,
        };
        let due = ladder.due(looked_since, after, settings.owner_absent_after);
        let Some((strong, weak)) = due else { return false };

        let since = ladder.absent.iter().map(|(since, _)| *since).min().unwrap_or(world.now);
        let is_strong = strong <= world.now;

        verdicts.look_again(Some(strong)); // a warning becomes a page
        let evidence = || {
            let names: Vec<String> = ladder.absent.iter().map(|(_, what)| what.clone()).collect();
            let evidence = Evidence::new()
                .with("signs", Value::Names(names))
                .with("absent_for", Value::Age(since));

            let evidence = evidence.with_some("last_seen", ladder.last_life.map(Value::Time));
            evidence.text("message", self.last_message())
        };

        let detection =
            Detection::new(world.now, FindingCode::OperatorDown, since, strong.min(weak), evidence);
        verdicts.push(self.operator_subject(), detection.weak_if(!is_strong));
        is_strong
    }

    /// Climbs the ladder. Returns `None` if the operator runs, is meant not to run, or has had no
    /// time to start.
    fn ladder(&self, world: &World) -> Option<Ladder> {
        let mut ladder = Ladder::default();
        let mut others_may_run = false;

        match self.pods_say(world) {
            PodsSay::Nothing => ladder.last_life = self.last_sign_of_life(world),
            PodsSay::Running => return None,
            PodsSay::Excused(until) => {
                return until.map(|until| Ladder { again: Some(until), ..Ladder::default() });
            }
            PodsSay::Down(Stopped {
                since, state, certain, ended, restarted, comeback, ..
            }) => {
                ladder.absent.push((since, state));
                let has_pods = self.view.as_ref().is_some_and(|view| !view.pods.is_empty());
                ladder.signs.push(if has_pods { DownSign::NoPodRuns } else { DownSign::NoPod });
                others_may_run = !certain;
                ladder.lasting = match comeback {
                    Comeback::Unlikely => true,
                    Comeback::BacksOff => self.restarts_too_often(world),
                    Comeback::Possible => false,
                };

                (ladder.certain, ladder.again) = (certain, restarted.map(proven_at));

                // A container in a crash loop may renew the lease in each run.
                let of_others = |life: &Timestamp| {
                    *life > ended.after(LAST_WORDS) && restarted.is_none_or(|at| *life < at)
                };
                ladder.last_life = match certain {
                    true => self.life_beside_pods(world).filter(of_others),
                    false => self.last_sign_of_life(world),
                };
            }
        }

        if let Some((name, lease)) = self.operator_lease() {
            // A lease that was renewed a moment ago, or has not expired, shows nothing yet.
            let expires_in = lease.duration.unwrap_or_default();
            let renewed = lease.alive;
            let stale_at = renewed.after(world.settings.operator_down_after.max(expires_in));
            match stale_at <= world.now {
                true => {
                    ladder.absent.push((renewed, format!("lease {name} is not renewed")));
                    ladder.signs.push(DownSign::LeaseNotRenewed);
                    others_may_run = false; // a leader would renew it
                }
                false => ladder.again = ladder.again.into_iter().chain([stale_at]).min(),
            }
        }

        if others_may_run {
            ladder.signs.clear();
            // Metrics and processes show no more than the Pods in view do.
            ladder.absent.clear();
            return ladder.again.is_some().then_some(ladder);
        }

        let instances = || self.instances.iter().filter(|(name, _)| self.may_run(name));
        let refused = instances().filter(|(_, instance)| instance.metrics.is_some());
        let refused = refused.filter_map(|(_, instance)| {
            instance.scrape_failure.filter(|(_, cause)| *cause == Cause::Refused)
        });
        let refused = refused.map(|(since, _)| since).max();
        let running = instances().any(|(_, instance)| instance.by_kernel.is_some());

        let ended = instances()
            .filter_map(|(_, instance)| instance.process_ended)
            .max()
            .filter(|_| !running);

        // The metrics end with the process, so the two count as one rung.
        let signs = [
            (refused, DownSign::MetricsRefused, "metrics endpoint refuses connections"),
            (ended, DownSign::ProcessEnded, "process ended"),
        ];
        let shown = || signs.iter().filter(|(since, ..)| since.is_some());
        let names: Vec<&str> = shown().map(|(_, _, name)| *name).collect();

        ladder.signs.extend(shown().map(|(_, sign, _)| *sign));
        if let Some(since) = shown().filter_map(|(since, ..)| *since).min() {
            ladder.absent.push((since, names.join(", ")));
        }

        (!ladder.absent.is_empty() || ladder.again.is_some()).then_some(ladder)
    }

    /// Returns the message that the operator's container left when it last ended.
    fn last_message(&self) -> &str {
        let ends = self.operator_pods().filter_map(|(_, history)| history.last_end());
        ends.max_by_key(|end| end.finished).map_or("", |end| end.message.as_str())
    }

    /// Returns whether the workload should have no Pods, as far as loopwatch can see it.
    fn is_stopped(&self, world: &World) -> bool {
        self.pods.unwanted_since.is_some() && world.sources.is_up(&SourceId::Pods)
    }

    /// Returns the signs of an open finding that the operator is gone.
    pub(crate) fn down_signs(&self, world: &World) -> Vec<DownSign> {
        let ladder =
            if self.is_found(FindingCode::OperatorDown) { self.ladder(world) } else { None };
        ladder.map(|ladder| ladder.signs).unwrap_or_default()
    }

    /// Returns whether the operator is up; `None` if nothing shows it.
    pub(super) fn operator_up(&self, world: &World) -> Option<bool> {
        if self.pods_say(world) == PodsSay::Running {
            return Some(true); // a part of it may be down
        }

        if self.is_found(FindingCode::OperatorDown) {
            return Some(false);
        }

        let recent = |at: Timestamp| world.now.since(at) <= world.settings.operator_down_after;
        self.last_sign_of_life(world).is_some_and(recent).then_some(true)
    }

    /// Returns what the Pods say; nothing while their source fails.
    pub(super) fn pods_say(&self, world: &World) -> PodsSay {
        match &self.view {
            Some(view) if world.sources.is_up(&SourceId::Pods) => {
                self.pods.say(world.now, view, world.settings.operator_start_within)
            }
            _ => PodsSay::Nothing,
        }
    }
}

impl Operator {
    /// Returns whether the operator is alive, according to its Pods. `written` is when it last
    /// wrote anything. A running Pod shows life. If no Pod runs, that shows absence only if
    /// loopwatch sees all Pods and has seen one run.
    pub(crate) fn operator_pods_liveness(
        &self,
        world: &World,
        written: Option<Timestamp>,
    ) -> Liveness {
        let (now, after) = (world.now, world.settings.owner_absent_after);
        let up = world.sources.up_since(&SourceId::Pods);
        let (Some(view), Some(up)) = (&self.view, up) else { return Liveness::Unknown };
        let Some(ran) = self.pods.last_running(now) else { return Liveness::Unknown };

        let last = written.map_or(ran, |written| written.min(now).max(ran));
        let absent_at = last.max(up).after(after);

        match absent_at > now {
            true => Liveness::SeenAlive { last, absent_at },
            false if view.complete => Liveness::Absent { last, absent_at },
            false => Liveness::Unknown,
        }
    }
}
