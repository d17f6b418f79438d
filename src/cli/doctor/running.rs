//! What a running loopwatch says about itself: its kinds, what it cannot see, and its last scrape.

use anyhow::Context as _;
use loopwatch_model::observation::Role;
use loopwatch_model::time::Timestamp;
use serde::Deserialize;

use crate::export::view::{BlindSpot, Check, CheckState, Scrapes, Topic};

/// The path of its API.
pub(super) const PATH: &str = "/api/v1/status";

/// The fields of the status that matter here.
#[derive(Debug, Deserialize)]
struct Status {
    at: Timestamp,
    kinds: Vec<Kind>,
    not_visible: Vec<BlindSpot>,
    /// An older loopwatch does not say it.
    #[serde(default)]
    scrapes: Option<Scrapes>,
}

#[derive(Debug, Deserialize)]
struct Kind {
    group: String,
    kind: String,
    role: Role,
    watches: Vec<Watch>,
}

#[derive(Debug, Deserialize)]
struct Watch {
    synced: bool,
    /// The permissions that the account lacks.
    #[serde(default)]
    missing: Vec<String>,
}

/// Limit on names in a sentence.
const SHOWN: usize = 8;

pub(super) fn checks(status: &str) -> anyhow::Result<Vec<Check>> {
    let status: Status =
        serde_json::from_str(status).context("the answer is no status of loopwatch")?;
    Ok([Some(of_kinds(&status)), of_rights(&status), Some(of_scrapes(&status))]
        .into_iter()
        .flatten()
        .collect())
}

fn of_kinds(status: &Status) -> Check {
    let is_listed = |kind: &&Kind| kind.watches.iter().any(|watch| watch.synced);
    let name = |kind: &Kind| match kind.group.as_str() {
        "" => kind.kind.clone(),
        group => format!("{}.{group}", kind.kind),
    };
    // The check of the permissions names these.
    let is_forbidden = |kind: &&Kind| {
        let mut watches = kind.watches.iter();
        !kind.watches.is_empty() && watches.all(|it| !it.synced && !it.missing.is_empty())
    };
    // The operator's own kinds tell more than their children.
    let mut kinds: Vec<&Kind> = status.kinds.iter().filter(|kind| !is_forbidden(kind)).collect();
    kinds.sort_by_key(|kind| kind.role != Role::Primary);
    let (listed, others): (Vec<&Kind>, Vec<&Kind>) = kinds.into_iter().partition(is_listed);

    match (listed.len(), others.as_slice()) {
        (0, []) => Check::new(Topic::Kinds, CheckState::Problem, "loopwatch watches no kind.")
            .advise("The account may write the status of no kind, or has only wildcards: name the kinds in LOOPWATCH_WATCH. This lists its permissions:")
            .next("kubectl exec POD -c loopwatch -- loopwatch rights"),
        (_, []) => {
            let names = shortened(listed.iter().map(|kind| name(kind)));
            Check::new(Topic::Kinds, CheckState::Well, format!("loopwatch watches {names}."))
        }
        (_, others) => {
            let names = shortened(others.iter().map(|kind| name(kind)));
            Check::new(
                Topic::Kinds,
                CheckState::Problem,
                format!("loopwatch has not listed these kinds: {names}."),
            )
            .advise("Its log says why:")
            .next("kubectl logs POD -c loopwatch")
        }
    }
}

fn of_rights(status: &Status) -> Option<Check> {
    let spots = &status.not_visible;
    if spots.is_empty() {
        return None;
    }

    let all = shortened(spots.iter().map(|BlindSpot { what, why }| format!("{what} ({why})")));
    let text = format!("loopwatch does not see: {all}.");
    Some(Check::new(Topic::Rights, CheckState::Limited, text).advise(
        "If permissions are missing, list components/reader-rights in the kustomization of the operator.",
    ))
}

fn of_scrapes(status: &Status) -> Check {
    let check = |state, text: String| Check::new(Topic::Scrapes, state, text);
    let Some(scrapes) = &status.scrapes else {
        return check(
            CheckState::Unknown,
            "This loopwatch is older than this command and does not say when somebody scraped it."
                .to_owned(),
        );
    };

    let text = scrapes.in_words(status.at);
    match (scrapes.is_overdue(status.at), scrapes.last) {
        (true, _) => check(CheckState::Problem, text)
            .advise("If the checks of monitor and Prometheus are in order, look for a NetworkPolicy, a refused token, or a Prometheus that may not list Pods in this namespace:")
            .next("kubectl -n NAMESPACE get networkpolicies")
            .next("kubectl auth can-i list pods -n NAMESPACE --as system:serviceaccount:MONITORING:PROMETHEUS"),
        (false, Some(_)) => check(CheckState::Well, text),
        (false, None) => check(CheckState::Off, text),
    }
}

/// The first texts, and the number of the others.
fn shortened(texts: impl Iterator<Item = String>) -> String {
    let all: Vec<String> = texts.collect();
    let more = all.len().saturating_sub(SHOWN);
    let rest = if more > 0 { format!(", and {more} more") } else { String::new() };
    format!("{}{rest}", all.into_iter().take(SHOWN).collect::<Vec<_>>().join(", "))
}
