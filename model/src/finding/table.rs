//! The table of findings, and the types of its rows. It is read row by row, so this file may be
//! longer than others.

use serde::{Deserialize, Serialize};

/// One row of [`FINDINGS`].
#[derive(Debug)]
pub struct FindingInfo {
    /// The code.
    pub code: FindingCode,
    /// The name of the code, as in labels, alerts and runbooks.
    pub name: &'static str,
    /// The area under which documentation lists it.
    pub area: Area,
    /// How urgently a person must act.
    pub severity: Severity,
    /// The kind of alert that it raises.
    pub alert: Alert,
    /// One sentence that states the problem.
    pub meaning: &'static str,
    /// The problem in a few words that follow the name of the subject, in titles of alerts.
    pub title: &'static str,
    /// A similar case that is not this finding.
    pub near_miss: &'static str,
    /// The keys of its evidence, most important first.
    pub evidence: &'static [&'static str],
    /// The settings with its thresholds, the deciding one first. Empty if it opens as soon as
    /// loopwatch sees the problem, or if statistics decide.
    pub settings: &'static [&'static str],
    /// The findings that can explain this one. If several are open, the first applies.
    pub explained_by: &'static [Explainer],
    /// The recommended action. It ends with the condition under which the finding is critical.
    pub advice: &'static str,
    /// The condition under which a finding that pages is critical: `if …` or `while …`. Otherwise it is
    /// a warning.
    pub critical_only: &'static str,
    /// A command to run next, which changes nothing. The placeholders `{resource}`,
    /// `{in_namespace}`, `{kind}`, `{group}` and `{name}` stand for parts of the subject, `{pod}` for
    /// the Pod of the `instance` in the evidence, and `{target}` for the first `target`. A command
    /// without `{name}` and `{target}` concerns a whole kind, or loopwatch itself.
    pub command: &'static str,
    /// The command if the evidence names no Pod or no target. Empty if the first command needs
    /// neither.
    pub otherwise: &'static str,
}

/// A group of related findings. Documentation lists them in the order of [`FINDINGS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// Deletions that do not end, and finalizers.
    Deletion,
    /// Owner references.
    Ownership,
    /// References to other objects, and from Pods to their configuration.
    References,
    /// Objects that do not reach or keep the state that their specs ask for.
    Convergence,
    /// What the operator writes, and whether it changes anything.
    Writes,
    /// The operator and its controllers.
    Operator,
    /// Custom resource definitions.
    ApiMachinery,
    /// The memory, tasks and files of the operator's processes.
    Process,
    /// The work of loopwatch itself.
    Loopwatch,
}

/// How urgently a person must act on a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Act now: the alert pages.
    Critical,
    /// Open a ticket.
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
    /// The same alert, which becomes critical if most objects of a kind have had the finding for long.
    TicketUnlessMost,
    /// No generated alert.
    None,
}

/// A finding that explains another one while both are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Explainer {
    /// This finding, on the same subject.
    Subject(FindingCode),
    /// This finding, on the object's kind as a whole, if the object fails for the same reason and in
    /// a namespace in which others do.
    Kind(FindingCode),
    /// This finding, on the kind that the controller reconciles, if it did not begin much later.
    Reconciled(FindingCode),
    /// This finding, on the object that the evidence names as the blocker, or on the subject of
    /// whose problem the detector has shown that it causes this one.
    Blocker(FindingCode),
    /// This finding, on the operator that should solve the problem.
    Operator(FindingCode),
    /// This finding, on the operator that should solve the problem, if it did not begin later.
    Outage(FindingCode),
    /// This finding, on the controller of the object's kind, if it did not begin much later.
    Controller(FindingCode),
    /// This finding about a webhook, if the detector has shown that calls for the object's kind, for
    /// the kind that the controller reconciles, or for the source depend on it, and if it did not
    /// begin later.
    Machinery(FindingCode),
    /// This finding about one worker, on the controller of the object's kind, if the object (which
    /// may have been deleted since) began to wait at approximately the same time, or if no other
    /// worker has succeeded since.
    Worker(FindingCode),
}

macro_rules! findings {
    ($( $code:ident $area:ident $severity:ident $alert:ident {
        meaning: $meaning:literal,
        title: $title:literal,
        near_miss: $near:literal,
        evidence: [$($key:literal),*],
        settings: [$($setting:literal),*],
        explained_by: [$($on:ident($deeper:ident)),*],
        advice: $advice:literal,
        $(critical_only: $condition:literal,)?
        command: $command:literal,
        $(otherwise: $otherwise:literal,)?
    } )*) => {
        /// All findings, in the order of reports and documentation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FindingCode {
            $( #[doc = $meaning] $code, )*
        }

        /// All findings, one row per [`FindingCode`] and in the same order.
        pub const FINDINGS: &[FindingInfo] = &[ $( FindingInfo {
            code: FindingCode::$code,
            name: stringify!($code),
            area: Area::$area,
            severity: Severity::$severity,
            alert: Alert::$alert,
            meaning: $meaning,
            title: $title,
            near_miss: $near,
            evidence: &[$($key),*],
            settings: &[$($setting),*],
            explained_by: &[$(Explainer::$on(FindingCode::$deeper)),*],
            advice: concat!($advice, $(" The finding is critical only ", $condition, ".")?),
            critical_only: concat!($($condition)?),
            command: $command,
            otherwise: concat!($($otherwise)?),
        }, )* ];
    };
}

findings! {
    FinalizerOwnerAbsent Deletion Critical Page {
        meaning: "The object is being deleted, but the controller that removes its finalizer is gone.",
        title: "blocked in deletion by a controller that is gone",
        near_miss: "A controller that is only restarting, or one that loopwatch has never seen alive or cannot see: then the finding is FinalizerStuck.",
        evidence: ["actor", "finalizers", "terminating_for", "last_seen", "absent_for"],
        settings: ["owner_absent_after", "page_objects", "page_percent", "page_after"],
        explained_by: [Operator(OperatorDown), Operator(RestartLoop), Operator(StartupOutOfMemory)],
        advice: "Install the controller again, so that it can clean up and remove its finalizer. If it is gone for good, first delete the resources that the finalizer protects, such as volumes, load balancers and databases, and only then the finalizer. Otherwise they leak.",
        critical_only: "if it concerns many objects of the kind, lasts long, or concerns an object that is marked as critical",
        command: "kubectl get {resource} {name}{in_namespace} -o jsonpath='{.metadata.deletionTimestamp} {.metadata.finalizers}'",
    }
    FinalizerStuck Deletion Warning Ticket {
        meaning: "The object is being deleted, but no controller removes its finalizers.",
        title: "stuck in deletion",
        near_miss: "A slow cleanup that makes progress: finalizers disappear one by one, or the status changes.",
        evidence: ["attempts", "handler", "last_error", "last_warning", "message", "actor", "finalizers", "terminating_for", "last_progress", "threshold"],
        settings: ["finalizer_stuck_after", "learn_after"],
        explained_by: [Machinery(LeakChain), Operator(OperatorDown), Operator(RestartLoop), Operator(StartupOutOfMemory), Machinery(WebhookUnavailable), Machinery(ConversionFailing), Machinery(AdmissionPolicyFailing), Outage(ApiErrors), Outage(LeaderAbsent), Worker(ReconcileStuck), Controller(ReconcileFailing)],
        advice: "Check that the controller named as actor runs and can reach the resources that it cleans up. If the actor is unknown, look for the program that the finalizer is named after. Do not remove the finalizer by hand before you have deleted the resources that it protects, such as a volume, a load balancer or a database. Otherwise they leak.",
        command: "kubectl get {resource} {name}{in_namespace} -o jsonpath='{.metadata.deletionTimestamp} {.metadata.finalizers}'",
    }
    DeletionBlockedByDependent Deletion Warning Ticket {
        meaning: "The object is being deleted, but another object that must be deleted first is stuck.",
        title: "blocked in deletion by another object",
        near_miss: "A foreground deletion whose dependents disappear one by one.",
        evidence: ["blocker", "blocker_finalizers", "actor", "chain", "terminating_for", "last_progress"],
        settings: ["finalizer_stuck_after"],
        explained_by: [Blocker(FinalizerOwnerAbsent), Blocker(FinalizerStuck), Blocker(DeletionBlockedByDependent)],
        advice: "The blocker is the last object of the chain. Find out why its finalizers stay; the other objects of the chain follow by themselves.",
        command: "kubectl get {resource} {name}{in_namespace} -o jsonpath='{.metadata.deletionTimestamp} {.metadata.finalizers}'",
    }
    FinalizerLost Deletion Warning Ticket {
        meaning: "A finalizer disappeared from an object that is not being deleted, and its own controller did not remove it.",
        title: "missing a finalizer",
        near_miss: "A controller that removes its own finalizer because the object no longer needs a cleanup.",
        evidence: ["finalizer", "actor", "removed_by", "lost_at"],
        settings: [],
        explained_by: [Subject(FinalizerFlapping)],
        advice: "The last writer of the object probably replaced the whole list of finalizers by an update with an old copy of the object. It should use a patch, or an update that fails on conflicts. Until the finalizer is back, a deletion of the object skips the cleanup.",
        command: "kubectl get {resource} {name}{in_namespace} -o yaml --show-managed-fields",
    }
    FinalizerFlapping Deletion Warning Ticket {
        meaning: "A finalizer is removed and added again and again.",
        title: "losing and regaining a finalizer",
        near_miss: "A finalizer that is removed once and added once, for example because a feature was switched off and on.",
        evidence: ["finalizer", "returns", "window", "writers"],
        settings: ["finalizer_returns", "flap_window"],
        explained_by: [],
        advice: "Two controllers disagree about the finalizer, or one of them removes it and adds it again in the next reconcile. `loopwatch explain` shows the writers.",
        command: "kubectl get {resource} {name}{in_namespace} -w -o jsonpath='{.metadata.finalizers}'",
    }
    CleanupSlow Deletion Info None {
        meaning: "The cleanup of the object takes much longer than usual for its finalizer.",
        title: "slow to clean up",
        near_miss: "A kind whose cleanups always take that long.",
        evidence: ["attempts", "handler", "last_error", "last_warning", "finalizer", "actor", "terminating_for", "threshold", "threshold_source"],
        settings: ["cleanup_slow_after", "learn_after"],
        explained_by: [Subject(FinalizerStuck), Subject(FinalizerOwnerAbsent), Subject(DeletionBlockedByDependent), Operator(OperatorDown), Operator(RestartLoop), Operator(StartupOutOfMemory), Machinery(WebhookUnavailable), Machinery(ConversionFailing), Machinery(AdmissionPolicyFailing), Outage(LeaderAbsent), Worker(ReconcileStuck), Controller(ReconcileFailing)],
        advice: "Check whether the actor waits for an external system, such as a cloud provider, without a timeout.",
        command: "kubectl get {resource} {name}{in_namespace} -o jsonpath='{.metadata.deletionTimestamp} {.metadata.finalizers}'",
    }
    NamespaceStuck Deletion Warning Ticket {
        meaning: "The namespace is being deleted, but objects of the operator block it.",
        title: "stuck in deletion",
        near_miss: "A namespace that is blocked only by objects of other operators, or one whose objects disappear one by one.",
        evidence: ["blocker", "blocker_finalizers", "actor", "objects", "conditions", "terminating_for"],
        settings: ["finalizer_stuck_after"],
        explained_by: [Blocker(FinalizerOwnerAbsent), Blocker(FinalizerStuck), Blocker(DeletionBlockedByDependent)],
        advice: "The blocker is one of the objects that remain. Find out why its finalizers stay. Do not remove the finalizer of the namespace: its objects would remain in the API server, and their resources would leak.",
        command: "kubectl get namespace {name} -o jsonpath='{.status.conditions}'",
    }
    DefinitionStuck Deletion Warning Ticket {
        meaning: "The custom resource definition is being deleted, but objects of its kind remain.",
        title: "stuck in deletion",
        near_miss: "A definition whose last objects disappear one by one.",
        evidence: ["blocker", "blocker_finalizers", "actor", "objects", "conditions", "terminating_for"],
        settings: ["finalizer_stuck_after"],
        explained_by: [Blocker(FinalizerOwnerAbsent), Blocker(FinalizerStuck), Blocker(DeletionBlockedByDependent)],
        advice: "The blocker is one of the objects that remain. Its controller must run until all of them are gone, so uninstall the operator only after its definitions.",
        command: "kubectl get customresourcedefinition {name} -o jsonpath='{.status.conditions}'",
    }
    OwnerMissing Ownership Warning Ticket {
        meaning: "An owner reference names an object that does not exist, so the garbage collector deletes the child.",
        title: "owned by an object that does not exist",
        near_miss: "A child whose owner has just been deleted: the garbage collector is about to delete both.",
        evidence: ["owner", "owner_uid", "reason", "writer", "collected_after", "times"],
        settings: ["owner_missing_after", "hazard_kept_for"],
        explained_by: [],
        advice: "The operator sets an owner reference to an object that it has not created, or that is gone. Check the name and the UID that it uses; it may read them from a stale cache or from a backup.",
        command: "kubectl get {resource} {name}{in_namespace} -o jsonpath='{.metadata.ownerReferences}'",
    }
    OwnerReplaced Ownership Warning Ticket {
        meaning: "An owner reference has the UID of an earlier object of the same name, so the garbage collector deletes the child.",
        title: "owned by an object that was replaced",
        near_miss: "A child of an owner that was deleted and created again a moment ago: the garbage collector is about to delete the old child.",
        evidence: ["owner", "owner_uid", "current_uid", "writer", "collected_after", "times"],
        settings: ["owner_missing_after", "hazard_kept_for"],
        explained_by: [],
        advice: "The operator keeps the UID of its primary object over a deletion, or a backup tool restored the child with its old owner reference. The UID must be read from the current object.",
        command: "kubectl get {resource} {name}{in_namespace} -o jsonpath='{.metadata.ownerReferences}'",
    }
    OwnerUnresolvable Ownership Warning Ticket {
        meaning: "An owner reference cannot be resolved, so the garbage collector never deletes the child.",
        title: "owned by an object that cannot be found",
        near_miss: "An owner of a kind that loopwatch may not read: loopwatch then does not judge the reference.",
        evidence: ["owner", "owner_uid", "reason", "writer", "collected_after", "times"],
        settings: ["hazard_kept_for"],
        explained_by: [],
        advice: "`loopwatch explain` shows the reason: the API server serves no such kind, or not in this version, or the child has no namespace but its owner has one. Correct the operator, and delete the children that it leaves behind.",
        command: "kubectl get {resource} {name}{in_namespace} -o jsonpath='{.metadata.ownerReferences}'",
    }
    CrossNamespaceOwner Ownership Warning Ticket {
        meaning: "An owner reference names an object in another namespace, so the garbage collector deletes the child.",
        title: "owned by an object in another namespace",
        near_miss: "An owner without a namespace, which may own objects in all namespaces, or an owner that is only named in an annotation.",
        evidence: ["owner", "owner_namespace", "owner_uid", "writer", "collected_after", "times"],
        settings: ["hazard_kept_for"],
        explained_by: [],
        advice: "Owner references do not cross namespaces. Create the child in the namespace of its owner, or name the owner in an annotation and delete the child in a finalizer of the owner.",
        command: "kubectl get {resource} {name}{in_namespace} -o jsonpath='{.metadata.ownerReferences}'",
    }
    OwnerCycle Ownership Warning Ticket {
        meaning: "Owner references form a cycle, so the garbage collector never deletes any of these objects by itself.",
        title: "in a cycle of owner references",
        near_miss: "A long chain of owners that ends, or an object with several owners.",
        evidence: ["cycle", "length", "writer", "collected_after", "times"],
        settings: [],
        explained_by: [],
        advice: "Remove one of the owner references in the cycle, and correct the controller that set it.",
        command: "kubectl get {resource} {name}{in_namespace} -o jsonpath='{.metadata.ownerReferences}'",
    }
    Orphan Ownership Warning Ticket {
        meaning: "The object belongs to the operator but has no owner, so nobody deletes it.",
        title: "orphaned",
        near_miss: "An object that a deletion with orphan policy or the operator itself has released, or a volume, which are only suspected; a child that a restore has brought before its owner; the operator's own state; an object of an allowed kind or namespace, or of somebody else.",
        evidence: ["reason", "former_owner", "writer", "siblings", "orphan_for"],
        settings: ["orphan_after", "orphan_unseen_after", "orphan_siblings"],
        explained_by: [],
        advice: "If nothing uses the object any more and no restore is under way that will bring its owner, delete it. If it is meant to exist without an owner, allow its kind with `--orphan-allow`.",
        command: "kubectl get {resource} {name}{in_namespace} -o yaml",
    }
    LogicalOwnerMissing Ownership Warning Ticket {
        meaning: "Annotations or labels of the object name an owner that no longer exists.",
        title: "left behind by an owner that is gone",
        near_miss: "An owner that loopwatch may not read, or one that is being created.",
        evidence: ["owner", "named_by", "missing_for"],
        settings: ["orphan_after"],
        explained_by: [Subject(Orphan)],
        advice: "The garbage collector does not know owners in annotations and labels, so the operator must delete the object. Check the finalizer of the owner's kind, and delete the object if nothing uses it any more.",
        command: "kubectl get {resource} {name}{in_namespace} -o jsonpath='{.metadata.annotations} {.metadata.labels}'",
    }
    DanglingReference References Warning Ticket {
        meaning: "The spec refers to an object that does not exist.",
        title: "referring to an object that does not exist",
        near_miss: "An optional reference, an object that the operator creates itself or that the object has long been ready without, one in another cluster, or one that loopwatch may not read.",
        evidence: ["reference", "target", "missing_for", "signal"],
        settings: ["dangling_after"],
        explained_by: [],
        advice: "Create the missing object, which `loopwatch explain` names, or correct the reference.",
        command: "kubectl get {target}",
        otherwise: "kubectl get {resource} {name}{in_namespace} -o yaml",
    }
    SoftDeleteLingering References Warning Ticket {
        meaning: "The object is soft-deleted but still exists after a long time, or a finalizer for soft deletion remains although soft deletion is off.",
        title: "soft-deleted but still present",
        near_miss: "An object that was soft-deleted less than a day ago, or one for which soft deletion is only switched on.",
        evidence: ["phase", "marked_by", "deleted_at", "marked_for", "threshold", "problem"],
        settings: ["soft_deleted_after", "finalizer_stuck_after"],
        explained_by: [],
        advice: "Check the controller that removes soft-deleted objects, and whether it still handles this kind. If soft deletion is off, that controller must remove its finalizer.",
        command: "kubectl get {resource} {name}{in_namespace} -o jsonpath='{.metadata.deletionTimestamp} {.metadata.finalizers} {.metadata.annotations}'",
    }
    StaleConfiguration References Info None {
        meaning: "A ConfigMap or Secret changed, but Pods that read it only at their start are older than the change.",
        title: "running with an old configuration",
        near_miss: "A volume, which the kubelet updates, or a workload that rolled after the change.",
        evidence: ["configuration", "changed_at", "pods", "oldest_pod"],
        settings: ["stale_after"],
        explained_by: [],
        advice: "Restart the workload, or have the operator put a hash of the configuration into an annotation of the Pod template, so that each change rolls the Pods.",
        command: "kubectl get {resource} {name}{in_namespace} -o jsonpath='{.spec.template.metadata.annotations}'",
    }
    Unacknowledged Convergence Critical Page {
        meaning: "The operator has not acknowledged the latest spec change within the deadline.",
        title: "not acknowledged",
        near_miss: "A suspended object, or a kind whose operator never reports an observed generation.",
        evidence: ["attempts", "handler", "last_error", "last_warning", "generation", "observed_generation", "waiting_for", "deadline", "last_status_writer", "waits_for"],
        settings: ["deadline", "unacknowledged_early_after", "learn_after", "page_objects", "page_percent", "page_after"],
        explained_by: [Operator(OperatorDown), Operator(RestartLoop), Operator(StartupOutOfMemory), Machinery(WebhookUnavailable), Machinery(ConversionFailing), Machinery(AdmissionPolicyFailing), Outage(ApiErrors), Outage(LeaderAbsent), Controller(InformerNotSynced), Worker(ReconcileStuck), Controller(ReconcileFailing), Controller(ConflictStorm), Controller(WorkersSaturated), Controller(QueueBacklog), Subject(PoisonObject)],
        advice: "Check that the operator runs and that an instance holds its lease. If the operator still reconciles other objects, search its log for the name of this object: the work queue may be blocked, or the operator may have missed the watch event.",
        critical_only: "if the operator ignores many objects of the kind, one object for long, or one that is marked as critical",
        command: "kubectl get {resource} {name}{in_namespace} -o jsonpath='{.metadata.generation} {.status.observedGeneration}'",
    }
    Overdue Convergence Warning TicketUnlessMost {
        meaning: "The operator acknowledged the spec change, but the object has not converged within the deadline.",
        title: "not converged",
        near_miss: "A failed object: its operator reports that it cannot apply the spec. A slow object that is still within the deadline of its kind.",
        evidence: ["attempts", "handler", "last_error", "last_warning", "waits_for", "generation", "waiting_for", "deadline", "deadline_source", "signal", "message", "phase"],
        settings: ["deadline", "learn_after", "page_objects", "page_percent", "page_after"],
        explained_by: [Subject(NeverRecovered), Subject(DanglingReference), Subject(PhaseCycling), Operator(OperatorDown), Operator(RestartLoop), Operator(StartupOutOfMemory), Machinery(WebhookUnavailable), Machinery(ConversionFailing), Machinery(AdmissionPolicyFailing), Outage(ApiErrors), Outage(LeaderAbsent), Worker(ReconcileStuck), Controller(ReconcileFailing), Controller(ConflictStorm)],
        advice: "`loopwatch explain` shows which part of the status has not converged. Check the objects that this object owns, and search the operator's log for the name of this object.",
        command: "kubectl describe {resource} {name}{in_namespace}",
    }
    Failing Convergence Critical Page {
        meaning: "Many objects of one kind fail at once, for a cause that is not in their specs.",
        title: "failing",
        near_miss: "Objects with invalid specs: each of them fails after its own spec change, for a reason of its own or in the same namespace, or other changes converge. Fewer than ten objects of the only namespace that failed before loopwatch saw them.",
        evidence: ["failed", "rejected", "objects", "namespaces", "reason", "examples"],
        settings: ["failing_objects", "failing_percent", "settle"],
        explained_by: [Machinery(WebhookUnavailable), Machinery(ConversionFailing), Machinery(AdmissionPolicyFailing)],
        advice: "The failures probably have a common cause, such as a dependency or a new version of the operator. Check the reason, and what changed in the cluster when the failures began.",
        critical_only: "if objects that had converged fail for the same reason in several namespaces, or fail in every namespace",
        command: "kubectl get {resource} -A",
    }
    Regressed Convergence Warning Ticket {
        meaning: "The object was converged and no longer is, without a spec change.",
        title: "no longer converged",
        near_miss: "A short interruption, such as the restart of a Pod.",
        evidence: ["attempts", "handler", "last_error", "last_warning", "signal", "message", "waits_for", "lost_for", "threshold"],
        settings: ["regressed_after", "phase_stuck_after", "deadline"],
        explained_by: [Kind(Failing), Subject(DanglingReference), Subject(PhaseCycling), Subject(ConditionFlapping), Machinery(WebhookUnavailable), Machinery(ConversionFailing), Machinery(AdmissionPolicyFailing)],
        advice: "A dependency of the object has probably failed. Check the objects that it owns, their Pods, and the events at the time of the regression.",
        command: "kubectl describe {resource} {name}{in_namespace}",
    }
    PhaseStuck Convergence Warning Ticket {
        meaning: "The object has stayed in a transitional phase for too long.",
        title: "stuck in its phase",
        near_miss: "A phase in which objects normally stay, such as Running or Bound, or a slow kind with a longer deadline.",
        evidence: ["last_warning", "phase", "in_phase_for", "threshold"],
        settings: ["phase_stuck_after", "deadline"],
        explained_by: [Subject(NeverRecovered), Subject(DanglingReference), Subject(PhaseCycling), Subject(Unacknowledged), Subject(StatusLag), Subject(Overdue), Subject(Regressed), Operator(OperatorDown), Operator(RestartLoop), Operator(StartupOutOfMemory), Machinery(WebhookUnavailable), Machinery(ConversionFailing), Machinery(AdmissionPolicyFailing), Outage(ApiErrors), Outage(LeaderAbsent), Worker(ReconcileStuck), Controller(ReconcileFailing)],
        advice: "Search the operator's log for the name of the object, to find out what the operator waits for in this phase.",
        command: "kubectl describe {resource} {name}{in_namespace}",
    }
    PhaseCycling Convergence Warning Ticket {
        meaning: "The object keeps returning to the same phases without a spec change.",
        title: "cycling through its phases",
        near_miss: "A rollout: after each spec change, an object may pass through every phase once.",
        evidence: ["phases", "returns", "window"],
        settings: ["cycle_returns", "cycle_window"],
        explained_by: [],
        advice: "Either two steps of the operator undo each other, or a step fails and the operator starts again. The object's timeline on the page of loopwatch shows which steps.",
        command: "kubectl get {resource} {name}{in_namespace} -w",
    }
    ConditionFlapping Convergence Warning Ticket {
        meaning: "A condition keeps changing its status without a spec change.",
        title: "with a flapping condition",
        near_miss: "A condition that changes once per rollout, or a condition that only describes load, such as Active.",
        evidence: ["condition", "transitions", "window", "reasons"],
        settings: ["flap_transitions", "flap_window"],
        explained_by: [Subject(PhaseCycling)],
        advice: "A probe may be close to its limit, or two controllers may write conflicting values. Compare the reasons in the object's timeline on the page of loopwatch.",
        command: "kubectl get {resource} {name}{in_namespace} -w",
    }
    ConditionMalformed Convergence Info None {
        meaning: "The operator writes conditions that violate the Kubernetes API conventions, so tools misread them.",
        title: "with malformed conditions",
        near_miss: "Unusual but readable forms, such as conditions in a map keyed by type, or boolean statuses.",
        evidence: ["lints", "objects", "examples"],
        settings: ["flap_window"],
        explained_by: [],
        advice: "Report this to the operator's maintainers: each condition needs a type, a status of True, False or Unknown, and a valid transition time.",
        command: "kubectl get {resource} -A -o json",
    }
    StatusLag Convergence Warning Ticket {
        meaning: "The operator writes the status, but observedGeneration lags behind the spec.",
        title: "with an outdated observedGeneration",
        near_miss: "An operator that writes no status at all (Unacknowledged), or that never sets observedGeneration.",
        evidence: ["generation", "observed_generation", "waiting_for", "deadline", "last_status_write"],
        settings: ["deadline", "learn_after"],
        explained_by: [Subject(NeverRecovered), Subject(DanglingReference), Operator(OperatorDown), Operator(RestartLoop), Operator(StartupOutOfMemory), Machinery(WebhookUnavailable), Machinery(ConversionFailing), Machinery(AdmissionPolicyFailing), Outage(ApiErrors), Outage(LeaderAbsent), Worker(ReconcileStuck), Controller(ReconcileFailing), Controller(ConflictStorm)],
        advice: "The status may describe an older spec. The operator sets observedGeneration too late, or from a stale copy of the object.",
        command: "kubectl get {resource} {name}{in_namespace} -o jsonpath='{.metadata.generation} {.status.observedGeneration}'",
    }
    NeverRecovered Convergence Warning Ticket {
        meaning: "The spec was reverted to one that had converged before, but the object has not recovered.",
        title: "not recovered from a bad spec",
        near_miss: "A recovery that takes only a few times as long as the spec took to converge before.",
        evidence: ["attempts", "handler", "last_error", "last_warning", "took_then", "waiting_for", "signal", "message"],
        settings: ["recover_factor", "recover_at_least", "deadline"],
        explained_by: [Subject(DanglingReference), Operator(OperatorDown), Operator(RestartLoop), Operator(StartupOutOfMemory), Machinery(WebhookUnavailable), Machinery(ConversionFailing), Machinery(AdmissionPolicyFailing), Outage(ApiErrors), Outage(LeaderAbsent), Worker(ReconcileStuck), Controller(ReconcileFailing)],
        advice: "The operator does not recover from the bad spec by itself. Look for leftovers of that spec, such as a failed child object, a rejected update or a long backoff.",
        command: "kubectl describe {resource} {name}{in_namespace}",
    }
    ReadyButBroken Convergence Warning Ticket {
        meaning: "The status says that the object is ready, but a workload that it owns has no Pod that works.",
        title: "ready according to its status, but not running",
        near_miss: "A workload with fewer ready Pods than it wants, one that is scaled to zero, or one that rolls out.",
        evidence: ["last_warning", "workloads", "says", "broken_for", "threshold"],
        settings: ["broken_after", "deadline"],
        explained_by: [Operator(OperatorDown), Operator(RestartLoop), Operator(StartupOutOfMemory), Machinery(WebhookUnavailable), Machinery(ConversionFailing), Machinery(AdmissionPolicyFailing), Outage(ApiErrors), Outage(LeaderAbsent), Worker(ReconcileStuck), Controller(ReconcileFailing)],
        advice: "Repair the workload first: its events and the logs of its Pods show why they do not start. The operator must derive the readiness of the object from that of its workloads, and reconcile when they change (`Owns` in controller-runtime).",
        command: "kubectl describe {resource} {name}{in_namespace}",
    }
    HotLoop Writes Warning Ticket {
        meaning: "The operator writes the object again and again, and changes nothing but times, annotations, the order of a list or a counter.",
        title: "rewritten again and again without a change",
        near_miss: "A rollout or a progress counter, whose writes change the status, or a heartbeat, which comes at equal distances of five seconds or more.",
        evidence: ["manager", "changes", "fields", "writes_per_minute", "wasted", "seen", "share_percent"],
        settings: ["hot_loop_writes", "hot_loop_window"],
        explained_by: [Subject(WriteFight), Subject(StatusReverted), Subject(ConditionFlapping), Subject(PhaseCycling)],
        advice: "Each write wakes the operator again. Look in its code for the present time in a status or an annotation. Set the time of a condition only when its status changes (`meta.SetStatusCondition` does), compare the status with the old one before you write it, and let the watch ignore changes of the status (`GenerationChangedPredicate`).",
        command: "kubectl get {resource} {name}{in_namespace} -o yaml --show-managed-fields",
    }
    RedundantStatusWrites Writes Info None {
        meaning: "Most writes to the objects of a kind change nothing but times or annotations, and there are many of them.",
        title: "written often without a change",
        near_miss: "Few objects with a heartbeat, or many objects with a rare one.",
        evidence: ["manager", "writes", "wasted", "writes_per_minute", "objects", "window"],
        settings: ["redundant_writes", "redundant_window"],
        explained_by: [],
        advice: "Each of these writes is an event for every client that watches the kind. Write a heartbeat more rarely, keep it in one object (a Lease) or in a metric, and write a status only when it has changed.",
        command: "kubectl get {resource} -A -w --output-watch-events",
    }
    WriteFight Writes Warning Ticket {
        meaning: "Two writers undo each other's writes: each restores the spec or the status that the other one has just changed.",
        title: "rewritten by two writers in turns",
        near_miss: "A tool that applies a manifest every few minutes while the operator fills in a default, or an autoscaler, which writes alone.",
        evidence: ["writers", "part", "fields", "undone", "last_at"],
        settings: ["fight_writes", "fight_window"],
        explained_by: [],
        advice: "Decide which of the two owns the field. Remove it from the manifest or the template of the other one, or let the other one ignore it. If both have the same name, look for a second operator, or a second release of this one, that watches the same namespace.",
        command: "kubectl get {resource} {name}{in_namespace} -o yaml --show-managed-fields",
    }
    StatusReverted Writes Warning Ticket {
        meaning: "Again and again, an older status is written over a newer one.",
        title: "gets older statuses written back",
        near_miss: "A condition that changes back, which gets a new time, or a person who restores a status.",
        evidence: ["manager", "fields", "times", "last_at"],
        settings: ["status_reverts", "revert_window"],
        explained_by: [Subject(WriteFight)],
        advice: "A controller computes the status from a copy of the object that is out of date. Look for two replicas that both work (leader election is off, or a second release runs), and for updates without the resource version, such as a patch of the whole status.",
        command: "kubectl get {resource} {name}{in_namespace} -o yaml --show-managed-fields",
    }
    RecreateLoop Writes Warning Ticket {
        meaning: "A child is deleted soon after its creation and created again, with the same spec, again and again.",
        title: "deleted and created again and again",
        near_miss: "A Job or a Pod of the same name that ends and comes again, a child whose spec differs each time, or one that a person deletes once.",
        evidence: ["manager", "times", "lived"],
        settings: ["recreations", "recreate_window"],
        explained_by: [Subject(CrossNamespaceOwner), Subject(OwnerMissing), Subject(OwnerReplaced), Subject(OwnerUnresolvable), Subject(OwnerCycle)],
        advice: "Find out who deletes it. The garbage collector does if no owner exists where the references say: an owner must be in the same namespace or cluster-scoped, and have the UID of the reference. If the operator deletes it itself, one part of it wants the child and another one does not.",
        command: "kubectl get {resource} {name}{in_namespace} -o yaml --show-managed-fields",
    }
    OperatorDown Operator Critical Page {
        meaning: "The operator is gone: nothing shows it alive, although its objects may still say Ready.",
        title: "down",
        near_miss: "An operator that is scaled to zero, one that is being rolled out or has never started, or one that loopwatch cannot see.",
        evidence: ["signs", "absent_for", "last_seen", "waiting_changes", "message"],
        settings: ["operator_down_after", "owner_absent_after", "operator_start_within", "partly_down_after", "stopped_after"],
        explained_by: [Subject(StartupOutOfMemory), Subject(RestartLoop), Outage(ApiErrors)],
        advice: "Start the operator again. The signs show what is missing: its container, its lease, its metrics endpoint or its process. Until it runs, no spec change takes effect and no deletion ends.",
        critical_only: "if the whole operator is gone and nobody has scaled it to zero or deleted it",
        command: "kubectl get deployments,statefulsets,pods{in_namespace} -o wide",
    }
    RestartLoop Operator Critical Page {
        meaning: "The operator's container restarts again and again.",
        title: "restarting again and again",
        near_miss: "A rollout, which replaces Pods, a single restart of each of several Pods, or a container that ends twice a day.",
        evidence: ["pod", "affected", "container", "restarts", "window", "pattern", "reason", "exit_code", "message"],
        settings: ["restarts", "restart_window"],
        explained_by: [Subject(StartupOutOfMemory), Outage(ApiErrors)],
        advice: "Read the last lines of the log of the container that ended, and the reason of its end.",
        critical_only: "while the operator does not run",
        command: "kubectl describe pods{in_namespace}",
    }
    StartupOutOfMemory Operator Critical Page {
        meaning: "The kernel kills the operator for its memory soon after each start.",
        title: "killed for its memory at each start",
        near_miss: "A container that is killed for another reason, with exit code 137 but without OOMKilled, or one that ran for long before it was killed.",
        evidence: ["pod", "kills", "lived_for", "memory_limit", "message"],
        settings: ["startup_kills", "startup_within", "restart_window"],
        explained_by: [],
        advice: "The operator probably reads all objects of a kind, such as Secrets or ConfigMaps of the whole cluster, into its cache when it starts. Raise its memory limit, or limit its cache to the namespaces and labels that it needs.",
        critical_only: "while the operator does not run",
        command: "kubectl describe pods{in_namespace}",
    }
    LeaderAbsent Operator Warning Ticket {
        meaning: "Pods of the operator run, but nobody renews one of its leases, so nobody does the work that needs this lease.",
        title: "without a leader",
        near_miss: "A change of the leader, or an operator that never had a lease.",
        evidence: ["lease", "last_holder", "absent_for", "renewed_leases", "running_pods"],
        settings: ["leader_absent_after"],
        explained_by: [Subject(OperatorDown), Subject(RestartLoop), Subject(ApiErrors), Subject(ApiForbidden)],
        advice: "Search the operator's log for leader election: it may lack the permission to update its lease, or the lease may be held under a name that no Pod has. If the operator no longer elects a leader, delete the old lease.",
        command: "kubectl get leases{in_namespace}",
    }
    LeaderFlapping Operator Warning Ticket {
        meaning: "The leader of the operator keeps changing.",
        title: "changing its leader again and again",
        near_miss: "A rollout, or Pods that are deleted or evicted.",
        evidence: ["lease", "holder", "transitions", "window"],
        settings: ["leader_transitions", "leader_window"],
        explained_by: [Blocker(RestartLoop), Subject(ApiErrors)],
        advice: "A leader that cannot renew its lease in time exits. Check the operator's CPU limit, the latency of the API server, and the lease duration in the operator's configuration.",
        command: "kubectl get leases{in_namespace}",
    }
    ReconcileFailing Operator Warning Ticket {
        meaning: "The reconciles of a controller fail without a single success.",
        title: "failing all its reconciles",
        near_miss: "Errors beside successes (ReconcileErrors), or conflicts, which the operator repeats at once.",
        evidence: ["instance", "errors", "conflicts", "failing_for", "skipped_objects"],
        settings: ["reconcile_failing_after", "reconcile_errors"],
        explained_by: [Subject(ReconcilePanicking), Subject(ConflictStorm), Operator(OperatorDown), Machinery(WebhookUnavailable), Machinery(ConversionFailing), Machinery(AdmissionPolicyFailing), Outage(ApiErrors), Operator(ApiForbidden), Reconciled(Failing)],
        advice: "Search the operator's log for the error. If the controller has few objects, one with a bad spec is enough.",
        command: "kubectl logs{pod} --all-containers --since=1h",
        otherwise: "kubectl get events -A --field-selector type=Warning",
    }
    ReconcileErrors Operator Info None {
        meaning: "Several reconciles of a controller have failed, although others succeed.",
        title: "failing some of its reconciles",
        near_miss: "Conflicts, which the operator repeats at once. If no reconcile of the controller succeeds, the finding is ReconcileFailing, too.",
        evidence: ["instance", "errors", "conflicts", "window"],
        settings: ["reconcile_errors", "reconcile_failing_after"],
        explained_by: [Subject(ReconcileFailing), Subject(ReconcilePanicking), Subject(ConflictStorm), Operator(OperatorDown), Machinery(WebhookUnavailable), Machinery(ConversionFailing), Machinery(AdmissionPolicyFailing), Outage(ApiErrors), Operator(ApiForbidden)],
        advice: "Single errors are part of normal work. Search the operator's log if they persist.",
        command: "kubectl logs{pod} --all-containers --since=1h",
        otherwise: "kubectl get events -A --field-selector type=Warning",
    }
    ConflictStorm Operator Warning Ticket {
        meaning: "The API server refuses most writes of a controller because of conflicts, so hardly any of its reconciles succeeds.",
        title: "getting nothing done because of conflicts",
        near_miss: "Conflicts beside successes: the operator reads the object again, and succeeds.",
        evidence: ["instance", "conflicts", "percent", "errors", "window"],
        settings: ["conflicts", "api_window"],
        explained_by: [Subject(ReconcilePanicking), Operator(OperatorDown), Outage(ApiErrors)],
        advice: "Another client writes the same objects all the time, such as a second instance of the operator, or the operator updates from an old copy of the object. Read the object again before each update (`retry.RetryOnConflict`), or write by a patch or by server-side apply.",
        command: "kubectl logs{pod} --all-containers --since=10m",
        otherwise: "kubectl get events -A --field-selector type=Warning",
    }
    SilentHotLoop Operator Warning Ticket {
        meaning: "A controller reconciles objects at rest again and again, because it asks for that itself, and changes nothing.",
        title: "reconciling again and again without a reason",
        near_miss: "A controller that polls every few seconds, one whose objects are in progress, or one that answers changes.",
        evidence: ["instance", "reconciles_per_second", "requeued_percent", "changes", "objects", "window"],
        settings: ["silent_loop_rate", "silent_loop_after", "hot_loop_window"],
        explained_by: [Subject(ReconcilePanicking), Operator(UnchangedWrites), Operator(OperatorDown), Outage(ApiErrors)],
        advice: "The reconcile ends with a request for another one, such as a short `RequeueAfter`, whatever the state of the object. Ask for it only while something is missing, and watch what the object depends on.",
        command: "kubectl logs{pod} --all-containers --since=1m",
        otherwise: "kubectl get events -A --field-selector type=Warning",
    }
    UnchangedWrites Operator Warning Ticket {
        meaning: "The operator sends writes to the API server that change no object, many times per second.",
        title: "sending writes that change nothing",
        near_miss: "Writes to kinds that loopwatch does not watch (then the finding is only suspected), leases, and Events.",
        evidence: ["instance", "writes_per_second", "unchanged_percent", "changes", "window", "unwatched"],
        settings: ["silent_loop_rate", "silent_loop_after", "hot_loop_window"],
        explained_by: [Operator(OperatorDown), Outage(ApiErrors)],
        advice: "Compare the object with what the operator is about to write, and write only if they differ. Most of these writes are updates of a status at the end of each reconcile.",
        command: "kubectl logs{pod} --all-containers --since=1m",
        otherwise: "kubectl get events -A --field-selector type=Warning",
    }
    ReconcileStuck Operator Warning Ticket {
        meaning: "A reconcile has been running for much longer than usual.",
        title: "stuck in a reconcile",
        near_miss: "A controller whose reconciles usually take that long.",
        evidence: ["waits_in", "instance", "running_for", "usual", "threshold"],
        settings: ["reconcile_stuck_after", "reconcile_stuck_factor"],
        explained_by: [Operator(OperatorDown), Outage(ApiErrors)],
        advice: "A call without a timeout probably waits. Take a goroutine profile or a thread dump to see where. Meanwhile, this worker does nothing else.",
        command: "kubectl get events -A --field-selector type=Warning",
    }
    ReconcilePanicking Operator Warning Ticket {
        meaning: "Reconciles of a controller panic.",
        title: "panicking",
        near_miss: "A reconcile that returns an error.",
        evidence: ["instance", "panics", "last_panic", "window"],
        settings: ["restart_window"],
        explained_by: [],
        advice: "Search the operator's log for the stack trace, and report it to the operator's maintainers. If one object causes the panics, the finding PoisonObject names it.",
        command: "kubectl logs{pod} --all-containers --since=1h",
        otherwise: "kubectl get events -A --field-selector type=Warning",
    }
    WorkersSaturated Operator Warning Ticket {
        meaning: "All workers of a controller are busy, and objects wait.",
        title: "with all workers busy",
        near_miss: "Busy workers while nothing waits, the minutes after the start of the operator, or one usual long reconcile of a controller with a single worker.",
        evidence: ["instance", "workers", "queue_depth", "saturated_for"],
        settings: ["workers_saturated_after"],
        explained_by: [Subject(SilentHotLoop), Subject(ReconcileStuck), Operator(OperatorDown), Outage(ApiErrors)],
        advice: "Raise the number of concurrent reconciles of this controller (MaxConcurrentReconciles), or find out why its reconciles are slow.",
        command: "kubectl top pods -A --containers",
    }
    QueueBacklog Operator Warning Ticket {
        meaning: "The queue of a controller is long and does not shrink, or has been growing for long.",
        title: "with a long queue",
        near_miss: "The long queue after the start of the operator, which shrinks.",
        evidence: ["waits_in", "instance", "queue_depth", "threshold", "backlog_for", "growth", "window"],
        settings: ["queue_backlog", "queue_backlog_after", "queue_growth_window"],
        explained_by: [Subject(SilentHotLoop), Subject(ReconcileStuck), Subject(WorkersSaturated), Operator(OperatorDown), Outage(ApiErrors)],
        advice: "Compare the rate at which objects enter the queue with the rate of reconciles. A handler that blocks, or too few workers, slow the controller down; a change of many objects at once fills the queue.",
        command: "kubectl top pods -A --containers",
    }
    PoisonObject Operator Warning Ticket {
        meaning: "The operator crashes again and again since the spec of this object changed, and never acknowledges the change.",
        title: "crashing the operator",
        near_miss: "An object that changed before a crash for another reason, such as a kill for memory or a failure of the API server.",
        evidence: ["restarts", "panics", "last_crash", "unacknowledged_for"],
        settings: ["poison_crashes"],
        explained_by: [],
        advice: "Compare the last spec change of the object with the stack trace in the operator's log. Set the spec back, or suspend the object, so that the operator can work again, and report the crash to the operator's maintainers.",
        command: "kubectl get {resource} {name}{in_namespace} -o yaml",
    }
    Starved Operator Warning Ticket {
        meaning: "The operator does not acknowledge a spec change, although it has acknowledged later changes of many other objects of the kind.",
        title: "passed over by the operator",
        near_miss: "An operator that works through many objects in order, is slow for all of them, or does nothing at all.",
        evidence: ["acknowledged_others", "waiting_for", "usual", "threshold"],
        settings: ["starved_after", "starved_others", "learn_after"],
        explained_by: [Subject(Unacknowledged), Subject(PoisonObject), Operator(OperatorDown), Operator(RestartLoop), Machinery(WebhookUnavailable), Machinery(ConversionFailing), Machinery(AdmissionPolicyFailing), Outage(ApiErrors), Outage(LeaderAbsent), Worker(ReconcileStuck), Controller(ReconcileFailing), Controller(WorkersSaturated), Controller(QueueBacklog)],
        advice: "Other objects may occupy the workers, the object may wait in a long backoff, or the operator may have missed the event. Search its log for the name of the object; changing an annotation triggers another reconcile.",
        command: "kubectl get {resource} {name}{in_namespace} -o jsonpath='{.metadata.generation} {.status.observedGeneration}'",
    }
    InformerNotSynced Operator Warning Ticket {
        meaning: "Objects wait, but a controller has not begun any reconcile since the operator started, probably because an informer does not sync.",
        title: "without a reconcile since its start",
        near_miss: "A large cache that is still filling, a standby, or a controller without work.",
        evidence: ["instance", "queue_depth", "waiting_for"],
        settings: ["informer_sync_within"],
        explained_by: [Operator(ApiForbidden), Outage(ApiErrors)],
        advice: "Search the operator's log for lists and watches that fail: the kind may not exist, or the operator may lack a permission.",
        command: "kubectl get customresourcedefinitions",
    }
    ApiForbidden Operator Warning Ticket {
        meaning: "The API server denies requests of the operator.",
        title: "denied requests by the API server",
        near_miss: "A few denied requests at the start, with which the operator tests its permissions, or a role that is missing for a moment.",
        evidence: ["requests", "percent", "window", "missing"],
        settings: ["forbidden_requests", "api_window", "source_failing_after"],
        explained_by: [],
        advice: "The operator's log names the permission, or another reason: an exceeded quota, a namespace that is being deleted and an admission policy deny requests, too. Compare a missing permission with the role of the operator's account, also its scope: a role in one namespace does not allow lists of the whole cluster.",
        command: "kubectl get roles,rolebindings{in_namespace}",
    }
    ApiErrors Operator Critical Page {
        meaning: "Many requests of the operator to the API server fail.",
        title: "failing in its requests to the API server",
        near_miss: "Conflicts and missing objects, which are part of normal work, or a short restart of the API server.",
        evidence: ["requests", "percent", "window"],
        settings: ["api_errors", "api_error_percent", "api_window", "source_failing_after"],
        explained_by: [],
        advice: "Check the API server and the network between it and the operator. If the API server answers 401, it does not accept the operator's token: check that the token has not expired, and that its account still exists. After an outage, the operator has to work off what it missed.",
        critical_only: "if at least half of the requests fail, and for longer than the restart of an API server takes",
        command: "kubectl get --raw '/readyz?verbose'",
    }
    StatusSubresourceMissing ApiMachinery Info None {
        meaning: "The custom resource definition has a status but no status subresource, so every status write looks like a spec change.",
        title: "without a status subresource",
        near_miss: "A kind without a status, which only holds configuration.",
        evidence: ["kind", "group"],
        settings: [],
        explained_by: [],
        advice: "Ask the operator's maintainers to enable `subresources.status`. Until then, observedGeneration is unreliable for this kind.",
        command: "kubectl get customresourcedefinition {name} -o jsonpath='{.spec.versions[*].subresources}'",
    }
    DefinitionNotEstablished ApiMachinery Warning Ticket {
        meaning: "The API server does not accept a custom resource definition, so objects of its kind can be neither created nor read.",
        title: "not established",
        near_miss: "A definition in its first minute, or one that is being deleted.",
        evidence: ["kind", "group", "reason", "message"],
        settings: [],
        explained_by: [],
        advice: "If the names are in conflict, another definition of this group has the same kind, plural or short name: rename or delete one of the two. Otherwise, see the conditions of the definition.",
        command: "kubectl get customresourcedefinition {name} -o jsonpath='{.status.conditions}'",
    }
    DefinitionNonStructural ApiMachinery Info None {
        meaning: "The schema of the custom resource definition is not structural, so the API server does not prune unknown fields, set defaults or convert objects by a webhook.",
        title: "without a structural schema",
        near_miss: "A schema that preserves unknown fields on purpose, with `x-kubernetes-preserve-unknown-fields`.",
        evidence: ["kind", "group", "message"],
        settings: [],
        explained_by: [],
        advice: "Ask the operator's maintainers to generate the schema again. The message of the condition NonStructuralSchema names the fields.",
        command: "kubectl get customresourcedefinition {name} -o jsonpath='{.status.conditions}'",
    }
    DefinitionSchemaIncomplete ApiMachinery Info None {
        meaning: "The schema of the custom resource definition does not describe its objects: the API server drops their status, or keeps fields that nobody has declared. Only `check` reports this, unless a rule enables it.",
        title: "with an incomplete schema",
        near_miss: "A part of the spec below its first level that keeps unknown fields, such as a Pod template.",
        evidence: ["kind", "group", "dropped", "unchecked"],
        settings: [],
        explained_by: [],
        advice: "Ask the operator's maintainers to declare all fields in the schema. Until then, the API server stores misspelled fields without a word, and a status without a schema stays empty.",
        command: "kubectl get customresourcedefinition {name} -o jsonpath='{.spec.versions[?(@.storage==true)].schema.openAPIV3Schema}'",
    }
    StorageMigrationPending ApiMachinery Info None {
        meaning: "Objects of the kind may still be stored in an older version. A release of the operator without this version cannot be installed.",
        title: "stored in older versions",
        near_miss: "A definition whose only stored version is the present one.",
        evidence: ["kind", "group", "stored", "storage", "unserved"],
        settings: [],
        explained_by: [],
        advice: "Before you install a release that removes the version, rewrite all objects: create a StorageVersionMigration for the resource, or replace each object by itself. Then remove the version from `status.storedVersions` of the definition.",
        command: "kubectl get customresourcedefinition {name} -o jsonpath='{.status.storedVersions}'",
    }
    WebhookUnavailable ApiMachinery Warning Ticket {
        meaning: "Calls of an admission webhook fail, or nothing is there to answer them, so the API server refuses writes.",
        title: "failing to answer",
        near_miss: "A webhook that denies a request, which is an answer, a short failure while its Pods are replaced, or an object that has recovered since.",
        evidence: ["service", "cause", "seen_in", "objects", "examples"],
        settings: ["webhook_down_after"],
        explained_by: [Operator(OperatorDown), Operator(RestartLoop), Operator(StartupOutOfMemory)],
        advice: "Check the Pods behind the Service that the webhook names, and its certificate. If the program behind the webhook is gone for good, delete the webhook configuration, or set its `failurePolicy` to `Ignore`: until then, nobody can write these objects.",
        command: "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations -o 'custom-columns=CONFIGURATION:.metadata.name,WEBHOOKS:.webhooks[*].name,SERVICES:.webhooks[*].clientConfig.service.name'",
    }
    ConversionFailing ApiMachinery Warning Ticket {
        meaning: "The conversion webhook of a kind fails, so objects of the kind can be neither read nor written in other versions than the stored one.",
        title: "failing to convert objects",
        near_miss: "A short failure while the Pods of the webhook are replaced, or a kind with several versions and no conversion webhook.",
        evidence: ["service", "cause", "seen_in", "objects", "examples"],
        settings: ["webhook_down_after"],
        explained_by: [Operator(OperatorDown), Operator(RestartLoop), Operator(StartupOutOfMemory)],
        advice: "Check the Pods behind the Service that `spec.conversion` of the definition names, and its certificate. Do not remove the conversion while objects are stored in several versions.",
        command: "kubectl get customresourcedefinition {name} -o jsonpath='{.spec.conversion}'",
    }
    AdmissionPolicyFailing ApiMachinery Warning Ticket {
        meaning: "The API server cannot evaluate an admission policy, so it refuses the writes that the policy covers.",
        title: "failing in the API server",
        near_miss: "A policy that denies a request because the object violates it, or an object that has recovered since.",
        evidence: ["cause", "seen_in", "objects", "examples"],
        settings: ["webhook_down_after"],
        explained_by: [],
        advice: "Read the message in the status of an object that `examples` names: it quotes the expression and its error. An expression must test with `has()` whether an optional field exists. A binding may name a parameter that does not exist. Until the policy is mended, set its `failurePolicy` to `Ignore`.",
        command: "kubectl get {resource} {name} -o yaml",
    }
    WebhookCertificate ApiMachinery Warning Ticket {
        meaning: "The API server cannot verify the certificate of an admission or conversion webhook, or soon no longer, because its configuration or definition names no authority that is valid.",
        title: "with a certificate that cannot be verified for long",
        near_miss: "A certificate that is replaced a day or more before its end, as the Operator Lifecycle Manager, Knative and cert-manager do, or a new configuration without an authority, which another program adds.",
        evidence: ["problem", "service", "valid_until", "configuration"],
        settings: [],
        explained_by: [],
        advice: "Find out which program writes `caBundle` into the configuration or the definition, and why it has stopped: cert-manager needs the annotation `cert-manager.io/inject-ca-from`, and other operators renew their certificates themselves, some only at their start. Once the certificate has expired, nobody can write the objects that a webhook with `failurePolicy: Fail` covers, and nobody can read or write objects that the API server must convert.",
        command: "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations -o 'custom-columns=CONFIGURATION:.metadata.name,WEBHOOKS:.webhooks[*].name,CA_FROM:.metadata.annotations.cert-manager\\.io/inject-ca-from'",
    }
    WebhookDeadlock ApiMachinery Warning Ticket {
        meaning: "An admission webhook with `failurePolicy: Fail` decides on the Pods that answer its calls. Once none of them runs, the API server refuses each new one.",
        title: "needed for the start of its own Pods",
        near_miss: "A webhook with `failurePolicy: Ignore`, or one that leaves out the namespace of its Service or some of the objects.",
        evidence: ["service", "configuration"],
        settings: [],
        explained_by: [],
        advice: "Ask the maintainers to leave out the namespace of the Service with a `namespaceSelector`, or the Pods with an `objectSelector`. If the Pods are gone already, set `failurePolicy` to `Ignore` until one of them runs.",
        command: "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations -o 'custom-columns=CONFIGURATION:.metadata.name,WEBHOOKS:.webhooks[*].name,FAILURE_POLICY:.webhooks[*].failurePolicy,NAMESPACES:.webhooks[*].namespaceSelector'",
    }
    WebhookSlow ApiMachinery Warning Ticket {
        meaning: "The operator needs more than half of the time that the API server allows for the answer of an admission webhook.",
        title: "answering slowly",
        near_miss: "A single slow call, for example the first one after a start.",
        evidence: ["mean", "timeout", "calls", "window", "longest_wait", "service", "configuration"],
        settings: [],
        explained_by: [Operator(CpuThrottled)],
        advice: "Find out why the webhook is slow: it may read from the API server in each call, or wait for another service or for CPU time. Each write of a covered object waits for the answer, and fails if the webhook exceeds the timeout.",
        command: "kubectl top pods -A --containers",
    }
    LeakChain Process Warning Ticket {
        meaning: "The operator keeps objects in memory, does not remove their finalizers, and so more and more of them stay in deletion.",
        title: "leaking memory and leaving objects in deletion",
        near_miss: "A leak beside objects that were all deleted at once, or whose finalizers another program should remove: then each finding stands for itself.",
        evidence: ["growth", "kind", "objects", "examples", "growing_for", "stuck_for"],
        settings: ["finalizer_stuck_after"],
        explained_by: [],
        advice: "Something in the operator, such as a cache, a queue or a closure, keeps the objects and waits for them. Take a heap and a goroutine profile and look for the functions that handle deletions of this kind. A restart often frees both the memory and the finalizers; take the profiles first.",
        command: "kubectl top pods{in_namespace} --containers",
    }
    HeapLeak Process Warning Ticket {
        meaning: "The memory of the operator grows without bound, and the number of objects does not account for that.",
        title: "leaking memory",
        near_miss: "Memory that grows with the number of objects (HeapGrowthExplained), rises once after more load, or follows a daily wave.",
        evidence: ["instance", "signal", "per_hour", "rise", "window", "used", "limit", "exhausted_in", "explained", "top_growth"],
        settings: [],
        explained_by: [Subject(MemoryExhaustionPredicted), Subject(LeakChain), Subject(TaskLeak)],
        advice: "If loopwatch reads heap profiles, its page lists the functions that allocated the memory that grew most. Look there for a map, a cache or a list without a limit. A restart of the operator frees the memory until it has leaked again.",
        command: "kubectl top pods{in_namespace} --containers",
    }
    HeapGrowthExplained Process Info None {
        meaning: "The memory of the operator grows with the number of objects.",
        title: "growing in memory with its objects",
        near_miss: "Memory that grows faster than the number of objects accounts for: then the finding is HeapLeak.",
        evidence: ["instance", "explained", "objects", "window"],
        settings: [],
        explained_by: [Subject(LeakChain)],
        advice: "Compare the growth with the memory limit. If the operator caches objects that it does not need, limit its cache to the namespaces and labels that it needs.",
        command: "kubectl top pods{in_namespace} --containers",
    }
    TaskLeak Process Warning Ticket {
        meaning: "The number of goroutines or threads of the operator grows without bound.",
        title: "leaking goroutines or threads",
        near_miss: "A burst of work, after which they end, or growth with the number of objects.",
        evidence: ["instance", "type", "tasks", "per_hour", "rise", "window", "top_growth"],
        settings: [],
        explained_by: [Subject(LeakChain)],
        advice: "Goroutines that never end mostly wait for a channel, a lock or a connection without a timeout. If loopwatch reads goroutine profiles, its page lists the functions in which the new ones wait. Check that each task that an event starts ends with its context.",
        command: "kubectl top pods{in_namespace} --containers",
    }
    TaskLimit Process Warning Ticket {
        meaning: "The operator runs more goroutines than operators usually do.",
        title: "running more goroutines than usual",
        near_miss: "An operator with many controllers, which always runs that many: the finding is only suspected unless the number is beyond the highest of `goroutine_levels` and higher than ever before.",
        evidence: ["instance", "type", "tasks", "threshold", "top_growth"],
        settings: ["goroutine_levels"],
        explained_by: [Subject(TaskLeak)],
        advice: "Compare the number with that of the last days. If it grows, the finding TaskLeak follows.",
        command: "kubectl top pods{in_namespace} --containers",
    }
    MemoryExhaustionPredicted Process Critical Page {
        meaning: "At its current growth rate, the memory of the operator will soon reach its limit.",
        title: "with memory growing towards its limit",
        near_miss: "A burst of work far below the limit, a growth that takes more than a day, or an operator that always uses most of its limit.",
        evidence: ["instance", "exhausted_in", "limit", "used", "heap_goal", "per_hour", "rise", "window", "explained", "top_growth"],
        settings: ["exhaustion_within", "memory_jump_percent"],
        explained_by: [],
        advice: "Raise the memory limit, or restart the operator at a time of your choice, before the kernel kills it. Then look for the cause of the growth: the finding HeapLeak names it if it is known.",
        critical_only: "if the operator uses more memory than it usually does and objects are not as they should be",
        command: "kubectl top pods{in_namespace} --containers",
    }
    GarbageCollectionThrash Process Warning Ticket {
        meaning: "The operator spends its time with garbage collection, because its heap has reached the limit of its runtime.",
        title: "busy with garbage collection",
        near_miss: "Many collections because of much work while the heap may still grow, or a runtime without a limit.",
        evidence: ["instance", "used", "limit", "heap_goal", "collections_per_second"],
        settings: ["thrash_after"],
        explained_by: [Subject(MemoryExhaustionPredicted), Subject(HeapLeak)],
        advice: "Raise the limit of the runtime (GOMEMLIMIT or -Xmx) together with the memory limit of the container. A runtime limit keeps the kernel from killing a process that leaks, but slows it down instead.",
        command: "kubectl top pods{in_namespace} --containers",
    }
    CpuThrottled Process Warning Ticket {
        meaning: "The kernel throttles the operator again and again because of its CPU limit, and work waits.",
        title: "throttled by its CPU limit",
        near_miss: "A burst of work that uses all CPU time for some minutes. Throttling while no work waits, or of a standby, is information only.",
        evidence: ["instance", "percent", "limit", "queue_wait", "delays", "throttled_for", "window"],
        settings: ["throttled_after", "throttled_percent", "throttled_wait"],
        explained_by: [Subject(GarbageCollectionThrash)],
        advice: "Raise the CPU limit of the operator, or remove it and keep the request: without a limit, the operator may use CPU time that nobody else needs. If it needs much more CPU time than before, look for the cause in its reconciles first. The finding is a warning only if objects wait in its queues, or if findings about its delays began with the throttling.",
        command: "kubectl get pods{in_namespace} -o jsonpath='{range .items[*]}{.metadata.name}{\"\\t\"}{.spec.containers[*].resources.limits.cpu}{\"\\n\"}{end}'",
    }
    FileDescriptorLeak Process Warning Ticket {
        meaning: "The number of open file descriptors of the operator grows without bound, or is close to its limit.",
        title: "leaking file descriptors",
        near_miss: "A burst of connections that are closed again.",
        evidence: ["instance", "descriptors", "limit", "rise", "window", "exhausted_in"],
        settings: ["descriptors_percent"],
        explained_by: [Subject(TaskLeak)],
        advice: "The operator probably does not close files, watches or the bodies of HTTP responses. At the limit, it can neither open files nor connect to the API server.",
        command: "kubectl exec{pod} -- ls -l /proc/1/fd",
        otherwise: "lsof -nP -iTCP@{name} -sTCP:LISTEN",
    }
    MemoryJump Process Warning Ticket {
        meaning: "The operator uses much more memory than its process before did at the same time after the start.",
        title: "using much more memory than before",
        near_miss: "An operator that holds more objects than before, or a standby that has become the leader. As long as the operator does not need much more memory than its process before ever did, the finding is only suspected.",
        evidence: ["instance", "used", "before", "uptime", "top_growth"],
        settings: ["memory_jump_percent"],
        explained_by: [Subject(HeapLeak), Subject(MemoryExhaustionPredicted)],
        advice: "Compare the revisions: a new version of the operator may read more kinds or namespaces into its cache. Check that the memory limit still suffices.",
        command: "kubectl top pods{in_namespace} --containers",
    }
    MemoryLarge Process Info None {
        meaning: "The operator uses more memory than operators usually do.",
        title: "using more memory than usual",
        near_miss: "An operator with many objects, which always uses that much: raise `memory_levels`.",
        evidence: ["instance", "used", "threshold", "top_growth"],
        settings: ["memory_levels"],
        explained_by: [Subject(HeapLeak), Subject(MemoryExhaustionPredicted)],
        advice: "Check whether the cache of the operator holds objects that it does not need, such as all Secrets or ConfigMaps of the cluster.",
        command: "kubectl top pods{in_namespace} --containers",
    }
    ConfigInvalid Loopwatch Warning Ticket {
        meaning: "A part of the configuration is invalid, and loopwatch runs without it, or with a closed port if that part may be about access.",
        title: "with an invalid configuration",
        near_miss: "No configuration at all, which is valid.",
        evidence: ["problem", "failing_for"],
        settings: [],
        explained_by: [],
        advice: "The page and the log of loopwatch name the invalid setting. Correct the setting. loopwatch reads a changed configuration file by itself; flags and variables need a restart of the container. `loopwatch check --config FILE` reports the errors in a file.",
        command: "loopwatch check --help",
    }
    SourceFailing Loopwatch Warning Ticket {
        meaning: "loopwatch cannot read one of its sources, so the objects of that source count as unknown.",
        title: "failing",
        near_miss: "A short interruption, such as a restart of the API server.",
        evidence: ["cause", "detail", "failing_for", "last_success"],
        settings: ["source_failing_after"],
        explained_by: [Operator(OperatorDown), Operator(RestartLoop), Operator(StartupOutOfMemory), Machinery(ConversionFailing)],
        advice: "The page of loopwatch shows the cause. Until the source recovers, the absence of findings on its objects does not mean that they are healthy.",
        command: "kubectl auth can-i --list",
    }
    NotScraped Loopwatch Info None {
        meaning: "Nobody scrapes the metrics of loopwatch, so its alert rules cannot fire.",
        title: "missing",
        near_miss: "A loopwatch that posts its alerts to Alertmanager or sends traces, and that no Prometheus has ever scraped.",
        evidence: ["waiting_for"],
        settings: ["scrape_expected_within"],
        explained_by: [],
        advice: "A PodMonitor in another namespace, a label that the Prometheus instance expects, or a network policy is the usual cause: `loopwatch doctor` finds out which. If nobody is meant to scrape loopwatch, set `scrape_expected_within` to 0s.",
        command: "loopwatch doctor",
    }
    PermissionMissing Loopwatch Info None {
        meaning: "The account of loopwatch lacks a permission, so loopwatch cannot see a part of the cluster.",
        title: "missing",
        near_miss: "A permission that is missing for only a few seconds.",
        evidence: ["verb", "resource"],
        settings: [],
        explained_by: [],
        advice: "Grant the permission if loopwatch should see this part of the cluster (`deploy/components/reader-rights`; with --all-operators, a ClusterRole with the label `loopwatch/kinds`), or select what to watch with --watch and --namespace.",
        command: "kubectl auth can-i --list",
    }
    PermissionExcess Loopwatch Info None {
        meaning: "The operator's account may write to all API groups, which hardly any operator needs.",
        title: "broader than needed",
        near_miss: "A wildcard in a rule that only reads, or that is limited to some API groups.",
        evidence: ["rights"],
        settings: [],
        explained_by: [],
        advice: "Replace the wildcards in the operator's role with the groups, kinds and verbs that it uses. Until then, select the operator's kinds with --watch: wildcards do not show them, so loopwatch watches all custom resources, and only suspects what it finds in those without a trace of the operator.",
        command: "kubectl auth can-i --list",
    }
    StateInconsistent Loopwatch Warning Ticket {
        meaning: "The number of objects in loopwatch differs from the number in the API server.",
        title: "inconsistent with the API server",
        near_miss: "A difference that the next watch event resolves: loopwatch reports only differences that two consecutive audits find.",
        evidence: ["here", "server", "version"],
        settings: ["audit_every"],
        explained_by: [],
        advice: "Restart the Pod, so that loopwatch lists the kind again. The cause is a bug in loopwatch or in a proxy between loopwatch and the API server: please report it with a recording.",
        command: "loopwatch record --help",
    }
    LimitReached Loopwatch Warning Ticket {
        meaning: "loopwatch has reached one of its limits and drops everything beyond it.",
        title: "reached",
        near_miss: "A limit that is nearly reached.",
        evidence: ["dropped", "bound"],
        settings: ["limits"],
        explained_by: [],
        advice: "Raise the limit together with the memory limit of the container, or watch fewer kinds or namespaces with --watch and --namespace.",
        command: "loopwatch run --help",
    }
}

impl FindingCode {
    /// Returns the name, as in labels, alerts and runbooks.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// Returns whether the finding describes a weakness of a program rather than the state of a cluster. Such a
    /// finding opens only if a rule enables it; `loopwatch check` has such a rule.
    #[must_use]
    pub const fn is_lint(self) -> bool {
        matches!(self, Self::DefinitionSchemaIncomplete)
    }

    /// Returns the row of this code in [`FINDINGS`].
    #[must_use]
    pub fn info(self) -> &'static FindingInfo {
        &FINDINGS[self as usize] // the macro generates both in the same order
    }
}

impl Area {
    /// Returns the name of the area, as in documentation.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deletion => "deletion",
            Self::Ownership => "ownership",
            Self::References => "references",
            Self::Convergence => "convergence",
            Self::Writes => "writes",
            Self::Operator => "operator",
            Self::ApiMachinery => "API machinery",
            Self::Process => "process",
            Self::Loopwatch => "self",
        }
    }
}

impl Severity {
    /// All severities, the most urgent first.
    pub const ALL: [Self; 3] = [Self::Critical, Self::Warning, Self::Info];

    /// Returns the value of the `severity` label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }

    /// Returns the severity with this value of the `severity` label.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|severity| severity.as_str() == name)
    }
}
