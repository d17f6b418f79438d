use loopwatch_model::finding::{FindingCode, Subject};

use super::*;
use crate::export::sample::{empty, healthy, sample};
use crate::golden;

const PLAIN: Style = Style { markdown: false, colours: false, width: 100 };
const MARKDOWN: Style = Style { markdown: true, colours: false, width: 100 };

fn text(snapshot: &Snapshot, rows: Option<&[ObjectRow]>, style: Style) -> String {
    report(snapshot, rows, true, style)
}

fn report(
    snapshot: &Snapshot,
    rows: Option<&[ObjectRow]>,
    offers_all: bool,
    style: Style,
) -> String {
    let input = &Input::default();
    CheckReport { snapshot, rows, input, timeline: None, offers_all }.text(style)
}

#[test]
fn the_reports_match_their_golden_files() {
    let sample = sample();
    golden::check("tests/golden/report.txt", &text(&sample.snapshot, None, PLAIN));
    golden::check("tests/golden/report.md", &text(&sample.snapshot, Some(&sample.rows), MARKDOWN));

    let narrow = Style { width: 60, ..PLAIN };
    golden::check(
        "tests/golden/report-all-narrow.txt",
        &text(&sample.snapshot, Some(&sample.rows), narrow),
    );
    golden::check("tests/golden/report-healthy.txt", &text(&healthy().snapshot, None, PLAIN));
}

#[test]
fn prose_is_wrapped_and_commands_stay_on_one_line() {
    let sample = sample();
    for width in [60, 100, 160] {
        let report = text(&sample.snapshot, None, Style { width, ..PLAIN });
        let prose = report.lines().skip(1).filter(|line| {
            !line.starts_with("  $ ") && !line.contains(" team-") && !line.ends_with(" REASON")
        });
        for line in prose {
            assert!(line.chars().count() <= width, "{width}: {line}");
        }

        let commands: Vec<_> =
            report.lines().filter_map(|line| line.strip_prefix("  $ ")).collect();

        assert_eq!(commands.len(), 8);
        assert!(commands[2].ends_with("{.metadata.finalizers}'"));
        assert_eq!(commands[3], "loopwatch runbook FinalizerStuck");
    }
}

#[test]
fn colours_are_used_only_on_request() {
    let sample = sample();
    assert!(!text(&sample.snapshot, None, PLAIN).contains('\x1b'));

    let coloured = text(&sample.snapshot, None, Style { colours: true, ..PLAIN });
    assert!(coloured.contains("\x1b[1;31mFAILING\x1b[0m"));
}

#[test]
fn hostile_names_are_escaped_for_terminals_and_markdown() {
    const EVIL: &str = "\x1b]0;x\x07|</td><script>@everyone[a](http://evil)`";

    let mut view = sample();
    for row in &mut view.snapshot.unhealthy {
        (row.name, row.signal) = (EVIL.to_owned(), EVIL.to_owned());
    }

    assert!(!text(&view.snapshot, None, PLAIN).contains(['\x1b', '\x07']));

    let report = text(&view.snapshot, None, MARKDOWN);
    assert!(
        !report.contains("<script") && !report.contains("@everyone") && !report.contains("[a]("),
        "{report}"
    );
}

#[test]
fn an_empty_model_is_reported_as_unknown() {
    assert_eq!(
        text(&empty().snapshot, None, PLAIN),
        "UNKNOWN  because no watch is up and synced; no findings\n"
    );
}

#[test]
fn kinds_without_objects_are_only_counted_unless_all_are_requested() {
    let mut sample = healthy();
    let mut kind = sample.snapshot.kinds[0].clone();
    kind.kind = "Unused".to_owned();
    kind.namespaces.clear();

    for style in [PLAIN, MARKDOWN] {
        sample.snapshot.kinds.truncate(1);
        sample.snapshot.kinds.push(kind.clone());

        let report = text(&sample.snapshot, None, style);
        assert!(
            report.contains("1 kind without objects; show it with --all\n")
                && !report.contains("Unused"),
            "{report}"
        );

        sample.snapshot.kinds.push(kind.clone());
        let report = self::report(&sample.snapshot, None, false, style);

        assert!(report.contains("2 kinds without objects\n"), "{report}");

        let all = text(&sample.snapshot, Some(&[]), style);
        assert!(all.matches("Unused").count() == 2 && !all.contains("without objects"), "{all}");

        sample.snapshot.kinds.iter_mut().skip(1).for_each(|kind| kind.watches[0].synced = false);
        let report = text(&sample.snapshot, None, style);

        assert!(
            !report.contains("without objects"),
            "loopwatch has not seen these kinds: {report}"
        );
    }
}

#[test]
fn a_finding_of_unknown_age_shows_no_age() {
    let mut sample = sample();
    let finding = &mut sample.snapshot.findings[0];
    finding.subject =
        loopwatch_model::finding::Subject::Definition { name: "widgets.example.io".to_owned() };
    finding.found = finding.since;

    assert!(text(&sample.snapshot, None, PLAIN).contains("  - definition widgets.example.io\n"));
    assert!(
        text(&sample.snapshot, None, MARKDOWN).contains("- **definition widgets.example.io** – ")
    );
}

#[test]
fn the_steps_for_orphans_are_limited_and_the_rest_is_counted() {
    let mut snapshot = sample().snapshot;
    let orphan = |number: usize| {
        let mut orphan = snapshot.findings[0].clone();
        orphan.code = FindingCode::Orphan;
        orphan.subject = Subject::Object {
            group: String::new(),
            kind: "ConfigMap".to_owned(),
            namespace: "team-a".to_owned(),
            name: format!("lost \u{7} {number}"),
        };
        orphan
    };

    snapshot.findings = (0..5).map(orphan).collect();
    let report = text(&snapshot, None, PLAIN);
    let deletions = |trial: bool| {
        let commands = report.lines().filter(|line| line.contains("$ kubectl delete configmap '"));
        commands.filter(|line| line.ends_with(" --dry-run=server") == trial).count()
    };

    assert_eq!((deletions(true), deletions(false)), (3, 3), "{report}");
    assert!(report.contains("and the steps for 2 more; -o json lists them"), "{report}");
    assert!(!report.contains('\u{7}'), "{report}");
}
