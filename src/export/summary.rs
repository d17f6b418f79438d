//! The common part of page, report and API: the overall health, counts, ages and blind spots.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use loopwatch_model::finding::{
    Alert, Explainer, Finding, FindingCode, FindingId, FindingInfo, Severity, Subject, Value,
};
use loopwatch_model::histogram::Histogram;
use loopwatch_model::model::reading::Reason;
use loopwatch_model::observation::{Role, Scope, WatchId};
use loopwatch_model::snapshot::{
    Health, KindSummary, ObjectState, Snapshot, SourceSummary, WatchSummary,
};
use loopwatch_model::time::Span;
use serde::{Deserialize, Serialize};

/// A part of the cluster that loopwatch cannot see. The absence of findings about it means nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BlindSpot {
    /// The description of the part.
    pub what: String,
    /// The reason.
    pub why: String,
}

/// How long a replica that takes over needs until it sees the causes that the leader before it saw.
const SEES_WITHIN: Span = Span::mins(10);

/// A number with thousands separators.
pub(crate) struct Number(pub u64);

/// The worst health of any namespace and of the operator itself; `unknown` if loopwatch sees
/// nothing, because that is not healthy.
#[must_use]
pub(crate) fn overall(snapshot: &Snapshot) -> &'static str {
    // Objects stay Ready when their operator dies.
    let is_of_operator = |finding: &&Finding| {
        matches!(finding.subject, Subject::Operator { .. } | Subject::Controller { .. })
    };
    let of_operator =
        snapshot.findings.iter().filter(is_of_operator).map(|finding| Health::of(finding.severity));
    let worst =
        snapshot.health.values().copied().chain(of_operator).max().unwrap_or(Health::Healthy);
    let sees = watches(snapshot).any(|(_, watch)| watch.synced && !is_down(snapshot, &watch.watch));
    if worst == Health::Healthy && !sees { "unknown" } else { worst.as_str() }
}

/// The number of objects in each state, over all primary kinds.
#[must_use]
pub(crate) fn states(snapshot: &Snapshot) -> [u64; ObjectState::ALL.len()] {
    let mut sum = [0; ObjectState::ALL.len()];
    for kind in snapshot.kinds.iter().filter(|kind| kind.role == Role::Primary) {
        for (total, count) in sum.iter_mut().zip(kind.states()) {
            *total += count;
        }
    }

    sum
}

/// `8 objects: 5 converged, 2 progressing, 1 unknown (cannot be judged)`, over all primary kinds;
/// `None` if there are no objects. States without objects are absent, except converged.
#[must_use]
pub(crate) fn objects(snapshot: &Snapshot) -> Option<String> {
    let states = states(snapshot);
    let total: u64 = states.iter().sum();
    let mut text = format!("{} object{}:", Number(total), if total == 1 { "" } else { "s" });

    for (state, count) in ObjectState::ALL.iter().zip(states) {
        if count > 0 || *state == ObjectState::Converged {
            let comma = if text.ends_with(':') { "" } else { "," };
            let _ = write!(text, "{comma} {} {}", Number(count), state.as_str());
        }
    }

    if states[ObjectState::Unknown as usize] > 0 {
        text.push_str(" (cannot be judged)"); // unknown is the last state
    }

    (total > 0).then_some(text)
}

/// Why an object is in its state: the part of its status that decided it or, if that is not known,
/// the rule in words. All that people read takes it from here; the API has the label value, too.
#[must_use]
pub(crate) fn why<'a>(signal: &'a str, reason: &'a str) -> &'a str {
    if signal.is_empty() { Reason::words(reason).unwrap_or(reason) } else { signal }
}

/// The time from which on a duration is shown. A shorter one says only that loopwatch has just
/// looked, as in a dump.
const SHORTEST: Span = Span::secs(1);

/// How long a finding has been true. `None` if its start is unknown: it was already true when
/// loopwatch first saw its subject, a definition without a creation time or an object in a dump.
#[must_use]
pub(crate) fn age(snapshot: &Snapshot, finding: &Finding) -> Option<Span> {
    let began_unseen =
        matches!(finding.subject, Subject::Definition { .. }) && finding.since == finding.found;
    (!began_unseen).then(|| snapshot.at.since(finding.since)).filter(|age| *age >= SHORTEST)
}

/// The alert that covers all tickets, and critical findings without an alert of their own.
pub(crate) const TICKET: &str = "LoopwatchFinding";

/// Returns whether another finding explains this one, or it has time for another reason, so that it
/// raises no alert: `true`, `false`, or `unknown` if only the loopwatch beside another replica may
/// see the cause.
#[must_use]
pub(crate) fn explained(finding: &Finding, snapshot: &Snapshot) -> &'static str {
    match finding.alerts_at(snapshot.at) {
        false => "true",
        true if is_cause_elsewhere(finding, snapshot, SEES_WITHIN) => "unknown",
        true => "false",
    }
}

/// Returns whether only the loopwatch beside another replica may see the cause of a finding,
/// because that one has led lately.
#[must_use]
pub(crate) fn is_cause_elsewhere(finding: &Finding, snapshot: &Snapshot, lately: Span) -> bool {
    let by_operator = |explainer: &Explainer| {
        matches!(
            explainer,
            Explainer::Operator(_)
                | Explainer::Outage(_)
                | Explainer::Controller(_)
                | Explainer::Worker(_)
        )
    };

    let is_led_elsewhere =
        snapshot.operator.health.led_elsewhere.is_some_and(|at| snapshot.at.since(at) < lately);
    is_led_elsewhere && finding.info().explained_by.iter().any(by_operator)
}

/// The name of the alert that covers a finding of a severity, in the rules of `alerts/` and in what
/// loopwatch posts itself; `None` if it does not alert.
#[must_use]
pub(crate) fn alert_name(info: &FindingInfo, severity: Severity) -> Option<String> {
    match (info.alert, severity) {
        (_, Severity::Info) => None,
        (Alert::Page, Severity::Critical) => Some(format!("Loopwatch{}", info.name)),
        _ => Some(TICKET.to_owned()),
    }
}

/// Open findings, with their explanations.
pub(crate) struct Findings<'a> {
    /// Root findings, most severe first.
    pub roots: Vec<&'a Finding>,
    explained: BTreeMap<FindingId, Vec<&'a Finding>>,
    root_of: BTreeMap<FindingId, &'a Finding>,
}

/// The findings of one code and severity.
pub(crate) struct Group<'a> {
    /// The code.
    pub code: FindingCode,
    /// The severity.
    pub severity: Severity,
    /// The findings, oldest first.
    pub findings: Vec<&'a Finding>,
}

// === impl Number ===

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                f.write_char(',')?;
            }
            f.write_char(digit)?;
        }

        Ok(())
    }
}

// === impl Findings ===

impl<'a> Findings<'a> {
    /// Sorts the findings of `snapshot`.
    #[must_use]
    pub(crate) fn of(snapshot: &'a Snapshot) -> Self {
        let by_id: BTreeMap<_, _> =
            snapshot.findings.iter().map(|finding| (finding.id, finding)).collect();
        let mut findings =
            Self { roots: Vec::new(), explained: BTreeMap::new(), root_of: BTreeMap::new() };
        for finding in &snapshot.findings {
            match root(&by_id, finding) {
                Some(root) => {
                    findings.explained.entry(root.id).or_default().push(finding);
                    findings.root_of.insert(finding.id, root);
                }
                None => findings.roots.push(finding),
            }
        }

        findings
    }

    /// The findings that `root` explains, directly or indirectly.
    #[must_use]
    pub(crate) fn explained_by(&self, root: &Finding) -> &[&'a Finding] {
        self.explained.get(&root.id).map_or(&[], Vec::as_slice)
    }

    /// The root finding that explains `finding`; `None` if it is a root itself.
    #[must_use]
    pub(crate) fn root_of(&self, finding: &Finding) -> Option<&'a Finding> {
        self.root_of.get(&finding.id).copied()
    }

    /// Roots by code and severity, in the order of the first finding of each, so that meaning and
    /// advice appear once.
    #[must_use]
    pub(crate) fn groups(&self) -> Vec<Group<'a>> {
        grouped(self.roots.iter().copied())
    }

    /// The number of roots of one severity.
    #[must_use]
    pub(crate) fn count(&self, severity: Severity) -> usize {
        self.roots.iter().filter(|finding| finding.severity == severity).count()
    }
}

/// Findings by code and severity, in the order of the first finding of each.
#[must_use]
pub(crate) fn grouped<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> Vec<Group<'a>> {
    let mut groups = Vec::<Group<'_>>::new();
    for finding in findings {
        match groups
            .iter_mut()
            .find(|group| (group.code, group.severity) == (finding.code, finding.severity))
        {
            Some(group) => group.findings.push(finding),
            None => groups.push(Group {
                code: finding.code,
                severity: finding.severity,
                findings: vec![finding],
            }),
        }
    }

    groups
}

/// Follows explanations to their end. A finding that is no longer open explains nothing. If
/// explanations form a cycle, each of its findings is a root, so that none is hidden.
fn root<'a>(by_id: &BTreeMap<FindingId, &'a Finding>, finding: &Finding) -> Option<&'a Finding> {
    const DEEPEST: usize = 8;

    let next = |finding: &Finding| finding.explained_by.and_then(|id| by_id.get(&id).copied());
    let mut root = next(finding)?;
    for _ in 0..DEEPEST {
        match next(root) {
            Some(deeper) => root = deeper,
            None => return Some(root),
        }
    }

    None
}

/// Evidence as text, in the order of the table of findings: the most important key first. Leaves
/// out how long something has been so if it has just been seen.
pub(crate) fn evidence(finding: &Finding) -> impl Iterator<Item = (String, String)> + '_ {
    evidence_values(finding).map(|(key, value)| (key, value.to_string()))
}

/// The same with its values.
pub(crate) fn evidence_values(finding: &Finding) -> impl Iterator<Item = (String, &Value)> + '_ {
    let listed = finding.info().evidence;
    let just_seen = |(key, value): &(&&str, &Value)| {
        key.ends_with("_for") && matches!(value, Value::Span(span) if *span < SHORTEST)
    };
    let mut entries: Vec<_> = finding.evidence.0.iter().filter(|entry| !just_seen(entry)).collect();

    entries.sort_by_key(|(key, _)| {
        listed.iter().position(|other| other == *key).unwrap_or(listed.len())
    });
    entries.into_iter().map(|(key, value)| (key.replace('_', " "), value))
}

/// Whether a character controls the display instead of being visible, such as an escape or a
/// text-direction mark.
#[must_use]
pub(crate) fn controls_display(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The word with its first letter in upper case.
pub(crate) fn capitalised(word: &str) -> String {
    let mut characters = word.chars();
    characters
        .next()
        .map(|first| first.to_uppercase().chain(characters).collect())
        .unwrap_or_default()
}

/// Base URL of the runbooks. Alerts link there, too.
const RUNBOOKS: &str = "https://github.com/loopwatch/loopwatch/blob/main/docs/runbooks";

/// The URL of a finding's runbook.
#[must_use]
pub(crate) fn runbook(finding: &str) -> String {
    format!("{RUNBOOKS}/{finding}.md")
}

/// The quantile `q`, as Prometheus estimates it: linear within its bucket. `None` without values,
/// or if it lies beyond the last bucket.
#[must_use]
pub(crate) fn quantile(histogram: &Histogram, q: f64) -> Option<Span> {
    let total = histogram.count();
    if total == 0 {
        return None;
    }

    let rank = q * total as f64;
    let (mut lower, mut below) = (0.0, 0);
    for (bound, count) in histogram.buckets() {
        if count as f64 >= rank && count > below {
            let part = (rank - below as f64) / (count - below) as f64;
            let seconds = lower + (bound - lower) * part;
            return bound.is_finite().then_some(Span((seconds * 1000.0) as i64));
        }

        (lower, below) = (bound, count);
    }

    None
}

/// Everything that loopwatch cannot see in the cluster.
#[must_use]
pub(crate) fn blind_spots(snapshot: &Snapshot) -> Vec<BlindSpot> {
    let mut spots = Vec::new();
    for source in snapshot.sources.iter().filter(|source| !source.up) {
        spots.push(BlindSpot {
            what: source_subject(snapshot, source),
            why: failure(snapshot, source),
        });
    }

    for (kind, watch) in watches(snapshot) {
        if is_down(snapshot, &watch.watch) {
            continue; // listed above, with the cause
        }

        let what = format!("{} in {}", kind.kind, scope(&watch.scope));
        if !watch.missing.is_empty() {
            spots.push(BlindSpot {
                what,
                why: format!("the account may not {} them", watch.missing.join(", ")),
            });
        } else if !watch.synced {
            spots.push(BlindSpot { what, why: "the first list is not complete yet".to_owned() });
        }
    }

    for (namespace, permission) in &snapshot.permissions_missing {
        let said = watches(snapshot).any(|(kind, watch)| {
            kind.group == permission.group
                && kind.resource == permission.resource
                && watch.missing.contains(&permission.verb)
                && watch.scope.namespace().unwrap_or_default() == namespace
        });
        if !said {
            let place = if namespace.is_empty() {
                "the cluster".to_owned()
            } else {
                format!("namespace {namespace}")
            };
            let dot = if permission.group.is_empty() { "" } else { "." };
            let what = format!("{}{dot}{} in {place}", permission.resource, permission.group);

            spots.push(BlindSpot {
                what,
                why: format!("the account may not {} them", permission.verb),
            });
        }
    }

    spots.extend(
        snapshot
            .left_out
            .iter()
            .map(|part| BlindSpot { what: part.what.clone(), why: part.why.clone() }),
    );
    for (limit, count) in snapshot.dropped.iter().filter(|(_, count)| **count > 0) {
        let what = format!("{count} {}", limit.replace('_', " "));
        spots.push(BlindSpot { what, why: "dropped because a limit was reached".to_owned() });
    }

    spots
}

/// `all namespaces`, `the cluster`, `namespace team-a`.
#[must_use]
pub(crate) fn scope(scope: &Scope) -> String {
    match scope {
        Scope::Cluster => "the cluster".to_owned(),
        Scope::AllNamespaces | Scope::Namespace(_) => scope.to_string(),
    }
}

/// Why a source fails, and for how long.
#[must_use]
pub(crate) fn failure(snapshot: &Snapshot, source: &SourceSummary) -> String {
    let held = snapshot.at.since(source.since);
    match &source.latest {
        Some((cause, detail)) if detail.is_empty() => {
            format!("{} for {held}", cause.replace('_', " "))
        }
        Some((cause, detail)) => format!("{} for {held}: {detail}", cause.replace('_', " ")),
        None => format!("no observation for {held}"),
    }
}

fn source_subject(snapshot: &Snapshot, source: &SourceSummary) -> String {
    let watched = watches(snapshot).find(|(_, watch)| source_name(&watch.watch) == source.source);
    match watched {
        Some((kind, watch)) => format!("{} in {}", kind.kind, scope(&watch.scope)),
        None => format!("source {}", source.source),
    }
}

fn watches(snapshot: &Snapshot) -> impl Iterator<Item = (&KindSummary, &WatchSummary)> {
    snapshot.kinds.iter().flat_map(|kind| kind.watches.iter().map(move |watch| (kind, watch)))
}

/// Whether the source of a watch fails.
#[must_use]
pub(crate) fn is_down(snapshot: &Snapshot, watch: &WatchId) -> bool {
    let name = source_name(watch);
    snapshot.sources.iter().any(|source| !source.up && source.source == name)
}

fn source_name(watch: &WatchId) -> String {
    loopwatch_model::observation::SourceId::Watch(watch.clone()).to_string()
}

#[cfg(test)]
mod tests {
    use loopwatch_model::finding::Evidence;
    use loopwatch_model::time::Timestamp;

    use super::*;
    use crate::export::sample::{empty, healthy, sample};

    #[test]
    fn each_blind_spot_is_named_once_with_its_reason() {
        let said: Vec<_> = blind_spots(&sample().snapshot)
            .into_iter()
            .map(|spot| format!("{} – {}", spot.what, spot.why))
            .collect();

        assert_eq!(said.len(), 4, "{said:#?}");
        assert!(
            said[0].starts_with("Backup in namespace team-b – forbidden for 2h: backups.db"),
            "{}",
            said[0]
        );
        assert_eq!(
            said[1..],
            [
                "Pod in all namespaces – the first list is not complete yet",
                "events in namespace team-b – the account may not list them",
                "2 phases – dropped because a limit was reached",
            ]
        );
    }

    #[test]
    fn objects_are_counted_by_state_and_unknown_is_explained() {
        let said = objects(&sample().snapshot).expect("objects");
        assert!(said.starts_with("488 objects: 344 converged, 4 progressing, "), "{said}");
        assert!(said.ends_with(", 4 unknown (cannot be judged)"), "{said}");
        assert_eq!(objects(&empty().snapshot), None);

        let mut blind = healthy().snapshot;
        blind.kinds[0].namespaces.values_mut().next().expect("one").states =
            [0, 0, 0, 0, 0, 0, 0, 1];

        assert_eq!(
            objects(&blind).as_deref(),
            Some("1 object: 0 converged, 1 unknown (cannot be judged)")
        );
    }

    #[test]
    fn a_definition_without_creation_time_has_no_age() {
        let snapshot = sample().snapshot;
        let mut finding = snapshot.findings[0].clone();

        assert!(age(&snapshot, &finding).is_some());

        finding.subject = Subject::Definition { name: "widgets.example.io".to_owned() };
        finding.found = finding.since;

        assert_eq!(age(&snapshot, &finding), None);

        finding.since.0 -= 1;
        assert!(age(&snapshot, &finding).is_some());
    }

    #[test]
    fn what_has_just_been_seen_has_no_age() {
        let snapshot = sample().snapshot;
        let mut finding = snapshot.findings[0].clone();
        for (ms, shown) in [(2, false), (999, false), (1000, true)] {
            finding.since = Timestamp(snapshot.at.0 - ms);
            finding.evidence = Evidence::new()
                .with("missing_for", Value::Span(Span(ms)))
                .with("collected_after", Value::Span(Span(ms)));

            assert_eq!(age(&snapshot, &finding).is_some(), shown, "{ms}");

            let keys: Vec<_> = evidence(&finding).map(|(key, _)| key).collect();
            assert_eq!(keys.contains(&"missing for".to_owned()), shown, "{ms}");
            assert!(keys.contains(&"collected after".to_owned()), "{ms}");
        }
    }

    #[test]
    fn the_overall_health_is_that_of_the_worst_namespace() {
        assert_eq!(overall(&sample().snapshot), "failing");
        assert_eq!(overall(&empty().snapshot), "unknown");

        let mut blind = healthy().snapshot;
        assert_eq!(overall(&blind), "healthy");

        blind.kinds[0].watches[0].synced = false;
        assert_eq!(overall(&blind), "unknown", "what cannot be seen is never good");
    }

    #[test]
    fn the_overall_health_includes_the_operator_although_its_objects_say_ready() {
        let found = |subject: &Subject, severity| {
            let mut snapshot = healthy().snapshot;
            let finding = sample().snapshot.findings.remove(0);
            snapshot.findings = vec![Finding { subject: subject.clone(), severity, ..finding }];
            overall(&snapshot)
        };

        let operator =
            Subject::Operator { namespace: "ops".to_owned(), name: "db-operator".to_owned() };
        let controller = Subject::Controller { name: "database".to_owned() };
        for subject in [&operator, &controller] {
            assert_eq!(found(subject, Severity::Critical), "failing");
            assert_eq!(found(subject, Severity::Warning), "degraded");
            assert_eq!(found(subject, Severity::Info), "healthy");
        }

        let source = Subject::Source { name: "metrics".to_owned() };
        assert_eq!(
            found(&source, Severity::Warning),
            "healthy",
            "a problem of loopwatch, not of the operator"
        );
    }

    #[test]
    fn quantiles_are_estimated_as_in_prometheus() {
        let mut histogram = Histogram::default();
        assert_eq!(quantile(&histogram, 0.5), None);

        for _ in 0..10 {
            histogram.observe(Span::secs(7)); // the bucket from 5 to 10
        }

        assert_eq!(quantile(&histogram, 0.5), Some(Span(7_500)));

        histogram.observe(Span::hours(100));
        assert_eq!(quantile(&histogram, 0.99), None, "beyond the last bound");
    }

    #[test]
    fn explanations_are_followed_to_their_end_and_cycles_hide_no_finding() {
        let mut snapshot = sample().snapshot;
        let ids: Vec<_> = snapshot.findings.iter().map(|finding| finding.id).collect();

        // The first finding already explains the fourth. Now the fourth also explains the fifth.
        snapshot.findings[4].explained_by = Some(ids[3]);
        let findings = Findings::of(&snapshot);

        assert_eq!(findings.explained_by(&snapshot.findings[0]).len(), 2);
        assert_eq!(findings.root_of(&snapshot.findings[4]).map(|root| root.id), Some(ids[0]));

        snapshot.findings[0].explained_by = Some(ids[3]);
        assert_eq!(Findings::of(&snapshot).roots.len(), snapshot.findings.len());
    }

    #[test]
    fn evidence_comes_in_the_order_of_the_table() {
        let snapshot = sample().snapshot;
        let keys: Vec<_> = evidence(&snapshot.findings[0]).map(|(key, _)| key).collect();

        assert_eq!(keys, ["failed", "objects", "reason", "examples"]);
    }
}
