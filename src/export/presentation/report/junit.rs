//! The findings of `check` as JUnit XML, which CI systems show as failed tests. Elements and
//! attributes are those that Jenkins, GitLab and GitHub read.

use std::io;

use loopwatch_model::finding::Finding;
use loopwatch_model::snapshot::{ObjectState, Snapshot};
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesStart, BytesText, Event};

use super::FailOn;
use crate::export::view::{Findings, Input, evidence, kind_name, without_controls};

/// The name of the suite that holds the findings about anything but a kind that loopwatch watches.
const OTHERS: &str = "the operator and loopwatch";

/// Writes a suite per kind, with a failed test per finding that counts and a skipped test per other
/// finding. A kind without findings has a passed test, or a skipped one if loopwatch could not list all
/// of its objects. A finding that another one explains belongs to that one. If loopwatch could not read
/// all of its input, one test has an error.
///
/// # Errors
/// If the texts cannot be written; memory can always be.
pub(crate) fn junit(snapshot: &Snapshot, input: &Input, fail_on: &FailOn) -> io::Result<String> {
    let roots = Findings::of(snapshot).roots;
    let mut suites: Vec<Suite<'_>> = snapshot
        .kinds
        .iter()
        .map(|kind| Suite {
            name: xml_text(&kind_name(&kind.group, &kind.kind)),
            is_visible: kind.watches.iter().all(|watch| watch.synced),
            states: fail_on.objects(kind).collect(),
            findings: Vec::new(),
        })
        .collect();
    suites.push(Suite { name: OTHERS.to_owned(), is_visible: true, ..Suite::default() });

    for finding in roots {
        let name = xml_text(&kind_name(finding.subject.group(), finding.subject.kind()));
        let last = suites.len() - 1;
        let index = suites[..last].iter().position(|suite| suite.name == name).unwrap_or(last);
        suites[index].findings.push(finding);
    }

    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let all = BytesStart::new("testsuites").with_attributes([("name", "loopwatch check")]);
    writer.write_event(Event::Start(all.borrow()))?;
    for suite in suites {
        suite.write(&mut writer, fail_on)?;
    }

    if !input.is_whole() || input.shows_nothing(snapshot) {
        write_unread(&mut writer, snapshot, input)?;
    }

    writer.write_event(Event::End(all.to_end()))?;
    let mut text = String::from_utf8_lossy(&writer.into_inner()).into_owned();
    text.push('\n');
    Ok(text)
}

/// Writes a suite with one test, which has an error because a part of the input is missing.
fn write_unread(
    writer: &mut Writer<Vec<u8>>,
    snapshot: &Snapshot,
    input: &Input,
) -> io::Result<()> {
    let suite = BytesStart::new("testsuite").with_attributes([
        ("name", "the input"),
        ("tests", "1"),
        ("failures", "0"),
        ("errors", "1"),
    ]);
    let case = BytesStart::new("testcase")
        .with_attributes([("classname", "the input"), ("name", "all of it is readable")]);
    let error = BytesStart::new("error").with_attributes([
        ("type", "incomplete"),
        ("message", "loopwatch could not read all of its input, so findings may be missing"),
    ]);
    let spots = if input.shows_nothing(snapshot) {
        input.all_blind_spots(snapshot)
    } else {
        input.blind_spots()
    };
    let lines = spots.into_iter().map(|spot| format!("{}: {}", spot.what, spot.why));
    let text = xml_text(&lines.collect::<Vec<_>>().join("\n"));

    writer.write_event(Event::Start(suite.borrow()))?;
    writer.write_event(Event::Start(case.borrow()))?;
    writer.write_event(Event::Start(error.borrow()))?;
    writer.write_event(Event::Text(BytesText::new(&text)))?;
    writer.write_event(Event::End(error.to_end()))?;
    writer.write_event(Event::End(case.to_end()))?;
    writer.write_event(Event::End(suite.to_end()))
}

/// A text with a replacement for each character that XML 1.0 forbids, or that controls a terminal.
fn xml_text(text: &str) -> String {
    without_controls(text).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
}

/// The problems of one kind.
#[derive(Default)]
struct Suite<'a> {
    name: String,
    /// Whether loopwatch has listed all objects.
    is_visible: bool,
    /// The states that count, with their numbers of objects.
    states: Vec<(ObjectState, u64)>,
    findings: Vec<&'a Finding>,
}

impl Suite<'_> {
    fn write(&self, writer: &mut Writer<Vec<u8>>, fail_on: &FailOn) -> io::Result<()> {
        let failed = self.findings.iter().filter(|finding| fail_on.counts(finding)).count();
        let failures = failed + self.states.len();
        let tests = self.findings.len() + self.states.len();
        let is_unknown = tests == 0 && !self.is_visible;
        let skipped = self.findings.len() - failed + usize::from(is_unknown);
        let element = BytesStart::new("testsuite").with_attributes([
            ("name", self.name.as_str()),
            ("tests", tests.max(1).to_string().as_str()),
            ("failures", failures.to_string().as_str()),
            ("skipped", skipped.to_string().as_str()),
        ]);

        writer.write_event(Event::Start(element.borrow()))?;
        for finding in &self.findings {
            self.write_finding(writer, finding, fail_on.counts(finding))?;
        }

        for (state, count) in &self.states {
            self.write_state(writer, *state, *count)?;
        }

        if is_unknown {
            let case = BytesStart::new("testcase")
                .with_attributes([("classname", self.name.as_str()), ("name", "not visible")]);
            let skipped = BytesStart::new("skipped").with_attributes([(
                "message",
                "loopwatch could not list all objects of this kind",
            )]);
            writer.write_event(Event::Start(case.borrow()))?;
            writer.write_event(Event::Empty(skipped))?;
            writer.write_event(Event::End(case.to_end()))?;
        } else if tests == 0 {
            let passed = BytesStart::new("testcase")
                .with_attributes([("classname", self.name.as_str()), ("name", "no findings")]);
            writer.write_event(Event::Empty(passed))?;
        }

        writer.write_event(Event::End(element.to_end()))
    }

    fn write_state(
        &self,
        writer: &mut Writer<Vec<u8>>,
        state: ObjectState,
        count: u64,
    ) -> io::Result<()> {
        let name = format!("{} objects", state.as_str());
        let case = BytesStart::new("testcase")
            .with_attributes([("classname", self.name.as_str()), ("name", name.as_str())]);
        let message = format!("objects of this kind that are {}: {count}", state.as_str());
        let failure = BytesStart::new("failure")
            .with_attributes([("type", state.as_str()), ("message", message.as_str())]);

        writer.write_event(Event::Start(case.borrow()))?;
        writer.write_event(Event::Empty(failure))?;
        writer.write_event(Event::End(case.to_end()))
    }

    fn write_finding(
        &self,
        writer: &mut Writer<Vec<u8>>,
        finding: &Finding,
        counts: bool,
    ) -> io::Result<()> {
        let info = finding.info();
        let name = xml_text(&format!("{} {}", info.name, finding.subject));
        let case = BytesStart::new("testcase")
            .with_attributes([("classname", self.name.as_str()), ("name", name.as_str())]);
        let problem = BytesStart::new(if counts { "failure" } else { "skipped" })
            .with_attributes([("type", finding.severity.as_str()), ("message", info.meaning)]);
        let shown_evidence: Vec<String> =
            evidence(finding).map(|(key, value)| format!("{key} {value}")).collect();
        let lines = [shown_evidence.join(", "), info.advice.to_owned(), finding.command()];
        let text = xml_text(&lines.join("\n"));

        writer.write_event(Event::Start(case.borrow()))?;
        writer.write_event(Event::Start(problem.borrow()))?;
        writer.write_event(Event::Text(BytesText::new(&text)))?;
        writer.write_event(Event::End(problem.to_end()))?;
        writer.write_event(Event::End(case.to_end()))
    }
}

#[cfg(test)]
mod tests {
    use loopwatch_model::finding::Severity;

    use super::*;
    use crate::export::sample;

    fn fail_on(severity: Option<Severity>) -> FailOn {
        FailOn { severity, ..FailOn::default() }
    }

    fn set_synced(snapshot: &mut Snapshot, synced: bool) {
        let watches = snapshot.kinds.iter_mut().flat_map(|kind| &mut kind.watches);
        watches.for_each(|watch| watch.synced = synced);
    }

    #[test]
    fn each_finding_is_a_failed_or_a_skipped_test_and_texts_are_escaped() {
        let mut snapshot = sample::sample().snapshot;
        let total = Findings::of(&snapshot).roots.len();
        let critical = Findings::of(&snapshot).count(Severity::Critical);
        let count = |text: &str, part: &str| text.matches(part).count();
        set_synced(&mut snapshot, true);

        let text =
            junit(&snapshot, &Input::default(), &fail_on(Some(Severity::Critical))).expect("XML");
        assert_eq!(count(&text, "<failure "), critical, "{text}");
        assert_eq!(count(&text, "<skipped "), total - critical, "{text}");

        let text = junit(&snapshot, &Input::default(), &fail_on(None)).expect("XML");
        assert_eq!((count(&text, "<failure "), count(&text, "<skipped ")), (0, total));

        let hostile = "a\"<b>&\u{1b}[31m";
        for finding in &mut snapshot.findings {
            finding.subject =
                loopwatch_model::finding::Subject::Source { name: hostile.to_owned() };
        }

        let text =
            junit(&snapshot, &Input::default(), &fail_on(Some(Severity::Info))).expect("XML");
        assert!(!text.contains("<b>") && !text.contains('\u{1b}'), "{text}");

        let mut reader = quick_xml::Reader::from_str(&text);
        while !matches!(reader.read_event().expect("well-formed"), Event::Eof) {}
    }

    #[test]
    fn a_kind_without_findings_is_a_passed_test() {
        let mut snapshot = sample::sample().snapshot;
        snapshot.findings.clear();
        set_synced(&mut snapshot, true);

        let text =
            junit(&snapshot, &Input::default(), &fail_on(Some(Severity::Info))).expect("XML");
        assert_eq!(
            text.matches("name=\"no findings\"").count(),
            snapshot.kinds.len() + 1,
            "{text}"
        );
    }

    /// Whether XML 1.0 allows a character.
    fn is_of_xml(character: char) -> bool {
        matches!(character, '\t' | '\n' | '\r' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
    }

    /// A tenant may write U+FFFF into a status, and readers of XML refuse a whole file for it.
    #[test]
    fn characters_that_xml_forbids_are_replaced() {
        let mut snapshot = sample::sample().snapshot;
        for finding in &mut snapshot.findings {
            let text = loopwatch_model::finding::Value::Text("a\u{ffff}b\u{fffe}".into());
            finding.evidence = loopwatch_model::finding::Evidence::new().with("message", text);
        }

        let text =
            junit(&snapshot, &Input::default(), &fail_on(Some(Severity::Info))).expect("XML");
        let forbidden: Vec<char> = text.chars().filter(|it| !is_of_xml(*it)).collect();
        assert!(forbidden.is_empty(), "{} characters: {:?}", forbidden.len(), forbidden[0]);
    }

    #[test]
    fn names_of_kinds_have_only_characters_of_xml() {
        let mut snapshot = sample::sample().snapshot;
        snapshot.kinds[0].kind = "a\u{1}\u{1b}[31m".into();

        let text =
            junit(&snapshot, &Input::default(), &fail_on(Some(Severity::Info))).expect("XML");
        let forbidden: Vec<char> = text.chars().filter(|it| !is_of_xml(*it)).collect();
        assert!(forbidden.is_empty(), "{} characters: {:?}", forbidden.len(), forbidden[0]);
    }

    #[test]
    fn a_state_that_counts_is_a_failed_test() {
        let mut snapshot = sample::sample().snapshot;
        snapshot.findings.clear();
        let states = vec![ObjectState::Failed];
        let fail_on = FailOn { severity: None, states };
        let kinds = snapshot.kinds.iter().filter(|kind| fail_on.objects(kind).count() > 0).count();
        assert!(kinds > 0);

        let text = junit(&snapshot, &Input::default(), &fail_on).expect("XML");
        assert_eq!(text.matches("<failure type=\"failed\"").count(), kinds, "{text}");
        assert_eq!(text.matches("failures=\"1\"").count(), kinds, "{text}");
    }

    /// Otherwise, a pipeline with a truncated file would be green.
    #[test]
    fn an_input_that_was_not_read_completely_is_an_error() {
        let snapshot = sample::healthy().snapshot;
        let timed_out = Input { lists_timed_out: true, ..Input::default() };
        let text = junit(&snapshot, &timed_out, &fail_on(None)).expect("XML");
        assert_eq!(text.matches("<error ").count(), 1, "{text}");
        assert!(text.contains("before the time for them ended"), "{text}");

        let text = junit(&snapshot, &Input::default(), &fail_on(None)).expect("XML");
        assert_eq!(text.matches("<error ").count(), 0, "{text}");
    }

    /// Otherwise, a pipeline without permissions would be green.
    #[test]
    fn a_kind_that_was_not_listed_is_no_passed_test() {
        let mut snapshot = sample::sample().snapshot;
        snapshot.findings.clear();
        set_synced(&mut snapshot, false);

        let text =
            junit(&snapshot, &Input::default(), &fail_on(Some(Severity::Info))).expect("XML");
        assert!(text.matches("name=\"no findings\"").count() <= 1, "{text}");
    }
}
