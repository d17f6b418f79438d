//! What is special about well-known kinds, as data: the only place where kinds are named.

use super::senses::Sense;

/// What to do differently for a kind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Profile {
    /// Runs to its end although its status records no end time.
    pub(super) finishes: bool,
    /// Phases whose words mislead, with the sense that they have here; compared without case.
    pub(super) phases: &'static [(&'static str, Sense)],
    /// The type of the condition without which the others do not sum the object up.
    pub(super) needs: &'static str,
}

/// One kind, or all kinds of a group, or of all groups below a domain.
struct Row {
    /// A group, or a domain that begins with a dot.
    group: &'static str,
    /// Empty for all kinds.
    kind: &'static str,
    profile: Profile,
}

const ORDINARY: Profile = Profile { finishes: false, phases: &[], needs: "" };

/// An order is ready before it is finalized, and valid when it is done
/// (cert-manager/cert-manager: pkg/apis/acme/v1/types_order.go).
const ORDER: Profile =
    Profile { finishes: true, phases: &[("ready", Sense::Motion), ("valid", Sense::Done)], ..ORDINARY };

/// A run that is `ready` has ended (percona/percona-server-mongodb-operator: pkg/apis/psmdb/v1).
const PERCONA_RUN: Profile = Profile { finishes: true, phases: &[("ready", Sense::Done)], ..ORDINARY };

/// Runs to its end (operator-framework/api: pkg/operators/v1alpha1/installplan_types.go).
const RUN: Profile = Profile { finishes: true, ..ORDINARY };

/// The states of Gloo as older versions write them, by number; pending is what has not been validated yet
/// (solo-io/solo-kit: api/v1/status.proto).
const GLOO: Profile =
    Profile { phases: &[("0", Sense::Motion), ("1", Sense::Good), ("2", Sense::Bad), ("3", Sense::Bad)], ..ORDINARY };

/// `Synced` only says that the last call worked; a managed resource that is not yet `Ready` may lack that condition
/// (crossplane/crossplane: apis/core/v2/condition.go).
const CROSSPLANE: Profile = Profile { needs: "Ready", ..ORDINARY };

/// The first row that fits counts.
const TABLE: &[Row] = &[
    Row { group: "acme.cert-manager.io", kind: "", profile: ORDER },
    Row { group: "psmdb.percona.com", kind: "PerconaServerMongoDBBackup", profile: PERCONA_RUN },
    Row { group: "psmdb.percona.com", kind: "PerconaServerMongoDBRestore", profile: PERCONA_RUN },
    Row { group: "operators.coreos.com", kind: "InstallPlan", profile: RUN },
    Row { group: "gateway.solo.io", kind: "", profile: GLOO },
    Row { group: "gloo.solo.io", kind: "", profile: GLOO },
    Row { group: "pkg.crossplane.io", kind: "", profile: ORDINARY },
    Row { group: "apiextensions.crossplane.io", kind: "", profile: ORDINARY },
    Row { group: ".crossplane.io", kind: "", profile: CROSSPLANE },
    Row { group: ".upbound.io", kind: "", profile: CROSSPLANE },
];

/// The profile of a kind; the ordinary one when it has no row.
pub(super) fn of(group: &str, kind: &str) -> Profile {
    let in_group = |row: &Row| if row.group.starts_with('.') { group.ends_with(row.group) } else { group == row.group };
    let row = TABLE.iter().find(|row| in_group(row) && (row.kind.is_empty() || row.kind == kind));
    row.map_or(ORDINARY, |row| row.profile)
}
