//! The table of objects: a form with filters, one page of sorted objects, and links to the previous
//! and the next page. It needs no script; with one, the table follows the form while the user
//! types.

use form_urlencoded::Serializer;
use loopwatch_model::observation::Role;
use loopwatch_model::snapshot::{KindSummary, ObjectState, Snapshot};
use maud::{Markup, display, html};

use super::link::Link;
use super::markup::{Age, state};
use crate::export::view::{
    Filter, ListPosition, Number, SortKey, SortOrder, SortedPage, reason_in_words,
};

/// One page of objects.
pub(crate) struct ObjectTable<'a> {
    pub(crate) filter: &'a Filter,
    /// The query of the request, which the filter comes from.
    pub(crate) query: &'a str,
    pub(crate) order: SortOrder,
    pub(crate) objects: &'a SortedPage,
}

/// The columns, each with the order after a click on its heading.
const COLUMNS: [(&str, Option<SortKey>); 4] = [
    ("Object", Some(SortKey::Name)),
    ("State", Some(SortKey::State)),
    ("For", Some(SortKey::Age)),
    ("Reason", None),
];

/// Maximum number of kinds to choose from.
const KINDS: usize = 500;

/// The content of the page.
pub(super) fn objects(snapshot: &Snapshot, table: &ObjectTable<'_>) -> Markup {
    html! {
        nav class="trail" aria-label="Breadcrumb" { a href="./" { "Overview" } " › Objects" }
        section aria-labelledby="title" {
            h1 id="title" class="title" { "Objects" }
            (lead(snapshot))
            (form(snapshot, table))
            (rows(snapshot, table))
            (pages(table))
        }
    }
}

/// How many objects there are. The overview counts only those of primary kinds.
fn lead(snapshot: &Snapshot) -> Markup {
    let count = |role: Role| {
        snapshot.kinds.iter().filter(|kind| kind.role == role).flat_map(KindSummary::states).sum()
    };
    let (primary, children): (u64, u64) = (count(Role::Primary), count(Role::Child));
    let (all, kinds) = (primary + children, snapshot.kinds.len() as u64);

    html! {
        p class="lead" {
            (Number(all)) " object" @if all != 1 { "s" }
            " of " (Number(kinds)) " kind" @if kinds != 1 { "s" }
            @if children > 0 {
                ": " (Number(primary)) " whose status the operator writes, and "
                (Number(children)) " of the kinds that it creates for them"
            }
            "."
        }
    }
}

/// The filters. The browser sends them as the query of this page.
fn form(snapshot: &Snapshot, table: &ObjectTable<'_>) -> Markup {
    let Filter { namespace, name, state, role, .. } = table.filter;
    html! {
        form class="search" role="search" action="objects" method="get" {
            label {
                "Search"
                input id="search" name="search" type="search" value=(parameter(table.query, "search"))
                    maxlength="256" placeholder="name or namespace/name (press /)" autocomplete="off"
                    autocapitalize="none" spellcheck="false";
            }
            label {
                "Kind"
                select name="kind" {
                    option value="" { "all" }
                    @for kind in snapshot.kinds.iter().take(KINDS) { (kind_option(kind, table.filter)) }
                }
            }
            label {
                "State"
                select name="state" {
                    option value="" { "all" }
                    @for known in ObjectState::ALL {
                        option selected[*state == Some(*known)] { (known.as_str()) }
                    }
                }
            }
            label {
                "Namespace"
                input name="namespace" value=(namespace.as_deref().unwrap_or_default())
                    placeholder="all" autocomplete="off" autocapitalize="none" spellcheck="false";
            }
            @if let Some(name) = name { input type="hidden" name="name" value=(name); }
            @if let Some(role) = role {
                label {
                    "Role"
                    select name="role" {
                        option value="" { "all" }
                        option value="primary" selected[*role == Role::Primary] { "primary" }
                        option value="child" selected[*role == Role::Child] { "child" }
                    }
                }
            }
            @if table.order != SortOrder::default() {
                input type="hidden" name="sort" value=(display(table.order));
            }
            button type="submit" { "Show" }
        }
    }
}

fn kind_option(known: &KindSummary, filter: &Filter) -> Markup {
    let KindSummary { group, kind, .. } = known;
    let is_chosen = filter.kind.as_ref() == Some(kind)
        && filter.group.as_ref().is_none_or(|wanted| wanted == group);
    html! {
        option value={ (group) "/" (kind) } selected[is_chosen] {
            (kind) @if !group.is_empty() { "." } (group)
        }
    }
}

fn rows(snapshot: &Snapshot, table: &ObjectTable<'_>) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="region" aria-labelledby="title" {
            table class="stacked" {
                thead { tr { @for (title, key) in COLUMNS { (heading(table, title, key)) } } }
                tbody {
                    @for row in &table.objects.rows {
                        tr data-key=(row.uid) {
                            td { (Link(row.into())) }
                            td { (state(row.state.as_str(), row.state.as_str())) }
                            td class="num" { (Age(snapshot.at, row.since)) }
                            td { (reason_in_words(&row.signal, row.reason)) }
                        }
                    }
                }
            }
        }
    }
}

/// The heading of a column: a link that sorts by it, and reverses the order if the table is already
/// sorted by it.
fn heading(table: &ObjectTable<'_>, title: &str, key: Option<SortKey>) -> Markup {
    let Some(key) = key else { return html! { th scope="col" { (title) } } };
    let is_current = table.order.key == key;
    let order = SortOrder { key, reversed: is_current && !table.order.reversed };
    let sorted = is_current.then_some(match table.order.reversed {
        false => ("ascending", "▲"),
        true => ("descending", "▼"),
    });

    let link = target("objects?", table.query, &[("sort", &order.to_string())]);
    html! {
        th scope="col" aria-sort=[sorted.map(|(order, _)| order)] {
            a href=(link) {
                (title)
                @if let Some((_, arrow)) = sorted { " " span aria-hidden="true" { (arrow) } }
            }
        }
    }
}

/// The number of objects shown, and the links to the neighbouring pages, to the first one, and to
/// the JSON.
fn pages(table: &ObjectTable<'_>) -> Markup {
    let SortedPage { rows, has_previous, has_next, matching } = table.objects;
    let objects = if *matching == 1 { "object" } else { "objects" };
    let text = match (rows.len() as u64, *matching) {
        (0, 0) => "No object matches.".to_owned(),
        (0, all) => format!("No further object matches, of {} in all.", Number(all)),
        (count, all) if count == all => format!("{} {objects}.", Number(all)),
        (count, all) => format!("{} of {} {objects}.", Number(count), Number(all)),
    };

    let beside = |parameter, row| {
        target("objects?", table.query, &[(parameter, &ListPosition::of(row).to_string())])
    };
    let json = target("api/v1/objects?", table.query, &[("sort", &table.order.to_string())]);

    html! {
        p class="more" role="status" { (text) }
        nav class="turn" aria-label="Pages" {
            // The objects before a page may have been deleted.
            @if *has_previous || (rows.is_empty() && *matching > 0) {
                a href=(target("objects?", table.query, &[])) { "First page" }
            }
            @if let Some(first) = rows.first().filter(|_| *has_previous) {
                a href=(beside("before", first)) rel="prev" { "Previous page" }
            }
            @if let Some(last) = rows.last().filter(|_| *has_next) {
                a href=(beside("continue", last)) rel="next" { "Next page" }
            }
            a href=(json) { "as JSON" }
        }
    }
}

/// The same query with other parameters. It requests the first page unless these name another one.
fn target(path: &str, query: &str, others: &[(&str, &str)]) -> String {
    let is_kept = |key: &str| {
        !["continue", "before"].contains(&key) && others.iter().all(|(other, _)| *other != key)
    };
    let kept = form_urlencoded::parse(query.as_bytes())
        .filter(|(key, value)| is_kept(key) && !value.is_empty());
    let mut target = Serializer::for_suffix(path.to_owned(), path.len());

    target.extend_pairs(kept).extend_pairs(others);
    target.finish()
}

/// A parameter of the query.
fn parameter(query: &str, name: &str) -> String {
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
