//! The parts of queries that all dashboards have in common: which series a query selects, how it
//! merges replicas, and the labels that it keeps.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use loopwatch_model::finding::{Area, FINDINGS, NO_OBJECTS, Severity};

/// The variables that restrict a query.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// The processes of loopwatch, whose series have no label `operator`.
    Process,
    /// The operators.
    Operator,
    /// The operators, and the Pods of each.
    Pod,
    /// The kinds of objects.
    Kind,
    /// The kinds of objects, and their namespaces.
    Objects,
}

/// The labels that identify an operator. `operator` exists only with `--all-operators`.
pub(super) const OPERATOR: &str = "cluster, job, namespace, operator";

/// The labels that the series about an operator share with those of their process.
const PROCESS: &str = "cluster, job, namespace";

/// The labels that identify a finding, without those of the operator.
const FINDING: &str = "finding, group, kind, target_namespace, name";

/// The address of the page without `--external-url`, while `kubectl port-forward` runs.
const LOCAL_PAGE: &str = "http://localhost:9917/";

/// The selected objects, and the kinds and scopes that they are in.
const SELECTED: &str = r#"target_namespace=~"$target_namespace|",group=~"$group|",kind=~"$kind""#;

/// Selects the kinds of subjects that are no objects. The variables for objects do not restrict findings
/// about them, because these may explain what is wrong with the selected objects.
fn no_objects() -> String {
    let groups: BTreeSet<&str> = NO_OBJECTS.iter().map(|(group, _)| *group).collect();
    let groups: Vec<&str> = groups.into_iter().collect();
    let kinds: Vec<&str> = NO_OBJECTS.iter().map(|(_, kind)| *kind).collect();
    format!("group=~\"{}\",kind=~\"{}\"", groups.join("|"), kinds.join("|"))
}

/// The series of a metric.
pub(super) fn series(metric: &str, scope: Scope, matchers: &str) -> String {
    let of_scope = match scope {
        Scope::Process | Scope::Operator => "",
        Scope::Pod => r#"operator_pod=~"$operator_pod""#,
        Scope::Kind => r#"group=~"$group",kind=~"$kind""#,
        Scope::Objects => r#"target_namespace=~"$target_namespace",group=~"$group",kind=~"$kind""#,
    };
    let of_process = r#"cluster=~"$cluster",job=~"$job",namespace=~"$namespace""#;
    let of_operator = if scope == Scope::Process { "" } else { r#"operator=~"$operator""# };

    format!("{metric}{{{}}}", all(&[of_process, of_operator, of_scope, matchers]))
}

/// The highest of what the replicas of loopwatch say.
pub(super) fn merged(of: &str) -> String {
    format!("max without (pod, instance) ({of})")
}

/// A gauge, of the replica that says most.
pub(super) fn gauge(metric: &str, scope: Scope, matchers: &str) -> String {
    merged(&series(metric, scope, matchers))
}

/// The rate of a counter per second, of the replica that says most.
pub(super) fn rate(metric: &str, scope: Scope, matchers: &str) -> String {
    merged(&format!("rate({}[$__rate_interval])", series(metric, scope, matchers)))
}

/// An aggregation that keeps the operator and these labels.
pub(super) fn by(function: &str, labels: &str, of: &str) -> String {
    let separator = if labels.is_empty() { "" } else { ", " };
    format!("{function} by ({OPERATOR}{separator}{labels}) ({of})")
}

/// How often something happens per minute.
pub(super) fn per_minute(labels: &str, metric: &str, scope: Scope) -> String {
    some(&format!("60 * {}", by("sum", labels, &rate(metric, scope, ""))))
}

/// Only what is more than zero. Most reasons, results and verdicts never occur, and would be flat
/// lines in the colours of faults.
pub(super) fn some(of: &str) -> String {
    format!("{of} > 0")
}

/// A quantile of a histogram that has no revisions.
pub(super) fn quantile(quantile: &str, labels: &str, metric: &str, scope: Scope) -> String {
    let labels = if labels.is_empty() { "le".to_owned() } else { format!("le, {labels}") };
    format!("histogram_quantile({quantile}, {})", by("sum", &labels, &rate(metric, scope, "")))
}

/// Like [`quantile`], of all revisions of the operator together: they are added up before the
/// replicas are merged.
pub(super) fn quantile_of_revisions(quantile: &str, labels: &str, metric: &str) -> String {
    let rate = format!("rate({}[$__rate_interval])", series(metric, Scope::Kind, ""));
    let rate = merged(&format!("sum without (operator_revision) ({rate})"));
    format!("histogram_quantile({quantile}, {})", by("sum", &format!("le, {labels}"), &rate))
}

/// A legend: these words, and the operator.
pub(super) fn legend(words: &str) -> String {
    format!("{words} · {{{{cluster}}}} {{{{namespace}}}} {{{{operator}}}}")
}

/// A matcher for the findings of these areas.
pub(super) fn of_areas(areas: &[Area]) -> String {
    let findings = FINDINGS.iter().filter(|info| areas.contains(&info.area));
    let names: Vec<&str> = findings.map(|info| info.name).collect();
    format!(r#"finding=~"{}""#, names.join("|"))
}

/// The series of a metric of findings: those about the selected objects, and those about the
/// operator or loopwatch.
fn both(metric: &str, matchers: &str) -> String {
    let of = |subjects| series(metric, Scope::Operator, &all(&[subjects, matchers]));
    format!("{} or {}", of(SELECTED), of(&no_objects()))
}

/// All of these matchers; some may be empty.
fn all(matchers: &[&str]) -> String {
    let present: Vec<&str> = matchers.iter().filter(|one| !one.is_empty()).copied().collect();
    present.join(",")
}

/// The confirmed findings that nothing explains.
pub(super) fn findings(matchers: &str) -> String {
    both("finding:loopwatch_findings:max", matchers)
}

/// The time at which each open finding began.
fn since(matchers: &str) -> String {
    let series = both("loopwatch_finding_since_timestamp_seconds", matchers);
    by("min", &format!("{FINDING}, severity"), &series)
}

/// The age of each open finding.
pub(super) fn ages(matchers: &str) -> String {
    format!("time() - {}", since(matchers))
}

/// A number by which to sort open findings: the most urgent severity first, and the oldest finding
/// of a severity first. A Unix time is less than the distance between two severities.
pub(super) fn urgency(matchers: &str) -> String {
    let mut query = String::new();
    for (rank, severity) in Severity::ALL.iter().rev().enumerate() {
        let of_severity = format!(r#"severity="{}""#, severity.as_str());
        let since = since(&all(&[matchers, &of_severity]));
        let separator = if rank == 0 { "" } else { " or " };
        let _ = write!(query, "{separator}({rank}e10 - {since})");
    }

    query
}

/// The details of each open finding, with a link to its runbook, and one to the page of the object,
/// or to the list of findings if the finding is about no object.
pub(super) fn details(matchers: &str) -> String {
    let metric = "loopwatch_finding_info";
    let list = |subjects| {
        let series = series(metric, Scope::Operator, &all(&[subjects, matchers]));
        format!(r##"label_replace({series}, "path", "?filter=$1#findings", "finding", "(.*)")"##)
    };
    let (objects, others) = (with_path(&list(SELECTED)), list(&no_objects()));
    let labels = format!("{FINDING}, finalizer, actor, blocker_kind, blocker_name, root, path");
    let details = by("max", &labels, &format!("{others} or on ({OPERATOR}, {FINDING}) {objects}"));

    with_page(&with_runbook(&with_links(&details), None))
}

/// The series of objects with the path of their page, as in `object?group=G&kind=K&…`. Those without
/// a name keep their path.
pub(super) fn with_path(of: &str) -> String {
    let parts = [
        (r#""&kind=", "group""#, "kind"),
        (r#""&namespace=", "object""#, "target_namespace"),
        (r#""&name=", "object""#, "name"),
    ];
    let object = parts.iter().fold(of.to_owned(), |query, (before, label)| {
        format!(r#"label_join({query}, "object", {before}, "{label}")"#)
    });

    format!(r#"label_replace({object}, "path", "object?group=$1", "object", "(.*&name=.+)")"#)
}

/// The same series with the label `link`: the path, on the page of the operator.
pub(super) fn with_page(of: &str) -> String {
    format!(r#"label_join({of}, "link", "", "page_url", "path")"#)
}

/// The same series with the label `runbook`: the address of this runbook, or of the one of the
/// finding. A link needs labels that are never empty, because a table has no column of empty ones.
pub(super) fn with_runbook(of: &str, name: Option<&str>) -> String {
    let parts = match name {
        Some(name) => format!(r#""{name}", "runbook_start", "runbook_end""#),
        None => r#""", "runbook_start", "finding", "runbook_end""#.to_owned(),
    };

    format!(r#"label_join({of}, "runbook", {parts})"#)
}

/// The same series with the addresses of the page and of the runbooks of their operator. With
/// `--all-operators`, the pages of each operator are below that of the process.
pub(super) fn with_links(of: &str) -> String {
    let linked = format!(
        "{of} * on ({PROCESS}) group_left (page_url, runbook_start, runbook_end) ({})",
        links()
    );
    let below = format!(r#"label_replace({linked}, "below", "operators/$1/", "operator", "(.+)")"#);

    format!(r#"label_join({below}, "page_url", "", "page_url", "below")"#)
}

/// The same series with the label `selection`: the part of a link that selects their operator in
/// another dashboard.
pub(super) fn with_selection(of: &str) -> String {
    let both =
        format!(r#"label_join({of}, "selection", "&var-operator=", "namespace", "operator")"#);

    // Without the label `operator`, the link selects nothing by it.
    let present =
        format!(r#"label_replace({both}, "selection", "$1", "selection", "(.*)&var-operator=")"#);

    format!(r#"label_replace({present}, "selection", "var-namespace=$1", "selection", "(.*)")"#)
}

/// One series for each process, with the addresses that it states: `page_url`, and what comes before
/// and after the name of a runbook. During a change of the addresses, replicas may state different
/// ones: one of them is enough.
fn links() -> String {
    let stated =
        by("max", "page_url, runbook_url", &series("loopwatch_links_info", Scope::Process, ""));
    let running = by("max", "", &series("loopwatch_build_info", Scope::Process, ""));
    let one = format!("topk by ({OPERATOR}) (1, {stated}) or on ({OPERATOR}) {running}");
    let page = format!(r#"label_replace({one}, "page_url", "{LOCAL_PAGE}", "page_url", "")"#);
    let bundled =
        format!(r#"label_join({page}, "runbook_start", "runbooks/", "page_url", "no_such_label")"#);
    let start = format!(
        r#"label_replace({bundled}, "runbook_start", "$1", "runbook_url", "(.*)NAME(.*)")"#
    );

    format!(r#"label_replace({start}, "runbook_end", "$2", "runbook_url", "(.*)NAME(.*)")"#)
}

/// One series for each operator. A loopwatch whose series have no label `operator` has only one.
pub(super) fn each_operator() -> String {
    let of_many = series("loopwatch_source_up", Scope::Operator, r#"operator!="""#);
    let of_one = series("loopwatch_build_info", Scope::Operator, "");

    format!("({} or on ({PROCESS}) {})", by("max", "", &of_many), by("max", "", &of_one))
}

/// A count for each operator, 0 without any.
pub(super) fn count(of: &str) -> String {
    format!("{} or 0 * {}", by("sum", "", of), each_operator())
}
