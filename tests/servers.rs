//! loopwatch with API servers that lack what a current one has, or that send more than any should.
//! The servers are stand-ins; the tests of `tests/live` use a real one.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use loopwatch::needs::{NEEDS, Request};
use loopwatch_testbed::standin::{GROUP, Standin, StreamedLists, Traits};
use loopwatch_testbed::wait::{eventually, pause};
use loopwatch_testbed::{http, ports, usage};
use tempfile::TempDir;

/// The tests measure times, so they run one at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// The time to wait for first lists, even on a machine that is busy with other work.
const PATIENCE: Duration = Duration::from_secs(240);

/// A running `loopwatch run`.
struct Run {
    child: Child,
    port: u16,
    began: Instant,
    _folder: TempDir,
}

/// A cgroup with a memory limit, as the container of a sidecar has one.
struct MemoryGroup {
    /// `None` if this account may not create one.
    path: Option<PathBuf>,
}

impl MemoryGroup {
    /// Creates a cgroup of version 1 or 2, from which loopwatch derives its own limits.
    fn new(limit: u64) -> Self {
        let name = format!("loopwatch-{}", std::process::id());
        let one = ("/sys/fs/cgroup/memory", "memory.limit_in_bytes");
        let two = ("/sys/fs/cgroup", "memory.max");
        let create = |(root, file): (&str, &str)| {
            let path = Path::new(root).join(&name);
            std::fs::create_dir(&path).ok()?;
            let created = std::fs::write(path.join(file), limit.to_string());
            if created.is_err() {
                let _ = std::fs::remove_dir(&path);
            }
            created.ok().map(|()| path)
        };

        Self { path: create(one).or_else(|| create(two)) }
    }

    /// A command that runs a program in the group.
    fn command(&self, program: &str) -> Command {
        let Some(path) = &self.path else { return Command::new(program) };
        let mut command = Command::new("sh");
        let enter = format!("echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"", path.display());
        command.arg("-c").arg(enter).arg(program);
        command
    }

    /// Whether the kernel enforces the limit, for people.
    fn describe(&self) -> &'static str {
        if self.path.is_some() { "enforced" } else { "not enforced: this account has no cgroup" }
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_dir(path);
        }
    }
}

impl Run {
    fn start(server: &Standin, flags: &[&str]) -> Self {
        Self::start_in(&MemoryGroup { path: None }, server, flags)
    }

    fn start_in(group: &MemoryGroup, server: &Standin, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let port = ports::free();
        let began = Instant::now();
        let mut command = group.command(env!("CARGO_BIN_EXE_loopwatch"));

        server.run_beside(&mut command, folder.path()).arg(format!("--listen=127.0.0.1:{port}"));
        command.args(flags).arg("--log=warn").stdout(Stdio::null());
        let child = command.spawn().expect("loopwatch runs");
        Self { child, port, began, _folder: folder }
    }

    fn metrics(&self) -> Result<String, String> {
        http::get(self.port, "/metrics")
    }

    /// The sum of a family over all series whose labels contain `wanted`.
    fn sum(&self, family: &str, wanted: &str) -> Result<f64, String> {
        let text = self.metrics()?;
        let lines = text.lines().filter(|line| {
            line.strip_prefix(family).is_some_and(|rest| rest.starts_with(['{', ' ']))
        });
        let values = lines
            .filter(|line| line.contains(wanted))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());

        Ok(values.sum())
    }

    /// Waits until loopwatch knows this many objects and no first list is missing. Returns the time
    /// since the start.
    fn wait_objects(&self, objects: usize, within: Duration) -> Duration {
        eventually(within, &format!("{objects} objects are known"), || {
            let known = self.sum("loopwatch_objects", GROUP)?;
            http::get(self.port, "/readyz")?;
            if known == objects as f64 { Ok(()) } else { Err(format!("{known}")) }
        });

        self.began.elapsed()
    }

    /// The largest resident memory so far, in MiB.
    fn peak(&self) -> f64 {
        self.memory("VmHWM")
    }

    /// A line of the process's status, in MiB.
    fn memory(&self, name: &str) -> f64 {
        usage::memory(self.child.id(), name) as f64 / f64::from(1 << 20)
    }

    /// Whether the thread that runs all tasks sleeps.
    fn sleeps(&self) -> bool {
        let stat = std::fs::read_to_string(
            Path::new("/proc").join(self.child.id().to_string()).join("stat"),
        );
        let stat = stat.expect("it runs");

        // The state follows the name, which is in parentheses.
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
    }

    /// Fails if a source has failed.
    fn assert_no_failures(&self) {
        let metrics = self.metrics().expect("metrics");
        let failures =
            metrics.lines().filter(|line| line.starts_with("loopwatch_source_failures_total"));
        let failures: Vec<&str> = failures.filter(|line| !line.ends_with(" 0")).collect();

        assert!(failures.is_empty(), "{failures:?}");
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The looks at a connection during a burst.
#[derive(Debug, Default)]
struct Looks {
    all: u32,
    /// Those in which much data waited for loopwatch.
    full: u32,
    /// Those of them in which loopwatch slept. A process that merely waits for a processor does
    /// not sleep, however busy the machine is.
    asleep: u32,
}

impl Looks {
    /// Looks at the connections of a run to its server for some time.
    fn at(run: &Run, server: u16, span: Duration) -> Self {
        let (began, mut looks) = (Instant::now(), Self::default());
        while began.elapsed() < span {
            let is_full = is_full(server);
            looks.all += 1;
            looks.full += u32::from(is_full);
            looks.asleep += u32::from(is_full && run.sleeps());
            pause(Duration::from_millis(2));
        }

        looks
    }
}

/// Whether far more data waits for the client of a server than it reads at once.
fn is_full(server: u16) -> bool {
    let text = std::fs::read_to_string("/proc/net/tcp").expect("Linux");
    let (mut unsent, mut unread) = (0, 0);
    for line in text.lines().skip(1) {
        // A number, both addresses, the state, and the bytes in both queues, in hexadecimal.
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, local, remote, _, queues, ..] = fields[..] else { continue };
        let is_server = |address: &str| address.ends_with(&format!(":{server:04X}"));
        let bytes = |queue: &str| u64::from_str_radix(queue, 16).unwrap_or(0);
        let (to_send, to_read) = queues.split_once(':').unwrap_or_default();

        if is_server(local) {
            unsent += bytes(to_send);
        } else if is_server(remote) {
            unread += bytes(to_read);
        }
    }

    unsent + unread >= MUCH
}

/// Several times the bytes for which loopwatch waits before it reads a busy connection.
const MUCH: u64 = 256 << 10;

#[test]
fn five_hundred_kinds_start_without_streamed_lists() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // If the API server ignores streamed lists, the first lists wait ten seconds; the other watches
    // then know.
    for streamed in [StreamedLists::Supported, StreamedLists::Refused, StreamedLists::Ignored] {
        let server =
            Standin::start(Traits { kinds: 500, objects: 4, streamed, ..Traits::default() });
        let run = Run::start(&server, &["--max-watches=600"]);
        let took = run.wait_objects(2_000, PATIENCE);
        let tried = server.asked(&["sendInitialEvents"]);

        eprintln!(
            "servers: 500 kinds, streamed lists {streamed:?}: {took:.1?}, {tried} streamed lists, {:.0} MiB",
            run.peak()
        );
        match streamed {
            StreamedLists::Supported => assert_eq!((tried, server.asked(&["limit=100"])), (500, 0)),
            _ => assert!(tried <= 16, "{tried} watches tried what others knew not to work"),
        }

        run.assert_no_failures();
    }
}

#[test]
fn eight_kinds_of_large_objects_fit_the_memory_limit() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for streamed in [StreamedLists::Supported, StreamedLists::Refused] {
        // 8 x 40 x 1.2 MB is three times the limit. Then all kinds change at once.
        let server = Standin::start(Traits {
            kinds: 8,
            objects: 40,
            bytes: 1_200_000,
            streamed,
            changes: 5,
            ..Traits::default()
        });

        let run = Run::start(&server, &[]);
        let took = run.wait_objects(320, PATIENCE);
        let listed = run.peak();
        pause(Duration::from_secs(5));

        let peak = run.peak();
        eprintln!(
            "servers: 8 kinds x 40 x 1.2 MB, streamed lists {streamed:?}: {took:.1?}, peak {listed:.0} MiB after the lists, \
             {peak:.0} MiB after {} changes",
            server.events()
        );

        assert!(peak < 128.0, "{peak:.0} MiB");

        run.assert_no_failures();
    }
}

#[test]
fn a_tenant_with_fat_objects_does_not_get_loopwatch_killed() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for streamed in [StreamedLists::Supported, StreamedLists::Refused] {
        // 3,000 x 130 KB is three times the limit. Then the objects change all the time.
        let server = Standin::start(Traits {
            objects: 3_100,
            fat: 3_000,
            streamed,
            changes: 200,
            ..Traits::default()
        });
        let group = MemoryGroup::new(128 << 20);
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("loopwatch.yaml");
        std::fs::write(&config, "limits:\n  objects: 93000\n").expect("a file");
        let config = format!("--config={}", config.display());
        let flags: &[&str] = if group.path.is_some() { &[] } else { &[&config] };
        let run = Run::start_in(&group, &server, flags);

        eventually(PATIENCE, "the list ends", || http::get(run.port, "/readyz"));
        let listed = run.peak();
        pause(Duration::from_secs(20));
        let others = run.sum("loopwatch_objects", "target_namespace=\"default\"");
        let names = run.sum("loopwatch_dropped_total", "limit=\"object_names\"");

        eprintln!(
            "servers: 3,000 fat objects, streamed lists {streamed:?}: peak {listed:.0} MiB after the lists, {:.0} MiB at \
             the end, of which {:.0} MiB are the program; the limit is {}",
            run.peak(),
            run.memory("RssFile"),
            group.describe()
        );

        assert_eq!(others, Ok(100.0), "objects of other namespaces stay");
        assert!(names.as_ref().is_ok_and(|dropped| *dropped >= 3_000.0), "{names:?}");

        // The kernel can drop the pages of the program, of which a build for tests has many.
        assert!(run.peak() - run.memory("RssFile") < 128.0, "{:.0} MiB", run.peak());
        run.assert_no_failures();
    }
}

#[test]
fn a_burst_of_large_changes_is_read_without_delay() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);

    // Without optimization, decoding takes five times as long, and a loopwatch that is always busy
    // never sleeps.
    let changes = if cfg!(debug_assertions) { 200 } else { 2_000 };
    let server =
        Standin::start(Traits { objects: 500, bytes: 30_000, changes, ..Traits::default() });
    let run = Run::start(&server, &[]);

    run.wait_objects(500, PATIENCE);
    let before = server.events();
    let looks = Looks::at(&run, server.port(), Duration::from_secs(6));

    let events = server.events();
    let applied = run.sum("loopwatch_observations_total", "\"watch\"").expect("metrics");
    let cpu = run.sum("process_cpu_seconds_total", "").expect("metrics");

    eprintln!(
        "servers: {} changes of 30 KB: the server waited up to {:.0?}, {} changes behind, \
         {cpu:.1} s of CPU time, peak {:.0} MiB, {looks:?}",
        events - before,
        server.late(),
        events as f64 - applied,
        run.peak()
    );

    assert!(events > before && looks.all > 0, "{looks:?}");
    assert!(looks.asleep * 10 < looks.all, "loopwatch sleeps while much data waits: {looks:?}");

    run.assert_no_failures();
}

/// Serves metrics at a port of its own: each response has `lines` lines.
fn metrics_endpoint(lines: usize) -> u16 {
    use std::io::{Read as _, Write as _};

    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().filter_map(Result::ok) {
            std::thread::spawn(move || {
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(
                    b"HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\n\r\n",
                );
                let _ =
                    stream.write_all(b"# TYPE workqueue_depth gauge\nworkqueue_depth{name=\"a\"} 1\n# TYPE b gauge\n");
                let pad = "x".repeat(1000);

                for number in 0..lines {
                    if stream
                        .write_all(format!("b{{n=\"{number}\",pad=\"{pad}\"}} 1\n").as_bytes())
                        .is_err()
                    {
                        return;
                    }
                }
            });
        }
    });

    port
}

#[test]
fn a_metrics_endpoint_that_sends_a_gigabyte_costs_little_memory() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let server = Standin::start(Traits::default());
    let port = metrics_endpoint(1_000_000);
    let run = Run::start(&server, &[&format!("--scrape=http://127.0.0.1:{port}")]);

    run.wait_objects(10, Duration::from_secs(30));
    eventually(Duration::from_secs(90), "the scrape fails", || {
        let failures = run.sum("loopwatch_source_failures_total", "source=\"metrics\"")?;
        if failures > 0.0 { Ok(()) } else { Err(format!("{failures}")) }
    });
    eprintln!("servers: metrics of 1 GB: peak {:.0} MiB", run.peak());

    assert!(run.peak() < 64.0, "{:.0} MiB", run.peak());
}

#[test]
fn metrics_at_a_named_address_are_scraped() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let server = Standin::start(Traits::default());
    let scrape = format!("--scrape=http://127.0.0.1:{}", metrics_endpoint(10));
    let run = Run::start(&server, &[&scrape, "--scrape-interval=2s"]);

    eventually(Duration::from_secs(30), "the source works", || {
        let status: serde_json::Value =
            serde_json::from_str(&http::get(run.port, "/api/v1/status")?)
                .map_err(|error| error.to_string())?;
        let sources = status["sources"].as_array().or(status["status"]["sources"].as_array());
        let source = sources.into_iter().flatten().find(|source| source["source"] == "metrics");
        let source = source.ok_or_else(|| status.to_string())?;

        match (source["up"].as_bool(), source["interval_seconds"].as_f64()) {
            (Some(true), Some(seconds)) if seconds >= 2.0 => Ok(()),
            _ => Err(source.to_string()),
        }
    });
    run.assert_no_failures();
}

#[test]
fn the_program_asks_for_nothing_beyond_the_table_of_its_needs() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let server = Standin::start(Traits { kinds: 2, changes: 5, ..Traits::default() });
    let run = Run::start(&server, &[]);
    run.wait_objects(20, Duration::from_secs(60));

    let requests = server.requests();
    assert!(requests.len() >= 6, "{requests:?}");

    // Without flags, so the rows of features that a flag turns on do not count.
    let by_default = || NEEDS.iter().filter(|need| need.setting.is_none());
    for line in requests {
        let (method, path) = line.split_once(' ').expect("a method");
        let request = Request::parse(method, path, false);
        let is_needed = request.is_some_and(|asked| by_default().any(|need| need.covers(&asked)));

        assert!(is_needed, "{line}");
    }
}
