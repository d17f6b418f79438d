//! The web page, for people who reach loopwatch over `kubectl port-forward`.
//!
//! The server renders the whole page, so that it is complete without JavaScript and only this
//! module turns a snapshot into markup. The script fetches the page every few seconds and applies
//! the differences. Names and messages come from tenants: [`Escaped`] escapes all of them, and the
//! content security policy stops the browser from running anything except this server's own script
//! file.

mod chart; // small charts of the recent past
mod findings; // cards for findings
pub(crate) mod link; // names of objects, and links to them
mod object; // one object
mod objects; // a table of objects
mod operator; // the operator itself
mod relations; // deletions, ownership and references
mod tables; // kinds, unhealthy objects, sources, blind spots
mod timeline; // the last hours

use std::fmt::{self, Write as _};

use loopwatch_model::finding::Severity;
use loopwatch_model::snapshot::{
    ExplainedObject, Explanation, Health, ObjectState, RecentPast, Snapshot,
};
use loopwatch_model::time::{Span, Timestamp};

pub(crate) use self::objects::ObjectTable;
use crate::export::view::{
    Findings, Input, Number, RecordingInput, capitalised, controls_display, objects_by_state,
    objects_in_words, overall_health,
};

/// Allows the browser to load our two files and forbids everything inline.
pub(crate) const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
     img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// The style sheet.
pub(crate) const CSS: &str = include_str!("page/page.css");

/// The script.
pub(crate) const JS: &str = include_str!("page/page.js");

const TEMPLATE: &str = include_str!("page/page.html");

/// The filter of a page, which hides what does not match; it needs the script. A link to the page
/// may fill it in.
fn filter(words: &str) -> String {
    format!(
        "<label class=\"filter\"><span class=\"hidden\">Filter by name, namespace, kind, or finding</span>\
         <input id=\"filter\" type=\"search\" value=\"{}\" placeholder=\"Filter (press /)\" autocomplete=\"off\" \
         spellcheck=\"false\"></label>",
        Escaped(words)
    )
}

/// Renders the overview. `words` fill in the filter.
#[must_use]
pub(crate) fn render(snapshot: &Snapshot, past: &RecentPast, input: &Input, words: &str) -> String {
    let health = overall_health(snapshot);
    let mut main = String::with_capacity(32 * 1024);
    recording(&mut main, input);
    headline(&mut main, snapshot, health);

    let blind_spots = input.all_blind_spots(snapshot);
    findings::write(&mut main, snapshot, blind_spots.is_empty());
    tables::unhealthy_objects(&mut main, snapshot);
    timeline::write(&mut main, past);
    relations::deletions(&mut main, snapshot);
    relations::ownership_and_references(&mut main, snapshot);
    operator::operator(&mut main, snapshot);
    tables::kinds(&mut main, snapshot);

    tables::blind_spots(&mut main, &blind_spots);
    tables::sources(&mut main, snapshot);
    in_template(health, &filter(words), &main)
}

/// Renders the page of one object. `trace_id` is empty without traces.
#[must_use]
pub(crate) fn render_object(
    snapshot: &Snapshot,
    explanation: &Explanation,
    trace_id: &str,
    input: &Input,
) -> String {
    let mut main = String::with_capacity(16 * 1024);
    recording(&mut main, input);
    object::write(
        &mut main,
        snapshot,
        explanation,
        trace_id,
        &input.blind_spots_of_one_object(snapshot),
    );

    let ExplainedObject { kind, name, state, .. } = &explanation.object;
    in_template(&Escaped(&format!("{state} · {kind} {name}")).to_string(), &filter(""), &main)
}

/// Renders a page that says why there is no other one.
#[must_use]
pub(crate) fn render_problem(title: &str, problem: &str) -> String {
    let mut main = String::new();
    object::problem(&mut main, title, problem);
    in_template(title, "", &main)
}

/// Renders the table of objects.
#[must_use]
pub(crate) fn render_objects(
    snapshot: &Snapshot,
    table: &ObjectTable<'_>,
    input: &Input,
) -> String {
    let mut main = String::with_capacity(32 * 1024);
    recording(&mut main, input);
    objects::write(&mut main, snapshot, table);
    in_template("Objects", "", &main)
}

fn in_template(title: &str, tools: &str, main: &str) -> String {
    fill(TEMPLATE, |name| match name {
        "title" => title,
        "tools" => tools,
        "main" => main,
        "version" => crate::telemetry::VERSION,
        _ => "",
    })
}

/// Replaces each `{{name}}` with its value, in one pass: placeholders inside values stay as they
/// are.
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

// `write!` to a `String` cannot fail, so this module and its children ignore the result.

/// Says that the page shows a recording, and whether it still plays. While it does, the script
/// looks every second.
fn recording(page: &mut String, input: &Input) {
    let Some(RecordingInput { begins: Some(begins), shows: Some(shows), speed, .. }) =
        &input.recording
    else {
        return;
    };
    let elapsed = shows.since(*begins);
    let _ = match speed {
        Some(speed) => write!(
            page,
            "<p class=\"recording\" role=\"note\" data-every=\"1000\"><b>A recording plays</b> at {speed} times its original speed. \
             {elapsed} have passed since it began.</p>"
        ),
        None => write!(
            page,
            "<p class=\"recording\" role=\"note\"><b>The recording has ended.</b> This page shows its last moment, {elapsed} after it \
             began.</p>"
        ),
    };
}

fn headline(page: &mut String, snapshot: &Snapshot, health: &str) {
    let states = objects_by_state(snapshot);
    let _ = write!(
        page,
        "<section class=\"headline {health}\" aria-label=\"Overall health\"><h1><span class=\"dot\" aria-hidden=\"true\"></span>{}</h1>",
        capitalised(health)
    );
    let _ = match (health, objects_in_words(snapshot)) {
        ("unknown", _) => write!(page, "<p>No watch is up and synced.</p>"),
        (_, None) => write!(page, "<p>No objects of primary kinds found.</p>"),
        (_, Some(objects)) => write!(page, "<p>{objects}.</p>"),
    };

    let findings = Findings::of(snapshot);
    page.push_str("<ul class=\"counts\">");
    for severity in [Severity::Critical, Severity::Warning, Severity::Info] {
        count_tile(page, severity.as_str(), findings.count(severity) as u64, "finding");
    }

    for state in
        [ObjectState::Overdue, ObjectState::Failed, ObjectState::Terminating, ObjectState::Unknown]
    {
        count_tile(page, state.as_str(), states[state as usize], "object");
    }

    page.push_str("</ul>");
    namespaces(page, snapshot);

    let _ = write!(page, "<p class=\"asof\">As of {}</p></section>", UtcTime(snapshot.at));
}

/// Namespaces that are not healthy, worst first.
fn namespaces(page: &mut String, snapshot: &Snapshot) {
    const SHOWN: usize = 20;

    let mut unhealthy: Vec<_> =
        snapshot.health.iter().filter(|(_, health)| **health != Health::Healthy).collect();
    unhealthy.sort_by_key(|(name, health)| (std::cmp::Reverse(**health), *name));
    if unhealthy.is_empty() {
        return;
    }

    page.push_str("<p class=\"namespaces\">");
    for (name, health) in unhealthy.iter().take(SHOWN) {
        let (name, health) =
            (if name.is_empty() { "cluster-scoped" } else { name }, health.as_str());
        let _ = write!(
            page,
            "<span class=\"{health}\" data-find><bdi>{}</bdi> {health}</span>",
            Escaped(name)
        );
    }

    let _ = match unhealthy.len().saturating_sub(SHOWN) {
        0 => write!(page, "</p>"),
        more => write!(page, "<span>and {} more</span></p>", Number(more as u64)),
    };
}

/// A number with its label, such as "3 failed objects".
fn count_tile(page: &mut String, class: &str, count: u64, noun: &str) {
    let zero = if count == 0 { " zero" } else { "" };
    let plural = if count == 1 { "" } else { "s" };
    let _ = write!(
        page,
        "<li class=\"{class}{zero}\"><b>{}</b> <span>{class} {noun}{plural}</span></li>",
        Number(count)
    );
}

/// Text escaped for markup and for quoted attributes. Replaces control characters and
/// text-direction marks, so that no name can look like another.
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
                other if controls_display(other) => f.write_char('\u{fffd}')?,
                other => f.write_char(other)?,
            }
        }

        Ok(())
    }
}

/// A `<time>` element: RFC 3339 in its attribute, a readable form as its text.
struct UtcTime(Timestamp);

impl fmt::Display for UtcTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string();
        let whole = text.split(['.', 'Z']).next().unwrap_or_default();
        let shown = whole.replacen('T', " ", 1) + " UTC";
        write!(f, "<time datetime=\"{text}\">{shown}</time>")
    }
}

/// The time between now and a timestamp; the timestamp itself is the tooltip.
struct Age(Timestamp, Timestamp);

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(now, since) = self;
        let age = Span(now.since(*since).0.abs());
        write!(f, "<time datetime=\"{since}\" title=\"{since}\">{age}</time>")
    }
}

#[cfg(test)]
mod tests;
