//! The finding that nobody scrapes loopwatch. The exporter, which sees the scrapes, decides when the last
//! one is too long ago.

use crate::finding::{Evidence, FindingCode, Subject, Value};
use crate::model::findings::detection::Detection;
use crate::model::findings::open_findings::OpenFindings;
use crate::model::world::World;
use crate::time::Timestamp;

/// Opens the finding, or updates it.
pub(crate) fn missed(world: &mut World, findings: &mut OpenFindings, since: Timestamp) {
    let evidence = || Evidence::new().with("waiting_for", Value::Age(since));
    let detection = Detection::new(world.now, FindingCode::NotScraped, since, world.now, evidence);
    findings.report(world, subject(), detection);
}

/// Closes the finding.
pub(crate) fn seen(world: &mut World, findings: &mut OpenFindings) {
    findings.clear(world.now, FindingCode::NotScraped, &subject());
}

fn subject() -> Subject {
    Subject::Source { name: "scrapes".to_owned() }
}
