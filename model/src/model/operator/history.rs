//! What the scrapes of one instance have shown so far, as far as the detectors need it: for each
//! controller a few counts, and since when each state has lasted. A counter that becomes smaller,
//! or belongs to another process, counts from zero.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::finding::{FindingCode, Subject};
use crate::model::operator::pace::{self, Pace};
use crate::model::operator::queue::{Queue, waiting_for_workers};
use crate::model::operator::window::Window;
use crate::model::operator::written::Written;
use crate::model::world::World;
use crate::observation::{ControllerView, MAX_CONTROLLERS, MetricsView};
use crate::settings::Settings;
use crate::time::{Span, Timestamp};

/// After this time without a scrape, the state of the instance is unknown, unless scrapes are
/// rarer.
pub(super) const STALE_AFTER: Span = Span::mins(5);

/// How long a finding stays open after the last scrape, which showed it. The end of the metrics is
/// not the end of the problem.
pub(super) const KEPT_FOR: Span = Span::mins(30);

/// If scrapes are rare, this many intervals between them may pass instead, so that findings last
/// from one scrape to the next.
const STALE_INTERVALS: i64 = 2;

/// The number of parts into which the window for the growth of a queue is divided.
const GROWTH_PARTS: usize = 12;

/// The largest number of reconciles that ended between two scrapes of which their total duration
/// shows the longest one.
const FEW: u64 = 3;

/// A queue makes progress if it loses one of this many parts within `workers_saturated_after`: it is
/// then worked off within hours.
const TENTHS: u64 = 10;

/// The same within `queue_backlog_after`, which is shorter.
const FIFTIETHS: u64 = 50;

/// The number of objects by which a queue must grow over the whole window.
const MIN_GROWTH: u64 = 50;

/// The history of one instance.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// By the name of the controller; only those of the last scrape.
    pub(super) controllers: BTreeMap<String, Loop>,
    /// Requests to the API server.
    pub(super) requests: Window,
    /// The requests among them that got no answer, or that the API server failed to serve or
    /// throttled.
    pub(super) failed: Window,
    /// The last scrape before the first failed request within the window, and the length of the
    /// queues then.
    calm: Option<(Timestamp, u64)>,
    /// The requests among them that the API server denied.
    pub(super) forbidden: Window,
    /// How often it writes, compared with the changes.
    pub(super) written: Written,
    /// The number of changes that the watches had shown at the last scrape.
    changes_seen: u64,
    /// The requests among them that failed because of a conflict.
    pub(super) recent_conflicts: Window,
    /// The same within an hour.
    pub(super) conflicts: Window,
}

/// The history of one controller.
#[derive(Debug, Default)]
pub(crate) struct Loop {
    /// The errors since the last success.
    pub(super) failing: Option<Failing>,
    /// The last scrape that showed a success.
    pub(super) succeeded: Option<Timestamp>,
    pub(super) errors: Window,
    /// The reconciles that failed, and those that succeeded, within the window of requests.
    pub(super) failed: Window,
    pub(super) done: Window,
    /// How often it reconciles, compared with the changes.
    pub(super) pace: Pace,
    pub(super) panics: Window,
    /// The queue while all workers are busy and objects wait.
    pub(super) saturated: Option<Queue>,
    /// Since when workers have been busy without the end of any reconcile. At least one reconcile
    /// has run since then.
    pub(super) unended_since: Option<Timestamp>,
    pub(super) backlog: Option<Backlog>,
    /// The shortest queue in each part of the window, the latest part last.
    depths: VecDeque<u64>,
    /// By how much the queue has grown over the whole window, from the time at which it had doubled
    /// until it shrinks.
    pub(super) grown: Option<u64>,
    /// When the latest part began.
    part_began: Option<Timestamp>,
    /// How long the longest reconcile took, in seconds, of those that the last scrape shows to have
    /// succeeded since the one before; zero if there is none, or if others failed.
    pub(super) ended: f64,
    /// Since when objects wait although no reconcile has begun since the start of the process.
    pub(super) unsynced_since: Option<Timestamp>,
}

/// Errors without a success between them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failing {
    /// The first scrape that showed one.
    pub(super) since: Timestamp,
    /// The last scrape that showed one.
    pub(crate) last: Timestamp,
    pub(super) errors: u64,
}

/// A queue beyond the limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backlog {
    pub(super) queue: Queue,
    /// It has lasted for long enough. From then on, it ends only when the queue is within the
    /// limit.
    pub(super) stands: bool,
}

/// Returns until when a scrape counts.
pub(super) fn fresh_until(at: Timestamp, view: &MetricsView) -> Timestamp {
    at.after(STALE_AFTER.max(Span(view.interval.0.saturating_mul(STALE_INTERVALS))))
}

/// Returns until when the findings that a scrape showed stay open if no other one succeeds.
pub(super) fn kept_until(at: Timestamp, view: &MetricsView) -> Timestamp {
    at.after(KEPT_FOR).max(fresh_until(at, view))
}

impl History {
    /// Takes a scrape. `earlier` is the scrape before it, and `restarted` tells whether that one
    /// was of another process. `open` holds the open findings about the operator. Returns whether a
    /// reconcile has panicked in between.
    pub(super) fn update(
        &mut self,
        now: Timestamp,
        earlier: Option<(Timestamp, &MetricsView)>,
        view: &MetricsView,
        restarted: bool,
        open: &BTreeSet<(FindingCode, Subject)>,
        world: &World,
    ) -> bool {
        let settings = &world.settings;
        self.update_requests(now, earlier, view, restarted, settings);
        let seen = std::mem::replace(&mut self.changes_seen, world.changes);
        let changes = world.changes.saturating_sub(seen);
        let window = pace::window(settings, view);
        let before = earlier.filter(|(at, _)| !restarted && now.since(*at) <= STALE_AFTER);
        self.written.update(now, window, before.map(|(_, view)| view), view, changes);
        self.controllers
            .retain(|name, _| view.controllers.iter().any(|controller| controller.name == *name));

        let gap = earlier.is_none_or(|(at, _)| now.since(at) > STALE_AFTER);
        let mut panicked = false;
        for controller in view.controllers.iter().take(MAX_CONTROLLERS) {
            let known = earlier.and_then(|(_, view)| {
                view.controllers.iter().find(|known| known.name == controller.name)
            });
            let history = self.controllers.entry(controller.name.clone()).or_default();
            let subject = Subject::Controller { name: controller.name.clone() };
            let is_open = |code| !restarted && open.contains(&(code, subject.clone()));

            if gap || restarted {
                history.forget_states(is_open);
            }

            panicked |= history.update(now, known, controller, restarted, settings);
            let paced = known.filter(|_| !gap && !restarted);
            history.pace.update(now, window, paced, controller, changes);
            let known =
                known.filter(|_| !restarted && (!gap || is_open(FindingCode::ReconcileStuck)));
            history.update_unended(earlier.map(|(at, _)| at).zip(known), controller);
            history.update_sync(now, controller);
        }

        panicked
    }

    fn update_requests(
        &mut self,
        now: Timestamp,
        earlier: Option<(Timestamp, &MetricsView)>,
        view: &MetricsView,
        restarted: bool,
        settings: &Settings,
    ) {
        let Some((earlier_at, earlier)) = earlier else { return };

        let (mut all, mut failed, mut forbidden, mut conflicts) = (0_u64, 0_u64, 0_u64, 0_u64);
        for (code, count) in &view.requests {
            let known =
                earlier.requests.iter().find(|(other, _)| other == code).map(|(_, count)| *count);

            // The counter of a status code appears only with the first such request.
            let new = if earlier.requests.is_empty() {
                0
            } else {
                grown(Some(known.unwrap_or(0)), *count, restarted)
            };

            all = all.saturating_add(new);
            match code.as_str() {
                "403" => forbidden = new,
                "409" => conflicts = new,
                // Nothing happens either if the API server does not accept the credentials.
                "401" | "429" | "<error>" => failed = failed.saturating_add(new),
                code if code.len() == 3 && code.starts_with('5') => {
                    failed = failed.saturating_add(new)
                }
                _ => {}
            }
        }

        let window = settings.api_window;
        let was_calm = self.failed.is_empty();
        self.requests.add(now, all, window);
        self.failed.add(now, failed, window);

        if self.failed.is_empty() {
            self.calm = None;
        } else if was_calm {
            self.calm = Some((earlier_at, queued(earlier)));
        }

        self.forbidden.add(now, forbidden, window);
        self.recent_conflicts.add(now, conflicts, window);
        self.conflicts.add(now, conflicts, Span::hours(1));
    }

    /// Returns the time of the last scrape before requests began to fail within the window, and the
    /// length of the queues then.
    pub(super) fn calm(&self) -> Option<(Timestamp, u64)> {
        self.calm
    }

    pub(super) fn clock_stepped(&mut self, by_ms: i64) {
        self.calm.iter_mut().for_each(|(at, _)| *at = at.shifted(by_ms));
        let windows = [&mut self.requests, &mut self.failed, &mut self.forbidden];
        let conflicts = [&mut self.recent_conflicts, &mut self.conflicts];
        windows.into_iter().chain(conflicts).for_each(|window| window.clock_stepped(by_ms));
        self.written.clock_stepped(by_ms);
        self.controllers.values_mut().for_each(|history| history.clock_stepped(by_ms));
    }
}

impl Loop {
    /// Takes a scrape of the controller. Returns whether a reconcile has panicked since the previous
    /// scrape.
    fn update(
        &mut self,
        now: Timestamp,
        earlier: Option<&ControllerView>,
        view: &ControllerView,
        restarted: bool,
        settings: &Settings,
    ) -> bool {
        // A counter that was absent before counts from zero: it may appear only with its first
        // event.
        let since = |of: fn(&ControllerView) -> Option<u64>| {
            Some(grown(of(earlier?), of(view)?, restarted))
        };
        let (succeeded, failed) = (since(|view| view.succeeded), since(|view| view.failed));
        let errors = failed.unwrap_or(0);
        let running = |view: &ControllerView| view.longest_running_seconds.unwrap_or(0.0);

        // A reconcile that a restart has ended shows nothing.
        let is_same =
            !restarted && earlier.is_some_and(|earlier| earlier.succeeded <= view.succeeded);
        let succeeds = is_same && succeeded > Some(0) && errors == 0;
        let ran = earlier.map(running).filter(|was| *was > running(view));
        let took = earlier.and_then(|earlier| longest_of(earlier, view));
        self.ended = ran.into_iter().chain(took).filter(|_| succeeds).fold(0.0, f64::max);
        match succeeded {
            Some(0) if errors > 0 => {
                let failing =
                    self.failing.get_or_insert(Failing { since: now, last: now, errors: 0 });
                failing.last = now;
                failing.errors = failing.errors.saturating_add(errors);
            }
            Some(0) => {}
            _ => self.failing = None,
        }

        self.succeeded = succeeded.filter(|new| *new > 0).map(|_| now).or(self.succeeded);
        self.errors.add(now, errors, settings.reconcile_failing_after);
        self.failed.add(now, errors, settings.api_window);
        self.done.add(now, succeeded.unwrap_or(0), settings.api_window);

        let panics = since(|view| view.panicked).unwrap_or(0);
        self.panics.add(now, panics, settings.restart_window);

        let waiting = waiting_for_workers(view);
        self.saturated = waiting.map(|depth| Queue::update(self.saturated, now, depth, TENTHS));
        self.update_queue(now, view.queue_depth, settings);

        panics > 0
    }

    fn update_queue(&mut self, now: Timestamp, depth: Option<u64>, settings: &Settings) {
        let Some(depth) = depth else {
            (self.backlog, self.part_began, self.grown) = (None, None, None);
            return self.depths.clear();
        };

        let is_long = depth > u64::from(settings.queue_backlog);
        self.backlog = is_long.then(|| match self.backlog.filter(|known| known.stands) {
            Some(known) => known,
            None => {
                let queue =
                    Queue::update(self.backlog.map(|known| known.queue), now, depth, FIFTIETHS);
                let stands = now.since(queue.since) >= settings.queue_backlog_after;
                Backlog { queue, stands }
            }
        });

        let part = Span(settings.queue_growth_window.0 / GROWTH_PARTS as i64);
        match self
            .depths
            .back_mut()
            .filter(|_| self.part_began.is_some_and(|began| now.since(began) < part))
        {
            Some(least) => *least = depth.min(*least),
            None => {
                self.part_began = Some(now);
                if self.depths.len() > GROWTH_PARTS {
                    self.depths.pop_front();
                }

                self.depths.push_back(depth);
                self.grown = self.growth();
            }
        }
    }

    /// Returns by how much the queue has grown over the whole window; `None` if it has shrunk in
    /// between, or has grown too little or too rarely. The latest part is not complete and does not
    /// count. A queue that has been found to grow does so as long as it does not shrink: a steady
    /// growth doubles a short queue soon, and a long one no more.
    fn growth(&self) -> Option<u64> {
        let complete: Vec<u64> = self.depths.iter().take(GROWTH_PARTS).copied().collect();
        let (first, last) = (complete.first().copied()?, complete.last().copied()?);
        let pairs = || complete.windows(2).map(|pair| (pair[0], pair[1]));
        let rising = pairs().filter(|(a, b)| b > a).count();
        let is_steady = pairs().all(|(a, b)| b >= a) && rising >= GROWTH_PARTS / 2;
        let grown = last.saturating_sub(first);
        let is_whole = self.depths.len() > GROWTH_PARTS;

        let is_much = grown >= MIN_GROWTH && last >= first.saturating_mul(2);
        let shrinks = pairs().next_back().is_some_and(|(before, last)| last < before);
        let goes_on = self.grown.is_some() && !shrinks && grown > 0;

        (is_whole && ((is_steady && is_much) || goes_on)).then_some(grown)
    }

    /// Notes whether a reconcile that ran at the previous scrape still runs: none has ended in
    /// between.
    fn update_unended(
        &mut self,
        earlier: Option<(Timestamp, &ControllerView)>,
        view: &ControllerView,
    ) {
        let busy = |view: &ControllerView| view.workers_busy.is_some_and(|workers| workers > 0);
        let ended = |view: &ControllerView| {
            Some((view.reconcile_seconds?.count, view.succeeded, view.failed))
        };
        let same = earlier.filter(|(_, earlier)| {
            busy(earlier) && ended(earlier).is_some() && ended(earlier) == ended(view)
        });
        let since = same.filter(|_| busy(view)).map(|(at, _)| at);

        self.unended_since = since.map(|at| self.unended_since.unwrap_or(at));
    }

    /// Notes whether objects wait although no reconcile has begun since the start of the process.
    fn update_sync(&mut self, now: Timestamp, view: &ControllerView) {
        let idle = view.succeeded == Some(0)
            && view.failed.unwrap_or(0) == 0
            && view.workers_busy.unwrap_or(0) == 0;
        let unsynced = idle && view.queue_depth.is_some_and(|depth| depth > 0);

        self.unsynced_since = unsynced.then(|| self.unsynced_since.unwrap_or(now));
    }

    /// Forgets the states that may have ended between two scrapes, except those whose finding
    /// `is_open`.
    fn forget_states(&mut self, is_open: impl Fn(FindingCode) -> bool) {
        self.saturated = self.saturated.filter(|_| is_open(FindingCode::WorkersSaturated));
        self.unended_since = self.unended_since.filter(|_| is_open(FindingCode::ReconcileStuck));
        self.unsynced_since =
            self.unsynced_since.filter(|_| is_open(FindingCode::InformerNotSynced));

        if !is_open(FindingCode::QueueBacklog) {
            (self.backlog, self.part_began, self.grown) = (None, None, None);
            self.depths.clear();
        }
    }

    fn clock_stepped(&mut self, by_ms: i64) {
        let shift = |at: &mut Timestamp| *at = at.shifted(by_ms);
        self.failing.iter_mut().for_each(|failing| {
            shift(&mut failing.since);
            shift(&mut failing.last);
        });
        let queues = self.backlog.iter_mut().map(|backlog| &mut backlog.queue);
        queues.chain(&mut self.saturated).for_each(|queue| shift(&mut queue.since));

        let states = [&mut self.succeeded, &mut self.unended_since, &mut self.unsynced_since];

        let instants = states.into_iter().chain([&mut self.part_began]);
        instants.flatten().for_each(shift);
        self.errors.clock_stepped(by_ms);
        self.failed.clock_stepped(by_ms);
        self.done.clock_stepped(by_ms);
        self.pace.clock_stepped(by_ms);
        self.panics.clock_stepped(by_ms);
    }
}

/// Returns the number of objects in the queues of all controllers; zero if it is not known.
pub(super) fn queued(view: &MetricsView) -> u64 {
    view.controllers
        .iter()
        .filter_map(|controller| controller.queue_depth)
        .fold(0, u64::saturating_add)
}

/// Returns how long the longest reconcile that ended between two scrapes took, in seconds, if the
/// others took as long as usual. Of many reconciles, nothing shows how long one of them took.
fn longest_of(earlier: &ControllerView, view: &ControllerView) -> Option<f64> {
    let (before, now) = (earlier.reconcile_seconds?, view.reconcile_seconds?);
    let ended = now.count.checked_sub(before.count).filter(|ended| (1..=FEW).contains(ended))?;
    #[expect(clippy::cast_precision_loss, reason = "an estimate needs only a few digits")]
    let others = before.mean() * (ended - 1) as f64;

    Some((now.sum - before.sum - others).max(0.0))
}

/// Returns by how much a counter has grown. A counter that became smaller, or belongs to another
/// process, began at zero.
fn grown(earlier: Option<u64>, now: u64, restarted: bool) -> u64 {
    let earlier = earlier.filter(|earlier| !restarted && *earlier <= now);
    now - earlier.unwrap_or(0)
}
