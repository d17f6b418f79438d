//! Decodes an object into its slim view, in one pass, whatever its shape.
//!
//! ```text
//!  JSON or YAML ─▶ object ─┬─ metadata ─▶ identity, owners, finalizers, managers, marks
//!                          ├─ status ───▶ fingerprints, conditions, facts
//!                          ├─ spec ─────▶ fingerprint, facts, pause switches, references
//!                          └─ the rest ─▶ fingerprint
//! ```
//!
//! The model needs more of some kinds (see [`Extra`]).
//!
//! The decoder builds no tree and keeps only the parts of the body that the model judges. A field
//! of an unexpected type counts as absent and adds a lint. Decoding fails only if the text is not
//! JSON or the object has no name.

mod admission;
mod attempts;
mod body;
mod conditions;
mod attribution;
mod definitions;
mod documents;
mod fields;
mod hash;
mod limits;
mod lint;
mod managers;
mod marks;
mod metadata;
mod opaque;
mod pause;
mod references;
mod shape;
mod switches;
mod template;
mod walk;
mod words;

use kube::api::TypeMeta;
use loopwatch_model::observation::ObjectView;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess};

pub(crate) use self::admission::{
    EndpointSlice, SERVICE_NAME, WebhookConfiguration, endpoint_slice, webhook_configuration,
};
pub(crate) use self::attribution::{Evidence, PrimaryKinds, is_candidate, names_owner};
use self::body::{SpecBody, StatusBody};
pub(crate) use self::definitions::definition;
pub(crate) use self::documents::{
    ConditionDocument, ListMetadata, ObjectMetadata, conditions, or_default,
};
pub use self::hash::HashKey;
use self::hash::{FingerprintSum, Hasher};
use self::limits::MAX_NAME;
use self::lint::Lints;
pub(crate) use self::marks::{OWNERSHIP, same_words};
use self::metadata::MetadataBody;
use self::opaque::Opaque;
use self::shape::{AnyShape, FieldValue, MapKey, Scalar, TextField, Visit};
use self::switches::Switches;
use self::walk::Walk;
pub(crate) use self::words::{cut, truncate};

/// How to decode objects.
#[derive(Clone, Copy, Debug)]
pub struct DecodeOptions<'a> {
    /// The key of the fingerprints.
    pub key: &'a HashKey,
    /// Further annotations, with their prefixes, that the view keeps.
    pub annotations: &'a [String],
    /// What else the model needs.
    pub extra: Extra,
}

/// What else the model needs from the objects of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extra {
    /// Nothing.
    #[default]
    None,
    /// The ConfigMaps and Secrets that the Pods of a workload read only when they start.
    Startup,
    /// A fingerprint of the metadata of a ConfigMap or a Secret.
    Marks,
}

/// The reason why an object cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The text is not JSON.
    #[error("invalid JSON: {0}")]
    Json(serde_json::Error),
    /// The text is not an object with `metadata.name`.
    #[error("the object has no metadata.name")]
    Nameless,
}

/// Decodes an object from any deserializer. `ObjectView::bytes` stays 0: only the caller knows the
/// length of the text.
pub struct ObjectSeed<'a> {
    options: DecodeOptions<'a>,
    /// Receives `apiVersion` and `kind`. A watch knows both, so it leaves them out.
    type_meta: Option<&'a mut TypeMeta>,
}

/// The top-level fields.
#[derive(Clone, Copy, Default)]
enum TopLevelField {
    ApiVersion,
    Kind,
    Metadata,
    #[default]
    Other,
    Spec,
    Status,
}

/// Decodes one object of a known kind.
///
/// # Errors
/// If the text is not JSON, or has no `metadata.name`.
pub fn object<'a>(
    json: &[u8],
    options: impl Into<DecodeOptions<'a>>,
) -> Result<ObjectView, DecodeError> {
    let options = options.into();
    let mut view = from_json(json, ObjectSeed { options, type_meta: None })?;
    if options.extra == Extra::Startup {
        view.startup = template::startup_reads(json);
    }

    if view.key.name.is_empty() { Err(DecodeError::Nameless) } else { Ok(view) }
}

/// Decodes one object of any kind, possibly without a name.
///
/// # Errors
/// If the text is not JSON.
pub fn object_with_type<'a>(
    json: &[u8],
    options: impl Into<DecodeOptions<'a>>,
) -> Result<(TypeMeta, ObjectView), DecodeError> {
    let mut type_meta = TypeMeta::default();
    let view = from_json(json, ObjectSeed::with_type(options.into(), &mut type_meta))?;
    Ok((type_meta, view))
}

fn from_json(json: &[u8], seed: ObjectSeed<'_>) -> Result<ObjectView, serde_json::Error> {
    // Checking the whole text for UTF-8 at once costs a tenth of checking each string.
    let mut view = match std::str::from_utf8(json) {
        Ok(text) => to_end(seed, &mut serde_json::Deserializer::from_str(text))?,
        Err(_) => to_end(seed, &mut serde_json::Deserializer::from_slice(json))?,
    };

    view.bytes = u32::try_from(json.len()).unwrap_or(u32::MAX);
    Ok(view)
}

/// Decodes a whole text: nothing may follow the object.
fn to_end<'de, R: serde_json::de::Read<'de>>(
    seed: ObjectSeed<'_>,
    deserializer: &mut serde_json::Deserializer<R>,
) -> Result<ObjectView, serde_json::Error> {
    let view = seed.deserialize(&mut *deserializer)?;
    deserializer.end()?;
    Ok(view)
}

impl From<serde_json::Error> for DecodeError {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(error)
    }
}

impl<'a> From<&'a HashKey> for DecodeOptions<'a> {
    fn from(key: &'a HashKey) -> Self {
        Self { key, annotations: &[], extra: Extra::None }
    }
}

impl Extra {
    pub fn of(group: &str, resource: &str) -> Self {
        match (group, resource) {
            ("apps", "deployments" | "statefulsets" | "daemonsets") => Self::Startup,
            ("", "configmaps" | "secrets") => Self::Marks,
            _ => Self::None,
        }
    }
}

impl std::fmt::Debug for HashKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HashKey(secret)")
    }
}

impl<'a> ObjectSeed<'a> {
    /// Decodes an object and writes its `apiVersion` and `kind` to `type_meta`.
    pub fn with_type(options: DecodeOptions<'a>, type_meta: &'a mut TypeMeta) -> Self {
        Self { options, type_meta: Some(type_meta) }
    }
}

impl<'de> DeserializeSeed<'de> for ObjectSeed<'_> {
    type Value = ObjectView;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<ObjectView, D::Error> {
        deserializer.deserialize_any(Visit(self))
    }
}

impl<'de> AnyShape<'de> for ObjectSeed<'_> {
    type Out = ObjectView;

    fn scalar(self, _: Scalar<'_>) -> ObjectView {
        ObjectView::default()
    }

    fn map<A: MapAccess<'de>>(self, mut entries: A) -> Result<ObjectView, A::Error> {
        let Self { options, mut type_meta } = self;
        let hasher = Hasher::new(options.key);
        let mut view = ObjectView::default();
        let (mut lints, mut switches, mut spec) =
            (Lints::default(), Switches::default(), FingerprintSum::default());
        let mut walk = Walk {
            hasher,
            view: &mut view,
            lints: &mut lints,
            switches: &mut switches,
            path: String::with_capacity(64),
            nested: 0,
            nonzero: false,
        };

        let (mut has_spec, mut marks) = (false, FingerprintSum::default());
        let seed = |key: &str| (hasher.text(key), TopLevelField::of(key));
        while let Some((hash, field)) = entries.next_key_seed(MapKey(seed))? {
            match (field, type_meta.as_deref_mut()) {
                (TopLevelField::ApiVersion, Some(type_meta)) => {
                    type_meta.api_version = name(&mut entries)?
                }
                (TopLevelField::Kind, Some(type_meta)) => type_meta.kind = name(&mut entries)?,
                (TopLevelField::ApiVersion | TopLevelField::Kind, None) => {
                    let _: IgnoredAny = entries.next_value()?;
                }
                (TopLevelField::Metadata, _) => {
                    let (view, lints, switches) =
                        (&mut *walk.view, &mut *walk.lints, &mut *walk.switches);
                    let annotations = options.annotations;
                    let marks = (options.extra == Extra::Marks).then_some((&hasher, &mut marks));

                    entries.next_value_seed(Visit(MetadataBody {
                        view,
                        lints,
                        switches,
                        annotations,
                        marks,
                    }))?;
                }
                (TopLevelField::Status, _) => {
                    walk.path.push_str("status");
                    let status = entries.next_value_seed(Visit(StatusBody(&mut walk)))?;
                    walk.path.clear();
                    walk.view.hashes.status = status.full;
                    walk.view.hashes.settled = status.settled.unwrap_or_default();
                }
                (TopLevelField::Spec, _) => {
                    walk.path.push_str("spec");
                    let value = entries
                        .next_value_seed(Visit(SpecBody { walk: &mut walk, parent: None }))?;
                    walk.path.clear();
                    spec.entry(&hasher, hash, value);
                    has_spec = true;
                }
                (TopLevelField::Other, _) => {
                    let value = entries.next_value_seed(Opaque::spec(&hasher, 1))?;
                    spec.entry(&hasher, hash, value);
                    has_spec = true;
                }
            }
        }

        drop(walk);
        view.hashes.spec = if has_spec { spec.map(&hasher).full } else { 0 };
        view.name_hash = hasher.text(&view.key.name);

        if options.extra == Extra::Marks {
            metadata::add_owners_and_finalizers(&view, &hasher, &mut marks);
            view.marks_hash = marks.map(&hasher).full.max(1);
        }

        view.paused = switches.into_pause();

        // A stable sort: conditions of the top level come first, all others stay in document order.
        view.conditions.sort_by_key(|condition| !condition.at.is_empty());
        view.lints = lints.words();
        Ok(view)
    }
}

/// Reads a short text; anything else is empty.
fn name<'de, A: MapAccess<'de>>(entries: &mut A) -> Result<String, A::Error> {
    Ok(
        match entries
            .next_value_seed(TextField::new(|text: &str| words::cut(text, MAX_NAME).to_owned()))?
        {
            FieldValue::Is(text) => text,
            FieldValue::Absent | FieldValue::Wrong => String::new(),
        },
    )
}

impl TopLevelField {
    fn of(key: &str) -> Self {
        match key {
            "apiVersion" => Self::ApiVersion,
            "kind" => Self::Kind,
            "metadata" => Self::Metadata,
            "spec" => Self::Spec,
            "status" => Self::Status,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests;
