//! Decodes metadata and conditions, for documents from which loopwatch reads little else.

use loopwatch_model::observation::{Condition, ConditionStatus};
use loopwatch_model::time::Timestamp;
use serde::{Deserialize, Deserializer};

/// `metadata` of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ListMetadata {
    pub(crate) resource_version: String,
    #[serde(rename = "continue")]
    pub(crate) token: String,
    pub(crate) remaining_item_count: Option<u64>,
}

/// `metadata` of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ObjectMetadata {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) resource_version: String,
    pub(crate) creation_timestamp: Option<String>,
    pub(crate) deletion_timestamp: Option<String>,
}

/// `metav1.Condition`, and the similar conditions of definitions and namespaces.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ConditionDocument {
    r#type: String,
    status: String,
    reason: String,
    message: String,
    last_transition_time: Option<String>,
}

/// Limit on the conditions of one object.
const MOST: usize = 32;

/// Reads `null` as the default: Go writes an empty list as `null`.
pub(crate) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// The conditions of an object, with truncated texts.
pub(crate) fn conditions(documents: Vec<ConditionDocument>) -> Vec<Condition> {
    documents.into_iter().take(MOST).map(condition).collect()
}

fn condition(document: ConditionDocument) -> Condition {
    let ConditionDocument { r#type, status, reason, message, last_transition_time } = document;
    Condition {
        r#type: r#type.chars().take(316).collect(), // longer ones are invalid
        status: match status.as_str() {
            "True" => ConditionStatus::True,
            "False" => ConditionStatus::False,
            "Unknown" => ConditionStatus::Unknown,
            _ => ConditionStatus::Absent,
        },
        reason: reason.chars().take(128).collect(),
        message: message.chars().take(256).collect(),
        changed: last_transition_time.and_then(|time| Timestamp::parse(&time)),
        ..Condition::default()
    }
}
