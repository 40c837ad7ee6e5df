//! How fine a file's times are: what a comparison before and after a pause can see (docs/design.md#without-leases).

use std::os::unix::fs::FileExt;
use std::thread::sleep;
use std::time::{Duration, Instant};

use beadlock_checker::internal::duration::shown;
use nix::sys::stat::{FileStat, fstat};

use super::bench::{Bench, FILE};
use super::trial::{Failure, Outcome};

/// For how long a lock is watched that was moved aside: what changes meanwhile should show.
const GRACE: i64 = 100_000_000;
/// The coarsest that is measured: FAT's two seconds, and a little.
const LIMIT: Duration = Duration::from_millis(2500);
/// How many steps are looked at before the smallest counts.
const STEPS: usize = 4;

/// Writes into one file again and again, and looks how often its mtime and ctime change.
pub fn steps(bench: &Bench<'_>) -> Outcome {
    let file = bench.create(FILE)?;
    let (mut mtimes, mut ctimes) = (Vec::new(), Vec::new());
    let begun = Instant::now();
    let mut byte = 0_u8;
    loop {
        byte = byte.wrapping_add(1);
        file.write_at(&[byte], 0)?;
        let stat = fstat(&file)?;
        note(&mut mtimes, mtime(&stat));
        note(&mut ctimes, ctime(&stat));
        let has_both = mtimes.len() > STEPS && ctimes.len() > STEPS;
        // Of coarse times one step tells all.
        let is_late = begun.elapsed() > LIMIT / 2 && mtimes.len() > 1 && ctimes.len() > 1;
        if has_both || is_late || begun.elapsed() > LIMIT {
            break;
        }
        sleep(Duration::from_micros(200));
    }
    judged(smallest(&mtimes), smallest(&ctimes))
}

fn mtime(stat: &FileStat) -> i64 {
    stat.st_mtime.saturating_mul(1_000_000_000).saturating_add(stat.st_mtime_nsec)
}

fn ctime(stat: &FileStat) -> i64 {
    stat.st_ctime.saturating_mul(1_000_000_000).saturating_add(stat.st_ctime_nsec)
}

fn note(times: &mut Vec<i64>, time: i64) {
    if times.last() != Some(&time) {
        times.push(time);
    }
}

/// The smallest step forward; `None`: there was none.
fn smallest(times: &[i64]) -> Option<i64> {
    times.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).filter(|step| *step > 0).min()
}

fn judged(mtime: Option<i64>, ctime: Option<i64>) -> Outcome {
    let step = |step: Option<i64>| match step {
        Some(nanos @ ..1_000_000) => format!("{} µs", (nanos / 1000).max(1)),
        Some(nanos) => shown(Duration::from_nanos(nanos.unsigned_abs())),
        None => "more than 2 s".to_owned(),
    };
    let detail = format!("mtime changed after {}, ctime after {}", step(mtime), step(ctime));
    // A writer who puts the mtime back cannot put the ctime back.
    if ctime.is_some_and(|step| step <= GRACE) { Ok(detail) } else { Err(Failure::Missing(detail)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_step_counts_and_none_is_coarse() {
        assert_eq!(smallest(&[]), None);
        assert_eq!(smallest(&[5]), None);
        assert_eq!(smallest(&[0, 4_000_000, 5_000_000, 3_000_000]), Some(1_000_000));
        assert!(judged(Some(4_000_000), Some(4_000_000)).is_ok());
        assert!(judged(Some(1), Some(1_000_000_000)).is_err(), "whole seconds");
        assert!(judged(None, None).is_err());
    }
}
