//! A lock for a command of any command-line tool (REQ-F-033): the tool's author declares it, and the rest happens.
//!
//! ```no_run
//! use beadlock::framework::{CommandLock, Failure};
//! use serde_json::json;
//! use std::io::stderr;
//! use std::process::{Command, ExitCode};
//!
//! fn main() -> ExitCode {
//!     CommandLock::new("mytool", "deploy").run(|_| {
//!         // stdout is for the envelope.
//!         let status = Command::new("./roll-out.sh").stdout(stderr()).status()?;
//!         match status.success() {
//!             true => Ok(json!({ "deployed": true })),
//!             false => Err(Failure::new(format!("the roll-out has failed: {status}"))),
//!         }
//!     })
//! }
//! ```
//!
//! Two of these never run at once. The second waits for 10 s ([`timeout`](CommandLock::timeout)), prints the envelope
//! of `LOCK_HELD` and ends with 4. The lock is released at the end of the first, however that comes, and the second
//! goes on at once. The answer is one envelope on stdout:
//! `{"ok":true,"data":{"deployed":true},"error":null,"warnings":[],"meta":{…}}`, or the [`Failure`] that `?` has made
//! of an error.
//!
//! # What happens at the end
//!
//! | the work | the lock | the process |
//! |---|---|---|
//! | returns, or returns an error | is released | prints the envelope and ends with the exit code |
//! | panics, and the panic unwinds | is released | goes on to panic |
//! | calls `std::process::exit`, in whichever thread | is released | ends with that code, and prints nothing |
//! | gets SIGTERM, SIGINT or SIGHUP | is released, in the order below | dies of that signal, and prints nothing |
//! | becomes another program (`exec`) | stays, and is stale when that has ended | is that program |
//! | gets any other signal that ends it, aborts, calls `_exit`, is out of memory | is stale | is gone |
//!
//! With `panic = "abort"` a panic aborts. A stale lock is taken over at once, also while a child still writes. A signal
//! during the wait ends the process with nothing claimed. A signal that was ignored when the first lock was wanted, as
//! under `nohup`, stays ignored.
//!
//! # Which order to use
//!
//! A signal is also sent to the children: whatever the command has started since it has the lock, and what that has
//! started. A process that a child starts after the signal, to clean up, is left alone while that child lives. A signal
//! from the terminal (Ctrl-C) is not sent twice.
//!
//! - **Forward, wait, release** is the default: the children have [`kill_after`](CommandLock::kill_after) (10 s) to end
//!   before they are killed. Use it whenever a child writes what the lock protects.
//! - **Release, forward, wait** is [`release_before_forwarding`](CommandLock::release_before_forwarding), the letter of
//!   REQ-F-013. Use it when the children do not touch what the lock protects, or when a supervisor sends SIGKILL before
//!   they end.
//!
//! A thread cannot be stopped. Once there are no children, `body` has 200 ms to return; then the lock is released and
//! the process dies within a few milliseconds, in which a thread may still write. Work that must not overlap by even
//! that asks [`Running::is_ending`] between its steps, and returns.
//!
//! # Other ways in
//!
//! - From async code, on any executor: [`run_async`](CommandLock::run_async).
//! - For tools with answers of their own: [`acquire`](CommandLock::acquire) gives the guard,
//!   [`Envelope`](crate::Envelope) the envelope, [`Error::exit_code`](crate::Error::exit_code) the exit code.
//! - From the shell, the same lock: `beadlock hold lock:PATH --wait 10s --json -- CMD`, `beadlock status lock:PATH`.
//!
//! # Limits
//!
//! - The lock is one of the whole process: a second claim of it in the same process is an error at once.
//! - Signal handlers of the tool (tokio's, say) are called as well; the process dies all the same, also after the
//!   release of its last lock. A signalfd of the tool does not get these signals.
//! - By default it is a lock of one user, for processes with the same `XDG_RUNTIME_DIR`. A cron job or a service may
//!   have none, a container has a `/tmp` of its own, and the last logout removes the directory. A tool that is started
//!   in several of these ways names a [`directory`](CommandLock::directory).
//! - A daemon that a child left behind before the signal is not seen, nor are children from before the lock. Without
//!   `/proc`, or with that of another PID namespace, no child is: they are waited for, and do not hear of the signal.
//! - A program that closes descriptors that are not its own (`closefrom`) closes the lock's: the lock is then stale
//!   when the process has ended.
//! - A fork that executes nothing has no part in the lock: it releases nothing, prints no envelope and cannot lock.
//! - A PID that is another process by now, a zombie and a boot that is over count as dead, as with `beadlock hold
//!   --reap-proven-dead`.
//! - One machine: a lock in a directory that several share is not taken over when its holder dies on another.

mod declaration;
mod dir;
mod ending;
mod failure;
mod guard;
mod locks;
mod run;

pub use declaration::CommandLock;
pub use failure::Failure;
pub use guard::{CommandGuard, Running};
