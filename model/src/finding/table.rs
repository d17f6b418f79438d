//! The one table of findings, and the types of its rows.

use serde::{Deserialize, Serialize};

/// One row of [`FINDINGS`].
#[derive(Debug)]
pub struct FindingInfo {
    /// The code.
    pub code: FindingCode,
    /// The name of the code, as in labels, alerts and runbooks.
    pub name: &'static str,
    /// The area under which documentation lists it: `convergence`, `deletion`, `API machinery` or `self`.
    pub area: &'static str,
    /// How urgently a person must act.
    pub severity: Severity,
    /// The kind of alert that it raises.
    pub alert: Alert,
    /// One sentence that states the problem. Without the full stop, it is also the summary of the alert.
    pub meaning: &'static str,
    /// A similar case that is not this finding.
    pub near_miss: &'static str,
    /// The keys of its evidence, most important first.
    pub evidence: &'static [&'static str],
    /// The findings that can explain this one. If several of them are open, the first applies.
    pub explained_by: &'static [Explainer],
    /// The recommended action.
    pub advice: &'static str,
    /// A command to run next, which changes nothing. The placeholders `{resource}`, `{in_namespace}`, `{kind}`,
    /// `{group}` and `{name}` stand for parts of the subject. A command without `{name}` concerns a whole kind, or
    /// loopwatch itself.
    pub command: &'static str,
}

/// How urgently a person must act on a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Act now: the alert pages.
    Critical,
    /// Act within the hour.
    Warning,
    /// Information only.
    Info,
}

/// How a finding reaches people through Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alert {
    /// An alert of its own, `Loopwatch` and the name of the finding.
    Page,
    /// The alert `LoopwatchFinding`, which covers all tickets.
    Ticket,
    /// No generated alert.
    None,
}

/// A finding that explains another one while both are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Explainer {
    /// This finding, on the same subject.
    Subject(FindingCode),
    /// This finding, on the object's kind as a whole.
    Kind(FindingCode),
}

macro_rules! findings {
    ($( $code:ident $area:literal $severity:ident $alert:ident {
        meaning: $meaning:literal,
        near_miss: $near:literal,
        evidence: [$($key:literal),*],
        explained_by: [$($on:ident($deeper:ident)),*],
        advice: $advice:literal,
        command: $command:literal,
    } )*) => {
        /// The closed list of findings, in the order of listings.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FindingCode {
            $( #[doc = $meaning] $code, )*
        }

        /// All findings, one row per [`FindingCode`] and in the same order.
        pub const FINDINGS: &[FindingInfo] = &[ $( FindingInfo {
            code: FindingCode::$code,
            name: stringify!($code),
            area: $area,
            severity: Severity::$severity,
            alert: Alert::$alert,
            meaning: $meaning,
            near_miss: $near,
            evidence: &[$($key),*],
            explained_by: &[$(Explainer::$on(FindingCode::$deeper)),*],
            advice: $advice,
            command: $command,
        }, )* ];
    };
}

findings! {
    FinalizerStuck "deletion" Warning Ticket {
        meaning: "The object is being deleted, but no controller removes its finalizers.",
        near_miss: "A slow cleanup that makes progress: its finalizers disappear one by one, or its status changes.",
        evidence: ["actor", "finalizers", "terminating_for", "last_progress", "threshold"],
        explained_by: [],
        advice: "Check that the controller named as actor runs and can reach the resources that it cleans up. Do not remove the finalizer by hand before you have found and deleted the resources that it guards, such as a volume, a load balancer or a database: they would leak.",
        command: "kubectl get {resource} {name}{in_namespace} -o jsonpath='{.metadata.deletionTimestamp} {.metadata.finalizers}'",
    }
    Unacknowledged "convergence" Critical Page {
        meaning: "The operator has not acknowledged the latest spec change within the deadline.",
        near_miss: "A suspended object, or a kind whose operator never reports which generation it has observed.",
        evidence: ["generation", "observed_generation", "waiting_for", "deadline", "last_status_writer"],
        explained_by: [],
        advice: "Check that the operator runs and holds its lease. If it still reconciles other objects, search its log for the name of this object: its work queue may be blocked, or it may have missed the watch event.",
        command: "kubectl get {resource} {name}{in_namespace} -o jsonpath='{.metadata.generation} {.status.observedGeneration}'",
    }
    Overdue "convergence" Warning Ticket {
        meaning: "The operator acknowledged the spec change, but the object has not converged within the deadline.",
        near_miss: "A failed object, whose operator reports that it cannot apply the spec. A slow object that is still within the deadline of its kind.",
        evidence: ["generation", "waiting_for", "deadline", "deadline_source", "signal", "message", "phase"],
        explained_by: [Subject(NeverRecovered), Subject(PhaseCycling)],
        advice: "The evidence names the signal that has not converged. Check the objects that this object owns, and search the operator's log for its name.",
        command: "kubectl describe {resource} {name}{in_namespace}",
    }
    Failing "convergence" Critical Page {
        meaning: "Many converged objects of one kind fail at once, without a spec change.",
        near_miss: "Users who submit invalid specs: each of these objects fails after its own spec change.",
        evidence: ["failed", "objects", "reason", "examples"],
        explained_by: [],
        advice: "The objects share a cause: a dependency of the operator, or a new version of the operator. Check the reason, and look for changes in the cluster at the time when the failures began.",
        command: "kubectl get {resource} -A",
    }
    Regressed "convergence" Warning Ticket {
        meaning: "The object was converged and no longer is, without a spec change.",
        near_miss: "A short interruption, such as a Pod restart.",
        evidence: ["signal", "message", "lost_for", "threshold"],
        explained_by: [Kind(Failing), Subject(PhaseCycling), Subject(ConditionFlapping)],
        advice: "A dependency of the object has changed. Check the objects that it owns, their Pods and their events at that time.",
        command: "kubectl describe {resource} {name}{in_namespace}",
    }
    PhaseStuck "convergence" Warning Ticket {
        meaning: "The object has stayed too long in a phase that should be temporary.",
        near_miss: "A resting phase such as Running or Bound, or a slow kind whose usual duration loopwatch has learned.",
        evidence: ["phase", "in_phase_for", "threshold"],
        explained_by: [Subject(NeverRecovered), Subject(PhaseCycling), Subject(Unacknowledged), Subject(StatusLag), Subject(Overdue), Subject(Regressed)],
        advice: "The operator does not move the object out of this phase. Search the operator's log for the name of the object to find the step that it waits for.",
        command: "kubectl describe {resource} {name}{in_namespace}",
    }
    PhaseCycling "convergence" Warning Ticket {
        meaning: "The object keeps returning to the same phases without a spec change.",
        near_miss: "A rollout: each spec change may pass through every phase once.",
        evidence: ["phases", "returns", "window"],
        explained_by: [],
        advice: "Two steps of the operator undo each other, or one step fails and starts again. The phases in the cycle show which step.",
        command: "kubectl get {resource} {name}{in_namespace} -w",
    }
    ConditionFlapping "convergence" Warning Ticket {
        meaning: "A condition keeps changing its status without a spec change.",
        near_miss: "A condition that changes once per rollout, or a condition such as Active that only reports load.",
        evidence: ["condition", "transitions", "window", "reasons"],
        explained_by: [Subject(PhaseCycling)],
        advice: "A probe is close to its limit, or two controllers write conflicting values. Compare the reasons of both states.",
        command: "kubectl get {resource} {name}{in_namespace} -w",
    }
    ConditionMalformed "convergence" Info None {
        meaning: "The operator writes conditions that violate the Kubernetes API conventions, so tools misread them.",
        near_miss: "Unusual but readable forms, such as a map keyed by type, or booleans.",
        evidence: ["lints", "objects", "examples"],
        explained_by: [],
        advice: "Report it to the operator's maintainers: each condition needs a unique type and a status of True, False or Unknown.",
        command: "kubectl get {resource} -A -o json",
    }
    StatusLag "convergence" Warning Ticket {
        meaning: "The operator writes the status, but its observedGeneration stays behind the spec.",
        near_miss: "An operator that writes no status at all (Unacknowledged), or that never sets observedGeneration.",
        evidence: ["generation", "observed_generation", "waiting_for", "deadline", "last_status_write"],
        explained_by: [Subject(NeverRecovered)],
        advice: "The status describes an older spec. The operator sets observedGeneration too late, or from a stale copy of the object.",
        command: "kubectl get {resource} {name}{in_namespace} -o jsonpath='{.metadata.generation} {.status.observedGeneration}'",
    }
    NeverRecovered "convergence" Warning Ticket {
        meaning: "The spec is back to one that converged before, but the object has not recovered.",
        near_miss: "A recovery that takes a few times as long as the first convergence.",
        evidence: ["took_then", "waiting_for", "signal", "message"],
        explained_by: [],
        advice: "The operator does not recover from the bad spec by itself. Look for leftovers of that spec: a failed child object, a rejected update, a long backoff.",
        command: "kubectl describe {resource} {name}{in_namespace}",
    }
    StatusSubresourceMissing "API machinery" Info None {
        meaning: "The custom resource definition has a status but no status subresource, so every status write looks like a spec change.",
        near_miss: "A kind without a status, which holds configuration only.",
        evidence: ["kind", "group"],
        explained_by: [],
        advice: "Ask the operator's maintainers to enable `subresources.status`. Until then, observedGeneration is unreliable for this kind.",
        command: "kubectl get customresourcedefinition {name} -o jsonpath='{.spec.versions[*].subresources}'",
    }
    ConfigInvalid "self" Warning Ticket {
        meaning: "loopwatch cannot use its configuration and runs with the defaults.",
        near_miss: "No configuration at all, which is valid.",
        evidence: ["problem", "failing_for"],
        explained_by: [],
        advice: "The problem names the invalid setting; the page and the log of loopwatch show it. Correct the setting and restart the container. `loopwatch check --config FILE` tests a file.",
        command: "loopwatch check --help",
    }
    SourceFailing "self" Warning Ticket {
        meaning: "loopwatch cannot read one of its sources, so the objects of this source count as unknown.",
        near_miss: "A short interruption, such as an API server restart.",
        evidence: ["cause", "detail", "failing_for", "last_success"],
        explained_by: [],
        advice: "The cause names the obstacle. Until you remove it, the absence of findings on these objects does not mean that they are healthy.",
        command: "kubectl auth can-i --list",
    }
    PermissionMissing "self" Info None {
        meaning: "The account of loopwatch lacks a permission, so loopwatch cannot see this part of the cluster.",
        near_miss: "A permission that was withdrawn for a moment and is granted again.",
        evidence: ["verb", "resource"],
        explained_by: [],
        advice: "Grant the permission if you want to see this part (`deploy/components/reader-rights`), or select the kinds and namespaces to watch with --watch and --namespace.",
        command: "kubectl auth can-i --list",
    }
    PermissionExcess "self" Info None {
        meaning: "The operator's account has permissions that hardly any operator needs.",
        near_miss: "Broad permissions that name their kinds and verbs.",
        evidence: ["rights"],
        explained_by: [],
        advice: "Replace the wildcards in the operator's role with the kinds and verbs that it uses. loopwatch cannot derive the operator's kinds from wildcards; name them with --watch.",
        command: "kubectl auth can-i --list",
    }
    StateInconsistent "self" Warning Ticket {
        meaning: "loopwatch holds a different number of objects than the API server.",
        near_miss: "A difference that the next watch event resolves: loopwatch reports a difference only when two audits agree.",
        evidence: ["here", "server", "version"],
        explained_by: [],
        advice: "loopwatch lists the kind again by itself. The fault is in loopwatch or in a proxy between it and the API server: please report it with a recording.",
        command: "loopwatch record --help",
    }
    LimitReached "self" Warning Ticket {
        meaning: "loopwatch has reached one of its limits and drops everything beyond it.",
        near_miss: "A limit that was nearly reached.",
        evidence: ["dropped", "bound"],
        explained_by: [],
        advice: "Raise the limit and the container's memory limit together, or watch less with --watch and --namespace.",
        command: "loopwatch run --help",
    }
}

// === impl FindingCode ===

impl FindingCode {
    /// Returns the name, as in labels, alerts and runbooks.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// Returns the row of this code in [`FINDINGS`].
    #[must_use]
    pub fn info(self) -> &'static FindingInfo {
        &FINDINGS[self as usize] // the macro generates both in the same order
    }
}

// === impl Severity ===

impl Severity {
    /// Returns the value of the `severity` label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }
}
