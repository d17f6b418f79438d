//! Finds the references to other objects in the spec, by the names of their fields.
//!
//! Kubernetes has no convention for references, but nearly all take one of two forms: a map with a
//! `name` under a key such as `issuerRef`, or a name under a key such as `secretName`.

use loopwatch_model::observation::Reference;
use serde::de::{MapAccess, SeqAccess};

use super::hash::{FingerprintSum, Fingerprints, Hasher};
use super::limits::MAX_NAME;
use super::lint::Lint;
use super::opaque::Opaque;
use super::shape::{AnyShape, MapKey, Scalar, Visit};
use super::walk::{MAX_PATH, Walk};
use super::words::cut;

/// Maximum number of references of one object.
const MAX_REFERENCES: usize = 32;
/// Depth at which the decoder stops looking for references: below the environment of a container in
/// a nested template.
const MAX_REFERENCE_DEPTH: u8 = 16;

/// A key that may hold a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReferenceKey {
    target: ImpliedKind,
    /// Whether a text under the key is a name. A map with a `name` is always a reference.
    takes_name: bool,
    /// What proves that the value holds the name of an object, so that the view may keep the name.
    proof: Proof,
}

/// What proves that a value holds the name of an object, and not a text that may be secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proof {
    /// The key of a text: `secretName`.
    Key,
    /// The key of a map with a `name`: `secretRef`.
    Map,
    /// A map with only the fields of a reference. Other fields, such as `data` or `create`, would
    /// describe an object to create instead.
    PlainMap,
    /// The kind in the map, which must be `ConfigMap` or `Secret`: `valuesFrom`.
    Kind,
}

/// The kind that the name of a key implies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ImpliedKind {
    Any,
    ConfigMap,
    PersistentVolumeClaim,
    Secret,
    ServiceAccount,
    /// `storageClassName` names a `StorageClass`.
    Class,
}

/// A value in the spec, searched for references.
pub(super) struct SpecTree<'a, 'w> {
    pub(super) walk: &'a mut Walk<'w>,
    pub(super) depth: u8,
    /// The key of the value, if it may hold a reference.
    pub(super) slot: Option<ReferenceKey>,
}

/// The fields of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReferenceField {
    ApiVersion,
    Group,
    Kind,
    Name,
    Namespace,
    Optional,
}

/// The value of one field of a reference.
struct FieldOfReference<'a> {
    hasher: &'a Hasher,
    depth: u8,
    reference: &'a mut Reference,
    named: &'a mut bool,
    field: ReferenceField,
}

/// Records the reference to the object that a key's value names.
pub(super) fn keep_name(walk: &mut Walk<'_>, slot: ReferenceKey, name: &str) {
    if slot.takes_name && is_name(name) {
        let name_hash = walk.hasher.text(name);
        let name = if slot.proof == Proof::Key { name.to_owned() } else { String::new() };
        keep(walk, slot, Reference { name_hash, name, ..Reference::default() });
    }
}

fn keep(walk: &mut Walk<'_>, slot: ReferenceKey, mut reference: Reference) {
    if walk.path.len() > MAX_PATH {
        return;
    }

    if reference.kind.is_empty() {
        reference.kind = slot.target.kind(&walk.path);
    }

    reference.slot.clone_from(&walk.path);
    if walk.view.references.contains(&reference) {
        return;
    }

    if walk.view.references.len() >= MAX_REFERENCES {
        walk.lints.add(Lint::ManyReferences);
        return;
    }

    walk.view.references.push(reference);
}

/// Removes the references to objects in another cluster, which the spec gives access to:
/// controllers that apply objects there also act as a service account of that cluster.
pub(super) fn drop_remote(walk: &mut Walk<'_>) {
    walk.view.references.retain(|reference| reference.kind != "ServiceAccount");
}

/// Whether a field of the spec gives access to another cluster, to which the operator applies the
/// object.
pub(super) fn reaches_cluster(key: &str) -> bool {
    let is_kubeconfig = key.get(..10).is_some_and(|start| start.eq_ignore_ascii_case("kubeconfig"));
    is_kubeconfig || matches!(key, "remoteCluster" | "targetCluster")
}

/// Whether a field beside a name says in which cluster the object is.
fn names_cluster(key: &str) -> bool {
    reaches_cluster(key) || matches!(key, "cluster" | "clusterName")
}

/// Whether a reference may have this field, in addition to those of [`ReferenceField`].
fn of_reference(key: &str) -> bool {
    matches!(key, "key" | "items" | "defaultMode")
}

/// Whether a text can be the name of an object. RBAC also allows colons.
fn is_name(text: &str) -> bool {
    (1..=253).contains(&text.len())
        && text.bytes().all(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.' | b':')
        })
}

impl ReferenceKey {
    /// The meaning of a key. Most keys fail the test of the last byte.
    pub(super) fn of(key: &str) -> Option<Self> {
        let slot = |target, takes_name, proof| Some(Self { target, takes_name, proof });
        match key.as_bytes().last()? {
            b'f' | b'e' | b's' | b't' | b'p' | b'm' => {}
            _ => return None,
        }

        let names = [
            ("ecretName", ImpliedKind::Secret),
            ("onfigMapName", ImpliedKind::ConfigMap),
            ("onfigmapName", ImpliedKind::ConfigMap),
            ("erviceAccountName", ImpliedKind::ServiceAccount),
            ("laimName", ImpliedKind::PersistentVolumeClaim),
            ("ClassName", ImpliedKind::Class),
        ];

        if let Some((_, target)) = names.iter().find(|(end, _)| key.ends_with(end)) {
            return slot(*target, true, Proof::Key);
        }

        if key.ends_with("From") {
            return slot(ImpliedKind::Any, false, Proof::Kind);
        }

        let singular = key.strip_suffix('s').unwrap_or(key);
        if let Some(stem) = ["Ref", "Reference"].iter().find_map(|end| singular.strip_suffix(end)) {
            let target = ImpliedKind::of_stem(stem);
            return slot(target, target != ImpliedKind::Any, Proof::Map);
        }

        match ImpliedKind::of_stem(singular) {
            ImpliedKind::Any => None,
            // A list of names. A single text may be the secret itself, so it does not count as a
            // name.
            target => slot(target, singular.len() < key.len(), Proof::PlainMap),
        }
    }
}

impl ImpliedKind {
    /// The kind that a word names, as in `passwordSecret`, `secretKey` or
    /// `writeConnectionSecretTo`.
    fn of_stem(stem: &str) -> Self {
        let stem =
            ["Key", "To", "Name"].iter().find_map(|end| stem.strip_suffix(end)).unwrap_or(stem);
        let kinds = [
            ("ecret", Self::Secret),
            ("onfigMap", Self::ConfigMap),
            ("onfigmap", Self::ConfigMap),
            ("erviceAccount", Self::ServiceAccount),
            ("olumeClaim", Self::PersistentVolumeClaim),
        ];

        kinds.iter().find(|(end, _)| stem.ends_with(end)).map_or(Self::Any, |(_, target)| *target)
    }

    /// The kind. That of a class comes from the last key of the path.
    fn kind(self, path: &str) -> String {
        let class = || {
            let key = path.rsplit_once('.').map_or(path, |(_, key)| key).trim_end_matches("[]");
            let kind = key.strip_suffix("Name").unwrap_or(key);
            let first = kind.chars().next().map(|first| first.to_ascii_uppercase());
            first.into_iter().chain(kind.chars().skip(1)).collect()
        };
        match self {
            Self::Any => String::new(),
            Self::ConfigMap => "ConfigMap".to_owned(),
            Self::PersistentVolumeClaim => "PersistentVolumeClaim".to_owned(),
            Self::Secret => "Secret".to_owned(),
            Self::ServiceAccount => "ServiceAccount".to_owned(),
            Self::Class => class(),
        }
    }
}

impl<'de> AnyShape<'de> for SpecTree<'_, '_> {
    type Out = Fingerprints;

    fn scalar(self, scalar: Scalar<'_>) -> Fingerprints {
        if let (Some(slot), Scalar::Text(name)) = (self.slot, scalar) {
            keep_name(self.walk, slot, name);
        }
        scalar.hash_all(&self.walk.hasher)
    }

    fn list<A: SeqAccess<'de>>(self, mut items: A) -> Result<Fingerprints, A::Error> {
        let Self { walk, depth, slot } = self;
        if depth >= MAX_REFERENCE_DEPTH {
            return Opaque::spec(&walk.hasher, depth).0.list(items);
        }

        let (hasher, mut sum, end) = (walk.hasher, FingerprintSum::default(), walk.path.len());
        walk.path.push_str("[]");
        loop {
            let item = SpecTree { walk: &mut *walk, depth: depth + 1, slot };
            let Some(item) = items.next_element_seed(Visit(item))? else { break };
            sum.item(&hasher, item, true);
        }

        walk.path.truncate(end);
        Ok(sum.list(&hasher))
    }

    fn map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Fingerprints, A::Error> {
        let Self { walk, depth, slot } = self;
        if depth >= MAX_REFERENCE_DEPTH {
            return Opaque::spec(&walk.hasher, depth).0.map(entries);
        }

        let (hasher, mut sum, end) = (walk.hasher, FingerprintSum::default(), walk.path.len());
        let (mut reference, mut named, mut plain) = (Reference::default(), false, true);
        let mut is_remote = false;
        loop {
            let seed = |key: &str| {
                walk.push_key(key);
                is_remote |= names_cluster(key);
                let field = slot.and_then(|_| ReferenceField::of(key));
                (
                    hasher.text(key),
                    ReferenceKey::of(key),
                    field,
                    field.is_some() || of_reference(key),
                )
            };
            let Some((hash, below, field, expected)) = entries.next_key_seed(MapKey(seed))? else {
                break;
            };

            plain &= expected;
            let value = if let Some(field) = field {
                let (reference, named, depth) = (&mut reference, &mut named, depth + 1);
                entries.next_value_seed(Visit(FieldOfReference {
                    hasher: &hasher,
                    depth,
                    reference,
                    named,
                    field,
                }))?
            } else {
                entries.next_value_seed(Visit(SpecTree {
                    walk: &mut *walk,
                    depth: depth + 1,
                    slot: below,
                }))?
            };

            walk.path.truncate(end);
            sum.entry(&hasher, hash, value);
        }

        let is_reference = |slot: &ReferenceKey| {
            slot.proof != Proof::Kind || matches!(reference.kind.as_str(), "ConfigMap" | "Secret")
        };
        if let Some(slot) = slot.filter(|slot| named && !is_remote && is_reference(slot)) {
            if slot.proof == Proof::PlainMap && !plain {
                reference.name.clear();
            }
            keep(walk, slot, reference);
        }

        Ok(sum.map(&hasher))
    }
}

impl ReferenceField {
    fn of(key: &str) -> Option<Self> {
        match key {
            "apiVersion" => Some(Self::ApiVersion),
            "apiGroup" | "group" => Some(Self::Group),
            "kind" => Some(Self::Kind),
            "name" => Some(Self::Name),
            "namespace" => Some(Self::Namespace),
            "optional" => Some(Self::Optional),
            _ => None,
        }
    }
}

impl<'de> AnyShape<'de> for FieldOfReference<'_> {
    type Out = Fingerprints;

    fn scalar(self, scalar: Scalar<'_>) -> Fingerprints {
        let Self { hasher, reference, named, field, .. } = self;
        match (field, scalar) {
            (ReferenceField::Name, Scalar::Text(name)) if is_name(name) => {
                reference.name_hash = hasher.text(name);
                name.clone_into(&mut reference.name);
                *named = true;
            }
            (ReferenceField::Namespace, Scalar::Text(namespace)) if is_name(namespace) => {
                namespace.clone_into(&mut reference.namespace);
            }
            (ReferenceField::Kind, Scalar::Text(kind)) => {
                cut(kind, MAX_NAME).clone_into(&mut reference.kind)
            }
            (ReferenceField::Group, Scalar::Text(group)) => {
                cut(group, MAX_NAME).clone_into(&mut reference.group)
            }
            (ReferenceField::ApiVersion, Scalar::Text(version)) => {
                let group = version.split_once('/').map_or("", |(group, _)| group);
                cut(group, MAX_NAME).clone_into(&mut reference.group);
            }
            (ReferenceField::Optional, Scalar::Flag(optional)) => reference.optional = optional,
            _ => {}
        }

        scalar.hash_all(hasher)
    }

    fn list<A: SeqAccess<'de>>(self, items: A) -> Result<Fingerprints, A::Error> {
        Opaque::spec(self.hasher, self.depth).0.list(items)
    }

    fn map<A: MapAccess<'de>>(self, entries: A) -> Result<Fingerprints, A::Error> {
        Opaque::spec(self.hasher, self.depth).0.map(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_references_are_known_by_their_ends() {
        let kind = |key: &str| {
            ReferenceKey::of(key)
                .map(|slot| (slot.target.kind(&format!("spec.{key}")), slot.takes_name))
        };
        for (key, expected, takes_name) in [
            ("issuerRef", "", false),
            ("parentRefs", "", false),
            ("secretStoreRef", "", false),
            ("scaleTargetRef", "", false),
            ("valuesFrom", "", false),
            ("secretRef", "Secret", true),
            ("secretKeyRef", "Secret", true),
            ("writeConnectionSecretToRef", "Secret", true),
            ("secretName", "Secret", true),
            ("tlsSecretName", "Secret", true),
            ("imagePullSecrets", "Secret", true),
            ("passwordSecret", "Secret", false),
            ("configMapKeyRef", "ConfigMap", true),
            ("configMap", "ConfigMap", false),
            ("serviceAccountName", "ServiceAccount", true),
            ("claimName", "PersistentVolumeClaim", true),
            ("storageClassName", "StorageClass", true),
            ("ingressClassName", "IngressClass", true),
        ] {
            assert_eq!(kind(key), Some((expected.to_owned(), takes_name)), "{key}");
        }

        for key in [
            "name",
            "replicas",
            "preference",
            "host",
            "template",
            "hostname",
            "commonName",
            "href",
            "steps",
            "",
        ] {
            assert_eq!(kind(key), None, "{key}");
        }
    }
}
