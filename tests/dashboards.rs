//! The dashboards: every query has data on a real Prometheus that scrapes replayed incidents, and the panels follow the
//! rules of Grafana's dashboard-linter.

#![expect(clippy::panic, reason = "a broken test should stop")]

#[path = "dashboards/prometheus.rs"]
mod prometheus;
#[path = "dashboards/rollout.rs"]
mod rollout;

use std::collections::BTreeSet;
use std::time::Duration;

use loopwatch_testbed::bundled::{self, DASHBOARDS, Query};
use loopwatch_testbed::standin::{Standin, StreamedLists, Traits};
use loopwatch_testbed::wait::eventually;
use prometheus::{Loopwatch, Prometheus};

/// The recordings that are played, and how many times as fast as they happened: each takes less than a minute.
const REPLAYS: [(&str, f64); 5] =
    [("objects", 1.0), ("busy", 3.0), ("rabbitmq", 4.0), ("cache-growth", 200.0), ("descriptor-leak", 200.0)];

/// The time until the last replay has ended and its series have been seen.
const PLAYED: Duration = Duration::from_secs(100);

/// A panel whose series no recording contains, with the test that proves them.
const PROVED_ELSEWHERE: [(&str, &str); 1] =
    [("Workloads with stale configuration", "`references::stale-configuration` of the live tests proves the finding")];

#[test]
fn every_query_has_data_on_a_prometheus_that_scrapes_incidents() {
    let server =
        Standin::start(Traits { kinds: 1, objects: 5, bytes: 500, streamed: StreamedLists::Supported, changes: 1 });
    let mut targets: Vec<Loopwatch> = REPLAYS.iter().map(|(name, speed)| Loopwatch::replay(name, *speed)).collect();
    targets.push(Loopwatch::play("rollout", &rollout::recording(), 12.0));
    targets.push(Loopwatch::run("run", &server));
    let prometheus = Prometheus::start(&targets);
    let mut waiting: Vec<(&str, Query)> = Vec::new();
    for name in DASHBOARDS {
        let queries = bundled::queries(name).into_iter().chain(bundled::annotation_queries(name));
        waiting.extend(queries.map(|query| (name, query)));
    }
    let all = waiting.len();
    assert!(all > 100, "{all} queries");
    for (panel, _) in PROVED_ELSEWHERE {
        waiting.retain(|(_, query)| query.panel != panel);
        assert!(waiting.len() < all, "no panel {panel}");
    }
    let is_empty = |query: &Query| {
        // The 0 of a panel that shows a number although there is no series is no data.
        let promql = query.promql.replace(" or vector(0)", "");
        match prometheus.has_data(&promql) {
            Ok(has_data) => !has_data,
            Err(error) => panic!("{}: {}: {error}", query.panel, query.promql),
        }
    };
    eventually(PLAYED, "every panel has data", || {
        waiting.retain(|(_, query)| is_empty(query));
        let panels: BTreeSet<String> = waiting.iter().map(|(name, query)| format!("{name}: {}", query.panel)).collect();
        if panels.is_empty() { Ok(()) } else { Err(format!("{panels:#?}")) }
    });
    for name in DASHBOARDS {
        for query in bundled::variable_queries(name) {
            let values = prometheus.label_values(&query.label, &query.selector);
            assert!(values.as_ref().is_ok_and(|values| !values.is_empty()), "{name}: {query:?}: {values:?}");
        }
    }
    let revisions = prometheus.label_values("operator_revision", "loopwatch_obligations_total").expect("values");
    for revision in rollout::REVISIONS {
        assert!(revisions.iter().any(|value| value == revision), "{revisions:?}");
    }
}
