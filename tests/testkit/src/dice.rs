//! Repeatable chance: one for each who acts, from one seed.

use std::time::Duration;

/// A row of numbers that a seed and a name repeat.
pub struct Dice(u64);

impl Dice {
    /// Dice of their own for everybody whose name is another.
    pub fn new(seed: u64, name: &str) -> Self {
        let mixed = name
            .bytes()
            .fold(seed ^ 0x9e37_79b9_7f4a_7c15, |sum, byte| {
                (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        Self(mixed | 1)
    }

    /// A seed for a run: what this environment variable says, else one that no other run has. Printed, to be repeated.
    pub fn seed(variable: &str) -> u64 {
        let given = std::env::var(variable)
            .ok()
            .and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| {
            u64::from(std::process::id()) << 32
                | u64::from(jiff::Timestamp::now().subsec_nanosecond().cast_unsigned())
        });
        println!("seed {seed} ({variable} repeats the dice)");
        seed
    }

    /// A number from 0 up to, not including, this.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }

    /// One of these, of which there is at least one.
    pub fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        let index = usize::try_from(self.below(all.len() as u64)).expect("an index is a usize");
        &all[index]
    }

    /// Sleeps for so many milliseconds.
    pub fn pause(&mut self, least: u64, most: u64) {
        std::thread::sleep(Duration::from_millis(least + self.below(most - least)));
    }
}
