use loopwatch_model::observation::{
    Hashes, ObjectKey, ObjectView, Observation, Reference, Role, SourceId, WatchedKind,
};
use loopwatch_model::settings::Settings;
use loopwatch_testbed::kinds::watched;

use super::*;
use crate::export::delivery::Origin;
use crate::export::delivery::fake_receiver::FakeReceiver;
use crate::export::delivery::notify::{Notifier, Webhook, webhook_url};
use crate::net::NameLookups;
use crate::telemetry::GaugeShare;

fn kind() -> WatchedKind {
    watched("example.io", "Widget", "widgets", Role::Primary)
}

/// A version of the widget `web`, whose spec refers to an object in another namespace.
fn widget(version: u64, name: &str) -> Observation {
    let reference = Reference {
        slot: "spec.ref".into(),
        namespace: "team-b".into(),
        name: name.into(),
        ..Reference::default()
    };

    let object = ObjectView {
        key: ObjectKey { namespace: "team-a".into(), name: "web".into() },
        uid: "u".into(),
        version: version.to_string(),
        references: if name.is_empty() { Vec::new() } else { vec![reference] },
        hashes: Hashes { spec: version, ..Hashes::default() },
        ..ObjectView::default()
    };

    Observation::Applied { watch: kind().watch, object: Box::new(object) }
}

/// No timer may delay the request to the webhook: the clock stands still.
#[tokio::test(start_paused = true)]
async fn a_changed_reference_reaches_the_webhook_at_once() {
    let receiver = FakeReceiver::start([]).await;
    let webhook = Webhook {
        url: webhook_url(&receiver.url).expect("a URL"),
        token_file: None,
        ca_file: None,
        findings: Vec::new(),
    };
    let (notifier, delivering) =
        Notifier::start(webhook, SelfMetrics::new().notify_requests, Origin::default());
    let model: SharedModel = Arc::new(Mutex::new(Model::new(Settings::default())));
    let (feed, observations) = Feed::new(CHANNEL, ServerClock::new());
    let outlets = Outlets { notifier: Some(notifier.clone()), ..Outlets::default() };
    let pumping =
        tokio::spawn(pump(observations, model, None, GaugeShare::default(), |_| false, outlets));

    for start in [
        Observation::KindsDiscovered(vec![kind()]),
        Observation::ListBegan { watch: kind().watch, epoch: 1 },
        Observation::ListEnded { watch: kind().watch, epoch: 1, version: "1".into() },
        widget(2, ""),
    ] {
        feed.send(start).await.expect("the pump runs");
    }

    let mut expected = 0;
    for trial in 0..100_u64 {
        // Each change but the first one replaces a reference: one disappears, one appears.
        feed.send(widget(3 + trial, &format!("target-{trial}"))).await.expect("the pump runs");
        expected += if trial == 0 { 1 } else { 2 };
        receiver.received(expected).await;
    }

    let last = receiver.requests.all().pop().expect("a request").1;
    assert!(last.contains("_appeared") && last.contains("target-99"), "{last}");

    drop(feed);
    pumping.await.expect("no panic");
    notifier.close(delivering).await;
}

/// A finding that the user has chosen reaches the webhook; another one does not.
#[tokio::test(start_paused = true)]
async fn a_chosen_finding_reaches_the_webhook() {
    let receiver = FakeReceiver::start([]).await;
    let webhook = Webhook {
        url: webhook_url(&receiver.url).expect("a URL"),
        token_file: None,
        ca_file: None,
        findings: vec!["ConfigInvalid".parse().expect("a name")],
    };
    let (notifier, delivering) =
        Notifier::start(webhook, SelfMetrics::new().notify_requests, Origin::default());
    let model: SharedModel = Arc::new(Mutex::new(Model::new(Settings::default())));
    let (feed, observations) = Feed::new(CHANNEL, ServerClock::new());
    let outlets = Outlets { notifier: Some(notifier.clone()), ..Outlets::default() };
    let pumping =
        tokio::spawn(pump(observations, model, None, GaugeShare::default(), |_| false, outlets));

    feed.invalid(SourceId::Config, "deadline: no duration".to_owned())
        .await
        .expect("the pump runs");
    let body = receiver.received(1).await.remove(0).1;
    assert!(body.contains("finding_opened") && body.contains("ConfigInvalid"), "{body}");

    drop(feed);
    pumping.await.expect("no panic");
    notifier.close(delivering).await;
}

/// The resolver of the system, or a file system, may take minutes, and nobody can end it.
#[test]
fn work_that_blocks_without_end_does_not_hold_up_the_end_of_the_process() {
    let (release, hanging) = std::sync::mpsc::channel::<()>();
    let (report, waited) = std::sync::mpsc::channel();
    block_on(async {
        drop(tokio::task::spawn_blocking(move || {
            report.send(hanging.recv_timeout(Duration::from_secs(60)))
        }));
        tokio::task::yield_now().await;
    })
    .expect("a runtime");

    assert!(waited.try_recv().is_err(), "it still hangs when the runtime has ended");

    drop(release);
}

/// The runtime has four threads for work that may block.
#[test]
fn lookups_that_hang_hold_up_no_files() {
    let (sender, served) = std::sync::mpsc::channel();
    block_on(async move {
        let lookups = NameLookups::new(|_| {
            std::thread::park();
            Ok(Vec::new())
        });
        for number in 0..20 {
            let looking = tokio::time::timeout(
                Duration::from_millis(1),
                lookups.addresses(&number.to_string()),
            )
            .await;

            assert!(looking.is_err(), "it hangs");
        }

        sender.send(tokio::task::spawn_blocking(|| 7).await.expect("it ran")).expect("received");
    })
    .expect("a runtime");

    assert_eq!(served.try_recv(), Ok(7));
}
