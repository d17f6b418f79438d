//! Calls of webhooks and evaluations of admission policies that failed, in the words of the API server.
//! Operators copy these words into statuses and Events.

use serde::{Deserialize, Serialize};

use super::MAX_DETAIL;

/// A call of a webhook, or an evaluation of an admission policy, that failed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FailedCall {
    /// The webhook or the policy.
    #[serde(flatten)]
    pub consulted: Consulted,
    /// The Service of the webhook, as `namespace/name`; empty if the text names none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub service: String,
    /// Why it failed.
    #[serde(default)]
    pub cause: CallFailure,
}

/// Whom the API server consults about a request, or an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Consulted {
    /// A validating or mutating webhook, by its name.
    Admission(String),
    /// The conversion webhook of a kind.
    Conversion {
        /// API group.
        group: String,
        /// Kind.
        kind: String,
    },
    /// An admission policy, which the API server evaluates by itself.
    Policy {
        /// Whether it is a `MutatingAdmissionPolicy`, not a `ValidatingAdmissionPolicy`.
        mutating: bool,
        /// Its name.
        name: String,
    },
}

/// Why a call failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallFailure {
    /// The Service does not exist, or has no Pod that is ready.
    NoEndpoints,
    /// Nothing listens there, or the connection broke.
    Connection,
    /// No answer in time.
    Timeout,
    /// The API server does not trust the certificate.
    Certificate,
    /// An expression of the policy cannot be evaluated.
    Expression,
    /// The policy or its binding refers to a resource that is missing, or is invalid in another way.
    Configuration,
    /// Any other cause, or the text ends before it.
    #[default]
    Other,
}

/// The words before the name of an admission webhook.
const ADMISSION: &str = "failed calling webhook ";

/// The words before the kind of a conversion.
const CONVERSION: &str = "conversion webhook for ";

/// The words before the name of a policy, and whether it is mutating. Only a validating policy can refuse a
/// request without a failure.
const POLICIES: [(&str, bool); 3] =
    [("ValidatingAdmissionPolicy '", false), (": policy '", true), (": policy \"", true)];

/// What the API server says about an expression that it cannot evaluate, around the expression.
const EXPRESSION: (&str, &str) = ("xpression '", "' resulted in error: ");

/// The words before the reason why a policy or a binding cannot be used.
const CONFIGURATION: [&str; 2] = ["failed to configure policy: ", "failed to configure binding: "];

/// The words between the names of a policy and of its binding.
const BINDING: &str = " with binding '";

/// The words before the reason of a policy.
const DENIED: &str = " denied request: ";

/// A webhook has answered: its answer may contain any words.
const ANSWERED: &str = "denied the request";

/// The longest name of a webhook, a group or a Service, in bytes.
const MAX_NAME: usize = 253;

/// The words of Go and of the API server, in lower case, by cause. The first that occurs decides.
const CAUSES: [(CallFailure, &[&str]); 4] = [
    (CallFailure::Certificate, &["x509:", "tls:"]),
    (CallFailure::NoEndpoints, &["no endpoints available", "not found"]),
    (CallFailure::Timeout, &["deadline exceeded", "timeout exceeded", "i/o timeout", "timed out"]),
    (CallFailure::Connection, &["refused", "connection reset", "no route to host", ": eof"]),
];

impl FailedCall {
    /// Returns the failed call that a text reports. A text that ends within the name of the webhook
    /// reports none, because half a name is another one.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        if !names_a_gatekeeper(text) {
            return None;
        }

        let admission = || Self::admission(text);
        admission().or_else(|| Self::conversion(text)).or_else(|| Self::policy(text))
    }

    /// Returns the failed call that a source has read from a whole text, or else the one in the `text` that
    /// is left of it: recordings by older versions have only that.
    #[must_use]
    pub fn known_or_read(known: Option<&Self>, text: &str) -> Option<Self> {
        known.cloned().or_else(|| Self::read(text))
    }

    fn admission(text: &str) -> Option<Self> {
        let (before, after) = text.split_once(ADMISSION)?;
        let after = after.trim_start_matches(is_quote);
        let (name, rest) = after.split_at(after.find(is_quote)?);
        let is_answer = before.contains(ANSWERED);

        (!is_answer && is_domain(name))
            .then(|| Self::of(Consulted::Admission(name.to_owned()), rest))
    }

    fn conversion(text: &str) -> Option<Self> {
        let (before, after) = text.split_once(CONVERSION)?;
        let (version, after) = after.split_once(", Kind=")?;
        let (group, _) = version.split_once('/')?;
        let (kind, rest) = after.split_at(after.find(|c: char| !c.is_ascii_alphanumeric())?);
        let is_kind = (1..=MAX_NAME).contains(&kind.len());
        if before.contains(ANSWERED) || !is_kind || !is_domain(group) {
            return None;
        }

        let (group, kind) = (group.to_owned(), kind.to_owned());
        Some(Self::of(Consulted::Conversion { group, kind }, rest))
    }

    /// Reads the words about a policy whose evaluation fails. A validating policy may also deny the request,
    /// and a mutating one may not.
    fn policy(text: &str) -> Option<Self> {
        let found = POLICIES.iter().find_map(|(words, mutating)| {
            let (before, after) = text.split_once(words)?;
            Some((before, after, *mutating))
        });
        let (before, after, mutating) = found?;
        let (name, rest) = after.split_at(after.find(is_quote)?);
        let rest = &rest[1..];
        let (is_bound, rest) = match rest.strip_prefix(BINDING) {
            Some(rest) => (true, &rest[rest.find(is_quote)? + 1..]),
            None => (false, rest),
        };
        let cause = CallFailure::of_policy(rest.strip_prefix(DENIED)?);
        if before.contains(ANSWERED) || !is_domain(name) {
            return None;
        }

        let cause = cause.or((mutating && is_bound).then_some(CallFailure::Other))?;
        let consulted = Consulted::Policy { mutating, name: name.to_owned() };
        Some(Self { consulted, service: String::new(), cause })
    }

    fn of(consulted: Consulted, rest: &str) -> Self {
        let rest = &rest[..rest.floor_char_boundary(MAX_DETAIL)];
        let (service, cause) = (service(rest).unwrap_or_default(), CallFailure::read(rest));
        Self { consulted, service, cause }
    }
}

/// Whether a text may contain the words before a name. Almost no text does, and preparing a search for each
/// of these words would cost more than this pass.
fn names_a_gatekeeper(text: &str) -> bool {
    let mut parts = text.as_bytes().windows(6);
    parts.any(|part| matches!(part, b"ebhook" | b"policy" | b"Policy"))
}

impl CallFailure {
    fn read(text: &str) -> Self {
        let text = text.to_ascii_lowercase();
        let occurs = |words: &[&str]| words.iter().any(|word| text.contains(word));
        CAUSES.into_iter().find(|(_, words)| occurs(words)).map_or(Self::Other, |(cause, _)| cause)
    }

    /// Returns why a policy could not be evaluated; `None` if it was. The message of a denial may hold any words
    /// later on.
    fn of_policy(reason: &str) -> Option<Self> {
        let (begin, end) = EXPRESSION;
        let first = reason.trim_start_matches('['); // of several errors
        if CONFIGURATION.iter().any(|words| first.starts_with(words)) {
            return Some(Self::Configuration);
        }

        let is_expression = first.find(begin).is_some_and(|at| at <= "messageE".len());
        (is_expression && first.contains(end)).then_some(Self::Expression)
    }

    /// Returns the cause in words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoEndpoints => "no endpoints",
            Self::Connection => "connection",
            Self::Timeout => "timeout",
            Self::Certificate => "certificate",
            Self::Expression => "expression",
            Self::Configuration => "configuration",
            Self::Other => "other",
        }
    }
}

/// Returns the Service of `https://NAME.NAMESPACE.svc:PORT/PATH`, as `namespace/name`.
fn service(text: &str) -> Option<String> {
    let (_, address) = text.split_once("https://")?;
    let host = &address[..address.find([':', '/', '?', '"', '\\'])?];
    let mut labels = host.split('.');
    let (name, namespace, svc) = (labels.next()?, labels.next()?, labels.next()?);

    (svc == "svc" && is_domain(name) && is_domain(namespace)).then(|| format!("{namespace}/{name}"))
}

/// Returns whether a text is the name of a domain, as the API server requires of these names.
fn is_domain(text: &str) -> bool {
    let may_occur = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = || text.bytes();
    (1..=MAX_NAME).contains(&text.len())
        && bytes().all(|byte| may_occur(byte) || matches!(byte, b'-' | b'.'))
        && bytes().next().is_some_and(may_occur)
        && bytes().last().is_some_and(may_occur)
}

/// Some clients escape the quotes around the name.
fn is_quote(character: char) -> bool {
    matches!(character, '"' | '\'' | '\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(name: &str, service: &str, cause: CallFailure) -> FailedCall {
        let consulted = Consulted::Admission(name.to_owned());
        FailedCall { consulted, service: service.to_owned(), cause }
    }

    #[test]
    fn the_words_of_the_api_server_name_webhook_service_and_cause() {
        let post = r#"failed calling webhook "v.example.io": failed to call webhook: Post "https://hook.ops.svc:443/v?timeout=10s": "#;
        for (words, cause) in [
            (r#"no endpoints available for service "hook""#, CallFailure::NoEndpoints),
            (r#"service "hook" not found"#, CallFailure::NoEndpoints),
            ("dial tcp 10.0.0.1:443: connect: connection refused", CallFailure::Connection),
            ("EOF", CallFailure::Connection),
            ("context deadline exceeded", CallFailure::Timeout),
            ("dial tcp 10.0.0.1:443: i/o timeout", CallFailure::Timeout),
            ("tls: failed to verify certificate: x509: expired", CallFailure::Certificate),
            ("an error on the server", CallFailure::Other),
            ("", CallFailure::Other),
        ] {
            let text = format!("Internal error occurred: {post}{words}");
            assert_eq!(FailedCall::read(&text), Some(admission("v.example.io", "ops/hook", cause)));
        }
    }

    #[test]
    fn a_conversion_names_its_kind() {
        let text = r#"conversion webhook for example.io/v1, Kind=Widget failed: Post "https://hook.ops.svc:443/convert?timeout=30s": no endpoints available for service "hook""#;
        let (group, kind) = ("example.io".to_owned(), "Widget".to_owned());

        assert_eq!(
            FailedCall::read(text),
            Some(FailedCall {
                consulted: Consulted::Conversion { group, kind },
                service: "ops/hook".to_owned(),
                cause: CallFailure::NoEndpoints,
            })
        );
    }

    #[test]
    fn a_policy_that_cannot_be_evaluated_is_no_denial() {
        let forbidden = r#"widgets.example.io "one" is forbidden: "#;
        let validating =
            "ValidatingAdmissionPolicy 'limits.example.io' with binding 'all' denied request: ";
        let read = |text: &str| {
            FailedCall::read(text).map(|call| match call.consulted {
                Consulted::Policy { mutating, name } => (mutating, name, call.cause),
                other => panic!("{other:?}"),
            })
        };
        let of = |mutating, cause| Some((mutating, "limits.example.io".to_owned(), cause));

        for (words, cause) in [
            (
                "expression 'object.spec.size < params.data.max' resulted in error: no such key: data",
                CallFailure::Expression,
            ),
            ("failed to configure binding: no params found", CallFailure::Configuration),
        ] {
            let text = format!("{forbidden}{validating}{words}");
            assert_eq!(read(&text), of(false, cause), "{text}");
        }
        let unbound = "ValidatingAdmissionPolicy 'limits.example.io' denied request: failed to configure policy: x";
        assert_eq!(read(unbound), of(false, CallFailure::Configuration));
        let mutating = r#"policy 'limits.example.io' with binding 'all' denied request: expression 'x' resulted in error: y"#;
        assert_eq!(read(&format!("{forbidden}{mutating}")), of(true, CallFailure::Expression));
        let mutating = "policy 'limits.example.io' with binding 'all' denied request: anything";
        assert_eq!(read(&format!("{forbidden}{mutating}")), of(true, CallFailure::Other));
        let long = format!("expression '{}' resulted in error: no such key", "a && ".repeat(500));
        let text = format!("{forbidden}{validating}{long}");
        assert_eq!(read(&text), of(false, CallFailure::Expression));

        for denial in [
            "failed expression: object.spec.size < 5",
            "too large",
            "name 'foo' resulted in error: it is not allowed",
            "you failed to configure policy: x",
            "",
        ] {
            assert_eq!(FailedCall::read(&format!("{forbidden}{validating}{denial}")), None);
        }
    }

    #[test]
    fn escaped_quotes_and_addresses_without_a_service_are_read() {
        let escaped = r#"{"message":"failed calling webhook \"v.example.io\": Post \"https://hooks.example.com/v\": EOF"}"#;

        assert_eq!(
            FailedCall::read(escaped),
            Some(admission("v.example.io", "", CallFailure::Connection))
        );
    }

    #[test]
    fn other_texts_report_no_failed_call() {
        for text in [
            "",
            "failed calling webhook ",
            r#"failed calling webhook "v.exam"#,
            r#"failed calling webhook "V example": EOF"#,
            r#"failed calling webhook "-v.io": EOF"#,
            r#"admission webhook "v.example.io" denied the request: failed calling webhook "a.io": x"#,
            "conversion webhook for example.io/v1, Kind=Widg",
            "conversion webhook for example.io/v1, Kind= failed: x",
            "conversion webhook for v1, Kind=Widget failed: x",
            "conversion webhook for Widgets failed",
            "x509: certificate has expired",
            "ValidatingAdmissionPolicy 'limits",
            "ValidatingAdmissionPolicy 'limits' with binding 'all",
            "ValidatingAdmissionPolicy 'Limits' denied request: failed to configure policy: x",
            "the policy 'limits' was added",
            "x: security policy 'limits' denied request: y",
            r#"x: policy "limits" denied request: y"#,
            r#"admission webhook "v.io" denied the request: x policy 'limits' denied request: y"#,
        ] {
            assert_eq!(FailedCall::read(text), None, "{text}");
        }
        let long = format!(r#"failed calling webhook "{}": EOF"#, "a".repeat(254));
        assert_eq!(FailedCall::read(&long), None);
    }
}
