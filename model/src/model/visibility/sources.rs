//! Failing sources and missing permissions, which restrict what loopwatch can see, and excessive
//! permissions.
//!
//! A watch that has failed for `source_failing_after` is blind. Its objects then count as `unknown`
//! until it recovers.

use std::collections::BTreeSet;

use crate::finding::{Evidence, FindingCode, Subject, Value};
use crate::model::findings::detection::Detection;
use crate::model::findings::open_findings::OpenFindings;
use crate::model::world::timers::Timer;
use crate::model::world::{World, subjects};
use crate::observation::{Permission, PermissionsView, SourceId};
use crate::snapshot::SourceSummary;
use crate::time::Span;

/// Opens the finding about a source that has failed for long enough. If it has not, sets the timer
/// of the source.
pub(crate) fn source_due(world: &mut World, findings: &mut OpenFindings, number: u16) {
    let (now, after) = (world.now, world.settings.source_failing_after);
    let Some((id, summary)) = world.sources.failing(number) else { return };
    let (id, summary) = (id.clone(), summary.clone());

    // An invalid configuration does not recover by itself, so there is nothing to wait for.
    let wait = if id == SourceId::Config { Span::ZERO } else { after };
    let due = Some(summary.since.after(wait)).filter(|due| *due > now);
    let old = world.sources.set_due(number, due);
    world.agenda.timers.set(Timer::Source(number), old, due);
    if due.is_some() {
        return;
    }

    let (code, since) = (failing_code(&id), summary.since);
    let evidence = evidence_of_failure(code, summary);
    let detection = Detection::new(now, code, since, now, || evidence);
    findings.report(world, subjects::source(&id), detection);
    world.mark_blind(&id, since);
}

fn evidence_of_failure(code: FindingCode, summary: SourceSummary) -> Evidence {
    let SourceSummary { since, last_success, latest, .. } = summary;
    let (cause, detail) = latest.unwrap_or(("other", String::new()));
    let evidence = if code == FindingCode::ConfigInvalid {
        Evidence::new().text("problem", detail)
    } else {
        let evidence = Evidence::new().text("cause", cause).text("detail", detail);
        evidence.with_some("last_success", last_success.map(Value::Time))
    };

    evidence.with("failing_for", Value::Age(since))
}

/// Reviews all findings about sources, because the settings changed.
pub(crate) fn review_sources(world: &mut World, findings: &mut OpenFindings) {
    for number in world.sources.numbers() {
        source_due(world, findings, number);
    }
}

/// Handles a review of the account's permissions in one scope.
pub(crate) fn permissions_reviewed(
    world: &mut World,
    findings: &mut OpenFindings,
    view: PermissionsView,
) {
    world.permissions.insert(view.namespace.clone(), view);
    review_permissions(world, findings);
}

/// Opens and closes the findings about missing and excessive permissions.
pub(crate) fn review_permissions(world: &mut World, findings: &mut OpenFindings) {
    let now = world.now;
    let missing = world.permissions_missing();
    let subjects: BTreeSet<Subject> = missing
        .iter()
        .map(|(namespace, permission)| subjects::permission(namespace, permission.to_string()))
        .collect();

    findings
        .retain(world.now, FindingCode::PermissionMissing, |subject| subjects.contains(subject));
    for (namespace, permission) in missing {
        let subject = subjects::permission(&namespace, permission.to_string());
        let resource = Permission { verb: String::new(), ..permission.clone() }.to_string();
        let evidence =
            Evidence::new().text("verb", permission.verb).text("resource", resource.trim());
        let detection = Detection::new(now, FindingCode::PermissionMissing, now, now, || evidence);

        findings.report(world, subject, detection);
    }

    let excess: Vec<(Subject, Vec<String>)> = world
        .permissions
        .values()
        .filter(|view| !view.excess.is_empty())
        .map(|view| {
            (
                subjects::permission(&view.namespace, "*".to_owned()),
                view.excess.iter().map(Permission::to_string).collect(),
            )
        })
        .collect();

    findings.retain(world.now, FindingCode::PermissionExcess, |subject| {
        excess.iter().any(|(s, _)| s == subject)
    });
    for (subject, permissions) in excess {
        let evidence = || Evidence::new().with("rights", Value::Names(permissions));
        findings.report(
            world,
            subject,
            Detection::new(now, FindingCode::PermissionExcess, now, now, evidence),
        );
    }
}

/// Returns the code of the finding about a failing source.
pub(crate) fn failing_code(id: &SourceId) -> FindingCode {
    if *id == SourceId::Config { FindingCode::ConfigInvalid } else { FindingCode::SourceFailing }
}
