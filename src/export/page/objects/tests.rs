use super::super::render_objects;
use super::*;
use crate::export::sample::sample;
use crate::export::view::Word;

fn page_of(filter: &Filter, query: &str, rows: &[ObjectRow], next: Option<Cursor>) -> String {
    render_objects(&sample().snapshot, &ObjectTable { filter, query, rows, next })
}

#[test]
fn the_table_has_links_to_the_objects_and_to_the_next_page() {
    let rows = sample().rows;
    let filter = Filter { kind: Some("Database".to_owned()), words: vec![Word::new("a&b")], ..Filter::default() };
    let page = page_of(&filter, "kind=Database&search=a%26b&continue=100&state=", &rows, Some(Cursor(200)));
    for expected in [
        "<title>Objects · loopwatch</title>",
        "1,716 objects of 3 kinds.",
        "value=\"a&amp;b\"",
        "<option value=\"db.example.io/Database\" selected>Database.db.example.io</option>",
        "<option value=\"/Pod\">Pod</option>",
        "name=orders-legacy\"",
        "<a href=\"objects?kind=Database&amp;search=a%26b\">First page</a>",
        "<a href=\"objects?kind=Database&amp;search=a%26b&amp;continue=200\" rel=\"next\">Next page</a>",
        "<a href=\"api/v1/objects?kind=Database&amp;search=a%26b\">as JSON</a>",
        "5 objects; there may be more.",
    ] {
        assert!(page.contains(expected), "{expected:?} is missing: {page}");
    }
    assert!(!page.contains("id=\"filter\""), "one search field is enough");
}

#[test]
fn the_last_page_has_no_next_one() {
    let page = page_of(&Filter::default(), "", &[], None);
    assert!(page.contains("No further object matches.") && !page.contains("Next page") && !page.contains("First page"));
    let page = page_of(&Filter::default(), "", &[], Some(Cursor(7)));
    assert!(page.contains("No match among the objects that this page searched") && page.contains("Next page"));
}

#[test]
fn hostile_filters_and_objects_are_escaped() {
    const EVIL: &str = "\"><script>alert(1)</script>";
    let mut rows = sample().rows;
    (rows[0].name, rows[0].uid, rows[0].signal) = (EVIL.to_owned(), EVIL.to_owned(), EVIL.to_owned());
    let filter = Filter { namespace: Some(EVIL.to_owned()), name: Some(EVIL.to_owned()), ..Filter::default() };
    let query = format!("search={}&state=%22%3E&continue=1", encoded(EVIL));
    let page = page_of(&filter, &query, &rows, Some(Cursor(1)));
    assert!(!page.contains("<script>alert"), "{page}");
}
