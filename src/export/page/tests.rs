use super::*;
use crate::export::sample::{empty, healthy, sample};

#[test]
fn the_page_says_everything_without_a_script() {
    let page = render(&sample().snapshot);
    for expected in [
        "<title>failing · loopwatch</title>",
        "<h3>FinalizerStuck</h3>",
        "orders-legacy",
        "volume-cleanup",
        "kubectl get database.db.example.io orders-legacy -n team-a",
        "explains 1 more",
        "deadline",
        "longest wait",
        "the account may not list them",
        "forbidden",
        "loopwatch 0.1.0",
    ] {
        assert!(page.contains(expected), "{expected:?} is missing");
    }
    assert!(!page.contains("{{"), "a placeholder was left");
}

#[test]
fn an_empty_and_a_healthy_model_say_so() {
    assert!(render(&empty().snapshot).contains("Nothing has been seen yet."));
    let page = render(&healthy().snapshot);
    assert!(page.contains("<h1><span class=\"dot\" aria-hidden=\"true\"></span>Healthy</h1>"));
    assert!(page.contains("Nothing is wrong.") && !page.contains("Not visible"));
}

#[test]
fn hostile_names_stay_text() {
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
    assert!(inline.iter().all(|word| !page.contains(word)), "something inline");
}

#[test]
fn the_smallest_part_of_a_bar_can_be_seen() {
    let mut view = sample();
    let numbers = view.snapshot.kinds[0].namespaces.values_mut().next().expect("one");
    numbers.states = [u64::from(u32::MAX), 0, 1, 0, 0, 0, 0, 0];
    let page = render(&view.snapshot);
    assert!(page.contains("<rect class=\"overdue\" x=\"") && page.contains("width=\"12\" height=\"10\"/>"));
}

#[test]
fn numbers_have_their_thousands_apart() {
    for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
        assert_eq!(Number(number).to_string(), text);
    }
}
