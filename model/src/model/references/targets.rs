//! The targets of references: their kinds, and whether the operator creates them itself.

use crate::model::world::World;
use crate::model::world::kinds::Watch;
use crate::model::world::store::Slot;
use crate::model::world::visibility::Visibility;
use crate::observation::{ObjectAddress, Reference, Role, Scope};

/// Kinds of the core group. Names of fields often imply them.
const CORE: [&str; 4] = ["ConfigMap", "PersistentVolumeClaim", "Secret", "ServiceAccount"];

/// Other built-in kinds and their groups. A watched kind with the same name makes a name ambiguous.
const BUILT_IN: [(&str, &str); 16] = [
    ("", "Namespace"),
    ("", "Node"),
    ("", "PersistentVolume"),
    ("", "Service"),
    ("apps", "DaemonSet"),
    ("apps", "Deployment"),
    ("apps", "StatefulSet"),
    ("gateway.networking.k8s.io", "GatewayClass"),
    ("networking.k8s.io", "IngressClass"),
    ("node.k8s.io", "RuntimeClass"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("rbac.authorization.k8s.io", "Role"),
    ("resource.k8s.io", "DeviceClass"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("snapshot.storage.k8s.io", "VolumeSnapshotClass"),
    ("storage.k8s.io", "StorageClass"),
];

/// Common kinds and their groups, unless a watched kind has the same name.
const COMMON: [(&str, &str); 2] =
    [("cert-manager.io", "ClusterIssuer"), ("cert-manager.io", "Issuer")];

/// Those of these kinds that are cluster-scoped.
const CLUSTER_SCOPED: [&str; 11] = [
    "ClusterIssuer",
    "ClusterRole",
    "DeviceClass",
    "GatewayClass",
    "IngressClass",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PriorityClass",
    "RuntimeClass",
    "StorageClass",
];

/// Words that, in the last key of a path in lower case, mean that the operator creates the object.
const OUTPUT_WORDS: [&str; 10] = [
    "connectionstringsecret",
    "scramcredentials",
    "outputsecret",
    "targetsecret",
    "generatedsecret",
    "resultsecret",
    "writeconnectionsecretto",
    "publishconnectiondetailsto",
    // Crossplane's references to the resources that it has composed
    "resourceref",
    "outputconfigmap",
];

/// Fields of well-known kinds that name objects that the operator creates, as group, kind and last
/// key of the path. Anonymized recordings keep only the last key.
const OUTPUTS: [(&str, &str, &str); 4] = [
    // A volume keeps the name of its claim after the claim is gone.
    ("", "PersistentVolume", "claimRef"),
    ("cert-manager.io", "Certificate", "secretName"),
    ("cert-manager.io", "ClusterIssuer", "privateKeySecretRef"),
    ("cert-manager.io", "Issuer", "privateKeySecretRef"),
];

/// What the watches show about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watched {
    /// It exists.
    Here(Slot),
    /// It does not exist.
    Absent,
    /// Its watch cannot see now.
    Blind,
    /// No watch would certainly show it.
    No,
}

/// Returns whether a field is known to name an object that the operator creates.
pub(crate) fn is_known_output(group: &str, kind: &str, path: &str) -> bool {
    let key = path.rsplit_once('.').map_or(path, |(_, key)| key);
    let lower = key.to_ascii_lowercase();
    OUTPUT_WORDS.iter().any(|word| lower.contains(word)) || OUTPUTS.contains(&(group, kind, key))
}

/// Returns the address of the object that a reference names, if that is certain. `of` is the kind
/// of the object with the reference, and `own` its namespace.
pub(crate) fn address_of(
    world: &World,
    reference: &Reference,
    of: u16,
    own: &str,
) -> Option<ObjectAddress> {
    let Reference { name, namespace, .. } = reference;
    let (group, kind) = match reference.kind.as_str() {
        "" => kind_of_key(world, reference, of)?,
        kind => (group_of(world, reference)?, kind.to_owned()),
    };
    if name.is_empty() {
        return None;
    }

    let kind = kind.as_str();
    let built_in = || BUILT_IN.iter().chain(&COMMON).any(|known| *known == (group.as_str(), kind));
    let mut watches = world.watches_of(&group, kind);
    let cluster_scoped = CLUSTER_SCOPED.contains(&kind) && built_in();
    let namespace = match cluster_scoped || watches.any(|(_, watch)| watch.scope == Scope::Cluster)
    {
        true => "",
        false if namespace.is_empty() => own,
        false => namespace,
    };

    // A cluster-scoped object does not show in which namespace its Secrets and other namespaced
    // targets are. A dump does not show which kinds are namespaced.
    let is_core = group.is_empty() && CORE.contains(&kind);
    let is_namespaced = |watch: &Watch| watch.scope != Scope::Cluster && !watch.dumped;
    if namespace.is_empty()
        && !cluster_scoped
        && (is_core || world.watches_of(&group, kind).any(|(_, watch)| is_namespaced(watch)))
    {
        return None;
    }

    Some(ObjectAddress {
        group,
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.clone(),
    })
}

/// Returns the group and kind of the object that a reference without a kind names: its key is the
/// name of a kind in the same group, as `issuerRef` of a Certificate.
fn kind_of_key(world: &World, reference: &Reference, of: u16) -> Option<(String, String)> {
    let path = reference.slot.trim_end_matches("[]");
    let key = path.rsplit_once('.').map_or(path, |(_, key)| key);
    let stem = ["Ref", "Reference"].iter().find_map(|end| key.strip_suffix(end))?;
    let group = &world.kinds[of as usize].group;
    let mut kinds = world.kinds.iter().filter(|kind| {
        kind.group == *group && kind.kind.eq_ignore_ascii_case(stem) && kind.role == Role::Primary
    });

    let found =
        kinds.next().filter(|_| reference.group.is_empty() || **group == reference.group)?;
    Some((group.to_string(), found.kind.to_string()))
}

/// Returns the group of the object that a reference names, if that is certain.
fn group_of(world: &World, reference: &Reference) -> Option<String> {
    let Reference { group, kind, .. } = reference;
    if !group.is_empty() || CORE.contains(&kind.as_str()) {
        return Some(group.clone());
    }

    let built_in = BUILT_IN.iter().filter(|(_, of_kind)| of_kind == kind).map(|(group, _)| *group);
    let watched =
        world.kinds.iter().filter(|known| *known.kind == **kind).map(|known| &*known.group);
    let mut groups: Vec<&str> = built_in.chain(watched).collect();

    groups.sort_unstable();
    groups.dedup();
    match groups[..] {
        [group] => Some(group.to_owned()),
        [] => {
            COMMON.iter().find(|(_, of_kind)| of_kind == kind).map(|(group, _)| (*group).to_owned())
        }
        _ => None,
    }
}

/// Returns what the watches show about an object.
pub(crate) fn watched(world: &World, address: &ObjectAddress) -> Watched {
    let ObjectAddress { group, kind, namespace, name } = address;
    let mut result = Watched::No;
    for (number, watch) in world.watches_of(group, kind) {
        if !watch.missing.is_empty() || !watch.covers(namespace) {
            continue;
        }

        let found = world.store.find(number, namespace, name);

        // A watch that leaves objects out cannot show that one is absent.
        let is_complete = !watch.filtered
            && !watch.dumped
            && watch.lists.excluded.is_empty()
            && watch.lists.skipped == 0;
        result = match (watch.visibility(world.now), found) {
            (Visibility::Lost, _) => Watched::Blind,
            (_, Some(slot)) => return Watched::Here(slot),
            (_, None) if is_complete => return Watched::Absent,
            (_, None) => result,
        };
    }

    result
}
