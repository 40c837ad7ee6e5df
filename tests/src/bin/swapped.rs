//! The two sides of a race for a directory.
//!
//! - `swapped swap ONE OTHER`: exchanges two directories every 20 ms, until it is killed.
//! - `swapped serve path|descriptors DIR SECONDS -- COMMAND`: one cycle after the other in the database DIR, with no
//!   question about the directories above it. `descriptors` uses what the agent uses: one look-up, the owner asked of
//!   what is open, the work begun there. `path` does what looks right as well: the owner asked of the path, the work
//!   begun at the path. It prints how many cycles ran and how many were refused.
//!
//! SECONDS is the longest; `serve` ends sooner when the file DIR/../../foreign is there.

use std::error::Error;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use beadlock_base::helper::{self, Helpers};
use beadlock_base::open_directory::OpenDirectory;
use beadlock_base::sys::{RenameMode, renameat2};
use beadlock_checker::{Cycle, Entered, Options};
use beadlock_core::gate::Gate;
use beadlock_supervise::runner::{self, Order, RunEnd};
use beadlock_trust::{Sticky, Trusted};
use nix::fcntl::AT_FDCWD;

/// How often the directories are exchanged, and how long a cycle waits for the next.
const RHYTHM: Duration = Duration::from_millis(20);

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let words: Vec<OsString> = std::env::args_os().collect();
    let helpers = match helper::serve(&words, &[runner::KIND]) {
        Ok(helpers) => helpers,
        Err(code) => return Ok(ExitCode::from(code)),
    };
    let words: Vec<OsString> = words.into_iter().skip(1).collect();
    let word = |at: usize| words.get(at).and_then(|word| word.to_str());
    match (word(0), words.as_slice()) {
        (Some("swap"), [_, one, other]) => loop {
            renameat2(
                AT_FDCWD,
                one.as_os_str(),
                AT_FDCWD,
                other.as_os_str(),
                RenameMode::Exchange,
            )?;
            sleep(RHYTHM);
        },
        (Some("serve"), [_, how, dir, seconds, _, command]) => {
            let seconds: f64 = seconds.to_str().ok_or("SECONDS")?.parse()?;
            let (dir, command) = (Path::new(dir), runner::for_shell(command.clone()));
            let cycle = if how == "path" {
                by_path
            } else {
                by_descriptors
            };
            let cycle = |dir: &Path, command: &[OsString]| cycle(helpers, dir, command);
            serve(cycle, dir, &command, Duration::from_secs_f64(seconds))
        }
        _ => Err("swap ONE OTHER, or serve path|descriptors DIR SECONDS -- COMMAND".into()),
    }
}

type Cycled = Result<bool, Box<dyn Error>>;

fn serve(
    cycle: impl Fn(&Path, &[OsString]) -> Cycled,
    dir: &Path,
    command: &[OsString],
    bound: Duration,
) -> Result<ExitCode, Box<dyn Error>> {
    let foreign = dir
        .ancestors()
        .nth(3)
        .ok_or("DIR/../../..")?
        .join("foreign");
    let begun = Instant::now();
    let (mut ran, mut refused) = (0, 0);
    while begun.elapsed() < bound && !foreign.exists() {
        if cycle(dir, command)? {
            ran += 1;
        } else {
            refused += 1;
        }
        sleep(RHYTHM);
    }
    println!("{ran} {refused}");
    Ok(ExitCode::SUCCESS)
}

/// Asks the path whose the database is, and goes there by the path. False: it was refused.
fn by_path(_: Helpers, dir: &Path, command: &[OsString]) -> Cycled {
    let above = dir.parent().ok_or("a database at the top")?;
    let trusted = Trusted::this_user();
    let is_trusted = |dir: &Path| fs::metadata(dir).is_ok_and(|meta| trusted.includes(meta.uid()));
    if !is_trusted(dir) || !is_trusted(above) {
        return Ok(false);
    }
    let Some(gate) = Gate::try_take(dir)? else {
        return Ok(false);
    };
    let (program, args) = command.split_first().ok_or("no command")?;
    Command::new(program)
        .args(args)
        .current_dir(above)
        .stdin(Stdio::null())
        .status()?;
    drop(gate);
    Ok(true)
}

/// As the agent does, but for its question about the directories further above.
fn by_descriptors(helpers: Helpers, dir: &Path, command: &[OsString]) -> Cycled {
    let opened = OpenDirectory::open(dir)?;
    let trusted = Trusted::this_user();
    let is_doubted = trusted.doubts(&opened, Sticky::IsNot)?.is_some()
        || trusted.doubts(opened.above()?, Sticky::IsNot)?.is_some();
    if is_doubted {
        return Ok(false);
    }
    let Entered::Cycle(cycle) = Cycle::enter_opened(Ok(opened), &Options::default()) else {
        return Ok(false);
    };
    let order = Order {
        dir: dir.to_owned(),
        command: command.to_owned(),
        timeout: Duration::from_secs(60),
    };
    let gate = cycle.gate().ok_or("no gate")?.share()?;
    let above = cycle
        .above()
        .ok_or("no directory above")?
        .as_fd()
        .try_clone_to_owned()?;
    let mut runner = order
        .runner(helpers, Some(gate), above, None)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut word = BufReader::new(runner.stderr.take().ok_or("no stderr")?);
    let mut line = String::new();
    word.read_line(&mut line)?;
    cycle.leave();
    // The runner stays until this is closed.
    drop(word);
    runner.wait()?;
    match RunEnd::parse(&line) {
        // The exchanges may be noticed while the command runs.
        Some(RunEnd::Exit(_) | RunEnd::GateLost(_)) => Ok(true),
        other => Err(format!("{other:?}: {line}").into()),
    }
}
