//! References to objects that do not exist: the fault, its healthy twin and near misses; restarts,
//! blindness, reads that give no answer, and limits.

mod lab;

use std::collections::BTreeSet;

use lab::steps::{other_kind, unlearned};
use lab::{Lab, Widget, kind, watch};
use loopwatch_model::finding::Confidence;
use loopwatch_model::observation::{
    Answer, Cause, Manager, ObjectAddress, ObjectKey, ObjectView, Observation, OwnerReference,
    Probe, Reference, Scope, WatchId, WatchedKind, Why,
};
use loopwatch_model::settings::Settings;
use loopwatch_model::time::{Span, Timestamp};

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

    /// Creates a widget that is ready and has these references.
    fn ready(&mut self, name: &str, references: &[Reference]) -> Widget {
        let mut widget = Widget::new(name, self.lab.now);
        self.apply(&widget, references);
        self.lab.advance(Span::secs(1));
        self.apply(widget.ready(), references);

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
fn a_reference_to_a_missing_secret_is_dangling_and_explains_that_the_object_is_not_ready() {
    let mut cluster = Cluster::new(Lab::new());
    cluster.exists.insert("twin".into());

    let began = cluster.lab.now;
    let mut web = cluster.waiting("web", &[secret("db")]);
    cluster.waiting("twin", &[secret("twin")]);
    cluster.advance(Span::secs(115));
    cluster.lab.assert_no_findings();
    cluster.advance(Span::secs(75));

    assert_eq!(cluster.lab.findings(), [WEB]);

    let finding = cluster.lab.finding("DanglingReference");
    assert_eq!((finding.confidence, finding.since), (Confidence::Confirmed, began));

    let evidence = cluster.lab.evidence();
    assert!(
        evidence.contains("reference spec.secretName")
            && evidence.contains("target Secret team-a/db"),
        "{evidence}"
    );

    cluster.advance(Span::mins(10));
    assert_eq!(
        cluster.lab.roots(),
        [WEB, "Overdue Widget team-a/twin"],
        "explains that web is overdue"
    );

    // The Secret is created, and the object becomes ready.
    cluster.exists.insert("db".into());
    cluster.advance(Span::secs(70));

    assert_eq!(cluster.dangling(), [""; 0]);

    cluster.apply(web.ready(), &[secret("db")]);
    cluster.lab.changes();
    cluster.advance(Span::hours(1));

    assert!(cluster.dangling().is_empty());
}

#[test]
fn a_secret_that_is_created_20_seconds_later_is_not_missing() {
    let mut cluster = Cluster::new(Lab::new());
    cluster.waiting("web", &[secret("db")]);
    cluster.advance(Span::secs(20));
    cluster.exists.insert("db".into());
    cluster.advance(Span::mins(9));
    cluster.lab.assert_no_findings();
}

#[test]
fn a_secret_that_is_created_just_before_the_end_of_the_grace_is_not_missing() {
    for seconds in 100..=125 {
        let mut cluster = Cluster::new(Lab::new());
        cluster.waiting("web", &[secret("db")]);
        cluster.advance(Span::secs(seconds));

        if !cluster.lab.findings().is_empty() {
            assert!(seconds > 119, "{seconds}");

            continue;
        }

        cluster.exists.insert("db".into());
        cluster.advance(Span::secs(200));
        cluster.lab.assert_no_findings();
    }
}

#[test]
fn optional_references_and_references_without_a_name_are_not_judged() {
    let mut cluster = Cluster::new(Lab::new());
    let optional = Reference { optional: true, ..secret("db") };
    let unnamed = Reference { name: String::new(), ..secret("db") };
    let of_any_kind = of_kind("", "", "spec.issuerRef", "issuer");
    let of_unknown_group = of_kind("", "Gizmo", "spec.gizmoRef", "gizmo");

    cluster.waiting("web", &[optional, unnamed, of_any_kind, of_unknown_group]);
    cluster.advance(Span::mins(9));
    cluster.lab.assert_no_findings();

    assert!(cluster.reads.is_empty(), "{:?}", cluster.reads);
}

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

#[test]
fn a_missing_target_of_a_converged_object_is_only_suspected() {
    let mut cluster = Cluster::new(Lab::new());
    for name in ["a", "b", "c", "d", "e"] {
        cluster.exists.insert(name.into());
        cluster.ready(name, &[secret(name)]);
    }

    let mut web = cluster.ready("web", &[secret("db")]);
    cluster.advance(Span::mins(5));

    assert_eq!(cluster.lab.findings(), [WEB]);
    assert_eq!(cluster.lab.finding("DanglingReference").confidence, Confidence::Suspected);

    cluster.apply(web.waiting(), &[secret("db")]);
    assert_eq!(cluster.lab.finding("DanglingReference").confidence, Confidence::Confirmed);

    cluster.apply(web.ready(), &[secret("db")]);
    assert_eq!(cluster.lab.finding("DanglingReference").confidence, Confidence::Suspected);
}

#[test]
fn a_field_whose_targets_are_absent_for_several_converged_objects_is_not_needed() {
    let mut cluster = Cluster::new(Lab::new());
    for number in 0..10 {
        let name = format!("w{number}");
        if number > 2 {
            cluster.exists.insert(name.clone());
        }

        cluster.ready(&name, &[secret(&name)]);
    }

    cluster.waiting("web", &[secret("db")]);
    cluster.advance(Span::mins(9));
    cluster.lab.assert_no_findings();

    // Another field of the kind is judged.
    cluster.waiting("other", &[of_kind("", "ConfigMap", "spec.configRef", "settings")]);
    cluster.advance(Span::mins(5));

    assert_eq!(cluster.dangling(), ["DanglingReference Widget team-a/other"]);
}

#[test]
fn objects_that_the_operator_creates_are_outputs() {
    // By the name of the field.
    let mut cluster = Cluster::new(Lab::new());
    cluster.waiting("web", &[of_kind("", "Secret", "spec.writeConnectionSecretToRef", "out")]);
    cluster.advance(Span::mins(9));
    cluster.lab.assert_no_findings();

    assert!(cluster.reads.is_empty());

    // By their owner, although loopwatch has not seen how they appeared; also after a restart.
    let mut cluster = Cluster::new(Lab::new());
    cluster.exists.insert("first".into());
    cluster.owner = Some(Widget::new("first", cluster.lab.now));
    cluster.ready("first", &[secret("first")]);
    cluster.advance(Span::secs(5));
    cluster.waiting("web", &[secret("out")]);
    cluster.advance(Span::mins(9));
    cluster.lab.assert_no_findings();

    let mut again = Cluster::new(cluster.lab.restart());
    again.lab.list(&[]);
    again.waiting("web", &[secret("out")]);
    again.advance(Span::mins(9));
    again.lab.assert_no_findings();

    // By their writer, if loopwatch has seen that they appeared.
    let mut cluster = Cluster::new(Lab::new());
    cluster.writer = "widget-operator".into();
    cluster.waiting("first", &[secret("first")]);
    cluster.advance(Span::secs(65));
    cluster.exists.insert("first".into());
    cluster.advance(Span::secs(65));
    cluster.waiting("web", &[secret("out")]);
    cluster.advance(Span::mins(9));

    assert!(cluster.dangling().is_empty());
}

#[test]
fn a_secret_that_a_person_creates_late_is_no_output() {
    let mut cluster = Cluster::new(Lab::new());
    cluster.waiting("first", &[secret("first")]);
    cluster.advance(Span::mins(3));
    cluster.exists.insert("first".into());
    cluster.advance(Span::mins(2));
    cluster.waiting("web", &[secret("db")]);
    cluster.advance(Span::mins(4));

    assert_eq!(cluster.dangling(), [WEB]);
}

#[test]
fn a_target_that_disappears_is_dangling_since_then() {
    let mut cluster = Cluster::new(Lab::new());
    cluster.exists.insert("db".into());

    let mut web = cluster.ready("web", &[secret("db")]);
    cluster.advance(Span::mins(30));
    cluster.exists.clear();

    let gone = cluster.lab.now;
    cluster.apply(
        web.condition("Ready", loopwatch_model::observation::ConditionStatus::False, "Error"),
        &[secret("db")],
    );
    cluster.advance(Span::mins(15));

    let finding = cluster.lab.finding("DanglingReference");
    assert!(
        finding.since >= gone && finding.since < gone.after(Span::mins(11)),
        "{}",
        finding.since
    );
    assert_eq!(cluster.lab.roots(), [WEB], "explains the regression");
}

#[test]
fn the_removal_of_the_reference_or_of_the_object_ends_the_finding() {
    let mut cluster = Cluster::new(Lab::new());
    let mut web = cluster.waiting("web", &[secret("db")]);
    cluster.advance(Span::mins(4));

    assert_eq!(cluster.dangling(), [WEB]);

    web.spec(2, cluster.lab.now);
    cluster.apply(&web, &[]);

    assert!(cluster.dangling().is_empty());

    let mut web = cluster.waiting("api", &[secret("db")]);
    cluster.advance(Span::mins(4));

    assert_eq!(cluster.dangling().len(), 1);

    web.deleted = Some(cluster.lab.now);
    web.finalizers = vec!["example.io/cleanup".into()];
    cluster.apply(&web, &[secret("db")]);

    assert!(cluster.dangling().is_empty(), "an object that is being deleted needs nothing");

    cluster.lab.delete(&web);
    cluster.advance(Span::mins(1));

    assert!(cluster.dangling().is_empty());
}

#[test]
fn the_finding_keeps_its_start_over_a_restart() {
    let mut cluster = Cluster::new(Lab::new());
    let web = cluster.waiting("web", &[secret("db")]);
    cluster.advance(Span::mins(4));

    let since = cluster.lab.since("DanglingReference");
    let mut again = Cluster::new(cluster.lab.restart());
    let view = ObjectView { references: vec![secret("db")], ..again.lab.view(&web) };
    again.lab.list_views(vec![view]);
    again.advance(Span::secs(3));

    assert_eq!(again.dangling(), [WEB]);
    assert_eq!(again.lab.since("DanglingReference"), since);

    // The Secret was created meanwhile.
    let mut again = Cluster::new(cluster.lab.restart());
    again.exists.insert("db".into());

    let view = ObjectView { references: vec![secret("db")], ..again.lab.view(&web) };
    again.lab.list_views(vec![view]);
    again.advance(Span::mins(3));

    assert!(again.dangling().is_empty());
}

#[test]
fn nothing_opens_or_closes_while_the_watch_of_the_object_is_blind() {
    let mut cluster = Cluster::new(Lab::new());
    cluster.waiting("web", &[secret("db")]);
    cluster.waiting("api", &[secret("api")]);
    cluster.advance(Span::mins(1));
    cluster.lab.fail();
    cluster.advance(Span::mins(5));

    assert!(cluster.dangling().is_empty());

    cluster.exists.insert("api".into());
    cluster.lab.recover();
    cluster.advance(Span::secs(125));

    assert_eq!(cluster.dangling(), [WEB]);

    cluster.lab.fail();
    cluster.instead = Some(Answer::Failed(Cause::Connection));
    cluster.advance(Span::mins(20));

    assert_eq!(cluster.dangling(), [WEB]);
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
    assert_eq!(cluster.lab.snapshot().dropped.get("references"), Some(&1_200));

    // Objects that are deleted make room.
    cluster.lab.list_in(&watch(), vec![]);
    cluster.waiting("web", &[secret("db")]);
    cluster.advance(Span::mins(4));

    assert_eq!(cluster.dangling(), [WEB]);
}

#[test]
fn a_step_of_the_clock_is_no_grace_and_no_delay() {
    let mut cluster = Cluster::new(Lab::new());
    cluster.waiting("web", &[secret("db")]);
    cluster.advance(Span::mins(1));
    cluster.lab.step_clock(Span::hours(1));
    cluster.advance(Span::secs(30));
    cluster.lab.assert_no_findings();
    cluster.lab.step_clock(Span(-7_200_000));
    cluster.advance(Span::secs(100));

    assert_eq!(cluster.dangling(), [WEB]);
}

#[test]
fn a_dump_is_judged_at_once_and_lacks_what_it_does_not_show() {
    let mut cluster =
        Cluster::new(Lab::unsynced(Settings { dangling_after: Span::ZERO, ..unlearned() }));
    let secrets = WatchedKind {
        watch: WatchId("secrets".into()),
        group: String::new(),
        kind: "Secret".into(),
        resource: "secrets".into(),
        why: Why::InDump,
        ..kind()
    };

    cluster.lab.discover(&[WatchedKind { why: Why::InDump, ..kind() }, secrets.clone()]);
    let start = cluster.lab.now;
    let web = ObjectView {
        references: vec![secret("db")],
        ..Widget::new("web", start).waiting().view(1)
    };
    let api = ObjectView {
        references: vec![secret("here")],
        ..Widget::new("api", start).waiting().view(2)
    };

    cluster.lab.list_in(&watch(), vec![web, api]);
    let here = Widget::new("here", start).view(3);
    cluster.lab.list_in(&secrets.watch, vec![here]);
    cluster.lab.model.look_up_all_references();

    assert!(cluster.dangling().is_empty(), "the dump may lack the Secret");

    cluster.answer();
    assert_eq!((cluster.dangling(), cluster.lab.now), (vec![WEB.to_owned()], start));
    assert_eq!(cluster.reads.len(), 1, "only what the dump does not show");
}

#[test]
fn a_replay_of_the_observations_without_ticks_gives_the_same_findings() {
    let mut cluster = Cluster::new(Lab::new());
    cluster.log = Some(Vec::new());
    for number in 0..5 {
        let name = format!("w{number}");
        cluster.exists.insert(name.clone());
        cluster.waiting(&name, &[secret(&name), secret("shared")]);
    }

    cluster.advance(Span::mins(4));
    cluster.exists.insert("shared".into());
    cluster.advance(Span::mins(3));
    cluster.exists.remove("w3");
    cluster.advance(Span::mins(20));

    let (events, at) = (cluster.lab.model.finding_events(), cluster.lab.now);
    assert!(
        events.iter().filter(|event| event.finding.code.name() == "DanglingReference").count()
            >= 11,
        "{events:#?}"
    );

    let mut again = Lab::new();
    for (at, observation) in cluster.log.take().unwrap_or_default() {
        again.model.apply(at, observation);
        again.model.probes(); // the log contains the answers
    }

    again.model.apply(at, Observation::Tick);
    assert_eq!(again.model.finding_events(), events);
}

#[test]
fn a_missing_target_of_an_object_that_the_operator_has_made_is_only_suspected() {
    let mut cluster = Cluster::new(Lab::new());
    let owner = OwnerReference {
        api_version: "acme.io/v1".into(),
        kind: "Order".into(),
        name: "order".into(),
        uid: "0-1".into(),
        ..OwnerReference::default()
    };

    let start = cluster.lab.now;
    let mut challenge = Widget::new("web", start);
    let references = vec![secret("token")];
    let view =
        ObjectView { references, owners: vec![owner], ..cluster.lab.view(challenge.waiting()) };

    cluster.lab.apply_view(view);
    cluster.advance(Span::mins(5));

    assert_eq!(cluster.lab.findings(), [WEB]);
    assert_eq!(cluster.lab.finding("DanglingReference").confidence, Confidence::Suspected);
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

#[test]
fn an_annotation_silences_the_finding_also_of_a_converged_object() {
    let mut cluster = Cluster::new(Lab::new());
    cluster.exists.insert("db".into());

    let mut web = cluster.ready("web", &[secret("db")]);
    let annotations = [("loopwatch.dev/ignore".to_owned(), "DanglingReference".to_owned())];
    let view = |cluster: &mut Cluster, web: &Widget| ObjectView {
        references: vec![secret("db")],
        annotations: annotations.clone().into(),
        ..cluster.lab.view(web)
    };
    let annotated = view(&mut cluster, &web);

    cluster.lab.apply_view(annotated);
    cluster.advance(Span::mins(2));
    cluster.exists.clear();
    cluster.advance(Span::mins(20));
    cluster.lab.assert_no_findings();

    let annotated = view(&mut cluster, web.waiting());
    cluster.lab.apply_view(annotated);
    cluster.advance(Span::mins(2));

    assert!(cluster.dangling().is_empty());

    cluster.apply(&web, &[secret("db")]);
    assert_eq!(cluster.dangling(), [WEB]);
}

#[test]
fn references_between_namespaces_are_counted_as_they_come_and_go() {
    let mut cluster = Cluster::new(Lab::new());
    let elsewhere = |name: &str| Reference { namespace: "shared".into(), ..secret(name) };
    let counts = |cluster: &Cluster| {
        let totals = cluster.lab.kind().totals;
        (totals.cross_references, totals.cross_reference_changes)
    };
    let mut web = cluster.waiting("web", &[secret("own"), elsewhere("a"), elsewhere("b")]);

    assert_eq!(counts(&cluster), (2, [2, 0]));
    assert_eq!(cluster.lab.model.reference_events()[0].target.name, "a");

    web.spec(2, cluster.lab.now);
    cluster.apply(&web, &[elsewhere("b"), elsewhere("c")]);

    assert_eq!(counts(&cluster), (2, [3, 1]));

    // A reference that a list shows is not new.
    let listed = Widget::new("old", cluster.lab.ago(Span::hours(1)));
    let old = ObjectView { references: vec![elsewhere("d")], ..cluster.lab.view(&listed) };
    let web =
        ObjectView { references: vec![elsewhere("b"), elsewhere("c")], ..cluster.lab.view(&web) };

    cluster.lab.list_views(vec![old, web]);
    assert_eq!(counts(&cluster), (3, [3, 1]));

    cluster.lab.list_views(vec![]);
    assert_eq!(counts(&cluster), (0, [3, 4]));
}
