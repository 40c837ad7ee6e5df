//! `warded own|shared GRACE_MS -- PROGRAM [ARG…]`: runs a command as `beadlock hold` runs one whose lock is kept up by
//! a heartbeat: told to end with this process by the kernel, and in the care of a watchdog.
//!
//! It prints its watchdog's PID, and ends with the command. PROGRAM is a path. WARDED_DEADLINE is the deadline of a
//! session in a fleet, in the form of the cycle runner's command line.

use std::error::Error;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;
use std::time::Duration;

use beadlock_base::deadline::WorkDeadline;
use beadlock_base::helper::{self, HelperProgram};
use beadlock_base::sys::{Spawn, fork_waiting};
use beadlock_supervise::watchdog::{self, CommandRef, EndTree, Watchdog, WatchdogHelper};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let words: Vec<OsString> = std::env::args_os().collect();
    let helpers = match helper::serve(&words, const { &[HelperProgram::of::<WatchdogHelper>()] }) {
        Ok(helpers) => helpers,
        Err(code) => return Ok(ExitCode::from(code)),
    };
    let [_, group, grace, _, command @ ..] = words.as_slice() else {
        return Err("own|shared GRACE_MS -- CMD".into());
    };
    let own_group = group == "own";
    let grace = Duration::from_millis(grace.to_str().ok_or("GRACE_MS")?.parse()?);
    nix::sys::prctl::set_child_subreaper(true)?;
    let c_string = |word: &OsStr| CString::new(word.as_bytes());
    let argv = command
        .iter()
        .map(|word| c_string(word))
        .collect::<Result<Vec<_>, _>>()?;
    let token = format!("test-{}", std::process::id());
    let mark = watchdog::variable(&token, std::env::var_os(watchdog::VARIABLE).as_deref());
    let variables = std::env::vars_os().filter(|(name, _)| name != watchdog::VARIABLE);
    let variables = variables.chain([(watchdog::VARIABLE.into(), mark)]);
    let pair = |(name, value): (OsString, OsString)| c_string(&[name, value].join(OsStr::new("=")));
    let envp = variables.map(pair).collect::<Result<Vec<_>, _>>()?;
    let mask = SigSet::thread_get_mask()?;
    let program = argv.first().ok_or("no command")?;
    let parent_death = Some(Signal::SIGTERM);
    let streams = None;
    let spawn = Spawn {
        program,
        argv: &argv,
        envp: &envp,
        own_group,
        mask,
        parent_death,
        streams,
        inherited: None,
    };
    let waiting = fork_waiting(&spawn)?;
    let pid = waiting.pid();
    let deadline = std::env::var("WARDED_DEADLINE")
        .ok()
        .and_then(|text| WorkDeadline::parse(&text));
    let deadlines = deadline.into_iter().collect();
    let at_end = EndTree::EndTree {
        token,
        grace,
        silence: None,
        deadlines,
    };
    let watchdog = Watchdog::start(
        helpers,
        CommandRef::of(pid, own_group),
        at_end,
        ("test", "test"),
        &[],
    )?;
    println!("{}", watchdog.pid());
    waiting.go()?.result()?;
    waitpid(Pid::from_raw(pid), None)?;
    drop(watchdog);
    Ok(ExitCode::SUCCESS)
}
