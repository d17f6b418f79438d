//! Decides which alerts fire: one per finding, severity, group, kind and target namespace, as in
//! `alerts/findings.rules.yaml`, with the team of the namespace.

use std::collections::BTreeMap;

use loopwatch_model::finding::{Area, Confidence, Finding, FindingCode, HOLD, Severity, Subject};
use loopwatch_model::observation::SourceId;
use loopwatch_model::snapshot::Snapshot;
use loopwatch_model::time::{Span, Timestamp};

use super::posting::{Alert, PAGE, Pairs, Posting};
use crate::export::view::{Links, alert_name, is_cause_elsewhere, runbook_command};

/// What fires, and what has recently cleared.
#[derive(Debug)]
pub(crate) struct ActiveAlerts {
    labels: Vec<(String, String)>,
    links: Links,
    /// Whether one alert always fires.
    has_heartbeat: bool,
    /// The instant of the last snapshot; `None` before the first one.
    now: Option<Timestamp>,
    /// The start of loopwatch, according to the first snapshot.
    started: Timestamp,
    /// The number of observations in the last snapshot.
    observations: u64,
    /// Since when a model that was rebuilt after a panic has been listing everything again.
    relisting: Option<Timestamp>,
    firing: BTreeMap<AlertKey, FiringAlert>,
    /// Alerts that do not fire yet. An earlier process may have posted them, so their end also
    /// matters.
    waiting: BTreeMap<AlertKey, FiringAlert>,
    cleared: BTreeMap<AlertKey, ClearedAlert>,
    /// When the last posting was made, and whether anything has changed since.
    posted: Option<Timestamp>,
    changed: bool,
}

/// What distinguishes one alert from another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AlertKey {
    pub(crate) severity: Severity,
    pub(crate) code: FindingCode,
    group: String,
    pub(crate) kind: String,
    pub(crate) namespace: String,
    /// The team of the namespace; empty if loopwatch knows none.
    team: String,
    /// Whether the cause may be visible only to the loopwatch of another replica, which leads.
    is_cause_unknown: bool,
}

/// An alert that fires.
#[derive(Debug)]
struct FiringAlert {
    since: Timestamp,
    /// The number of affected objects and the names of the worst. A change causes an immediate
    /// posting.
    shown: (usize, Vec<String>),
    annotations: Pairs,
}

/// An alert that has cleared.
#[derive(Debug)]
struct ClearedAlert {
    since: Timestamp,
    at: Timestamp,
    annotations: Pairs,
}

/// How often loopwatch posts unchanged alerts again, as Prometheus does by default.
const REPEAT: Span = Span::secs(60);

/// How long an alert fires without another posting. Prometheus allows four repetitions.
const LIFETIME: Span = Span::mins(5);

/// How long loopwatch repeats a cleared alert, as Prometheus does, so that an Alertmanager that was
/// away learns of it.
const REMEMBERED: Span = Span::mins(15);

/// How long another replica still counts as leading after its last sign of leading. Its successor
/// must repeat its alerts, with the same labels, before they end.
const LEADS: Span = Span::mins(1);

/// The maximum number of firing alerts.
const MAX_ALERTS: usize = 1_000;

/// The part of this maximum that is reserved for critical alerts.
const FOR_CRITICAL: usize = 200;

/// The label with the name of the cluster, which the title of an alert repeats.
const CLUSTER: &str = "cluster";

/// The number of objects that an alert names.
const NAMED: usize = 3;

impl ActiveAlerts {
    pub(crate) fn new(labels: Vec<(String, String)>, links: Links) -> Self {
        Self {
            labels,
            links,
            has_heartbeat: true,
            now: None,
            started: Timestamp::default(),
            observations: 0,
            relisting: None,
            firing: BTreeMap::new(),
            waiting: BTreeMap::new(),
            cleared: BTreeMap::new(),
            posted: None,
            changed: false,
        }
    }

    /// Alerts about one of many operators. The heartbeat shows that loopwatch works, which has one of its
    /// own: this one would end with the operator.
    pub(crate) fn about(mut self, operator: &str) -> Self {
        self.labels.push(("operator".to_owned(), operator.to_owned()));
        self.has_heartbeat = false;
        self
    }

    /// Clears all alerts.
    pub(crate) fn clear_all(&mut self) {
        if let Some(now) = self.now {
            self.clear_others(now, &BTreeMap::new());
        }
    }

    /// Returns the alerts that fire.
    pub(crate) fn firing(&self) -> impl ExactSizeIterator<Item = &AlertKey> {
        self.firing.keys()
    }

    /// Updates the alerts with a snapshot's findings. Returns the number of new alerts for which
    /// there is no room.
    pub(crate) fn update(&mut self, snapshot: &Snapshot) -> u64 {
        let now = snapshot.at;
        if self.is_relisting(snapshot) {
            self.now = self.now.max(Some(now)); // a new model has no time yet
            return 0;
        }

        if self.now.is_none() {
            self.started = now;
        }

        self.now = Some(now);
        let groups = alert_groups(snapshot);
        self.clear_others(now, &groups);

        let cluster = self.labels.iter().find(|(name, _)| name == CLUSTER);
        let cluster = cluster.map(|(_, value)| value.clone());
        let mut dropped = 0;
        for (key, group) in groups {
            let known = self.firing.get(&key);
            let is_due = known.is_some() || group.is_due(now);
            if !is_due && (now.since(self.started) >= LIFETIME || self.waiting.len() >= MAX_ALERTS)
            {
                continue;
            }

            let room = if key.severity == Severity::Critical {
                MAX_ALERTS
            } else {
                MAX_ALERTS - FOR_CRITICAL
            };
            if known.is_none() && self.firing.len() >= room {
                dropped += 1;
                continue;
            }

            let since = known.map_or_else(|| group.since().min(now), |known| known.since);
            let shown = group.shown();
            self.changed |= is_due && known.is_none_or(|known| known.shown != shown);

            let annotations = group.annotations(now, &key, &self.links, cluster.as_deref());
            let alert = FiringAlert { since, shown, annotations };
            if is_due {
                self.cleared.remove(&key);
                self.firing.insert(key, alert);
            } else {
                self.waiting.insert(key, alert);
            }
        }

        dropped
    }

    /// Returns whether a rebuilt model does not know yet which alerts still fire. A list that takes
    /// longer than the lifetime of alerts does not keep them alive.
    fn is_relisting(&mut self, snapshot: &Snapshot) -> bool {
        let observations = snapshot.observations.values().sum();
        if observations < std::mem::replace(&mut self.observations, observations) {
            self.relisting = self.now;
        }

        let lasts =
            |since: &Timestamp| snapshot.at.since(*since) < LIFETIME && is_incomplete(snapshot);
        self.relisting = self.relisting.filter(lasts);
        self.relisting.is_some()
    }

    /// Clears the alerts without findings, and forgets those that do not fire yet.
    fn clear_others(&mut self, now: Timestamp, groups: &BTreeMap<AlertKey, AlertGroup<'_>>) {
        let (firing, waiting) =
            (std::mem::take(&mut self.firing), std::mem::take(&mut self.waiting));
        let (firing, others) = firing.into_iter().partition(|(key, _)| groups.contains_key(key));
        self.firing = firing;

        let ended = waiting.into_iter().filter(|(key, _)| !groups.contains_key(key));
        for (key, alert) in BTreeMap::into_iter(others).chain(ended) {
            self.changed = true;
            let FiringAlert { since, annotations, .. } = alert;
            self.cleared.insert(key, ClearedAlert { since, at: now, annotations });
        }

        // If the clock was ahead, they must not stay until that time comes again.
        self.cleared.values_mut().for_each(|cleared| cleared.at = cleared.at.min(now));
        self.cleared.retain(|_, cleared| now.since(cleared.at) < REMEMBERED);
        while self.cleared.len() > MAX_ALERTS {
            self.cleared.pop_last();
        }
    }

    /// Returns what the Alertmanagers should know, if it has changed or a repetition is due.
    pub(super) fn posting(&mut self) -> Option<Posting> {
        let now = self.now?;
        let is_due = self.posted.is_none_or(|posted| now.since(posted) >= REPEAT || posted > now);
        if !is_due && !self.changed {
            return None;
        }

        (self.posted, self.changed) = (Some(now), false);
        let lives_until = now.after(LIFETIME);

        // If the clock was set back, an alert must not begin after its end: Alertmanager would
        // reject it.
        let firing = self.firing.iter().map(|(key, FiringAlert { since, annotations, .. })| {
            Alert::new(self.labels_of(key), annotations.clone(), (*since).min(now), lives_until)
        });
        let cleared = self.cleared.iter().map(|(key, ClearedAlert { since, at, annotations })| {
            let at = (*at).min(now);
            Alert::new(self.labels_of(key), annotations.clone(), (*since).min(at), at)
        });
        let heartbeat = self.has_heartbeat.then(|| {
            Alert::new(self.heartbeat(), heartbeat_text(), self.started.min(now), lives_until)
        });

        Some(Posting::of(heartbeat.into_iter().chain(firing).chain(cleared)))
    }

    fn labels_of(&self, key: &AlertKey) -> Pairs {
        let AlertKey { severity, code, group, kind, namespace, team, is_cause_unknown } = key;
        let name = alert_name(code.info(), *severity).unwrap_or_default();
        let own = [
            ("alertname", name.as_str()),
            ("cause", if *is_cause_unknown { "unknown" } else { "" }),
            ("finding", code.name()),
            ("group", group),
            ("kind", kind),
            ("severity", severity.as_str()),
            ("target_namespace", namespace),
            ("team", team),
        ];

        self.with_user_labels(&own)
    }

    /// Returns the labels of the alert that always fires. Its absence shows that loopwatch or the
    /// connection to Alertmanager is gone.
    fn heartbeat(&self) -> Pairs {
        self.with_user_labels(&[("alertname", "LoopwatchWatchdog"), ("severity", "none")])
    }

    fn with_user_labels(&self, own: &[(&str, &str)]) -> Pairs {
        let given = own
            .iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        self.labels.iter().cloned().chain(given).collect()
    }
}

/// The findings of one alert.
#[derive(Debug, Default)]
pub(crate) struct AlertGroup<'a>(pub(crate) Vec<&'a Finding>);

impl AlertGroup<'_> {
    /// Returns whether a new alert may fire.
    fn is_due(&self, now: Timestamp) -> bool {
        self.0.iter().any(|finding| finding.alerts_at(now.before(HOLD)))
    }

    fn since(&self) -> Timestamp {
        self.0.iter().map(|finding| finding.since).min().unwrap_or_default()
    }

    /// Returns the findings that have been open longest.
    fn worst(&self) -> Vec<&Finding> {
        let mut worst: Vec<&Finding> = self.0.clone();
        worst.sort_by_key(|finding| (finding.since, finding.id));
        worst.truncate(NAMED);
        worst
    }

    fn shown(&self) -> (usize, Vec<String>) {
        let names = self.worst().into_iter().map(|finding| finding.subject.name().to_owned());
        (self.0.len(), names.collect())
    }

    /// Returns the texts and links. `cluster` is the cluster that the labels of the alert name.
    fn annotations(
        &self,
        now: Timestamp,
        key: &AlertKey,
        links: &Links,
        cluster: Option<&str>,
    ) -> Pairs {
        let (info, worst) = (key.code.info(), self.worst());
        let place = worst.first().map_or(key.namespace.as_str(), |finding| finding.place());
        let place = if place.is_empty() { "the cluster" } else { place };
        let mut lines = vec![format!("{} in {place}: {} affected.", key.kind, self.0.len())];
        let named: Vec<String> = worst
            .iter()
            .filter(|finding| !finding.subject.name().is_empty())
            .map(|finding| format!("{} ({})", finding.subject.name(), now.since(finding.since)))
            .collect();

        if !named.is_empty() {
            lines[0].push_str(&format!(" Longest: {}.", named.join(", ")));
        }

        if let Some(first) = worst.first() {
            lines.push(format!("{}: {}.", first.subject, without_markup(&first.summary())));
            lines.extend(first.instance_pod().map(|(_, pod)| format!("Pod: {pod}")));
            lines.push(format!("Next: {}", first.command()));
        }

        lines.push(format!("Runbook: {}", runbook_command(info.name)));

        lines.push(info.advice.to_owned());

        let title = without_markup(&self.title(now, key, worst.first().copied(), cluster));
        let given = [("summary", title), ("description", lines.join("\n"))];
        let urls = [
            (PAGE, links.page(&self.0)),
            ("dashboard_url", links.dashboard(&self.0)),
            ("runbook_url", links.runbook(info.name)),
        ]
        .into_iter()
        .filter_map(|(name, link)| Some((name, link?)));

        given.into_iter().chain(urls).map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Returns what broke, as the titles of the rules say it: the object that has had the finding
    /// longest, the number of others, the problem and its age.
    fn title(
        &self,
        now: Timestamp,
        key: &AlertKey,
        worst: Option<&Finding>,
        cluster: Option<&str>,
    ) -> String {
        let info = key.code.info();
        let prefix = if info.area == Area::Loopwatch { "loopwatch: " } else { "" };
        let mut title = format!("{prefix}{}", key.kind);

        match worst.map(|finding| (&finding.subject, finding.place())) {
            Some((Subject::Kind { .. }, _)) | None => title.push_str(" objects"),
            Some((subject, "")) => title.push_str(&format!(" {}", subject.name())),
            Some((subject, place)) => title.push_str(&format!(" {place}/{}", subject.name())),
        }

        match self.0.len().saturating_sub(1) {
            0 => {}
            1 => title.push_str(" and 1 other"),
            others => title.push_str(&format!(" and {others} others")),
        }

        title.push_str(&format!(" {}", info.title));
        if let Some(finding) = worst {
            title.push_str(&format!(" for {}", now.since(finding.since)));
        }

        if let Some(cluster) = cluster {
            title.push_str(&format!(" (cluster {cluster})"));
        }

        title
    }
}

/// Returns a text that chat programs show as it is. Tenants write parts of it, such as the messages
/// of conditions, and Alertmanager hands annotations on to receivers that turn `@here` and
/// `<!channel>` into notifications, and addresses into links. An invisible space after the
/// characters that begin these prevents it.
fn without_markup(text: &str) -> String {
    const INVISIBLE_SPACE: char = '\u{200b}';

    let begins_markup = |c: char| matches!(c, '@' | '<' | ']');
    let mut shown = String::with_capacity(text.len());
    for part in text.replace("://", &format!(":{INVISIBLE_SPACE}//")).chars() {
        shown.push(part);
        if begins_markup(part) {
            shown.push(INVISIBLE_SPACE);
        }
    }

    shown
}

/// The alerts of a snapshot.
pub(crate) fn alert_groups(snapshot: &Snapshot) -> BTreeMap<AlertKey, AlertGroup<'_>> {
    let mut groups = BTreeMap::<AlertKey, AlertGroup<'_>>::new();
    let alerting = |finding: &&Finding| {
        finding.confidence == Confidence::Confirmed
            && alert_name(finding.info(), finding.severity).is_some()
            && finding.alerts_at(snapshot.at)
    };
    for finding in snapshot.findings.iter().filter(alerting) {
        let subject = &finding.subject;
        let key = AlertKey {
            severity: finding.severity,
            code: finding.code,
            group: subject.group().to_owned(),
            kind: subject.kind().to_owned(),
            namespace: subject.namespace().to_owned(),
            team: snapshot.teams.get(subject.namespace()).cloned().unwrap_or_default(),
            is_cause_unknown: is_cause_elsewhere(finding, snapshot, LEADS),
        };

        groups.entry(key).or_default().0.push(finding);
    }

    groups
}

/// Returns whether the kinds are still unknown, or a first list is incomplete.
fn is_incomplete(snapshot: &Snapshot) -> bool {
    let discovery = SourceId::Discovery.to_string();
    let knows_kinds = snapshot.sources.iter().any(|source| source.up && source.source == discovery);
    let mut watches = snapshot.kinds.iter().flat_map(|kind| &kind.watches);
    !knows_kinds || watches.any(|watch| !watch.synced && watch.missing.is_empty())
}

fn heartbeat_text() -> Pairs {
    let text = "This alert always fires. Route it to a service that notifies you when it stops: then loopwatch, its cluster \
                or the way to this Alertmanager is gone.";
    [
        ("summary".to_owned(), "loopwatch runs".to_owned()),
        ("description".to_owned(), text.to_owned()),
    ]
    .into()
}

#[cfg(test)]
mod tests;
