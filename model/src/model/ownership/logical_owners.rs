//! Logical owners: annotations or labels name them, because owner references cannot. They are in
//! another namespace, or of a kind that the garbage collector should not follow.

use std::collections::BTreeMap;

use crate::observation::{ObjectAddress, ObjectView};
use crate::settings::Settings;
use crate::time::Timestamp;

/// The owner that annotations or labels of an object name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogicalOwner {
    pub(crate) address: ObjectAddress,
    /// The key of the annotation or label that names it.
    pub(crate) key: String,
}

/// The parts of an owner under one prefix.
#[derive(Debug, Default)]
struct Parts<'a> {
    kind: Option<&'a str>,
    namespace: Option<&'a str>,
    name: Option<(&'a str, &'a str)>,
}

/// What the watches show about an owner that no owner reference names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Exists,
    /// It does not exist, but no new finding opens before this instant, if there is one.
    Missing(Option<Timestamp>),
    /// The watch that would show it cannot see now.
    Hidden(u16),
    /// No watch would show it.
    Unwatched,
}

/// The annotations of the Operator SDK's handler for owners (operator-lib,
/// `handler/enqueue_annotation.go`).
const SDK: (&str, &str) = ("operator-sdk/primary-resource", "operator-sdk/primary-resource-type");

/// What an owner takes in addition to its texts.
const ENTRY: usize = 256;

impl LogicalOwner {
    /// Returns the owner that the annotations or, if they name none, the labels name. `known` finds
    /// the group and kind of one of the operator's kinds by name; owners of other kinds are not
    /// judged.
    pub(crate) fn read(
        view: &ObjectView,
        settings: &Settings,
        known: impl Fn(&str) -> Option<(String, String)>,
    ) -> Option<Self> {
        let configured = &settings.owner_kind_annotation;
        let names_owner = |key: &String| {
            key.contains("wner") || key.contains("primary-resource") || key == configured
        };
        if !view.annotations.keys().chain(view.labels.keys()).any(names_owner) {
            return None;
        }

        let of_settings = || {
            let named = |key: &str| view.annotations.get(key).filter(|value| !value.is_empty());
            let (group, kind) = known(named(configured)?)?;
            let (key, name) =
                (&settings.owner_name_annotation, named(&settings.owner_name_annotation)?);
            let namespace =
                named(&settings.owner_namespace_annotation).unwrap_or(&view.key.namespace);

            Some(Self::new(group, kind, namespace, name, key))
        };

        let of_sdk = || {
            let (namespace, name) = view.annotations.get(SDK.0)?.split_once('/')?;
            let (group, kind) = known(view.annotations.get(SDK.1)?)?;
            Some(Self::new(group, kind, namespace, name, SDK.0))
        };
        let own = view.key.namespace.as_str();

        of_settings()
            .or_else(of_sdk)
            .or_else(|| Self::from_marks(&view.annotations, own, &known))
            .or_else(|| Self::from_marks(&view.labels, own, &known))
    }

    fn from_marks(
        marks: &BTreeMap<String, String>,
        own: &str,
        known: impl Fn(&str) -> Option<(String, String)>,
    ) -> Option<Self> {
        let mut prefixes: BTreeMap<&str, Parts<'_>> = BTreeMap::new();
        for (key, value) in marks.iter().filter(|(_, value)| !value.is_empty()) {
            let (prefix, name) = key.rsplit_once('/').unwrap_or(("", key));
            let words: String = name.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
            let parts = prefixes.entry(prefix).or_default();

            match words.to_ascii_lowercase().as_str() {
                "ownerkind" => parts.kind = Some(value),
                "ownerns" | "ownernamespace" => parts.namespace = Some(value),
                "ownername" => parts.name = Some((key, value)),
                _ => {}
            }
        }

        prefixes.into_values().find_map(|parts| {
            let (group, kind) = known(parts.kind?)?;
            let (key, name) = parts.name?;
            Some(Self::new(group, kind, parts.namespace.unwrap_or(own), name, key))
        })
    }

    /// Returns what the owner takes, in bytes: its address is also in the index.
    pub(super) fn size(&self) -> usize {
        let ObjectAddress { group, kind, namespace, name } = &self.address;
        ENTRY + 2 * (group.len() + kind.len() + namespace.len() + name.len()) + self.key.len()
    }

    fn new(group: String, kind: String, namespace: &str, name: &str, key: &str) -> Self {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        Self { address: ObjectAddress { group, kind, namespace, name }, key: key.to_owned() }
    }
}
