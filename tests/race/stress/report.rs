//! The table, a row as soon as it is known. For each way it says how many rounds and claims there were, and how many
//! of these were lost. It says how often two commands were at work at once (`doubles`) or a cycle beside a claim
//! (`beside`), and how often a lock was set `aside` and put `back`. It says how many contenders were `killed`, and
//! after how many rounds something was `left` behind.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use super::round::Shown;

pub fn print_head() {
    println!(
        "{:<10} {:<22} {:>7} {:>7} {:>6} {:>7} {:>7} {:>7} {:>7} {:>8} {:>5}",
        "on",
        "way",
        "rounds",
        "claims",
        "lost",
        "doubles",
        "beside",
        "aside",
        "back",
        "killed",
        "left"
    );
}

pub fn print_row(on: &str, way: &str, rounds: usize, shown: &Shown) {
    let count = |count: &AtomicUsize| count.load(SeqCst);
    let Shown {
        counts,
        aside,
        back,
    } = shown;
    println!(
        "{on:<10} {way:<22} {rounds:>7} {:>7} {:>6} {:>7} {:>7} {aside:>7} {back:>7} {:>8} {:>5}",
        count(&counts.claims),
        count(&counts.lost),
        count(&counts.doubles),
        count(&counts.beside),
        count(&counts.crashes),
        count(&counts.left)
    );
}
