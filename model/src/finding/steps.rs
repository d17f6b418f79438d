//! The steps that end a finding about an object that nobody deletes: commands for a person, in the
//! order in which they are safe. loopwatch runs none of them.
//!
//! The steps look first and try each change with `--dry-run=server` before they make it.

use crate::finding::command::fill;
use crate::finding::{Evidence, Finding, FindingCode, Subject, Value, shell_word};

/// A command for a person, with what it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What the command does.
    pub purpose: &'static str,
    /// The command.
    pub command: String,
    /// What may go wrong; empty if the command changes nothing.
    pub danger: &'static str,
}

/// A step before the name of the object is known. The placeholders are those of the table of
/// findings, and `{owner}`.
type Template = (&'static str, &'static str, &'static str);

/// To look at the object.
const LOOK: [Template; 2] = [
    (
        "See what the object holds and who wrote it",
        "kubectl get {resource} {name}{in_namespace} -o yaml --show-managed-fields",
        "",
    ),
    (
        "See what a deletion would take along",
        "loopwatch what-if delete {resource} {name}{in_namespace}",
        "",
    ),
];

/// To give the object back to an owner that still exists. If the owner is gone, the inner command
/// fails, and the patch is refused because it is empty.
const ADOPT: [Template; 3] = [
    ("See whether the former owner still exists", "kubectl get {owner}{in_namespace}", ""),
    (
        "If it does, try to set the owner reference; this changes nothing",
        r#"kubectl patch {resource} {name}{in_namespace} --type=merge --dry-run=server -o yaml -p "$(kubectl get {owner}{in_namespace} -o go-template='{"metadata":{"ownerReferences":[{"apiVersion":"{{.apiVersion}}","kind":"{{.kind}}","name":"{{.metadata.name}}","uid":"{{.metadata.uid}}"}]}}')""#,
        "",
    ),
    (
        "Set the owner reference",
        r#"kubectl patch {resource} {name}{in_namespace} --type=merge -p "$(kubectl get {owner}{in_namespace} -o go-template='{"metadata":{"ownerReferences":[{"apiVersion":"{{.apiVersion}}","kind":"{{.kind}}","name":"{{.metadata.name}}","uid":"{{.metadata.uid}}"}]}}')""#,
        "From then on, the garbage collector deletes the object together with its owner. The reference replaces all others.",
    ),
];

/// To delete the object.
const DELETE: [Template; 2] = [
    (
        "If nothing uses the object, try the deletion; this changes nothing",
        "kubectl delete {resource} {name}{in_namespace} --dry-run=server",
        "",
    ),
    (
        "Delete the object",
        "kubectl delete {resource} {name}{in_namespace}",
        "Nobody can undo this: the object, everything that the second step lists, and what these objects hold, such as data and addresses, are lost. A restore from a backup may still bring the owner.",
    ),
];

impl Finding {
    /// Returns the steps that end the finding, unless it is about something else than an object
    /// that nobody deletes.
    #[must_use]
    pub fn steps(&self) -> Vec<Step> {
        let is_left_behind = matches!(
            self.code,
            FindingCode::Orphan | FindingCode::LogicalOwnerMissing | FindingCode::OwnerUnresolvable
        );
        if !is_left_behind || !is_safe(&self.subject) {
            return Vec::new();
        }

        let owner = former_owner(&self.evidence).filter(|_| self.code == FindingCode::Orphan);
        let adopt = owner.map_or(&[][..], |_| &ADOPT);
        let owner = shell_word(owner.unwrap_or_default());
        let templates = LOOK.iter().chain(adopt).chain(&DELETE);

        templates
            .map(|&(purpose, command, danger)| {
                let command = fill(&self.subject, command, &[("{owner}", Some(owner.clone()))]);
                Step { purpose, command, danger }
            })
            .collect()
    }
}

/// Returns whether no part of the name can be taken for an option: a name such as `--all`, in a
/// recording from an untrusted source, would delete other objects. Quotes do not prevent that.
fn is_safe(subject: &Subject) -> bool {
    let parts = [subject.kind(), subject.group(), subject.namespace(), subject.name()];
    matches!(subject, Subject::Object { .. })
        && !subject.name().is_empty()
        && parts.iter().all(|part| !part.starts_with('-'))
}

/// Returns the former owner as `Kind.group/name`, if the evidence has its kind.
fn former_owner(evidence: &Evidence) -> Option<&str> {
    let Value::Text(owner) = evidence.0.get("former_owner")? else { return None };
    let (kind, name) = owner.split_once('/')?;
    let is_word = |word: &str| !word.is_empty() && !word.starts_with('-');
    (is_word(kind) && is_word(name)).then_some(owner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{Confidence, FINDINGS, FindingId};
    use crate::time::Timestamp;

    fn finding(code: FindingCode, name: &str, owner: &str) -> Finding {
        let subject = Subject::Object {
            group: "example.io".to_owned(),
            kind: "Gadget".to_owned(),
            namespace: "team-a".to_owned(),
            name: name.to_owned(),
        };
        Finding {
            id: FindingId::of(code, &subject),
            code,
            subject,
            since: Timestamp(0),
            found: Timestamp(0),
            severity: code.info().severity,
            confidence: Confidence::Confirmed,
            evidence: Evidence::new().text("former_owner", owner),
            explained_by: None,
            alerts_from: None,
        }
    }

    fn commands(code: FindingCode, name: &str, owner: &str) -> Vec<String> {
        finding(code, name, owner).steps().into_iter().map(|step| step.command).collect()
    }

    #[test]
    fn an_orphan_is_looked_at_then_adopted_or_deleted() {
        let commands = commands(FindingCode::Orphan, "web", "Widget.example.io/shop");
        assert_eq!(commands.len(), 7);
        assert_eq!(commands[1], "loopwatch what-if delete gadget.example.io web -n team-a");
        assert_eq!(commands[2], "kubectl get Widget.example.io/shop -n team-a");
        assert!(
            commands[4].contains(
                r#"$(kubectl get Widget.example.io/shop -n team-a -o go-template='{"meta"#
            ) && commands[4].contains(r#""uid":"{{.metadata.uid}}"}]}}')""#),
            "{}",
            commands[4]
        );
        assert_eq!(commands[6], "kubectl delete gadget.example.io web -n team-a");
    }

    #[test]
    fn nothing_is_adopted_by_an_owner_of_an_unknown_kind_or_that_is_gone() {
        for (code, owner) in [
            (FindingCode::Orphan, "shop"),
            (FindingCode::Orphan, "/shop"),
            (FindingCode::Orphan, "-o/shop"),
            (FindingCode::LogicalOwnerMissing, "Widget/shop"),
        ] {
            let commands = commands(code, "web", owner);
            assert_eq!(commands.len(), 4, "{owner}");
            assert!(commands.iter().all(|command| !command.contains("patch")), "{commands:?}");
        }
    }

    #[test]
    fn each_change_states_its_danger_and_follows_a_look_and_its_own_trial() {
        for info in FINDINGS {
            let steps = finding(info.code, "web", "Widget/shop").steps();
            for (number, step) in steps.iter().enumerate() {
                let changes = ["delete", "patch"].iter().any(|verb| {
                    step.command.starts_with(&format!("kubectl {verb} "))
                        && !step.command.contains(" --dry-run=server")
                });
                assert_eq!(changes, !step.danger.is_empty(), "{step:?}");

                let without_trial = |command: &str| {
                    command.replace(" --dry-run=server", "").replace(" -o yaml", "")
                };
                let is_tried = steps[..number]
                    .iter()
                    .any(|before| without_trial(&before.command) == step.command);
                assert!(!changes || (number > 1 && is_tried), "{step:?}");
            }
        }
    }

    #[test]
    fn hostile_names_are_quoted_and_never_options() {
        for name in ["--all", "-A", ""] {
            assert!(commands(FindingCode::Orphan, name, "Widget/shop").is_empty(), "{name}");
        }

        let all = commands(FindingCode::Orphan, "a; rm -rf '~'\n{owner}", "Widget/$(reboot)");
        assert!(
            all[6].contains(r"'a; rm -rf '\''~'\''") && all[6].contains("{owner}'"),
            "{}",
            all[6]
        );
        assert!(all[4].contains("$(kubectl get 'Widget/$(reboot)' -n team-a"), "{}", all[4]);
    }
}
