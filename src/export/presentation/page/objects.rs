//! The table of objects: a form with filters, one page of sorted objects, and links to the pages
//! beside it. It needs no script; with one, the table follows the form while the user types.

use std::fmt::Write as _;

use form_urlencoded::Serializer;
use loopwatch_model::observation::Role;
use loopwatch_model::snapshot::{KindSummary, ObjectState, Snapshot};

use super::link::Link;
use super::{Age, Escaped, Number};
use crate::export::view::{Filter, ListPosition, SortKey, SortOrder, SortedPage, reason_in_words};

/// One page of objects.
pub(crate) struct ObjectTable<'a> {
    /// The filter.
    pub(crate) filter: &'a Filter,
    /// The query of the request, which contains it.
    pub(crate) query: &'a str,
    /// The order.
    pub(crate) order: SortOrder,
    /// The objects.
    pub(crate) objects: &'a SortedPage,
}

/// The columns, each with the order that a click on its heading gives.
const COLUMNS: [(&str, Option<SortKey>); 4] = [
    ("Object", Some(SortKey::Name)),
    ("State", Some(SortKey::State)),
    ("For", Some(SortKey::Age)),
    ("Reason", None),
];

/// Maximum number of kinds to choose from.
const KINDS: usize = 500;

/// Writes the page.
pub(super) fn write(page: &mut String, snapshot: &Snapshot, table: &ObjectTable<'_>) {
    page.push_str(
        "<nav class=\"trail\" aria-label=\"Breadcrumb\"><a href=\"./\">Overview</a> › Objects</nav>\
         <section aria-labelledby=\"title\"><h1 id=\"title\" class=\"title\">Objects</h1>",
    );
    lead(page, snapshot);
    form(page, snapshot, table);
    rows(page, snapshot, table);
    turn(page, table);
    page.push_str("</section>");
}

/// How many objects there are. The overview counts only those of primary kinds.
fn lead(page: &mut String, snapshot: &Snapshot) {
    let count = |role: Role| {
        snapshot.kinds.iter().filter(|kind| kind.role == role).flat_map(KindSummary::states).sum()
    };
    let (primary, children): (u64, u64) = (count(Role::Primary), count(Role::Child));
    let objects = primary + children;
    let _ = write!(
        page,
        "<p class=\"lead\">{} object{} of {} kind{}",
        Number(objects),
        if objects == 1 { "" } else { "s" },
        Number(snapshot.kinds.len() as u64),
        if snapshot.kinds.len() == 1 { "" } else { "s" },
    );

    if children > 0 {
        let _ = write!(
            page,
            ": {} whose status the operator writes, and {} of the kinds that it creates for them",
            Number(primary),
            Number(children)
        );
    }

    page.push_str(".</p>");
}

/// The filters. The browser sends them as the query of this page.
fn form(page: &mut String, snapshot: &Snapshot, table: &ObjectTable<'_>) {
    let Filter { group, kind, namespace, name, state, .. } = table.filter;
    let _ = write!(
        page,
        "<form class=\"search\" role=\"search\" action=\"objects\" method=\"get\">\
         <label>Search<input id=\"search\" name=\"search\" type=\"search\" value=\"{}\" maxlength=\"256\" placeholder=\"name or \
         namespace/name (press /)\" autocomplete=\"off\" autocapitalize=\"none\" spellcheck=\"false\"></label>\
         <label>Kind<select name=\"kind\"><option value=\"\">all</option>",
        Escaped(&parameter(table.query, "search"))
    );

    for known in snapshot.kinds.iter().take(KINDS) {
        let is_chosen = kind.as_ref() == Some(&known.kind)
            && group.as_ref().is_none_or(|group| *group == known.group);
        let _ = write!(
            page,
            "<option value=\"{}\"{}>{}{}{}</option>",
            Escaped(&format!("{}/{}", known.group, known.kind)),
            if is_chosen { " selected" } else { "" },
            Escaped(&known.kind),
            if known.group.is_empty() { "" } else { "." },
            Escaped(&known.group),
        );
    }

    page.push_str(
        "</select></label><label>State<select name=\"state\"><option value=\"\">all</option>",
    );
    for known in ObjectState::ALL {
        let chosen = if *state == Some(*known) { " selected" } else { "" };
        let _ = write!(page, "<option{chosen}>{}</option>", known.as_str());
    }

    let _ = write!(
        page,
        "</select></label><label>Namespace<input name=\"namespace\" value=\"{}\" placeholder=\"all\" autocomplete=\"off\" \
         autocapitalize=\"none\" spellcheck=\"false\"></label>",
        Escaped(namespace.as_deref().unwrap_or_default())
    );

    if let Some(name) = name {
        let _ = write!(page, "<input type=\"hidden\" name=\"name\" value=\"{}\">", Escaped(name));
    }

    if table.order != SortOrder::default() {
        let _ = write!(page, "<input type=\"hidden\" name=\"sort\" value=\"{}\">", table.order);
    }

    page.push_str("<button type=\"submit\">Show</button></form>");
}

fn rows(page: &mut String, snapshot: &Snapshot, table: &ObjectTable<'_>) {
    page.push_str(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"title\"><table class=\"stacked\"><thead><tr>",
    );
    for (title, key) in COLUMNS {
        heading(page, table, title, key);
    }

    page.push_str("</tr></thead><tbody>");
    for row in &table.objects.rows {
        let state = row.state.as_str();
        let _ = write!(
            page,
            "<tr data-key=\"{}\"><td>{}</td><td><span class=\"state {state}\">{state}</span></td><td class=\"num\">{}</td>\
             <td>{}</td></tr>",
            Escaped(&row.uid),
            Link(row.into()),
            Age(snapshot.at, row.since),
            Escaped(reason_in_words(&row.signal, row.reason)),
        );
    }

    page.push_str("</tbody></table></div>");
}

/// The heading of a column: a link that sorts by it, and reverses the order if the table is already
/// sorted by it.
fn heading(page: &mut String, table: &ObjectTable<'_>, title: &str, key: Option<SortKey>) {
    let Some(key) = key else {
        let _ = write!(page, "<th scope=\"col\">{title}</th>");
        return;
    };
    let is_current = table.order.key == key;
    let order = SortOrder { key, reversed: is_current && !table.order.reversed };
    let (sorted, arrow) = match (is_current, table.order.reversed) {
        (false, _) => ("", ""),
        (true, false) => (" aria-sort=\"ascending\"", " <span aria-hidden=\"true\">▲</span>"),
        (true, true) => (" aria-sort=\"descending\"", " <span aria-hidden=\"true\">▼</span>"),
    };

    let link = target("objects?", table.query, &[("sort", &order.to_string())]);
    let _ = write!(
        page,
        "<th scope=\"col\"{sorted}><a href=\"{}\">{title}{arrow}</a></th>",
        Escaped(&link)
    );
}

/// What the table shows, and the links to the pages beside it, to the first one, and to the JSON.
fn turn(page: &mut String, table: &ObjectTable<'_>) {
    let SortedPage { rows, has_previous, has_next, matching } = table.objects;
    let objects = if *matching == 1 { "object" } else { "objects" };
    let text = match (rows.len() as u64, *matching) {
        (0, 0) => "No object matches.".to_owned(),
        (0, all) => format!("No further object matches, of {} in all.", Number(all)),
        (count, all) if count == all => format!("{} {objects}.", Number(all)),
        (count, all) => format!("{} of {} {objects}.", Number(count), Number(all)),
    };

    let _ = write!(
        page,
        "<p class=\"more\" role=\"status\">{text}</p><nav class=\"turn\" aria-label=\"Pages\">"
    );
    let mut link = |name: &str, rel: &str, place: &[(&str, &str)]| {
        let target = target("objects?", table.query, place);
        let _ = write!(page, "<a href=\"{}\"{rel}>{name}</a>", Escaped(&target));
    };

    // The objects before a place may be gone.
    if *has_previous || (rows.is_empty() && *matching > 0) {
        link("First page", "", &[]);
    }

    if let Some(first) = rows.first().filter(|_| *has_previous) {
        link("Previous page", " rel=\"prev\"", &[("before", &ListPosition::of(first).to_string())]);
    }

    if let Some(last) = rows.last().filter(|_| *has_next) {
        link("Next page", " rel=\"next\"", &[("continue", &ListPosition::of(last).to_string())]);
    }

    let json = target("api/v1/objects?", table.query, &[("sort", &table.order.to_string())]);
    let _ = write!(page, "<a href=\"{}\">as JSON</a></nav>", Escaped(&json));
}

/// The same query with other parameters, for the first page if these do not name another one.
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
