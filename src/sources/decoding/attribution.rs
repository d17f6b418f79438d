//! Decides which objects without a primary owner look like the operator's own.
//!
//! An operator that forgets an owner reference, or loses one, leaves an object behind that nobody
//! deletes. Such an object resembles its siblings that do have an owner: the same field manager
//! wrote its spec, or it has the same labels. An object may also name its owner in annotations or
//! labels.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher as _, RandomState};

use loopwatch_model::observation::{CLIENT_MANAGERS, GENERIC_MANAGERS, ObjectView, names_kind};

use super::{OWNERSHIP, same_words};

/// The watched primary kinds, as group and kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PrimaryKinds(BTreeSet<(String, String)>);

/// What the owned objects of one watch have in common.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    /// The number of owned objects.
    owned: u32,
    /// By field manager, the number of owned objects whose spec it wrote.
    writers: BTreeMap<String, u32>,
    /// By fingerprint of the ownership labels, the number of owned objects with these labels.
    labels: HashMap<u64, u32>,
}

/// The [`OWNERSHIP`] labels that have the same value on all objects of an operator.
const MANAGERS: [&str; 4] = ["managed-by", "created-by", "owned-by", "part-of"];

/// Annotations and labels that name the kind of an owner.
const OWNER_KINDS: [&str; 4] =
    ["owner-kind", "owner-gvk", "primary-resource-type", "olm.owner.kind"];

/// Further prefixes of field managers and label values that belong to people, to tools that deploy
/// manifests, and to Kubernetes itself.
const OTHERS: [&str; 10] =
    ["ansible", "argo", "k9s", "kapp", "kube-", "kubelet", "mozilla", "olm", "rancher", "skaffold"];

/// Another field manager name that many operators share.
const OPENAPI_GENERATOR: &str = "openapi-generator";

/// Marks of tools that deploy manifests. An object with one of them is not a child.
const DEPLOYED: [&str; 5] = [
    "meta.helm.sh/release-name",
    "argocd.argoproj.io/tracking-id",
    "config.k8s.io/owning-inventory",
    "kustomize.toolkit.fluxcd.io/name",
    "helm.toolkit.fluxcd.io/name",
];

/// Number of owned objects that must share ownership labels before these labels mark the operator's
/// objects.
const SIBLINGS: u32 = 20;
/// Limit on field managers and on sets of labels.
const MOST: usize = 256;

impl PrimaryKinds {
    /// Whether an object of one of these kinds owns `object`.
    pub(crate) fn own(&self, object: &ObjectView) -> bool {
        object.owners.iter().any(|owner| {
            let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
            self.0
                .iter()
                .any(|(own_group, kind)| own_group == group && names_kind(&owner.kind, kind))
        })
    }

    /// Whether a text names one of these kinds: `Widget`, `example.io/v1/Widget`, `example.io/v1,
    /// Kind=Widget` or `Widget.example.io`.
    fn name(&self, text: &str) -> bool {
        let (last, group) = match text.rsplit_once(['/', '=', ' ', ',']) {
            Some((_, kind)) => (kind, None),
            None => text.split_once('.').map_or((text, None), |(kind, group)| (kind, Some(group))),
        };

        self.0.iter().any(|(own, kind)| {
            kind.eq_ignore_ascii_case(last) && group.is_none_or(|group| group.ends_with(own))
        })
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for PrimaryKinds {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(kinds: I) -> Self {
        Self(kinds.into_iter().map(|(group, kind)| (group.to_owned(), kind.to_owned())).collect())
    }
}

impl Evidence {
    /// Learns from an object that belongs to a primary object.
    pub(crate) fn add(&mut self, object: &ObjectView, hasher: &RandomState) {
        self.owned = self.owned.saturating_add(1);
        for name in writers(object) {
            let has_room = self.writers.len() < MOST;
            match self.writers.get_mut(name) {
                Some(number) => *number = number.saturating_add(1),
                None if has_room => _ = self.writers.insert(name.to_owned(), 1),
                None => {}
            }
        }

        if let Some(labels) = ownership_labels(object, hasher)
            && (self.labels.len() < MOST || self.labels.contains_key(&labels))
        {
            let number = self.labels.entry(labels).or_default();
            *number = number.saturating_add(1);
        }
    }

    /// Whether an object that belongs to no primary object looks like one of the operator's.
    pub(crate) fn matches(&self, object: &ObjectView, hasher: &RandomState) -> bool {
        let siblings = ownership_labels(object, hasher).and_then(|labels| self.labels.get(&labels));
        if object.owners.is_empty() && siblings >= Some(&SIBLINGS) {
            return true;
        }

        // Another controller may have written to single objects of the operator.
        let is_common = |number: &u32| *number >= self.owned.div_ceil(2);
        writers(object).any(|name| {
            self.writers.get(name).is_some_and(is_common)
                && (!is_generic(name) || siblings.is_some())
        })
    }
}

/// Whether an object without a primary owner may be one of the operator's, depending on what its
/// siblings have in common.
pub(crate) fn is_candidate(object: &ObjectView) -> bool {
    let has_marks = || object.labels.keys().any(|key| is_one_of(key, &MANAGERS));
    (writers(object).next().is_some() || (object.owners.is_empty() && has_marks()))
        && !DEPLOYED
            .iter()
            .any(|key| object.annotations.contains_key(*key) || object.labels.contains_key(*key))
}

/// Whether annotations or labels of the object name an owner of a primary kind. `configured` are
/// further annotations that may name its kind.
pub(crate) fn names_owner(
    object: &ObjectView,
    owners: &PrimaryKinds,
    configured: &[String],
) -> bool {
    let mut marks = object.annotations.iter().chain(&object.labels);
    marks.any(|(key, value)| {
        (is_one_of(key, &OWNER_KINDS) || configured.contains(key)) && owners.name(value)
    })
}

/// The field managers that wrote the spec, except those that belong to no operator.
fn writers(object: &ObjectView) -> impl Iterator<Item = &str> {
    let wrote = object
        .managers
        .iter()
        .filter(|manager| manager.owns.spec && manager.subresource.is_empty());

    wrote.map(|manager| manager.name.as_str()).filter(|name| !is_other(name))
}

/// The fingerprint of the ownership labels: all their keys, and the values of those that name the
/// operator. `None` if no label names it.
fn ownership_labels(object: &ObjectView, hasher: &RandomState) -> Option<u64> {
    let mut found: Vec<(&str, &str)> = Vec::new();
    let mut is_named = false;
    for (key, value) in &object.labels {
        if is_one_of(key, &MANAGERS) {
            if is_other(value) {
                return None;
            }

            is_named = true;
            found.push((key, value));
        } else if is_one_of(key, &OWNERSHIP) {
            found.push((key, ""));
        }
    }

    is_named.then(|| hasher.hash_one(found))
}

/// Whether the last part of a name is one of these words.
fn is_one_of(key: &str, words: &[&str]) -> bool {
    let name = key.rsplit_once('/').map_or(key, |(_, name)| name);
    words.iter().any(|word| same_words(name, word))
}

fn is_other(name: &str) -> bool {
    let begins = |word: &&'static str| {
        name.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
    };
    CLIENT_MANAGERS.iter().chain(&OTHERS).any(begins)
}

/// Whether many operators use this field manager name.
fn is_generic(name: &str) -> bool {
    GENERIC_MANAGERS
        .iter()
        .chain(&[OPENAPI_GENERATOR])
        .any(|generic| name.eq_ignore_ascii_case(generic))
}
