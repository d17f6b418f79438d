//! How often each object has been written in the last two minutes, with a change and without one: eight
//! bytes for each object that has been written lately, and nothing for the others.

use crate::model::world::store::Slot;
use crate::time::Timestamp;

/// The number of neighbouring objects that share an allocation.
const CHUNK: usize = 256;

const MINUTE: i64 = 60_000;

/// The counts of all objects, in chunks. A chunk exists as long as one of its objects changes.
#[derive(Debug, Default)]
pub(super) struct Pulses {
    chunks: Vec<Option<Box<[Pulse; CHUNK]>>>,
    /// The minute of the last version of any object, and the numbers in that minute and the one before.
    all: (u32, [u64; 2]),
}

/// The count of one object.
#[derive(Clone, Copy, Debug, Default)]
struct Pulse {
    /// The minute of the last version, since the Unix epoch.
    minute: u32,
    /// The number of versions in that minute, and in the one before.
    wasted: [u8; 2],
    real: [u8; 2],
}

// The memory budget per object that changes.
const _: () = assert!(size_of::<Pulse>() <= 8, "a pulse has grown past its budget");

impl Pulses {
    /// Counts a version. Returns the number of its sort, wasted or not, in this minute and the one before.
    pub(super) fn count(&mut self, now: Timestamp, slot: Slot, is_waste: bool) -> u8 {
        let (chunk, place) = (slot as usize / CHUNK, slot as usize % CHUNK);
        if self.chunks.len() <= chunk {
            self.chunks.resize_with(chunk + 1, || None);
        }

        let minute = minute(now);
        let (last, counts) = self.all;
        self.all = match minute.wrapping_sub(last) {
            0 => (minute, [counts[0] + 1, counts[1]]),
            1 => (minute, [1, counts[0]]),
            _ => (minute, [1, 0]),
        };

        let chunk = self.chunks[chunk].get_or_insert_with(|| Box::new([Pulse::default(); CHUNK]));
        let pulse = &mut chunk[place];
        let passed = minute.wrapping_sub(pulse.minute);
        pulse.minute = minute;
        for counts in [&mut pulse.wasted, &mut pulse.real] {
            *counts = match passed {
                0 => *counts,
                1 => [0, counts[0]],
                _ => [0, 0],
            };
        }

        let counts = if is_waste { &mut pulse.wasted } else { &mut pulse.real };
        counts[0] = counts[0].saturating_add(1);
        counts[0].saturating_add(counts[1])
    }

    /// Forgets an object. The last one of a chunk takes the chunk along.
    pub(super) fn forget(&mut self, slot: Slot) {
        let (chunk, place) = (slot as usize / CHUNK, slot as usize % CHUNK);
        let Some(chunk) = self.chunks.get_mut(chunk) else { return };
        let Some(pulses) = chunk.as_deref_mut().filter(|pulses| pulses[place].minute > 0) else {
            return;
        };

        pulses[place] = Pulse::default();
        if pulses.iter().all(|pulse| pulse.minute == 0) {
            *chunk = None;
            self.shrink();
        }
    }

    /// Forgets the chunks in which nothing has happened for two minutes.
    pub(super) fn forget_old(&mut self, now: Timestamp) {
        let oldest = minute(now).saturating_sub(1);
        for chunk in &mut self.chunks {
            let is_over = |chunk: &[Pulse; CHUNK]| chunk.iter().all(|pulse| pulse.minute < oldest);
            if chunk.as_deref().is_some_and(is_over) {
                *chunk = None;
            }
        }

        self.shrink();
    }

    /// Gives back the memory of chunks at the end that do not exist.
    fn shrink(&mut self) {
        while self.chunks.last().is_some_and(Option::is_none) {
            self.chunks.pop();
        }
        if self.chunks.is_empty() {
            self.chunks = Vec::new();
        }
    }

    /// Returns the number of versions of all objects per minute.
    pub(super) fn all_per_minute(&self, now: Timestamp) -> u64 {
        let (last, counts) = self.all;
        let milliseconds = MINUTE as u64 + now.0.rem_euclid(MINUTE).unsigned_abs();
        match minute(now).wrapping_sub(last) {
            0 => (counts[0] + counts[1]) * MINUTE as u64 / milliseconds,
            1 => counts[0] * MINUTE as u64 / milliseconds,
            _ => 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }
}

fn minute(at: Timestamp) -> u32 {
    u32::try_from(at.0 / MINUTE).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_covers_this_minute_and_the_one_before() {
        let mut pulses = Pulses::default();
        let at = |seconds: i64| Timestamp(MINUTE * 1_000 + seconds * 1_000);
        assert_eq!(
            [0, 1, 59, 60, 119].map(|second| pulses.count(at(second), 700, true)),
            [1, 2, 3, 4, 5]
        );
        assert_eq!(pulses.count(at(119), 700, false), 1, "another sort");
        assert_eq!(pulses.count(at(179), 700, true), 3, "the first minute is over");
        assert_eq!(pulses.count(at(179), 700, false), 2);
        assert_eq!(pulses.count(at(400), 700, true), 1);
        assert_eq!(pulses.count(at(400), 701, true), 1, "another object");

        pulses.forget(701);
        assert_eq!(pulses.count(at(400), 701, true), 1);
    }

    #[test]
    fn quiet_objects_take_no_memory() {
        let mut pulses = Pulses::default();
        pulses.count(Timestamp(0), 5, true);
        pulses.count(Timestamp(2 * MINUTE), 5_000, false);
        pulses.forget_old(Timestamp(3 * MINUTE));
        assert_eq!(pulses.chunks.iter().flatten().count(), 1);

        pulses.forget_old(Timestamp(5 * MINUTE));
        assert!(pulses.is_empty() && pulses.chunks.capacity() == 0);
    }
}
