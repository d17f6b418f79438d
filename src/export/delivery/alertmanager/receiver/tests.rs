use std::io;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::time::advance;

use super::*;
use crate::export::delivery::alertmanager::alertmanager_url;
use crate::export::delivery::fake_receiver::{FakeReceiver, Reply};
use crate::export::view::Links;
use crate::telemetry::captured::Captured;

/// A receiver for a host that is looked up in this way.
fn receiver(url: &str, resolve: fn(&str) -> io::Result<Vec<SocketAddr>>) -> Receiver {
    let url = alertmanager_url(url).expect("a URL");
    let options = AlertmanagerOptions {
        urls: vec![],
        token_file: None,
        ca_file: None,
        labels: vec![],
        operator: None,
        links: Links::default(),
    };

    Receiver::new(&url, &options, AlertingMetrics::default(), NameLookups::new(resolve))
}

fn destination(url: &HttpUrl, address: SocketAddr) -> Destination {
    Destination {
        url: url.clone(),
        address: Some(address),
        token_file: None,
        ca_file: None,
        within: REQUEST,
    }
}

fn address_of(script: &FakeReceiver) -> SocketAddr {
    script.url.trim_start_matches("http://").parse().expect("an address")
}

fn instance(url: &HttpUrl, script: &FakeReceiver) -> Alertmanager {
    Alertmanager { poster: Poster::new(destination(url, address_of(script)), true), done: false }
}

fn posting() -> Posting {
    Posting { bodies: vec![b"[]".to_vec()] }
}

fn addresses(numbers: std::ops::RangeInclusive<u8>) -> Vec<SocketAddr> {
    numbers.map(|number| ([127, 0, 9, number], 0).into()).collect()
}

fn hangs(_: &str) -> io::Result<Vec<SocketAddr>> {
    std::thread::park();
    Ok(Vec::new())
}

#[tokio::test]
async fn a_slow_instance_does_not_hold_up_the_others_for_long() {
    let script = FakeReceiver::start([]).await;
    let mut instance = instance(&HttpUrl::parse(&script.url, "/").expect("a URL"), &script);
    let posting = Posting { bodies: vec![b"[]".to_vec(), b"[]".to_vec()] };
    let (_, answers) = instance.post(address_of(&script), &posting, Duration::ZERO).await;

    assert!(
        matches!(&answers[..], [Delivery::Accepted(()), Delivery::Failed { .. }]),
        "{answers:?}"
    );
    assert!(!instance.done);

    let (_, answers) = instance.post(address_of(&script), &posting, ROUND).await;
    assert!(
        matches!(&answers[..], [Delivery::Accepted(()), Delivery::Accepted(())]) && instance.done,
        "{answers:?}"
    );
}

/// Otherwise, each posting would log two lines.
#[tokio::test]
async fn a_lookup_that_keeps_failing_is_one_problem_although_the_known_addresses_accept() {
    let script = FakeReceiver::start([]).await;
    let mut receiver = receiver("http://alertmanager.invalid:9093", |_| {
        Err(io::Error::other("Name or service not known"))
    });
    let known = instance(&receiver.url, &script);

    receiver.instances.insert(address_of(&script), known);
    assert_eq!(receiver.post(&posting()).await, None, "it is accepted");
    assert_eq!(script.requests.all().len(), 1);
    assert!(receiver.problems.solved(), "the problem lasts");
}

#[tokio::test(start_paused = true)]
async fn a_lookup_that_hangs_does_not_hold_up_the_known_addresses() {
    let script = FakeReceiver::start([]).await;
    let mut receiver = receiver("http://alertmanager:9093", hangs);
    let known = instance(&receiver.url, &script);
    receiver.instances.insert(address_of(&script), known);

    let posting = posting();
    let posted = receiver.post(&posting);
    let received = async {
        advance(Duration::from_millis(1_100)).await;
        script.received(1).await
    };

    tokio::select! {
        biased;
        _ = posted => panic!("the lookup must still run when the request arrives"),
        requests = received => assert_eq!(requests[0].1, "[]"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_lookup_that_hangs_is_a_problem_after_five_seconds() {
    let mut receiver = receiver("http://alertmanager:9093", hangs);
    let began = Instant::now();

    assert_eq!(receiver.post(&posting()).await, Some(None), "to be repeated");
    assert_eq!(began.elapsed(), LOOKUP);
    assert!(!receiver.problems.is_new("cannot look up the host: no answer within 5 s"));

    let failed =
        AlertmanagerLabels { alertmanager: receiver.shown.clone(), result: SendResult::Failed };
    assert_eq!(receiver.metrics.requests.get_or_create_owned(&failed).get(), 1);
}

#[tokio::test]
async fn addresses_beyond_the_limit_are_counted_and_reported_until_they_are_gone() {
    static LAST: AtomicU8 = AtomicU8::new(0);

    let script = FakeReceiver::start([]).await;
    let port = address_of(&script).port();
    let mut receiver = receiver(&format!("http://alertmanager:{port}"), |_| {
        Ok(addresses(1..=LAST.load(Ordering::Relaxed)))
    });
    let limit = u8::try_from(MAX_INSTANCES).expect("small");

    for (last, left_out, dropped) in
        [(limit, 0, 0), (limit + 3, 3, 3), (limit + 3, 3, 6), (limit - 1, 0, 6)]
    {
        LAST.store(last, Ordering::Relaxed);
        let found = receiver.look_up().await.expect("addresses");
        receiver.adopt(found);

        assert_eq!(receiver.instances.len(), usize::from(last.min(limit)));
        assert_eq!(
            (receiver.left_out, receiver.metrics.addresses_dropped.get()),
            (left_out, dropped)
        );
        assert!(receiver.instances.keys().all(|address| address.port() == port));
    }
}

#[tokio::test]
async fn a_host_with_addresses_of_both_kinds_is_posted_to_over_one_of_them() {
    let mut receiver = receiver("https://alertmanager", |_| {
        Ok(["[2001:db8::1]:0", "192.0.2.2:0", "192.0.2.1:0", "192.0.2.1:0"]
            .map(|text| text.parse().expect("one"))
            .into())
    });
    let found = receiver.look_up().await.expect("addresses");

    receiver.adopt(found);
    let shown: Vec<String> = receiver.instances.keys().map(SocketAddr::to_string).collect();

    assert_eq!(shown, ["192.0.2.1:443", "192.0.2.2:443"]);
}

/// A network outage often breaks name resolution, too. Two alternating problems would log lines
/// without end.
#[tokio::test]
async fn a_lookup_and_instances_that_fail_together_are_one_line_in_the_log() {
    let log = Captured::start();
    let (first, second) = (
        FakeReceiver::start(vec![Reply::status(503); 3]).await,
        FakeReceiver::start(vec![Reply::Close; 3]).await,
    );
    let mut receiver =
        receiver("http://alertmanager:9093", |_| Err(io::Error::other("no resolver")));

    for script in [&first, &second] {
        let known = instance(&receiver.url, script);
        receiver.instances.insert(address_of(script), known);
    }

    for _ in 0..3 {
        assert_eq!(receiver.post(&posting()).await, Some(None), "to be repeated");
    }

    let warnings = log.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:#?}");

    let named = ["no resolver", "HTTP 503", &address_of(&second).to_string()]
        .map(|part| warnings[0].contains(part));

    assert_eq!(named, [true; 3], "{warnings:?}");
    assert_eq!(receiver.post(&posting()).await, None, "both accept it");
    assert_eq!(log.warnings().len(), 2, "the problem has changed");
}
