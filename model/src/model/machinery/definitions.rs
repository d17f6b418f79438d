//! Custom resource definitions that do not work as they should: never established, without a structural
//! schema, without a status subresource, or with objects in old versions.

use std::collections::BTreeMap;

use crate::finding::{Evidence, FindingCode, Subject};
use crate::model::findings::detection::Detection;
use crate::model::findings::open_findings::OpenFindings;
use crate::model::part::{Part, StepContext};
use crate::model::world::World;
use crate::observation::{Condition, ConditionStatus, DefinitionView, StatusSchema};
use crate::time::{Span, Timestamp};

/// The definitions with a problem, or with one that may begin.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    /// By name; at most [`MAX_DEFINITIONS`].
    kept: BTreeMap<String, DefinitionView>,
    /// When the next problem becomes a finding; `None` if there is none.
    due: Option<Timestamp>,
}

/// The maximum number of definitions that the model keeps for another review.
const MAX_DEFINITIONS: usize = 2_000;

/// How long the API server may take to establish a definition. It usually takes less than a second.
const ESTABLISHED_WITHIN: Span = Span::mins(1);

/// The due time of a problem that is none as long as the operator does not serve the group.
const NEVER: Timestamp = Timestamp(i64::MAX);

/// The codes of findings about definitions.
const CODES: [FindingCode; 5] = [
    FindingCode::StatusSubresourceMissing,
    FindingCode::DefinitionNotEstablished,
    FindingCode::DefinitionNonStructural,
    FindingCode::StorageMigrationPending,
    FindingCode::DefinitionSchemaIncomplete,
];

impl Part for Definitions {
    fn next_due(&self) -> Option<Timestamp> {
        self.due
    }

    fn due(&mut self, step: &mut StepContext<'_>) {
        self.review_all(step.world, step.findings);
    }

    fn retune(&mut self, step: &mut StepContext<'_>) {
        self.review_all(step.world, step.findings);
    }

    fn clock_stepped(&mut self, by_ms: i64) {
        self.due = self.due.map(|at| at.shifted(by_ms));
    }
}

impl Definitions {
    /// Takes a definition as it is now.
    pub(crate) fn note(
        &mut self,
        world: &mut World,
        findings: &mut OpenFindings,
        definition: DefinitionView,
    ) {
        let (has_problem, due) = review(world, findings, &definition);
        self.due = self.due.into_iter().chain(due).filter(|at| *at < NEVER).min();

        self.kept.remove(&definition.name);
        if has_problem && self.kept.len() < MAX_DEFINITIONS {
            self.kept.insert(definition.name.clone(), definition);
        }
    }

    /// Forgets a definition that is gone.
    pub(crate) fn forget(&mut self, world: &World, findings: &mut OpenFindings, name: &str) {
        self.kept.remove(name);
        let subject = Subject::Definition { name: name.to_owned() };
        CODES.iter().for_each(|code| findings.clear(world.now, *code, &subject));
    }

    /// Returns the names of the definitions that the part keeps.
    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.kept.keys()
    }

    /// Judges all definitions again, because the operator may serve other groups now. loopwatch usually
    /// sees the definitions before it knows the kinds.
    pub(crate) fn review_all(&mut self, world: &mut World, findings: &mut OpenFindings) {
        self.due = None;
        for definition in std::mem::take(&mut self.kept).into_values() {
            self.note(world, findings, definition);
        }
    }
}

/// Opens and closes the findings about a definition. Returns whether it has a problem, or one may
/// begin, and when the next one is due.
fn review(
    world: &mut World,
    findings: &mut OpenFindings,
    definition: &DefinitionView,
) -> (bool, Option<Timestamp>) {
    let subject = Subject::Definition { name: definition.name.clone() };
    let found = [
        without_status_subresource(world, definition),
        not_established(world, definition),
        non_structural(world, definition),
        migration_pending(world, definition),
        incomplete_schema(world, definition),
    ];

    let has_problem = found.iter().any(Option::is_some);
    let mut next: Option<Timestamp> = None;
    for (code, detection) in CODES.into_iter().zip(found) {
        match detection {
            Some(detection) if detection.due <= world.now => {
                findings.report(world, subject.clone(), detection);
            }
            other => {
                findings.clear(world.now, code, &subject);
                next = next.into_iter().chain(other.map(|later| later.due)).min();
            }
        }
    }

    (has_problem, next)
}

fn detection(
    world: &World,
    code: FindingCode,
    (since, due): (Timestamp, Timestamp),
    definition: &DefinitionView,
    more: impl FnOnce(Evidence) -> Evidence,
) -> Detection {
    let evidence = || {
        let evidence = Evidence::new().text("kind", definition.kind.as_str());
        more(evidence.text("group", definition.group.as_str()))
    };
    Detection::new(world.now, code, since.min(world.now), due, evidence)
}

/// loopwatch does not see earlier versions of a definition, so its creation is the best known start of a
/// problem that its author has made.
fn created(world: &World, definition: &DefinitionView) -> Timestamp {
    definition.created.unwrap_or(world.now).min(world.now)
}

/// Returns whether the operator serves the group of a definition. Those who look once at a cluster or a dump look
/// at all of it, and the definition of a broken installation may be the only trace of its group.
fn is_of_operator(world: &World, definition: &DefinitionView) -> bool {
    world.looks_once || world.served_groups.contains(definition.group.as_str())
}

/// A problem that nobody but the operator's maintainers can solve is due only if it is theirs.
fn due_of_operator(world: &World, definition: &DefinitionView) -> Timestamp {
    if is_of_operator(world, definition) { world.now } else { NEVER }
}

fn without_status_subresource(world: &World, definition: &DefinitionView) -> Option<Detection> {
    let (code, since) = (FindingCode::StatusSubresourceMissing, created(world, definition));
    (definition.status == StatusSchema::InBody)
        .then(|| detection(world, code, (since, world.now), definition, |evidence| evidence))
}

/// Objects of the kind cannot be created, because the API server does not accept the names of the
/// definition, which another one has already, or has not established it for a minute.
fn not_established(world: &World, definition: &DefinitionView) -> Option<Detection> {
    let condition = |name: &str| definition.conditions.iter().find(|it| it.r#type == name);
    let names = condition("NamesAccepted").filter(|it| it.status == ConditionStatus::False);
    let established = condition("Established");

    // A manifest in a dump, and a recording by an older version, have no conditions.
    let refused = established.filter(|it| it.status != ConditionStatus::True);
    let cause = names.or(refused).filter(|_| definition.deleted.is_none())?;

    let changed = cause.changed.filter(|at| *at <= world.now);
    let began = changed.unwrap_or_else(|| created(world, definition));
    let due = began.after(ESTABLISHED_WITHIN);
    let is_foreign = !is_of_operator(world, definition);
    let reason = |evidence: Evidence| {
        let evidence = evidence.text("reason", cause.reason.as_str());
        evidence.text("message", cause.message.as_str())
    };

    let code = FindingCode::DefinitionNotEstablished;
    Some(detection(world, code, (began, due), definition, reason).harmless_if(is_foreign))
}

/// The API server neither prunes unknown fields of such a kind nor publishes its schema.
fn non_structural(world: &World, definition: &DefinitionView) -> Option<Detection> {
    let is_violated =
        |it: &&Condition| it.r#type == "NonStructuralSchema" && it.status == ConditionStatus::True;
    let condition = definition.conditions.iter().find(is_violated)?;
    let since = condition.changed.unwrap_or_else(|| created(world, definition));
    let (code, message) = (FindingCode::DefinitionNonStructural, condition.message.as_str());

    Some(detection(world, code, (since, world.now), definition, |it| it.text("message", message)))
}

/// Objects may still be stored in other versions than the present one. A release that no longer has one
/// of these versions cannot be installed.
fn migration_pending(world: &World, definition: &DefinitionView) -> Option<Detection> {
    let is_old = |version: &&String| **version != definition.storage;
    let old: Vec<&str> = definition.stored.iter().filter(is_old).map(String::as_str).collect();
    if old.is_empty() || definition.storage.is_empty() || definition.deleted.is_some() {
        return None;
    }

    let is_unserved = |version: &&&str| !definition.served.iter().any(|it| it == **version);
    let unserved: Vec<&str> = old.iter().filter(is_unserved).copied().collect();
    let versions = |evidence: Evidence| {
        evidence
            .text("stored", old.join(", "))
            .text("storage", definition.storage.as_str())
            .text("unserved", unserved.join(", "))
    };

    let code = FindingCode::StorageMigrationPending;
    let due = due_of_operator(world, definition);
    Some(detection(world, code, (world.now, due), definition, versions))
}

/// The schema lacks the status, or the API server keeps fields that it does not declare.
fn incomplete_schema(world: &World, definition: &DefinitionView) -> Option<Detection> {
    let DefinitionView { drops_status, keeps_unknown, .. } = definition;
    if !drops_status && keeps_unknown.is_empty() || definition.deleted.is_some() {
        return None;
    }

    let times = (created(world, definition), due_of_operator(world, definition));
    let code = FindingCode::DefinitionSchemaIncomplete;
    Some(detection(world, code, times, definition, |evidence| {
        let evidence = evidence.text("dropped", if *drops_status { "status" } else { "" });
        evidence.text("unchecked", keeps_unknown.join(", "))
    }))
}
