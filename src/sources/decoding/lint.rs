//! The closed list of lints: the malformations that the decoder finds in an object.

use super::shape::Scalar;

/// One malformation. Its word is permanent, because recordings and labels contain it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lint {
    Annotations,
    Condition,
    ConditionStatus,
    ConditionTime,
    ConditionType,
    Conditions,
    Created,
    Deep,
    Deleted,
    Finalizers,
    Generation,
    Grace,
    Labels,
    LongName,
    Managers,
    ManyConditions,
    ManyFacts,
    ManyFinalizers,
    ManyManagers,
    ManyOwners,
    ManyReferences,
    Metadata,
    Name,
    ObservedGeneration,
    Owners,
    Status,
    Uid,
    Version,
}

/// A set of lints.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lints(u32);

/// All lints with their words, sorted by word.
const TABLE: [(Lint, &str); 28] = [
    (Lint::Annotations, "annotations"),
    (Lint::Condition, "condition"),
    (Lint::ConditionStatus, "condition_status"),
    (Lint::ConditionTime, "condition_time"),
    (Lint::ConditionType, "condition_type"),
    (Lint::Conditions, "conditions"),
    (Lint::Created, "created"),
    (Lint::Deep, "deep"),
    (Lint::Deleted, "deleted"),
    (Lint::Finalizers, "finalizers"),
    (Lint::Generation, "generation"),
    (Lint::Grace, "grace"),
    (Lint::Labels, "labels"),
    (Lint::LongName, "long_name"),
    (Lint::Managers, "managers"),
    (Lint::ManyConditions, "many_conditions"),
    (Lint::ManyFacts, "many_facts"),
    (Lint::ManyFinalizers, "many_finalizers"),
    (Lint::ManyManagers, "many_managers"),
    (Lint::ManyOwners, "many_owners"),
    (Lint::ManyReferences, "many_references"),
    (Lint::Metadata, "metadata"),
    (Lint::Name, "name"),
    (Lint::ObservedGeneration, "observed_generation"),
    (Lint::Owners, "owners"),
    (Lint::Status, "status"),
    (Lint::Uid, "uid"),
    (Lint::Version, "version"),
];

impl Lints {
    pub(super) fn add(&mut self, lint: Lint) {
        self.0 |= 1 << lint as u32;
    }

    /// Adds all lints of another set.
    pub(super) fn merge(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Adds a lint for a scalar in place of a list or a map. Null counts as absent.
    pub(super) fn add_unless_null(&mut self, lint: Lint, scalar: Scalar<'_>) {
        if !matches!(scalar, Scalar::Null) {
            self.add(lint);
        }
    }

    /// The words, sorted.
    pub(super) fn words(self) -> Vec<String> {
        let set = |lint: Lint| self.0 & (1 << lint as u32) != 0;
        TABLE.iter().filter(|(lint, _)| set(*lint)).map(|(_, word)| (*word).to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_sorted_and_follow_the_enum() {
        assert!(TABLE.windows(2).all(|pair| pair[0].1 < pair[1].1));
        assert!(TABLE.iter().enumerate().all(|(i, (lint, _))| *lint as usize == i));
    }
}
