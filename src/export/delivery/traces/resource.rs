//! The sender of the spans: the resource, in OpenTelemetry's terms.

use opentelemetry::{Key, KeyValue};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::EnvResourceDetector;

use crate::export::delivery::Origin;
use crate::telemetry::VERSION;

/// The attribute with the UID of the namespace `kube-system`.
const CLUSTER: &str = "k8s.cluster.uid";

/// The attribute with the operator, `NAMESPACE/NAME`, if it is one of many.
const OPERATOR: &str = "loopwatch.operator";

/// Returns the resource. `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` override loopwatch's
/// own values.
pub(super) fn describe(origin: &Origin) -> Resource {
    let own =
        [KeyValue::new("service.name", "loopwatch"), KeyValue::new("service.version", VERSION)];
    let Origin { pod, operator } = origin.clone();
    let pod = pod.map(|pod| KeyValue::new("k8s.pod.name", pod));
    let operator = operator.map(|operator| KeyValue::new(OPERATOR, operator));
    let named = std::env::var("OTEL_SERVICE_NAME").ok().filter(|name| !name.is_empty());

    Resource::builder_empty()
        .with_attributes(own.into_iter().chain(pod).chain(operator))
        .with_detector(Box::new(EnvResourceDetector::new()))
        .with_attributes(named.map(|name| KeyValue::new("service.name", name)))
        .build()
}

/// Returns the UID of the cluster from the user's attributes, or an empty text.
pub(super) fn cluster(resource: &Resource) -> String {
    resource.get(&Key::from_static_str(CLUSTER)).map(|value| value.to_string()).unwrap_or_default()
}
