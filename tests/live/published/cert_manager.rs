//! cert-manager, a published operator, unchanged: it issues certificates while users create, change
//! and delete them and while its replicas are rolled. loopwatch must report nothing. Then it is
//! stopped, and some objects really fail.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{expect_good_outcomes, expect_no_finding, outcomes};
use crate::bed::bed;
use crate::case::SLACK;
use crate::compare::{compare, expect_audited};
use crate::recorder::Recorder;
use loopwatch_testbed::cert_manager::{self, API, KINDS, NAMESPACE};
use loopwatch_testbed::kube::Kube;
use loopwatch_testbed::published::Replica;
use loopwatch_testbed::sidecar::{Sidecar, quick_but};
use loopwatch_testbed::wait::eventually;

/// Namespaces with certificates.
const TEAMS: [&str; 3] = ["certificates-a", "certificates-b", "certificates-c"];

/// The host names of the replicas.
const HOSTS: [&str; 2] = ["cert-manager-1", "cert-manager-2"];

/// The deadline of all objects. cert-manager retries after 5 s at the earliest, and a new leader
/// starts its caches anew.
const DEADLINE: Duration = Duration::from_secs(30);

/// The deadline of objects that will miss it.
const SHORT: Duration = Duration::from_secs(8);

/// How long an issuer may be missing. Some certificates are created before their issuers.
const DANGLING: Duration = Duration::from_secs(15);

/// Thresholds long enough for a busy machine. Windows for counts keep their defaults.
fn thresholds() -> Value {
    quick_but(json!({
        "deadline": format!("{}s", DEADLINE.as_secs()),
        "dangling_after": format!("{}s", DANGLING.as_secs()),
        "reject_after": "3s",
        "regressed_after": "15s",
        "phase_stuck_after": "25s",
        "finalizer_stuck_after": "20s",
        "recover_at_least": "25s",
        "source_failing_after": "15s",
        "flap_window": "30m",
        "cycle_window": "30m",
    }))
}

/// Runs the test.
pub(super) fn run() {
    let plane = bed();
    cert_manager::install(plane);
    TEAMS.iter().for_each(|team| plane.kube.namespace(team));

    let count = if cert_manager::can_replicate() { HOSTS.len() } else { 1 };
    let replicas = HOSTS[..count].iter().map(|host| cert_manager::start(plane, host)).collect();
    let kubeconfig = plane.kubeconfig_of("published.kubeconfig", &plane.url, NAMESPACE, NAMESPACE);
    let flags = ["--secrets=metadata"];
    let sidecar = Sidecar::start(plane, "published", &kubeconfig, &thresholds(), &flags);
    let recorder = Recorder::for_wide_scenario("published", "published", &kubeconfig);
    let mut site = Site { kube: plane.kube.clone(), sidecar, replicas };

    site.expect_discovered();
    site.issue();
    site.change();
    site.scale_and_roll();

    let lag = expect_audited(&site.sidecar);
    expect_no_finding("published", &site.sidecar, &[], &lag.to_string());
    expect_good_outcomes(&site.sidecar);

    let expected = [site.stop(), site.lack_issuer(), site.lack_secret(), site.keep_key()].concat();
    drop(recorder);

    let is_expected = |(code, on): &(String, String)| {
        expected.iter().any(|(expected, subject)| code == expected && on.starts_with(subject))
    };
    let others: Vec<_> =
        site.sidecar.opened().into_iter().filter(|found| !is_expected(found)).collect();

    assert!(others.is_empty(), "{others:?}\n{}", site.sidecar.account());
}

/// cert-manager, and loopwatch with its account.
struct Site {
    kube: Kube,
    sidecar: Sidecar,
    replicas: Vec<Replica>,
}

/// The code of an expected finding, and the beginning of the names of its possible subjects.
type Expected = Vec<(&'static str, String)>;

impl Site {
    /// Expects that loopwatch finds the operator's kinds, and lacks nothing.
    fn expect_discovered(&self) {
        self.sidecar.wait_synced(KINDS.len());
        let status = self.sidecar.status().unwrap_or_default();
        let kinds = status["kinds"].as_array().cloned().unwrap_or_default();

        for (_, kind) in KINDS {
            let found = kinds.iter().find(|k| k["kind"] == kind);
            assert!(found.is_some_and(|k| k["role"] == "primary"), "{kind}: {status}");
        }

        assert_eq!(kinds.len(), KINDS.len(), "{status}");
        assert_eq!(status["not_visible"], json!([]), "{status}");
    }

    /// Creates a chain of issuers, and certificates in every namespace, some of them before their
    /// issuers. An issuer comes after its Secret: cert-manager would try again after 5, 10, 20 and
    /// 40 s.
    fn issue(&self) {
        self.certificate(NAMESPACE, "root", authority(by("by-itself")));
        self.cluster_issuer("by-itself", json!({"selfSigned": {}}));
        self.expect_converged("the first certificate");

        for team in TEAMS {
            self.certificate(team, "web", by("by-root"));
            self.certificate(team, "team", authority(by("by-root")));
        }

        self.cluster_issuer("by-root", json!({"ca": {"secretName": "root"}}));
        self.expect_converged("certificates that were created before their issuer");
        for team in TEAMS {
            self.issuer(team, "by-team", json!({"ca": {"secretName": "team"}}));
            self.certificate(team, "database", json!({}));

            // cert-manager renews it every 15 s.
            self.certificate(team, "brief", json!({"duration": "1h", "renewBefore": "59m45s"}));
        }

        self.expect_converged("issuers in all namespaces");
    }

    /// Changes specs, and deletes things.
    fn change(&self) {
        for team in TEAMS {
            let names = json!({"dnsNames": ["database.example.com", "db.example.com"]});
            self.respecify(team, "database", names);
        }

        self.expect_converged("further names");
        for team in TEAMS {
            self.respecify(
                team,
                "web",
                json!({"issuerRef": {"name": "by-team", "kind": "Issuer"}}),
            );
        }

        self.expect_converged("another issuer");
        for team in TEAMS {
            let key = json!({"algorithm": "ECDSA", "size": 384, "rotationPolicy": "Always"});
            self.respecify(team, "web", json!({"privateKey": key}));
            self.respecify(team, "database", json!({"secretName": "database-2"}));
        }

        self.expect_converged("another key and another Secret");
        for team in TEAMS {
            self.kube.delete("v1", "Secret", team, "web");
            self.kube.delete(API, "Certificate", team, "database");
            self.certificate(team, "database", json!({}));
        }

        self.expect_converged("lost Secrets and a certificate that is deleted and created again");
    }

    /// Creates many certificates while the replicas are rolled one after the other, and deletes
    /// some of them.
    fn scale_and_roll(&mut self) {
        let (many, began, mut leaders) = (10, Instant::now(), vec![self.expect_leader(&|_| true)]);
        for (round, stopped) in HOSTS.into_iter().enumerate().take(self.replicas.len()) {
            for (team, number) in
                TEAMS.iter().flat_map(|team| (0..many).map(move |number| (team, number)))
            {
                self.certificate(team, &format!("many-{round}-{number}"), json!({}));
            }

            self.replicas[round].stop();
            if self.replicas.len() > 1 {
                leaders.push(self.expect_leader(&|leader| leader != stopped));
            }

            self.replicas[round].start_again();
            self.expect_converged("many certificates, and a replica rolled");
        }

        for (team, number) in
            TEAMS.iter().flat_map(|team| (0..many).map(move |number| (team, number)))
        {
            self.kube.delete(API, "Certificate", team, &format!("many-0-{number}"));
        }

        self.expect_converged("many certificates deleted");
        eprintln!("published: rolled in {:.1?}, led by {leaders:?}", began.elapsed());
    }

    fn expect_leader(&self, wanted: &dyn Fn(&str) -> bool) -> String {
        eventually(Duration::from_secs(40), "a replica leads", || {
            let leader = cert_manager::leader(&self.kube)?;
            if wanted(&leader) { Ok(leader) } else { Err(format!("{leader} leads")) }
        })
    }

    /// Stops the operator on purpose.
    fn stop(&mut self) -> Expected {
        self.replicas.iter_mut().for_each(Replica::stop);
        let team = TEAMS[0];
        self.shorten(team, "database");
        self.respecify(team, "database", json!({"dnsNames": ["stopped.example.com"]}));

        let (finding, took) =
            self.sidecar.expect_finding(SHORT + SLACK, "Unacknowledged", "Certificate", "database");

        assert_eq!(finding.evidence("observed_generation"), 1, "{finding}");

        let writer = finding.evidence("last_status_writer").as_str().unwrap_or_default();
        assert!(writer.starts_with("cert-manager-certificates-"), "{finding}");

        let mut rest = self.sidecar.findings().unwrap_or_default();
        rest.retain(|other| !other.is("Unacknowledged", "Certificate", "database"));

        assert!(rest.is_empty(), "{rest:?}");

        let began = Instant::now();
        self.replicas.iter_mut().for_each(Replica::start_again);
        self.sidecar.expect_cleared(SHORT + SLACK, "Unacknowledged", "Certificate", "database");
        self.expect_converged("the change of an operator that was stopped");
        eprintln!(
            "published: stopped: found after {took:.1?}, cleared {:.1?} after the start",
            began.elapsed()
        );

        // The deadline has passed when the operator acknowledges the change, and issuing takes a
        // moment.
        let subject = format!("Certificate {team}/database");
        vec![("Unacknowledged", subject.clone()), ("Overdue", subject)]
    }

    /// Creates certificates whose issuers do not exist. The finding about that also explains why
    /// they are overdue.
    fn lack_issuer(&self) -> Expected {
        let team = TEAMS[1];
        let group = "cert-manager.io";
        let of =
            |kind: &str| json!({"issuerRef": {"name": "missing", "kind": kind, "group": group}});
        let orphans = [
            ("orphan", of("Issuer"), "Issuer certificates-b/missing"),
            ("orphan-of-cluster", of("ClusterIssuer"), "ClusterIssuer missing"),
        ];

        for (name, issuer, _) in &orphans {
            self.certificate(team, name, issuer.clone());
        }

        for (name, _, target) in &orphans {
            let (found, took) = self.sidecar.expect_finding(
                DANGLING * 2 + SLACK,
                "DanglingReference",
                "Certificate",
                name,
            );
            eprintln!("published: issuer missing: found after {took:.1?}: {found}");
            assert!(found.evidence("target").to_string().contains(target), "{found}");
            assert!(found.evidence("reference").to_string().contains("spec.issuerRef"), "{found}");
        }

        self.sidecar.expect(DEADLINE + SLACK, "being overdue is explained", || {
            let findings = self.sidecar.findings()?;
            let is_explained = |name: &str| {
                let mut overdue = findings.iter().filter(|f| f.is("Overdue", "Certificate", name));
                overdue.any(|finding| !finding.0["explained_by"].is_null())
            };
            match orphans.iter().all(|(name, ..)| is_explained(name)) {
                true => Ok(()),
                false => {
                    Err(json!(findings.iter().map(|f| f.0.clone()).collect::<Vec<_>>()).to_string())
                }
            }
        });

        self.issuer(team, "missing", json!({"selfSigned": {}}));
        self.cluster_issuer("missing", json!({"selfSigned": {}}));
        for (name, ..) in &orphans {
            self.sidecar.expect_cleared(
                DANGLING * 2 + SLACK,
                "DanglingReference",
                "Certificate",
                name,
            );
        }
        self.expect_converged("the issuers that were missing");

        let subjects = ["Certificate", "CertificateRequest"]
            .map(|kind| ["DanglingReference", "Overdue"].map(|code| (code, kind)));
        subjects
            .into_iter()
            .flatten()
            .map(|(code, kind)| (code, format!("{kind} {team}/orphan")))
            .collect()
    }

    /// Creates an issuer whose Secret does not exist. It fails, but its user has to act, so there
    /// is no finding.
    fn lack_secret(&self) -> Expected {
        let team = TEAMS[1];
        self.issuer(team, "incomplete", json!({"ca": {"secretName": "missing"}}));

        let rejected = || outcomes(&self.sidecar, "rejected");
        self.sidecar.expect(SLACK, "the issuer is rejected", || {
            let object = self.sidecar.object("Issuer", team, "incomplete")?;
            let known = object["state"] == "failed"
                && object["reason"] == "ReadyFalse"
                && rejected() == 1.0;
            if known { Ok(()) } else { Err(object.to_string()) }
        });

        self.kube.delete(API, "Issuer", team, "incomplete");
        Vec::new()
    }

    /// Changes the size of a key that may not be rotated: `Ready` stays true, and cert-manager
    /// tries forever.
    fn keep_key(&self) -> Expected {
        let team = TEAMS[2];
        let key = json!({"algorithm": "ECDSA", "size": 521, "rotationPolicy": "Never"});
        self.shorten(team, "web");
        self.respecify(team, "web", json!({"privateKey": key}));

        let (finding, took) =
            self.sidecar.expect_finding(SHORT + SLACK, "Overdue", "Certificate", "web");
        eprintln!("published: key may not be rotated: found after {took:.1?}: {finding}");
        self.respecify(team, "web", json!({"privateKey": {"rotationPolicy": "Always"}}));
        self.sidecar.expect_cleared(SHORT + SLACK, "Overdue", "Certificate", "web");
        self.expect_converged("the key that may be rotated");

        vec![("Overdue", format!("Certificate {team}/web"))]
    }

    /// Waits until loopwatch holds exactly the objects of the cluster, with the same generations,
    /// and says that all have converged.
    fn expect_converged(&self, what: &str) {
        let Self { kube, sidecar, .. } = self;
        sidecar.expect(Duration::from_secs(60), what, || {
            for namespace in TEAMS {
                for kind in ["Certificate", "CertificateRequest", "Issuer"] {
                    compare(sidecar, kube, (API, kind), namespace)?;
                }
            }

            compare(sidecar, kube, (API, "ClusterIssuer"), "")?;
            let objects = sidecar.objects("group=cert-manager.io")?;
            let unconverged: Vec<_> =
                objects.iter().filter(|object| object["state"] != "converged").collect();

            if unconverged.is_empty() {
                Ok(())
            } else {
                Err(format!("{} not: {}", unconverged.len(), unconverged[0]))
            }
        });
    }

    /// Creates a certificate with a small key and a Secret of its name, by default from the issuer
    /// of the namespace.
    fn certificate(&self, namespace: &str, name: &str, more: Value) {
        let mut spec = json!({"secretName": name, "dnsNames": [format!("{name}.example.com")],
            "privateKey": {"algorithm": "ECDSA", "size": 256}, "issuerRef": {"name": "by-team"}});
        for (key, value) in more.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }

        let metadata = json!({"name": name, "namespace": namespace});
        self.kube.apply(
            &json!({"apiVersion": API, "kind": "Certificate", "metadata": metadata, "spec": spec}),
        );
    }

    fn issuer(&self, namespace: &str, name: &str, spec: Value) {
        let metadata = json!({"name": name, "namespace": namespace});
        self.kube.apply(
            &json!({"apiVersion": API, "kind": "Issuer", "metadata": metadata, "spec": spec}),
        );
    }

    fn cluster_issuer(&self, name: &str, spec: Value) {
        let metadata = json!({"name": name});
        self.kube.apply(&json!({"apiVersion": API, "kind": "ClusterIssuer", "metadata": metadata, "spec": spec}));
    }

    /// Gives a certificate a short deadline.
    fn shorten(&self, namespace: &str, name: &str) {
        self.kube.patch(
            API,
            "Certificate",
            namespace,
            name,
            &json!({"metadata": {"annotations": short()}}),
        );
    }

    fn respecify(&self, namespace: &str, name: &str, spec: Value) {
        self.kube.patch(API, "Certificate", namespace, name, &json!({"spec": spec}));
    }
}

/// A reference to a cluster issuer.
fn by(cluster_issuer: &str) -> Value {
    json!({"issuerRef": {"name": cluster_issuer, "kind": "ClusterIssuer"}})
}

/// The spec of a certificate of an authority.
fn authority(mut spec: Value) -> Value {
    spec["isCA"] = json!(true);
    spec["commonName"] = json!("authority");
    spec
}

/// The annotation that sets a short deadline.
fn short() -> Value {
    json!({"loopwatch.dev/deadline": format!("{}s", SHORT.as_secs())})
}
