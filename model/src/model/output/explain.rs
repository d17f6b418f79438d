//! Explains one object to people: everything that the model knows about it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::finding::{Finding, FindingId, Subject};
use crate::model::Model;
use crate::model::deletion::{absence, finalizers};
use crate::model::operator::controllers::Liveness;
use crate::model::output::family_tree;
use crate::model::output::findings_by_object::FindingsByObject;
use crate::model::output::snapshot::deletion_verdict;
use crate::model::world::field_managers;
use crate::model::world::finalizer_actors::Actor;
use crate::model::world::store::{Flag, Record, Slot, uid_text};
use crate::observation::{ObjectAddress, ObjectView, Role};
use crate::snapshot::{
    ExplainedChange, ExplainedCondition, ExplainedEvent, ExplainedFinalizer, ExplainedObject,
    ExplainedObligation, ExplainedWriter, Explanation, ObjectState,
};
use crate::time::{Span, Timestamp};

/// The maximum length of a chain of findings that explain each other.
const MAX_EXPLANATIONS: usize = 10;

impl Model {
    /// Returns everything that the model knows about an object, with at most 200 owners and 200
    /// children; `None` if it does not see the object.
    #[must_use]
    pub fn explain(&self, address: &ObjectAddress) -> Option<Explanation> {
        let slot = self.slot_at(address)?;
        let record = self.world.store.get(slot)?;
        let (kind, hot) = (self.world.kind_of(record.watch), record.hot.as_ref());
        let by_object = self.findings_by_object();
        let (children, more_children) = family_tree::children(self, &by_object, slot);
        let timed =
            record.flags.has(Flag::ConvergenceTimed).then_some(record.last_convergence_secs);

        Some(Explanation {
            at: self.world.now,
            object: self.explained_object(&by_object, record),
            role: match kind.role {
                Role::Primary => "primary".to_owned(),
                Role::Child => "child".to_owned(),
            },
            generation: record.generation.number(),
            observed_generation: record.observed.some(),
            trace: self.traces.key_of(&self.world, slot),
            message: hot.map(|hot| hot.message.clone()).unwrap_or_default(),
            phase: self.world.shared.texts.get(record.phase).to_string(),
            phase_since: hot.and_then(|hot| hot.phase_since),
            last_convergence_seconds: timed,
            obligation: obligation(record).map(|open| self.without_unknown_times(open)),
            conditions: self.conditions_of(slot, record),
            writers: Vec::new(),
            deletion_progress: hot.and_then(|hot| hot.deletion.as_ref()?.last_progress),
            owners: family_tree::owners(self, &by_object, slot),
            children,
            more_children,
            changes: self.changes_of(slot, record),
            timeline: self.timeline(address, record.watch),
            findings: self.findings_about(address),
        })
    }

    /// Removes the time of an acknowledgement that a single look shows without its time.
    fn without_unknown_times(&self, open: ExplainedObligation) -> ExplainedObligation {
        let (now, looks_once) = (self.world.now, self.world.looks_once);
        let is_known = |at: &Timestamp| !looks_once || now.since(*at) >= Span::secs(1);
        ExplainedObligation { acknowledged: open.acknowledged.filter(is_known), ..open }
    }

    /// Returns the finding events about an object and its kind, and the Kubernetes Events about it,
    /// in order.
    fn timeline(&self, address: &ObjectAddress, watch: u16) -> Vec<ExplainedEvent> {
        let mut timeline = self.findings.past().about(&subjects_of(address));
        let kind = self.world.watches[watch as usize].kind;
        timeline.extend(self.kube_events.about(kind, &address.namespace, &address.name));
        timeline.sort_by_key(|event| event.at);

        timeline
    }

    /// Returns the open findings about an object, about its kind, and those that explain them.
    fn findings_about(&self, address: &ObjectAddress) -> Vec<Finding> {
        let subjects = subjects_of(address);
        let about = |finding: &&Finding| subjects.contains(&finding.subject);
        let mut found: Vec<&Finding> = self.findings.iter().filter(about).collect();
        let by_id: BTreeMap<FindingId, &Finding> =
            self.findings.iter().map(|finding| (finding.id, finding)).collect();

        for finding in found.clone() {
            for cause in causes(finding, &by_id) {
                if !found.iter().any(|known| known.id == cause.id) {
                    found.push(cause);
                }
            }
        }

        // A cause comes before its consequences, although these may be more severe.
        let rank = |finding: &Finding| (finding.severity, finding.since, finding.code);
        found.sort_by_cached_key(|finding| {
            let causes = causes(finding, &by_id);
            let root = causes.last().copied().unwrap_or(finding);
            (rank(root), root.id, causes.len(), rank(finding))
        });

        let mut found: Vec<Finding> = found.into_iter().cloned().collect();
        for finding in &mut found {
            finding.evidence = std::mem::take(&mut finding.evidence).at(self.world.now);
        }

        found
    }

    fn findings_by_object(&self) -> FindingsByObject<'_> {
        let mut found = FindingsByObject::new();
        for finding in self.findings.iter() {
            found.entry(&finding.subject).or_default().push(finding.code.name());
        }

        found
    }

    /// Returns the slot of an object, even while its watch is blind.
    fn slot_at(&self, address: &ObjectAddress) -> Option<Slot> {
        let ObjectAddress { group, kind, namespace, name } = address;
        self.world
            .watches_of(group, kind)
            .find_map(|(number, _)| self.world.store.find(number, namespace, name))
    }

    /// Returns an object as the tree shows it.
    pub(crate) fn explained_object(
        &self,
        findings: &FindingsByObject<'_>,
        record: &Record,
    ) -> ExplainedObject {
        let (kind, hot) = (self.world.kind_of(record.watch), record.hot.as_ref());
        let ObjectAddress { group, kind: kind_name, namespace, name } =
            self.world.record_address(record);
        let subject = Subject::Object {
            group: group.clone(),
            kind: kind_name.clone(),
            namespace: namespace.clone(),
            name: name.clone(),
        };

        let state = self.world.state_of(record);
        let deletion = hot.and_then(|hot| hot.deletion.as_ref());
        let finalizers = match deletion {
            Some(deletion) => {
                let verdict = hot.map(|hot| deletion_verdict(hot).as_str()).unwrap_or_default();
                let explained = |(name, actor): &(Arc<str>, Actor)| {
                    self.explained_finalizer(&kind.group, name, actor, verdict)
                };

                deletion.actors.iter().map(explained).collect()
            }
            None => {
                let all = self.world.shared.finalizer_sets.get(record.finalizers);
                all.iter()
                    .map(|name| {
                        self.explained_finalizer(
                            &kind.group,
                            name,
                            &finalizers::expected_actor(&self.world, kind, name),
                            "",
                        )
                    })
                    .collect()
            }
        };

        ExplainedObject {
            group,
            kind: kind_name,
            namespace,
            name,
            uid: uid_text(record.uid),
            state: state.as_str().to_owned(),
            // A blind watch shows no reason for the state.
            reason: if state == record.state {
                record.reason.as_str().to_owned()
            } else {
                String::new()
            },
            signal: self.signal_of(record),
            since: Some(record.since),
            created: record.created(),
            terminating_since: deletion.map(|deletion| deletion.since),
            finalizers,
            findings: findings
                .get(&subject)
                .into_iter()
                .flatten()
                .map(|code| (*code).to_owned())
                .collect(),
        }
    }

    pub(crate) fn explained_finalizer(
        &self,
        group: &str,
        name: &str,
        actor: &Actor,
        verdict: &str,
    ) -> ExplainedFinalizer {
        let is_own = absence::is_removed_by_operator(&self.world, name, actor);
        let liveness = actor.controller().map_or(Liveness::Unknown, |controller| {
            self.operator.liveness(&self.world, group, controller, is_own, false)
        });
        let (alive, last_seen) = match liveness {
            Liveness::SeenAlive { last, .. } => ("alive", Some(last)),
            Liveness::Absent { last, .. } => ("absent", Some(last)),
            Liveness::Unknown => ("unknown", None),
        };

        ExplainedFinalizer {
            name: name.to_owned(),
            actor: actor.to_string(),
            known_by: actor.known_by().to_owned(),
            liveness: alive.to_owned(),
            last_seen,
            verdict: verdict.to_owned(),
        }
    }

    /// Returns the recent changes of an object, with the last spec change in any case.
    fn changes_of(&self, slot: Slot, record: &Record) -> Vec<ExplainedChange> {
        let mut changes = self.parts.recent_changes.of(slot);
        let last = changes.iter().rfind(|change| change.part == "spec");
        let is_new = |recorded: &ExplainedChange| {
            last.is_none_or(|last| recorded.value != last.value && recorded.at > last.at)
        };
        if let Some(recorded) = recorded_spec_change(record).filter(is_new) {
            changes.push(recorded);
            changes.sort_by_key(|change| change.at);
        }

        changes
    }

    fn conditions_of(&self, slot: Slot, record: &Record) -> Vec<ExplainedCondition> {
        let hot = record.hot.as_ref();
        let seen = self.parts.recent_changes.of(slot);
        let changed = |name: &str| {
            let of_condition =
                |change: &&ExplainedChange| change.part == "condition" && change.name == name;
            seen.iter().rfind(of_condition).map(|change| change.at)
        };

        // The model keeps the reason and the message only of the deciding condition, and only while
        // they matter.
        let decided = |name: &str| {
            let hot = hot?;
            Some((reason_in(&hot.signal, name)?.to_owned(), hot.message.clone()))
        };
        let condition = |state: &crate::snapshot::ConditionState| {
            let (reason, message) = decided(&state.r#type).unwrap_or_default();
            let (r#type, status) = (state.r#type.to_string(), state.status.to_owned());
            ExplainedCondition { r#type, status, changed: changed(&state.r#type), reason, message }
        };

        self.world.shared.condition_sets.get(record.conditions).iter().map(condition).collect()
    }
}

/// Returns the subjects of findings that matter for an object: itself, also as a definition, and its kind.
fn subjects_of(address: &ObjectAddress) -> Vec<Subject> {
    let ObjectAddress { group, kind, namespace, name } = address.clone();
    let whole_kind = Subject::Kind { group: group.clone(), kind: kind.clone() };
    let definition = Subject::Definition { name: name.clone() };
    let is_definition = definition.group() == group && definition.kind() == kind;

    let object = Subject::Object { group, kind, namespace, name };
    [object, whole_kind].into_iter().chain(is_definition.then_some(definition)).collect()
}

/// Returns the reason in a signal such as `Ready=False (InvalidSpec)`, or an empty text if it has
/// none. Returns `None` if the signal is about something other than this condition.
fn reason_in<'a>(signal: &'a str, condition: &str) -> Option<&'a str> {
    let value = signal.strip_prefix(condition)?.strip_prefix('=')?;
    Some(
        value.split_once(" (").and_then(|(_, reason)| reason.strip_suffix(')')).unwrap_or_default(),
    )
}

/// Returns the findings that explain a finding, the nearest first.
fn causes<'a>(finding: &Finding, by_id: &BTreeMap<FindingId, &'a Finding>) -> Vec<&'a Finding> {
    let cause = |id: Option<FindingId>| id.and_then(|id| by_id.get(&id).copied());
    let first = cause(finding.explained_by);
    std::iter::successors(first, |found| cause(found.explained_by)).take(MAX_EXPLANATIONS).collect()
}

fn obligation(record: &Record) -> Option<ExplainedObligation> {
    let waits = matches!(
        record.state,
        ObjectState::Progressing | ObjectState::Overdue | ObjectState::Failed
    );
    let unconverged = record.unconverged().filter(|_| waits)?;
    let obligation = unconverged.obligation.as_ref();

    Some(ExplainedObligation {
        since: unconverged.since,
        opened: obligation.map(|obligation| obligation.opened),
        deadline: obligation.map(|obligation| obligation.deadline),
        deadline_source: obligation
            .map(|obligation| obligation.deadline_source.as_str().to_owned())
            .unwrap_or_default(),
        acknowledged: obligation.and_then(|obligation| obligation.acknowledged),
        unacknowledged_since: unconverged.unacknowledged_since,
        regressed_since: unconverged.regressed_since,
    })
}

/// Returns the last spec change, if only the record shows it: in whole seconds, and without its
/// author.
fn recorded_spec_change(record: &Record) -> Option<ExplainedChange> {
    let at = record.spec_change().filter(|at| record.created().is_none_or(|made| *at > made))?;
    Some(ExplainedChange {
        at,
        part: "spec".to_owned(),
        name: "changed".to_owned(),
        value: record.generation.some().map(|number| number.to_string()).unwrap_or_default(),
        ..ExplainedChange::default()
    })
}

impl Explanation {
    /// Adds what the model does not keep: reasons, messages and times of the conditions, and the
    /// writers.
    pub fn add_view(&mut self, view: &ObjectView) {
        for known in &mut self.conditions {
            let Some(condition) = view.conditions.iter().find(|c| c.r#type == known.r#type) else {
                continue;
            };
            if condition.status.as_str() == known.status {
                known.reason.clone_from(&condition.reason);
                known.message.clone_from(&condition.message);
                known.changed = condition.changed.or(known.changed);
            }
        }

        self.writers = view
            .managers
            .iter()
            .map(|manager| {
                let parts = [
                    (manager.owns.spec, "spec"),
                    (manager.owns.status, "status"),
                    (manager.owns.finalizers || !manager.finalizers.is_empty(), "finalizers"),
                ];
                let parts = parts
                    .into_iter()
                    .filter(|(owns, _)| *owns)
                    .map(|(_, part)| part.to_owned())
                    .collect();

                ExplainedWriter { manager: manager.name.clone(), parts, at: manager.time }
            })
            .collect();
        self.writers.sort_by_key(|writer| std::cmp::Reverse(writer.at));

        // Times in managed fields are whole seconds.
        let writer = field_managers::spec_writer(view);
        let written =
            view.managers.iter().filter(|m| m.name == writer).filter_map(|m| m.time).max();
        for change in self.changes.iter_mut().filter(|c| c.part == "spec" && c.by.is_empty()) {
            let is_last = written.is_some_and(|at| at.since(change.at).0.abs() <= 1_000);
            if is_last {
                writer.clone_into(&mut change.by);
            }
        }
    }
}
