use loopwatch_model::finding::Subject;
use loopwatch_model::snapshot::Snapshot;
use loopwatch_model::time::Span;

use super::*;
use crate::export::presentation::page::frame::finished;
use crate::export::sample::now;

fn at(minutes_ago: i64) -> Timestamp {
    now().before(Span::mins(minutes_ago))
}

fn point(minutes_ago: i64, findings: u32, failed: u32) -> PastPoint {
    let mut point =
        PastPoint { at: at(minutes_ago), findings: [0, findings, 0], ..PastPoint::default() };
    point.states[ObjectState::Failed as usize] = failed;
    point.states[ObjectState::Converged as usize] = 1_000;

    point
}

fn found(minutes_ago: i64, change: &'static str, name: &str) -> PastEvent {
    let subject = Subject::Object {
        group: "example.io".to_owned(),
        kind: "Widget".to_owned(),
        namespace: "team-a".to_owned(),
        name: name.to_owned(),
    };
    PastEvent {
        at: at(minutes_ago),
        what: Happening::Finding { change, code: "Overdue", severity: "warning", subject },
    }
}

fn written(past: &RecentPast) -> String {
    let frame = Frame::of(&Snapshot { at: now(), ..Snapshot::default() }, past, false);
    finished(timeline(past, &frame))
}

#[test]
fn the_charts_and_the_events_of_the_last_hours_are_shown() {
    let mut points = vec![point(2, 0, 0), point(1, 3, 2), point(0, 1, 1)];
    (points[1].converged, points[1].convergence_seconds) = (2, Some(4.5));

    let operator = Happening::Operator {
        change: "leader_changed",
        name: "lease-a".to_owned(),
        detail: "op-1 no longer leads".to_owned(),
    };
    let revision = Happening::Operator {
        change: "revision_changed",
        name: "ops/op-1".to_owned(),
        detail: "v2".to_owned(),
    };
    let events = vec![
        found(2, "opened", "web"),
        PastEvent { at: at(1), what: operator },
        PastEvent { at: at(1), what: revision },
        found(0, "closed", "web"),
    ];

    let page = written(&RecentPast { at: now(), points, events, forgotten: 0 });
    for expected in [
        "<span>Open findings</span><b>1</b>",
        "aria-label=\"Objects not converged in the last 2m: between 0 and 2\"",
        "<path class=\"failed\" d=\"M0 980H500V20H1000V500H1000\"></path>",
        "<li class=\"failed\">1 failed</li>",
        "<span>Mean time to converge</span><b>4s</b>",
        "<path d=\"M500 20H1000\"></path>",
        "<span>09:24</span><output></output><span>09:26</span>",
        "<path class=\"mark\" d=\"M500 0V1000\"><title>new revision of ops/op-1 v2</title></path>",
        "Vertical lines mark new revisions of the operator.",
        "<b class=\"what\">operator changed its leader</b> <bdi>lease-a</bdi> <small>op-1 no longer leads</small>",
        "name=web\"><span class=\"kind\">Widget</span>",
        "<li class=\"opened warning\" ",
    ] {
        assert!(page.contains(expected), "{expected:?} is missing: {page}");
    }

    assert!(page.find("Overdue closed") < page.find("Overdue opened"), "the newest comes first");
    assert!(!page.contains("converged</li>"), "they would hide the others");
}

#[test]
fn a_long_timeline_is_cut_and_the_rest_is_counted() {
    let events: Vec<_> =
        (0..100).map(|number| found(0, "opened", &format!("w-{number}"))).collect();
    let page =
        written(&RecentPast { at: now(), points: vec![point(0, 0, 0)], events, forgotten: 7 });

    assert_eq!(page.matches("<li").count(), SHOWN);
    assert!(page.contains("and 47 earlier: <a href=\"api/v1/timeline\">"), "{page}");
    assert!(!page.contains("<svg"), "one point makes no chart");
}

#[test]
fn all_charts_show_the_last_hour_unless_the_reader_wants_all() {
    let past = RecentPast {
        at: now(),
        points: vec![point(180, 5, 0), point(60, 1, 0), point(0, 2, 0)],
        ..RecentPast::default()
    };
    let snapshot = Snapshot { at: now(), ..Snapshot::default() };
    let shown = |all| finished(timeline(&past, &Frame::of(&snapshot, &past, all)));

    let (hour, all) = (shown(false), shown(true));
    assert!(hour.contains("All charts show the last 1h,") && all.contains("the last 3h,"));
    assert!(hour.contains("between 1 and 2") && all.contains("between 1 and 5"), "{hour}");
    assert!(hour.contains("?range=all#timeline"));

    let short = RecentPast { points: past.points[1..].to_vec(), ..past };
    let page = finished(timeline(&short, &Frame::of(&snapshot, &short, false)));
    assert!(!page.contains("?range=all"), "there is no more: {page}");
}

#[test]
fn nothing_is_shown_before_anything_happened() {
    assert_eq!(written(&RecentPast::default()), "");
    assert_eq!(written(&RecentPast { points: vec![point(0, 0, 0)], ..RecentPast::default() }), "");
}

#[test]
fn hostile_names_in_the_timeline_are_escaped() {
    const EVIL: &str = "\"><script>alert(1)</script>\u{202e}";

    let operator =
        Happening::Operator { change: "ended", name: EVIL.to_owned(), detail: EVIL.to_owned() };
    let events = vec![found(0, "opened", EVIL), PastEvent { at: now(), what: operator }];
    let page =
        written(&RecentPast { at: now(), points: vec![point(0, 0, 0)], events, forgotten: 0 });

    assert!(!page.contains("<script>") && !page.contains('\u{202e}'), "{page}");
}
