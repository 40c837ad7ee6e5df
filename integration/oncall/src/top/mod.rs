//! `beadlock top`: a live view of agents and of locks on this machine (docs/guide/looking.md).
//!
//! ```text
//! mod.rs     this page, and the loop
//! source.rs  the threads that ask agents, and look at locks and logs
//! app.rs     the state of the view, and what a key does to it; pure
//! row.rs     one line: what an agent says, and what lies there; pure
//! view.rs    how it looks
//! screen.rs  the terminal, given back however the view ends
//! ```

mod app;
mod row;
mod screen;
mod source;
mod view;

use beadlock_claim::error::Problem;
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use beadlock_base::address::Address;
use beadlock_core::database::Database;
use beadlock_core::facts;
use clap::Args;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ratatui::crossterm::event::{self, Event};

use self::app::{HISTORIES, TopAction, TopApp};
use self::screen::TopScreen;
use self::source::{LookedAt, TopUpdate, ask_agent, locked, look_here};
use self::view::TopLook;
use crate::agent::ending::EndFlag;
use crate::status::LookAtFleet;
use beadlock_claim::environment::Environment;
use beadlock_claim::error::{Error, Exit};
use beadlock_claim::target::not_found;
use beadlock_console::program_end::ProgramEnd;
use beadlock_console::{Console, answers::conclude};
use beadlock_log::parse::time::LogTime;
use beadlock_log::tail::LogTail;

/// The longest wait for a key before the ages are drawn anew.
const TICK: Duration = Duration::from_millis(250);

/// `beadlock top [ADDR|TARGET…]`
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Agents, by where they listen (IP:PORT, localhost:PORT, or unix:PATH), and databases or other locks of this machine
    /// [default: the found database, and the agent that logs there]
    #[arg(value_name = "ADDR|TARGET")]
    pub named: Vec<OsString>,
    /// The time between two looks
    #[arg(long, value_name = "DUR", default_value = "2s", value_parser = beadlock_base::duration::interval)]
    pub interval: Duration,
}

/// Shows the view until a key or a signal ends it.
pub fn run(
    typed: &TopArgs,
    fleet: LookAtFleet,
    environment: &Environment,
    common: &Console,
) -> ProgramEnd {
    match shown(typed, fleet, environment, common) {
        Ok(()) => ProgramEnd::Code(Exit::Done.code()),
        Err(error) => conclude(common, Err((ProgramEnd::Code(error.exit().code()), error))),
    }
}

fn shown(
    typed: &TopArgs,
    fleet: LookAtFleet,
    environment: &Environment,
    common: &Console,
) -> Result<(), Error> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        let other = "for a program or a log: beadlock status --agent ADDR --json, or --watch";
        return Err(Error::usage(format!(
            "top is a view for a terminal; {other}"
        )));
    }
    let (agents, targets) = sources(&typed.named, environment)?;
    let host = facts::hostname().map(|name| name.to_string());
    let mut app = TopApp::new(agents.iter().map(ToString::to_string), targets.len(), host);
    let (to, updates) = channel();
    let mut wakes = Vec::new();
    for (place, address) in agents.into_iter().enumerate() {
        let (wake, woken) = channel();
        ask_agent(place, address, typed.interval, to.clone(), woken);
        wakes.push(wake);
    }
    let looked_at = Arc::new(Mutex::new(LookedAt {
        targets,
        seconds: HISTORIES[0].0,
        ..LookedAt::default()
    }));
    let (wake, woken) = channel();
    look_here(
        Arc::clone(&looked_at),
        fleet,
        environment.clone(),
        typed.interval,
        to,
        woken,
    );
    wakes.push(wake);
    let failed = |error: io::Error| Error::failed("use the terminal", &error);
    let ended = EndFlag::new().map_err(failed)?;
    let has_blocks = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| environment.get(name));
    let has_blocks =
        has_blocks.is_none_or(|name| name.to_string_lossy().to_uppercase().contains("UTF"));
    let look = TopLook {
        has_colours: common.talk.paints_data(),
        has_blocks,
    };
    let mut screen = TopScreen::take().map_err(failed)?;
    screen::end_in_time(ended.clone()).map_err(failed)?;
    let view = TopView {
        looked_at,
        updates,
        wakes,
        ended,
        look,
    };
    view.turn(&mut screen, &mut app).map_err(failed)
}

/// The agents to ask, and the targets to look at.
fn sources(
    named: &[OsString],
    environment: &Environment,
) -> Result<(Vec<Address>, Vec<OsString>), Error> {
    let cwd = environment.of_database().cwd;
    let (mut agents, mut targets) = (Vec::new(), Vec::new());
    for name in named {
        if is_of_agent(name, &cwd) {
            let address = Address::parse(name).and_then(|address| address.below(&cwd));
            agents.push(address.map_err(Error::usage)?);
        } else {
            targets.push(name.clone());
        }
    }
    if named.is_empty() {
        let database =
            Database::find(&environment.of_database()).map_err(|error| not_found(&error))?;
        let mut log = LogTail::new(&database.dir.join("daemon.log"));
        log.read_on();
        agents.extend(
            log.listens_at()
                .and_then(|address| Address::parse(OsStr::new(address)).ok()),
        );
        targets.push(database.dir.into_os_string());
    }
    Ok((agents, targets))
}

/// Whether `name` is the address of an agent. A name with a slash may be a target or the path of a socket: it is an
/// address where a socket lies there.
fn is_of_agent(name: &OsStr, cwd: &Path) -> bool {
    let text = name.to_string_lossy();
    if text.starts_with("unix:") {
        return true;
    }
    let is_socket = |path: PathBuf| {
        path.metadata()
            .is_ok_and(|found| found.file_type().is_socket())
    };
    if text.contains('/') {
        is_socket(cwd.join(name))
    } else {
        Address::parse(name).is_ok()
    }
}

/// Waits for a key. Returns whether the terminal has gone: crossterm would read from it for ever.
fn has_hung_up(patience: Duration) -> bool {
    let stdin = io::stdin();
    let mut asked = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    let patience = PollTimeout::try_from(patience).unwrap_or(PollTimeout::ZERO);
    let is_answered = poll(&mut asked, patience).is_ok_and(|count| count > 0);
    let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
    is_answered
        && asked[0]
            .revents()
            .is_some_and(|events| events.intersects(gone))
}

/// The sources of the view, its wake-ups, and its end: everything that the loop uses besides the screen.
struct TopView {
    looked_at: Arc<Mutex<LookedAt>>,
    updates: Receiver<TopUpdate>,
    wakes: Vec<Sender<()>>,
    ended: EndFlag,
    look: TopLook,
}

impl TopView {
    fn turn(&self, screen: &mut TopScreen, app: &mut TopApp) -> io::Result<()> {
        let begun = Instant::now();
        let mut served = Vec::new();
        while !self.ended.is_set() {
            let now = begun.elapsed().as_secs();
            while let Ok(update) = self.updates.try_recv() {
                app.take_in(update, now, LogTime::now());
            }
            let width = screen.terminal.size()?.width;
            let directories = app.directories();
            {
                let mut looked_at = locked(&self.looked_at);
                (looked_at.cells, looked_at.seconds) =
                    (view::cells(width), HISTORIES[app.history].0);
                looked_at.directories.clone_from(&directories);
            }
            if directories != served {
                served = directories;
                self.wake();
            }
            screen
                .terminal
                .draw(|frame| view::draw(frame, app, self.look, now, LogTime::now()))?;
            // A signal ends the first wait early.
            if has_hung_up(TICK) || has_hung_up(Duration::ZERO) || self.ended.is_set() {
                return Ok(());
            }
            // Keys that are typed fast are one change of the screen.
            while event::poll(Duration::ZERO)? {
                let Event::Key(key) = event::read()? else {
                    continue;
                };
                match app.press(key, begun.elapsed().as_secs()) {
                    TopAction::Nothing => {}
                    TopAction::Quit => return Ok(()),
                    TopAction::Refresh => self.wake(),
                    TopAction::Copy(command) => screen.copy(&command)?,
                    TopAction::Suspend => screen.suspend()?,
                }
            }
        }
        Ok(())
    }

    /// Wakes all threads: each asks its agent, or looks at this machine, at once.
    fn wake(&self) {
        // One whose thread has ended has nothing more to say.
        for wake in &self.wakes {
            let _ = wake.send(());
        }
    }
}
