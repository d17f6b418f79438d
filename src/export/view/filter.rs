//! Criteria for objects, which the API and the page use.

use loopwatch_model::observation::Role;
use loopwatch_model::snapshot::{ObjectRef, ObjectState};

/// Criteria for objects; `None` matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Role of the kind. The overview counts only objects of primary kinds.
    pub role: Option<Role>,
    /// API group; `Some("")` is the core group.
    pub group: Option<String>,
    pub kind: Option<String>,
    /// Namespace; `Some("")` selects cluster-scoped objects.
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub state: Option<ObjectState>,
    /// Words that must each be part of the object's group, kind, namespace or name.
    pub words: Vec<Word>,
}

/// A word of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    text: String,
    /// The parts of `namespace/name`.
    parts: Option<(String, String)>,
}

impl Filter {
    /// Whether an object matches.
    #[must_use]
    pub fn selects(&self, object: &ObjectRef<'_>) -> bool {
        self.role.is_none_or(|role| role == object.role)
            && self.matches(object.group, object.kind, object.namespace, object.name, object.state)
    }

    /// Whether an object with these properties matches the filter, apart from its role.
    #[must_use]
    pub fn matches(
        &self,
        group: &str,
        kind: &str,
        namespace: &str,
        name: &str,
        state: ObjectState,
    ) -> bool {
        let is = |wanted: &Option<String>, actual: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == actual)
        };
        is(&self.group, group)
            && is(&self.kind, kind)
            && is(&self.namespace, namespace)
            && is(&self.name, name)
            && self.state.is_none_or(|wanted| [state, state.of_listed_object()].contains(&wanted))
            && self.words.iter().all(|word| word.is_in(group, kind, namespace, name))
    }
}

impl Word {
    /// A word. Its case does not matter.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let parts =
            text.split_once('/').map(|(namespace, name)| (namespace.to_owned(), name.to_owned()));
        Self { text: text.to_owned(), parts }
    }

    fn is_in(&self, group: &str, kind: &str, namespace: &str, name: &str) -> bool {
        match &self.parts {
            // As users write objects: `a/w` also finds `team-a/web`.
            Some((end, start)) => ends_with(namespace, end) && starts_with(name, start),
            None => {
                [name, namespace, kind, group].into_iter().any(|text| contains(text, &self.text))
            }
        }
    }
}

fn contains(text: &str, part: &str) -> bool {
    part.is_empty()
        || text
            .as_bytes()
            .windows(part.len())
            .any(|window| window.eq_ignore_ascii_case(part.as_bytes()))
}

fn starts_with(text: &str, part: &str) -> bool {
    text.as_bytes()
        .get(..part.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(part.as_bytes()))
}

fn ends_with(text: &str, part: &str) -> bool {
    let from = text.len().checked_sub(part.len());
    from.and_then(|from| text.as_bytes().get(from..))
        .is_some_and(|end| end.eq_ignore_ascii_case(part.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_a_search_must_be_part_of_a_name() {
        for (search, expected) in [
            ("", true),
            ("web", true),
            ("WEB frontend", true),
            ("widget", true),
            ("zoo.loop", true),
            ("team-a/web", true),
            ("a/w", true),
            ("a/frontend", false),
            ("web mail", false),
            ("/web", true),
            ("team-a/", true),
            ("team/", false),
            ("wéb", false),
        ] {
            let filter = Filter {
                words: search.split_whitespace().map(Word::new).collect(),
                ..Filter::default()
            };
            let found = filter.matches(
                "zoo.loopwatch.dev",
                "Widget",
                "team-a",
                "web-frontend",
                ObjectState::Failed,
            );

            assert_eq!(found, expected, "{search:?}");
        }
    }
}
