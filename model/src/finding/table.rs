//! The one table of findings.

use super::{FindingInfo, Severity};

macro_rules! findings {
    ($( $code:ident $area:literal $severity:ident {
        meaning: $meaning:literal,
        near_miss: $near:literal,
        evidence: [$($key:literal),*],
        advice: $advice:literal,
        command: $command:literal,
    } )*) => {
        /// What can be wrong: a closed list, in the order of listings.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FindingCode {
            $( #[doc = $meaning] $code, )*
        }

        /// Every finding there is; nothing else may be found, alerted on or documented.
        pub const FINDINGS: &[FindingInfo] = &[ $( FindingInfo {
            code: FindingCode::$code,
            name: stringify!($code),
            area: $area,
            severity: Severity::$severity,
            meaning: $meaning,
            near_miss: $near,
            evidence: &[$($key),*],
            advice: $advice,
            command: $command,
        }, )* ];
    };
}

findings! {
    FinalizerStuck "deletion" Warning {
        meaning: "Deletion waits for finalizers that nobody removes.",
        near_miss: "A cleanup that still makes progress: finalizers go one by one, or the status changes.",
        evidence: ["actor", "finalizers", "terminating_for", "last_progress", "threshold"],
        advice: "Look at the controller named as actor: is it running, may it reach what it cleans up? Removing a finalizer by hand leaks whatever it guards; find out what that is before you do.",
        command: "kubectl get {resource} {name}{in_namespace} -o jsonpath='{.metadata.deletionTimestamp} {.metadata.finalizers}'",
    }
    Unacknowledged "convergence" Critical {
        meaning: "The operator has not looked at the latest change of the spec.",
        near_miss: "A suspended object, or one whose kind never reports what it has seen.",
        evidence: ["generation", "observed_generation", "waiting_for", "deadline", "last_status_writer", "last_status_write"],
        advice: "Is the operator running and does it hold its lease? If it acts on other objects, look for this object's name in its log: its queue may be blocked or the event lost.",
        command: "kubectl get {resource} {name}{in_namespace} -o jsonpath='{.metadata.generation} {.status.observedGeneration}'",
    }
    Overdue "convergence" Warning {
        meaning: "The operator has seen the change but did not bring the object to its goal within the deadline.",
        near_miss: "An object that failed: the operator answered that it cannot. Or one that is merely slow but within the deadline of its kind.",
        evidence: ["generation", "waiting_for", "deadline", "deadline_source", "signal", "message", "phase"],
        advice: "The signal says what it waits for. Look at the objects it owns and at the operator's log for its name.",
        command: "kubectl describe {resource} {name}{in_namespace}",
    }
    Failing "convergence" Critical {
        meaning: "Many objects of a kind that worked fail at once, without a change of their specs.",
        near_miss: "Users who submit invalid objects: each of those fails for its own new spec.",
        evidence: ["failed", "objects", "reason", "examples"],
        advice: "They share a cause: something the operator depends on, or a new version of it. Look at the reason and at what changed at that time.",
        command: "kubectl get {resource} -A",
    }
    Regressed "convergence" Warning {
        meaning: "The object reached its goal and lost it again without a change of its spec.",
        near_miss: "A short loss, such as the restart of a Pod.",
        evidence: ["signal", "message", "was_converged_for", "lost_for", "threshold"],
        advice: "Something underneath changed. Look at the objects it owns, their Pods and events at that time.",
        command: "kubectl describe {resource} {name}{in_namespace}",
    }
    PhaseStuck "convergence" Warning {
        meaning: "The object stays in a phase that should pass.",
        near_miss: "A resting phase such as Running or Bound, and slow kinds whose usual time has been learnt.",
        evidence: ["phase", "in_phase_for", "threshold"],
        advice: "The operator's state machine does not leave this phase. Look in its log for the object's name and what it waits for.",
        command: "kubectl describe {resource} {name}{in_namespace}",
    }
    PhaseCycling "convergence" Warning {
        meaning: "The object goes round the same phases again and again without a change of its spec.",
        near_miss: "Rollouts: each change of the spec may go through all phases once.",
        evidence: ["phases", "returns", "window"],
        advice: "Two steps of the operator undo each other, or a step fails and starts over. The phases in the cycle show where.",
        command: "kubectl get {resource} {name}{in_namespace} -w",
    }
    ConditionFlapping "convergence" Warning {
        meaning: "A condition goes to and fro without a change of the spec.",
        near_miss: "A condition that changes once per rollout, or one that only reports load, such as Active.",
        evidence: ["condition", "transitions", "window", "reasons"],
        advice: "A probe is at its limit, or two writers disagree. Compare the reasons of both states.",
        command: "kubectl get {resource} {name}{in_namespace} -w",
    }
    ConditionMalformed "convergence" Info {
        meaning: "The operator writes conditions that do not follow the API conventions, so that tools misread them.",
        near_miss: "Unusual but readable forms, such as a map keyed by type or booleans.",
        evidence: ["lints", "objects", "examples"],
        advice: "Tell the operator's maintainers: conditions need a type, and a status of True, False or Unknown, once per type.",
        command: "kubectl get {resource} -A -o json",
    }
    StatusLag "convergence" Warning {
        meaning: "The operator writes status but its observedGeneration stays behind the spec.",
        near_miss: "An operator that does not write status at all (Unacknowledged), or never sets observedGeneration.",
        evidence: ["generation", "observed_generation", "waiting_for", "deadline", "last_status_write"],
        advice: "What the status says is about an older spec. The operator sets observedGeneration too late or from a stale copy of the object.",
        command: "kubectl get {resource} {name}{in_namespace} -o jsonpath='{.metadata.generation} {.status.observedGeneration}'",
    }
    NeverRecovered "convergence" Warning {
        meaning: "The spec is back at one that worked, but the object has not recovered.",
        near_miss: "A recovery that takes a few times as long as the first time.",
        evidence: ["took_then", "waiting_for", "signal", "message"],
        advice: "The operator does not undo the error by itself. Look for something left behind by the bad spec: a failed child, a rejected update, a back-off.",
        command: "kubectl describe {resource} {name}{in_namespace}",
    }
    StatusSubresourceMissing "API machinery" Info {
        meaning: "The definition has a status but no status subresource, so that every status write looks like a change of the spec.",
        near_miss: "A kind without any status: pure configuration.",
        evidence: ["kind", "group"],
        advice: "Ask the operator's maintainers to enable `subresources.status`. Until then observedGeneration cannot be trusted for this kind.",
        command: "kubectl get customresourcedefinition {name} -o jsonpath='{.spec.versions[*].subresources}'",
    }
    ConfigInvalid "self" Warning {
        meaning: "loopwatch's configuration cannot be used; it runs with the defaults instead.",
        near_miss: "No configuration at all, which is fine.",
        evidence: ["problem", "failing_for"],
        advice: "Correct what the problem names and restart the container; `loopwatch check --config FILE` tests a file.",
        command: "loopwatch check --help",
    }
    SourceFailing "self" Warning {
        meaning: "loopwatch cannot see something it should see, so its silence about it means nothing.",
        near_miss: "A short interruption, such as the restart of an API server.",
        evidence: ["cause", "detail", "failing_for", "last_success"],
        advice: "The cause says what is in the way. Until it is mended, objects of this source count as unknown.",
        command: "kubectl auth can-i --list",
    }
    PermissionMissing "self" Info {
        meaning: "The account lacks a right, so this part of the cluster is not seen.",
        near_miss: "A right that was withdrawn for a moment and is back.",
        evidence: ["verb", "resource"],
        advice: "Grant the right if you want this seen (`deploy/components/reader-rights`), or name what should be watched with --watch and --namespace.",
        command: "kubectl auth can-i --list",
    }
    PermissionExcess "self" Info {
        meaning: "The operator's account has rights that hardly any operator needs.",
        near_miss: "Broad but named rights.",
        evidence: ["rights"],
        advice: "Replace wildcards in the operator's role by the kinds and verbs it uses. With wildcards loopwatch cannot find out by itself what the operator owns; name it with --watch.",
        command: "kubectl auth can-i --list",
    }
    StateInconsistent "self" Warning {
        meaning: "loopwatch's own state differs from the API server's.",
        near_miss: "A difference that the next event explains: it is reported only when two audits agree.",
        evidence: ["here", "server", "version"],
        advice: "This is a fault of loopwatch or of a proxy in between. It lists anew by itself; please report it with a recording.",
        command: "loopwatch record --help",
    }
    LimitReached "self" Warning {
        meaning: "A bound of loopwatch was reached; what did not fit is not judged.",
        near_miss: "A bound that was close but held.",
        evidence: ["dropped", "bound"],
        advice: "Raise the bound and the container's memory limit together, or watch less with --watch and --namespace.",
        command: "loopwatch run --help",
    }
}

impl FindingCode {
    /// The name, as in labels, alerts and runbooks.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// The row of this code.
    #[must_use]
    pub fn info(self) -> &'static FindingInfo {
        &FINDINGS[self as usize] // generated by the same macro, in the same order
    }
}
