//! Reads the operator's process from `/proc`.
//!
//! How much loopwatch sees depends on the Pod (docs/process.md). Without a shared process
//! namespace, it sees only its own processes, and the source is off. With one, it sees the memory,
//! threads and descriptors of the operator's process. If it runs as the same user and group, it
//! also sees the memory of the operator's container. The status of the source says what it cannot
//! read, and why.

use std::time::Duration;

use loopwatch_model::observation::{Cause, Observation, ProcessView, SourceId};
use loopwatch_model::time::{Span, Timestamp};
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{sleep_until, timeout};

mod cgroup;
mod files;
mod find;
pub(crate) mod fuzzing;
mod sample;
#[cfg(test)]
mod tests;

pub(crate) use self::cgroup::own_limit as own_memory_limit;
use self::files::Proc;
use self::find::{ProcessSearch, find};
use self::sample::{OwnProcess, ProcessIdentity, sample};
use super::hints::OperatorClue;
use crate::net::Failure;
use crate::sources::feed::{Closed, Feed};
use crate::system::{coarse_timers, procfs};

/// Where the operator's process is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ProcessSelection {
    /// In loopwatch's own Pod.
    #[default]
    OwnPod,
    /// The process with this PID.
    Pid(u32),
}

/// Reads the operator's process.
pub(crate) struct ProcessReader {
    proc: Proc,
    pid: Option<u32>,
    /// The instance, unless the clue names it.
    instance: String,
    clues: watch::Receiver<OperatorClue>,
    own: Option<OwnProcess>,
    current: Option<CurrentProcess>,
    /// Interval between readings.
    every: Duration,
}

/// The process of the last reading.
#[derive(Debug)]
struct CurrentProcess {
    process: ProcessIdentity,
    instance: String,
    started: Timestamp,
}

/// The result of one reading.
#[derive(Debug, PartialEq)]
struct Reading {
    status: ReaderStatus,
    /// The instance whose process has ended.
    gone: Option<String>,
    seen: Option<Box<ProcessView>>,
}

/// The state of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ReaderStatus {
    Works,
    /// The source works, but cannot read everything.
    Restricted(String),
    Off(String),
    Failed(Cause, String),
}

/// The longest interval between readings. They cost the operator nothing, so it may be shorter than
/// that of scrapes.
const READ_EVERY: Duration = Duration::from_secs(10);

/// Time after which a reading counts as failed. The kernel usually answers within a millisecond.
const WITHIN: Duration = Duration::from_secs(5);

/// Possible difference between two computations of the same start, in milliseconds. A larger one
/// shows that the clock was set.
const SAME_START_MS: u64 = 2_000;

/// How much later than the observation of a process its start may be. The clock of the node may be
/// ahead of that of the API server.
const MAX_SKEW: Span = Span::hours(24);

/// The instance of a process that runs outside of a Pod and has no metrics.
const LOCAL: &str = "localhost";

/// Why the source is off outside of a Pod.
const NO_POD: &str = "loopwatch does not run in the operator's Pod, so the operator's memory comes from its metrics; --pid names \
     the operator's process on this machine";

/// Why the source is off in a Pod whose containers do not share their processes.
const NOT_SHARED: &str = "loopwatch sees only its own processes, so the operator's memory comes from its metrics; the component \
     deploy/components/process lets a sidecar see the operator's process";

/// The status of the source while no process runs.
const NOTHING: &str = "no process of the operator runs, or it has just started";

/// Reads until the feed is closed, or until it is certain that nothing can be read.
pub(crate) async fn follow_process(reader: Option<ProcessReader>, feed: Feed) {
    let ended = match reader {
        Some(reader) => read_regularly(reader, &feed).await,
        None => ReaderStatus::Off(NO_POD.to_owned()).send(&feed).await,
    };

    // The supervisor notices that the receiver is gone.
    let (Ok(()) | Err(Closed)) = ended;
}

async fn read_regularly(mut reader: ProcessReader, feed: &Feed) -> Result<(), Closed> {
    if reader.is_alone() {
        // This holds as long as the Pod exists.
        return ReaderStatus::Off(NOT_SHARED.to_owned()).send(feed).await;
    }

    let mut said = None;
    loop {
        let now = feed.clock().now();
        let next = coarse_timers::after(reader.every);
        let reading = spawn_blocking(move || {
            let reading = reader.read(now);
            (reading, reader)
        });
        let reading = within(reading, &mut said, feed).await?;
        let (Reading { status, gone, seen }, back) = reading;

        reader = back;
        if let Some(instance) = gone {
            feed.send(Observation::ProcessGone { instance }).await?;
        }

        if said.as_ref() != Some(&status) {
            status.send(feed).await?;
            said = Some(status);
        }

        if let Some(view) = seen {
            feed.send(Observation::ProcessSeen(view)).await?;
        }

        sleep_until(next).await;
    }
}

/// Waits for a reading. Reports a slow one, and starts no other in the meantime.
async fn within<T>(
    mut reading: JoinHandle<T>,
    said: &mut Option<ReaderStatus>,
    feed: &Feed,
) -> Result<T, Closed> {
    let result = match timeout(WITHIN, &mut reading).await {
        Ok(result) => result,
        Err(_) => {
            let status = ReaderStatus::Failed(
                Cause::Timeout,
                format!("/proc: no answer within {} s", WITHIN.as_secs()),
            );

            status.send(feed).await?;
            *said = Some(status);
            reading.await
        }
    };
    match result {
        Ok(read) => Ok(read),
        Err(error) => match error.try_into_panic() {
            // The supervisor reports the panic and starts this source again.
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(Closed), // the runtime is shutting down
        },
    }
}

impl ProcessReader {
    /// A reader of the selected process; `None` if there is none. `pod` is the instance in
    /// loopwatch's own Pod, `namespace/name`. Outside of a Pod it is `None`, and metrics may name
    /// the instance (`scraped`). `scrapes` is the interval between scrapes, so that both cover the
    /// same times.
    pub(crate) fn new(
        selection: ProcessSelection,
        pod: Option<String>,
        scraped: Option<String>,
        clues: watch::Receiver<OperatorClue>,
        scrapes: Duration,
    ) -> Option<Self> {
        let pid = match selection {
            ProcessSelection::Pid(pid) => Some(pid),
            ProcessSelection::OwnPod => {
                pod.as_ref()?;
                None
            }
        };

        let instance = pod.or(scraped).unwrap_or_else(|| LOCAL.to_owned());
        let reader = Self::of(Proc::new("/proc", std::process::id()), pid, instance, clues);
        Some(Self { every: READ_EVERY.min(scrapes), ..reader })
    }

    fn of(
        proc: Proc,
        pid: Option<u32>,
        instance: String,
        clues: watch::Receiver<OperatorClue>,
    ) -> Self {
        Self { proc, pid, instance, clues, own: None, current: None, every: READ_EVERY }
    }

    /// Whether no other container can ever be visible: in a shared process namespace, loopwatch is
    /// not the first process.
    fn is_alone(&self) -> bool {
        self.pid.is_none() && self.proc.own() == 1
    }

    /// Reads the operator's process. Searches for it first if it is unknown or has ended.
    fn read(&mut self, now: Timestamp) -> Reading {
        let proc = self.proc.clone();
        let own = self.own.get_or_insert_with(|| OwnProcess::read(&proc)).clone();
        let has_changed = self.clues.has_changed().unwrap_or(false);
        let clue = self.clues.borrow_and_update().clone();
        let instance =
            if clue.instance.is_empty() { self.instance.clone() } else { clue.instance.clone() };
        let before = self.current.take();
        let mut sampled = None;

        if let Some(process) = before.as_ref().map(|before| before.process).filter(|_| !has_changed)
        {
            sampled = sample(&proc, &own, process).map(|sample| (process, sample));
        }

        let mut status = ReaderStatus::Works;
        if sampled.is_none() {
            match self.search(&own, &clue) {
                Ok(process) => {
                    sampled = sample(&proc, &own, process).map(|sample| (process, sample))
                }
                Err(reason) => status = reason,
            }
        }

        // A process that still runs counts even if the clue matches no process.
        if sampled.is_none()
            && let Some(process) =
                before.as_ref().map(|before| before.process).filter(|_| has_changed)
        {
            sampled = sample(&proc, &own, process).map(|sample| (process, sample));
        }

        let Some((process, (mut view, reasons))) = sampled else {
            // It may have ended between the search and the sample.
            let status = if status == ReaderStatus::Works {
                ReaderStatus::Restricted(NOTHING.to_owned())
            } else {
                status
            };

            return Reading { status, gone: before.map(|before| before.instance), seen: None };
        };

        let gone = before
            .as_ref()
            .filter(|before| before.process != process || before.instance != instance);
        let gone = gone.map(|before| before.instance.clone());
        let started = self.started(now, process, before.as_ref());

        (view.instance, view.started) = (instance.clone(), Some(started));
        self.current = Some(CurrentProcess { process, instance, started });

        let status = if reasons.is_empty() {
            ReaderStatus::Works
        } else {
            ReaderStatus::Restricted(reasons)
        };
        Reading { status, gone, seen: Some(Box::new(view)) }
    }

    fn search(
        &self,
        own: &OwnProcess,
        clue: &OperatorClue,
    ) -> Result<ProcessIdentity, ReaderStatus> {
        if let Some(pid) = self.pid {
            return match self.proc.stat(pid) {
                Some(stat) => Ok(ProcessIdentity { pid, start_ticks: stat.start_ticks }),
                None => Err(ReaderStatus::Failed(
                    Cause::NotFound,
                    format!("no process has the PID {pid} (--pid)"),
                )),
            };
        }

        match find(&self.proc, &own.cgroup, clue) {
            ProcessSearch::Process(process) => Ok(process),
            ProcessSearch::NotShared => Err(ReaderStatus::Off(NOT_SHARED.to_owned())),
            ProcessSearch::Nothing => Err(ReaderStatus::Restricted(NOTHING.to_owned())),
            ProcessSearch::Ambiguous(why) => Err(ReaderStatus::Off(format!(
                "cannot tell which process is the operator's: {why}; the start time in its metrics, the permission to \
                 read the own Pod, or --pid would show it"
            ))),
        }
    }

    /// When a process started, on the clock of the observations. The time stays the same until that
    /// clock is set.
    fn started(
        &self,
        now: Timestamp,
        process: ProcessIdentity,
        before: Option<&CurrentProcess>,
    ) -> Timestamp {
        let start = procfs::seconds(process.start_ticks);
        let by_age = self
            .proc
            .uptime()
            .filter(|uptime| *uptime >= start)
            .map(|uptime| now.0 - millis(uptime - start));
        let by_clock = || {
            let booted = procfs::booted(&self.proc.global("stat").ok()?)?;
            Some(millis(booted + start))
        };

        let is_possible = |at: &i64| (0..=now.after(MAX_SKEW).0).contains(at);
        let started = by_age.or_else(by_clock).filter(is_possible).unwrap_or(now.0);
        let started = Timestamp(started);
        match before.filter(|before| before.process == process) {
            Some(before) if before.started.0.abs_diff(started.0) <= SAME_START_MS => before.started,
            _ => started,
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a float beyond the range becomes its nearest end"
)]
fn millis(seconds: f64) -> i64 {
    (seconds * 1000.0) as i64
}

impl ReaderStatus {
    async fn send(&self, feed: &Feed) -> Result<(), Closed> {
        let source = SourceId::Process;
        match self.clone() {
            Self::Works => feed.recovered(source).await,
            Self::Restricted(reason) => {
                feed.send(Observation::SourceRestricted { source, reason }).await
            }
            Self::Off(reason) => feed.send(Observation::SourceOff { source, reason }).await,
            Self::Failed(cause, detail) => feed.failed(source, &Failure::new(cause, detail)).await,
        }
    }
}
