//! Who wrote a version of an object, according to its managed fields.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::model::world::World;
use crate::model::world::{controller_names, field_managers};
use crate::observation::{Manager, ObjectView, Owned};
use crate::time::{Span, Timestamp};

/// How far the clock of the API server may be ahead. A later time is not the time of a write.
const AHEAD: Span = Span::mins(1);

/// A field manager that wrote a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Author {
    pub(super) name: Arc<str>,
    pub(super) role: AuthorRole,
}

/// The sort of program behind a field manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AuthorRole {
    /// It writes the status, as a controller does.
    Controller,
    /// A tool that writes for people, such as kubectl or Helm.
    Client,
    /// Nothing shows it.
    Other,
}

/// The field managers of a part of an object, with the times of their last writes.
#[derive(Debug, Default)]
pub(super) struct Writers {
    /// The latest first; at most [`MAX_WRITERS`].
    known: Vec<(Author, Timestamp)>,
    /// The only one, if none has a time.
    untimed: Option<Author>,
}

/// Who wrote a version.
#[derive(Clone, Debug)]
pub(super) enum Writer {
    Known(Author),
    /// Somebody who only removed fields: the API server notes no time for that.
    Remover,
    Unknown,
}

/// The maximum number of field managers that are compared. A fight has two or three.
const MAX_WRITERS: usize = 16;

/// If the last known write is older than this, and no field manager has a new time, somebody has removed
/// fields. Within a shorter time, one of them may have written twice in one second.
const NO_TRACE_AFTER: Span = Span::secs(2);

/// The name of somebody who left no trace. It may be the operator.
const REMOVER: &str = "somebody who removes fields";

/// The default name of all operators in one framework. Its finalizers have the same name, so elsewhere the
/// name says something.
const KOPF: &str = "kopf";

/// The part of Kubernetes that scales objects for autoscalers.
const SCALER: &str = "kube-controller-manager";

impl Author {
    /// Whether the name is not that of a program.
    pub(super) fn is_nameless(&self) -> bool {
        *self.name == *REMOVER
    }

    /// Whether many programs share the name, because it is the default of a framework.
    pub(super) fn is_generic(&self) -> bool {
        *self.name == *KOPF || controller_names::is_generic(&self.name)
    }
}

impl Writer {
    pub(super) fn author(self) -> Option<Author> {
        match self {
            Self::Known(author) => Some(author),
            Self::Remover => Some(Author { name: REMOVER.into(), role: AuthorRole::Controller }),
            Self::Unknown => None,
        }
    }
}

impl Writers {
    /// Returns the field managers of the part in which `owns` shows that they have fields. Times in
    /// managed fields are whole seconds.
    pub(super) fn of(world: &World, view: &ObjectView, owns: fn(Owned) -> bool) -> Self {
        let managers = || view.managers.iter().filter(|manager| owns(manager.owns));
        let past = |manager: &&Manager| manager.time.is_some_and(|at| at <= world.now.after(AHEAD));
        let mut timed: Vec<&Manager> = managers().filter(past).collect();
        timed.sort_by_key(|manager| Reverse(manager.time));

        let mut known: Vec<(Author, Timestamp)> = Vec::new();
        for (manager, at) in timed.into_iter().filter_map(|it| Some((it, it.time?))) {
            if known.len() < MAX_WRITERS && known.iter().all(|(it, _)| *it.name != *manager.name) {
                known.push((author(view, manager), at));
            }
        }

        let only = || only_one(managers().filter(|manager| manager.time.is_none()));
        let untimed = if known.is_empty() { only().map(|it| author(view, it)) } else { None };
        Self { known, untimed }
    }

    /// Returns the only field manager that may have written the last version.
    pub(super) fn only(&self) -> Option<&Author> {
        only_one(self.latest()).or(self.untimed.as_ref())
    }

    /// Returns the time of the last write.
    pub(super) fn last(&self) -> Option<Timestamp> {
        self.known.first().map(|(_, at)| *at)
    }

    /// Returns who wrote the version after `earlier`: the one whose entry has changed; of several, the
    /// latest or the one that wrote this state before.
    pub(super) fn after(
        &self,
        earlier: &Self,
        now: Timestamp,
        wrote_state: impl Fn(&Author) -> bool,
    ) -> Writer {
        let was_there = |(author, at): &(Author, Timestamp)| {
            earlier.known.iter().any(|(it, then)| it.name == author.name && then == at)
        };
        let moved: Vec<&(Author, Timestamp)> =
            self.known.iter().filter(|entry| !was_there(entry)).collect();
        let is_old = self.last().is_some_and(|last| now.since(last) >= NO_TRACE_AFTER);
        if moved.is_empty() && is_old && !earlier.known.is_empty() {
            return Writer::Remover;
        }

        let last = moved.first().map(|(_, at)| *at);
        let of_last = moved.iter().filter(|(_, at)| Some(*at) == last).map(|(author, _)| author);
        let found = match moved.is_empty() || earlier.known.is_empty() {
            true => self.only(),
            false => only_one(of_last),
        };
        let before = || only_one(self.latest().filter(|author| wrote_state(author)));
        found.or_else(before).cloned().map_or(Writer::Unknown, Writer::Known)
    }

    /// The field managers that wrote in the last second.
    fn latest(&self) -> impl Iterator<Item = &Author> {
        let last = self.last();
        self.known.iter().filter(move |(_, at)| Some(*at) == last).map(|(author, _)| author)
    }
}

/// Returns the field manager that wrote the last version, unless several wrote in the same second.
pub(super) fn only_name(now: Timestamp, view: &ObjectView) -> Option<&str> {
    let is_past = |manager: &&Manager| manager.time.is_some_and(|at| at <= now.after(AHEAD));
    let last = view.managers.iter().filter(is_past).max_by_key(|manager| manager.time)?;
    let of_second = || view.managers.iter().filter(|manager| manager.time == last.time);
    of_second().all(|manager| manager.name == last.name).then_some(last.name.as_str())
}

fn only_one<T>(mut all: impl Iterator<Item = T>) -> Option<T> {
    let first = all.next();
    first.filter(|_| all.next().is_none())
}

/// A tool for people that writes the status through its subresource is a controller of this kind, as Argo
/// CD is of its Applications. An autoscaler is a controller of what it scales.
fn author(view: &ObjectView, manager: &Manager) -> Author {
    let name = manager.name.as_str();
    let writes = |subresource: &str| {
        view.managers.iter().any(|it| it.name == name && it.subresource == subresource)
    };
    let is_of_kind = writes("status") && !field_managers::is_of_person(name);
    let is_scaler = writes("scale") || name == SCALER;

    let role = if is_of_kind || (is_scaler && !field_managers::is_client(name)) {
        AuthorRole::Controller
    } else if field_managers::is_client(name) {
        AuthorRole::Client
    } else if field_managers::is_controller(view, name) {
        AuthorRole::Controller
    } else {
        AuthorRole::Other
    };
    Author { name: name.into(), role }
}
