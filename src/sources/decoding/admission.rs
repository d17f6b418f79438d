//! Decodes configurations of webhooks, and EndpointSlices.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use loopwatch_model::observation::{
    CaBundle, ConversionView, CoveredNamespaces, MAX_RULES, WebhookRule, WebhookView,
};
use loopwatch_model::time::{Span, Timestamp};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::documents::{ObjectMetadata, or_default};
use super::words::truncate;
use crate::net::Failure;

/// The label with the Service of an EndpointSlice.
pub(crate) const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// The label with the name of a namespace. The API server sets it on each namespace.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// The longest name of an API group, a resource, a webhook or a namespace, in bytes.
const MAX_NAME: usize = 253;

/// The longest path of a webhook, in bytes.
const MAX_PATH: usize = 512;

/// The start of the year 9000, in seconds: no reader has to understand later times.
const LATEST: i64 = 221_845_392_000;

/// The API server's default for `timeoutSeconds`.
const TIMEOUT_SECONDS: i64 = 10;

/// A decoded configuration.
pub(crate) struct WebhookConfiguration {
    pub(crate) name: String,
    pub(crate) version: String,
    /// The webhooks that have a Service.
    pub(crate) webhooks: Vec<WebhookView>,
}

/// A decoded EndpointSlice.
pub(crate) struct EndpointSlice {
    pub(crate) name: String,
    pub(crate) version: String,
    /// The Service, as `namespace/name`; empty if the slice names none.
    pub(crate) service: String,
    /// The number of endpoints that are ready.
    pub(crate) ready: u32,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ConfigurationDocument {
    metadata: ObjectMetadata,
    #[serde(deserialize_with = "or_default")]
    webhooks: Vec<WebhookDocument>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WebhookDocument {
    name: String,
    client_config: ClientDocument,
    #[serde(deserialize_with = "or_default")]
    rules: Vec<RuleDocument>,
    failure_policy: Option<String>,
    namespace_selector: Option<SelectorDocument>,
    object_selector: Option<SelectorDocument>,
    #[serde(deserialize_with = "or_default")]
    match_conditions: Vec<IgnoredAny>,
    timeout_seconds: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ClientDocument {
    service: Option<ServiceDocument>,
    ca_bundle: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ServiceDocument {
    namespace: String,
    name: String,
    path: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RuleDocument {
    #[serde(deserialize_with = "or_default")]
    api_groups: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    resources: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    operations: Vec<String>,
    scope: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SelectorDocument {
    #[serde(deserialize_with = "or_default")]
    match_labels: std::collections::BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    match_expressions: Vec<RequirementDocument>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RequirementDocument {
    key: String,
    operator: String,
    #[serde(deserialize_with = "or_default")]
    values: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SliceDocument {
    metadata: SliceMetadata,
    #[serde(deserialize_with = "or_default")]
    endpoints: Vec<EndpointDocument>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SliceMetadata {
    #[serde(flatten)]
    object: ObjectMetadata,
    #[serde(deserialize_with = "or_default")]
    labels: std::collections::BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct EndpointDocument {
    conditions: EndpointConditions,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct EndpointConditions {
    ready: Option<bool>,
}

/// Decodes a `ValidatingWebhookConfiguration` or a `MutatingWebhookConfiguration`.
pub(crate) fn webhook_configuration(object: &[u8]) -> Result<WebhookConfiguration, Failure> {
    let ConfigurationDocument { metadata, webhooks } =
        serde_json::from_slice(object).map_err(|e| Failure::undecodable(&e))?;
    let webhooks = webhooks.into_iter();
    let webhooks = webhooks.filter_map(|document| webhook(&metadata.name, document)).collect();

    Ok(WebhookConfiguration { name: metadata.name, version: metadata.resource_version, webhooks })
}

/// Decodes an EndpointSlice. An endpoint without the condition `ready` counts as ready, as the API
/// documents.
pub(crate) fn endpoint_slice(object: &[u8]) -> Result<EndpointSlice, Failure> {
    let SliceDocument { metadata: SliceMetadata { object, mut labels }, endpoints } =
        serde_json::from_slice(object).map_err(|e| Failure::undecodable(&e))?;
    let service = labels.remove(SERVICE_NAME);
    let service = service.map(|service| format!("{}/{service}", object.namespace));
    let ready = endpoints.iter().filter(|it| it.conditions.ready != Some(false)).count();

    Ok(EndpointSlice {
        name: object.name,
        version: object.resource_version,
        service: service.unwrap_or_default(),
        ready: u32::try_from(ready).unwrap_or(u32::MAX),
    })
}

/// Returns the conversion webhook of a definition, unless the API server calls it by a URL.
pub(super) fn conversion(client: ClientDocument) -> Option<ConversionView> {
    let service = client.service?.name();
    Some(ConversionView { service, ca: ca_bundle(client.ca_bundle.as_deref().unwrap_or_default()) })
}

fn cut(mut text: String, most: usize) -> String {
    truncate(&mut text, most);
    text
}

/// Returns a webhook, unless the API server calls it by a URL.
fn webhook(configuration: &str, document: WebhookDocument) -> Option<WebhookView> {
    let mut service = document.client_config.service?;
    let path = service.path.take();
    let selects = document.object_selector.is_some_and(|selector| !selector.is_empty());
    let timeout = document.timeout_seconds.filter(|seconds| *seconds > 0);

    Some(WebhookView {
        configuration: cut(configuration.to_owned(), MAX_NAME),
        name: cut(document.name, MAX_NAME),
        service: service.name(),
        path: cut(path.unwrap_or_default(), MAX_PATH),
        ca: ca_bundle(document.client_config.ca_bundle.as_deref().unwrap_or_default()),
        fails_closed: document.failure_policy.is_none_or(|policy| policy == "Fail"),
        timeout: Span::secs(timeout.unwrap_or(TIMEOUT_SECONDS)),
        rules: document.rules.into_iter().filter_map(rule).take(MAX_RULES).collect(),
        namespaces: document.namespace_selector.map_or(CoveredNamespaces::All, covered),
        some_objects: selects || !document.match_conditions.is_empty(),
    })
}

/// Returns a rule, unless it covers only subresources. `pods/*` covers Pods and all their subresources.
fn rule(document: RuleDocument) -> Option<WebhookRule> {
    let whole = |resource: String| match resource.split_once('/') {
        Some((resource, "*")) => Some(resource.to_owned()),
        Some(_) => None,
        None => Some(resource),
    };
    let names = |names: Vec<String>| -> Vec<String> {
        let fits = names.into_iter().filter(|name| name.len() <= MAX_NAME);
        fits.take(MAX_RULES).collect()
    };
    let resources = names(document.resources.into_iter().filter_map(whole).collect());
    let creations = document.operations.iter().any(|it| it == "CREATE" || it == "*");
    let cluster_scoped = document.scope.as_deref() == Some("Cluster");
    let groups = names(document.api_groups);
    let rule = WebhookRule { groups, resources, creations, cluster_scoped };

    (!rule.resources.is_empty()).then_some(rule)
}

/// Returns the namespaces that a selector covers, if it only looks at their names.
fn covered(selector: SelectorDocument) -> CoveredNamespaces {
    let labels = selector.match_labels.into_iter();
    let labels = labels.map(|(key, value)| (key, "In".to_owned(), vec![value]));
    let expressions = selector.match_expressions.into_iter();
    let expressions = expressions.map(|it| (it.key, it.operator, it.values));

    labels.chain(expressions).fold(CoveredNamespaces::All, |before, (key, operator, values)| {
        let is_small = values.len() <= MAX_RULES && values.iter().all(|it| it.len() <= MAX_NAME);
        match (before, operator.as_str()) {
            _ if key != NAMESPACE_NAME || !is_small => CoveredNamespaces::Unknown,
            (CoveredNamespaces::All, "In") => CoveredNamespaces::Only(values),
            (CoveredNamespaces::All, "NotIn") => CoveredNamespaces::Except(values),
            (CoveredNamespaces::Only(names), "In") => only(names, |name| values.contains(name)),
            (CoveredNamespaces::Only(names), "NotIn") => only(names, |name| !values.contains(name)),
            (CoveredNamespaces::Except(names), "In") => only(values, |name| !names.contains(name)),
            (CoveredNamespaces::Except(mut names), "NotIn") if names.len() <= MAX_RULES => {
                names.extend(values);
                CoveredNamespaces::Except(names)
            }
            (before, "Exists") => before,
            _ => CoveredNamespaces::Unknown,
        }
    })
}

fn only(mut names: Vec<String>, keeps: impl Fn(&String) -> bool) -> CoveredNamespaces {
    names.retain(keeps);
    CoveredNamespaces::Only(names)
}

/// Returns the certificate that expires last. An empty line is a usual placeholder.
fn ca_bundle(base64: &str) -> CaBundle {
    let Ok(pem) = STANDARD.decode(base64) else { return CaBundle::Unreadable };
    if pem.trim_ascii().is_empty() {
        return CaBundle::Absent;
    }

    let certificates = CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok);
    let validity = |certificate: CertificateDer<'_>| {
        let (_, certificate) = x509_parser::parse_x509_certificate(&certificate).ok()?;
        let validity = certificate.validity();
        let millis = |seconds: i64| seconds.min(LATEST).checked_mul(1000).map(Timestamp);
        Some((millis(validity.not_after.timestamp())?, millis(validity.not_before.timestamp())?))
    };

    let last = certificates.filter_map(validity).max();
    last.map_or(CaBundle::Unreadable, |(until, from)| CaBundle::Valid { from, until })
}

impl ServiceDocument {
    /// Returns `namespace/name`.
    fn name(self) -> String {
        format!("{}/{}", cut(self.namespace, MAX_NAME), cut(self.name, MAX_NAME))
    }
}

impl SelectorDocument {
    fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn webhooks(json: &str) -> Vec<WebhookView> {
        let json =
            format!(r#"{{"metadata":{{"name":"c","resourceVersion":"7"}},"webhooks":[{json}]}}"#);
        webhook_configuration(json.as_bytes()).expect("a configuration").webhooks
    }

    fn service(more: &str) -> String {
        format!(
            r#"{{"name":"v.a.io","clientConfig":{{"service":{{"namespace":"op","name":"hook","path":"/v"}}}}{more}}}"#
        )
    }

    #[test]
    fn a_webhook_without_optional_fields_has_the_defaults_of_the_api_server() {
        let [view] = &webhooks(&service(""))[..] else { panic!("one webhook") };

        assert_eq!((view.service.as_str(), view.path.as_str()), ("op/hook", "/v"));
        assert_eq!((view.fails_closed, view.timeout), (true, Span::secs(10)));
        assert_eq!((&view.ca, view.some_objects), (&CaBundle::Absent, false));
        assert_eq!(view.namespaces, CoveredNamespaces::All);
    }

    #[test]
    fn a_webhook_with_a_url_is_left_out_and_null_is_empty() {
        let url = r#"{"name":"u.a.io","clientConfig":{"url":"https://example.com"}}"#;
        let null = service(r#","rules":null,"matchConditions":null,"failurePolicy":"Ignore""#);
        let views = webhooks(&format!("{url},{null}"));

        assert_eq!(views.len(), 1);
        assert!(!views[0].fails_closed && views[0].rules.is_empty());
    }

    #[test]
    fn rules_leave_out_subresources() {
        let rules = r#","rules":[
            {"apiGroups":["a.io"],"resources":["ws","ws/status"],"operations":["UPDATE"]},
            {"apiGroups":["a.io"],"resources":["ws/scale"],"operations":["*"]},
            {"apiGroups":[""],"resources":["pods/*"],"operations":["CREATE"]},
            {"apiGroups":["*"],"resources":["*/*"],"operations":["CREATE"]},
            {"apiGroups":["*"],"resources":["*"],"operations":["CREATE"],"scope":"Cluster"}]"#;
        let [view] = &webhooks(&service(rules))[..] else { panic!("one webhook") };
        let [one, pods, all, cluster] = &view.rules[..] else { panic!("{:?}", view.rules) };

        assert!(one.covers("a.io", "ws") && !one.covers("a.io", "ws/status") && !one.creations);
        assert!(pods.covers_pods(), "and all their subresources");
        assert!(all.covers_pods() && all.creations);
        assert!(!cluster.covers_pods());
    }

    #[test]
    fn only_selectors_of_names_tell_the_namespaces() {
        let covered = |selector: &str| {
            let views = webhooks(&service(&format!(r#","namespaceSelector":{selector}"#)));
            views[0].namespaces.clone()
        };
        let expression = |key: &str, operator: &str| {
            format!(
                r#"{{"matchExpressions":[{{"key":"{key}","operator":"{operator}","values":["op"]}}]}}"#
            )
        };

        assert_eq!(covered("{}"), CoveredNamespaces::All);
        assert_eq!(
            covered(&expression(NAMESPACE_NAME, "NotIn")),
            CoveredNamespaces::Except(vec!["op".to_owned()])
        );
        assert_eq!(
            covered(&expression(NAMESPACE_NAME, "In")),
            CoveredNamespaces::Only(vec!["op".to_owned()])
        );
        assert_eq!(covered(&expression("team", "NotIn")), CoveredNamespaces::Unknown);
        let label = format!(r#"{{"matchLabels":{{"{NAMESPACE_NAME}":"op"}}}}"#);
        assert_eq!(covered(&label), CoveredNamespaces::Only(vec!["op".to_owned()]));
        assert_eq!(covered(r#"{"matchLabels":{"team":"a"}}"#), CoveredNamespaces::Unknown);
    }

    #[test]
    fn authorities_that_cannot_be_read_are_no_error() {
        for (bundle, expected) in [
            ("", CaBundle::Absent),
            ("Cg==", CaBundle::Absent),
            ("%%%", CaBundle::Unreadable),
            ("bm90IGEgY2VydGlmaWNhdGU=", CaBundle::Unreadable),
        ] {
            assert_eq!(ca_bundle(bundle), expected, "{bundle}");
        }
    }

    #[test]
    fn endpoints_are_ready_unless_their_condition_is_false() {
        let json = br#"{"metadata":{"namespace":"op","name":"hook-1","labels":{"kubernetes.io/service-name":"hook"}},
            "endpoints":[{"conditions":{"ready":true}},{"conditions":{"ready":false}},{"conditions":{}}]}"#;
        let slice = endpoint_slice(json).expect("a slice");
        assert_eq!((slice.service.as_str(), slice.ready), ("op/hook", 2));

        let bare = endpoint_slice(br#"{"metadata":{"name":"x","labels":null},"endpoints":null}"#);
        assert_eq!(bare.expect("a slice").ready, 0);
    }
}
