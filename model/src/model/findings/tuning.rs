//! Tuning: which findings may open about a subject, and with which severity, according to the
//! settings and to the annotations of objects and namespaces.

use crate::finding::{Evidence, FindingCode, Severity, Subject};
use crate::model::findings::detection::Detection;
use crate::model::findings::open_findings::OpenFindings;
use crate::model::world::annotations::Annotated;
use crate::model::world::store::Slot;
use crate::model::world::{World, subjects};
use crate::settings::{ALL_FINDINGS, FindingRule, Selector, Settings};

/// The properties of a subject that rules select by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TuningTarget<'a> {
    /// API group; empty for the core group.
    pub group: &'a str,
    /// Kind.
    pub kind: &'a str,
    /// Plural resource name; empty if it is not known.
    pub resource: &'a str,
    /// Namespace; empty if the subject has none.
    pub namespace: &'a str,
}

/// Whether a finding may open about a subject, and its severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuned {
    /// Whether the finding may open.
    pub enabled: bool,
    /// The severity of the finding.
    pub severity: Severity,
    /// Whether a rule sets the severity. If so, nothing else may raise it.
    pub is_fixed: bool,
}

/// Returns whether the finding may open about the target, and its severity. `annotated` are the
/// annotations of the object and of its namespace.
#[must_use]
pub fn tuned<'a>(
    settings: &Settings,
    code: FindingCode,
    target: &TuningTarget<'_>,
    annotated: impl IntoIterator<Item = &'a Annotated>,
) -> Tuned {
    let severity = code.info().severity;
    let mut tuned = Tuned { enabled: !code.is_lint(), severity, is_fixed: false };
    let own = settings.findings.get(code.name());
    let all = settings.findings.get(ALL_FINDINGS);
    let mut rules =
        own.into_iter().chain(all).flatten().filter(|rule| rule.selects(target)).peekable();

    if rules.peek().is_some() {
        let rules: Vec<&FindingRule> = rules.collect();
        tuned.enabled = rules.iter().find_map(|rule| rule.enabled).unwrap_or(tuned.enabled);

        let severity = rules.iter().find_map(|rule| rule.severity);
        (tuned.severity, tuned.is_fixed) = (severity.unwrap_or(tuned.severity), severity.is_some());
    }

    tuned.enabled &= !annotated.into_iter().any(|annotated| annotated.ignores(code));
    tuned
}

/// Returns whether `text` matches `pattern`, in which `*` stands for any text. Case does not
/// matter.
#[must_use]
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());

    // `star` holds the position after the last `*`, and the end of the text that it stands for. If
    // the rest of the pattern does not match there, the `*` takes one more byte.
    let (mut p, mut t, mut star) = (0, 0, None);
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                p += 1;
                star = Some((p, t));
            }
            Some(expected) if expected.eq_ignore_ascii_case(&text[t]) => {
                p += 1;
                t += 1;
            }
            _ => match &mut star {
                Some((after, end)) => {
                    *end += 1;
                    (p, t) = (*after, *end);
                }
                None => return false,
            },
        }
    }

    pattern[p..].iter().all(|rest| *rest == b'*')
}

impl FindingRule {
    fn selects(&self, target: &TuningTarget<'_>) -> bool {
        self.kinds.selects(|pattern| target.is_kind(pattern))
            && selects_namespace(&self.namespaces, target.namespace)
    }
}

/// Returns whether the selector selects the namespace. Only a selector without `include` selects a
/// subject that has no namespace.
fn selects_namespace(selector: &Selector, namespace: &str) -> bool {
    selector.selects(|pattern| !namespace.is_empty() && matches(pattern, namespace))
}

impl<'a> TuningTarget<'a> {
    /// Returns the properties of a subject.
    #[must_use]
    pub fn of(subject: &'a Subject) -> Self {
        let (group, resource) = match subject {
            // A rule about a kind also concerns its definition.
            Subject::Definition { name } => {
                name.split_once('.').map_or(("", &**name), |(plural, group)| (group, plural))
            }
            _ => (subject.group(), ""),
        };
        Self { group, kind: subject.kind(), resource, namespace: subject.namespace() }
    }

    /// Returns whether `pattern`, such as `group/Kind`, names the kind. As in `--watch`, case does
    /// not matter, and the name may be the plural.
    fn is_kind(&self, pattern: &str) -> bool {
        let (group, name) = match pattern.rsplit_once('/') {
            Some(parts) => parts,
            None if pattern == "*" => ("*", "*"),
            None => ("", pattern),
        };
        let is_named = |named: &str| !named.is_empty() && matches(name, named);

        matches(group, self.group) && (is_named(self.kind) || is_named(self.resource))
    }
}

/// Returns whether a finding may open about a subject, and its severity. Considers the settings and
/// the annotations of the subject's namespace, but not those of the object.
pub(crate) fn of_subject(world: &World, code: FindingCode, subject: &Subject) -> Tuned {
    let mut target = TuningTarget::of(subject);
    if !world.settings.findings.is_empty() && target.resource.is_empty() {
        let mut kinds = world.kinds.iter();
        let kind = kinds.find(|kind| *kind.group == *target.group && *kind.kind == *target.kind);
        target.resource = kind.map_or("", |kind| &kind.resource);
    }

    let namespace = world.namespaces.annotations(target.namespace);
    tuned(&world.settings, code, &target, namespace)
}

/// Returns whether the settings, or the annotations of an object or of its namespace, disable a
/// finding about the object.
pub(crate) fn is_silenced(world: &World, slot: Slot, code: FindingCode, subject: &Subject) -> bool {
    let hot = world.store.get(slot).and_then(|record| record.hot.as_ref());
    let annotated = hot.and_then(|hot| hot.annotated.as_ref());
    annotated.is_some_and(|annotated| annotated.ignores(code))
        || !of_subject(world, code, subject).enabled
}

/// Opens the findings about invalid annotations of namespaces.
pub(crate) fn review_namespaces(world: &mut World, findings: &mut OpenFindings) {
    let now = world.now;
    let invalid =
        world.namespaces.annotated.iter().filter(|(_, annotated)| !annotated.problems.is_empty());
    let invalid: Vec<(Subject, String)> = invalid
        .map(|(name, annotated)| (subjects::namespace(name), annotated.problems.join("; ")))
        .collect();

    for (subject, problem) in invalid {
        let evidence = || Evidence::new().text("problem", problem);
        findings.report(
            world,
            subject,
            Detection::new(now, FindingCode::ConfigInvalid, now, now, evidence),
        );
    }
}

#[cfg(test)]
mod tests;
