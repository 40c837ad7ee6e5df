//! Somebody who is in a database for a while: the work of a claim, or of a cycle. Used by the soak.
//!
//! `witness ROLE GROUND BEADS MILLIS [--after-go] [--drain]`
//!
//! That two are in one database at once is not worked out from times. Each has an flock on `GROUND/NAME` while it is
//! in, so the kernel tells the second that it is not alone, which says so in `GROUND/overlaps`. The flock goes with
//! the process, however that ends, and before its PID is free.
//!
//! A claim adds a line to `BEADS/issues.jsonl`; a cycle notes in `GROUND/NAME.synced` how much of it is
//! there. With `--after-go` it waits for a line on stdin first, and stays until stdin ends. With `--drain` it
//! waits, once, until the gate has been open: for a lock that is written by somebody who knows nothing of
//! gates.

use std::fs::{self, File};
use std::io::{self, BufRead, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [role, ground, beads, millis, options @ ..] = args.as_slice() else {
        return Err(io::Error::other(
            "witness ROLE GROUND BEADS MILLIS [--after-go] [--drain]",
        ));
    };
    let (ground, beads) = (Path::new(ground), Path::new(beads));
    let after_go = options.iter().any(|option| option == "--after-go");
    if after_go && io::stdin().lock().read_line(&mut String::new())? == 0 {
        return Ok(());
    }
    if options.iter().any(|option| option == "--drain") {
        drop(Flock::lock(File::open(beads)?, FlockArg::LockExclusive).map_err(|(_, errno)| errno)?);
    }
    let name = name(beads);
    let inside = enter(role, ground, &name)?;
    append(&ground.join("entered"), &format!("{role} {name}"))?;
    let work = beads.join("issues.jsonl");
    let there = fs::metadata(&work)?.len();
    std::thread::sleep(Duration::from_millis(
        millis.parse().map_err(io::Error::other)?,
    ));
    if role == "cycle" {
        let noted = ground.join(format!("{name}.synced"));
        let new = noted.with_extension("new");
        fs::write(&new, there.to_string())?;
        fs::rename(new, noted)?;
    } else {
        append(&work, &format!("{{\"by\":\"{role}\"}}"))?;
    }
    drop(inside);
    if after_go {
        writeln!(io::stdout(), "done")?;
        io::stdin().lock().read_to_end(&mut Vec::new())?;
    }
    Ok(())
}

/// `a/017/.beads` is `a-017`.
fn name(beads: &Path) -> String {
    let words: PathBuf = beads.components().rev().skip(1).take(2).collect();
    let mut words: Vec<_> = words
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    words.reverse();
    words.join("-")
}

/// The right to be the only one, or a line about who else is in.
fn enter(role: &str, ground: &Path, name: &str) -> io::Result<Option<Flock<File>>> {
    let path = ground.join(name);
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(inside) => {
            fs::write(&path, format!("{role} {}", std::process::id()))?;
            Ok(Some(inside))
        }
        Err((_, nix::errno::Errno::EWOULDBLOCK)) => {
            let other = fs::read_to_string(&path).unwrap_or_default();
            append(
                &ground.join("overlaps"),
                &format!("{role} {} met {other} in {name}", std::process::id()),
            )?;
            Ok(None)
        }
        Err((_, errno)) => Err(errno.into()),
    }
}

/// One write at the end of a file.
fn append(path: &Path, line: &str) -> io::Result<()> {
    File::options()
        .append(true)
        .create(true)
        .open(path)?
        .write_all(format!("{line}\n").as_bytes())
}
