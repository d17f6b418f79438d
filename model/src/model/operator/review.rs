//! The review of the operator: collects the conclusions of all detectors about it, opens and closes
//! the findings, and sets the timer.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::{Alert, Explainer, FindingCode, Subject, Value};
use crate::model::findings::detection::{Detection, events_needed};
use crate::model::findings::open_findings::OpenFindings;
use crate::model::operator::Operator;
use crate::model::operator::pods::PodsSay;
use crate::model::world::World;
use crate::model::world::kinds::completed::Completed;
use crate::model::world::timers::Timer;
use crate::observation::{InstanceName, Role};
use crate::time::Timestamp;

/// The findings during which the operator does not work as it usually does, so that the duration of
/// its work shows nothing.
const OUTAGES: [FindingCode; 5] = [
    FindingCode::OperatorDown,
    FindingCode::RestartLoop,
    FindingCode::StartupOutOfMemory,
    FindingCode::LeaderAbsent,
    FindingCode::ApiErrors,
];

/// The conclusions of the detectors about the operator.
#[derive(Debug, Default)]
pub(crate) struct Verdicts {
    detections: Vec<(Subject, Detection)>,
    /// Open findings that stay open, because loopwatch cannot see whether the problem is over.
    /// `None` stands for any subject.
    kept: Vec<(FindingCode, Option<Subject>)>,
    /// When to look again.
    again: Vec<Timestamp>,
}

impl Verdicts {
    pub(super) fn push(&mut self, subject: Subject, detection: Detection) {
        self.detections.push((subject, detection));
    }

    /// Keeps findings of this code open.
    pub(super) fn keep(&mut self, code: FindingCode) {
        self.kept.push((code, None));
    }

    /// Keeps the finding about a subject open.
    pub(super) fn keep_about(&mut self, subject: Subject, code: FindingCode) {
        self.kept.push((code, Some(subject)));
    }

    /// Returns whether a finding of this code could explain one of the problems that alert now.
    pub(super) fn needs(&self, now: Timestamp, code: FindingCode) -> bool {
        let by = [Explainer::Subject(code), Explainer::Operator(code), Explainer::Outage(code)];
        let due = self.detections.iter().filter(|(_, detection)| detection.due <= now);
        let mut alerting = due
            .map(|(_, detection)| detection.code.info())
            .filter(|info| info.alert != Alert::None);

        alerting.any(|info| by.iter().any(|explainer| info.explained_by.contains(explainer)))
    }

    pub(super) fn look_again(&mut self, at: Option<Timestamp>) {
        self.again.extend(at);
    }
}

impl Operator {
    /// Returns the subject of findings about the operator as a whole. Without a view of the
    /// workload, uses the name of an instance, or else `operator`.
    pub(crate) fn operator_subject(&self) -> Subject {
        if let Some(view) = &self.view {
            return Subject::Operator {
                namespace: view.namespace.clone(),
                name: view.name.clone(),
            };
        }

        let instance = self.instances.keys().next().map_or("operator", String::as_str);
        let (namespace, name) = InstanceName(instance).pod().unwrap_or(("", instance));
        Subject::Operator { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// Returns whether no Pod of the operator runs, although that may be planned.
    fn has_no_pod_that_runs(&self, world: &World) -> bool {
        matches!(self.pods_say(world), PodsSay::Excused(_) | PodsSay::Down(_))
    }

    /// Returns whether a finding of this code about the operator is open.
    pub(super) fn is_found(&self, code: FindingCode) -> bool {
        self.found.iter().any(|(found, _)| *found == code)
    }

    /// Returns how many events within a window a finding needs, given the number that opens it: an
    /// open one needs half as many, rounded up, so that it does not flap around the threshold.
    pub(super) fn threshold(&self, code: FindingCode, to_open: u32) -> u32 {
        events_needed(self.is_found(code), to_open)
    }

    /// Handles the timer of the operator.
    pub(crate) fn operator_due(&mut self, world: &mut World) {
        self.due = None;
        world.agenda.operator = true;
    }

    /// Opens and closes the findings about the operator, and sets its timer.
    pub(crate) fn review_operator(&mut self, world: &mut World, findings: &mut OpenFindings) {
        let now = world.now;
        let subject = self.operator_subject();
        findings.set_operator(
            subject,
            self.reconciled_kinds(world),
            self.controllers_succeeded(),
            completed(world),
        );

        let verdicts = self.operator_verdicts(world);
        let Verdicts { mut detections, kept, again } = verdicts;
        let chain = self.leak_chain(world, findings);
        detections.extend(chain.map(|chain| (self.operator_subject(), chain)));

        let opening: Vec<Timestamp> =
            detections.iter().map(|(_, detection)| detection.due).collect();
        let (mut open, mut hanging) = (BTreeSet::new(), Vec::new());
        let mut fails = self.has_no_pod_that_runs(world);

        for (subject, detection) in
            detections.into_iter().filter(|(_, detection)| detection.due <= now)
        {
            hanging.extend(hangs_in(&detection));
            open.insert((detection.code, subject.clone()));
            fails |= OUTAGES.contains(&detection.code) && keeps_from_work(&detection);
            findings.report(world, subject, detection);
        }

        let known = std::mem::take(&mut self.found);
        for (code, subject) in
            known.into_iter().filter(|finding| !open.contains(finding)).collect::<Vec<_>>()
        {
            if kept.iter().any(|(kept, about)| {
                *kept == code && about.as_ref().is_none_or(|about| *about == subject)
            }) {
                open.insert((code, subject));
            } else {
                findings.clear(now, code, &subject);
            }
        }

        let is_kept = |code: &FindingCode| kept.iter().any(|(kept, _)| kept == code);
        fails |= world.operator_failed == Timestamp(i64::MAX)
            && open.iter().any(|(code, _)| OUTAGES.contains(code) && is_kept(code));
        if fails {
            world.operator_failed = Timestamp(i64::MAX);
        } else if world.operator_failed == Timestamp(i64::MAX) {
            world.operator_failed = now;
        }

        self.found = open;
        self.want_waiting(world, hanging);
        let later = opening.into_iter().chain(again).chain(self.update_recovery(world));
        let due = later.filter(|due| *due > now && due.0 < i64::MAX).min();
        let old = std::mem::replace(&mut self.due, due);

        world.agenda.timers.set(Timer::Operator, old, due);
    }

    /// Returns all problems that the operator has, or will have if nothing changes.
    pub(crate) fn operator_detections(&mut self, world: &World) -> Vec<(Subject, Detection)> {
        self.operator_verdicts(world).detections
    }

    fn operator_verdicts(&mut self, world: &World) -> Verdicts {
        let mut verdicts = Verdicts::default();
        let down = self.operator_down(world, &mut verdicts);
        self.down = down;
        self.restart_loop(world, &mut verdicts, down);
        self.startup_out_of_memory(world, &mut verdicts, down);
        self.loop_verdicts(world, &mut verdicts);
        self.leader_verdicts(world, &mut verdicts);
        self.request_verdicts(world, &mut verdicts);
        self.unchanged_writes(world, &mut verdicts);

        verdicts
    }
}

/// Returns the instance whose workers hang or cannot keep up, and since when, if a detection says so.
fn hangs_in(detection: &Detection) -> Option<(String, Timestamp)> {
    let hangs = matches!(detection.code, FindingCode::ReconcileStuck | FindingCode::QueueBacklog);
    match detection.evidence.0.get("instance").filter(|_| hangs)? {
        Value::Text(instance) => Some((instance.clone(), detection.since)),
        _ => None,
    }
}

/// Returns whether the operator does not work while the problem of this detection lasts. Weak
/// `ApiErrors` are a part of its requests only.
fn keeps_from_work(detection: &Detection) -> bool {
    !detection.aside && (detection.code != FindingCode::ApiErrors || !detection.weak)
}

/// Returns the work that the operator has done on each primary kind.
fn completed(world: &World) -> BTreeMap<Subject, Completed> {
    let kinds = (0..).zip(&world.kinds);
    let primary = kinds.filter(|(_, kind)| kind.role == Role::Primary && !kind.suspected);
    primary.map(|(number, kind)| (world.kind_subject(number), kind.completed)).collect()
}
