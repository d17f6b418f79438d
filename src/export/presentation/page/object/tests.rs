use loopwatch_model::snapshot::{
    ExplainedChange, ExplainedCondition, ExplainedEvent, Explanation, RecentPast,
};

use super::super::{Wish, render, render_object, render_problem};
use crate::export::sample::{self, sample};
use crate::export::view::Input;

fn page_of(explanation: &Explanation) -> String {
    render_object(&sample().snapshot, explanation, "", &Input::default())
}

#[test]
fn the_page_of_an_object_shows_everything_that_explain_knows() {
    let page = page_of(&sample::explanation());
    for expected in [
        "<title>terminating · Database orders-legacy · loopwatch</title>",
        "<a href=\"objects?kind=db.example.io%2FDatabase\">Database <small>db.example.io</small></a>",
        "<li>To converge: the spec changed 3d5h ago; the deadline passed 3d4h ago (learned)</li>",
        "<h3>FinalizerStuck</h3>",
        "<th scope=\"row\"><bdi>Ready</bdi></th><td>False</td>",
        "<td>Deleting <small>the volume is in use</small></td>",
        "<bdi>db.example.io/volume-cleanup</bdi></th><td>field manager db-operator (removed it from other objects)</td>",
        "<span class=\"kind\">Plan</span> <bdi><span class=\"ns\">team-a/</span>large</bdi> \
         <span class=\"state failed\">does not exist</span>",
        "href=\"object?group=core&amp;kind=Pod&amp;namespace=team-a&amp;name=orders-3\"",
        "<section class=\"headline degraded\"",
        " · <a href=\"api/v1/explain?group=db.example.io&amp;kind=Database&amp;namespace=team-a&amp;name=orders-legacy\">as JSON</a>",
        "<li><small>and 12 more</small></li>",
        "<span class=\"what\">FinalizerStuck opened</span>",
        "<span class=\"what\">the spec changed</span>",
        "<bdi>db-operator</bdi></th><td>status, finalizers</td>",
        "<b>owners and children of other kinds</b><span>loopwatch watches only Database.db.example.io, ",
    ] {
        assert!(page.contains(expected), "{expected:?} is missing: {page}");
    }

    assert!(!page.contains("name=large"), "no link to an object that does not exist");

    let (opened, changed) =
        (page.find("FinalizerStuck opened"), page.find("the spec changed</span>"));

    assert!(opened < changed, "the newest entry comes first");
}

#[test]
fn an_opened_finding_has_the_colour_of_its_severity() {
    let mut explanation = sample::explanation();
    explanation.timeline[0].severity = "info".to_owned();
    let mut critical = explanation.timeline[0].clone();
    (critical.code, critical.severity) = ("Unacknowledged".to_owned(), "critical".to_owned());
    explanation.timeline.push(critical);

    let page = page_of(&explanation);
    for expected in [
        "<li class=\"opened info\" ",
        "<li class=\"opened critical\" ",
        "<svg class=\"informs\" ",
        "<svg class=\"bad\" ",
        "<li class=\"event\" ",
    ] {
        assert!(page.contains(expected), "{expected:?} is missing: {page}");
    }
}

#[test]
fn a_converged_object_has_only_the_sections_that_it_needs() {
    let mut explanation = Explanation { at: sample::now(), ..Explanation::default() };
    (explanation.object.kind, explanation.object.name) = ("Widget".to_owned(), "web".to_owned());
    explanation.object.state = "converged".to_owned();

    let page = page_of(&explanation);
    assert!(page.contains("No open findings about this object or its kind."));

    for absent in
        ["Obligation", "Conditions", "Finalizers", "Owners", "Children", "Timeline", "Written by"]
    {
        assert!(!page.contains(absent), "{absent}");
    }
}

#[test]
fn the_page_names_the_trace_only_if_there_is_one() {
    const ID: &str = "39cdcabd88df6a67d85622020c9ff471";

    let explanation = sample::explanation();
    let page = render_object(&sample().snapshot, &explanation, ID, &Input::default());

    assert!(
        page.contains(&format!("<dt>trace</dt><dd><code class=\"trace\">{ID}</code></dd>")),
        "{page}"
    );
    assert!(!page_of(&explanation).contains("trace"));
}

#[test]
fn the_reason_of_a_state_is_in_words() {
    let mut explanation = sample::explanation();
    (explanation.object.signal, explanation.object.reason) =
        (String::new(), "CountsShort".to_owned());

    let page = page_of(&explanation);
    assert!(
        page.contains(": fewer replicas are ready than wanted</p>")
            && !page.contains("CountsShort"),
        "{page}"
    );

    explanation.object.reason = "OfALaterRelease".to_owned();
    assert!(page_of(&explanation).contains(": OfALaterRelease</p>"));

    explanation.object.reason = String::new();
    assert!(!page_of(&explanation).contains(": </p>"), "the watch is blind");
}

#[test]
fn every_object_on_the_overview_links_to_its_page() {
    let page =
        render(&sample().snapshot, &RecentPast::default(), &Input::default(), Wish::default());
    let link = "<a class=\"object\" href=\"object?group=db.example.io&amp;kind=Database&amp;namespace=team-a&amp;name=orders-legacy\">";

    assert_eq!(
        page.matches(link).count(),
        3,
        "in a finding, in the list of objects, and in that of deletions: {page}"
    );

    let absolute = |(_, rest): (usize, &str)| {
        let target = rest.trim_start_matches("href=\"");
        target.starts_with("http") || target.starts_with('/')
    };
    let all = page.match_indices("href=\"").map(|(at, _)| (at, &page[at..]));

    assert!(!all.clone().any(absolute), "links are relative");
}

#[test]
fn hostile_text_about_an_object_is_escaped() {
    const EVIL: &str = "\"><script>alert(1)</script>&amp;'?#%\u{202e}\u{7}{{main}}";

    let text = EVIL.to_owned();
    let mut explanation = sample::explanation();
    let condition = ExplainedCondition {
        r#type: text.clone(),
        status: text.clone(),
        reason: text.clone(),
        message: text.clone(),
        changed: None,
    };

    let event =
        ExplainedEvent { code: text.clone(), change: text.clone(), ..ExplainedEvent::default() };
    let change = ExplainedChange {
        part: text.clone(),
        name: text.clone(),
        was: String::new(),
        value: text.clone(),
        ..Default::default()
    };

    (explanation.conditions, explanation.timeline, explanation.changes) =
        (vec![condition], vec![event], vec![change]);
    (explanation.message, explanation.phase) = (text.clone(), text.clone());
    explanation.writers[0].manager.clone_from(&text);
    explanation.writers[0].parts = vec![text.clone()];

    let node = explanation.children[0].object.clone();
    for object in [
        &mut explanation.object,
        &mut explanation.owners[0].object,
        &mut explanation.children[0].object,
    ] {
        (object.group, object.kind, object.namespace, object.name) =
            (text.clone(), text.clone(), text.clone(), text.clone());
        (object.state, object.signal, object.uid) = (text.clone(), text.clone(), text.clone());
        object.findings = vec![text.clone()];
        object.finalizers = sample::explanation().object.finalizers;
        (object.finalizers[0].name, object.finalizers[0].actor) = (text.clone(), text.clone());
        object.finalizers[0].verdict.clone_from(&text);
    }

    assert_ne!(node, explanation.children[0].object);

    let traced = render_object(&sample().snapshot, &explanation, EVIL, &Input::default());
    for page in
        [page_of(&explanation), traced, render_problem("Not found", EVIL, &Input::default())]
    {
        assert!(!page.contains("<script>") && !page.contains('\u{202e}'), "{page}");
        assert!(!page.contains('\u{7}'));
    }

    let link = "name=%22%3E%3Cscript%3Ealert%281%29%3C%2Fscript%3E%26amp%3B%27%3F%23%25%E2%80%AE%07%7B%7Bmain%7D%7D\"";
    assert!(page_of(&explanation).contains(link), "the link still leads to the object");
}
