//! Resolves the names of kinds that `kubectl` accepts: plural, singular, short name and kind, alone
//! or with the group.

use loopwatch_model::observation::with_group;

use crate::sources::api_server::{ApiKind, ApiResources};

/// Why a name does not select one kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KindNameError {
    /// The API server serves no such kind.
    #[error("the API server serves no kind {name:?}{}", hint(.nearest, .silent))]
    Unknown {
        name: String,
        /// A similar name.
        nearest: Option<String>,
        /// Groups whose API server does not respond.
        silent: Vec<String>,
    },
    /// Several kinds have this name.
    #[error("{name:?} names several kinds; use one of {}", .candidates.join(", "))]
    Ambiguous {
        name: String,
        /// The kinds, with their groups.
        candidates: Vec<String>,
    },
}

/// Lowest Jaro-Winkler similarity at which loopwatch suggests another name.
const SIMILAR: f64 = 0.8;
/// The maximum number of candidates in a message.
const CANDIDATES: usize = 8;

/// Kinds that the garbage collector ignores.
const IGNORED: &[(&str, &str)] = &[("", "events"), ("events.k8s.io", "events")];

/// The name of a kind with its group: `Widget.example.io`, `Pod`.
pub(crate) fn kind_name(kind: &ApiKind) -> String {
    with_group(&kind.kind, &kind.group)
}

/// The kind that a name selects: `widgets`, `widget`, `wd`, `Widget`, each also as
/// `widgets.example.io`, `widgets.v1.example.io` or `example.io/Widget`.
///
/// # Errors
/// If no kind, or more than one, has this name.
pub(crate) fn kind_named<'a>(
    resources: &'a ApiResources,
    text: &str,
) -> Result<&'a ApiKind, KindNameError> {
    let (word, group) = match (text.split_once('/'), text.split_once('.')) {
        (Some((group, kind)), _) => (kind, Some(group)),
        (None, Some((word, group))) => (word, Some(group)),
        (None, None) => (text, None),
    };
    let in_group = |kind: &&ApiKind| group.is_none_or(|group| is_in(kind, group));

    // Subresources and reviews also have kinds, but nobody can delete them.
    let kinds = || {
        resources
            .kinds()
            .filter(|kind| kind.deletable && !kind.resource.contains('/'))
            .filter(in_group)
    };

    let full: Vec<&ApiKind> = kinds().filter(|kind| is_named(kind, word)).collect();
    let short = || {
        kinds().filter(|kind| kind.short_names.iter().any(|short| short.eq_ignore_ascii_case(word)))
    };
    let found = if full.is_empty() { short().collect() } else { full };

    choose(&found).ok_or_else(|| match found.len() {
        0 => unknown(resources, text),
        _ => {
            let candidates = found.iter().take(CANDIDATES).map(|kind| full_name(kind)).collect();
            KindNameError::Ambiguous { name: text.to_owned(), candidates }
        }
    })
}

/// The only kind, or the built-in one: `kubectl` prefers kinds of Kubernetes, and among them the
/// core group.
fn choose<'a>(found: &[&'a ApiKind]) -> Option<&'a ApiKind> {
    let built_in: Vec<&ApiKind> = found.iter().copied().filter(|kind| kind.is_built_in()).collect();
    let core = found.iter().copied().find(|kind| kind.group.is_empty());
    match (found, built_in.as_slice()) {
        ([one], _) | (_, [one]) => Some(one),
        _ => core,
    }
}

fn is_named(kind: &ApiKind, word: &str) -> bool {
    [&kind.kind, &kind.resource, &kind.singular]
        .into_iter()
        .any(|name| name.eq_ignore_ascii_case(word))
}

/// Whether the kind is in this group, which may begin with a version.
fn is_in(kind: &ApiKind, group: &str) -> bool {
    let without_version =
        group.split_once('.').filter(|(version, _)| kind.versions.iter().any(|v| v == version));
    let group = if group == "core" { "" } else { group };
    kind.group == group
        || without_version.is_some_and(|(_, group)| kind.group == group)
        || (kind.group.is_empty() && kind.versions.iter().any(|version| version == group))
}

/// `widgets.example.io`, or `pods`.
fn full_name(kind: &ApiKind) -> String {
    with_group(&kind.resource, &kind.group)
}

fn unknown(resources: &ApiResources, text: &str) -> KindNameError {
    let names = resources.kinds().filter(|kind| is_collected(kind)).flat_map(|kind| {
        let singular = (!kind.singular.is_empty()).then(|| kind.singular.clone());
        [kind.resource.clone(), full_name(kind)].into_iter().chain(singular)
    });
    let word = text.to_ascii_lowercase();
    let similarity = |name: &String| strsim::jaro_winkler(&word, name);
    let nearest = names.max_by(|a, b| similarity(a).total_cmp(&similarity(b)));

    KindNameError::Unknown {
        name: text.to_owned(),
        nearest: nearest.filter(|nearest| similarity(nearest) >= SIMILAR),
        silent: resources.unknown().cloned().collect(),
    }
}

fn hint(nearest: &Option<String>, silent: &[String]) -> String {
    let nearest = nearest.as_ref().map(|nearest| format!("; did you mean {nearest:?}?"));
    let silent = (!silent.is_empty()).then(|| {
        format!("; its API server may be one of those that do not respond: {}", silent.join(", "))
    });

    [nearest, silent].into_iter().flatten().collect()
}

/// Whether the garbage collector follows the owner references of a kind.
pub(super) fn is_collected(kind: &ApiKind) -> bool {
    kind.watchable
        && kind.deletable
        && !IGNORED.contains(&(kind.group.as_str(), kind.resource.as_str()))
}
