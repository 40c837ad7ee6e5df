//! The questions on a terminal: the id of the lock is to be typed; or whether a file may go that cannot be understood,
//! for it may be somebody's data. Where there is no terminal, only a lock goes.

use beadlock_claim::error::Problem;
use std::io::{self, IsTerminal};
use std::{os::fd::AsFd, time::Duration};

use beadlock_base::{
    escape::{escaped, escaped_path},
    filesystem::FileKind,
};
use beadlock_core::look::{Look, first_bytes};
use nix::errno::Errno;

use beadlock_base::poll::wait_for;
use beadlock_claim::error::{Code, Error};
use beadlock_claim::observe::{NotAcquired, WaitControl};
use beadlock_claim::target::Target;
use beadlock_claim::words::{kind_words, to_type};
use beadlock_console::{Console, talk::Talk};

/// How many bytes of a file are shown.
const SHOWN: usize = 200;

/// More than any id that is asked for.
const LONGEST: usize = 4096;

/// Whether a person can be asked.
pub fn is_possible(common: &Console) -> bool {
    !common.json && io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks for a line; `None` when the input ends. An error is a signal.
pub fn line(
    question: &str,
    talk: &Talk,
    control: &mut dyn WaitControl,
) -> Result<Option<String>, NotAcquired> {
    talk.ask(question);
    let stdin = io::stdin();
    let mut typed = Vec::new();
    while !typed.contains(&b'\n') && typed.len() < LONGEST {
        let [readable, signalled] =
            wait_for([Some(stdin.as_fd()), control.signals()], Duration::MAX);
        control
            .check_stop(signalled)
            .inspect_err(|_| talk.ask("\n"))?;
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

/// Whether the file that was looked at may go: `yes` was typed beforehand, a person says so, or it is not data.
pub fn consent(
    yes: bool,
    look: &Look,
    target: &Target,
    common: &Console,
    control: &mut dyn WaitControl,
) -> Result<(), NotAcquired> {
    let (talk, can_ask) = (&common.talk, is_possible(common));
    if yes || (!can_ask && !target.may_be_data(look)) {
        return Ok(());
    }
    if !can_ask {
        return Err(refused(look, target).into());
    }
    talk.ask(&shown(look, target));
    match line("Type yes to move it out of the way: ", talk, control)?.as_deref() {
        Some("yes" | "y" | "YES" | "Yes" | "Y") => Ok(()),
        _ => Err(Error::new(Code::Io, "nobody said yes; it was not touched").into()),
    }
}

/// Two lines about the file in the way: what it is, and its first bytes or its kind.
fn shown(look: &Look, target: &Target) -> String {
    let path = escaped_path(&target.path());
    let what = match target.not_a_lock(look) {
        Some(data) => data.words,
        None => format!("{path} cannot be understood: {}", escaped(&look.detail())),
    };
    let begin = match (look.on_disk, first_bytes(&target.place, SHOWN)) {
        (Some(there), _) if there.kind != FileKind::File => {
            format!("it is {}", kind_words(there.kind))
        }
        (_, Err(why)) => format!("it cannot be shown: {}", escaped(&why.to_string())),
        (_, Ok(bytes)) if bytes.is_empty() => "it is empty".to_owned(),
        (there, Ok(bytes)) => {
            let size = there.map_or(bytes.len() as u64, |there| there.size);
            let text = String::from_utf8_lossy(&bytes);
            format!(
                "its first {} of {size} bytes: {}",
                bytes.len(),
                escaped(&text)
            )
        }
    };
    format!("{what}\n{begin}\n")
}

/// The error where nobody can be asked: the file stays. Its text has the command that would move it.
fn refused(look: &Look, target: &Target) -> Error {
    let path = escaped_path(&target.path());
    let what = match target.not_a_lock(look) {
        Some(data) => data.words,
        None => format!("{path} is not a lock file ({}).", escaped(&look.detail())),
    };
    let message = format!(
        "{what} It was not touched; to move it out of the way all the same: {}",
        to_type("beadlock break {} --malformed --yes", &[target.part()])
    );
    Error::new(Code::LockUnreadable, message).detailed(format!("lock_file={path}"))
}
