use std::fs;
use std::path::Path;

use loopwatch_model::observation::Runtime;

use super::*;

mod children;
mod search;

/// A `/proc` in a folder, as loopwatch sees it from process 30.
struct FakeProc {
    folder: tempfile::TempDir,
}

/// The cgroups of containers, as a sidecar sees them with containerd and cgroup version 2.
const OWN: &str = "0::/\n";
const PAUSE: &str = "0::/../cri-containerd-aaaaaaaaaaaa.scope\n";
const OPERATOR: &str = "0::/../cri-containerd-bbbbbbbbbbbb.scope\n";
const OTHER: &str = "0::/../cri-containerd-cccccccccccc.scope\n";

/// When the machine booted, in seconds since 1970, and for how long it has been running.
const BOOTED: f64 = 1_700_000_000.0;
const UPTIME: f64 = 1_000.0;

/// The time of the observations.
const NOW: Timestamp = Timestamp(1_700_001_000_500);

impl FakeProc {
    /// A Pod whose containers share their processes, without the operator.
    fn pod() -> Self {
        let proc = Self { folder: tempfile::tempdir().expect("a folder") };
        proc.write("stat", "cpu  1 2 3\nbtime 1700000000\nprocesses 9\n");
        proc.write("uptime", "1000.00 1900.00\n");
        proc.process(1, "pause", 0, 10_000, PAUSE);
        proc.process(30, "loopwatch", 0, 10_100, OWN);

        proc
    }

    /// Adds a process that started at these ticks after the machine.
    fn process(&self, pid: u32, command: &str, parent: u32, ticks: u64, cgroup: &str) {
        let stat = format!(
            "{pid} ({command}) S {parent} 1 1 0 -1 4194560 6427 62420 0 30 150 50 27 3 20 0 1 0 {ticks} 5255168 902\n"
        );
        self.write(&format!("{pid}/stat"), &stat);
        self.write(
            &format!("{pid}/status"),
            &format!(
                "Name:\t{command}\nUid:\t1000\t1000\t1000\t1000\nGid:\t1000\t1000\t1000\t1000\nVmRSS:\t  {pid}00 kB\n\
                 RssAnon:\t    {pid}0 kB\nThreads:\t7\nCapPrm:\t0000000000000000\n"
            ),
        );

        self.write(
            &format!("{pid}/limits"),
            "Limit  Soft  Hard\nMax open files   1024   524288   files\n",
        );
        self.write(&format!("{pid}/cgroup"), cgroup);
        self.write(&format!("{pid}/mountinfo"), "");

        // A folder on a disk has a size, as a folder of descriptors does on Linux 6.2 and later.
        self.write(&format!("{pid}/fd/0"), "");
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.folder.path().join(file);
        fs::create_dir_all(path.parent().expect("a parent")).expect("our own folder");
        fs::write(path, text).expect("our own folder");
    }

    fn end(&self, pid: u32) {
        fs::remove_dir_all(self.folder.path().join(pid.to_string())).expect("a process");
    }

    fn proc(&self) -> Proc {
        Proc::new(self.folder.path(), 30)
    }

    fn reader(&self, clues: &watch::Sender<OperatorClue>) -> ProcessReader {
        ProcessReader::of(self.proc(), None, "op/pod".to_owned(), clues.subscribe())
    }
}

/// What a reading says, for comparisons.
fn say(reading: &Reading) -> String {
    let status = match &reading.status {
        ReaderStatus::Works => "works".to_owned(),
        ReaderStatus::Restricted(_) => "restricted".to_owned(),
        ReaderStatus::Off(_) => "off".to_owned(),
        ReaderStatus::Failed(cause, _) => cause.to_string(),
    };

    let gone =
        reading.gone.as_ref().map_or_else(String::new, |instance| format!(", {instance} is gone"));
    let seen = reading.seen.as_ref();
    let seen = seen.map_or_else(String::new, |view| {
        format!(", {} is {}", view.instance, view.pid.unwrap_or_default())
    });

    format!("{status}{gone}{seen}")
}

#[test]
fn without_other_containers_the_source_is_off_and_names_the_component() {
    let fake = FakeProc::pod();
    fake.end(1);
    fake.process(1, "sh", 0, 9_000, OWN);

    let reading = fake.reader(&watch::Sender::default()).read(NOW);
    let ReaderStatus::Off(reason) = &reading.status else { panic!("{reading:?}") };

    assert!(
        reason.contains("deploy/components/process") && reason.contains("comes from its metrics"),
        "{reason}"
    );
    assert!(
        ProcessReader::of(
            Proc::new("/proc", 1),
            None,
            String::new(),
            watch::Sender::default().subscribe()
        )
        .is_alone()
    );
}

#[test]
fn a_process_is_read_from_any_user() {
    let fake = FakeProc::pod();
    fake.process(7, "manager", 0, 20_000, OPERATOR);

    let reading = fake.reader(&watch::Sender::default()).read(NOW);
    let view = reading.seen.as_deref().expect("a process");
    let memory = (view.resident, view.anonymous, view.working_set, view.memory_limit);

    assert_eq!(
        memory,
        (Some(700 * 1024), Some(70 * 1024), None, None),
        "the cgroup is not readable"
    );
    assert!(view.open_fds.is_some(), "{view:?}");
    assert_eq!((view.threads, view.max_fds, view.cpu_seconds), (Some(7), Some(1024), Some(2.0)));
    assert_eq!(
        (view.pid, view.start_ticks, view.runtime),
        (Some(7), Some(20_000), Runtime::Unknown)
    );

    assert_eq!(
        view.started,
        Some(Timestamp(NOW.0 - 800_000)),
        "by the clock of the observations, not of the node"
    );

    let ReaderStatus::Restricted(reason) = reading.status else { panic!("{reading:?}") };
    assert_eq!(
        reason,
        "cgroup of the operator: the operator's file system does not show its memory"
    );
}

#[test]
fn restarts_are_followed_and_a_clock_step_is_none() {
    let fake = FakeProc::pod();
    fake.process(7, "manager", 0, 20_000, OPERATOR);

    let mut reader = fake.reader(&watch::Sender::default());
    assert_eq!(say(&reader.read(NOW)), "restricted, op/pod is 7");

    fake.write("stat", "btime 1600000000\n");
    let later = reader.read(Timestamp(NOW.0 + 1_900)).seen.expect("a process");

    assert_eq!(
        (later.start_ticks, later.started),
        (Some(20_000), Some(Timestamp(NOW.0 - 800_000)))
    );

    let stepped = reader.read(Timestamp(NOW.0 + 3_600_000));
    assert_eq!(stepped.gone, None, "the clock was set, and the process is the same");
    assert_eq!(stepped.seen.and_then(|view| view.started), Some(Timestamp(NOW.0 + 2_800_000)));

    // The number of the process is used again.
    fake.process(7, "manager", 0, 60_000, OPERATOR);
    assert_eq!(say(&reader.read(NOW)), "restricted, op/pod is gone, op/pod is 7");

    fake.end(7);
    assert_eq!(say(&reader.read(NOW)), "restricted, op/pod is gone");
    assert_eq!(say(&reader.read(NOW)), "restricted");

    fake.process(9, "manager", 0, 61_000, OPERATOR);
    assert_eq!(say(&reader.read(NOW)), "restricted, op/pod is 9");
}

#[test]
fn a_start_that_no_clock_can_show_is_unknown() {
    for (stat, uptime) in [("btime -1e300\n", "x\n"), ("btime NaN\n", "1e300\n")] {
        let fake = FakeProc::pod();
        fake.process(7, "manager", 0, 20_000, OPERATOR);
        fake.write("stat", stat);
        fake.write("uptime", uptime);

        let view = fake.reader(&watch::Sender::default()).read(NOW).seen.expect("a process");
        assert_eq!(view.started, Some(NOW), "{stat:?} {uptime:?}");
    }
}

#[test]
fn a_process_that_nobody_has_waited_for_has_ended() {
    let fake = FakeProc::pod();
    fake.process(7, "manager", 0, 20_000, OPERATOR);

    let mut reader = fake.reader(&watch::Sender::default());
    assert_eq!(say(&reader.read(NOW)), "restricted, op/pod is 7");

    let stat = fs::read_to_string(fake.folder.path().join("7/stat")).expect("a file");
    fake.write("7/stat", &stat.replace(") S ", ") Z "));

    assert_eq!(say(&reader.read(NOW)), "restricted, op/pod is gone");
}

#[test]
fn garbage_and_missing_files_leave_signals_absent() {
    let fake = FakeProc::pod();
    fake.process(7, "manager", 0, 20_000, OPERATOR);
    for file in ["status", "limits", "mountinfo"] {
        fake.write(
            &format!("7/{file}"),
            "\u{fffd}\0 garbage: -1 kB\nVmRSS:\nThreads:\t-4\nMax open files\n",
        );
    }

    let view = fake.reader(&watch::Sender::default()).read(NOW).seen.expect("a process");
    let absent = (view.resident, view.anonymous, view.threads, view.max_fds, view.working_set);

    assert_eq!(absent, (None, None, None, None, None));

    fake.write("7/stat", "garbage");
    let reading = fake.reader(&watch::Sender::default()).read(NOW);

    assert_eq!((reading.seen, reading.gone), (None, None));
}

#[test]
fn the_number_of_a_process_wins_also_outside_of_a_pod() {
    let fake = FakeProc::pod();
    fake.process(7, "manager", 0, 99_900, OPERATOR);
    fake.process(8, "helper", 0, 20_000, OTHER);

    let clues = watch::Sender::<OperatorClue>::default();
    let mut reader = ProcessReader::of(fake.proc(), Some(7), LOCAL.to_owned(), clues.subscribe());

    assert_eq!(say(&reader.read(NOW)), "restricted, localhost is 7");

    // The metrics name the instance, whose process is then no longer known under the old name.
    clues.send_modify(|clue| clue.instance = "127.0.0.1:8080".to_owned());
    assert_eq!(say(&reader.read(NOW)), "restricted, localhost is gone, 127.0.0.1:8080 is 7");

    fake.end(7);
    let reading = reader.read(NOW);

    assert_eq!(
        reading.status,
        ReaderStatus::Failed(Cause::NotFound, "no process has the PID 7 (--pid)".to_owned())
    );
    assert_eq!(say(&reading), "not_found, 127.0.0.1:8080 is gone");
    assert_eq!(say(&reader.read(NOW)), "not_found");
}

#[tokio::test(start_paused = true)]
async fn each_sample_is_sent_and_a_status_only_when_it_changes() {
    let fake = FakeProc::pod();
    fake.process(7, "manager", 0, 20_000, OPERATOR);

    let clues = watch::Sender::<OperatorClue>::default();
    let (feed, mut observations) = Feed::new(100, crate::sources::testing::VirtualClock::server());
    let task = tokio::spawn(follow_process(Some(fake.reader(&clues)), feed));
    tokio::time::sleep(Duration::from_secs(35)).await;
    fake.end(7);
    tokio::time::sleep(Duration::from_secs(20)).await;

    let mut seen = Vec::new();
    while let Some((_, observation)) = observations.try_recv() {
        seen.push(match observation {
            Observation::ProcessSeen(view) => format!("seen {}", view.instance),
            Observation::ProcessGone { instance } => format!("gone {instance}"),
            Observation::SourceRestricted { source, reason } => format!("{source}: {reason}"),
            other => format!("{other:?}"),
        });
    }

    let restricted =
        "process: cgroup of the operator: the operator's file system does not show its memory";
    let nothing = "process: no process of the operator runs, or it has just started";
    let sample = "seen op/pod";

    assert_eq!(seen, [restricted, sample, sample, sample, sample, "gone op/pod", nothing]);

    task.abort();
}

#[tokio::test(start_paused = true)]
async fn a_reading_that_takes_long_is_a_failure_until_it_ends() {
    let (feed, mut observations) = Feed::new(100, crate::sources::testing::VirtualClock::server());
    let (mut said, late) =
        (Some(ReaderStatus::Works), tokio::spawn(tokio::time::sleep(WITHIN * 2)));

    assert_eq!(within(late, &mut said, &feed).await, Ok(()));
    assert!(
        matches!(said, Some(ReaderStatus::Failed(Cause::Timeout, _))),
        "so that the next status is sent"
    );

    let failed = observations.try_recv().map(|(_, observation)| observation);
    assert!(
        matches!(failed, Some(Observation::SourceFailed { source: SourceId::Process, .. })),
        "{failed:?}"
    );

    let prompt = tokio::spawn(tokio::time::sleep(WITHIN / 2));
    assert_eq!(within(prompt, &mut None, &feed).await, Ok(()));
    assert!(observations.try_recv().is_none());
}

#[tokio::test(start_paused = true)]
async fn outside_of_a_pod_the_source_is_off_and_names_the_flag() {
    let (feed, mut observations) = Feed::new(100, crate::sources::testing::VirtualClock::server());
    follow_process(None, feed).await;

    let (_, observation) = observations.try_recv().expect("an observation");
    let Observation::SourceOff { source: SourceId::Process, reason } = observation else {
        panic!("{observation:?}")
    };

    assert!(reason.contains("--pid"), "{reason}");
}

#[test]
fn files_that_would_block_are_not_opened() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();

    assert!(made.is_ok_and(|status| status.success()), "mkfifo");
    assert_eq!(files::read(&pipe), Err(files::Unread::Failed));
    assert_eq!(files::read(folder.path()), Err(files::Unread::Failed), "a folder");
    assert_eq!(
        files::read(Path::new("/dev/zero")),
        Err(files::Unread::Failed),
        "a device without an end"
    );
}
