//! The findings about each unhealthy object, or why there is none.

use std::collections::BTreeMap;

use loopwatch_model::finding::{Finding, FindingCode, Subject, Value};
use loopwatch_model::snapshot::{ObjectRow, ObjectState, Snapshot};

/// The open findings by the object that they are about.
pub(crate) struct FindingsByObject<'a> {
    snapshot: &'a Snapshot,
    own: BTreeMap<[&'a str; 4], Vec<&'a Finding>>,
}

impl<'a> FindingsByObject<'a> {
    #[must_use]
    pub(crate) fn of(snapshot: &'a Snapshot) -> Self {
        let mut own = BTreeMap::<_, Vec<_>>::new();
        for finding in &snapshot.findings {
            if let Subject::Object { group, kind, namespace, name } = &finding.subject {
                let object = [group, kind, namespace, name].map(String::as_str);
                own.entry(object).or_default().push(finding);
            }
        }

        Self { snapshot, own }
    }

    /// The findings about an object itself, the most severe first.
    #[must_use]
    pub(crate) fn own<'b>(&'b self, row: &'b ObjectRow) -> &'b [&'a Finding] {
        let object = [&row.group, &row.kind, &row.namespace, &row.name].map(String::as_str);
        self.own.get(&object).map_or(&[], Vec::as_slice)
    }

    /// The findings about an object or, for a failed one without any, that about all failed objects
    /// of its kind.
    #[must_use]
    pub(crate) fn about(&self, row: &ObjectRow) -> Vec<&'a Finding> {
        let own = self.own(row);
        if !own.is_empty() || row.state != ObjectState::Failed {
            return own.to_vec();
        }

        let is_of_kind = |finding: &&Finding| match &finding.subject {
            Subject::Kind { group, kind } => {
                finding.code == FindingCode::Failing
                    && (group, kind) == (&row.group, &row.kind)
                    && (!row.rejected || is_for_its_reason(finding, row))
            }
            _ => false,
        };
        self.snapshot.findings.iter().filter(is_of_kind).collect()
    }

    /// Why an overdue or failed object has no finding; `None` if it needs none.
    #[must_use]
    pub(crate) fn why_none(&self, row: &ObjectRow) -> Option<&'static str> {
        let is_full = self.snapshot.dropped.get("findings").is_some_and(|dropped| *dropped > 0);
        match row.state {
            ObjectState::Failed if row.rejected => Some("none: the operator rejects its spec"),
            ObjectState::Failed | ObjectState::Overdue if is_full => {
                Some("none, or beyond the limit of open findings")
            }
            ObjectState::Failed => Some("none yet: one opens unless the object recovers"),
            ObjectState::Overdue => Some("none yet, or turned off by a setting or an annotation"),
            _ => None,
        }
    }
}

/// Whether the objects of a kind fail for the same reason as this one.
fn is_for_its_reason(finding: &Finding, row: &ObjectRow) -> bool {
    match finding.evidence.0.get("reason") {
        Some(Value::Text(reason)) => row.signal.contains(&format!("({reason})")),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::sample::sample;

    #[test]
    fn an_unhealthy_object_has_findings_or_a_reason_why_not() {
        let mut snapshot = sample().snapshot;
        let finding = snapshot.findings.iter().find(|finding| finding.code != FindingCode::Failing);
        let Some(Subject::Object { group, kind, namespace, name }) =
            finding.map(|finding| finding.subject.clone())
        else {
            panic!("the sample has a finding about an object");
        };
        let mut row = ObjectRow {
            group,
            kind,
            namespace,
            name,
            state: ObjectState::Overdue,
            ..ObjectRow::default()
        };
        assert!(!FindingsByObject::of(&snapshot).about(&row).is_empty());

        // The finding about the whole kind covers a failed object without one of its own.
        let whole = snapshot.findings.iter().find(|finding| finding.code == FindingCode::Failing);
        let Some(Subject::Kind { group, kind }) = whole.map(|finding| finding.subject.clone())
        else {
            panic!("the sample has a finding about a kind");
        };
        (row.group, row.kind, row.name) = (group, kind, "another".to_owned());
        assert!(FindingsByObject::of(&snapshot).about(&row).is_empty());
        row.state = ObjectState::Failed;
        let about = FindingsByObject::of(&snapshot).about(&row);
        assert_eq!(about.iter().map(|f| f.code).collect::<Vec<_>>(), [FindingCode::Failing]);

        snapshot.findings.clear();
        let why = |snapshot: &Snapshot, row: &ObjectRow| {
            FindingsByObject::of(snapshot).why_none(row).unwrap_or_default()
        };
        assert!(why(&snapshot, &row).contains("unless the object recovers"));
        row.rejected = true;
        assert!(why(&snapshot, &row).contains("rejects its spec"));
        row.state = ObjectState::Overdue;
        assert!(why(&snapshot, &row).contains("turned off"));
        snapshot.dropped.insert("findings", 1);
        assert!(why(&snapshot, &row).contains("limit"));
        row.state = ObjectState::Converged;
        assert_eq!(FindingsByObject::of(&snapshot).why_none(&row), None);
    }

    #[test]
    fn a_rejected_object_does_not_belong_to_a_finding_about_others_of_its_kind() {
        let snapshot = sample().snapshot;
        let failing = snapshot.findings.iter().find(|finding| finding.code == FindingCode::Failing);
        let Some(Subject::Kind { group, kind }) = failing.map(|finding| finding.subject.clone())
        else {
            panic!("the sample has a finding about a kind");
        };

        // The others fail with the reason BucketUnreachable.
        let row = ObjectRow {
            group,
            kind,
            namespace: "team-z".to_owned(),
            name: "typo".to_owned(),
            state: ObjectState::Failed,
            signal: "Ready=False (InvalidSpec)".to_owned(),
            rejected: true,
            ..ObjectRow::default()
        };
        let by_object = FindingsByObject::of(&snapshot);
        assert!(by_object.about(&row).is_empty(), "{:?}", by_object.about(&row));
        assert_eq!(by_object.why_none(&row), Some("none: the operator rejects its spec"));
    }
}
