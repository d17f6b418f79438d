//! The admission webhooks of the operator: a Service without endpoints, a certificate that has
//! expired, a webhook that its own Pods need, and one that answers slowly. No kubelet and no proxy runs
//! here, so the test writes the EndpointSlices, and the Service stands for a port of this machine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::bed::{bed, test};
use crate::case::SLACK;
use loopwatch_testbed::accounts::reader_account;
use loopwatch_testbed::kube::{Kube, ZOO};
use loopwatch_testbed::replicas::Replicas;
use loopwatch_testbed::sidecar::{Sidecar, quick_but};
use loopwatch_testbed::wait::{eventually, pause};
use loopwatch_testbed::{ports, tls};

pub(crate) fn trials() -> Vec<Trial> {
    vec![test("webhooks::registered", registered), test("webhooks::slow", slow)]
}

const REGISTRATION: &str = "admissionregistration.k8s.io/v1";
const VALIDATING: &str = "ValidatingWebhookConfiguration";
const SERVICE: &str = "hook";
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// Group and plural name of a kind of the operator.
const WIDGETS: (&str, &str) = ("zoo.loopwatch.dev", "widgets");

/// The threshold of `WebhookUnavailable`.
const THRESHOLD: Duration = Duration::from_secs(3);

/// A time within which a wrong finding would open.
const LONG: Duration = Duration::from_secs(8);

/// The operator with its webhook, and loopwatch, which knows its Deployment.
struct Hooked {
    kube: Kube,
    namespace: &'static str,
    replicas: Replicas,
    sidecar: Sidecar,
    /// The certificate of the operator's webhook.
    certificate: PathBuf,
}

impl Hooked {
    fn start(namespace: &'static str) -> Self {
        let plane = bed();
        let kube = plane.kube.clone();
        kube.namespace(namespace);
        reader_account(&kube, namespace);

        let (port, folder) = (ports::free(), plane.directory().join(format!("{namespace}.certs")));
        let own = [
            format!("--webhook-port={port}"),
            format!("--webhook-cert-dir={}", folder.display()),
            format!("--webhook-host={SERVICE}.{namespace}.svc"),
        ];
        let usual = ["--ready-after=200ms", "--wait-for-pods=false"];
        let flags: Vec<&str> = usual.into_iter().chain(own.iter().map(String::as_str)).collect();
        let replicas = Replicas::start(plane, namespace, 1, &flags);

        kube.apply(&json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": SERVICE, "namespace": namespace},
            "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}}));

        let settings = quick_but(json!({"webhook_down_after": "3s"}));
        let flags = [
            format!("--namespace={namespace}"),
            format!("--operator={namespace}/widget-operator"),
            "--scrape-interval=1s".to_owned(),
        ];
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let name = format!("{namespace}.loopwatch");
        let sidecar = Sidecar::start(plane, &name, &plane.kube.kubeconfig, &settings, &flags);
        sidecar.wait_watched("Widget", 1);

        Self { kube, namespace, replicas, sidecar, certificate: folder.join("tls.crt") }
    }

    /// Sets whether the only endpoint of the Service is ready.
    fn endpoint(&self, ready: bool) {
        let labels = json!({"kubernetes.io/service-name": SERVICE});
        let metadata = json!({"name": "hook-1", "namespace": self.namespace, "labels": labels});
        self.kube.apply(&json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": metadata, "addressType": "IPv4", "ports": [{"port": 9443}],
            "endpoints": [{"addresses": ["192.0.2.1"], "conditions": {"ready": ready}}]}));
    }

    /// Returns the configuration of a webhook for the creation of objects of this namespace.
    fn configuration(&self, name: &str, resource: (&str, &str), ca: &str) -> Value {
        let (name, (group, plural)) = (self.webhook(name), resource);
        let service = json!({"name": SERVICE, "namespace": self.namespace, "path": "/validate", "port": self.port()});
        json!({"apiVersion": REGISTRATION, "kind": VALIDATING, "metadata": {"name": name},
            "webhooks": [{
                "name": name, "failurePolicy": "Fail", "sideEffects": "None", "timeoutSeconds": 10,
                "admissionReviewVersions": ["v1"],
                "clientConfig": {"service": service, "caBundle": STANDARD.encode(ca)},
                "namespaceSelector": {"matchLabels": {NAMESPACE_NAME: self.namespace}},
                "rules": [{"apiGroups": [group], "apiVersions": ["*"], "resources": [plural], "operations": ["CREATE"]}]}]})
    }

    fn webhook(&self, name: &str) -> String {
        format!("{name}.{}.example.com", self.namespace)
    }

    fn port(&self) -> Value {
        let service = self.kube.find("v1", "Service", self.namespace, SERVICE).unwrap_or_default();
        service["spec"]["ports"][0]["port"].clone()
    }

    fn unregister(&self, name: &str) {
        self.kube.delete(REGISTRATION, VALIDATING, "", &self.webhook(name));
    }

    fn expect_found(&self, code: &str, name: &str) {
        let webhook = &self.webhook(name);
        let (finding, took) =
            self.sidecar.expect_finding(THRESHOLD + SLACK, code, "Webhook", webhook);
        eprintln!("{code} after {took:?}: {finding}");
        assert_eq!(finding.0["confidence"], "confirmed", "{finding}");
    }

    fn expect_cleared(&self, code: &str, name: &str) {
        self.sidecar.expect_cleared(SLACK, code, "Webhook", &self.webhook(name));
    }

    /// Expects that only these findings about webhooks have opened so far.
    fn expect_only(&self, codes: &[&str]) {
        let mut opened: Vec<String> =
            self.sidecar.opened().into_iter().map(|(code, _)| code).collect();
        opened.retain(|code| code.starts_with("Webhook"));
        assert_eq!(opened, codes, "{}", self.sidecar.account());
    }
}

/// Returns the authority of the operator's webhook, once it has written it.
fn authority(file: &Path) -> String {
    eventually(SLACK, "the operator has a certificate", || {
        std::fs::read_to_string(file).map_err(|error| error.to_string())
    })
}

/// Configurations of webhooks that nothing calls, because no object is created: each problem is found
/// and goes away with its cause.
fn registered() {
    let hooked = Hooked::start("webhooks-registered");
    let (valid, expired) = (authority(&hooked.certificate), tls::pem(tls::EXPIRED_AUTHORITY));
    hooked.endpoint(true);
    let mut of_widgets = hooked.configuration("widgets", WIDGETS, &valid);
    hooked.kube.apply(&of_widgets);
    pause(LONG);
    hooked.expect_only(&[]);

    hooked.endpoint(false);
    hooked.expect_found("WebhookUnavailable", "widgets");
    hooked.endpoint(true);
    hooked.expect_cleared("WebhookUnavailable", "widgets");

    // Near misses: the API server skips the webhook, or calls it for objects of others.
    of_widgets["webhooks"][0]["failurePolicy"] = json!("Ignore");
    hooked.kube.apply(&of_widgets);
    hooked.kube.apply(&hooked.configuration("foreign", ("example.com", "things"), &expired));
    hooked.endpoint(false);
    pause(LONG);
    hooked.expect_only(&["WebhookUnavailable"]);
    hooked.endpoint(true);
    hooked.unregister("foreign");
    hooked.unregister("widgets");

    hooked.kube.apply(&hooked.configuration("expired", WIDGETS, &expired));
    hooked.expect_found("WebhookCertificate", "expired");
    hooked.kube.apply(&hooked.configuration("expired", WIDGETS, &valid));
    hooked.expect_cleared("WebhookCertificate", "expired");
    hooked.unregister("expired");

    let mut of_pods = hooked.configuration("pods", ("", "pods"), &valid);
    hooked.kube.apply(&of_pods);
    hooked.expect_found("WebhookDeadlock", "pods");
    of_pods["webhooks"][0]["objectSelector"] = json!({"matchLabels": {"covered": "true"}});
    hooked.kube.apply(&of_pods);
    hooked.expect_cleared("WebhookDeadlock", "pods");
    hooked.unregister("pods");

    hooked.expect_only(&["WebhookUnavailable", "WebhookCertificate", "WebhookDeadlock"]);
}

/// The API server calls the webhook for each change of a Widget. At first it answers at once, a twin of
/// the fault; then it needs most of its time.
fn slow() {
    let hooked = Hooked::start("webhooks-slow");
    hooked.endpoint(true);
    let mut configuration = hooked.configuration("slow", WIDGETS, &authority(&hooked.certificate));
    configuration["webhooks"][0]["rules"][0]["operations"] = json!(["UPDATE"]);
    hooked.kube.apply(&configuration);
    hooked.kube.zoo("Widget", hooked.namespace, "one", json!({"suspend": true}));
    let change = |round: u32| {
        let patch = json!({"metadata": {"annotations": {"example.com/round": round.to_string()}}});
        hooked.kube.patch(ZOO, "Widget", hooked.namespace, "one", &patch);
    };
    for round in 0..5 {
        change(round);
    }
    pause(LONG);
    hooked.expect_only(&[]);

    hooked.replicas.all[0].operator.fault("WebhookSlow?delay=8s");
    for round in 5..9 {
        change(round);
    }
    hooked.expect_found("WebhookSlow", "slow");

    hooked.replicas.all[0].operator.cure("WebhookSlow");
    for round in 9..40 {
        change(round);
    }
    hooked.expect_cleared("WebhookSlow", "slow");
    hooked.unregister("slow");
    hooked.expect_only(&["WebhookSlow"]);
}
