use std::sync::Arc;
use std::time::Duration;

use loopwatch_model::observation::{Cause, Observation, WatchId};
use loopwatch_model::time::Timestamp;
use loopwatch_testbed::standin::{Piece, Reply, Script};

use super::{SharedWatchState, WatchTarget, Watcher};
use crate::sources::api_server::initial_sync::{InitialSync, SyncProgress};
use crate::sources::api_server::sinks::ObjectSink;
use crate::sources::decoding::HashKey;
use crate::sources::feed::Feed;
use crate::sources::testing::{InProcess as _, VirtualClock, say};

mod lists;
mod sharing;

/// The result of a script.
struct WatchRun {
    seen: Vec<(Timestamp, Observation)>,
    script: Script,
    progress: SyncProgress,
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

async fn watch_with(
    replies: impl IntoIterator<Item = Reply>,
    metadata_only: bool,
    once: bool,
) -> WatchRun {
    watch_sharing(&Arc::default(), replies, metadata_only, once).await
}

async fn watch_sharing(
    shared: &Arc<SharedWatchState>,
    replies: impl IntoIterator<Item = Reply>,
    metadata_only: bool,
    once: bool,
) -> WatchRun {
    let target = WatchTarget::new("/apis/example.io/v1/widgets".to_owned(), metadata_only);
    watch_target(target, shared, replies, once).await
}

async fn watch_target(
    target: WatchTarget,
    shared: &Arc<SharedWatchState>,
    replies: impl IntoIterator<Item = Reply>,
    once: bool,
) -> WatchRun {
    let script = Script::new(replies);
    let (feed, mut observations) = Feed::new(10_000, VirtualClock::server());
    let name = WatchId("widgets.example.io".into());
    let sink =
        ObjectSink { watch: name.clone(), hash_key: HashKey([0; 16]), annotations: Arc::default() };
    let sync = InitialSync::new();
    let watcher = Watcher::new(
        script.cluster(),
        target,
        sink,
        feed,
        Arc::clone(shared),
        sync.reporter(&name),
        once,
    );

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
    Piece::Line(format!(
        r#"{{"type":"BOOKMARK","object":{{"metadata":{{"resourceVersion":"{version}"}}}}}}"#
    ))
}

fn end_of_list(version: u32) -> Piece {
    Piece::Line(format!(
        r#"{{"type":"BOOKMARK","object":{{"metadata":{{"resourceVersion":"{version}","annotations":{{"k8s.io/initial-events-end":"true"}}}}}}}}"#
    ))
}

fn status(code: u16, reason: &str) -> String {
    format!(
        r#"{{"kind":"Status","status":"Failure","code":{code},"reason":"{reason}","message":"because"}}"#
    )
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

    assert_eq!(
        after_list(&run),
        ["applied a@11", "applied b@12", "progressed to 15", "deleted a@16"]
    );
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
        [
            "began 1",
            "listed a@5",
            "listed b@6",
            "listed a@7",
            "deleted b@8",
            "ended 1 at 8",
            "works"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn bookmarks_alone_show_the_progress_of_an_idle_kind() {
    let run = watch([listed([pause(60), bookmark(20), pause(60), bookmark(30), pause(40)])]).await;
    assert_eq!(after_list(&run), ["progressed to 20", "progressed to 30"]);
    assert_eq!(run.script.asked()[1], "GET widgets watch from=30");
}

#[tokio::test(start_paused = true)]
async fn an_expired_version_leads_to_a_new_list_from_the_stream_or_from_the_response() {
    for gone in [stream([error(410, "Expired")]), refuse(410, "Gone")] {
        let run = watch([listed([pause(100)]), gone, listed([])]).await;
        assert_eq!(
            after_list(&run)[..5],
            ["failed: gone", "began 2", "listed a@5", "ended 2 at 10", "works"]
        );
        assert_eq!(
            run.script.asked()[1..3],
            ["GET widgets watch from=10", "GET widgets watch initial"]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_cache_an_expired_version_is_no_failure_unless_the_list_is_new() {
    let uncached = || WatchTarget {
        cached: false,
        ..WatchTarget::new("/apis/example.io/v1/widgets".to_owned(), false)
    };
    for gone in [|| stream([error(410, "Expired")]), || refuse(410, "Gone")] {
        let list = || page(&[("a", 5)], 10, "");
        let quiet = [list(), stream([pause(140)]), gone(), list()];
        let run = watch_target(uncached(), &Arc::default(), quiet, false).await;

        assert_eq!(after_list(&run)[..3], ["began 2", "listed a@5", "ended 2 at 10"]);
        assert_eq!(run.cause(), None);

        // An API server that rejects the version of each list, however, must not be asked again and
        // again.
        let new = [list(), stream([Piece::Cut]), gone(), list()];
        let run = watch_target(uncached(), &Arc::default(), new, false).await;

        assert_eq!(after_list(&run)[..3], ["failed: connection", "failed: gone", "began 2"]);
        assert!(run.script.waits()[2] > Duration::from_millis(400), "{:?}", run.script.waits());
    }
}

#[tokio::test(start_paused = true)]
async fn a_garbled_line_is_read_again_and_skipped_if_it_stays_garbled() {
    for broken in [
        r#"{"type":"MODIFIED","object":{"metadata":{"#,
        r#"{"type":"NEWS","object":{}}"#,
        "nonsense",
    ] {
        let line = || Piece::Line(broken.to_owned());
        let run = watch([listed([line()]), stream([event("MODIFIED", "a", 12), pause(100)])]).await;

        assert_eq!(after_list(&run), ["failed: undecodable", "applied a@12", "works"], "{broken}");

        let run =
            watch([listed([line()]), stream([line(), event("MODIFIED", "a", 12), pause(100)])])
                .await;
        let expected = ["failed: undecodable", "skipped: undecodable", "works", "applied a@12"];

        assert_eq!(after_list(&run), expected, "{broken}");
        assert_eq!(
            run.script.asked()[1..],
            ["GET widgets watch from=10", "GET widgets watch from=12"]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_or_oversized_object_is_skipped_and_counted() {
    let nameless = || {
        Piece::Line(r#"{"type":"ADDED","object":{"metadata":{"resourceVersion":"11"}}}"#.to_owned())
    };
    let large =
        || (0..9).map(|_| Piece::Text("x".repeat(1 << 20))).chain([Piece::Line(String::new())]);

    // In the events of a watch.
    let run = watch([listed(
        [nameless()].into_iter().chain(large()).chain([event("MODIFIED", "a", 12), pause(100)]),
    )]);

    assert_eq!(
        after_list(&run.await),
        ["skipped: undecodable", "skipped: too_large", "applied a@12"]
    );

    // In a streamed list.
    let pieces = [nameless()].into_iter().chain(large()).chain([
        event("ADDED", "a", 5),
        end_of_list(10),
        pause(100),
    ]);
    let run = watch([stream(pieces)]).await;
    let expected = [
        "began 1",
        "skipped: undecodable",
        "skipped: too_large",
        "listed a@5",
        "ended 1 at 10",
        "works",
    ];

    assert_eq!(run.said(), expected);

    // In a page.
    let large = format!(r#"{{"metadata":{{"name":"l"}},"spec":"{}"}}"#, "x".repeat(9 << 20));
    let items =
        [r#"{"metadata":{}}"#, &large, r#"{"metadata":{"name":1}}"#, &widget("a", 5)].join(",");
    let page = format!(r#"{{"metadata":{{"resourceVersion":"10"}},"items":[{items}]}}"#);
    let run = watch([refuse(422, "Invalid"), Reply::Response(200, vec![], page)]).await;
    let skips = ["skipped: undecodable", "skipped: too_large", "skipped: undecodable"];

    assert_eq!(
        run.said(),
        [&["began 1", "listed a@5"][..], &skips, &["ended 1 at 10", "works"]].concat()
    );
}

#[tokio::test(start_paused = true)]
async fn a_stream_cut_inside_a_line_continues_from_the_last_version() {
    for end in [Some(Piece::Cut), None] {
        let half = Piece::Text(r#"{"type":"MODIFIED","obj"#.to_owned());
        let pieces = [event("MODIFIED", "a", 11), half].into_iter().chain(end);
        let run = watch([listed(pieces), stream([event("MODIFIED", "a", 12), pause(100)])]).await;

        assert_eq!(
            after_list(&run),
            ["applied a@11", "failed: connection", "applied a@12", "works"]
        );
        assert_eq!(run.script.asked()[1], "GET widgets watch from=11");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_without_the_next_bookmark_is_replaced_and_only_a_dead_connection_is_reported() {
    let silent = || listed([pause(20), bookmark(12), Piece::Silence]);

    // The bookmark was late: the next stream works.
    let late = watch([silent(), stream([pause(10), bookmark(13), pause(100)])]).await;
    assert_eq!(after_list(&late), ["progressed to 12", "progressed to 13"]);
    assert_eq!(late.script.asked()[1], "GET widgets watch from=12");

    let waited = late.script.waits()[0].as_secs();
    assert!((130..=133).contains(&waited), "bookmarks come every minute: {waited}");

    // The connection was half-open: there is no answer for the next stream, either.
    let dead = watch([silent(), Reply::Silence, stream([pause(100)])]).await;
    assert_eq!(after_list(&dead), ["progressed to 12", "failed: timeout", "works"]);

    let noticed = dead.seen[dead.seen.len() - 2].0.0 / 1000;
    assert!((160..=163).contains(&noticed), "an answer must come within 30 s: {noticed}");
}

#[tokio::test(start_paused = true)]
async fn without_bookmarks_an_overdue_end_leads_to_another_stream() {
    let run = watch([
        refuse(400, "BadRequest"),
        page(&[("a", 5)], 10, ""),
        stream([event("MODIFIED", "a", 11), Piece::Silence]),
        stream([event("MODIFIED", "a", 12), pause(100)]),
    ])
    .await;

    assert_eq!(after_list(&run), ["applied a@11", "applied a@12"]);

    let noticed = run.script.waits()[2].as_secs();
    assert!(
        (160..=212).contains(&noticed),
        "a stream is asked to last 150 s to 200 s, and 10 s are granted: {noticed}"
    );
}

#[tokio::test(start_paused = true)]
async fn after_a_bookmark_streams_are_asked_to_last_longer() {
    let minutes = |first: u32| (first..first + 20).flat_map(|n| [pause(60), bookmark(n)]);
    let run =
        watch([listed([pause(60), bookmark(20)]), stream(minutes(30)), stream([pause(100)])]).await;

    let waited = run.script.waits()[1].as_secs();
    assert!(
        (490..=612).contains(&waited),
        "the stream is asked to last 480 s to 600 s, and 10 s are granted: {waited}"
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
    let patience =
        Reply::Response(429, vec![("retry-after", "7".to_owned())], status(429, "TooManyRequests"));
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
    assert!(
        run.script.waits().iter().all(|wait| *wait >= Duration::from_millis(600)),
        "{:?}",
        run.script.waits()
    );
    assert_eq!(run.cause(), Some(Cause::Connection));
}

/// The pauses before watches open a stream again that has ended regularly after this time.
async fn pauses_after(seconds: u64) -> Vec<Duration> {
    let mut pauses = Vec::new();
    for _ in 0..40 {
        let run = watch([listed([pause(60), bookmark(20), pause(seconds - 60)])]).await;
        assert_eq!(run.cause(), None, "a regular end is no failure");
        pauses.push(run.script.waits()[0].saturating_sub(Duration::from_secs(seconds)));
    }

    pauses.sort();
    pauses
}

/// An API server that shuts down ends the streams of all clients together.
#[tokio::test(start_paused = true)]
async fn streams_that_end_early_are_reopened_at_different_times() {
    let at_once = Duration::from_millis(200);
    let pauses = pauses_after(100).await;

    assert!(pauses[39] <= Duration::from_millis(3_200), "{pauses:?}");
    assert!(pauses[39] - pauses[0] >= Duration::from_secs(1), "{pauses:?}");

    // Some of these watches have requested this duration, and others a longer one.
    let pauses = pauses_after(165).await;
    assert!(pauses[0] <= at_once && pauses[39] > at_once, "{pauses:?}");
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_any_length_is_no_reason_to_list_again() {
    let outage = || {
        [
            refuse(500, "InternalError"),
            refuse(502, ""),
            refuse(503, "ServiceUnavailable"),
            refuse(504, "Timeout"),
            refuse(404, "NotFound"),
            refuse(403, "Forbidden"),
            refuse(429, "TooManyRequests"),
            Reply::Refused,
            stream([error(500, "InternalError")]),
            stream([Piece::Cut]),
            stream([]),
        ]
    };

    let replies =
        std::iter::once(listed([pause(3), Piece::Cut])).chain((0..5).flat_map(|_| outage()));
    let run = watch(replies.chain([stream([event("MODIFIED", "a", 12), pause(100)])])).await;
    let asked = run.script.asked();

    assert_eq!(
        asked.iter().filter(|asked| *asked == "GET widgets watch from=10").count(),
        5 * 11 + 1,
        "{asked:?}"
    );
    assert_eq!(after_list(&run)[5 * 11 + 1..], ["applied a@12", "works"]);
}

#[tokio::test(start_paused = true)]
async fn three_rejections_of_a_version_lead_to_a_new_list() {
    // After a restored backup, the server waits for a version that it will not reach, and then
    // responds with 504.
    let too_large = |_| {
        let body = r#"{"kind":"Status","code":504,"reason":"Timeout","message":"Timeout: Too large resource version: 10, current: 7"}"#;
        Reply::Response(504, vec![], body.to_owned())
    };
    let invalid = |_| refuse(400, "BadRequest");
    for rejections in [(0..3).map(too_large).collect::<Vec<_>>(), (0..3).map(invalid).collect()] {
        let run =
            watch([listed([pause(100)])].into_iter().chain(rejections).chain([listed([])])).await;

        assert_eq!(run.script.asked()[4], "GET widgets watch initial", "{:?}", run.script.asked());
        assert_eq!(after_list(&run)[3..5], ["began 2", "listed a@5"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_comes_back_is_listed_again() {
    // The new API server of the kind no longer has the version.
    let run =
        watch([listed([pause(100)]), refuse(404, "NotFound"), refuse(410, "Expired"), listed([])])
            .await;

    assert_eq!(after_list(&run)[..3], ["failed: not_found", "failed: gone", "began 2"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_sends_bookmarks_is_not_taken_for_dead() {
    // The server sends bookmarks only at the end of a list and shortly before the end of a stream.
    // The watch misses a bookmark only once.
    let late = || stream([pause(148), bookmark(20), pause(1)]);
    let run =
        watch([listed([pause(199)]), stream([pause(149)]), late(), stream([pause(149)]), late()])
            .await;
    let waits: Vec<_> = run.script.waits().iter().map(Duration::as_secs).collect();

    assert_eq!(after_list(&run), ["progressed to 20", "progressed to 20"]);
    assert!(waits[0] < 114 && waits[1..4].iter().all(|waited| *waited >= 149), "{waits:?}");

    // A later streamed list does not make the watch expect bookmarks again, either.
    let gone = stream([pause(100), error(410, "Expired")]);
    let run = watch([listed([pause(199)]), gone, listed([pause(159)])]).await;
    let expected = ["failed: gone", "began 2", "listed a@5", "ended 2 at 10", "works"];

    assert_eq!(after_list(&run), expected, "{:?}", run.script.waits());
}

#[tokio::test(start_paused = true)]
async fn child_kinds_request_only_metadata() {
    let replies = [refuse(422, "Invalid"), page(&[("a", 5)], 10, ""), stream([pause(100)])];
    let run = watch_with(replies, true, false).await;

    assert_eq!(
        run.script.asked()[..3],
        [
            "GET widgets watch initial metadata",
            "GET widgets limit=100 metadata",
            "GET widgets watch from=10 metadata"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_single_poll_ends_with_the_list_the_third_failure_or_the_first_refusal() {
    let run = watch_with([listed([pause(500)])], false, true).await;
    assert_eq!(run.said(), LISTED);
    assert_eq!((run.progress.listed, run.progress.failed), (1, 0));

    let run =
        watch_with([Reply::Refused, Reply::Refused, Reply::Refused, listed([])], false, true).await;

    assert_eq!(run.script.asked().len(), 3);
    assert_eq!((run.progress.listed, run.progress.failed), (0, 1));

    let run = watch_with([refuse(403, "Forbidden"), listed([])], false, true).await;
    assert_eq!(run.script.asked().len(), 1);
    assert_eq!(run.progress.failed, 1);
}
