//! Renders the result as tables; `docs/benchmarks.md` has the figures.

use std::fmt::Write;
use std::time::Duration;

use crate::measure::Figures;
use crate::shops;

/// One line: a measurement, both figures as text, their ratio (theirs divided by ours), and the
/// target for the ratio.
struct Comparison {
    name: &'static str,
    theirs: String,
    ours: String,
    ratio: f64,
    target: f64,
}

/// Renders the result as Markdown.
pub(crate) fn render(theirs: &Figures, ours: &Figures, all: &Figures, full: &Figures) -> String {
    let seconds = |value: Duration| value.as_secs_f64();
    let bytes = |value: u64| value as f64;
    let mut text = String::new();
    let mut table = |title: &str, us: &Figures, rows: Vec<Comparison>| {
        let _ = writeln!(
            text,
            "\n{title}\n\n| | kube-state-metrics | loopwatch | ratio | target |\n|---|---|---|---|---|"
        );
        for Comparison { name, theirs, ours, ratio, target } in rows {
            let met = if ratio >= target { "" } else { " (missed)" };
            let _ =
                writeln!(text, "| {name} | {theirs} | {ours} | 1/{ratio:.1} | 1/{target}{met} |");
        }

        let share = bytes(us.start_peak) / bytes(us.steady);
        let _ = writeln!(
            text,
            "\nPeak memory during startup: {}, {share:.2} times the {} at the end (target: at most 1.3).",
            mib(us.start_peak),
            mib(us.steady)
        );

        let _ = writeln!(
            text,
            "CPU usage while nothing changes: {:.2} % of a core (kube-state-metrics: {:.2} %).",
            us.idle * 100.0,
            theirs.idle * 100.0
        );
    };

    let memory = |name, pick: fn(&Figures) -> u64, us: &Figures, target| {
        compare(
            name,
            mib(pick(theirs)),
            mib(pick(us)),
            bytes(pick(theirs)) / bytes(pick(us)),
            target,
        )
    };

    let duration = |name, pick: fn(&Figures) -> Duration, us: &Figures, target| {
        compare(
            name,
            time(pick(theirs)),
            time(pick(us)),
            seconds(pick(theirs)) / seconds(pick(us)),
            target,
        )
    };

    let size = |us: &Figures, target| {
        let ratio = theirs.scrape_bytes as f64 / us.scrape_bytes as f64;
        compare(
            "scrape size",
            mib(theirs.scrape_bytes as u64),
            mib(us.scrape_bytes as u64),
            ratio,
            target,
        )
    };

    let rows = |us: &Figures, memory_target, scrape_target, size_target: Option<f64>| {
        let mut rows = vec![
            memory("peak memory", |f| f.peak, us, memory_target),
            memory("memory at the end", |f| f.steady, us, memory_target),
            duration("CPU time until synced", |f| f.sync_cpu, us, 8.0),
            duration("scrape duration", |f| f.scrape, us, scrape_target),
        ];

        rows.extend(size_target.map(|target| size(us, target)));
        rows.push(duration("CPU time per change", |f| f.change_cpu, us, 8.0));
        rows
    };

    table(
        &format!(
            "Default settings: series for {} unhealthy objects of {}.",
            ours.unhealthy,
            shops::COUNT
        ),
        ours,
        rows(ours, 40.0, 50.0, Some(200.0)),
    );

    table(
        &format!(
            "All objects, `--object-series=all`: {} series (kube-state-metrics: {}).",
            all.series, theirs.series
        ),
        all,
        rows(all, 10.0, 4.0, None),
    );

    let _ = writeln!(
        text,
        "\nBeside an operator, with its metrics, its process and the state directory: peak memory {} (target: at most 30 MiB \
         with the profile `dist`), CPU time per change {}, CPU usage while nothing changes {:.2} % of a core.",
        mib(full.peak),
        time(full.change_cpu),
        full.idle * 100.0
    );

    let _ = writeln!(
        text,
        "\nTime until synced: kube-state-metrics {}, loopwatch {}.",
        time(theirs.sync),
        time(ours.sync)
    );

    text
}

fn compare(
    name: &'static str,
    theirs: String,
    ours: String,
    ratio: f64,
    target: f64,
) -> Comparison {
    Comparison { name, theirs, ours, ratio, target }
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

fn time(span: Duration) -> String {
    match span.as_secs_f64() {
        s if s >= 1.0 => format!("{s:.1} s"),
        s if s >= 0.001 => format!("{:.1} ms", s * 1e3),
        s => format!("{:.0} µs", s * 1e6),
    }
}
