//! The admission webhooks of the operator: a Service without endpoints, a certificate that has
//! expired, a webhook that its own Pods need, and one that answers slowly. Also a conversion that fails, and
//! an admission policy that cannot be evaluated. No kubelet and no proxy runs
//! here, so the test writes the EndpointSlices, and the Service stands for a port of this machine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::bed::{bed, test};
use crate::case::SLACK;
use crate::discovery::{definition, thing, wait_served};
use loopwatch_testbed::accounts::{own_account, reader_account};
use loopwatch_testbed::kube::{Kube, ZOO};
use loopwatch_testbed::operator::ACCOUNT;
use loopwatch_testbed::replicas::Replicas;
use loopwatch_testbed::sidecar::{Sidecar, quick_but};
use loopwatch_testbed::wait::{eventually, pause};
use loopwatch_testbed::{ports, tls};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        test("webhooks::registered", registered),
        test("webhooks::slow", slow),
        test("webhooks::converting", converting),
        test("webhooks::policy", policy),
    ]
}

const REGISTRATION: &str = "admissionregistration.k8s.io/v1";
const VALIDATING: &str = "ValidatingWebhookConfiguration";
const POLICY: &str = "ValidatingAdmissionPolicy";
const DEFINITIONS: &str = "apiextensions.k8s.io/v1";
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

/// Nobody answers at the address of the webhook that converts the objects of a kind between its two versions:
/// loopwatch finds that out by its own watch. A conversion that needs no webhook is a twin.
fn converting() {
    let plane = bed();
    let (kube, group, namespace) = (&plane.kube, "converting.loopwatch.dev", "webhooks-converting");
    let name = format!("things.{group}");
    kube.namespace(namespace);
    kube.apply(&definition(group, &["v1", "v2"]));
    own_account(kube, namespace, group, &["things", "things/status"]);
    wait_served(kube, group, "v2", true);
    thing(kube, group, "v1", namespace, "first");

    let port = ports::free();
    kube.apply(&json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": SERVICE, "namespace": namespace},
        "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}}));
    let kubeconfig =
        plane.kubeconfig_of("webhooks-converting.kubeconfig", &plane.url, namespace, ACCOUNT);
    let settings = quick_but(json!({"webhook_down_after": "3s", "source_failing_after": "30s"}));
    let sidecar =
        Sidecar::start(plane, "webhooks-converting.loopwatch", &kubeconfig, &settings, &[]);
    sidecar.wait_watched("Thing", 1);
    pause(LONG);
    let opened =
        || sidecar.opened().into_iter().filter(|(_, on)| on.contains(&name)).collect::<Vec<_>>();
    assert_eq!(opened(), [], "{}", sidecar.account());

    let service =
        json!({"name": SERVICE, "namespace": namespace, "path": "/convert", "port": port});
    let client = json!({"service": service, "caBundle": STANDARD.encode(tls::pem(tls::AUTHORITY))});
    let webhook = json!({"conversionReviewVersions": ["v1"], "clientConfig": client});
    let convert = |conversion: Value| {
        let change = json!({"spec": {"conversion": conversion}});
        kube.patch(DEFINITIONS, "CustomResourceDefinition", "", &name, &change);
    };
    convert(json!({"strategy": "Webhook", "webhook": webhook}));
    let (finding, took) = sidecar.expect_finding(
        THRESHOLD + SLACK,
        "ConversionFailing",
        "CustomResourceDefinition",
        &name,
    );
    eprintln!("ConversionFailing after {took:?}: {finding}");
    assert_eq!(finding.0["confidence"], "confirmed", "{finding}");
    assert_eq!(finding.evidence("service"), &json!(format!("{namespace}/{SERVICE}")), "{finding}");
    assert_eq!(finding.evidence("cause"), &json!("connection"), "{finding}");

    convert(json!({"strategy": "None", "webhook": null}));
    sidecar.expect_cleared(SLACK, "ConversionFailing", "CustomResourceDefinition", &name);
    sidecar.expect(SLACK, "the object is known", || {
        sidecar.object("Thing", namespace, "first").map(drop)
    });
    assert_eq!(opened().len(), 1, "{:?}", opened());
}

/// A policy reads a field that the ConfigMaps of the operator do not have, so the API server refuses all of
/// them. A policy that denies the same writes is a near miss.
fn policy() {
    let hooked = Hooked::start("webhooks-policy");
    let Hooked { kube, namespace, .. } = &hooked;
    let name = format!("{namespace}.example.com");
    let policy = |expression: &str| {
        let selector = json!({"matchLabels": {NAMESPACE_NAME: namespace}});
        let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
            "operations": ["CREATE", "UPDATE"]}]);
        kube.apply(&json!({"apiVersion": REGISTRATION, "kind": POLICY, "metadata": {"name": name},
            "spec": {"failurePolicy": "Fail", "validations": [{"expression": expression}],
                "matchConstraints": {"namespaceSelector": selector, "resourceRules": rules}}}));
        kube.apply(&json!({"apiVersion": REGISTRATION, "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}}));
    };
    let refused = |widget: &str, words: &str| {
        hooked.sidecar.expect(SLACK, &format!("{widget} is refused: {words}"), || {
            let status = kube.status("Widget", namespace, widget);
            if status.to_string().contains(words) { Ok(()) } else { Err(status.to_string()) }
        });
    };

    policy("'color' in object.data && object.data.color == 'red'");
    pause(Duration::from_secs(3)); // the API server learns of policies by a watch
    let widgets = ["one", "two"];
    widgets.iter().for_each(|widget| _ = kube.zoo("Widget", namespace, widget, json!({})));
    widgets.iter().for_each(|widget| refused(widget, "denied request: failed expression"));
    pause(LONG);
    let found = || {
        let mut opened = hooked.sidecar.opened();
        opened.retain(|(code, _)| code == "AdmissionPolicyFailing");
        opened
    };
    assert_eq!(found(), [], "{}", hooked.sidecar.account());

    policy("object.data.color == 'red'");
    refused("two", "resulted in error");
    let (finding, took) = hooked.sidecar.expect_finding(
        THRESHOLD * 3 + SLACK,
        "AdmissionPolicyFailing",
        POLICY,
        &name,
    );
    eprintln!("AdmissionPolicyFailing after {took:?}: {finding}");
    assert_eq!(finding.0["confidence"], "confirmed", "{finding}");
    assert_eq!(finding.evidence("cause"), &json!("expression"), "{finding}");

    kube.delete(REGISTRATION, "ValidatingAdmissionPolicyBinding", "", &name);
    kube.delete(REGISTRATION, POLICY, "", &name);
    hooked.sidecar.expect_cleared(SLACK * 2, "AdmissionPolicyFailing", POLICY, &name);
    assert_eq!(found().len(), 1, "{:?}", found());
}
