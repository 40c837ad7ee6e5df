//! How this program was started, and how it starts others: with the signal actions that it was given itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::{mem::MaybeUninit, os::unix::process::CommandExt, process::Command};

use nix::sys::signal::{SigHandler, Signal, signal};

use super::signals::ignore;

/// SIGPIPE was ignored when this program was started: Rust's runtime, which ignores it always, comes later.
static SIGPIPE_WAS_IGNORED: AtomicBool = AtomicBool::new(false);
/// SIGXFSZ was: [`ignore_size_limit`] comes later.
static SIGXFSZ_WAS_IGNORED: AtomicBool = AtomicBool::new(false);
/// stdout was closed then: the runtime puts `/dev/null` in its place, where everything can be written.
static STDOUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// True when this program was started with its stdout closed, so that nobody has what it prints.
pub fn stdout_was_closed() -> bool {
    STDOUT_WAS_CLOSED.load(Ordering::Relaxed)
}

extern "C" fn remember_start() {
    for (signal, was_ignored) in [
        (libc::SIGPIPE, &SIGPIPE_WAS_IGNORED),
        (libc::SIGXFSZ, &SIGXFSZ_WAS_IGNORED),
    ] {
        was_ignored.store(is_ignored_now(signal), Ordering::Relaxed);
    }
    // SAFETY: F_GETFD takes a number that may be no descriptor's, and nothing else.
    let is_open = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } != -1;
    STDOUT_WAS_CLOSED.store(!is_open, Ordering::Relaxed);
}

fn is_ignored_now(signal: libc::c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: no new action is given, and `action` is valid for the write of the present one; zeros are valid too.
    let action = unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN
}

/// True when this process ignores the signal at present.
pub fn is_ignored(signal: Signal) -> bool {
    is_ignored_now(signal as libc::c_int)
}

// SAFETY: the loader calls what is in this section once, before `main`, in the only thread, with arguments that a
// C function without parameters may ignore. It needs nothing of Rust's runtime: system calls and atomics.
#[used]
#[unsafe(link_section = ".init_array")]
static REMEMBER_START: extern "C" fn() = remember_start;

/// Rust's runtime ignores SIGPIPE, [`ignore_size_limit`] SIGXFSZ. A command inherits that only where this program did.
pub(super) fn actions_of_the_start() {
    for (one, was_ignored) in [
        (Signal::SIGPIPE, &SIGPIPE_WAS_IGNORED),
        (Signal::SIGXFSZ, &SIGXFSZ_WAS_IGNORED),
    ] {
        if !was_ignored.load(Ordering::Relaxed) {
            // SAFETY: SIG_DFL is not a handler.
            let _ = unsafe { signal(one, SigHandler::SigDfl) };
        }
    }
}

/// Gives the program that `command` starts the actions that this program was started with.
pub fn give_back_actions(command: &mut Command) {
    let give_back = || {
        actions_of_the_start();
        Ok(())
    };
    // SAFETY: between fork and exec it calls only signal(2), which may be called there, and reads atomics.
    unsafe { command.pre_exec(give_back) };
}

/// A write beyond the limit for files (`ulimit -f`) fails with EFBIG from here on, and does not kill this program. What
/// [`fork_waiting`](super::fork_waiting) and [`give_back_actions`] start does not inherit that.
pub fn ignore_size_limit() {
    // It can be ignored, so this cannot fail.
    let _ = ignore(Signal::SIGXFSZ);
}
