use super::*;
use crate::export::sample::{empty, healthy, sample};

fn render(snapshot: &Snapshot) -> String {
    super::render(snapshot, &Input::default())
}

#[test]
fn the_page_is_complete_without_javascript() {
    let page = render(&sample().snapshot);
    for expected in [
        "<title>failing · loopwatch</title>",
        "<h3>FinalizerStuck</h3>",
        "orders-legacy",
        "volume-cleanup",
        "kubectl get database.db.example.io orders-legacy -n team-a",
        "explains 1 other finding<",
        "deadline",
        "oldest unconverged",
        "the account may not list them",
        "forbidden",
        "loopwatch 0.1.0",
    ] {
        assert!(page.contains(expected), "{expected:?} is missing");
    }
    assert!(!page.contains("{{"), "a placeholder was left");
}

#[test]
fn empty_and_healthy_snapshots_have_their_own_texts() {
    assert!(render(&empty().snapshot).contains("No watch is up and synced."));
    let page = render(&healthy().snapshot);
    assert!(page.contains("<h1><span class=\"dot\" aria-hidden=\"true\"></span>Healthy</h1>"));
    assert!(page.contains("No critical findings or warnings.") && !page.contains("Not visible"));
}

#[test]
fn hostile_names_are_escaped() {
    const EVIL: &str = "</article><script>alert(1)</script><img src=x onerror=alert(1)>\"'&{{main}}\u{202e}\u{7}";
    let mut view = sample();
    for row in &mut view.snapshot.unhealthy {
        (row.name, row.signal, row.kind) = (EVIL.to_owned(), EVIL.to_owned(), EVIL.to_owned());
    }
    for kind in &mut view.snapshot.kinds {
        (kind.kind, kind.group) = (EVIL.to_owned(), EVIL.to_owned());
    }
    for source in &mut view.snapshot.sources {
        (source.source, source.latest) = (EVIL.to_owned(), Some(("forbidden", EVIL.to_owned())));
    }
    for finding in &mut view.snapshot.findings {
        let subject = loopwatch_model::finding::Subject::Source { name: EVIL.to_owned() };
        finding.subject = subject;
        finding.evidence = loopwatch_model::finding::Evidence::new().text("detail", EVIL);
    }
    let page = render(&view.snapshot);
    assert!(
        !page.contains("<script>") && !page.contains("<img") && !page.contains("\u{202e}") && !page.contains('\u{7}')
    );
    let inline = ["onclick", "onerror=alert(1)>", "style=\"", "javascript:"];
    assert!(inline.iter().all(|word| !page.contains(word)), "inline script or style");
}

#[test]
fn the_smallest_part_of_a_bar_stays_visible() {
    let mut view = sample();
    let numbers = view.snapshot.kinds[0].namespaces.values_mut().next().expect("one");
    numbers.states = [u64::from(u32::MAX), 0, 1, 0, 0, 0, 0, 0];
    let page = render(&view.snapshot);
    assert!(page.contains("<rect class=\"overdue\" x=\"") && page.contains("width=\"12\" height=\"10\"/>"));
}

#[test]
fn numbers_have_thousands_separators() {
    for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
        assert_eq!(Number(number).to_string(), text);
    }
}
