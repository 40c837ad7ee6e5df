//! Trials of the steps of a lock file: created once, written whole, synced, linked over nothing
//! (docs/design.md#create); moved over nothing, and two at once (docs/design.md#move-aside). A trial of how fine its
//! times are: a comparison before and after a pause depends on them (docs/design.md#without-leases).
#![expect(
    clippy::disallowed_methods,
    reason = "it tries the renames, on files of its own"
)]

use std::os::{fd::AsRawFd, unix::fs::FileExt};
use std::time::{Duration, Instant};
use std::{fs::File, io::Write, path::PathBuf, thread::sleep};

use beadlock_base::duration::shown;
use beadlock_base::sys::{RenameMode, renameat2};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, fchmod, fstat};
use nix::unistd::{fdatasync, linkat};

use super::bench::{Bench, FILE};
use super::results::{TrialFailure, TrialOutcome, ensure, seen};
use super::second::{SecondProcess, SecondReply, SecondRequest};

/// The content of a trial's file, as long as a lock that beadlock writes.
const RECORD: [u8; 700] = [b'x'; 700];
/// For how long a lock that was moved aside is watched, in nanoseconds: a change in that time should show.
const GRACE: i64 = 100_000_000;
/// The longest step of a file's times that is measured: FAT's two seconds, and a little.
const LONGEST_STEP: Duration = Duration::from_millis(2500);
/// How many steps are looked at before the smallest counts.
const STEPS: usize = 4;
const ONE: &str = "one";
const TWO: &str = "two";

fn write(file: &mut File) -> Result<(), TrialFailure> {
    file.write_all(&RECORD)?;
    // A claim sets the same mode, whatever the umask.
    fchmod(&*file, Mode::from_bits_truncate(0o644))?;
    Ok(())
}

/// Checks that the file `name` holds the bytes that were written.
fn is_whole(bench: &Bench<'_>, name: &str) -> Result<(), TrialFailure> {
    ensure(
        bench.read(name)?.as_bytes() == RECORD,
        "what was written is not what was read",
    )
}

/// `O_CREAT|O_EXCL` creates a file once: neither this process nor another creates it again.
pub fn exclusive(bench: &Bench<'_>) -> TrialOutcome {
    write(&mut bench.create(FILE)?)?;
    is_whole(bench, FILE)?;
    ensure(
        bench.create(FILE).err() == Some(Errno::EEXIST),
        "one file was created twice",
    )?;
    // Without a second process this one's word must do.
    let Ok(mut second) = SecondProcess::start(bench) else {
        return Ok("this process did not create it twice".to_owned());
    };
    let is_refused = second.ask(SecondRequest::Create)? == SecondReply::Busy;
    ensure(is_refused, "another process created it once more")?;
    Ok("neither this process nor another created it twice".to_owned())
}

/// A file without a name, written, synced, then linked: as a claim does it.
pub fn unnamed(bench: &Bench<'_>) -> TrialOutcome {
    let flags = OFlag::O_WRONLY | OFlag::O_TMPFILE | OFlag::O_CLOEXEC;
    let mut file = openat(bench, ".", flags, Mode::from_bits_truncate(0o644)).map(File::from)?;
    write(&mut file)?;
    fdatasync(&file)?;
    let name = "linked";
    let how = match linkat(&file, "", bench, name, AtFlags::AT_EMPTY_PATH) {
        Ok(()) => "AT_EMPTY_PATH",
        // Needs a capability before Linux 6.10.
        Err(Errno::ENOENT | Errno::EPERM | Errno::EINVAL) => {
            let by_number = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
            linkat(
                AT_FDCWD,
                &by_number,
                bench,
                name,
                AtFlags::AT_SYMLINK_FOLLOW,
            )?;
            "/proc/self/fd"
        }
        Err(errno) => return Err(errno.into()),
    };
    drop(file);
    is_whole(bench, name)?;
    Ok(format!("O_TMPFILE, linked by {how}"))
}

/// `link(2)` gives a file a second name, and never one that is taken.
pub fn hard_link(bench: &Bench<'_>) -> TrialOutcome {
    let mut file = bench.create(ONE)?;
    write(&mut file)?;
    linkat(bench, ONE, bench, TWO, AtFlags::empty())?;
    is_whole(bench, TWO)?;
    let linked = bench.open(TWO)?;
    ensure(
        fstat(&file)?.st_ino == fstat(&linked)?.st_ino,
        "the link is another file",
    )?;
    drop((file, linked, bench.create(FILE)?));
    match linkat(bench, FILE, bench, TWO, AtFlags::empty()) {
        Err(Errno::EEXIST) => Ok("linked, and not over what was there".to_owned()),
        Err(errno) => Err(errno.into()),
        Ok(()) => Err(TrialFailure::missing("it links over what is there")),
    }
}

/// `fdatasync(2)` of a file that has just been written.
pub fn synced(bench: &Bench<'_>) -> TrialOutcome {
    let mut file = bench.create(FILE)?;
    write(&mut file)?;
    let begun = Instant::now();
    fdatasync(&file)?;
    Ok(format!(
        "took {:.1} ms",
        begun.elapsed().as_secs_f64() * 1000.0
    ))
}

fn make(bench: &Bench<'_>, name: &str, text: &str) -> Result<(), TrialFailure> {
    Ok(bench.create(name)?.write_all(text.as_bytes())?)
}

fn rename(bench: &Bench<'_>, mode: RenameMode) -> nix::Result<()> {
    renameat2(bench, ONE, bench, TWO, mode)
}

/// `RENAME_NOREPLACE` moves a file, and never over what is there.
pub fn rename_noreplace(bench: &Bench<'_>) -> TrialOutcome {
    make(bench, ONE, "first")?;
    rename(bench, RenameMode::NoReplace)?;
    make(bench, ONE, "second")?;
    let over = rename(bench, RenameMode::NoReplace);
    let there = bench.read(TWO)?;
    match over {
        Err(Errno::EEXIST) if there == "first" => {
            Ok("moved, and not over what was there".to_owned())
        }
        Err(errno) if errno != Errno::EEXIST => Err(errno.into()),
        _ => Err(TrialFailure::missing("it moves over what is there")),
    }
}

/// `RENAME_EXCHANGE` swaps two files.
pub fn rename_exchange(bench: &Bench<'_>) -> TrialOutcome {
    make(bench, ONE, "first")?;
    make(bench, TWO, "second")?;
    rename(bench, RenameMode::Exchange)?;
    let have_changed = bench.read(ONE)? == "second" && bench.read(TWO)? == "first";
    ensure(have_changed, "the two files did not change places")?;
    Ok("two files changed places".to_owned())
}

/// Writes into one file again and again, and looks how often its mtime and ctime change.
pub fn timestamps(bench: &Bench<'_>) -> TrialOutcome {
    let file = bench.create(FILE)?;
    let (mut mtimes, mut ctimes) = (Vec::new(), Vec::new());
    let begun = Instant::now();
    for byte in (0..=u8::MAX).cycle() {
        file.write_at(&[byte], 0)?;
        let stat = fstat(&file)?;
        let nanos =
            |seconds: i64, nanos: i64| seconds.saturating_mul(1_000_000_000).saturating_add(nanos);
        mtimes.push(nanos(stat.st_mtime, stat.st_mtime_nsec));
        ctimes.push(nanos(stat.st_ctime, stat.st_ctime_nsec));
        mtimes.dedup();
        ctimes.dedup();
        let have = |count| mtimes.len() > count && ctimes.len() > count;
        // For coarse times one step is enough.
        let is_late = begun.elapsed() > LONGEST_STEP / 2 && have(1);
        if have(STEPS) || is_late || begun.elapsed() > LONGEST_STEP {
            break;
        }
        sleep(Duration::from_micros(200));
    }
    judged_steps(smallest(&mtimes), smallest(&ctimes))
}

/// The smallest step forward; `None`: there was none.
fn smallest(times: &[i64]) -> Option<i64> {
    times
        .windows(2)
        .map(|pair| pair[1].saturating_sub(pair[0]))
        .filter(|step| *step > 0)
        .min()
}

fn judged_steps(mtime: Option<i64>, ctime: Option<i64>) -> TrialOutcome {
    let step = |step: Option<i64>| match step {
        Some(nanos @ ..1_000_000) => format!("{} µs", (nanos / 1000).max(1)),
        Some(nanos) => shown(Duration::from_nanos(nanos.unsigned_abs())),
        None => "more than 2 s".to_owned(),
    };
    let detail = format!(
        "mtime changed after {}, ctime after {}",
        step(mtime),
        step(ctime)
    );
    // A writer who puts the mtime back cannot put the ctime back.
    seen(ctime.is_some_and(|step| step <= GRACE), detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_step_counts_and_none_is_coarse() {
        assert_eq!(smallest(&[]), None);
        assert_eq!(smallest(&[5]), None);
        assert_eq!(
            smallest(&[0, 4_000_000, 5_000_000, 3_000_000]),
            Some(1_000_000)
        );
        assert!(judged_steps(Some(4_000_000), Some(4_000_000)).is_ok());
        assert!(
            judged_steps(Some(1), Some(1_000_000_000)).is_err(),
            "whole seconds"
        );
        assert!(judged_steps(None, None).is_err());
    }
}
