//! How soon loopwatch reports an owner in another namespace. The garbage collector soon deletes the
//! child because of such an owner.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::bed::{bed, test};
use crate::proof::{MANAGER, owned_by};
use loopwatch_testbed::accounts::reader_account;
use loopwatch_testbed::kube::Kube;
use loopwatch_testbed::operator::ACCOUNT;
use loopwatch_testbed::sidecar::{Sidecar, quick_but};
use loopwatch_testbed::wait::pause;
use loopwatch_testbed::webhook::Webhook;

pub(crate) fn trials() -> Vec<Trial> {
    vec![test("crossing::owner", owner)]
}

const TRIALS: usize = 100;
const HOME: &str = "crossing";
const AWAY: &str = "crossing-away";
/// The time within which nearly all children are reported.
const PROMPT: Duration = Duration::from_secs(1);
/// The time after which a child counts as missed.
const MISSED: Duration = Duration::from_secs(10);

/// One child after the other names an owner in another namespace. loopwatch reports each of them
/// once, as a finding and to the webhook, and no child whose owner is in its own namespace.
fn owner() {
    let (plane, webhook) = (bed(), Webhook::listen());
    let kube = &plane.kube;
    let [home, _] = [HOME, AWAY].map(|namespace| {
        kube.namespace(namespace);
        let widget = kube.zoo("Widget", namespace, "owner", json!({"suspend": true}));
        child(kube, namespace, "legitimate", &widget);
        widget
    });

    reader_account(kube, HOME);
    let kubeconfig = plane.kubeconfig_of("crossing.kubeconfig", &plane.url, HOME, ACCOUNT);
    let notify = format!("--notify=http://127.0.0.1:{}", webhook.port);
    let settings = quick_but(json!({"deadline": "1h", "unsaid_after": "1h"}));
    let scope = format!("--namespace={HOME},{AWAY}");
    let sidecar = Sidecar::start(plane, HOME, &kubeconfig, &settings, &[&scope, &notify]);

    for namespace in [HOME, AWAY] {
        sidecar.expect(Duration::from_secs(60), "the children are watched", || {
            sidecar.object("ConfigMap", namespace, "legitimate")
        });
    }

    let (mut to_finding, mut to_webhook) = (Vec::new(), Vec::new());
    for trial in 0..TRIALS {
        let name = format!("lost-{trial}");
        let began = Instant::now();
        child(kube, AWAY, &name, &home);

        let (finding, event) = wait_reported(&sidecar, &webhook, &name, began);
        to_finding.push(finding);
        to_webhook.push(event);
    }

    let events = webhook.received();
    let appeared: Vec<&Value> =
        events.iter().filter(|event| event["event"] == "cross_namespace_owner_appeared").collect();
    let names: Vec<String> =
        appeared.iter().map(|event| event["source"]["name"].to_string()).collect();
    let expected: Vec<String> = (0..TRIALS).map(|trial| format!("\"lost-{trial}\"")).collect();

    assert_eq!(names, expected, "each child once and in order");

    for event in &appeared {
        let source = (&event["source"]["kind"], &event["source"]["namespace"]);
        let target =
            (&event["target"]["kind"], &event["target"]["namespace"], &event["target"]["name"]);

        assert_eq!(source, (&json!("ConfigMap"), &json!(AWAY)), "{event}");
        assert_eq!(target, (&json!("Widget"), &json!(HOME), &json!("owner")), "{event}");
    }

    // The cluster has namespaces of other tests, too.
    let is_foreign = |subject: &str| subject.starts_with("Namespace ");
    let opened: Vec<_> =
        sidecar.opened().into_iter().filter(|(_, subject)| !is_foreign(subject)).collect();
    let others: Vec<_> = opened.iter().filter(|(code, _)| code != "CrossNamespaceOwner").collect();
    let about: BTreeSet<&String> = opened.iter().map(|(_, subject)| subject).collect();

    assert!(
        about.len() >= TRIALS
            && others.iter().all(|(code, _)| TRUE_ANYWAY.contains(&code.as_str())),
        "{others:?}"
    );

    for (what, times) in [("finding", &mut to_finding), ("webhook", &mut to_webhook)] {
        times.sort_unstable();
        let at = |percent: usize| times[(times.len() * percent).div_ceil(100) - 1];
        eprintln!(
            "owner in another namespace to {what}: median {:?}, p99 {:?}, max {:?} of {TRIALS} trials",
            at(50),
            at(99),
            at(100)
        );

        assert!(at(95) <= PROMPT, "to {what}: {times:?}");
    }
}

/// Findings that are correct here: they concern a definition and the account.
const TRUE_ANYWAY: [&str; 2] = ["StatusSubresourceMissing", "PermissionMissing"];

/// Creates a ConfigMap with an owner, as the operator.
fn child(kube: &Kube, namespace: &str, name: &str, owner: &Value) {
    let labels = json!({"app.kubernetes.io/managed-by": MANAGER});
    let metadata = json!({"namespace": namespace, "name": name, "labels": labels, "ownerReferences": [owned_by(owner)]});
    kube.create_as(
        MANAGER,
        &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}),
    );
}

/// Waits until the API shows the finding and the webhook has received the event. Returns the time
/// of each since `began`.
fn wait_reported(
    sidecar: &Sidecar,
    webhook: &Webhook,
    name: &str,
    began: Instant,
) -> (Duration, Duration) {
    let (mut finding, mut event) = (None, None);
    while began.elapsed() < MISSED {
        if finding.is_none() {
            let found = sidecar.findings().unwrap_or_default();
            let is_there =
                found.iter().any(|finding| finding.is("CrossNamespaceOwner", "ConfigMap", name));
            finding = is_there.then(|| began.elapsed());
        }

        if event.is_none() {
            let is_there = webhook
                .received()
                .iter()
                .rev()
                .take(4)
                .any(|event| event["source"]["name"] == name);
            event = is_there.then(|| began.elapsed());
        }

        if let (Some(finding), Some(event)) = (finding, event) {
            return (finding, event);
        }

        pause(Duration::from_millis(10));
    }

    panic!("{name}: finding after {finding:?}, webhook after {event:?}\n{}", sidecar.account());
}
