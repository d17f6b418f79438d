use loopwatch_model::snapshot::ObjectRow;

use super::super::render_objects;
use super::*;
use crate::export::sample::sample;
use crate::export::view::{Input, Word, encoded};

fn page_of(filter: &Filter, query: &str, objects: &SortedPage) -> String {
    let order = SortOrder::default();
    render_objects(
        &sample().snapshot,
        &ObjectTable { filter, query, order, objects },
        &Input::default(),
    )
}

fn middle(rows: Vec<ObjectRow>) -> SortedPage {
    SortedPage { rows, has_previous: true, has_next: true, matching: 1_234 }
}

#[test]
fn the_table_has_links_to_the_objects_and_to_the_pages_beside_it() {
    let mut objects = middle(sample().rows);
    for (row, name) in [(0, "first&"), (4, "last")] {
        (objects.rows[row].name, objects.rows[row].since.0) = (name.to_owned(), 7);
    }

    let filter = Filter {
        kind: Some("Database".to_owned()),
        words: vec![Word::new("a&b")],
        ..Filter::default()
    };
    let page = page_of(&filter, "kind=Database&search=a%26b&continue=100&before=&state=", &objects);
    for expected in [
        "<title>Objects · loopwatch</title>",
        "1,716 objects of 3 kinds: 488 whose status the operator writes, and 1,228 of the kinds that it creates for them.",
        "value=\"a&amp;b\"",
        "<option value=\"db.example.io/Database\" selected>Database.db.example.io</option>",
        "<option value=\"/Pod\">Pod</option>",
        "<a href=\"objects?kind=Database&amp;search=a%26b\">First page</a>",
        "<a href=\"objects?kind=Database&amp;search=a%26b&amp;before=terminating%2F7%2Fteam-a%2Ffirst%26%2FDatabase\
         %2Fdb.example.io\" rel=\"prev\">Previous page</a>",
        "%2Flast%2FDatabase%2Fdb.example.io\" rel=\"next\">Next page</a>",
        "<a href=\"api/v1/objects?kind=Database&amp;search=a%26b&amp;sort=state\">as JSON</a>",
        "5 of 1,234 objects.",
        "<th scope=\"col\"><a href=\"objects?kind=Database&amp;search=a%26b&amp;sort=name\">Object</a></th>",
        "<th scope=\"col\" aria-sort=\"ascending\"><a href=\"objects?kind=Database&amp;search=a%26b&amp;sort=-state\">",
    ] {
        assert!(page.contains(expected), "{expected:?} is missing: {page}");
    }

    assert!(!page.contains("id=\"filter\""), "one search field is enough");
    assert!(!page.contains("name=\"sort\""), "the usual order needs no parameter");
}

#[test]
fn the_only_page_has_no_others_beside_it() {
    let page = page_of(&Filter::default(), "", &SortedPage::default());
    assert!(page.contains("No object matches."));

    for link in ["Next page", "Previous page", "First page"] {
        assert!(!page.contains(link), "{link}");
    }

    let one =
        SortedPage { rows: sample().rows[..1].to_vec(), matching: 1, ..SortedPage::default() };

    assert!(page_of(&Filter::default(), "", &one).contains("1 object."));

    let empty = page_of(
        &Filter::default(),
        "before=a",
        &SortedPage { has_next: true, matching: 7, ..SortedPage::default() },
    );

    assert!(
        empty.contains("of 7 in all") && empty.contains("<a href=\"objects?\">First page</a>"),
        "{empty}"
    );

    let filter = Filter::default();
    let order = SortOrder { key: SortKey::Name, reversed: true };
    let table = ObjectTable { filter: &filter, query: "sort=-name", order, objects: &one };
    let page = render_objects(&sample().snapshot, &table, &Input::default());

    assert!(page.contains("<input type=\"hidden\" name=\"sort\" value=\"-name\">"), "{page}");
    assert!(
        page.contains(
            "<th scope=\"col\" aria-sort=\"descending\"><a href=\"objects?sort=name\">Object"
        ),
        "{page}"
    );
}

#[test]
fn hostile_filters_and_objects_are_escaped() {
    const EVIL: &str = "\"><script>alert(1)</script>";

    let mut rows = sample().rows;
    (rows[0].name, rows[0].uid, rows[0].signal) =
        (EVIL.to_owned(), EVIL.to_owned(), EVIL.to_owned());

    let filter = Filter {
        namespace: Some(EVIL.to_owned()),
        name: Some(EVIL.to_owned()),
        ..Filter::default()
    };
    let query = format!("search={}&state=%22%3E&continue=1", encoded(EVIL));
    let page = page_of(&filter, &query, &middle(rows));

    assert!(!page.contains("<script>alert"), "{page}");
}
