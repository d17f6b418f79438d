//! Which kind each controller of the operator reconciles, according to its name. By default,
//! frameworks name a controller after its kind. People usually add only a word.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::Subject;
use crate::model::operator::Operator;
use crate::model::operator::queue::waiting_for_workers;
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
        let found = controllers.iter().filter_map(|name| {
            let only = || only_kind(world, controllers.len());
            let kind = kind_of_controller(world, name).or_else(only)?;
            Some(((*name).to_owned(), world.kind_subject(kind)))
        });

        found.collect()
    }

    /// Notes the kinds of the controllers whose workers were all busy at the last scrape of an
    /// instance while objects waited.
    pub(super) fn note_busy_workers(&self, world: &mut World, instance: &str) {
        let metrics = self.instances.get(instance).and_then(|known| known.metrics.as_ref());
        let Some((at, view)) = metrics else { return };

        for controller in view.controllers.iter().filter(|view| waiting_for_workers(view).is_some())
        {
            let only = || only_kind(world, view.controllers.len());
            if let Some(kind) = kind_of_controller(world, &controller.name).or_else(only) {
                world.kinds[kind as usize].workers_busy = Some(*at);
            }
        }
    }
}

/// Returns the number of the operator's kind, if it has one kind and one controller.
fn only_kind(world: &World, controllers: usize) -> Option<u16> {
    let mut kinds = reconciled_by_operator(world).map(|(number, _)| number);
    kinds.next().filter(|_| controllers == 1 && kinds.next().is_none())
}

/// Returns the number of the kind that the name of a controller fits best: the one with the longest
/// name. `None` if several kinds fit equally well, or if the operator does not reconcile that kind.
pub(super) fn kind_of_controller(world: &World, controller: &str) -> Option<u16> {
    let name = Name::of(controller);
    let fitting = (0_u16..).zip(&world.kinds);
    let fitting = fitting.filter_map(|(number, kind)| Some((name.fits(kind)?, number)));

    let best: Vec<(usize, u16)> = fitting.collect();
    let longest = best.iter().map(|(length, _)| *length).max()?;
    let mut numbers = best.iter().filter(|(length, _)| *length == longest).map(|(_, n)| *n);
    let number = numbers.next()?;

    let is_reconciled = reconciled_by_operator(world).any(|(other, _)| other == number);
    (numbers.next().is_none() && is_reconciled).then_some(number)
}

fn reconciled_by_operator(world: &World) -> impl Iterator<Item = (u16, &Kind)> {
    let primary = world
        .kinds
        .iter()
        .enumerate()
        .filter(|(_, kind)| kind.role == Role::Primary && !kind.suspected);

    primary.filter_map(|(number, kind)| Some((u16::try_from(number).ok()?, kind)))
}

/// The name of a controller.
struct Name {
    /// Its words, in lower case.
    words: Vec<String>,
    /// Its parts with a dot, such as the group of a kind.
    domains: Vec<String>,
}

impl Name {
    fn of(controller: &str) -> Self {
        let parts = controller.split(|c: char| !c.is_ascii_alphanumeric() && !".-".contains(c));
        let domains = parts.filter(|part| part.contains('.')).map(str::to_ascii_lowercase);
        Self { words: words(controller), domains: domains.collect() }
    }

    /// Returns the length of the kind's name if the controller is named after the kind: `widget`,
    /// `widgets-sync`, `WidgetReconciler`, or `managed/example.io/v1, kind=widget`. A group in the
    /// name must be that of the kind.
    fn fits(&self, kind: &Kind) -> Option<usize> {
        let names = [plain(&kind.kind), plain(&kind.resource)];
        let named = names.iter().find(|name| !name.is_empty() && self.contains(name))?;
        let is_of_group = |domain: &String| {
            let before = domain.strip_suffix(&*kind.group);
            before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
        };

        let fits = self.domains.is_empty() || self.domains.iter().any(is_of_group);
        fits.then_some(named.len())
    }

    /// Returns whether consecutive words make up a name, perhaps with a word that people add.
    fn contains(&self, name: &str) -> bool {
        (0..self.words.len()).any(|first| make_up(&self.words[first..], name))
    }
}

/// Returns whether the first of these words make up a name.
fn make_up(words: &[String], name: &str) -> bool {
    let Some((word, more)) = words.split_first() else { return false };
    match name.strip_prefix(word.as_str()) {
        Some("") => true,
        Some(rest) => make_up(more, rest),
        None => word.strip_prefix(name).is_some_and(|rest| ADDED.contains(&rest)),
    }
}

/// Returns the words of a name in lower case. A capital letter begins a word.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut ends = true;
    for (before, c) in std::iter::once(' ').chain(name.chars()).zip(name.chars()) {
        if !c.is_ascii_alphanumeric() {
            ends = true;
            continue;
        }

        if ends || (c.is_ascii_uppercase() && before.is_ascii_lowercase()) {
            words.push(String::new());
        }

        ends = false;
        words.iter_mut().last().into_iter().for_each(|word| word.push(c.to_ascii_lowercase()));
    }

    words
}

/// Returns the letters and digits of a name, in lower case.
fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(group: &str, kind: &str, resource: &str) -> Kind {
        Kind {
            group: group.into(),
            kind: kind.into(),
            resource: resource.to_owned(),
            ..Kind::default()
        }
    }

    #[test]
    fn a_controller_is_named_after_a_kind_by_whole_words() {
        let vpc = kind("ec2.aws.upbound.io", "VPC", "vpcs");
        let machine = kind("kubevirt.io", "VirtualMachine", "virtualmachines");
        let certificate = kind("cert-manager.io", "Certificate", "certificates");

        for (name, kind, fits) in [
            ("certificates-issuing", &certificate, true),
            ("CertificateReconciler", &certificate, true),
            ("certificatecontroller", &certificate, true),
            ("certificatebackup", &certificate, false),
            ("virtual-machine", &machine, true),
            ("virtualmachine-controller", &machine, true),
            ("VirtualMachineCtrl", &machine, true),
            ("machine", &machine, false),
            ("virtual-storage-machine", &machine, false),
            ("managed/ec2.aws.upbound.io/v1beta1, kind=vpc", &vpc, true),
            ("managed/vpc.ec2.aws.upbound.io", &vpc, true),
            ("managed/network.azure.upbound.io/v1beta1, kind=vpc", &vpc, false),
            ("managed/ec2.aws.upbound.io/v1beta1, kind=vpcpeering", &vpc, false),
            ("", &vpc, false),
        ] {
            assert_eq!(Name::of(name).fits(kind).is_some(), fits, "{name}");
        }
    }
}
