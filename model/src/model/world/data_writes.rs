//! When the data of a ConfigMap or Secret was written, according to its metadata.
//!
//! loopwatch never reads the data. The managed fields show when a writer last changed something in
//! its part of the object, which may be its data or its metadata. The write certainly changed the
//! data if the writer has no part in the metadata, or if loopwatch has seen the versions before and
//! after, with the same metadata. The type of a Secret never changes, and nothing changes the data
//! after `immutable` was set.

use crate::observation::ObjectView;
use crate::time::{Span, Timestamp};

/// When the data of an object was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastWrite {
    /// When somebody last wrote the object or its metadata, in seconds.
    at: u32,
    /// When the data changed, in seconds; 0 if it may be as old as the object.
    pub(crate) changed: u32,
    /// The lower half of the fingerprint of the metadata. [`CERTAIN`] is set if the write certainly
    /// changed the data.
    marks: u32,
}

// There is one for each watched ConfigMap and Secret.
const _: () = assert!(size_of::<LastWrite>() <= 12, "a written time has grown past its budget");

/// The write certainly changed the data, and not only the metadata.
const CERTAIN: u32 = 1 << 31;

/// The last write of an object that may have been one of its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DataWrite {
    at: Timestamp,
    /// The write certainly changed the data.
    only_data: bool,
    created: Option<Timestamp>,
    marks_hash: u64,
}

/// The resolution of times in managed fields, doubled, because the creation of an object spans
/// several instants.
const SAME_TIME: Span = Span::secs(2);

impl LastWrite {
    /// Returns what is known after a further write, or after the first one that loopwatch knows of.
    pub(crate) fn after(write: &DataWrite, old: Option<Self>) -> Self {
        let DataWrite { at: written, only_data, created, marks_hash } = *write;
        let at = u32::try_from(written.0 / 1000).unwrap_or(0);
        let new = Self { at, changed: 0, marks: half(marks_hash) };
        let is_change = created.is_some_and(|created| written >= created.after(SAME_TIME));
        let same_metadata = |old: Self| new.marks != 0 && new.marks == old.marks & !CERTAIN;
        let keep = |old: Self| Self {
            changed: old.changed,
            marks: new.marks | old.marks & CERTAIN,
            ..new
        };

        let certain = Self { changed: at, marks: new.marks | CERTAIN, ..new };
        match old {
            Some(old) if at <= old.at => Self { at: old.at, ..keep(old) },
            Some(old) if is_change && (only_data || same_metadata(old)) => certain,
            // The metadata has changed, and maybe the data as well.
            Some(old) if old.changed > 0 => keep(old),
            _ if is_change && only_data => certain,
            _ if is_change => Self { changed: at, ..new },
            _ => new,
        }
    }

    /// Returns when the data last changed, and whether that is certain; `None` if it may be as old
    /// as the object.
    pub(crate) fn change(self) -> Option<(Timestamp, bool)> {
        (self.changed > 0)
            .then(|| (Timestamp(i64::from(self.changed) * 1000), self.marks & CERTAIN != 0))
    }
}

/// Returns the lower 31 bits of a fingerprint.
#[expect(clippy::cast_possible_truncation, reason = "the rest is cut on purpose")]
const fn half(hash: u64) -> u32 {
    hash as u32 & !CERTAIN
}

impl DataWrite {
    /// Returns the last write of an object that may have been one of its data; `None` if it has no
    /// managed fields.
    pub(crate) fn of(view: &ObjectView) -> Option<Self> {
        let entries = view.managers.iter().filter(|manager| manager.owns.spec);

        // Of several entries of the same second, one may be about metadata.
        let newest =
            entries.filter_map(|manager| Some((manager.time?, !manager.owns.only_data))).max();
        let ObjectView { created, marks_hash, .. } = *view;
        newest.map(|(at, others)| Self { at, only_data: !others, created, marks_hash })
    }
}
