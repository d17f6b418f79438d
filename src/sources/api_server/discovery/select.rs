//! Selects the kinds to watch, from the served kinds and the account's permissions. Does no I/O.

use loopwatch_model::observation::{Permission, Role, StatusSchema, Why};

use super::needed::shows_ownership;
use super::options::{KindSelector, Selection};
use super::permissions::Rules;
use crate::sources::api_server::api_resources::{ApiKind, ApiResources};
use crate::sources::api_server::sinks::Definitions;

/// The input of the selection.
pub(crate) struct SelectionInput<'a> {
    pub(crate) api_resources: &'a ApiResources,
    /// The rules in each reviewed namespace.
    pub(crate) rules: &'a [Rules],
    /// The definitions, if the account may read them.
    pub(crate) definitions: &'a Definitions,
    pub(crate) watch: &'a [KindSelector],
    pub(crate) select: Selection,
    /// Whether access reviews have shown what incomplete rules do not list.
    pub(crate) confirmed: bool,
}

/// The result of the selection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SelectedKinds {
    /// Primary kinds, then child kinds, each in the order of group and resource.
    pub(crate) kinds: Vec<KindCandidate>,
    /// Permissions that no operator needs.
    pub(crate) excess: Vec<Permission>,
    /// Whether the primary kinds are all custom resources, because wildcards do not show which ones
    /// the operator owns.
    pub(crate) by_wildcard: bool,
    /// Whether Secrets would be a child kind if loopwatch listed them.
    pub(crate) leaves_out_secrets: bool,
    /// Kinds that the user named and the API server does not serve.
    pub(crate) not_served: Vec<KindSelector>,
}

/// A kind to watch, before its scopes are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KindCandidate {
    pub(crate) kind: ApiKind,
    pub(crate) role: Role,
    pub(crate) why: Why,
    pub(crate) status: StatusSchema,
    /// Whether nothing shows that this operator serves the kind.
    pub(crate) suspected: bool,
}

/// Resources that are never child kinds: operators create many of them, to describe or coordinate
/// other objects.
const NEVER_CHILDREN: &[(&str, &str)] = &[
    ("", "events"),
    ("events.k8s.io", "events"),
    ("coordination.k8s.io", "leases"),
    ("", "componentstatuses"),
];

impl SelectedKinds {
    pub(crate) fn has_primary(&self) -> bool {
        self.kinds.iter().any(|candidate| candidate.role == Role::Primary)
    }

    /// Custom resources that may also be primary kinds if the rules are incomplete: those of the
    /// operator's groups, or all of them if the rules show no primary kind.
    pub(crate) fn unlisted<'a>(&self, input: &'a SelectionInput<'_>) -> Vec<&'a ApiKind> {
        let is_owned = |candidate: &&KindCandidate| shows_ownership(candidate.why);
        let owned: Vec<&ApiKind> =
            self.kinds.iter().filter(is_owned).map(|candidate| &candidate.kind).collect();
        let is_open = |kind: &&ApiKind| {
            !self.has_primary()
                || (owned.iter().any(|other| other.group == kind.group) && !owned.contains(kind))
        };

        with_status(input).filter(is_open).collect()
    }
}

/// Selects the kinds to watch.
pub(crate) fn select_kinds(input: &SelectionInput<'_>) -> SelectedKinds {
    let mut selected = SelectedKinds::default();
    let mut children = Vec::new();
    for kind in input.api_resources.kinds().filter(|kind| kind.watchable) {
        let candidate = |role, why| KindCandidate {
            kind: kind.clone(),
            role,
            why,
            status: status_of(input, kind),
            suspected: false,
        };
        if let Some(why) = why_primary(input, kind) {
            selected.kinds.push(candidate(Role::Primary, why));
        } else if is_child(input, kind) {
            children.push(candidate(Role::Child, Why::CreatePermission));
        }
    }

    if selected.kinds.is_empty() {
        selected.kinds = observed(input);
    }

    if selected.kinds.is_empty() {
        selected.kinds = all_custom(input);
        selected.by_wildcard = !selected.kinds.is_empty();
    }

    selected.kinds.append(&mut children);
    if input.select == Selection::OperatorPermissions {
        selected.excess = input.rules.iter().flat_map(Rules::excess).collect();
        selected.excess.sort();
        selected.excess.dedup();
    }

    let served = |selector: &&KindSelector| {
        input
            .api_resources
            .kinds()
            .any(|k| k.watchable && selector.names(&k.group, &k.kind, &k.resource))
    };

    selected.not_served =
        input.watch.iter().filter(|selector| !served(selector)).cloned().collect();
    selected
}

/// Lists up to `most` custom resources with a status, as suggestions in a message.
pub(crate) fn candidates(input: &SelectionInput<'_>, most: usize) -> Vec<String> {
    with_status(input).map(ToString::to_string).take(most).collect()
}

fn why_primary(input: &SelectionInput<'_>, kind: &ApiKind) -> Option<Why> {
    if !input.watch.is_empty() {
        let named =
            |selector: &KindSelector| selector.names(&kind.group, &kind.kind, &kind.resource);
        return input.watch.iter().any(named).then_some(Why::Configured);
    }

    if input.select == Selection::EveryKindWithStatus {
        return reports_status(input, kind).then_some(Why::HasStatus);
    }

    // Many operators may write the status and finalizers of built-in kinds, such as Ingress.
    if kind.is_built_in() {
        return None;
    }

    let may_write = |subresource: &str| {
        let resource = format!("{}/{subresource}", kind.resource);
        let named = |verb: &str| {
            input.rules.iter().any(|rules| rules.allow_by_name(verb, &kind.group, &resource))
        };

        named("update") || named("patch")
    };

    if may_write("status") {
        Some(Why::StatusPermission)
    } else if may_write("finalizers") {
        Some(Why::FinalizerPermission)
    } else {
        None
    }
}

/// The primary kinds of a read-only account: the custom resources that its rules name.
fn observed(input: &SelectionInput<'_>) -> Vec<KindCandidate> {
    let may = |verb: &str, kind: &ApiKind| {
        input.rules.iter().any(|rules| rules.allow_by_name(verb, &kind.group, &kind.resource))
    };
    let is_observed =
        |kind: &ApiKind| reports_status(input, kind) && may("list", kind) && may("watch", kind);
    if is_read_only(input) { custom(input, is_observed) } else { Vec::new() }
}

/// The primary kinds of an account whose rules have wildcards: all custom resources that it may
/// write, or all that it may read if it writes nothing.
fn all_custom(input: &SelectionInput<'_>) -> Vec<KindCandidate> {
    let may = |verb: &str, kind: &ApiKind, resource: &str| {
        input.rules.iter().any(|rules| rules.allow(verb, &kind.group, resource))
    };
    if is_read_only(input) {
        return custom(input, |kind| {
            reports_status(input, kind)
                && may("list", kind, &kind.resource)
                && may("watch", kind, &kind.resource)
        });
    }

    custom(input, |kind| {
        let resource = if kind.has_status {
            format!("{}/status", kind.resource)
        } else {
            kind.resource.clone()
        };

        may("update", kind, &resource) || may("patch", kind, &resource)
    })
}

/// Custom resources, unless the user named kinds.
fn custom(input: &SelectionInput<'_>, is_wanted: impl Fn(&ApiKind) -> bool) -> Vec<KindCandidate> {
    if !input.watch.is_empty() || input.select != Selection::OperatorPermissions {
        return Vec::new();
    }

    let kinds = input
        .api_resources
        .kinds()
        .filter(|kind| kind.watchable && !kind.is_built_in() && is_wanted(kind));
    let candidate = |kind: &ApiKind| KindCandidate {
        status: status_of(input, kind),
        kind: kind.clone(),
        role: Role::Primary,
        why: Why::HasStatus,
        suspected: false,
    };

    kinds.map(candidate).collect()
}

/// Whether the account is known to write nothing.
fn is_read_only(input: &SelectionInput<'_>) -> bool {
    input.rules.iter().all(|rules| rules.is_read_only() && (input.confirmed || !rules.incomplete))
}

fn is_child(input: &SelectionInput<'_>, kind: &ApiKind) -> bool {
    let ApiKind { group, resource, .. } = kind;
    input.select == Selection::OperatorPermissions
        && !NEVER_CHILDREN.contains(&(group.as_str(), resource.as_str()))
        && input.rules.iter().any(|rules| rules.allow_by_name("create", group, resource))
}

/// The custom resources with a status.
fn with_status<'a>(input: &'a SelectionInput<'_>) -> impl Iterator<Item = &'a ApiKind> {
    input.api_resources.kinds().filter(|kind| reports_status(input, kind))
}

fn reports_status(input: &SelectionInput<'_>, kind: &ApiKind) -> bool {
    !kind.is_built_in()
        && kind.watchable
        && match input.definitions.get(&kind.group, &kind.resource) {
            Some(definition) => definition.status != StatusSchema::None,
            None => kind.has_status,
        }
}

fn status_of(input: &SelectionInput<'_>, kind: &ApiKind) -> StatusSchema {
    match input.definitions.get(&kind.group, &kind.resource) {
        Some(definition) => definition.status,
        None if kind.has_status => StatusSchema::Subresource,
        // Discovery shows whether a built-in kind has a status. A custom resource may have one
        // without the subresource.
        None if kind.is_built_in() => StatusSchema::None,
        None => StatusSchema::Unknown,
    }
}
