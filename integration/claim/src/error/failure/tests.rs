use std::{array, thread};

use super::*;
use crate::words::millis;

/// Repeatable chance (splitmix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// The least and the most, in milliseconds, that is answered for each age.
const RULE: [(Option<Duration>, u64, u64); 11] = [
    (None, 2400, 3600),
    (Some(Duration::ZERO), 1000, 1200),
    (Some(secs(4)), 1000, 1200),
    (Some(Duration::from_millis(4800)), 1000, 1440),
    (Some(secs(6)), 1200, 1800),
    (Some(Duration::from_millis(12_048)), 2410, 3614),
    (Some(secs(60)), 12_000, 18_000),
    (Some(secs(100)), 20_000, 30_000),
    (Some(secs(120)), 24_000, 30_000),
    (Some(secs(3600)), 24_000, 30_000),
    (Some(Duration::MAX), 24_000, 30_000),
];

#[test]
fn a_quarter_of_the_age_within_the_bounds_and_a_fifth_about_it() {
    let mut dice = Dice(1);
    for (age, least, most) in RULE {
        let told = |random| millis(retry_after(age, random));
        assert_eq!((told(0), told(u64::MAX)), (least, most), "{age:?}");
        let base = age.map_or(3000, |age| (millis(age) / 4).clamp(1000, 30_000));
        for _ in 0..1000 {
            let told = told(dice.roll());
            assert!((1000..=30_000).contains(&told), "{age:?}: {told}");
            assert!(
                told * 5 >= base * 4 && told * 5 <= base * 6,
                "{age:?}: {told} of {base}"
            );
        }
    }
}

#[test]
fn every_value_in_reach_is_as_likely_as_the_others() {
    let mut dice = Dice(2);
    for (age, least, most) in RULE {
        let mut tenths = [0; 10];
        for _ in 0..100_000 {
            let told = millis(retry_after(age, dice.roll()));
            tenths[((told - least) * 10 / (most - least + 1)) as usize] += 1;
        }
        // A tenth of a narrow range has up to one value in twenty more than its neighbour.
        assert!(
            tenths.iter().all(|count| (9000..11_000).contains(count)),
            "{age:?}: {tenths:?}"
        );
    }
}

/// The most tries within 250 ms, of 50 clients that are refused at these moments by a lock. It is `age` old at the
/// beginning. They come back when they are told to, and so on for five minutes.
fn busiest(age: Duration, refused: [Duration; 50], dice: &mut Dice) -> usize {
    let mut tries = Vec::new();
    for mut at in refused {
        loop {
            at += retry_after(Some(age + at), dice.roll());
            if at > secs(300) {
                break;
            }
            tries.push(at);
        }
    }
    tries.sort_unstable();
    let mut first = 0;
    let until = |last: usize| {
        while tries[last] - tries[first] >= Duration::from_millis(250) {
            first += 1;
        }
        last - first + 1
    };
    (0..tries.len()).map(until).max().unwrap_or_default()
}

/// Of a thousand such crowds: how many had more than ten tries within 250 ms, and the most that any had.
fn crowds(age: Duration, spread: Duration) -> (usize, usize) {
    let mut dice = Dice(age.as_secs() << 32 | spread.as_secs());
    let mut worst = [0; 1000];
    for worst in &mut worst {
        let refused = array::from_fn(|_| spread * (dice.roll() >> 32) as u32 / u32::MAX);
        *worst = busiest(age, refused, &mut dice);
    }
    let most = worst.iter().copied().max().unwrap_or_default();
    (worst.iter().filter(|worst| **worst > 10).count(), most)
}

/// In docs/protocols/framework.md, each row with its figures.
#[test]
fn fifty_who_obey_it_are_a_crowd_only_at_a_young_lock_that_refuses_all_of_them_at_once() {
    // The age, and over how long the fifty come, in seconds; of how many in a thousand there may be a crowd.
    let rows = [
        (0, 30, 0..=0),
        (2, 30, 0..=0),
        (10, 10, 0..=10),
        (20, 10, 0..=0),
        (60, 10, 0..=0),
        (600, 10, 0..=0),
        (60, 0, 0..=5),
        (100, 0, 0..=5),
        (600, 0, 0..=5),
        // By arithmetic: 50 come back within 0.4 of a pause that is shorter than 1.2 s, or 2.5 s.
        (2, 0, 1000..=1000),
        (10, 0, 990..=1000),
    ];
    thread::scope(|threads| {
        for (age, spread, allowed) in rows {
            threads.spawn(move || {
                let (crowded, most) = crowds(secs(age), secs(spread));
                println!("{age} s old, refused within {spread} s: {crowded} of 1000 crowded, {most} tries at most");
                assert!(allowed.contains(&crowded), "{age} s, {spread} s: {crowded} of 1000, {most} at most");
            });
        }
    });
}
