//! Whether a Prometheus selects the monitors and the rules of loopwatch, and which labels are missing if
//! not.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::Selector;
use loopwatch_model::finding::shell_word;

use super::unknown;
use crate::export::view::{Check, CheckState, Topic};
use crate::sources::survey::{MonitorSpec, Object, PrometheusSpec, Surroundings, matches};

type Prometheus = Object<PrometheusSpec>;

/// The name and the labels of an object that a Prometheus may select.
struct Selected<'a> {
    topic: Topic,
    words: String,
    /// The plural name with its group.
    resource: &'static str,
    namespace: &'a str,
    name: &'a str,
    labels: &'a BTreeMap<String, String>,
}

/// The fields with the two selectors of a Prometheus, and the selectors.
struct Fields<'a> {
    objects: (&'static str, Option<&'a LabelSelector>),
    namespaces: (&'static str, Option<&'a LabelSelector>),
}

/// Why a Prometheus does not select an object.
enum Refusal {
    /// It selects nothing: the field is not set.
    Nothing(&'static str),
    /// A label of the object is missing: the selector, and the labels that would do.
    Object(String, String),
    /// The same for the namespace.
    Namespace(String, String),
    /// The namespace has labels that nobody may see.
    Unknown,
}

pub(super) fn of_monitors(
    surroundings: &Surroundings,
    covering: &[&Object<MonitorSpec>],
) -> Vec<Check> {
    let checks = covering.iter().map(|monitor| {
        let (is_pod, metadata) = (monitor.kind == "PodMonitor", &monitor.metadata);
        let resource = if is_pod { "podmonitors" } else { "servicemonitors" };
        let selected = Selected {
            topic: Topic::Prometheus,
            words: monitor.in_words(),
            resource,
            namespace: &metadata.namespace,
            name: &metadata.name,
            labels: &metadata.labels,
        };
        let fields = if is_pod { for_pod_monitors } else { for_service_monitors };
        judge(surroundings, &selected, fields, |_| true)
    });
    checks.collect()
}

/// Returns no check without the Prometheus Operator: there is one about the monitors.
pub(super) fn of_rules(surroundings: &Surroundings) -> Vec<Check> {
    let rules = &surroundings.rules;
    if !rules.is_installed {
        return Vec::new();
    }

    let ours: Vec<_> = rules.items.iter().filter(|rule| rule.spec.is_of_loopwatch()).collect();
    let mut checks: Vec<Check> = Vec::new();
    for rule in &ours {
        let metadata = &rule.metadata;
        let selected = Selected {
            topic: Topic::Rules,
            words: rule.in_words(),
            resource: "prometheusrules",
            namespace: &metadata.namespace,
            name: &metadata.name,
            labels: &metadata.labels,
        };
        // An agent has no rules.
        checks.push(judge(surroundings, &selected, for_rules, |it| it.kind == "Prometheus"));
    }

    if ours.is_empty() && rules.left_out.is_empty() {
        let text = "No PrometheusRule contains the alerts of loopwatch.";
        let advice = "If neither a file nor --alertmanager provides them, list components/monitoring in the kustomization of one operator.";
        checks.push(Check::new(Topic::Rules, CheckState::Off, text).advise(advice));
    }
    checks.extend(unknown(rules, Topic::Rules));
    checks
}

fn for_pod_monitors(prometheus: &PrometheusSpec) -> Fields<'_> {
    Fields {
        objects: ("podMonitorSelector", prometheus.pod_monitor_selector.as_ref()),
        namespaces: (
            "podMonitorNamespaceSelector",
            prometheus.pod_monitor_namespace_selector.as_ref(),
        ),
    }
}

fn for_service_monitors(prometheus: &PrometheusSpec) -> Fields<'_> {
    Fields {
        objects: ("serviceMonitorSelector", prometheus.service_monitor_selector.as_ref()),
        namespaces: (
            "serviceMonitorNamespaceSelector",
            prometheus.service_monitor_namespace_selector.as_ref(),
        ),
    }
}

fn for_rules(prometheus: &PrometheusSpec) -> Fields<'_> {
    Fields {
        objects: ("ruleSelector", prometheus.rule_selector.as_ref()),
        namespaces: ("ruleNamespaceSelector", prometheus.rule_namespace_selector.as_ref()),
    }
}

/// Whether any Prometheus selects the object.
fn judge(
    surroundings: &Surroundings,
    selected: &Selected<'_>,
    fields: fn(&PrometheusSpec) -> Fields<'_>,
    is_candidate: impl Fn(&Prometheus) -> bool,
) -> Check {
    let words = &selected.words;
    let check = |state, text: String| Check::new(selected.topic, state, text);
    let all = &surroundings.prometheuses;
    let candidates: Vec<&Prometheus> = all.items.iter().filter(|it| is_candidate(it)).collect();

    let mut refusals = Vec::new();
    for prometheus in &candidates {
        match refusal(surroundings, selected, prometheus, &fields(&prometheus.spec)) {
            None => {
                return check(
                    CheckState::Well,
                    format!("{} selects {words}.", prometheus.in_words()),
                );
            }
            Some(refusal) => refusals.push((prometheus, refusal)),
        }
    }

    let is_unsure = !all.left_out.is_empty()
        || refusals.iter().any(|(_, refusal)| matches!(refusal, Refusal::Unknown));
    if is_unsure {
        let reasons = [&all.left_out, &surroundings.namespaces.left_out];
        let why = reasons.into_iter().find(|why| !why.is_empty());
        let why = why.map_or("the labels of its namespace are unknown", String::as_str);
        return check(
            CheckState::Unknown,
            format!("Whether a Prometheus selects {words} is not visible: {why}."),
        );
    }

    match refusals.first() {
        // Other programs read these objects, too.
        None => check(
            CheckState::Off,
            format!("There is no Prometheus object that could select {words}."),
        )
        .advise("If another program reads it, such as a ThanosRuler, look there: doctor reads only Prometheus and PrometheusAgent objects."),
        Some((prometheus, refusal)) => {
            let others = match refusals.len() - 1 {
                0 => String::new(),
                more => format!(" Neither do {more} others."),
            };
            let (text, command) = in_words(selected, refusal);
            check(
                CheckState::Problem,
                format!("{} does not select {words}: {text}.{others}", prometheus.in_words()),
            )
            .advise(advice(selected, refusal))
            .next(command.unwrap_or_else(|| {
                format!(
                    "kubectl -n {} get {} {} -o yaml",
                    prometheus.metadata.namespace,
                    if prometheus.kind == "Prometheus" {
                        "prometheuses.monitoring.coreos.com"
                    } else {
                        "prometheusagents.monitoring.coreos.com"
                    },
                    prometheus.metadata.name
                )
            }))
        }
    }
}

/// Why a Prometheus does not select an object; `None` if it does.
fn refusal(
    surroundings: &Surroundings,
    selected: &Selected<'_>,
    prometheus: &Prometheus,
    fields: &Fields<'_>,
) -> Option<Refusal> {
    let (field, selector) = fields.objects;
    let Some(selector) = selector else { return Some(Refusal::Nothing(field)) };

    let of_namespace = match fields.namespaces {
        (_, None) if prometheus.metadata.namespace == selected.namespace => None,
        (field, None) => Some(Refusal::Namespace(
            format!(
                "{field} is not set, so only the namespace {} counts",
                prometheus.metadata.namespace
            ),
            String::new(),
        )),
        (_, Some(selector)) if *selector == LabelSelector::default() => None,
        (field, Some(selector)) => {
            let mut namespaces = surroundings.namespaces.items.iter();
            match namespaces.find(|it| it.metadata.name == selected.namespace) {
                None => Some(Refusal::Unknown),
                Some(it) if matches(selector, &it.metadata.labels) => None,
                Some(it) => Some(Refusal::Namespace(
                    format!("{field} wants {}", text(selector)),
                    missing(selector, &it.metadata.labels),
                )),
            }
        }
    };

    let of_object = (!matches(selector, selected.labels)).then(|| {
        Refusal::Object(
            format!("{field} wants {}", text(selector)),
            missing(selector, selected.labels),
        )
    });
    of_object.or(of_namespace)
}

/// The reason, and the command that removes it, if labels do.
fn in_words(selected: &Selected<'_>, refusal: &Refusal) -> (String, Option<String>) {
    let Selected { resource, namespace, name, .. } = selected;
    match refusal {
        Refusal::Nothing(field) => {
            (format!("its {field} is not set, so that it selects none"), None)
        }
        Refusal::Object(wanted, labels) => (
            format!("its {wanted}"),
            (!labels.is_empty()).then(|| {
                format!(
                    "kubectl -n {namespace} label {resource}.monitoring.coreos.com {name} {labels}"
                )
            }),
        ),
        Refusal::Namespace(wanted, labels) => (
            format!("its {wanted}"),
            (!labels.is_empty()).then(|| format!("kubectl label namespace {namespace} {labels}")),
        ),
        Refusal::Unknown => ("the labels of the namespace are not visible".to_owned(), None),
    }
}

fn advice(selected: &Selected<'_>, refusal: &Refusal) -> String {
    let unless = match selected.topic {
        Topic::Rules => {
            "If a ThanosRuler evaluates it, this is in order: doctor does not read those. "
        }
        _ => "",
    };
    let advice = match refusal {
        Refusal::Object(..) => {
            "Add the label under `labels:` of the kustomization, so that the next apply keeps it. To try it at once:"
        }
        Refusal::Namespace(_, labels) if !labels.is_empty() => "Label the namespace:",
        Refusal::Namespace(..) | Refusal::Nothing(_) | Refusal::Unknown => {
            "Change the selector in the Prometheus object, or in the values of its chart:"
        }
    };

    format!("{unless}{advice}")
}

/// The labels that an object lacks, as arguments of `kubectl label`; empty if labels alone do not
/// suffice. They are quoted, because a selector may contain any text.
fn missing(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> String {
    if selector.match_expressions.iter().flatten().next().is_some() {
        return String::new();
    }

    let wanted = selector.match_labels.iter().flatten();
    let lacking = wanted.filter(|(name, value)| labels.get(*name) != Some(value));
    lacking
        .map(|(name, value)| {
            let label = format!("{}={}", shell_word(name), shell_word(value));
            if labels.contains_key(name) { format!("--overwrite {label}") } else { label }
        })
        .collect::<Vec<_>>()
        .join(" ")
}

fn text(selector: &LabelSelector) -> String {
    Selector::try_from(selector.clone()).map(|it| it.to_string()).unwrap_or_default()
}
