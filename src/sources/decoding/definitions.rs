//! Decodes custom resource definitions: their served and stored versions, and how they declare a
//! status.

use loopwatch_model::observation::{DefinitionView, StatusSchema};
use loopwatch_model::time::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::documents::{ConditionDocument, ObjectMetadata, conditions, or_default};
use crate::net::Failure;

#[derive(Default, Deserialize)]
#[serde(default)]
struct DefinitionDocument {
    metadata: ObjectMetadata,
    spec: DefinitionSpecDocument,
    status: DefinitionStatusDocument,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DefinitionSpecDocument {
    group: String,
    names: DefinitionNamesDocument,
    versions: Vec<DefinitionVersionDocument>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DefinitionNamesDocument {
    kind: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DefinitionVersionDocument {
    name: String,
    served: bool,
    storage: bool,
    schema: Option<DefinitionSchemaDocument>,
    subresources: Option<DefinitionSubresourcesDocument>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DefinitionSchemaDocument {
    #[serde(rename = "openAPIV3Schema")]
    root: Option<DefinitionRootDocument>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DefinitionRootDocument {
    properties: Option<DefinitionPropertiesDocument>,
    #[serde(rename = "x-kubernetes-preserve-unknown-fields")]
    open: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DefinitionPropertiesDocument {
    status: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DefinitionSubresourcesDocument {
    status: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct DefinitionStatusDocument {
    /// `null` in the first event of a new definition.
    #[serde(deserialize_with = "or_default")]
    conditions: Vec<ConditionDocument>,
    #[serde(deserialize_with = "or_default")]
    stored_versions: Vec<String>,
}

/// Decodes one definition and its resource version.
pub(crate) fn definition(object: &[u8]) -> Result<(DefinitionView, String), Failure> {
    let DefinitionDocument { metadata, spec, status } =
        serde_json::from_slice(object).map_err(|e| Failure::undecodable(&e))?;
    let storage = spec.versions.iter().find(|version| version.storage);
    let view = DefinitionView {
        name: metadata.name,
        group: spec.group,
        kind: spec.names.kind,
        served: spec
            .versions
            .iter()
            .filter(|version| version.served)
            .map(|version| version.name.clone())
            .collect(),
        storage: storage.map(|version| version.name.clone()).unwrap_or_default(),
        stored: status.stored_versions,
        status: storage.map_or(StatusSchema::Unknown, status_schema),
        conditions: conditions(status.conditions),
        created: metadata.creation_timestamp.and_then(|time| Timestamp::parse(&time)),
        deleted: metadata.deletion_timestamp.and_then(|time| Timestamp::parse(&time)),
    };

    Ok((view, metadata.resource_version))
}

fn status_schema(version: &DefinitionVersionDocument) -> StatusSchema {
    let root = version.schema.as_ref().and_then(|schema| schema.root.as_ref());
    let in_schema =
        root.and_then(|root| root.properties.as_ref()).is_some_and(|p| p.status.is_some());
    match version.subresources.as_ref().and_then(|subresources| subresources.status.as_ref()) {
        Some(_) => StatusSchema::Subresource,
        None if in_schema => StatusSchema::InBody,
        None if root.is_none_or(|root| root.open == Some(true)) => StatusSchema::Unknown,
        None => StatusSchema::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_says_when_it_was_created_and_how_it_reports_status() {
        let json = br#"{"metadata":{"name":"ws.a.io","resourceVersion":"7","creationTimestamp":"2026-01-01T00:00:00Z"},
            "spec":{"group":"a.io","names":{"kind":"W"},"versions":[{"name":"v1","served":true,"storage":true,
            "schema":{"openAPIV3Schema":{"properties":{"status":{}}}}}]}}"#;
        let (view, version) = definition(json).unwrap_or_else(|failure| panic!("{failure}"));

        assert_eq!((view.created, view.deleted), (Timestamp::parse("2026-01-01T00:00:00Z"), None));
        assert_eq!((view.status, version.as_str()), (StatusSchema::InBody, "7"));
    }

    #[test]
    fn a_new_definition_has_null_instead_of_conditions() {
        let json = br#"{"metadata":{"name":"ws.a.io"},"spec":{"group":"a.io"},
            "status":{"conditions":null,"acceptedNames":{"plural":"","kind":""},"storedVersions":null}}"#;
        let (view, _) = definition(json).unwrap_or_else(|failure| panic!("{failure}"));

        assert_eq!(
            (view.name.as_str(), view.conditions.len(), view.stored.len()),
            ("ws.a.io", 0, 0)
        );
    }
}
