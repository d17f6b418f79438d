//! A label that the user adds to all alerts.

use std::str::FromStr;

/// A name and a value, written as `NAME=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AlertLabel {
    name: String,
    value: String,
}

/// The labels that loopwatch sets itself.
const RESERVED: [&str; 6] =
    ["alertname", "finding", "group", "kind", "severity", "target_namespace"];

impl AlertLabel {
    pub(super) fn into_pair(self) -> (String, String) {
        (self.name, self.value)
    }
}

impl FromStr for AlertLabel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) =
            text.split_once('=').ok_or("expected NAME=VALUE, for example cluster=production")?;
        let mut characters = name.chars();
        let begins = characters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');

        if !begins
            || !characters.all(|c| c.is_ascii_alphanumeric() || c == '_')
            || name.starts_with("__")
        {
            return Err(format!(
                "{name:?} is no name of a label: expected letters, digits and underscores"
            ));
        }

        if RESERVED.contains(&name) {
            return Err(format!("loopwatch sets the label {name} itself"));
        }

        if value.is_empty() {
            return Err(format!("the value of {name} is empty, so the label would not exist"));
        }

        Ok(Self { name: name.to_owned(), value: value.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_has_a_name_and_a_value() {
        let label: AlertLabel = "cluster=a=b".parse().expect("a label");
        assert_eq!(label.into_pair(), ("cluster".to_owned(), "a=b".to_owned()));
    }

    #[test]
    fn a_wrong_label_is_explained() {
        for (text, expected) in [
            ("cluster", "expected NAME=VALUE"),
            ("=x", "is no name of a label"),
            ("9lives=x", "is no name of a label"),
            ("__name__=x", "is no name of a label"),
            ("my-cluster=x", "is no name of a label"),
            ("severity=none", "loopwatch sets the label severity itself"),
            ("cluster=", "is empty"),
        ] {
            let error = text.parse::<AlertLabel>().expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
