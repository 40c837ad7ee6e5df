//! How a lock comes into being: created once, written whole, synced, linked over nothing (docs/design.md#create).

use std::ffi::CStr;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::Instant;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, fchmod, fstat};
use nix::unistd::{fdatasync, linkat};

use super::bench::{Bench, FILE};
use super::second::{Answer, Order, Second};
use super::trial::{Failure, Outcome};

/// As long as a lock that beadlock writes.
const RECORD: [u8; 700] = [b'x'; 700];

fn write(file: &mut File) -> Result<(), Failure> {
    file.write_all(&RECORD)?;
    // As a claim does it, whatever the umask.
    fchmod(&*file, Mode::from_bits_truncate(0o644))?;
    Ok(())
}

/// What was written is to be read under `name`.
fn is_whole(bench: &Bench<'_>, name: &CStr) -> Result<(), Failure> {
    if bench.read(name)?.as_bytes() == RECORD {
        return Ok(());
    }
    Err(Failure::missing("what was written is not what was read"))
}

/// `O_CREAT|O_EXCL` creates a file once: neither this process nor another creates it again.
pub fn exclusive(bench: &Bench<'_>) -> Outcome {
    write(&mut bench.create(FILE)?)?;
    is_whole(bench, FILE)?;
    if bench.create(FILE).err() != Some(Errno::EEXIST) {
        return Err(Failure::missing("one file was created twice"));
    }
    // Without a second process this one's word must do.
    let Ok(mut second) = Second::start(bench) else {
        return Ok("this process did not create it twice".to_owned());
    };
    match second.ask(Order::Create)? {
        Answer::Refused(Errno::EEXIST) => Ok("neither this process nor another created it twice".to_owned()),
        Answer::Refused(errno) => Err(errno.into()),
        _ => Err(Failure::missing("another process created it once more")),
    }
}

/// A file without a name, written, synced, then linked: as a claim does it.
pub fn unnamed(bench: &Bench<'_>) -> Outcome {
    let flags = OFlag::O_WRONLY | OFlag::O_TMPFILE | OFlag::O_CLOEXEC;
    let mut file = openat(bench, c".", flags, Mode::from_bits_truncate(0o644)).map(File::from)?;
    write(&mut file)?;
    fdatasync(&file)?;
    let name = c"linked";
    let how = match linkat(&file, c"", bench, name, AtFlags::AT_EMPTY_PATH) {
        Ok(()) => "AT_EMPTY_PATH",
        // Needs a capability before Linux 6.10.
        Err(Errno::ENOENT | Errno::EPERM | Errno::EINVAL) => {
            let by_number = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
            linkat(AT_FDCWD, &by_number, bench, name, AtFlags::AT_SYMLINK_FOLLOW)?;
            "/proc/self/fd"
        }
        Err(errno) => return Err(errno.into()),
    };
    drop(file);
    is_whole(bench, name)?;
    Ok(format!("O_TMPFILE, linked by {how}"))
}

/// `link(2)` gives a file a second name, and never one that is taken.
pub fn hard_link(bench: &Bench<'_>) -> Outcome {
    let (from, to, other) = (c"one", c"two", c"other");
    let mut file = bench.create(from)?;
    write(&mut file)?;
    linkat(bench, from, bench, to, AtFlags::empty())?;
    is_whole(bench, to)?;
    let linked = bench.open(to)?;
    if fstat(&file)?.st_ino != fstat(&linked)?.st_ino {
        return Err(Failure::missing("the link is another file"));
    }
    drop((file, linked, bench.create(other)?));
    match linkat(bench, other, bench, to, AtFlags::empty()) {
        Err(Errno::EEXIST) => Ok("linked, and not over what was there".to_owned()),
        Err(errno) => Err(errno.into()),
        Ok(()) => Err(Failure::missing("it links over what is there")),
    }
}

/// `fdatasync(2)` of a file that has just been written.
pub fn synced(bench: &Bench<'_>) -> Outcome {
    let mut file = bench.create(FILE)?;
    write(&mut file)?;
    let begun = Instant::now();
    fdatasync(&file)?;
    let took = begun.elapsed();
    Ok(format!("took {:.1} ms", took.as_secs_f64() * 1000.0))
}
