//! The question, on a terminal: the lock is shown, and its id is to be typed.

use std::io::{self, IsTerminal};
use std::{os::fd::AsFd, time::Duration};

use nix::errno::Errno;

use crate::claim::{attendant::Attendant, attendant::Stopped, event::wait_for};
use crate::output::talk::Talk;

/// More than any id that is asked for.
const LONGEST: usize = 4096;

/// There is somebody to be asked.
pub fn is_possible(json: bool) -> bool {
    !json && io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks for a line; `None` when there is none.
///
/// # Errors
/// A signal.
pub fn line(question: &str, talk: &Talk, attendant: &mut impl Attendant) -> Result<Option<String>, Stopped> {
    talk.ask(question);
    let stdin = io::stdin();
    let mut typed = Vec::new();
    while !typed.contains(&b'\n') && typed.len() < LONGEST {
        let [readable, signalled] = wait_for([Some(stdin.as_fd()), attendant.signals()], Duration::MAX);
        if signalled && let Some(stopped) = attendant.stopped() {
            talk.ask("\n");
            return Err(stopped);
        }
        if !readable {
            continue;
        }
        let mut some = [0; 256];
        match nix::unistd::read(&stdin, &mut some) {
            Ok(0) => {
                talk.ask("\n");
                return Ok(None);
            }
            Ok(count) => typed.extend_from_slice(some.get(..count).unwrap_or_default()),
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            // The terminal has gone.
            Err(_) => return Ok(None),
        }
    }
    Ok(Some(String::from_utf8_lossy(&typed).trim().to_owned()))
}
