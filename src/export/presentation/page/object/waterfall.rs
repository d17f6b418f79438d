//! Shows the last piece of work on an object as bars over time.

use loopwatch_model::snapshot::Explanation;
use loopwatch_model::time::{Span, Timestamp};
use maud::{Markup, html};

use crate::export::presentation::page::markup::UtcTime;
use crate::export::view::{Bar, Lane, Tone, Waterfall, waterfall};

/// The maximum number of labels below the bars.
const MAX_TICKS: i64 = 5;

/// The narrowest bar that has its text inside, as a share of the width.
const ROOM_FOR_TEXT: f64 = 0.08;

/// The share of the width after which a label ends at its tick instead of beginning there: the rest
/// of a narrow screen has no room for it.
const ENDS_AT: f64 = 0.84;

/// The steps between two ticks, in seconds.
const STEPS: [i64; 22] = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200,
    86_400, 172_800, 604_800, 2_592_000, 31_536_000,
];

/// The bars, unless nothing is known about the last work on the object.
pub(super) fn bars(explanation: &Explanation) -> Markup {
    let Some(waterfall) = waterfall(explanation) else { return Markup::default() };
    let (began, cause) = waterfall.cause;
    html! {
        figure class="waterfall" {
            figcaption {
                "From " (cause) " at " (UtcTime(began)) ", " (waterfall.to.since(began)) ":"
            }
            @for lane in &waterfall.lanes { (row(&waterfall, lane)) }
            (axis(&waterfall))
        }
    }
}

fn row(waterfall: &Waterfall, lane: &Lane) -> Markup {
    html! {
        div class="lane" {
            span { bdi { (lane.label) } }
            svg role="img" aria-label={ (lane.label) ": " (in_words(lane)) } {
                @for bar in &lane.bars { (drawn(waterfall, bar)) }
            }
        }
    }
}

/// A bar with its text, which is also its tooltip. The inner picture cuts a text that is too long.
fn drawn(waterfall: &Waterfall, bar: &Bar) -> Markup {
    let (x, end) = (place(waterfall, bar.from), place(waterfall, bar.to));
    let width = end - x;
    let took = bar.to.since(bar.from);
    html! {
        svg class=(class(bar.tone)) x=(percent(x)) width=(percent(width.max(0.004))) height="100%" {
            title { (bar.text) @if took > Span::ZERO { " · " (took) } }
            rect width="100%" height="100%" {}
            @if width >= ROOM_FOR_TEXT { text x="6" y="13" { (bar.text) } }
        }
    }
}

/// The time since the cause, in round steps. On a narrow screen, the labels of every other tick are
/// hidden, because they would overlap.
fn axis(waterfall: &Waterfall) -> Markup {
    let (began, length) = (waterfall.cause.0, waterfall.to.since(waterfall.cause.0).0);
    let fits = |step: &&i64| length / (**step * 1_000) <= MAX_TICKS;
    let step = STEPS.iter().find(fits).copied().unwrap_or(STEPS[STEPS.len() - 1]) * 1_000;
    let ticks = (0..=MAX_TICKS).map(|tick| Span(tick * step)).filter(|tick| tick.0 <= length);

    html! {
        div class="lane axis" aria-hidden="true" {
            span {}
            svg {
                @for (number, tick) in ticks.enumerate() {
                    @let x = place(waterfall, began.after(tick));
                    @let anchor = if x > ENDS_AT { "end" } else { "start" };
                    line x1=(percent(x)) x2=(percent(x)) y2="5" {}
                    text class=[(number % 2 == 1).then_some("odd")] x=(percent(x)) y="17"
                        text-anchor=(anchor) { "+" (tick) }
                }
            }
        }
    }
}

fn in_words(lane: &Lane) -> String {
    let bars = lane.bars.iter().map(|bar| match bar.to.since(bar.from) {
        Span::ZERO => bar.text.clone(),
        took => format!("{} for {took}", bar.text),
    });
    bars.collect::<Vec<_>>().join(", then ")
}

/// The share of the width before an instant.
fn place(waterfall: &Waterfall, at: Timestamp) -> f64 {
    let all = waterfall.to.since(waterfall.from).seconds().max(0.001);
    (at.since(waterfall.from).seconds() / all).clamp(0.0, 1.0)
}

fn percent(share: f64) -> String {
    format!("{:.2}%", share * 100.0)
}

const fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Waits => "waits",
        Tone::Plain => "plain",
        Tone::Hollow => "hollow",
        Tone::Good => "good",
        Tone::Informs => "informs",
        Tone::Warns => "warns",
        Tone::Bad => "bad",
    }
}
