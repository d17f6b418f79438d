//! How loopwatch looks up targets: reads, their limits, and answers that say nothing.

use std::collections::BTreeSet;

use loopwatch_model::observation::{
    Answer, Cause, Manager, ObjectAddress, ObjectKey, ObjectView, Observation, OwnerReference,
    Probe, Reference, Scope, WatchId, WatchedKind,
};
use loopwatch_model::settings::Settings;
use loopwatch_model::time::{Span, Timestamp};

use crate::lab::{Lab, Widget, kind, other_kind, unlearned, watch};

/// A cluster that answers reads of Secrets and other objects.
struct Cluster {
    lab: Lab,
    /// The names of the objects that exist.
    exists: BTreeSet<String>,
    /// The name of an owner of all of them.
    owner: Option<Widget>,
    /// The field manager that wrote all of them.
    writer: String,
    /// The answer to all reads, instead of the truth.
    instead: Option<Answer>,
    /// The addresses that were read.
    reads: Vec<ObjectAddress>,
    /// Nobody answers.
    silent: bool,
    /// All observations except ticks.
    log: Option<Vec<(Timestamp, Observation)>>,
}

impl Cluster {
    fn new(lab: Lab) -> Self {
        Self {
            lab,
            exists: BTreeSet::new(),
            owner: None,
            writer: "kubectl".into(),
            instead: None,
            reads: Vec::new(),
            silent: false,
            log: None,
        }
    }

    /// Answers the reads that the model asks for.
    fn answer(&mut self) {
        loop {
            let probes = self.lab.model.probes();
            let reads: Vec<ObjectAddress> = probes
                .into_iter()
                .filter_map(|p| if let Probe::Read(address) = p { Some(address) } else { None })
                .collect();
            if reads.is_empty() || self.silent {
                return;
            }

            for address in reads {
                self.reads.push(address.clone());
                let answer = self.instead.clone().unwrap_or_else(|| self.truth(&address));
                self.observe(Observation::Answered { probe: Probe::Read(address), answer });
            }
        }
    }

    fn truth(&self, address: &ObjectAddress) -> Answer {
        if !self.exists.contains(&address.name) {
            return Answer::Absent;
        }

        let key = ObjectKey { namespace: address.namespace.clone(), name: address.name.clone() };
        let owners = self.owner.iter().map(|owner| OwnerReference {
            api_version: "example.io/v1".into(),
            kind: "Widget".into(),
            name: owner.name.clone(),
            uid: owner.view(1).uid,
            ..OwnerReference::default()
        });

        let managers = vec![Manager { name: self.writer.clone(), ..Manager::default() }];
        let uid = format!("uid-of-{}", address.name);
        Answer::Found(Box::new(ObjectView {
            key,
            uid,
            owners: owners.collect(),
            managers,
            ..ObjectView::default()
        }))
    }

    /// Advances in steps of one second.
    fn advance(&mut self, span: Span) {
        for _ in 0..span.0 / 1000 {
            self.answer();
            self.lab.advance(Span::secs(1));
            self.answer();
        }
    }

    fn apply(&mut self, widget: &Widget, references: &[Reference]) {
        let object =
            Box::new(ObjectView { references: references.to_vec(), ..self.lab.view(widget) });
        self.observe(Observation::Applied { watch: watch(), object });
    }

    fn observe(&mut self, observation: Observation) {
        if let Some(log) = &mut self.log {
            log.push((self.lab.now, observation.clone()));
        }
        self.lab.observe(observation);
    }

    /// Creates a widget that is not ready and has these references.
    fn waiting(&mut self, name: &str, references: &[Reference]) -> Widget {
        let mut widget = Widget::new(name, self.lab.now);
        self.apply(&widget, references);
        self.lab.advance(Span::secs(1));
        self.apply(widget.waiting(), references);

        widget
    }

    fn dangling(&self) -> Vec<String> {
        self.lab
            .findings()
            .into_iter()
            .filter(|finding| finding.starts_with("DanglingReference"))
            .collect()
    }
}

fn secret(name: &str) -> Reference {
    of_kind("", "Secret", "spec.secretName", name)
}

fn of_kind(group: &str, kind: &str, path: &str, name: &str) -> Reference {
    let name_hash = name.bytes().fold(7, |hash, byte| hash * 31 + u64::from(byte));
    Reference {
        slot: path.into(),
        group: group.into(),
        kind: kind.into(),
        name: name.into(),
        name_hash,
        ..Reference::default()
    }
}

const WEB: &str = "DanglingReference Widget team-a/web";

#[test]
fn answers_that_say_nothing_accuse_nobody() {
    for answer in
        [Answer::Failed(Cause::Forbidden), Answer::Failed(Cause::ServerError), Answer::KindUnknown]
    {
        let mut cluster = Cluster::new(Lab::new());
        cluster.instead = Some(answer);
        cluster.waiting("web", &[secret("db")]);
        cluster.advance(Span::mins(9));
        cluster.lab.assert_no_findings();

        assert!(cluster.reads.len() < 15, "{}", cluster.reads.len());
    }

    let mut cluster = Cluster::new(Lab::new());
    cluster.silent = true;
    cluster.waiting("web", &[secret("db")]);
    cluster.advance(Span::mins(9));
    cluster.lab.assert_no_findings();
}

#[test]
fn a_finding_survives_short_failures_of_reads_but_not_the_loss_of_a_permission() {
    let mut cluster = Cluster::new(Lab::new());
    cluster.waiting("web", &[secret("db")]);
    cluster.advance(Span::mins(4));

    assert_eq!(cluster.dangling(), [WEB]);

    cluster.lab.changes();
    cluster.instead = Some(Answer::Failed(Cause::Timeout));
    cluster.advance(Span::mins(3));
    cluster.instead = None;
    cluster.advance(Span::mins(3));

    assert!(
        cluster.lab.changes().iter().all(|change| !change.contains("Dangling")),
        "neither closed nor opened again"
    );

    cluster.instead = Some(Answer::Failed(Cause::Forbidden));
    cluster.advance(Span::mins(9));

    assert!(cluster.dangling().is_empty());
}

/// The watch of issuers.
fn issuers() -> WatchedKind {
    other_kind("Issuer")
}

fn issuer(lab: &mut Lab, name: &str) -> ObjectView {
    lab.version += 1;
    Widget::new(name, lab.now).ready().view(lab.version)
}

#[test]
fn a_target_of_a_watched_kind_is_judged_without_a_read() {
    let mut cluster = Cluster::new(Lab::new());
    cluster.lab.discover(&[kind(), issuers()]);

    let main = issuer(&mut cluster.lab, "main");
    cluster.lab.list_in(&issuers().watch, vec![main]);
    cluster.waiting("twin", &[of_kind("", "Issuer", "spec.issuerRef", "main")]);
    cluster.waiting("web", &[of_kind("example.io", "Issuer", "spec.issuerRef", "missing")]);
    cluster.advance(Span::mins(3));

    assert_eq!(cluster.dangling(), [WEB]);

    let missing = issuer(&mut cluster.lab, "missing");
    cluster.lab.apply_to(&issuers().watch, missing);
    cluster.advance(Span::secs(15));

    assert!(cluster.dangling().is_empty());
    assert!(cluster.reads.is_empty(), "{:?}", cluster.reads);
}

#[test]
fn a_watch_that_cannot_see_or_leaves_objects_out_proves_nothing() {
    let mut cluster = Cluster::new(Lab::new());
    cluster.lab.discover(&[kind(), issuers()]);
    cluster.waiting("web", &[of_kind("", "Issuer", "spec.issuerRef", "missing")]);
    cluster.advance(Span::mins(9));

    assert!(cluster.dangling().is_empty(), "not listed yet");
    assert!(cluster.reads.is_empty());

    let mut cluster = Cluster::new(Lab::new());
    let filtered = WatchedKind { filtered: true, ..issuers() };
    cluster.lab.discover(&[kind(), filtered]);
    cluster.lab.list_in(&issuers().watch, vec![]);
    cluster.exists.insert("foreign".into());
    cluster.waiting("web", &[of_kind("", "Issuer", "spec.issuerRef", "foreign")]);
    cluster.advance(Span::mins(9));

    assert!(cluster.dangling().is_empty(), "a read has found it");
    assert_eq!(cluster.reads[0].group, "example.io");

    // A watch of another namespace.
    let mut cluster = Cluster::new(Lab::new());
    let scope = Scope::Namespace("team-b".into());
    let elsewhere =
        WatchedKind { watch: WatchId::new("example.io", "issuers", &scope), scope, ..issuers() };

    cluster.lab.discover(&[kind(), elsewhere.clone()]);
    cluster.lab.list_in(&elsewhere.watch, vec![]);
    cluster.exists.insert("main".into());
    cluster.waiting("web", &[of_kind("", "Issuer", "spec.issuerRef", "main")]);
    cluster.advance(Span::mins(9));

    assert!(cluster.dangling().is_empty(), "a read has found it");
}

#[test]
fn a_reference_to_another_namespace_and_to_a_cluster_scoped_kind_is_read_there() {
    let mut cluster = Cluster::new(Lab::new());
    let shared = Reference { namespace: "shared".into(), ..secret("db") };
    let class = of_kind("", "StorageClass", "spec.storageClassName", "fast");
    cluster.waiting("web", &[shared, class]);
    cluster.advance(Span::secs(5));

    let read: Vec<(&str, &str, &str)> = cluster
        .reads
        .iter()
        .map(|a| (a.group.as_str(), a.kind.as_str(), a.namespace.as_str()))
        .collect();

    assert_eq!(read, [("", "Secret", "shared"), ("storage.k8s.io", "StorageClass", "")]);
}

#[test]
fn at_most_one_read_per_second_and_one_per_minute_for_the_same_absent_target() {
    let mut cluster = Cluster::new(Lab::with(unlearned()));
    let views: Vec<ObjectView> = (0..500)
        .map(|number| {
            let name = format!("w{number}");
            cluster.exists.insert(name.clone());

            let mut widget = Widget::new(&name, cluster.lab.now);
            ObjectView { references: vec![secret(&name)], ..widget.ready().view(100 + number) }
        })
        .collect();

    cluster.lab.list_in(&watch(), views);
    cluster.advance(Span::secs(100));

    assert!((95..=101).contains(&cluster.reads.len()), "{}", cluster.reads.len());

    cluster.waiting("web", &[secret("db")]);
    let before = cluster.reads.len();
    cluster.advance(Span::mins(4));

    assert!(
        (235..=241).contains(&(cluster.reads.len() - before)),
        "{}",
        cluster.reads.len() - before
    );

    let of_web = cluster.reads.iter().filter(|address| address.name == "db").count();
    assert!((4..=5).contains(&of_web), "{of_web}");
    assert_eq!(
        cluster.dangling(),
        [WEB],
        "found although all the others are looked up for the first time"
    );

    cluster.advance(Span::mins(10));
    let distinct: BTreeSet<&ObjectAddress> = cluster.reads.iter().collect();

    assert_eq!(distinct.len(), 501, "all were looked up");

    // From now on, each is looked up about every ten minutes.
    let before = cluster.reads.len();
    cluster.advance(Span::mins(20));

    let repeated = cluster.reads.len() - before;
    assert!((900..=1_200).contains(&repeated), "{repeated}");
}

#[test]
fn ten_thousand_references_to_one_object_cost_few_reads() {
    let mut cluster = Cluster::new(Lab::with(unlearned()));
    cluster.exists.insert("shared".into());

    let views: Vec<ObjectView> = (0..10_000)
        .map(|number| {
            let mut widget = Widget::new(&format!("w{number}"), cluster.lab.now);
            ObjectView { references: vec![secret("shared")], ..widget.ready().view(100 + number) }
        })
        .collect();

    cluster.lab.list_in(&watch(), views);
    cluster.advance(Span::mins(10));

    assert!(cluster.reads.len() <= 20, "{}", cluster.reads.len());

    cluster.lab.assert_no_findings();
}

#[test]
fn references_beyond_the_limit_are_dropped_and_counted() {
    let mut cluster = Cluster::new(Lab::with(unlearned()));
    let views: Vec<ObjectView> = (0..1_600)
        .map(|number| {
            let references = (0..32).map(|i| secret(&format!("s{i}"))).collect();
            let mut widget = Widget::new(&format!("w{number}"), cluster.lab.now);
            ObjectView { references, ..widget.ready().view(100 + number) }
        })
        .collect();

    cluster.lab.list_in(&watch(), views);
    assert_eq!(cluster.lab.dropped("references"), 1_200);

    // Objects that are deleted make room.
    cluster.lab.list_in(&watch(), vec![]);
    cluster.waiting("web", &[secret("db")]);
    cluster.advance(Span::mins(4));

    assert_eq!(cluster.dangling(), [WEB]);
}

#[test]
fn a_shorter_grace_needs_more_frequent_reads() {
    let settings = Settings { dangling_after: Span::secs(4), ..unlearned() };
    let mut cluster = Cluster::new(Lab::with(settings));
    let mut web = cluster.waiting("web", &[secret("db")]);
    cluster.waiting("late", &[secret("late")]);
    cluster.advance(Span::secs(2));
    cluster.exists.insert("late".into());
    cluster.advance(Span::secs(6));

    assert_eq!(cluster.lab.findings(), [WEB]);

    cluster.exists.insert("db".into());
    cluster.apply(web.ready(), &[secret("db")]);
    cluster.advance(Span::secs(3));
    cluster.lab.assert_no_findings();
}
