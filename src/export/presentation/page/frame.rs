//! The frame around the content of all pages.

use maud::{Markup, PreEscaped, html};

use crate::export::view::controls_display;
use crate::telemetry::VERSION;

const ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' \
    viewBox='0 0 32 32'%3E%3Cpath d='M24 10a10 10 0 1 0 1.5 9' fill='none' stroke='%232f6fde' \
    stroke-width='4' stroke-linecap='round'/%3E%3Cpath d='M27 4v8h-8' fill='none' \
    stroke='%232f6fde' stroke-width='4' stroke-linecap='round' stroke-linejoin='round'/%3E%3C/svg%3E";

/// A whole page. `tools` is part of its header.
pub(super) fn page(title: &str, tools: &Markup, main: &Markup) -> String {
    page_below("", title, tools, main)
}

/// A whole page about many operators. loopwatch itself knows no objects.
pub(super) fn page_of_many(title: &str, tools: &Markup, main: &Markup) -> String {
    let links = html! { a href="api/v1/operators" { "operators" } ", " a href="api/v1/status" { "status" } };
    frame("", title, (tools, &Markup::default()), main, &links)
}

/// A whole page in a folder, from which the relative URL `root` leads to the overview.
pub(super) fn page_below(root: &str, title: &str, tools: &Markup, main: &Markup) -> String {
    let objects = html! { a class="to" href={ (root) "objects" } { "Objects" } };
    let links = html! {
        a href={ (root) "api/v1/status" } { "status" } ", "
        a href={ (root) "api/v1/findings" } { "findings" } ", "
        a href={ (root) "api/v1/objects" } { "objects" } ", "
        a href={ (root) "api/v1/operator" } { "operator" }
    };
    frame(root, title, (tools, &objects), main, &links)
}

/// A page with the parts of its header, and the links to its JSON.
fn frame(
    root: &str,
    title: &str,
    (tools, more): (&Markup, &Markup),
    main: &Markup,
    links: &Markup,
) -> String {
    let page = html! {
        (PreEscaped("<!doctype html>"))
        html lang="en" {
            head {
                (head(root, title))
                script src={ (root) "page.js" } defer {}
            }
            body {
                a class="skip" href="#main" { "Skip to content" }
                (header(root, tools, more))
                main id="main" { (main) }
                (footer(root, links))
            }
        }
    };

    finished(page) + "\n"
}

/// A whole page with only a title and a text, which may have several lines.
pub(super) fn refusal(root: &str, title: &str, text: &str) -> String {
    let page = html! {
        (PreEscaped("<!doctype html>"))
        html lang="en" {
            head { (head(root, title)) }
            body {
                header { (logo()) a class="name" href={ (root) "./" } { "loopwatch" } }
                main {
                    section class="headline unknown" aria-label="Problem" {
                        h1 { (title) }
                        @for line in text.lines() { pre { (line) } }
                    }
                }
            }
        }
    };

    finished(page) + "\n"
}

fn head(root: &str, title: &str) -> Markup {
    html! {
        meta charset="utf-8";
        meta name="viewport" content="width=device-width, initial-scale=1";
        meta name="color-scheme" content="light dark";
        title { (title) " · loopwatch" }
        link rel="icon" href=(ICON);
        link rel="stylesheet" href={ (root) "page.css" };
    }
}

fn logo() -> Markup {
    html! {
        svg class="logo" viewBox="0 0 32 32" aria-hidden="true" {
            path d="M24 10a10 10 0 1 0 1.5 9" {}
            path d="M27 4v8h-8" {}
        }
    }
}

fn header(root: &str, tools: &Markup, more: &Markup) -> Markup {
    html! {
        header {
            (logo())
            a class="name" href={ (root) "./" } { "loopwatch" }
            (tools)
            (more)
            button id="pause" type="button" aria-pressed="false" { "Pause" }
            span id="live" role="status" aria-live="polite" {}
        }
    }
}

fn footer(root: &str, links: &Markup) -> Markup {
    html! {
        footer {
            p {
                "loopwatch " (VERSION) " · read-only · " a href={ (root) "metrics" } { "Metrics" } " · JSON: " (links)
            }
            noscript { p { "JavaScript is off. Reload the page to update it." } }
        }
    }
}

/// The filter of the overview. With the script, it hides everything that does not match, and the
/// address of the page contains its words. Without the script, it searches all objects.
pub(super) fn filter(words: &str) -> Markup {
    search_form("filter", "Filter by name, namespace, kind, or finding", "Filter (press /)", words)
}

/// The field of other pages that searches all objects.
pub(super) fn search() -> Markup {
    search_form("search", "Search all objects by name or namespace", "Search objects (press /)", "")
}

fn search_form(id: &str, label: &str, placeholder: &str, words: &str) -> Markup {
    html! {
        form class="find" role="search" action="objects" method="get" {
            label class="hidden" for=(id) { (label) }
            input id=(id) name="search" type="search" value=(words) placeholder=(placeholder)
                maxlength="256" autocomplete="off" autocapitalize="none" spellcheck="false";
        }
    }
}

/// What the script shows if nothing on the page matches the filter.
pub(super) fn nothing_matches() -> Markup {
    html! {
        p id="nothing" class="panel" role="status" hidden {
            "Nothing on this page matches the filter. " a href="objects" { "Search all objects" }
        }
    }
}

/// The text of a page. Replaces control characters and text-direction marks, which could make one
/// name look like another.
pub(super) fn finished(page: Markup) -> String {
    let replaced = |character| match character {
        '\n' => ' ',
        other if controls_display(other) => '\u{fffd}',
        other => other,
    };
    page.into_string().chars().map(replaced).collect()
}
