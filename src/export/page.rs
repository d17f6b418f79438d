//! The page: one look for people, over `kubectl port-forward`.
//!
//! It is written here as a whole, so that it says everything without a script and there is only one place that turns
//! the snapshot into markup. The script fetches it again every few seconds and carries over what changed. Names and
//! messages come from tenants: everything passes [`Escaped`], and the policy below keeps the browser from running
//! anything that this server did not send as a file of its own.

mod findings; // what is wrong
mod tables; // kinds, objects, sources, blind spots

use std::fmt::{self, Write as _};

use loopwatch_model::finding::Severity;
use loopwatch_model::snapshot::{Health, ObjectState, Snapshot};
use loopwatch_model::time::Timestamp;

use super::summary::{self, Number};

/// What the browser may load and run: our own two files, and nothing inline.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
     img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The style sheet.
pub const CSS: &str = include_str!("page/page.css");

/// The script.
pub const JS: &str = include_str!("page/page.js");

const TEMPLATE: &str = include_str!("page/page.html");

/// The whole page.
#[must_use]
pub fn render(snapshot: &Snapshot) -> String {
    let word = summary::overall(snapshot);
    let mut main = String::with_capacity(32 * 1024);
    headline(&mut main, snapshot, word);
    findings::write(&mut main, snapshot);
    tables::kinds(&mut main, snapshot);
    tables::objects(&mut main, snapshot);
    tables::blind_spots(&mut main, snapshot);
    tables::sources(&mut main, snapshot);
    fill(TEMPLATE, |name| match name {
        "word" => word,
        "main" => &main,
        "version" => crate::telemetry::VERSION,
        _ => "",
    })
}

/// Puts values in the place of `{{names}}`, in one pass: what a value holds is not looked at.
fn fill<'a>(template: &str, value: impl Fn(&str) -> &'a str) -> String {
    let mut page = String::with_capacity(template.len() + 32 * 1024);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").unwrap_or((after, ""));
        page.push_str(before);
        page.push_str(value(name));
        rest = after;
    }
    page.push_str(rest);
    page
}

// `write!` into a string does not fail, so its result is dropped throughout.

fn headline(page: &mut String, snapshot: &Snapshot, word: &str) {
    let states = summary::states(snapshot);
    let _ = write!(
        page,
        "<section class=\"headline {word}\" aria-label=\"Overall\"><h1><span class=\"dot\" aria-hidden=\"true\"></span>{}</h1>",
        capitalised(word)
    );
    let _ = match (word, summary::objects(snapshot)) {
        ("unknown", _) => write!(page, "<p>Nothing has been seen yet.</p>"),
        (_, None) => write!(page, "<p>There are no objects of primary kinds.</p>"),
        (_, Some(objects)) => write!(page, "<p>{objects}.</p>"),
    };
    let findings = summary::Findings::of(snapshot);
    page.push_str("<ul class=\"counts\">");
    for (severity, one, many) in [
        (Severity::Critical, "critical finding", "critical findings"),
        (Severity::Warning, "warning", "warnings"),
        (Severity::Info, "note", "notes"),
    ] {
        let count = findings.count(severity) as u64;
        count_tile(page, severity.as_str(), count, if count == 1 { one } else { many });
    }
    for state in [ObjectState::Overdue, ObjectState::Failed, ObjectState::Terminating, ObjectState::Unknown] {
        count_tile(page, state.as_str(), states[state as usize], state.as_str());
    }
    page.push_str("</ul>");
    namespaces(page, snapshot);
    let _ = write!(page, "<p class=\"asof\">As of {}</p></section>", Instant(snapshot.at));
}

/// Which namespaces are not healthy, worst first.
fn namespaces(page: &mut String, snapshot: &Snapshot) {
    const SHOWN: usize = 20;
    let mut ill: Vec<_> = snapshot.health.iter().filter(|(_, health)| **health != Health::Healthy).collect();
    ill.sort_by_key(|(name, health)| (std::cmp::Reverse(**health), *name));
    if ill.is_empty() {
        return;
    }
    page.push_str("<p class=\"namespaces\">");
    for (name, health) in ill.iter().take(SHOWN) {
        let (name, word) = (if name.is_empty() { "cluster-scoped" } else { name }, health.as_str());
        let _ = write!(page, "<span class=\"{word}\" data-find><bdi>{}</bdi> {word}</span>", Escaped(name));
    }
    let _ = match ill.len().saturating_sub(SHOWN) {
        0 => write!(page, "</p>"),
        more => write!(page, "<span>and {} more</span></p>", Number(more as u64)),
    };
}

fn count_tile(page: &mut String, class: &str, count: u64, label: &str) {
    let zero = if count == 0 { " zero" } else { "" };
    let _ = write!(page, "<li class=\"{class}{zero}\"><b>{}</b> <span>{label}</span></li>", Number(count));
}

fn capitalised(word: &str) -> String {
    let mut characters = word.chars();
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}

/// Text in markup or in a quoted attribute. Characters that steer the display instead of showing something are
/// replaced: a name must not be able to look like another one.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\n' => f.write_char(' ')?,
                other if summary::steers(other) => f.write_char('\u{fffd}')?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

/// An instant: as a machine reads it, and as people do.
struct Instant(Timestamp);

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string();
        let shown = text.replacen('T', " ", 1).replacen('Z', " UTC", 1);
        write!(f, "<time datetime=\"{text}\">{shown}</time>")
    }
}

/// How long something has lasted, with the instant at which it began.
struct Age<'a>(&'a Snapshot, Timestamp);

impl fmt::Display for Age<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(snapshot, since) = self;
        write!(f, "<time datetime=\"{since}\" title=\"since {since}\">{}</time>", snapshot.at.since(*since))
    }
}

#[cfg(test)]
mod tests;
