//! Finds the object that a user asks about, by its kind and name in the notation of `kubectl`.

use std::path::Path;

use loopwatch_model::observation::ObjectAddress;
use loopwatch_model::snapshot::{Cursor, Explanation, KindSummary};

use super::access::View;
use super::object_name::kind_name;

/// A user's question about one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ObjectQuestion {
    /// The group, unless `kind` names it; empty for any.
    pub(crate) group: String,
    /// `widgets`, `widget` or `Widget`, each also as `widgets.example.io`.
    pub(crate) kind: String,
    /// The namespace; `None` for any.
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LookupError {
    /// No watched kind has this name.
    #[error("loopwatch watches no kind {name:?}{}", hint(.nearest))]
    NoKind { name: String, nearest: Vec<String> },
    /// No kind in a dump or a recording has this name.
    #[error("{file} has no objects of a kind {name:?} (short names need a cluster){}", hint(.nearest))]
    NotInFile { file: String, name: String, nearest: Vec<String> },
    /// Several kinds have this name.
    #[error("{name:?} names several kinds; use one of {}", .candidates.join(", "))]
    SeveralKinds {
        name: String,
        /// The kinds, with their groups.
        candidates: Vec<String>,
    },
    /// No object has this name.
    #[error("there is no {object}{}", hint(.nearest))]
    NoObject { object: String, nearest: Vec<String> },
    /// Several namespaces have such an object.
    #[error("there is a {object} in several namespaces; name one with --namespace: {}", .namespaces.join(", "))]
    SeveralObjects {
        object: String,
        /// The namespaces, at most [`CANDIDATES`].
        namespaces: Vec<String>,
    },
}

/// The lowest Jaro-Winkler similarity at which loopwatch suggests a name.
const SIMILAR: f64 = 0.75;
/// The maximum number of suggestions in a message.
pub(crate) const CANDIDATES: usize = 5;
/// Objects to visit under one lock of the model.
const BATCH: usize = 1024;

/// Explains the object. Finds one with a complete address at once; otherwise the search visits all
/// objects.
///
/// # Errors
/// If there is no such object, or more than one.
pub(crate) async fn explain_object(
    view: &dyn View,
    question: &ObjectQuestion,
) -> Result<Explanation, LookupError> {
    if let Some(explanation) = question.address().and_then(|address| view.explain(&address)) {
        return Ok(explanation);
    }

    let address = find_object(view, question).await?;
    view.explain(&address).ok_or_else(|| LookupError::NoObject {
        // It has just been deleted.
        object: format!("{} {}", kind_name(&address.group, &address.kind), address.name),
        nearest: Vec::new(),
    })
}

/// Finds the object among those of the watched kinds.
///
/// # Errors
/// If there is none, or more than one.
pub(crate) async fn find_object(
    view: &dyn View,
    question: &ObjectQuestion,
) -> Result<ObjectAddress, LookupError> {
    let kinds = view.snapshot().kinds;
    let kind = find_kind(&kinds, question)?;
    let (group, kind) = (kind.group.clone(), kind.kind.clone());
    let mut namespaces = Vec::new();
    let mut nearest = Nearest::new(&question.name);
    let mut next = Some(Cursor::default());

    while let Some(cursor) = next {
        next = view.visit(cursor, BATCH, &mut |object| {
            if object.group != group || object.kind != kind {
                return;
            }

            let here = question
                .namespace
                .as_deref()
                .is_none_or(|n| n == object.namespace || object.namespace.is_empty());
            if here && object.name == question.name {
                namespaces.push(object.namespace.to_owned());
            } else {
                nearest.offer(object.name, || match object.namespace {
                    "" => object.name.to_owned(),
                    namespace => format!("{namespace}/{}", object.name),
                });
            }
        });
        tokio::task::yield_now().await;
    }

    namespaces.sort();
    namespaces.dedup();

    let object = format!("{} {}", kind_name(&group, &kind), question.name);
    match namespaces.len() {
        0 => {
            let within = question
                .namespace
                .as_ref()
                .filter(|namespace| !namespace.is_empty())
                .map(|namespace| format!(" in the namespace {namespace}"))
                .unwrap_or_default();

            Err(LookupError::NoObject { object: object + &within, nearest: nearest.names() })
        }
        1 => Ok(ObjectAddress {
            group,
            kind,
            namespace: namespaces.remove(0),
            name: question.name.clone(),
        }),
        _ => {
            namespaces.truncate(CANDIDATES);
            Err(LookupError::SeveralObjects { object, namespaces })
        }
    }
}

fn find_kind<'a>(
    kinds: &'a [KindSummary],
    question: &ObjectQuestion,
) -> Result<&'a KindSummary, LookupError> {
    let text = question.kind.as_str();
    let (word, group) = match (text.split_once('/'), text.split_once('.')) {
        (Some((group, kind)), _) => (kind, group),
        (None, Some((word, group))) => (word, group),
        (None, None) => (text, question.group.as_str()),
    };
    let in_group = |kind: &&KindSummary| {
        let without_version =
            group.strip_prefix(kind.version.as_str()).and_then(|rest| rest.strip_prefix('.'));
        group.is_empty()
            || group == kind.group
            || without_version == Some(&kind.group)
            || (group == "core" && kind.group.is_empty())
    };

    let found: Vec<&KindSummary> =
        kinds.iter().filter(in_group).filter(|kind| is_named(kind, word)).collect();
    let full = |kind: &KindSummary| kind_name(&kind.group, &kind.kind);
    match found.as_slice() {
        [kind] => Ok(kind),
        [] => {
            let mut nearest = Nearest::new(word);
            kinds.iter().for_each(|kind| nearest.offer(&kind.kind, || full(kind)));
            Err(LookupError::NoKind { name: text.to_owned(), nearest: nearest.names() })
        }
        several => {
            let candidates = several.iter().take(CANDIDATES).map(|kind| full(kind)).collect();
            Err(LookupError::SeveralKinds { name: text.to_owned(), candidates })
        }
    }
}

/// Whether a word names a kind. A dump lacks the plural, so the usual plurals count as well.
fn is_named(kind: &KindSummary, word: &str) -> bool {
    let (word, singular) = (word.to_ascii_lowercase(), kind.kind.to_ascii_lowercase());
    let ies = singular.strip_suffix('y').map(|stem| format!("{stem}ies"));
    word == singular
        || word == kind.resource
        || word.strip_suffix('s') == Some(&singular)
        || word.strip_suffix("es") == Some(&singular)
        || ies.as_deref() == Some(&word)
}

fn hint(nearest: &[String]) -> String {
    match nearest {
        [] => String::new(),
        [one] => format!("; did you mean {one}?"),
        several => format!("; similar ones are {}", several.join(", ")),
    }
}

impl LookupError {
    /// The same error about the objects of a file instead of those of watches.
    pub(crate) fn in_file(self, file: &Path) -> Self {
        match self {
            Self::NoKind { name, nearest } => {
                Self::NotInFile { file: file.display().to_string(), name, nearest }
            }
            other => other,
        }
    }
}

impl ObjectQuestion {
    /// Whether the object is a namespace, of which a dump or a recording has no objects.
    pub(crate) fn is_about_namespace(&self) -> bool {
        let (group, word) = self.kind.split_once('/').unwrap_or((&self.group, &self.kind));
        let is = |name: &&str| name.eq_ignore_ascii_case(word);
        matches!(group, "" | "core" | "v1") && ["namespace", "namespaces", "ns"].iter().any(is)
    }

    /// The address in the question; `None` if the question leaves the group open. `core` stands for
    /// the empty group name.
    fn address(&self) -> Option<ObjectAddress> {
        let group = match self.group.as_str() {
            "" => return None,
            "core" => String::new(),
            group => group.to_owned(),
        };
        let namespace = self.namespace.clone().unwrap_or_default();

        Some(ObjectAddress { group, kind: self.kind.clone(), namespace, name: self.name.clone() })
    }
}

/// The names that are most similar to a word.
#[derive(Debug)]
pub(crate) struct Nearest {
    word: String,
    /// The best first, at most [`CANDIDATES`].
    best: Vec<(f64, String)>,
}

impl Nearest {
    pub(crate) fn new(word: &str) -> Self {
        Self { word: word.to_ascii_lowercase(), best: Vec::new() }
    }

    /// Considers a name; `shown` is its displayed form.
    pub(crate) fn offer(&mut self, name: &str, shown: impl FnOnce() -> String) {
        let name = name.to_ascii_lowercase();
        let similarity = strsim::jaro_winkler(&self.word, &name);
        // Of short names, which have few letters to compare, one slip counts as similar.
        let is_slip = self.word.len() > 2 && strsim::osa_distance(&self.word, &name) == 1;
        let similarity = if is_slip { similarity.max(SIMILAR) } else { similarity };
        let place =
            self.best.iter().position(|(other, _)| *other < similarity).unwrap_or(self.best.len());
        if similarity >= SIMILAR && place < CANDIDATES {
            self.best.insert(place, (similarity, shown()));
            self.best.truncate(CANDIDATES);
        }
    }

    /// `; did you mean x?`, or nothing.
    pub(crate) fn hint(self) -> String {
        hint(&self.names())
    }

    /// The most similar names.
    pub(crate) fn names(self) -> Vec<String> {
        self.best.into_iter().map(|(_, name)| name).collect()
    }
}
