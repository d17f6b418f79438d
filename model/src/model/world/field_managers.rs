//! Who wrote an object, and when, according to its managed fields.

use crate::observation::{CLIENT_MANAGERS, Manager, ObjectView};
use crate::time::Timestamp;

/// The prefix of kubectl's field managers. A person behind it may write any part
/// of an object.
const KUBECTL: &str = "kubectl";

/// The client of OpenShift.
const OC: &str = "oc";

/// Returns when a person, a pipeline or another controller last wrote the spec, through any
/// subresource, such as `scale`. The writes of the operator itself do not count, unless there are
/// no others. Returns `None` if nothing shows it. The spec of the first generation is as old as the
/// object.
pub(crate) fn spec_written(view: &ObjectView) -> Option<Timestamp> {
    if view.generation == 1 && view.created.is_some() {
        return view.created;
    }
    spec_times(view, false).max().or_else(|| spec_times(view, true).max())
}

/// Returns when anybody last wrote the spec.
pub(crate) fn last_spec_write(view: &ObjectView) -> Option<Timestamp> {
    spec_times(view, false).chain(spec_times(view, true)).max()
}

/// Returns whether the operator wrote the spec after all others. `known` is the time of the last
/// spec write that is known already: times in managed fields are whole seconds, so a write in the
/// same second counts as the operator's if the other write is known already.
pub(crate) fn spec_written_by_operator(view: &ObjectView, known: Timestamp) -> bool {
    let (own, other) = (spec_times(view, true).max(), spec_times(view, false).max());
    own.is_some_and(|own| other.is_none_or(|other| own > other || (own == other && other <= known)))
}

/// Returns the field manager that wrote the status last.
pub(crate) fn status_writer(view: &ObjectView) -> Option<&Manager> {
    view.managers.iter().filter(|m| m.owns.status).max_by_key(|m| m.time)
}

/// Returns the field manager that wrote the spec last; empty if nothing shows it. Times in managed
/// fields are whole seconds; within one, the write that the operator answered came first.
pub(crate) fn spec_writer(view: &ObjectView) -> &str {
    let writes = view.managers.iter().filter(|m| m.owns.spec && m.time.is_some());
    writes.max_by_key(|m| (m.time, !m.owns.status)).map_or("", |m| &m.name)
}

/// Returns the field manager that wrote the object last; empty if it has no managed fields.
pub(crate) fn last_writer(view: &ObjectView) -> &str {
    view.managers.iter().max_by_key(|m| m.time).map_or("", |m| &m.name)
}

/// Returns whether a field manager behaves like a controller: it writes the status, or nothing but
/// finalizers. The client of a person, such as kubectl or Helm, adds finalizers and never removes
/// them.
pub(crate) fn is_controller(view: &ObjectView, name: &str) -> bool {
    let owns_spec = || view.managers.iter().any(|m| m.name == name && m.owns.spec);
    !name.starts_with(KUBECTL) && (writes_status(view, name) || (!owns_spec() && !is_client(name)))
}

/// Returns whether a field manager is a tool that writes for people: kubectl, Helm, a GitOps or a
/// backup tool. Some of these are also controllers, of kinds of their own.
pub(crate) fn is_client(name: &str) -> bool {
    let begins = |client: &&str| {
        name.strip_prefix(*client).is_some_and(|rest| !rest.starts_with(char::is_alphabetic))
    };
    CLIENT_MANAGERS.iter().chain(&[OC]).any(begins)
}

/// Returns whether a field manager is the client of a person.
pub(crate) fn is_of_person(name: &str) -> bool {
    name.starts_with(KUBECTL) || name == OC
}

/// Returns the times of the spec writes of the operator, or else of all others. Every field manager
/// that writes the status is a part of the operator, except kubectl.
fn spec_times(view: &ObjectView, by_operator: bool) -> impl Iterator<Item = Timestamp> {
    let is_operator = |name: &str| !name.starts_with(KUBECTL) && writes_status(view, name);
    let writes =
        view.managers.iter().filter(move |m| m.owns.spec && is_operator(&m.name) == by_operator);
    writes.filter_map(|m| m.time)
}

fn writes_status(view: &ObjectView, name: &str) -> bool {
    view.managers.iter().any(|m| m.name == name && m.owns.status)
}
