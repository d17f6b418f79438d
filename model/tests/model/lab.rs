//! A test fixture: a model with one kind, objects that change, and a clock that the test advances.

#![allow(unreachable_pub, clippy::panic, reason = "tests share it, and a broken test should stop")]

pub mod cluster;
pub mod dice;
pub mod fleet;
pub mod loops;
pub mod pods;
pub mod steps;
pub mod world;

use std::cell::RefCell;

use loopwatch_model::finding::{Finding, Severity};
use loopwatch_model::model::Model;
use loopwatch_model::observation::{
    Condition, ConditionStatus, Fact, FactValue, Hashes, Manager, ObjectKey, ObjectView,
    Observation, Owned, Role, Scope, StatusSchema, StatusShape, WatchId, WatchedKind, Why,
};
use loopwatch_model::settings::Settings;
use loopwatch_model::snapshot::{ObjectState, Outcome, Snapshot};
use loopwatch_model::time::{Span, Timestamp};

/// 2026-01-01T00:00:00Z.
pub const START: Timestamp = Timestamp(1_767_225_600_000);

thread_local! {
    /// What the labs of this thread observe, if a test wants to play it again.
    static LOG: RefCell<Option<Vec<(Timestamp, Observation)>>> = const { RefCell::new(None) };
}

/// Returns everything that the lab observes in `play`.
pub fn logged(play: impl FnOnce()) -> Vec<(Timestamp, Observation)> {
    LOG.replace(Some(Vec::new()));
    play();
    LOG.take().unwrap_or_default()
}

pub struct Lab {
    pub model: Model,
    pub now: Timestamp,
    pub version: u64,
    epoch: u64,
}

pub fn kind() -> WatchedKind {
    WatchedKind {
        watch: watch(),
        group: "example.io".into(),
        version: "v1".into(),
        kind: "Widget".into(),
        resource: "widgets".into(),
        scope: Scope::AllNamespaces,
        role: Role::Primary,
        status: StatusSchema::Subresource,
        why: Why::StatusPermission,
        missing: Vec::new(),
        suspected: false,
        filtered: false,
        metadata_only: false,
    }
}

pub fn watch() -> WatchId {
    WatchId("widgets.example.io".into())
}

impl Lab {
    /// Returns a lab with default settings, but without learning, after an empty first list.
    pub fn new() -> Self {
        Self::with(Settings { learn_after: 0, ..Settings::default() })
    }

    pub fn with(settings: Settings) -> Self {
        let mut lab = Self::unsynced(settings);
        lab.list(&[]);
        lab
    }

    pub fn unsynced(settings: Settings) -> Self {
        let mut lab = Self { model: Model::new(settings), now: START, version: 1000, epoch: 0 };
        lab.observe(Observation::KindsDiscovered(vec![kind()]));
        lab
    }

    pub fn observe(&mut self, observation: Observation) {
        LOG.with_borrow_mut(|log| {
            log.iter_mut().for_each(|log| log.push((self.now, observation.clone())))
        });
        self.model.apply(self.now, observation);
    }

    pub fn advance(&mut self, span: Span) {
        self.now = self.now.after(span);
        self.observe(Observation::Tick);
    }

    pub fn list(&mut self, objects: &[Widget]) {
        self.epoch += 1;
        let epoch = self.epoch;
        self.observe(Observation::ListBegan { watch: watch(), epoch });

        for object in objects {
            self.version += 1;
            let object = Box::new(object.view(self.version));
            self.observe(Observation::Listed { watch: watch(), object });
        }

        self.version += 1;
        self.observe(Observation::ListEnded {
            watch: watch(),
            epoch,
            version: self.version.to_string(),
        });
    }

    pub fn apply(&mut self, widget: &Widget) {
        self.version += 1;
        let object = Box::new(widget.view(self.version));
        self.observe(Observation::Applied { watch: watch(), object });
    }

    pub fn delete(&mut self, widget: &Widget) {
        self.version += 1;
        self.observe(Observation::Deleted {
            watch: watch(),
            key: widget.key(),
            version: self.version.to_string(),
        });
    }

    /// Creates a widget that converges after one second, and advances past `settle`.
    pub fn converged(&mut self, name: &str) -> Widget {
        let mut widget = Widget::new(name, self.now);
        self.apply(&widget);
        self.advance(Span::secs(1));
        self.apply(widget.ready());
        self.advance(Span::mins(1));

        widget
    }

    /// Returns a snapshot, in which the table of findings lists all evidence.
    pub fn snapshot(&self) -> Snapshot {
        let snapshot = self.model.snapshot();
        for finding in &snapshot.findings {
            let unlisted =
                finding.evidence.0.keys().find(|key| !finding.info().evidence.contains(key));

            assert_eq!(
                unlisted,
                None,
                "the table of findings lacks evidence of {}",
                finding.code.name()
            );
        }

        snapshot
    }

    /// Returns the open root findings, each as `Code subject`.
    pub fn roots(&self) -> Vec<String> {
        let findings = self.snapshot().findings;
        let roots = findings.iter().filter(|f| f.explained_by.is_none());
        roots.map(|f| format!("{} {}", f.code.name(), f.subject)).collect()
    }

    /// Returns the findings that alert, with their severity.
    pub fn alerting(&self) -> Vec<(String, Severity)> {
        let snapshot = self.snapshot();
        let alerting =
            |finding: &&Finding| finding.alerts_at(self.now) && finding.severity != Severity::Info;
        snapshot
            .findings
            .iter()
            .filter(alerting)
            .map(|f| (f.code.name().to_owned(), f.severity))
            .collect()
    }

    /// Returns all open findings, each as `Code subject`.
    pub fn findings(&self) -> Vec<String> {
        self.snapshot()
            .findings
            .iter()
            .map(|f| format!("{} {}", f.code.name(), f.subject))
            .collect()
    }

    /// Returns the summary of the only open finding.
    pub fn evidence(&self) -> String {
        let findings = self.snapshot().findings;
        assert_eq!(findings.len(), 1, "{:?}", self.findings());

        findings[0].summary()
    }

    pub fn state(&self, name: &str) -> ObjectState {
        let (rows, _) = self.model.rows(Default::default(), usize::MAX);
        rows.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("no object {name}")).state
    }

    pub fn outcomes(&self, outcome: Outcome) -> u64 {
        self.snapshot().kinds[0].namespaces.values().map(|n| n.obligations[outcome as usize]).sum()
    }

    pub fn assert_no_findings(&self) {
        assert!(self.findings().is_empty(), "false alarm: {:#?}", self.snapshot().findings);
    }
}

/// A custom resource that a user and an operator write.
#[derive(Clone)]
pub struct Widget {
    pub name: String,
    pub uid: u64,
    pub generation: i64,
    pub observed: Option<i64>,
    pub spec: u64,
    pub conditions: Vec<(String, ConditionStatus, String)>,
    pub phase: String,
    pub created: Timestamp,
    pub spec_written: Timestamp,
    pub status_written: Option<Timestamp>,
    pub deleted: Option<Timestamp>,
    pub finalizers: Vec<String>,
    pub paused: bool,
    pub changed: Option<Timestamp>,
    status_writes: u64,
}

impl Widget {
    pub fn new(name: &str, now: Timestamp) -> Self {
        Self {
            name: name.to_owned(),
            uid: name.bytes().fold(7, |hash, byte| hash * 31 + u64::from(byte)),
            generation: 1,
            observed: None,
            spec: 1,
            conditions: Vec::new(),
            phase: String::new(),
            created: now,
            spec_written: now,
            status_written: None,
            deleted: None,
            finalizers: Vec::new(),
            paused: false,
            changed: None,
            status_writes: 0,
        }
    }

    pub fn key(&self) -> ObjectKey {
        ObjectKey { namespace: "team-a".into(), name: self.name.clone() }
    }

    /// The user changes the spec; a number stands for its content.
    pub fn spec(&mut self, spec: u64, now: Timestamp) -> &mut Self {
        self.generation += 1;
        self.spec = spec;
        self.spec_written = now;
        self
    }

    /// The operator has seen the spec and reports the object as ready.
    pub fn ready(&mut self) -> &mut Self {
        self.observe().condition("Ready", ConditionStatus::True, "AsExpected")
    }

    /// The operator has seen the spec and is working on it.
    pub fn waiting(&mut self) -> &mut Self {
        self.observe().condition("Ready", ConditionStatus::False, "Progressing")
    }

    /// The operator has seen the spec and reports a permanent failure.
    pub fn failed(&mut self, reason: &str) -> &mut Self {
        self.observe().condition("Ready", ConditionStatus::False, reason);
        self.condition("Stalled", ConditionStatus::True, reason)
    }

    pub fn observe(&mut self) -> &mut Self {
        self.observed = Some(self.generation);
        self.status_writes += 1;
        self
    }

    pub fn condition(&mut self, name: &str, status: ConditionStatus, reason: &str) -> &mut Self {
        self.status_writes += 1;
        if name == "Ready" {
            self.conditions.retain(|(other, ..)| other != "Stalled");
        }

        match self.conditions.iter_mut().find(|(other, ..)| other == name) {
            Some(condition) => *condition = (name.into(), status, reason.into()),
            None => self.conditions.push((name.into(), status, reason.into())),
        }

        self
    }

    pub fn phase(&mut self, phase: &str) -> &mut Self {
        self.status_writes += 1;
        self.phase = phase.into();
        self
    }

    /// The operator writes a part of the status that the model does not read.
    pub fn touch_status(&mut self) -> &mut Self {
        self.status_writes += 1;
        self
    }

    pub fn view(&self, version: u64) -> ObjectView {
        let conditions = self.conditions.iter().map(|(name, status, reason)| Condition {
            r#type: name.clone(),
            status: *status,
            reason: reason.clone(),
            changed: self.changed,
            ..Condition::default()
        });

        let phase = (!self.phase.is_empty()).then(|| Fact {
            path: "status.phase".into(),
            value: FactValue::Text(self.phase.clone()),
        });
        let filled = self.status_writes > 0;
        let settled = if filled { self.status_writes.wrapping_mul(0x9e37_79b9) ^ 0x55 } else { 0 };
        let user = Manager {
            name: "kubectl".into(),
            time: Some(self.spec_written),
            owns: Owned { spec: true, ..Owned::default() },
            ..Manager::default()
        };

        let operator = Manager {
            name: "widget-operator".into(),
            subresource: "status".into(),
            time: self.status_written,
            owns: Owned {
                status: true,
                finalizers: !self.finalizers.is_empty(),
                ..Owned::default()
            },
            finalizers: self.finalizers.clone(),
            ..Manager::default()
        };

        ObjectView {
            key: self.key(),
            uid: format!("00000000-0000-4000-8000-{:012x}", self.uid & 0xffff_ffff_ffff),
            version: version.to_string(),
            generation: self.generation,
            created: Some(self.created),
            deleted: self.deleted,
            finalizers: self.finalizers.clone(),
            managers: if filled { vec![user, operator] } else { vec![user] },
            paused: self
                .paused
                .then(|| loopwatch_model::observation::Pause { by: "spec.suspend".into() }),
            status: if filled { StatusShape::Filled } else { StatusShape::Absent },
            observed_generation: self.observed,
            conditions: conditions.collect(),
            facts: phase.into_iter().collect(),
            hashes: Hashes { spec: self.spec, status: settled, settled },
            ..ObjectView::default()
        }
    }
}
