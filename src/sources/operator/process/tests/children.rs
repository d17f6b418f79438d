//! Real processes: this test program starts itself again, as another program with a script on its
//! standard input.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::*;

/// A process that does what a test asks for.
struct Helper {
    child: Child,
    asks: ChildStdin,
    says: BufReader<ChildStdout>,
}

/// The variable that makes the test below a program.
const IS_HELPER: &str = "LOOPWATCH_TEST_HELPER";

/// What a test can ask for.
const ALLOCATE: &str = "allocate";
const OPEN: &str = "open";
const START_THREADS: &str = "threads";
const READ: &str = "read";
const SPIN: &str = "spin";

/// Marks an answer among the lines of the test framework.
const ANSWER: &str = "answer:";

const MIB: u64 = 1024 * 1024;

/// The program of the children. As a test it does nothing.
#[test]
fn helper() {
    if std::env::var_os(IS_HELPER).is_none() {
        return;
    }

    let (mut memory, mut files, mut threads) = (Vec::new(), Vec::new(), Vec::new());
    for line in std::io::stdin().lines() {
        let line = line.expect("a line");
        let (order, argument) = line.split_once(' ').unwrap_or((&line, ""));
        let number: u32 = argument.parse().unwrap_or_default();
        let answer = match order {
            ALLOCATE => {
                memory.push(vec![1_u8; number as usize * 1024 * 1024]);
                String::new()
            }
            OPEN => {
                files.extend((0..number).map(|_| fs::File::open("/dev/null").expect("a file")));
                String::new()
            }
            SPIN => {
                let end = std::time::Instant::now() + Duration::from_millis(u64::from(number));
                while std::time::Instant::now() < end {
                    std::hint::spin_loop();
                }
                String::new()
            }
            START_THREADS => {
                threads.extend((0..number).map(|_| std::thread::spawn(std::thread::park)));
                String::new()
            }
            READ => {
                let proc = Proc::new("/proc", std::process::id());

                // As if it ran in another container: there the cgroups differ.
                let mut own = OwnProcess::read(&proc);
                own.cgroup = "another".to_owned();

                let process = ProcessIdentity {
                    pid: number,
                    start_ticks: proc.stat(number).expect("a process").start_ticks,
                };

                serde_json::to_string(&sample(&proc, &own, process)).expect("JSON")
            }
            other => panic!("{other} is no order"),
        };

        println!("\n{ANSWER}{answer}");
    }
}

impl Helper {
    fn start() -> Self {
        Self::of(Command::new(std::env::current_exe().expect("this program")))
    }

    /// Starts a child as another user and group.
    fn start_as(user: u32, group: u32) -> Self {
        let mut command = Command::new("setpriv");
        command.args([&format!("--reuid={user}"), &format!("--regid={group}"), "--clear-groups"]);
        command.arg(std::env::current_exe().expect("this program"));
        Self::of(command)
    }

    fn of(mut command: Command) -> Self {
        let name = module_path!().split_once("::").map_or("", |(_, path)| path);
        let command = command
            .args(["--exact", &format!("{name}::helper"), "--nocapture"])
            .env(IS_HELPER, "1");
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a child");
        let (asks, says) =
            (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));

        Self { child, asks, says: BufReader::new(says) }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks the child for something, and waits until it is done.
    fn ask(&mut self, order: &str, number: u32) -> String {
        writeln!(self.asks, "{order} {number}").expect("a running child");
        let mut lines = self.says.by_ref().lines().map(|line| line.expect("a running child"));
        let answer = lines.find_map(|line| line.strip_prefix(ANSWER).map(str::to_owned));
        answer.expect("a running child")
    }

    fn end(mut self) -> u32 {
        let pid = self.pid();
        drop(self.asks);
        self.child.wait().expect("our child");
        pid
    }
}

/// A cgroup that may use a tenth of a CPU.
struct LimitedGroup(std::path::PathBuf);

impl LimitedGroup {
    /// Creates a cgroup of version 1 or 2; `None` if this machine does not allow it.
    fn create() -> Option<Self> {
        let name = format!("loopwatch-cpu-{}", std::process::id());
        let one = ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "10000");
        let two = ("/sys/fs/cgroup", "cpu.max", "10000 100000");
        let create = |(root, file, limit): (&str, &str, &str)| {
            let path = Path::new(root).join(&name);
            fs::create_dir(&path).ok()?;
            let group = Self(path);
            fs::write(group.0.join(file), limit).ok().map(|()| group)
        };

        let group = create(one).or_else(|| create(two));
        if group.is_none() {
            eprintln!("NOT TESTED: a real CPU limit, because this test may not create a cgroup");
        }
        group
    }

    fn add(&self, pid: u32) {
        fs::write(self.0.join("cgroup.procs"), pid.to_string()).expect("our own cgroup");
    }
}

impl Drop for LimitedGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// Reads a real process.
fn reader_of(pid: u32) -> ProcessReader {
    let clues = watch::Sender::<OperatorClue>::default();
    ProcessReader::of(
        Proc::new("/proc", std::process::id()),
        Some(pid),
        LOCAL.to_owned(),
        clues.subscribe(),
    )
}

#[test]
fn memory_descriptors_and_threads_of_a_process_are_followed_to_its_end() {
    let mut child = Helper::start();
    child.ask(ALLOCATE, 0); // it is ready

    let mut reader = reader_of(child.pid());
    let read = |reader: &mut ProcessReader| *reader.read(NOW).seen.expect("a process");
    let before = read(&mut reader);

    assert_eq!(before.pid, Some(child.pid()));

    child.ask(ALLOCATE, 64);
    child.ask(OPEN, 50);
    child.ask(START_THREADS, 5);

    let after = read(&mut reader);
    let growth = |of: fn(&ProcessView) -> Option<u64>| {
        of(&after).expect("readable") - of(&before).expect("readable")
    };
    for grown in [growth(|view| view.resident), growth(|view| view.anonymous)] {
        assert!((60 * MIB..80 * MIB).contains(&grown), "{before:?} {after:?}");
    }

    assert_eq!(
        (growth(|view| view.open_fds), growth(|view| view.threads)),
        (50, 5),
        "{before:?} {after:?}"
    );
    assert!(after.max_fds.is_some() && after.cpu_seconds >= before.cpu_seconds);
    assert_eq!((after.start_ticks, after.started), (before.start_ticks, before.started));
    assert_eq!(after.working_set, None, "its cgroup is that of loopwatch");

    let pid = child.end();
    assert_eq!(say(&reader.read(NOW)), "not_found, localhost is gone", "{pid}");
}

#[test]
fn descriptors_are_counted_one_by_one_where_the_kernel_does_not_count_them() {
    let mut child = Helper::start();
    child.ask(OPEN, 20);

    let proc = Proc::new("/proc", std::process::id());
    let counted = proc.count_descriptors(child.pid()).expect("our own child");

    assert!((20..60).contains(&counted), "{counted}");

    // This kernel may be too old.
    let size = proc.size_of_descriptors(child.pid()).expect("our own child");
    assert!(size == 0 || size == counted, "{size} {counted}");

    child.end();
}

#[test]
fn programs_show_their_language_only_if_they_have_a_runtime() {
    let mut child = Helper::start();
    child.ask(ALLOCATE, 0);

    let mut reader = reader_of(child.pid());
    assert_eq!(
        reader.read(NOW).seen.map(|view| view.runtime),
        Some(Runtime::Unknown),
        "Rust has none"
    );

    child.end();
}

/// Reads a process of user 65534 as another process of `user` and `group`; `None` if this machine
/// does not allow it.
fn read_as(user: u32, group: u32) -> Option<(ProcessView, String)> {
    let own = procfs::ids(&fs::read_to_string("/proc/self/status").expect("Linux"), "Uid:")
        .expect("a user");
    let program = std::env::current_exe().expect("this program");
    let try_it = Command::new("setpriv")
        .args(["--reuid=65534", "--clear-groups"])
        .arg(program)
        .arg("--list")
        .output();

    if own[1] != 0 || !try_it.is_ok_and(|output| output.status.success()) {
        eprintln!(
            "NOT TESTED: other users, because this test does not run as root or cannot use setpriv"
        );
        return None;
    }

    let (mut target, mut reader) = (Helper::start_as(65534, 65534), Helper::start_as(user, group));
    target.ask(OPEN, 50);

    let answer = reader.ask(READ, target.pid());
    target.end();
    reader.end();
    Some(serde_json::from_str(&answer).expect("a sample"))
}

#[test]
fn another_user_may_read_the_process_but_not_its_container() {
    let Some((view, reasons)) = read_as(65533, 65534) else { return };
    assert!(
        view.resident.is_some() && view.anonymous.is_some() && view.threads.is_some(),
        "{view:?}"
    );
    assert!(view.max_fds.is_some() && view.cpu_seconds.is_some(), "{view:?}");
    assert_eq!((view.working_set, view.memory_limit, view.oom_kills), (None, None, None));

    let refused = "permission denied: loopwatch runs as user 65533, the operator as 65534";
    assert!(reasons.contains("cgroup of the operator") && reasons.contains(refused), "{reasons}");

    // Linux 6.2 and later show the number of descriptors to everybody.
    assert_eq!(view.open_fds.is_none(), reasons.contains("open descriptors"), "{view:?} {reasons}");
}

#[test]
fn the_same_user_in_another_group_is_refused_too() {
    let Some((view, reasons)) = read_as(65534, 65533) else { return };
    let refused =
        "loopwatch runs as user 65534 and group 65533, the operator as 65534 and group 65534";

    assert!(
        view.resident.is_some() && view.working_set.is_none() && reasons.contains(refused),
        "{reasons}"
    );
}

#[test]
fn the_same_user_and_group_may_read_the_container() {
    let Some((view, reasons)) = read_as(65534, 65534) else { return };
    assert!(!reasons.contains("permission denied"), "{reasons}");
    assert!(view.open_fds.is_some_and(|open| open >= 50), "{view:?}");

    // Whether this machine counts the memory of the test in a cgroup depends on the machine.
    assert!(
        view.working_set.is_some() || reasons.contains("does not show its memory"),
        "{view:?} {reasons}"
    );
}

#[test]
fn the_kernel_throttles_a_busy_process_with_a_cpu_limit_and_not_its_idle_twin() {
    let Some(group) = LimitedGroup::create() else { return };
    let (mut busy, mut reader) = (Helper::start(), Helper::start());
    busy.ask(ALLOCATE, 0); // it is ready
    group.add(busy.pid());

    let pid = busy.pid();
    let read = |reader: &mut Helper| {
        let answer = reader.ask(READ, pid);
        serde_json::from_str::<(ProcessView, String)>(&answer).expect("a sample").0
    };
    let counts = |view: &ProcessView| view.cpu_periods.zip(view.cpu_throttled_periods);

    let before = read(&mut reader);
    assert_eq!(before.cpu_limit, Some(0.1), "{before:?}");
    reader.ask(SPIN, 300); // another process, which has no limit
    let idle = read(&mut reader);
    assert_eq!(
        counts(&idle).map(|(_, throttled)| throttled),
        counts(&before).map(|(_, throttled)| throttled),
        "an idle process is not throttled"
    );

    busy.ask(SPIN, 1_000);
    let after = read(&mut reader);
    let (periods, throttled) = counts(&after).expect("counts");
    assert!(throttled > 0 && throttled <= periods, "{after:?}");
    assert!(after.cpu_throttled_seconds > before.cpu_throttled_seconds, "{after:?}");

    busy.end();
    reader.end();
}
