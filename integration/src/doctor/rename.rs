//! How a lock moves: over nothing, and two at once (docs/design.md#move-aside).
#![expect(clippy::disallowed_methods, reason = "it tries the renames, on files of its own")]

use std::ffi::CStr;
use std::io::Write;

use nix::errno::Errno;
use nix::fcntl::{RenameFlags, renameat2};

use super::bench::Bench;
use super::trial::{Failure, Outcome};

const ONE: &CStr = c"one";
const TWO: &CStr = c"two";

fn make(bench: &Bench<'_>, name: &CStr, text: &str) -> Result<(), Failure> {
    Ok(bench.create(name)?.write_all(text.as_bytes())?)
}

fn rename(bench: &Bench<'_>, flag: RenameFlags) -> nix::Result<()> {
    renameat2(bench, ONE, bench, TWO, flag)
}

/// `RENAME_NOREPLACE` moves a file, and never over what is there.
pub fn no_replace(bench: &Bench<'_>) -> Outcome {
    make(bench, ONE, "first")?;
    rename(bench, RenameFlags::RENAME_NOREPLACE)?;
    make(bench, ONE, "second")?;
    let over = rename(bench, RenameFlags::RENAME_NOREPLACE);
    let there = bench.read(TWO)?;
    match over {
        Err(Errno::EEXIST) if there == "first" => Ok("moved, and not over what was there".to_owned()),
        Err(errno) if errno != Errno::EEXIST => Err(errno.into()),
        _ => Err(Failure::missing("it moves over what is there")),
    }
}

/// `RENAME_EXCHANGE` changes two files.
pub fn exchange(bench: &Bench<'_>) -> Outcome {
    make(bench, ONE, "first")?;
    make(bench, TWO, "second")?;
    rename(bench, RenameFlags::RENAME_EXCHANGE)?;
    if bench.read(ONE)? == "second" && bench.read(TWO)? == "first" {
        return Ok("two files changed places".to_owned());
    }
    Err(Failure::missing("the two files did not change places"))
}
