use loopwatch_model::finding::{Confidence, Evidence, FindingCode, Subject};
use loopwatch_model::observation::{Cause, Framework};
use loopwatch_model::snapshot::{DeletionVerdict, MAX_DELETIONS, ObjectState};
use loopwatch_model::time::Timestamp;

use super::*;
use crate::export::sample::{empty, healthy, sample};
use crate::export::view::all_runbooks;

fn render(snapshot: &Snapshot) -> String {
    super::render(snapshot, &RecentPast::default(), &Input::default(), Wish::default())
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
    assert!(render(&empty().snapshot).contains("Unknown because no watch is up and synced."));

    let page = render(&healthy().snapshot);
    assert!(page.contains("<h1><span class=\"dot\" aria-hidden=\"true\"></span>Healthy</h1>"));
    assert!(page.contains("No critical findings or warnings.") && !page.contains("Not visible"));
    assert!(!page.contains("Deletions") && !page.contains("Ownership and references"));
}

#[test]
fn a_recording_says_whether_it_still_plays() {
    let mut recording = RecordingInput::new("loopwatch 0.1.0");
    let at = |recording: &RecordingInput| {
        let input = Input { recording: Some(recording.clone()), ..Input::default() };
        super::render(&healthy().snapshot, &RecentPast::default(), &input, Wish::default())
    };

    assert!(!at(&recording).contains("class=\"recording\""), "it has not begun");

    (recording.begins, recording.shows) = (Some(Timestamp(0)), Some(Timestamp(90_000)));
    recording.speed = Some(2.5);

    let page = at(&recording);
    assert!(
        page.contains("data-every=\"1000\"><b>A recording plays</b> at 2.5 times")
            && page.contains(" 1m30s have")
    );

    recording.speed = None;
    let page = at(&recording);

    assert!(
        page.contains("<b>The recording has ended.</b>")
            && page.contains(" UTC, 1m30s after it began. All ages count until that moment."),
        "{page}"
    );
    assert!(!page.contains("data-every") && !render(&healthy().snapshot).contains("recording"));

    // The other pages say so, too.
    let input = Input { recording: Some(recording), ..Input::default() };
    let (filter, objects) = (Default::default(), Default::default());
    let table =
        ObjectTable { filter: &filter, query: "", order: Default::default(), objects: &objects };
    let object = render_object(&healthy().snapshot, &Default::default(), "", &input);

    for page in [
        render_objects(&healthy().snapshot, &table, &input),
        object,
        render_runbooks(&input),
        render_runbook(&all_runbooks()[0], &input),
        render_problem("Not found", "there is no such object", &input),
    ] {
        assert!(page.contains("<b>The recording has ended.</b>"), "{page}");
    }
}

#[test]
fn deletions_show_finalizers_actors_and_what_blocks_them() {
    let mut view = sample();
    let page = render(&view.snapshot);

    assert!(page.contains("<span class=\"state failed\">stuck</span>"));
    assert!(page.contains(
        "<bdi>db.example.io/volume-cleanup</bdi> <small>to be removed by field manager db-operator"
    ));
    assert!(!page.contains("blocked by"));

    let row = &mut view.snapshot.deletions[1];
    (row.verdict, row.finalizers[0].1) =
        (DeletionVerdict::BlockedByDependent, "unknown".to_owned());

    let mut finding = view.snapshot.findings[2].clone();
    assert_eq!(finding.subject.name(), row.name);

    finding.code = FindingCode::DeletionBlockedByDependent;
    finding.evidence = Evidence::new().text("blocker", "PersistentVolumeClaim team-b/data-0");
    view.snapshot.findings.push(finding);

    let page = render(&view.snapshot);
    assert!(page.contains("<span class=\"state overdue\">blocked</span>"));
    assert!(page.contains("<p>blocked by <bdi>PersistentVolumeClaim team-b/data-0</bdi></p>"));
    assert!(page.contains("<small>actor unknown</small>"));
    assert!(!page.contains("all terminating objects"), "the list is complete");

    let row = view.snapshot.deletions[0].clone();
    view.snapshot.deletions = vec![row; MAX_DELETIONS];

    let numbers = view.snapshot.kinds[0].namespaces.values_mut().next().expect("one");
    numbers.states[ObjectState::Terminating as usize] = 1200;

    let page = render(&view.snapshot);
    assert!(page.contains("and 1,101 more: <a href=\"objects?state=terminating\">"), "with a Pod");
}

#[test]
fn the_operator_has_charts_with_gaps_and_a_table_of_its_controllers() {
    let mut view = sample();
    let page = render(&view.snapshot);

    assert!(
        page.contains("<h3><bdi>db-system/db-operator-7c9d5f6b8d-x2x4v</bdi> <small>controller-runtime</small></h3>")
    );
    assert!(
        page.contains("aria-label=\"Live heap in the last 1h: between 100.0 MiB and 129.8 MiB\""),
        "{page}"
    );
    let lines: Vec<&str> = page.split("<path d=\"M").skip(1).collect();
    let with_gap = |line: &&&str| line.split('"').next().is_some_and(|d| d.contains('M'));
    assert_eq!(lines.iter().filter(with_gap).count(), 5, "five signals, and each has a gap");

    assert!(page.contains(
        "<td class=\"num\">1 of 4</td><td class=\"num\">48,228</td><td class=\"num\">17</td>"
    ));

    assert!(!page.contains("lines skipped"), "all of its metrics were read");
    assert!(!page.contains("loopwatch knows none"));

    if let Some((_, metrics)) = &mut view.snapshot.operator.instances[0].metrics {
        let metrics = std::sync::Arc::make_mut(metrics);
        (metrics.problem, metrics.lines_skipped) =
            ("line 7: the value is not a number".to_owned(), 12);
    }

    let problem = "loopwatch cannot read all of its metrics: line 7: the value is not a number; lines skipped: 12.";
    assert!(render(&view.snapshot).contains(problem));

    if let Some((_, metrics)) = &mut view.snapshot.operator.instances[0].metrics {
        std::sync::Arc::make_mut(metrics).framework = Framework::Unknown;
    }
    assert!(
        render(&view.snapshot).contains("loopwatch knows none of its metrics of control loops")
    );

    let instance = &mut view.snapshot.operator.instances[0];
    (instance.process.live_heap, instance.process.goroutines) = (None, None);
    instance.recent.iter_mut().for_each(|point| point.reconciles = Some(1.0 / 30.0));

    let page = render(&view.snapshot);
    assert!(
        page.contains("<span>Memory</span>") && page.contains("<span>Threads</span>"),
        "{page}"
    );
    assert!(
        page.contains("<span>Reconciles</span><b>2.0/min</b>"),
        "an idle operator still reconciles: {page}"
    );

    let instance = &mut view.snapshot.operator.instances[0];
    (instance.metrics, instance.recent) = (None, Vec::new());
    instance.scrape_failure = Some((view.snapshot.at, Cause::Refused));

    let page = render(&view.snapshot);
    assert!(
        page.contains("Scrapes of its metrics have failed for <time")
            && page.contains(" (refused).</p>")
    );
    assert!(!page.contains("class=\"plot\""));

    view.snapshot.operator.instances.clear();
    assert!(!render(&view.snapshot).contains("id=\"operator\""));
}

#[test]
fn ownership_and_references_are_counted_per_kind() {
    let mut view = sample();
    let mut orphan = view.snapshot.findings[1].clone();
    orphan.code = FindingCode::Orphan;
    orphan.subject = Subject::Object {
        group: String::new(),
        kind: "Pod".to_owned(),
        namespace: "team-a".to_owned(),
        name: "lost".to_owned(),
    };

    let mut suspected = orphan.clone();
    suspected.confidence = Confidence::Suspected;
    view.snapshot.findings.extend([orphan, suspected]);

    let page = render(&view.snapshot);
    for row in [
        "Database <small>db.example.io</small></th><td>–</td><td>–</td><td>1 to ConfigMap, 2 to Secret</td>\
         <td>5 in phase canary, oldest for 1d6h</td></tr>",
        "Pod <small>core</small></th><td>1 in another namespace, 3 seen since loopwatch started</td><td>1, 1 suspected</td><td>–</td><td>–</td></tr>",
    ] {
        assert!(page.contains(row), "{row} is missing");
    }

    assert!(!page.contains("data-key=\"r-db.example.io/Backup\""), "a kind without problems");
}

#[test]
fn the_steps_that_end_a_finding_are_folded_and_only_for_objects_that_nobody_deletes() {
    let mut view = sample();
    assert!(!render(&view.snapshot).contains("class=\"steps\""));

    let mut orphan = view.snapshot.findings[1].clone();
    orphan.code = FindingCode::Orphan;
    orphan.subject = Subject::Object {
        group: String::new(),
        kind: "Pod".to_owned(),
        namespace: "team-a".to_owned(),
        name: "<lost>".to_owned(),
    };
    view.snapshot.findings = vec![orphan];

    let page = render(&view.snapshot);
    let steps = page.split("<details class=\"steps\"").nth(1).expect("steps");
    let trial = "kubectl delete pod '&lt;lost&gt;' -n team-a --dry-run=server</code>";
    let deletion = "kubectl delete pod '&lt;lost&gt;' -n team-a</code>";
    assert!(steps.find(trial).expect(trial) < steps.find(deletion).expect(deletion), "{steps}");
    assert!(steps.contains("Danger: Nobody can undo this"), "{steps}");
}

#[test]
fn hostile_names_are_escaped() {
    const EVIL: &str =
        "</article><script>alert(1)</script><img src=x onerror=alert(1)>\"'&{{main}}\u{202e}\u{7}";

    let mut view = sample();
    for row in &mut view.snapshot.unhealthy {
        (row.name, row.signal, row.kind) = (EVIL.to_owned(), EVIL.to_owned(), EVIL.to_owned());
    }

    for kind in &mut view.snapshot.kinds {
        (kind.kind, kind.group) = (EVIL.to_owned(), EVIL.to_owned());
    }

    for row in &mut view.snapshot.deletions {
        (row.name, row.kind, row.finalizers) =
            (EVIL.to_owned(), EVIL.to_owned(), vec![(EVIL.into(), EVIL.to_owned())]);
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
        !page.contains("<script>")
            && !page.contains("<img")
            && !page.contains("\u{202e}")
            && !page.contains('\u{7}')
    );

    let inline = ["onclick", "onerror=alert(1)>", "style=\"", "javascript:"];
    assert!(inline.iter().all(|word| !page.contains(word)), "inline script or style");
}

#[test]
fn a_source_that_cannot_read_everything_is_up_and_says_so() {
    let mut view = sample();
    let source = &mut view.snapshot.sources[0];
    (source.source, source.restricted) =
        ("process".to_owned(), Some("cgroup: permission <denied>".to_owned()));

    let page = render(&view.snapshot);
    let row = page.split("<tr data-key=\"s-process\"").nth(1).expect("the row");
    let row = row.split("</tr>").next().unwrap_or_default();

    assert!(
        row.contains(">up</span>") && row.contains("cgroup: permission &lt;denied&gt;"),
        "{row}"
    );
}

#[test]
fn the_smallest_part_of_a_bar_stays_visible() {
    let mut view = sample();
    let numbers = view.snapshot.kinds[0].namespaces.values_mut().next().expect("one");
    numbers.states = [u64::from(u32::MAX), 0, 1, 0, 0, 0, 0, 0, 0];

    let page = render(&view.snapshot);
    assert!(
        page.contains("<rect class=\"overdue\" x=\"")
            && page.contains("width=\"12\" height=\"10\"/>")
    );
}

#[test]
fn each_unhealthy_object_links_to_its_finding_or_says_why_it_has_none() {
    let mut view = sample();
    let mut row = view.snapshot.unhealthy[0].clone();
    (row.name, row.state, row.rejected) = ("new".to_owned(), ObjectState::Failed, true);
    row.kind = "Unfound".to_owned();
    view.snapshot.unhealthy.push(row);

    let page = render(&view.snapshot);
    let section =
        page.split("id=\"objects\"").nth(1).and_then(|rest| rest.split("</section>").next());
    let section = section.expect("the section");
    let rows: Vec<&str> = section.split("<tr data-key=").skip(1).collect();
    assert_eq!(rows.len(), view.snapshot.unhealthy.len());

    for row in rows {
        let linked = row.split("href=\"#").nth(1).and_then(|rest| rest.split('"').next());
        match linked {
            Some(anchor) => assert!(page.contains(&format!(" id=\"{anchor}\"")), "{anchor}"),
            None => assert!(row.contains("<small>none"), "{row}"),
        }
    }

    assert!(
        section.contains("none: the operator rejects its spec")
            && section.contains("its user can correct it")
    );
    assert!(section.contains(" with findings above</summary>"), "each problem has one place");
}

#[test]
fn numbers_link_to_what_they_count() {
    let page = render(&sample().snapshot);
    for link in ["objects?state=failed&amp;role=primary", "#findings", "#info"] {
        assert!(page.contains(&format!("<a href=\"{link}\"><b>")), "{link} is missing: {page}");
    }

    let healthy = render(&healthy().snapshot);
    assert!(!healthy.contains("state=failed&amp;role=primary"), "nothing to show");
}

#[test]
fn only_failing_sources_are_in_sight() {
    let mut view = sample();
    let in_sight = |snapshot: &Snapshot| {
        let page = render(snapshot);
        let section = page.split("id=\"sources\"").nth(1).unwrap_or_default().to_owned();
        section.split("<details").next().unwrap_or_default().matches("<tr data-key").count()
    };
    assert_eq!(in_sight(&view.snapshot), 1);

    view.snapshot.sources.iter_mut().for_each(|source| source.up = true);
    assert_eq!(in_sight(&view.snapshot), 0);
    assert!(render(&view.snapshot).contains(" all up</summary>"));
}

#[test]
fn a_refusal_is_escaped_and_says_nothing_else() {
    let page = render_refusal("Not found", "no <b>such</b> page\n\u{202e}second line\n", 2);
    for expected in
        ["href=\"../../page.css\"", "no &lt;b&gt;such", "<pre>\u{fffd}second line</pre>"]
    {
        assert!(page.contains(expected), "{expected} is missing: {page}");
    }
    assert!(!page.contains("0.1.0") && !page.contains("<script"), "{page}");
}
