//! The watchdog: the small process beside a claim that nobody keeps up when its owner is killed (`tower:`,
//! docs/design.md#holding). It ends the command's whole tree then: without a heartbeat there must be no work. It also
//! hears of each heartbeat ([`Pulse`]): where there is none for too long, because its owner was stopped, or hangs, or
//! the machine has slept, the tree is stopped until there is one again, or its owner ends it.
//!
//! It is the running binary itself, started again with a hidden first argument, as the
//! [`gate_keeper`](super::gate_keeper) is. It does not die of the signals that end a daemon, which a service manager
//! sends to everyone at once.
//!
//! | descriptor | is |
//! |---|---|
//! | 0 | a pipe that its parent alone has the other end of: it ends with the parent, however that ends; heartbeats are told in it |
//! | 1 | one byte, once it watches; `/dev/null` from then on |
//! | 2 | `/dev/null`, or the file whose flock ends with the work ([`Watchdog::keeping`]): shared for as long as the watchdog lives |
//!
//! Order: the command's process is there, but does not execute yet; the watchdog is started, and watches; the command
//! executes. A parent that has seen the end of the command, or lets it go, kills the watchdog ([`Watchdog::end`]).
//!
//! Who belongs to the tree: the command's process, its group where it leads one, whoever has the token in
//! [`VARIABLE`], and what descends from any of them. The token is needed because the tree falls apart with its
//! root: the kernel tells the command to end at the same moment (`parent_death` of
//! [`Spawn`](beadlock_checker::internal::sys::Spawn)), and what it leaves behind is a child of the system's first
//! process then. All of it gets TERM, then CONT for who stands still; what is left after the grace gets KILL, until
//! two looks in a row find nobody.
//!
//! # Limits
//! Who is made to go on by somebody else, as by a shell's `fg`, works for up to 20 ms before it is stopped again.
//! Who has cleared its environment and whose parents have ended is not found; nor is anybody where `/proc` is not
//! this PID namespace's. Whom this user may not signal lives on. A watchdog that is killed itself leaves the command
//! alone with the signal of the kernel, which a set-user-id program does not get.

mod pulse;
mod standstill;

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, PipeWriter, Write};
use std::os::fd::AsFd;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, dup2_stderr};

use beadlock_checker::internal::beside::{self, has_said_so, this_program};
use beadlock_checker::internal::process::{self, Stat};
use pulse::{Came, Heard};
use standstill::Standstill;

pub use pulse::Pulse;

/// The hidden first argument: `main` hands the rest to [`main`] before it reads any command line.
pub const ARGUMENT: &str = "__end-orphans";

/// The variable of the command's environment by which its descendants are known; tokens, a colon between them.
pub const VARIABLE: &str = "BEADLOCK_WARDS";

/// The pause between two looks at all processes.
const PAUSE: Duration = Duration::from_millis(10);

/// What [`VARIABLE`] is to be for a command with this token, where it is `outer` already.
pub fn variable(token: &str, outer: Option<&OsStr>) -> OsString {
    let mut value = outer.map(OsStr::to_owned).unwrap_or_default();
    if !value.is_empty() {
        value.push(":");
    }
    value.push(token);
    value
}

/// Whom to end.
#[derive(Debug, Clone, Copy)]
pub struct Ward<'a> {
    /// The command's process, a child that has not been reaped.
    pub pid: i32,
    /// It leads a process group of its own.
    pub leads: bool,
    /// What marks its descendants: nobody else's, and without a colon.
    pub token: &'a str,
    /// How long what is left may take between TERM and KILL. Shorter than the lock stays valid without a heartbeat.
    pub grace: Duration,
    /// After how long without a heartbeat it is stopped; `None`: never.
    pub silence: Option<Duration>,
}

/// A watchdog that watches. Dropped, or by [`Watchdog::end`], it is killed and reaped, and ends nobody.
#[derive(Debug)]
#[must_use = "dropped, it watches no more"]
pub struct Watchdog {
    child: Child,
    /// Its end is ours.
    alive: PipeWriter,
}

impl Watchdog {
    /// Starts one and returns once it watches. `name` is for who looks at its command line.
    ///
    /// # Errors
    /// What the system said; nothing is left behind then.
    pub fn start(ward: &Ward<'_>, name: &OsStr) -> io::Result<Self> {
        Self::start_with(ward, name, Stdio::null())
    }

    /// [`Watchdog::start`] with a share of an open file that is locked by flock(2): killed, its parent leaves the
    /// lock to nobody before the command's tree has ended.
    ///
    /// # Errors
    /// As [`Watchdog::start`].
    pub fn keeping(ward: &Ward<'_>, name: &OsStr, lock: impl AsFd) -> io::Result<Self> {
        Self::start_with(ward, name, lock.as_fd().try_clone_to_owned()?.into())
    }

    fn start_with(ward: &Ward<'_>, name: &OsStr, lock: Stdio) -> io::Result<Self> {
        let (watched, alive) = io::pipe()?;
        let (ready, for_watchdog) = io::pipe()?;
        let mut command = this_program()?;
        command.arg(ARGUMENT).args(Order::over(ward).words()).arg(name);
        command.stdin(Stdio::from(watched)).stdout(for_watchdog).stderr(lock);
        let watchdog = Self { child: command.spawn()?, alive };
        drop(command); // It has the pipes' other ends.
        has_said_so(ready)?;
        Ok(watchdog)
    }

    /// Its PID.
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Where heartbeats are told.
    ///
    /// # Errors
    /// When there are no more descriptors.
    pub fn pulse(&self) -> io::Result<Pulse> {
        Pulse::on(self.alive.try_clone()?)
    }

    /// Nobody is to be ended any more.
    pub fn end(self) {
        drop(self);
    }
}

impl Drop for Watchdog {
    /// Before the pipe is closed.
    fn drop(&mut self) {
        // Not reaped a moment ago, so the PID is still its own.
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// A [`Ward`], and which process its PID is.
#[derive(Debug, PartialEq, Eq)]
struct Order {
    pid: i32,
    /// None where `/proc` does not say.
    start_ticks: Option<u64>,
    leads: bool,
    token: String,
    grace: Duration,
    silence: Option<Duration>,
}

impl Order {
    fn over(ward: &Ward<'_>) -> Self {
        let Ward { pid, leads, token, grace, silence } = *ward;
        let start_ticks = process::start_ticks(pid.into());
        Self { pid, start_ticks, leads, token: token.to_owned(), grace, silence }
    }

    fn words(&self) -> [String; 6] {
        let start = self.start_ticks.map_or("-".to_owned(), |ticks| ticks.to_string());
        let reach = if self.leads { "group" } else { "process" };
        // What is longer than can be read back is for ever all the same.
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX).to_string();
        let (grace, silence) = (millis(self.grace), self.silence.map_or("-".to_owned(), millis));
        [self.pid.to_string(), start, reach.to_owned(), grace, silence, self.token.clone()]
    }

    fn parse(args: impl IntoIterator<Item = OsString>) -> Option<Self> {
        let mut args = args.into_iter().map(|word| word.into_string().ok());
        let pid = args.next()??.parse().ok().filter(|pid| *pid > 0)?;
        let start_ticks = match args.next()??.as_str() {
            "-" => None,
            ticks => Some(ticks.parse().ok()?),
        };
        let leads = match args.next()??.as_str() {
            "group" => true,
            "process" => false,
            _ => return None,
        };
        let grace = Duration::from_millis(args.next()??.parse().ok()?);
        let silence = match args.next()??.as_str() {
            "-" => None,
            millis => Some(Duration::from_millis(millis.parse().ok()?)),
        };
        let token = args.next()??;
        (!token.is_empty()).then_some(Self { pid, start_ticks, leads, token, grace, silence })
    }

    /// Those of `all` that belong to the tree and live.
    fn tree(&self, mut all: Vec<Stat>) -> Vec<Stat> {
        let me = std::process::id().cast_signed();
        all.retain(|stat| stat.pid != me);
        let is_marked = |stat: &Stat| {
            fs::read(format!("/proc/{}/environ", stat.pid)).is_ok_and(|environment| self.marks(&environment))
        };
        let is_command = |stat: &Stat| stat.pid == self.pid && Some(stat.start_ticks) == self.start_ticks;
        // Its number goes to somebody else only when nobody is left in the group.
        let leads = self.leads && !all.iter().any(|stat| stat.pid == self.pid && !is_command(stat));
        let is_root = |stat: &Stat| is_command(stat) || leads && stat.pgrp == self.pid || is_marked(stat);
        let (mut tree, mut others): (Vec<Stat>, Vec<Stat>) = all.into_iter().partition(is_root);
        // Every round finds the children of the round before, whatever the order of the PIDs.
        let mut parents: HashSet<i32> = tree.iter().map(|stat| stat.pid).collect();
        while !parents.is_empty() {
            let (found, rest): (Vec<Stat>, Vec<Stat>) =
                others.into_iter().partition(|stat| parents.contains(&stat.ppid));
            parents = found.iter().map(|stat| stat.pid).collect();
            tree.extend(found);
            others = rest;
        }
        tree.retain(|stat| !(stat.is_zombie() && process::is_dead_zombie(stat.pid) != Some(false)));
        tree
    }

    fn marks(&self, environment: &[u8]) -> bool {
        let tokens = environment
            .split(|byte| *byte == 0)
            .find_map(|entry| entry.strip_prefix(VARIABLE.as_bytes())?.strip_prefix(b"="));
        tokens.is_some_and(|tokens| {
            tokens.split(|byte| *byte == b':').any(|token| token == self.token.as_bytes())
        })
    }

    /// Until the parent's end; answers how the tree is to be ended then.
    fn watch(self) -> Self {
        let mut heard = Heard::new(self.silence);
        let mut standstill = Standstill::default();
        let stdin = io::stdin();
        let mut stands = false;
        while heard.wait(stdin.as_fd(), stands.then_some(AGAIN)) != Came::End {
            if heard.is_late() {
                standstill.keep(|| self.tree(process::all()));
                stands = true;
            } else if std::mem::take(&mut stands) && !heard.is_over() {
                standstill.end();
            }
        }
        // What would tidy up would do so under a lock that may be somebody else's.
        let grace = if heard.is_late() { Duration::ZERO } else { self.grace };
        Self { grace, ..self }
    }

    /// TERM to each that is found, CONT, and after the grace KILL, until nobody is found twice in a row.
    fn end_tree(&self) {
        let begun = Instant::now();
        let mut asked = HashSet::new();
        let mut seen_none = false;
        while process::proc_is_ours() {
            let tree = self.tree(process::all());
            if tree.is_empty() && seen_none {
                return;
            }
            seen_none = tree.is_empty();
            let is_over = begun.elapsed() >= self.grace;
            for stat in &tree {
                let pid = Pid::from_raw(stat.pid);
                let is_new = asked.insert((stat.pid, stat.start_ticks));
                if Stat::read(stat.pid).is_none_or(|now| now.start_ticks != stat.start_ticks) {
                    continue;
                }
                if is_over {
                    let _ = kill(pid, Signal::SIGKILL);
                } else if is_new {
                    let _ = kill(pid, Signal::SIGTERM);
                    let _ = kill(pid, Signal::SIGCONT);
                }
            }
            // Whom it may not kill it need not ask a hundred times a second.
            sleep(if begun.elapsed() > self.grace.saturating_add(LONG) { LONG } else { PAUSE });
        }
    }
}

/// How often it is looked whether who was stopped still stands still.
const AGAIN: Duration = Duration::from_millis(20);

/// After this long what gets KILL would have ended if it could.
const LONG: Duration = Duration::from_secs(2);

/// The watchdog's `main`, with the arguments after [`ARGUMENT`]. Returns the exit code.
pub fn main(args: impl IntoIterator<Item = OsString>) -> u8 {
    let Some(order) = Order::parse(args) else {
        let _ = writeln!(io::stderr(), "this is for beadlock's own use");
        return 2;
    };
    beside::stand_apart(c"beadlock-warden");
    // It is there to be open. Nothing that anybody says may get into it.
    let _lock = io::stderr().as_fd().try_clone_to_owned();
    if let Ok(null) = File::options().write(true).open("/dev/null") {
        let _ = dup2_stderr(null);
    }
    beside::say_so();
    order.watch().end_tree();
    0
}

#[cfg(test)]
mod tests;
