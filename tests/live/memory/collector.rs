//! Garbage collection: the heap of an operator reaches the limit of its runtime.

use std::time::Duration;

use serde_json::json;

use crate::bed::bed;
use loopwatch_testbed::http;
use loopwatch_testbed::operator::{ACCOUNT, NAMESPACE, Operator};
use loopwatch_testbed::sidecar::{Sidecar, quick_but};
use loopwatch_testbed::wait::pause;

const CODE: &str = "GarbageCollectionThrash";

/// loopwatch counts collections over a minute.
const FOUND: Duration = Duration::from_secs(240);

/// Memory that comes and goes: much work for the collector.
const WORK: &str = "HeapWave?size=32Mi&period=400ms";
/// Memory that stays, of which each collection visits every object.
const STEP: &str = "HeapLinked?size=96Mi";

/// An operator with a limit of its runtime, and loopwatch.
struct Limited {
    namespace: &'static str,
    operator: Operator,
    sidecar: Sidecar,
}

/// One operator needs more memory than its runtime may use. Its twin needs as much, but may use
/// more. Near miss: an operator that collects garbage again and again, because it has much work.
pub(super) fn thrash() {
    let thrashing = Limited::start("gc-thrash", "64MiB");
    let twin = Limited::start("gc-twin", "1GiB");
    let busy = Limited::start("gc-busy", "1GiB");

    thrashing.operator.fault(STEP);
    thrashing.operator.fault(WORK);
    twin.operator.fault(STEP);
    busy.operator.fault(WORK);

    let (found, took) =
        thrashing.sidecar.expect_finding(FOUND, CODE, "Operator", &thrashing.name());
    eprintln!("memory: {CODE} found after {took:.0?}: {found}");
    assert!(found.evidence("limit") == 64 << 20, "{found}");
    assert!(found.evidence("used").as_u64() >= Some(96 << 20), "{found}");
    for key in ["instance", "heap_goal"] {
        assert!(!found.evidence(key).is_null(), "no {key}: {found}");
    }

    // The runtime limits the time that its collector takes, which is certain. The rate follows.
    thrashing.sidecar.expect(FOUND, "the finding is certain", || {
        let (found, _) =
            thrashing.sidecar.expect_finding(FOUND, CODE, "Operator", &thrashing.name());
        let is_certain = found.0["confidence"] == "confirmed";
        match is_certain && found.evidence("collections_per_second").as_f64() >= Some(1.0) {
            true => Ok(()),
            false => Err(found.to_string()),
        }
    });

    // However busy the machine is, the near miss must have collected often.
    busy.sidecar.expect(FOUND, "many collections", || match busy.collections()? {
        few if few < 200.0 => Err(few.to_string()),
        _ => Ok(()),
    });

    thrashing.operator.cure("HeapWave");
    thrashing.operator.cure("HeapLinked");
    thrashing.sidecar.expect_cleared(FOUND, CODE, "Operator", &thrashing.name());

    for healthy in [twin, busy] {
        let opened = healthy.sidecar.opened();
        assert!(opened.is_empty(), "{}: {opened:?}", healthy.namespace);
    }
}

impl Limited {
    fn start(namespace: &'static str, limit: &str) -> Self {
        let plane = bed();
        plane.kube.namespace(namespace);

        let flags = ["--ready-after=200ms", "--wait-for-pods=false", "--autoscale-every=0"];
        let name = format!("{namespace}.operator");
        let operator = Operator::start_limited(plane, &name, namespace, limit, &flags);
        plane.kube.zoo("Statusless", namespace, "object", json!({}));

        let file = format!("{namespace}.kubeconfig");
        let account = plane.kubeconfig_of(&file, &plane.url, NAMESPACE, ACCOUNT);
        let settings = quick_but(json!({"thrash_after": "5s", "source_failing_after": "2m"}));
        let flags = [
            format!("--namespace={namespace}"),
            format!("--scrape=http://{}", operator.metrics),
            "--scrape-interval=1s".to_owned(),
            "--watch=zoo.loopwatch.dev/Statusless".to_owned(),
            "--profiles=off".to_owned(),
        ];
        let flags = flags.each_ref().map(String::as_str);
        let sidecar = Sidecar::start(plane, namespace, &account, &settings, &flags);
        sidecar.wait_synced(1);
        pause(Duration::from_secs(2));

        Self { namespace, operator, sidecar }
    }

    /// The name of the operator without a Pod.
    fn name(&self) -> String {
        self.operator.metrics.to_string()
    }

    /// The number of garbage collections so far.
    fn collections(&self) -> Result<f64, String> {
        let text = http::get(self.operator.metrics.port(), "/metrics")?;
        let count =
            text.lines().find_map(|line| line.strip_prefix("go_gc_duration_seconds_count "));
        count.and_then(|count| count.parse().ok()).ok_or_else(|| "no count".to_owned())
    }
}
