//! Events for a webhook.

use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::bed::{bed, test};
use loopwatch_testbed::sidecar::{Sidecar, quick};
use loopwatch_testbed::wait::{pause, until};
use loopwatch_testbed::webhook::Webhook;

pub(crate) fn trials() -> Vec<Trial> {
    vec![test("notify::reference", reference)]
}

/// A reference to another namespace that appears or disappears reaches the webhook within a second;
/// a reference within the namespace, a restart and another change of the object cause no events.
fn reference() {
    const NAME: &str = "notified";

    const TRIALS: usize = 100;

    let (plane, webhook) = (bed(), Webhook::listen());
    let kube = &plane.kube;
    kube.namespace(NAME);
    kube.zoo("Widget", NAME, "target", json!({}));

    let notify = format!("--notify=http://127.0.0.1:{}", webhook.port);
    let flags = ["--namespace=notified", "--watch=zoo.loopwatch.dev/Widget", notify.as_str()];
    let mut sidecar =
        Sidecar::start(plane, "notified.loopwatch", &kube.kubeconfig, &quick(), &flags);

    sidecar.wait_synced(1);
    let refer =
        |value: Value| drop(kube.change("Widget", NAME, "target", json!({ "secretRef": value })));
    refer(json!({ "name": "ca" }));
    refer(json!({ "name": "ca", "namespace": NAME }));

    let (mut slowest, mut seen) = (Duration::ZERO, 0);
    for trial in 0..TRIALS {
        let appears = trial % 2 == 0;
        refer(if appears {
            json!({ "name": "ca", "namespace": "kube-system" })
        } else {
            Value::Null
        });

        let arrived = until(Duration::from_secs(5), || match webhook.received().len() - seen {
            0 => Err("no request".to_owned()),
            _ => Ok(()),
        });
        let (_, after) = arrived.unwrap_or_else(|error| panic!("trial {trial}: {error}"));

        slowest = slowest.max(after);
        let events = &webhook.received()[seen..];
        let change = if appears { "appeared" } else { "disappeared" };

        assert_eq!(events.len(), 1, "trial {trial}: {events:?}");
        assert_eq!(
            events[0]["event"],
            format!("cross_namespace_reference_{change}"),
            "trial {trial}"
        );
        assert_eq!(events[0]["source"]["name"], "target");
        assert_eq!(
            (&events[0]["target"]["kind"], &events[0]["path"]),
            (&json!("Secret"), &json!("spec.secretRef"))
        );

        seen += 1;
    }

    eprintln!("reference to webhook: slowest of {TRIALS} trials {slowest:?}");
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");

    refer(json!({ "name": "ca", "namespace": "kube-system" }));
    until(Duration::from_secs(5), || {
        if webhook.received().len() > seen { Ok(()) } else { Err("no request".to_owned()) }
    })
    .expect("the event");
    sidecar.start_again();
    sidecar.wait_synced(1);
    kube.change("Widget", NAME, "target", json!({ "size": 7 }));

    pause(Duration::from_secs(2));
    assert_eq!(webhook.received().len(), seen + 1, "{:?}", webhook.received().last());

    kube.delete("zoo.loopwatch.dev/v1", "Widget", NAME, "target");
    let deleted = until(Duration::from_secs(5), || {
        webhook.received().get(seen + 1).cloned().ok_or("none".to_owned())
    });

    assert_eq!(deleted.expect("the event").0["event"], "cross_namespace_reference_disappeared");
}
