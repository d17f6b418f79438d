//! Targets that the object may not need, and those that its operator creates.

use std::collections::BTreeSet;

use loopwatch_model::finding::Confidence;
use loopwatch_model::observation::{
    Answer, Manager, ObjectAddress, ObjectKey, ObjectView, Observation, OwnerReference, Probe,
    Reference,
};
use loopwatch_model::time::{Span, Timestamp};

use crate::lab::{Lab, Widget, watch};

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
