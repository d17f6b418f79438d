//! Generates `alerts/findings.rules.yaml` from the table of findings: one alert for each finding
//! that pages, and one alert for all others. The label `severity` decides whether a finding alerts,
//! because settings may change it.

use crate::export::view::{TICKET, alert_name, dashboard};
use loopwatch_model::finding::{
    Alert, Area, FINDINGS, FindingCode, FindingInfo, NO_OBJECTS, Severity,
};

mod tenants; // the rules for tenants

const HEAD: &str = r#"# Generated from model/src/finding/table.rs by `UPDATE=1 cargo test --lib`; do not edit.
#
# One alert per operator, finding, group, kind and target namespace. It gives the number of affected objects, and the three that
# have been affected longest.
#
# - The severity of a finding decides whether it alerts. The configuration of loopwatch may change it.
# - LoopwatchFinding covers all findings of severity warning, and those of severity critical that have no alert of their own;
#   its label `finding` distinguishes them. Findings of severity info have no alert.
# - The alerts count only confirmed findings that no other finding explains, so that one cause raises one alert.
# - A finding opens only after its own threshold, such as a deadline. `for` gives the findings that explain it, on other
#   objects or seen by other replicas, the time to open.
# - OperatorDown, RestartLoop, StartupOutOfMemory and ReconcilePanicking need no `for`: loopwatch has waited long enough, or
#   there is nothing to wait for, and what explains them opens before them. With `for`, a missed scrape would start the wait
#   again, because the alert does not fire yet. RestartLoop and StartupOutOfMemory are warnings until the operator counts as
#   down; for these, the wait of the others applies, so that they do not send a ticket just before the page.
# - `keep_firing_for` covers missed scrapes, the restart of a sidecar and the first list after it, so that none of them causes
#   a second notification. It needs Prometheus 2.42 or later.
# - The group has an interval of its own, because the time until a page counts, and its expressions cost little.
# - Annotations get the names of objects from a query when the alert fires. Labels contain no names, because each object
#   would then have its own alert.
# - With --all-operators, series about an operator have the label `operator`. Those about loopwatch itself, such as
#   loopwatch_links_info, do not. Without --all-operators, the label is absent, which a query for operator="" also matches.
# - Critical: the operator does not work. Warning: some objects are affected, or loopwatch cannot see all of them.
groups:
  - name: loopwatch-findings
    interval: 15s
    rules:
      # The open findings that alert, replicas merged. A replica that does not lead cannot see why objects wait: a sidecar scrapes only
      # its own Pod. Its findings have explained="unknown", and count only if no replica says that another finding explains the same.
      - record: finding:loopwatch_findings:max
        expr: >-
          max without (pod, instance, confidence, explained) (
            loopwatch_findings{confidence!="suspected",explained!="true"}
            unless (
              loopwatch_findings{explained="unknown"}
              and ignoring (pod, instance, confidence, explained)
                (loopwatch_findings{confidence!="suspected",explained="true"} > 0)
            )
          )

"#;

const RULE: &str = r#"      - alert: <alert>
        expr: >-
          <selectors> > 0
        for: <for>
        keep_firing_for: 5m
        labels:
          severity: <severity>
        annotations:
          summary: >-
            <place>
            {{- $name := "" }}{{ $age := "" }}
            {{- with query (printf `topk(1, time() - min by (name) (loopwatch_finding_since_timestamp_seconds{%[1]s,severity=%[2]q})
            unless on (name) loopwatch_finding_info{%[1]s,root!=""})`
            (printf `finding=%q,cluster=%q,job=%q,namespace=%q,operator=%q,group=%q,kind=%q,target_namespace=%q` $labels.finding
            $labels.cluster $labels.job $labels.namespace $labels.operator $labels.group $labels.kind $labels.target_namespace)
            $labels.severity) }}
            {{- $name = (first .).Labels.name }}
            {{- $age = (first .).Value | humanizeDuration | reReplaceAll `^(\S+ \S+) .*$` `$1` | reReplaceAll `( 0[hms])+$` "" | reReplaceAll `\.\d+s$` "s" }}
            {{- end }}<who><title>
            {{- with $age }} for {{ . }}{{ end }}
            {{- with $labels.operator }} (operator {{ . }}){{ end }}
            {{- with $labels.cluster }} (cluster {{ . }}){{ end }}
          description: |-
            {{- $of := printf `finding=%q,cluster=%q,job=%q,namespace=%q,operator=%q,group=%q,kind=%q,target_namespace=%q` $labels.finding
            $labels.cluster $labels.job $labels.namespace $labels.operator $labels.group $labels.kind $labels.target_namespace }}
            <place>
            {{- $worst := "NAME" }}{{ $pod := "POD" }}
            {{- $labels.kind }}<subject>
            {{- with query (printf `topk(3, time() - min by (name)
            (loopwatch_finding_since_timestamp_seconds{%[1]s,severity=%[2]q,name!=""})
            unless on (name) loopwatch_finding_info{%[1]s,root!=""})` $of $labels.severity) }}
            {{- $worst = (first .).Labels.name }} Longest:
            {{- range $i, $s := . }}{{ if $i }},{{ end }} {{ $s.Labels.name }} ({{ $s.Value | humanizeDuration }}){{ end }}.
            {{- end }}<details><command>
            Runbook: loopwatch runbook {{ $labels.finding }}<advice>
          page_url: >-
            {{- with query (printf `topk(1, max by (page_url)
            (loopwatch_links_info{cluster=%q,job=%q,namespace=%q,page_url!=""}))`
            $labels.cluster $labels.job $labels.namespace) }}
            {{- (first .).Labels.page_url }}
            {{- with $labels.operator }}operators/{{ . }}/{{ end }}
            {{- $object := "" }}
            {{- if and <object> (eq $value 1.0) }}
            {{- range query (printf `topk(1, time() - min by (name)
            (loopwatch_finding_since_timestamp_seconds{%[1]s,severity=%[2]q,name!=""})
            unless on (name) loopwatch_finding_info{%[1]s,root!=""})`
            (printf `finding=%q,cluster=%q,job=%q,namespace=%q,operator=%q,group=%q,kind=%q,target_namespace=%q` $labels.finding
            $labels.cluster $labels.job $labels.namespace $labels.operator $labels.group $labels.kind $labels.target_namespace)
            $labels.severity) }}
            {{- $object = .Labels.name }}{{ end }}{{ end }}
            {{- if $object }}object?group={{ urlquery (or $labels.group "core") }}&kind={{ urlquery $labels.kind }}&namespace=
            {{- urlquery $labels.target_namespace }}&name={{ urlquery $object }}
            {{- else }}?filter={{ urlquery $labels.finding }}
            {{- with $labels.target_namespace }}+{{ urlquery . }}{{ end }}#findings
            {{- end }}{{ end }}
          dashboard_url: >-
            {{- with query (printf `topk(1, max by (grafana_url)
            (loopwatch_links_info{cluster=%q,job=%q,namespace=%q,grafana_url!=""}))`
            $labels.cluster $labels.job $labels.namespace) }}
            {{- (first .).Labels.grafana_url }}d/<dashboard>
            {{- "?var-job=" }}{{ urlquery $labels.job }}
            {{- with $labels.cluster }}&var-cluster={{ urlquery . }}{{ end }}
            {{- with $labels.operator }}&var-operator={{ urlquery . }}{{ end }}
            {{- if <object> }}&var-kind={{ urlquery $labels.kind }}
            {{- with $labels.target_namespace }}&var-target_namespace={{ urlquery . }}{{ end }}
            {{- end }}{{ end }}
          runbook_url: >-
            {{- with query (printf `topk(1, max by (page_url, runbook_url)
            (loopwatch_links_info{cluster=%q,job=%q,namespace=%q}))`
            $labels.cluster $labels.job $labels.namespace) }}
            {{- with (first .).Labels }}
            {{- if .runbook_url }}{{ reReplaceAll "NAME" $labels.finding .runbook_url }}
            {{- else if .page_url }}{{ .page_url }}runbooks/{{ $labels.finding }}
            {{- end }}{{ end }}{{ end }}
"#;

/// The recorded series of the findings that alert.
const OPEN: &str = "finding:loopwatch_findings:max";

/// Whether an alert is about objects of a kind, not about the operator or loopwatch.
fn object() -> String {
    let others: Vec<String> =
        NO_OBJECTS.iter().map(|(group, kind)| format!("{group}/{kind}")).collect();
    let others = others.join("|");
    format!("(not (match `^({others})$` (printf `%s/%s` $labels.group $labels.kind)))")
}

/// The findings whose alerts fire with the first sample; [`HEAD`] gives the reasons.
const PROMPT: &[FindingCode] = &[
    FindingCode::OperatorDown,
    FindingCode::RestartLoop,
    FindingCode::StartupOutOfMemory,
    FindingCode::ReconcilePanicking,
];

/// How long a finding of [`PROMPT`], and any other finding, must last before its alert fires.
const WAITS: [&str; 2] = ["0s", "2m"];

/// Sets `$place` to the namespace of the subject. A controller has none of its own. It gets that of the
/// operator, which the label `operator` contains. Without this label, loopwatch runs in the same
/// namespace, and the series has it.
const PLACE: &str = r#"{{- $place := $labels.target_namespace }}
{{- if and (not $labels.group) (eq $labels.kind "Controller" "Operator") }}
{{- $place = or $place (reReplaceAll "/.*" "" $labels.operator) $labels.namespace }}{{ end }}"#;

/// The indentation of an annotation's text.
const INDENT: &str = "\n            ";

/// The beginning of a title about a kind as a whole.
const OBJECTS: &str = "{{- $labels.kind }} objects";

/// The beginning of a title about objects. Templates cannot subtract, but queries can.
const WORST: &str = r#"{{- $labels.kind }}
{{- with $name }} {{ with $place }}{{ . }}/{{ end }}{{ . }}
{{- if gt $value 1.0 }} and {{ with query (printf `vector(%v - 1)` $value) }}{{ (first .).Value }}{{ end }} other
{{- if gt $value 2.0 }}s{{ end }}{{ end }}
{{- else }}{{ with $place }} in {{ . }}{{ end }}
{{- if gt $value 1.0 }} ({{ $value }} affected){{ end }}{{ end }}"#;

/// Adds to an alert how often the kubelet has restarted the operator.
const RESTARTS: &str = r#"{{- range query (printf `topk(3, max by (operator_pod)
(loopwatch_operator_restarts_total{cluster=%q,job=%q,namespace=%q,operator=%q}) > 0)`
$labels.cluster $labels.job $labels.namespace $labels.operator) }}
Restarts of {{ .Labels.operator_pod }}: {{ .Value }}.
{{- end }}"#;

/// Adds to an alert why loopwatch concludes that the operator is gone.
const SIGNS: &str = r#"{{- with query (printf `max by (sign) (loopwatch_operator_down_info{cluster=%q,job=%q,namespace=%q,operator=%q})`
$labels.cluster $labels.job $labels.namespace $labels.operator) }}
Signs:
{{- range $i, $s := sortByLabel "sign" . }}{{ if $i }},{{ end }} {{ reReplaceAll "_" " " $s.Labels.sign }}{{ end }}.
{{- end }}"#;

/// Templates that add details from other series to an alert, each for findings whose evidence has
/// this key.
const DETAILS: &[(&str, &str)] = &[
    (
        "instance",
        r#"{{- range query (printf `topk(1, max by (operator_pod)
(loopwatch_finding_info{%s,name=%q,operator_pod!=""}))` $of $worst) }}
{{ if match ":" .Labels.operator_pod }}Address of its metrics{{ else }}{{ $pod = .Labels.operator_pod }}Pod{{ end }}: {{ .Labels.operator_pod }}
{{- end }}"#,
    ),
    (
        "finalizers",
        r#"{{- range query (printf `max by (finalizer, actor) (loopwatch_finding_info{%s,name=%q})` $of $worst) }}
{{ $worst }} waits for {{ .Labels.finalizer }}{{ with .Labels.actor }} (to be removed by {{ . }}){{ end }}.
{{- end }}"#,
    ),
    (
        "blocker",
        r#"{{- range query (printf `max by (finalizer, actor, blocker_kind, blocker_name)
(loopwatch_finding_info{%s,name=%q,blocker_name!=""})` $of $worst) }}
{{ $worst }} waits for {{ .Labels.blocker_kind }} {{ .Labels.blocker_name }}
{{- with .Labels.finalizer }}, which waits for {{ . }}{{ end }}.
{{- with .Labels.actor }} To be removed by: {{ . }}.{{ end }}
{{- end }}"#,
    ),
    (
        "failed",
        r#"{{- $failed := printf `max without (pod, instance)
(loopwatch_objects{state="failed",cluster=%q,job=%q,namespace=%q,operator=%q,group=%q,kind=%q})` $labels.cluster $labels.job
$labels.namespace $labels.operator $labels.group $labels.kind }}
{{- range query (printf `sum(%s)` $failed) }}
Failed now: {{ .Value }}
{{- end }}
{{- with query (printf `topk(3, sum by (target_namespace) (%s) > 0)` $failed) }}{{ " (" }}
{{- range $i, $s := . }}{{ if $i }}, {{ end }}{{ $s.Value }} in {{ or $s.Labels.target_namespace "the cluster" -}}
{{ end }}).{{ end }}"#,
    ),
    (
        "cause",
        r#"{{- range query (printf `topk(1, sum by (cause) (max without (pod, instance)
(increase(loopwatch_source_failures_total{source=%q,cluster=%q,job=%q,namespace=%q,operator=%q}[15m]))) > 0)`
$worst $labels.cluster $labels.job $labels.namespace $labels.operator) }}
Most frequent cause for {{ $worst }}: {{ .Labels.cause }}.
{{- end }}"#,
    ),
    ("signs", SIGNS),
    ("signs", RESTARTS),
    ("restarts", RESTARTS),
    ("kills", RESTARTS),
    (
        "panics",
        r#"{{- range query (printf `topk(3, max by (controller)
(loopwatch_reconciles_total{result="panic",cluster=%q,job=%q,namespace=%q,operator=%q}) > 0)`
$labels.cluster $labels.job $labels.namespace $labels.operator) }}
Panics of the controller {{ .Labels.controller }} since its start: {{ .Value }}.
{{- end }}"#,
    ),
    (
        "here",
        r#"{{- range query (printf `topk(3, max without (pod, instance)
(abs(loopwatch_state_audit_difference{cluster=%q,job=%q,namespace=%q,operator=%q})) > 0)`
$labels.cluster $labels.job $labels.namespace $labels.operator) }}
Difference for {{ .Labels.kind }}: {{ .Value }}.
{{- end }}"#,
    ),
    (
        "dropped",
        r#"{{- range query (printf `topk(3, sum by (limit) (max without (pod, instance)
(loopwatch_dropped_total{cluster=%q,job=%q,namespace=%q,operator=%q})) > 0)`
$labels.cluster $labels.job $labels.namespace $labels.operator) }}
Dropped at the limit {{ .Labels.limit }}: {{ .Value }}.
{{- end }}"#,
    ),
];

/// The name of the generated alert that covers a finding, unless the settings change its severity.
#[must_use]
pub(super) fn alert(info: &FindingInfo) -> Option<String> {
    match info.alert {
        Alert::Page => alert_name(info, Severity::Critical),
        Alert::Ticket | Alert::TicketUnlessMost => alert_name(info, Severity::Warning),
        Alert::None => None,
    }
}

/// `alerts/findings.rules.yaml`.
#[must_use]
pub(super) fn findings() -> String {
    let (pages, others): (Vec<_>, Vec<_>) =
        FINDINGS.iter().partition(|info| info.alert == Alert::Page);
    let is_prompt = |info: &&FindingInfo| PROMPT.contains(&info.code);
    let wait = |info: &FindingInfo| if is_prompt(&info) { WAITS[0] } else { WAITS[1] };
    let mut rules: Vec<String> = Vec::new();

    for info in &pages {
        let selector = selector(&[info], &[Severity::Critical]);
        let severity = Severity::Critical.as_str();
        let name = alert_name(info, Severity::Critical).unwrap_or_default();
        rules.push(rule((&name, wait(info)), &[info], &selector, severity));
    }

    let (prompt, others): (Vec<_>, Vec<_>) = others.into_iter().partition(is_prompt);
    let severity = "'{{ $labels.severity }}'";

    // promtool reports rules with the same name and labels as duplicates.
    for severity in [Severity::Critical, Severity::Warning] {
        let selectors = selector(&prompt, &[severity]);
        rules.push(rule((TICKET, WAITS[0]), &prompt, &selectors, severity.as_str()));
    }

    let urgent = selector(&others, &[Severity::Critical, Severity::Warning]);
    let lowered = selector(&pages, &[Severity::Warning]);
    let selectors = format!("({urgent}\n            or {lowered})");
    let all: Vec<_> =
        FINDINGS.iter().filter(|info| info.alert == Alert::Page || !is_prompt(info)).collect();

    rules.push(rule((TICKET, WAITS[1]), &all, &selectors, severity));
    format!("{HEAD}{}", rules.join("\n"))
}

/// A selector for the findings of these codes and severities that alert.
fn selector(findings: &[&FindingInfo], severities: &[Severity]) -> String {
    let matcher = |names: Vec<&str>| match names[..] {
        [one] => format!("=\"{one}\""),
        _ => format!("=~\"{}\"", names.join("|")),
    };
    let finding = matcher(findings.iter().map(|info| info.name).collect());
    let severity = matcher(severities.iter().map(|severity| severity.as_str()).collect());

    format!("{OPEN}{{finding{finding},severity{severity}}}")
}

/// The rule `name`, which covers `findings` and waits before it fires.
fn rule(
    (name, wait): (&str, &str),
    findings: &[&FindingInfo],
    selectors: &str,
    severity: &str,
) -> String {
    let parts = [
        ("<for>", wait.to_owned()),
        ("<place>", PLACE.replace('\n', INDENT)),
        ("<alert>", name.to_owned()),
        ("<selectors>", selectors.to_owned()),
        ("<severity>", severity.to_owned()),
        ("<who>", by_finding(findings, who)),
        ("<title>", by_finding(findings, |info| info.title.to_owned())),
        ("<subject>", by_finding(findings, subject)),
        ("<advice>", by_finding(findings, |info| info.advice.to_owned())),
        ("<details>", by_finding(findings, details)),
        ("<command>", by_finding(findings, command)),
        ("<object>", object()),
        (
            "d/<dashboard>",
            by_finding(findings, |info| format!("{{{{- \"d/{}\" }}}}", dashboard(info))),
        ),
    ];
    parts.iter().fold(RULE.to_owned(), |rule, (part, text)| rule.replace(part, text))
}

/// Merges the texts of several findings: one text if all are equal, otherwise a chain of conditions
/// on the label `finding`. Empty texts get no branch.
fn by_finding(findings: &[&FindingInfo], text: impl Fn(&FindingInfo) -> String) -> String {
    let mut branches: Vec<(String, Vec<String>)> = Vec::new();
    for info in findings {
        let (text, name) = (text(info).replace('\n', INDENT), format!("{:?}", info.name));
        match branches.iter_mut().find(|(other, _)| *other == text) {
            Some((_, names)) => names.push(name),
            None => branches.push((text, vec![name])),
        }
    }

    let same = branches.len() == 1;
    branches.retain(|(text, _)| !text.is_empty());

    let mut chain = String::new();
    for (index, (text, names)) in branches.iter().enumerate() {
        if !same {
            let word = if index == 0 { "if" } else { "else if" };
            chain.push_str(&format!(
                "{INDENT}{{{{- {word} eq $labels.finding {} }}}}",
                names.join(" ")
            ));
        }

        chain.push_str(INDENT);
        chain.push_str(text);
    }

    if !same {
        chain.push_str(INDENT);
        chain.push_str("{{- end }}");
    }

    chain
}

/// Whether a finding is about a kind as a whole.
fn is_of_kind(info: &FindingInfo) -> bool {
    let is_about_objects =
        !matches!(info.area, Area::ApiMachinery | Area::Operator | Area::Process | Area::Loopwatch);
    let names_one = ["{name}", "{target}"].iter().any(|part| info.command.contains(part));
    is_about_objects && !names_one
}

/// The beginning of the title: the object that has had the finding longest, and the number of others.
fn who(info: &FindingInfo) -> String {
    let prefix = if info.area == Area::Loopwatch { "{{- \"loopwatch: \" }}\n" } else { "" };
    let who = if is_of_kind(info) { OBJECTS } else { WORST };
    format!("{prefix}{who}")
}

/// The rest of a sentence that begins with the kind: its namespace, and the number of affected
/// objects.
fn subject(info: &FindingInfo) -> String {
    let rest = match info.area {
        Area::Loopwatch => "{{- \" of \" }}{{ $labels.job }}: {{ $value }} affected.",
        _ if is_of_kind(info) => "{{- \" (the whole kind).\" }}",
        _ => "{{- \" in \" }}{{ or $place \"the cluster\" }}: {{ $value }} affected.",
    };
    rest.to_owned()
}

fn details(info: &FindingInfo) -> String {
    let shown = DETAILS.iter().filter(|(key, _)| info.evidence.contains(key));
    shown.map(|(_, template)| *template).collect::<Vec<_>>().join("\n")
}

/// The next command, with the labels of the alert and the object that has had the finding longest.
fn command(info: &FindingInfo) -> String {
    // Labels name no target of a reference.
    let command = if info.command.contains("{target}") { info.otherwise } else { info.command };
    let command = command
        .replace("{pod}", "{in_namespace} {{ $pod }}")
        .replace(
            "{resource}",
            "{{ toLower $labels.kind }}{{ with $labels.group }}.{{ . }}{{ end }}",
        )
        .replace("{in_namespace}", "{{ with $place }} -n {{ . }}{{ end }}")
        .replace("{kind}", "{{ $labels.kind }}")
        .replace("{group}", "{{ $labels.group }}")
        .replace("{name}", "{{ $worst }}");
    format!("Next: {command}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_are_generated_from_the_table() {
        crate::golden::check("alerts/findings.rules.yaml", &findings());
    }
}
