//! References to objects that do not exist: the fault, its healthy twin and near misses.

use std::collections::BTreeSet;

use loopwatch_model::finding::Confidence;
use loopwatch_model::observation::{
    Answer, Cause, Manager, ObjectAddress, ObjectKey, ObjectView, Observation, OwnerReference,
    Probe, Reference, WatchId, WatchedKind, Why,
};
use loopwatch_model::settings::Settings;
use loopwatch_model::time::{Span, Timestamp};

use crate::lab::{Lab, Widget, kind, unlearned, watch};

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
