//! The command that a finding suggests.

use std::borrow::Cow;

use super::{Finding, FindingInfo, Subject, Value};
use crate::group::with_group;

impl Finding {
    /// Returns the suggested command for this subject and evidence.
    #[must_use]
    pub fn command(&self) -> String {
        let FindingInfo { command, otherwise, .. } = self.info();
        let known = [("{pod}", self.pod()), ("{target}", self.target())];
        let is_unknown =
            |(name, value): &(&str, Option<String>)| value.is_none() && command.contains(*name);

        match known.iter().any(is_unknown) {
            true => fill(&self.subject, otherwise, &known),
            false => fill(&self.subject, command, &known),
        }
    }

    /// Returns the Pod of the instance in the evidence, as flags and argument of `kubectl`; `None` for
    /// an operator outside of Kubernetes, whose instance is the address of its metrics.
    fn pod(&self) -> Option<String> {
        let (namespace, pod) = self.instance_pod()?;
        let kind = if pod.starts_with('-') { "pod/" } else { "" };
        Some(format!(" -n {} {kind}{}", shell_word(namespace), shell_word(pod)))
    }

    /// Returns the first target in the evidence, as arguments of `kubectl get`. The evidence has it as
    /// `Secret team-a/name`, or `Node name`.
    fn target(&self) -> Option<String> {
        let Some(Value::Names(targets)) = self.evidence.0.get("target") else { return None };
        let (kind, address) = targets.first()?.split_once(' ')?;
        let kind = shell_word(&kind.to_lowercase());

        // kubectl takes a name such as `--all` for a flag, unless it follows a slash.
        let named = |name: &str| {
            let between = if name.starts_with('-') { "/" } else { " " };
            format!("{kind}{between}{}", shell_word(name))
        };

        Some(match address.split_once('/') {
            Some((namespace, name)) => format!("{} -n {}", named(name), shell_word(namespace)),
            None => named(address),
        })
    }
}

/// Replaces the placeholders in a template by parts of the subject and by `known` values.
pub(super) fn fill(
    subject: &Subject,
    template: &str,
    known: &[(&'static str, Option<String>)],
) -> String {
    let resource = with_group(&subject.kind().to_lowercase(), subject.group());
    let in_namespace = if subject.namespace().is_empty() {
        String::new()
    } else {
        format!(" -n {}", shell_word(subject.namespace()))
    };

    let values = [
        ("{resource}", shell_word(&resource)),
        ("{in_namespace}", in_namespace),
        ("{kind}", shell_word(subject.kind())),
        ("{group}", shell_word(subject.group())),
        ("{name}", shell_word(subject.name())),
    ];
    // kubectl takes a name such as `--all` for a flag, unless it follows a slash.
    let template = match subject.name().starts_with('-') {
        true => Cow::Owned(template.replace(" {name}", "/{name}")),
        false => Cow::Borrowed(template),
    };
    let known = known.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?)));
    let values: Vec<(&str, &str)> =
        values.iter().map(|(name, value)| (*name, value.as_str())).chain(known).collect();

    // A single pass, because a name may contain what looks like a placeholder.
    let (mut command, mut rest) = (String::new(), &*template);
    while let Some(start) = rest.find('{') {
        let (before, after) = rest.split_at(start);
        command.push_str(before);

        let value =
            values.iter().find_map(|(name, value)| Some((*value, after.strip_prefix(*name)?)));
        let Some((value, remaining)) = value else {
            command.push('{');
            rest = &after[1..];
            continue;
        };

        command.push_str(value);
        rest = remaining;
    }

    command + rest
}

/// Quotes `text` as one shell word. People paste these commands into a shell, and a name in a
/// recording from an untrusted source must not inject a command.
#[must_use]
pub fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/@%+,".contains(c);
    if !text.starts_with('-') && text.chars().all(plain) {
        return text.to_owned();
    }

    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{Confidence, Evidence, FINDINGS, FindingCode, FindingId, Severity};
    use crate::time::Timestamp;

    #[test]
    fn names_with_special_characters_are_quoted_in_commands() {
        let command = |name: &str| {
            let (group, kind, namespace) =
                ("example.io".to_owned(), "Widget".to_owned(), "team-a".to_owned());
            let subject = Subject::Object { group, kind, namespace, name: name.to_owned() };
            fill(&subject, "kubectl get {resource} {name}{in_namespace}", &[])
        };

        assert_eq!(command("web"), "kubectl get widget.example.io web -n team-a");
        assert_eq!(
            command("a; rm -rf '~'"),
            r"kubectl get widget.example.io 'a; rm -rf '\''~'\''' -n team-a"
        );
        assert_eq!(command("-o=x"), "kubectl get widget.example.io/'-o=x' -n team-a");
    }

    #[test]
    fn names_that_look_like_placeholders_do_not_leave_their_quotes() {
        let (group, kind, namespace) = (String::new(), "Widget".to_owned(), "{name}".to_owned());
        let subject = Subject::Object { group, kind, namespace, name: "; reboot".to_owned() };
        let command =
            fill(&subject, "kubectl get {kind}{in_namespace} {name} -o jsonpath='{.x}'", &[]);

        assert_eq!(command, "kubectl get Widget -n '{name}' '; reboot' -o jsonpath='{.x}'");
    }

    #[test]
    fn a_command_fits_what_the_evidence_names() {
        let command = |code: FindingCode, subject: Subject, evidence: Evidence| {
            let finding = Finding {
                id: FindingId::of(code, &subject),
                code,
                subject,
                since: Timestamp(0),
                found: Timestamp(0),
                severity: Severity::Warning,
                confidence: Confidence::Confirmed,
                evidence,
                explained_by: None,
                alerts_from: None,
            };
            finding.command()
        };
        let controller = || Subject::Controller { name: "widget".to_owned() };
        let of = |instance: &str| Evidence::new().text("instance", instance);

        assert_eq!(
            command(FindingCode::ReconcileFailing, controller(), of("ops/op-1")),
            "kubectl logs -n ops op-1 --all-containers --since=1h"
        );
        assert_eq!(
            command(FindingCode::ReconcileFailing, controller(), of("10.0.0.1:8080")),
            "kubectl get events -A --field-selector type=Warning"
        );

        let outside =
            || Subject::Operator { namespace: String::new(), name: "127.0.0.1:8080".to_owned() };
        assert_eq!(
            command(FindingCode::FileDescriptorLeak, outside(), of("127.0.0.1:8080")),
            "lsof -nP -iTCP@127.0.0.1:8080 -sTCP:LISTEN"
        );
        assert_eq!(
            command(FindingCode::FileDescriptorLeak, outside(), of("ops/op-1")),
            "kubectl exec -n ops op-1 -- ls -l /proc/1/fd"
        );

        let web = || Subject::Object {
            group: "example.io".to_owned(),
            kind: "Widget".to_owned(),
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
        };
        let target =
            |name: &str| Evidence::new().with("target", Value::Names(vec![name.to_owned()]));
        let code = FindingCode::DanglingReference;
        assert_eq!(
            command(code, web(), target("Secret shop/a b")),
            "kubectl get secret 'a b' -n shop"
        );
        assert_eq!(command(code, web(), target("Node a")), "kubectl get node a");
        assert_eq!(
            command(code, web(), target("Secret shop/-a")),
            "kubectl get secret/'-a' -n shop"
        );

        let mut like_a_flag = web();
        if let Subject::Object { name, .. } = &mut like_a_flag {
            *name = "--all".to_owned();
        }
        assert_eq!(
            command(FindingCode::Overdue, like_a_flag, Evidence::new()),
            "kubectl describe widget.example.io/'--all' -n shop"
        );
        assert_eq!(
            command(code, web(), Evidence::new()),
            "kubectl get widget.example.io web -n shop -o yaml"
        );
    }

    #[test]
    fn only_commands_with_evidence_have_an_alternative() {
        for info in FINDINGS {
            let needs = ["{pod}", "{target}"].iter().any(|part| info.command.contains(part));
            assert_eq!(needs, !info.otherwise.is_empty(), "{}", info.name);
            assert!(!info.otherwise.contains("{pod}") && !info.otherwise.contains("{target}"));
        }
    }
}
