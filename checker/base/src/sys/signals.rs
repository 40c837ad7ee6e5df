//! Signals of this process, and its end.

use std::{io, sync::atomic::AtomicU32, sync::atomic::Ordering};

use nix::sys::signal::{SigHandler, SigSet, Signal, signal};
use nix::{errno::Errno, unistd::getpid};

/// Gives signals their default action again. SIGCHLD: ended children stay as zombies until they are waited for.
pub fn default_actions(signals: &[Signal]) -> io::Result<()> {
    for one in signals {
        // SAFETY: SIG_DFL is not a handler.
        unsafe { signal(*one, SigHandler::SigDfl) }?;
    }
    Ok(())
}

/// Ignores a signal from here on; what is executed inherits that.
pub fn ignore(ignored: Signal) -> io::Result<()> {
    // SAFETY: SIG_IGN is not a handler.
    unsafe { signal(ignored, SigHandler::SigIgn) }?;
    Ok(())
}

/// Sends `signal` to the process `pid` together with a number (`sigqueue(3)`), which a signal by `kill` never has. ESRCH:
/// there is no such process; EPERM: it is another user's. A signal that waits to be received already is not sent again.
pub fn sigqueue(pid: i32, one: Signal, number: u64) -> io::Result<()> {
    let number = usize::try_from(number).map_err(|_| io::Error::from(Errno::EOVERFLOW))?;
    let value = libc::sigval {
        sival_ptr: std::ptr::without_provenance_mut(number),
    };
    // SAFETY: sigqueue takes integers; the receiver gets the pointer as a number, and nobody follows it.
    Errno::result(unsafe { libc::sigqueue(pid, one as libc::c_int, value) })?;
    Ok(())
}

/// Ends this process by `signal` with its default action, so that a shell sees what happened.
pub fn die_of(dying: Signal) {
    let _ = default_actions(&[dying]);
    let _ = SigSet::from(dying).thread_unblock();
    let _ = nix::sys::signal::raise(dying);
}

/// Ends this process with this code, now: nothing that was registered for its end runs, and nothing is flushed.
pub fn exit_at_once(code: i32) -> ! {
    // SAFETY: _exit takes an int, and does not return.
    unsafe { libc::_exit(code) }
}

/// Runs `callback` at `exit` or the end of `main`, while other threads run on. A forked child inherits it.
pub fn at_exit(callback: extern "C" fn()) -> io::Result<()> {
    // SAFETY: `callback` is a function of this program, and a panic in it cannot unwind out of it.
    match unsafe { libc::atexit(callback) } {
        0 => Ok(()),
        _ => Err(Errno::ENOMEM.into()),
    }
}

/// In a forked child that executes nothing, a handler of `owner`'s signal has nobody to tell. There the signal has its
/// default action; in the process `owner` this does nothing.
pub fn default_in_forks(signal: Signal, owner: &'static AtomicU32) -> io::Result<()> {
    let number = signal as libc::c_int;
    let action = move || {
        if getpid().as_raw().unsigned_abs() != owner.load(Ordering::Relaxed) {
            let _ = signal_hook::low_level::emulate_default_handler(number);
        }
    };
    // SAFETY: in a handler it reads an atomic and its own PID, and what it calls is made to be called there.
    unsafe { signal_hook::low_level::register(number, action) }?;
    Ok(())
}
