//! Objects and findings, as pages and as JSON.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use loopwatch_model::finding::{FindingId, Subject};
use loopwatch_model::time::Timestamp;

use super::*;
use crate::export::sample::NoObjects;

#[tokio::test]
async fn objects_can_be_filtered_and_paged() {
    let exporter = exporter(sample(), ExportOptions::default());
    let (_, body) = get(&exporter, "/api/v1/objects?kind=Database&namespace=team-a").await;

    assert_eq!(listed(&body), (vec!["orders-legacy".to_owned(), "checkout".to_owned()], None));

    let (_, body) = get(&exporter, "/api/v1/objects?group=&kind=&state=overdue").await;
    assert_eq!(listed(&body).0, ["checkout"]);

    let (_, body) = get(&exporter, "/api/v1/objects?group=core").await;
    assert!(listed(&body).0.is_empty());

    let (_, body) =
        get(&exporter, "/api/v1/objects?search=team-a/+ORDERS&kind=db.example.io%2FDatabase").await;

    assert_eq!(listed(&body).0, ["orders-legacy"]);

    let (_, body) = get(&exporter, "/api/v1/objects?kind=%2FDatabase").await;
    assert!(listed(&body).0.is_empty(), "the core group has no such kind");

    let (mut all, mut next) = (Vec::new(), Some(String::new()));
    while let Some(from) = next {
        let (_, body) = get(&exporter, &format!("/api/v1/objects?limit=2&continue={from}")).await;
        let (page, after) = listed(&body);

        assert!(page.len() <= 2);

        all.extend(page);
        next = after;
    }

    assert_eq!(all, ["orders-legacy", "checkout", "nightly-42", "ledger", "good"]);
}

/// The names of the objects in an answer, and its continue token.
fn listed(body: &str) -> (Vec<String>, Option<String>) {
    let value: serde_json::Value = serde_json::from_str(body).expect("JSON");
    let names = value["objects"].as_array().expect("a list").iter();
    let next = value["continue"].as_str().map(str::to_owned);
    (names.map(|object| object["name"].as_str().expect("a name").to_owned()).collect(), next)
}

#[tokio::test]
async fn objects_are_sorted_and_paged_in_both_directions() {
    let exporter = exporter(sample(), ExportOptions::default());
    let (_, body) = get(&exporter, "/api/v1/objects?sort=name").await;
    let (mut by_name, _) = listed(&body);
    by_name.reverse();

    let (_, body) = get(&exporter, "/api/v1/objects?sort=-name").await;
    assert_eq!(listed(&body).0, by_name);

    let (status, body) = get(&exporter, "/api/v1/objects?before=failed/1/a/b/c/d").await;
    assert!(status == 400 && body.contains("needs the parameter sort"), "{body}");

    let (_, body) = get(&exporter, "/api/v1/objects?sort=state").await;
    let (all, next) = listed(&body);

    assert_eq!((all[0].as_str(), next), ("nightly-42", None), "failed objects come first: {all:?}");

    let (_, body) = get(&exporter, "/api/v1/objects?sort=state&limit=2").await;
    let (first, next) = listed(&body);
    let next: String = form_urlencoded::byte_serialize(next.expect("more").as_bytes()).collect();
    let (_, body) =
        get(&exporter, &format!("/api/v1/objects?sort=state&limit=2&continue={next}")).await;
    let (second, _) = listed(&body);

    assert_eq!((&first[..], &second[..]), (&all[..2], &all[2..4]));

    let (_, page) = get(&exporter, &format!("/objects?limit=2&continue={next}")).await;
    let links = |page: &str, rel: &str| -> String {
        let at = page.find(&format!("\" rel=\"{rel}\"")).unwrap_or_else(|| panic!("{rel}: {page}"));
        let link = page[..at].rsplit("href=\"").next().expect("a link");
        format!("/{}", link.replace("&amp;", "&"))
    };
    let (status, back) = get(&exporter, &links(&page, "prev")).await;

    assert_eq!(status, 200);
    assert!(
        back.contains(&format!("{}</bdi>", first[0])) && !back.contains("rel=\"prev\""),
        "{back}"
    );

    let (_, end) = get(&exporter, &links(&page, "next")).await;
    assert!(end.contains(&format!("{}</bdi>", all[4])) && !end.contains("rel=\"next\""), "{end}");
}

#[tokio::test]
async fn ten_thousand_findings_are_counted_paged_and_shown_in_part() {
    const ALL: usize = 10_000;

    let mut view = sample();
    let template = view.snapshot.findings[0].clone();
    view.snapshot.findings = (0..ALL)
        .map(|index| {
            let mut finding = template.clone();
            finding.subject = Subject::Object {
                group: "example.io".to_owned(),
                kind: "Widget".to_owned(),
                namespace: "team-a".to_owned(),
                name: format!("<b>{index}\u{202e}{}", "x".repeat(200)),
            };
            finding.id = FindingId::of(finding.code, &finding.subject);

            finding.since = Timestamp(template.since.0 + (index as i64 % 100) * 1000);
            finding
        })
        .collect();

    let exporter = exporter(view, ExportOptions::default());
    let began = Instant::now();
    let (_, page) = get(&exporter, "/").await;

    assert!(page.len() < 512 * 1024 && page.contains("and 9,900 more"), "{}", page.len());
    assert!(page.contains("<b>10,000</b>") && !page.contains("<b>7") && !page.contains('\u{202e}'));

    let (mut ids, mut next, mut pages) = (BTreeSet::new(), String::new(), 0);
    loop {
        let (_, body) =
            get(&exporter, &format!("/api/v1/findings?limit=1000&continue={next}")).await;
        let value: serde_json::Value = serde_json::from_str(&body).expect("JSON");

        assert_eq!(value["total"], ALL);

        ids.extend(
            value["findings"]
                .as_array()
                .expect("a list")
                .iter()
                .map(|finding| finding["id"].to_string()),
        );
        pages += 1;
        match value["continue"].as_str() {
            Some(token) => next = token.to_owned(),
            None => break,
        }
    }

    assert_eq!((ids.len(), pages), (ALL, 10));
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());

    let (_, body) = get(&exporter, "/api/v1/findings").await;
    let value: serde_json::Value = serde_json::from_str(&body).expect("JSON");

    assert_eq!(value["findings"].as_array().map(Vec::len), Some(1000), "the largest page");
    assert!(value["continue"].is_string(), "{}", value["continue"]);

    for (query, reason) in
        [("limit=x", "invalid digit"), ("continue=x", "continue token"), ("colour=red", "colour")]
    {
        let (status, body) = get(&exporter, &format!("/api/v1/findings?{query}")).await;
        assert!(status == 400 && body.contains(reason), "{query}: {body}");
    }
}

#[tokio::test]
async fn every_page_forbids_scripts_from_elsewhere_and_inline() {
    let exporter = exporter(sample(), ExportOptions::default());
    for path in [
        "/",
        "/objects",
        "/object?kind=Database&name=orders-legacy",
        "/object?kind=x&name=y",
        "/objects?state=x",
    ] {
        let mut request =
            Request::get(path).header("host", "localhost").body(Body::empty()).expect("a request");
        request.extensions_mut().insert(Client::new(
            "127.0.0.1:5000".parse().expect("an address"),
            Port::Both,
            CancellationToken::new(),
        ));

        let response =
            router(exporter.clone()).oneshot(request).await.expect("routers do not fail");
        let header = |name: &str| {
            response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
        };
        let policy = header("content-security-policy");

        assert!(
            policy.starts_with("default-src 'none'; ") && policy.contains("script-src 'self'"),
            "{path}: {policy}"
        );
        assert!(
            !policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"),
            "{path}: {policy}"
        );
        assert_eq!(
            (header("x-content-type-options"), header("referrer-policy")),
            ("nosniff", "no-referrer"),
            "{path}"
        );
    }
}

#[tokio::test]
async fn invalid_queries_are_rejected_with_a_reason() {
    let exporter = exporter(sample(), ExportOptions::default());
    for (query, reason) in [
        ("state=broken", "progressing"),
        ("continue=x", "not a valid continue token"),
        ("limit=many", "invalid digit"),
        ("sort=size", "expected state, age or name"),
        ("sort=state&before=x", "not a valid continue token"),
        ("sort=state&before=failed/1/a/b/c/d&continue=failed/1/a/b/c/d", "not both"),
        ("colour=red", "colour"),
        (&format!("search={}", "a".repeat(300)), "longer than 256"),
    ] {
        let (status, body) = get(&exporter, &format!("/objects?{query}")).await;
        assert_eq!(status, 400, "{query}");
        assert!(body.contains("<h1>Invalid request</h1>") && body.contains(reason), "{body}");

        let (status, body) = get(&exporter, &format!("/api/v1/objects?{query}")).await;
        assert_eq!(status, 400, "{query}");

        let value: serde_json::Value = serde_json::from_str(&body).expect("JSON");
        assert!(value["error"].as_str().is_some_and(|error| error.contains(reason)), "{body}");
    }
}

#[tokio::test]
async fn long_questions_are_rejected_before_the_search() {
    // The search for similar names would compare each of them with all objects.
    let exporter = Arc::new(Exporter::with_view(
        Arc::new(NoObjects { pending: vec![], snapshots: false.into() }),
        Arc::new(SelfMetrics::new()),
        ExportOptions::default(),
    ));
    let long = "a".repeat(1_000);
    for query in [format!("kind=Database&name={long}"), format!("kind={long}&name=a")] {
        let (status, body) = get(&exporter, &format!("/api/v1/explain?{query}")).await;
        assert_eq!(status, 400, "{body}");
    }
}

#[tokio::test]
async fn one_object_is_explained() {
    let exporter = exporter(sample(), ExportOptions::default());
    for query in [
        "kind=Database&name=orders-legacy",
        "kind=databases&name=orders-legacy&namespace=team-a&group=db.example.io",
        "kind=databases.db.example.io&name=orders-legacy",
        "kind=db.example.io%2FDatabase&name=orders-legacy",
    ] {
        let (status, body) = get(&exporter, &format!("/api/v1/explain?{query}")).await;
        let value: serde_json::Value = serde_json::from_str(&body).expect("JSON");

        assert_eq!(
            (status.as_u16(), &value["object"]["name"]),
            (200, &"orders-legacy".into()),
            "{query}: {body}"
        );
        assert_eq!(value["findings"][0]["code"], "FinalizerStuck", "{body}");
    }

    for (query, expected, reason) in [
        ("kind=Database", 400, "name"),
        ("name=orders-legacy", 400, "kind"),
        ("kind=Database&name=x&colour=red", 400, "colour"),
        ("kind=Databse&name=orders-legacy", 404, "did you mean Database.db.example.io?"),
        ("kind=Database&name=order-legacy", 404, "did you mean team-a/orders-legacy?"),
        ("kind=Database&name=orders-legacy&namespace=team-b", 404, "in the namespace team-b"),
        ("kind=Database&group=other.io&name=orders-legacy", 404, "watches no kind"),
    ] {
        let (status, body) = get(&exporter, &format!("/api/v1/explain?{query}")).await;
        assert_eq!(status, expected, "{query}: {body}");
        assert!(body.contains(reason), "{query}: {body}");
    }
}

#[tokio::test]
async fn the_timeline_is_available_as_json() {
    let (_, body) = get(&exporter(sample(), ExportOptions::default()), "/api/v1/timeline").await;
    let value: serde_json::Value = serde_json::from_str(&body).expect("JSON");

    assert_eq!(
        (&value["version"], &value["severities"][0]),
        (&1.into(), &"critical".into()),
        "{body}"
    );
    assert_eq!(
        (&value["states"][2], &value["points"]),
        (&"overdue".into(), &serde_json::json!([]))
    );
}

#[tokio::test]
async fn each_object_has_a_page_of_its_own() {
    let exporter = exporter(sample(), ExportOptions::default());
    for (query, expected, text) in [
        (
            "group=db.example.io&kind=Database&namespace=team-a&name=orders-legacy",
            200,
            "<h3>FinalizerStuck</h3>",
        ),
        ("kind=databases&name=orders-legacy", 200, "<h3>FinalizerStuck</h3>"),
        ("group=db.example.io&kind=Database&namespace=team-a&name=gone", 404, "<h1>Not found</h1>"),
        ("group=core&kind=%3Cb%3E&namespace=team-a&name=gone", 404, "&lt;b&gt;"),
        ("kind=Database", 400, "necessary"),
    ] {
        let (status, body) = get(&exporter, &format!("/object?{query}")).await;
        assert_eq!(status, expected, "{query}");
        assert!(body.contains(text) && body.ends_with("</html>\n"), "{query}: {body}");
    }
}

#[tokio::test]
async fn a_finding_that_outlasts_its_object_is_listed_instead_of_a_page_of_the_object() {
    let mut snapshot = sample();
    snapshot.snapshot.findings[0].subject = Subject::Object {
        group: String::new(),
        kind: "ConfigMap".to_owned(),
        namespace: "team-a".to_owned(),
        name: "collected".to_owned(),
    };
    let exporter = exporter(snapshot, ExportOptions::default());

    let query = "group=core&kind=ConfigMap&namespace=team-a&name=";
    assert_eq!(get(&exporter, &format!("/object?{query}collected")).await.0, 303);
    assert_eq!(get(&exporter, &format!("/object?{query}other")).await.0, 404);
}

#[tokio::test]
async fn a_link_fills_in_the_filter_of_the_overview() {
    let exporter = exporter(sample(), ExportOptions::default());
    let (_, body) =
        get(&exporter, "/?filter=Overdue+team-a%22%3E%3Cscript%3E&utm_source=mail").await;

    assert!(
        body.contains(
            "id=\"filter\" name=\"search\" type=\"search\" value=\"Overdue team-a&quot;&gt;&lt;script&gt;\""
        ),
        "{body}"
    );

    for query in ["", "filter=", "filter=a&filter=b", "filter=%ff"] {
        assert_eq!(get(&exporter, &format!("/?{query}")).await.0, 200, "{query}");
    }
}

#[tokio::test]
async fn runbooks_are_pages() {
    let exporter = exporter(sample(), ExportOptions::default());
    let (status, list) = get(&exporter, "/runbooks").await;
    assert!(status == 200 && list.contains("href=\"runbooks/Overdue\""), "{list}");

    let (status, page) = get(&exporter, "/runbooks/Overdue").await;
    assert!(status == 200 && page.contains("<h1>Overdue</h1>"), "{page}");

    for name in ["NoSuchRunbook", "Overdue.md", "..%2FREADME"] {
        assert_eq!(get(&exporter, &format!("/runbooks/{name}")).await.0, 404, "{name}");
    }

    let (_, metrics) = get(&exporter, "/metrics").await;
    assert!(
        metrics.contains("path=\"/runbooks/{name}\"") && !metrics.contains("NoSuchRunbook"),
        "{metrics}"
    );
}
