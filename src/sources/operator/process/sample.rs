//! Reads one process. Collects the reasons for values that it cannot read.

use std::fs;
use std::io::Read as _;

use loopwatch_model::observation::{ProcessView, Runtime};

use super::cgroup::{self, NoCgroup};
use super::files::{Proc, Unread};
use crate::system::files::open_regular;
use crate::system::procfs;

/// One process. The kernel may reuse its PID, but not with the same start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessIdentity {
    pub(super) pid: u32,
    /// The start in ticks since the machine booted. No clock step changes it.
    pub(super) start_ticks: u64,
}

/// The process of loopwatch, with whose account the kernel compares the operator's.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnProcess {
    credentials: Option<Credentials>,
    /// The text of `cgroup`.
    pub(super) cgroup: String,
    /// Whether the kernel counts open descriptors.
    counts_descriptors: bool,
}

/// The account of a process, as the kernel sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Credentials {
    user: u32,
    group: u32,
    capabilities: u64,
}

/// The reasons why signals are absent.
#[derive(Debug, Default)]
struct Reasons(Vec<(&'static str, String)>);

/// The number of bytes at the start of a program that contain its notes. Go's linker places them on
/// the first page.
const NOTES_WITHIN: usize = 4096;

/// Reads a process; `None` if it has ended. The reasons are for absent signals, and empty if there
/// are none.
pub(super) fn sample(
    proc: &Proc,
    own: &OwnProcess,
    process: ProcessIdentity,
) -> Option<(ProcessView, String)> {
    let ProcessIdentity { pid, start_ticks } = process;
    let mut reasons = Reasons::default();
    let status = proc.text(pid, "status").unwrap_or_default();
    let mut view = ProcessView {
        pid: Some(pid),
        start_ticks: Some(start_ticks),
        resident: procfs::kilobytes(&status, "VmRSS:"),
        anonymous: procfs::kilobytes(&status, "RssAnon:"),
        threads: procfs::number(&status, "Threads:"),
        max_fds: proc.text(pid, "limits").ok().and_then(|limits| procfs::max_fds(&limits)),
        open_fds: reasons.unless(
            "open descriptors of the operator",
            descriptors(proc, own, pid),
            |unread| own.explain(*unread, &status),
        ),
        ..ProcessView::default()
    };

    let own_cgroup = &own.cgroup;
    let why = |none: &NoCgroup, what: &str| own.explain_cgroup(*none, what, &status);
    let memory = cgroup::memory(proc, pid, own_cgroup);
    let memory = reasons.unless("cgroup of the operator", memory, |none| why(none, "memory"));

    if let Some(memory) = memory {
        (view.working_set, view.memory_limit) = (memory.working_set, memory.limit);
        (view.memory_pressure, view.oom_kills) = (memory.pressure, memory.oom_kills);
        reasons.0.extend(memory.lacks.map(|lacks| ("", lacks.to_owned())));
    }

    let cpu = cgroup::cpu(proc, pid, own_cgroup);
    if let Ok(cpu) = &cpu {
        (view.cpu_limit, view.cpu_periods) = (cpu.limit, cpu.periods);
        view.cpu_throttled_periods = cpu.throttled_periods;
        view.cpu_throttled_seconds = cpu.throttled_seconds;
    }

    // Otherwise, the reason why the memory is absent also holds for the CPU limit.
    if view.working_set.is_some() {
        reasons.unless("CPU limit of the operator", cpu, |none| why(none, "CPU limit"));
    }

    // Read last: the files above belong to this process only if it still runs.
    let stat = proc.stat(pid).filter(|stat| stat.start_ticks == start_ticks)?;
    view.cpu_seconds = Some(stat.cpu_seconds());
    view.runtime = runtime(proc, pid, &stat.command);
    Some((view, reasons.in_words()))
}

fn descriptors(proc: &Proc, own: &OwnProcess, pid: u32) -> Result<u64, Unread> {
    match proc.size_of_descriptors(pid)? {
        0 if !own.counts_descriptors => proc.count_descriptors(pid),
        size => Ok(size),
    }
}

/// The language runtime, from the name of the program and the note of Go's linker. If another user
/// owns the program, loopwatch may not read it, but the command still shows a Java virtual machine
/// or Python.
fn runtime(proc: &Proc, pid: u32, command: &str) -> Runtime {
    let exe = proc.path(pid, "exe");
    let program = fs::read_link(&exe).ok();
    let name = program.as_deref().and_then(|path| path.file_name()?.to_str()).unwrap_or(command);
    let version = name.strip_prefix("python");

    if name == "java" {
        Runtime::Jvm
    } else if version.is_some_and(|version| version.chars().all(|c| c.is_ascii_digit() || c == '.'))
    {
        Runtime::Python
    } else if program.is_some() && first_page(&exe).is_some_and(|page| has_go_note(&page)) {
        Runtime::Go
    } else {
        Runtime::Unknown
    }
}

fn first_page(path: &std::path::Path) -> Option<Vec<u8>> {
    let mut page = Vec::with_capacity(NOTES_WITHIN);
    open_regular(path).ok()?.take(NOTES_WITHIN as u64).read_to_end(&mut page).ok()?;
    Some(page)
}

/// Whether an ELF program has Go's build ID note: its name has four bytes, and its type is 4.
fn has_go_note(page: &[u8]) -> bool {
    const HEADER: [u8; 8] = [4, 0, 0, 0, b'G', b'o', 0, 0];

    page.starts_with(b"\x7fELF") && memchr::memmem::find(page, &HEADER).is_some()
}

impl OwnProcess {
    pub(super) fn read(proc: &Proc) -> Self {
        let pid = proc.own();
        Self {
            credentials: Credentials::of(&proc.text(pid, "status").unwrap_or_default()),
            cgroup: proc.text(pid, "cgroup").unwrap_or_default(),
            // loopwatch itself has open descriptors, so 0 means that the kernel does not count
            // them.
            counts_descriptors: proc.size_of_descriptors(pid).is_ok_and(|size| size > 0),
        }
    }

    /// Explains why the numbers of a cgroup of a process with this `status` are not known.
    fn explain_cgroup(&self, none: NoCgroup, what: &str, status: &str) -> String {
        match none {
            NoCgroup::Own => {
                format!("loopwatch runs in the same one, so its {what} is not only the operator's")
            }
            NoCgroup::NotMounted => format!("the operator's file system does not show its {what}"),
            NoCgroup::Unread(unread) => self.explain(unread, status),
        }
    }

    /// Explains why a file of a process with this `status` could not be read.
    fn explain(&self, unread: Unread, status: &str) -> String {
        let (Unread::Denied, Some(own), Some(operator)) =
            (unread, self.credentials, Credentials::of(status))
        else {
            return match unread {
                Unread::Missing => "the kernel does not show it",
                Unread::Denied => "permission denied",
                Unread::Failed => "it cannot be read",
            }
            .to_owned();
        };

        let ids = |Credentials { user, group, .. }: Credentials| match own.user == operator.user {
            true => format!("user {user} and group {group}"),
            false => format!("user {user}"),
        };
        let why = if (own.user, own.group) != (operator.user, operator.group) {
            format!(
                "loopwatch runs as {}, the operator as {}",
                ids(own),
                ids(operator).trim_start_matches("user ")
            )
        } else if operator.capabilities & !own.capabilities != 0 {
            "the operator has capabilities that loopwatch does not have".to_owned()
        } else {
            "the kernel protects the process of the operator from other processes".to_owned()
        };

        format!("permission denied: {why}")
    }
}

impl Credentials {
    fn of(status: &str) -> Option<Self> {
        let [_, user, ..] = procfs::ids(status, "Uid:")?;
        let [_, group, ..] = procfs::ids(status, "Gid:")?;
        Some(Self {
            user,
            group,
            capabilities: procfs::bits(status, "CapPrm:").unwrap_or_default(),
        })
    }
}

impl Reasons {
    /// Returns the value, or notes why it is absent.
    fn unless<T, E>(
        &mut self,
        what: &'static str,
        result: Result<T, E>,
        why: impl FnOnce(&E) -> String,
    ) -> Option<T> {
        result.inspect_err(|error| self.0.push((what, why(error)))).ok()
    }

    /// One line, which groups absent things by their reason.
    fn in_words(self) -> String {
        let mut lines: Vec<(Vec<&str>, String)> = Vec::new();
        for (what, why) in self.0 {
            match lines.iter_mut().find(|(_, known)| *known == why) {
                Some((things, _)) => things.push(what),
                None => lines.push((vec![what], why)),
            }
        }

        let line = |(things, why): (Vec<&str>, String)| match things[..] {
            [""] => why,
            _ => format!("{}: {why}", things.join(" and ")),
        };

        lines.into_iter().map(line).collect::<Vec<_>>().join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(user: u32, group: u32, capabilities: &str) -> String {
        format!(
            "Uid:\t{user}\t{user}\t{user}\t{user}\nGid:\t{group}\t{group}\t{group}\t{group}\nCapPrm:\t{capabilities}\n"
        )
    }

    #[test]
    fn a_refusal_says_what_differs() {
        let own = OwnProcess {
            credentials: Credentials::of(&status(65532, 65532, "0")),
            ..OwnProcess::default()
        };
        for (operator, expected) in [
            (
                status(1000, 1000, "0"),
                "permission denied: loopwatch runs as user 65532, the operator as 1000",
            ),
            (
                status(65532, 0, "0"),
                "permission denied: loopwatch runs as user 65532 and group 65532, the operator as 65532 and group 0",
            ),
            (
                status(65532, 65532, "a80425fb"),
                "permission denied: the operator has capabilities that loopwatch does not have",
            ),
            (
                status(65532, 65532, "0"),
                "permission denied: the kernel protects the process of the operator from other processes",
            ),
            (String::new(), "permission denied"),
        ] {
            assert_eq!(own.explain(Unread::Denied, &operator), expected);
        }

        assert_eq!(own.explain(Unread::Missing, ""), "the kernel does not show it");
    }

    #[test]
    fn things_with_the_same_reason_stand_together() {
        let mut reasons = Reasons::default();
        for (what, why) in [("descriptors", "denied"), ("", "no pressure"), ("cgroup", "denied")] {
            assert_eq!(reasons.unless(what, Err::<(), _>(()), |()| why.to_owned()), None);
        }

        assert_eq!(reasons.unless("memory", Ok::<_, ()>(7), |()| String::new()), Some(7));
        assert_eq!(reasons.in_words(), "descriptors and cgroup: denied; no pressure");
        assert_eq!(Reasons::default().in_words(), "");
    }

    #[test]
    fn the_note_of_go_is_recognized_only_in_programs() {
        let note = [b"\x7fELF......".as_slice(), &[4, 0, 0, 0, 83, 0, 0, 0, 4, 0, 0, 0], b"Go\0\0"]
            .concat();

        assert!(has_go_note(&note));
        assert!(!has_go_note(&note[1..]) && !has_go_note(b"\x7fELF") && !has_go_note(b""));
    }
}
