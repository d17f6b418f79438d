//! Namespaces, definitions, settings and the clock.

use std::collections::BTreeMap;

use loopwatch_model::finding::Severity;
use loopwatch_model::observation::{
    DefinitionView, NamespaceView, ObjectAddress, Observation, StatusSchema,
};
use loopwatch_model::settings::{FindingRule, Limits, Selector, Settings};
use loopwatch_model::time::Span;

use super::RandomWorld;

impl RandomWorld {
    fn some_annotations(&mut self) -> BTreeMap<String, String> {
        let mut annotations = BTreeMap::new();
        let ignored = self.dice.pick(&["all", "Failing,Overdue", "Nonsense", ""]);
        if !ignored.is_empty() {
            annotations.insert("loopwatch.dev/ignore".to_owned(), ignored.to_owned());
        }

        if self.dice.one_in(2) {
            annotations.insert("loopwatch.dev/deadline".to_owned(), "2m".to_owned());
        }

        annotations
    }

    fn some_rule(&mut self) -> FindingRule {
        let severities = [None, Some(Severity::Critical), Some(Severity::Info)];
        let namespaces = match self.dice.roll(3) {
            0 => Selector { include: vec!["team-a".into()], exclude: Vec::new() },
            _ => Selector::default(),
        };

        FindingRule {
            namespaces,
            enabled: self.dice.one_in(2).then(|| self.dice.one_in(2)),
            severity: self.dice.pick(&severities),
            ..FindingRule::default()
        }
    }

    fn some_settings(&mut self) -> Settings {
        let mut findings = BTreeMap::new();
        for name in ["all", "Failing", "Overdue", "Regressed", "StatusSubresourceMissing"] {
            if self.dice.one_in(4) {
                findings.insert(name.to_owned(), vec![self.some_rule()]);
            }
        }

        let limits = Limits {
            histories: 1 + self.dice.roll(20) as usize,
            findings: 1 + self.dice.roll(20) as usize,
            objects: 4 + self.dice.roll(30) as usize,
            namespaces: 2,
            ..Limits::default()
        };

        Settings {
            deadline: Span::secs(60 + self.dice.roll(600).cast_signed()),
            learn_after: self.dice.roll(30) as u32,
            failing_objects: 1 + self.dice.roll(3) as u32,
            limits,
            findings,
            ..Settings::default()
        }
    }
}

pub fn configure(random: &mut RandomWorld, _: &ObjectAddress) {
    let settings = random.some_settings();
    random.tell(Observation::SettingsChanged(Box::new(settings)));
}

/// Annotations tune the findings about an object.
pub fn annotate(random: &mut RandomWorld, at: &ObjectAddress) {
    let annotations = random.some_annotations();
    random.change_metadata(at, |view| view.annotations = annotations);
}

/// The namespace of an object is annotated, deleted or gone.
pub fn change_namespace(random: &mut RandomWorld, at: &ObjectAddress) {
    let (name, annotations) = (at.namespace.clone(), random.some_annotations());
    let deleted = random.dice.one_in(2).then_some(random.now());
    let view = NamespaceView { annotations, deleted, ..NamespaceView::default() };
    let is_gone = random.dice.one_in(3);
    random.tell(match is_gone {
        true => Observation::NamespaceGone(name),
        false => Observation::NamespaceSeen(NamespaceView { name, ..view }),
    });
}

/// The definition of the widgets changes, or is deleted.
pub fn define(random: &mut RandomWorld, _: &ObjectAddress) {
    let is_deleted = random.dice.one_in(3);
    let definition = DefinitionView {
        name: "widgets.example.io".into(),
        status: random.dice.pick(&[StatusSchema::InBody, StatusSchema::Subresource]),
        deleted: is_deleted.then_some(random.now()),
        ..DefinitionView::default()
    };

    random.tell(Observation::DefinitionSeen(definition));
}

/// Somebody sets the clock.
pub fn step_clock(random: &mut RandomWorld, _: &ObjectAddress) {
    let by = Span(random.dice.roll(7_200_000).cast_signed() - 3_600_000);
    random.world.lab.now = random.now().after(by);
    random.reads.iter_mut().for_each(|(due, _)| *due = due.after(by));
    random.tell(Observation::ClockStepped { by_ms: by.0 });
}
