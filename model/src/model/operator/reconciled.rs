//! Which kind each controller of the operator reconciles, according to its name. By default,
//! frameworks name a controller after its kind. People usually add only a word.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::Subject;
use crate::model::operator::Operator;
use crate::model::world::World;
use crate::model::world::kinds::Kind;
use crate::observation::Role;

/// The words that people add to the name of the kind.
const ADDED: [&str; 3] = ["controller", "reconciler", "ctrl"];

impl Operator {
    /// Returns the kinds that controllers reconcile, as subjects, by the name of the controller.
    /// Leaves out a controller whose name fits no kind, or several kinds, unless the operator has
    /// only one controller and one kind.
    pub(super) fn reconciled_kinds(&self, world: &World) -> BTreeMap<String, Subject> {
        let scraped = self.instances.values().filter_map(|instance| instance.metrics.as_ref());
        let controllers: BTreeSet<&str> = scraped
            .flat_map(|(_, view)| &view.controllers)
            .map(|controller| controller.name.as_str())
            .collect();
        let kinds = || reconciled_by_operator(world).map(|(number, _)| number);
        let only = || match (controllers.len(), kinds().count()) {
            (1, 1) => kinds().next(),
            _ => None,
        };

        let found = controllers.iter().filter_map(|name| {
            let kind = kind_of_controller(world, name).or_else(only)?;
            Some(((*name).to_owned(), world.kind_subject(kind)))
        });

        found.collect()
    }
}

/// Returns the number of the kind that the name of a controller fits, if it fits only one.
pub(super) fn kind_of_controller(world: &World, controller: &str) -> Option<u16> {
    let name = plain(controller);
    let mut fitting = reconciled_by_operator(world).filter(|(_, kind)| is_named_after(&name, kind));
    let (number, _) = fitting.next()?;

    fitting.next().is_none().then_some(number)
}

fn reconciled_by_operator(world: &World) -> impl Iterator<Item = (u16, &Kind)> {
    let primary = world
        .kinds
        .iter()
        .enumerate()
        .filter(|(_, kind)| kind.role == Role::Primary && !kind.suspected);

    primary.filter_map(|(number, kind)| Some((u16::try_from(number).ok()?, kind)))
}

/// Returns whether a controller is named after a kind: `widget`, `widgets`, `widget-controller` or
/// `WidgetReconciler`.
fn is_named_after(name: &str, kind: &Kind) -> bool {
    [&*kind.kind, &*kind.resource].iter().map(|word| plain(word)).any(|word| {
        let rest = name.strip_prefix(word.as_str()).filter(|_| !word.is_empty());
        rest.is_some_and(|rest| rest.is_empty() || ADDED.contains(&rest))
    })
}

/// Returns the letters and digits of a name, in lower case.
fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}
