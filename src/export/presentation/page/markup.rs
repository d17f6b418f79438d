//! Parts that all pages share. `maud` escapes every value that a page shows.

use loopwatch_model::time::Timestamp;
use maud::{Markup, Render, display, html};

use crate::export::view::{self, Number};

/// A `<time>` element: RFC 3339 in its attribute, a readable form as its text.
pub(super) struct UtcTime(pub(super) Timestamp);

/// The time between now and a timestamp; the timestamp itself is the tooltip.
pub(super) struct Age(pub(super) Timestamp, pub(super) Timestamp);

impl Render for UtcTime {
    fn render(&self) -> Markup {
        html! { time datetime=(self.0.to_string()) { (view::utc(self.0)) } }
    }
}

impl Render for Age {
    fn render(&self) -> Markup {
        let Self(now, since) = self;
        let since_text = since.to_string();
        html! {
            time datetime=(since_text) title=(since_text) { (display(view::age(*now, *since))) }
        }
    }
}

impl Render for Number {
    fn render_to(&self, buffer: &mut String) {
        display(self).render_to(buffer);
    }
}

pub(super) fn ago(now: Timestamp, at: Timestamp) -> Markup {
    html! { (Age(now, at)) " ago" }
}

/// A section with a heading.
pub(super) fn section(id: &str, title: &str, content: &Markup) -> Markup {
    html! {
        section aria-labelledby=(id) { h2 id=(id) { (title) } (content) }
    }
}

/// A table that scrolls within the page. `id` is the ID of the heading above it.
pub(super) fn table(id: &str, columns: &[&str], rows: &Markup) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="region" aria-labelledby=(id) {
            table class="stacked" { (heading_row(columns)) tbody { (rows) } }
        }
    }
}

pub(super) fn heading_row(columns: &[&str]) -> Markup {
    html! {
        thead { tr { @for column in columns { th scope="col" { (column) } } } }
    }
}

/// A state with its colour.
pub(super) fn state(class: &str, word: &str) -> Markup {
    html! { span class={ "state " (class) } { (word) } }
}

/// The text, or a dash if it is empty.
pub(super) fn or_dash(text: &str) -> &str {
    if text.is_empty() { "–" } else { text }
}

/// How many of `all` entries come after the first `shown`, if any.
pub(super) fn beyond(shown: usize, all: usize) -> Option<Number> {
    all.checked_sub(shown).filter(|more| *more > 0).map(|more| Number(more as u64))
}
