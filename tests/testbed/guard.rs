//! Child processes that cannot outlive their parent.
//!
//! This program starts itself again as the guard of each child. The guard's standard input is a
//! pipe from the parent. When the parent ends for any reason, the pipe closes and the guard kills
//! the child. A guard has its own process group, so that Ctrl-C at a terminal reaches the parent
//! and not the guard.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use super::wait::pause;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// The first argument of a guard.
const GUARD: &str = "--guard";

/// A program with its arguments, environment and log file.
#[derive(Clone, Debug)]
pub struct Program {
    name: String,
    program: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(String, OsString)>,
    log: PathBuf,
}

/// A running program. It is killed when this is dropped.
#[derive(Debug)]
pub struct Process {
    /// The program that it runs.
    pub program: Program,
    pid: Pid,
    guard: Child,
    /// The pipe to the guard, which kills the program when the pipe closes.
    _lifeline: Option<ChildStdin>,
    ended: Option<ExitStatus>,
}

/// Runs as a guard, and does not return, if this process was started as one. Call it first in
/// `main`.
pub fn stand_guard_if_asked() {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().as_deref() != Some(OsStr::new(GUARD)) {
        return;
    }

    let (Some(log), Some(program)) = (arguments.next(), arguments.next()) else {
        eprintln!("{GUARD} LOG PROGRAM [ARGUMENT…] is how a test starts its children");
        std::process::exit(64);
    };

    std::process::exit(stand_guard(Path::new(&log), &program, arguments));
}

fn stand_guard(log: &Path, program: &OsStr, arguments: impl Iterator<Item = OsString>) -> i32 {
    let open = || File::options().create(true).append(true).open(log);
    let (Ok(out), Ok(err)) = (open(), open()) else {
        eprintln!("cannot write {}", log.display());
        return 73;
    };
    let mut command = Command::new(program);

    command.args(arguments).stdin(Stdio::null()).stdout(out).stderr(err).process_group(0);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            eprintln!("cannot start {}: {error}", program.display());
            return 127;
        }
    };

    let _ = writeln!(std::io::stdout(), "{}", child.id()); // fails only if the parent is gone
    let group = Pid::from_child(&child);
    std::thread::spawn(move || {
        // Returns when the parent ends or closes the pipe.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = kill_process_group(group, Signal::KILL);
    });

    let Ok(status) = child.wait() else { return 71 };
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

impl Program {
    /// Creates a program that appends its output to `DIR/NAME.log`.
    pub fn new(name: impl Into<String>, program: impl Into<PathBuf>, directory: &Path) -> Self {
        let name = name.into();
        let log = directory.join(format!("{name}.log"));
        Self { name, program: program.into(), arguments: Vec::new(), environment: Vec::new(), log }
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Adds arguments.
    pub fn args<T: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = T>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// Runs a program that ends by itself, without a guard, and returns its output.
    pub fn run(&self) -> Output {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::null());
        self.set_environment(&mut command);
        command.output().unwrap_or_else(|error| panic!("cannot start {}: {error}", self.name))
    }

    fn set_environment(&self, command: &mut Command) {
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        // Tests must not reach the user's own clusters.
        for variable in ["KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"] {
            if self.environment.iter().all(|(name, _)| name != variable) {
                command.env_remove(variable);
            }
        }
    }

    /// Returns the path of its log.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Returns the last lines of its log.
    pub fn log_tail(&self, lines: usize) -> String {
        let text =
            std::fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let text = text.unwrap_or_else(|error| format!("(no log: {error})"));
        let all: Vec<&str> = text.lines().collect();

        all[all.len().saturating_sub(lines)..].join("\n")
    }

    /// Starts it under a guard.
    pub fn start(&self) -> Process {
        let Self { name, program, arguments, environment: _, log } = self;
        let this = std::env::current_exe().expect("the path of this binary");
        let mut command = Command::new(this);
        command.arg(GUARD).arg(log).arg(program).args(arguments);
        self.set_environment(&mut command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);

        let mut guard = command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start the guard of {name}: {error}"));
        let mut line = String::new();
        if let Some(out) = guard.stdout.take() {
            let _ = BufReader::new(out).read_line(&mut line);
        }

        let Some(pid) = line.trim().parse().ok().and_then(Pid::from_raw) else {
            panic!("cannot start {name} ({}): {:?}", program.display(), guard.wait());
        };
        Process { program: self.clone(), pid, _lifeline: guard.stdin.take(), guard, ended: None }
    }
}

impl Process {
    /// Returns its process id.
    pub fn id(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Returns its exit status if it has ended. Signal N is reported as exit code 128 + N.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.guard.try_wait().ok().flatten();
        }
        self.ended
    }

    /// Panics with the end of its log if it no longer runs.
    pub fn assert_running(&mut self) {
        if let Some(status) = self.ended() {
            let Self { program, .. } = self;
            panic!("{} ended ({status}); its last lines:\n{}", program.name, program.log_tail(30));
        }
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        // It may have ended in the meantime.
        let _ = kill_process(self.pid, signal);
    }

    /// The number of its open sockets.
    pub fn sockets(&self) -> usize {
        let folder = format!("/proc/{}/fd", self.pid.as_raw_pid());
        let open = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let targets = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
    }

    /// Pauses it with SIGSTOP: its connections stay open, and it does not answer.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Resumes it with SIGCONT.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills it and waits until it has ended.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.wait(Duration::from_secs(10));
    }

    /// Sends SIGTERM, and kills it if it does not end in time.
    pub fn stop(&mut self, within: Duration) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait(within).unwrap_or_else(|| {
            self.kill();
            self.ended().unwrap_or_default()
        })
    }

    /// Waits until it has ended, and returns its exit status.
    pub fn wait(&mut self, within: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + within;
        while self.ended().is_none() && Instant::now() < until {
            pause(Duration::from_millis(20));
        }

        self.ended()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended().is_none() {
            self.kill();
        }
    }
}
