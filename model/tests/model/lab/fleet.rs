//! A synthetic fleet: the memory of operators over days, healthy ones and those that leak. The same
//! seed gives the same histories.
//!
//! A pod has 512 MiB. Its live heap consists of a base that fills during the warm-up, a daily wave,
//! correlated noise and lasting steps. The collector measures the live heap when the heap has
//! doubled (`GOGC=100`) or after two minutes; between two collections the heap grows, so resident
//! memory is a sawtooth. The pod is killed when resident memory exceeds the limit.

use std::f64::consts::TAU;

use loopwatch_model::time::{Span, Timestamp};

use super::dice::Dice;

/// Mebibytes.
pub const MIB: f64 = 1024.0 * 1024.0;

/// The memory limit of every pod.
pub const LIMIT: f64 = 512.0 * MIB;

/// The start of every pod.
pub const START: Timestamp = Timestamp(1_767_225_600_000);

/// The interval between samples, in hours.
const STEP: f64 = 30.0 / 3600.0;

/// What a fleet does.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// The leak of the live heap, in MiB per hour. It begins within the first twelve hours.
    pub leak: f64,
    /// The largest daily wave, as a share of the base.
    pub wave: f64,
    /// Whether the wave is always that large. Otherwise, its size varies between zero and that.
    pub full_wave: bool,
    /// Whether objects come in two bursts per day, with ramps.
    pub bursts: bool,
}

/// A sample of a pod.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    pub at: Timestamp,
    /// The live heap after the last collection, in bytes.
    pub live: f64,
    /// Resident memory, in bytes.
    pub resident: f64,
    /// The objects that the pod holds.
    pub objects: f64,
    /// The live heap at which resident memory reaches the limit.
    pub capacity: f64,
    /// Whether the pod was killed. If so, this is its last sample.
    pub killed: bool,
}

/// A pod, which yields a sample every thirty seconds.
pub struct Pod {
    dice: Dice,
    load: Load,
    hours: f64,
    base: f64,
    other: f64,
    warm_up: (f64, f64),
    wave: (f64, f64),
    noise: (f64, f64, f64),
    steps: f64,
    leak_begin: f64,
    leaked: f64,
    objects: f64,
    cached: f64,
    bursts: Vec<[f64; 5]>,
    heap: f64,
    live: f64,
    kept: f64,
    allocates: f64,
    collected: f64,
    dead: bool,
}

/// A fleet of healthy pods with ordinary load.
pub const HEALTHY: Load = Load { leak: 0.0, wave: 0.15, full_wave: false, bursts: false };

/// Healthy pods with a large daily wave and bursts of objects.
pub const HARD: Load = Load { leak: 0.0, wave: 0.3, full_wave: true, bursts: true };

impl Load {
    /// Returns ordinary load with a leak.
    pub fn leaking(leak: f64) -> Self {
        Self { leak, ..HEALTHY }
    }
}

impl Pod {
    pub fn new(seed: u64, load: Load) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        (0..16).for_each(|_| _ = dice.roll(2));

        let mut between = |low: f64, high: f64| low + (high - low) * uniform(&mut dice);
        let base = MIB * between(40_f64.ln(), 120_f64.ln()).exp();
        let other = MIB * between(20.0, 40.0);
        let warm_up = (between(0.1, 0.4), between((1.0 / 30.0_f64).ln(), 3_f64.ln()).exp());
        let wave =
            (if load.full_wave { load.wave } else { between(0.0, load.wave) }, between(0.0, 24.0));
        let noise = (between(0.01, 0.04) * base, between(5.0, 60.0) / 60.0, 0.0);
        let leak_begin = between(0.0, 12.0);

        let objects = between(50_f64.ln(), 2000_f64.ln()).exp().round();
        let cached = between(0.2, 0.5) * base / objects;
        let allocates = MIB * between(0.2, 3.0);
        let mut bursts = Vec::new();

        for day in 0..7 {
            for half in 0..2 {
                let begin = f64::from(day) * 24.0 + f64::from(half) * 12.0 + between(0.0, 6.0);
                bursts.push([
                    begin,
                    between(1.0, 3.0),
                    between(1.0, 4.0),
                    between(1.0, 3.0),
                    between(0.3, 1.0),
                ]);
            }
        }

        bursts.retain(|_| load.bursts);
        let (heap, live) = (base * 0.5, base * 0.5);
        Self {
            dice,
            load,
            hours: 0.0,
            base,
            other,
            warm_up,
            wave,
            noise,
            steps: 0.0,
            leak_begin,
            leaked: 0.0,
            objects,
            cached,
            bursts,
            heap,
            live,
            kept: heap,
            allocates,
            collected: 0.0,
            dead: false,
        }
    }

    /// Returns when the leak begins, if there is one.
    pub fn leaks_from(&self) -> Option<Timestamp> {
        (self.load.leak > 0.0).then(|| instant(self.leak_begin))
    }

    fn objects_now(&self) -> f64 {
        let added = self.bursts.iter().map(|[begin, up, hold, down, height]| {
            let t = self.hours - begin;
            height * (t / up).min((up + hold + down - t) / down).clamp(0.0, 1.0)
        });

        (self.objects * (1.0 + added.sum::<f64>())).round()
    }

    /// Returns what a collection would find alive now.
    fn alive(&mut self) -> f64 {
        let (share, constant) = self.warm_up;
        let warm = 1.0 - share * (-self.hours / constant).exp();
        let wave = self.wave.0 * 0.5 * (1.0 + (TAU * (self.hours + self.wave.1) / 24.0).sin());
        let objects = self.cached * (self.objects_now() - self.objects);
        let jitter = 0.01 * self.base * normal(&mut self.dice);

        self.base * (warm + wave) + self.noise.2 + self.steps + objects + self.leaked + jitter
    }

    fn advance(&mut self) {
        self.hours += STEP;
        let (deviation, constant, noise) = self.noise;
        let decay = (-STEP / constant).exp();
        self.noise.2 =
            noise * decay + deviation * (1.0 - decay * decay).sqrt() * normal(&mut self.dice);

        if uniform(&mut self.dice) < STEP / 48.0 {
            let size = self.base * (0.03 + 0.12 * uniform(&mut self.dice));
            // Steps come and go, so that they do not add up to a leak.
            self.steps += if self.steps > 0.0 { -size } else { size };
        }

        if self.hours > self.leak_begin {
            let daily = 1.0 + 0.3 * (TAU * (self.hours + self.wave.1) / 24.0).sin();
            self.leaked += self.load.leak * MIB * STEP * daily;
        }
    }
}

impl Iterator for Pod {
    type Item = Reading;

    fn next(&mut self) -> Option<Reading> {
        if self.dead {
            return None;
        }

        self.advance();
        self.heap += self.allocates * 30.0 * (0.7 + 0.6 * uniform(&mut self.dice));

        let goal = 2.0 * self.live;
        let high = self.heap.min(goal);
        if self.heap >= goal || self.hours - self.collected > 2.0 / 60.0 {
            self.live = self.alive().max(MIB);
            (self.heap, self.collected) = (self.live, self.hours);
        }

        // The runtime returns memory to the system only slowly.
        self.kept = high.max(self.kept * (-STEP * 6.0).exp()).max(self.heap);
        let resident = self.other + self.kept;
        self.dead = resident >= LIMIT;

        let at = instant(self.hours);
        let capacity = (LIMIT - self.other) / 2.0;
        Some(Reading {
            at,
            live: self.live,
            resident,
            objects: self.objects_now(),
            capacity,
            killed: self.dead,
        })
    }
}

#[expect(clippy::cast_possible_truncation, reason = "hours of a week, in milliseconds")]
fn instant(hours: f64) -> Timestamp {
    START.after(Span((hours * 3_600_000.0) as i64))
}

fn uniform(dice: &mut Dice) -> f64 {
    dice.roll(1 << 53) as f64 / (1_u64 << 53) as f64
}

/// Returns a number from the standard normal distribution (Box and Muller 1958).
fn normal(dice: &mut Dice) -> f64 {
    let radius = (-2.0 * uniform(dice).max(f64::MIN_POSITIVE).ln()).sqrt();
    radius * (TAU * uniform(dice)).cos()
}
