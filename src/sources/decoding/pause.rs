//! Recognises the switches that pause an object: fields of the spec, annotations, labels.
//!
//! Kubernetes has no convention for these switches, but operators name them with only a few words.

use super::words::{self, split_words};

/// Words that pause an object if true.
const PAUSES: [&str; 12] = [
    "suspend",
    "suspended",
    "pause",
    "paused",
    "stop",
    "stopped",
    "halt",
    "halted",
    "shutdown",
    "hibernate",
    "hibernated",
    "unmanaged",
];

/// Desired states of a paused object.
const PAUSED_STATES: [&str; 8] =
    ["suspended", "paused", "stopped", "halted", "hibernated", "suspend", "pause", "hibernate"];

/// Words for the work of an operator.
const WORK: [&str; 6] =
    ["reconcile", "reconciliation", "reconciler", "orchestration", "sync", "rollout"];

/// Prefixes of annotations that pause a deployment tool, but not the operator of the object.
const DEPLOYMENT_TOOLS: [&str; 3] =
    ["kustomize.toolkit.fluxcd.io/", "kubectl.kubernetes.io/", "helm.sh/"];

/// The value of a possible switch.
#[derive(Clone, Copy, Debug)]
pub(super) enum SwitchValue<'a> {
    Flag(bool),
    Text(&'a str),
    Empty,
}

/// Whether `spec.key`, or `spec.parent.key`, pauses the object.
pub(super) fn field_pauses(parent: Option<&str>, key: &str, value: SwitchValue<'_>) -> bool {
    if !parent.is_none_or(holds_switches) {
        return false; // concerns child objects or one part: backups, metrics, a single step
    }

    let words = split_words(key);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let switch = match value {
        SwitchValue::Flag(on) => on,
        SwitchValue::Text(text) if text.eq_ignore_ascii_case("true") => true,
        SwitchValue::Text(text) if text.eq_ignore_ascii_case("false") => false,
        // `stop: "yes"` of ClickHouse
        SwitchValue::Text("yes" | "1" | "on") if words.len() == 1 && parent.is_none() => true,
        SwitchValue::Text(text) => return wanted_state_pauses(parent, &words, text),
        SwitchValue::Empty => return parent.is_none() && words == ["management", "policies"],
    };

    match (words.as_slice(), switch) {
        ([word], true) if PAUSES.contains(word) => true,
        (["paused", "until"], true) => true, // HyperShift; another value is a time
        (["suspend", ..], true) if parent == Some("suspendAction") => true, // TiDB
        (["active" | "apply" | "managed" | "running" | "enabled"], false) => parent.is_none(),
        (["enabled"], true) => {
            parent.is_some_and(|parent| matches!(parent, "hibernation" | "suspension" | "pause"))
        }
        (["suspend" | "pause" | "skip" | "stop", work], true) => WORK.contains(work),
        ([first, .., last], true) => {
            // `reconciliationPaused` is a state; `pauseOnFailure` or `autoSuspended` is only a
            // possibility.
            !matches!(
                *first,
                "if" | "when" | "on" | "allow" | "can" | "auto" | "keep" | "not" | "delete"
            ) && matches!(*last, "paused" | "suspended" | "stopped" | "halted" | "hibernated")
        }
        _ => false,
    }
}

/// Whether a map in the spec, such as `clusterOperation`, `updateStrategy` or `job`, holds switches
/// for the whole object.
pub(super) fn holds_switches(parent: &str) -> bool {
    parent == "suspendAction"
        || words::has_word(parent, |word| {
            matches!(
                word,
                "operation"
                    | "operations"
                    | "strategy"
                    | "rollout"
                    | "update"
                    | "hibernation"
                    | "suspension"
                    | "pause"
                    | "reconciliation"
                    | "reconcile"
                    | "lifecycle"
                    | "job"
                    | "schedule"
                    | "control"
            )
        })
}

/// Whether a desired state pauses: `job.state: suspended`, `stopPolicy: Hold`, `status:
/// PipelineRunPending`.
fn wanted_state_pauses(parent: Option<&str>, words: &[&str], text: &str) -> bool {
    let wish = split_words(text);
    let last = wish.last().map_or("", String::as_str);
    match words {
        ["stop", "policy"] => !matches!(last, "" | "none"),
        ["server", "start", "policy"] => last == "never", // WebLogic
        ["management", "state"] if parent.is_none() => matches!(last, "removed" | "unmanaged"),
        [.., "status"] if parent.is_none() && last == "pending" => true,
        [.., "state" | "status" | "mode"] | ["run", "strategy"] => {
            wish.len() == 1 && PAUSED_STATES.contains(&last)
        }
        _ => false,
    }
}

/// Whether an annotation or a label pauses the object.
pub(super) fn mark_pauses(name: &str, value: &str) -> bool {
    if DEPLOYMENT_TOOLS.iter().any(|prefix| name.starts_with(prefix)) {
        return false;
    }

    let words = split_words(name.rsplit_once('/').map_or(name, |(_, name)| name));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let is_time = words::is_timestamp(value.trim());
    let value = value.trim().to_ascii_lowercase();
    let on = matches!(value.as_str(), "" | "true" | "on" | "yes" | "1" | "enabled");
    let off =
        matches!(value.as_str(), "false" | "off" | "no" | "0" | "disabled" | "none" | "never");

    match words.as_slice() {
        // When somebody stopped it.
        [.., "stopped"] if is_time => true,
        [.., "managed"] | [.., "reconcile" | "reconciliation" | "loop"] if !negated(&words) => {
            matches!(
                value.as_str(),
                "false" | "off" | "no" | "disabled" | "disable" | "skip" | "skipped" | "paused"
            )
        }
        [.., "reconcile", "policy"] => value == "skip",
        // `paused-replicas` pauses with any value, even "0".
        ["paused", .., "replicas"] => true,
        // The value may be free text, such as a reason.
        [.., "paused" | "detached" | "unmanaged"] => !off,
        [
            ..,
            "reconcile" | "reconciliation" | "orchestration" | "skipped" | "pause" | "suspend"
            | "suspended",
        ]
        | [.., "hibernation" | "hibernate" | "stopped" | "shutdown"]
        | ["reconcile" | "reconciliation" | "syncset" | "paused" | "pause", ..] => {
            on && pauses(&words)
        }
        _ => false,
    }
}

/// Whether a name may be a switch. This cheap test comes before splitting names into words, because
/// almost no annotation is a switch.
pub(super) fn may_pause(name: &str) -> bool {
    let bytes = name.as_bytes();
    (0..bytes.len()).any(|i| {
        let stems: &[&[u8]] = match bytes[i] | 0x20 {
            b'p' => &[b"paus"],
            b's' => &[b"suspen", b"stop", b"skip", b"shutdown"],
            b'r' => &[b"reconcil"],
            b'm' => &[b"manage"],
            b'h' => &[b"hibern"],
            b'd' => &[b"detach"],
            b'a' if bytes.len() == 5 => &[b"apply"],
            _ => &[],
        };
        stems.iter().any(|stem| {
            bytes.get(i..i + stem.len()).is_some_and(|part| part.eq_ignore_ascii_case(stem))
        })
    })
}

fn negated(words: &[&str]) -> bool {
    words.iter().any(|word| {
        matches!(*word, "skip" | "not" | "pause" | "paused" | "suspend" | "disable" | "stop" | "no")
    })
}

fn pauses(words: &[&str]) -> bool {
    negated(words)
        || words
            .iter()
            .any(|word| PAUSES.contains(word) || matches!(*word, "skipped" | "hibernation"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spec_fields_pause_an_object() {
        for (parent, key, value) in [
            (None, "suspend", SwitchValue::Flag(true)),
            (None, "paused", SwitchValue::Text("true")),
            (None, "reconciliationPaused", SwitchValue::Flag(true)),
            (Some("clusterOperation"), "stopped", SwitchValue::Flag(true)),
            (Some("updateStrategy"), "paused", SwitchValue::Flag(true)),
            (Some("updateStrategy.rollingUpdate"), "paused", SwitchValue::Flag(true)),
            (None, "enabled", SwitchValue::Flag(false)),
            (Some("hibernation"), "enabled", SwitchValue::Flag(true)),
            (Some("job"), "state", SwitchValue::Text("suspended")),
            (None, "status", SwitchValue::Text("PipelineRunPending")),
            (None, "stopPolicy", SwitchValue::Text("HoldAndDrain")),
            (None, "active", SwitchValue::Flag(false)),
            (None, "running", SwitchValue::Flag(false)),
            (None, "runStrategy", SwitchValue::Text("Halted")),
            (None, "managementPolicies", SwitchValue::Empty),
        ] {
            assert!(field_pauses(parent, key, value), "{parent:?} {key} {value:?}");
        }

        for (parent, key, value) in [
            (None, "suspend", SwitchValue::Flag(false)),
            (None, "pauseOnFailure", SwitchValue::Flag(true)),
            (None, "autoSuspended", SwitchValue::Flag(true)),
            (Some("template"), "suspend", SwitchValue::Flag(true)),
            (Some("backup"), "suspend", SwitchValue::Flag(true)),
            (Some("monitoring"), "enabled", SwitchValue::Flag(false)),
            (Some("monitoring"), "enabled", SwitchValue::Flag(true)),
            (Some("monitoring"), "active", SwitchValue::Flag(false)),
            (None, "status", SwitchValue::Text("Cancelled")),
            (None, "state", SwitchValue::Text("running")),
            (None, "stopPolicy", SwitchValue::Text("None")),
            (None, "finalizers", SwitchValue::Empty),
        ] {
            assert!(!field_pauses(parent, key, value), "{parent:?} {key} {value:?}");
        }
    }

    #[test]
    fn annotations_and_labels_pause_an_object() {
        for (name, value) in [
            ("crossplane.io/paused", "true"),
            ("strimzi.io/pause-reconciliation", "true"),
            ("strimzi.io/managed", "false"),
            ("cnpg.io/reconciliationLoop", "disabled"),
            ("cnpg.io/hibernation", "on"),
            ("argocd.argoproj.io/skip-reconcile", "true"),
            ("eck.k8s.elastic.co/pause-orchestration", "true"),
            ("rabbitmq.com/pauseReconciliation", "true"),
            ("autoscaling.keda.sh/paused-replicas", "0"),
            ("autoscaling.keda.sh/paused", "true"),
            ("autoscaling.keda.sh/paused-scale-in", "true"),
            ("do_not_reconcile", "true"),
            ("ceph.rook.io/do-not-reconcile", ""),
            ("baremetalhost.metal3.io/paused", ""),
            ("baremetalhost.metal3.io/detached", ""),
            ("cluster.x-k8s.io/paused", "because"),
            ("hive.openshift.io/reconcile-pause", "true"),
            ("hive.openshift.io/syncset-pause", "true"),
            ("experiment.chaos-mesh.org/pause", "true"),
            ("serviceoperator.azure.com/reconcile-policy", "skip"),
            ("example.org/reconcile.skipped", "true"),
        ] {
            assert!(mark_pauses(name, value), "{name}={value}");
        }

        for (name, value) in [
            ("crossplane.io/paused", "false"),
            ("app.kubernetes.io/managed-by", "Helm"),
            ("strimzi.io/managed", "true"),
            ("cnpg.io/hibernation", "off"),
            ("eck.k8s.elastic.co/suspend", "pod-0,pod-1"),
            ("kustomize.toolkit.fluxcd.io/reconcile", "disabled"),
            ("serviceoperator.azure.com/reconcile-policy", "manage"),
            ("reconcile.fluxcd.io/requestedAt", "2026-01-01T00:00:00Z"),
            ("pausepoint", "true"),
        ] {
            assert!(!mark_pauses(name, value), "{name}={value}");
        }
    }
}
