use std::sync::Arc;
use std::time::Duration;

use loopwatch_model::observation::{Cause, Observation, WatchId};
use loopwatch_model::time::Timestamp;

use super::objects::ObjectSink;
use super::{WatchTarget, Watcher};
use crate::sources::decode::HashKey;
use crate::sources::fake::{Piece, Reply, Script, VirtualClock, say};
use crate::sources::feed::Feed;
use crate::sources::sync::{InitialSync, Progress};

/// The result of a script.
struct WatchRun {
    seen: Vec<(Timestamp, Observation)>,
    script: Script,
    progress: Progress,
}

impl WatchRun {
    fn said(&self) -> Vec<String> {
        self.seen.iter().map(|(_, observation)| say(observation)).collect()
    }

    fn cause(&self) -> Option<Cause> {
        self.seen.iter().find_map(|(_, observation)| match observation {
            Observation::SourceFailed { cause, .. } => Some(*cause),
            _ => None,
        })
    }
}

/// Watches widgets until the script runs out of replies.
async fn watch(replies: impl IntoIterator<Item = Reply>) -> WatchRun {
    watch_with(replies, false, false).await
}

async fn watch_with(replies: impl IntoIterator<Item = Reply>, metadata_only: bool, once: bool) -> WatchRun {
    let script = Script::new(replies);
    let (feed, mut observations) = Feed::new(10_000, VirtualClock::server());
    let target = WatchTarget::new("/apis/example.io/v1/widgets".to_owned(), metadata_only);
    let name = WatchId("widgets.example.io".into());
    let sink = ObjectSink { watch: name.clone(), hash_key: HashKey([0; 16]) };
    let sync = InitialSync::new();
    let watcher = Watcher::new(script.cluster(), target, sink, feed, Arc::default(), sync.reporter(&name), once);
    tokio::select! {
        () = watcher.run() => {}
        () = script.ended() => {}
    }
    let mut seen = Vec::new();
    while let Some(observation) = observations.try_recv() {
        seen.push(observation);
    }
    WatchRun { seen, script, progress: sync.progress() }
}

// Responses of the API server.

fn widget(name: &str, version: u32) -> String {
    format!(r#"{{"metadata":{{"name":"{name}","uid":"u-{name}","resourceVersion":"{version}"}}}}"#)
}

fn event(kind: &str, name: &str, version: u32) -> Piece {
    Piece::Line(format!(r#"{{"type":"{kind}","object":{}}}"#, widget(name, version)))
}

fn bookmark(version: u32) -> Piece {
    Piece::Line(format!(r#"{{"type":"BOOKMARK","object":{{"metadata":{{"resourceVersion":"{version}"}}}}}}"#))
}

fn end_of_list(version: u32) -> Piece {
    Piece::Line(format!(
        r#"{{"type":"BOOKMARK","object":{{"metadata":{{"resourceVersion":"{version}","annotations":{{"k8s.io/initial-events-end":"true"}}}}}}}}"#
    ))
}

fn status(code: u16, reason: &str) -> String {
    format!(r#"{{"kind":"Status","status":"Failure","code":{code},"reason":"{reason}","message":"because"}}"#)
}

fn error(code: u16, reason: &str) -> Piece {
    Piece::Line(format!(r#"{{"type":"ERROR","object":{}}}"#, status(code, reason)))
}

fn refuse(code: u16, reason: &str) -> Reply {
    Reply::Response(code, vec![], status(code, reason))
}

fn page(widgets: &[(&str, u32)], version: u32, token: &str) -> Reply {
    let items: Vec<String> = widgets.iter().map(|(name, version)| widget(name, *version)).collect();
    let items = items.join(",");
    Reply::Response(
        200,
        vec![],
        format!(
            r#"{{"kind":"WidgetList","metadata":{{"resourceVersion":"{version}","continue":"{token}"}},"items":[{items}]}}"#
        ),
    )
}

fn stream(pieces: impl IntoIterator<Item = Piece>) -> Reply {
    Reply::Streamed(pieces.into_iter().collect())
}

fn pause(seconds: u64) -> Piece {
    Piece::Pause(Duration::from_secs(seconds))
}

/// A streamed list of one widget, after which the stream goes on with `pieces`.
fn listed(pieces: impl IntoIterator<Item = Piece>) -> Reply {
    stream([event("ADDED", "a", 5), end_of_list(10)].into_iter().chain(pieces))
}

const LISTED: [&str; 4] = ["began 1", "listed a@5", "ended 1 at 10", "works"];

/// The observations after a list like that of [`listed`].
fn after_list(run: &WatchRun) -> Vec<String> {
    let said = run.said();
    assert_eq!(said[..4], LISTED, "{said:?}");
    said[4..].to_vec()
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_continues_as_the_watch() {
    let run = watch([listed([
        event("MODIFIED", "a", 11),
        event("ADDED", "b", 12),
        bookmark(15),
        event("DELETED", "a", 16),
        pause(100),
    ])])
    .await;
    assert_eq!(after_list(&run), ["applied a@11", "applied b@12", "progressed to 15", "deleted a@16"]);
    assert_eq!(run.script.asked(), ["GET widgets watch initial", "GET widgets watch from=16"]);
    assert_eq!(run.progress.listed, 1);
    assert_eq!(run.progress.objects, 1);
}

#[tokio::test(start_paused = true)]
async fn changes_during_a_streamed_list_belong_to_the_list() {
    let run = watch([stream([
        event("ADDED", "a", 5),
        event("ADDED", "b", 6),
        event("MODIFIED", "a", 7),
        event("DELETED", "b", 8),
        end_of_list(8),
        pause(100),
    ])])
    .await;
    assert_eq!(
        run.said(),
        ["began 1", "listed a@5", "listed b@6", "listed a@7", "deleted b@8", "ended 1 at 8", "works"]
    );
}

#[tokio::test(start_paused = true)]
async fn bookmarks_alone_show_the_progress_of_an_idle_kind() {
    let run = watch([listed([pause(60), bookmark(20), pause(60), bookmark(30), pause(80)])]).await;
    assert_eq!(after_list(&run), ["progressed to 20", "progressed to 30"]);
    assert_eq!(run.script.asked()[1], "GET widgets watch from=30");
}

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
            ["began 1", "listed a@5", "listed b@6", "listed c@7", "ended 1 at 10", "works", "applied a@11"],
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
        stream([
            event("ADDED", "a", 5),
            pause(8),
            event("ADDED", "b", 6),
            pause(8),
            event("MODIFIED", "b", 9),
            Piece::Silence,
        ]),
        page(&[("a", 5), ("b", 9)], 10, ""),
    ])
    .await;
    assert_eq!(
        run.said(),
        [
            "began 1",
            "listed a@5",
            "listed b@6",
            "listed b@9",
            "began 2",
            "listed a@5",
            "listed b@9",
            "ended 2 at 10",
            "works"
        ]
    );
    assert_eq!(run.script.waits()[0], Duration::from_secs(18), "ten seconds after the last object was added");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_longer_than_one_stream_is_read_in_pages() {
    let run = watch([stream([event("ADDED", "a", 5)]), page(&[("a", 5)], 10, "")]).await;
    assert_eq!(run.said()[2..], ["began 2", "listed a@5", "ended 2 at 10", "works"]);
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_that_fails_twice_is_retried_in_pages() {
    let run = watch([refuse(500, "InternalError"), refuse(500, "InternalError"), page(&[("a", 5)], 10, "")]).await;
    assert_eq!(
        run.said(),
        ["failed: server_error", "failed: server_error", "began 1", "listed a@5", "ended 1 at 10", "works"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_truncated_page_is_read_again() {
    let cut = Reply::Streamed(vec![
        Piece::Text(format!(r#"{{"metadata":{{"resourceVersion":"10"}},"items":[{},{{"meta"#, widget("a", 5))),
        Piece::Cut,
    ]);
    let run = watch([refuse(422, "Invalid"), cut, page(&[("a", 5), ("b", 6)], 10, "")]).await;
    assert_eq!(
        run.said(),
        ["began 1", "listed a@5", "failed: connection", "listed a@5", "listed b@6", "ended 1 at 10", "works"]
    );
    let truncated = Reply::Streamed(vec![Piece::Text(r#"{"metadata":{"resourceVersion":"10"},"items":["#.to_owned())]);
    let run = watch([refuse(422, "Invalid"), truncated, page(&[], 10, "")]).await;
    assert_eq!(run.said(), ["began 1", "failed: undecodable", "ended 1 at 10", "works"]);
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
async fn an_expired_version_leads_to_a_new_list_from_the_stream_or_from_the_response() {
    for gone in [stream([error(410, "Expired")]), refuse(410, "Gone")] {
        let run = watch([listed([pause(100)]), gone, listed([])]).await;
        assert_eq!(after_list(&run)[..5], ["failed: gone", "began 2", "listed a@5", "ended 2 at 10", "works"]);
        assert_eq!(run.script.asked()[1..3], ["GET widgets watch from=10", "GET widgets watch initial"]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_line_is_reported_and_leads_to_a_new_list() {
    for broken in [r#"{"type":"MODIFIED","object":{"metadata":{"#, r#"{"type":"NEWS","object":{}}"#, "nonsense"] {
        let line = Piece::Line(broken.to_owned());
        let run = watch([listed([line, event("MODIFIED", "a", 12), pause(100)]), listed([])]).await;
        assert_eq!(after_list(&run)[..3], ["failed: undecodable", "began 2", "listed a@5"], "{broken}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_line_over_the_limit_is_reported_and_leads_to_a_new_list() {
    let large = "x".repeat(1 << 20);
    let pieces = std::iter::repeat_with(|| Piece::Text(large.clone())).take(9);
    let run = watch([listed(pieces), listed([])]).await;
    assert_eq!(after_list(&run)[..2], ["failed: too_large", "began 2"]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_cut_inside_a_line_continues_from_the_last_version() {
    for end in [Some(Piece::Cut), None] {
        let half = Piece::Text(r#"{"type":"MODIFIED","obj"#.to_owned());
        let pieces = [event("MODIFIED", "a", 11), half].into_iter().chain(end);
        let run = watch([listed(pieces), stream([event("MODIFIED", "a", 12), pause(100)])]).await;
        assert_eq!(after_list(&run), ["applied a@11", "failed: connection", "applied a@12", "works"]);
        assert_eq!(run.script.asked()[1], "GET widgets watch from=11");
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_bookmark_reveals_a_half_open_connection() {
    let run = watch([listed([pause(20), bookmark(12), Piece::Silence])]).await;
    assert_eq!(after_list(&run), ["progressed to 12", "failed: timeout"]);
    let noticed = run.seen.last().map(|(at, _)| at.0);
    assert_eq!(noticed, Some(130_000), "bookmarks come every minute");
    assert_eq!(run.script.asked()[1], "GET widgets watch from=12");
}

#[tokio::test(start_paused = true)]
async fn without_bookmarks_an_overdue_end_reveals_a_half_open_connection() {
    let run = watch([
        refuse(400, "BadRequest"),
        page(&[("a", 5)], 10, ""),
        stream([event("MODIFIED", "a", 11), Piece::Silence]),
    ])
    .await;
    assert_eq!(run.said().last().map(String::as_str), Some("failed: timeout"));
    let noticed = run.script.waits()[2].as_secs();
    assert!(
        (160..=212).contains(&noticed),
        "a stream is asked to last 150 s to 200 s, and 10 s are granted: {noticed}"
    );
}

#[tokio::test(start_paused = true)]
async fn two_seconds_of_silence_show_that_a_stream_works() {
    let run = watch([listed([pause(60), Piece::Cut]), Reply::Refused, stream([pause(100)])]).await;
    assert_eq!(after_list(&run), ["failed: connection", "failed: connection", "works"]);
    let (failed, works) = (run.seen[5].0, run.seen[6].0);
    assert!((2_000..4_500).contains(&(works.0 - failed.0)), "{failed} {works}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_recovers_when_revoked_permissions_come_back() {
    let run = watch([
        refuse(403, "Forbidden"),
        refuse(403, "Forbidden"),
        listed([pause(61), Piece::Cut]),
        refuse(403, "Forbidden"),
        stream([event("MODIFIED", "a", 12), pause(100)]),
    ])
    .await;
    assert_eq!(
        run.said(),
        [
            "failed: forbidden",
            "failed: forbidden",
            "began 1",
            "listed a@5",
            "ended 1 at 10",
            "works",
            "failed: connection",
            "failed: forbidden",
            "applied a@12",
            "works"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn the_wait_is_at_least_retry_after() {
    let patience = Reply::Response(429, vec![("retry-after", "7".to_owned())], status(429, "TooManyRequests"));
    let run = watch([patience, listed([])]).await;
    assert_eq!(run.cause(), Some(Cause::Throttled));
    let wait = run.script.waits()[0];
    assert!((7..=9).contains(&wait.as_secs()), "{wait:?}");
}

#[tokio::test(start_paused = true)]
async fn each_failure_is_mapped_to_its_cause() {
    for (reply, cause) in [
        (refuse(401, "Unauthorized"), Cause::Unauthorized),
        (refuse(404, "NotFound"), Cause::NotFound),
        (refuse(500, "InternalError"), Cause::ServerError),
        (refuse(503, "ServiceUnavailable"), Cause::ServerError),
        (Reply::Response(502, vec![], "<html>Bad Gateway</html>".to_owned()), Cause::ServerError),
        (Reply::Refused, Cause::Connection),
        (Reply::Silence, Cause::Timeout),
    ] {
        let run = watch([reply]).await;
        assert_eq!(run.cause(), Some(cause));
    }
}

#[tokio::test(start_paused = true)]
async fn waits_grow_while_the_server_is_unreachable_and_are_short_again_afterwards() {
    let away = || std::iter::repeat_with(|| Reply::Refused).take(9);
    let run = watch(away().chain([listed([pause(100), Piece::Cut]), Reply::Refused])).await;
    let waits = run.script.waits();
    assert!(waits[0] <= Duration::from_secs(1) && waits[7] >= Duration::from_secs(22), "{waits:?}");
    assert!(waits.iter().all(|wait| *wait <= Duration::from_secs(101)), "{waits:?}");
    assert!(waits[10] <= Duration::from_secs(2), "{waits:?}");
}

#[tokio::test(start_paused = true)]
async fn streams_that_end_immediately_are_reopened_after_a_pause() {
    let run = watch(std::iter::once(listed([])).chain((0..4).map(|_| stream([])))).await;
    assert!(run.script.waits().iter().all(|wait| *wait >= Duration::from_millis(600)), "{:?}", run.script.waits());
    assert_eq!(run.cause(), Some(Cause::Connection));
}

#[tokio::test(start_paused = true)]
async fn three_refusals_of_a_future_version_lead_to_a_new_list() {
    // After a restored backup, the server waits for a version that it will not reach, and then responds with 504.
    let refusals = (0..3).map(|_| refuse(504, "Timeout"));
    let run = watch([listed([pause(100)])].into_iter().chain(refusals).chain([listed([])])).await;
    assert_eq!(run.script.asked()[4], "GET widgets watch initial", "{:?}", run.script.asked());
    assert_eq!(after_list(&run)[3..5], ["began 2", "listed a@5"]);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_comes_back_is_listed_again() {
    let run = watch([listed([pause(100)]), refuse(404, "NotFound"), listed([])]).await;
    assert_eq!(after_list(&run)[..2], ["failed: not_found", "began 2"]);
}

#[tokio::test(start_paused = true)]
async fn child_kinds_request_only_metadata() {
    let replies = [refuse(422, "Invalid"), page(&[("a", 5)], 10, ""), stream([pause(100)])];
    let run = watch_with(replies, true, false).await;
    assert_eq!(
        run.script.asked()[..3],
        ["GET widgets watch initial metadata", "GET widgets limit=100 metadata", "GET widgets watch from=10 metadata"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_single_poll_ends_with_the_list_the_third_failure_or_the_first_refusal() {
    let run = watch_with([listed([pause(500)])], false, true).await;
    assert_eq!(run.said(), LISTED);
    assert_eq!((run.progress.listed, run.progress.failed), (1, 0));
    let run = watch_with([Reply::Refused, Reply::Refused, Reply::Refused, listed([])], false, true).await;
    assert_eq!(run.script.asked().len(), 3);
    assert_eq!((run.progress.listed, run.progress.failed), (0, 1));
    let run = watch_with([refuse(403, "Forbidden"), listed([])], false, true).await;
    assert_eq!(run.script.asked().len(), 1);
    assert_eq!(run.progress.failed, 1);
}
