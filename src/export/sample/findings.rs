//! The findings of the sample, and the deletions that some of them concern.

use loopwatch_model::finding::{
    Confidence, Evidence, Finding, FindingCode, FindingId, Subject, Value,
};
use loopwatch_model::snapshot::{DeletionRow, DeletionVerdict};
use loopwatch_model::time::Span;

use super::{GROUP, ago};

fn finding(code: FindingCode, subject: Subject, held: Span, evidence: Evidence) -> Finding {
    let id = FindingId::of(code, &subject);
    let since = ago(held);
    let (severity, confidence) = (code.info().severity, Confidence::Confirmed);
    Finding {
        id,
        code,
        subject,
        since,
        found: since,
        severity,
        confidence,
        evidence,
        explained_by: None,
        alerts_from: Some(since),
    }
}

pub(super) fn findings() -> Vec<Finding> {
    let object = |kind: &str, namespace: &str, name: &str| Subject::Object {
        group: GROUP.to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };

    let failing = finding(
        FindingCode::Failing,
        Subject::Kind { group: GROUP.to_owned(), kind: "Backup".to_owned() },
        Span::mins(18),
        Evidence::new()
            .with("failed", Value::Count(9))
            .with("objects", Value::Count(14))
            .text("reason", "BucketUnreachable")
            .with(
                "examples",
                Value::Names(vec!["team-a/nightly-41".to_owned(), "team-a/nightly-42".to_owned()]),
            ),
    );

    let stuck = finding(
        FindingCode::FinalizerStuck,
        object("Database", "team-a", "orders-legacy"),
        Span::hours(76),
        Evidence::new()
            .text("actor", "db-operator")
            .with("finalizers", Value::Names(vec!["db.example.io/volume-cleanup".to_owned()]))
            .with("terminating_for", Value::Span(Span::hours(76)))
            .with("threshold", Value::Span(Span::mins(15))),
    );

    let also_stuck = finding(
        FindingCode::FinalizerStuck,
        object("Database", "team-b", "sessions-old"),
        Span::hours(5),
        Evidence::new()
            .text("actor", "db-operator")
            .with("finalizers", Value::Names(vec!["db.example.io/volume-cleanup".to_owned()]))
            .with("terminating_for", Value::Span(Span::hours(5)))
            .with("threshold", Value::Span(Span::mins(15))),
    );

    let mut overdue = finding(
        FindingCode::Overdue,
        object("Database", "team-a", "checkout"),
        Span::mins(47),
        Evidence::new()
            .with("generation", Value::Count(7))
            .with("waiting_for", Value::Span(Span::mins(47)))
            .with("deadline", Value::Span(Span::mins(4)))
            .text("deadline_source", "learned")
            .text("signal", "Ready=False (BackupPending)")
            .text("message", "waiting for <b>first</b> backup \"nightly-42\""),
    );

    (overdue.explained_by, overdue.alerts_from) = (Some(failing.id), None);
    let mut regressed = finding(
        FindingCode::Regressed,
        object(
            "Database",
            "team-b",
            "ledger-with-a-rather-long-name-that-must-wrap-somewhere-0123456789",
        ),
        Span::mins(6),
        Evidence::new()
            .text("signal", "Ready=False (ReplicaLost)")
            .with("lost_for", Value::Span(Span::mins(6)))
            .with("threshold", Value::Span(Span::mins(5))),
    );

    regressed.confidence = Confidence::Suspected;
    let permission = finding(
        FindingCode::PermissionMissing,
        Subject::Permission {
            namespace: "team-b".to_owned(),
            permission: "list events".to_owned(),
        },
        Span::hours(2),
        Evidence::new().text("verb", "list").text("resource", "events"),
    );

    vec![failing, stuck, also_stuck, overdue, regressed, permission]
}

pub(super) fn deletions() -> Vec<DeletionRow> {
    let row = |namespace: &str, name: &str, held, verdict| DeletionRow {
        group: GROUP.to_owned(),
        kind: "Database".to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        since: ago(held),
        verdict,
        finalizers: vec![(
            "db.example.io/volume-cleanup".into(),
            "field manager db-operator (added it)".to_owned(),
        )],
    };
    vec![
        row("team-a", "orders-legacy", Span::hours(76), DeletionVerdict::Stuck),
        row("team-b", "sessions-old", Span::hours(5), DeletionVerdict::Stuck),
    ]
}
