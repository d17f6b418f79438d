//! Leader election leases, from observation to snapshot.

use loopwatch_model::observation::{LeaseView, Observation};
use loopwatch_model::time::{Span, Timestamp};

use crate::lab::Lab;

fn lease(name: &str, renewed: Timestamp) -> Observation {
    let renewed = Some(renewed);
    Observation::LeaseSeen(LeaseView {
        namespace: "op".into(),
        name: name.into(),
        renewed,
        ..LeaseView::default()
    })
}

/// The age of each lease in seconds, as `name age`.
fn ages(lab: &Lab) -> Vec<String> {
    let snapshot = lab.snapshot();
    let age = |at: Option<Timestamp>| at.map_or(-1, |at| snapshot.at.since(at).0 / 1000);
    snapshot
        .leases
        .iter()
        .map(|row| format!("{} {}", row.lease.name, age(row.seen_renewed_at)))
        .collect()
}

#[test]
fn a_lease_is_as_old_as_the_last_renewal_that_was_seen() {
    let mut lab = Lab::new();
    let operator = lab.now.after(Span::hours(-5)); // its clock is slow
    lab.observe(lease("a", operator));
    lab.observe(lease("b", operator));
    lab.advance(Span::secs(10));
    lab.observe(lease("a", operator.after(Span::secs(10))));
    lab.advance(Span::secs(3));

    assert_eq!(ages(&lab), ["a 3", "b 13"]);
}

#[test]
fn leases_that_vanish_are_forgotten() {
    let mut lab = Lab::new();
    for name in ["a", "b", "c"] {
        lab.observe(lease(name, lab.now));
    }

    lab.observe(Observation::LeaseGone { namespace: "op".into(), name: "a".into() });
    assert_eq!(ages(&lab), ["b 0", "c 0"]);

    // `b` was deleted while the watch was down.
    lab.observe(Observation::LeasesListed { namespace: "op".into(), names: vec!["c".into()] });
    assert_eq!(ages(&lab), ["c 0"]);
}

#[test]
fn a_thousand_foreign_leases_hide_nothing_else_and_make_room() {
    let mut lab = Lab::new();
    let seen = |lab: &mut Lab, name: String| {
        let view = LeaseView {
            namespace: "op".into(),
            name,
            renewed: Some(lab.now),
            ..LeaseView::default()
        };
        lab.observe(Observation::LeaseSeen(view));
    };

    (0..1_001).for_each(|number| seen(&mut lab, format!("node-{number}")));
    assert_eq!((lab.snapshot().leases.len(), lab.snapshot().dropped["leases"]), (1_000, 1));

    lab.observe(Observation::LeasesListed { namespace: "op".into(), names: Vec::new() });
    seen(&mut lab, "operator".into());

    assert_eq!(lab.snapshot().leases.len(), 1);
}
