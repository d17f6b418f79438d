//! The problem that the user has to solve, in words.

use loopwatch_model::observation::Role;

use super::options::{KindSelector, Selection};
use super::select::{SelectedKinds, SelectionInput, candidates};
use crate::sources::api_server::api_resources::ApiKind;

/// Maximum number of candidate kinds in a message: enough for users to recognise their own.
const CANDIDATES: usize = 8;

/// A kind that the API server does not serve, with the kinds of the same name in other groups. Without
/// a group, it would be a kind of the core group, which people rarely mean.
fn not_served(input: &SelectionInput<'_>, selector: &KindSelector) -> String {
    let is_alike = |kind: &&ApiKind| {
        // Compares the names only.
        kind.watchable && selector.names(&selector.group, &kind.kind, &kind.resource)
    };
    let alike = input.api_resources.kinds().filter(is_alike).take(CANDIDATES);
    let alike: Vec<String> = alike.map(ToString::to_string).collect();

    match (alike.is_empty(), selector.group.is_empty()) {
        (false, _) => format!("{selector} (did you mean {}?)", alike.join(" or ")),
        (true, true) => format!("{selector} of the core group (for others, name GROUP/KIND)"),
        (true, false) => selector.to_string(),
    }
}

/// The problem that the user has to solve: the API server does not serve all named kinds, or there
/// is nothing to watch.
pub(super) fn problem(input: &SelectionInput<'_>, selected: &SelectedKinds) -> Option<String> {
    let known = match candidates(input, CANDIDATES) {
        known if known.is_empty() => "none".to_owned(),
        known => known.join(", "),
    };

    if !selected.not_served.is_empty() {
        let named: Vec<String> =
            selected.not_served.iter().map(|selector| not_served(input, selector)).collect();
        return Some(format!(
            "the API server does not serve {}, which --watch selects; custom resources that it serves: {known}",
            named.join(", ")
        ));
    }

    if selected.kinds.iter().any(|candidate| candidate.role == Role::Primary) {
        return None;
    }

    Some(match input.select {
        Selection::EveryKindWithStatus => {
            "the API server serves no custom resource that has a status".to_owned()
        }
        Selection::OperatorPermissions if input.rules.iter().any(|rules| rules.incomplete) => {
            format!(
                "the API server does not list all permissions of this account; select the operator's kinds with \
             --watch GROUP/KIND. Candidates: {known}"
            )
        }
        Selection::OperatorPermissions if !selected.excess.is_empty() => format!(
            "this account may write to all API groups, but not the status of any custom resource; select the operator's \
             kinds with --watch GROUP/KIND. Candidates: {known}"
        ),
        Selection::OperatorPermissions => format!(
            "this account may not write the status or the finalizers of any custom resource, so it is probably not \
             the account of an operator; select the kinds with --watch GROUP/KIND. Candidates: {known}"
        ),
    })
}
