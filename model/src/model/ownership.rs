//! Owner references as the garbage collector sees them, and objects that lack an owner.

pub(crate) mod owner_references; // of one object
pub(crate) mod unverified_owners; // owners that the model does not know
pub(crate) mod bad_owners; // kept for long enough to be seen
pub(crate) mod cycles; // of owners
pub(crate) mod logical_owners; // that annotations or labels name
pub(crate) mod missing_owners; // of these, the ones that do not exist
pub(crate) mod orphans; // objects that should have an owner

use self::bad_owners::BadOwners;
use self::orphans::Orphans;
use self::unverified_owners::UnverifiedOwners;

/// What the model has concluded about owners.
#[derive(Debug, Default)]
pub(crate) struct Ownership {
    pub(crate) unverified: UnverifiedOwners,
    pub(crate) bad: BadOwners,
    pub(crate) orphans: Orphans,
}
