//! Who can write the configuration file, and thus which keys it may set.
//!
//! In a Pod, the file is usually a ConfigMap. Many accounts may write ConfigMaps, and loopwatch
//! has the permissions of the operator. A key that decides where loopwatch connects would therefore
//! give each of these accounts the operator's token.

use crate::config::variable;
use crate::system::own_pod::in_pod;

/// Who can write the configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Author {
    /// A user of this machine, who can also run loopwatch with any flag.
    User,
    /// Everybody who may write the ConfigMap, because this process runs in a Pod.
    Cluster,
}

/// The flags that a file of the cluster may set: thresholds, limits, silences, the display, and how
/// much loopwatch reads of the cluster and the operator, within the permissions of its account. All
/// other flags belong to the Pod's spec, including each new one.
const FOR_THE_CLUSTER: [&str; 10] = [
    "children",
    "deadline",
    "exclude-namespace",
    "max-object-series",
    "max-watches",
    "object-series",
    "orphan-allow",
    "profiles",
    "scrape-interval",
    "team-label",
];

impl Author {
    /// The author of the file that this process reads.
    #[must_use]
    pub(crate) fn of_environment() -> Self {
        if in_pod() { Self::Cluster } else { Self::User }
    }

    /// Whether the author may decide who reaches the port.
    pub(super) fn decides_access(self) -> bool {
        self == Self::User
    }

    /// Whether the author may set the flag `name`.
    pub(super) fn may_set(self, name: &str) -> bool {
        self == Self::User || FOR_THE_CLUSTER.contains(&name)
    }
}

/// The problem with the keys that the author of the file may not set, each with the name of its
/// flag; `None` if there are none.
pub(super) fn refusal(keys: &[(String, String)]) -> Option<String> {
    let (_, flag) = keys.first()?;
    let keys: Vec<&str> = keys.iter().map(|(key, _)| key.as_str()).collect();

    Some(format!(
        "{}: not allowed in a file in a Pod, because everybody who may write the ConfigMap could then decide where loopwatch \
         connects, listens, sends or reads; use flags (--{flag}) or variables ({}) in the Pod's spec",
        keys.join(", "),
        variable(flag)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The chart writes the file of the cluster, so it refuses other keys before anything changes.
    #[test]
    fn the_chart_accepts_exactly_the_keys_of_the_cluster() {
        let schema = include_str!("../../../deploy/chart/loopwatch/values.schema.json");
        let schema: serde_json::Value = serde_json::from_str(schema).unwrap();
        let config = schema["properties"]["config"]["properties"].as_object().unwrap();
        let flags = FOR_THE_CLUSTER.iter().map(|flag| flag.replace('-', "_"));
        let mut wanted: Vec<String> =
            flags.chain(["settings", "findings"].map(str::to_owned)).collect();

        wanted.sort();
        assert!(config.keys().eq(&wanted), "{:?}, {wanted:?}", config.keys());
    }
}
