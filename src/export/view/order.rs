//! Sorts a list of objects, and divides it into pages. A page starts at the place of an object,
//! even one that has been deleted, so that no page skips or repeats objects when others appear or
//! disappear.

use std::cell::Cell;
use std::cmp::Ordering;
use std::fmt;

use loopwatch_model::snapshot::{Cursor, ObjectRef, ObjectRow, ObjectState};

use super::access::View;
use super::filter::Filter;

/// The criterion of the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SortKey {
    /// The worst state first, and within a state the object that has been in it longest.
    #[default]
    State,
    /// The object that has been in its state longest first.
    Age,
    /// By namespace and name.
    Name,
}

/// The order of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SortOrder {
    pub(crate) key: SortKey,
    pub(crate) reversed: bool,
}

/// The place of an object in an order, which a later request can name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListPosition {
    state: ObjectState,
    since: i64,
    /// Namespace, name, kind and group.
    names: [String; 4],
}

/// Where a page begins or ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum PageEdge {
    /// At the first object.
    #[default]
    Start,
    /// After this place.
    After(ListPosition),
    /// The page ends before this place.
    Before(ListPosition),
}

/// One page of a list.
#[derive(Debug, Default)]
pub(crate) struct SortedPage {
    pub(crate) rows: Vec<ObjectRow>,
    /// Whether there are objects before and after these.
    pub(crate) has_previous: bool,
    pub(crate) has_next: bool,
    /// The number of matching objects.
    pub(crate) matching: u64,
}

/// States, the worst first. Unknown comes last, because it is the state of every object without a
/// status.
const BY_URGENCY: [ObjectState; 9] = [
    ObjectState::Failed,
    ObjectState::Overdue,
    ObjectState::Terminating,
    ObjectState::Progressing,
    ObjectState::Suspended,
    ObjectState::Skipped,
    ObjectState::Converged,
    ObjectState::Finished,
    ObjectState::Unknown,
];

/// Objects visited under one lock of the model.
const BATCH: usize = 1024;

/// The values that an order compares. A value that does not count is equal for all objects.
type Values<'a> = (usize, i64, [&'a str; 4]);

/// Collects one page. Visits all objects in batches, and keeps only the rows of one page and one
/// batch.
pub(crate) async fn sorted_page(
    view: &dyn View,
    filter: &Filter,
    order: SortOrder,
    edge: &PageEdge,
    limit: usize,
) -> SortedPage {
    let (mut rows, matching) = nearest(view, filter, order, edge, limit + 1).await;
    let has_more = rows.len() > limit;
    rows.truncate(limit);

    let (has_previous, has_next) = match edge {
        PageEdge::Start => (false, has_more),
        PageEdge::After(_) => (true, has_more),
        PageEdge::Before(_) => {
            rows.reverse();
            (has_more, true)
        }
    };

    SortedPage { rows, has_previous, has_next, matching }
}

/// Returns the objects nearest to a place, the nearest first, and the number of all matching
/// objects.
async fn nearest(
    view: &dyn View,
    filter: &Filter,
    order: SortOrder,
    edge: &PageEdge,
    room: usize,
) -> (Vec<ObjectRow>, u64) {
    let backwards = matches!(edge, PageEdge::Before(_));
    let compare = |a: &Values<'_>, b: &Values<'_>| {
        let ascending = a.cmp(b);
        if order.reversed == backwards { ascending } else { ascending.reverse() }
    };
    let (mut best, mut next) = (Vec::<ObjectRow>::new(), Some(Cursor::default()));
    let matching = Cell::new(0_u64);

    while let Some(cursor) = next {
        next = {
            let worst = best.last().filter(|_| best.len() >= room).map(|row| order.of_row(row));
            let is_wanted = |object: &ObjectRef<'_>| {
                if !filter.selects(object) {
                    return false;
                }

                matching.set(matching.get() + 1);
                let values = order.of_object(object);
                let is_behind = match edge {
                    PageEdge::Start => true,
                    PageEdge::After(place) | PageEdge::Before(place) => {
                        compare(&values, &order.of_place(place)) == Ordering::Greater
                    }
                };

                is_behind
                    && worst.as_ref().is_none_or(|worst| compare(&values, worst) == Ordering::Less)
            };

            let (found, after) = view.select(cursor, BATCH, BATCH, &is_wanted);
            best.extend(found);
            after
        };

        best.sort_by(|a, b| compare(&order.of_row(a), &order.of_row(b)));
        best.truncate(room);
        tokio::task::yield_now().await;
    }

    (best, matching.get())
}

impl SortOrder {
    /// Parses `state`, `age` or `name`, with `-` before it to reverse the order.
    ///
    /// # Errors
    /// If the text is none of these.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (reversed, key) = text.strip_prefix('-').map_or((false, text), |key| (true, key));
        let key = match key {
            "state" => SortKey::State,
            "age" => SortKey::Age,
            "name" => SortKey::Name,
            _ => {
                return Err(format!(
                    "{text:?} is not a valid order; expected state, age or name, or one of them after -"
                ));
            }
        };

        Ok(Self { key, reversed })
    }

    fn of_object<'a>(self, object: &ObjectRef<'a>) -> Values<'a> {
        let names = [object.namespace, object.name, object.kind, object.group];
        self.values(object.state, object.since.0, names)
    }

    fn of_row(self, row: &ObjectRow) -> Values<'_> {
        self.values(row.state, row.since.0, [&row.namespace, &row.name, &row.kind, &row.group])
    }

    fn of_place(self, place: &ListPosition) -> Values<'_> {
        let [namespace, name, kind, group] = &place.names;
        self.values(place.state, place.since, [namespace, name, kind, group])
    }

    fn values(self, state: ObjectState, since: i64, names: [&str; 4]) -> Values<'_> {
        let urgency =
            BY_URGENCY.iter().position(|known| *known == state).unwrap_or(BY_URGENCY.len());
        match self.key {
            SortKey::State => (urgency, since, names),
            SortKey::Age => (0, since, names),
            SortKey::Name => (0, 0, names),
        }
    }
}

impl fmt::Display for SortOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = match self.key {
            SortKey::State => "state",
            SortKey::Age => "age",
            SortKey::Name => "name",
        };

        write!(f, "{}{key}", if self.reversed { "-" } else { "" })
    }
}

impl ListPosition {
    /// The place of an object.
    pub(crate) fn of(row: &ObjectRow) -> Self {
        let ObjectRow { state, since, namespace, name, kind, group, .. } = row;
        Self {
            state: *state,
            since: since.0,
            names: [namespace, name, kind, group].map(Clone::clone),
        }
    }

    /// Parses the output of [`Display`](fmt::Display).
    pub(crate) fn parse(text: &str) -> Option<Self> {
        // No name can contain a slash.
        let mut parts = text.split('/');
        let state = parts.next()?;
        let state = ObjectState::ALL.iter().copied().find(|known| known.as_str() == state)?;
        let since = parts.next()?.parse().ok()?;
        let mut name = || parts.next().map(str::to_owned);
        let names = [name()?, name()?, name()?, name()?];

        parts.next().is_none().then_some(Self { state, since, names })
    }
}

impl fmt::Display for ListPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.state.as_str(), self.since, self.names.join("/"))
    }
}

#[cfg(test)]
mod tests;
