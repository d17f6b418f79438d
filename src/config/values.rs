//! Parses the values of flags.

use std::net::SocketAddr;
use std::time::Duration;

use loopwatch_model::time::Span;

use super::{DEFAULT_PORT, WebAuth};
use crate::export::metrics::ObjectSeries;
use crate::sources::api_server::{ChildSelection, OperatorName, SecretAccess};
use crate::sources::operator::{MIN_INTERVAL, ProcessSelection};

/// Parses one of a few words: `expected auto or none, not "x"`.
pub(crate) fn one_of<T: Copy>(text: &str, words: &[(&str, T)]) -> Result<T, String> {
    let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let mut names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let last = names.pop().unwrap_or_default();
        format!("expected {} or {last}, not {text:?}", names.join(", "))
    })
}

pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!("expected ADDRESS:PORT, for example 0.0.0.0:{DEFAULT_PORT}, not {text:?}")
    })
}

pub(super) fn namespace(text: &str) -> Result<String, String> {
    if is_label(text) {
        return Ok(text.to_owned());
    }

    Err(format!("expected the name of a namespace, for example team-a, not {text:?}"))
}

/// Whether a text is a DNS label, as the names of namespaces are. Nothing else can have that name.
pub(super) fn is_label(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=63).contains(&text.len())
        && text.chars().all(is_part)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

pub(super) fn label_key(text: &str) -> Result<String, String> {
    let is_key = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    if !text.is_empty() && text.matches('/').count() <= 1 && text.chars().all(is_key) {
        return Ok(text.to_owned());
    }

    Err(format!("expected the key of a label, for example team or example.io/team, not {text:?}"))
}

pub(crate) fn operator_name(text: &str) -> Result<OperatorName, String> {
    match text.split_once('/') {
        Some((namespace, name))
            if !namespace.is_empty() && !name.is_empty() && !name.contains('/') =>
        {
            Ok(OperatorName { namespace: namespace.to_owned(), name: name.to_owned() })
        }
        _ => Err(format!("expected NAMESPACE/DEPLOYMENT, not {text:?}")),
    }
}

pub(super) fn children(text: &str) -> Result<ChildSelection, String> {
    one_of(text, &[("auto", ChildSelection::Auto), ("none", ChildSelection::None)])
}

pub(super) fn secrets(text: &str) -> Result<SecretAccess, String> {
    let values = [
        ("named", SecretAccess::Named),
        ("metadata", SecretAccess::Metadata),
        ("off", SecretAccess::Off),
    ];
    one_of(text, &values)
}

pub(super) fn web_auth(text: &str) -> Result<WebAuth, String> {
    one_of(text, &[("none", WebAuth::None), ("kubernetes", WebAuth::Kubernetes)])
}

pub(super) fn scrape_interval(text: &str) -> Result<Duration, String> {
    let interval = Duration::from_millis(Span::parse(text)?.0.unsigned_abs());
    if interval < MIN_INTERVAL {
        return Err(format!("expected at least {} s, not {text:?}", MIN_INTERVAL.as_secs()));
    }

    Ok(interval)
}

pub(super) fn process(text: &str) -> Result<ProcessSelection, String> {
    match text.parse() {
        Ok(pid) if pid > 0 => Ok(ProcessSelection::Pid(pid)),
        _ => Err(format!("expected the number of a process, not {text:?}")),
    }
}

pub(super) fn object_series(text: &str) -> Result<ObjectSeries, String> {
    one_of(text, &[("unhealthy", ObjectSeries::Unhealthy), ("all", ObjectSeries::All)])
}

pub(super) fn whole_number(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("expected a whole number, not {text:?}"))
}
