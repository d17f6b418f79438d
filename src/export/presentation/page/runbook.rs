//! One runbook, and the list of all. Their texts are Markdown, and part of the program.

use maud::{Markup, PreEscaped, html};
use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html::push_html};

use crate::export::view::{self, Runbook, all_runbooks, runbook_path};

/// The list of the runbooks.
pub(super) fn list() -> Markup {
    html! {
        nav class="trail" aria-label="Breadcrumb" { a href="./" { "Overview" } }
        article class="runbook" {
            h1 { "Runbooks" }
            ul { @for one in all_runbooks() { li { a href=(runbook_path(one.name)) { (one.name) } } } }
        }
    }
}

/// The text of a runbook, as HTML. `docs` is the URL of the other documents, if there is one.
pub(super) fn runbook(runbook: &Runbook, docs: Option<&str>) -> Markup {
    html! {
        nav class="trail" aria-label="Breadcrumb" {
            a href="../" { "Overview" } " › " a href="../runbooks" { "Runbooks" }
        }
        article class="runbook" { (PreEscaped(rendered(runbook.text, docs))) }
    }
}

fn rendered(text: &str, docs: Option<&str>) -> String {
    let mut writer = Rewriter { docs, is_code: false, is_linked: true };
    let events = Parser::new_ext(text, Options::ENABLE_TABLES);
    let mut page = String::new();

    push_html(&mut page, events.flat_map(|event| writer.rewritten(event)));
    page
}

/// Adapts the parts of a text to the page.
struct Rewriter<'a> {
    docs: Option<&'a str>,
    /// Whether the part belongs to a block of code.
    is_code: bool,
    /// Whether the link that ends next has begun.
    is_linked: bool,
}

impl Rewriter<'_> {
    fn rewritten<'e>(&mut self, event: Event<'e>) -> Vec<Event<'e>> {
        match &event {
            Event::Start(Tag::CodeBlock(_)) => self.is_code = true,
            Event::End(TagEnd::CodeBlock) => self.is_code = false,
            _ => {}
        }

        match event {
            // The browser gets no HTML except ours.
            Event::Html(text) | Event::InlineHtml(text) => vec![Event::Text(text)],
            Event::Text(text) if self.is_code => lines(&text),
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                let target = self.target(&dest_url);
                self.is_linked = target.is_some();
                let link = |url: String| Tag::Link { link_type, dest_url: url.into(), title, id };

                target.map(link).map(Event::Start).into_iter().collect()
            }
            Event::End(TagEnd::Link) if !self.is_linked => Vec::new(),
            // On a narrow screen, a row takes several lines, so that no word breaks.
            Event::Start(Tag::Table(_)) => {
                vec![Event::Html(CowStr::Borrowed("<table class=\"stacked\">"))]
            }
            other => vec![other],
        }
    }

    /// The URL on the page for the target of a link: another runbook, or a document, which loopwatch
    /// does not serve.
    fn target(&self, url: &str) -> Option<String> {
        let (file, fragment) = url.split_once('#').unwrap_or((url, ""));
        match file.strip_prefix("../") {
            None => view::runbook(file.strip_suffix(".md")?).map(|other| other.name.to_owned()),
            Some(document) if fragment.is_empty() => Some(format!("{}{document}", self.docs?)),
            Some(document) => Some(format!("{}{document}#{fragment}", self.docs?)),
        }
    }
}

/// The lines of a block of code. The frame of the page turns line breaks into spaces, but not
/// references to the character.
fn lines(text: &str) -> Vec<Event<'static>> {
    let line_break = Event::Html(CowStr::Borrowed("&#10;"));
    let line = |line: &str| [Event::Text(line.to_owned().into()), line_break.clone()];
    text.lines().flat_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::presentation::page::{frame::finished, render_runbook};
    use crate::export::view::Input;

    #[test]
    fn markdown_becomes_html_and_html_becomes_text() {
        let text = "# A\n\nb `c` <script>alert(1)</script>\n\n<img src=x>\n\n```sh\nfirst <a>\n  second\n```\n";
        let page = rendered(text, None);

        assert!(page.contains("<h1>A</h1>") && page.contains("b <code>c</code>"), "{page}");
        assert!(!page.contains("<script") && !page.contains("<img"), "{page}");
        assert!(page.contains("&lt;script&gt;alert(1)"), "{page}");
        assert!(
            finished(PreEscaped(page)).contains("first &lt;a&gt;&#10;  second&#10;</code></pre>"),
            "lines stay apart"
        );
    }

    #[test]
    fn the_rows_of_a_table_stack_on_a_narrow_screen() {
        let page = rendered("| output | cause |\n|---|---|\n| `a` | b |\n", None);

        assert!(page.starts_with("<table class=\"stacked\"><thead><tr><th>output</th>"), "{page}");
        assert!(page.ends_with("<td>b</td></tr>\n</tbody></table>\n"), "{page}");
    }

    #[test]
    fn links_lead_to_runbooks_and_to_documents_if_they_are_published() {
        let text = "[one](Overdue.md) [two](../tuning.md) [three](../alerts.md#a-b)";
        let one = "<a href=\"Overdue\">one</a>";

        assert_eq!(rendered(text, None), format!("<p>{one} two three</p>\n"));
        assert_eq!(
            rendered(text, Some("https://git.example/docs/")),
            format!(
                "<p>{one} <a href=\"https://git.example/docs/tuning.md\">two</a> \
                 <a href=\"https://git.example/docs/alerts.md#a-b\">three</a></p>\n"
            )
        );
    }

    #[test]
    fn every_runbook_is_a_page() {
        for runbook in all_runbooks() {
            let page = render_runbook(runbook, &Input::default());
            let commands = runbook.text.matches("```").count() / 2;

            assert!(page.contains(&format!("<h1>{}</h1>", runbook.name)), "{page}");
            assert!(page.contains("href=\"../page.css\""), "{page}");
            assert_eq!(page.matches("<pre>").count(), commands, "{page}");
            assert!(!page.contains(".md\""), "a link to a file: {page}");
            assert!(!page.contains("style="), "the content security policy forbids it: {page}");
        }
    }
}
