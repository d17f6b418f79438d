//! Links to the page of each object, and to the table of a kind's objects.

use loopwatch_model::finding::Subject;
use loopwatch_model::snapshot::ObjectState;
use maud::{Markup, Render, html};

use crate::export::view::{ObjectName, encoded};

/// `kind` and `namespace/name`, as a link to the page of the object.
pub(super) struct Link<'a>(pub(super) ObjectName<'a>);

/// The same text without a link.
pub(super) struct Plain<'a>(pub(super) ObjectName<'a>);

impl Render for Link<'_> {
    fn render(&self) -> Markup {
        html! { a class="object" href=(self.0.path()) { (Plain(self.0)) } }
    }
}

impl Render for Plain<'_> {
    fn render(&self) -> Markup {
        let ObjectName { kind, namespace, name, .. } = self.0;
        html! {
            span class="kind" { (kind) } " "
            bdi { @if !namespace.is_empty() { span class="ns" { (namespace) "/" } } (name) }
        }
    }
}

/// The subject of a finding; a link if it is an object.
pub(super) fn subject(subject: &Subject) -> Markup {
    match subject {
        Subject::Object { group, kind, namespace, name } => {
            let object = ObjectName { group, kind, namespace, name };
            if object.may_have_page() { Link(object).render() } else { Plain(object).render() }
        }
        Subject::Kind { kind, .. } => html! { span class="kind" { (kind) } " all objects" },
        other => html! { bdi { (maud::display(other)) } },
    }
}

/// The path of the table of the objects that the overview counts in a state.
pub(super) fn objects_in_state(state: ObjectState) -> String {
    format!("objects?state={}&role=primary", state.as_str())
}

/// The path of the table of a kind's objects.
pub(super) fn objects_of_kind(group: &str, kind: &str) -> String {
    format!("objects?kind={}", encoded(&format!("{group}/{kind}")))
}
