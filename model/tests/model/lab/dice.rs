//! Random numbers for histories.

/// The xorshift64* generator (Vigna 2016): each seed gives the same history on every platform.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % sides
    }

    #[allow(dead_code, reason = "the benchmark needs no more than numbers")]
    pub fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }

    #[allow(dead_code, reason = "the benchmark needs no more than numbers")]
    pub fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.roll(of.len() as u64) as usize].clone()
    }
}
