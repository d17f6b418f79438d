//! Counts the alerts per incident over its whole life, through the rules and through loopwatch's
//! own postings. A section of `docs/alerts.md` is the result.

mod incidents;
#[path = "../../../model/tests/model"]
#[allow(dead_code, unused_imports, reason = "the incidents use a part of the lab")]
mod model_tests {
    pub(super) mod lab;
}

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use loopwatch_model::finding::{Change, Severity};
use loopwatch_model::model::Model;
use loopwatch_model::observation::Observation;
use loopwatch_model::settings::Settings;
use loopwatch_model::snapshot::Snapshot;
use loopwatch_model::time::{Span, Timestamp};

use self::model_tests::lab;
use super::rules;
use crate::export::delivery::alertmanager::{ActiveAlerts, AlertKey, alert_groups};
use crate::export::view::Links;
use crate::golden;
use crate::recording::Recording;

const HEAD: &str = "One incident should page once. A test plays each incident below with the default settings, from before the fault until after its
end. It counts the alerts that begin, once through the [rules](../alerts/findings.rules.yaml) and once as loopwatch
[posts them itself](#alerts-without-prometheus). An alert that ends and begins again counts twice.

- A finding that [another one explains](findings.md) raises no alert. A finding about the operator or a controller gets the severity
  of the findings that it explains, so that its alert pages instead, unless the [settings](tuning.md) set its severity.
- An alert begins later than its finding, because a finding that explains it may open a moment later. In the rules, it begins after two minutes (`for: 2m`), but those about `OperatorDown`,
  `RestartLoop`, `StartupOutOfMemory` and `ReconcilePanicking` do not wait. An alert that loopwatch posts itself always waits for 15 s. An alert that has begun
  lasts until its finding closes, even if another one explains it by then.
- When a finding that explained others closes, the operator has its `deadline` to catch up before the others alert.
- A cause that stops all work explains every object that begins to wait while it lasts, even after days: its alert still fires. Other causes explain only
  problems that begin soon after them. If the operator handles later changes of other objects meanwhile, a cause explains nothing
  ([ADR 19](adr/0019-causes-have-limits-in-time.md)). A cause whose severity cannot rise explains nothing more severe than itself.

";

/// The interval between evaluations of the rules.
const EVALUATED_EVERY: Span = Span::secs(15);

/// The interval between snapshots.
const STEP: Span = Span::secs(5);

/// The alerts of an incident, in the order in which they began.
#[derive(Debug, Default, PartialEq, Eq)]
struct Noise {
    pages: Vec<String>,
    tickets: Vec<String>,
}

/// The alerts as Prometheus evaluates the generated rules.
#[derive(Default)]
struct Rules {
    /// By the finding and its severity: `for` and `keep_firing_for`.
    times: BTreeMap<(String, String), (Span, Span)>,
    evaluated: Option<Timestamp>,
    /// For each alert, since when it has been true, and when it was last true.
    active: BTreeMap<AlertKey, (Timestamp, Timestamp)>,
    firing: BTreeSet<AlertKey>,
}

impl Noise {
    fn add(&mut self, key: &AlertKey) {
        let list =
            if key.severity == Severity::Critical { &mut self.pages } else { &mut self.tickets };
        let kind =
            if key.namespace.is_empty() { String::new() } else { format!(" ({})", key.kind) };

        list.push(format!("{}{kind}", key.code.name()));
    }
}

impl Rules {
    fn new() -> Self {
        let text = rules::findings();
        let mut times = BTreeMap::new();
        for rule in text.split("- alert: ").skip(1) {
            let value = |key: &str| {
                let line =
                    rule.lines().find_map(|line| line.trim().strip_prefix(key)).unwrap_or("0s");
                Span::parse(line.trim()).expect("a duration")
            };
            let time = (value("for:"), value("keep_firing_for:"));
            let expr = rule.split("\n        for:").next().unwrap_or_default();

            for selector in expr.split("finding:loopwatch_findings:max{").skip(1) {
                let (findings, severities) =
                    (values(selector, "finding"), values(selector, "severity"));
                let keys = findings
                    .iter()
                    .flat_map(|name| severities.iter().map(move |severity| (name, severity)));

                times.extend(keys.map(|(name, severity)| ((name.clone(), severity.clone()), time)));
            }
        }

        Self { times, ..Self::default() }
    }

    /// Evaluates the rules if an evaluation is due. Returns the alerts that begin.
    fn update(&mut self, snapshot: &Snapshot) -> Vec<AlertKey> {
        let now = snapshot.at;
        if self.evaluated.is_some_and(|at| now.since(at) < EVALUATED_EVERY) {
            return Vec::new();
        }

        self.evaluated = Some(now);
        for key in alert_groups(snapshot).into_keys() {
            self.active.entry(key).or_insert((now, now)).1 = now;
        }

        let Self { times, active, firing, .. } = self;
        let of = |key: &AlertKey| {
            times.get(&(key.code.name().to_owned(), key.severity.as_str().to_owned())).copied()
        };

        active.retain(|key, (_, last)| {
            let keep = of(key).map_or(Span::ZERO, |(_, keep)| keep);
            *last == now || (firing.contains(key) && now.since(*last) < keep)
        });
        firing.retain(|key| active.contains_key(key));

        let due = active.iter().filter(|(key, (since, last))| {
            *last == now && of(key).is_some_and(|(wait, _)| now.since(*since) >= wait)
        });
        let new: Vec<AlertKey> =
            due.map(|(key, _)| key.clone()).filter(|key| !firing.contains(key)).collect();

        firing.extend(new.iter().cloned());
        new
    }
}

/// Returns the values that a selector has for a label: `label="a"` or `label=~"a|b"`.
fn values(selector: &str, label: &str) -> Vec<String> {
    let matcher = selector.split(&format!("{label}=")).nth(1).unwrap_or_default();
    let values = matcher.split('"').nth(1).unwrap_or_default();
    values.split('|').map(str::to_owned).collect()
}

/// Plays observations, and returns the alerts of the rules and the posted alerts.
fn play(settings: Settings, log: Vec<(Timestamp, Observation)>) -> (Noise, Noise) {
    let (mut by_rules, mut posted) = (Noise::default(), Noise::default());
    let (mut model, mut alerts, mut rules) =
        (Model::new(settings), ActiveAlerts::new(vec![], Links::default()), Rules::new());
    let mut look = |model: &Model| {
        let snapshot = model.snapshot();
        let before: BTreeSet<AlertKey> = alerts.firing().cloned().collect();
        alerts.update(&snapshot);
        alerts.firing().filter(|key| !before.contains(key)).for_each(|key| posted.add(key));
        rules.update(&snapshot).iter().for_each(|key| by_rules.add(key));
    };

    let mut now = log.first().map_or(Timestamp(0), |(at, _)| *at);
    for (at, observation) in log {
        while now.after(STEP) < at {
            now = now.after(STEP);
            model.apply(now, Observation::Tick);
            look(&model);
        }

        if at > now {
            look(&model);
        }

        now = at;
        model.apply(at, observation);
    }

    look(&model);
    (by_rules, posted)
}

fn list(names: &[String]) -> String {
    let mut counts: Vec<(&String, usize)> = Vec::new();
    for name in names {
        match counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }

    let texts = counts.iter().map(|(name, count)| match count {
        1 => (*name).clone(),
        more => format!("{name}, {more} times"),
    });
    let text = texts.collect::<Vec<_>>().join("; ");
    if text.is_empty() { "none".to_owned() } else { text }
}

/// A cell with the alerts of the rules and, if they differ, with the posted alerts.
fn cell(by_rules: &[String], posted: &[String]) -> String {
    if by_rules == posted {
        list(posted)
    } else {
        format!("rules: {}<br>posted: {}", list(by_rules), list(posted))
    }
}

#[test]
fn one_incident_pages_once() {
    let mut page = format!(
        "{HEAD}| incident | pages | tickets | why more than one alert |\n|---|---|---|---|\n"
    );
    let mut wrong = Vec::new();
    for incident in incidents::ALL {
        let mut settings = Settings::default();
        let log = lab::logged(|| settings = (incident.play)());
        // The lab counts one object as many.
        let Settings { page_objects, .. } = Settings::default();
        let (by_rules, posted) = play(Settings { page_objects, ..settings }, log);
        let most = by_rules.pages.len().max(posted.pages.len());

        if most != incident.pages || (most > 1 && incident.why.is_empty()) {
            wrong.push(format!("{}: {by_rules:?}, {posted:?}", incident.name));
        }

        let cells =
            [cell(&by_rules.pages, &posted.pages), cell(&by_rules.tickets, &posted.tickets)];
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} |",
            incident.name, cells[0], cells[1], incident.why
        );
    }

    page.push_str(&scenarios(&mut wrong));
    golden::check_section("docs/alerts.md", "noise", &page);

    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

const OF_SCENARIOS: &str = "
### Recorded incidents
The [recordings](../tests/scenarios/) of real runs have thresholds of seconds and faults that end quickly, so most of their findings are
too short for an alert. This table therefore counts as if each alert began with its finding, even if a finding that explains it opens a moment
later, and by its first severity, even if that rises. An incident is one object, kind or operator with alerts. The columns for pages and tickets show the largest number for one
incident.

| recording | incidents | pages | tickets | incidents with more than one alert |
|---|---|---|---|---|
";

/// The section about the recordings.
fn scenarios(wrong: &mut Vec<String>) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let entries = std::fs::read_dir(folder).expect("the scenarios");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|file| {
        [".jsonl", ".jsonl.gz"].iter().any(|end| file.to_string_lossy().ends_with(end))
    });
    files.sort();

    let mut table = OF_SCENARIOS.to_owned();
    for file in files {
        let name = file
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .split('.')
            .next()
            .unwrap_or_default()
            .to_owned();

        let incidents = recorded(&file);
        let most = |of: fn(&Noise) -> &Vec<String>| {
            incidents.values().map(|noise| of(noise).len()).max().unwrap_or(0)
        };
        let (pages, tickets) = (most(|noise| &noise.pages), most(|noise| &noise.tickets));

        if pages > 1 {
            wrong.push(format!("{name}: {incidents:?}"));
        }

        let several: Vec<String> = incidents
            .iter()
            .filter(|(_, noise)| noise.pages.len() + noise.tickets.len() > 1)
            .map(|(subject, noise)| {
                format!("{subject}: {}", [&noise.pages[..], &noise.tickets[..]].concat().join(", "))
            })
            .collect();
        let _ = writeln!(
            table,
            "| {name} | {} | {pages} | {tickets} | {} |",
            incidents.len(),
            several.join("<br>")
        );
    }

    table
}

/// Returns the alerts of each subject in a recording, as if each alert began at once.
fn recorded(file: &Path) -> BTreeMap<String, Noise> {
    let recording = Recording::open(file).expect("a recording");
    let mut model = Model::new(recording.header().settings.clone());
    let (mut incidents, mut alerting) = (BTreeMap::<String, Noise>::new(), BTreeSet::new());

    for line in recording {
        model.apply(line.at, line.saw);
        for event in model.finding_events() {
            let finding = &event.finding;
            let (subject, open) = (finding.subject.to_string(), event.change != Change::Closed);
            let snapshot =
                Snapshot { at: event.at, findings: vec![finding.clone()], ..Snapshot::default() };
            let key = alert_groups(&snapshot).into_keys().next().filter(|_| open);

            if let Some(key) = key.filter(|_| alerting.insert(finding.id)) {
                incidents.entry(subject).or_default().add(&key);
            }

            if !open {
                alerting.remove(&finding.id);
            }
        }
    }

    // The events lack findings that became confirmed only later.
    let snapshot = model.snapshot();
    for (key, finding) in alert_groups(&snapshot)
        .into_iter()
        .flat_map(|(key, group)| group.0.into_iter().map(move |f| (key.clone(), f)))
    {
        if alerting.insert(finding.id) {
            incidents.entry(finding.subject.to_string()).or_default().add(&key);
        }
    }

    incidents
}
