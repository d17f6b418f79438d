//! Findings: the problems that detectors report. [`FINDINGS`] is the table of all codes.
//!
//! Metrics, alert rules, the page, `check`, runbooks and `docs/findings.md` take all names, texts
//! and severities from this table and have no rules of their own.

mod evidence;
mod steps; // that end a finding
mod table;

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

pub use self::evidence::{Evidence, Value};
pub use self::steps::Step;
pub use self::table::{Alert, Area, Explainer, FINDINGS, FindingCode, FindingInfo, Severity};

use crate::group::with_group;
use crate::instance::InstanceName;
use crate::time::{Span, Timestamp};

/// A problem, with its subject, its start and its evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// A hash of code and subject, so that the same problem has the same ID after a restart and on
    /// every replica.
    pub id: FindingId,
    /// The kind of problem.
    pub code: FindingCode,
    /// The object, kind or part of loopwatch that has the problem.
    pub subject: Subject,
    /// When the problem began according to the best evidence, which may be before loopwatch noticed
    /// it.
    pub since: Timestamp,
    /// When the detector first reported it.
    pub found: Timestamp,
    /// How urgently a person must act: the severity of the code, unless settings, weak evidence or
    /// a more severe finding that it explains change it.
    pub severity: Severity,
    /// How certain the finding is.
    pub confidence: Confidence,
    /// Names and numbers that support the finding.
    pub evidence: Evidence,
    /// The open finding that explains this one; `None` for a root finding.
    pub explained_by: Option<FindingId>,
    /// When it begins to alert; `None` while it does not. After the finding that explained it has
    /// closed, this is in the future, because the operator needs time to catch up. A finding that
    /// has alerted for [`HOLD`] alerts until it closes, even if another one explains it by then:
    /// otherwise, people would believe that the problem is over.
    pub alerts_from: Option<Timestamp>,
}

/// How long a root finding must be open before its alert is posted, because a finding that explains
/// it may open a moment later.
pub const HOLD: Span = Span::secs(15);

/// A change of a finding, for logs, notifications and the timeline of a replay.
#[derive(Clone, Debug, PartialEq)]
pub struct FindingEvent {
    /// The time of the event.
    pub at: Timestamp,
    /// The change.
    pub change: Change,
    /// The finding at that time.
    pub finding: Finding,
}

/// A change of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The detector has reported the problem.
    Opened,
    /// The problem is gone or, if too many findings are open, a more severe finding has taken its
    /// place.
    Closed,
    /// Another finding now explains this open one, or no longer does.
    Explained,
}

/// Identifies a finding: 64 bits, written as hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FindingId(pub u64);

/// How certain a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Likely. People can see the finding, but it raises no alert.
    Suspected,
    /// Certain. Only confirmed findings can alert.
    Confirmed,
}

/// The subject of a finding. The order of the variants is the order of listings.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// One object.
    Object {
        /// API group.
        group: String,
        /// Kind.
        kind: String,
        /// Empty for cluster-scoped objects.
        namespace: String,
        /// Name.
        name: String,
    },
    /// All objects of a kind.
    Kind {
        /// API group.
        group: String,
        /// Kind.
        kind: String,
    },
    /// A custom resource definition.
    Definition {
        /// Its name: `plural.group`.
        name: String,
    },
    /// The operator, with all of its instances.
    Operator {
        /// Its namespace.
        namespace: String,
        /// The name of its workload.
        name: String,
    },
    /// A controller of the operator.
    Controller {
        /// Its name.
        name: String,
    },
    /// A source of observations.
    Source {
        /// Its name: the value of the `source` label.
        name: String,
    },
    /// A permission of the account.
    Permission {
        /// The namespace; empty for the whole cluster.
        namespace: String,
        /// The permission, as `verb resource.group`.
        permission: String,
    },
    /// An admission webhook.
    Webhook {
        /// Its name, which several configurations may share.
        name: String,
    },
    /// An admission policy.
    Policy {
        /// Whether it is a `MutatingAdmissionPolicy`, not a `ValidatingAdmissionPolicy`.
        mutating: bool,
        /// Its name.
        name: String,
    },
    /// A configured limit.
    Limit {
        /// Its name: the value of the `limit` label.
        name: String,
    },
}

impl Finding {
    /// Returns the row of this finding's code in [`FINDINGS`].
    #[must_use]
    pub fn info(&self) -> &'static FindingInfo {
        self.code.info()
    }

    /// Returns whether loopwatch must collect the evidence anew after a restart, which takes a while:
    /// findings about controllers and about writes count what happens within a window, and those about
    /// webhooks and policies wait for the next failures.
    #[must_use]
    pub fn is_collected_anew(&self) -> bool {
        let is_collected = matches!(
            self.subject,
            Subject::Controller { .. } | Subject::Webhook { .. } | Subject::Policy { .. }
        );
        is_collected
            || self.info().area == Area::Writes
            || self.code == FindingCode::ConversionFailing
    }

    /// Returns one line for people: the meaning and the evidence, without the subject.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut line = self.info().meaning.trim_end_matches('.').to_owned();
        for (index, (key, value)) in self.evidence.0.iter().enumerate() {
            line.push_str(if index == 0 { " (" } else { ", " });
            line.push_str(&key.replace('_', " "));
            line.push(' ');
            line.push_str(&value.to_string());
        }

        if !self.evidence.0.is_empty() {
            line.push(')');
        }

        line
    }

    /// Returns whether the finding counts for alerts at an instant. Its severity and confidence
    /// must also allow an alert.
    #[must_use]
    pub fn alerts_at(&self, at: Timestamp) -> bool {
        self.alerts_from.is_some_and(|from| from <= at)
    }

    /// Returns the suggested command for this subject and evidence.
    #[must_use]
    pub fn command(&self) -> String {
        let FindingInfo { command, otherwise, .. } = self.info();
        let known = [("{pod}", self.pod()), ("{target}", self.target())];
        let is_unknown =
            |(name, value): &(&str, Option<String>)| value.is_none() && command.contains(*name);

        match known.iter().any(is_unknown) {
            true => self.subject.fill(otherwise, &known),
            false => self.subject.fill(command, &known),
        }
    }

    /// Returns the Pod of the instance in the evidence, as flags and argument of `kubectl`; `None` for
    /// an operator outside of Kubernetes, whose instance is the address of its metrics.
    fn pod(&self) -> Option<String> {
        let (namespace, pod) = self.instance_pod()?;
        let kind = if pod.starts_with('-') { "pod/" } else { "" };
        Some(format!(" -n {} {kind}{}", shell_word(namespace), shell_word(pod)))
    }

    /// Returns the namespace and the name of the Pod of the instance in the evidence; `None` without
    /// an instance, or if the operator runs outside of Kubernetes.
    #[must_use]
    pub fn instance_pod(&self) -> Option<(&str, &str)> {
        let Some(Value::Text(instance)) = self.evidence.0.get("instance") else { return None };
        InstanceName(instance).pod().filter(|_| !instance.contains(':'))
    }

    /// Returns the namespace of the subject. A controller has none of its own, but its Pod does. It
    /// is empty if there is none.
    #[must_use]
    pub fn place(&self) -> &str {
        let own = self.subject.namespace();
        match self.subject {
            Subject::Controller { .. } => {
                self.instance_pod().map_or(own, |(namespace, _)| namespace)
            }
            _ => own,
        }
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

impl FindingEvent {
    /// Returns in words whether another finding now explains this one.
    #[must_use]
    pub const fn explanation(&self) -> &'static str {
        if self.finding.explained_by.is_some() {
            "explained by another finding"
        } else {
            "no longer explained"
        }
    }
}

impl FindingId {
    /// Returns the ID of `code` on `subject`: the 64-bit FNV-1a hash (draft-eastlake-fnv) of the
    /// code, group, kind, namespace and name, each followed by the byte `0xff`.
    #[must_use]
    pub fn of(code: FindingCode, subject: &Subject) -> Self {
        Self(fnv([code.name()].into_iter().chain(subject.parts())))
    }
}

impl fmt::Display for FindingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Confidence {
    /// `suspected` or `confirmed`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Suspected => "suspected",
            Self::Confirmed => "confirmed",
        }
    }
}

/// The API groups and kinds of the subjects that are no objects of the operator: they have no page of their
/// own, and no labels of an object.
pub const NO_OBJECTS: [(&str, &str); 10] = [
    ("", "Operator"),
    ("", "Controller"),
    ("", "Source"),
    ("", "Permission"),
    ("", "Limit"),
    ("", "Namespace"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("admissionregistration.k8s.io", "Webhook"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"),
];

impl Subject {
    /// The namespace of the subject, empty when it has none.
    #[must_use]
    pub fn namespace(&self) -> &str {
        match self {
            Self::Object { namespace, .. }
            | Self::Operator { namespace, .. }
            | Self::Permission { namespace, .. } => namespace,
            Self::Kind { .. }
            | Self::Definition { .. }
            | Self::Controller { .. }
            | Self::Source { .. }
            | Self::Webhook { .. }
            | Self::Policy { .. }
            | Self::Limit { .. } => "",
        }
    }

    /// The API group, empty when it has none.
    #[must_use]
    pub fn group(&self) -> &str {
        match self {
            Self::Object { group, .. } | Self::Kind { group, .. } => group,
            Self::Definition { .. } => "apiextensions.k8s.io",
            Self::Webhook { .. } | Self::Policy { .. } => "admissionregistration.k8s.io",
            Self::Operator { .. }
            | Self::Controller { .. }
            | Self::Source { .. }
            | Self::Permission { .. }
            | Self::Limit { .. } => "",
        }
    }

    /// The kind of the subject.
    #[must_use]
    pub fn kind(&self) -> &str {
        match self {
            Self::Object { kind, .. } | Self::Kind { kind, .. } => kind,
            Self::Definition { .. } => "CustomResourceDefinition",
            Self::Operator { .. } => "Operator",
            Self::Controller { .. } => "Controller",
            Self::Source { .. } => "Source",
            Self::Permission { .. } => "Permission",
            Self::Webhook { .. } => "Webhook",
            Self::Policy { mutating: true, .. } => "MutatingAdmissionPolicy",
            Self::Policy { mutating: false, .. } => "ValidatingAdmissionPolicy",
            Self::Limit { .. } => "Limit",
        }
    }

    /// Its name; empty for a whole kind.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Object { name, .. }
            | Self::Definition { name }
            | Self::Operator { name, .. }
            | Self::Controller { name }
            | Self::Source { name }
            | Self::Webhook { name }
            | Self::Policy { name, .. }
            | Self::Limit { name }
            | Self::Permission { permission: name, .. } => name,
            Self::Kind { .. } => "",
        }
    }

    /// Returns the subject that stands for all objects of this object's kind; `None` unless this
    /// subject is an object.
    #[must_use]
    pub fn whole_kind(&self) -> Option<Self> {
        match self {
            Self::Object { group, kind, .. } => {
                Some(Self::Kind { group: group.clone(), kind: kind.clone() })
            }
            _ => None,
        }
    }

    fn parts(&self) -> [&str; 4] {
        [self.group(), self.kind(), self.namespace(), self.name()]
    }

    /// Replaces the placeholders in a template by parts of the subject and by `known` values.
    fn fill(&self, template: &str, known: &[(&'static str, Option<String>)]) -> String {
        let resource = with_group(&self.kind().to_lowercase(), self.group());
        let in_namespace = if self.namespace().is_empty() {
            String::new()
        } else {
            format!(" -n {}", shell_word(self.namespace()))
        };

        let values = [
            ("{resource}", shell_word(&resource)),
            ("{in_namespace}", in_namespace),
            ("{kind}", shell_word(self.kind())),
            ("{group}", shell_word(self.group())),
            ("{name}", shell_word(self.name())),
        ];
        // kubectl takes a name such as `--all` for a flag, unless it follows a slash.
        let template = match self.name().starts_with('-') {
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
}

/// Returns the 64-bit FNV-1a hash (draft-eastlake-fnv) of texts, each followed by the byte `0xff`.
pub(crate) fn fnv<'a>(parts: impl IntoIterator<Item = &'a str>) -> u64 {
    let bytes = parts.into_iter().flat_map(|part| part.bytes().chain([0xff]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
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

impl fmt::Display for Subject {
    /// `Widget team-a/web`, `Widget (all)`, `source watch/widgets.example.io`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object { kind, namespace, name, .. } if namespace.is_empty() => {
                write!(f, "{kind} {name}")
            }
            Self::Object { kind, namespace, name, .. } => write!(f, "{kind} {namespace}/{name}"),
            Self::Kind { kind, .. } => write!(f, "{kind} (all)"),
            Self::Definition { name } => write!(f, "definition {name}"),
            Self::Operator { namespace, name } if namespace.is_empty() => {
                write!(f, "operator {name}")
            }
            Self::Operator { namespace, name } => write!(f, "operator {namespace}/{name}"),
            Self::Controller { name } => write!(f, "controller {name}"),
            Self::Source { name } => write!(f, "source {name}"),
            Self::Permission { namespace, permission } if namespace.is_empty() => {
                write!(f, "permission to {permission}")
            }
            Self::Permission { namespace, permission } => {
                write!(f, "permission to {permission} in {namespace}")
            }
            Self::Webhook { name } => write!(f, "webhook {name}"),
            Self::Policy { name, .. } => write!(f, "admission policy {name}"),
            Self::Limit { name } => write!(f, "limit {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_special_characters_are_quoted_in_commands() {
        let command = |name: &str| {
            let (group, kind, namespace) =
                ("example.io".to_owned(), "Widget".to_owned(), "team-a".to_owned());
            let subject = Subject::Object { group, kind, namespace, name: name.to_owned() };
            subject.fill("kubectl get {resource} {name}{in_namespace}", &[])
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
            subject.fill("kubectl get {kind}{in_namespace} {name} -o jsonpath='{.x}'", &[]);

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

    #[test]
    fn a_finding_that_pages_says_when_it_is_critical() {
        for info in FINDINGS {
            let pages = info.alert == Alert::Page;
            assert_eq!(pages, !info.critical_only.is_empty(), "{}", info.name);
            assert!(!pages || info.advice.ends_with(&format!("{}.", info.critical_only)));
        }
    }
}
