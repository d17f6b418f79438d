use loopwatch_model::time::Timestamp;

use super::*;
use crate::export::sample::{Sample, sample};

/// Many objects in all states. Some share a name, a state and a time.
fn many(count: usize) -> Sample {
    let mut view = sample();
    let row = view.rows[0].clone();
    view.rows = (0..count)
        .map(|index| {
            let mixed = index.wrapping_mul(7919) % count;
            ObjectRow {
                name: format!("object-{:05}", mixed / 2),
                kind: ["Widget", "Gadget"][mixed % 2].to_owned(),
                namespace: format!("team-{}", mixed % 3),
                state: ObjectState::ALL[mixed / 3 % ObjectState::ALL.len()],
                since: Timestamp((mixed % 50) as i64),
                ..row.clone()
            }
        })
        .collect();

    view
}

fn names(rows: &[ObjectRow]) -> Vec<String> {
    rows.iter().map(|row| ListPosition::of(row).to_string()).collect()
}

#[tokio::test]
async fn pages_show_each_object_once_forwards_and_backwards_in_every_order() {
    let view = many(2_500);
    for text in ["state", "-state", "age", "-age", "name", "-name"] {
        let order = SortOrder::parse(text).expect("an order");
        assert_eq!(order.to_string(), text);

        let mut expected = view.rows.clone();
        expected.sort_by(|a, b| order.of_row(a).cmp(&order.of_row(b)));
        if order.reversed {
            expected.reverse();
        }

        let (mut shown, mut pages, mut edge) = (Vec::new(), Vec::new(), PageEdge::Start);
        loop {
            let page = sorted_page(&view, &Filter::default(), order, &edge, 400).await;
            assert_eq!((page.matching, page.has_previous), (2_500, !shown.is_empty()));

            shown.extend(page.rows.clone());
            let last = ListPosition::parse(
                &ListPosition::of(page.rows.last().expect("objects")).to_string(),
            )
            .expect("a place");
            pages.push(page.rows);

            if !page.has_next {
                break;
            }

            edge = PageEdge::After(last);
        }

        assert_eq!(names(&shown), names(&expected), "{text}");

        for index in (1..pages.len()).rev() {
            let before = PageEdge::Before(ListPosition::of(&pages[index][0]));
            let page = sorted_page(&view, &Filter::default(), order, &before, 400).await;

            assert_eq!(names(&page.rows), names(&pages[index - 1]), "{text}, page {index}");
            assert_eq!((page.has_previous, page.has_next), (index > 1, true));
        }
    }
}

#[tokio::test]
async fn the_worst_objects_come_first_and_the_filter_counts() {
    let view = many(100);
    let filter = Filter { namespace: Some("team-1".to_owned()), ..Filter::default() };
    let found = sorted_page(&view, &filter, SortOrder::default(), &PageEdge::Start, 10).await;
    let matching = view.rows.iter().filter(|row| row.namespace == "team-1").count();

    assert_eq!((found.rows[0].state, found.matching), (ObjectState::Failed, matching as u64));

    // An object that is gone is still a place.
    let gone = ListPosition::parse("failed/0/team-0//Widget/example.io").expect("a place");
    let from_gone =
        sorted_page(&view, &filter, SortOrder::default(), &PageEdge::After(gone), 10).await;

    assert_eq!(names(&from_gone.rows), names(&found.rows));
}

#[test]
fn a_wrong_place_or_order_is_rejected() {
    for text in [
        "",
        "failed",
        "failed/x/a/b/c/d",
        "broken/1/a/b/c/d",
        "failed/1/a/b/c",
        "failed/1/a/b/c/d/e",
    ] {
        assert_eq!(ListPosition::parse(text), None, "{text}");
    }

    for text in ["", "-", "size", "--name"] {
        assert!(
            SortOrder::parse(text)
                .is_err_and(|error| error.contains("expected state, age or name")),
            "{text}"
        );
    }
}
