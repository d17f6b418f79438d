//! Measures CPU time and memory of a process, and the duration of its scrapes.

use std::io::Read;
use std::time::{Duration, Instant};

use super::kernel::{self, TICK};
use loopwatch_testbed::guard::{Process, Program};
use loopwatch_testbed::http;
use loopwatch_testbed::wait::{eventually, pause};

/// A process has synced once it uses at most two ticks of CPU time in this period …
const QUIET: Duration = Duration::from_secs(3);
/// … and has used more CPU time than this since its start.
const MIN_SYNC_CPU: Duration = Duration::from_millis(300);
/// Number of scrapes; the fastest one counts.
const SCRAPES: usize = 7;

/// A process under measurement.
pub(crate) struct MeasuredProcess {
    child: Process,
    port: u16,
    started: Instant,
}

/// The measurements of one process, in the order in which they are taken.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// Time from its start until it has synced.
    pub(crate) sync: Duration,
    /// CPU time until it has synced.
    pub(crate) sync_cpu: Duration,
    /// Peak memory until it has synced, in bytes.
    pub(crate) start_peak: u64,
    /// Duration of the fastest scrape.
    pub(crate) scrape: Duration,
    /// Size of a scrape, in bytes.
    pub(crate) scrape_bytes: usize,
    /// Series in a scrape.
    pub(crate) series: usize,
    /// Series of unconverged objects in a scrape.
    pub(crate) unhealthy: usize,
    /// Share of one CPU core while nothing changes.
    pub(crate) idle: f64,
    /// CPU time per change.
    pub(crate) change_cpu: Duration,
    /// Memory at the end, in bytes. The kernel may have reclaimed idle pages.
    pub(crate) steady: u64,
    /// Peak memory over the whole run, in bytes: the figure to size a memory limit by.
    pub(crate) peak: u64,
}

impl MeasuredProcess {
    pub(crate) fn start(program: &Program, port: u16) -> Self {
        let started = Instant::now();
        Self { child: program.start(), port, started }
    }

    fn cpu(&self) -> Duration {
        kernel::cpu(self.child.id())
    }

    /// Returns the duration and size of one scrape, with the request headers of Prometheus but
    /// uncompressed. Discards the body, so that the time of the server dominates.
    fn scrape(&self) -> (Duration, usize) {
        let fail = |error: std::io::Error| -> ! { panic!("scrape: {error}") };
        let began = Instant::now();
        let headers = [("Accept", "text/plain;version=0.0.4")];
        let mut stream = http::send("GET", self.port, "/metrics", &headers, "")
            .unwrap_or_else(|error| fail(error));
        let (mut buffer, mut bytes) = (vec![0; 1 << 20], 0);

        loop {
            match stream.read(&mut buffer).unwrap_or_else(|error| fail(error)) {
                0 => return (began.elapsed(), bytes),
                read => bytes += read,
            }
        }
    }
}

impl Figures {
    /// Waits until the process has synced.
    pub(crate) fn synced(&mut self, process: &mut MeasuredProcess) {
        eventually(Duration::from_secs(30), "it serves", || {
            http::get(process.port, "/livez").map(drop)
        });
        let (mut cpu, mut since) = (process.cpu(), Instant::now());
        let mut at = process.started;

        while cpu < MIN_SYNC_CPU || since.elapsed() < QUIET {
            process.child.assert_running();
            pause(Duration::from_millis(100));

            let now = process.cpu();
            if now > cpu + 2 * TICK {
                (cpu, since, at) = (now, Instant::now(), Instant::now());
            }
        }

        self.sync = at - process.started;
        self.sync_cpu = process.cpu();
        self.start_peak = kernel::memory(process.child.id(), "VmHWM");
    }

    /// Scrapes the process.
    pub(crate) fn scraped(&mut self, process: &MeasuredProcess) {
        let scrapes: Vec<_> = (0..SCRAPES).map(|_| process.scrape()).collect();
        self.scrape = scrapes.iter().map(|(took, _)| *took).min().unwrap_or_default();
        self.scrape_bytes = scrapes.last().map_or(0, |(_, bytes)| *bytes);

        let text = http::get(process.port, "/metrics").unwrap_or_else(|error| panic!("{error}"));
        self.series = text.lines().filter(|line| !line.starts_with('#')).count();
        self.unhealthy = text.matches("loopwatch_object_unconverged_timestamp_seconds{").count();
    }

    /// Measures the process while nothing changes.
    pub(crate) fn idle(&mut self, process: &MeasuredProcess, span: Duration) {
        let before = process.cpu();
        pause(span);
        self.idle = (process.cpu() - before).as_secs_f64() / span.as_secs_f64();
    }

    /// Measures the process while `change` changes objects for `span`; `change` returns how many it
    /// changed.
    pub(crate) fn changed(
        &mut self,
        process: &MeasuredProcess,
        change: impl Fn(Duration) -> u32,
        span: Duration,
    ) {
        let (before, began) = (process.cpu(), Instant::now());
        let made = change(span);
        pause(Duration::from_secs(2)); // until the last changes have arrived

        let spent =
            (process.cpu() - before).as_secs_f64() - self.idle * began.elapsed().as_secs_f64();
        self.change_cpu = Duration::from_secs_f64(spent.max(0.0) / f64::from(made.max(1)));
    }

    /// Reads the memory figures at the end.
    pub(crate) fn settled(&mut self, process: &MeasuredProcess) {
        self.steady = kernel::memory(process.child.id(), "VmRSS");
        self.peak = kernel::memory(process.child.id(), "VmHWM");
    }
}
