//! Objects whose status says nothing about their health, or not yet.
//!
//! Silence has a meaning only if the kind is known to say more: if at least as many objects of the kind have converged by
//! what their status says as are silent in the same way. Then the operator has not done its work yet. Otherwise, silence
//! may be all that the operator ever says, so it opens no finding and is never late.

use super::Model;
use super::context::ObjectContext;
use super::kinds::Kind;
use super::reading::{Reading, Reason, Verdict};
use super::store::Unconverged;
use super::voices::{Expected, Voice};
use crate::observation::{ObjectView, StatusSchema, StatusShape};
use crate::time::Timestamp;

// === impl Kind ===

impl Kind {
    /// Returns whether an object without a status is expected to get one.
    pub(crate) fn expects_status(&self) -> bool {
        self.expected().status
    }

    fn expected(&self) -> Expected {
        let expected = self.voices.expected();
        Expected { status: expected.status && !matches!(self.status, StatusSchema::None), ..expected }
    }
}

// === impl ObjectContext ===

impl ObjectContext<'_> {
    /// Counts what a new version of the object says.
    pub(crate) fn count_voice(&mut self, view: &ObjectView, reading: &Reading, new: bool, live: bool) {
        let flags = &mut self.record.flags;
        let voice = Voice::of(view, reading);
        let old = if new { Voice::Other } else { flags.voice };
        self.kind.voices.count(old, voice);
        flags.silence_matters = old == voice && voice.is_silent() && self.record.verdict == Verdict::Progressing;
        flags.has_status = view.status == StatusShape::Filled;
        flags.voice = voice;
        flags.fallback = reading.fallback;
        if !live && voice.is_silent() {
            self.kind.listed_silent.insert(self.slot);
        }
    }

    /// Returns the verdict on a version that [`Self::count_voice`] has counted.
    pub(crate) fn verdict_on(&self, reading: &Reading, live: bool) -> Verdict {
        let voice = self.record.flags.voice;
        let expected = if live { Some(self.kind.expected()) } else { self.kind.voices.listed };
        match expected {
            _ if !voice.is_silent() => reading.verdict,
            _ if self.record.flags.silence_matters => Verdict::Progressing,
            Some(expected) if expected.of(voice) => Verdict::Progressing,
            Some(_) => reading.fallback,
            None => Verdict::Unknown, // the end of the list decides
        }
    }

    /// Returns whether a young object, whose operator has begun to write its conditions, may still say more.
    pub(crate) fn may_say_more_soon(&self) -> bool {
        let young = self.record.obligation().is_some_and(|o| o.outcome.is_none() && self.now < o.deadline);
        young && self.record.reason == Reason::NoSummaryYet
    }

    /// Decides on an object that was silent in a list. Returns whether the verdict changed.
    fn review_silence(&mut self, expected: Expected) -> bool {
        let flags = self.record.flags;
        if self.record.verdict != Verdict::Unknown || !flags.voice.is_silent() {
            return false;
        }
        let open = self.record.unconverged().is_some();
        if expected.of(flags.voice) {
            self.record.verdict = Verdict::Progressing;
            if !open && !flags.spec_converged {
                self.open_silent_obligation();
            }
        } else {
            self.record.verdict = flags.fallback;
            let converged = matches!(flags.fallback, Verdict::Converged | Verdict::Finished);
            self.record.flags.spec_converged |= converged && !open;
        }
        self.record.verdict != Verdict::Unknown
    }

    /// Opens the obligation of a listed object whose silence has a meaning only now. The creation time is that of the
    /// spec only if the spec never changed.
    fn open_silent_obligation(&mut self) {
        let created = self.record.created().filter(|_| self.record.generation <= 1);
        let opened: Timestamp = created.map_or(self.now, |created| created.min(self.now));
        let obligation = self.new_obligation(opened, true);
        self.record.hot_mut().unconverged = Some(Unconverged {
            since: opened,
            obligation: Some(obligation),
            regressed_since: None,
            last_converged: None,
            status_written: None,
            status_writer: String::new(),
        });
        self.kind.unconverged.insert((opened, self.slot));
    }
}

// === impl Model ===

impl Model {
    /// Reviews the silent objects of a list that has ended.
    pub(crate) fn review_silence(&mut self, watch: u16) {
        let Some(kind) = self.kinds.get_mut(self.watches[watch as usize].kind as usize) else { return };
        let expected = kind.expected();
        kind.voices.listed = Some(expected);
        for slot in std::mem::take(&mut kind.listed_silent) {
            if self.context(slot).is_some_and(|mut context| context.review_silence(expected)) {
                self.review_object(slot);
            }
        }
    }
}
