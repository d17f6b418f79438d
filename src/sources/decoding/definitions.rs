//! Decodes custom resource definitions: their served and stored versions, and how they declare a
//! status.

use loopwatch_model::observation::{DefinitionView, StatusSchema};
use loopwatch_model::time::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::admission::{ClientDocument, conversion};
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
#[serde(default, rename_all = "camelCase")]
struct DefinitionSpecDocument {
    group: String,
    names: DefinitionNamesDocument,
    preserve_unknown_fields: bool,
    conversion: Option<ConversionDocument>,
    versions: Vec<DefinitionVersionDocument>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ConversionDocument {
    webhook: Option<ConversionWebhookDocument>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ConversionWebhookDocument {
    client_config: Option<ClientDocument>,
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
    spec: Option<DefinitionPartDocument>,
    status: Option<DefinitionPartDocument>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct DefinitionPartDocument {
    properties: Option<IgnoredAny>,
    additional_properties: Option<IgnoredAny>,
    #[serde(rename = "x-kubernetes-preserve-unknown-fields")]
    open: Option<bool>,
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
        drops_status: storage.is_some_and(drops_status) && !spec.preserve_unknown_fields,
        keeps_unknown: storage
            .map(|version| keeps_unknown(version, spec.preserve_unknown_fields))
            .unwrap_or_default(),
        conversion: spec
            .conversion
            .and_then(|conversion| conversion.webhook?.client_config)
            .and_then(conversion),
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

/// Returns whether the API server drops each field of the status, because the schema declares none.
fn drops_status(version: &DefinitionVersionDocument) -> bool {
    let Some(root) = version.schema.as_ref().and_then(|schema| schema.root.as_ref()) else {
        return false;
    };
    let has_subresource =
        version.subresources.as_ref().is_some_and(|subresources| subresources.status.is_some());
    let status = root.properties.as_ref().and_then(|properties| properties.status.as_ref());
    let declares_none = status.is_none_or(|status| {
        status.properties.is_none() && status.additional_properties.is_none() && !status.is_open()
    });

    has_subresource && declares_none && root.open != Some(true)
}

/// Returns the parts of an object in which the API server keeps fields that the schema does not declare.
fn keeps_unknown(version: &DefinitionVersionDocument, everywhere: bool) -> Vec<String> {
    let root = version.schema.as_ref().and_then(|schema| schema.root.as_ref());
    let properties = root.and_then(|root| root.properties.as_ref());
    let is_open = |part: Option<&DefinitionPartDocument>| part.is_some_and(|part| part.is_open());

    let parts = [
        ("root", everywhere || root.is_some_and(|root| root.open == Some(true))),
        ("spec", is_open(properties.and_then(|parts| parts.spec.as_ref()))),
        ("status", is_open(properties.and_then(|parts| parts.status.as_ref()))),
    ];
    parts.into_iter().filter(|(_, open)| *open).map(|(name, _)| name.to_owned()).collect()
}

impl DefinitionPartDocument {
    fn is_open(&self) -> bool {
        self.open == Some(true)
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
    fn a_definition_says_what_its_schema_leaves_out() {
        let incomplete = |spec: &str, status: &str, more: &str| {
            let json = format!(
                r#"{{"metadata":{{"name":"ws.a.io"}},"spec":{{"group":"a.io"{more},"versions":[
                {{"name":"v1alpha1","schema":{{"openAPIV3Schema":{{"x-kubernetes-preserve-unknown-fields":true}}}}}},
                {{"name":"v1","storage":true,"subresources":{{"status":{{}}}},
                "schema":{{"openAPIV3Schema":{{"properties":{{"spec":{spec}{status}}}}}}}}}]}}}}"#
            );
            let (view, _) =
                definition(json.as_bytes()).unwrap_or_else(|failure| panic!("{failure}"));
            (view.drops_status, view.keeps_unknown.join(" "))
        };
        let (open, typed) = (
            r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true}"#,
            r#"{"type":"object","properties":{"template":{"x-kubernetes-preserve-unknown-fields":true}}}"#,
        );
        let status = |schema: &str| format!(r#","status":{schema}"#);

        assert_eq!(incomplete(typed, &status(typed), ""), (false, String::new()));
        assert_eq!(incomplete(typed, "", ""), (true, String::new()));
        assert_eq!(incomplete(typed, &status(r#"{"type":"object"}"#), ""), (true, String::new()));
        assert_eq!(incomplete(typed, &status(open), ""), (false, "status".to_owned()));
        assert_eq!(incomplete(open, &status(typed), ""), (false, "spec".to_owned()));
        let map = status(r#"{"additionalProperties":{"type":"string"}}"#);
        assert_eq!(incomplete(typed, &map, ""), (false, String::new()));
        let everywhere = r#","preserveUnknownFields":true"#;
        assert_eq!(incomplete(typed, "", everywhere), (false, "root".to_owned()));
    }

    #[test]
    fn a_definition_names_the_service_of_its_conversion() {
        let conversion = |conversion: &str| {
            let json = format!(
                r#"{{"metadata":{{"name":"ws.a.io"}},"spec":{{"group":"a.io","conversion":{conversion}}}}}"#
            );
            let (view, _) =
                definition(json.as_bytes()).unwrap_or_else(|failure| panic!("{failure}"));
            view.conversion.map(|conversion| conversion.service)
        };
        let webhook = |client: &str| {
            format!(r#"{{"strategy":"Webhook","webhook":{{"clientConfig":{client}}}}}"#)
        };

        let service = webhook(r#"{"service":{"namespace":"op","name":"hook"}}"#);
        assert_eq!(conversion(&service), Some("op/hook".to_owned()));
        assert_eq!(conversion(&webhook(r#"{"url":"https://example.com"}"#)), None);
        assert_eq!(conversion(r#"{"strategy":"None"}"#), None);
        assert_eq!(conversion("null"), None);
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
