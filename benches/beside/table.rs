//! The result, as it stands in `docs/benchmarks.md`.

use std::fmt::Write;
use std::time::Duration;

use crate::measure::Figures;
use crate::shops;

/// One line: what is compared, both figures as text, theirs divided by ours, and the least that it shall be.
struct Row {
    what: &'static str,
    theirs: String,
    ours: String,
    ratio: f64,
    aim: f64,
}

/// The result as a table of Markdown.
pub(crate) fn render(theirs: &Figures, ours: &Figures, all: &Figures) -> String {
    let seconds = |value: Duration| value.as_secs_f64();
    let bytes = |value: u64| value as f64;
    let mut text = String::new();
    let mut table = |title: &str, us: &Figures, rows: Vec<Row>| {
        let _ =
            writeln!(text, "\n{title}\n\n| | kube-state-metrics | loopwatch | ratio | aim |\n|---|---|---|---|---|");
        for Row { what, theirs, ours, ratio, aim } in rows {
            let met = if ratio >= aim { "" } else { " (missed)" };
            let _ = writeln!(text, "| {what} | {theirs} | {ours} | 1/{ratio:.1} | 1/{aim}{met} |");
        }
        let peak = bytes(us.start_peak) / bytes(us.steady);
        let _ = writeln!(
            text,
            "\nMost memory at the start: {} = {peak:.2} of the steady {} (aim: 1.3).",
            mib(us.start_peak),
            mib(us.steady)
        );
        let _ = writeln!(
            text,
            "A core while nothing changes: {:.2} % (kube-state-metrics: {:.2} %).",
            us.idle * 100.0,
            theirs.idle * 100.0
        );
    };
    let memory = |what, pick: fn(&Figures) -> u64, us: &Figures, aim| {
        row(what, mib(pick(theirs)), mib(pick(us)), bytes(pick(theirs)) / bytes(pick(us)), aim)
    };
    let took = |what, pick: fn(&Figures) -> Duration, us: &Figures, aim| {
        row(what, time(pick(theirs)), time(pick(us)), seconds(pick(theirs)) / seconds(pick(us)), aim)
    };
    let size = |us: &Figures, aim| {
        let ratio = theirs.scrape_bytes as f64 / us.scrape_bytes as f64;
        row("scrape, size", mib(theirs.scrape_bytes as u64), mib(us.scrape_bytes as u64), ratio, aim)
    };
    let rows = |us: &Figures, memory_aim, scrape_aim, size_aim: Option<f64>| {
        let mut rows = vec![
            memory("memory, most", |f| f.most, us, memory_aim),
            memory("memory, at the end", |f| f.steady, us, memory_aim),
            took("processor time until all is seen", |f| f.sync_cpu, us, 8.0),
            took("scrape, time", |f| f.scrape, us, scrape_aim),
        ];
        rows.extend(size_aim.map(|aim| size(us, aim)));
        rows.push(took("processor time for one change", |f| f.change_cpu, us, 8.0));
        rows
    };
    table(
        &format!("As installed: series of the {} unhealthy objects of {}.", ours.unhealthy, shops::COUNT),
        ours,
        rows(ours, 40.0, 50.0, Some(200.0)),
    );
    table(
        &format!("Like for like, `--object-series=all`: {} series, kube-state-metrics {}.", all.series, theirs.series),
        all,
        rows(all, 10.0, 4.0, None),
    );
    let _ = writeln!(
        text,
        "\nTime until all is seen: kube-state-metrics {}, loopwatch {}.",
        time(theirs.sync),
        time(ours.sync)
    );
    text
}

fn row(what: &'static str, theirs: String, ours: String, ratio: f64, aim: f64) -> Row {
    Row { what, theirs, ours, ratio, aim }
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
