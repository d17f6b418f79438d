//! What the kernel says about a process, and how long its answers take.

use std::io::Read;
use std::time::{Duration, Instant};

use loopwatch_testbed::guard::{Process, Program};
use loopwatch_testbed::http;
use loopwatch_testbed::wait::{eventually, pause};

/// The kernel counts processor time in these.
const TICK: Duration = Duration::from_millis(10);
/// A process that used less than a few ticks for so long has done what it had to do …
const QUIET: Duration = Duration::from_secs(3);
/// … if it has begun: nobody reads so many objects in less.
const BEGUN: Duration = Duration::from_millis(300);
/// Scrapes; the best counts.
const SCRAPES: usize = 7;

/// A process that is measured.
pub(crate) struct Subject {
    process: Process,
    port: u16,
    started: Instant,
}

/// What is measured of one process, in this order.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// From its start until it has seen everything and rests.
    pub(crate) sync: Duration,
    /// Processor time until then.
    pub(crate) sync_cpu: Duration,
    /// The most memory it had until then, in bytes.
    pub(crate) start_peak: u64,
    /// The shortest scrape.
    pub(crate) scrape: Duration,
    /// Its size in bytes.
    pub(crate) scrape_bytes: usize,
    /// Series in it.
    pub(crate) series: usize,
    /// Series of single objects in it that name what is wrong.
    pub(crate) unhealthy: usize,
    /// Share of one core while nothing changes.
    pub(crate) idle: f64,
    /// Processor time for one change.
    pub(crate) change_cpu: Duration,
    /// Memory after all of this, in bytes. The kernel may have taken back what was idle.
    pub(crate) steady: u64,
    /// The most memory that it ever had, in bytes: what a limit has to allow for.
    pub(crate) most: u64,
}

// === impl Subject ===

impl Subject {
    pub(crate) fn start(program: &Program, port: u16) -> Self {
        let started = Instant::now();
        Self { process: program.start(), port, started }
    }

    fn cpu(&self) -> Duration {
        let stat = self.proc("stat");
        // The name of the program may have blanks in it, so count from its closing bracket: user and system time are
        // the fields 14 and 15 of proc(5).
        let fields = stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ')).into_iter().flatten();
        let ticks = fields.skip(11).take(2).filter_map(|field| field.parse::<u32>().ok()).sum::<u32>();
        TICK * ticks
    }

    /// A line of `/proc/PID/status`, in bytes.
    fn memory(&self, field: &str) -> u64 {
        let status = self.proc("status");
        let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        let kibibytes = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        kibibytes.unwrap_or_else(|| panic!("no {field} in:\n{status}")) * 1024
    }

    fn proc(&self, file: &str) -> String {
        let path = format!("/proc/{}/{file}", self.process.id());
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// The time and the bytes of one scrape, as Prometheus asks for it but uncompressed. What comes is not looked at, so that
    /// only the one who sends is measured.
    fn scrape(&self) -> (Duration, usize) {
        let said = |error: std::io::Error| -> ! { panic!("scrape: {error}") };
        let began = Instant::now();
        let headers = [("Accept", "text/plain;version=0.0.4")];
        let mut stream = http::send("GET", self.port, "/metrics", &headers, "").unwrap_or_else(|error| said(error));
        let (mut buffer, mut bytes) = (vec![0; 1 << 20], 0);
        loop {
            match stream.read(&mut buffer).unwrap_or_else(|error| said(error)) {
                0 => return (began.elapsed(), bytes),
                read => bytes += read,
            }
        }
    }
}

// === impl Figures ===

impl Figures {
    /// Waits until the process has seen everything.
    pub(crate) fn synced(&mut self, subject: &mut Subject) {
        eventually(Duration::from_secs(30), "it serves", || http::get(subject.port, "/livez").map(drop));
        let (mut cpu, mut since) = (subject.cpu(), Instant::now());
        let mut at = subject.started;
        while cpu < BEGUN || since.elapsed() < QUIET {
            subject.process.assert_running();
            pause(Duration::from_millis(100));
            let now = subject.cpu();
            if now > cpu + 2 * TICK {
                (cpu, since, at) = (now, Instant::now(), Instant::now());
            }
        }
        self.sync = at - subject.started;
        self.sync_cpu = subject.cpu();
        self.start_peak = subject.memory("VmHWM");
    }

    /// Scrapes it, and looks at what came.
    pub(crate) fn scraped(&mut self, subject: &Subject) {
        let scrapes: Vec<_> = (0..SCRAPES).map(|_| subject.scrape()).collect();
        self.scrape = scrapes.iter().map(|(took, _)| *took).min().unwrap_or_default();
        self.scrape_bytes = scrapes.last().map_or(0, |(_, bytes)| *bytes);
        let text = http::get(subject.port, "/metrics").unwrap_or_else(|error| panic!("{error}"));
        self.series = text.lines().filter(|line| !line.starts_with('#')).count();
        self.unhealthy = text.matches("loopwatch_object_unconverged_timestamp_seconds{").count();
    }

    /// Watches it do nothing.
    pub(crate) fn idle(&mut self, subject: &Subject, span: Duration) {
        let before = subject.cpu();
        pause(span);
        self.idle = (subject.cpu() - before).as_secs_f64() / span.as_secs_f64();
    }

    /// Has objects changed by `change`, which takes so long and says how many it changed.
    pub(crate) fn changed(&mut self, subject: &Subject, change: impl Fn(Duration) -> u32, span: Duration) {
        let (before, began) = (subject.cpu(), Instant::now());
        let made = change(span);
        pause(Duration::from_secs(2)); // what is on its way arrives
        let spent = (subject.cpu() - before).as_secs_f64() - self.idle * began.elapsed().as_secs_f64();
        self.change_cpu = Duration::from_secs_f64(spent.max(0.0) / f64::from(made.max(1)));
    }

    /// Looks at its memory at last.
    pub(crate) fn settled(&mut self, subject: &Subject) {
        self.steady = subject.memory("VmRSS");
        self.most = subject.memory("VmHWM");
    }
}
