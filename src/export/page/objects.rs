//! The table of objects: a form with filters, one page of objects, and a link to the next page. It needs no script; with
//! one, the table follows the form while the user types.

use std::fmt::Write as _;

use form_urlencoded::Serializer;
use loopwatch_model::snapshot::{Cursor, KindSummary, ObjectRow, ObjectState, Snapshot};

use super::link::{Link, encoded};
use super::{Age, Escaped, Number, tables};
use crate::export::view::Filter;

/// One page of objects.
pub(crate) struct ObjectTable<'a> {
    /// The filter.
    pub(crate) filter: &'a Filter,
    /// The query of the request, which contains it.
    pub(crate) query: &'a str,
    /// The objects.
    pub(crate) rows: &'a [ObjectRow],
    /// Where the next page begins; `None` after the last one.
    pub(crate) next: Option<Cursor>,
}

/// Maximum number of kinds to choose from.
const KINDS: usize = 500;

/// Writes the page.
pub(super) fn write(page: &mut String, snapshot: &Snapshot, table: &ObjectTable<'_>) {
    let objects: u64 = snapshot.kinds.iter().flat_map(KindSummary::states).sum();
    let _ = write!(
        page,
        "<nav class=\"trail\" aria-label=\"Breadcrumb\"><a href=\"./\">Overview</a> › Objects</nav>\
         <section aria-labelledby=\"title\"><h1 id=\"title\" class=\"title\">Objects</h1>\
         <p class=\"lead\">{} object{} of {} kind{}.</p>",
        Number(objects),
        if objects == 1 { "" } else { "s" },
        Number(snapshot.kinds.len() as u64),
        if snapshot.kinds.len() == 1 { "" } else { "s" },
    );
    form(page, snapshot, table);
    rows(page, snapshot, table.rows);
    turn(page, table);
    page.push_str("</section>");
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
        let is_chosen = kind.as_ref() == Some(&known.kind) && group.as_ref().is_none_or(|group| *group == known.group);
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
    page.push_str("</select></label><label>State<select name=\"state\"><option value=\"\">all</option>");
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
    page.push_str("<button type=\"submit\">Show</button></form>");
}

fn rows(page: &mut String, snapshot: &Snapshot, rows: &[ObjectRow]) {
    page.push_str(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"title\"><table><thead><tr>\
         <th scope=\"col\">Object</th><th scope=\"col\">State</th><th scope=\"col\">For</th><th scope=\"col\">Reason</th></tr>\
         </thead><tbody>",
    );
    for row in rows {
        let state = row.state.as_str();
        let _ = write!(
            page,
            "<tr data-key=\"{}\"><td>{}</td><td><span class=\"state {state}\">{state}</span></td><td class=\"num\">{}</td>\
             <td>{}</td></tr>",
            Escaped(&row.uid),
            Link(tables::of_row(row)),
            Age(snapshot.at, row.since),
            Escaped(if row.signal.is_empty() { row.reason } else { &row.signal }),
        );
    }
    page.push_str("</tbody></table></div>");
}

/// What the table shows, and the links to the first page, to the next one, and to the JSON.
fn turn(page: &mut String, table: &ObjectTable<'_>) {
    let text = match (table.rows.len() as u64, table.next) {
        (0, Some(_)) => "No match among the objects that this page searched; there are more.".to_owned(),
        (0, None) => "No further object matches.".to_owned(),
        (1, None) => "1 object; the list ends here.".to_owned(),
        (count, None) => format!("{} objects; the list ends here.", Number(count)),
        (count, Some(_)) => {
            format!("{} object{}; there may be more.", Number(count), if count == 1 { "" } else { "s" })
        }
    };
    let _ = write!(page, "<p class=\"more\" role=\"status\">{text}</p><nav class=\"turn\" aria-label=\"Pages\">");
    if !parameter(table.query, "continue").is_empty() {
        let _ = write!(page, "<a href=\"{}\">First page</a>", Escaped(&target("objects?", table.query, None)));
    }
    if table.next.is_some() {
        let target = target("objects?", table.query, table.next);
        let _ = write!(page, "<a href=\"{}\" rel=\"next\">Next page</a>", Escaped(&target));
    }
    let json = target("api/v1/objects?", table.query, None);
    let _ = write!(page, "<a href=\"{}\">as JSON</a></nav>", Escaped(&json));
}

/// The same query for another page.
fn target(path: &str, query: &str, from: Option<Cursor>) -> String {
    let kept = form_urlencoded::parse(query.as_bytes()).filter(|(key, value)| key != "continue" && !value.is_empty());
    let mut target = Serializer::for_suffix(path.to_owned(), path.len());
    target.extend_pairs(kept);
    if let Some(Cursor(from)) = from {
        target.append_pair("continue", &from.to_string());
    }
    target.finish()
}

/// A parameter of the query.
fn parameter(query: &str, name: &str) -> String {
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned()).unwrap_or_default()
}

/// The path of the table of a kind's objects.
pub(super) fn of_kind(group: &str, kind: &str) -> String {
    format!("objects?kind={}", encoded(&format!("{group}/{kind}")))
}

#[cfg(test)]
mod tests;
