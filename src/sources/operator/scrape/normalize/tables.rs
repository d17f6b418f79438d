//! The tables of rules, and the index of all their rules.

use std::collections::HashMap;
use std::sync::LazyLock;

mod ansible;
mod client_go;
mod controller_runtime;
#[cfg(test)]
mod docs;
mod go;
mod java_operator_sdk;
mod jvm;
mod knative;
mod kube_rs;
mod process;
mod python;
mod strimzi;

use super::rules::{Metric, Rule, Table};

/// All tables. The first framework in this order that is present counts as the operator's.
pub(super) static TABLES: [&Table; 15] = [
    &ansible::TABLE,
    &controller_runtime::TABLE,
    &knative::TABLE,
    &knative::OPEN_TELEMETRY,
    &java_operator_sdk::TABLE,
    &strimzi::TABLE,
    &client_go::TABLE,
    &kube_rs::TABLE,
    &client_go::CLIENT,
    &controller_runtime::WEBHOOKS,
    &go::TABLE,
    &jvm::TABLE,
    &python::TABLE,
    &process::TABLE,
    &process::RUST,
];

/// The rules by metric name.
pub(super) struct Index {
    exact: HashMap<&'static str, Vec<(usize, &'static Rule)>>,
    others: Vec<(usize, &'static Rule)>,
}

/// The numbers of the tables that describe the controllers of a framework, the most important one
/// first.
pub(super) fn sources_of(table: &Table) -> impl Iterator<Item = usize> + Clone {
    let own = table.framework.into_iter().chain(table.also.iter().copied());
    own.flat_map(|framework| {
        (0..TABLES.len()).filter(move |table| TABLES[*table].framework == Some(framework))
    })
}

impl Index {
    pub(super) fn get() -> &'static Self {
        static INDEX: LazyLock<Index> = LazyLock::new(Index::new);

        &INDEX
    }

    fn new() -> Self {
        let (mut exact, mut others): (HashMap<_, Vec<_>>, _) = (HashMap::new(), Vec::new());
        for (number, table) in TABLES.iter().enumerate() {
            for rule in table.rules {
                match rule.metric {
                    Metric::Is(name) => exact.entry(name).or_default().push((number, rule)),
                    Metric::Begins(_) | Metric::Ends(_) => others.push((number, rule)),
                }
            }
        }

        Self { exact, others }
    }

    /// Adds the rules of this metric.
    pub(super) fn find(&self, name: &str, rules: &mut Vec<(usize, &'static Rule)>) {
        if let Some(found) = self.exact.get(name) {
            rules.extend_from_slice(found);
            return;
        }

        let fits = |rule: &Rule| match rule.metric {
            Metric::Is(_) => false,
            Metric::Begins(beginning) => name.starts_with(beginning),
            Metric::Ends(ending) => name.ends_with(ending),
        };

        rules.extend(self.others.iter().filter(|(_, rule)| fits(rule)));
    }
}
