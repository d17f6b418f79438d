//! Widgets, the objects of most stories.

use loopwatch_model::observation::{
    Condition, ConditionStatus, Hashes, Manager, ObjectKey, ObjectView, Owned, Pause, StatusShape,
};
use loopwatch_model::time::Timestamp;

use super::views::{condition, spec_by, text};

/// A custom resource that a user and an operator write.
#[derive(Clone)]
pub struct Widget {
    pub namespace: String,
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
    time_writes: u64,
}

impl Widget {
    pub fn new(name: &str, now: Timestamp) -> Self {
        Self {
            namespace: "team-a".to_owned(),
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
            time_writes: 0,
        }
    }

    pub fn key(&self) -> ObjectKey {
        ObjectKey { namespace: self.namespace.clone(), name: self.name.clone() }
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

    /// The operator writes the present time into the status, and nothing else.
    pub fn touch_times(&mut self, now: Timestamp) -> &mut Self {
        self.time_writes += 1;
        self.status_written = Some(now);
        self
    }

    pub fn view(&self, version: u64) -> ObjectView {
        let conditions = self.conditions.iter().map(|(name, status, reason)| Condition {
            changed: self.changed,
            ..condition(name, *status, reason)
        });

        let phase = (!self.phase.is_empty()).then(|| text("status.phase", &self.phase));
        let filled = self.status_writes > 0;
        let settled = if filled { self.status_writes.wrapping_mul(0x9e37_79b9) ^ 0x55 } else { 0 };
        let user = spec_by("kubectl", self.spec_written);
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
            paused: self.paused.then(|| Pause { by: "spec.suspend".into() }),
            status: if filled { StatusShape::Filled } else { StatusShape::Absent },
            observed_generation: self.observed,
            conditions: conditions.collect(),
            facts: phase.into_iter().collect(),
            hashes: Hashes { spec: self.spec, status: settled ^ (self.time_writes << 20), settled },
            ..ObjectView::default()
        }
    }
}
