//! Lists the parts of the cluster that loopwatch cannot see.

use loopwatch_model::observation::{Cause, Permission, Scope, SourceId, WatchId, with_group};
use loopwatch_model::snapshot::{KindSummary, Snapshot, SourceSummary, WatchSummary};
use serde::{Deserialize, Serialize};

/// A part of the cluster that loopwatch cannot see. The absence of findings about it means nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BlindSpot {
    pub what: String,
    pub why: String,
}

#[must_use]
pub(crate) fn blind_spots(snapshot: &Snapshot) -> Vec<BlindSpot> {
    // The input of a report names the unreadable parts of a dump.
    let dump = SourceId::Dump.to_string();
    let failing = snapshot.sources.iter().filter(|source| !source.up && source.source != dump);
    let mut spots: Vec<BlindSpot> = failing
        .map(|source| BlindSpot {
            what: source_subject(snapshot, source),
            why: failure_in_words(snapshot, source),
        })
        .collect();

    for (kind, watch) in watches(snapshot) {
        if is_watch_down(snapshot, &watch.watch) {
            continue; // listed above, with the cause
        }

        let what = format!("{} in {}", kind.kind, scope_in_words(&watch.scope));
        if !watch.missing.is_empty() {
            spots.push(BlindSpot {
                what,
                why: format!("the account may not {} them", watch.missing.join(", ")),
            });
        } else if !watch.synced {
            spots.push(BlindSpot { what, why: "the first list is not complete yet".to_owned() });
        }
    }

    spots.extend(missing_permissions(snapshot));
    spots.extend(
        snapshot
            .left_out
            .iter()
            .map(|part| BlindSpot { what: part.what.clone(), why: part.why.clone() }),
    );
    for (names, sets) in [
        (
            &snapshot.unused_deadlines,
            "for which --deadline or the configuration file sets a deadline",
        ),
        (&snapshot.mistaken_rules, "for which the configuration file has a rule about findings"),
    ] {
        spots.extend(names.iter().map(|name| without_kind(snapshot, name, sets)));
    }
    for (limit, count) in snapshot.dropped.iter().filter(|(_, count)| **count > 0) {
        let what = format!("{count} {}", limit.replace('_', " "));
        spots.push(BlindSpot { what, why: "dropped because a limit was reached".to_owned() });
    }

    spots
}

/// The permissions that the account lacks, except those that the entry of a watch already names.
fn missing_permissions(snapshot: &Snapshot) -> impl Iterator<Item = BlindSpot> {
    let is_said = |namespace: &str, permission: &Permission| {
        watches(snapshot).any(|(kind, watch)| {
            kind.group == permission.group
                && kind.resource == permission.resource
                && watch.missing.contains(&permission.verb)
                && watch.scope.namespace().unwrap_or_default() == namespace
        })
    };
    let missing = snapshot.permissions_missing.iter();
    let unsaid = missing.filter(move |(namespace, permission)| !is_said(namespace, permission));

    unsaid.map(|(namespace, Permission { group, resource, verb })| {
        let place = match namespace.as_str() {
            "" => "the cluster".to_owned(),
            namespace => format!("namespace {namespace}"),
        };

        BlindSpot {
            what: format!("{} in {place}", with_group(resource, group)),
            why: format!("the account may not {verb} them"),
        }
    })
}

/// A name in the settings that is of no watched kind, with the watched kinds of this name in other
/// groups.
fn without_kind(snapshot: &Snapshot, name: &str, sets: &str) -> BlindSpot {
    let (_, own) = name.rsplit_once('/').unwrap_or(("", name));
    let is_alike = |kind: &&KindSummary| {
        own.eq_ignore_ascii_case(&kind.kind) || own.eq_ignore_ascii_case(&kind.resource)
    };
    let alike: Vec<String> = snapshot
        .kinds
        .iter()
        .filter(is_alike)
        .take(3)
        .map(|kind| format!("{}/{}", kind.group, kind.kind))
        .collect();
    let hint = match alike.is_empty() {
        true => String::new(),
        false => format!("; did you mean {}?", alike.join(" or ")),
    };

    BlindSpot {
        what: format!("kind {name}, {sets}"),
        why: format!("loopwatch watches no kind of this name{hint}"),
    }
}

/// `all namespaces`, `the cluster`, `namespace team-a`.
#[must_use]
pub(crate) fn scope_in_words(scope: &Scope) -> String {
    match scope {
        Scope::Cluster => "the cluster".to_owned(),
        Scope::AllNamespaces | Scope::Namespace(_) => scope.to_string(),
    }
}

/// Why a source fails, and for how long.
#[must_use]
pub(crate) fn failure_in_words(snapshot: &Snapshot, source: &SourceSummary) -> String {
    let held = snapshot.at.since(source.since);
    match &source.latest {
        Some((cause, detail)) if detail.is_empty() => {
            format!("{} for {held}", cause_in_words(cause))
        }
        Some((cause, detail)) => format!("{} for {held}: {detail}", cause_in_words(cause)),
        None => format!("no observation for {held}"),
    }
}

fn cause_in_words(cause: &str) -> String {
    if cause == Cause::Undecodable.as_str() {
        return "responses that loopwatch cannot read".to_owned();
    }
    cause.replace('_', " ")
}

fn source_subject(snapshot: &Snapshot, source: &SourceSummary) -> String {
    let watched = watches(snapshot).find(|(_, watch)| source_name(&watch.watch) == source.source);
    match watched {
        Some((kind, watch)) => format!("{} in {}", kind.kind, scope_in_words(&watch.scope)),
        None => format!("source {}", source.source),
    }
}

pub(super) fn watches(snapshot: &Snapshot) -> impl Iterator<Item = (&KindSummary, &WatchSummary)> {
    snapshot.kinds.iter().flat_map(|kind| kind.watches.iter().map(move |watch| (kind, watch)))
}

/// Whether the source of a watch fails.
#[must_use]
pub(crate) fn is_watch_down(snapshot: &Snapshot, watch: &WatchId) -> bool {
    let name = source_name(watch);
    snapshot.sources.iter().any(|source| !source.up && source.source == name)
}

fn source_name(watch: &WatchId) -> String {
    SourceId::Watch(watch.clone()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::sample::sample;

    #[test]
    fn a_deadline_without_a_kind_names_the_kinds_of_this_name() {
        let mut snapshot = sample().snapshot;
        snapshot.unused_deadlines = vec!["Database".to_owned(), "example.io/Gadget".to_owned()];
        snapshot.mistaken_rules = vec!["Backup".to_owned()];
        let why: Vec<_> = blind_spots(&snapshot).into_iter().map(|spot| spot.why).collect();

        let none = "loopwatch watches no kind of this name";
        assert!(why.contains(&format!("{none}; did you mean db.example.io/Database?")), "{why:#?}");
        assert!(why.contains(&none.to_owned()), "{why:#?}");
        assert!(why.contains(&format!("{none}; did you mean db.example.io/Backup?")), "{why:#?}");
    }

    #[test]
    fn each_blind_spot_is_named_once_with_its_reason() {
        let said: Vec<_> = blind_spots(&sample().snapshot)
            .into_iter()
            .map(|spot| format!("{} – {}", spot.what, spot.why))
            .collect();

        assert_eq!(said.len(), 4, "{said:#?}");
        assert!(
            said[0].starts_with("Backup in namespace team-b – forbidden for 2h: backups.db"),
            "{}",
            said[0]
        );
        assert_eq!(
            said[1..],
            [
                "Pod in all namespaces – the first list is not complete yet",
                "events in namespace team-b – the account may not list them",
                "2 phases – dropped because a limit was reached",
            ]
        );
    }
}
