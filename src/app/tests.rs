use loopwatch_model::observation::{Hashes, ObjectKey, ObjectView, Observation, Reference, Role, WatchedKind};
use loopwatch_model::settings::Settings;
use loopwatch_testbed::kinds::watched;
use tokio::time::Instant;

use super::*;
use crate::export::notify::receiver::Receiver;
use crate::export::notify::{Notifier, Webhook};

fn kind() -> WatchedKind {
    watched("example.io", "Widget", "widgets", Role::Primary)
}

/// A version of the widget `web`, whose spec refers to an object in another namespace.
fn widget(version: u64, name: &str) -> Observation {
    let reference =
        Reference { slot: "spec.ref".into(), namespace: "team-b".into(), name: name.into(), ..Reference::default() };
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

#[tokio::test]
async fn a_changed_reference_reaches_the_webhook_within_a_second() {
    let receiver = Receiver::start([]).await;
    let webhook = Webhook { url: receiver.url.parse().expect("a URL"), token_file: None, ca_file: None };
    let (notifier, delivering) = Notifier::start(webhook, SelfMetrics::new().notify_requests, None);
    let model: SharedModel = Arc::new(Mutex::new(Model::new(Settings::default())));
    let (feed, observations) = Feed::new(CHANNEL, ServerClock::new());
    let outlets = Outlets { notifier: Some(notifier.clone()), ..Outlets::default() };
    let pumping = tokio::spawn(pump(observations, model, None, Gauge::default(), |_| false, outlets));
    for start in [
        Observation::KindsDiscovered(vec![kind()]),
        Observation::ListBegan { watch: kind().watch, epoch: 1 },
        Observation::ListEnded { watch: kind().watch, epoch: 1, version: "1".into() },
        widget(2, ""),
    ] {
        feed.send(start).await.expect("the pump runs");
    }
    let (mut slowest, mut expected) = (Duration::ZERO, 0);
    for trial in 0..100_u64 {
        let began = Instant::now();
        // Each change but the first one replaces a reference: one disappears, one appears.
        feed.send(widget(3 + trial, &format!("target-{trial}"))).await.expect("the pump runs");
        expected += if trial == 0 { 1 } else { 2 };
        receiver.received(expected).await;
        slowest = slowest.max(began.elapsed());
    }
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    let last = receiver.requests.all().pop().expect("a request").1;
    assert!(last.contains("_appeared") && last.contains("target-99"), "{last}");
    drop(feed);
    pumping.await.expect("no panic");
    notifier.close(delivering).await;
}

/// The resolver of the system may take minutes, and nobody can end it.
#[test]
fn a_lookup_of_a_host_that_hangs_does_not_hold_up_the_end_of_the_process() {
    let (release, hanging) = std::sync::mpsc::channel::<()>();
    let began = std::time::Instant::now();
    block_on(async {
        drop(tokio::task::spawn_blocking(move || hanging.recv_timeout(Duration::from_secs(20))));
        tokio::task::yield_now().await;
    })
    .expect("a runtime");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    drop(release);
}
