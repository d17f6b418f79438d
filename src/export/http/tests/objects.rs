//! Objects and findings, as pages and as JSON.

use super::*;
use crate::export::sample::NoObjects;

#[tokio::test]
async fn objects_can_be_filtered_and_paged() {
    let exporter = exporter(sample(), ExportOptions::default());
    let names = |body: &str| -> (Vec<String>, Option<String>) {
        let value: serde_json::Value = serde_json::from_str(body).expect("JSON");
        let names = value["objects"].as_array().expect("a list").iter();
        let next = value["continue"].as_str().map(str::to_owned);
        (names.map(|object| object["name"].as_str().expect("a name").to_owned()).collect(), next)
    };
    let (_, body) = get(&exporter, "/api/v1/objects?kind=Database&namespace=team-a").await;
    assert_eq!(names(&body), (vec!["orders-legacy".to_owned(), "checkout".to_owned()], None));
    let (_, body) = get(&exporter, "/api/v1/objects?group=&kind=&state=overdue").await;
    assert_eq!(names(&body).0, ["checkout"]);
    let (_, body) = get(&exporter, "/api/v1/objects?group=core").await;
    assert!(names(&body).0.is_empty());
    let (_, body) = get(&exporter, "/api/v1/objects?search=team-a/+ORDERS&kind=db.example.io%2FDatabase").await;
    assert_eq!(names(&body).0, ["orders-legacy"]);
    let (_, body) = get(&exporter, "/api/v1/objects?kind=%2FDatabase").await;
    assert!(names(&body).0.is_empty(), "the core group has no such kind");

    let (mut all, mut next) = (Vec::new(), Some(String::new()));
    while let Some(from) = next {
        let (_, body) = get(&exporter, &format!("/api/v1/objects?limit=2&continue={from}")).await;
        let (page, after) = names(&body);
        assert!(page.len() <= 2);
        all.extend(page);
        next = after;
    }
    assert_eq!(all, ["orders-legacy", "checkout", "nightly-42", "ledger", "good"]);
}

#[tokio::test]
async fn invalid_queries_are_rejected_with_a_reason() {
    let exporter = exporter(sample(), ExportOptions::default());
    for (query, reason) in [
        ("state=broken", "progressing"),
        ("continue=x", "not a valid continue token"),
        ("limit=many", "invalid digit"),
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
        Arc::new(NoObjects { pending: vec![], snapshots: false }),
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
        assert_eq!((status.as_u16(), &value["object"]["name"]), (200, &"orders-legacy".into()), "{query}: {body}");
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
    assert_eq!((&value["version"], &value["severities"][0]), (&1.into(), &"critical".into()), "{body}");
    assert_eq!((&value["states"][2], &value["points"]), (&"overdue".into(), &serde_json::json!([])));
}

#[tokio::test]
async fn each_object_has_a_page_of_its_own() {
    let exporter = exporter(sample(), ExportOptions::default());
    for (query, expected, text) in [
        ("group=db.example.io&kind=Database&namespace=team-a&name=orders-legacy", 200, "<h3>FinalizerStuck</h3>"),
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
async fn a_link_fills_in_the_filter_of_the_overview() {
    let exporter = exporter(sample(), ExportOptions::default());
    let (_, body) = get(&exporter, "/?filter=Overdue+team-a%22%3E%3Cscript%3E&utm_source=mail").await;
    assert!(body.contains("id=\"filter\" type=\"search\" value=\"Overdue team-a&quot;&gt;&lt;script&gt;\""), "{body}");
    for query in ["", "filter=", "filter=a&filter=b", "filter=%ff"] {
        assert_eq!(get(&exporter, &format!("/?{query}")).await.0, 200, "{query}");
    }
}
