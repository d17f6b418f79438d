//! Finds the operator's process among those of the Pod, without any privilege.
//!
//! The kernel shows the cgroup and the start of every process to everybody. The cgroup tells
//! containers apart. The operator's metrics also contain the start of its process, and the Pod's
//! status contains the container IDs. Without either, the operator is the oldest process of the
//! only other container, once it has run for a while: other containers of the Pod may still start.

use std::collections::BTreeMap;

use super::files::Proc;
use super::sample::ProcessIdentity;
use crate::sources::operator::hints::OperatorClue;
use crate::system::procfs::{self, Stat};

/// The result of a search.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ProcessSearch {
    /// The operator's process.
    Process(ProcessIdentity),
    /// Only processes of loopwatch's own container are visible.
    NotShared,
    /// No process of the operator runs.
    Nothing,
    /// Several processes may be the operator's; the text describes them.
    Ambiguous(String),
}

/// A process of another container.
#[derive(Debug)]
struct ForeignProcess {
    pid: u32,
    stat: Stat,
}

/// The processes of each other container, by the text of `cgroup`.
type Containers = BTreeMap<String, Vec<ForeignProcess>>;

/// Commands of the pause container, which holds the namespaces of a Pod.
const PAUSE: [&str; 2] = ["pause", "pod"];

/// A process that exists only on the node itself.
const KERNEL_THREADS: (u32, &str) = (2, "kthreadd");

/// Commands that start another program and wait for it. The kernel cuts names at 15 bytes.
const WRAPPERS: [&str; 12] = [
    "ash",
    "bash",
    "busybox",
    "catatonit",
    "dash",
    "docker-init",
    "dumb-init",
    "s6-svscan",
    "sh",
    "supervisord",
    "tini",
    "tini-static",
];

/// Proxies that run in the Pods of operators.
const PROXIES: [&str; 5] =
    ["envoy", "kube-rbac-proxy", "linkerd-proxy", "linkerd2-proxy", "pilot-agent"];

/// Possible difference between two readings of the same start, in seconds. Each has a resolution of
/// a hundredth.
const SAME_START: f64 = 0.05;

/// Maximum time between the start of a process and the start that its runtime reports, in seconds.
/// Java virtual machines take long.
const RUNTIME_STARTS_WITHIN: f64 = 3.0;

/// Minimum age, in seconds, of a process that nothing else shows to be the operator's.
const MIN_AGE: f64 = 30.0;

/// The number of candidates that a message names.
const NAMED: usize = 5;

/// Finds the operator's process in loopwatch's own Pod. `own` is the text of loopwatch's own
/// `cgroup`.
pub(super) fn find(proc: &Proc, own: &str, clue: &OperatorClue) -> ProcessSearch {
    let (pids, too_many) = proc.pids();
    let mut containers = Containers::new();
    let (mut is_shared, mut is_node) = (false, too_many);

    for pid in pids {
        let (Some(stat), Ok(cgroup)) = (proc.stat(pid), proc.text(pid, "cgroup")) else { continue };
        is_node |= (pid, stat.command.as_str()) == KERNEL_THREADS;
        if pid == proc.own() || cgroup == own {
            continue;
        }

        is_shared = true;
        if pid != 1 || !PAUSE.contains(&stat.command.as_str()) {
            containers.entry(cgroup).or_default().push(ForeignProcess { pid, stat });
        }
    }

    if !is_shared {
        return ProcessSearch::NotShared;
    }

    if let Some(process) =
        by_container(proc, &containers, clue).or_else(|| by_start(proc, &containers, clue))
    {
        return ProcessSearch::Process(process);
    }

    if is_node {
        return ProcessSearch::Ambiguous(
            "loopwatch sees the processes of the whole node (hostPID)".to_owned(),
        );
    }

    by_exclusion(proc, &containers)
}

/// The main process of the operator's first container, according to the Pod's status.
fn by_container(
    proc: &Proc,
    containers: &Containers,
    clue: &OperatorClue,
) -> Option<ProcessIdentity> {
    let runs_in = |id: &str, cgroup: &str, processes: &[ForeignProcess]| {
        cgroup.contains(id)
            || processes.first().is_some_and(|first| {
                proc.text(first.pid, "mountinfo").is_ok_and(|m| m.contains(id))
            })
    };

    let ids = clue.containers.iter().filter(|id| id.len() >= 12);
    ids.flat_map(|id| {
        containers.iter().filter(move |(cgroup, processes)| runs_in(id, cgroup, processes))
    })
    .find_map(|(_, processes)| main_process(proc, processes))
    .map(ForeignProcess::identity)
}

/// The only process whose start matches the operator's metrics.
fn by_start(proc: &Proc, containers: &Containers, clue: &OperatorClue) -> Option<ProcessIdentity> {
    let started = clue.started_seconds?;
    let booted = procfs::booted(&proc.global("stat").ok()?)?;
    let late = |candidate: &ForeignProcess| {
        started - (booted + procfs::seconds(candidate.stat.start_ticks))
    };
    let all = || containers.values().flatten();
    let exact: Vec<&ForeignProcess> =
        all().filter(|candidate| late(candidate).abs() <= SAME_START).collect();

    // A child of the operator that has just started is not the operator.
    let is_child = |of: &ForeignProcess| exact.iter().any(|other| other.pid == of.stat.parent);
    let exact: Vec<&&ForeignProcess> =
        exact.iter().filter(|candidate| !is_child(candidate)).collect();
    if let [only] = exact[..] {
        return Some(only.identity());
    }

    let main = containers.values().filter_map(|processes| main_process(proc, processes));
    let near: Vec<_> =
        main.filter(|main| (-SAME_START..=RUNTIME_STARTS_WITHIN).contains(&late(main))).collect();
    match near[..] {
        [only] => Some(only.identity()),
        _ => None,
    }
}

/// The main process of the only other container.
fn by_exclusion(proc: &Proc, containers: &Containers) -> ProcessSearch {
    let uptime = proc.uptime();
    let lasts = |main: &&ForeignProcess| {
        uptime.is_none_or(|uptime| uptime - procfs::seconds(main.stat.start_ticks) >= MIN_AGE)
    };
    let is_proxy = |main: &&ForeignProcess| PROXIES.contains(&main.stat.command.as_str());
    let main = containers.values().filter_map(|processes| main_process(proc, processes));
    let main: Vec<&ForeignProcess> = main.filter(|main| !is_proxy(main)).filter(lasts).collect();

    match main[..] {
        [] => ProcessSearch::Nothing,
        [only] => ProcessSearch::Process(only.identity()),
        _ => {
            // A program may give itself a name with any characters.
            let name = |main: &&ForeignProcess| {
                format!("{} ({})", main.stat.command.escape_debug(), main.pid)
            };
            let names: Vec<String> = main.iter().take(NAMED).map(name).collect();
            ProcessSearch::Ambiguous(format!(
                "{} containers may be the operator's: {}",
                main.len(),
                names.join(", ")
            ))
        }
    }
}

/// The main process of a container: its oldest one, or the largest one that a wrapper has started.
fn main_process<'a>(proc: &Proc, processes: &'a [ForeignProcess]) -> Option<&'a ForeignProcess> {
    let mut main =
        processes.iter().min_by_key(|candidate| (candidate.stat.start_ticks, candidate.pid))?;

    // Each step leads to a younger process, so the loop ends. The limit guards only against a
    // broken `/proc`.
    for _ in 0..processes.len() {
        if !is_wrapper(&main.stat.command) {
            return Some(main);
        }

        let size = |child: &&ForeignProcess| {
            procfs::kilobytes(&proc.text(child.pid, "status").unwrap_or_default(), "VmRSS:")
                .unwrap_or(0)
        };

        main = processes.iter().filter(|child| child.stat.parent == main.pid).max_by_key(size)?;
    }

    None
}

fn is_wrapper(command: &str) -> bool {
    WRAPPERS.contains(&command) || command.ends_with(".sh")
}

impl ForeignProcess {
    fn identity(&self) -> ProcessIdentity {
        ProcessIdentity { pid: self.pid, start_ticks: self.stat.start_ticks }
    }
}
