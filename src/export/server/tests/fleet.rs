//! Many operators on one port.

use super::*;
use crate::export::metrics::TextFormat;
use crate::export::server::Fleet;
use crate::export::server::routes::ROUTES;
use crate::export::view::SkippedOperator;

const OPERATOR: &str = "ops/widget-operator";

/// loopwatch with one operator, which has the sample's objects.
fn fleet() -> Arc<Exporter> {
    let all = exporter(empty(), ExportOptions::default());
    let fleet = Arc::new(Fleet::default());
    all.set_fleet(fleet.clone());
    let one = all.for_operator(Arc::new(sample()), OPERATOR);
    fleet.add(OPERATOR, Arc::new(one));
    all
}

#[tokio::test]
async fn each_path_works_below_an_operator() {
    let exporter = fleet();
    for route in ROUTES.iter().filter(|route| !route.path.contains("operators")) {
        let path = route.path.replace("/runbooks/{name}", "/runbooks/Overdue");
        let path = path.replace("{name}", "heap.pb.gz");
        let below = format!("/operators/{OPERATOR}{path}");
        let (alone, _) = request_from(&exporter, "127.0.0.1:5000", "localhost", &path).await;
        let (status, body) = request_from(&exporter, "127.0.0.1:5000", "localhost", &below).await;

        // Its model knows objects, and loopwatch itself none.
        assert!(status == alone || status == 200, "{below}: {status}, not {alone}: {body}");
        assert!(!status.is_server_error() || status == 503, "{below}: {status} {body}");
    }
}

#[tokio::test]
async fn nothing_below_an_operator_is_open_to_others() {
    let exporter = fleet();
    for route in ROUTES {
        let below = format!("/operators/{OPERATOR}{}", route.path);
        let (status, body) = request_from(&exporter, "10.1.2.3:5000", "loopwatch", &below).await;
        assert_eq!(status, 403, "{below}: {body}");
    }
}

#[tokio::test]
async fn the_overview_leads_to_each_operator_and_back() {
    let exporter = fleet();
    let get = async |path: &str| request_from(&exporter, "127.0.0.1:5000", "localhost", path).await;
    let (status, page) = get("/").await;
    assert!(status == 200 && page.contains(&format!(r#"href="operators/{OPERATOR}/""#)), "{page}");

    let (status, page) = get(&format!("/operators/{OPERATOR}/")).await;
    assert!(status == 200 && page.contains(r#"href="../../../""#), "{status} {page}");
    let (status, _) = get(&format!("/operators/{OPERATOR}")).await;
    assert_eq!(status, 308);
    let (status, body) = get("/operators/ops/nobody/").await;
    assert!(status == 404 && body.contains("no operator of this name"), "{status} {body}");
}

#[tokio::test]
async fn the_list_says_who_is_not_judged() {
    let exporter = fleet();
    let skipped = SkippedOperator { name: "ops/other".to_owned(), why: "because" };
    let unclaimed = vec!["example.io/Gadget".to_owned()];
    exporter.fleet().expect("many").set_rest(vec![skipped], unclaimed);

    let (status, body) =
        request_from(&exporter, "127.0.0.1:5000", "localhost", "/api/v1/operators").await;
    let all: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(status, 200);
    assert_eq!(all["operators"][0]["operator"], OPERATOR);
    assert_eq!(all["not_judged"][0]["workload"], "ops/other");
    assert_eq!(all["unclaimed_kinds"][0], "example.io/Gadget");
    assert_eq!(all["complete"], true);
}

#[tokio::test]
async fn health_checks_name_no_operator() {
    let (status, body) = request_from(&fleet(), "10.1.2.3:5000", "loopwatch", "/readyz").await;
    assert!(status == 503 && !body.contains("widget"), "{status} {body}");
}

/// Prometheus rejects an exposition in which a family comes twice.
#[test]
fn series_about_an_operator_name_it_and_families_come_once() {
    let exporter = fleet();
    for format in [TextFormat::Text004, TextFormat::OpenMetrics] {
        let text = exporter.render(format).into_text();
        assert!(text.contains(&format!("loopwatch_objects{{operator=\"{OPERATOR}\",group=")));
        assert!(text.contains("\nloopwatch_build_info{version="), "{text}");
        let families = text.lines().filter(|line| line.starts_with("# TYPE")).collect::<Vec<_>>();
        let unique: std::collections::BTreeSet<_> = families.iter().collect();
        assert_eq!(families.len(), unique.len());
    }
}
