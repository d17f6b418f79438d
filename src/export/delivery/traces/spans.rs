//! Turns a trace of the model into spans of OpenTelemetry.
//!
//! Names of spans come from kinds and types, never from names of objects, so that backends can
//! group by them. OpenTelemetry has no attributes for custom resources: `k8s.object.*` are the
//! attributes that the collector's receiver for Kubernetes Events uses, and all others begin with
//! `loopwatch.`.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use loopwatch_model::observation::ConditionStatus;
use loopwatch_model::reference::ObjectName;
use loopwatch_model::snapshot::Outcome;
use loopwatch_model::time::Timestamp;
use loopwatch_model::trace::{
    OperatorChange, StepKind, Trace, TraceCause, TraceKey, TraceLink, TraceStep,
};
use opentelemetry::trace::{Event, Link, SpanId, SpanKind, Status};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

use super::ids::{self, Ids};
use crate::telemetry::VERSION;

/// Builds spans.
#[derive(Debug)]
pub(super) struct Spans {
    scope: InstrumentationScope,
    /// The UID of the cluster, or empty.
    cluster: String,
}

/// The number of spans of a trace.
pub(super) fn spans_in(trace: &Trace) -> usize {
    1 + trace.steps.len()
}

impl Spans {
    pub(super) fn new(cluster: String) -> Self {
        Self {
            scope: InstrumentationScope::builder("loopwatch").with_version(VERSION).build(),
            cluster,
        }
    }

    /// Returns the IDs of a trace.
    pub(super) fn ids(&self, trace: &Trace) -> Ids {
        self.ids_of(&trace.key)
    }

    pub(super) fn ids_of(&self, key: &TraceKey) -> Ids {
        Ids::of(&self.cluster, key)
    }

    /// Returns the spans of a trace, the root first.
    pub(super) fn of(&self, trace: &Trace) -> Vec<SpanData> {
        let ids = self.ids(trace);
        let mut spans = Vec::with_capacity(1 + trace.steps.len());
        spans.push(self.root(trace, &ids));
        spans.extend(
            trace.steps.iter().enumerate().map(|(at, step)| self.step(trace, step, &ids, at)),
        );

        spans
    }

    fn root(&self, trace: &Trace, ids: &Ids) -> SpanData {
        let verb = if trace.cause == TraceCause::DeletionRequested { "delete" } else { "converge" };
        let mut attributes = object(&trace.object);
        attributes.extend([
            KeyValue::new("k8s.object.uid", trace.key.uid.clone()),
            KeyValue::new("loopwatch.cause", trace.cause.as_str()),
            KeyValue::new("loopwatch.outcome", trace.outcome.as_str()),
            KeyValue::new("loopwatch.deadline_seconds", trace.deadline.seconds()),
        ]);

        if trace.generation > 0 {
            attributes.push(KeyValue::new("loopwatch.generation", trace.generation));
        }

        if !trace.revision.is_empty() {
            attributes.push(KeyValue::new("loopwatch.operator_revision", trace.revision.clone()));
        }

        if trace.dropped > 0 {
            attributes.push(KeyValue::new("loopwatch.dropped_steps", i64::from(trace.dropped)));
        }

        SpanData {
            events: events(trace),
            links: self.links(trace),
            status: status(trace),
            attributes,
            ..self.span(
                format!("{verb} {}", trace.object.kind),
                trace.start,
                trace.end,
                ids,
                ids.root,
            )
        }
    }

    fn step(&self, trace: &Trace, step: &TraceStep, ids: &Ids, at: usize) -> SpanData {
        let (name, mut attributes): (Cow<'static, str>, Vec<KeyValue>) = match &step.kind {
            StepKind::Acknowledge => ("acknowledge".into(), Vec::new()),
            StepKind::Condition { r#type, status, reason } => (
                format!("condition {type}").into(),
                vec![
                    KeyValue::new("loopwatch.condition.type", r#type.clone()),
                    KeyValue::new("loopwatch.condition.status", condition_status(*status)),
                    KeyValue::new("loopwatch.condition.reason", reason.clone()),
                ],
            ),
            StepKind::Child(name) => (format!("child {}", name.kind).into(), object(name)),
            StepKind::Finalizer(name) => {
                ("finalizer".into(), vec![KeyValue::new("loopwatch.finalizer", name.clone())])
            }
            StepKind::Event { r#type, reason, reporter, count } => (
                format!("event {reason}").into(),
                vec![
                    KeyValue::new("k8s.event.reason", reason.clone()),
                    KeyValue::new("k8s.event.count", i64::try_from(*count).unwrap_or(i64::MAX)),
                    KeyValue::new("loopwatch.event.type", *r#type),
                    KeyValue::new("loopwatch.event.reporter", reporter.clone()),
                ],
            ),
        };

        if step.unfinished {
            attributes.push(KeyValue::new("loopwatch.unfinished", true));
        }

        let pending = step.unfinished
            && trace.is_failure()
            && !matches!(step.kind, StepKind::Condition { .. });
        let status = if pending { Status::error("not done") } else { Status::Unset };

        SpanData {
            parent_span_id: ids.root,
            attributes,
            status,
            ..self.span(name, step.start, step.end, ids, ids.step(at))
        }
    }

    fn span(
        &self,
        name: impl Into<Cow<'static, str>>,
        start: Timestamp,
        end: Timestamp,
        ids: &Ids,
        id: SpanId,
    ) -> SpanData {
        SpanData {
            span_context: ids.context(id),
            parent_span_id: SpanId::INVALID,
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: name.into(),
            start_time: system_time(start),
            end_time: system_time(end),
            attributes: Vec::new(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: self.scope.clone(),
        }
    }

    fn links(&self, trace: &Trace) -> SpanLinks {
        let mut links = SpanLinks::default();
        links.links.extend(trace.links.iter().filter_map(|link| {
            let (context, relation) = match link {
                TraceLink::Previous(key) => (self.ids_of(key).linked(), "previous"),
                TraceLink::Continues(key) => (self.ids_of(key).linked(), "continues"),
                TraceLink::Owner(key) => (self.ids_of(key).linked(), "owner"),
                TraceLink::Context(text) => (ids::context(text)?, "traceparent"),
            };
            Some(Link::new(context, vec![KeyValue::new("loopwatch.link", relation)], 0))
        }));

        links
    }
}

/// The status of the root span: only a failure of the operator is an error.
fn status(trace: &Trace) -> Status {
    let what = match trace.outcome {
        Outcome::Late => "deadline exceeded",
        Outcome::Rejected => "failed",
        _ => return Status::Unset,
    };
    if trace.signal.is_empty() {
        Status::error(what)
    } else {
        Status::error(format!("{what}: {}", trace.signal))
    }
}

fn events(trace: &Trace) -> SpanEvents {
    let mut events = SpanEvents::default();
    events.events.extend(trace.events.iter().map(|event| {
        let name = match event.what {
            OperatorChange::LeaderChanged => "leader changed",
            OperatorChange::Stopped => "operator container ended",
        };

        Event::new(name, system_time(event.at), Vec::new(), 0)
    }));

    if trace.outcome == Outcome::Late {
        events.events.push(Event::new("deadline exceeded", system_time(trace.end), Vec::new(), 0));
    }

    events
}

fn object(name: &ObjectName) -> Vec<KeyValue> {
    let ObjectName { group, kind, namespace, name } = name;
    let mut attributes = vec![
        KeyValue::new("k8s.object.kind", kind.clone()),
        KeyValue::new("k8s.object.name", name.clone()),
    ];
    for (key, value) in [("k8s.namespace.name", namespace), ("loopwatch.object.group", group)] {
        if !value.is_empty() {
            attributes.push(KeyValue::new(key, value.clone()));
        }
    }

    attributes
}

const fn condition_status(status: ConditionStatus) -> &'static str {
    match status {
        ConditionStatus::True => "True",
        ConditionStatus::False => "False",
        ConditionStatus::Unknown => "Unknown",
        ConditionStatus::Absent => "",
    }
}

fn system_time(at: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(at.0).unwrap_or(0))
}
