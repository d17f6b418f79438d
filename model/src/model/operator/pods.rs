//! The Pods of the operator: which of them run, and how their containers have ended so far.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::operator::lost_pods::LostPods;
use crate::model::operator::other_containers::OtherContainers;
use crate::model::operator::pod_history::{PROVEN_AFTER, PodHistory, has_ended, runs};
use crate::observation::{ContainerEnd, ContainerView, MAX_PODS, OperatorView, PodView};
use crate::time::{Span, Timestamp};

/// What has happened to the operator's Pods.
#[derive(Debug, Default)]
pub(crate) struct Pods {
    /// By UID; only those of the latest view.
    histories: BTreeMap<String, PodHistory>,
    /// Whether a Pod of the operator runs, according to the latest view.
    pub(super) running: bool,
    /// When loopwatch saw the last running Pod stop. Out of date while one runs.
    last_running: Option<Timestamp>,
    /// Since when there is no Pod at all, not even one that terminates.
    none_since: Option<Timestamp>,
    /// Since when a rollout has been under way that ends the old Pods before it starts new ones.
    recreating_since: Option<Timestamp>,
    /// Since when no container of the operator runs although there should be one.
    idle_since: Option<Timestamp>,
    /// When loopwatch saw that the workload should have Pods again, for example because it was scaled
    /// up from zero.
    wanted_since: Option<Timestamp>,
    /// Since when the workload should have no Pods, according to the latest view. If loopwatch
    /// first saw the workload in this state: since it last saw a Pod run, or else since the epoch.
    pub(super) unwanted_since: Option<Timestamp>,
    /// A view has shown the workload. The first view may lack it because a request failed.
    knows_workload: bool,
    /// When the latest view was taken.
    viewed: Option<Timestamp>,
    /// When the source of the Pods last recovered from a failure.
    regained: Option<Timestamp>,
    pub(super) others: OtherContainers,
    pub(super) lost: LostPods,
    shortage: Option<Shortage>,
    /// How often the workload has been scaled to zero and back.
    pub(super) stops: u32,
}

/// Fewer Pods run than should, and since then no further Pod has begun to run.
#[derive(Clone, Debug)]
struct Shortage {
    since: Timestamp,
    /// The UIDs of the Pods that ran in the latest view.
    running: BTreeSet<String>,
}

/// What the Pods say about whether the operator runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PodsSay {
    /// Nothing.
    Nothing,
    /// It runs.
    Running,
    /// It should not run, or has had no chance to run yet. The excuse ends at the instant, if that
    /// is known, and until then no other sign matters.
    Excused(Option<Timestamp>),
    /// It does not run.
    Down(Stopped),
}

/// A state in which no Pod of the operator runs, as far as loopwatch sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stopped {
    pub(super) since: Timestamp,
    /// The state, for people.
    pub(super) state: String,
    /// There are no other Pods that might run.
    pub(super) certain: bool,
    /// When the last container ended. An earlier sign of life shows nothing.
    pub(crate) ended: Timestamp,
    /// When the container restarted, if it does not count as running yet. It may crash again after
    /// any later sign of life.
    pub(super) restarted: Option<Timestamp>,
    /// Whether the operator may soon run again by itself.
    pub(super) comeback: Comeback,
    /// The Pod has ended, so another one takes its place.
    is_over: bool,
    /// It has ended, but never ran.
    never_ran: bool,
}

/// Whether an operator that does not run may soon run again by itself. With several Pods, the
/// greatest value counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Comeback {
    /// No sign of it: there is no Pod, or its container has ended or cannot be created.
    Unlikely,
    /// The kubelet waits before it starts the container again.
    BacksOff,
    /// The kubelet starts the container or has just started it, or the Pod terminates and its
    /// container may still run.
    Possible,
}

/// The state of the operator's container in one Pod.
enum PodState {
    Running,
    /// It has never started, and has been trying since this time. The word of the kubelet or the
    /// phase of the Pod says what it waits for.
    Starting(Timestamp, String),
    /// It does not run, or has only just started again.
    Stopped(Stopped),
    Unknown,
}

impl PodState {
    /// Returns whether the container has stopped in a Pod that stays, so that the kubelet starts it
    /// again.
    fn crashes(&self) -> bool {
        matches!(self, Self::Stopped(stopped) if !stopped.is_over)
    }
}

impl Comeback {
    /// Returns whether the operator may soon run again, according to the state of its container.
    /// After a node restarts, creating a container may take a while.
    fn of(container: &ContainerView) -> Self {
        match container.waiting.as_str() {
            _ if container.running_since.is_some() => Self::Possible,
            "ContainerCreating" | "PodInitializing" => Self::Possible,
            "CrashLoopBackOff" => Self::BacksOff,
            _ => Self::Unlikely,
        }
    }
}

impl Pods {
    /// Takes a new view of the Pods. Returns the ends of containers since the previous view, except
    /// in terminating Pods: a process that a signal ends has an exit code, too. `up` is since when
    /// the source has been up; `None` if it has failed until now.
    pub(super) fn update(
        &mut self,
        now: Timestamp,
        view: &OperatorView,
        up: Option<Timestamp>,
        window: Span,
    ) -> Vec<ContainerEnd> {
        let mut ends = Vec::new();
        let up = up.unwrap_or(now);
        if self.viewed.replace(now).is_some_and(|viewed| up > viewed) {
            self.regained = Some(up);
        }

        let is_there = |uid: &String| view.pods.iter().any(|pod| pod.uid == *uid);
        self.histories.retain(|uid, _| is_there(uid));
        for pod in view.pods.iter().take(MAX_PODS) {
            let Some(container) = pod.containers.first() else { continue };
            match self.histories.get_mut(&pod.uid) {
                Some(history) => {
                    let end = history.update(now, container, self.regained);
                    ends.extend(end.filter(|_| pod.deleted.is_none()));
                }
                None => drop(
                    self.histories
                        .insert(pod.uid.clone(), PodHistory::new(now, pod, container, window)),
                ),
            }
        }

        self.others.update(now, view, self.regained, window);
        self.lost.update(now, view, window);

        if std::mem::replace(&mut self.running, view.pods.iter().any(runs)) {
            self.last_running = Some(now);
        }

        self.none_since = view.pods.is_empty().then(|| self.none_since.unwrap_or(now));
        let replicas = view.workload.as_ref().map(|workload| workload.replicas);

        // At the first view of a workload, nothing shows since when it has been scaled to zero.
        let began =
            if self.knows_workload { now } else { self.last_running.unwrap_or(Timestamp(0)) };
        self.knows_workload |= replicas.is_some();

        let unwanted_since = (replicas == Some(0)).then(|| self.unwanted_since.unwrap_or(began));
        if std::mem::replace(&mut self.unwanted_since, unwanted_since).is_some()
            && unwanted_since.is_none()
        {
            self.wanted_since = Some(now);
            self.stops = self.stops.saturating_add(1);
        }

        self.update_shortage(now, view);

        let is_idle =
            !self.running && replicas.map_or(!view.pods.is_empty(), |replicas| replicas > 0);
        self.idle_since = is_idle.then(|| self.idle_since.unwrap_or(now));

        let recreates =
            view.workload.as_ref().is_some_and(|workload| workload.rolling && workload.recreates);
        self.recreating_since = recreates.then(|| self.recreating_since.unwrap_or(now));
        ends
    }

    /// Returns what the Pods say. A new Pod may need `start_within` for its first start.
    pub(super) fn say(&self, now: Timestamp, view: &OperatorView, start_within: Span) -> PodsSay {
        let replicas = view.workload.as_ref().map(|workload| workload.replicas);
        if replicas == Some(0) || view.pods.iter().any(|pod| pod.own && pod.deleted.is_some()) {
            return PodsSay::Excused(None);
        }

        let live = || view.pods.iter().filter(|pod| pod.deleted.is_none());
        let states: Vec<PodState> = live().map(|pod| self.state(now, pod)).collect();
        if states.iter().any(|state| matches!(state, PodState::Running)) {
            return PodsSay::Running;
        }

        if let Some(until) = self.excused(&states, start_within).filter(|until| *until > now) {
            return PodsSay::Excused(Some(until));
        }

        let Some(replicas) = replicas.or((!view.pods.is_empty()).then_some(u32::MAX)) else {
            return PodsSay::Nothing;
        };

        if view.pods.is_empty() {
            let stopped = |since: Timestamp| {
                let since = self.wanted_since.map_or(since, |wanted| wanted.max(since));
                Stopped { state: "no Pod".to_owned(), certain: true, ..never_started(since) }
            };
            let since = self.none_since.filter(|_| view.complete);

            return since.map_or(PodsSay::Nothing, |since| PodsSay::Down(stopped(since)));
        }

        // A rolling update keeps the old Pod until the new one is ready. A rollout that recreates
        // Pods does not.
        let is_alone =
            !view.workload.as_ref().is_some_and(|workload| workload.rolling && !workload.recreates);
        let certain = view.complete || (replicas == 1 && is_alone);

        match terminated(view) {
            Some((name, ended)) => match ended > now {
                true => PodsSay::Excused(Some(ended)),
                false => {
                    let (state, comeback) = (format!("{name}: Terminating"), Comeback::Possible);
                    PodsSay::Down(Stopped { state, certain, comeback, ..never_started(ended) })
                }
            },
            None => self.down(now, live(), &states, certain),
        }
    }

    /// Returns until when the operator is excused because it has had no chance to run. A new Pod is
    /// not an excuse while another Pod crashes, or if earlier Pods never ran either.
    fn excused(&self, states: &[PodState], start_within: Span) -> Option<Timestamp> {
        let starting = states.iter().filter_map(|state| match state {
            PodState::Starting(at, _) => Some(*at),
            _ => None,
        });
        let starting = starting.filter(|_| !states.iter().any(PodState::crashes));
        let since = starting.chain(self.recreating_since).max()?;

        Some(since.min(self.idle_since.unwrap_or(since)).after(start_within))
    }

    /// Merges the states of Pods, none of which runs. The Pod that stopped last counts. New Pods
    /// count only if no Pod has stopped, and Pods that ended without a run only if no other Pod
    /// crashes.
    fn down<'a>(
        &self,
        now: Timestamp,
        live: impl Iterator<Item = &'a PodView>,
        states: &[PodState],
        certain: bool,
    ) -> PodsSay {
        let mut latest: Option<Stopped> = None;
        let mut successor: Option<(Timestamp, String)> = None;
        let crashes = states.iter().any(PodState::crashes);
        let has_run = states.iter().any(|state| matches!(state, PodState::Stopped(_)));

        for (pod, state) in live.zip(states) {
            let stopped = match state {
                PodState::Stopped(stopped) if stopped.never_ran && crashes => continue,
                PodState::Stopped(stopped) => stopped.clone(),
                PodState::Starting(since, word) if has_run => {
                    let next = format!("{}: {}", pod.name, not_started(word));
                    successor = successor.max(Some((*since, next)));
                    continue;
                }
                PodState::Starting(since, word) => {
                    Stopped { state: not_started(word), ..never_started(*since) }
                }
                PodState::Running | PodState::Unknown => return PodsSay::Nothing,
            };

            let state = format!("{}: {}", pod.name, stopped.state);
            let stopped = Stopped { state, certain, ..stopped };
            latest = Some(match latest {
                None => stopped,
                Some(other) => {
                    let ended = other.ended.max(stopped.ended);
                    let restarted = other.restarted.into_iter().chain(stopped.restarted).min();
                    let comeback = other.comeback.max(stopped.comeback);
                    let last = if stopped.since >= other.since { stopped } else { other };

                    Stopped { ended, restarted, comeback, ..last }
                }
            });
        }

        let Some(last) = latest else { return PodsSay::Nothing };

        // A Pod that ended long ago does not show when a later one, now gone, stopped.
        let ran = self.last_running(now).filter(|_| has_run && !crashes);
        let since = [Some(last.since), ran, self.wanted_since]
            .into_iter()
            .flatten()
            .max()
            .unwrap_or(last.since);

        let state = match successor {
            Some((_, next)) => format!("{}, {next}", last.state),
            None => last.state,
        };
        PodsSay::Down(Stopped { since, state, ..last })
    }

    fn state(&self, now: Timestamp, pod: &PodView) -> PodState {
        let (history, container) = (self.histories.get(&pod.uid), pod.containers.first());
        let (Some(history), Some(container)) = (history, container) else {
            return PodState::Unknown;
        };
        if pod.node_lost {
            return PodState::Unknown;
        }

        let ended = container.ended.as_ref();
        let end = ended.and_then(|ended| ended.finished).map(|finished| finished.min(now));
        let is_over = has_ended(pod);

        // A workload replaces Pods that a node rejects again and again, so their own ages show
        // nothing.
        let never_ran = is_over && end.is_none();
        let stopped_seen =
            if never_ran { Some(self.idle_since.unwrap_or(now)) } else { history.stopped_seen };
        let since = history
            .down_since
            .unwrap_or(end.or(stopped_seen).unwrap_or(history.first_seen))
            .min(now);
        let comeback = Comeback::of(container);

        let stopped = |state: String, restarted| {
            let ended = end.unwrap_or(since);
            PodState::Stopped(Stopped {
                since,
                state,
                certain: false,
                ended,
                restarted,
                comeback,
                is_over,
                never_ran,
            })
        };

        if let Some(running) = container.running_since {
            let is_proven = running.after(PROVEN_AFTER) <= now || end.is_none();
            return if is_proven {
                PodState::Running
            } else {
                stopped("restarted".to_owned(), Some(running))
            };
        }

        if ended.is_none() && container.restarts == 0 && !is_over {
            let since = pod.created.unwrap_or(history.first_seen).min(history.first_seen);
            return PodState::Starting(since, first_word([&container.waiting, &pod.phase]));
        }

        // An eviction ends the container like any other error.
        let why = if is_over { pod.reason.as_str() } else { "" };
        let how = ended.map_or(pod.phase.as_str(), |ended| &ended.reason);
        let state = first_word([&container.waiting, why, how, "stopped"]);

        stopped(state, None)
    }

    /// Returns when a Pod last ran; `None` if loopwatch has seen none run.
    pub(super) fn last_running(&self, now: Timestamp) -> Option<Timestamp> {
        if self.running { Some(now) } else { self.last_running }
    }

    pub(super) fn history(&self, uid: &str) -> Option<&PodHistory> {
        self.histories.get(uid)
    }

    /// Notes whether fewer Pods run than should.
    fn update_shortage(&mut self, now: Timestamp, view: &OperatorView) {
        let live = view.pods.iter().filter(|pod| pod.deleted.is_none() && runs(pod));
        let running: BTreeSet<String> = live.map(|pod| pod.uid.clone()).collect();
        let wanted = view.workload.as_ref().map_or(0, |workload| workload.replicas as usize);

        // Once another Pod runs, the Pods that are missing may be others than before: nodes come and
        // go, and each takes its Pod of a DaemonSet with it.
        let same = self.shortage.take().filter(|before| running.is_subset(&before.running));
        let since = same.map_or(now, |shortage| shortage.since);
        let is_short = view.complete && running.len() < wanted;
        self.shortage = is_short.then_some(Shortage { since, running });
    }

    /// Returns since when fewer Pods have run than should, without a further one that began to run.
    pub(super) fn short_since(&self) -> Option<Timestamp> {
        self.shortage.as_ref().map(|shortage| shortage.since)
    }

    /// Moves all instants of loopwatch's own clock by `by_ms` milliseconds.
    pub(super) fn clock_stepped(&mut self, by_ms: i64) {
        let shift = |at: &mut Timestamp| *at = at.shifted(by_ms);
        let Self { last_running, none_since, recreating_since, idle_since, .. } = self;
        let own = [last_running, none_since, recreating_since, idle_since];
        let own = own.into_iter().chain([
            &mut self.unwanted_since,
            &mut self.wanted_since,
            &mut self.viewed,
            &mut self.regained,
        ]);

        own.flatten()
            .chain(self.shortage.as_mut().map(|shortage| &mut shortage.since))
            .for_each(shift);
        self.histories.values_mut().for_each(|history| history.clock_stepped(by_ms));
        self.others.clock_stepped(by_ms);
        self.lost.clock_stepped(by_ms);
    }
}

/// Returns the first word that is not empty.
fn first_word<const N: usize>(words: [&str; N]) -> String {
    words.into_iter().find(|word| !word.is_empty()).unwrap_or_default().to_owned()
}

/// Returns, for people, the state of a container that has never started, and what it waits for.
fn not_started(word: &str) -> String {
    if word.is_empty() { "never started".to_owned() } else { format!("never started ({word})") }
}

/// Returns the state of a container that has been trying to start since `since`.
fn never_started(since: Timestamp) -> Stopped {
    let (state, comeback) = (not_started(""), Comeback::Unlikely);
    Stopped {
        since,
        state,
        certain: false,
        ended: since,
        restarted: None,
        comeback,
        is_over: false,
        never_ran: false,
    }
}

/// If all Pods terminate, returns the Pod whose grace period ends last, and when. On a lost node,
/// no kubelet ends the Pods, and a StatefulSet waits for them.
fn terminated(view: &OperatorView) -> Option<(&str, Timestamp)> {
    let ends = view.pods.iter().map(|pod| Some((pod.name.as_str(), pod.deleted?)));
    ends.collect::<Option<Vec<_>>>()?.into_iter().max_by_key(|(_, ended)| *ended)
}
