//! Counts of the objects of a kind by what their statuses say.

use crate::model::status::reading::{Reading, Reason, Verdict};
use crate::observation::{ObjectView, StatusShape};

/// What the status of an object says about its health.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Voice {
    /// It says that the object is converged, and has conditions.
    Concluded,
    /// It says that the object is converged, and has no conditions.
    Told,
    /// The object has no status, or an empty one.
    Bare,
    /// The object has a status that says nothing about its health.
    Mute,
    /// The object has a place for conditions about its health, but none yet.
    Begun,
    /// It says that work is in progress.
    Working,
    /// It says something else.
    #[default]
    Other,
}

/// The counts of one kind.
#[derive(Debug, Default)]
pub(crate) struct Voices {
    concluded: u64,
    told: u64,
    bare: u64,
    mute: u64,
    begun: u64,
    working: u64,
    /// What silent objects were expected to say at the end of the last list; `None` before the end
    /// of the first. While a list is read, the order of its objects must not matter.
    pub(crate) listed: Option<Expected>,
}

/// What silent objects are expected to say, because the kind is known to say more.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Expected {
    /// Objects without a status are expected to get one.
    pub(crate) status: bool,
    /// Objects whose status says nothing about their health are expected to say something.
    pub(crate) more: bool,
    /// Objects with a place for conditions are expected to get some.
    pub(crate) conditions: bool,
}

/// What the status of an object says, and the verdict if its silence has no meaning; see
/// [`Reading::fallback`](crate::model::status::reading::Reading::fallback). Packed into a byte, because every
/// object has one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Silence(u8);

/// All voices. The first one is the default.
const VOICES: [Voice; 7] = [
    Voice::Other,
    Voice::Concluded,
    Voice::Told,
    Voice::Bare,
    Voice::Mute,
    Voice::Begun,
    Voice::Working,
];

/// All verdicts.
const VERDICTS: [Verdict; 6] = [
    Verdict::Unknown,
    Verdict::Converged,
    Verdict::Progressing,
    Verdict::Failed,
    Verdict::Suspended,
    Verdict::Finished,
];

impl Silence {
    pub(crate) fn new(voice: Voice, fallback: Verdict) -> Self {
        let voice = VOICES.iter().position(|other| *other == voice).unwrap_or(0);
        let fallback = VERDICTS.iter().position(|other| *other == fallback).unwrap_or(0);
        Self((fallback << 4 | voice) as u8)
    }

    pub(crate) fn voice(self) -> Voice {
        VOICES.get(usize::from(self.0 & 0xf)).copied().unwrap_or_default()
    }

    pub(crate) fn fallback(self) -> Verdict {
        VERDICTS.get(usize::from(self.0 >> 4)).copied().unwrap_or_default()
    }
}

impl Voice {
    pub(crate) fn of(view: &ObjectView, reading: &Reading) -> Self {
        match (reading.verdict, reading.reason) {
            _ if view.deleted.is_some() => Self::Other,
            (_, Reason::NoSummaryYet) => Self::Begun,
            (_, Reason::NothingToJudge) if view.status == StatusShape::Filled => Self::Mute,
            (_, Reason::NothingToJudge) => Self::Bare,
            (Verdict::Converged | Verdict::Finished, _) if view.conditions.is_empty() => Self::Told,
            (Verdict::Converged | Verdict::Finished, _) => Self::Concluded,
            (Verdict::Progressing, _) => Self::Working,
            _ => Self::Other,
        }
    }

    pub(crate) fn is_silent(self) -> bool {
        matches!(self, Self::Bare | Self::Mute | Self::Begun)
    }
}

impl Voices {
    /// Moves an object from one count to another.
    pub(crate) fn count(&mut self, from: Voice, to: Voice) {
        if let Some(count) = self.count_of(from) {
            *count = count.saturating_sub(1);
        }
        if let Some(count) = self.count_of(to) {
            *count += 1;
        }
    }

    /// Returns what silent objects are expected to say, because enough other objects of the kind
    /// say it.
    ///
    /// Operators that write conditions write them for every object. If all converged objects have
    /// conditions, it is therefore enough that as many of them are converged as are mute. Other
    /// parts of a status may be absent for good, so otherwise four times as many must be converged.
    pub(crate) fn expected(&self) -> Expected {
        let Self { concluded, told, bare, mute, begun, working, .. } = *self;
        let converged = concluded + told;
        let most = |count: u64, silent: u64| count > 0 && count >= silent;
        Expected {
            status: most(converged + mute + begun + working, bare),
            more: most(converged, 4 * mute) || (told == 0 && most(concluded, mute)),
            conditions: most(converged, begun),
        }
    }

    fn count_of(&mut self, voice: Voice) -> Option<&mut u64> {
        match voice {
            Voice::Concluded => Some(&mut self.concluded),
            Voice::Told => Some(&mut self.told),
            Voice::Bare => Some(&mut self.bare),
            Voice::Mute => Some(&mut self.mute),
            Voice::Begun => Some(&mut self.begun),
            Voice::Working => Some(&mut self.working),
            Voice::Other => None,
        }
    }
}

impl Expected {
    /// Returns whether an object that is silent in this way is expected to say more.
    pub(crate) fn of(self, voice: Voice) -> bool {
        match voice {
            Voice::Bare => self.status,
            Voice::Mute => self.more,
            Voice::Begun => self.conditions,
            Voice::Concluded | Voice::Told | Voice::Working | Voice::Other => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails to compile if a voice is new. It belongs into the list of the test, too.
    fn is_in_the_list(voice: Voice) {
        match voice {
            Voice::Concluded | Voice::Told | Voice::Bare | Voice::Mute => {}
            Voice::Begun | Voice::Working | Voice::Other => {}
        }
    }

    #[test]
    fn a_byte_holds_every_voice_and_verdict() {
        let voices = [
            Voice::Concluded,
            Voice::Told,
            Voice::Bare,
            Voice::Mute,
            Voice::Begun,
            Voice::Working,
            Voice::Other,
        ];
        for voice in voices {
            is_in_the_list(voice);
            for verdict in VERDICTS {
                let silence = Silence::new(voice, verdict);
                assert_eq!((silence.voice(), silence.fallback()), (voice, verdict));
            }
        }
    }
}
