//! Tests of the source that reads the operator's process.

use std::time::Duration;

use loopwatch_model::observation::{Observation, SourceId};

use super::{Run, widget_operator};
use crate::net::HttpUrl;
use crate::sources::operator::{ProcessSelection, ScrapeTarget};

/// The process numbers of all samples, and the last state of the source.
fn samples(seen: &[Observation]) -> (Vec<Option<u32>>, Option<&'static str>) {
    let (mut pids, mut state) = (Vec::new(), None);
    for observation in seen {
        match observation {
            Observation::ProcessSeen(view) => pids.push(view.pid),
            Observation::SourceOff { source: SourceId::Process, .. } => state = Some("off"),
            Observation::SourceRestricted { source: SourceId::Process, .. } => {
                state = Some("restricted")
            }
            Observation::SourceRecovered { source: SourceId::Process } => state = Some("works"),
            Observation::SourceFailed { source: SourceId::Process, .. } => state = Some("failed"),
            _ => {}
        }
    }

    (pids, state)
}

#[tokio::test(start_paused = true)]
async fn the_named_process_is_read_as_often_as_metrics_but_at_least_every_ten_seconds() {
    let own = std::process::id();
    for (scrapes, readings) in [(10, 3), (5, 5), (300, 3)] {
        let mut run = Run::start(&widget_operator(), |options| {
            (options.process, options.scrape.interval) =
                (ProcessSelection::Pid(own), Duration::from_secs(scrapes));
        });

        // A test has no container of its own: it shares the cgroup of the process that it reads.
        assert_eq!(
            samples(&run.within(25).await),
            (vec![Some(own); readings], Some("restricted")),
            "{scrapes} s"
        );

        run.handle.shutdown().await;
    }
}

/// Otherwise, the page would show an empty instance next to the real one.
#[tokio::test(start_paused = true)]
async fn outside_of_a_pod_the_address_of_the_metrics_names_the_process_from_the_beginning() {
    let instances = |urls: &[&str]| {
        let url = |text: &&str| HttpUrl::parse(text, "/").expect("a URL");
        let urls: Vec<HttpUrl> = urls.iter().map(url).collect();
        async move {
            let mut run = Run::start(&widget_operator(), |options| {
                options.process = ProcessSelection::Pid(std::process::id());
                if !urls.is_empty() {
                    options.scrape.target = ScrapeTarget::Urls(urls);
                }
            });

            let seen = run.within(15).await;
            run.handle.shutdown().await;

            let named = seen.into_iter().filter_map(|observation| match observation {
                Observation::ProcessSeen(view) => Some(view.instance),
                Observation::ProcessGone { instance } => Some(format!("{instance} is gone")),
                _ => None,
            });

            named.collect::<Vec<_>>()
        }
    };

    assert_eq!(instances(&["http://127.0.0.1:1/metrics"]).await, ["127.0.0.1:1"; 2]);
    assert_eq!(
        instances(&["https://operator/m", "http://127.0.0.1:1/metrics"]).await,
        ["operator:443"; 2]
    );
    assert_eq!(instances(&[]).await, ["localhost"; 2]);
}

#[tokio::test(start_paused = true)]
async fn a_number_without_a_process_is_a_failure() {
    let none = u32::MAX;
    let mut run =
        Run::start(&widget_operator(), |options| options.process = ProcessSelection::Pid(none));

    assert_eq!(samples(&run.within(25).await), (vec![], Some("failed")));

    run.handle.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn without_a_process_to_read_the_source_is_off_and_a_single_list_does_not_mention_it() {
    let mut run = Run::start(&widget_operator(), |_| {});
    assert_eq!(samples(&run.within(25).await), (vec![], Some("off")));

    run.handle.shutdown().await;
    let mut run = Run::start(&widget_operator(), |options| options.discovery.once = true);

    assert_eq!(samples(&run.within(25).await), (vec![], None));

    run.handle.shutdown().await;
}
