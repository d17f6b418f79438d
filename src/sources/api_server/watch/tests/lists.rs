//! Lists: streamed, in pages, and from servers that do not do what they should.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_streamed_lists_is_listed_in_pages() {
    for code in [400, 422] {
        let run = watch([
            refuse(code, "Invalid"),
            page(&[("a", 5), ("b", 6)], 10, "t1"),
            page(&[("c", 7)], 10, ""),
            stream([event("MODIFIED", "a", 11), pause(100)]),
        ])
        .await;

        assert_eq!(
            run.said(),
            [
                "began 1",
                "listed a@5",
                "listed b@6",
                "listed c@7",
                "ended 1 at 10",
                "works",
                "applied a@11"
            ],
            "reports no failure"
        );
        assert_eq!(
            run.script.asked(),
            [
                "GET widgets watch initial",
                "GET widgets limit=100",
                "GET widgets limit=100 continue=t1",
                "GET widgets watch from=10",
                "GET widgets watch from=11"
            ]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ignores_streamed_lists_is_listed_in_pages_after_ten_seconds() {
    let run = watch([
        stream([event("ADDED", "a", 5), pause(8), event("MODIFIED", "a", 9), Piece::Silence]),
        page(&[("a", 9), ("b", 6)], 10, ""),
    ])
    .await;

    assert_eq!(
        run.said(),
        [
            "began 1",
            "listed a@5",
            "listed a@9",
            "began 2",
            "listed a@9",
            "listed b@6",
            "ended 2 at 10",
            "works"
        ]
    );

    let wait = run.script.waits()[0];
    assert!((10_000..10_100).contains(&wait.as_millis()), "{wait:?}");
}

#[tokio::test(start_paused = true)]
async fn an_ignored_list_is_given_up_in_time_even_if_events_keep_coming() {
    // Two thousand objects, and then a new one every 3 s, or a change every 10 ms.
    let objects = || (0..2_000).map(|number| event("ADDED", &format!("old-{number}"), 5));
    let new = (0..60).flat_map(|number| [pause(3), event("ADDED", &format!("new-{number}"), 6)]);
    let millis = |time| Piece::Pause(Duration::from_millis(time));
    let changes = (0..20_000).flat_map(|_| [millis(10), event("MODIFIED", "a", 7)]);

    for pieces in [objects().chain(new).collect::<Vec<_>>(), objects().chain(changes).collect()] {
        let run = watch([stream(pieces), page(&[("a", 5)], 10, "")]).await;
        let wait = run.script.waits()[0];

        assert!((10_000..11_000).contains(&wait.as_millis()), "{wait:?}");
        assert_eq!(run.said().last().map(String::as_str), Some("works"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_streamed_list_is_read_to_its_end() {
    // 100 objects per second, as over a poor connection.
    let slow = (0..6_000).flat_map(|number| {
        [Piece::Pause(Duration::from_millis(10)), event("ADDED", &format!("object-{number}"), 5)]
    });
    let run = watch([stream(slow.chain([end_of_list(9), pause(100)]))]).await;

    assert_eq!(run.said().last().map(String::as_str), Some("works"));
    assert_eq!(run.script.asked(), ["GET widgets watch initial", "GET widgets watch from=9"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_longer_than_one_stream_is_read_in_pages() {
    let run = watch([stream([event("ADDED", "a", 5)]), page(&[("a", 5)], 10, "")]).await;
    assert_eq!(run.said()[2..], ["began 2", "listed a@5", "ended 2 at 10", "works"]);
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_that_fails_twice_is_retried_in_pages() {
    let run = watch([
        refuse(500, "InternalError"),
        refuse(500, "InternalError"),
        page(&[("a", 5)], 10, ""),
    ])
    .await;
    assert_eq!(
        run.said(),
        [
            "failed: server_error",
            "failed: server_error",
            "began 1",
            "listed a@5",
            "ended 1 at 10",
            "works"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_truncated_page_is_read_again() {
    let cut = Reply::Streamed(vec![
        Piece::Text(format!(
            r#"{{"metadata":{{"resourceVersion":"10"}},"items":[{},{{"meta"#,
            widget("a", 5)
        )),
        Piece::Cut,
    ]);

    let run = watch([refuse(422, "Invalid"), cut, page(&[("a", 5), ("b", 6)], 10, "")]).await;
    assert_eq!(
        run.said(),
        [
            "began 1",
            "listed a@5",
            "failed: connection",
            "listed a@5",
            "listed b@6",
            "ended 1 at 10",
            "works"
        ]
    );

    let truncated = Reply::Streamed(vec![Piece::Text(
        r#"{"metadata":{"resourceVersion":"10"},"items":["#.to_owned(),
    )]);
    let run = watch([refuse(422, "Invalid"), truncated, page(&[], 10, "")]).await;

    assert_eq!(run.said(), ["began 1", "failed: undecodable", "ended 1 at 10", "works"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_counts_once_even_if_its_page_is_read_again() {
    let start = format!(
        r#"{{"metadata":{{"resourceVersion":"10"}},"items":[{{"metadata":{{}}}},{}"#,
        widget("a", 5)
    );
    let cut = Reply::Streamed(vec![Piece::Text(start.clone()), Piece::Cut]);
    let complete = Reply::Streamed(vec![Piece::Text(start + "]}")]);
    let run = watch([refuse(422, "Invalid"), cut, complete]).await;

    assert_eq!(
        run.said().iter().filter(|said| said.starts_with("skipped")).count(),
        1,
        "{:?}",
        run.said()
    );
    assert_eq!(run.said()[1..3], ["listed a@5", "failed: connection"]);
}

#[tokio::test(start_paused = true)]
async fn an_expired_token_restarts_the_list_and_a_second_one_requests_the_whole_list() {
    let run = watch([
        refuse(422, "Invalid"),
        page(&[("a", 5)], 10, "t1"),
        refuse(410, "Expired"),
        page(&[("a", 5)], 20, "t2"),
        refuse(410, "Expired"),
        page(&[("a", 5), ("b", 6)], 30, ""),
    ])
    .await;

    assert_eq!(
        run.said(),
        [
            "began 1",
            "listed a@5",
            "began 2",
            "listed a@5",
            "began 3",
            "listed a@5",
            "listed b@6",
            "ended 3 at 30",
            "works"
        ]
    );
    assert_eq!(
        run.script.asked()[1..],
        [
            "GET widgets limit=100",
            "GET widgets limit=100 continue=t1",
            "GET widgets limit=100",
            "GET widgets limit=100 continue=t2",
            "GET widgets",
            "GET widgets watch from=30"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_is_tried_again_after_a_while() {
    let gone = || stream([pause(70), error(410, "Expired")]);
    let busy = || (0..7).map(|_| stream([pause(100)]));
    let replies =
        [refuse(422, "Invalid"), page(&[("a", 5)], 10, ""), gone(), page(&[("a", 5)], 20, "")];
    let run = watch(replies.into_iter().chain(busy()).chain([gone(), listed([])])).await;
    let asked = run.script.asked();
    let lists: Vec<&str> =
        asked.iter().filter(|asked| !asked.contains("from=")).map(String::as_str).collect();

    let expected = [
        "GET widgets watch initial",
        "GET widgets limit=100",
        "GET widgets limit=100",
        "GET widgets watch initial",
    ];

    assert_eq!(lists, expected, "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn failing_streams_and_pages_alternate_until_one_works() {
    let failed = || refuse(500, "InternalError");
    let run = watch([failed(), failed(), failed(), failed(), failed(), listed([pause(100)])]).await;
    let asked: Vec<String> =
        run.script.asked().iter().map(|asked| asked.replace("GET widgets ", "")).collect();
    let (streamed, paged) = ("watch initial", "limit=100");

    assert_eq!(asked[..6], [streamed, streamed, paged, streamed, paged, streamed]);
    assert_eq!(run.said().last().map(String::as_str), Some("works"));
}

#[tokio::test(start_paused = true)]
async fn watches_share_what_they_learn_about_streamed_lists() {
    let shared = Arc::new(SharedWatchState::default());
    let ignored = stream([event("ADDED", "a", 5), Piece::Silence]);
    let first = watch_sharing(&shared, [ignored, page(&[("a", 5)], 10, "")], false, false).await;

    assert_eq!(first.script.asked()[..2], ["GET widgets watch initial", "GET widgets limit=100"]);

    let second = watch_sharing(&shared, [page(&[("a", 5)], 10, "")], false, false).await;
    assert_eq!(second.script.asked()[0], "GET widgets limit=100");
}

#[tokio::test(start_paused = true)]
async fn a_list_without_a_version_is_repeated_when_its_stream_ends() {
    let unversioned = || {
        let body = format!(r#"{{"metadata":{{}},"items":[{}]}}"#, widget("a", 5));
        Reply::Response(200, vec![], body)
    };
    let events = || stream([event("ADDED", "a", 5), event("MODIFIED", "a", 12), pause(100)]);
    let run = watch([
        refuse(422, "Invalid"),
        unversioned(),
        events(),
        unversioned(),
        stream([Piece::Cut]),
    ])
    .await;

    let lists = ["GET widgets watch initial", "GET widgets limit=100", "GET widgets watch from="];
    assert_eq!(run.script.asked()[..3], lists);
    assert_eq!(
        run.script.asked()[3..5],
        lists[1..],
        "versions of objects are no place to continue from"
    );
    assert_eq!(run.script.asked()[5], lists[1], "{:?}", run.script.asked());
    assert_eq!(
        run.said()[..6],
        ["began 1", "listed a@5", "ended 1 at ", "works", "applied a@5", "applied a@12"]
    );
}
