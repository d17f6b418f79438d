//! Several clusters and one Prometheus: the same version of an operator is worse in one of them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::bed::{another, bed, test_with};
use crate::prometheus::{ClusterTarget, Prometheus, rules_of};
use loopwatch_testbed::accounts::reader_account;
use loopwatch_testbed::bundled::{self, Pace};
use loopwatch_testbed::controlplane::ControlPlane;
use loopwatch_testbed::kube::Kube;
use loopwatch_testbed::operator;
use loopwatch_testbed::replicas::Replicas;
use loopwatch_testbed::sidecar::{Sidecar, quick_but};
use loopwatch_testbed::wait::{eventually, pause};

pub(crate) fn trials() -> Vec<Trial> {
    vec![test_with("clusters::one_differs", &["prometheus"], one_differs)]
}

const NAME: &str = "clusters.prometheus";
const ALERT: &str = "LoopwatchClusterDiffers";

/// The clusters. What is bad in only one of them is bad in the second one.
const GOOD: &str = "eu-1";
const BAD: &str = "us-1";

/// An operator that has the same version in both clusters, although each pulls it from a registry of
/// its own: the namespace and the images.
const SAME: (&str, [&str; 2]) = (
    "same-version",
    [
        "registry.eu.example/zoo/widget-operator:1.4.2",
        "mirror.us.example:5000/widget-operator:1.4.2",
    ],
);
const VERSION: &str = "widget-operator:1.4.2";

/// An operator that has different versions.
const DIFFERENT: (&str, [&str; 2]) = (
    "two-versions",
    ["registry.example/widget-operator:1.5.0", "registry.example/widget-operator:2.0.0"],
);

/// The kind that is late only in the bad cluster, the one that is late in both alike, and the one that is
/// late in none.
const DIFFERS: &str = "Widget";
const ALIKE: &str = "MapConditions";
const KINDS: [&str; 3] = [DIFFERS, ALIKE, "NumericString"];

/// The objects of each kind: as many as the alert wants changes.
const OBJECTS: u32 = 20;

/// Enough for all changes, the deadline and Prometheus.
const SOON: Duration = Duration::from_secs(90);

/// An operator in a cluster, and its loopwatch.
struct Site {
    cluster: &'static str,
    namespace: &'static str,
    kinds: &'static [&'static str],
    kube: Kube,
    replicas: Replicas,
    sidecar: Sidecar,
}

/// The alert names the cluster in which a version is late. It says nothing about a kind that is late
/// in all clusters, nor about a cluster that has another version.
fn one_differs() {
    let second = another();
    operator::install(&second);
    let sites = sites([(GOOD, bed()), (BAD, &second)]);
    let targets: Vec<ClusterTarget<'_>> = sites.iter().map(Site::target).collect();
    let central = Central(Prometheus::start_central(NAME, (Pace::Hurried, &rules()), &targets));
    central.expect("each version is known", "count(version:loopwatch_operator:info)", 4.0);

    sites.iter().for_each(|site| site.change_all(2));
    sites.iter().for_each(Site::wait_converged);
    KINDS.iter().for_each(|kind| central.expect_compared(kind));
    assert_eq!(central.differing(), [] as [String; 0], "all is well");

    for site in &sites {
        site.spoil();
        site.change_all(3);
    }
    let changed = Instant::now();
    let alert = eventually(SOON * 2, "the alert fires", || central.alert());
    eprintln!("clusters: the alert fired {:.0?} after the changes", changed.elapsed());

    expect_named(&alert);
    central.expect_late(SAME.0, ALIKE, &[GOOD, BAD]);
    central.expect_late(DIFFERENT.0, DIFFERS, &[BAD]);
    pause(Duration::from_secs(10));
    assert_eq!(central.differing(), [format!("{BAD} {VERSION} {DIFFERS}")]);

    central.expect("all audits agree", "min(job:loopwatch_audits_agreeing:ratio)", 1.0);
    central.expect_panels();
    central.expect_rows("Operators by cluster and version", 5, sites.len());
    central.expect_rows("Kinds by cluster and version", 3, 2 * (KINDS.len() + 1));
    central.0.expect_rules_work();
}

/// Starts the operators in both clusters, with their objects.
fn sites(clusters: [(&'static str, &ControlPlane); 2]) -> Vec<Site> {
    let mut sites = Vec::new();
    for (index, (cluster, plane)) in clusters.into_iter().enumerate() {
        for ((namespace, images), kinds) in [(SAME, &KINDS[..]), (DIFFERENT, &KINDS[..1])] {
            sites.push(Site::start(plane, cluster, namespace, images[index], kinds));
        }
    }

    sites.iter().for_each(Site::make_all);
    sites.iter().for_each(Site::wait_converged);
    sites
}

/// The rules, of which a user with two clusters changes one threshold.
fn rules() -> Vec<PathBuf> {
    let two = ("loopwatch:cluster_differs_clusters:min", 2);
    bundled::central_rules_at(Pace::Hurried, &rules_of(NAME), two)
}

/// Expects that an alert says which cluster differs, from how many, and by how much.
fn expect_named(alert: &Value) {
    for (label, value) in [
        ("cluster", BAD),
        ("operator_version", VERSION),
        ("kind", DIFFERS),
        ("namespace", SAME.0),
        ("severity", "warning"),
    ] {
        assert_eq!(alert["labels"][label], value, "{alert}");
    }

    let text = |key: &str| alert["annotations"][key].as_str().unwrap_or_default().to_owned();
    assert!(text("summary").ends_with(&format!("(cluster {BAD})")), "{alert}");
    let compared = format!("Clusters with {VERSION} and enough changes: 2; the better one: 0%.");
    assert!(text("description").contains(&compared), "{alert}");
}

impl Site {
    fn start(
        plane: &ControlPlane,
        cluster: &'static str,
        namespace: &'static str,
        image: &str,
        kinds: &'static [&'static str],
    ) -> Self {
        let kube = plane.kube.clone();
        kube.namespace(namespace);
        reader_account(&kube, namespace);

        let flags =
            ["--ready-after=200ms", "--wait-for-pods=false", "--leader-elect-lease-duration=8s"];
        let replicas = Replicas::start_image(plane, namespace, image, &flags);
        let sidecar = loopwatch(plane, namespace);
        sidecar.wait_watched(DIFFERS, 1);

        Self { cluster, namespace, kinds, kube, replicas, sidecar }
    }

    fn target(&self) -> ClusterTarget<'_> {
        (self.cluster, (self.namespace, "loopwatch-0", self.sidecar.port))
    }

    /// Each object of each kind.
    fn each(&self) -> impl Iterator<Item = (&'static str, String)> {
        let of = |kind: &&'static str| {
            let kind = *kind;
            (0..OBJECTS).map(move |number| (kind, format!("object-{number}")))
        };
        self.kinds.iter().flat_map(of)
    }

    fn make_all(&self) {
        self.each()
            .for_each(|(kind, name)| _ = self.kube.zoo(kind, self.namespace, &name, json!({})));
    }

    fn change_all(&self, size: u32) {
        for (kind, name) in self.each() {
            self.kube.change(kind, self.namespace, &name, json!({"size": size}));
        }
    }

    fn wait_converged(&self) {
        let all = self.each().count();
        self.sidecar.expect(SOON, "all objects have converged", || {
            let objects = self.sidecar.objects("")?;
            let is_of_kinds =
                |object: &&Value| self.kinds.iter().any(|kind| object["kind"] == **kind);
            let converged =
                objects.iter().filter(is_of_kinds).filter(|it| it["state"] == "converged");

            match converged.count() {
                count if count == all => Ok(()),
                count => Err(format!("{count} of {all} in {} {}", self.cluster, self.namespace)),
            }
        });
    }

    /// Lets the operator miss the deadline of each change from now on.
    fn spoil(&self) {
        let operator = &self.replicas.all[0].operator;
        operator.fault(&format!("Overdue?kind={ALIKE}"));
        if self.cluster == BAD {
            operator.fault(&format!("Overdue?kind={DIFFERS}"));
        }
    }
}

/// loopwatch beside an operator. No finding about single objects pages in this test.
fn loopwatch(plane: &ControlPlane, namespace: &str) -> Sidecar {
    let settings = quick_but(json!({"phase_stuck_after": "10m"}));
    let flags =
        [format!("--namespace={namespace}"), format!("--operator={namespace}/widget-operator")];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();

    Sidecar::start(
        plane,
        &format!("{namespace}.loopwatch"),
        &plane.kube.kubeconfig,
        &settings,
        &flags,
    )
}

/// The Prometheus that has the series of all clusters.
struct Central(Prometheus);

impl Central {
    fn expect(&self, what: &str, query: &str, expected: f64) {
        eventually(SOON, what, || match self.0.value(query)? {
            value if (value - expected).abs() < 1e-9 => Ok(()),
            value => Err(format!("{query} is {value}")),
        });
    }

    /// Expects that both clusters have enough changes of a kind.
    fn expect_compared(&self, kind: &str) {
        let of = format!("kind=\"{kind}\",operator_version=\"{VERSION}\"");
        let query = format!("kind_version:loopwatch_clusters:count6h{{{of}}}");
        self.expect(&format!("both clusters count for {kind}"), &query, 2.0);
    }

    /// Expects that many changes of a kind are late in exactly these clusters.
    fn expect_late(&self, namespace: &str, kind: &str, clusters: &[&str]) {
        let of = format!("namespace=\"{namespace}\",kind=\"{kind}\"");
        let query = |cluster| {
            format!(
                "max(kind_version:loopwatch_obligations_late:ratio_increase6h{{cluster=\"{cluster}\",{of}}})"
            )
        };
        for cluster in [GOOD, BAD] {
            let late = self.0.value(&query(cluster)).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(late > 0.3, clusters.contains(&cluster), "{kind} in {cluster}: {late}");
        }
    }

    /// The alert that fires.
    fn alert(&self) -> Result<Value, String> {
        let firing = self.0.firing()?;
        let found = firing.iter().find(|alert| alert["labels"]["alertname"] == ALERT).cloned();
        found.ok_or_else(|| json!(firing).to_string())
    }

    /// All that the alert has fired about so far: the cluster, the version and the kind.
    fn differing(&self) -> Vec<String> {
        let query =
            format!("last_over_time(ALERTS{{alertname=\"{ALERT}\",alertstate=\"firing\"}}[10m])");
        let labels = self.0.labels(&query).unwrap_or_else(|error| panic!("{error}"));
        let text = |of: &Value, label: &str| of[label].as_str().unwrap_or_default().to_owned();
        let mut found: Vec<String> = labels
            .iter()
            .map(|of| {
                ["cluster", "operator_version", "kind"].map(|label| text(of, label)).join(" ")
            })
            .collect();

        found.sort();
        found.dedup();
        found
    }

    /// Expects that each panel of the dashboard has data.
    fn expect_panels(&self) {
        let (queries, empty) = self.0.ask_panels("loopwatch-clusters");
        assert!(empty.is_empty(), "of {queries} queries: {empty:?}");
    }

    /// Expects that the first queries of a table of the dashboard have the same rows, so that Grafana merges
    /// them, and as many as there are operators in clusters, or kinds of these.
    fn expect_rows(&self, table: &str, queries: usize, rows: usize) {
        let all = bundled::queries("loopwatch-clusters").into_iter();
        let of_table = all.filter(|query| query.panel == table).take(queries);
        let keys: Vec<BTreeSet<String>> = of_table
            .map(|query| self.0.labels(&query.promql).unwrap_or_else(|error| panic!("{error}")))
            .map(|series| series.iter().map(Value::to_string).collect())
            .collect();

        assert_eq!((keys.len(), keys[0].len()), (queries, rows), "{table}: {keys:#?}");
        assert!(keys.iter().all(|other| *other == keys[0]), "{table}: {keys:#?}");
    }
}
