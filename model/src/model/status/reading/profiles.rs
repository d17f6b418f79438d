//! Exceptions for well-known kinds, as a table. Apart from `workloads.rs` and `builtin.rs`, no
//! other file has rules for single kinds.

use crate::model::status::reading::Verdict;
use crate::model::status::reading::senses::Sense;

/// The exceptions for one kind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Profile {
    /// Whether the objects run to completion, even if no end time shows it.
    pub(super) runs_to_completion: bool,
    /// Phases whose words mislead, with the sense that they have here. Case does not matter.
    pub(super) phases: &'static [(&'static str, Sense)],
    /// The type of the condition that an object must have before it counts as converged; empty if
    /// the kind needs none.
    pub(super) required_condition: &'static str,
    /// Conditions, by their types and by their reasons or messages, that mean that nothing is wanted of
    /// the object now, with the verdict on it.
    pub(super) rests: &'static [(&'static str, &'static str, Verdict)],
    /// The path of the phase of the work that the object exists for, if its own phase does not cover it.
    pub(super) work: Option<&'static str>,
    /// Whether a phase that means completion says the last word: the conditions only describe what ended.
    pub(super) ends_with_phase: bool,
    /// A field and its value with which the operator does nothing for an object, and writes no status.
    pub(super) inert: Option<(&'static str, &'static str)>,
}

/// The profile of one kind, of all kinds of a group, or of all groups below a domain.
struct ProfileRow {
    /// A group, or a domain that begins with a dot.
    group: &'static str,
    /// A kind; empty for all kinds of the group.
    kind: &'static str,
    profile: Profile,
}

/// No exceptions.
const ORDINARY: Profile = Profile {
    runs_to_completion: false,
    phases: &[],
    required_condition: "",
    rests: &[],
    work: None,
    ends_with_phase: false,
    inert: None,
};

/// An ACME order is `ready` before it is finalized, and `valid` when it is complete
/// (cert-manager/cert-manager: pkg/apis/acme/v1/types_order.go).
const ORDER: Profile = Profile {
    runs_to_completion: true,
    phases: &[("ready", Sense::InProgress), ("valid", Sense::Done)],
    ..ORDINARY
};

/// A backup or restore that is `ready` is complete (percona/percona-server-mongodb-operator:
/// pkg/apis/psmdb/v1).
const PERCONA_RUN: Profile =
    Profile { runs_to_completion: true, phases: &[("ready", Sense::Done)], ..ORDINARY };

/// An install plan runs to completion (operator-framework/api:
/// pkg/operators/v1alpha1/installplan_types.go).
const INSTALL_PLAN: Profile = Profile { runs_to_completion: true, ..ORDINARY };

/// Older versions of Gloo write states as numbers, from 0: pending, accepted, rejected, warning
/// (solo-io/solo-kit: api/v1/status.proto).
const GLOO: Profile = Profile {
    phases: &[("0", Sense::InProgress), ("1", Sense::Good), ("2", Sense::Bad), ("3", Sense::Bad)],
    ..ORDINARY
};

/// `Synced` says only that the last API call succeeded. A managed resource may lack `Ready` until
/// it is ready (crossplane/crossplane: apis/core/v2/condition.go).
const CROSSPLANE: Profile = Profile { required_condition: "Ready", ..ORDINARY };

/// A machine is `Provisioned` before it has joined the cluster, and `Running` after that (openshift/api:
/// machine/v1beta1/types_machine.go).
const OPENSHIFT_MACHINE: Profile =
    Profile { phases: &[("provisioned", Sense::InProgress)], ..ORDINARY };

/// Without traffic, a revision is scaled to zero, and nothing of it is ready (knative/serving:
/// pkg/reconciler/autoscaling/kpa/kpa.go and pkg/apis/autoscaling/v1alpha1/pa_lifecycle.go).
const KNATIVE_INTERNAL: Profile = Profile {
    rests: &[
        ("Ready", "NoTraffic", Verdict::Suspended),
        ("Ready", "NoHealthyBackends", Verdict::Suspended),
    ],
    ..ORDINARY
};

/// Without a URL, nothing is backed up (longhorn/longhorn-manager:
/// controller/backup_target_controller.go).
const BACKUP_TARGET: Profile = Profile {
    rests: &[("Unavailable", "backup target URL is empty", Verdict::Suspended)],
    ..ORDINARY
};

/// The capacity that was provisioned is no longer held for the Pods: they have had their time
/// (kubernetes/autoscaler: cluster-autoscaler/apis/provisioningrequest).
const PROVISIONING_REQUEST: Profile =
    Profile { rests: &[("BookingExpired", "BookingExpired", Verdict::Finished)], ..ORDINARY };

/// A host in the inventory that no cluster uses (openshift/assisted-service:
/// api/v1beta1/agent_types.go).
const AGENT: Profile =
    Profile { rests: &[("Installed", "InstallationNotStarted", Verdict::Suspended)], ..ORDINARY };

/// A guest may shut itself down; its Pod, and with it `Ready`, is gone then (kubevirt/kubevirt:
/// staging/src/kubevirt.io/api/core/v1/types.go).
const MACHINE_INSTANCE: Profile = Profile { ends_with_phase: true, ..ORDINARY };

/// A canary that waits until somebody confirms (fluxcd/flagger: pkg/apis/flagger/v1beta1/status.go).
const CANARY: Profile = Profile {
    phases: &[("Waiting", Sense::Paused)],
    rests: &[("Promoted", "Waiting", Verdict::Suspended)],
    ..ORDINARY
};

/// The lifecycle stays `STABLE` while a job restarts again and again, and a job is `DEPLOYED` before
/// anybody knows whether it is stable (apache/flink-kubernetes-operator: ResourceLifecycleState.java).
const FLINK: Profile = Profile {
    phases: &[("deployed", Sense::InProgress), ("failing", Sense::InProgress)],
    work: Some("status.jobStatus.state"),
    ..ORDINARY
};

/// A workflow that waits until a person resumes it (kubevela/workflow: api/v1alpha1/types.go and
/// condition/types.go).
const KUBEVELA: Profile = Profile {
    phases: &[("workflowSuspending", Sense::Paused), ("suspending", Sense::Paused)],
    ..ORDINARY
};

/// A scan that is done has done its work, whatever it found (ComplianceAsCode/compliance-operator:
/// pkg/apis/compliance/v1alpha1).
const SCAN: Profile = Profile {
    phases: &[("NON-COMPLIANT", Sense::Done), ("INCONSISTENT", Sense::Done)],
    ends_with_phase: true,
    ..ORDINARY
};

/// A job in the interactive mode waits until somebody submits it (ray-project/kuberay:
/// ray-operator/apis/ray/v1/rayjob_types.go).
const RAY_JOB: Profile = Profile { phases: &[("Waiting", Sense::Paused)], ..ORDINARY };

/// A plan that a person has to apply (hashicorp/hcp-terraform-operator: api/v1alpha2).
const WORKSPACE: Profile = Profile {
    phases: &[
        ("planned", Sense::Paused),
        ("cost_estimated", Sense::Paused),
        ("policy_checked", Sense::Paused),
    ],
    ..ORDINARY
};

/// The configuration is in effect in spite of a warning (nginx/kubernetes-ingress:
/// pkg/apis/configuration/v1/types.go).
const NGINX: Profile = Profile { phases: &[("Warning", Sense::Good)], ..ORDINARY };

/// A repository in an OCI registry is only a name for other objects (fluxcd/source-controller:
/// docs/spec/v1/helmrepositories.md, "Helm OCI repository").
const HELM_REPOSITORY: Profile = Profile { inert: Some(("spec.type", "oci")), ..ORDINARY };

/// A person activates the revision (crossplane/crossplane: apis/pkg/v1/conditions.go).
const PACKAGE: Profile =
    Profile { rests: &[("Installed", "InactivePackageRevision", Verdict::Suspended)], ..ORDINARY };

/// A stage without freight waits until somebody promotes some (akuity/kargo:
/// pkg/controller/stages).
const STAGE: Profile = Profile { rests: &[("Ready", "NoFreight", Verdict::Suspended)], ..ORDINARY };

/// A node is being drained while the object is `Running` (medik8s/node-maintenance-operator:
/// api/v1beta1/nodemaintenance_types.go).
const NODE_MAINTENANCE: Profile =
    Profile { runs_to_completion: true, phases: &[("Running", Sense::InProgress)], ..ORDINARY };

/// A game server waits for a port and for its Pod before it is `Ready` (googleforgames/agones:
/// pkg/apis/agones/v1/gameserver.go).
const GAME_SERVER: Profile = Profile {
    phases: &[("Scheduled", Sense::InProgress), ("PortAllocation", Sense::InProgress)],
    ..ORDINARY
};

/// The first row that matches applies.
const TABLE: &[ProfileRow] = &[
    ProfileRow { group: "acme.cert-manager.io", kind: "", profile: ORDER },
    ProfileRow {
        group: "psmdb.percona.com",
        kind: "PerconaServerMongoDBBackup",
        profile: PERCONA_RUN,
    },
    ProfileRow {
        group: "psmdb.percona.com",
        kind: "PerconaServerMongoDBRestore",
        profile: PERCONA_RUN,
    },
    ProfileRow { group: "operators.coreos.com", kind: "InstallPlan", profile: INSTALL_PLAN },
    ProfileRow { group: "gateway.solo.io", kind: "", profile: GLOO },
    ProfileRow { group: "gloo.solo.io", kind: "", profile: GLOO },
    ProfileRow {
        group: "source.toolkit.fluxcd.io",
        kind: "HelmRepository",
        profile: HELM_REPOSITORY,
    },
    ProfileRow { group: "kubevirt.io", kind: "VirtualMachineInstance", profile: MACHINE_INSTANCE },
    ProfileRow { group: "flink.apache.org", kind: "", profile: FLINK },
    ProfileRow { group: "compliance.openshift.io", kind: "ComplianceScan", profile: SCAN },
    ProfileRow { group: "compliance.openshift.io", kind: "ComplianceSuite", profile: SCAN },
    ProfileRow { group: "core.oam.dev", kind: "", profile: KUBEVELA },
    ProfileRow { group: "flagger.app", kind: "Canary", profile: CANARY },
    ProfileRow { group: "ray.io", kind: "RayJob", profile: RAY_JOB },
    ProfileRow { group: "app.terraform.io", kind: "Workspace", profile: WORKSPACE },
    ProfileRow { group: "k8s.nginx.org", kind: "", profile: NGINX },
    ProfileRow { group: "machine.openshift.io", kind: "Machine", profile: OPENSHIFT_MACHINE },
    ProfileRow { group: "longhorn.io", kind: "BackupTarget", profile: BACKUP_TARGET },
    ProfileRow {
        group: "autoscaling.x-k8s.io",
        kind: "ProvisioningRequest",
        profile: PROVISIONING_REQUEST,
    },
    ProfileRow { group: "agent-install.openshift.io", kind: "Agent", profile: AGENT },
    ProfileRow { group: ".internal.knative.dev", kind: "", profile: KNATIVE_INTERNAL },
    ProfileRow { group: "kargo.akuity.io", kind: "Stage", profile: STAGE },
    ProfileRow { group: "agones.dev", kind: "GameServer", profile: GAME_SERVER },
    ProfileRow { group: "nodemaintenance.medik8s.io", kind: "", profile: NODE_MAINTENANCE },
    ProfileRow { group: "ops.crossplane.io", kind: "", profile: ORDINARY },
    ProfileRow { group: "pkg.crossplane.io", kind: "", profile: PACKAGE },
    ProfileRow { group: "apiextensions.crossplane.io", kind: "", profile: ORDINARY },
    ProfileRow { group: ".crossplane.io", kind: "", profile: CROSSPLANE },
    ProfileRow { group: ".upbound.io", kind: "", profile: CROSSPLANE },
];

/// Returns the profile of a kind, or [`ORDINARY`] if no row matches.
pub(super) fn of(group: &str, kind: &str) -> Profile {
    let in_group = |row: &ProfileRow| {
        if row.group.starts_with('.') { group.ends_with(row.group) } else { group == row.group }
    };
    let row = TABLE.iter().find(|row| in_group(row) && (row.kind.is_empty() || row.kind == kind));

    row.map_or(ORDINARY, |row| row.profile)
}
