//! The annotations of objects and namespaces that loopwatch reads.
//!
//! An annotation can silence findings, set a deadline, and mark objects as critical. A finding that
//! may page then pages about one object alone. The administrator of loopwatch decides which findings
//! may page, so only the settings change that.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::{FINDINGS, FindingCode};
use crate::settings::ALL_FINDINGS;
use crate::time::Span;

/// The annotation of an object or a namespace that names the findings to ignore: `all`, or a
/// comma-separated list.
pub const IGNORE: &str = "loopwatch.dev/ignore";

/// The annotation of an object or a namespace that sets the deadline of the object, or of all
/// objects in the namespace.
pub const DEADLINE: &str = "loopwatch.dev/deadline";

/// The annotation of an object or a namespace that marks the object, or all objects in the namespace,
/// as critical.
pub const CRITICAL: &str = "loopwatch.dev/critical";

/// All of them.
pub const ALL: [&str; 3] = [IGNORE, DEADLINE, CRITICAL];

/// The maximum length of a value that a problem quotes, in bytes.
const MAX_QUOTED: usize = 64;

/// The annotations of one object or namespace, read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Annotated {
    ignored: Ignored,
    deadline: Option<Span>,
    /// Whether findings that may page do so about one object alone.
    pub(crate) is_critical: bool,
    /// The invalid annotations, each as a sentence for people.
    pub problems: Vec<String>,
}

/// The findings to ignore.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ignored {
    All,
    Some(BTreeSet<FindingCode>),
}

/// Returns the deadline that annotations set. The annotation of the object overrides that of its
/// namespace.
#[must_use]
pub fn deadline(object: Option<&Annotated>, namespace: Option<&Annotated>) -> Option<Span> {
    [object, namespace].into_iter().flatten().find_map(|annotated| annotated.deadline)
}

impl Annotated {
    /// Returns the memory that the annotations take, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let ignored = match &self.ignored {
            Ignored::All => 0,
            Ignored::Some(codes) => codes.len() * size_of::<FindingCode>(),
        };
        let problems = self.problems.iter().map(|problem| problem.len() + size_of::<String>());

        size_of::<Self>() + ignored + problems.sum::<usize>()
    }

    /// Reads the annotations that tune findings; returns `None` if there are none.
    #[must_use]
    pub fn read(annotations: &BTreeMap<String, String>) -> Option<Box<Self>> {
        let [ignore, deadline, critical] = ALL.map(|name| annotations.get(name));
        if [ignore, deadline, critical].iter().all(Option::is_none) {
            return None;
        }

        let mut read = Self::default();
        for name in ignore
            .into_iter()
            .flat_map(|names| names.split(','))
            .map(str::trim)
            .filter(|name| !name.is_empty())
        {
            read.ignore(name);
        }

        if let Some(text) = deadline {
            match Span::parse(text) {
                Ok(span) if span > Span::ZERO => read.deadline = Some(span),
                Ok(_) => {
                    read.problems.push(format!("{DEADLINE}: a deadline must be longer than zero"))
                }
                Err(_) => read
                    .problems
                    .push(format!("{DEADLINE}: {:?} is not a duration such as 30m", quoted(text))),
            }
        }

        match critical.map(String::as_str) {
            None | Some("false") => {}
            Some("true") => read.is_critical = true,
            Some(text) => read
                .problems
                .push(format!("{CRITICAL}: {:?} is neither true nor false", quoted(text))),
        }

        Some(Box::new(read))
    }

    fn ignore(&mut self, name: &str) {
        if name.eq_ignore_ascii_case(ALL_FINDINGS) {
            self.ignored = Ignored::All;
            return;
        }
        match (FINDINGS.iter().find(|info| info.name.eq_ignore_ascii_case(name)), &mut self.ignored)
        {
            (Some(info), Ignored::Some(codes)) => _ = codes.insert(info.code),
            (Some(_), Ignored::All) => {}
            (None, _) => {
                self.problems.push(format!("{IGNORE}: there is no finding {:?}", quoted(name)))
            }
        }
    }

    /// Returns whether findings of this code are ignored.
    #[must_use]
    pub fn ignores(&self, code: FindingCode) -> bool {
        match &self.ignored {
            Ignored::All => true,
            Ignored::Some(codes) => codes.contains(&code),
        }
    }
}

fn quoted(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_QUOTED)]
}

impl Default for Ignored {
    fn default() -> Self {
        Self::Some(BTreeSet::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotated(name: &str, value: &str) -> Annotated {
        *Annotated::read(&BTreeMap::from([(name.to_owned(), value.to_owned())]))
            .expect("an annotation of loopwatch")
    }

    #[test]
    fn other_annotations_mean_nothing() {
        assert_eq!(
            Annotated::read(&BTreeMap::from([("example.io/paused".to_owned(), "true".to_owned())])),
            None
        );
    }

    #[test]
    fn the_deadline_of_an_object_overrides_that_of_its_namespace() {
        let (object, namespace) = (annotated(DEADLINE, "1h30m"), annotated(DEADLINE, "5m"));
        assert_eq!(deadline(Some(&object), Some(&namespace)), Some(Span::mins(90)));
        assert_eq!(deadline(None, Some(&namespace)), Some(Span::mins(5)));
        assert_eq!(deadline(Some(&annotated(IGNORE, "all")), None), None);
    }

    #[test]
    fn invalid_annotations_are_problems_and_change_nothing() {
        for (name, value, problem) in [
            (IGNORE, "Overdeu", "there is no finding \"Overdeu\""),
            (DEADLINE, "soon", "\"soon\" is not a duration"),
            (DEADLINE, "-5m", "is not a duration"),
            (DEADLINE, "0s", "longer than zero"),
            (CRITICAL, "yes", "\"yes\" is neither true nor false"),
        ] {
            let read = annotated(name, value);
            assert!(
                read.problems.len() == 1 && read.problems[0].contains(problem),
                "{value}: {:?}",
                read.problems
            );
            assert!(!read.ignores(FindingCode::Overdue) && read.deadline.is_none(), "{value}");
            assert!(!read.is_critical, "{value}");
        }

        let long = annotated(DEADLINE, &"ä".repeat(10_000));
        assert!(long.problems[0].len() < 200, "{}", long.problems[0].len());
    }
}
