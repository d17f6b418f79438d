//! The memory of earlier processes of the operator at the same uptime.

use crate::time::Span;

/// The memory of a process at certain uptimes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks {
    taken: [Option<Mark>; UPTIMES.len()],
    /// It has been a standby for longer than a takeover takes, so its memory says little about that
    /// of a leader.
    stood_by: bool,
    /// Memory now, and the highest that the process has used.
    now: Option<Mark>,
    highest: f64,
}

/// Memory at one instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mark {
    pub(super) used: f64,
    objects: Option<f64>,
}

/// The marks of the current process, and those of the process before it.
#[derive(Debug, Default)]
pub(super) struct Baseline {
    /// The instance of the current process, with its marks so far.
    current: Option<(String, Marks)>,
    /// The marks of the process before it, and the highest memory that it has used.
    before: [Option<Mark>; UPTIMES.len()],
    highest_before: f64,
}

/// A jump of the memory, compared with the process before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Jump {
    pub(super) before: f64,
    pub(super) uptime: Span,
}

/// The uptimes of the marks: after the warm-up, and when caches and pools have settled.
const UPTIMES: [Span; 3] = [Span::hours(1), Span::hours(6), Span::hours(24)];

/// A new process may wait this long for the Lease of its predecessor. It has led for nearly all of its
/// first hour even so.
const TAKEOVER: Span = Span::mins(10);

/// A jump of less than this is noise in a small process.
const LEAST: f64 = 32.0 * 1024.0 * 1024.0;

/// If the number of objects has grown by more than this factor, more memory is expected.
const MORE_OBJECTS: f64 = 1.2;

impl Marks {
    /// Notes the memory of a process.
    pub(super) fn note(&mut self, uptime: Span, used: f64, objects: Option<f64>, standby: bool) {
        let mark = Mark { used, objects };
        self.stood_by |= standby && uptime > TAKEOVER;
        self.now = Some(mark);
        self.highest = self.highest.max(used);

        for (taken, at) in self.taken.iter_mut().zip(UPTIMES) {
            // A process that loopwatch first sees later than that has no mark for this uptime.
            if taken.is_none() && uptime >= at && uptime.0 < at.0 + at.0 / 4 {
                *taken = Some(mark);
            }
        }
    }
}

impl Baseline {
    /// Notes the marks of a process. When a new process has reached its first mark, the marks of
    /// the previous process become the baseline. Of two processes that run at once, only the first
    /// counts, because they may do different work.
    pub(super) fn note(
        &mut self,
        instance: &str,
        marks: &Marks,
        is_running: impl Fn(&str) -> bool,
    ) {
        if marks.stood_by || marks.taken.iter().all(Option::is_none) {
            return;
        }

        if let Some((name, current)) = &self.current {
            let differs = || {
                current.taken.iter().zip(&marks.taken).any(|(old, new)| old.is_some() && old != new)
            };
            let is_new = match name == instance {
                true => differs(),
                false if is_running(name) => return,
                false => true,
            };
            if is_new {
                (self.before, self.highest_before) = (current.taken, current.highest);
            }
        }

        self.current = Some((instance.to_owned(), *marks));
    }

    /// Returns the jump of a process at the latest uptime for which it and the process before it
    /// have marks, unless it holds more objects.
    pub(super) fn jump(&self, instance: &str, marks: &Marks, percent: u32) -> Option<Jump> {
        let own = self.current.as_ref().filter(|(name, _)| name == instance)?;
        let index = (0..UPTIMES.len())
            .rev()
            .find(|index| own.1.taken[*index].is_some() && self.before[*index].is_some())?;
        let (mark, before) = (marks.taken[index]?, self.before[index]?);
        let more = mark
            .objects
            .zip(before.objects)
            .is_some_and(|(now, then)| now > MORE_OBJECTS * then.max(1.0));

        let factor = 1.0 + f64::from(percent) / 100.0;
        let jumped = mark.used > factor * before.used && mark.used - before.used > LEAST;
        (jumped && !more).then_some(Jump { before: before.used, uptime: UPTIMES[index] })
    }

    /// Returns whether the process has used more than `percent` more than the highest that the
    /// process before has ever used: the marks may all have been taken at night.
    pub(super) fn exceeds_highest(&self, marks: &Marks, percent: u32) -> bool {
        let factor = 1.0 + f64::from(percent) / 100.0;
        marks.highest > factor * self.highest_before
    }

    /// Returns whether the memory now is more than `percent` above the highest mark of the process
    /// before; `None` if that has no mark.
    pub(super) fn exceeds(&self, marks: &Marks, percent: u32) -> Option<bool> {
        let before = self.before.iter().flatten().map(|mark| mark.used).max_by(f64::total_cmp)?;
        Some(marks.now?.used > (1.0 + f64::from(percent) / 100.0) * before)
    }
}
