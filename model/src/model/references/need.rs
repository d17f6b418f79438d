//! Whether an object waits for a missing target.
//!
//! An object that was converged for long without a target does not need it: a service account may
//! belong to another cluster, for example. Some fields name an object that either a person or the
//! operator creates. While the operator still works on a new object, it may yet do so.

use crate::model::world::store::Record;
use crate::observation::ObjectAddress;
use crate::snapshot::ObjectState;
use crate::time::{Span, Timestamp};

/// An object that is converged for this long without a target that never existed does not need it.
/// An operator that does not look for the target at once does so soon.
const CONVERGED_FOR: Span = Span::mins(30);

/// The same for a target that has existed: the operator may notice its loss only when it looks at
/// the object again, which most operators do at least once a day.
const CONVERGED_WITHOUT_LOST: Span = Span::hours(24);

/// How long the operator may take to create an object that a field names.
const CREATED_WITHIN: Span = Span::hours(1);

/// Words that, in the last key of a path in lower case, name credentials which many operators
/// create if nobody else does: `databaseSecretName` of Redis Enterprise, `passwordSecretRef` of
/// Percona's operators.
const CREDENTIALS: [&str; 4] = ["connection", "database", "password", "superuser"];

/// Returns whether an object is converged for so long that it does not need a target that has been
/// missing `since`.
pub(super) fn manages_without(
    record: &Record,
    now: Timestamp,
    since: Timestamp,
    has_existed: bool,
) -> bool {
    let enough = if has_existed { CONVERGED_WITHOUT_LOST } else { CONVERGED_FOR };
    record.state == ObjectState::Converged && now.since(record.since.max(since)) >= enough
}

/// Returns whether the operator may yet create a target that has never existed: the operator still
/// works on a new object, the field names credentials, and the status does not miss them.
pub(super) fn may_be_created(
    record: &Record,
    now: Timestamp,
    address: &ObjectAddress,
    path: &str,
    since: Timestamp,
) -> bool {
    let is_working = matches!(record.state, ObjectState::Progressing | ObjectState::Overdue);
    let hot = record.hot.as_ref();
    let unconverged = hot.and_then(|hot| hot.unconverged.as_ref());
    let is_new = unconverged
        .and_then(|unconverged| unconverged.obligation.as_ref())
        .is_some_and(|obligation| obligation.creation);
    let is_missed = hot.is_some_and(|hot| hot.message.contains(&address.name));

    is_working
        && is_new
        && !is_missed
        && names_credentials(address, path)
        && now.since(since) < CREATED_WITHIN
}

fn names_credentials(address: &ObjectAddress, path: &str) -> bool {
    let key = path.rsplit_once('.').map_or(path, |(_, key)| key).to_ascii_lowercase();
    address.group.is_empty()
        && ["ConfigMap", "Secret"].contains(&address.kind.as_str())
        && CREDENTIALS.iter().any(|word| key.contains(word))
}
